//! Splits the bytes of a connection into records, and places large payload.
//!
//! # Contract
//! The owner of the socket calls, for ever:
//! 1. [`poll`](RecordReader::poll), which returns what the reader needs next:
//! 2. [`Progress::NeedsBytes`]: read from the socket into [`targets`](RecordReader::targets), in
//!    one vectored read, and report the number of bytes with [`advance`](RecordReader::advance). At
//!    the end of the stream [`end_of_stream`](RecordReader::end_of_stream) checks whether it broke
//!    off in a record.
//! 3. [`Progress::NeedsMemory`]: take this many bytes from the budget of all connections, wait for
//!    them if need be (the socket is not read meanwhile, so that TCP holds the peer back), and call
//!    [`grant`](RecordReader::grant). The bytes go back when the record is dropped. A budget must
//!    hold the longest record at least; a peer that is granted memory for a large WRITE and then
//!    sends it slowly holds it that long, which only the owner's clock can end.
//!    [`is_complete`](RecordReader::is_complete) distinguishes such memory from that of a record
//!    that has arrived.
//! 4. [`Progress::Record`]: handle it. [`Record::memory`] returns the amount granted.
//!
//! # Where bytes go
//! Everything arrives in a staging buffer of fixed size. A record that is no large WRITE is copied
//! from there into memory of its own when it is complete; only then is memory requested, so that a
//! slow peer holds none. When the first bytes of a record show a WRITE with large payload, memory
//! for all of it is requested at once; the part of the payload that has arrived is copied into a
//! page-aligned buffer, and the rest is read into it straight from the socket.
//!
//! To have little to copy, reads between records are short while large WRITEs are coming
//! ([`FRUGAL_READ`]): they take in a header, not the payload behind it.
//!
//! # Invariants
//! 1. Memory is allocated for a record only after it was granted, exactly as much as was granted.
//! 2. Besides that, the reader holds its staging buffer and nothing else.
//! 3. Bytes are read directly into a payload only within a fragment, and when all bytes that have
//!    arrived before them were moved to their place.
//! 4. No record is longer than `limits.record`, and none that is not placed longer than the staging
//!    buffer.
//!
//! Not asserted: 2, which is about what is not there: a fuzz target counts what is allocated.

mod peek;
mod placed;
mod staging;

use bytes::Bytes;

use crate::record::{HEADER_ROOM, LAST, MAX_PAYLOAD, Record};
use peek::{Peek, WriteShape, peek};
use placed::Placed;
use staging::Staging;

/// Length of a read beyond known bytes after a large WRITE, in bytes. The header of a WRITE with
/// some groups and a usual handle takes 150 to 300.
const FRUGAL_READ: usize = 512;

/// Number of records without a large WRITE after which reads are long again.
const FRUGAL_RECORDS: u8 = 8;

/// The most empty fragments of a record before its last. A record may have some, but an unlimited
/// number would be endless work for nothing.
const EMPTY_FRAGMENTS: u32 = 1024;

/// Size limits of a reader, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest record. A longer one is an error.
    pub record: usize,
    /// The staging buffer, and so the longest record that is not a large WRITE.
    pub staging: usize,
    /// The shortest payload that is placed. At most `staging` less [`HEADER_ROOM`], or some WRITEs
    /// fit nowhere.
    pub placement: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { record: MAX_PAYLOAD + HEADER_ROOM, staging: 64 << 10, placement: 32 << 10 }
    }
}

/// The next need of the reader, or a record.
#[derive(Debug)]
pub enum Progress {
    /// More bytes from the socket.
    NeedsBytes,
    /// This many bytes of memory for the record in front.
    NeedsMemory(usize),
    /// A record.
    Record(Record),
}

/// The reasons for which a connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record over the limit.
    #[error("a record of at least {length} bytes, where {limit} are the most")]
    TooLong {
        /// Its length so far.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// Fragments without any bytes.
    #[error("a record with more than {EMPTY_FRAGMENTS} empty fragments")]
    EmptyFragments,
    /// A large WRITE whose payload does not match the end of the record.
    #[error("a WRITE whose payload does not end with its record")]
    PayloadMismatch,
    /// The stream ended within a record.
    #[error("the connection ended within a record")]
    Truncated,
}

/// Bytes by destination: payload, and everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of records that were copied out of the staging buffer: headers and small payload.
    pub staged: u64,
    /// Bytes of large payload that were copied once, since they had arrived in the staging buffer.
    pub copied_payload: u64,
    /// Bytes of large payload that were never copied.
    pub placed_payload: u64,
}

/// The current fragment.
#[derive(Debug, Default)]
struct Fragment {
    /// Bytes of it that have not arrived.
    remaining: usize,
    /// Whether it is the record's last.
    last: bool,
    /// The lengths of the record's fragments up to this one.
    announced: usize,
    /// Number of empty ones among them.
    empty: u32,
}

/// Whether the current record may have memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Memory {
    #[default]
    Unneeded,
    /// Requested, this many bytes: for a payload that will be placed, if there is a shape, else for
    /// all of a complete record. Nothing moves until they are granted.
    Asked(usize, Option<WriteShape>),
    Granted,
}

/// The place where the current record is assembled.
#[derive(Debug, Default)]
enum Assembly {
    /// In the staging buffer, until its kind is known.
    #[default]
    Undecided,
    /// In the staging buffer, until it is complete.
    Staged,
    /// In memory of its own, as it arrives.
    Placed(Placed),
}

/// The reader of one connection. See the module's contract.
#[derive(Debug)]
pub struct RecordReader {
    limits: Limits,
    staging: Staging,
    fragment: Fragment,
    assembly: Assembly,
    memory: Memory,
    /// Number of records for which reads stay short.
    frugal: u8,
    counters: Counters,
    with_checksums: bool,
}

impl RecordReader {
    /// A reader at the start of a connection.
    pub fn new(limits: Limits) -> Self {
        assert!(limits.placement + HEADER_ROOM <= limits.staging, "every WRITE must fit somewhere");
        Self {
            limits,
            staging: Staging::new(limits.staging),
            fragment: Fragment::default(),
            assembly: Assembly::Undecided,
            memory: Memory::default(),
            frugal: 0,
            counters: Counters::default(),
            with_checksums: false,
        }
    }

    /// The same, for a caller that needs the [checksum](crate::rpc::Call::checksum) of every call:
    /// for placed payload, it is computed as the payload arrives.
    pub fn with_checksums(self) -> Self {
        Self { with_checksums: true, ..self }
    }

    /// The counters since the start of the connection.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns what the reader needs next.
    ///
    /// # Errors
    /// [`RecordError`]: the connection must be closed, and the reader dropped.
    pub fn poll(&mut self) -> Result<Progress, RecordError> {
        loop {
            if let Memory::Asked(length, _) = self.memory {
                return Ok(Progress::NeedsMemory(length));
            }
            if self.fragment.remaining == 0 && !self.fragment.last {
                match self.staging.take_mark() {
                    Some(mark) => self.begin_fragment(mark)?,
                    None => return Ok(Progress::NeedsBytes),
                }
            }
            let progress = match std::mem::take(&mut self.assembly) {
                Assembly::Undecided => self.decide()?,
                Assembly::Staged => self.stage()?,
                Assembly::Placed(placed) => self.place(placed)?,
            };
            if let Some(progress) = progress {
                return Ok(progress);
            }
        }
    }

    /// The memory to read into, one piece after the other; the second may be empty. Call it after
    /// [`Progress::NeedsBytes`].
    pub fn targets(&mut self) -> [&mut [u8]; 2] {
        let waits = matches!(self.memory, Memory::Asked(..));
        assert!(!waits, "the reader waits for memory, not for bytes");
        let in_order = self.staging.raw().is_empty();
        let wanted = self.appetite();
        let space = self.staging.space(wanted);
        assert!(!space.is_empty(), "a reader that needs bytes has room for them");
        match direct(&mut self.assembly, &self.fragment) {
            [] => [space, &mut []],
            payload => {
                assert!(in_order, "invariant 3: what is staged comes before what is read now");
                [payload, space]
            }
        }
    }

    /// Notes that `length` bytes have arrived in the [`targets`](Self::targets).
    pub fn advance(&mut self, length: usize) {
        let direct = direct(&mut self.assembly, &self.fragment).len().min(length);
        if let Assembly::Placed(placed) = &mut self.assembly {
            placed.arrived(direct);
            self.fragment.remaining -= direct;
            self.counters.placed_payload += direct as u64;
        }
        self.staging.arrived(length - direct);
    }

    /// Takes bytes from memory instead of a socket: copies as many as fit into the targets and
    /// returns their number. Call it after [`Progress::NeedsBytes`].
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut fed = 0;
        for target in self.targets() {
            let length = target.len().min(bytes.len() - fed);
            target[..length].copy_from_slice(&bytes[fed..fed + length]);
            fed += length;
        }
        self.advance(fed);
        fed
    }

    /// Grants the requested memory.
    pub fn grant(&mut self) {
        let Memory::Asked(asked, shape) = self.memory else {
            panic!("memory is granted only after it was asked for")
        };
        let needed = match shape {
            Some(shape) => shape.head + shape.payload,
            None => self.staging.record().len(),
        };
        assert_eq!(asked, needed, "invariant 1: what is allocated is what is granted");
        self.memory = Memory::Granted;
        if let Some(shape) = shape {
            self.begin_placing(shape);
        }
    }

    /// The start of the current record that has arrived and has no memory yet: with
    /// [`Progress::NeedsMemory`], all of it but the payload of a large WRITE.
    pub fn front(&self) -> &[u8] {
        self.staging.record()
    }

    /// Whether the current record has arrived completely. Call it with [`Progress::NeedsMemory`]:
    /// if not, the peer decides how long the memory will be held.
    pub fn is_complete(&self) -> bool {
        self.fragment.last && self.fragment.remaining == 0
    }

    /// Checks whether the stream may end here.
    ///
    /// # Errors
    /// [`RecordError::Truncated`] within a record.
    pub fn end_of_stream(&self) -> Result<(), RecordError> {
        let between = self.fragment.announced == 0 && self.staging.raw().is_empty();
        if between { Ok(()) } else { Err(RecordError::Truncated) }
    }
}

/// The part of a payload that can be read straight from the socket now (invariant 3).
fn direct<'a>(assembly: &'a mut Assembly, fragment: &Fragment) -> &'a mut [u8] {
    match assembly {
        Assembly::Placed(placed) => placed.missing(fragment.remaining),
        Assembly::Undecided | Assembly::Staged => &mut [],
    }
}

impl RecordReader {
    fn begin_fragment(&mut self, mark: u32) -> Result<(), RecordError> {
        let remaining = (mark & !LAST) as usize;
        let announced = self.fragment.announced + remaining;
        if announced > self.limits.record {
            return Err(RecordError::TooLong { length: announced, limit: self.limits.record });
        }
        let last = mark & LAST != 0;
        let empty = self.fragment.empty + u32::from(remaining == 0 && !last);
        if empty > EMPTY_FRAGMENTS {
            return Err(RecordError::EmptyFragments);
        }
        self.fragment = Fragment { remaining, last, announced, empty };
        Ok(())
    }

    /// The next step when the fragment's bytes are used up: wait for more of it, or go on to the
    /// next.
    fn wait(&self) -> Option<Progress> {
        (self.fragment.remaining > 0).then_some(Progress::NeedsBytes)
    }

    /// Number of bytes to read while their kind is unknown.
    fn appetite(&self) -> usize {
        let known = matches!(self.assembly, Assembly::Staged);
        if self.frugal > 0 && !known { FRUGAL_READ } else { self.limits.staging }
    }

    /// Keeps the arrived bytes of the fragment in the staging buffer.
    fn keep(&mut self) {
        let length = self.staging.raw().len().min(self.fragment.remaining);
        self.staging.keep(length);
        self.fragment.remaining -= length;
    }

    fn decide(&mut self) -> Result<Option<Progress>, RecordError> {
        self.keep();
        if self.fragment.last && self.fragment.announced < self.limits.placement {
            self.assembly = Assembly::Staged; // too short for a payload that is placed
            return Ok(None);
        }
        match peek(self.staging.record()) {
            Peek::Undecided if !self.is_complete() => Ok(self.wait()),
            Peek::Write(shape) if self.is_placed(shape) => self.ask_for_placing(shape),
            _ => {
                self.assembly = Assembly::Staged;
                Ok(None)
            }
        }
    }

    /// Whether the payload is large, and the record is long enough for it so far. A record that is
    /// too short is staged, and rejected when it is decoded.
    fn is_placed(&self, shape: WriteShape) -> bool {
        let Fragment { last, announced, .. } = self.fragment;
        let fits = if last { announced == shape.record() } else { announced <= shape.record() };
        shape.payload >= self.limits.placement && fits
    }

    fn ask_for_placing(&mut self, shape: WriteShape) -> Result<Option<Progress>, RecordError> {
        if shape.record() > self.limits.record {
            let length = shape.record();
            return Err(RecordError::TooLong { length, limit: self.limits.record });
        }
        self.memory = Memory::Asked(shape.head + shape.payload, Some(shape));
        Ok(None)
    }

    fn begin_placing(&mut self, shape: WriteShape) {
        let arrived = self.staging.record();
        let placed = Placed::begin(arrived, shape, self.with_checksums); // invariant 1
        self.counters.staged += shape.head as u64;
        self.counters.copied_payload += placed.filled() as u64;
        self.assembly = Assembly::Placed(placed);
        self.staging.release_record();
    }

    /// Moves the staged bytes of the fragment to their place, and ends the record.
    fn place(&mut self, mut placed: Placed) -> Result<Option<Progress>, RecordError> {
        let length = self.staging.raw().len().min(self.fragment.remaining);
        let copied = placed.take(&self.staging.raw()[..length])?;
        self.counters.copied_payload += copied as u64;
        self.staging.skip(length);
        self.fragment.remaining -= length;
        if !self.is_complete() {
            self.assembly = Assembly::Placed(placed);
            return Ok(self.wait());
        }
        self.frugal = FRUGAL_RECORDS;
        self.end_record();
        Ok(Some(Progress::Record(placed.finish()?)))
    }

    /// Waits until all of the record is staged, and copies it out.
    fn stage(&mut self) -> Result<Option<Progress>, RecordError> {
        self.assembly = Assembly::Staged;
        let limit = self.staging.longest_record();
        if self.fragment.announced > limit {
            return Err(RecordError::TooLong { length: self.fragment.announced, limit });
        }
        self.keep();
        if !self.is_complete() {
            return Ok(self.wait());
        }
        if self.memory != Memory::Granted {
            self.memory = Memory::Asked(self.staging.record().len(), None);
            return Ok(None);
        }
        let head = Bytes::copy_from_slice(self.staging.record()); // invariant 1
        self.counters.staged += head.len() as u64;
        self.staging.release_record();
        self.frugal = self.frugal.saturating_sub(1);
        self.end_record();
        Ok(Some(Progress::Record(Record::whole(head))))
    }

    fn end_record(&mut self) {
        let is_short = self.fragment.announced <= self.limits.record;
        assert!(is_short, "invariant 4: no record is longer than its limit");
        self.fragment = Fragment::default();
        self.assembly = Assembly::Undecided;
        self.memory = Memory::default();
    }
}
