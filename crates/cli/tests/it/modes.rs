//! Permissions of the files that `duramen` creates, and obstacles at their paths.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::serving::Serving;
use crate::common::{Folder, duramen_in_time, on};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

/// Runs `duramen` with a umask that leaves new files open to all users.
fn openly(arguments: &[&str]) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_duramen")]);
    let run = shell.args(arguments).output().expect("a shell");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

#[test]
fn what_holds_data_is_made_for_its_owner_alone() {
    let folder = Folder::new();
    let [volume, set, bare, dump] =
        ["data", "set", "bare.img", "dump"].map(|name| folder.path(name));
    openly(&["mkfs", "--size", "64M", text(&volume)]);
    openly(&["mkfs", "--bare", "--size", "64M", text(&bare)]);
    let members = ["m0", "m1"].map(|name| folder.path(name));
    let [one, other] = members.each_ref().map(|path| text(path));
    openly(&["mkfs", text(&set), "--raid1", one, other, "--size", "64M"]);
    openly(&["raid", "dump", text(&set), text(&dump)]);
    assert_eq!([&volume, &set].map(|path| mode(path)), [0o700; 2]);
    let [disk, log] = ["disk.img", "log.img"].map(|name| volume.join(name));
    for path in [&disk, &log, &bare, &members[0], &members[1], &dump] {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
}

#[test]
fn tune_keeps_the_mode_of_the_settings_and_makes_a_private_log() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M", "--policy", "sync"]).good();
    let settings = volume.join("volume.toml");
    for kept in [0o640, 0o600] {
        set_mode(&settings, kept);
        on("tune", &volume, &["--policy", "log"]).good();
        assert_eq!(mode(&settings), kept);
        assert_eq!(mode(&volume.join("log.img")), 0o600);
        on("tune", &volume, &["--policy", "sync"]).good();
        assert_eq!(mode(&settings), kept);
    }
}

#[test]
fn settings_that_are_a_link_stay_one_and_its_target_is_changed() {
    let folder = Folder::new();
    let (volume, elsewhere) = (folder.path("data"), folder.path("elsewhere"));
    on("mkfs", &volume, &["--size", "64M", "--policy", "sync"]).good();
    fs::create_dir(&elsewhere).expect("there is room");
    let (settings, target) = (volume.join("volume.toml"), elsewhere.join("kept.toml"));
    fs::rename(&settings, &target).expect("there is room");
    symlink("../elsewhere/kept.toml", &settings).expect("a link");
    on("tune", &volume, &["--policy", "log"]).good();
    assert!(fs::symlink_metadata(&settings).expect("it is there").is_symlink());
    assert!(fs::read_to_string(&target).expect("it is there").contains("log"));
    let left = fs::read_dir(&elsewhere).expect("it is there").count();
    assert_eq!(left, 1, "no temporary file");
}

#[test]
fn what_bears_the_name_of_a_temporary_file_is_neither_followed_nor_waited_for() {
    let folder = Folder::new();
    let (volume, victim) = (folder.path("data"), folder.path("victim"));
    on("mkfs", &volume, &["--size", "64M", "--policy", "sync"]).good();
    fs::write(&victim, "precious").expect("there is room");
    let tune = || duramen_in_time(&["tune", text(&volume), "--policy", "log"]);
    for name in [".volume.toml.new", "log.img.new"] {
        let (new, log) = (volume.join(name), volume.join("log.img"));
        symlink(&victim, &new).expect("a link");
        tune().failed(1, "no regular file");
        fs::remove_file(&new).expect("it was left alone");
        assert!(Command::new("mkfifo").arg(&new).status().expect("coreutils").success());
        let _ = fs::remove_file(&log); // the log that was made before the settings were refused
        tune().failed(1, "no regular file");
        fs::remove_file(&new).expect("it was left alone");
        let _ = fs::remove_file(&log);
        assert_eq!(fs::read_to_string(&victim).expect("it is there"), "precious");
    }
    // A file that a cut left behind is no obstacle.
    for name in [".volume.toml.new", "log.img.new"] {
        fs::write(volume.join(name), "half").expect("there is room");
    }
    tune().good();
    assert!(!volume.join(".volume.toml.new").exists());
}

/// Standard error of a server of this volume until it has stopped.
fn said_by_a_server(volume: &Path) -> String {
    let mut serving = Serving::start_saying(&[volume], &[], &[], Stdio::piped());
    let mut errors = serving.standard_error().expect("it was asked for");
    assert!(serving.stop().success());
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("text");
    said
}

#[test]
fn a_server_warns_of_files_that_others_can_read() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M"]).good();
    let [disk, log] = ["disk.img", "log.img"].map(|name| volume.join(name));
    let warned_of = |path: &Path| {
        let said = said_by_a_server(&volume);
        said.contains(&format!("can read {}", path.display()))
    };
    assert!(!warned_of(&disk) && !warned_of(&log));
    set_mode(&disk, 0o644);
    assert!(!warned_of(&disk), "the folder keeps others out");
    set_mode(&volume, 0o755);
    assert!(warned_of(&disk) && !warned_of(&log));
    set_mode(&log, 0o640);
    assert!(warned_of(&log));
}

#[test]
fn a_server_warns_of_remembered_answers_and_of_a_log_that_it_does_not_use() {
    let folder = Folder::new();
    let volume = folder.path("data");
    on("mkfs", &volume, &["--size", "64M", "--policy", "sync"]).good();
    said_by_a_server(&volume);
    let [intents, log] = ["intents.img", "log.img"].map(|name| volume.join(name));
    assert!(intents.exists(), "the server has made it");
    fs::write(&log, "of another policy").expect("there is room");
    set_mode(&volume, 0o755);
    set_mode(&intents, 0o644);
    set_mode(&log, 0o644);
    let said = said_by_a_server(&volume);
    for path in [&intents, &log] {
        assert!(said.contains(&format!("can read {}", path.display())), "{said}");
    }
}
