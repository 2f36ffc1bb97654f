//! Whole disks with several defects at once: the engine serves or refuses them, and the checker
//! repairs them.
//!
//! A case is a seed: one to eight damages of a disk, sealed or not. Then:
//! 1. the volume is opened for reading, and everything reachable is read;
//! 2. a copy is opened for writing, written a little, and stopped;
//! 3. both are repaired, and a second check finds nothing; on the first, every undamaged file is as
//!    it was;
//! 4. sometimes, the repair is interrupted: some of its writes are lost, some torn. The next repair
//!    ends as if nothing had happened.
//!
//! Nothing panics, waits for ever, or reads the disk again and again. `DURAMEN_RUNS=100000 cargo
//! test --release -p ffs --test it disk_fuzz` runs that many cases, and `DURAMEN_CASE=SEED` that
//! one alone. One repaired disk in 100 is also checked by the independent checker. With
//! `--nocapture` the test prints the number of these, and the slowest case.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ffs::OpenOptions;
use fsck::{CheckError, CheckOptions, Severity, check};
use namespace::Namespace;
use sim::Prng;
use vfs::{FileKind, FileSystem, ObjectId, Requester, Stability};

use crate::common::volume::{Volume, name, open_with_log};
use crate::common::{Event, MemoryDisk, World};
use crate::damage::base::{Base, open_to_read};
use crate::damage::cases;
use crate::damage::judge::{compare, examine, lines};
use crate::damage::map::Owner;
use crate::damage::mutation::{Mutation, Structure, Touched};
use crate::damage::oracle::Oracle;

/// Number of cases of an ordinary run, fewer without optimisation; and the approximate interval at
/// which a repaired disk is shown to the independent checker.
const CASES: u64 = if cfg!(debug_assertions) { 200 } else { 1500 };
const SHOWN: u64 = 100;
/// Cases that failed once: claims of equal weight on an indirect block, copies that left no room
/// for `lost+found`, more directories without their type than rounds, and, without a FreeBSD disk,
/// a directory with a second name in a stray chunk.
const REGRESSIONS: [u64; 7] = [31014, 43759, 80097, 85962, 54878, 6519, 751];
/// Fraction of the aimed damages that can be chosen: one in `AIMED`.
const AIMED: usize = 5;
/// One repair in `CUT` is interrupted.
const CUT: u64 = 4;
/// Maximum bytes of one file, and maximum number of objects, that a walk reads.
const LONGEST: u64 = 1 << 20;
const WIDEST: usize = 3000;
/// Maximum bytes that a walk or check reads, as a multiple of the disk's size.
const READS: u64 = 100;

/// Damages a disk; each damage is sealed or not at random.
fn damaged(base: &Base, aimed: &[Mutation], prng: &mut Prng) -> (MemoryDisk, Vec<Mutation>) {
    let disk = base.disk.fork();
    let mut damages = Vec::new();
    for _ in 0..prng.between(1, 8) {
        let damage = one(base, aimed, prng);
        let with = damage.apply(base, prng.chance(1, 2));
        // The changes of this damage alone, seals included, go over the current content.
        for (at, bytes) in with.differences(&base.disk) {
            let old = base.disk.bytes(at, bytes.len());
            for (index, (new, old)) in bytes.iter().zip(&old).enumerate() {
                if new != old {
                    disk.put(at + index as u64, &[*new]);
                }
            }
        }
        damages.push(damage);
    }
    (disk, damages)
}

/// One damage: half of the time one that is aimed at something.
fn one(base: &Base, aimed: &[Mutation], prng: &mut Prng) -> Mutation {
    if prng.chance(1, 2) {
        return aimed[prng.index(aimed.len())].clone();
    }
    let geometry = &base.geometry;
    let size = geometry.fragment_size;
    let metadata = base.metadata();
    // Common kinds of metadata are chosen less often.
    let fragment = loop {
        let fragment = metadata[prng.index(metadata.len())];
        let inodes = matches!(base.map.owner(fragment * size), Owner::Inodes(_));
        if !inodes || prng.chance(1, 8) {
            break fragment;
        }
    };
    let start = fragment * size;
    let (at, bytes) = match prng.below(6) {
        0..=2 => {
            let at = start + prng.below(size);
            let old = base.disk.bytes(at, 1)[0];
            (at, vec![[old ^ 1 << prng.below(8), 0, 0xff, prng.next_u64() as u8][prng.index(4)]])
        }
        3 => {
            let at = start + prng.below(size / 8) * 8;
            let value = [0, 1, prng.below(geometry.size), u64::MAX, prng.next_u64()][prng.index(5)];
            (at, value.to_le_bytes().to_vec())
        }
        4 => {
            let from = metadata[prng.index(metadata.len())] * size;
            (start, base.disk.bytes(from, size as usize))
        }
        _ => {
            let mut bytes = vec![0; size as usize];
            if prng.chance(1, 2) {
                prng.fill(&mut bytes);
            }
            (start, bytes)
        }
    };
    let label = format!("{} bytes at byte {at}", bytes.len());
    Mutation::new(Structure::Blocks, label, at, bytes)
}

fn touched(base: &Base, damages: &[Mutation]) -> Touched {
    let mut all = Touched::default();
    for damage in damages {
        let touched = damage.touched(base);
        all.files.extend(touched.files);
        all.directories.extend(touched.directories);
    }
    all
}

/// Reads everything reachable, ignoring the results.
async fn wander(volume: &Volume) {
    let root = volume.files.root();
    let (mut seen, mut open) = (BTreeSet::new(), vec![root]);
    while let Some(directory) = open.pop() {
        let mut accept = |_: &vfs::DirectoryEntry| true;
        let sealed = volume.files.readdir(&volume.root, directory, 0, true, &mut accept).await;
        let Ok(durable) = sealed.open().await else { return };
        let Ok(listed) = durable.into_inner().result else { continue };
        for entry in listed.entries {
            let Some(attributes) = entry.attributes else { continue };
            let id = ObjectId::live(attributes.ino, attributes.generation);
            if seen.len() > WIDEST || !seen.insert(id) {
                continue;
            }
            match attributes.kind {
                FileKind::Directory => open.push(id),
                FileKind::Symlink => {
                    let _ = volume.files.readlink(&volume.root, id).await.open().await;
                }
                FileKind::Regular => read(volume, id).await,
                _ => {}
            }
        }
    }
}

async fn read(volume: &Volume, id: ObjectId) {
    let mut at = 0;
    while at < LONGEST {
        let sealed = volume.files.read(&volume.root, id, at, 100_000).await;
        let Ok(durable) = sealed.open().await else { return };
        let Ok(read) = durable.into_inner().result else { return };
        let count: usize = read.data.iter().map(bytes::Bytes::len).sum();
        if read.eof || count == 0 {
            return;
        }
        at += count as u64;
    }
}

/// Writes a little, if possible, ignoring the results.
async fn write(world: &World, disk: Rc<MemoryDisk>) {
    let opened =
        open_with_log(disk, None, world.runtime(), &OpenOptions::default(), &mut |_| ()).await;
    let Ok(opened) = opened else { return };
    if opened.read_only.is_some() {
        return;
    }
    let volume = Volume { files: Namespace::new(opened.files), root: Requester::root() };
    let root = volume.files.root();
    if let Ok(directory) = volume.mkdir(root, "fresh").await
        && let Ok(file) = volume.create(directory, "file").await
    {
        let _ = volume.write(file, 0, vec![1; 5000], Stability::FileSync).await;
        let _ = volume.write(file, 60_000, vec![2; 9000], Stability::Unstable).await;
        let _ = volume.rename((directory, "file"), (root, "moved")).await;
    }
    for text in ["tail", "single", "double", "short-link"] {
        let _ = volume.remove(root, text).await;
    }
    if let Ok(large) = volume.lookup(root, "large").await {
        let sealed = volume.files.remove(&volume.root, large, &name("first")).await;
        let _ = sealed.open().await;
    }
    let _ = volume.files.shutdown().await;
}

/// Repairs a disk. False if that is impossible for a legitimate reason.
fn repaired(disk: &MemoryDisk) -> Result<bool, String> {
    let report = match examine(disk, true, None) {
        Ok(report) => report,
        Err(CheckError::NotRepairable(_) | CheckError::Superblock(_)) => return Ok(false),
        Err(error) => return Err(format!("the repair: {error}")),
    };
    let again = examine(disk, false, None).map_err(|error| format!("the second look: {error}"))?;
    if again.findings.list.iter().any(|finding| finding.severity > Severity::Note) {
        return Err(format!("after a repair of{}\n  there is{}", lines(&report), lines(&again)));
    }
    Ok(true)
}

/// The state after an interrupted repair: everything up to a flush, and some of the sectors after
/// it.
fn cut(before: &MemoryDisk, events: &[Event], prng: &mut Prng) -> MemoryDisk {
    const SECTOR: usize = 512;
    let left = before.fork();
    let happened = &events[..prng.index(events.len() + 1)];
    let flushed = happened.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
    for (index, event) in happened.iter().enumerate() {
        let Event::Write(at, bytes) = event else { continue };
        for (number, sector) in (0..).zip(bytes.chunks(SECTOR)) {
            if index < flushed || prng.chance(1, 2) {
                left.put(at + number * SECTOR as u64, sector);
            }
        }
    }
    left
}

struct Fuzzer {
    bases: Vec<Base>,
    aimed: Vec<Vec<Mutation>>,
    oracles: Vec<Option<Oracle>>,
    /// One repaired disk in `shown` is shown to them.
    shown: u64,
    judged: u64,
    repaired: u64,
    cuts: u64,
    /// Duration and number of the slowest case.
    longest: (Duration, u64),
}

impl Fuzzer {
    fn case(&mut self, seed: u64) -> Result<(), String> {
        let mut prng = Prng::new(seed);
        let index = prng.index(self.bases.len());
        let base = &self.bases[index];
        let (disk, damages) = damaged(base, &self.aimed[index], &mut prng);
        let what = || damages.iter().map(|damage| format!("\n  {damage}")).collect::<String>();
        let wrong = |wrong: String| format!("{}: {wrong}{}", base.name, what());
        let size = base.geometry.size * base.geometry.fragment_size;
        let world = World::new(seed);
        let reader = disk.fork();
        let walked = world.run_or_stall(async {
            if let Ok(volume) = open_to_read(&world, &reader).await {
                wander(&volume).await;
            }
        });
        walked.ok_or_else(|| wrong("a walk waits for ever".into()))?;
        let written = Rc::new(disk.fork());
        let world = World::new(seed);
        let wrote = world.run_or_stall(write(&world, written.clone()));
        wrote.ok_or_else(|| wrong("a writer waits for ever".into()))?;
        let after_writing = written.fork();
        repaired(&after_writing).map_err(|text| wrong(format!("after writing: {text}")))?;

        let mended = disk.fork();
        if !repaired(&mended).map_err(wrong)? {
            return Ok(());
        }
        self.repaired += 1;
        let read = mended.bytes_read();
        if read > READS * size {
            return Err(wrong(format!("{read} bytes were read of {size}")));
        }
        let touched = touched(base, &damages);
        compare(base, &mended, &touched).map_err(|text| {
            let look = examine(&disk, false, None).map(|report| lines(&report));
            wrong(format!("{text}{}", look.unwrap_or_default()))
        })?;
        if prng.chance(1, CUT) {
            let left = cut(&disk, &mended.events(), &mut prng);
            let whole = repaired(&left).map_err(|text| wrong(format!("after a cut: {text}")))?;
            if !whole {
                return Err(wrong("after a cut it can no longer be repaired".into()));
            }
            compare(base, &left, &touched).map_err(|text| wrong(format!("after a cut: {text}")))?;
            self.cuts += 1;
        }
        if self.repaired.is_multiple_of(self.shown)
            && let Some(oracle) = &mut self.oracles[index]
        {
            self.judged += 1;
            let judged = oracle.ask(base, &mended);
            if !judged.is_empty() {
                return Err(wrong(format!("the independent checker: {judged}")));
            }
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a person waits; nothing depends on it")]
fn now() -> Instant {
    Instant::now()
}

fn aimed(base: &Base) -> Vec<Mutation> {
    cases::all(base, 0).into_iter().step_by(AIMED).collect()
}

fn bases() -> Vec<Base> {
    let mut bases = vec![Base::small_blocks(), Base::large_blocks()];
    bases.extend(Base::freebsd());
    bases
}

#[test]
fn damaged_disks_are_served_or_refused_and_repaired() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let count = number("DURAMEN_RUNS").unwrap_or(CASES);
    let seeds: Vec<u64> = match number("DURAMEN_CASE") {
        Some(seed) => vec![seed],
        None => (0..count).chain(REGRESSIONS).collect(),
    };
    let bases = bases();
    let oracles = bases.iter().map(Oracle::new).collect();
    let aimed = bases.iter().map(aimed).collect();
    let shown = SHOWN;
    let (judged, repaired, cuts, longest) = (0, 0, 0, (Duration::ZERO, 0));
    let mut fuzzer = Fuzzer { bases, aimed, oracles, shown, judged, repaired, cuts, longest };
    let mut failures = Vec::new();
    for seed in seeds {
        let begun = now();
        let run = std::panic::AssertUnwindSafe(|| fuzzer.case(seed));
        match std::panic::catch_unwind(run) {
            Ok(Ok(())) => {}
            Ok(Err(wrong)) => failures.push(format!("DURAMEN_CASE={seed} {wrong}")),
            Err(_) => failures.push(format!("DURAMEN_CASE={seed} a panic")),
        }
        fuzzer.longest = fuzzer.longest.max((begun.elapsed(), seed));
    }
    let Fuzzer { repaired, cuts, judged, longest, .. } = fuzzer;
    println!("{count} cases, {repaired} repaired, {cuts} repairs cut, {judged} judged by others");
    println!("the longest took {} ms: DURAMEN_CASE={}", longest.0.as_millis(), longest.1);
    let count = failures.len();
    failures.truncate(30);
    assert!(count == 0, "{count} failures:\n{}", failures.join("\n"));
}

#[test]
fn a_check_reads_the_disk_a_few_times_only() {
    let base = Base::small_blocks();
    let disk = base.disk.fork();
    let world = World::new(1);
    let options = CheckOptions::default();
    let report = world.run_or_stall(check(&disk, &world.runtime(), &options, &mut |_| ()));
    report.expect("it ends").expect("it is well");
    let size = base.geometry.size * base.geometry.fragment_size;
    assert!(disk.bytes_read() < 2 * size, "{} of {size}", disk.bytes_read());
}
