//! Blocks of the space log: changes of units that are not in the map yet.
//!
//! The lines of all blocks apply in order, the oldest first. A line may mark a block of the map as
//! up to date: then lines before it no longer count for the units of that block.

use cow::{BODY, Head, Run, UNIT, view, view_mut};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::MAPPED;
use super::record::{Change, FREED, LONGEST, Line, TAKEN, WHAT};

/// A line of the space log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logged {
    /// Units of one block of the map are in use, or free.
    Became(Run, bool),
    /// This block of the map is up to date.
    Folded(u64),
}

impl Logged {
    /// The block of the map that the line is about.
    pub fn leaf(&self) -> u64 {
        match self {
            Self::Became(run, _) => run.start / MAPPED,
            Self::Folded(leaf) => *leaf,
        }
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Front {
    lines: U32,
    reserved: U32,
}

const FOLDED: u32 = 1 << 30;
const FRONT: usize = size_of::<Head>() + size_of::<Front>();
/// Lines in a block at most.
pub const LINES: usize = (BODY - size_of::<Front>()) / size_of::<Line>();

const _: () = assert!(LINES == 335 && FRONT + LINES * size_of::<Line>() <= UNIT);
// A line is long enough for all units of a block of the map.
const _: () = assert!(MAPPED < LONGEST);

/// Splits a change of a record into lines, one for each block of the map.
pub fn lines_of(change: Change) -> impl Iterator<Item = Logged> {
    let (run, is_used) = (change.run(), matches!(change, Change::Taken(_)));
    let mut start = run.start;
    std::iter::from_fn(move || {
        let end = ((start / MAPPED + 1) * MAPPED).min(run.end());
        let piece = Run { start, length: end - start };
        start = end;
        (piece.length > 0).then_some(Logged::Became(piece, is_used))
    })
}

/// Fills the body of a block. Its head is written when it is sealed.
pub fn write(block: &mut [u8], lines: &[Logged]) {
    assert!(lines.len() <= LINES, "they have room");
    block.fill(0);
    view_mut::<Front>(&mut block[size_of::<Head>()..]).lines = (lines.len() as u32).into();
    for (place, line) in block[FRONT..].chunks_exact_mut(size_of::<Line>()).zip(lines) {
        let (start, length) = match *line {
            Logged::Became(run, true) => (run.start, run.length as u32 | TAKEN),
            Logged::Became(run, false) => (run.start, run.length as u32 | FREED),
            Logged::Folded(leaf) => (leaf, FOLDED),
        };
        let line = Line { start: U64::new(start), length: U32::new(length) };
        place.copy_from_slice(line.as_bytes());
    }
}

/// The lines of a block; none if it makes no sense.
pub fn read(block: &[u8]) -> Option<Vec<Logged>> {
    let lines = view::<Front>(&block[size_of::<Head>()..]).lines.get() as usize;
    let lines = block.get(FRONT..FRONT + lines.min(UNIT) * size_of::<Line>())?;
    let line = |bytes: &[u8]| {
        let line: &Line = view(bytes);
        let (start, length) = (line.start.get(), u64::from(line.length.get() & !WHAT));
        let run = Run { start, length };
        let last = start.checked_add(length.saturating_sub(1));
        let is_in_one = || length > 0 && last.is_some_and(|last| start / MAPPED == last / MAPPED);
        match line.length.get() & WHAT {
            FOLDED => Some(Logged::Folded(start)),
            TAKEN if is_in_one() => Some(Logged::Became(run, true)),
            FREED if is_in_one() => Some(Logged::Became(run, false)),
            _ => None,
        }
    };
    lines.chunks(size_of::<Line>()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let run = Run { start: MAPPED - 3, length: 2 * MAPPED + 5 };
        let mut lines: Vec<Logged> = lines_of(Change::Taken(run)).collect();
        assert_eq!(lines.len(), 4, "three units, two blocks of the map, and two units");
        assert_eq!(lines.iter().map(Logged::leaf).collect::<Vec<_>>(), [0, 1, 2, 3]);
        lines.extend(lines_of(Change::Freed(Run::of(7))));
        lines.extend((0..LINES as u64 - 5).map(Logged::Folded));
        let mut block = [9; UNIT];
        write(&mut block, &lines);
        assert_eq!(read(&block), Some(lines));
        write(&mut block, &[]);
        assert_eq!(read(&block), Some(Vec::new()));
    }

    #[test]
    fn what_makes_no_sense_is_none() {
        let mut block = [0; UNIT];
        for run in [Run { start: 7, length: 0 }, Run { start: MAPPED - 1, length: 2 }] {
            write(&mut block, &[Logged::Became(run, true)]);
            assert_eq!(read(&block), None, "{run:?}");
        }
        write(&mut block, &[]);
        view_mut::<Front>(&mut block[size_of::<Head>()..]).lines = 336.into();
        assert_eq!(read(&block), None, "more than there is room for");
    }
}
