//! The bytes of an NVRAM: two labels, a map of void entries in two copies, and the buffers.
//!
//! ```text
//!   label A | void map A | buffer 0 | buffer 1 | ... | void map B | label B
//!   buffer:  header, 512 bytes | data, 4096 bytes | the header again
//! ```
//!
//! All numbers are little-endian; checksums are CRC-32C. Memory may be torn between any two words
//! of 8 bytes. docs/formats/nvram.md has the picture and what a crash means.

use crc_fast::{CrcAlgorithm, checksum};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a sector, the unit of masks.
pub const SECTOR: u64 = 512;
/// Bytes of the volume that a buffer holds.
pub const BLOCK: u64 = 4096;
/// Bytes of a buffer with both of its headers.
pub const SLOT: u64 = BLOCK + 2 * SECTOR;
/// Bytes of a label.
pub const LABEL: u64 = 4096;
/// Buffers whose void marks share a sector of the map.
pub const MARKS: u64 = 56;
/// The version of the format.
pub const VERSION: u32 = 1;
/// The fewest buffers of an NVRAM.
pub const LEAST_BUFFERS: u64 = 64;
/// The mask of a buffer of which every sector holds data.
pub const WHOLE: u8 = u8::MAX;

/// Magic bytes of a label.
pub const LABEL_MAGIC: [u8; 16] = *b"duramen nvram\0\0\0";
const HEADER_MAGIC: u32 = 0x6d76_6e64;
const MAP_MAGIC: u32 = 0x6d76_6e6d;

/// The number that an NVRAM shares with the volume whose it is.
pub type Id = [u8; 16];

/// The checksum of all formats here.
pub fn sum(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the NVRAM.
    pub size: u64,
    /// Its buffers.
    pub buffers: u64,
}

impl Layout {
    /// The layout of an NVRAM of this size. None if it is too small.
    pub fn of(size: u64) -> Option<Self> {
        let whole = size / SECTOR * SECTOR;
        let mut possible = (LEAST_BUFFERS..=whole / SLOT).rev();
        let buffers = possible.find(|&buffers| Self::size_for(buffers) <= whole)?;
        Some(Self { size, buffers })
    }

    /// Bytes of an NVRAM with this many buffers.
    pub const fn size_for(buffers: u64) -> u64 {
        2 * LABEL + buffers * SLOT + 2 * buffers.div_ceil(MARKS) * SECTOR
    }

    /// Sectors of the void map.
    pub fn map_sectors(&self) -> u64 {
        self.buffers.div_ceil(MARKS)
    }

    /// First byte of the two labels.
    pub fn labels(&self) -> [u64; 2] {
        [0, self.size / SECTOR * SECTOR - LABEL]
    }

    /// First byte of a sector of the map, in both copies.
    pub fn map(&self, sector: u64) -> [u64; 2] {
        let behind = self.slot(self.buffers);
        [LABEL, behind].map(|start| start + sector * SECTOR)
    }

    /// First byte of a buffer: its first header.
    pub fn slot(&self, buffer: u64) -> u64 {
        LABEL + self.map_sectors() * SECTOR + buffer * SLOT
    }
}

/// What an NVRAM says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The number that it shares with its volume.
    pub id: Id,
    /// Grows with each start of the volume.
    pub generation: u64,
    /// Grows with each write of a label.
    pub number: u64,
    /// Its buffers.
    pub buffers: u64,
    /// Bytes of the device that it stands before.
    pub volume_size: u64,
    /// Entries before this sequence are void.
    pub first_sequence: u64,
    /// Every entry up to this sequence was durable, or void, when the label was written.
    pub durable: u64,
    /// Writes pass by, and nothing is held.
    pub is_down: bool,
    /// The volume has recorded this generation, so that it may hold writes of it.
    pub is_begun: bool,
    /// Which of two NVRAMs it is, 1 or 2; 0 if it is the only one.
    pub twin: u8,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLabel {
    magic: [u8; 16],
    version: U32,
    sum: U32,
    id: Id,
    generation: U64,
    number: U64,
    buffers: U64,
    volume_size: U64,
    first_sequence: U64,
    durable: U64,
    is_down: u8,
    is_begun: u8,
    twin: u8,
    reserved: [u8; 5],
}

/// Why bytes are no label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLabel {
    /// They begin with something else.
    #[error("there is no label of an NVRAM")]
    Missing,
    /// A newer program wrote it.
    #[error("the label has version {0}, and only version {VERSION} is known")]
    Version(u32),
    /// It does not fit its checksum.
    #[error("the label does not fit its checksum")]
    Checksum,
    /// It fits, and says what no NVRAM is.
    #[error("the label contradicts itself")]
    Nonsense,
}

impl Label {
    /// Its bytes.
    pub fn encode(&self) -> [u8; LABEL as usize] {
        let mut raw = RawLabel {
            magic: LABEL_MAGIC,
            version: VERSION.into(),
            sum: 0.into(),
            id: self.id,
            generation: self.generation.into(),
            number: self.number.into(),
            buffers: self.buffers.into(),
            volume_size: self.volume_size.into(),
            first_sequence: self.first_sequence.into(),
            durable: self.durable.into(),
            is_down: self.is_down.into(),
            is_begun: self.is_begun.into(),
            twin: self.twin,
            reserved: [0; 5],
        };
        let mut bytes = [0; LABEL as usize];
        raw.write_to_prefix(&mut bytes).expect("it is shorter");
        raw.sum = sum(&bytes).into();
        raw.write_to_prefix(&mut bytes).expect("it is shorter");
        bytes
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`BadLabel`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BadLabel> {
        let (mut raw, _) = RawLabel::read_from_prefix(bytes).map_err(|_| BadLabel::Missing)?;
        if raw.magic != LABEL_MAGIC {
            return Err(BadLabel::Missing);
        }
        if raw.version != VERSION {
            return Err(BadLabel::Version(raw.version.get()));
        }
        let bytes = bytes.get(..LABEL as usize).ok_or(BadLabel::Missing)?;
        let found = std::mem::replace(&mut raw.sum, U32::new_zeroed());
        let mut unsummed = bytes.to_vec();
        raw.write_to_prefix(&mut unsummed).expect("it is shorter");
        if sum(&unsummed) != found.get() {
            return Err(BadLabel::Checksum);
        }
        let label = Self {
            id: raw.id,
            generation: raw.generation.get(),
            number: raw.number.get(),
            buffers: raw.buffers.get(),
            volume_size: raw.volume_size.get(),
            first_sequence: raw.first_sequence.get(),
            durable: raw.durable.get(),
            is_down: raw.is_down != 0,
            is_begun: raw.is_begun != 0,
            twin: raw.twin,
        };
        let is_possible = (LEAST_BUFFERS..=u64::MAX / SLOT / 2).contains(&label.buffers);
        if is_possible { Ok(label) } else { Err(BadLabel::Nonsense) }
    }
}

/// The header of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The volume's number: buffers of another one are none.
    pub id: Id,
    /// The order of all entries.
    pub sequence: u64,
    /// Every entry up to this sequence was durable when this one was written.
    pub durable: u64,
    /// Number of the block on the volume.
    pub place: u64,
    /// Sectors of the block that the buffer holds, a bit for each.
    pub mask: u8,
    /// Sectors that are lost: no older version of them may be read.
    pub lost: u8,
    /// Checksum of the data.
    pub data_sum: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U32,
    sum: U32,
    id: Id,
    sequence: U64,
    durable: U64,
    place: U64,
    data_sum: U32,
    mask: u8,
    lost: u8,
    reserved: [u8; 2],
}

impl Header {
    /// Its bytes: a sector.
    pub fn encode(&self) -> [u8; SECTOR as usize] {
        let mut raw = RawHeader {
            magic: HEADER_MAGIC.into(),
            sum: 0.into(),
            id: self.id,
            sequence: self.sequence.into(),
            durable: self.durable.into(),
            place: self.place.into(),
            data_sum: self.data_sum.into(),
            mask: self.mask,
            lost: self.lost,
            reserved: [0; 2],
        };
        raw.sum = sum(raw.as_bytes()).into();
        let mut bytes = [0; SECTOR as usize];
        raw.write_to_prefix(&mut bytes).expect("it is shorter");
        bytes
    }

    /// Reads them. None if they are no header of this volume.
    pub fn decode(bytes: &[u8], id: &Id) -> Option<Self> {
        let (mut raw, _) = RawHeader::read_from_prefix(bytes).ok()?;
        let found = std::mem::replace(&mut raw.sum, U32::new_zeroed());
        let is_whole = raw.magic.get() == HEADER_MAGIC && sum(raw.as_bytes()) == found.get();
        (is_whole && raw.id == *id).then(|| Self {
            id: raw.id,
            sequence: raw.sequence.get(),
            durable: raw.durable.get(),
            place: raw.place.get(),
            mask: raw.mask,
            lost: raw.lost,
            data_sum: raw.data_sum.get(),
        })
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMarks {
    magic: U32,
    sum: U32,
    id: Id,
    durable: U64,
    reserved: [u8; 32],
    void: [U64; MARKS as usize],
}

const _: () = assert!(size_of::<RawMarks>() as u64 == SECTOR);

/// A sector of the void map: of each of its buffers, the sequence up to which its entries are not
/// needed any more. Every entry up to `durable` was durable when it was written.
pub fn encode_marks(id: &Id, durable: u64, void: &[u64]) -> [u8; SECTOR as usize] {
    let mut raw = RawMarks::new_zeroed();
    (raw.magic, raw.id, raw.durable) = (MAP_MAGIC.into(), *id, durable.into());
    raw.void.iter_mut().zip(void).for_each(|(raw, &void)| *raw = void.into());
    raw.sum = sum(raw.as_bytes()).into();
    raw.as_bytes().try_into().expect("it has a sector")
}

/// Reads one: the marks, and up to which sequence all is durable. None if it is none of this
/// volume.
pub fn decode_marks(bytes: &[u8], id: &Id) -> Option<([u64; MARKS as usize], u64)> {
    let (mut raw, _) = RawMarks::read_from_prefix(bytes).ok()?;
    let found = std::mem::replace(&mut raw.sum, U32::new_zeroed());
    let is_whole = raw.magic.get() == MAP_MAGIC && sum(raw.as_bytes()) == found.get();
    (is_whole && raw.id == *id).then(|| (raw.void.map(U64::get), raw.durable.get()))
}

/// The marks of a sector of the map. One that was never written has none.
pub(crate) fn marks_in(bytes: &[u8], id: &Id) -> Option<([u64; MARKS as usize], u64)> {
    let is_new = bytes.iter().all(|&byte| byte == 0);
    if is_new { Some(([0; MARKS as usize], 0)) } else { decode_marks(bytes, id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_own_place() {
        for size in [400_000, 1 << 20, (24 << 20) + 512, 1 << 30] {
            let layout = Layout::of(size).expect("it is large enough");
            let mut ends = vec![(0, LABEL), (layout.labels()[1], LABEL)];
            for sector in 0..layout.map_sectors() {
                ends.extend(layout.map(sector).map(|at| (at, SECTOR)));
            }
            ends.extend((0..layout.buffers).map(|buffer| (layout.slot(buffer), SLOT)));
            ends.sort_unstable();
            let is_apart = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 <= pair[1].0;
            assert!(ends.windows(2).all(is_apart) && ends.iter().all(|(at, _)| at % SECTOR == 0));
            assert!(ends.last().is_some_and(|(at, length)| at + length <= size));
        }
        assert_eq!(Layout::of(100_000), None);
        for buffers in [LEAST_BUFFERS, MARKS * 2, MARKS * 2 + 1, 4915] {
            let size = Layout::size_for(buffers);
            assert_eq!(Layout::of(size).map(|layout| layout.buffers), Some(buffers));
            assert!(Layout::of(size - 1).is_none_or(|layout| layout.buffers < buffers));
        }
    }

    #[test]
    fn what_is_written_is_read_and_a_flipped_bit_is_seen() {
        let id = [7; 16];
        let label = Label {
            id,
            generation: 3,
            number: 9,
            buffers: 4915,
            volume_size: 1 << 30,
            first_sequence: 17,
            durable: 16,
            is_down: true,
            is_begun: true,
            twin: 2,
        };
        let header = Header {
            id,
            sequence: 5,
            durable: 4,
            place: 77,
            mask: 0b1010,
            lost: 1,
            data_sum: sum(b"data"),
        };
        let void = [3; MARKS as usize];
        assert_eq!(Label::decode(&label.encode()), Ok(label));
        assert_eq!(Header::decode(&header.encode(), &id), Some(header));
        assert_eq!(Header::decode(&header.encode(), &[8; 16]), None, "of another volume");
        assert_eq!(decode_marks(&encode_marks(&id, 6, &void), &id), Some((void, 6)));
        for bit in 0..64 * 8 {
            let flip = |bytes: &mut [u8]| bytes[bit / 8] ^= 1 << (bit % 8);
            let (mut one, mut two) = (label.encode(), header.encode());
            let mut three = encode_marks(&id, 6, &void);
            [&mut one[..], &mut two[..], &mut three[..]].into_iter().for_each(flip);
            assert!(Label::decode(&one).is_err(), "bit {bit}");
            assert!(Header::decode(&two, &id).is_none() || bit / 8 >= 56, "bit {bit}");
            assert_eq!(decode_marks(&three, &id), None, "bit {bit}");
        }
    }
}
