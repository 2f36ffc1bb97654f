//! Lookups of names, and attributes of files that are not kept in memory.

use runtime::Random;
use sim::Executor;
use vfs::{Attributes, Credentials, FileSystem, FsError, ObjectId, SetAttributes, Stability};
use vnode::Engine;

use crate::bench::Bench;
use crate::random::Seeded;
use crate::volume::{Volume, name};

const FILES: u64 = 2_000;

async fn told(
    volume: &Volume<impl Engine>,
    parent: ObjectId,
    text: &str,
) -> Result<Attributes, FsError> {
    let sealed = volume.files.lookup(&Credentials::root(), parent, &name(text)).await;
    let answer = sealed.open().await.expect("running").into_inner();
    answer.result.map(|found| found.attributes)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, right: T) -> Result<(), String> {
    if found == right { Ok(()) } else { Err(format!("{what}: {found:?}, not {right:?}")) }
}

/// The expected state of a file.
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

/// Names that are made, removed, moved and made again lead to the right files, before the directory
/// is reread and after.
///
/// # Errors
/// The violation.
pub fn names_lead_to_their_files(bench: &impl Bench) -> Result<(), String> {
    let executor = Executor::new(1);
    let (disks, parent, right) = executor.block_on(async {
        let disks = bench.make(&executor).await;
        let volume = bench.open(executor.runtime(), &disks).await?;
        let parent = volume.mkdir(volume.files.root(), "names").await.expect("new");
        let right = change_names(&volume, parent).await?;
        are_right(&volume, parent, &right).await?;
        volume.files.shutdown().await.expect("it stops");
        Ok::<_, String>((disks, parent, right))
    })?;
    let (executor, disks) = bench.stopped(&disks);
    executor.block_on(async {
        let volume = bench.open(executor.runtime(), &disks).await?;
        are_right(&volume, parent, &right).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })
}

/// A name, and its file or the error of its lookup.
type Right = (String, Result<ObjectId, String>);

/// Makes names, and removes some, moves some, and makes some again.
async fn change_names(
    volume: &Volume<impl Engine>,
    parent: ObjectId,
) -> Result<Vec<Right>, String> {
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
    Ok(right)
}

async fn are_right(
    volume: &Volume<impl Engine>,
    parent: ObjectId,
    right: &[Right],
) -> Result<(), String> {
    for (text, file) in right {
        let expected = file.clone().map_err(|_| FsError::NoEntry);
        same(text, volume.lookup(parent, text).await, expected)?;
    }
    let there = right.iter().filter(|(_, file)| file.is_ok()).count();
    same("names", volume.entries(parent, true).await.len(), there + 2)
}

/// A file takes as many names as the engine allows, and no more: before the volume is reopened, and
/// after.
///
/// # Errors
/// The violation.
pub fn a_file_has_no_more_names_than_it_may(bench: &impl Bench) -> Result<(), String> {
    const NAMES_OF_ONE: u32 = 4096;
    let executor = Executor::new(1);
    let (disks, file, parent, most) = executor.block_on(async {
        let disks = bench.make(&executor).await;
        let volume = bench.open(executor.runtime(), &disks).await?;
        let root = volume.files.root();
        let sealed = volume.files.pathconf(root).await;
        let told = sealed.open().await.expect("running").into_inner().result;
        let most = told.expect("of the root").link_max;
        let file = volume.create(root, "file").await.expect("new");
        let mut parent = root;
        for number in 1..most {
            if number % NAMES_OF_ONE == 1 {
                parent = volume.mkdir(root, &format!("names{number}")).await.expect("new");
            }
            let linked = volume.link(file, parent, &format!("n{number}")).await;
            same(&format!("name {number}"), linked, Ok(()))?;
        }
        at_its_bound(&volume, (file, parent), most).await?;
        volume.files.shutdown().await.expect("it stops");
        Ok::<_, String>((disks, file, parent, most))
    })?;
    let (executor, disks) = bench.stopped(&disks);
    executor.block_on(async {
        let volume = bench.open(executor.runtime(), &disks).await?;
        at_its_bound(&volume, (file, parent), most).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })
}

/// A file with the maximum number of names takes another one only in the place of one that it has.
async fn at_its_bound(
    volume: &Volume<impl Engine>,
    (file, parent): (ObjectId, ObjectId),
    most: u32,
) -> Result<(), String> {
    let count = async || volume.attributes(file).await.nlink;
    let last = format!("n{}", most - 1);
    same("names", count().await, most)?;
    same("one too many", volume.link(file, parent, "more").await, Err(FsError::TooManyLinks))?;
    same("its name", volume.lookup(parent, "more").await, Err(FsError::NoEntry))?;
    // A name that moves counts twice for a moment, and a cut may leave it so.
    let moved = volume.rename((parent, &last), (parent, "moved")).await;
    same("a name that moves", moved, Err(FsError::TooManyLinks))?;
    same("its old name", volume.lookup(parent, &last).await, Ok(file))?;
    same("a name goes", volume.remove(parent, &last).await, Ok(()))?;
    same("one less", count().await, most - 1)?;
    same("a name comes", volume.link(file, parent, &last).await, Ok(()))?;
    same("one too many again", volume.link(file, parent, "x").await, Err(FsError::TooManyLinks))?;
    same("names in the end", count().await, most)
}

/// LOOKUP and READDIRPLUS return the attributes of the last answer about each file. Most useful in
/// a memory that holds few files, with changes that are durable but not yet written in place.
///
/// # Errors
/// A stale answer.
pub async fn what_is_told_is_never_stale(
    volume: &Volume<impl Engine>,
    chance: &Seeded,
) -> Result<(), String> {
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
        for entry in volume.entries(parent, true).await {
            let text = String::from_utf8_lossy(&entry.name).into_owned();
            let Some(number) = text.strip_prefix('n') else { continue };
            let known = files[number.parse::<usize>().expect("a number")].1;
            let found = entry.attributes.map(|attributes| Known::of(&attributes));
            same(&format!("READDIRPLUS {text}"), found, Some(known))?;
        }
    }
    Ok(())
}
