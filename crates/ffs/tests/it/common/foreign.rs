//! The independent checker: a few long-lived processes that check one disk after another. Starting
//! Python takes thirty times as long as checking a small disk.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use ufs2::layout::SUPERBLOCK_ADDRESS;
use ufs2::mkfs::mkfs;

use super::cutting::sizes;
use super::{shared, skip, temporary};

/// Reads the path of an image; answers with the exit status, the length of the output, and the
/// output.
const DRIVER: &str = r#"
import contextlib, importlib.util, io, sys, traceback
spec = importlib.util.spec_from_file_location("checker", sys.argv[1])
checker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checker)
for line in sys.stdin:
    sys.argv[1:] = ["--clean", line.rstrip("\n")]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status = checker.main()
        except BaseException:
            status = 3
            traceback.print_exc()
    said = said.getvalue().encode()
    sys.stdout.buffer.write(b"%d %d\n" % (status, len(said)) + said)
    sys.stdout.buffer.flush()
"#;

/// A Python process that runs a driver of the checker. It ends when its input does.
pub(crate) struct Checker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Idle checkers.
static IDLE: Mutex<Vec<Checker>> = Mutex::new(Vec::new());

impl Checker {
    /// Starts a driver, with the checker as its argument, if there is one.
    pub(crate) fn start(driver: &str) -> Option<Self> {
        let checker = shared("oracles/ufs2_verify.py")?;
        let mut command = Command::new("python3");
        command.args(["-c", driver]).arg(checker).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return skip(&format!("python3 cannot be run: {error}")),
        };
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Some(Self { child, input, output })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("it reads");
    }

    pub(crate) fn receive_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        assert!(line.ends_with('\n'), "the independent checker has died");
        line.trim_end().to_owned()
    }

    /// The exit status for an image, and the output.
    fn ask(&mut self, image: &Path) -> (i32, String) {
        let path = image.to_str().expect("a path that we made");
        self.send(format!("{path}\n").as_bytes());
        let head = self.receive_line();
        let (status, length) = head.split_once(' ').expect("two numbers");
        let (status, length) = (status.parse(), length.parse());
        let mut said = vec![0; length.expect("a length")];
        self.output.read_exact(&mut said).expect("all of it");
        (status.expect("a status"), String::from_utf8(said).expect("text"))
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Findings of the independent checker on a disk that `save` writes to a file: notes, if it is
/// clean.
pub(crate) fn findings_in(name: &str, save: impl FnOnce(&Path)) -> Option<String> {
    shared("oracles/ufs2_verify.py")?;
    let idle = IDLE.lock().expect("to take one cannot fail").pop();
    let mut checker = idle.or_else(|| Checker::start(DRIVER))?;
    let image = temporary(name);
    save(&image);
    let (status, said) = checker.ask(&image);
    let _ = std::fs::remove_file(&image);
    IDLE.lock().expect("to give one back cannot fail").push(checker);
    if status != 0 {
        return Some(said);
    }
    assert!(said.contains("clean, 0 errors"), "{said}");
    let notes: Vec<_> = said.lines().filter(|line| line.starts_with("note")).collect();
    Some(notes.join("\n"))
}

#[test]
fn one_that_stays_tells_a_damaged_disk_from_a_clean_one_each_time() {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, Image::zeroed(4 << 20));
    let random = executor.runtime().random;
    let sizes = sizes(4096, 512);
    let made = mkfs(&*disk, &sizes, &*random, Timestamp::default());
    executor.block_on(made).expect("it fits");
    let clean = disk.contents();
    let mut damaged = clean.clone();
    // The first bytes of the superblock, of the group and of its maps.
    damaged.write(SUPERBLOCK_ADDRESS + 4096, &[0xff; 8192]);
    for (image, is_clean) in [(&clean, true), (&damaged, false), (&clean, true)] {
        let save = |path: &Path| image.save(path).expect("a temporary file");
        let Some(said) = findings_in("one-that-stays", save) else { return };
        assert_eq!(said.is_empty(), is_clean, "{said}");
    }
}
