//! Our own server: a process, its volume and its port.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::TcpListener;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use crate::failure::While;
use crate::{Failure, Repository, Result, clock, command, program};

/// The program.
pub(crate) const NAME: &str = "duramen";
/// Time limit until the server is ready, also after a crash.
const READY: Duration = Duration::from_secs(60);
/// Time limit for a clean stop of the server.
const STOP: Duration = Duration::from_secs(60);
/// Number of lines of its log to show when something failed.
const LAST_WORDS: usize = 40;
/// The size of the volume.
const SIZE: &str = "10G";
/// Configuration in which the guest's root is root, so that it can make devices and give files
/// away.
const CONFIGURATION: &str = r#"
[exports.volume]
clients = [{ network = "127.0.0.1", access = "rw", squash = "none" }]
"#;
/// Line added to the configuration to allow answers before the data is on disk.
const DELAYED: &str = "durability = \"delayed\"\n";
/// Lines that make a server forget its answers in a crash.
const FORGETFUL: &str = "\n[reply_cache]\nsurvives = false\n";
/// Log levels: enough to see each call that was repeated and not executed again.
const LOG: &str = "info,dispatch::reply_cache=debug";

/// A server of one volume.
#[derive(Debug)]
pub(crate) struct Server {
    told: Told,
    process: Child,
}

/// Parameters of a server's start, for the first time and again.
#[derive(Debug)]
struct Told {
    binary: PathBuf,
    volume: PathBuf,
    /// Path of its configuration and log files, without extension.
    files: PathBuf,
    port: u16,
    configuration: String,
    /// Memory setting, unless the server chooses it.
    memory: Option<String>,
    /// Further arguments of its command line.
    more: Vec<String>,
}

/// Configuration for a device, which is exported by the name of its file.
fn configuration_for(disk: &Path) -> String {
    let export = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    CONFIGURATION.replace("exports.volume", &format!("exports.{export}"))
}

/// Builds the release binary; returns its path.
pub(crate) fn build(repository: &Repository) -> Result<PathBuf> {
    program::built(repository, NAME)
}

impl Server {
    /// Makes a volume in the folder `volume` and serves it.
    pub(crate) fn create(binary: &Path, volume: &Path) -> Result<Server> {
        Told::usual(binary, volume, &["--create", SIZE])?.serve()
    }

    /// Makes a volume and serves it with the same program, which forgets its answers in a crash.
    pub(crate) fn create_forgetful(&self, volume: &Path) -> Result<Server> {
        let configuration = format!("{CONFIGURATION}{FORGETFUL}");
        let usual = Told::usual(&self.told.binary, volume, &["--create", SIZE])?;
        Told { configuration, ..usual }.serve()
    }

    /// Makes a volume with this policy, and serves it.
    pub(crate) fn create_with_policy(binary: &Path, volume: &Path, policy: &str) -> Result<Server> {
        Told::make(binary, volume, &["--size", SIZE, "--policy", policy])?.serve()
    }

    /// Makes a volume with this policy, and serves it declared as delayed.
    pub(crate) fn create_delayed(binary: &Path, volume: &Path, policy: &str) -> Result<Server> {
        let usual = Told::make(binary, volume, &["--size", SIZE, "--policy", policy])?;
        Told { configuration: format!("{CONFIGURATION}{DELAYED}"), ..usual }.serve()
    }

    /// Makes a small volume with this policy, with the smallest log if it has one, and serves it.
    pub(crate) fn create_small(binary: &Path, volume: &Path, policy: &str) -> Result<Server> {
        let log: &[&str] = if policy == "log" { &["--log-size", "2M"] } else { &[] };
        let words = [&["--size", "1G", "--policy", policy], log].concat();
        Told::make(binary, volume, &words)?.serve()
    }

    /// Makes a volume on a set of disks with these arguments, and serves it.
    pub(crate) fn create_on_set(binary: &Path, volume: &Path, words: &[String]) -> Result<Server> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Told::make(binary, volume, &words)?.serve()
    }

    /// Makes a volume of this engine, and serves it.
    pub(crate) fn create_of_engine(binary: &Path, volume: &Path, engine: &str) -> Result<Server> {
        Told::make(binary, volume, &["--size", SIZE, "--engine", engine])?.serve()
    }

    /// Makes a volume of this engine and size, and serves it with this much memory.
    pub(crate) fn create_sized(
        binary: &Path,
        volume: &Path,
        engine: &str,
        size: &str,
        memory: &str,
    ) -> Result<Server> {
        let memory = Some(memory.to_owned());
        let usual = Told::make(binary, volume, &["--size", size, "--engine", engine])?;
        Told { memory, ..usual }.serve()
    }

    /// Output of `duramen info` for the volume, as JSON.
    pub(crate) fn info(&self) -> Result<Value> {
        let mut info = Command::new(&self.told.binary);
        let told = command::capture(info.arg("info").arg(&self.told.volume).arg("--json"))?;
        serde_json::from_str(&told).while_doing("what duramen info tells")
    }

    /// Runs `duramen raid` with a command for the volume; returns its output.
    pub(crate) fn raid(&self, word: &str, more: &[&str]) -> Result<String> {
        command::capture(&mut self.about("raid", word, more))
    }

    /// Runs `duramen nvram` with a command for the volume.
    pub(crate) fn nvram(&self, word: &str) -> Result<()> {
        command::capture(&mut self.about("nvram", word, &[])).map(drop)
    }

    /// Changes the volume with `duramen tune`. No server may be running on it.
    pub(crate) fn tune(&self, words: &[&str]) -> Result<()> {
        let mut tune = Command::new(&self.told.binary);
        command::capture(tune.arg("tune").arg(&self.told.volume).args(words)).map(drop)
    }

    /// Runs `duramen snapshot` with a command for the volume; returns its output.
    pub(crate) fn snapshot(&self, word: &str, more: &[&str]) -> Result<String> {
        command::capture(&mut self.about("snapshot", word, more))
    }

    /// Starts `duramen snapshot` in the background. Its output is dropped.
    pub(crate) fn begin_snapshot(&self, word: &str, more: &[&str]) -> Result<Child> {
        let mut snapshot = self.about("snapshot", word, more);
        snapshot.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        snapshot.spawn().while_doing("starting duramen snapshot")
    }

    fn about(&self, command: &str, word: &str, more: &[&str]) -> Command {
        let mut about = Command::new(&self.told.binary);
        about.args([command, word]).arg(&self.told.volume).args(more);
        about
    }

    /// Serves `volume` with this much memory; creates it first if a size is given.
    pub(crate) fn with_memory(
        binary: &Path,
        volume: &Path,
        memory: &str,
        size: Option<&str>,
    ) -> Result<Server> {
        let more = size.map_or(Vec::new(), |size| vec!["--create", size]);
        let memory = Some(memory.to_owned());
        Told { memory, ..Told::usual(binary, volume, &more)? }.serve()
    }

    /// Makes a volume on a device, and serves it with the device `log`. Its other files are in
    /// `folder`.
    pub(crate) fn on_devices(
        binary: &Path,
        disk: &Path,
        log: &Path,
        folder: &Path,
    ) -> Result<Server> {
        command::capture(Command::new(binary).arg("mkfs").arg(disk))?;
        let usual = Told::usual(binary, disk, &["--log", &log.to_string_lossy()])?;
        Told { configuration: configuration_for(disk), files: folder.join("volume"), ..usual }
            .serve()
    }

    /// Makes a disk with soft updates on a device, and serves it declared as delayed. Its
    /// configuration and its log go into `folder`.
    pub(crate) fn delayed_on_device(binary: &Path, disk: &Path, folder: &Path) -> Result<Server> {
        let mut mkfs = Command::new(binary);
        command::capture(mkfs.arg("mkfs").arg(disk).args(["--policy", "softdep"]))?;
        let configuration = configuration_for(disk) + DELAYED;
        let files = folder.join("volume");
        Told { configuration, files, ..Told::usual(binary, disk, &[])? }.serve()
    }

    /// Makes a disk of this engine on a device, and serves it. Its configuration and its log go
    /// into `folder`.
    pub(crate) fn with_engine_on_device(
        binary: &Path,
        disk: &Path,
        folder: &Path,
        engine: &str,
    ) -> Result<Server> {
        let mut mkfs = Command::new(binary);
        command::capture(mkfs.arg("mkfs").arg(disk).args(["--engine", engine]))?;
        let configuration = configuration_for(disk);
        let files = folder.join("volume");
        Told { configuration, files, ..Told::usual(binary, disk, &[])? }.serve()
    }

    /// Serves the existing disk image `volume`.
    pub(crate) fn open(binary: &Path, volume: &Path) -> Result<Server> {
        Told::usual(binary, volume, &[])?.serve()
    }

    /// Its target for `duramen bench`.
    pub(crate) fn target(&self) -> String {
        let name = self.told.volume.file_name().unwrap_or_default().to_string_lossy();
        format!("nfs://127.0.0.1:{}/{name}", self.told.port)
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The port of both its services.
    pub(crate) fn port(&self) -> u16 {
        self.told.port
    }

    /// Kills the process without warning, and starts another on the same port.
    pub(crate) fn crash(&mut self) -> Result<()> {
        self.die()?;
        self.come_back()
    }

    /// Kills the process without warning.
    pub(crate) fn die(&mut self) -> Result<()> {
        self.process.kill().while_doing("killing the server")?;
        self.process.wait().while_doing("killing the server")?;
        Ok(())
    }

    /// Starts another server on the same port, after a death.
    pub(crate) fn come_back(&mut self) -> Result<()> {
        self.process = self.told.start()?;
        Ok(())
    }

    /// A command `duramen fsck --repair` for the volume. No server may be running on it.
    pub(crate) fn repair(&self) -> Command {
        let mut fsck = Command::new(&self.told.binary);
        fsck.arg("fsck").arg(&self.told.volume).arg("--repair").stdin(Stdio::null());
        fsck
    }

    /// Stops the process cleanly, and starts another on the same port.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.process = self.told.start()?;
        Ok(())
    }

    /// Sets its memory, or leaves the choice to the server, and restarts it.
    pub(crate) fn restart_with_memory(&mut self, memory: Option<&str>) -> Result<()> {
        self.told.memory = memory.map(str::to_owned);
        self.restart()
    }

    /// Memory setting, unless the server chooses it.
    pub(crate) fn memory(&self) -> Option<&str> {
        self.told.memory.as_deref()
    }

    /// Fails if the process has ended without being asked to.
    pub(crate) fn must_be_alive(&mut self) -> Result<()> {
        match self.process.try_wait().while_doing("asking after the server")? {
            None => Ok(()),
            Some(status) => Err(Failure::new(format!("the server is gone: {status}"))),
        }
    }

    /// Asks the process to stop, and waits until it has stopped cleanly.
    pub(crate) fn stop(&mut self) -> Result<String> {
        let number = self.process.id().to_string();
        command::run(Command::new("kill").args(["-TERM", &number]))?;
        match self.wait(STOP)? {
            Some(status) if status.success() => Ok("the server ended well when asked".to_owned()),
            Some(status) => Err(Failure::new(format!("the server ended with {status}"))),
            None => Err(Failure::new(format!("the server has not ended after {STOP:?}"))),
        }
    }

    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = clock::now() + limit;
        loop {
            let status = self.process.try_wait().while_doing("waiting for the server")?;
            if status.is_some() || clock::now() > deadline {
                return Ok(status);
            }
            clock::sleep(Duration::from_millis(20));
        }
    }

    /// Checks the volume with the program's own checker. No server may be running on it.
    pub(crate) fn check(&self) -> Result<String> {
        let report =
            command::capture(Command::new(&self.told.binary).arg("fsck").arg(&self.told.volume))?;
        Ok(report.lines().last().unwrap_or("nothing to tell").to_owned())
    }

    /// The folder that contains the volume.
    pub(crate) fn folder(&self) -> &Path {
        self.told.volume.parent().expect("a volume is in a folder")
    }

    /// The log of this server, and of earlier servers in its place.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.told.files.with_extension("log")).unwrap_or_default()
    }

    /// The disk image.
    pub(crate) fn image(&self) -> PathBuf {
        self.told.volume.join("disk.img")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, unless the test itself failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Told {
    /// Common parameters, with additional arguments.
    fn usual(binary: &Path, volume: &Path, more: &[&str]) -> Result<Told> {
        Ok(Told {
            binary: binary.to_owned(),
            volume: volume.to_owned(),
            files: volume.to_owned(),
            port: free_port()?,
            configuration: CONFIGURATION.to_owned(),
            memory: None,
            more: more.iter().map(|&word| word.to_owned()).collect(),
        })
    }

    /// Makes a volume; returns the parameters of its server.
    fn make(binary: &Path, volume: &Path, words: &[&str]) -> Result<Told> {
        command::capture(Command::new(binary).arg("mkfs").arg(volume).args(words))?;
        Told::usual(binary, volume, &[])
    }

    fn serve(self) -> Result<Server> {
        let process = self.start()?;
        Ok(Server { told: self, process })
    }

    /// Starts a server and waits until it is ready. Its log goes to a file beside the volume.
    fn start(&self) -> Result<Child> {
        let configuration = self.files.with_extension("toml");
        let cache = self.memory.iter().map(|memory| format!("cache = \"{memory}\"\n"));
        let text: String = cache.chain([self.configuration.clone()]).collect();
        fs::write(&configuration, text).while_doing(configuration.display())?;
        let path = self.files.with_extension("log");
        let log = File::options().append(true).create(true).open(&path);
        let log = log.while_doing(path.display())?;
        let mut serve = Command::new(&self.binary);
        serve.arg("serve").arg(&self.volume).args(&self.more);
        serve.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        serve.arg("--config").arg(configuration);
        serve.env("RUST_LOG", LOG).env("NO_COLOR", "1");
        serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process = serve.spawn().while_doing("starting the server")?;
        let output = process.stdout.take().expect("standard output was asked for");
        match wait_until_ready(&announce(output)) {
            Ok(()) => Ok(process),
            Err(failure) => {
                let _ = process.kill();
                let _ = process.wait();
                let log = fs::read_to_string(path).unwrap_or_default();
                Err(Failure::new(format!("{failure}; its log:\n{log}")))
            }
        }
    }
}

fn wait_until_ready(lines: &Receiver<String>) -> Result<()> {
    let deadline = clock::now() + READY;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(clock::now())) {
            Ok(line) if line.starts_with("ready") => return Ok(()),
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the server ended before it was ready"));
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(Failure::new(format!("the server is not ready after {READY:?}")));
            }
        }
    }
}

/// Forwards each line that the server prints, and continues reading when there is no receiver any
/// more, so that the server never blocks.
fn announce(output: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(io::Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

/// The last lines of each server log in `folder` and its subfolders, after the log's path.
pub(crate) fn last_words(folder: &Path) -> String {
    let mut words = String::new();
    for log in logs(folder, 1) {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines = text.lines().collect::<Vec<_>>();
        let last = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n");
        words.push_str(&format!("{}:\n{last}\n", log.display()));
    }
    words
}

/// The logs in `folder` and in its subfolders, up to this many levels down.
fn logs(folder: &Path, levels: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(io::Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if levels > 0 && path.is_dir() {
            found.extend(logs(&path, levels - 1));
        } else if path.is_file() && path.extension().is_some_and(|ending| ending == "log") {
            found.push(path);
        }
    }
    found
}

/// Ports for servers. They are below the system's range for outgoing connections: while a server is
/// down its clients try to connect, and a port of that range could connect to itself.
const PORTS: Range<u16> = 21_000..30_000;

/// An unused port of [`PORTS`]. It is not handed out again until all have been: a server that is
/// down just now needs its port when it starts again.
pub(crate) fn free_port() -> Result<u16> {
    free_ports().map(|[port]| port)
}

/// Several different ports of this kind.
pub(crate) fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    static NEXT: Mutex<Option<u16>> = Mutex::new(None);
    let mut next = NEXT.lock().expect("who holds it does not panic");
    let first = next.unwrap_or(PORTS.start + (std::process::id() % 8_000) as u16);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let all = (first..PORTS.end).chain(PORTS.start..first);
    let ports: Vec<_> = all.filter(free).take(COUNT).collect();
    *next = ports.last().map(|last| last + 1);
    ports.try_into().map_err(|_| Failure::new(format!("no free port in {PORTS:?}")))
}

/// Runs `duramen bench`; returns its report.
pub(crate) fn bench(binary: &Path, target: &str, more: &[&str]) -> Result<Value> {
    let mut bench = Command::new(binary);
    bench.args(["bench", target, "--json"]).args(more);
    let report = command::capture(&mut bench)?;
    serde_json::from_str(&report).while_doing("the report of duramen bench")
}

/// Starts `duramen bench` in the background. Its output is dropped.
pub(crate) fn begin_bench(binary: &Path, target: &str, more: &[&str]) -> Result<Child> {
    let mut bench = Command::new(binary);
    bench.args(["bench", target]).args(more);
    bench.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    bench.spawn().while_doing("starting duramen bench")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn a_port_is_not_given_twice_while_no_server_has_it_yet() {
        let given = [free_ports().expect("two are free"), free_ports().expect("two more are")];
        let [[one, two], [three, four]] = given;
        assert_eq!(BTreeSet::from([one, two, three, four]).len(), 4, "{given:?}");
    }

    #[test]
    fn the_last_words_are_those_of_all_servers() {
        let folder = TemporaryFolder::new("last-words").expect("a temporary folder");
        let further = folder.path().join("further");
        fs::create_dir_all(further.join("deeper")).expect("there is room");
        let log = (0..=LAST_WORDS).map(|number| format!("line {number}\n")).collect::<String>();
        let logs = [folder.path().join("volume.log"), further.join("volume.log")];
        for path in &logs {
            fs::write(path, &log).expect("there is room");
        }
        fs::write(further.join("deeper/volume.log"), &log).expect("there is room");
        let words = last_words(folder.path());
        for path in &logs {
            let begin = format!("{}:\nline 1\nline 2\n", path.display());
            assert!(words.contains(&begin), "{words}");
        }
        assert_eq!(words.matches(&format!("line {LAST_WORDS}\n")).count(), 2, "{words}");
    }
}
