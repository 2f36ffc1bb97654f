//! The events of a disk.

use block::Durability;
use bytes::Bytes;

use crate::fate::Fate;

/// An event of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A write (or a discard that changes something) was given to the disk.
    WriteIssued {
        /// Its number.
        write: u64,
        /// The offset in bytes.
        offset: u64,
        /// The data.
        data: Bytes,
        /// The requested durability.
        durability: Durability,
    },
    /// It was answered with success.
    WriteCompleted {
        /// The number of the write.
        write: u64,
    },
    /// It took effect after its process had been killed: no process was left to make it durable,
    /// whatever durability had been requested.
    WriteLeft {
        /// The number of the write.
        write: u64,
    },
    /// It was answered with an error.
    WriteFailed {
        /// The number of the write.
        write: u64,
        /// The part that it has changed all the same.
        left: Fate,
    },
    /// A flush was given to the disk.
    FlushIssued {
        /// Its number.
        flush: u64,
    },
    /// It was answered with success.
    FlushCompleted {
        /// The number of the flush.
        flush: u64,
    },
    /// It was answered with an error.
    FlushFailed {
        /// The number of the flush.
        flush: u64,
    },
    /// A bit changed on the medium by itself.
    Rotted {
        /// The byte in which it is.
        offset: u64,
        /// The bit, as a mask.
        mask: u8,
    },
    /// A test left a mark, for instance that a reply has gone out.
    Mark(Mark),
}

/// A mark of a test, to be found again in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

impl From<u64> for Mark {
    fn from(number: u64) -> Self {
        Mark::Number(number)
    }
}

impl From<&str> for Mark {
    fn from(text: &str) -> Self {
        Mark::Text(text.to_owned())
    }
}
