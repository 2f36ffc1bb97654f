//! The tests of every engine, over memory. Here Updates become durable in any order that their
//! dependencies allow, and a cut keeps any closed subset of the pending ones.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use enginekit::random::Seeded;
use enginekit::volume::Actor;
use enginekit::{Bench, Volume, names, snapshots, told, tree};
use ram::{Disk, Platter, Ram, RamOptions, open};
use runtime::{Runtime, Timestamp};
use sim::{Executor, Prng};
use vfs::FileSystem;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BYTES: u64 = 16 << 20;
/// Cuts drawn whenever a step of an actor is acknowledged: a test uses some of them.
const DRAWN: usize = 3;

/// A bench, with the cuts drawn so far.
struct Memory {
    prng: RefCell<Prng>,
    steps: RefCell<Vec<usize>>,
    drawn: RefCell<Vec<Left>>,
    /// Number of Updates that cuts took, and of those that they left before they were durable.
    taken: Cell<u64>,
    kept: Cell<u64>,
}

/// The state after a cut, and the steps acknowledged before it.
#[derive(Clone)]
struct Left {
    platter: Platter,
    steps: Vec<usize>,
    moment: usize,
}

impl Memory {
    fn new(seed: u64) -> Self {
        Self {
            prng: RefCell::new(Prng::new(seed)),
            steps: RefCell::default(),
            drawn: RefCell::default(),
            taken: Cell::new(0),
            kept: Cell::new(0),
        }
    }

    fn draw(&self, disk: &Disk) {
        for _ in 0..DRAWN {
            let (platter, cut) = disk.remains(|| self.prng.borrow_mut().chance(1, 2));
            self.taken.set(self.taken.get() + cut.taken);
            self.kept.set(self.kept.get() + cut.kept);
            let (steps, moment) = (self.steps.borrow().clone(), self.drawn.borrow().len());
            self.drawn.borrow_mut().push(Left { platter, steps, moment });
        }
    }
}

impl Bench for Memory {
    type Engine = Ram;
    type Disks = Rc<Disk>;
    type Recording = Vec<Left>;
    type Cut = Left;

    fn block_size(&self) -> u64 {
        4096
    }

    async fn make(&self, _executor: &Executor) -> Rc<Disk> {
        Disk::new(BYTES, NOW)
    }

    async fn open(&self, runtime: Runtime, disk: &Rc<Disk>) -> Result<Volume<Ram>, String> {
        let opened = open(disk.clone(), runtime, RamOptions::default()).await;
        opened.map(Volume::new).map_err(|error| error.to_string())
    }

    fn record(&self, _disk: &Rc<Disk>) {
        self.steps.replace(Vec::new());
    }

    fn acknowledge(&self, disk: &Rc<Disk>, actor: u64, step: usize) {
        self.draw(disk); // the step was durable before it was acknowledged
        let mut steps = self.steps.borrow_mut();
        let actors = steps.len().max(actor as usize + 1);
        steps.resize(actors, 0);
        steps[actor as usize] = step;
        drop(steps);
        self.draw(disk);
    }

    fn recording(&self, _disk: &Rc<Disk>) -> Vec<Left> {
        self.drawn.take()
    }

    fn cuts(&self, recording: &Vec<Left>, seed: u64, count: u64) -> Vec<Left> {
        let mut prng = Prng::new(seed);
        let mut cuts: Vec<Left> = Vec::new();
        (0..count).for_each(|_| cuts.push(recording[prng.index(recording.len())].clone()));
        cuts.sort_by_key(|left| left.moment);
        cuts
    }

    fn label(&self, left: &Left) -> String {
        format!("cut {}", left.moment)
    }

    fn acknowledged(&self, _recording: &Vec<Left>, left: &Left, actor: u64) -> usize {
        left.steps.get(actor as usize).copied().unwrap_or(0)
    }

    fn left(&self, left: &Left) -> Result<(Executor, Rc<Disk>), String> {
        left.platter.check(false)?;
        Ok((Executor::new(left.moment as u64), Disk::of(BYTES, left.platter.clone())))
    }

    fn stopped(&self, disk: &Rc<Disk>) -> (Executor, Rc<Disk>) {
        (Executor::new(1), disk.clone())
    }

    fn judge(&self, disk: &Rc<Disk>, _name: &str) -> Result<(), String> {
        disk.platter().check(true)
    }
}

/// The first violation in this many runs of the tree.
fn first_wrong(runs: u64) -> Option<String> {
    (1..=runs).find_map(|seed| {
        let bench = Memory::new(seed);
        let run = tree::record(&bench, seed, 40);
        let cuts = (bench.taken.get(), bench.kept.get());
        assert!(cuts.0.min(cuts.1) > 100, "run {seed} has something to be cut: {cuts:?}");
        let wrong = run.first_wrong(seed, 60, true)?;
        Some(format!("run {seed}: {wrong}"))
    })
}

/// `DURAMEN_RUNS` sets the number of runs.
#[test]
fn a_tree_survives_out_of_order() {
    let runs = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok());
    assert_eq!(first_wrong(runs.unwrap_or(6)), None);
}

#[test]
fn what_a_listing_told_stays() {
    for seed in 1..=4 {
        assert_eq!(told::told_names_stay(&Memory::new(seed), seed), Ok(()));
    }
}

/// A reply that waits for a directory's newest change alone shows names that a cut may take.
#[cfg(feature = "planted-bugs")]
#[test]
fn a_receipt_for_the_newest_change_alone_is_found() {
    use vnode::planted::{Bug, plant};
    let found = (1..=4).find_map(|seed| {
        plant(Some(Bug::NewestAlone));
        let told = told::told_names_stay(&Memory::new(seed), seed);
        plant(None);
        told.err()
    });
    println!("{}", found.expect("the bug is not found"));
}

#[test]
fn snapshots_hold_what_was_there() {
    for seed in 1..=3 {
        assert_eq!(snapshots::snapshots_hold(&Memory::new(seed), seed), Ok(()), "run {seed}");
    }
}

#[test]
fn snapshots_that_were_told_survive_out_of_order() {
    for seed in 1..=3 {
        let stay = snapshots::told_snapshots_stay(&Memory::new(seed), seed, 30);
        assert_eq!(stay, Ok(()), "run {seed}");
    }
}

#[test]
fn snapshots_hold_no_change_in_its_middle() {
    for seed in 1..=3 {
        let whole = snapshots::steps_are_held_whole(&Memory::new(seed), seed);
        assert_eq!(whole, Ok(()), "run {seed}");
    }
}

#[cfg(feature = "planted-bugs")]
fn vnode_bug<T>(bug: vnode::planted::Bug, run: impl FnOnce() -> T) -> T {
    vnode::planted::plant(Some(bug));
    let done = run();
    vnode::planted::plant(None);
    done
}

#[cfg(feature = "planted-bugs")]
#[test]
fn snapshots_that_do_not_hold_are_found() {
    let holds = || snapshots::snapshots_hold(&Memory::new(1), 1);
    ram::planted::plant(Some(ram::planted::Bug::LiveSnapshots));
    let live = holds();
    ram::planted::plant(None);
    let lasting = vnode_bug(vnode::planted::Bug::LastingSnapshots, holds);
    let unwritten = vnode_bug(vnode::planted::Bug::UnwrittenPins, holds);
    let stay = || snapshots::told_snapshots_stay(&Memory::new(2), 2, 60);
    let untold = vnode_bug(vnode::planted::Bug::UnwrittenPins, stay);
    let steps = || snapshots::steps_are_held_whole(&Memory::new(1), 1);
    let amid = vnode_bug(vnode::planted::Bug::PinsAmidSteps, steps);
    for found in [live, lasting, unwritten, untold, amid] {
        println!("{:.300}", found.expect_err("it is found"));
    }
}

#[test]
fn names_lead_to_their_files() {
    assert_eq!(names::names_lead_to_their_files(&Memory::new(1)), Ok(()));
}

#[test]
fn a_file_has_no_more_names_than_it_may() {
    assert_eq!(names::a_file_has_no_more_names_than_it_may(&Memory::new(1)), Ok(()));
}

#[test]
fn what_is_told_is_never_stale_in_little_memory() {
    let executor = Executor::new(1);
    let told = executor.block_on(async {
        let options = RamOptions { cache_bytes: 64 << 10, ..RamOptions::default() };
        let files = open(Disk::new(BYTES, NOW), executor.runtime(), options).await;
        let volume = Volume::new(files.expect("an empty volume"));
        let told = names::what_is_told_is_never_stale(&volume, &Seeded::new(1)).await;
        volume.files.shutdown().await.expect("it stops");
        told
    });
    assert_eq!(told, Ok(()));
}

#[test]
fn an_actor_finds_what_it_left_after_a_clean_stop() {
    let executor = Executor::new(3);
    let disk = Disk::new(BYTES, NOW);
    executor.block_on(async {
        let open = || open(disk.clone(), executor.runtime(), RamOptions::default());
        let volume = Volume::new(open().await.expect("an empty volume"));
        let directory = volume.mkdir(volume.files.root(), "d").await.expect("new");
        let (chance, files) = (Seeded::new(5), Default::default());
        let mut actor = Actor { volume: &volume, directory, chance, files, stable: false };
        for _ in 0..300 {
            actor.step(100_000).await;
        }
        actor.check_all().await;
        let (files, stable) = (std::mem::take(&mut actor.files), true);
        volume.files.shutdown().await.expect("it stops");
        let volume = Volume::new(open().await.expect("it was stopped"));
        let mut actor = Actor { volume: &volume, directory, chance: Seeded::new(6), files, stable };
        actor.check_all().await;
        actor.clear().await;
        volume.files.shutdown().await.expect("it stops");
    });
    executor.block_on_for(Duration::from_secs(1), std::future::pending::<()>());
    assert_eq!(disk.platter().check(true), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn broken_rules_are_found() {
    use ram::planted::{Bug, plant};
    for bug in [Bug::NoOrder, Bug::ReusedSlots, Bug::StagedReceipts] {
        plant(Some(bug));
        let wrong = first_wrong(16);
        plant(None);
        println!("{bug:?}: {:.300}", wrong.expect("the bug is not found"));
    }
}
