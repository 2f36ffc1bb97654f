//! Cleans up, even if this process dies.
//!
//! A shell in its own process group holds a list of commands and waits for the end of its input,
//! which comes when this value is dropped, and also when this process is interrupted or killed.
//! Then it runs the list, the last promise first. Devices are detached and file systems unmounted
//! in no other way, so the cleanup after an interrupt is the same as every time.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::failure::While;

/// Reads the list; a line is a command.
const SHELL: &str = "
trap '' INT TERM HUP
list=
while IFS= read -r line; do
    list=\"$line
$list\"
done
eval \"$list\"
";

/// The janitor.
pub(crate) struct Janitor(Child);

impl Janitor {
    /// Starts a janitor with an empty list.
    pub(crate) fn start() -> Result<Janitor> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SHELL]).stdin(Stdio::piped()).process_group(0);
        shell.spawn().map(Janitor).while_doing("starting a shell that tidies up")
    }

    /// Adds a command, of one line, to be run at the end.
    pub(crate) fn promise(&mut self, command: &str) -> Result<()> {
        assert!(!command.contains('\n'), "a promise is a line: {command}");
        let input = self.0.stdin.as_mut().expect("it was asked for, and is taken at the end alone");
        writeln!(input, "{command}").while_doing("telling the shell that tidies up")
    }

    /// Promises to remove a folder.
    pub(crate) fn remove(&mut self, folder: &Path) -> Result<()> {
        self.promise(&format!("rm -rf --one-file-system {}", quoted(folder)))
    }

    /// Promises to end a process, if it still exists then and its command line contains this word.
    pub(crate) fn end(&mut self, process: u32, word: &str) -> Result<()> {
        let is_there = format!("grep -qsF {} /proc/{process}/cmdline", quoted(word));
        let wait = format!("for i in 1 2 3 4 5 6 7 8 9 10; do {is_there} || break; sleep 1; done");
        self.promise(&format!(
            "if {is_there}; then kill {process}; {wait}; {is_there} && kill -KILL {process}; fi"
        ))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Quotes a word for a shell, whatever it contains.
pub(crate) fn quoted(word: impl AsRef<Path>) -> String {
    format!("'{}'", word.as_ref().to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;
    use std::fs;

    #[test]
    fn promises_are_kept_and_the_last_first() {
        let folder = TemporaryFolder::new("janitor").expect("a folder");
        let (gone, seen) = (folder.path().join("it's gone"), folder.path().join("seen"));
        fs::create_dir(&gone).expect("a folder");
        let mut sleeper = Command::new("sleep").arg("1000").spawn().expect("a process");
        let mut stranger = Command::new("sleep").arg("1001").spawn().expect("a process");
        let mut janitor = Janitor::start().expect("a shell");
        for word in ["one", "two"] {
            janitor.promise(&format!("echo {word} >> {}", quoted(&seen))).expect("it listens");
        }
        janitor.promise("false").expect("it listens");
        janitor.remove(&gone).expect("it listens");
        janitor.end(sleeper.id(), "1000").expect("it listens");
        janitor.end(stranger.id(), "1000").expect("it listens");
        assert!(!seen.exists(), "nothing is done before the end");
        // The sleeper stays a zombie until it is waited for, and a zombie has no command line.
        drop(janitor);
        assert_eq!(fs::read_to_string(&seen).expect("it is there"), "two\none\n");
        assert!(!gone.exists());
        assert!(!sleeper.wait().expect("it has ended").success());
        assert!(stranger.try_wait().expect("a child").is_none(), "its number is another's now");
        stranger.kill().and_then(|()| stranger.wait()).expect("it ends");
    }

    #[test]
    fn an_interrupt_of_its_owner_is_no_reason_to_forget() {
        let folder = TemporaryFolder::new("janitor").expect("a folder");
        let seen = folder.path().join("seen");
        let mut janitor = Janitor::start().expect("a shell");
        janitor.promise(&format!("touch {}", quoted(&seen))).expect("it listens");
        let group = format!("-{}", janitor.0.id());
        for signal in ["-INT", "-TERM", "-HUP"] {
            // It may not have reached its first line, where it ignores signals.
            let _ = janitor.promise("true");
            crate::clock::sleep(std::time::Duration::from_millis(200));
            crate::command::run(Command::new("kill").args([signal, "--", &group])).expect("kill");
        }
        drop(janitor);
        assert!(seen.exists());
    }
}
