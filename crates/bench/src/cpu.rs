//! Processor time of processes on this machine.
//!
//! The server's process is found by its listening socket. A server on another machine, or one whose
//! process is not visible to us, has no figure; none is guessed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Ticks a second in `/proc`: a fixed number for programs, whatever the kernel's own tick is.
const TICKS_PER_SECOND: u64 = 100;

/// State of a listening socket.
const LISTEN: &str = "0A";

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process(String);

impl Process {
    /// The current process.
    pub fn own() -> Self {
        Self("self".to_owned())
    }

    /// The process that listens at `address`, if it is on this machine and visible.
    pub fn listening_at(address: SocketAddr) -> Option<Self> {
        if !address.ip().is_loopback() {
            return None;
        }
        let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .into_iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .flat_map(|table| listening(&table, address.port()))
            .collect();
        let entries = fs::read_dir("/proc").ok()?;
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut numbers = numbers.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        numbers.find(|number| has_one(number, &sockets)).map(Self)
    }

    /// Processor time of all its threads, including those that have ended.
    pub fn time(&self) -> Option<Duration> {
        let text = fs::read_to_string(Path::new("/proc").join(&self.0).join("stat")).ok()?;
        time(&text)
    }
}

/// User and system time of a line of `/proc/*/stat`.
fn time(text: &str) -> Option<Duration> {
    // The second field is a name in parentheses, which may contain anything.
    let mut fields = text.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// The inodes of the sockets in a kernel table that listen on `port`.
fn listening(table: &str, port: u16) -> Vec<String> {
    let inode = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next()?;
        let state = fields.nth(1)?;
        let of_port = local.ends_with(&format!(":{port:04X}"));
        (of_port && state == LISTEN).then(|| fields.nth(5).map(str::to_owned))?
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn has_one(process: &str, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(Path::new("/proc").join(process).join("fd")) else {
        return false;
    };
    let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets.any(|target| {
        let target = target.to_string_lossy();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| sockets.iter().any(|socket| socket == inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_socket_and_has_used_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens");
        let found = Process::listening_at(address).expect("it is this process");
        assert_eq!(found, Process(std::process::id().to_string()));
        assert!(found.time().is_some());
        drop(listener);
        assert_eq!(Process::listening_at(address), None);
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_misleads_nobody() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 5";
        assert_eq!(time(line), Some(Duration::from_secs(3)));
        assert_eq!(time("7 (x"), None);
    }
}
