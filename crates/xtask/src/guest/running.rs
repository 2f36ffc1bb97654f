//! A guest that has been booted.
//!
//! 1. The script's output is read from the moment of boot, so the guest never waits for us.
//! 2. The guest's processes share a process group of their own, and dropping a [`Running`] ends
//!    that group: no guest outlives the chore that started it.
//! 3. The script's status is a file that the guest's first process writes last. A guest without
//!    that file did not finish, whatever it printed. A guest that has written it gets a little time
//!    to power off, and is then killed: a kernel that hangs during shutdown keeps the output open.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::failure::While;
use crate::temporary::TemporaryFolder;
use crate::{Failure, Result, clock, command};

/// Number of lines of the kernel's console to show when a guest fails.
const CONSOLE_LINES: usize = 12;
/// Time for a guest to power off after its script has closed its output, or written its status.
const POWER_OFF: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });
/// Time to wait for a line before checking for the script's status.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Result of a guest.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The script's exit status.
    pub status: i32,
    /// Output of the script, both streams together.
    pub output: String,
}

/// Output of a script within a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The script printed this line.
    Line(String),
    /// The script printed nothing.
    Silence,
    /// The script will print no more.
    End,
}

/// A running guest.
#[derive(Debug)]
pub struct Running {
    kernel: Child,
    lines: Receiver<String>,
    folder: TemporaryFolder,
    deadline: Instant,
    /// Time at which to kill the kernel, once the script is known to have ended.
    power_off: Option<Instant>,
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
        Ok(Running { kernel, lines: read_lines(output), folder, deadline, power_off: None })
    }

    /// The next line that the script printed, or `None` when it will print no more. Fails when the
    /// time limit has passed.
    pub fn next_line(&mut self) -> Result<Option<String>> {
        match self.next_line_before(self.deadline)? {
            Heard::Line(line) => Ok(Some(line)),
            Heard::End | Heard::Silence => Ok(None),
        }
    }

    /// The next output, for a caller that has other work at `moment`.
    pub(crate) fn next_line_before(&mut self, moment: Instant) -> Result<Heard> {
        loop {
            let left = self.deadline.min(moment).saturating_duration_since(clock::now());
            match self.lines.recv_timeout(left.min(LOOK_INTERVAL)) {
                Ok(line) => return Ok(Heard::Line(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(Heard::End),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.status().is_ok() && self.is_overdue() {
                return Ok(Heard::End);
            }
            if clock::now() >= self.deadline {
                return Err(Failure::new(format!("the guest ran out of time{}", self.console())));
            }
            if clock::now() >= moment {
                return Ok(Heard::Silence);
            }
        }
    }

    /// Waits until the guest is off, and returns the script's exit status.
    pub fn finish(mut self) -> Result<i32> {
        while self.next_line()?.is_some() {}
        while self.kernel.try_wait().while_doing("the guest's kernel")?.is_none() {
            if self.is_overdue() {
                break;
            }
            clock::sleep(Duration::from_millis(10));
        }
        self.status().map_err(|status| {
            let reason = if status.is_empty() { "it gave no result" } else { status.trim() };
            Failure::new(format!("the guest failed: {reason}{}", self.console()))
        })
    }

    /// Whether the script has ended, and the guest's time to power off has passed since.
    fn is_overdue(&mut self) -> bool {
        clock::now() > *self.power_off.get_or_insert_with(|| clock::now() + POWER_OFF)
    }

    /// The script's status, or other contents of its file.
    fn status(&self) -> std::result::Result<i32, String> {
        let status = fs::read_to_string(self.folder.path().join("status")).unwrap_or_default();
        status.trim().parse().map_err(|_| status)
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
            // just ended by itself there is nothing to signal, which is fine.
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

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn started(script: &str, time_limit: Duration) -> Running {
        let folder = TemporaryFolder::new("guest").expect("a temporary folder");
        let mut kernel = Command::new("sh");
        kernel.args(["-c", script]).current_dir(folder.path()).stdout(Stdio::piped());
        Running::new(&mut kernel, folder, time_limit).expect("the shell is there")
    }

    #[test]
    fn a_kernel_that_hangs_on_its_way_down_does_not_take_the_status_along() {
        let hour = Duration::from_secs(3600);
        let mut guest = started("echo line; echo 3 > status; exec sleep 3600", hour);
        assert_eq!(guest.next_line().expect("there is time"), Some("line".to_owned()));
        assert_eq!(guest.finish().expect("the script has ended"), 3);
    }

    #[test]
    fn a_guest_without_a_status_has_failed() {
        let of_time = started("exec sleep 3600", Duration::from_millis(10)).finish();
        let of_status = started("echo line", Duration::from_secs(3600)).finish();
        for (outcome, reason) in [(of_time, "ran out of time"), (of_status, "gave no result")] {
            let failure = outcome.expect_err("it left no status").to_string();
            assert!(failure.contains(reason), "{failure}");
        }
    }
}
