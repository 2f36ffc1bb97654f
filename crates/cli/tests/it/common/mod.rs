//! Helpers of the command-line tests.

pub(crate) mod exposition;
pub(crate) mod serving;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// A new folder that is removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates an empty folder.
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// Creates one in memory of the host.
    pub(crate) fn in_memory() -> Self {
        Self::within(Path::new("/dev/shm"))
    }

    fn within(parent: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("duramen-cli-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Result of a run of `duramen`.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) output: String,
    /// Standard error.
    pub(crate) errors: String,
}

impl Run {
    /// Asserts success and returns the output.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!((self.code, self.errors.as_str()), (0, ""), "{}", self.output);
        self.output
    }

    /// Asserts a failure with this exit code and one sentence on one line that contains `said`, and
    /// returns that line.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, said: &str) -> String {
        assert_eq!(self.code, code, "{}", self.errors);
        assert!(self.errors.contains(said), "{said:?} is not in {:?}", self.errors);
        assert!(self.errors.starts_with("duramen: "), "{}", self.errors);
        assert_eq!(self.errors.lines().count(), 1, "{}", self.errors);
        self.errors
    }
}

/// Sleeps in real time while a server does something by itself.
#[expect(clippy::disallowed_methods, reason = "a real server takes real time")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// Runs `duramen` with these arguments.
pub(crate) fn duramen<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_duramen")).args(arguments))
}

/// Runs `duramen` with these arguments. A run that takes longer than a minute ends with code 124.
pub(crate) fn duramen_in_time<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Run {
    run(Command::new("timeout").args(["60", env!("CARGO_BIN_EXE_duramen")]).args(arguments))
}

/// Runs `duramen` with these arguments, whatever its exit code, and returns the number of bytes it
/// has read; `None` if the kernel does not count them.
pub(crate) fn bytes_read(arguments: &[&str]) -> Option<u64> {
    // The kernel's counts of a process include the children that it has waited for.
    let script = "\"$@\" > /dev/null 2>&1; exec cat /proc/self/io";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_duramen")]).args(arguments);
    let told = run(&mut shell).output;
    let read = told.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.map_or_else(|| skip("the kernel does not count"), |read| read.parse().ok())
}

/// Runs the command that a message advises in quotes, as a shell would. `command` is its beginning.
#[track_caller]
pub(crate) fn follow(told: &str, command: &str) -> Run {
    let advice = told.split('\'').find(|part| part.starts_with(command));
    let advice = advice.unwrap_or_else(|| panic!("no {command:?} is advised: {told}"));
    let program = Path::new(env!("CARGO_BIN_EXE_duramen")).parent().expect("a folder").display();
    run(Command::new("sh").args(["-c", &format!("PATH='{program}':$PATH; {advice}")]))
}

fn run(command: &mut Command) -> Run {
    let output = command.output().expect("the program was just built");
    let Output { status, stdout, stderr } = output;
    Run {
        code: status.code().expect("no signal ends it"),
        output: String::from_utf8_lossy(&stdout).into_owned(),
        errors: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Runs `duramen COMMAND PATH MORE...`.
pub(crate) fn on(command: &str, path: &Path, more: &[&str]) -> Run {
    let path = path.to_str().expect("temporary folders have plain names");
    duramen(&[&[command, path], more].concat())
}

/// Makes a volume on two sparse disks in a folder, each of which has everything.
pub(crate) fn make_mirror(folder: &Folder) -> PathBuf {
    let disks = ["disk-1", "disk-2"].map(|name| folder.path(name));
    for disk in &disks {
        let file = fs::File::create(disk).expect("a new file");
        file.set_len(64 << 20).expect("it is sparse");
    }
    let [one, other] = disks.each_ref().map(|disk| disk.to_str().expect("plain"));
    let volume = folder.path("data");
    on("mkfs", &volume, &["--raid1", one, other, "--sparse"]).good();
    volume
}

/// Path of a file in the folder `shared` beside the repository. A clone alone does not have it:
/// then this reports a skip, and the caller skips.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if file.exists() {
        return Some(file);
    }
    skip(&format!("{} is not there", file.display()))
}

/// Reports loudly that a test is skipped, and why.
pub(crate) fn skip<T>(reason: &str) -> Option<T> {
    eprintln!("SKIPPED, NOTHING TESTED: {reason}");
    None
}

/// Unpacks a disk that a FreeBSD 14 kernel wrote, `little` or `big` endian.
pub(crate) fn freebsd_disk(endian: &str, folder: &Folder) -> Option<PathBuf> {
    let packed = shared(&format!("images/freebsd14-{endian}-endian.img.xz"))?;
    match Command::new("xz").arg("-dkc").arg(&packed).output() {
        Ok(output) if output.status.success() => {
            let image = folder.path("freebsd.img");
            fs::write(&image, output.stdout).expect("there is room");
            Some(image)
        }
        Ok(output) => panic!("xz: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip(&format!("xz cannot be run: {error}")),
    }
}

/// Asserts that the independent checker finds a clean UFS2 file system, if the checker is there.
#[track_caller]
pub(crate) fn assert_clean(image: &Path) {
    let Some(checker) = shared("oracles/ufs2_verify.py") else { return };
    match Command::new("python3").arg(checker).arg("--clean").arg(image).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.contains("clean, 0 errors"), "{text}");
        }
        Err(error) => skip(&format!("python3 cannot be run: {error}")).unwrap_or(()),
    }
}

/// Answers on the socket of a volume like a server, with this status and this object for one route.
/// Returns the requested routes; it ends with the first request that nobody receives.
pub(crate) fn pretend(
    volume: &Path,
    answer: impl Fn(&str) -> (u16, Value) + Send + 'static,
) -> Receiver<String> {
    let listener = UnixListener::bind(volume.join("control.sock")).expect("nobody serves it");
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4096];
            let length = stream.read(&mut request).expect("a request");
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let route = request.split(' ').nth(1).expect("a route").to_owned();
            let (status, body) = answer(&route);
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).expect("it is read");
            if tell.send(route).is_err() {
                return;
            }
        }
    });
    told
}

/// A host with little space: a file system in memory that is unmounted on drop.
pub(crate) struct SmallHost {
    pub(crate) place: PathBuf,
    _folder: Folder,
}

impl SmallHost {
    /// Mounts a host of this size, as `mount` takes it; `None` where mounting is impossible.
    pub(crate) fn new(size: &str) -> Option<SmallHost> {
        let folder = Folder::new();
        let place = folder.path("small");
        fs::create_dir(&place).expect("a new folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(&place);
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        if !is_mounted {
            println!("SKIPPED: nothing can be mounted here");
        }
        is_mounted.then(|| SmallHost { place, _folder: folder })
    }
}

impl Drop for SmallHost {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.place).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "nobody uses it any more");
    }
}

/// A loop device that is detached on drop.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn over(file: &Path) -> Option<Loop> {
        let mut losetup = std::process::Command::new("losetup");
        match losetup.args(["--find", "--show"]).arg(file).output() {
            Ok(output) if output.status.success() => {
                Some(Loop(String::from_utf8_lossy(&output.stdout).trim().to_owned()))
            }
            _ => skip("there are no loop devices here"),
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
