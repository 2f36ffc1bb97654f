//! Snapshots over all kinds of changes, cuts and deletions, and with little free space.

use std::collections::BTreeMap;

use enginekit::Volume;
use enginekit::random::Seeded;
use enginekit::snapshots::{delete, end_deletion, listed, pin, roll_back};
use runtime::Random;
use shadow::Shadow;
use sim::{Choice, Disk, Executor, Image, Mark, Prng, Trace};
use vfs::{FileSystem, FsError, ObjectId, SnapshotNumber, SnapshotState, Stability};

use crate::bench::{Setting, findings, made, opened};

/// Files by their names, with their contents.
type Files = BTreeMap<String, Vec<u8>>;

/// The files in the root of a tree.
async fn shown(volume: &Volume<Shadow>, tree: SnapshotNumber) -> Result<Files, String> {
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
struct Changer<'a> {
    volume: &'a Volume<Shadow>,
    chance: Seeded,
    files: Files,
    serial: u64,
}

impl Changer<'_> {
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

async fn all_show(volume: &Volume<Shadow>, live: &Files, kept: &Kept) -> Result<(), String> {
    differs("live", &shown(volume, SnapshotNumber::LIVE).await?, live)?;
    for (text, (number, files)) in kept {
        differs(text, &shown(volume, *number).await?, files)?;
    }
    Ok(())
}

/// Finishes deletions that were begun.
async fn end_all(volume: &Volume<Shadow>) -> Result<(), String> {
    let all = volume.files.snapshots().expect("it has them").list();
    let all = all.open().await.map_err(|lost| lost.to_string())?.into_inner();
    for (snapshot, _) in all {
        if snapshot.state == SnapshotState::Deleting {
            end_deletion(volume, snapshot.number).await?;
        }
    }
    Ok(())
}

/// One opening: changes, snapshots, deletions, a comparison of everything, and a stop.
async fn round(
    volume: &Volume<Shadow>,
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

/// Opens an image, does some work, and stops it.
fn open_again<T>(
    image: Image,
    seed: u64,
    work: impl AsyncFnOnce(&Volume<Shadow>) -> Result<T, String>,
) -> Result<(Image, T), String> {
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image);
    let done = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let done = work(&volume).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(done)
    })?;
    findings(&disk.contents())?;
    Ok((disk.contents(), done))
}

/// Snapshots show the files that they hold over all kinds of changes; when all snapshots and files
/// are gone, the volume has as much free space as at the beginning.
pub(crate) fn they_come_and_go(seed: u64, rounds: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 24 << 20)));
    let (mut image, free) =
        open_again(disk.contents(), seed, async |volume| Ok(volume.space().await.free_bytes))?;
    let (mut files, mut kept) = (Files::new(), Kept::new());
    for number in 0..rounds {
        let seed = seed * 100 + number;
        let done = open_again(image, seed, async |volume| {
            all_show(volume, &files, &kept).await?;
            round(volume, seed, std::mem::take(&mut files), &mut kept).await
        });
        (image, files) = done.map_err(|wrong| format!("round {number}: {wrong}"))?;
    }
    let (_, now) = open_again(image, seed, async |volume| {
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

#[test]
fn snapshots_come_and_go() {
    let runs = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok());
    for seed in 1..=runs.unwrap_or(6) {
        assert_eq!(they_come_and_go(seed, 3), Ok(()), "seed {seed}");
    }
}

/// Makes and deletes snapshots, for cuts of the power: acknowledged snapshots and deletions hold.
fn record_deletion(seed: u64) -> (Trace, Kept, Files) {
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disk = made(&executor, &Setting::of(4, 64, 8 << 20)).await;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let chance = Seeded::new(seed);
        let mut changer = Changer { volume: &volume, chance, files: Files::new(), serial: 0 };
        let mut kept = Kept::new();
        for text in ["one", "two", "three"] {
            for _ in 0..25 {
                changer.change().await.expect("there is room");
            }
            let made = pin(&volume, text).await.expect("there is room");
            kept.insert(text.to_owned(), (made.number, changer.files.clone()));
        }
        for _ in 0..20 {
            changer.change().await.expect("there is room");
        }
        while let Some(text) = changer.some() {
            changer.files.remove(&text);
            volume.remove(volume.files.root(), &text).await.expect("it is there");
        }
        volume.settle().await;
        disk.start_trace();
        for (step, text) in ["two", "one"].into_iter().enumerate() {
            delete(&volume, text, true).await.expect("nothing fails");
            disk.mark(Mark::Number(step as u64 + 1));
            changer.change().await.expect("there is room");
        }
        (disk.trace(), kept, changer.files)
    })
}

#[test]
fn a_deletion_that_is_cut_is_gone_on_with() {
    for seed in 1..=2 {
        let (trace, kept, _) = record_deletion(seed);
        for position in 0..=trace.events().len() {
            let platter = trace.platter_at(position);
            let mut prng = Prng::new(seed << 32 | position as u64);
            let image = platter.image(&Choice::random(&platter, &mut prng));
            let told = trace.marks_before(position).count();
            findings(&image).unwrap_or_else(|wrong| panic!("event {position}: {wrong}"));
            let done = open_again(image, seed, async |volume| {
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
            done.unwrap_or_else(|wrong| panic!("seed {seed}, event {position}: {wrong}"));
        }
    }
}

#[test]
fn going_back_is_done_as_a_whole_or_not_at_all() {
    for seed in 1..=3 {
        let executor = Executor::new(seed);
        let disk = executor.block_on(made(&executor, &Setting::of(8, 64, 8 << 20)));
        let (mut kept, mut live) = (Files::new(), Files::new());
        let (image, ()) = open_again(disk.contents(), seed, async |volume| {
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
        })
        .expect("nothing fails");
        let executor = Executor::new(seed);
        let disk = Disk::new(&executor, image);
        disk.start_trace();
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is well");
            roll_back(&volume, "then").await.expect("it is the newest");
            volume.files.shutdown().await.expect("nothing fails");
        });
        let trace = disk.trace();
        let mut seen = [0, 0];
        for position in 0..=trace.events().len() {
            let platter = trace.platter_at(position);
            let mut prng = Prng::new(seed << 32 | position as u64);
            let image = platter.image(&Choice::random(&platter, &mut prng));
            findings(&image).unwrap_or_else(|wrong| panic!("event {position}: {wrong}"));
            let done = open_again(image, seed, async |volume| {
                let now = shown(volume, SnapshotNumber::LIVE).await?;
                seen[usize::from(now == kept)] += 1;
                differs("then", &shown(volume, SnapshotNumber(1)).await?, &kept)?;
                if now == live { Ok(()) } else { differs("live", &now, &kept) }
            });
            done.unwrap_or_else(|wrong| panic!("seed {seed}, event {position}: {wrong}"));
        }
        assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
    }
}

/// A snapshot is made when there is hardly any room, or refused; in either case all files can be
/// removed, and everything is free when the snapshots are gone.
pub(crate) fn a_full_volume_is_emptied() -> Result<(), String> {
    for (seed, left) in [(1, 0), (2, 20), (3, 60), (4, 120), (5, 200)] {
        let executor = Executor::new(seed);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
        let done = open_again(disk.contents(), seed, async |volume| {
            let (root, told) = (volume.files.root(), |error: FsError| error.to_string());
            let free = volume.space().await.free_bytes;
            let mut files = Vec::new();
            for number in 0.. {
                let text = format!("f{number}");
                let Ok(file) = volume.create(root, &text).await else { break };
                files.push(text);
                let data = vec![number as u8; 3 * 4096];
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
                gone.map_err(|error| format!("{left}, made {is_made}: remove {text}: {error}"))?;
            }
            if is_made {
                delete(volume, "full", true).await?;
            }
            volume.settle().await;
            let now = volume.space().await.free_bytes;
            if now == free { Ok(is_made) } else { Err(format!("{now} of {free} are free")) }
        });
        let (_, is_made) = done.map_err(|wrong| format!("{left}: {wrong}"))?;
        if is_made && left == 0 || !is_made && left > 60 {
            return Err(format!("{left} files fewer: made {is_made}"));
        }
    }
    Ok(())
}

#[test]
fn a_full_volume_with_a_snapshot_is_emptied() {
    assert_eq!(a_full_volume_is_emptied(), Ok(()));
}

/// A snapshot holds more blocks of metadata than there is room for outside the reserve.
pub(crate) fn many_files_go_while_a_snapshot_has_them() -> Result<(), String> {
    const FILES: usize = 2000;
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let ((), image) = open_again(disk.contents(), 1, async |volume| {
        let (root, told) = (volume.files.root(), |error: FsError| error.to_string());
        for number in 0..FILES {
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
        for number in 0..FILES {
            // Spread over the blocks of inodes, so that each is written before it is empty.
            let text = format!("f{}", number * 997 % FILES);
            let gone = volume.remove(root, &text).await;
            gone.map_err(|error| format!("remove {text}, the {number}th: {error}"))?;
        }
        volume.remove(root, "filler").await.map_err(told)
    })
    .map(|(image, done)| (done, image))?;
    let (_, left) = open_again(image, 1, async |volume| {
        let held = shown(volume, SnapshotNumber(1)).await?.len();
        delete(volume, "many", true).await?;
        Ok((held, shown(volume, SnapshotNumber::LIVE).await?.len()))
    })?;
    if left == (FILES, 0) { Ok(()) } else { Err(format!("{left:?} are left")) }
}

#[test]
fn many_files_go_while_a_snapshot_has_them_all() {
    assert_eq!(many_files_go_while_a_snapshot_has_them(), Ok(()));
}

/// Dead blocks are counted at once, before a fold has put them on a list.
#[test]
fn a_list_counts_what_died_a_moment_ago() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 8 << 20)));
    let done = open_again(disk.contents(), 1, async |volume| {
        let told = |error: FsError| error.to_string();
        let file = volume.create(volume.files.root(), "f").await.map_err(told)?;
        let write = async |blocks: usize| {
            let data = vec![1; blocks * 4096];
            volume.write(file, 0, data, Stability::FileSync).await.map_err(told)
        };
        write(20).await?;
        let usage = async || {
            let all = volume.files.snapshots().expect("it has them").list();
            let all = all.open().await.expect("running").into_inner();
            all.into_iter().map(|(_, usage)| usage.unique_bytes / 4096).collect::<Vec<_>>()
        };
        let mut seen = Vec::new();
        pin(volume, "one").await?;
        seen.push(usage().await);
        write(7).await?;
        seen.push(usage().await);
        pin(volume, "two").await?;
        write(20).await?;
        seen.push(usage().await);
        delete(volume, "two", true).await?;
        seen.push(usage().await);
        Ok(seen)
    });
    let seen = done.expect("nothing fails").1;
    // With data, three blocks of metadata: inodes, and the parents of inodes and of data.
    let [first, second, third, last] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(first, &[0], "{seen:?}");
    assert!((8..12).contains(&second[0]), "{seen:?}");
    // Blocks that both hold are unique to neither.
    assert!(third[0] == second[0] && (8..12).contains(&third[1]), "{seen:?}");
    assert!(last[0] >= 20, "{seen:?}");
}
