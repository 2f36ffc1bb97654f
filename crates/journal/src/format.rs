//! The bytes of the log. All numbers are little-endian; all checksums are CRC-32C.

use std::mem::offset_of;

use crc_fast::{CrcAlgorithm, checksum};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Unit of recnos, in bytes: entries are padded to it.
pub const UNIT: u64 = 512;
/// Size of a segment in bytes: no entry crosses its end.
pub const SEGMENT: u64 = 64 << 10;
/// Units of a segment.
pub const SEGMENT_UNITS: u64 = SEGMENT / UNIT;
/// Maximum bytes of the circle that a batch takes, including the filling of its segments and the
/// padding of its end. So the remains of a torn batch are near the end of the chain, and a reader
/// knows how far to look.
pub const LARGEST_BATCH: u64 = 4 * SEGMENT;
/// Byte offset of the entries.
pub const AREA: u64 = 64 << 10;
/// Byte offsets of the slots.
pub const SLOTS: [u64; 2] = [0, 32 << 10];
/// Minimum size of a device that can hold a log, in bytes.
pub const SMALLEST: u64 = AREA + 16 * SEGMENT;
/// Exclusive upper bound of recnos: byte offsets, and sums of a few of them, do not overflow.
const RECNO_END: u64 = 1 << 52;
/// The newest version. Version 1, which is only read, had no epoch at rest; version 2 is that of a
/// log of one volume, which has no line except that of its owner.
pub const VERSION: u32 = 3;
/// Maximum number of volumes that share a log.
pub const LINES: usize = 16;

/// Magic number of a slot, and so of a log, in every version.
pub const SLOT_MAGIC: [u8; 16] = *b"duramen log\0\0\0\0\0";
const ENTRY_MAGIC: u32 = u32::from_le_bytes(*b"Entr");

/// The circle of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circle {
    /// Bytes of the circle.
    pub capacity: u64,
    /// The recno of the first entry.
    pub start: u64,
}

/// State of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Entries in the circle may be needed.
    Open = 0,
    /// The volume was stopped cleanly: no change in the circle is needed. Other records, from the
    /// curhead on, are still valid.
    AtRest = 1,
    /// Nothing in the circle is valid any more.
    GivenUp = 2,
}

/// A volume that shares the log, or the one that has it alone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Line {
    /// The number that identifies the volume on any disk.
    pub volume: U64,
    /// The epoch that it bears, or bore when this one was begun and may bear still; 0 for none.
    pub was: U64,
    /// 0 for no line, else one more than a [`State`]: open, at rest, or given up, which means saved
    /// elsewhere.
    state: U32,
    reserved: U32,
}

impl Line {
    /// A line for a volume with changes that may be needed, or with none.
    pub fn new(volume: u64, was: u64, state: State) -> Self {
        let state = state as u32 + 1;
        Self { volume: volume.into(), was: was.into(), state: state.into(), reserved: 0.into() }
    }

    /// The volume that has the log alone: a line with nothing but its number.
    pub fn owner(volume: u64) -> Self {
        Self { volume: volume.into(), ..Self::new_zeroed() }
    }

    /// Whether changes of the volume may be needed.
    pub fn is_open(&self) -> bool {
        self.state.get() == State::Open as u32 + 1
    }

    /// Whether the volume was stopped cleanly.
    pub fn is_at_rest(&self) -> bool {
        self.state.get() == State::AtRest as u32 + 1
    }

    /// The entries of the volume have been saved elsewhere, and are not needed here any more.
    pub fn part(&mut self) {
        self.become_of_sharer(State::GivenUp);
    }

    /// No change of the volume is needed any more.
    pub fn rest(&mut self) {
        self.become_of_sharer(State::AtRest);
    }

    /// For the owner of a log the slot itself has the state.
    fn become_of_sharer(&mut self, state: State) {
        if self.state.get() != 0 {
            self.state.set(state as u32 + 1);
        }
    }
}

/// One of the two slots, which name the current epoch of the log.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Slot {
    magic: [u8; 16],
    /// The version of the format.
    pub version: U32,
    /// In version 1 over all bytes after it; in later versions over those before it, too.
    checksum: U32,
    /// A random number that the volume bears, too.
    pub epoch: U64,
    /// If an epoch has two slots, the one with the higher number counts.
    pub number: U64,
    /// Bytes of the circle.
    pub capacity: U64,
    /// The recno of the first entry of the epoch, which begins a segment.
    pub start: U64,
    /// A recno that was the head.
    pub curhead: U64,
    /// See [`State`].
    state: U32,
    /// Over the lines; zero without.
    lines_checksum: U32,
    lines: [Line; LINES],
}

/// Bytes of a slot without its lines: the part that its checksum covers.
const BASE: usize = offset_of!(Slot, lines);
const _: () = assert!(BASE == 72 && size_of::<Slot>() <= UNIT as usize);

impl Slot {
    /// A sealed slot of the log that these volumes share, or of the one that has it alone
    /// ([`Line::owner`]), if that is known.
    ///
    /// # Panics
    /// If there are too many.
    pub fn new(
        epoch: u64,
        number: u64,
        circle: Circle,
        curhead: u64,
        state: State,
        lines: &[Line],
    ) -> Self {
        let mut slot = Self::new_zeroed();
        slot.magic = SLOT_MAGIC;
        slot.lines[..lines.len()].copy_from_slice(lines);
        slot.lines_checksum.set(if lines.is_empty() { 0 } else { crc(slot.lines.as_bytes()) });
        slot.version.set(if slot.is_shared() { VERSION } else { 2 });
        slot.epoch.set(epoch);
        slot.number.set(number);
        slot.capacity.set(circle.capacity);
        slot.start.set(circle.start);
        slot.curhead.set(curhead);
        slot.state.set(state as u32);
        slot.checksum.set(slot.sum());
        slot
    }

    /// The volumes that share the log, by their numbers in it; empty if one volume has it alone.
    pub fn lines(&self) -> &[Line] {
        let count = self.lines.iter().rposition(|line| line.state.get() != 0);
        &self.lines[..count.map_or(0, |last| last + 1)]
    }

    /// The volume that has the log alone, if it is known: earlier writers did not record it.
    pub fn owner(&self) -> Option<u64> {
        let volume = self.lines[0].volume.get();
        (volume != 0 && !self.is_shared()).then_some(volume)
    }

    /// The lines that another slot of the epoch must have, including that of the owner.
    pub(crate) fn kept_lines(&self) -> Vec<Line> {
        match self.owner() {
            Some(volume) => vec![Line::owner(volume)],
            None => self.lines().to_vec(),
        }
    }

    /// Whether volumes share the log.
    pub fn is_shared(&self) -> bool {
        !self.lines().is_empty()
    }

    /// The number in the log of the volume with the id `volume` that bears `epoch`; that of the
    /// only volume if the log is not shared; `None` if it does not belong to this slot.
    pub fn number_of(&self, volume: u64, epoch: u64) -> Option<u16> {
        if !self.is_shared() {
            return (self.epoch.get() == epoch).then_some(0);
        }
        let is_its =
            |line: &Line| line.volume.get() == volume && (line.is_open() || line.is_at_rest());
        let number = self.lines().iter().position(is_its)?;
        let line = &self.lines[number];
        let bears = epoch != 0 && [self.epoch.get(), line.was.get()].contains(&epoch);
        bears.then_some(number as u16)
    }

    /// The number in the log of the volume with the id `volume` that bears no epoch, since it was
    /// stopped cleanly; `None` if it never was in the log. A log with an unknown owner may be any
    /// volume's.
    pub fn number_at_rest(&self, volume: u64) -> Option<u16> {
        match self.owner() {
            Some(owner) => (owner == volume).then_some(0),
            None => self.number_of(volume, self.epoch.get()),
        }
    }

    /// State of the epoch.
    pub fn state(&self) -> State {
        match self.state.get() {
            0 => State::Open,
            1 => State::AtRest,
            _ => State::GivenUp,
        }
    }

    fn sum(&self) -> u32 {
        if self.version.get() == 1 {
            return crc(&self.as_bytes()[offset_of!(Self, checksum) + 4..BASE]);
        }
        let mut covered = *self;
        covered.checksum.set(0);
        crc(&covered.as_bytes()[..BASE])
    }

    /// The slot in these bytes, if it is intact.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut slot = Self::read_from_prefix(bytes).ok()?.0;
        let known = slot.magic == SLOT_MAGIC && (1..=VERSION).contains(&slot.version.get());
        let has_lines = slot.version.get() == 3 || slot.lines_checksum.get() != 0;
        if !has_lines {
            slot.lines.zero();
        }
        let lines_whole = !has_lines || slot.lines_checksum.get() == crc(slot.lines.as_bytes());
        let lines_whole = lines_whole && slot.is_shared() == (slot.version.get() == 3);
        let whole = known && slot.checksum.get() == slot.sum() && lines_whole;
        let (capacity, start) = (slot.capacity.get(), slot.start.get());
        let possible = (SEGMENT..RECNO_END).contains(&capacity)
            && capacity.is_multiple_of(SEGMENT)
            && start.is_multiple_of(SEGMENT_UNITS)
            && (start..RECNO_END).contains(&slot.curhead.get());
        (whole && possible).then_some(slot)
    }

    /// The version of these bytes if they are an intact slot of a later version. Nothing of such a
    /// slot is known here except the positions of its version and of its checksum, which covers
    /// both the version and the rest: so damage to the version of another slot is not mistaken for
    /// one.
    pub fn later_version(bytes: &[u8]) -> Option<u32> {
        let slot = Self::read_from_prefix(bytes).ok()?.0;
        let later = slot.magic == SLOT_MAGIC && slot.version.get() > VERSION;
        (later && slot.checksum.get() == slot.sum()).then(|| slot.version.get())
    }
}

/// Header of an entry, in front of its table of contents.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    magic: U32,
    /// Over all bytes after it, up to `length`.
    checksum: U32,
    /// Checksum of the previous entry; for the first of an epoch, the lower half of the epoch.
    pub previous: U32,
    /// Number of records of the entry.
    pub records: U16,
    /// Number of the entry's volume.
    pub volume: U16,
    /// Epoch of the slot.
    pub epoch: U64,
    /// Position of the entry.
    pub recno: U64,
    /// The head when it was written.
    pub curhead: U64,
    /// Used bytes of the entry, header included.
    pub length: U32,
    /// Bytes up to the next entry.
    pub size: U32,
    /// The Update that it makes durable; 0 for none.
    pub sequence: U64,
    /// The recno of the first entry of its batch: all before that is durable.
    pub batch: U64,
}

/// Bytes of a [`Header`].
pub const HEADER_SIZE: usize = size_of::<Header>();
const _: () = assert!(HEADER_SIZE == 64);

/// Maximum bytes of an entry behind its header.
pub const LARGEST_BODY: usize = SEGMENT as usize - HEADER_SIZE;

/// All fields of an entry's header.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Checksum of the previous entry.
    pub previous: u32,
    /// Number of records.
    pub records: u16,
    /// The volume.
    pub volume: u16,
    /// Epoch of the slot.
    pub epoch: u64,
    /// Position of the entry.
    pub recno: u64,
    /// The head.
    pub curhead: u64,
    /// Bytes up to the next entry.
    pub size: u32,
    /// The Update.
    pub sequence: u64,
    /// Recno at which its batch begins.
    pub batch: u64,
}

/// Writes an entry to the start of `image`; returns its checksum.
///
/// # Panics
/// If the body does not fit.
pub fn write_entry(image: &mut [u8], fields: Fields, body: &[u8]) -> u32 {
    let length = HEADER_SIZE + body.len();
    let mut header = Header::new_zeroed();
    header.magic.set(ENTRY_MAGIC);
    header.previous.set(fields.previous);
    header.records.set(fields.records);
    header.volume.set(fields.volume);
    header.epoch.set(fields.epoch);
    header.recno.set(fields.recno);
    header.curhead.set(fields.curhead);
    header.length.set(length as u32);
    header.size.set(fields.size);
    header.sequence.set(fields.sequence);
    header.batch.set(fields.batch);
    image[..HEADER_SIZE].copy_from_slice(header.as_bytes());
    image[HEADER_SIZE..length].copy_from_slice(body);
    let checksum = crc(&image[SUMMED..length]);
    image[SUMMED - 4..SUMMED].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Offset of the bytes that the checksum of an entry covers.
const SUMMED: usize = offset_of!(Header, checksum) + 4;

impl Header {
    /// The header in these bytes, if it is plausible and can be followed.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let header = Self::read_from_prefix(bytes).ok()?.0;
        let (length, size) = (u64::from(header.length.get()), u64::from(header.size.get()));
        let recno = header.recno.get();
        let possible = header.magic.get() == ENTRY_MAGIC
            && (HEADER_SIZE as u64..=size).contains(&length)
            && size.is_multiple_of(UNIT)
            && recno < RECNO_END
            && (header.curhead.get() <= recno && header.batch.get() <= recno)
            && recno % SEGMENT_UNITS + size / UNIT <= SEGMENT_UNITS;
        possible.then_some(header)
    }

    /// The stored checksum.
    pub fn checksum(&self) -> u32 {
        self.checksum.get()
    }

    /// Whether the entry with this header is intact.
    pub fn fits(&self, entry: &[u8]) -> bool {
        let length = self.length.get() as usize;
        entry.len() >= length && crc(&entry[SUMMED..length]) == self.checksum.get()
    }
}

fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
