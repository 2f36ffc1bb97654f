//! Calls of one client that overlap, on few names, over several boots: the calls that a start
//! remembers agree with the tree.
//!
//! All calls of a boot are applied one after the other, and none waits until another is durable.
//! Power fails at any moment, during recovery too. Then the tree is the previous one with exactly
//! the remembered calls carried out, in their order, and all answered calls are among these. A
//! remembered call stays remembered, and nothing else appears.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use journal::format::SMALLEST;
use runtime::{Runtime, Timestamp};
use sim::{Disk, Executor, Image, Platter, Prng, Trace};
use ufs2::layout::{Geometry, ROOT_INODE, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};
use ufs2::mark::Mark;
use ufs2::mkfs::mkfs;
use vfs::{
    Answer, CallKey, CreateHow, Credentials, FileSystem, Lost, ObjectId, Requester, Sealed,
    SetAttributes, Stability,
};

use ffs::check_intents::check;
use ffs::{Disks, OpenError, OpenOptions, Opened, PolicyKind, open};
use fsck::CheckOptions;

use super::cutting::{Pair, left, sizes};
use super::volume::{Volume, name};
use super::{Seeded, own_findings};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const NAMES: [&str; 3] = ["a", "b", "c"];
const DIRECTORIES: [&str; 2] = ["d", "e"];
const ROOT: &str = "/";
const BOOTS: u64 = 4;
const CALLS: usize = 10;

/// Inode and mode by name.
type Tree = BTreeMap<&'static str, (u64, u16)>;

/// A call that was carried out, and its effect.
#[derive(Clone, Copy, Debug)]
enum Done {
    Made(&'static str, u64, u16),
    Gone(&'static str),
    Moved(&'static str, &'static str),
    Linked(&'static str, &'static str),
    Set(&'static str, u16),
}

/// State at the beginning of a boot, and calls made in it.
#[derive(Default)]
struct Boot {
    number: u64,
    tree: Tree,
    calls: Vec<(u64, Done)>,
    answered: BTreeSet<u64>,
    /// All calls that were remembered when it began.
    remembered: BTreeSet<u64>,
}

fn number_of(key: &CallKey) -> u64 {
    u64::from_le_bytes(key.as_bytes().try_into().expect("eight bytes"))
}

pub(crate) fn caller(number: u64) -> Requester {
    let key = CallKey::new(&number.to_le_bytes()).expect("eight bytes");
    Requester { who: Credentials::root(), call: Some(Rc::new(key)) }
}

pub(crate) async fn try_open_with_ring(
    policy: PolicyKind,
    runtime: Runtime,
    disks: &Pair<Rc<Disk>>,
) -> Result<Opened, OpenError> {
    let ring = disks.log.clone().expect("there is a ring");
    let disks = Disks::with_intents(disks.home.clone(), ring);
    let options = OpenOptions { finishes_reclaim: true, ..OpenOptions::default() };
    open(policy, disks, runtime, &options, &mut |_| ()).await
}

/// The same where the ring has lost nothing.
pub(crate) async fn open_with_ring(
    policy: PolicyKind,
    runtime: Runtime,
    disks: &Pair<Rc<Disk>>,
) -> Result<Volume, String> {
    let opened = try_open_with_ring(policy, runtime, disks).await;
    let opened = opened.map_err(|error| error.to_string())?;
    assert_eq!(opened.lost_intents, None);
    Ok(Volume::new(opened.files))
}

/// The object of a name, or the root.
async fn find(volume: &Volume, one: &str) -> Option<ObjectId> {
    let root = volume.files.root();
    if one == ROOT { Some(root) } else { volume.lookup(root, one).await.ok() }
}

async fn tree_of(volume: &Volume) -> Tree {
    let mut tree = Tree::new();
    for one in NAMES.into_iter().chain(DIRECTORIES).chain([ROOT]) {
        if let Some(id) = find(volume, one).await {
            let attributes = volume.files.getattr(id).await.open().await.expect("running");
            let attributes = attributes.into_inner().expect("it has a name");
            tree.insert(one, (id.ino.0, attributes.mode));
        }
    }
    tree
}

/// A call that was applied, unless it is never remembered, with a future that waits for its answer.
type Applied = (Option<Done>, LocalBoxFuture<'static, Result<(), Lost>>);

fn applied<T: 'static, W: 'static>(
    sealed: Sealed<Answer<T, W>>,
    done: impl FnOnce(&T) -> Done,
) -> Option<Applied> {
    let mut what = None;
    let sealed = sealed.map(|answer| {
        what = answer.result.as_ref().ok().map(done);
    });
    Some((Some(what?), async move { sealed.open().await.map(|_| ()) }.boxed_local()))
}

/// Makes a random call; `None` if it has nothing to do.
async fn call(volume: &Volume, who: &Requester, prng: &mut Prng) -> Option<Applied> {
    let (files, root) = (&volume.files, volume.files.root());
    let of = |names: &[&'static str], prng: &mut Prng| names[prng.index(names.len())];
    let (one, other) = (of(&NAMES, prng), of(&NAMES, prng));
    let directory = of(&DIRECTORIES, prng);
    let mode = 0o600 + prng.index(64) as u16;
    let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    let made = |one| move |found: &vfs::Found| Done::Made(one, found.id.ino.0, mode);
    match prng.index(12) {
        0 | 1 => {
            applied(files.create(who, root, &name(one), CreateHow::Guarded(set)).await, made(one))
        }
        2 => applied(files.remove(who, root, &name(one)).await, |()| Done::Gone(one)),
        3 | 4 if one != other => {
            let ids = [volume.lookup(root, one).await, volume.lookup(root, other).await];
            if ids[0] == ids[1] {
                return None; // two names of one file, or missing
            }
            let moved = files.rename(who, root, &name(one), root, &name(other)).await;
            applied(moved, |()| Done::Moved(one, other))
        }
        5 => applied(files.mkdir(who, root, &name(directory), set).await, made(directory)),
        6 => applied(files.rmdir(who, root, &name(directory)).await, |()| Done::Gone(directory)),
        7 => {
            let id = find(volume, one).await?;
            let linked = files.link(who, id, root, &name(other)).await;
            applied(linked, |()| Done::Linked(one, other))
        }
        8 => {
            let id = find(volume, one).await?;
            let (at, data) = (prng.index(3) as u64 * 4096, vec![vec![1; 4096].into()]);
            let written = files.write(&who.who, id, at, data, Stability::FileSync).await;
            Some((None, async move { written.open().await.map(|_| ()) }.boxed_local()))
        }
        _ => {
            let one = of(&[one, directory, ROOT], prng);
            let id = find(volume, one).await?;
            applied(files.setattr(who, id, set, None).await, |()| Done::Set(one, mode))
        }
    }
}

impl Done {
    /// Applies it to the tree.
    fn apply(self, tree: &mut Tree) -> Result<(), String> {
        let missing = || format!("{self:?} is remembered, and had nothing to do in {tree:?}");
        match self {
            Self::Made(one, ..) | Self::Linked(_, one) if tree.contains_key(one) => {
                return Err(missing());
            }
            Self::Gone(one) | Self::Moved(one, _) | Self::Linked(one, _) | Self::Set(one, _)
                if !tree.contains_key(one) =>
            {
                return Err(missing());
            }
            _ => {}
        }
        match self {
            Self::Made(one, ino, mode) => drop(tree.insert(one, (ino, mode))),
            Self::Gone(one) => drop(tree.remove(one)),
            Self::Moved(one, other) => {
                let moved = tree.remove(one).expect("it was looked for");
                tree.insert(other, moved);
            }
            Self::Linked(one, other) => drop(tree.insert(other, tree[one])),
            Self::Set(one, mode) => {
                let (ino, _) = tree[one];
                tree.values_mut().filter(|it| it.0 == ino).for_each(|it| it.1 = mode);
            }
        }
        Ok(())
    }
}

impl Boot {
    /// Compares the state found by the next boot.
    fn judge(&self, tree: &Tree, remembered: &BTreeSet<u64>) -> Result<(), String> {
        let first = self.number << 32;
        let before: BTreeSet<u64> = remembered.range(..first).copied().collect();
        if before != self.remembered {
            return Err(format!("{before:?} are remembered of {:?}", self.remembered));
        }
        if let Some(lost) = self.answered.difference(remembered).next() {
            return Err(format!("call {} was answered, and is not remembered", lost - first));
        }
        let mut expected = self.tree.clone();
        for (_, done) in self.calls.iter().filter(|(number, _)| remembered.contains(number)) {
            done.apply(&mut expected)?;
        }
        if *tree != expected {
            return Err(format!("the tree is {tree:?}, not {expected:?}"));
        }
        Ok(())
    }
}

/// An empty volume, and an unused ring.
pub(crate) fn fresh() -> Pair<Image> {
    let executor = Executor::new(1);
    let home = Disk::new(&executor, Image::zeroed(4 << 20));
    let made = async { mkfs(&*home, &sizes(4096, 512), &Seeded::new(7), NOW).await };
    executor.block_on(made).expect("it fits");
    Pair { home: home.contents(), log: Some(Image::zeroed(SMALLEST)) }
}

/// A call is answered. Then another system uses the disk, if there `is_another`, and reverses the
/// effect of the call; each stops the volume cleanly, or is killed. Returns the number of calls
/// that are remembered then.
pub(crate) fn remembered_after(policy: PolicyKind, is_another: bool, stops: bool) -> usize {
    let mut images = fresh();
    for number in 1..=3 {
        let executor = Executor::new(number);
        let disks = images.map(|image| Disk::new(&executor, image.clone()));
        let runtime = executor.runtime();
        let kept = executor.block_on(async {
            runtime.clock.sleep(Duration::from_secs(5 * number)).await;
            let volume = match number {
                2 => {
                    let disks = Disks::alone(disks.home.clone());
                    let options = OpenOptions::default();
                    let opened = open(policy, disks, runtime, &options, &mut |_| ()).await;
                    Volume::new(opened.expect("it is ours").files)
                }
                _ => open_with_ring(policy, runtime, &disks).await.expect("it comes back"),
            };
            let (files, root) = (&volume.files, volume.files.root());
            let set = CreateHow::Unchecked(SetAttributes::default());
            match number {
                1 => {
                    for (number, one) in [(1, "a"), (2, "b")] {
                        let who = caller(number);
                        let made = files.create(&who, root, &name(one), set).await;
                        made.open().await.expect("running");
                    }
                }
                2 => {
                    let who = Requester::root();
                    drop(files.remove(&who, root, &name("a")).await.open().await);
                }
                _ => {
                    let kept = files.take_remembered().open().await.expect("running");
                    return Some(kept.into_inner().len());
                }
            }
            if stops {
                files.shutdown().await.expect("the disk is good");
            }
            None
        });
        if let Some(kept) = kept {
            return kept;
        }
        if number == 2 && !is_another {
            continue; // skip the other system
        }
        images = disks.map(|disk| disk.contents());
    }
    unreachable!("the third boot tells")
}

/// The events between two boots of a volume, beside the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    /// It is repaired now and then, damaged or not, and that may be cut, too.
    Repairs,
}

/// Runs a volume through some boots.
fn story(policy: PolicyKind, between: Between, seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let mut images = fresh();
    let mut last: Option<Boot> = None;
    for number in 1..=BOOTS {
        let executor = Executor::new(seed * 1000 + number);
        let disks = images.map(|image| Disk::new(&executor, image.clone()));
        disks.map(|disk| disk.start_trace());
        let boot = executor.block_on(boot(policy, &executor, &disks, (number, &last), &mut prng));
        let mut boot = boot.map_err(|reason| format!("boot {number}: {reason}"))?;
        let traces = disks.map(|disk| disk.trace());
        let positions = traces.positions(prng.index(traces.moments()));
        images = left(&platters_at(&traces, &positions), &mut prng);
        let marks = traces.home.marks_before(positions.home);
        let marks: BTreeSet<u64> = marks
            .filter_map(|mark| match mark {
                sim::Mark::Number(number) => Some(*number),
                _ => None,
            })
            .collect();
        if between == Between::Repairs && prng.chance(1, 2) {
            images = repaired(images, &mut prng)?;
        }
        boot.answered.retain(|number| marks.contains(number));
        let served = marks.contains(&SERVED);
        // An interrupted recovery has changed nothing that is judged.
        last = if served || last.is_none() { Some(boot) } else { last };
    }
    Ok(())
}

fn platters_at(traces: &Pair<Trace>, positions: &Pair<usize>) -> Pair<Platter> {
    Pair {
        home: traces.home.platter_at(positions.home),
        log: traces.log.as_ref().zip(positions.log).map(|(log, at)| log.platter_at(at)),
    }
}

/// The disks after a repair, of a volume in which a bit may have flipped before. Where the power
/// goes meanwhile, the repair is made again, unless a start may do what is left.
fn repaired(mut images: Pair<Image>, prng: &mut Prng) -> Result<Pair<Image>, String> {
    let mut superblock = vec![0; SUPERBLOCK_ROOM as usize];
    images.home.read(SUPERBLOCK_ADDRESS, &mut superblock);
    let geometry =
        Geometry::parse(Superblock::of(&superblock)).map_err(|error| error.to_string())?;
    let place = geometry.inode_position(ROOT_INODE);
    let at = geometry.byte_address(place.fragment) + (place.offset + prng.index(96)) as u64;
    let byte_of = |images: &Pair<Image>| {
        let mut byte = [0];
        images.home.read(at, &mut byte);
        byte[0]
    };
    let right = byte_of(&images);
    if prng.chance(1, 2) {
        images.home.write(at, &[right ^ 1 << prng.index(8)]);
    }
    loop {
        let executor = Executor::new(prng.next_u64());
        let disks = images.map(|image| Disk::new(&executor, image.clone()));
        disks.map(|disk| disk.start_trace());
        let volume: Rc<dyn BlockDevice> = disks.home.clone();
        let ring: Rc<dyn BlockDevice> = disks.log.clone().expect("there is a ring");
        let options = CheckOptions { repair: true, ..CheckOptions::default() };
        let runtime = executor.runtime();
        let checked = async { check(&volume, Some(&ring), &runtime, &options, &mut |_| ()).await };
        executor.block_on(checked).map_err(|error| format!("repair: {error}"))?;
        if prng.chance(1, 2) {
            let found = executor.block_on(own_findings(&*volume, &runtime));
            images = disks.map(|disk| disk.contents());
            return if found.is_empty() { Ok(images) } else { Err(format!("repaired: {found}")) };
        }
        let traces = disks.map(|disk| disk.trace());
        let positions = traces.positions(prng.index(traces.moments()));
        images = left(&platters_at(&traces, &positions), prng);
        images.home.read(SUPERBLOCK_ADDRESS, &mut superblock);
        let is_checked = Mark::of(Superblock::of(&superblock)) == Mark::Check;
        if !is_checked && byte_of(&images) == right && prng.chance(1, 2) {
            return Ok(images);
        }
    }
}

/// The mark that a volume is served.
const SERVED: u64 = u64::MAX;

async fn boot(
    policy: PolicyKind,
    executor: &Executor,
    disks: &Pair<Rc<Disk>>,
    (number, last): (u64, &Option<Boot>),
    prng: &mut Prng,
) -> Result<Boot, String> {
    let runtime = executor.runtime();
    let volume = open_with_ring(policy, runtime.clone(), disks).await?;
    let kept = volume.files.take_remembered().open().await.map_err(|_| "it has stopped")?;
    let kept = kept.into_inner();
    let remembered: BTreeSet<u64> = kept.iter().map(|one| number_of(&one.answered.key)).collect();
    let tree = tree_of(&volume).await;
    if let Some(last) = last {
        last.judge(&tree, &remembered)?;
    }
    disks.home.mark(SERVED);
    let mut boot = Boot { number, tree, remembered, ..Boot::default() };
    let answered: Rc<RefCell<BTreeSet<u64>>> = Rc::default();
    for index in 0..CALLS {
        let of_call = number << 32 | index as u64;
        let Some((done, answer)) = call(&volume, &caller(of_call), prng).await else { continue };
        boot.calls.extend(done.map(|done| (of_call, done)));
        let (home, answered) = (disks.home.clone(), answered.clone());
        let waiting = async move {
            answer.await.expect("the disk is good");
            if done.is_some() {
                home.mark(of_call);
                answered.borrow_mut().insert(of_call);
            }
        };
        runtime.tasks.spawn(waiting.boxed_local());
        if prng.chance(1, 2) {
            runtime.clock.sleep(Duration::from_micros(prng.index(600) as u64)).await;
        }
    }
    while answered.borrow().len() < boot.calls.len() {
        runtime.clock.sleep(Duration::from_millis(1)).await;
    }
    boot.answered = answered.take();
    Ok(boot)
}

/// Calls with keys, and calls without, which no intent keeps from being cancelled, all on few
/// names. Whether all of them end.
pub(crate) fn all_end(policy: PolicyKind, seed: u64) -> bool {
    let (mut prng, executor) = (Prng::new(seed), Executor::new(seed));
    let disks = fresh().map(|image| Disk::new(&executor, image.clone()));
    let runtime = executor.runtime();
    executor.block_on(async {
        let volume = open_with_ring(policy, runtime.clone(), &disks).await.expect("it is new");
        let left: Rc<Cell<usize>> = Rc::default();
        let mut unasked = Vec::new();
        let wait_for = |answer: LocalBoxFuture<'static, Result<(), Lost>>| {
            left.set(left.get() + 1);
            let left = left.clone();
            let waiting = async move {
                answer.await.expect("the disk is good");
                left.set(left.get() - 1);
            };
            runtime.tasks.spawn(waiting.boxed_local());
        };
        for number in 1..=6 * CALLS as u64 {
            let has_key = prng.chance(1, 3);
            let who = if has_key { caller(number) } else { Requester::root() };
            let Some((_, answer)) = call(&volume, &who, &mut prng).await else { continue };
            if has_key {
                wait_for(answer);
            } else {
                unasked.push(answer); // it is not due
            }
            if prng.chance(1, 8) {
                runtime.clock.sleep(Duration::from_micros(prng.index(600) as u64)).await;
            }
        }
        unasked.into_iter().for_each(wait_for);
        for _ in 0..1000 {
            runtime.clock.sleep(Duration::from_millis(10)).await;
            if left.get() == 0 {
                return volume.files.shutdown().await.is_ok();
            }
        }
        false
    })
}

/// The error of the first story that fails.
pub(crate) fn first_wrong(
    policy: PolicyKind,
    between: Between,
    seeds: std::ops::Range<u64>,
) -> Result<(), String> {
    for seed in seeds {
        story(policy, between, seed)
            .map_err(|wrong| format!("{policy:?}, {between:?}, story {seed}: {wrong}"))?;
    }
    Ok(())
}
