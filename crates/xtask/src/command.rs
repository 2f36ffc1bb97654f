//! Running other programs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::failure::While;
use crate::{Failure, Result};

/// Text of `command` for a sentence: its program and arguments.
fn spoken(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Runs `command` with our own output, and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().while_doing(spoken(command))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("{}: {status}", spoken(command))))
    }
}

/// Runs `command`, and returns its output. Fails, with its error output, unless it succeeds.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().while_doing(spoken(command))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    Err(Failure::new(format!(
        "{}: {}\n{}{}",
        spoken(command),
        output.status,
        printed.trim_end(),
        complaint.trim_end()
    )))
}

/// Runs `command`, and returns whether it succeeded, and its output, error output included.
pub(crate) fn output(command: &mut Command) -> Result<(bool, String)> {
    let output = command.stdin(Stdio::null()).output().while_doing(spoken(command))?;
    let printed = [&output.stdout[..], &output.stderr[..]].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&printed).into_owned()))
}

/// Runs `command`, shows each line of its output and passes it to `see`; returns whether the
/// command succeeded.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    let mut child = command.stdout(Stdio::piped()).spawn().while_doing(spoken(command))?;
    let output = child.stdout.take().expect("standard output was asked for two lines above");
    for line in BufReader::new(output).split(b'\n') {
        let line = line.while_doing(spoken(command))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        see(&line);
    }
    Ok(child.wait().while_doing(spoken(command))?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_complaint() {
        let failure = capture(Command::new("sh").args(["-c", "echo lost >&2; exit 3"]));
        let sentence = failure.unwrap_err().to_string();
        assert!(sentence.starts_with("sh -c echo lost >&2; exit 3: exit status: 3"), "{sentence}");
        assert!(sentence.ends_with("lost"), "{sentence}");
    }

    #[test]
    fn every_line_is_seen() {
        let mut lines = Vec::new();
        let succeeded = watch(Command::new("printf").arg("one\\ntwo"), |line| {
            lines.push(line.to_owned());
        });
        assert_eq!(succeeded, Ok(true));
        assert_eq!(lines, ["one", "two"]);
    }
}
