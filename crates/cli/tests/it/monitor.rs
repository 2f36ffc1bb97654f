//! `duramen status`, `duramen clients` and `duramen top` beside a running server.

use futures::executor::block_on;
use nfs3_types::nfs3::{
    CREATE3args, GETATTR3args, Nfs3Result, createhow3, diropargs3, nfsstat3, sattr3,
};
use serde_json::Value;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, duramen, make_mirror, on};

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

#[test]
fn status_says_how_all_volumes_are_and_exits_with_0() {
    let folder = Folder::new();
    let [data, other] = ["data", "other"].map(|name| folder.path(name));
    on("mkfs", &data, &["--size", "16M"]).good();
    on("mkfs", &other, &["--size", "16M", "--engine", "shadow"]).good();
    let stopped = on("status", &data, &[]);
    let expected = "data            stopped: no server serves it\n";
    assert_eq!((stopped.code, stopped.output.as_str()), (2, expected));
    let stopped = on("status", &data, &["--json"]);
    assert_eq!((stopped.code, &json(&stopped.output)["state"]), (2, &"stopped".into()));
    let serving = Serving::start(&[&data, &other], &[]);
    put(&serving, "data", "file", &[7; 100]);
    for volume in [&data, &other] {
        let said = on("status", volume, &[]).good();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("server          pid "), "{said}");
        assert_eq!(
            lines[1..],
            ["data            ok, 2 calls, 0 errors", "other           ok, 0 calls, 0 errors",]
        );
    }
    let said = json(&on("status", &data, &["--json"]).good());
    assert_eq!((&said["state"], &said["volumes"][0]["writes"]), (&"ok".into(), &1.into()));
    serving.kill();
    assert_eq!(on("status", &data, &[]).code, 2, "its socket is left, and no server");
}

#[test]
fn status_exits_with_1_when_a_disk_is_out() {
    let folder = Folder::new();
    let volume = make_mirror(&folder);
    let serving = Serving::start(&[&volume], &[]);
    on("status", &volume, &[]).good();
    duramen(&["raid", "fail", volume.to_str().expect("plain"), "1", "--force"]).good();
    let said = on("status", &volume, &[]);
    let expected = "data            degraded, 0 calls, 0 errors: the set of disks is degraded";
    assert_eq!((said.code, said.output.lines().nth(1)), (1, Some(expected)));
    assert!(serving.stop().success());
}

#[test]
fn a_volume_whose_disk_fails_has_stopped() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let serving = Serving::start_limited(&[&volume]);
    put(&serving, "data", "before", &[7; 100]);
    serving.limit_files(Some(0));
    let (mut client, root) = serving.mount("data");
    let place = diropargs3 { dir: root, name: b"after".as_slice().into() };
    let how = createhow3::GUARDED(sattr3::default());
    let made = block_on(client.create(&CREATE3args { where_: place, how })).expect("a reply");
    assert!(matches!(made, Nfs3Result::Err((nfsstat3::NFS3ERR_IO, _))), "{made:?}");
    let said = on("status", &volume, &[]);
    assert!(said.code == 2 && said.output.contains("data            stopped, "), "{said:?}");
    let (status, body) = crate::metrics::get(&volume, "/healthz");
    assert!(status == 503 && body.contains("do not become durable"), "{status} {body}");
    serving.kill();
}

#[test]
fn clients_are_listed_while_they_are_connected() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    on("clients", &volume, &[]).failed(1, "no server serves it");
    let serving = Serving::start(&[&volume], &[]);
    let (client, _root) = serving.mount("data");
    put(&serving, "data", "file", &[7; 5_000]);
    let of_data = || {
        let all = json(&on("clients", &volume, &["--json"]).good());
        let all = all["connections"].as_array().expect("a list").clone();
        all.into_iter().filter(|one| one["calls"] != 0).collect::<Vec<_>>()
    };
    let listed = || json(&on("clients", &volume, &["--json"]).good());
    serving.until(|| listed()["total"] == 1);
    assert_eq!(of_data(), [] as [Value; 0], "the one that is left has made no call");
    let said = on("clients", &volume, &[]).good();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("CLIENT     VOLUMES"), "{said}");
    assert!(lines.len() == 2 && lines[1].starts_with("127.0.0.1  -"), "{said}");
    drop(client);
    serving.until(|| listed()["total"] == 0);
    assert!(serving.stop().success());
}

#[test]
fn a_client_has_its_volumes_and_its_calls() {
    let folder = Folder::new();
    let [data, other] = ["data", "other"].map(|name| folder.path(name));
    on("mkfs", &data, &["--size", "16M"]).good();
    on("mkfs", &other, &["--size", "16M"]).good();
    let serving = Serving::start(&[&data, &other], &[]);
    let (mut client, root) = serving.mount("other");
    let args = GETATTR3args { object: root };
    block_on(client.getattr(&args)).expect("a reply");
    let said = json(&on("clients", &data, &["--json"]).good());
    let all = said["connections"].as_array().expect("a list");
    let one = all.iter().find(|one| one["last"] == "getattr").expect("it is connected");
    assert_eq!((&one["client"], &one["volumes"][0]), (&"127.0.0.1".into(), &"other".into()));
    assert_eq!((&one["calls"], &one["errors"]), (&1.into(), &0.into()));
    assert_eq!(one["slowest"], "getattr");
    assert!(one["slowest_ms"].as_f64() > Some(0.0), "{one}");
    assert!(serving.stop().success());
}

#[test]
fn top_prints_a_line_a_second_or_json() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "16M"]).good();
    let serving = Serving::start(&[&volume], &[]);
    let said = on("top", &volume, &["--count", "1"]).good();
    assert!(said.starts_with("data: ok, 0 calls/s, "), "{said}");
    assert_eq!(said.lines().count(), 1);
    let said = on("top", &volume, &["--count", "2", "--json"]).good();
    let reports: Vec<Value> = said.lines().map(json).collect();
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[1]["volumes"][0]["p99_ms"], Value::Null, "no call, no time");
    assert!(serving.stop().success());
    on("top", &volume, &[]).failed(1, "no server serves it");
}
