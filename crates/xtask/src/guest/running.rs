//! A guest that has been booted.
//!
//! 1. The script's output is read from the moment of boot, so the guest never waits for us.
//! 2. The guest's processes share a process group of their own, and dropping a [`Running`] ends
//!    that group: no guest outlives the chore that started it.
//! 3. The script's status is a file that the guest's first process writes last. A guest without
//!    that file did not finish, whatever it printed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::failure::While;
use crate::temporary::TemporaryFolder;
use crate::{Failure, Result, clock, command};

/// How much of the kernel's console to show when a guest fails.
const CONSOLE_LINES: usize = 12;
/// How long a guest may take to power off after its script has closed its output.
const POWER_OFF: Duration = Duration::from_secs(20);

/// How a guest ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The script's exit status.
    pub status: i32,
    /// What the script printed, both streams together.
    pub output: String,
}

/// What was heard of a script in a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It printed this line.
    Line(String),
    /// It printed nothing.
    Silence,
    /// It will print no more.
    End,
}

/// A guest under way.
#[derive(Debug)]
pub struct Running {
    kernel: Child,
    lines: Receiver<String>,
    folder: TemporaryFolder,
    deadline: Instant,
}

impl Running {
    /// Starts `kernel`, which logs to the file `console` in `folder`.
    pub(super) fn new(
        kernel: &mut Command,
        folder: TemporaryFolder,
        time_limit: Duration,
    ) -> Result<Running> {
        let mut kernel = kernel.process_group(0).spawn().while_doing("the guest's kernel")?;
        let output = kernel.stdout.take().expect("the kernel's standard output is a pipe");
        let deadline = clock::now() + time_limit;
        Ok(Running { kernel, lines: read_lines(output), folder, deadline })
    }

    /// The next line that the script printed, or nothing when it will print no more. Fails when
    /// the time limit has passed.
    pub fn next_line(&mut self) -> Result<Option<String>> {
        match self.next_line_before(self.deadline)? {
            Heard::Line(line) => Ok(Some(line)),
            Heard::End | Heard::Silence => Ok(None),
        }
    }

    /// The same for a caller that has something else to do at `moment`.
    pub(crate) fn next_line_before(&mut self, moment: Instant) -> Result<Heard> {
        let left = self.deadline.min(moment).saturating_duration_since(clock::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Ok(Heard::Line(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(Heard::End),
            Err(RecvTimeoutError::Timeout) if moment < self.deadline => Ok(Heard::Silence),
            Err(RecvTimeoutError::Timeout) => {
                Err(Failure::new(format!("the guest ran out of time{}", self.console())))
            }
        }
    }

    /// Waits until the guest is off, and gives the script's exit status.
    pub fn finish(mut self) -> Result<i32> {
        while self.next_line()?.is_some() {}
        let power_off = clock::now() + POWER_OFF;
        while self.kernel.try_wait().while_doing("the guest's kernel")?.is_none() {
            if clock::now() > power_off {
                return Err(Failure::new(format!("the guest hangs{}", self.console())));
            }
            clock::sleep(Duration::from_millis(10));
        }
        let status = fs::read_to_string(self.folder.path().join("status")).unwrap_or_default();
        status.trim().parse().map_err(|_| {
            let reason = if status.is_empty() { "it gave no result" } else { status.trim() };
            Failure::new(format!("the guest failed: {reason}{}", self.console()))
        })
    }

    /// The last lines of the kernel's console, as the end of a sentence.
    fn console(&self) -> String {
        let console = fs::read(self.folder.path().join("console")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines = console.lines().collect::<Vec<_>>();
        let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
        format!("; its console:\n{}", last.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.kernel.try_wait(), Ok(Some(_))) {
            // The kernel's own helpers (its processes, slirp) are in its process group. If it has
            // just ended by itself there is nothing to signal, which is as good.
            let group = format!("-{}", self.kernel.id());
            let _ = command::capture(Command::new("kill").args(["-KILL", "--", &group]));
            let _ = self.kernel.wait();
        }
    }
}

fn read_lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(std::io::Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}
