//! Power cuts while the cleaner works: files that are overwritten, made and removed on a volume
//! with little room.

use std::collections::BTreeMap;
use std::rc::Rc;

use enginekit::Volume;
use enginekit::random::Seeded;
use lfs::Lfs;
use runtime::Random;
use sim::{Choice, Disk, Executor, Image, Mark, Prng, Trace};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, findings, made, opened};

/// Bytes of a file: one call writes all of it, so a cut leaves one content or the other.
const FILE: usize = 12 << 10;
/// Files of the volume when it is full.
const MOST: u64 = 400;

/// The contents of a file, by its number and its version.
fn contents(number: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![(number * 31 + version * 7 + 1) as u8; FILE];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Versions of each file in their order, each with the step that wrote it; version 0 is no file.
type History = BTreeMap<u64, Vec<(usize, u64)>>;

struct Run {
    trace: Trace,
    history: History,
}

async fn change(
    volume: &Volume<Lfs>,
    chance: &Seeded,
    (disk, steps): (&Rc<Disk>, usize),
) -> History {
    let root = volume.files.root();
    let mut versions: BTreeMap<u64, u64> = BTreeMap::new();
    let mut history = History::new();
    let mut step = 0;
    // Filled before anything is recorded.
    for number in 0..MOST {
        let id = match volume.create(root, &format!("f{number}")).await {
            Err(FsError::NoSpace) => break,
            id => id.expect("there is room"),
        };
        if volume.write(id, 0, contents(number, 1), Stability::FileSync).await.is_err() {
            volume.remove(root, &format!("f{number}")).await.expect("it is there");
            break;
        }
        versions.insert(number, 1);
        history.entry(number).or_default().push((0, 1));
    }
    let keep = versions.len() as u64 * 9 / 10;
    for number in keep..versions.len() as u64 {
        volume.remove(root, &format!("f{number}")).await.expect("it is there");
        versions.insert(number, 0);
        history.entry(number).or_default().push((0, 0));
    }
    let all = versions.len() as u64;
    volume.settle().await;
    disk.start_trace();
    while step < steps {
        step += 1;
        let number = chance.next_u64() % all;
        let (name, version) = (format!("f{number}"), versions[&number]);
        let next = step as u64 + 1;
        let is_removed = version > 0 && chance.next_u64().is_multiple_of(8);
        // The change may be there from now on.
        history.entry(number).or_default().push((step, if is_removed { 0 } else { next }));
        if is_removed {
            volume.remove(root, &name).await.expect("it is there");
            versions.insert(number, 0);
        } else {
            let id = match volume.lookup(root, &name).await {
                Ok(id) => id,
                Err(_) => volume.create(root, &name).await.expect("there is room"),
            };
            let written = volume.write(id, 0, contents(number, next), Stability::FileSync).await;
            written.expect("an overwrite has room");
            versions.insert(number, next);
        }
        disk.mark(Mark::Number(step as u64));
    }
    history
}

fn recorded(setting: &Setting, seed: u64, steps: usize) -> Run {
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disk = made(&executor, setting).await;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let history = change(&volume, &Seeded::new(seed), (&disk, steps)).await;
        Run { trace: disk.trace(), history }
    })
}

/// Checks a volume after a cut: steps up to `acknowledged` have happened, the next one may have.
async fn judge(volume: &Volume<Lfs>, run: &Run, acknowledged: usize) -> Result<(), String> {
    let root = volume.files.root();
    for (&number, versions) in &run.history {
        let name = format!("f{number}");
        let last = versions.iter().rev().find(|(step, _)| *step <= acknowledged);
        let next = versions.iter().find(|(step, _)| *step == acknowledged + 1);
        let may_be: Vec<u64> = last.into_iter().chain(next).map(|(_, version)| *version).collect();
        let found = match volume.lookup(root, &name).await {
            Err(FsError::NoEntry) => None,
            Err(error) => return Err(format!("{name}: {error}")),
            Ok(id) => Some(volume.read(id).await.map_err(|error| format!("{name}: {error}"))?),
        };
        let fits = |version: u64| match &found {
            None => version == 0,
            // A file that is made anew is empty before it is written.
            Some(bytes) if bytes.is_empty() => next.is_some() && may_be.contains(&0),
            Some(bytes) => version > 0 && *bytes == contents(number, version),
        };
        if !may_be.iter().any(|&version| fits(version)) {
            let length = found.map(|bytes| bytes.len());
            return Err(format!("{name}: {length:?} bytes that are none of versions {may_be:?}"));
        }
    }
    Ok(())
}

/// Checks one cut: the volume comes back, has what was acknowledged, and goes on.
fn judged(setting: &Setting, run: &Run, (position, seed): (usize, u64)) -> Result<(), String> {
    let platter = run.trace.platter_at(position);
    let image: Image = platter.image(&Choice::random(&platter, &mut Prng::new(seed)));
    let marks = run.trace.marks_before(position).filter_map(|mark| match mark {
        Mark::Number(number) => Some(*number as usize),
        _ => None,
    });
    let acknowledged = marks.max().unwrap_or(0);
    findings(&image)?;
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        judge(&volume, run, acknowledged).await?;
        let root = volume.files.root();
        for number in 0..6 {
            let id = volume.create(root, &format!("new{number}")).await;
            let id = id.map_err(|error| error.to_string())?;
            let data = vec![7; setting.block as usize];
            let written = volume.write(id, 0, data, Stability::FileSync).await;
            written.map_err(|error| error.to_string())?;
        }
        judge(&volume, run, acknowledged).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    findings(&disk.contents())
}

/// The first failure at this many cuts of a run.
pub(crate) fn first_wrong(seed: u64, steps: usize, cuts: u64) -> Option<String> {
    let setting = Setting { block: 4 << 10, segment: 16 << 10, disk: 4 << 20 };
    let run = recorded(&setting, seed, steps);
    let mut prng = Prng::new(seed);
    (0..cuts).find_map(|_| {
        let cut = (prng.index(run.trace.events().len() + 1), prng.next_u64());
        let wrong = judged(&setting, &run, cut).err()?;
        Some(format!("run {seed}, cut after {} events with seed {}: {wrong}", cut.0, cut.1))
    })
}

#[test]
fn cuts_while_it_cleans_lose_nothing() {
    for seed in 1..=3 {
        assert_eq!(first_wrong(seed, 200, 40), None);
    }
}
