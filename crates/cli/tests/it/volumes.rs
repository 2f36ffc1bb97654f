//! Volumes that the configuration names.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

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
    let serving = Serving::start(&[&place.folder.path("one")], &["--config", place.config()]);
    assert!(!serving.refuses("one") && serving.refuses("first"));
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
    place.write("[volumes.first]\npath = 'one'\n[exports.frist]\n");
    let sentence = "no volume of this name is served; expected one of: first";
    serve().failed(1, sentence);
    on("config", &place.file, &["--check"]).failed(1, sentence);
    place.write("[volumes.first]\npath = 'missing'\n");
    serve().failed(1, "there is nothing of that name");
    place.write("[volumes.first]\npath = 'one'\ncontrol = 'socket'\n");
    serve().failed(2, "a folder has its own socket");
    let shared = "[volumes.first]\npath = 'one'\nlog = 'log'\n[volumes.second]\npath = 'two'\n\
                  log = 'log'\n[volumes.third]\npath = 'three'\n";
    on("mkfs", &place.folder.path("three"), &["--size", "16M"]).good();
    place.write(shared);
    serve().failed(2, "is the log of some volumes: give it to all, or to one");
    assert!(!Path::new("log").exists());
}
