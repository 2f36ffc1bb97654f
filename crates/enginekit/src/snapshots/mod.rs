//! Snapshots: each shows the state of the moment when it was made, whatever happens since, and is
//! found at its paths until it is deleted.

mod grow;
pub mod life;
mod seen;

use futures::future::join;
use runtime::Random;
use runtime::sync::yield_now;
use sim::Executor;
use vfs::{
    FileSystem, FsError, ObjectId, Snapshot, SnapshotNumber, SnapshotState, Snapshots, Stability,
};
use vnode::Engine;

use crate::bench::Bench;
use crate::random::Seeded;
use crate::volume::{Volume, name};
use grow::Grower;
use seen::{FileIds, Tree};

/// Changes between two snapshots.
const CHANGES: usize = 40;
/// Names of snapshots.
const NAMES: [&str; 5] = ["a", "hourly.0", "Ümlaut und Leerzeichen", "..x", ".snapshots"];

fn of<E: Engine>(volume: &Volume<E>) -> Result<&dyn Snapshots, String> {
    volume.files.snapshots().ok_or_else(|| "the engine has no snapshots".to_owned())
}

/// Makes a snapshot.
///
/// # Errors
/// Why it cannot be made.
pub async fn pin(volume: &Volume<impl Engine>, text: &str) -> Result<Snapshot, String> {
    let sealed = of(volume)?.pin(&name(text)).await;
    let made = sealed.open().await.map_err(|lost| lost.to_string())?.into_inner();
    made.map_err(|error| format!("pin {text}: {error}"))
}

/// Deletes a snapshot, completely if `end` is set; returns the number of steps.
///
/// # Errors
/// Why the deletion fails.
pub async fn delete(volume: &Volume<impl Engine>, text: &str, end: bool) -> Result<u64, String> {
    let sealed = of(volume)?.delete(&name(text)).await;
    let gone = sealed.open().await.map_err(|lost| lost.to_string())?.into_inner();
    let Snapshot { number, .. } = gone.map_err(|error| format!("delete {text}: {error}"))?;
    if end { end_deletion(volume, number).await } else { Ok(0) }
}

/// Completes the deletion of a snapshot; returns the number of steps.
///
/// # Errors
/// Why the deletion does not complete.
pub async fn end_deletion(
    volume: &Volume<impl Engine>,
    number: SnapshotNumber,
) -> Result<u64, String> {
    for steps in 1.. {
        let step = of(volume)?.delete_step(number).await;
        let step = step.open().await.map_err(|lost| lost.to_string())?.into_inner();
        if step.map_err(|error| format!("step {steps} of {number:?}: {error}"))? {
            return Ok(steps);
        }
    }
    unreachable!("each step takes something")
}

/// The existing snapshots, by their names.
///
/// # Errors
/// When they cannot be listed.
pub async fn listed(volume: &Volume<impl Engine>) -> Result<Vec<(String, SnapshotState)>, String> {
    let all = of(volume)?.list().open().await.map_err(|lost| lost.to_string())?.into_inner();
    let text = |of: &Snapshot| String::from_utf8_lossy(of.name.as_bytes()).into_owned();
    Ok(all.iter().map(|(snapshot, _)| (text(snapshot), snapshot.state)).collect())
}

/// Rolls the volume back to a snapshot, as its last operation.
///
/// # Errors
/// Why the rollback fails.
pub async fn roll_back(volume: &Volume<impl Engine>, text: &str) -> Result<(), String> {
    let gone = of(volume)?.roll_back(&name(text)).await.open().await;
    let gone = gone.map_err(|lost| lost.to_string())?.into_inner();
    gone.map_err(|error| format!("back to {text}: {error}"))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, right: T) -> Result<(), String> {
    if found == right { Ok(()) } else { Err(format!("{what}: {found:?}, not {right:?}")) }
}

/// A snapshot, and its expected contents.
#[derive(Clone)]
struct Kept {
    text: String,
    number: SnapshotNumber,
    tree: Tree,
}

impl Kept {
    /// Checks that the snapshot is found from the root and shows the expected tree, and that each
    /// directory of it that still exists shows it in its own `.snapshot`.
    async fn check(&self, volume: &Volume<impl Engine>, ids: &mut FileIds) -> Result<(), String> {
        let Self { text, number, tree } = self;
        let root = volume.files.root();
        let found = find(volume, root, text).await.map_err(|error| format!("{text}: {error}"))?;
        same("the root of a snapshot", found, root.within(*number))?;
        let shown =
            Tree::read(volume, found, ids).await.map_err(|error| format!("{text}: {error}"))?;
        tree.differs(&shown).map_or(Ok(()), |wrong| Err(format!("snapshot {text}: {wrong}")))?;
        for (path, directory) in tree.directories() {
            self.check_below(volume, path, directory).await?;
        }
        Ok(())
    }

    async fn check_below(
        &self,
        volume: &Volume<impl Engine>,
        path: &str,
        directory: ObjectId,
    ) -> Result<(), String> {
        let (then, up) = (directory.within(self.number), volume.lookup(directory, "..").await);
        let parent = volume.lookup(then, "..").await;
        let right = match self.tree.parent_of(path) {
            Some(parent) => parent.within(self.number),
            None => directory.within(SnapshotNumber::LISTING),
        };
        same(&format!("'..' of {path} in {}", self.text), parent, Ok(right))?;
        same(
            &format!("no '.snapshot' in {path}"),
            find(volume, then, "x").await,
            Err(FsError::NoEntry),
        )?;
        if up.is_ok() {
            let found = find(volume, directory, &self.text).await;
            same(&format!("{path}/.snapshot/{}", self.text), found, Ok(then))?;
        }
        Ok(())
    }
}

/// The object under a name in the `.snapshot` of a directory.
async fn find(
    volume: &Volume<impl Engine>,
    directory: ObjectId,
    text: &str,
) -> Result<ObjectId, FsError> {
    let listing = volume.lookup(directory, ".snapshot").await?;
    assert_eq!(volume.lookup(listing, "..").await, Ok(directory), "'..' of a .snapshot");
    volume.lookup(listing, text).await
}

/// Checks that all snapshots show their trees, and that the names in `.snapshot` are theirs.
async fn all_show(
    volume: &Volume<impl Engine>,
    kept: &[Kept],
    deleting: &[&str],
) -> Result<(), String> {
    let root = volume.files.root();
    let mut ids = FileIds::default();
    Tree::read(volume, root, &mut ids).await?;
    for one in kept {
        one.check(volume, &mut ids).await?;
    }
    let listing = volume.lookup(root, ".snapshot").await.map_err(|error| error.to_string())?;
    ids.note(&volume.attributes(listing).await, listing)?;
    let names = volume.list(listing).await.map_err(|error| error.to_string())?;
    let texts = kept.iter().map(|one| one.text.clone());
    let right: Vec<String> = [".", ".."].map(str::to_owned).into_iter().chain(texts).collect();
    same("the names in .snapshot", names, right)?;
    let mut states = listed(volume).await?;
    states.retain(|(text, state)| {
        !(deleting.contains(&text.as_str()) && *state == SnapshotState::Deleting)
    });
    let right = kept.iter().map(|one| (one.text.clone(), SnapshotState::Ready)).collect();
    same("the snapshots that are ready", states, right)
}

/// Checks that no object of a tree is found under a snapshot number any more.
async fn is_stale(volume: &Volume<impl Engine>, gone: &Kept) -> Result<(), String> {
    for id in gone.tree.ids() {
        let told = volume.files.getattr(id.within(gone.number)).await;
        let told = told.open().await.map_err(|lost| lost.to_string())?.into_inner();
        same(&format!("{id:?} of {}", gone.text), told.err(), Some(FsError::Stale))?;
    }
    let found = find(volume, volume.files.root(), &gone.text).await;
    same(&format!("{} in .snapshot", gone.text), found, Err(FsError::NoEntry))
}

/// Snapshots of a changing tree keep their contents, over changes, stops and deletions; and a
/// volume is rolled back to the newest one left.
///
/// # Errors
/// The violation.
pub fn snapshots_hold(bench: &impl Bench, seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let mut kept = Vec::new();
    let disks = executor.block_on(async {
        let disks = bench.make(&executor).await;
        let volume = bench.open(executor.runtime(), &disks).await?;
        same("the snapshots of a new volume", listed(&volume).await?, vec![])?;
        let mut grower = Grower::new(&volume, Seeded::new(seed));
        for text in NAMES {
            grower.change(CHANGES).await?;
            let tree = Tree::read(&volume, volume.files.root(), &mut FileIds::default()).await?;
            let Snapshot { number, .. } = pin(&volume, text).await?;
            kept.push(Kept { text: text.to_owned(), number, tree });
            grower.change(CHANGES / 2).await?;
            all_show(&volume, &kept, &[]).await?;
        }
        refuses_names(&volume).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(disks)
    })?;
    bench.judge(&disks, "snapshots")?;
    deletions(bench, &disks, kept)
}

/// Checks that names which no snapshot may have, or which one already has, are refused.
async fn refuses_names(volume: &Volume<impl Engine>) -> Result<(), String> {
    for (text, right) in [
        (".", FsError::Invalid),
        ("..", FsError::Invalid),
        (".snapshot", FsError::Invalid),
        (NAMES[1], FsError::Exists),
    ] {
        let made = of(volume)?.pin(&name(text)).await.open().await;
        let made = made.map_err(|lost| lost.to_string())?.into_inner();
        same(&format!("pin {text:?}"), made.err(), Some(right))?;
    }
    let gone = of(volume)?.delete(&name("none of it")).await.open().await;
    let gone = gone.map_err(|lost| lost.to_string())?.into_inner();
    same("a deletion of none", gone.err(), Some(FsError::NoEntry))
}

/// Opens a volume, runs a test on it, and stops it.
fn opened<B: Bench, T>(
    bench: &B,
    disks: &B::Disks,
    work: impl AsyncFnOnce(&Volume<B::Engine>) -> Result<T, String>,
) -> Result<(B::Disks, T), String> {
    let (executor, disks) = bench.stopped(disks);
    let done = executor.block_on(async {
        let volume = bench.open(executor.runtime(), &disks).await?;
        let done = work(&volume).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(done)
    })?;
    Ok((disks, done))
}

fn deletions<B: Bench>(bench: &B, disks: &B::Disks, mut kept: Vec<Kept>) -> Result<(), String> {
    let gone = kept.remove(2);
    let (disks, last) = opened(bench, disks, async |volume| {
        let before = [&kept[..2], std::slice::from_ref(&gone), &kept[2..]].concat();
        all_show(volume, &before, &[]).await?;
        delete(volume, &gone.text, false).await?;
        is_stale(volume, &gone).await?;
        all_show(volume, &kept, &[&gone.text]).await?;
        // The name of a deleted snapshot is free, and its number is not.
        let again = pin(volume, &gone.text).await?;
        let tree = Tree::read(volume, volume.files.root(), &mut FileIds::default()).await?;
        Ok(Kept { text: gone.text.clone(), number: again.number, tree })
    })?;
    let newest = kept.iter().map(|one| one.number).max();
    same("a number that is given away once", Some(last.number) > newest, true)?;
    kept.push(last);
    let (disks, ()) = opened(bench, &disks, async |volume| {
        all_show(volume, &kept, &[&gone.text]).await?;
        let steps = end_deletion(volume, gone.number).await?;
        same("a deletion in steps", steps > 1, true)?;
        same("snapshots", listed(volume).await?.len(), kept.len())?;
        for id in gone.tree.ids() {
            let told = volume.files.getattr(id.within(gone.number)).await.open().await;
            let told = told.map_err(|lost| lost.to_string())?.into_inner();
            same("what is gone", told.err(), Some(FsError::Stale))?;
        }
        all_show(volume, &kept, &[]).await
    })?;
    goes_back(bench, &disks, kept)
}

fn goes_back<B: Bench>(bench: &B, disks: &B::Disks, mut kept: Vec<Kept>) -> Result<(), String> {
    let (back, newer) = (kept[1].clone(), kept.split_off(2));
    let (disks, new) = opened(bench, disks, async |volume| {
        let early = of(volume)?.roll_back(&name(&back.text)).await.open().await;
        let early = early.map_err(|lost| lost.to_string())?.into_inner();
        same("over newer ones", early, Err(FsError::Exists))?;
        for one in &newer {
            delete(volume, &one.text, true).await?;
        }
        let new = volume.create(volume.files.root(), "made since").await;
        new.map_err(|error| error.to_string())
    })?;
    let (disks, ()) = opened(bench, &disks, async |volume| roll_back(volume, &back.text).await)?;
    let (disks, ()) = opened(bench, &disks, async |volume| {
        let root = volume.files.root();
        let now = Tree::read(volume, root, &mut FileIds::default()).await?;
        back.tree
            .differs(&now)
            .map_or(Ok(()), |wrong| Err(format!("after going back: {wrong}")))?;
        let told = volume.files.getattr(new).await.open().await;
        let told = told.map_err(|lost| lost.to_string())?.into_inner();
        same("a file of later", told.err(), Some(FsError::Stale))?;
        all_show(volume, &kept, &[]).await?;
        // The live tree goes on from there, and the snapshot stays.
        Grower::new(volume, Seeded::new(7)).change(CHANGES).await?;
        all_show(volume, &kept, &[]).await
    })?;
    bench.judge(&disks, "rolled-back")
}

/// Every snapshot acknowledged before the power cut exists as a whole, with all changes made before
/// it, and none that came later.
///
/// # Errors
/// The violation.
pub fn told_snapshots_stay(bench: &impl Bench, seed: u64, cuts: u64) -> Result<(), String> {
    const STEPS: usize = 12;
    let executor = Executor::new(seed);
    let (recording, kept) = executor.block_on(async {
        let disks = bench.make(&executor).await;
        let volume = bench.open(executor.runtime(), &disks).await?;
        let mut grower = Grower::new(&volume, Seeded::new(seed));
        grower.change(CHANGES).await?;
        volume.settle().await;
        bench.record(&disks);
        let mut kept = Vec::new();
        for step in 1..=STEPS {
            grower.change(4).await?;
            let root = volume.files.root();
            let tree = Tree::read(&volume, root, &mut FileIds::default()).await?;
            // Another change is in progress meanwhile: the snapshot may contain it or not.
            let (pinned, later) = grower.change_beside(pin(&volume, &step.to_string())).await;
            later?;
            let with_it = Tree::read(&volume, root, &mut FileIds::default()).await?;
            let Snapshot { number, .. } = pinned?;
            kept.push((Kept { text: step.to_string(), number, tree }, with_it));
            bench.acknowledge(&disks, 0, step);
        }
        Ok::<_, String>((bench.recording(&disks), kept))
    })?;
    for cut in bench.cuts(&recording, seed, cuts) {
        let told = bench.acknowledged(&recording, &cut, 0);
        let (executor, disks) = bench.left(&cut)?;
        let wrong = executor.block_on(async {
            let volume = bench.open(executor.runtime(), &disks).await?;
            let there = listed(&volume).await?.len();
            same("snapshots of which some were told", there >= told, true)?;
            for (one, with_more) in &kept[..there.min(kept.len())] {
                one.check_whole(&volume, with_more).await?;
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        });
        wrong.map_err(|wrong| format!("{}, {told} told: {wrong}", bench.label(&cut)))?;
    }
    Ok(())
}

/// A large file is truncated in steps while snapshots are made: each holds it as it was before, or
/// as it is after all steps.
///
/// # Errors
/// The violation.
pub fn steps_are_held_whole(bench: &impl Bench, seed: u64) -> Result<(), String> {
    const BLOCKS: u64 = 300;
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disks = bench.make(&executor).await;
        let volume = bench.open(executor.runtime(), &disks).await?;
        let chance = Seeded::new(seed);
        let root = volume.files.root();
        for round in 0..12 {
            let text = format!("file {round}");
            let file = volume.create(root, &text).await.map_err(|error| error.to_string())?;
            let old = vec![round + 1; (BLOCKS * bench.block_size()) as usize];
            let kept = volume.write(file, 0, old.clone(), Stability::Unstable).await;
            kept.map_err(|error| error.to_string())?;
            volume.commit(file).await.map_err(|error| error.to_string())?;
            let new = (chance.next_u64() % 3) as usize * 1000;
            let shorter = volume.resize(file, new as u64);
            let name = format!("snapshot {round}");
            let looks = chance.next_u64() % 30;
            let pinned = async {
                for _ in 0..looks {
                    yield_now().await;
                }
                pin(&volume, &name).await
            };
            let (shorter, pinned) = join(shorter, pinned).await;
            shorter.map_err(|error| error.to_string())?;
            let held = volume.read(file.within(pinned?.number)).await;
            let held = held.map_err(|error| error.to_string())?;
            if held != old && held != old[..new] {
                return Err(format!("round {round}: {} bytes, of {new} left", held.len()));
            }
            volume.remove(root, &text).await.map_err(|error| error.to_string())?;
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        bench.judge(&disks, "steps")
    })
}

impl Kept {
    /// Checks that the snapshot shows its tree, or the one with the concurrent change, found from
    /// the root alone.
    async fn check_whole(
        &self,
        volume: &Volume<impl Engine>,
        with_more: &Tree,
    ) -> Result<(), String> {
        let found = find(volume, volume.files.root(), &self.text).await;
        let found = found.map_err(|error| format!("{}: {error}", self.text))?;
        let shown = Tree::read(volume, found, &mut FileIds::default()).await?;
        let wrong = self.tree.differs(&shown).filter(|_| with_more.differs(&shown).is_some());
        wrong.map_or(Ok(()), |wrong| Err(format!("snapshot {}: {wrong}", self.text)))
    }
}
