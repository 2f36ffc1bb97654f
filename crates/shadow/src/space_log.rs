//! The space log: changes of units that are not in the map yet.
//!
//! Frees scatter: each block of the map gets a few. Written there at each fold, they would cost a
//! block each. So they wait in a ring of blocks until a block of the map has enough of them to be
//! worth writing, or until the oldest block of the ring is dropped: then each block of the map that
//! has lines there is written, with all lines that wait for it.
//!
//! ```text
//!  records --fold--> lines --few of a leaf--> log --many, or the oldest goes--> map
//!                       \--many of a leaf-------------------------------------^
//! ```
//!
//! Invariants:
//! 1. The units in use are those of the map, then of the log since the last fold of a leaf, then of
//!    the records.
//! 2. A block of the log is dropped when the map has all of its lines.
//! 3. There are no more blocks than the ring has.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use cow::{Run, UNIT};

use crate::format::anchor::Shape;
use crate::format::log::{LINES, Logged, lines_of};
use crate::format::record::Change;
use crate::planted::{Bug, is_planted};

/// Number of blocks in the log at most. An opening reads them all, wherever they are.
pub(crate) fn ring(shape: &Shape) -> u64 {
    (shape.units / 2048).clamp(4, 256)
}

/// Lines of a leaf of the map that make it worth writing: a block of the log has little more.
fn enough(shape: &Shape) -> usize {
    (shape.units / 16).clamp(16, 256) as usize
}

/// A line of the log that waits for its leaf to be written.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The block of the log that has the line.
    block: u64,
    run: Run,
    is_used: bool,
}

/// See the module's prose.
pub(crate) struct Log {
    ring: u64,
    enough: usize,
    first: u64,
    /// The leaves of the lines of each block, the oldest block first.
    blocks: VecDeque<BTreeSet<u64>>,
    /// The lines of the last block, which has room for more.
    last: Vec<Logged>,
    /// Waiting lines, by leaf of the map.
    waiting: BTreeMap<u64, Vec<Waiting>>,
}

/// Folds in a row that are for room alone, at most.
const IN_A_ROW: u64 = 4;

/// A limit on folds for room. On a large volume with a full ring, each block of the map that is
/// written because the oldest block of the log is dropped frees its own old place, scattered over
/// the map, and these frees are as many as the lines written: folding never makes the log shorter.
/// So folds for room end until something else changes.
#[derive(Default)]
pub(crate) struct Attempts {
    /// The count of changes at the last attempt, and the folds since.
    last: Cell<(u64, u64)>,
}

impl Attempts {
    /// Whether one more fold is worth it after this many changes; then it counts as begun.
    pub(crate) fn begin(&self, changes: u64) -> bool {
        let (before, folds) = self.last.get();
        let folds = if before == changes { folds } else { 0 };
        let is_worth_it = folds < IN_A_ROW;
        self.last.set((changes, folds + u64::from(is_worth_it)));
        is_worth_it
    }
}

/// How a fold splits the contents of records.
#[derive(Default)]
pub(crate) struct Parted {
    /// Leaves of the map to write, and their lines, in order.
    pub(crate) mapped: BTreeMap<u64, Vec<(Run, bool)>>,
    /// Those of them that cannot be read, and are filled anew with all that memory has.
    pub(crate) lost: BTreeSet<u64>,
    /// Lines for the log.
    pub(crate) logged: Vec<Logged>,
    /// Number of the oldest blocks of the log that are dropped.
    dropped: u64,
}

impl Log {
    /// A log without blocks, of which this many were dropped before.
    pub(crate) fn from(shape: &Shape, first: u64) -> Self {
        let (blocks, last, waiting) = (VecDeque::new(), Vec::new(), BTreeMap::new());
        Self { ring: ring(shape), enough: enough(shape), first, blocks, last, waiting }
    }

    /// Numbers of the live blocks.
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.blocks.len() as u64
    }

    /// Bytes of the live blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * UNIT as u64
    }

    /// Number of leaves of the map that are not up to date.
    pub(crate) fn leaves(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// The waiting lines, the oldest of each leaf first.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (Run, bool)> {
        self.waiting.values().flatten().map(|line| (line.run, line.is_used))
    }

    /// Adds a block.
    pub(crate) fn push(&mut self, lines: &[Logged]) {
        self.blocks.push_back(BTreeSet::new());
        self.last.clear();
        self.add(lines);
    }

    /// Adds lines to the last block.
    fn add(&mut self, lines: &[Logged]) {
        let block = self.range().end - 1;
        for line in lines {
            match *line {
                Logged::Folded(leaf) => _ = self.waiting.remove(&leaf),
                Logged::Became(run, is_used) => {
                    let leaf = line.leaf();
                    self.waiting.entry(leaf).or_default().push(Waiting { block, run, is_used });
                    self.blocks.back_mut().expect("it is the last").insert(leaf);
                }
            }
        }
        self.last.extend(lines);
        assert!(self.last.len() <= LINES, "they have room");
    }

    /// Number of these lines that fit into the last block, before others get new blocks.
    fn fit(&self, lines: &[Logged]) -> usize {
        let room = if self.blocks.is_empty() { 0 } else { LINES - self.last.len() };
        room.min(lines.len())
    }

    /// Blocks that change when this is folded, with their new lines.
    pub(crate) fn written(&self, parted: &Parted) -> Vec<(u64, Vec<Logged>)> {
        let Range { end, .. } = self.range();
        let (here, others) = parted.logged.split_at(self.fit(&parted.logged));
        let last = (!here.is_empty()).then(|| (end - 1, [&self.last, here].concat()));
        let others = (end..).zip(others.chunks(LINES).map(<[Logged]>::to_vec));
        last.into_iter().chain(others).collect()
    }

    /// Splits changes between map and log: with `all`, waiting lines too go into the map.
    pub(crate) fn part(&self, changes: &[Change], all: bool) -> Parted {
        let mut new: BTreeMap<u64, Vec<Logged>> = BTreeMap::new();
        for line in net(changes).into_iter().flat_map(lines_of) {
            new.entry(line.leaf()).or_default().push(line);
        }
        let waits = |leaf: &u64| self.waiting.get(leaf).map_or(0, Vec::len);
        let is_many = |leaf: &u64, lines: &[Logged]| waits(leaf) + lines.len() >= self.enough;
        let many = new.iter().filter(|(leaf, lines)| all || is_many(leaf, lines));
        let mut due: BTreeSet<u64> = many.map(|(&leaf, _)| leaf).collect();
        if all {
            due.extend(self.waiting.keys());
            let mapped = due.into_iter().map(|leaf| (leaf, self.all_of(leaf, &new))).collect();
            let dropped = self.blocks.len() as u64;
            return Parted { mapped, dropped, ..Parted::default() };
        }
        // Leaves that become due leave marks in the log, for which further blocks may have to go.
        let is_marked = |leaf: &u64| waits(leaf) > 0 && !is_planted(Bug::UnmarkedFolds);
        let mut marks = due.iter().filter(|leaf| is_marked(leaf)).count();
        let few = new.iter().filter(|(leaf, _)| !due.contains(leaf));
        let mut few: usize = few.map(|(_, lines)| lines.len()).sum();
        let (there, mut dropped) = (self.blocks.len() as u64, 0);
        let room = if self.blocks.is_empty() { 0 } else { LINES - self.last.len() };
        loop {
            let others = (marks + few).saturating_sub(room);
            let next = others.div_ceil(LINES) as u64;
            if next >= self.ring {
                return self.part(changes, true); // lines that would take the whole ring do not wait
            }
            let drops = (there + next).saturating_sub(self.ring).min(there);
            if drops <= dropped {
                break; // each time at least one more of them goes, so this ends
            }
            let more: Vec<u64> = self.oldest(dropped..drops).collect();
            for leaf in more.into_iter().filter(|_| !is_planted(Bug::DroppedLines)) {
                if due.insert(leaf) {
                    marks += usize::from(is_marked(&leaf));
                    few -= new.get(&leaf).map_or(0, Vec::len);
                }
            }
            dropped = drops;
        }
        let marks = due.iter().filter(|leaf| is_marked(leaf)).copied().map(Logged::Folded);
        let few = new.iter().filter(|(leaf, _)| !due.contains(leaf));
        let logged = marks.chain(few.flat_map(|(_, lines)| lines.iter().copied())).collect();
        let mapped = due.into_iter().map(|leaf| (leaf, self.all_of(leaf, &new))).collect();
        Parted { mapped, logged, dropped, ..Parted::default() }
    }

    /// Leaves that have lines waiting in some of the oldest blocks, or in one before them.
    fn oldest(&self, blocks: Range<u64>) -> impl Iterator<Item = u64> {
        let end = self.first + blocks.end;
        let some = self.blocks.range(blocks.start as usize..blocks.end as usize);
        let leaves = some.flatten().copied();
        leaves.filter(move |leaf| self.waiting.get(leaf).is_some_and(|all| all[0].block < end))
    }

    /// All lines of a leaf, waiting ones first.
    fn all_of(&self, leaf: u64, new: &BTreeMap<u64, Vec<Logged>>) -> Vec<(Run, bool)> {
        let waiting = self.waiting.get(&leaf).into_iter().flatten();
        let new = new.get(&leaf).into_iter().flatten().filter_map(|line| match *line {
            Logged::Became(run, is_used) => Some((run, is_used)),
            Logged::Folded(_) => None,
        });
        waiting.map(|line| (line.run, line.is_used)).chain(new).collect()
    }

    /// Applies a fold to the log in memory.
    pub(crate) fn fold(&mut self, parted: &Parted) {
        parted.mapped.keys().for_each(|leaf| _ = self.waiting.remove(leaf));
        let wait = self.oldest(0..parted.dropped).next();
        assert!(wait.is_none() || is_planted(Bug::DroppedLines), "invariant 2: {wait:?} waits");
        self.blocks.drain(..parted.dropped as usize);
        self.first += parted.dropped;
        let (here, others) = parted.logged.split_at(self.fit(&parted.logged));
        if !here.is_empty() {
            self.add(here);
        }
        others.chunks(LINES).for_each(|lines| self.push(lines));
        assert!(self.blocks.len() as u64 <= self.ring, "invariant 3");
    }
}

/// The net effect of changes, in the order of units.
fn net(changes: &[Change]) -> Vec<Change> {
    let mut steps: BTreeMap<u64, i64> = BTreeMap::new();
    for change in changes {
        let by = match change {
            Change::Taken(_) => 1,
            Change::Freed(_) if !is_planted(Bug::UnfoldedFrees) => -1,
            _ => continue,
        };
        *steps.entry(change.run().start).or_default() += by;
        *steps.entry(change.run().end()).or_default() -= by;
    }
    let (mut all, mut start, mut so_far) = (Vec::new(), 0, 0);
    for (at, by) in steps.into_iter().filter(|(_, by)| *by != 0) {
        let run = Run { start, length: at - start };
        match so_far {
            0 => {}
            1 => all.push(Change::Taken(run)),
            -1 => all.push(Change::Freed(run)),
            _ => panic!("invariant 1: units from {start} on are taken or freed twice"),
        }
        (start, so_far) = (at, so_far + by);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::MAPPED;
    use crate::format::log;

    fn run(start: u64, length: u64) -> Run {
        Run { start, length }
    }

    #[test]
    fn what_was_taken_and_freed_comes_to_nothing() {
        let (taken, freed) = (Change::Taken, Change::Freed);
        assert_eq!(net(&[taken(run(5, 3)), freed(run(5, 3))]), []);
        assert_eq!(
            net(&[freed(run(5, 1)), taken(run(5, 1)), freed(run(5, 1))]),
            [freed(run(5, 1))]
        );
        let changes = [taken(run(10, 9)), freed(run(12, 2)), freed(run(3, 4)), taken(run(19, 1))];
        let all = [freed(run(3, 4)), taken(run(10, 2)), taken(run(14, 5)), taken(run(19, 1))];
        assert_eq!(net(&changes).iter().map(Change::run).map(|it| it.length).sum::<u64>(), 12);
        assert_eq!(net(&changes)[..2], all[..2]);
    }

    #[test]
    fn a_unit_that_is_taken_twice_is_seen() {
        let twice = [Change::Taken(run(5, 3)), Change::Taken(run(7, 3))];
        assert!(std::panic::catch_unwind(|| net(&twice)).is_err());
    }

    /// A map and a log, as a disk has them.
    struct Disk {
        map: BTreeSet<u64>,
        blocks: BTreeMap<u64, Vec<u8>>,
        log: Log,
    }

    fn set(units: &mut BTreeSet<u64>, run: Run, is_used: bool) {
        for unit in run.start..run.end() {
            let is_new = if is_used { units.insert(unit) } else { units.remove(&unit) };
            assert!(is_new, "it was not so before");
        }
    }

    impl Disk {
        fn empty(ring: u64) -> Self {
            let log = Log { ring, ..Log::from(&Shape { units: 1 << 20, zone: 32, block: 1 }, 0) };
            Self { map: BTreeSet::new(), blocks: BTreeMap::new(), log }
        }

        fn fold(&mut self, changes: &[Change], all: bool) -> Parted {
            let parted = self.log.part(changes, all);
            let mapped = parted.mapped.values().flatten();
            mapped.for_each(|&(run, is_used)| set(&mut self.map, run, is_used));
            for (number, lines) in self.log.written(&parted) {
                let mut block = vec![0; UNIT];
                log::write(&mut block, &lines);
                self.blocks.insert(number, block);
            }
            self.log.fold(&parted);
            parted
        }

        /// The units in use as an opening reads them.
        fn read(&self) -> BTreeSet<u64> {
            let (Range { start, end }, mut found) = (self.log.range(), self.map.clone());
            let mut read = Self::empty(self.log.ring).log;
            read.first = start;
            for number in start..end {
                read.push(&log::read(&self.blocks[&number]).expect("it makes sense"));
            }
            read.lines().for_each(|(run, is_used)| set(&mut found, run, is_used));
            found
        }
    }

    /// Takes and frees units, most of them near each other, as in a zone at hand, and compares them
    /// with what an opening would read after each fold.
    fn compare(seed: u64, ring: u64) -> Result<(), String> {
        const LEAVES: u64 = 40;
        let (mut disk, mut used) = (Disk::empty(ring), BTreeSet::new());
        let mut chance = seed;
        let mut draw = move |below: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (chance >> 33) % below
        };
        let (mut waited, mut went) = (0, 0);
        for fold in 0..400 {
            let mut changes = Vec::new();
            for _ in 0..draw(if fold % 7 == 0 { 900 } else { 60 }) {
                let below = if draw(3) == 0 { LEAVES * MAPPED } else { 300 };
                let unit = draw(below);
                let is_new = used.insert(unit) || !used.remove(&unit);
                let of = if is_new { Change::Taken } else { Change::Freed };
                changes.push(of(Run::of(unit)));
            }
            let tells_all = fold % 50 == 49;
            let parted = disk.fold(&changes, tells_all);
            (waited, went) = (waited + parted.logged.len(), went + parted.dropped);
            if disk.read() != used {
                return Err(format!("seed {seed}, after fold {fold}"));
            }
            assert!(!tells_all || disk.map == used && disk.log.leaves() == 0, "the map tells all");
        }
        assert!(waited > 1000 && went > 50, "{waited} lines have waited, {went} blocks went");
        Ok(())
    }

    #[test]
    fn what_an_opening_reads_is_what_is_in_use() {
        for (seed, ring) in [(1, 3), (2, 9), (3, 20)] {
            assert_eq!(compare(seed, ring), Ok(()));
        }
    }

    /// On 1 TiB, with a hundred frees a fold scattered over it: without a log each would write a
    /// block.
    #[test]
    fn what_is_scattered_is_gathered() {
        let (leaves, frees, folds) = (8448, 100, 4000_u64);
        let shape = Shape { units: leaves * MAPPED, zone: 1 << 14, block: 2 };
        let mut log = Log::from(&shape, 0);
        let (mut mapped, mut logged) = (0, 0);
        for fold in 0..folds {
            let unit = |free: u64| ((fold * frees + free) * 104_729 * 2_053) % shape.units;
            let changes: Vec<Change> =
                (0..frees).map(|free| Change::Freed(Run::of(unit(free)))).collect();
            let parted = log.part(&changes, false);
            logged += log.written(&parted).len() as u64;
            log.fold(&parted);
            if fold >= folds / 2 {
                mapped += parted.mapped.len() as u64;
            }
        }
        let a_fold = |blocks: u64, folds: u64| blocks as f64 / folds as f64;
        let (mapped, logged) = (a_fold(mapped, folds / 2), a_fold(logged, folds));
        println!("a fold: {mapped:.1} blocks of the map, {logged:.1} of the log");
        assert!(mapped + logged < 15.0 && log.range().end > 256, "{mapped}, {logged}");
    }

    /// On 16 TiB with a full ring: the blocks of the map that a fold writes free as many places
    /// scattered over it, so the next fold has as much to do. Folds for room end all the same.
    #[test]
    fn folds_for_room_end_on_a_large_volume() {
        let leaves = 135_304_u64;
        let shape = Shape { units: leaves * MAPPED, zone: 1 << 14, block: 2 };
        let mut log = Log::from(&shape, 0);
        let mut chance = 1_u64;
        let mut draw = move |below: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (chance >> 24) % below
        };
        // Places of the blocks of the map that were written.
        let (mut stands, mut used) = (BTreeMap::new(), BTreeSet::new());
        let mut place = |used: &mut BTreeSet<u64>| loop {
            let unit = draw(shape.units);
            if used.insert(unit) {
                return unit;
            }
        };
        let mut fold = |log: &mut Log, changes: &[Change], used: &mut BTreeSet<u64>| {
            let parted = log.part(changes, false);
            log.fold(&parted);
            let mut own = Vec::new();
            for &leaf in parted.mapped.keys() {
                // Its old place was anywhere, and the new one is beside others.
                let old = stands.remove(&leaf).unwrap_or_else(|| place(used));
                stands.insert(leaf, place(used));
                own.push(Change::Freed(Run::of(old)));
            }
            own
        };
        let (mut changes, mut next) = (Vec::new(), 0_u64);
        while log.range().end < log.ring || changes.len() <= 2 * LINES {
            while changes.len() < 2_000 {
                next += 1;
                let unit = next * 215_008_637 % shape.units;
                changes.extend(used.insert(unit).then(|| Change::Freed(Run::of(unit))));
            }
            changes = fold(&mut log, &changes, &mut used);
        }
        let attempts = Attempts::default();
        let (mut folds, mut tasks) = (0, Vec::new());
        // While there are more lines than two blocks hold, another fold seems worth it.
        while changes.len() > 2 * LINES && attempts.begin(7) {
            tasks.push(changes.len());
            changes = fold(&mut log, &changes, &mut used);
            folds += 1;
        }
        assert!(folds > 1 && folds <= IN_A_ROW, "{tasks:?}");
        println!("lines of the records of each fold: {tasks:?}, and {} then", changes.len());
        assert!(attempts.begin(8), "something else has changed");
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn what_is_lost_is_seen() {
        for bug in [Bug::DroppedLines, Bug::UnmarkedFolds, Bug::UnfoldedFrees] {
            crate::planted::plant(Some(bug));
            let compared = std::panic::catch_unwind(|| compare(1, 3));
            crate::planted::plant(None);
            assert!(!matches!(compared, Ok(Ok(()))), "{bug:?} is not found");
        }
    }
}
