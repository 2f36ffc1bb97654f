//! Commands that are killed before their modifying system calls: afterwards the volume opens, or is
//! completed, and no acknowledged data is lost.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::serving::{Serving, put};
use crate::common::{Folder, assert_clean, on, skip};

/// System calls that change files.
const CALLS: &[&str] = &[
    "write",
    "pwrite64",
    "pwritev2",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "rename",
    "unlink",
    "mkdir",
];
/// System call that submits the ring's operations to the kernel: the writes to disks.
const RING: &[&str] = &["io_uring_enter"];
const SIZE: &str = "16M";
/// Calls of a kind before each of which a command is killed; then it is before every second one.
const EACH: usize = 6;

/// Starts `duramen`, which gets a signal at its `nth` call of this kind, counted from 1.
fn start(arguments: &[&str], call: &str, nth: usize, signal: &str) -> Child {
    let mut strace = Command::new("strace");
    // With -D the program is our child, and the tracer is not.
    strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    strace.args(["-e", &format!("inject={call}:signal={signal}:when={nth}")]);
    strace.arg(env!("CARGO_BIN_EXE_duramen")).args(arguments);
    strace.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("strace is there")
}

/// Whether the program was killed before it ended; or, if it serves, before it was ready.
fn is_killed(arguments: &[&str], call: &str, nth: usize) -> bool {
    let mut child = start(arguments, call, nth, "KILL");
    let mut first = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it was asked for"));
    output.read_line(&mut first).expect("text");
    if first.starts_with("ready: ") {
        child.kill().expect("it runs");
        child.wait().expect("it is our child");
        return false;
    }
    let status = child.wait().expect("it is our child");
    assert!(status.success() || status.signal() == Some(9), "{arguments:?}: {status}");
    !status.success()
}

/// Kills a command on `volume` before its calls, each time after `prepare`, and checks the remains
/// with `check`. There are at least `least` calls.
fn kill_each(volume: &Path, words: &[&str], prepare: impl Fn(), check: impl Fn(), least: usize) {
    kill_each_of(&[CALLS, RING].concat(), volume, words, prepare, check, least);
}

fn has_strace() -> bool {
    let there = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    there.is_ok_and(|status| status.success())
}

/// Kills a command before these calls.
fn kill_each_of(
    calls: &[&str],
    volume: &Path,
    words: &[&str],
    prepare: impl Fn(),
    check: impl Fn(),
    least: usize,
) {
    if !has_strace() {
        return skip("strace cannot be run").unwrap_or(());
    }
    let volume = volume.to_str().expect("temporary folders have plain names");
    let arguments = [&[words[0], volume], &words[1..]].concat();
    let mut killed = 0;
    for call in calls {
        for nth in (1..=EACH).chain((EACH + 3..).step_by(3)) {
            prepare();
            if !is_killed(&arguments, call, nth) {
                break;
            }
            println!("{}: killed at {call} {nth}", words.join(" "));
            check();
            killed += 1;
        }
    }
    assert!(killed >= least, "only {killed} calls");
}

/// Replaces `to` by a copy of `from`.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").args(["-a", "--sparse=always"]).args([from, to]).status();
    assert!(copied.expect("cp is there").success());
}

/// Serves the volume like a user who tries once more, and asserts that it is whole.
fn serves(volume: &Path, letter: Option<&[u8]>) {
    let serving = Serving::start(&[volume], &["--create", SIZE]);
    put(&serving, "data", "later", b"yours");
    assert!(serving.stop().success());
    if let Some(text) = letter {
        assert_eq!(on("cat", volume, &["letter"]).good().as_bytes(), text);
    }
    assert_eq!(on("cat", volume, &["later"]).good(), "yours");
    assert_clean(&volume.join("disk.img"));
}

#[test]
fn a_volume_whose_making_is_killed_is_made_to_its_end() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let prepare = || drop(fs::remove_dir_all(&volume));
    let words = ["serve", "--create", SIZE, "--listen", "127.0.0.1:0"];
    kill_each(&volume, &words, prepare, || serves(&volume, None), 10);
}

#[test]
fn a_signal_while_a_volume_is_made_ends_the_start_cleanly_or_has_nothing_to_reload() {
    if !has_strace() {
        return skip("strace cannot be run").unwrap_or(());
    }
    let folder = Folder::new();
    let volume = folder.path("data");
    let path = volume.to_str().expect("temporary folders have plain names");
    let words = ["serve", path, "--create", SIZE, "--listen", "127.0.0.1:0"];
    for (signal, is_ready) in [("TERM", false), ("HUP", true)] {
        let mut child = start(&words, "ftruncate", 1, signal);
        let mut first = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it was asked for"));
        output.read_line(&mut first).expect("text");
        assert_eq!(first.starts_with("ready: "), is_ready, "{signal}: {first:?}");
        if is_ready {
            child.kill().expect("it runs");
            child.wait().expect("it is our child");
        } else {
            assert!(child.wait().expect("it is our child").success(), "{signal}");
            assert!(!volume.exists(), "it was made, and not served");
        }
    }
}

#[test]
fn a_making_that_is_killed_can_be_repeated_or_made_to_its_end() {
    let folder = Folder::new();
    let volume = folder.path("data");
    let words = ["mkfs", "--size", SIZE, "--log-size", "2M"];
    let prepare = || drop(fs::remove_dir_all(&volume));
    let is_repeated = Cell::new(false);
    let check = || {
        // Every second remainder is served as it was left.
        is_repeated.set(!is_repeated.get());
        // A completed volume is not made anew without `--force`.
        if is_repeated.get() && !volume.join("volume.toml").exists() {
            on("mkfs", &volume, &["--size", "8M"]).good();
        }
        serves(&volume, None);
    };
    kill_each(&volume, &words, prepare, check, 10);
    let disk = folder.path("disk.img");
    let words = ["mkfs", "--bare", "--size", SIZE];
    let prepare = || drop(fs::remove_file(&disk));
    let check = || {
        let again = on("mkfs", &disk, &words[1..]);
        assert!(again.code == 0 || again.errors.contains("a UFS2 file system"), "{}", again.errors);
        assert!(on("info", &disk, &[]).good().contains("clean"));
        assert_clean(&disk);
    };
    kill_each(&disk, &words, prepare, check, 5);
}

/// A volume with a letter in it, cut off or cleanly stopped.
fn written(folder: &Folder, cut: bool) -> std::path::PathBuf {
    let (volume, kept) = (folder.path("data"), folder.path("kept"));
    let serving = Serving::start(&[&volume], &["--create", SIZE]);
    put(&serving, "data", "letter", b"dear friend");
    if cut {
        serving.kill()
    } else {
        assert!(serving.stop().success())
    }
    fs::rename(&volume, &kept).expect("nobody has it");
    kept
}

#[test]
fn settings_and_labels_whose_change_is_killed_are_old_or_new() {
    let folder = Folder::new();
    let (volume, kept) = (folder.path("data"), written(&folder, false));
    let check = || {
        let told = on("info", &volume, &[]).good();
        assert!(told.contains("policy"), "{told}");
        serves(&volume, Some(b"dear friend"));
    };
    for change in [&["--policy", "sync"][..], &["--label", "archive"]] {
        let words = [&["tune"], change].concat();
        kill_each(&volume, &words, || copy(&kept, &volume), check, 3);
    }
    on("tune", &kept, &["--policy", "sync"]).good();
    kill_each(&volume, &["tune", "--policy", "log"], || copy(&kept, &volume), check, 5);
}

#[test]
fn a_repair_that_is_killed_takes_nothing_that_was_answered() {
    let folder = Folder::new();
    let (volume, kept) = (folder.path("data"), written(&folder, true));
    let prepare = || copy(&kept, &volume);
    let repair = || {
        if volume.join("disk.img").exists() {
            on("fsck", &volume, &["--repair"]);
        }
    };
    let check = || serves(&volume, Some(b"dear friend"));
    // Before its disk is written the volume can be served or repaired again, in either order.
    let is_first = Cell::new(false);
    let one_of_both = || {
        is_first.set(!is_first.get());
        if is_first.get() {
            repair();
        }
        check();
    };
    let words = ["fsck", "--repair"];
    kill_each_of(CALLS, &volume, &words, prepare, one_of_both, 3);
    let both = || {
        repair();
        check();
    };
    kill_each_of(RING, &volume, &words, prepare, both, 2);
    let words = ["serve", "--listen", "127.0.0.1:0"];
    kill_each(&volume, &words, prepare, check, 3);
}
