//! Snapshots on the disk: a line for each, a line for each dead list, and these lists.
//!
//! A dead list is a chain of blocks, identified by their places in a tree: the last block has the
//! place of the one before it, and so on.

use vfs::{Name, Snapshot, SnapshotNumber, SnapshotState, Timestamp};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::head::Head;
use super::inode::Time;
use super::pointer::{HIGHEST, Root, Tree, capacity};
use super::run::{Run, Span};
use super::{BODY, UNIT, view, view_mut};

/// Life-cycle state of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Found by its name.
    Ready,
    /// No longer found by its name; clients may still read it.
    Deleting,
    /// No client reads it any more: it holds nothing.
    Gone,
}

/// The record of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its number.
    pub number: u64,
    /// Its name.
    pub name: Name,
    /// When it was made.
    pub created: Timestamp,
    /// Its life-cycle state.
    pub state: State,
    /// The update that made it: it holds blocks that were written by that update or before.
    pub update: u64,
    /// Its tree of inodes.
    pub inodes: Tree,
    /// Number of files.
    pub files: u64,
    /// Number of directories among them.
    pub directories: u64,
    /// Units of the leaves of files.
    pub units: u64,
    /// Blocks of metadata that lead to these, and blocks of inodes.
    pub nodes: u64,
    /// Units that its deletion has freed.
    pub freed: u64,
    /// Files without a name that the snapshot holds were being freed when it was made. All of them
    /// lost their names in this update or later. 0 if it holds none.
    pub orphans_since: u64,
}

impl Told {
    /// The snapshot as other layers see it.
    pub fn snapshot(&self) -> Snapshot {
        let state = match self.state {
            State::Ready => SnapshotState::Ready,
            State::Deleting | State::Gone => SnapshotState::Deleting,
        };
        let (number, name) = (SnapshotNumber(self.number), self.name.clone());
        Snapshot { number, name, created: self.created, state }
    }
}

/// The line of a snapshot. One of zeros is free.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Line {
    number: U32,
    state: u8,
    height: u8,
    name_length: U16,
    created: Time,
    update: U64,
    root: Root,
    files: U64,
    directories: U64,
    units: U64,
    nodes: U64,
    freed: U64,
    name: [u8; 255],
    orphans_since: U64,
    /// Bits of the number above the lower 32.
    number_high: U16,
    /// The other copy of the first block to which its root leads; 0 for none.
    twin: U64,
    reserved: [u8; 19],
}

/// Lines of snapshots in a block.
pub const LINES: u64 = (BODY / size_of::<Line>()) as u64;

const _: () = assert!(size_of::<Line>() == 504 && LINES == 8);

impl Line {
    fn offset(slot: u64) -> usize {
        size_of::<Head>() + (slot % LINES) as usize * size_of::<Self>()
    }

    /// Decodes a line of a block: none if it is free.
    ///
    /// # Errors
    /// When it makes no sense.
    #[expect(clippy::result_unit_err, reason = "there is nothing to be told")]
    pub fn read(block: &[u8], slot: u64) -> Result<Option<Told>, ()> {
        let line: &Self = view(&block[Self::offset(slot)..]);
        let number = wide(line.number, line.number_high);
        if number == 0 {
            return if line.as_bytes().iter().all(|&byte| byte == 0) { Ok(None) } else { Err(()) };
        }
        let state = match line.state {
            1 => State::Ready,
            2 => State::Deleting,
            3 => State::Gone,
            _ => return Err(()),
        };
        let name = line.name.get(..line.name_length.get().into()).ok_or(())?;
        let name = Name::parse(name).map_err(|_| ())?;
        let inodes = Tree { height: line.height, root: line.root, twin: line.twin.get() };
        let is_late = line.orphans_since.get() > line.update.get();
        if inodes.height > HIGHEST || number > SnapshotNumber::LAST.0 || is_late {
            return Err(());
        }
        Ok(Some(Told {
            number,
            name,
            created: line.created.into(),
            state,
            update: line.update.get(),
            inodes,
            files: line.files.get(),
            directories: line.directories.get(),
            units: line.units.get(),
            nodes: line.nodes.get(),
            freed: line.freed.get(),
            orphans_since: line.orphans_since.get(),
        }))
    }

    /// Encodes a line; `None` frees it.
    pub fn write(block: &mut [u8], slot: u64, told: Option<&Told>) {
        let line: &mut Self = view_mut(&mut block[Self::offset(slot)..]);
        line.zero();
        let Some(told) = told else { return };
        let name = told.name.as_bytes();
        (line.number, line.number_high) = narrow(told.number);
        line.state = match told.state {
            State::Ready => 1,
            State::Deleting => 2,
            State::Gone => 3,
        };
        line.name[..name.len()].copy_from_slice(name);
        (line.name_length, line.created) = ((name.len() as u16).into(), told.created.into());
        (line.update, line.height) = (told.update.into(), told.inodes.height);
        (line.root, line.twin) = (told.inodes.root, told.inodes.twin.into());
        (line.files, line.directories) = (told.files.into(), told.directories.into());
        (line.units, line.nodes) = (told.units.into(), told.nodes.into());
        (line.freed, line.orphans_since) = (told.freed.into(), told.orphans_since.into());
    }
}

/// A dead list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// The snapshots that hold its blocks.
    pub span: Span,
    /// Place of its last block.
    pub last: u64,
    /// Units on it.
    pub units: u64,
}

/// The line of a list. One of zeros is free.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ListLine {
    first: U32,
    end: U32,
    /// Below [`PLACES`].
    last: U32,
    /// The bits above the lower 32 of `first` and of `end`.
    first_high: U16,
    end_high: U16,
    units: U64,
}

/// Lines of lists in a block.
pub const LISTS: u64 = (BODY / size_of::<ListLine>()) as u64;

impl List {
    fn offset(slot: u64) -> usize {
        size_of::<Head>() + (slot % LISTS) as usize * size_of::<ListLine>()
    }

    /// Decodes a line of a block: none if it is free.
    pub fn read(block: &[u8], slot: u64) -> Option<Self> {
        let line: &ListLine = view(&block[Self::offset(slot)..]);
        let (first, end) = (wide(line.first, line.first_high), wide(line.end, line.end_high));
        let (span, last) = (Span { first, end }, line.last.get().into());
        let list = Self { span, last, units: line.units.get() };
        line.as_bytes().iter().any(|&byte| byte != 0).then_some(list)
    }

    /// Encodes a line; `None` frees it.
    pub fn write(block: &mut [u8], slot: u64, list: Option<&Self>) {
        let line: &mut ListLine = view_mut(&mut block[Self::offset(slot)..]);
        line.zero();
        let Some(Self { span, last, units }) = list else { return };
        (line.first, line.first_high) = narrow(span.first);
        (line.end, line.end_high) = narrow(span.end);
        line.last = u32::try_from(*last).expect("there are fewer places").into();
        line.units = (*units).into();
    }
}

/// The number of a snapshot from its lower bits and the others.
fn wide(low: U32, high: U16) -> u64 {
    u64::from(high.get()) << 32 | u64::from(low.get())
}

/// The lower bits of the number of a snapshot, and the others.
fn narrow(number: u64) -> (U32, U16) {
    ((number as u32).into(), ((number >> 32) as u16).into())
}

const _: () = assert!(SnapshotNumber::LAST.0 >> 48 == 0, "a line has room for it");

/// Places for blocks of lists: the number of blocks that a level of a tree may have.
pub const PLACES: u64 = 1 << 29;

/// The part of a root of all trees about snapshots and the blocks they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// Blocks of lines of snapshots.
    pub lines: Tree,
    /// Blocks of lines of lists.
    pub lists: Tree,
    /// Blocks of lists.
    pub died: Tree,
    /// Lines of snapshots from this one on are free.
    pub line_slots: u64,
    /// Lines of lists from this one on are free.
    pub list_slots: u64,
    /// Blocks of lists have places below this one. It is at most the number of blocks that existed
    /// at one time; volumes of earlier programs have larger ones, which openings bring down.
    pub died_slots: u64,
    /// The largest number that a snapshot ever had; 0 if there was none.
    pub last: u64,
    /// Time of the last creation or deletion.
    pub changed: Timestamp,
    /// Blocks of metadata that lead to files, and blocks of inodes.
    pub nodes: u64,
    /// Upper bound of those of them that snapshots hold, so that a change takes a new block beside
    /// the old one.
    pub pinned: u64,
    /// These blocks were written by this update, or before.
    pub pinned_until: u64,
}

impl Snapshots {
    /// Whether this is possible on a volume of this size.
    pub fn makes_sense(&self, units: u64) -> bool {
        let has_room = |tree: &Tree, slots: u64, per_block: u64| {
            slots.div_ceil(per_block) <= capacity(tree.height)
        };
        let most = units.saturating_mul(LISTS);
        has_room(&self.lines, self.line_slots, LINES)
            && has_room(&self.lists, self.list_slots, LISTS)
            && has_room(&self.died, self.died_slots, 1)
            && self.line_slots <= units.saturating_mul(LINES)
            && self.list_slots <= units
            && self.died_slots <= PLACES
            && [self.nodes, self.pinned].iter().all(|&count| count <= most)
            && self.last <= SnapshotNumber::LAST.0
            && self.changed.seconds < i64::MAX / 2
    }
}

/// Whether all lines of a block are free.
pub fn is_empty(block: &[u8]) -> bool {
    block[size_of::<Head>()..].iter().all(|&byte| byte == 0)
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DiedFront {
    /// The place of the block before this one, plus 1; 0 for none.
    previous: U64,
    runs: U32,
    reserved: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DiedRun {
    start: U64,
    length: U32,
}

/// Runs in a block of a list.
pub const RUNS: usize = (BODY - size_of::<DiedFront>()) / size_of::<DiedRun>();

/// A block of a dead list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Died {
    /// The place of the block before it.
    pub previous: Option<u64>,
    /// Dead runs.
    pub runs: Vec<Run>,
}

impl Died {
    const FRONT: usize = size_of::<Head>() + size_of::<DiedFront>();

    /// Decodes a block; none if it makes no sense.
    pub fn read(block: &[u8]) -> Option<Self> {
        let front: &DiedFront = view(&block[size_of::<Head>()..]);
        let runs = front.runs.get() as usize;
        let lines = block.get(Self::FRONT..Self::FRONT + runs * size_of::<DiedRun>())?;
        let runs = lines.chunks(size_of::<DiedRun>()).map(|bytes| {
            let run: &DiedRun = view(bytes);
            Run { start: run.start.get(), length: run.length.get().into() }
        });
        Some(Self { previous: front.previous.get().checked_sub(1), runs: runs.collect() })
    }

    /// Number of further runs for which a block has room.
    pub fn room(block: &[u8]) -> usize {
        RUNS.saturating_sub(view::<DiedFront>(&block[size_of::<Head>()..]).runs.get() as usize)
    }

    /// Clears a block for a list.
    pub fn begin(block: &mut [u8], previous: Option<u64>) {
        block[size_of::<Head>()..UNIT].fill(0);
        let front: &mut DiedFront = view_mut(&mut block[size_of::<Head>()..]);
        front.previous = previous.map_or(0, |previous| previous + 1).into();
    }

    /// Adds a run, for which there is room.
    pub fn add(block: &mut [u8], run: Run) {
        let front: &mut DiedFront = view_mut(&mut block[size_of::<Head>()..]);
        let at = Self::FRONT + front.runs.get() as usize * size_of::<DiedRun>();
        front.runs += 1;
        *view_mut::<DiedRun>(&mut block[at..]) =
            DiedRun { start: run.start.into(), length: (run.length as u32).into() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::pointer::Pointer;

    #[test]
    fn a_line_of_a_snapshot_says_what_was_written() {
        let mut block = vec![0; UNIT];
        let pointer = |n| Pointer::new(n, n + 1, n + 2);
        let told = |number: u64| Told {
            number,
            name: Name::parse(&vec![b'n'; 1 + 254 * (number as usize % 2)]).expect("it has one"),
            created: Timestamp { seconds: -5, nanoseconds: number as u32 },
            state: [State::Ready, State::Deleting, State::Gone][number as usize % 3],
            update: 1 << 40,
            inodes: Tree {
                height: 3,
                root: Root { pointers: [1, 2, 3, 4, 5, 0].map(pointer) },
                twin: number >> 3,
            },
            files: 3,
            directories: 2,
            units: 1,
            nodes: 9,
            freed: u64::MAX,
            orphans_since: (number & 0xff) << 30,
        };
        let last = SnapshotNumber::LAST.0;
        let numbers = [1, 2, 3, u64::from(u32::MAX), 1 << 32, 5 << 40, last - 1, last];
        for (slot, number) in (0..LINES).zip(numbers) {
            Line::write(&mut block, slot, Some(&told(number)));
        }
        for (slot, number) in (0..LINES).zip(numbers) {
            assert_eq!(Line::read(&block, slot), Ok(Some(told(number))));
        }
        Line::write(&mut block, 0, Some(&told(last + 1)));
        assert_eq!(Line::read(&block, 0), Err(()), "no snapshot has that number");
        (0..LINES).for_each(|slot| Line::write(&mut block, slot, None));
        assert_eq!((is_empty(&block), Line::read(&block, 3)), (true, Ok(None)));
        block[Line::offset(2)] = 1; // a number alone
        assert_eq!(Line::read(&block, 2), Err(()));
    }

    #[test]
    fn a_list_says_what_was_written() {
        let mut block = vec![0; UNIT];
        let list = |n: u64| {
            let first = n << 40 | n;
            List { span: Span { first, end: first + (1 << 33) }, last: n << 8, units: !n }
        };
        (0..LISTS).for_each(|slot| List::write(&mut block, slot, Some(&list(slot))));
        (0..LISTS).for_each(|slot| assert_eq!(List::read(&block, slot), Some(list(slot))));
        (0..LISTS).for_each(|slot| List::write(&mut block, slot, None));
        assert!(is_empty(&block) && List::read(&block, 5).is_none());
    }

    #[test]
    fn a_block_of_a_list_has_room_for_its_runs() {
        let mut block = vec![7; UNIT];
        for previous in [None, Some(0), Some(88)] {
            Died::begin(&mut block, previous);
            let runs: Vec<Run> =
                (0..RUNS as u64).map(|n| Run { start: n << 30, length: n + 1 }).collect();
            for (count, &run) in runs.iter().enumerate() {
                assert_eq!(Died::room(&block), RUNS - count);
                Died::add(&mut block, run);
            }
            assert_eq!(Died::room(&block), 0);
            assert_eq!(Died::read(&block), Some(Died { previous, runs }));
        }
    }
}
