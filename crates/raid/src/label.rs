//! Byte format of a member's label.
//!
//! Each member has two copies, one at each end of its space, so that no stray write takes both.
//! They are written one after the other, and the later of the whole ones is in force. All numbers
//! are little-endian; the checksum is CRC-32C. docs/formats/raid.md has the picture.

use std::mem::offset_of;

use crc_fast::{CrcAlgorithm, checksum};
use runtime::Random;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{Layout, Level, MEMBERS, UNITS};
use crate::planted::{Bug, is_planted};

/// Magic bytes of a label.
pub const MAGIC: [u8; 16] = *b"duramen raid\0\0\0\0";
/// The newest format version. A label has it only if it states what older programs must not
/// misread: that there are two NVRAMs in front of the set, of which one may have missed writes, or
/// a log device.
pub const VERSION: u32 = 6;
/// The version of a label that names one NVRAM, and no log device.
const ONE_NVRAM: u32 = 5;
/// The version of a label that states that a person took a member out, and names no NVRAM.
const OFFLINE: u32 = 4;
/// The version of all other labels.
const USUAL: u32 = 3;
/// The oldest version that is read. Its labels have no field for an opening against advice, and
/// none for a replacement.
const OLDEST: u32 = 2;
/// Bytes of a label.
pub const LABEL_SIZE: u64 = 4096;
/// Minimum byte offset of data on a member, so that no volume is found where one would look for it.
pub const DATA_START: u64 = 1 << 20;
/// Bytes reserved at the end of a member for its second label.
pub const TAIL: u64 = 64 << 10;
/// Minimum size of the log, in bytes and in stripes; both apply. It begins at [`DATA_START`].
pub(crate) const LOG_LEAST: (u64, u64) = (64 << 10, 8);
/// Bytes of a block of the map of stripes, and the bytes of bits in it.
pub const MAP_BLOCK: u64 = 4096;
pub(crate) const MAP_BITS: u64 = MAP_BLOCK - 32;
/// Byte offset of a member's block of missed regions, which is like a block of the map.
pub(crate) const MISSED_START: u64 = 16 << 10;
/// Bytes that one checksum covers.
pub const SUMMED: u64 = 4096;
/// Checksums in a table, whose size is that of a block of the map.
pub const SUMS: u64 = 1008;
/// Places of a table on each member that stores it, side by side.
pub const TABLE_PLACES: u64 = 2;
/// The maximum number of members.
const MOST: usize = *MEMBERS.end();

/// Identifies a set or a member, wherever it is plugged in.
pub type Id = [u8; 16];

/// State of a member of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Up to date: it has seen every write.
    InSync,
    /// Out: it has missed writes, or may have.
    Stale,
    /// Out, and being rebuilt from the others.
    Rebuilding,
    /// No member has this slot.
    Empty,
    /// Out, and catching up on what it has missed.
    CatchingUp,
    /// Taken out by a person: it has missed writes, or may have, and comes back only when a person
    /// says so.
    Offline,
}

impl Standing {
    /// All states, by their numbers in a label.
    pub const ALL: [Self; 6] =
        [Self::InSync, Self::Stale, Self::Rebuilding, Self::Empty, Self::CatchingUp, Self::Offline];

    /// Whether the member is out and is being brought up to date.
    pub fn is_coming(self) -> bool {
        matches!(self, Self::Rebuilding | Self::CatchingUp)
    }

    /// Whether the member is out and is not being brought up to date.
    pub fn is_out(self) -> bool {
        matches!(self, Self::Stale | Self::Offline)
    }

    fn number(self) -> u8 {
        Self::ALL.iter().position(|&one| one == self).expect("it is one of them") as u8
    }
}

/// A slot of a set: its member, and the member's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The member that has the slot, or had it last; zeros for none.
    pub member: Id,
    /// State of that member.
    pub standing: Standing,
}

/// A planned replacement: two disks get every write to one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The slot.
    pub slot: usize,
    /// The disk that is not the member of the slot: the new one at first, the old one once the new
    /// one is in.
    pub other: Id,
    /// Whether the new one is in. Nothing has been acknowledged that the old one does not have.
    pub is_done: bool,
}

/// The NVRAM in front of the set, without which the set may be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nvram {
    /// The number that it shares with the set.
    pub id: Id,
    /// Grows with each start: by it an older copy of the NVRAM is recognised.
    pub generation: u64,
    /// Whether it may hold data that the set lacks.
    pub is_dirty: bool,
    /// Which of two NVRAMs are called out: they have missed writes. `None` if there is one.
    pub out: Option<[bool; 2]>,
    /// Where the log device begins in its file. `None` if that has none.
    pub log_start: Option<u64>,
}

/// A label, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The set.
    pub set: Id,
    /// Slot of the member whose label it is.
    pub slot: usize,
    /// Grows whenever a member goes or comes.
    pub generation: u64,
    /// Grows with every write of the member's labels.
    pub number: u64,
    /// The last generation in which all members were up to date.
    pub whole: u64,
    /// The latest known generation when a person opened the set although missing members might be
    /// newer; 0 if nobody has since all members were up to date.
    pub forced: u64,
    /// Geometry of the set.
    pub layout: Layout,
    /// Byte offset of the data area on each member.
    pub data_start: u64,
    /// Every slot.
    pub slots: Vec<Slot>,
    /// The replacement under way.
    pub replacement: Option<Replacement>,
    /// Whether it is the label of the new disk of a replacement that is not done.
    pub is_incoming: bool,
    /// The NVRAM in front of the set.
    pub nvram: Option<Nvram>,
    /// Whether the log device may have records that the set needs.
    pub has_log_apart: bool,
}

impl Raw {
    /// The NVRAM in front of the set, and whether the log device may have needed records.
    fn nvram(&self) -> (Option<Nvram>, bool) {
        let (version, RawNvram { id, generation, flags, log_start, .. }) =
            (self.version.get(), self.nvram);
        let [has_nvram, is_dirty, are_two, first, second, is_apart] =
            NVRAM.map(|flag| flags & flag != 0);
        let (is_newest, generation) = (version == VERSION, generation.get());
        let has_nvram = has_nvram && version >= ONE_NVRAM;
        let out = (are_two && is_newest).then_some([first, second]);
        let log_start = Some(log_start.get()).filter(|&start| start > 0 && is_newest);
        let nvram = has_nvram.then_some(Nvram { id, generation, is_dirty, out, log_start });
        (nvram, is_apart && is_newest)
    }
}

impl Label {
    /// The member whose label it is, or the disk that is to become one.
    pub fn member(&self) -> Id {
        match self.replacement {
            Some(it) if self.is_incoming => it.other,
            _ => self.slots[self.slot].member,
        }
    }

    /// The replacement whose new disk is not in yet.
    pub fn incoming(&self) -> Option<Replacement> {
        self.replacement.filter(|it| !it.is_done)
    }

    /// Whether the label calls all members up to date.
    pub fn is_whole(&self) -> bool {
        self.slots.iter().all(|slot| slot.standing == Standing::InSync)
    }

    /// Whether the label has the same story as another one.
    pub(crate) fn tells_as(&self, other: &Self) -> bool {
        self.generation == other.generation && self.slots == other.slots
    }

    /// Whether this member has a slot, or is the disk that is to take one.
    pub fn has_place_for(&self, member: &Id) -> bool {
        let has_slot = self.slots.iter().any(|slot| slot.member == *member);
        has_slot || self.incoming().is_some_and(|it| it.other == *member)
    }

    /// The last generation in which a slot that is out was up to date. `None` if it is in, or if
    /// the labels do not show it: another one may have been out before it.
    pub fn out_since(&self, slot: usize) -> Option<u64> {
        let is_out = self.slots.get(slot)?.standing != Standing::InSync;
        let is_alone = self.layout.members - self.layout.needed() == 1;
        (is_out && is_alone && self.whole < self.generation).then_some(self.whole)
    }
}

/// Reason why bytes are not a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLabel {
    /// The bytes begin with something else.
    #[error("there is no label")]
    Missing,
    /// The version is unknown to this program.
    #[error("the label has version {0}, and only versions {OLDEST} to {VERSION} are known")]
    Version(u32),
    /// The bytes do not fit their checksum: the label was torn, or has rotted.
    #[error("the label does not fit its checksum")]
    Checksum,
    /// The checksum fits, and the contents contradict themselves.
    #[error("the label contradicts itself: {0}")]
    Nonsense(&'static str),
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSlot {
    member: Id,
    standing: u8,
    reserved: [u8; 7],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 16],
    version: U32,
    checksum: U32,
    set: Id,
    generation: U64,
    number: U64,
    unit: U64,
    rows: U64,
    data_start: U64,
    level: U16,
    members: U16,
    slot: U16,
    reserved: U16,
    slots: [RawSlot; MOST],
    whole: U64,
    forced: U64,
    other: Id,
    replaced: U16,
    replacing: U16,
    unused: [u8; 4],
    nvram: RawNvram,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawNvram {
    id: Id,
    generation: U64,
    flags: u8,
    reserved: [u8; 7],
    log_start: U64,
}

/// Flags of an NVRAM: there is one; it may hold data that the set lacks; there are two; the first
/// is called out; the second is; the log device may have records that the set needs.
const NVRAM: [u8; 6] = [1, 2, 4, 8, 16, 32];
/// Flags of a replacement: there is one; it is done; the label is that of the new disk.
const REPLACING: [u16; 3] = [1, 2, 4];

/// Byte offsets of the two labels of a member of this size.
pub fn places(size: u64) -> [u64; 2] {
    [0, (size - size % LABEL_SIZE).saturating_sub(TAIL)]
}

/// Bytes of a map with a bit for each of this many stripes: whole blocks.
pub fn map_size(rows: u64) -> u64 {
    rows.div_ceil(8).div_ceil(MAP_BITS) * MAP_BLOCK
}

/// Bytes of one copy of the tables of a member with this many data units.
pub fn tables_size(rows: u64, unit: u64) -> u64 {
    (rows * unit / SUMMED).div_ceil(SUMS) * TABLE_PLACES * MAP_BLOCK
}

/// Bytes reserved behind this many data units, for the map of stripes and the tables of two
/// members.
pub fn behind_data(rows: u64, unit: u64) -> u64 {
    map_size(rows) + 2 * tables_size(rows, unit)
}

/// Number of data units that fit on a member of this size.
pub fn rows_of(size: u64, data_start: u64, unit: u64) -> u64 {
    let room = places(size)[1].saturating_sub(data_start);
    room.saturating_sub(behind_data(room / unit, unit)) / unit
}

/// The checksum of everything on members except records, which are summed in parts.
pub(crate) fn sum_of(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Pads a label, or another block of this size, and inserts its checksum, whose field is zeros so
/// far.
pub(crate) fn sealed(raw: &[u8], checksum_at: usize) -> Vec<u8> {
    let mut bytes = raw.to_vec();
    bytes.resize(LABEL_SIZE as usize, 0);
    let sum = sum_of(&bytes).to_le_bytes();
    bytes[checksum_at..][..sum.len()].copy_from_slice(&sum);
    bytes
}

/// Whether bytes fit the checksum at this offset in them.
pub(crate) fn is_sealed(bytes: &[u8], checksum_at: usize) -> bool {
    let mut summed = bytes.to_vec();
    let sum = &mut summed[checksum_at..][..4];
    let stands = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
    sum.fill(0);
    sum_of(&summed) == stands
}

/// A new id for a set or a member.
pub fn new_id(random: &dyn Random) -> Id {
    let halves = [random.next_u64(), random.next_u64()].map(u64::to_le_bytes);
    std::array::from_fn(|byte| halves[byte / 8][byte % 8])
}

/// Whether these slots call a member up to date.
pub fn have_in_sync(slots: &[Slot], member: &Id) -> bool {
    slots.iter().any(|slot| slot.member == *member && slot.standing == Standing::InSync)
}

impl Label {
    /// The oldest version whose programs understand the label.
    fn version(&self) -> u32 {
        let has_offline = self.slots.iter().any(|slot| slot.standing == Standing::Offline);
        match self.nvram {
            _ if self.has_log_apart => VERSION,
            Some(Nvram { out: None, log_start: None, .. }) => ONE_NVRAM,
            Some(_) => VERSION,
            None if has_offline => OFFLINE,
            None => USUAL,
        }
    }

    /// Encodes the label.
    pub fn encode(&self) -> Vec<u8> {
        let mut raw = Raw {
            magic: MAGIC,
            version: self.version().into(),
            set: self.set,
            generation: self.generation.into(),
            number: self.number.into(),
            unit: self.layout.unit.into(),
            rows: self.layout.rows.into(),
            data_start: self.data_start.into(),
            level: (Level::ALL.iter().position(|&one| one == self.layout.level))
                .map_or(0, |level| level as u16)
                .into(),
            members: (self.layout.members as u16).into(),
            slot: (self.slot as u16).into(),
            whole: self.whole.into(),
            forced: self.forced.into(),
            ..Raw::new_zeroed()
        };
        if let Some(Replacement { slot, other, is_done }) = self.replacement {
            let flags = [true, is_done, self.is_incoming];
            let flags = flags.into_iter().zip(REPLACING).filter(|(is_set, _)| *is_set);
            raw.replacing = flags.map(|(_, flag)| flag).sum::<u16>().into();
            (raw.other, raw.replaced) = (other, (slot as u16).into());
        }
        if let Some(Nvram { id, generation, is_dirty, out, log_start }) = self.nvram {
            let [first, second] = out.unwrap_or_default();
            let flags = [true, is_dirty, out.is_some(), first, second];
            let flags = flags.into_iter().zip(NVRAM).filter(|(is_set, _)| *is_set);
            let flags = flags.map(|(_, flag)| flag).sum();
            let (generation, log_start) = (generation.into(), log_start.unwrap_or(0).into());
            raw.nvram = RawNvram { id, generation, flags, reserved: [0; 7], log_start };
        }
        raw.nvram.flags |= if self.has_log_apart { NVRAM[5] } else { 0 };
        for (raw, slot) in raw.slots.iter_mut().zip(&self.slots) {
            (raw.member, raw.standing) = (slot.member, slot.standing.number());
        }
        sealed(raw.as_bytes(), offset_of!(Raw, checksum))
    }

    /// Decodes a label.
    ///
    /// # Errors
    /// [`BadLabel`] gives the reason why it is not one.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadLabel> {
        let bytes = bytes.get(..LABEL_SIZE as usize).ok_or(BadLabel::Missing)?;
        let (raw, _) = Raw::read_from_prefix(bytes).map_err(|_| BadLabel::Missing)?;
        if raw.magic != MAGIC {
            return Err(BadLabel::Missing);
        }
        if !(OLDEST..=VERSION).contains(&raw.version.get()) {
            return Err(BadLabel::Version(raw.version.get()));
        }
        let is_whole = is_sealed(bytes, offset_of!(Raw, checksum));
        if !is_whole && !is_planted(Bug::UnsummedLabels) {
            return Err(BadLabel::Checksum);
        }
        Self::judge(&raw)
    }

    /// Validates and decodes a label whose checksum fits.
    fn judge(raw: &Raw) -> Result<Self, BadLabel> {
        let unless = |is_so: bool, why| if is_so { Ok(()) } else { Err(BadLabel::Nonsense(why)) };
        let level = Level::ALL.get(usize::from(raw.level.get())).copied();
        let level = level.ok_or(BadLabel::Nonsense("no level has that number"))?;
        let (members, slot) = (usize::from(raw.members.get()), usize::from(raw.slot.get()));
        let is_fit = MEMBERS.contains(&members) && members >= level.fewest();
        unless(is_fit, "no set has so many members")?;
        unless(slot < members, "its slot is none of the set")?;
        let unit = raw.unit.get();
        unless(UNITS.contains(&unit) && unit.is_power_of_two(), "no unit has that length")?;
        let (start, rows) = (raw.data_start.get(), raw.rows.get());
        unless(start >= DATA_START && start % unit == 0, "its data begins too early, or askew")?;
        let stripe = unit * members as u64;
        let log = if level == Level::Striped { 0 } else { LOG_LEAST.0.max(LOG_LEAST.1 * stripe) };
        unless(start - DATA_START >= log, "its log is too short")?;
        let room = (u64::MAX / 2 - start.min(u64::MAX / 2)) / (unit * members as u64);
        unless((1..=room).contains(&rows), "it has more room than there is, or none")?;
        let slots = raw.slots[..members].iter().map(|slot| {
            let standing = Standing::ALL.get(usize::from(slot.standing)).copied();
            let is_known = |&it: &Standing| it != Standing::Offline || raw.version.get() >= OFFLINE;
            let standing = standing.filter(is_known);
            let standing = standing.ok_or(BadLabel::Nonsense("nothing stands like that"))?;
            let is_empty = standing == Standing::Empty;
            unless(is_empty == (slot.member == Id::default()), "a slot is empty, or not")?;
            Ok(Slot { member: slot.member, standing })
        });
        let slots = slots.collect::<Result<Vec<Slot>, BadLabel>>()?;
        unless(slots[slot].standing != Standing::Empty, "the member has no slot")?;
        let twice = |at: usize| {
            let one = &slots[at];
            one.standing != Standing::Empty && slots[..at].iter().any(|s| s.member == one.member)
        };
        unless(!(0..members).any(twice), "a member has two slots")?;
        let is_old = raw.version.get() < USUAL;
        let flags = if is_old { 0 } else { raw.replacing.get() };
        let [is_under_way, is_done, is_incoming] = REPLACING.map(|flag| flags & flag != 0);
        let replaced = usize::from(raw.replaced.get());
        let replacement =
            is_under_way.then_some(Replacement { slot: replaced, other: raw.other, is_done });
        let is_new = raw.other != Id::default() && slots.iter().all(|it| it.member != raw.other);
        let is_possible = replaced < members && is_new && level != Level::Striped;
        unless(!is_under_way || is_possible, "it replaces no member, or by none")?;
        let is_its = is_under_way && !is_done && replaced == slot;
        unless(is_its || !is_incoming, "it is the label of a new disk, and there is none")?;
        unless(is_under_way || flags == 0, "it replaces no member, or by none")?;
        let (nvram, has_log_apart) = raw.nvram();
        Ok(Self {
            set: raw.set,
            slot,
            generation: raw.generation.get(),
            number: raw.number.get(),
            whole: raw.whole.get(),
            forced: if is_old { 0 } else { raw.forced.get() },
            layout: Layout { level, members, unit, rows },
            data_start: start,
            slots,
            replacement,
            is_incoming,
            nvram,
            has_log_apart,
        })
    }

    /// Chooses the copy in force among a member's two, the later of those that are whole, and
    /// returns its index.
    ///
    /// # Errors
    /// The reason why the first copy is invalid, if neither is whole; but if the first has no label
    /// at all, the reason for the second.
    pub fn of_copies(copies: [Result<Self, BadLabel>; 2]) -> Result<(Self, usize), BadLabel> {
        match copies {
            [Ok(one), Ok(other)] if other.number > one.number => Ok((other, 1)),
            [Ok(one), _] => Ok((one, 0)),
            [Err(_), Ok(other)] => Ok((other, 1)),
            [Err(BadLabel::Missing), Err(why)] | [Err(why), Err(_)] => Err(why),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A label of a set with this many members.
    pub(crate) fn label(level: Level, members: usize, slot: usize) -> Label {
        let layout = Layout { level, members, unit: 64 << 10, rows: 100 };
        let slots = (1..=members as u8)
            .map(|member| Slot { member: [member; 16], standing: Standing::InSync });
        let (set, slots) = ([9; 16], slots.collect());
        let data_start = DATA_START + (16 << 20); // room for the log of 32 members
        Label {
            set,
            slot,
            generation: 3,
            number: 7,
            whole: 2,
            forced: 0,
            layout,
            data_start,
            slots,
            replacement: None,
            is_incoming: false,
            nvram: None,
            has_log_apart: false,
        }
    }

    /// Makes the bytes fit their checksum again.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes[offset_of!(Raw, checksum)..][..4].fill(0);
        let sum = sum_of(&bytes).to_le_bytes();
        bytes[offset_of!(Raw, checksum)..][..4].copy_from_slice(&sum);
        bytes
    }

    #[test]
    fn a_label_says_what_it_was_told() {
        for level in Level::ALL {
            for members in [3, 32] {
                let mut told = label(level, members, 2);
                told.slots[1].standing = Standing::Stale;
                told.slots[2].standing = Standing::CatchingUp;
                told.slots[members - 1].standing = Standing::Offline;
                told.slots[0] = Slot { member: Id::default(), standing: Standing::Empty };
                assert_eq!(Label::decode(&told.encode()), Ok(told));
            }
        }
    }

    #[test]
    fn a_label_names_both_disks_of_a_replacement() {
        let mut told = label(Level::Parity, 4, 2);
        told.replacement = Some(Replacement { slot: 2, other: [77; 16], is_done: false });
        assert_eq!(Label::decode(&told.encode()).as_ref(), Ok(&told));
        assert_eq!(told.member(), [3; 16], "the old one is the member");
        told.is_incoming = true;
        assert_eq!(Label::decode(&told.encode()).as_ref(), Ok(&told));
        assert_eq!(told.member(), [77; 16]);
        assert_eq!(told.encode()[872..892], [[77; 16].as_slice(), &[2, 0, 5, 0]].concat());
        let replacement = |slot, other, is_done| Some(Replacement { slot, other, is_done });
        let other = "it is the label of a new disk, and there is none";
        let none = "it replaces no member, or by none";
        for (replacement, why) in [
            (replacement(1, [77; 16], false), other),
            (replacement(2, [77; 16], true), other),
            (replacement(4, [77; 16], false), none),
            (replacement(2, [1; 16], false), none),
            (replacement(2, [0; 16], false), none),
        ] {
            let wrong = Label { replacement, ..told.clone() };
            assert_eq!(Label::decode(&wrong.encode()), Err(BadLabel::Nonsense(why)));
        }
        told.is_incoming = false;
        let mut old = told.encode();
        old[16..20].copy_from_slice(&2_u32.to_le_bytes());
        let read = Label::decode(&sealed(old)).expect("an older version is read");
        assert_eq!(read.replacement, None, "it said nothing there");
    }

    #[test]
    fn a_label_of_the_version_before_is_read_and_others_are_refused() {
        let told = label(Level::Parity, 4, 2);
        let of_version = |version: u32| {
            let mut bytes = Label { forced: 6, ..told.clone() }.encode();
            bytes[16..20].copy_from_slice(&version.to_le_bytes());
            Label::decode(&sealed(bytes))
        };
        assert_eq!(of_version(2), Ok(told.clone()), "it said nothing there");
        for version in [3, 4, 5, 6] {
            assert_eq!(of_version(version), Ok(Label { forced: 6, ..told.clone() }));
        }
        for version in [0, 1, 7] {
            assert_eq!(of_version(version), Err(BadLabel::Version(version)));
        }
    }

    /// A program that knows version 3 would take an unknown state for damage, or bring back a
    /// member that a person has taken out.
    #[test]
    fn a_label_with_a_member_that_was_taken_out_is_of_a_version_of_its_own() {
        let mut told = label(Level::Parity, 4, 2);
        assert_eq!(told.encode()[16..20], 3_u32.to_le_bytes());
        told.slots[1].standing = Standing::Offline;
        let bytes = told.encode();
        assert_eq!(bytes[16..20], 4_u32.to_le_bytes());
        assert_eq!(bytes[88 + 24 + 16], 5, "how slot 1 stands");
        assert_eq!(Label::decode(&bytes), Ok(told));
        let mut older = bytes;
        older[16..20].copy_from_slice(&3_u32.to_le_bytes());
        let unknown = Err(BadLabel::Nonsense("nothing stands like that"));
        assert_eq!(Label::decode(&sealed(older)), unknown);
    }

    /// A program that knows nothing of NVRAM would serve a set whose newest data lie elsewhere.
    #[test]
    fn a_label_that_names_an_nvram_is_of_a_version_of_its_own() {
        let mut told = label(Level::Parity, 4, 2);
        for is_dirty in [false, true] {
            told.nvram = Some(Nvram {
                id: [5; 16],
                generation: 0x0102,
                is_dirty,
                out: None,
                log_start: None,
            });
            let bytes = told.encode();
            assert_eq!(bytes[16..20], 5_u32.to_le_bytes());
            assert_eq!(bytes[896..912], [5; 16]);
            assert_eq!(bytes[912..921], [2, 1, 0, 0, 0, 0, 0, 0, 1 + 2 * u8::from(is_dirty)]);
            assert_eq!(Label::decode(&bytes), Ok(told.clone()));
        }
        told.slots[1].standing = Standing::Offline;
        assert_eq!(Label::decode(&told.encode()), Ok(told.clone()), "both at once");
        let mut of_two = told.clone();
        for (out, flags) in [([false; 2], 7), ([true, false], 15), ([false, true], 23)] {
            let (id, generation, is_dirty, log_start) = ([5; 16], 3, true, None);
            let two = Nvram { id, generation, is_dirty, out: Some(out), log_start };
            of_two.nvram = Some(two);
            let bytes = of_two.encode();
            assert_eq!((&bytes[16..20], bytes[920]), (&6_u32.to_le_bytes()[..], flags));
            assert_eq!(Label::decode(&bytes), Ok(of_two.clone()));
        }
        let mut logged = told.clone();
        logged.has_log_apart = true;
        logged.nvram = told.nvram.map(|one| Nvram { log_start: Some(24 << 20), ..one });
        let bytes = logged.encode();
        assert_eq!((&bytes[16..20], bytes[920]), (&6_u32.to_le_bytes()[..], 35));
        assert_eq!(bytes[928..936], (24_u64 << 20).to_le_bytes());
        assert_eq!(Label::decode(&bytes), Ok(logged));
        let mut older = told.encode();
        older[16..20].copy_from_slice(&4_u32.to_le_bytes());
        let read = Label::decode(&sealed(older)).expect("an older version is read");
        assert_eq!(read.nvram, None, "it said nothing there");
    }

    #[test]
    fn the_bytes_are_those_of_the_page() {
        let bytes = label(Level::Parity, 4, 2).encode();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(&bytes[..16], b"duramen raid\0\0\0\0");
        assert_eq!(bytes[16..20], 3_u32.to_le_bytes());
        assert_eq!(bytes[24..40], [9; 16]);
        assert_eq!(bytes[40..48], 3_u64.to_le_bytes());
        assert_eq!(bytes[48..56], 7_u64.to_le_bytes());
        assert_eq!(bytes[56..64], (64_u64 << 10).to_le_bytes());
        assert_eq!(bytes[64..72], 100_u64.to_le_bytes());
        assert_eq!(bytes[72..80], (17_u64 << 20).to_le_bytes());
        assert_eq!(bytes[80..86], [2, 0, 4, 0, 2, 0], "level, members, slot");
        assert_eq!(bytes[88..104], [1; 16]);
        assert_eq!(bytes[88 + 3 * 24..][..16], [4; 16]);
        assert_eq!(bytes[856..864], 2_u64.to_le_bytes());
    }

    proptest! {
        #[test]
        fn a_label_in_which_a_byte_is_another_is_none(at in 0..4096_usize, by in 1..=255_u8) {
            let mut bytes = label(Level::Parity, 5, 1).encode();
            bytes[at] ^= by;
            prop_assert!(Label::decode(&bytes).is_err());
        }

        /// Any bytes that fit their checksum are refused, or can be used without harm.
        #[test]
        fn any_bytes_that_fit_are_judged(
            changes in prop::collection::vec((16..930_usize, any::<u8>()), 0..12),
        ) {
            let mut bytes = label(Level::Mirrored, 4, 1).encode();
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            if let Ok(label) = Label::decode(&sealed(bytes)) {
                let last = label.layout.pieces(label.layout.size() - 1, 1).next();
                prop_assert!(last.is_some_and(|piece| piece.member < label.layout.members));
                prop_assert!(label.slot < label.slots.len());
                prop_assert_eq!(Label::decode(&label.encode()), Ok(label));
            }
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |change: &dyn Fn(&mut Label)| {
            let mut label = label(Level::Parity, 4, 1);
            change(&mut label);
            match Label::decode(&label.encode()) {
                Err(BadLabel::Nonsense(why)) => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&|label| label.layout.unit = 5000), "no unit has that length");
        assert_eq!(refused(&|label| label.layout.members = 2), "no set has so many members");
        assert_eq!(refused(&|label| label.slot = 4), "its slot is none of the set");
        let early = "its data begins too early, or askew";
        assert_eq!(refused(&|label| label.data_start = 4096), early);
        assert_eq!(refused(&|label| label.data_start += 512), early);
        assert_eq!(refused(&|label| label.data_start = DATA_START), "its log is too short");
        let room = "it has more room than there is, or none";
        assert_eq!(refused(&|label| label.layout.rows = 0), room);
        assert_eq!(refused(&|label| label.layout.rows = u64::MAX), room);
        let other = "a member has two slots";
        assert_eq!(refused(&|label| label.slots[0].member = label.slots[3].member), other);
        assert_eq!(
            refused(&|label| label.slots[1].standing = Standing::Empty),
            "a slot is empty, or not"
        );
    }

    #[test]
    fn of_two_copies_the_later_one_holds_that_is_whole() {
        let (old, mut new) = (label(Level::Mirrored, 2, 0), label(Level::Mirrored, 2, 0));
        new.number += 1;
        let of = |one: Result<&Label, BadLabel>, other: Result<&Label, BadLabel>| {
            Label::of_copies([one.cloned(), other.cloned()])
        };
        assert_eq!(of(Ok(&old), Ok(&new)), Ok((new.clone(), 1)));
        assert_eq!(of(Ok(&new), Ok(&old)), Ok((new, 0)));
        assert_eq!(of(Err(BadLabel::Checksum), Ok(&old)), Ok((old.clone(), 1)));
        assert_eq!(of(Ok(&old), Err(BadLabel::Missing)), Ok((old, 0)));
        let neither = of(Err(BadLabel::Missing), Err(BadLabel::Checksum));
        assert_eq!(neither, Err(BadLabel::Checksum));
        assert_eq!(of(Err(BadLabel::Missing), Err(BadLabel::Missing)), Err(BadLabel::Missing));
    }

    #[test]
    fn data_lies_between_the_labels() {
        for size in [2 << 20, (8 << 20) + 512, (1_u64 << 40) + 4095] {
            let [first, last] = places(size);
            let rows = rows_of(size, DATA_START, 64 << 10);
            assert_eq!((first, last % LABEL_SIZE), (0, 0));
            let end = DATA_START + rows * (64 << 10) + map_size(rows);
            assert!(end <= last && last + LABEL_SIZE <= size);
            assert!(rows > 0, "{size}");
        }
        assert_eq!(rows_of(1 << 20, DATA_START, 64 << 10), 0);
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn a_label_that_is_believed_without_its_checksum_is_seen() {
        let mut bytes = label(Level::Parity, 5, 1).encode();
        bytes[41] ^= 1;
        crate::planted::plant(Some(Bug::UnsummedLabels));
        let believed = Label::decode(&bytes);
        crate::planted::plant(None);
        assert!(believed.is_ok() && Label::decode(&bytes) == Err(BadLabel::Checksum));
    }
}
