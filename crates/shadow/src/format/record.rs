//! Records: what an update took and gave back, and what its calls were answered.
//!
//! The records since the last fold are a chain: each names the one before it. What stands in them
//! is to be done in their order, and within a block from the front.

use vfs::SnapshotNumber;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::head::Head;
use super::pointer::Pointer;
use super::{BODY, UNIT, view, view_mut};

/// Units side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The first.
    pub start: u64,
    /// How many.
    pub length: u64,
}

impl Run {
    /// A unit alone.
    pub fn of(start: u64) -> Self {
        Self { start, length: 1 }
    }

    /// Each unit of it.
    pub fn units(self) -> impl Iterator<Item = Self> {
        (self.start..self.end()).map(Self::of)
    }

    /// The first unit behind it, as far as there are numbers for it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

/// Which snapshots hold what died: those that there are of the numbers from `first` on, and before
/// `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first that was made after it was written.
    pub first: u64,
    /// The first that was made after it died.
    pub end: u64,
}

/// What becomes of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are in use from this update on.
    Taken(Run),
    /// They are in use no more.
    Freed(Run),
    /// The live tree has them no more, and snapshots hold them.
    Died(Run, Span),
}

impl Change {
    /// Which units.
    pub fn run(&self) -> Run {
        let (Self::Taken(run) | Self::Freed(run) | Self::Died(run, _)) = self;
        *run
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Front {
    previous: Pointer,
    changes: U16,
    /// Bytes of answers behind the changes, each with its length before it.
    answers: U16,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Line {
    /// The first unit; or the lower 32 bits of the two numbers of a span, the first in the lower
    /// half.
    pub(super) start: U64,
    /// The two highest bits say what becomes of them. What died has the last span before it in the
    /// block. The other bits of a span are the higher 15 of its two numbers, likewise.
    pub(super) length: U32,
}

pub(super) const WHAT: u32 = 3 << 30;
pub(super) const TAKEN: u32 = 0;
const SPAN: u32 = 1 << 30;
pub(super) const FREED: u32 = 2 << 30;
const DIED: u32 = 3 << 30;
/// Bits of a number of a span above the lower 32.
const HIGH: u32 = 15;
const LOW: u64 = u32::MAX as u64;
/// The end of a span is the number behind that of the last snapshot, at most.
const _: () = assert!(SnapshotNumber::LAST.0 + 1 < 1 << (u32::BITS + HIGH));
/// The most units that a line tells of.
pub(super) const LONGEST: u64 = SPAN as u64 - 1;
const FRONT: usize = size_of::<Head>() + size_of::<Front>();
const ROOM: usize = BODY - size_of::<Front>();

/// Blocks that a record of so many lines and these answers has, at most. What died has two lines.
pub fn blocks_for(changes: usize, answers: &[std::rc::Rc<[u8]>]) -> usize {
    let bytes: usize = answers.iter().map(|answer| answer.len() + size_of::<U16>()).sum();
    let most = answers.iter().map(|answer| answer.len() + size_of::<U16>()).max().unwrap_or(0);
    // An answer is in one block; what it does not fit into is lost, as is room for a line alone.
    (changes * size_of::<Line>() + bytes).div_ceil(ROOM - most.max(2 * size_of::<Line>())).max(1)
}

/// A block of a record as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The block before it; null for the first since the fold.
    pub previous: Pointer,
    /// What becomes of units.
    pub changes: Vec<Change>,
    /// Answers, as bytes.
    pub answers: Vec<Vec<u8>>,
}

/// Lays changes and answers out in blocks, of which the heads are not written.
pub fn write(changes: &[Change], answers: &[std::rc::Rc<[u8]>]) -> Vec<Box<[u8; UNIT]>> {
    let mut changes = changes.iter().copied().flat_map(pieces).peekable();
    let mut answers = answers.iter().peekable();
    let mut blocks = Vec::new();
    while blocks.is_empty() || changes.peek().is_some() || answers.peek().is_some() {
        let mut block = Box::new([0; UNIT]);
        let (mut at, mut lines, mut told) = (FRONT, 0, 0);
        let mut last = None;
        while at + 2 * size_of::<Line>() <= UNIT
            && let Some(change) = changes.next()
        {
            let (run, what, span) = match change {
                Change::Taken(run) => (run, TAKEN, None),
                Change::Freed(run) => (run, FREED, None),
                Change::Died(run, span) => (run, DIED, Some(span)),
            };
            let mut put = |start: u64, length: u32| {
                let line = Line { start: start.into(), length: length.into() };
                block[at..at + size_of::<Line>()].copy_from_slice(line.as_bytes());
                at += size_of::<Line>();
                lines += 1;
            };
            if let Some(Span { first, end }) = span.filter(|_| span != last) {
                let high = ((end >> 32) << HIGH | first >> 32) as u32;
                put(end << 32 | first & LOW, high | SPAN);
                last = span;
            }
            put(run.start, run.length as u32 | what);
        }
        let fits = |at: usize, answer: &&std::rc::Rc<[u8]>| at + 2 + answer.len() <= UNIT;
        while changes.peek().is_none()
            && let Some(answer) = answers.next_if(|answer| fits(at, answer))
        {
            let end = put_answer(&mut *block, at, answer);
            told += end - at;
            at = end;
        }
        let front: &mut Front = view_mut(&mut block[size_of::<Head>()..]);
        front.changes = (lines as u16).into();
        front.answers = (told as u16).into();
        blocks.push(block);
    }
    blocks
}

/// A change in pieces of which a line can tell.
fn pieces(change: Change) -> impl Iterator<Item = Change> {
    let run = change.run();
    let of = move |start| Run { start, length: (run.end() - start).min(LONGEST) };
    let starts = (run.start..run.end()).step_by(LONGEST as usize);
    starts.map(of).map(move |run| match change {
        Change::Taken(_) => Change::Taken(run),
        Change::Freed(_) => Change::Freed(run),
        Change::Died(_, span) => Change::Died(run, span),
    })
}

/// Names the block before this one.
pub fn set_previous(block: &mut [u8], previous: Pointer) {
    view_mut::<Front>(&mut block[size_of::<Head>()..]).previous = previous;
}

/// What a block says; nothing if it makes no sense.
pub fn read(block: &[u8]) -> Option<Read> {
    let front: &Front = view(&block[size_of::<Head>()..]);
    let lines = usize::from(front.changes.get());
    let end = FRONT + lines * size_of::<Line>();
    let lines = block.get(FRONT..end)?;
    let (mut changes, mut last) = (Vec::new(), None);
    for bytes in lines.chunks(size_of::<Line>()) {
        let line: &Line = view(bytes);
        let (start, length) = (line.start.get(), u64::from(line.length.get() & !WHAT));
        let run = Run { start, length };
        match line.length.get() & WHAT {
            TAKEN => changes.push(Change::Taken(run)),
            FREED => changes.push(Change::Freed(run)),
            DIED => changes.push(Change::Died(run, last?)),
            _ => {
                let (first, end) = (length & ((1 << HIGH) - 1), length >> HIGH);
                last =
                    Some(Span { first: first << 32 | start & LOW, end: end << 32 | start >> 32 });
            }
        }
    }
    let told = block.get(end..end + usize::from(front.answers.get()))?;
    Some(Read { previous: front.previous, changes, answers: split(told)? })
}

/// Puts an answer into a block, with its length before it; gives where it ends.
pub fn put_answer(block: &mut [u8], at: usize, answer: &[u8]) -> usize {
    let (start, end) = (at + size_of::<U16>(), at + size_of::<U16>() + answer.len());
    block[at..start].copy_from_slice(U16::new(answer.len() as u16).as_bytes());
    block[start..end].copy_from_slice(answer);
    end
}

/// Answers in bytes, each with its length before it; nothing if they end in the middle of one.
pub fn split(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = U16::read_from_prefix(bytes).ok()?;
        let (answer, rest) = rest.split_at_checked(length.get().into())?;
        answers.push(answer.to_vec());
        bytes = rest;
    }
    Some(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (runs, told, length) in
            [(0, 0, 0), (1, 1, 64), (333, 0, 0), (400, 9, 700), (9, 60, 300)]
        {
            let run = |n: u64| Run { start: 7 + 9 * n, length: 1 + n % 5 };
            let last = SnapshotNumber::LAST.0 - 400;
            let first = |n: u64| if n.is_multiple_of(2) { 1 + n / 7 } else { last + n / 7 };
            let span = |n: u64| Span { first: first(n), end: last + 8 + n / 7 };
            let change = |n| match n % 3 {
                0 => Change::Taken(run(n)),
                1 => Change::Freed(run(n)),
                _ => Change::Died(run(n), span(n)),
            };
            let changes: Vec<_> = (0..runs).map(change).collect();
            let answers: Vec<std::rc::Rc<[u8]>> =
                (0..told).map(|n| vec![n as u8; length].into()).collect();
            let blocks = write(&changes, &answers);
            assert!(blocks.len() <= blocks_for(2 * changes.len(), &answers), "{}", blocks.len());
            let read: Vec<Read> =
                blocks.iter().map(|block| read(&**block).expect("whole")).collect();
            let found: Vec<Change> = read.iter().flat_map(|one| one.changes.clone()).collect();
            assert_eq!(found, changes);
            let found: Vec<Vec<u8>> = read.iter().flat_map(|one| one.answers.clone()).collect();
            assert_eq!(found, answers.iter().map(|one| one.to_vec()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_goes_on_behind_the_block_is_none() {
        let mut block = write(&[], &[]).pop().expect("one");
        view_mut::<Front>(&mut block[size_of::<Head>()..]).changes = 340.into();
        assert_eq!(read(&*block), None);
        view_mut::<Front>(&mut block[size_of::<Head>()..]).changes = 0.into();
        view_mut::<Front>(&mut block[size_of::<Head>()..]).answers = 3.into();
        block[FRONT] = 2;
        assert_eq!(read(&*block), None);
    }
}
