//! Messages of the program on standard error, which never blocks or ends it.
//!
//! A line that cannot be written, because a disk is full or a pipe has no reader, is dropped and
//! counted. A server passes its lines to a thread of their own: a reader that has stopped reading
//! blocks that thread, but no client. Lines that do not fit into the queue meanwhile are dropped,
//! too. The number of missing lines is reported as soon as a line can be written again.
//!
//! Invariant: nothing here panics or waits for standard error, except the thread, and [`drain`] for
//! a moment.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of lines in the queue.
const QUEUE: usize = 1024;
/// Time that the end of the process waits for the last lines.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Queue of the thread, once it was started.
static QUEUED: OnceLock<SyncSender<Message>> = OnceLock::new();
/// Number of dropped lines that were not reported yet.
static DROPPED: AtomicU64 = AtomicU64::new(0);

enum Message {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Mark(SyncSender<()>),
}

/// Quotes a path for a shell with a backslash before each special character, so that a command in a
/// sentence can be quoted as a whole.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |letter: char| letter.is_alphanumeric() || "_@%+=:,./-".contains(letter);
    let mut word = String::with_capacity(text.len());
    if text.starts_with('-') {
        word.push_str("./"); // otherwise it would be an option
    }
    for letter in text.chars() {
        match letter {
            '\n' => word.push_str("\"\n\""), // a backslash would remove it
            plain if is_plain(plain) => word.push(plain),
            other => word.extend(['\\', other]),
        }
    }
    word
}

/// Prints a message to the user.
pub(crate) fn say(sentence: impl fmt::Display) {
    put(format!("duramen: {sentence}\n").into_bytes());
}

/// Moves the writing of lines to a thread of its own. If no thread can be started, lines are
/// written as before.
pub(crate) fn in_background() {
    let (queue, messages) = mpsc::sync_channel(QUEUE);
    let thread = thread::Builder::new().name("words".to_owned());
    if thread.spawn(move || write_on(&messages, &mut io::stderr())).is_ok() {
        let _ = QUEUED.set(queue); // a second thread ends at once
    }
}

/// Waits for the queued lines to be written, but not for long.
pub(crate) fn drain() {
    let (answer, answered) = mpsc::sync_channel(1);
    if let Some(queue) = QUEUED.get()
        && queue.try_send(Message::Mark(answer)).is_ok()
    {
        // The process ends in any case.
        let _ = answered.recv_timeout(LAST_WORDS);
    }
}

fn put(line: Vec<u8>) {
    let was_put = match QUEUED.get() {
        Some(queue) => queue.try_send(Message::Line(line)).is_ok(),
        None => io::stderr().write_all(&line).is_ok(),
    };
    if !was_put {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

fn write_on(messages: &Receiver<Message>, output: &mut dyn Write) {
    for message in messages {
        match message {
            Message::Line(line) => write(&line, output),
            // The caller may have stopped waiting.
            Message::Mark(answer) => drop(answer.try_send(())),
        }
    }
}

fn write(line: &[u8], output: &mut dyn Write) {
    if output.write_all(line).is_err() {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        let told = format!("duramen: {dropped} lines before this one could not be written\n");
        if output.write_all(told.as_bytes()).is_err() {
            DROPPED.fetch_add(dropped, Ordering::Relaxed);
        }
    }
}

/// Writer for the lines of `tracing`, each as one write.
pub(crate) struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        put(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that accepts lines unless it is full.
    #[derive(Default)]
    struct Paper {
        is_full: bool,
        text: String,
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.text += std::str::from_utf8(bytes).expect("text");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_path_is_one_word_to_a_shell() {
        for name in ["data", "a b", "it's", "$HOME/`x`", "a\nb", "back\\slash", "-x", "\u{e9}*?!~"]
        {
            let script = format!("printf %s {}", quoted(Path::new(name)));
            let run = std::process::Command::new("sh").args(["-c", &script]).output();
            let told = String::from_utf8(run.expect("there is a shell").stdout).expect("text");
            assert_eq!(told.strip_prefix("./").unwrap_or(&told), name, "{script}");
        }
        assert_eq!(quoted(Path::new("/srv/data-1/disk.img")), "/srv/data-1/disk.img");
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_when_one_can() {
        let mut paper = Paper::default();
        write(b"one\n", &mut paper);
        paper.is_full = true;
        write(b"two\n", &mut paper);
        write(b"three\n", &mut paper);
        paper.is_full = false;
        write(b"four\n", &mut paper);
        write(b"five\n", &mut paper);
        let told = "duramen: 2 lines before this one could not be written\n";
        assert_eq!(paper.text, format!("one\nfour\n{told}five\n"));
    }
}
