//! Volumes that the configuration names.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, duramen, duramen_in_time, on};

struct Place {
    folder: Folder,
    file: PathBuf,
}

impl Place {
    /// Two volumes, and a configuration that names them.
    fn new() -> Self {
        let folder = Folder::new();
        for name in ["one", "two"] {
            on("mkfs", &folder.path(name), &["--size", "16M"]).good();
        }
        let file = folder.path("duramen.toml");
        let place = Self { folder, file };
        place.write("[volumes.first]\npath = 'one'\n[volumes.second]\npath = 'two'\n");
        place
    }

    fn write(&self, text: &str) {
        fs::write(&self.file, text).expect("there is room");
    }

    fn config(&self) -> &str {
        self.file.to_str().expect("plain")
    }
}

#[test]
fn a_server_without_volume_serves_those_of_its_configuration() {
    let place = Place::new();
    let status = || duramen(&["status", "--config", place.config()]);
    let stopped = status();
    let expected = "first           stopped: no server serves it\n\
                    second          stopped: no server serves it\n";
    assert_eq!((stopped.code, stopped.output.as_str()), (2, expected));
    let serving = Serving::start(&[], &["--config", place.config()]);
    put(&serving, "first", "file", &[7; 100]);
    put(&serving, "second", "file", &[7; 100]);
    let said = status().good();
    assert!(said.contains("first           ok, 2 calls") && said.contains("second "), "{said}");
    let said = duramen(&["clients", "--json", "--config", place.config()]).good();
    assert!(said.contains("\"total\": "), "{said}");
    serving.kill();
    // Paths begin at the folder of the file, wherever the server is started.
    let serving = Serving::start(&[], &["--config", place.config()]);
    assert!(place.folder.path("one").join("control.sock").exists());
    assert!(serving.stop().success());
}

#[test]
fn rules_are_for_the_name_that_the_configuration_gives_a_volume() {
    let place = Place::new();
    let one = place.folder.path("one");
    let allow = ["allow", one.to_str().expect("plain"), "10.0.0.1", "--config", place.config()];
    duramen(&[&["exports"], &allow[..]].concat()).good();
    let text = fs::read_to_string(&place.file).expect("it is there");
    assert!(text.contains("[exports.first]") && !text.contains("exports.one"), "{text}");
    on("config", &place.file, &["--check"]).good();
}

#[test]
fn a_named_volume_is_served_alone_and_rules_of_the_others_do_no_harm() {
    let place = Place::new();
    place.write(
        "[volumes.first]\npath = 'one'\n[exports.first]\nclients = []\n[exports.one]\n\
         clients = [{ network = '127.0.0.1', access = 'rw' }]\n",
    );
    let one = place.folder.path("one");
    let serving = Serving::start(&[&one], &["--config", place.config()]);
    assert!(!serving.refuses("one") && serving.refuses("first"));
    // The same file is good for that server alone, and is judged for it if the command says so.
    on("config", &place.file, &["--check"]).failed(1, "exports.one: no volume of this name");
    on("config", &place.file, &["--check", "--volume", one.to_str().expect("plain")]).good();
    assert!(serving.stop().success());
}

/// Sends SIGHUP and reads the log until a line about the reload.
fn reloaded(serving: &mut Serving) -> String {
    serving.signal("-HUP");
    let mut log = serving.standard_error().expect("it is piped");
    let (mut said, mut byte) = (String::new(), [0]);
    while !(said.ends_with('\n') && said.contains("exports")) {
        assert_eq!(log.read(&mut byte).expect("text"), 1, "{said}");
        said.push(char::from(byte[0]));
    }
    said
}

#[test]
fn a_reload_without_the_section_of_a_served_volume_is_refused_whole() {
    let place = Place::new();
    let more = ["--config", place.config()];
    let mut serving = Serving::start_saying(&[], &more, &[], Stdio::piped());
    // The rules that the file has now would take the access of all.
    place.write("[volumes.first]\npath = 'one'\n[exports.first]\nclients = []\n");
    let said = reloaded(&mut serving);
    assert!(said.contains("the section [volumes.second] is gone"), "{said}");
    assert!(!serving.refuses("first"), "nothing has changed");
    assert!(serving.stop().success());
}

#[test]
fn a_configuration_that_cannot_name_volumes_is_refused_with_a_sentence() {
    let place = Place::new();
    let serve = || {
        let more = ["serve", "--listen", "127.0.0.1:0", "--config", place.config()];
        duramen_in_time(&more)
    };
    place.write("");
    serve().failed(2, "put a section [volumes.NAME] with its path into the configuration");
    duramen(&["status", "--config", place.config()]).failed(2, "name a VOLUME");
    let refused = |text: &str, code, sentence| {
        place.write(text);
        let (served, judged) = (serve(), on("config", &place.file, &["--check"]));
        assert_eq!((served.code, &served.errors), (judged.code, &judged.errors), "one judge");
        served.failed(code, sentence);
    };
    let sentence = "no volume of this name is served; expected one of: first";
    refused("[volumes.first]\npath = 'one'\n[exports.frist]\n", 1, sentence);
    let text = "[volumes.first]\npath = 'missing'\n";
    refused(text, 1, "there is nothing of that name");
    let text = "[volumes.first]\npath = 'one'\ncontrol = 'socket'\n";
    refused(text, 2, "a folder has its own socket");
    let text = "[volumes.'a/b']\npath = 'one'\n";
    refused(text, 1, "is no name for a volume");
    let text = "[volumes.first]\npath = 'one'\n[volumes.again]\npath = 'one/disk.img'\n";
    refused(text, 2, "are one volume: name it once");
    let shared = "[volumes.first]\npath = 'one'\nlog = 'log'\n[volumes.second]\npath = 'two'\n\
                  log = 'log'\n[volumes.third]\npath = 'three'\n";
    on("mkfs", &place.folder.path("three"), &["--size", "16M"]).good();
    refused(shared, 2, "is the log of some volumes: give it to all, or to one");
    assert!(!Path::new("log").exists());
}

#[test]
fn a_volume_counts_as_served_under_the_name_of_its_section_alone() {
    let place = Place::new();
    let status = |more: &[&str]| duramen(&[&["status", "--config", place.config()], more].concat());
    // Another server has one of the volumes, under the name of its path.
    let one = Serving::start(&[&place.folder.path("one")], &[]);
    let said = status(&[]);
    let lines: Vec<&str> = said.output.lines().collect();
    assert!(lines[0].starts_with("first           stopped: process "), "{said:?}");
    assert!(lines[0].ends_with(" serves it under the name 'one'"), "{said:?}");
    assert_eq!((said.code, lines[1]), (2, "second          stopped: no server serves it"));
    let sentence = "serves it under the name 'one'";
    duramen(&["clients", "--config", place.config()]).failed(1, sentence);
    assert!(one.stop().success());
    // Two servers, each with a volume of the file.
    let alone = place.folder.path("alone.toml");
    fs::write(&alone, "[volumes.first]\npath = 'one'\n").expect("there is room");
    let one = Serving::start(&[], &["--config", alone.to_str().expect("plain")]);
    fs::write(&alone, "[volumes.second]\npath = 'two'\n").expect("there is room");
    let two = Serving::start(&[], &["--config", alone.to_str().expect("plain")]);
    let said = status(&[]).good();
    let starts = ["server ", "server ", "first           ok, ", "second          ok, "];
    for (line, start) in said.lines().zip(starts) {
        assert!(line.starts_with(start), "{said}");
    }
    let object: Value = serde_json::from_str(&status(&["--json"]).good()).expect("it is JSON");
    assert_eq!((&object["pid"], &object["state"]), (&Value::Null, &"ok".into()));
    assert_ne!(object["volumes"][0]["pid"], object["volumes"][1]["pid"]);
    duramen(&["clients", "--config", place.config()]).failed(2, "several servers");
    assert!(one.stop().success());
    assert_eq!(status(&[]).code, 2, "one of them has ended");
    assert!(two.stop().success());
}

#[test]
fn a_socket_that_answers_with_an_error_is_a_volume_that_is_not_well() {
    let place = Place::new();
    let alone = place.folder.path("alone.toml");
    fs::write(&alone, "[volumes.second]\npath = 'two'\n").expect("there is room");
    let two = Serving::start(&[], &["--config", alone.to_str().expect("plain")]);
    let socket = UnixListener::bind(place.folder.path("one").join("control.sock"));
    let socket = socket.expect("nobody serves it");
    thread::spawn(move || {
        for stream in socket.incoming() {
            let mut stream = stream.expect("it connects");
            let _ = stream.read(&mut [0; 4096]);
            let body = "{\"error\": \"the server is busy\"}";
            let head = format!("content-length: {}\r\nconnection: close", body.len());
            let _ = write!(stream, "HTTP/1.1 503 Service Unavailable\r\n{head}\r\n\r\n{body}");
        }
    });
    let said = duramen(&["status", "--config", place.config()]);
    let lines: Vec<&str> = said.output.lines().collect();
    assert!(lines[1].starts_with("second          ok, "), "{said:?}");
    assert!(lines[2].starts_with("first           stopped: "), "{said:?}");
    assert!(said.code == 2 && lines[2].contains("the server is busy"), "{said:?}");
    assert!(two.stop().success());
}
