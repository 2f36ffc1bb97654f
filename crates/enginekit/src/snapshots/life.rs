//! The lives of snapshots: they come and go over all kinds of changes, with cuts, and with little
//! free space.

use std::collections::BTreeMap;

use runtime::Random;
use sim::Executor;
use vfs::{FileSystem, FsError, ObjectId, SnapshotNumber, SnapshotState, Stability};
use vnode::Engine;

use super::{delete, end_deletion, listed, of, pin, roll_back};
use crate::bench::Bench;
use crate::random::Seeded;
use crate::volume::Volume;

/// Files by their names, with their contents.
type Files = BTreeMap<String, Vec<u8>>;

/// The files in the root of a tree.
async fn shown<E: Engine>(volume: &Volume<E>, tree: SnapshotNumber) -> Result<Files, String> {
    let root = volume.files.root().within(tree);
    let told = |error: FsError| error.to_string();
    let mut files = Files::new();
    for text in volume.list(root).await.map_err(told)? {
        if text != "." && text != ".." {
            let file = volume.lookup(root, &text).await.map_err(told)?;
            files.insert(text, volume.read(file).await.map_err(told)?);
        }
    }
    Ok(files)
}

fn differs(what: &str, shown: &Files, right: &Files) -> Result<(), String> {
    let lengths = |files: &Files| -> Vec<(String, usize)> {
        files.iter().map(|(text, data)| (text.clone(), data.len())).collect()
    };
    if shown == right {
        return Ok(());
    }
    Err(format!("{what}: {:?}, not {:?}, or others", lengths(shown), lengths(right)))
}

/// Makes changes to files in the root.
struct Changer<'a, E: Engine> {
    volume: &'a Volume<E>,
    chance: Seeded,
    files: Files,
    serial: u64,
}

impl<E: Engine> Changer<'_, E> {
    fn below(&self, end: u64) -> u64 {
        self.chance.next_u64() % end
    }

    fn some(&self) -> Option<String> {
        let at = self.below(self.files.len().max(1) as u64) as usize;
        self.files.keys().nth(at).cloned()
    }

    async fn id(&self, text: &str) -> Result<ObjectId, FsError> {
        self.volume.lookup(self.volume.files.root(), text).await
    }

    /// Overwrites a part of a file, or appends to it.
    async fn write(&mut self) -> Result<(), FsError> {
        let Some(text) = self.some() else { return Ok(()) };
        let limit = [3_000, 20_000, 90_000][self.below(3) as usize];
        let (offset, length) = (self.below(limit), self.below(limit) + 1);
        let data: Vec<u8> = (0..length).map(|at| (at ^ at >> 8 ^ self.serial) as u8).collect();
        let how = [Stability::Unstable, Stability::FileSync][self.below(2) as usize];
        let file = self.id(&text).await?;
        self.volume.write(file, offset, data.clone(), how).await?;
        let held = self.files.get_mut(&text).expect("it is there");
        let end = (offset + length) as usize;
        held.resize(held.len().max(end), 0);
        held[offset as usize..end].copy_from_slice(&data);
        Ok(())
    }

    async fn change(&mut self) -> Result<(), FsError> {
        self.serial += 1;
        let root = self.volume.files.root();
        match self.below(8) {
            0 | 1 => {
                let text = format!("f{}", self.serial);
                self.volume.create(root, &text).await?;
                self.files.insert(text, Vec::new());
            }
            2..=5 => self.write().await?,
            6 => {
                let Some(text) = self.some() else { return Ok(()) };
                let size = self.below(60_000);
                self.volume.resize(self.id(&text).await?, size).await?;
                self.files.get_mut(&text).expect("it is there").resize(size as usize, 0);
            }
            _ => {
                let Some(text) = self.some() else { return Ok(()) };
                self.volume.remove(root, &text).await?;
                self.files.remove(&text);
            }
        }
        Ok(())
    }
}

/// Snapshots by name, with their files.
type Kept = BTreeMap<String, (SnapshotNumber, Files)>;

async fn all_show<E: Engine>(volume: &Volume<E>, live: &Files, kept: &Kept) -> Result<(), String> {
    differs("live", &shown(volume, SnapshotNumber::LIVE).await?, live)?;
    for (text, (number, files)) in kept {
        differs(text, &shown(volume, *number).await?, files)?;
    }
    Ok(())
}

/// Finishes deletions that were begun.
async fn end_all<E: Engine>(volume: &Volume<E>) -> Result<(), String> {
    let all = of(volume)?.list().open().await.map_err(|lost| lost.to_string())?.into_inner();
    for (snapshot, _) in all {
        if snapshot.state == SnapshotState::Deleting {
            end_deletion(volume, snapshot.number).await?;
        }
    }
    Ok(())
}

/// One opening: changes, snapshots, deletions, a comparison of everything, and a stop.
async fn round<E: Engine>(
    volume: &Volume<E>,
    seed: u64,
    files: Files,
    kept: &mut Kept,
) -> Result<Files, String> {
    let mut changer = Changer { volume, chance: Seeded::new(seed), files, serial: seed << 20 };
    for step in 0..4 {
        for _ in 0..changer.below(30) {
            changer.change().await.map_err(|error| format!("step {step}: {error}"))?;
            while changer.files.len() > 14 {
                let text = changer.some().expect("there are some");
                let gone = volume.remove(volume.files.root(), &text).await;
                gone.map_err(|error| error.to_string())?;
                changer.files.remove(&text);
            }
        }
        if kept.len() > 4 || kept.len() > 1 && changer.below(3) == 0 {
            let at = changer.below(kept.len() as u64) as usize;
            let text = kept.keys().nth(at).expect("there are so many").clone();
            kept.remove(&text);
            delete(volume, &text, changer.below(3) > 0).await?;
        }
        let text = format!("s{}-{step}", changer.serial);
        let made = pin(volume, &text).await?;
        kept.insert(text, (made.number, changer.files.clone()));
        all_show(volume, &changer.files, kept).await?;
        if changer.below(2) == 0 {
            end_all(volume).await?;
        }
    }
    Ok(changer.files)
}

/// Opens a volume, does some work, and stops it.
fn open_again<B: Bench, T>(
    bench: &B,
    (executor, disks): (Executor, B::Disks),
    work: impl AsyncFnOnce(&Volume<B::Engine>) -> Result<T, String>,
) -> Result<((Executor, B::Disks), T), String> {
    let done = executor.block_on(async {
        let volume = bench.open(executor.runtime(), &disks).await?;
        let done = work(&volume).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(done)
    })?;
    bench.judge(&disks, "stopped")?;
    Ok((bench.stopped(&disks), done))
}

fn new<B: Bench>(bench: &B, seed: u64) -> (Executor, B::Disks) {
    let executor = Executor::new(seed);
    let disks = executor.block_on(bench.make(&executor));
    (executor, disks)
}

/// Snapshots show the files that they hold over all kinds of changes; when all snapshots and files
/// are gone, the volume has as much free space as at the beginning.
///
/// # Errors
/// The violation.
pub fn they_come_and_go(bench: &impl Bench, seed: u64, rounds: u64) -> Result<(), String> {
    let free = async |volume: &Volume<_>| Ok(volume.space().await.free_bytes);
    let (mut world, free) = open_again(bench, new(bench, seed), free)?;
    let (mut files, mut kept) = (Files::new(), Kept::new());
    for number in 0..rounds {
        let seed = seed * 100 + number;
        let done = open_again(bench, world, async |volume| {
            all_show(volume, &files, &kept).await?;
            round(volume, seed, std::mem::take(&mut files), &mut kept).await
        });
        (world, files) = done.map_err(|wrong| format!("round {number}: {wrong}"))?;
    }
    let (_, now) = open_again(bench, world, async |volume| {
        for text in kept.keys() {
            delete(volume, text, false).await?;
        }
        for text in files.keys() {
            let gone = volume.remove(volume.files.root(), text).await;
            gone.map_err(|error| error.to_string())?;
        }
        end_all(volume).await?;
        volume.settle().await;
        Ok((volume.space().await.free_bytes, listed(volume).await?))
    })?;
    if now == (free, vec![]) { Ok(()) } else { Err(format!("{now:?}, and {free} were free")) }
}

/// Snapshots are made and deleted, with cuts of the power: acknowledged snapshots and deletions
/// hold, and deletions go on.
///
/// # Errors
/// The violation.
pub fn a_cut_deletion_goes_on(bench: &impl Bench, seed: u64, cuts: u64) -> Result<(), String> {
    let (executor, disks) = new(bench, seed);
    let (recording, kept) = executor.block_on(async {
        let volume = bench.open(executor.runtime(), &disks).await?;
        let chance = Seeded::new(seed);
        let mut changer = Changer { volume: &volume, chance, files: Files::new(), serial: 0 };
        let mut kept = Kept::new();
        let told = |error: FsError| error.to_string();
        for text in ["one", "two", "three"] {
            for _ in 0..25 {
                changer.change().await.map_err(told)?;
            }
            let made = pin(&volume, text).await?;
            kept.insert(text.to_owned(), (made.number, changer.files.clone()));
        }
        for _ in 0..20 {
            changer.change().await.map_err(told)?;
        }
        while let Some(text) = changer.some() {
            changer.files.remove(&text);
            volume.remove(volume.files.root(), &text).await.map_err(told)?;
        }
        volume.settle().await;
        bench.record(&disks);
        for (step, text) in ["two", "one"].into_iter().enumerate() {
            delete(&volume, text, true).await?;
            bench.acknowledge(&disks, 0, step + 1);
            changer.change().await.map_err(told)?;
        }
        Ok::<_, String>((bench.recording(&disks), kept))
    })?;
    for cut in bench.cuts(&recording, seed, cuts) {
        let told = bench.acknowledged(&recording, &cut, 0);
        let (executor, disks) = bench.left(&cut)?;
        let done = open_again(bench, (executor, disks), async |volume| {
            let ready = listed(volume).await?.into_iter();
            let ready = ready.filter(|(_, state)| *state == SnapshotState::Ready);
            let ready: Vec<String> = ready.map(|(text, _)| text).collect();
            let is_gone = |text: &str| !ready.iter().any(|other| other == text);
            if told > 0 && !is_gone("two") || told > 1 && !is_gone("one") || is_gone("three") {
                return Err(format!("{told} are gone, and {ready:?} are there"));
            }
            for text in &ready {
                let (number, files) = &kept[text];
                differs(text, &shown(volume, *number).await?, files)?;
            }
            end_all(volume).await?;
            let (number, files) = &kept["three"];
            differs("three", &shown(volume, *number).await?, files)
        });
        done.map_err(|wrong| format!("{}, {told} told: {wrong}", bench.label(&cut)))?;
    }
    Ok(())
}

/// The volume goes back to a snapshot, with cuts of the power: as a whole, or not at all. Returns
/// how often it had not, and had.
///
/// # Errors
/// The violation.
pub fn going_back_is_whole(bench: &impl Bench, seed: u64, cuts: u64) -> Result<[u64; 2], String> {
    let (mut kept, mut live) = (Files::new(), Files::new());
    let (world, ()) = open_again(bench, new(bench, seed), async |volume| {
        let chance = Seeded::new(seed);
        let mut changer = Changer { volume, chance, files: Files::new(), serial: 0 };
        for step in 0..90 {
            changer.change().await.map_err(|error| error.to_string())?;
            if step == 40 {
                pin(volume, "then").await?;
                kept = changer.files.clone();
            }
        }
        live = std::mem::take(&mut changer.files);
        Ok(())
    })?;
    let (executor, disks) = world;
    bench.record(&disks);
    executor.block_on(async {
        let volume = bench.open(executor.runtime(), &disks).await?;
        roll_back(&volume, "then").await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    let mut seen = [0, 0];
    for cut in bench.cuts(&bench.recording(&disks), seed, cuts) {
        let left = bench.left(&cut)?;
        let done = open_again(bench, left, async |volume| {
            let now = shown(volume, SnapshotNumber::LIVE).await?;
            seen[usize::from(now == kept)] += 1;
            differs("then", &shown(volume, SnapshotNumber(1)).await?, &kept)?;
            if now == live { Ok(()) } else { differs("live", &now, &kept) }
        });
        done.map_err(|wrong| format!("{}: {wrong}", bench.label(&cut)))?;
    }
    Ok(seen)
}

/// A snapshot is made on a full volume from which so many files went, or refused; in either case
/// all files can be removed, and everything is free when the snapshots are gone. Returns whether
/// the snapshot was made.
///
/// # Errors
/// The violation.
pub fn a_full_volume_is_emptied(
    bench: &impl Bench,
    seed: u64,
    left: usize,
) -> Result<bool, String> {
    let done = open_again(bench, new(bench, seed), async |volume| {
        let (root, told) = (volume.files.root(), |error: FsError| error.to_string());
        let free = volume.space().await.free_bytes;
        let mut files = Vec::new();
        for number in 0.. {
            let text = format!("f{number}");
            let Ok(file) = volume.create(root, &text).await else { break };
            files.push(text);
            let data = vec![number as u8; 6 * 4096];
            if volume.write(file, 0, data, Stability::FileSync).await.is_err() {
                break;
            }
        }
        for text in files.drain(..left.min(files.len())) {
            volume.remove(root, &text).await.map_err(told)?;
        }
        let is_made = pin(volume, "full").await.is_ok();
        for text in files {
            let gone = volume.remove(root, &text).await;
            gone.map_err(|error| format!("made {is_made}: remove {text}: {error}"))?;
        }
        if is_made {
            delete(volume, "full", true).await?;
        }
        volume.settle().await;
        let now = volume.space().await.free_bytes;
        if now == free { Ok(is_made) } else { Err(format!("{now} of {free} are free")) }
    });
    done.map(|(_, is_made)| is_made)
}

/// So many files go from a full volume while a snapshot has them all.
///
/// # Errors
/// The violation.
pub fn many_files_go_while_a_snapshot_has_them(
    bench: &impl Bench,
    files: usize,
) -> Result<(), String> {
    let (world, ()) = open_again(bench, new(bench, 1), async |volume| {
        let (root, told) = (volume.files.root(), |error: FsError| error.to_string());
        for number in 0..files {
            volume.create(root, &format!("f{number}")).await.map_err(told)?;
        }
        pin(volume, "many").await?;
        let filler = volume.create(root, "filler").await.map_err(told)?;
        for block in 0.. {
            let data = vec![3; 4096];
            if volume.write(filler, block * 4096, data, Stability::FileSync).await.is_err() {
                break;
            }
        }
        for number in 0..files {
            // Spread over the blocks of inodes, so that each is written before it is empty.
            let text = format!("f{}", number * 997 % files);
            let gone = volume.remove(root, &text).await;
            gone.map_err(|error| format!("remove {text}, the {number}th: {error}"))?;
        }
        volume.remove(root, "filler").await.map_err(told)
    })?;
    let (_, left) = open_again(bench, world, async |volume| {
        let held = shown(volume, SnapshotNumber(1)).await?.len();
        delete(volume, "many", true).await?;
        Ok((held, shown(volume, SnapshotNumber::LIVE).await?.len()))
    })?;
    if left == (files, 0) { Ok(()) } else { Err(format!("{left:?} are left")) }
}
