//! A trace of what clients ask, written while they are served: see docs/bench.md.
//!
//! It is a tool for measuring another server, or this one, with a load of one's own. The reactor
//! itself writes the file, through a buffer: the recording of a load slows it a little. A file that
//! can be written no more ends the recording, not the server.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;
use dispatch::CallObserver;
use runtime::Instant;
use trace::{Begun, Entry, MAGIC};

/// How much is gathered before it is written.
const BUFFER: usize = 1 << 20;

/// A recording.
pub(crate) struct Recording {
    file: RefCell<BufWriter<File>>,
    start: Instant,
    has_failed: Cell<bool>,
}

/// A new file for its owner alone: it names what others have.
fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

impl Recording {
    /// Begins a recording in a new file.
    ///
    /// # Errors
    /// The operating system's; that there is a file already is one.
    pub(crate) fn begin(path: &Path, start: Instant) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BUFFER, create(path)?);
        file.write_all(MAGIC)?;
        Ok(Self { file: RefCell::new(file), start, has_failed: Cell::new(false) })
    }

    /// Writes what is still gathered.
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
