//! Names that must be found, and what is told of files that nobody keeps in memory.

use std::rc::Rc;
use std::time::Duration;

use ffs::OpenOptions;
use ffs::policy::log::LogOptions;
use namespace::Namespace;
use runtime::{Random, Timestamp};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{
    Attributes, Author, Credentials, DirectoryEntry, FileSystem, FsError, ObjectId, SetAttributes,
    Stability,
};

use super::volume::{Volume, fresh, name, open_with_log, reopen};
use super::{MemoryDisk, Seeded, World};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const FILES: u64 = 2_000;
/// The inodes of all files are twice as much.
const CACHE: usize = 256 << 10;

async fn told(volume: &Volume, parent: ObjectId, text: &str) -> Result<Attributes, FsError> {
    let sealed = volume.files.lookup(&Credentials::root(), parent, &name(text)).await;
    let answer = sealed.open().await.expect("running").into_inner();
    answer.result.map(|found| found.attributes)
}

async fn listed(volume: &Volume, directory: ObjectId) -> Vec<DirectoryEntry> {
    let mut accept = |_: &DirectoryEntry| true;
    let who = Credentials::root();
    let sealed = volume.files.readdir(&who, directory, 0, true, &mut accept).await;
    let answer = sealed.open().await.expect("running").into_inner();
    answer.result.expect("a directory").entries
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, right: T) -> Result<(), String> {
    if found == right { Ok(()) } else { Err(format!("{what}: {found:?}, not {right:?}")) }
}

/// Names that are made, removed, moved and made again lead where they should, before the directory
/// is read anew and after.
pub(crate) fn names_lead_to_their_files() -> Result<(), String> {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, 64 << 20, &MkfsOptions::default()).await;
        let parent = volume.mkdir(volume.files.root(), "names").await.expect("new");
        let mut right = Vec::new();
        for number in 0..300 {
            let text = format!("name{number}");
            let made = volume.create(parent, &text).await;
            right.push((text, made.map_err(|error| format!("name{number}: {error:?}"))));
        }
        for (number, (text, file)) in right.iter_mut().enumerate() {
            let file_there = file.clone()?;
            same(text, volume.create(parent, text).await, Err(FsError::Exists))?;
            match number % 4 {
                0 => {
                    same(text, volume.remove(parent, text).await, Ok(()))?;
                    *file = Err("removed".to_owned());
                }
                1 => {
                    let new = format!("moved{number}");
                    same(text, volume.rename((parent, text), (parent, &new)).await, Ok(()))?;
                    *text = new;
                }
                2 => {
                    same(text, volume.remove(parent, text).await, Ok(()))?;
                    let again = volume.create(parent, text).await.map_err(|e| format!("{e:?}"))?;
                    *file = Ok(again);
                }
                _ => same(text, volume.lookup(parent, text).await, Ok(file_there))?,
            }
        }
        let check = async |volume: &Volume| {
            for (text, file) in &right {
                let expected = file.clone().map_err(|_| FsError::NoEntry);
                same(text, volume.lookup(parent, text).await, expected)?;
            }
            let there = right.iter().filter(|(_, file)| file.is_ok()).count();
            same("names", listed(volume, parent).await.len(), there + 2)
        };
        check(&volume).await?;
        volume.files.shutdown().await.expect("it stops");
        let volume = reopen(&world, &disk).await;
        check(&volume).await?;
        volume.files.shutdown().await.expect("it stops");
        Ok(())
    })
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    mode: u16,
    size: u64,
}

impl Known {
    fn of(attributes: &Attributes) -> Self {
        Self { mode: attributes.mode, size: attributes.size }
    }
}

/// What LOOKUP and READDIRPLUS tell of files is what was answered before, in a memory that holds
/// few of them and with changes that are in the log and not yet at home.
pub(crate) fn what_is_told_is_never_stale() -> Result<(), String> {
    (1..4).try_for_each(|seed| stale(seed).map_err(|what| format!("seed {seed}: {what}")))
}

fn stale(seed: u64) -> Result<(), String> {
    let world = World::new(seed);
    world.run(async {
        let disk = Rc::new(MemoryDisk::new(64 << 20));
        let log = Rc::new(MemoryDisk::new(32 << 20));
        let small = MkfsOptions { block_size: 8192, fragment_size: 1024, ..MkfsOptions::default() };
        mkfs(&*disk, &small, &Seeded::new(7), NOW).await.expect("the disk holds it");
        let seldom = LogOptions { sync_interval: Duration::from_secs(3600), ..Default::default() };
        let options = OpenOptions { cache_bytes: CACHE, log: seldom, ..OpenOptions::default() };
        let runtime = world.runtime();
        let opened = open_with_log(disk, Some(log), runtime, &options, &mut |_| ()).await;
        let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
        let volume = Volume { files: Namespace::new(engine), root: Author::root() };
        let outcome = look_and_change(&volume, &Seeded::new(seed)).await;
        volume.files.shutdown().await.expect("it stops");
        outcome
    })
}

async fn look_and_change(volume: &Volume, chance: &Seeded) -> Result<(), String> {
    let mut files = Vec::new();
    let mut parents = Vec::new();
    for number in 0..8 {
        let parent = volume.mkdir(volume.files.root(), &format!("d{number}")).await;
        parents.push(parent.expect("new"));
    }
    let parent_of = |number: u64| parents[number as usize % parents.len()];
    for number in 0..FILES {
        let made = volume.create(parent_of(number), &format!("n{number}")).await.expect("new");
        files.push((made, Known { mode: 0o644, size: 0 }));
    }
    for step in 0..6_000 {
        let number = chance.next_u64() % FILES;
        let (id, known) = &mut files[number as usize];
        match chance.next_u64() % 8 {
            0 => {
                known.mode = (chance.next_u64() & 0o777) as u16;
                let change = SetAttributes { mode: Some(known.mode), ..Default::default() };
                let sealed = volume.files.setattr(&volume.root, *id, change, None).await;
                sealed.open().await.expect("running").into_inner().result.expect("it is there");
            }
            1 => {
                known.size = known.size.max(chance.next_u64() % 3000 + 1);
                let data = vec![7; known.size as usize];
                volume.write(*id, 0, data, Stability::Unstable).await.expect("room");
            }
            2 if chance.next_u64().is_multiple_of(4) => {
                volume.commit(*id).await.expect("it is there");
            }
            _ => {}
        }
        let number = chance.next_u64() % FILES;
        let (text, known) = (format!("n{number}"), files[number as usize].1);
        let found = told(volume, parent_of(number), &text).await;
        let found = found.map_err(|error| format!("step {step}: {text}: {error:?}"))?;
        same(&format!("step {step}: LOOKUP {text}"), Known::of(&found), known)?;
    }
    for &parent in &parents {
        for entry in listed(volume, parent).await {
            let text = String::from_utf8_lossy(&entry.name).into_owned();
            let Some(number) = text.strip_prefix('n') else { continue };
            let known = files[number.parse::<usize>().expect("a number")].1;
            let found = entry.attributes.map(|attributes| Known::of(&attributes));
            same(&format!("READDIRPLUS {text}"), found, Some(known))?;
        }
    }
    Ok(())
}
