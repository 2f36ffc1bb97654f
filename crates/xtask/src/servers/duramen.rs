//! Our own server: a process, its volume and its port.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::failure::While;
use crate::{Failure, Repository, Result, clock, command};

/// How long the server may take until it says that it is ready, also after a crash.
const READY: Duration = Duration::from_secs(60);
/// How long the server may take to end when it is asked to.
const STOP: Duration = Duration::from_secs(60);
/// How many lines of its log to show when something failed.
const LAST_WORDS: usize = 40;
/// The size of the volume.
const SIZE: &str = "10G";
/// The guest's root is root here, so that it can make devices and give files away.
const CONFIGURATION: &str = r#"
[exports.volume]
clients = [{ network = "127.0.0.1", access = "rw", squash = "none" }]
"#;
/// What makes a server forget in a crash what it has answered.
const FORGETFUL: &str = "\n[reply_cache]\nsurvives = false\n";
/// What it logs: enough to see each call that was repeated and not executed again.
const LOG: &str = "info,dispatch::reply_cache=debug";

/// A server of one volume.
#[derive(Debug)]
pub(crate) struct Server {
    binary: PathBuf,
    volume: PathBuf,
    /// Its configuration and what it logs, but for the endings of their names.
    files: PathBuf,
    port: u16,
    /// What else it is told.
    more: Vec<String>,
    process: Child,
}

/// Builds the release binary; gives its path.
pub(crate) fn build(repository: &Repository) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--bin", "duramen"]).current_dir(repository.root());
    command::run(&mut cargo)?;
    Ok(repository.target().join("release/duramen"))
}

impl Server {
    /// Makes a volume in the folder `volume` and serves it.
    pub(crate) fn create(binary: &Path, volume: &Path) -> Result<Server> {
        Server::new(binary, volume, CONFIGURATION, &["--create", SIZE])
    }

    /// Serves `volume` with so much memory; makes it first if it is to have a size.
    pub(crate) fn with_memory(
        binary: &Path,
        volume: &Path,
        memory: &str,
        size: Option<&str>,
    ) -> Result<Server> {
        let configuration = format!("cache = \"{memory}\"\n{CONFIGURATION}");
        let more = size.map_or(Vec::new(), |size| vec!["--create", size]);
        Server::new(binary, volume, &configuration, &more)
    }

    /// The same, of the same program that forgets in a crash what it has answered.
    pub(crate) fn create_forgetful(&self, volume: &Path) -> Result<Server> {
        let configuration = format!("{CONFIGURATION}{FORGETFUL}");
        Server::new(&self.binary, volume, &configuration, &["--create", SIZE])
    }

    /// Makes a volume on a device, and serves it with the device `log`. What else belongs to it is
    /// in `folder`.
    pub(crate) fn on_devices(
        binary: &Path,
        disk: &Path,
        log: &Path,
        folder: &Path,
    ) -> Result<Server> {
        command::capture(Command::new(binary).arg("mkfs").arg(disk))?;
        let export = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = CONFIGURATION.replace("exports.volume", &format!("exports.{export}"));
        let log = log.to_string_lossy();
        Server::beside(binary, disk, &folder.join("volume"), &text, &["--log", &log])
    }

    /// Serves the disk image `volume` as it is.
    pub(crate) fn open(binary: &Path, volume: &Path) -> Result<Server> {
        Server::new(binary, volume, CONFIGURATION, &[])
    }

    fn new(binary: &Path, volume: &Path, text: &str, more: &[&str]) -> Result<Server> {
        Server::beside(binary, volume, volume, text, more)
    }

    fn beside(
        binary: &Path,
        volume: &Path,
        files: &Path,
        text: &str,
        more: &[&str],
    ) -> Result<Server> {
        let port = free_port()?;
        let configuration = files.with_extension("toml");
        fs::write(&configuration, text).while_doing(configuration.display())?;
        let process = start(binary, volume, files, port, more)?;
        let [binary, volume, files] = [binary, volume, files].map(Path::to_owned);
        let more = more.iter().map(|&word| word.to_owned()).collect();
        Ok(Server { binary, volume, files, port, more, process })
    }

    /// What `duramen bench` calls it.
    pub(crate) fn target(&self) -> String {
        let name = self.volume.file_name().unwrap_or_default().to_string_lossy();
        format!("nfs://127.0.0.1:{}/{name}", self.port)
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The port of both its services.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Kills the process without warning, and starts another on the same port.
    pub(crate) fn crash(&mut self) -> Result<()> {
        self.process.kill().while_doing("killing the server")?;
        self.process.wait().while_doing("killing the server")?;
        self.start_again()
    }

    /// Asks the process to end, and starts another on the same port when it has ended well.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.start_again()
    }

    fn start_again(&mut self) -> Result<()> {
        let more: Vec<&str> = self.more.iter().map(String::as_str).collect();
        self.process = start(&self.binary, &self.volume, &self.files, self.port, &more)?;
        Ok(())
    }

    /// Lets it have so much memory, or what it has by itself, from a restart on.
    pub(crate) fn restart_with_memory(&mut self, memory: Option<&str>) -> Result<()> {
        let configuration = self.files.with_extension("toml");
        let old = fs::read_to_string(&configuration).while_doing(configuration.display())?;
        let cache = memory.map(|memory| format!("cache = \"{memory}\""));
        let others = old.lines().filter(|line| !line.starts_with("cache =")).map(str::to_owned);
        let new: Vec<String> = cache.into_iter().chain(others).collect();
        fs::write(&configuration, new.join("\n")).while_doing(configuration.display())?;
        self.restart()
    }

    /// Fails if the process has ended without being asked to.
    pub(crate) fn must_be_alive(&mut self) -> Result<()> {
        match self.process.try_wait().while_doing("asking after the server")? {
            None => Ok(()),
            Some(status) => Err(Failure::new(format!("the server is gone: {status}"))),
        }
    }

    /// Asks the process to end, and waits until it has ended well.
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

    /// Checks the volume with the program's own checker. Nobody may serve it.
    pub(crate) fn check(&self) -> Result<String> {
        let report = command::capture(Command::new(&self.binary).arg("fsck").arg(&self.volume))?;
        Ok(report.lines().last().unwrap_or("nothing to tell").to_owned())
    }

    /// The folder where the volume is.
    pub(crate) fn folder(&self) -> &Path {
        self.volume.parent().expect("a volume is in a folder")
    }

    /// All that this server has logged, and those that stood in its place before.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.files.with_extension("log")).unwrap_or_default()
    }

    /// The disk image.
    pub(crate) fn image(&self) -> PathBuf {
        self.volume.join("disk.img")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, unless the test itself failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server and waits until it says that it is ready. What it logs goes to a file beside
/// the volume.
fn start(binary: &Path, volume: &Path, files: &Path, port: u16, more: &[&str]) -> Result<Child> {
    let log = files.with_extension("log");
    let log = File::options().append(true).create(true).open(&log).while_doing(log.display())?;
    let mut serve = Command::new(binary);
    serve.arg("serve").arg(volume).args(["--listen", &format!("127.0.0.1:{port}")]).args(more);
    serve.arg("--config").arg(files.with_extension("toml"));
    serve.env("RUST_LOG", LOG).env("NO_COLOR", "1");
    serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut process = serve.spawn().while_doing("starting the server")?;
    let output = process.stdout.take().expect("standard output was asked for");
    match wait_until_ready(&announce(output)) {
        Ok(()) => Ok(process),
        Err(failure) => {
            let _ = process.kill();
            let _ = process.wait();
            let log = fs::read_to_string(files.with_extension("log")).unwrap_or_default();
            Err(Failure::new(format!("{failure}; its log:\n{log}")))
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

/// Sends each line that the server prints, and reads on when nobody listens any more, so that the
/// server never waits for us.
fn announce(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

/// The last lines of the log of the server of our own volume, in the test's `folder`.
pub(crate) fn last_words(folder: &Path) -> String {
    let log = fs::read_to_string(folder.join("volume.log")).unwrap_or_default();
    let lines = log.lines().collect::<Vec<_>>();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
}

/// A port that nobody uses. It is one below those that the system gives to outgoing connections:
/// while the server is down its clients try to connect, and a port of that range could meet
/// itself.
pub(crate) fn free_port() -> Result<u16> {
    free_ports().map(|[port]| port)
}

/// The same for several, which differ.
pub(crate) fn free_ports<const COUNT: usize>() -> Result<[u16; COUNT]> {
    let first = 21_000 + (std::process::id() % 8_000) as u16;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports: Vec<_> = (first..30_000).filter(free).take(COUNT).collect();
    ports.try_into().map_err(|_| Failure::new("no free port from 21000 to 30000"))
}

/// Runs `duramen bench`; gives its report.
pub(crate) fn bench(binary: &Path, target: &str, more: &[&str]) -> Result<serde_json::Value> {
    let mut bench = Command::new(binary);
    bench.args(["bench", target, "--json"]).args(more);
    let report = command::capture(&mut bench)?;
    serde_json::from_str(&report).while_doing("the report of duramen bench")
}
