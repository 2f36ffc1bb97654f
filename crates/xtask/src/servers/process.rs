//! A server that we did not write, as a child process.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::failure::While;
use crate::{Failure, Result, clock, command};

/// Time limit for a start.
const READY: Duration = Duration::from_secs(30);

/// Time limit for a stop on request.
const END: Duration = Duration::from_secs(10);

/// A process that ends with this value.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a process without output.
    pub(super) fn start(name: &str, program: &mut Command) -> Result<Process> {
        let quiet = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().map(Process).while_doing(name)
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the server listens on the port.
    pub(super) fn listens(&mut self, name: &str, port: u16) -> Result<()> {
        let deadline = clock::now() + READY;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.0.try_wait().while_doing(name)? {
                return Err(Failure::new(format!("{name} has ended: {status}")));
            }
            if clock::now() > deadline {
                return Err(Failure::new(format!("{name} does not listen after {READY:?}")));
            }
            clock::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = command::run(Command::new("kill").args(["-TERM", &self.0.id().to_string()]));
        let deadline = clock::now() + END;
        while matches!(self.0.try_wait(), Ok(None)) && clock::now() < deadline {
            clock::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
