//! Random stories, most of them about edges: of fragments, blocks, indirect blocks, and of data
//! written a moment before.

use std::time::Duration;

use journal::format::SMALLEST;
use sim::Prng;

use super::story::{Act, End, FILES, Fill, LARGEST, Life, Stable, Step, Story};
use crate::explore::design::Shape;

/// Direct pointers of a UFS2 inode, and bytes of a pointer.
const DIRECT: u64 = 12;
const POINTER: u64 = 8;
/// Most bytes that are written twice, to a log and to their place, by default.
const RIDES: u64 = 16 << 10;
/// The atomic unit of a disk: the order of two writes into one sector is unknown.
const SECTOR: u64 = 512;
/// How many of the last writes are remembered, to overwrite them.
const RECENT: usize = 6;

/// Draws a story.
pub(super) fn generate(seed: u64) -> Story {
    let mut prng = Prng::new(seed);
    let shape = Shape { stripe: stripe(seed), ..shape(&mut prng) };
    let files = 1 + prng.index(FILES);
    // Most files are small, so that writes meet; some have all kinds of indirect blocks.
    let longest = match prng.below(10) {
        0..6 => (DIRECT + 4) * shape.block_size + (64 << 10),
        6..9 => 1 << 20,
        _ => 2_600 << 10,
    };
    let longest = longest.min(2_600 << 10);
    let mut plan =
        Plan { prng, shape, files, longest, sizes: [None; FILES], recent: Vec::new(), next: None };
    let mut number = 0;
    let mut lives = Vec::new();
    for _ in 0..1 + plan.prng.below(3) {
        let long = plan.prng.chance(1, 5);
        let count = if long { plan.prng.between(30, 90) } else { plan.prng.between(3, 24) };
        let steps = (number..number + count as usize).map(|number| plan.step(number)).collect();
        number += count as usize;
        let end = match plan.prng.below(6) {
            0..3 => End::Cut,
            3 => End::Kill,
            _ => End::Stop,
        };
        lives.push(Life { steps, end });
    }
    Story { seed, shape, lives }
}

/// Stripe size that the volume reports in about half of the stories: one or several blocks.
fn stripe(seed: u64) -> Option<u64> {
    let mut prng = Prng::new(!seed);
    prng.chance(1, 2).then(|| 4096 << prng.below(6))
}

fn shape(prng: &mut Prng) -> Shape {
    let sizes = [(4096, 512), (4096, 512), (8192, 1024), (32_768, 4096), (65_536, 8192)];
    let (block_size, fragment_size) = sizes[prng.index(sizes.len())];
    let logs = [SMALLEST, SMALLEST, 2 << 20, 4 << 20, 16 << 20];
    let caches = [128 << 10, 512 << 10, 4 << 20];
    let (sync_interval, sync_bytes) = match prng.below(4) {
        0 => (Duration::from_millis(3), 64 << 10),
        1 => (Duration::from_millis(200), 256 << 10),
        _ => (Duration::from_secs(5), 16 << 20),
    };
    Shape {
        volume_bytes: 24 << 20,
        block_size,
        fragment_size,
        log_bytes: logs[prng.index(logs.len())],
        cache_bytes: caches[prng.index(caches.len())],
        sync_interval,
        sync_bytes,
        stripe: None,
    }
}

/// State of the generator.
struct Plan {
    prng: Prng,
    shape: Shape,
    files: usize,
    longest: u64,
    /// Sizes of the existing files.
    sizes: [Option<u64>; FILES],
    /// Recent writes: file, start and end.
    recent: Vec<(usize, u64, u64)>,
    /// An act that must follow the last one.
    next: Option<Act>,
}

impl Plan {
    fn step(&mut self, number: usize) -> Step {
        let mut acts = in_calls(self.act());
        if self.prng.chance(1, 6) {
            for _ in 0..1 + self.prng.below(2) {
                let more = in_calls(self.act());
                if acts.iter().all(|act| more.iter().all(|more| !meet(act, more))) {
                    acts.extend(more);
                }
            }
        }
        self.note(&acts);
        Step { number, acts }
    }

    fn act(&mut self) -> Act {
        if let Some(next) = self.next.take() {
            return next;
        }
        let file = self.prng.index(self.files);
        let Some(size) = self.sizes[file] else { return Act::Create(file) };
        match self.prng.below(100) {
            0..50 => self.write(file, size),
            50..63 => self.commit(file, size),
            63..79 => Act::Resize { file, size: self.edge(file, size) },
            79..83 => Act::Remove(file),
            83..90 => {
                let offset = self.edge(file, size);
                let count = self.length().min(LARGEST) as u32;
                Act::Read { file, offset, count }
            }
            90..95 => Act::Settle,
            _ => Act::Wait(Duration::from_millis([1, 40, 300, 6_000][self.prng.index(4)])),
        }
    }

    fn write(&mut self, file: usize, size: u64) -> Act {
        if let Some(over) = self.large_over_small(file) {
            return over;
        }
        if let Some(behind) = self.behind_the_end(file, size) {
            return behind;
        }
        let offset = self.edge(file, size);
        let length = self.length().min(self.longest.saturating_sub(offset)).clamp(1, 2 * LARGEST);
        let fill = match self.prng.below(10) {
            0..3 => Fill::Zeros,
            3..5 => Fill::Same(1 + self.prng.below(250) as u8),
            5..9 => Fill::Random,
            _ => Fill::Holey,
        };
        let stable = match self.prng.below(20) {
            0..10 => Stable::FileSync,
            10..13 => Stable::DataSync,
            _ => Stable::Unstable,
        };
        Act::Write { file, offset, length, fill, stable }
    }

    /// Now and then, a write that goes to its place at once, over one that a log holds.
    fn large_over_small(&mut self, file: usize) -> Option<Act> {
        let is_small = |&&(of, start, end): &&(usize, u64, u64)| of == file && end - start <= RIDES;
        let small: Vec<u64> = self.recent.iter().filter(is_small).map(|recent| recent.1).collect();
        if small.is_empty() || !self.prng.chance(1, 6) {
            return None;
        }
        let offset = small[self.prng.index(small.len())];
        let length = RIDES + 1 + self.prng.below(RIDES);
        Some(Act::Write { file, offset, length, fill: Fill::Random, stable: Stable::FileSync })
    }

    /// Now and then, UNSTABLE data behind the end, followed by a FILE_SYNC write before the end, in
    /// the last block that is on the disk: the bytes between them stay.
    fn behind_the_end(&mut self, file: usize, size: u64) -> Option<Act> {
        let block_size = self.shape.block_size;
        let part = size % block_size;
        let (tail, behind) = (size - part, size - part + block_size * (1 + self.prng.below(4)));
        if part == 0 || behind + RIDES > self.longest || !self.prng.chance(1, 8) {
            return None;
        }
        let start = self.prng.below(part);
        let (offset, length) = (tail + start, 1 + self.prng.below(part - start));
        let fill = Fill::Random;
        self.next = Some(Act::Write { file, offset, length, fill, stable: Stable::FileSync });
        let length = 1 + self.prng.below(RIDES);
        Some(Act::Write { file, offset: behind, length, fill, stable: Stable::Unstable })
    }

    /// A COMMIT of a whole file, or of a range that often is that of a write.
    fn commit(&mut self, file: usize, size: u64) -> Act {
        let written = self.recent.iter().rev().find(|recent| recent.0 == file).copied();
        let (offset, count) = match (self.prng.below(8), written) {
            (0 | 1, _) | (_, None) => (0, 0),
            (2, Some(_)) => (self.edge(file, size), 0),
            (3, Some(_)) => (self.edge(file, size), self.length()),
            (4, Some((_, start, end))) => (start, (end - start) / 2),
            (5, Some((_, _, end))) => (0, end),
            (_, Some((_, start, end))) => (start, end - start),
        };
        Act::Commit { file, offset, count: count.min(u64::from(u32::MAX)) as u32 }
    }

    /// An offset in a file or behind it: near some edge, more often than not.
    fn edge(&mut self, file: usize, size: u64) -> u64 {
        let Shape { block_size, fragment_size, .. } = self.shape;
        let within = self.longest.min(size + 2 * block_size + 1);
        let written: Vec<(u64, u64)> = self
            .recent
            .iter()
            .filter(|recent| recent.0 == file)
            .map(|&(_, start, end)| (start, end))
            .collect();
        let place = match (self.prng.below(16), &written[..]) {
            (0..7, [_, ..]) => {
                let (start, end) = written[self.prng.index(written.len())];
                match self.prng.below(4) {
                    0 | 1 => start,
                    2 => end,
                    _ => start + self.prng.below(end - start),
                }
            }
            (0..2, []) | (7, _) => 0,
            (8 | 9, _) => size,
            (10 | 11, _) => self.prng.below(within / fragment_size + 1) * fragment_size,
            (12, _) => self.prng.below(within / block_size + 1) * block_size,
            (13, _) => {
                let indirect = DIRECT + block_size / POINTER;
                block_size * if self.prng.chance(1, 3) { indirect } else { DIRECT }
            }
            (14, _) => self.prng.below(self.longest), // perhaps a hole
            _ => self.prng.below(within),
        };
        let near = match self.prng.below(12) {
            0 => place.saturating_sub(1),
            1 => place + 1,
            2 => place + fragment_size,
            3 => place + block_size,
            4 => place.saturating_sub(block_size),
            5 => place + self.prng.below(block_size),
            6 => place / fragment_size * fragment_size,
            7 => place / block_size * block_size,
            _ => place,
        };
        near.min(self.longest)
    }

    fn length(&mut self) -> u64 {
        let Shape { block_size, fragment_size, .. } = self.shape;
        let longest = self.longest;
        match self.prng.below(16) {
            0 => 1,
            1 => 1 + self.prng.below(600),
            2 => fragment_size,
            3 => fragment_size + 1 + self.prng.below(fragment_size),
            4 | 5 => block_size,
            6 => block_size + self.prng.below(block_size),
            7 => RIDES,
            8 => RIDES / 2,
            9 => RIDES + 1 + self.prng.below(RIDES),
            10 | 11 => 32 << 10,
            12 => 64 << 10,
            13 => 1 + self.prng.below(longest.min(128 << 10)),
            14 => 1 + self.prng.below(longest / 2),
            _ => 1 + self.prng.below(longest.min(2 * LARGEST)),
        }
    }

    fn note(&mut self, acts: &[Act]) {
        for act in acts {
            match *act {
                Act::Create(file) => self.sizes[file] = Some(0),
                Act::Remove(file) => {
                    self.sizes[file] = None;
                    self.recent.retain(|recent| recent.0 != file);
                }
                Act::Write { file, offset, length, .. } => {
                    let size = self.sizes[file].unwrap_or(0);
                    self.sizes[file] = Some(size.max(offset + length));
                    self.recent.push((file, offset, offset + length));
                }
                Act::Resize { file, size } => self.sizes[file] = Some(size),
                _ => {}
            }
        }
        let much = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..much);
    }
}

/// Splits an act that one call cannot hold into several concurrent calls, as a kernel does.
fn in_calls(act: Act) -> Vec<Act> {
    let mut calls = vec![act];
    while let Some(&Act::Write { file, offset, length, fill, stable }) = calls.last()
        && length > LARGEST
    {
        let first = (offset + LARGEST) / SECTOR * SECTOR - offset;
        let piece = |offset, length| Act::Write { file, offset, length, fill, stable };
        calls.pop();
        calls.extend([piece(offset, first), piece(offset + first, length - first)]);
    }
    calls
}

/// Whether the model could not predict the result of two concurrent calls.
fn meet(one: &Act, other: &Act) -> bool {
    if one.file().is_none() || one.file() != other.file() {
        return matches!((one, other), (Act::Wait(_), _) | (_, Act::Wait(_)));
    }
    match (one, other) {
        (&Act::Write { offset, length, .. }, &Act::Write { offset: from, length: count, .. }) => {
            let sectors =
                |offset: u64, length: u64| offset / SECTOR..(offset + length).div_ceil(SECTOR);
            let (one, other) = (sectors(offset, length), sectors(from, count));
            one.start < other.end && other.start < one.end
        }
        (Act::Write { .. } | Act::Commit { .. }, Act::Commit { .. })
        | (Act::Commit { .. }, Act::Write { .. }) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_follows_from_its_seed_and_has_some_of_everything() {
        assert_eq!(generate(5), generate(5));
        let stories: Vec<Story> = (0..60).map(generate).collect();
        let lives = || stories.iter().flat_map(|story| &story.lives);
        let steps = || lives().flat_map(|life| &life.steps);
        let acts: Vec<Act> = steps().flat_map(|step| step.acts.clone()).collect();
        let has = |wanted: fn(&Act) -> bool| assert!(acts.iter().any(wanted));
        has(|act| matches!(act, Act::Write { fill: Fill::Zeros, length: 65_537.., .. }));
        has(|act| matches!(act, Act::Write { length: 1, .. }));
        has(|act| matches!(act, Act::Write { stable: Stable::DataSync, .. }));
        has(|act| matches!(act, Act::Commit { offset: 1.., count: 1.., .. }));
        has(|act| matches!(act, Act::Commit { offset: 0, count: 0, .. }));
        has(|act| matches!(act, Act::Remove(_)));
        has(|act| matches!(act, Act::Settle));
        for end in [End::Cut, End::Kill, End::Stop] {
            assert!(lives().any(|life| life.end == end));
        }
        assert!(steps().any(|step| step.acts.len() > 1));
        for step in steps() {
            for (index, one) in step.acts.iter().enumerate() {
                assert!(step.acts[index + 1..].iter().all(|other| !meet(one, other)));
            }
        }
    }
}
