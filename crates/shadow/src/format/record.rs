//! Records: units that an update took and freed, and replies to its calls.
//!
//! The records since the last fold are a chain: each names the one before it. Their changes apply
//! in order, and within a block from the front.

use cow::format::answers::{put_answer, split};
use cow::{BODY, Head, Pointer, Run, Span, UNIT, view, view_mut};
use vfs::SnapshotNumber;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A change of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// In use from this update on.
    Taken(Run),
    /// No longer in use.
    Freed(Run),
    /// Not in the live tree any more, but held by snapshots.
    Died(Run, Span),
}

impl Change {
    /// The units that change.
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
    /// Bytes of replies behind the changes, each with its length before it.
    answers: U16,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Line {
    /// The first unit; or the lower 32 bits of the two numbers of a span, those of `first` in the
    /// lower half.
    pub(super) start: U64,
    /// The two highest bits are the kind. A dead run belongs to the last span before it in the
    /// block. In a span, the other bits are the higher 15 of its two numbers, likewise.
    pub(super) length: U32,
}

pub(super) const WHAT: u32 = 3 << 30;
pub(super) const TAKEN: u32 = 0;
const SPAN: u32 = 1 << 30;
pub(super) const FREED: u32 = 2 << 30;
const DIED: u32 = 3 << 30;
/// Bits of a span's number above the lower 32.
const HIGH: u32 = 15;
const LOW: u64 = u32::MAX as u64;
/// The end of a span is at most one above the number of the last snapshot.
const _: () = assert!(SnapshotNumber::LAST.0 + 1 < 1 << (u32::BITS + HIGH));
/// The most units in a line.
pub(super) const LONGEST: u64 = SPAN as u64 - 1;
const FRONT: usize = size_of::<Head>() + size_of::<Front>();
const ROOM: usize = BODY - size_of::<Front>();

/// Blocks of a record with this many lines and these replies, at most. A dead run has two lines.
pub fn blocks_for(changes: usize, answers: &[std::rc::Rc<[u8]>]) -> usize {
    let bytes: usize = answers.iter().map(|answer| answer.len() + size_of::<U16>()).sum();
    let most = answers.iter().map(|answer| answer.len() + size_of::<U16>()).max().unwrap_or(0);
    // A reply does not cross blocks: room that is too small for it, or for a line, is lost.
    (changes * size_of::<Line>() + bytes).div_ceil(ROOM - most.max(2 * size_of::<Line>())).max(1)
}

/// A decoded block of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The block before it; null for the first since the fold.
    pub previous: Pointer,
    /// Changes of units.
    pub changes: Vec<Change>,
    /// Encoded replies.
    pub answers: Vec<Vec<u8>>,
}

/// Lays changes and replies out in blocks, without their heads.
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

/// Splits a change into pieces that fit a line.
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

/// Sets the pointer to the block before this one.
pub fn set_previous(block: &mut [u8], previous: Pointer) {
    view_mut::<Front>(&mut block[size_of::<Head>()..]).previous = previous;
}

/// Decodes a block; none if it makes no sense.
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
