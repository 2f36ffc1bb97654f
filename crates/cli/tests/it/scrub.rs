//! Scrubs that do not complete: their findings are still reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use crate::common::serving::{Serving, put};
use crate::common::{Folder, on, pretend};

fn made(folder: &Folder) -> PathBuf {
    let volume = folder.path("data");
    on("mkfs", &volume, &["--engine", "shadow", "--size", "8M"]).good();
    volume
}

/// Answers on the socket of a volume like a server whose scrub has this state and error. Returns
/// the requested routes.
fn scrubbing(volume: &Path, state: &'static str, error: Value) -> Receiver<String> {
    let lost = json!([{ "path": "/bad", "snapshot": null, "offset": 4096 }]);
    let done = json!({ "done_bytes": 4096, "total_bytes": 8192, "mended": 1 });
    let mut scrub = json!({ "lost": lost, "error": error });
    let all = done.as_object().expect("it is one").clone();
    scrub.as_object_mut().expect("it is one").extend(all);
    pretend(volume, move |route| {
        let body = match route {
            "/v1/scrub" => json!({ "job": 7 }),
            "/v1/info" => json!({ "scrub": scrub }),
            _ => json!({ "state": state, "done": 4096, "total": 8192 }),
        };
        (200, body)
    })
}

/// Text output for the findings of the server.
const FOUND: &str = "lost: /bad: from byte 4096 on\n";
const DONE: &str = "4 KiB of 8 KiB compared with their checksums, 1 places mended\n";

#[test]
fn what_a_server_has_found_is_told_if_its_scrub_fails() {
    let reasons = [
        (Value::Null, "it has failed; the server's log says why"),
        ("the volume has stopped".into(), "the volume has stopped"),
    ];
    for (error, why) in reasons {
        let folder = Folder::new();
        let volume = made(&folder);
        let _routes = scrubbing(&volume, "failed", error);
        let run = on("scrub", &volume, &[]);
        assert!(run.output.starts_with(FOUND) && run.output.ends_with(DONE), "{run:?}");
        run.failed(1, why);
        let run = on("scrub", &volume, &["--json"]);
        let told: Value = serde_json::from_str(&run.output).expect("JSON");
        assert_eq!((&told["lost"][0]["path"], &told["mended"]), (&"/bad".into(), &1.into()));
        assert!(told["error"].as_str().is_some_and(|error| error.contains(why)), "{told}");
        run.failed(1, why);
    }
}

#[test]
fn a_volume_that_is_busy_is_no_fault_of_the_command_line() {
    let folder = Folder::new();
    let volume = made(&folder);
    let serving = Serving::start(&[&volume], &[]);
    put(&serving, "data", "a", b"first");
    // The image alone does not show that it belongs to a folder.
    let link = folder.path("link");
    fs::hard_link(volume.join("disk.img"), &link).expect("there is room");
    for command in ["scrub", "tune"] {
        let more: &[&str] = if command == "tune" { &["--label", "x"] } else { &[] };
        on(command, &link, more).failed(1, "is in use by another program");
    }
    serving.kill();
    on("tune", &volume, &["--label", "x"]).failed(1, "it was not stopped cleanly");
}

#[test]
fn what_cannot_be_scrubbed_is_told_to_programs_as_well() {
    let folder = Folder::new();
    let [nowhere, plain, empty] = ["nowhere", "plain", "empty"].map(|name| folder.path(name));
    on("mkfs", &plain, &["--size", "8M"]).good();
    fs::write(&empty, []).expect("there is room");
    for (volume, code) in [(nowhere, 1), (plain, 2), (empty, 2)] {
        let run = on("scrub", &volume, &["--json"]);
        let told: Value = serde_json::from_str(&run.output).expect("JSON");
        assert_eq!(told["lost"], json!([]));
        run.failed(code, told["error"].as_str().expect("it says why"));
        assert_eq!(on("scrub", &volume, &[]).output, "");
    }
}

#[test]
fn a_scrub_that_is_refused_is_no_fault_of_the_command_line() {
    for (status, code) in [(409, 1), (400, 2)] {
        let folder = Folder::new();
        let volume = made(&folder);
        let why = "the volume is being scrubbed already";
        let _routes = pretend(&volume, move |_| (status, json!({ "error": why })));
        let said = on("scrub", &volume, &[]).failed(code, why);
        assert!(said.starts_with(&format!("duramen: {}: the", volume.display())), "{said}");
    }
}

#[test]
fn what_a_server_has_found_is_told_if_the_server_ends() {
    for is_json in [false, true] {
        let folder = Folder::new();
        let volume = made(&folder);
        let routes = scrubbing(&volume, "running", Value::Null);
        let mut scrub = Command::new(env!("CARGO_BIN_EXE_duramen"));
        scrub.arg("scrub").arg(&volume).args(is_json.then_some("--json"));
        let scrub = scrub.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let scrub = scrub.expect("the program was just built");
        // At the second request, the first was answered completely.
        let told = routes.iter().filter(|asked| asked == "/v1/info").take(2).count();
        assert_eq!(told, 2, "it is asked what it has found");
        drop(routes);
        let Output { status, stdout, stderr } = scrub.wait_with_output().expect("it is our child");
        let (output, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert_eq!(status.code(), Some(1), "{errors}");
        assert!(errors.contains("data: the server has ended\n"), "{errors}");
        if is_json {
            let told: Value = serde_json::from_str(&output).expect("JSON");
            assert_eq!((&told["lost"][0]["path"], &told["mended"]), (&"/bad".into(), &1.into()));
            let why = told["error"].as_str().expect("it says why");
            assert!(why.ends_with("the server has ended"), "{told}");
        } else {
            assert!(output.starts_with(FOUND) && output.ends_with(DONE), "{output}");
        }
    }
}

#[test]
fn what_a_server_has_found_is_told_if_the_scrub_is_ended() {
    let folder = Folder::new();
    let volume = made(&folder);
    let routes = scrubbing(&volume, "running", Value::Null);
    let mut scrub = Command::new(env!("CARGO_BIN_EXE_duramen"));
    scrub.arg("scrub").arg(&volume).stdout(Stdio::piped()).stderr(Stdio::piped());
    let scrub = scrub.spawn().expect("the program was just built");
    let asked = |route: &str| routes.iter().any(|asked| asked == route);
    assert!(asked("/v1/jobs/7"), "by then it hears signals");
    let sent = Command::new("kill").args(["-INT", &scrub.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    let Output { status, stdout, stderr } = scrub.wait_with_output().expect("it is our child");
    let (output, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(output.starts_with(FOUND) && output.ends_with(DONE), "{output}");
    assert!(errors.ends_with("the scrub was ended; nothing that was right has changed\n"));
    assert_eq!(status.code(), Some(1));
    assert!(asked("/v1/jobs/7/cancel") && asked("/v1/info"));
    fs::remove_file(volume.join("control.sock")).expect("it is there");
    on("scrub", &volume, &[]).good();
}
