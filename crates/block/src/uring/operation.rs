//! One operation: its memory, its submission to the kernel, and the handling of its result.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures::channel::oneshot;
use io_uring::squeue::{Entry, SubmissionQueue};
use io_uring::{opcode, types};

use crate::held::Held;
use crate::system::SLICES_MAX;
use crate::{Buffer, IoError, Verb};

/// The most bytes of one transfer: the kernel moves less than 2 GiB at once; more is continued.
const READ_MAX: usize = 1 << 30;

type Answer<T> = oneshot::Sender<std::result::Result<T, IoError>>;

/// The kind of an operation, with its memory.
pub(super) enum Work {
    Read { buffer: Buffer, is_of_medium: bool, answer: Answer<Buffer> },
    Write { data: Vec<Bytes>, through: bool, answer: Answer<()> },
    Flush { answer: Answer<()> },
    Discard { answer: Answer<()> },
}

pub(super) struct Operation {
    file: Arc<Held>,
    offset: u64,
    length: u64,
    /// Bytes transferred so far.
    done: usize,
    work: Work,
    /// The pieces of a write for the kernel, kept while it may read them.
    slices: Vec<libc::iovec>,
}

/// The state of an operation after a completion.
pub(super) enum Progress {
    /// Only a part is done: it must be submitted again.
    Again,
    /// The operation is done, or has failed.
    Done(Result<()>),
}

impl Operation {
    pub(super) fn new(file: Arc<Held>, offset: u64, length: u64, mut work: Work) -> Self {
        if let Work::Write { data, .. } = &mut work
            && let Some(aligned) = file.transferable(data)
        {
            *data = vec![aligned];
        }
        Self { file, offset, length, done: 0, work, slices: Vec::new() }
    }

    /// Adds the remaining work to the submission queue, which has room. The operation must then
    /// stay alive until its completion has been taken out.
    pub(super) fn push(&mut self, submission: &mut SubmissionQueue<'_>, number: u64) {
        let entry = self.entry().user_data(number);
        // SAFETY: the entry points into `buffer`, `data` and `slices`, all on the heap and owned
        // by this operation; moving the operation does not move them. The ring keeps it in its
        // table until the completion has been taken out (invariant 1 of the ring), and until then
        // nobody reads or changes those bytes or slices. The descriptor is open, as `file` is
        // held.
        let pushed = unsafe { submission.push(&entry) };
        pushed.expect("the ring fills the queue only while it has room");
    }

    fn entry(&mut self) -> Entry {
        let position = self.offset + self.done as u64;
        let file = types::Fd(self.file_for(position).as_raw_fd());
        match &mut self.work {
            Work::Read { buffer, .. } => {
                let rest = &mut buffer[self.done..];
                let length = rest.len().min(READ_MAX) as u32;
                opcode::Read::new(file, rest.as_mut_ptr(), length).offset(position).build()
            }
            Work::Write { data, through, .. } => {
                self.slices =
                    data.iter().filter(|piece| piece.has_remaining()).map(slice).collect();
                let count = self.slices.len().min(SLICES_MAX) as u32;
                let flags = if *through { libc::RWF_DSYNC } else { 0 };
                opcode::Writev::new(file, self.slices.as_ptr(), count)
                    .offset(position)
                    .rw_flags(flags)
                    .build()
            }
            Work::Flush { .. } => {
                opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build()
            }
            Work::Discard { .. } => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(file, self.length).offset(self.offset).mode(mode).build()
            }
        }
    }

    fn file_for(&self, position: u64) -> &File {
        match &self.work {
            Work::Write { data, .. } => {
                self.file.file_for(position, data.iter().map(|piece| &piece[..]))
            }
            Work::Read { buffer, is_of_medium: true, .. } => {
                self.file.file_for_medium(position, &buffer[self.done..])
            }
            Work::Read { buffer, .. } => {
                self.file.file_for(position, std::iter::once(&buffer[self.done..]))
            }
            _ => self.file.file(),
        }
    }

    /// Handles the kernel's result: a number of bytes, or an error below zero.
    pub(super) fn advance(&mut self, result: i32) -> Progress {
        let error = (result < 0).then(|| Error::from_raw_os_error(-result));
        match (&mut self.work, error) {
            // Nothing was done: the kernel was interrupted, or asks for a retry.
            (_, Some(error))
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                Progress::Again
            }
            (Work::Discard { .. }, Some(error)) if error.kind() == ErrorKind::Unsupported => {
                Progress::Done(Ok(())) // a hint that the medium cannot take
            }
            (_, Some(error)) => Progress::Done(Err(error)),
            (Work::Flush { .. } | Work::Discard { .. }, None) => Progress::Done(Ok(())),
            (Work::Read { .. }, None) if result == 0 => failed(ErrorKind::UnexpectedEof),
            (Work::Write { .. }, None) if result == 0 => failed(ErrorKind::WriteZero),
            (Work::Read { .. }, None) => self.moved(result as usize),
            (Work::Write { data, .. }, None) => {
                drop_front(data, result as usize);
                self.moved(result as usize)
            }
        }
    }

    fn moved(&mut self, count: usize) -> Progress {
        self.done += count;
        assert!(self.done as u64 <= self.length, "the kernel moves no more than it is told to");
        if self.done as u64 == self.length { Progress::Done(Ok(())) } else { Progress::Again }
    }

    /// Replies to the caller, if it still waits. The disk is released before, so that a caller that
    /// has the reply and drops the device can open the disk again.
    pub(super) fn answer(self, result: Result<()>) {
        let Self { file, offset, length, work, .. } = self;
        let verb = work.verb();
        let result = result.map_err(|error| file.failure(verb, offset, length, &error));
        drop(file);
        match work {
            Work::Read { buffer, answer, .. } => drop(answer.send(result.map(|()| buffer))),
            Work::Write { answer, .. } | Work::Flush { answer } | Work::Discard { answer } => {
                let _ = answer.send(result);
            }
        }
    }
}

impl Work {
    fn verb(&self) -> Verb {
        match self {
            Work::Read { .. } => Verb::Read,
            Work::Write { .. } => Verb::Write,
            Work::Flush { .. } => Verb::Flush,
            Work::Discard { .. } => Verb::Discard,
        }
    }
}

fn failed(kind: ErrorKind) -> Progress {
    Progress::Done(Err(kind.into()))
}

/// The kernel only reads from it, whatever the type says.
fn slice(piece: &Bytes) -> libc::iovec {
    libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() }
}

/// Removes the written bytes from the front of the pieces.
fn drop_front(data: &mut [Bytes], mut count: usize) {
    for piece in data {
        let part = count.min(piece.len());
        piece.advance(part);
        count -= part;
    }
}
