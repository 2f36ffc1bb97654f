//! A file over NFS, with write-behind and read-ahead by a number of *block-I/O daemons*.
//!
//! A daemon is a call that is under way while the caller does something else. With none of them a
//! write waits for its answers, and a read has one piece under way.
//!
//! Invariants:
//! 1. When [`File::commit`] or [`File::close`] gives `Ok`, every byte of every write before it is
//!    durable, but for those that an error was told of.
//! 2. An error of a piece or of a COMMIT is told once, by the next write, commit or close. What it
//!    is about is given up: who wants it writes it again.
//! 3. What is held is at most the uncommitted bytes that the options allow, and a piece for each
//!    daemon; of what was read ahead, a piece for each daemon and what is under way.
//! 4. A read gives what was written before it.
//!
//! Not asserted: 1, 2 and 4, which tests hold against a model, whatever a server does; 3, which is
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

/// How a file is used.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The block-I/O daemons: calls that are under way behind the caller's back.
    pub daemons: usize,
    /// The longest WRITE, in bytes.
    pub write_size: u32,
    /// The longest READ, in bytes.
    pub read_size: u32,
    /// How many bytes may wait for a COMMIT. With half of them one is made unasked.
    pub uncommitted_max: u64,
    /// How long to wait when the server says that something takes long.
    pub pause: Duration,
}

impl Default for Options {
    /// What is usual now: 8 daemons, and 1 MiB in a call.
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

/// A file of a server. Dropped without [`File::close`], it promises nothing of what was not
/// committed.
pub struct File<C: Calls> {
    options: Options,
    behind: Rc<Behind<C>>,
    ahead: Ahead<C>,
}

impl<C: Calls> File<C> {
    /// A file, by its calls.
    ///
    /// # Panics
    /// When the options let a call move nothing.
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

    /// The bytes that are held because they are not durable.
    pub fn held_bytes(&self) -> u64 {
        self.behind.held_bytes()
    }

    /// Writes. It returns when the daemons have taken all of it; without daemons, when the server
    /// has. The bytes are kept by reference until they are durable.
    ///
    /// # Errors
    /// [`CallError`] of this write or an earlier one. Of this one the server may have any part.
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

    /// Reads so many bytes, fewer only where the file ends. What was written is made durable first;
    /// what was read ahead is as old as the read that asked for it.
    ///
    /// # Errors
    /// [`CallError`] of a READ. Those of writes wait for the next write, commit or close.
    pub async fn read(&mut self, offset: u64, count: u64) -> Result<Found, CallError> {
        if !is_planted(Bug::OvertakingReads) {
            self.behind.settle().await; // invariant 4
        }
        self.ahead.read(offset, count).await
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// [`CallError`] of a write that was not told yet, or of the COMMIT.
    pub async fn commit(&mut self) -> Result<(), CallError> {
        self.behind.settle().await;
        self.behind.take_error()
    }

    /// The same, and lets go of the file.
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
