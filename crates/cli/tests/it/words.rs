//! Standard error that is full, closed, or not read: messages never block or end a server.

use std::fs::File;
use std::io::Read;
use std::net::TcpStream;
use std::process::Stdio;

use crate::common::serving::{Serving, put};
use crate::common::{Folder, on};

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("Linux has one").into()
}

#[test]
fn a_server_comes_back_after_a_kill_when_standard_error_is_full() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let serving = Serving::start(&[&volume], &["--create", "64M"]);
    put(&serving, "data", "letter", b"dear friend");
    serving.kill();
    let serving = Serving::start_saying(&[&volume], &[], &[], full());
    put(&serving, "data", "answer", b"dear you");
    serving.signal("-HUP");
    put(&serving, "data", "thanks", b"dear both");
    assert!(serving.stop().success());
    assert_eq!(on("ls", &volume, &[]).good(), "answer\nletter\nthanks\n");
}

#[test]
fn a_server_whose_standard_error_was_closed_heeds_sighup_and_serves_on() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let create = ["--create", "64M"];
    let mut serving = Serving::start_saying(&[&volume], &create, &[], Stdio::piped());
    drop(serving.standard_error());
    serving.signal("-HUP");
    put(&serving, "data", "letter", b"dear friend");
    assert!(serving.stop().success());
}

#[test]
fn a_server_whose_standard_error_is_not_read_serves_on_and_says_what_is_missing() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let talkative = [("RUST_LOG", "debug")];
    let create = ["--create", "64M"];
    let mut serving = Serving::start_saying(&[&volume], &create, &talkative, Stdio::piped());
    // Each connection causes two lines of some 100 bytes, and a pipe holds 64 KiB.
    for _ in 0..2_000 {
        drop(TcpStream::connect(serving.address()).expect("it accepts"));
    }
    put(&serving, "data", "letter", b"dear friend");
    let mut words = serving.standard_error().expect("it is a pipe");
    serving.signal("-TERM");
    let mut text = String::new();
    words.read_to_string(&mut text).expect("text");
    assert!(text.contains("lines before this one could not be written"), "{} bytes", text.len());
    assert!(serving.stop().success());
}

#[test]
fn a_command_that_fails_says_so_in_its_exit_code_when_standard_error_is_full() {
    let folder = Folder::new();
    let nothing = folder.path("nothing");
    for (command, code) in [("info", 1), ("fsck", 8)] {
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_duramen"))
            .arg(command)
            .arg(&nothing)
            .stderr(full())
            .status()
            .expect("the program was just built");
        assert_eq!(status.code(), Some(code), "{command}");
    }
}
