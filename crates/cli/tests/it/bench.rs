//! Runs `duramen bench` as people do, against `duramen serve`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::common::serving::Serving;
use crate::common::{Folder, duramen, on};

/// Arguments for a short measurement.
const SHORT: [&str; 8] =
    ["--connections", "2", "--depth", "4", "--count", "160", "--file-size", "1M"];

/// Measures a new volume and returns the report.
fn measure(workloads: &[&str]) -> Value {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "128M"]);
    let target = format!("nfs://{}/data", serving.address());
    let run = duramen(&[&["bench", &target, "--json"], workloads, &SHORT].concat());
    let report = serde_json::from_str(&run.good()).expect("an object");
    assert!(serving.stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "", "nothing is left behind");
    report
}

/// Number of calls of each procedure in a result.
fn calls(result: &Value) -> Vec<(&str, u64)> {
    let calls = result["calls"].as_array().expect("a list");
    let count = |calls: &Value| calls["count"].as_u64().expect("a number");
    calls.iter().map(|calls| (calls["procedure"].as_str().expect("a name"), count(calls))).collect()
}

#[test]
fn a_count_of_steps_is_that_many_calls_and_none_fails() {
    let workloads = ["create", "remove", "mkdir", "rmdir", "rename", "create-write", "write-64k"];
    let report = measure(&workloads);
    let results = report["workloads"].as_array().expect("a list");
    let expected: [&[(&str, u64)]; 7] = [
        &[("CREATE", 160)],
        &[("REMOVE", 160)],
        &[("MKDIR", 160)],
        &[("RMDIR", 160)],
        &[("RENAME", 160)],
        &[("CREATE", 160), ("WRITE", 160)],
        &[("WRITE", 160)],
    ];
    assert_eq!(results.len(), expected.len());
    for (result, expected) in results.iter().zip(expected) {
        assert_eq!(calls(result), expected, "{result}");
        assert_eq!((&result["steps"], &result["errors"]), (&160.into(), &Value::Array(vec![])));
        assert!(result["rate_per_s"].as_f64() > Some(0.0), "{result}");
    }
    assert_eq!(results[5]["bytes"], 160 * 1024);
    assert_eq!(results[6]["bytes"], 160 * 64 * 1024);
}

#[test]
fn the_same_workload_makes_the_same_calls_as_in_the_simulated_world() {
    // The expected counts come from the test of the same workload in crate load.
    let report = measure(&["smallfile"]);
    let results = report["workloads"].as_array().expect("a list");
    let all: Vec<_> = results.iter().map(calls).collect();
    let expected: [&[(&str, u64)]; 4] = [
        &[("LOOKUP", 160), ("MKDIR", 160)],
        &[("LOOKUP", 160), ("RMDIR", 160)],
        &[("CREATE", 160), ("LOOKUP", 160), ("WRITE", 160)],
        &[("LOOKUP", 160), ("REMOVE", 160)],
    ];
    assert_eq!(all, expected);
}

#[test]
fn people_get_a_table_and_a_picture() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let picture = folder.path("picture.svg");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    let target = format!("nfs://{}/data", serving.address());
    let path = picture.to_string_lossy().into_owned();
    let own = ["bench", &target, "getattr", "create", "--svg", &path];
    let table = duramen(&[&own[..], &SHORT].concat()).good();
    let first: Vec<_> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(&first[1..4], ["workload", "getattr", "create"], "{table}");
    let drawn = fs::read_to_string(picture).expect("it was written");
    assert!(drawn.starts_with("<svg") && drawn.contains("getattr") && drawn.contains("create"));
    assert!(serving.stop().success());
}

#[test]
fn what_cannot_be_measured_is_told_in_a_sentence() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    let address = serving.address();
    let sentence = |target: &str, more: &[&str], code: i32, said: &str| {
        duramen(&[&["bench", target], more].concat()).failed(code, said)
    };
    sentence("server:/data", &[], 2, "'server:/data' does not begin with nfs://");
    sentence("nfs://localhost:x/data", &[], 2, "'x' is no port");
    let good = format!("nfs://{address}/data");
    sentence(&good, &["creat"], 2, "there is no workload 'creat'");
    sentence(&good, &["create", "--seconds", "0"], 2, "--seconds 0 is not a number above zero");
    let other = format!("nfs://{address}/other");
    let told = sentence(&other, &["create"], 1, "the server does not export '/other'");
    assert!(told.contains("it exports: /data"), "{told}");
    assert!(serving.stop().success());

    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let free = free.expect("a port that nobody has any more");
    sentence(&format!("nfs://{free}/data"), &["create"], 1, "no NFS server answers at");
    sentence("nfs://no.such.host.invalid/data", &["create"], 1, "cannot find the host");
}

#[test]
fn a_command_of_ones_own_runs_when_all_is_prepared_and_can_forbid_the_measurement() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let seen = folder.path("seen");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    let target = format!("nfs://{}/data", serving.address());
    let bench = |command: &str| {
        let own = ["bench", &target, "remove", "--json", "--prepared", command];
        duramen(&[&own[..], &SHORT].concat())
    };
    let report: Value =
        serde_json::from_str(&bench(&format!("echo once >> {}", seen.display())).good())
            .expect("an object");
    assert_eq!(report["workloads"][0]["steps"], 160, "{report}");
    assert_eq!(fs::read_to_string(&seen).expect("it ran"), "once\n");
    let refused = bench("exit 3");
    assert_eq!(refused.code, 1, "{refused:?}");
    let report: Value = serde_json::from_str(&refused.output).expect("an object");
    let trouble = report["troubles"][0].as_str().expect("a sentence");
    assert!(trouble.contains("'exit 3': exit status: 3"), "{trouble}");
    assert!(report["workloads"].as_array().is_some_and(Vec::is_empty), "{report}");
    assert!(serving.stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "", "nothing is left behind");
}

#[test]
fn a_volume_that_is_full_is_an_error_that_is_counted() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "8M"]);
    let target = format!("nfs://{}/data", serving.address());
    let more = ["--connections", "1", "--depth", "2", "--count", "64", "--file-size", "64M"];
    let run = duramen(&[&["bench", &target, "write-1m", "--json"], &more[..]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    let report: Value = serde_json::from_str(&run.output).expect("an object");
    let errors = &report["workloads"][0]["errors"];
    assert_eq!(errors[0]["procedure"], "WRITE", "{report}");
    assert_eq!(errors[0]["what"], "NFS3ERR_NOSPC", "{report}");
    assert!(run.errors.contains("calls failed"), "{}", run.errors);
    assert!(serving.stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "", "it is removed all the same");
}

#[test]
fn a_load_that_was_recorded_is_played_to_another_server() {
    let folder = Folder::new();
    let (volume, other) = (folder.path("data"), folder.path("other"));
    let file = folder.path("load.trace").to_string_lossy().into_owned();
    let serving = Serving::start(&[&volume], &["--create", "64M", "--trace", &file]);
    let target = format!("nfs://{}/data", serving.address());
    duramen(&[&["bench", &target, "smallfile", "rename"], &SHORT[..]].concat()).good();
    assert!(serving.stop().success());

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let again = duramen(&["serve", &volume.to_string_lossy(), "--trace", &file]);
    let why = "it is there already: move it away, or name a new file";
    assert!(again.code == 1 && again.errors.contains(why), "{again:?}");
    assert!(!again.errors.contains("chmod"), "nothing is written there: {again:?}");
    let serving = Serving::start(&[&other], &["--create", "64M"]);
    let target = format!("nfs://{}/other", serving.address());
    let run = duramen(&["bench", &target, "--replay", &file, "--speed", "0", "--json"]);
    let report: Value = serde_json::from_str(&run.good()).expect("an object");
    let result = &report["workloads"][0];
    let counted = calls(result);
    let of =
        |procedure| counted.iter().find(|(name, _)| *name == procedure).map(|(_, count)| *count);
    assert_eq!((of("REMOVE"), of("RENAME")), (Some(160 + 8), Some(160)), "{counted:?}");
    assert_eq!(result["errors"], Value::Array(vec![]));
    duramen(&["bench", &target, "--replay", &volume.join("volume.toml").to_string_lossy()])
        .failed(1, "this is no trace");
    assert!(serving.stop().success());
    assert_eq!(on("ls", &other, &[]).good(), "", "nothing is left behind");
}
