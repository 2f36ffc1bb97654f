//! A trace of the clients' calls, recorded while they are served: see docs/bench.md.
//!
//! It is a tool to measure another server, or this one, with a realistic load. The reactor itself
//! writes the file, through a buffer: the recording of a load slows it a little. If the file cannot
//! be written, the recording ends, but not the server.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;
use dispatch::CallObserver;
use runtime::Instant;
use trace::{Begun, Entry, MAGIC};

/// Size of the write buffer, in bytes.
const BUFFER: usize = 1 << 20;

/// A recording.
pub(crate) struct Recording {
    file: RefCell<BufWriter<File>>,
    start: Instant,
    has_failed: Cell<bool>,
}

/// Creates a file for its owner only: it contains the names of other users' files.
fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

impl Recording {
    /// Starts a recording in a new file.
    ///
    /// # Errors
    /// The operating system's error, also if the file exists already.
    pub(crate) fn begin(path: &Path, start: Instant) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BUFFER, create(path)?);
        file.write_all(MAGIC)?;
        Ok(Self { file: RefCell::new(file), start, has_failed: Cell::new(false) })
    }

    /// Writes the rest of the buffer.
    pub(crate) fn finish(&self) {
        self.try_to(|file| file.flush());
    }

    fn try_to(&self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.has_failed.get() {
            return;
        }
        if let Err(error) = work(&mut self.file.borrow_mut()) {
            self.has_failed.set(true);
            tracing::error!(%error, "the trace cannot be written; it ends here");
        }
    }
}

impl CallObserver for Recording {
    fn answered(&self, call: Begun, times: (Instant, Instant), connection: u64, reply: &[Bytes]) {
        let since = |instant: Instant| instant.0.saturating_sub(self.start.0);
        let times_ns = (since(times.0), since(times.1));
        let entry = Entry::seen(call, times_ns, connection, reply);
        self.try_to(|file| file.write_all(&entry.encode()));
    }
}
