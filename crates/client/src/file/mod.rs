//! A file over NFS, with write-behind and read-ahead by a number of *block-I/O daemons*.
//!
//! A daemon is a call in flight while the caller does something else. Without daemons a write waits
//! for its replies, and a read has one piece in flight.
//!
//! Invariants:
//! 1. When [`File::commit`] or [`File::close`] returns `Ok`, every byte of every write before it is
//!    durable, except those for which an error was reported.
//! 2. An error of a piece or of a COMMIT is reported once, by the next write, commit or close. Its
//!    data is given up: a caller that needs it writes it again.
//! 3. The held bytes are at most the uncommitted bytes that the options allow, and a piece for each
//!    daemon; for read-ahead, a piece for each daemon and the READs in flight.
//! 4. A read returns data that was written before it.
//!
//! Not asserted: 1, 2 and 4, which tests check against a model, whatever a server does; 3, which is
//! asserted below, as invariant 5 of `pieces` and as 2 and 3 of `ahead`.
//!
//! Commit point: the end of [`File::commit`].

mod ahead;
mod behind;
mod calls;
mod pieces;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use nfs::nfs3::Status;
use runtime::Runtime;

pub use calls::{Calls, Found, Remote, Written};

use crate::call::CallError;
use crate::planted::{Bug, is_planted};
use ahead::Ahead;
use behind::Behind;
use pieces::Bounds;

/// Options of a file.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of block-I/O daemons: calls in flight in the background.
    pub daemons: usize,
    /// The longest WRITE, in bytes.
    pub write_size: u32,
    /// The longest READ, in bytes.
    pub read_size: u32,
    /// Bytes that may wait for a COMMIT. At half of them the file makes one by itself.
    pub uncommitted_max: u64,
    /// Pause before a retry when the server says that something takes long.
    pub pause: Duration,
}

impl Default for Options {
    /// The usual values: 8 daemons, and 1 MiB in a call.
    fn default() -> Self {
        Self {
            daemons: 8,
            write_size: 1 << 20,
            read_size: 1 << 20,
            uncommitted_max: 64 << 20,
            pause: Duration::from_secs(1),
        }
    }
}

/// A file of a server. Dropped without [`File::close`], it promises nothing about uncommitted data.
pub struct File<C: Calls> {
    options: Options,
    behind: Rc<Behind<C>>,
    ahead: Ahead<C>,
}

impl<C: Calls> File<C> {
    /// A file with these calls.
    ///
    /// # Panics
    /// When a size in the options is 0.
    pub fn new(runtime: &Runtime, calls: C, options: Options) -> Self {
        let moves = options.write_size > 0 && options.read_size > 0;
        assert!(moves, "a call moves a byte at least");
        let bounds = Bounds {
            under_way: options.daemons.max(1),
            piece: options.write_size as usize,
            uncommitted_max: options.uncommitted_max,
        };
        let (calls, pause) = (Rc::new(calls), options.pause);
        let reading = (options.daemons, options.read_size);
        let ahead = Ahead::new(runtime, calls.clone(), pause, reading);
        Self { options, behind: Behind::new(runtime, calls, pause, bounds), ahead }
    }

    /// Bytes that are held because they are not durable.
    pub fn held_bytes(&self) -> u64 {
        self.behind.held_bytes()
    }

    /// Writes. Returns when the daemons have taken all data; without daemons, when the server has.
    /// The bytes are kept by reference until they are durable.
    ///
    /// # Errors
    /// [`CallError`] of this write or an earlier one. The server may have any part of this write.
    pub async fn write(&mut self, offset: u64, mut data: Bytes) -> Result<(), CallError> {
        self.behind.take_error()?;
        let is_beyond = offset.checked_add(data.len() as u64).is_none();
        if is_beyond {
            return Err(CallError::Status(Status::FileTooLarge));
        }
        if !is_planted(Bug::StaleAhead) {
            self.ahead.forget(); // invariant 4
        }
        let mut at = offset;
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(self.options.write_size as usize));
            let length = piece.len() as u64;
            self.behind.add(at, piece).await;
            at += length;
            if self.options.daemons == 0 {
                self.behind.answered().await;
            }
            if !data.is_empty() || self.options.daemons == 0 {
                self.behind.take_error()?;
            }
        }
        Ok(())
    }

    /// Reads `count` bytes, fewer only at the end of the file. Written data is made durable first;
    /// data that was read ahead is as old as the read that requested it.
    ///
    /// # Errors
    /// [`CallError`] of a READ. Those of writes wait for the next write, commit or close.
    pub async fn read(&mut self, offset: u64, count: u64) -> Result<Found, CallError> {
        if !is_planted(Bug::OvertakingReads) {
            self.behind.settle().await; // invariant 4
        }
        self.ahead.read(offset, count).await
    }

    /// Makes all written data durable.
    ///
    /// # Errors
    /// [`CallError`] of a write that was not reported yet, or of the COMMIT.
    pub async fn commit(&mut self) -> Result<(), CallError> {
        self.behind.settle().await;
        self.behind.take_error()
    }

    /// The same, and closes the file.
    ///
    /// # Errors
    /// As [`File::commit`].
    pub async fn close(mut self) -> Result<(), CallError> {
        self.commit().await
    }
}

impl<C: Calls> Drop for File<C> {
    fn drop(&mut self) {
        self.behind.leave();
    }
}
