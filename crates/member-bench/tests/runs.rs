//! Small runs on sparse files, on the real reactor, and the error messages of the program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Sparse files of 32 MiB, which are removed on drop.
struct Disks(PathBuf);

impl Disks {
    fn new(name: &str) -> Disks {
        let folder = format!("duramen-member-bench-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir(&folder).expect("a new folder");
        let disks = Disks(folder);
        for path in disks.paths(4) {
            let file = File::create_new(path).expect("a new file");
            file.set_len(32 * MIB).expect("a sparse file");
        }
        disks
    }

    fn paths(&self, count: usize) -> Vec<PathBuf> {
        (0..count).map(|number| self.0.join(format!("disk-{number}"))).collect()
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(words: &str, disks: &[PathBuf]) -> Output {
    let mut run = Command::new(env!("CARGO_BIN_EXE_member-bench"));
    run.args(words.split(' ')).args(disks).output().expect("it was built")
}

fn report(words: &str, disks: &[PathBuf]) -> Value {
    let Output { status, stdout, stderr } = run(words, disks);
    assert!(status.success(), "{words}: {}", String::from_utf8_lossy(&stderr));
    let report: Value = serde_json::from_slice(&stdout).expect("an object");
    for figure in ["seconds", "mib_per_s", "requests_per_s"] {
        assert!(report[figure].as_f64().is_some_and(|figure| figure > 0.0), "{words}: {report}");
    }
    assert!(matches!(report["of"]["wrong"].as_u64(), None | Some(0)), "{words}: {report}");
    report
}

/// Exit code and error message.
fn complaint(words: &str, disks: &[PathBuf]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = run(words, disks);
    assert!(stdout.is_empty(), "{words}: no report");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Whether the first `length` bytes were written, and none after them.
fn is_written(path: &Path, length: u64) -> bool {
    let bytes = fs::read(path).expect("a file");
    let (written, rest) = bytes.split_at(length as usize);
    let is_full = written.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0));
    is_full && rest.iter().all(|&byte| byte == 0)
}

#[test]
fn plain_disks_are_measured() {
    let disks = Disks::new("plain");
    let paths = disks.paths(3);
    let written = report("write --mib 6", &paths[..2]);
    assert_eq!((&written["run"], &written["of"]), (&"write".into(), &"disks".into()));
    assert_eq!((written["bytes"].as_u64(), written["requests"].as_u64()), (Some(6 * MIB), Some(6)));
    assert!(paths[..2].iter().all(|path| is_written(path, 3 * MIB)), "its share on each");
    let read = report("read --mib 6 --kib 64 --depth 3", &paths[..2]);
    assert_eq!(read["requests"], 96);
    assert_eq!(report("remake --mib 3 --depth 2", &paths)["bytes"], 3 * MIB);
    assert!(is_written(&paths[2], 3 * MIB), "a copy");
    for how in ["", " --past-cache"] {
        let words = format!("overwrite --mib 6 --depth 5 --seconds 0{how}");
        assert_eq!(report(&words, &paths)["requests"], 5, "each writer once, at least");
    }
    assert!(paths[..2].iter().all(|path| is_written(path, 3 * MIB)), "no write goes beyond");
}

#[test]
fn a_set_is_measured_also_without_a_member() {
    let disks = Disks::new("set");
    let all = disks.paths(4);
    let written = report("write --set --mib 12", &all);
    assert_eq!(
        (written["requests"].as_u64(), written["of"]["writes"].as_u64()),
        (Some(12), Some(12))
    );
    assert_eq!(report("read --set --mib 12", &all)["of"]["reads"], 12);
    assert_eq!(report("overwrite --set --mib 12 --depth 4 --seconds 0", &all)["requests"], 4);
    assert_eq!(report("read --set --mib 12", &all[..3])["bytes"], 12 * MIB);
    let remade = report("remake --set", &all);
    assert_eq!(remade["bytes"], 4 * MIB, "a third of what was written, on each");
    assert_eq!(report("read --set --mib 12", &all[1..])["bytes"], 12 * MIB, "of the new one, too");
}

#[test]
fn what_cannot_be_is_told_in_a_sentence() {
    let disks = Disks::new("refused");
    let paths = disks.paths(4);
    let cases = [
        ("write --mib 9999", 1, 1, "too few or too many"),
        ("overwrite --mib 1 --depth 1000", 1, 1, "are too few for 1000 who write"),
        ("remake", 1, 1, "remake needs a disk, and others to make it of"),
        ("write --set", 2, 1, "no set: raid5 is made of 3 to 32 disks, and not of 2"),
        ("read --set", 4, 1, "no set: "),
        ("write", 5, 1, "there is no file or device named"),
        ("write", 0, 2, "<DISKS>"),
        ("polish", 1, 2, "invalid value 'polish'"),
        ("overwrite --seconds nan", 1, 2, "it is a number of seconds"),
        ("read --depth 0", 1, 2, "0 is not in 1..=1024"),
    ];
    for (words, count, code, sentence) in cases {
        let (found, complaint) = complaint(words, &disks.paths(count));
        assert_eq!(found, Some(code), "{words}: {complaint}");
        assert!(complaint.contains(sentence), "{words}: {complaint}");
    }
    report("write --set --mib 12", &paths[..3]);
    let (code, complaint) = complaint("remake --set", &paths);
    assert_eq!(
        (code, complaint.as_str()),
        (Some(1), "member-bench: no member of the set is out\n")
    );
}
