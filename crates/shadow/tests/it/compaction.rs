//! Compaction: zones become empty, and files stay as they are, whatever else happens meanwhile.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use enginekit::Volume;
use enginekit::random::Seeded;
use enginekit::snapshots::pin;
use futures::future::join_all;
use runtime::Random;
use shadow::{OpenOptions, Shadow, Status, open};
use sim::{Choice, Disk, Executor, Image, Options, Prng, presets};
use vfs::{Credentials, FileSystem, ObjectId, SetAttributes, SnapshotNumber, Stability};

use crate::bench::{Setting, findings, made, opened};

const BLOCK: u64 = 4096;

/// Files in the root, with their contents.
type Model = BTreeMap<String, Vec<u8>>;

fn status(volume: &Volume<Shadow>) -> Status {
    volume.files.store().engine().status()
}

fn empty_zones(volume: &Volume<Shadow>) -> u64 {
    volume.files.store().engine().empty_zones()
}

/// Files of an aged volume.
struct Aged<'a> {
    volume: &'a Volume<Shadow>,
    chance: Seeded,
    files: Model,
}

impl<'a> Aged<'a> {
    fn new(volume: &'a Volume<Shadow>, seed: u64) -> Self {
        Self { volume, chance: Seeded::new(seed), files: Model::new() }
    }

    fn below(&self, end: u64) -> u64 {
        self.chance.next_u64() % end
    }

    async fn id(&self, name: &str) -> ObjectId {
        self.volume.lookup(self.volume.files.root(), name).await.expect("it is there")
    }

    async fn write(&mut self, name: &str, at: u64, data: Vec<u8>, stability: Stability) {
        let file = self.id(name).await;
        let (start, end) = (at as usize, at as usize + data.len());
        let content = self.files.get_mut(name).expect("it is there");
        content.resize(content.len().max(end), 0);
        content[start..end].copy_from_slice(&data);
        self.volume.write(file, at, data, stability).await.expect("there is room");
    }

    async fn create(&mut self, name: &str, blocks: u64) {
        let root = self.volume.files.root();
        let file = self.volume.create(root, name).await.expect("there is room");
        let data: Vec<u8> = (0..blocks * BLOCK).map(|at| (at / 600) as u8 ^ 0x5a).collect();
        for (index, piece) in data.chunks(64 << 10).enumerate() {
            let at = index as u64 * (64 << 10);
            let written = self.volume.write(file, at, piece.to_vec(), Stability::Unstable).await;
            written.expect("there is room");
        }
        self.volume.commit(file).await.expect("there is room");
        self.files.insert(name.to_owned(), data);
    }

    /// Overwrites random blocks of a file.
    async fn overwrite(&mut self, name: &str, times: u64) {
        let blocks = self.files[name].len() as u64 / BLOCK;
        for _ in 0..times {
            let at = self.below(blocks) * BLOCK;
            let data = vec![self.below(255) as u8 + 1; BLOCK as usize];
            self.write(name, at, data, Stability::FileSync).await;
        }
    }

    /// The same, all at once; each is a different block.
    async fn overwrite_at_once(&mut self, name: &str, count: u64) {
        let blocks = self.files[name].len() as u64 / BLOCK;
        let file = self.id(name).await;
        let first = self.below(blocks);
        let places = (0..count).map(|turn| (first + turn * blocks / count) % blocks * BLOCK);
        let writes: Vec<(u64, Vec<u8>)> =
            places.map(|at| (at, vec![self.below(255) as u8 + 1; BLOCK as usize])).collect();
        let volume = self.volume;
        let at_once = writes
            .iter()
            .map(|(at, data)| volume.write(file, *at, data.clone(), Stability::FileSync));
        join_all(at_once).await.into_iter().for_each(|done| done.expect("there is room"));
        let content = self.files.get_mut(name).expect("it is there");
        for (at, data) in writes {
            content[at as usize..at as usize + data.len()].copy_from_slice(&data);
        }
    }

    /// Fills this many blocks with a large file and small ones, overwrites some, and removes
    /// others.
    async fn age(&mut self, blocks: u64) {
        self.create("large", blocks * 3 / 4).await;
        let small = blocks / 4 / 3;
        for number in 0..small {
            self.create(&format!("small{number}"), 3).await;
        }
        self.overwrite("large", blocks / 2).await;
        for number in (0..small).filter(|number| number % 3 == 1) {
            let name = format!("small{number}");
            let root = self.volume.files.root();
            self.volume.remove(root, &name).await.expect("it is there");
            self.files.remove(&name);
        }
        // A hole stays a hole.
        self.create("holes", 2).await;
        let at = 40 * BLOCK;
        self.write("holes", at, vec![7; 100], Stability::FileSync).await;
    }

    async fn check(&self) -> Result<(), String> {
        shows(self.volume, SnapshotNumber::LIVE, &self.files).await
    }
}

/// Checks that a tree has these files, with these contents.
async fn shows(volume: &Volume<Shadow>, tree: SnapshotNumber, right: &Model) -> Result<(), String> {
    let root = volume.files.root().within(tree);
    for (name, content) in right {
        let file = volume.lookup(root, name).await.map_err(|error| format!("{name}: {error}"))?;
        let read = volume.read(file).await.map_err(|error| format!("{name}: {error}"))?;
        let first = || read.iter().zip(content).position(|(one, other)| one != other);
        if read != *content {
            return Err(format!("{name}: {} bytes, wrong at {:?}", read.len(), first()));
        }
    }
    let names = volume.list(root).await.map_err(|error| error.to_string())?;
    if names.len() == right.len() + 2 { Ok(()) } else { Err(format!("{names:?}")) }
}

/// Opens a volume without compaction.
async fn opened_alone(executor: &Executor, disk: &Rc<Disk>) -> Volume<Shadow> {
    let interval = Duration::from_secs(100_000);
    let options = OpenOptions { housekeeping_interval: interval, ..OpenOptions::default() };
    let files = open(disk.clone(), executor.runtime(), &options).await;
    Volume::new(files.expect("it is well"))
}

/// An aged volume with `blocks` blocks written, on `bytes` bytes with zones of this size, and its
/// files.
fn aged(zone_kib: u64, bytes: u64, blocks: u64, seed: u64) -> (Image, Model) {
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disk = made(&executor, &Setting::of(4, zone_kib, bytes)).await;
        let volume = opened_alone(&executor, &disk).await;
        let mut aged = Aged::new(&volume, seed);
        aged.age(blocks).await;
        volume.files.shutdown().await.expect("nothing fails");
        (disk.contents(), aged.files)
    })
}

/// Checks an image, and compares its files.
fn holds(image: Image, files: &Model) -> Result<(), String> {
    findings(&image)?;
    let executor = Executor::new(2);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        shows(&volume, SnapshotNumber::LIVE, files).await
    })
}

/// Waits for this many milliseconds.
async fn pass(executor: &Executor, milliseconds: u64) {
    executor.runtime().clock.sleep(Duration::from_millis(milliseconds)).await;
}

/// A volume that root has filled with small files, half of which were removed from its first half,
/// and that a user has filled again up to the reserve. Returns its files as well.
async fn full_to_the_reserve(executor: &Executor) -> (Rc<Disk>, Model) {
    let mut setting = Setting::of(4, 64, 8 << 20);
    setting.options.reserve = 20;
    let disk = made(executor, &setting).await;
    let mut volume = opened_alone(executor, &disk).await;
    let (root, mut files) = (volume.files.root(), Model::new());
    let all = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    let opened = volume.files.setattr(&volume.root, root, all, None).await.open().await;
    opened.expect("running").into_inner().result.expect("root may");
    for by_root in [true, false] {
        if !by_root {
            volume.root = Credentials { uid: 10, gid: 10, groups: Vec::new() }.into();
        }
        for number in 0.. {
            let (name, data) = (format!("{by_root}{number}"), vec![number as u8; 2 * 4096]);
            let Ok(file) = volume.create(root, &name).await else { break };
            let written = volume.write(file, 0, data.clone(), Stability::FileSync).await;
            files.insert(name, if written.is_ok() { data } else { Vec::new() });
            if written.is_err() {
                break;
            }
        }
        let half = files.len() / 2;
        for number in (0..half).step_by(2).filter(|_| by_root) {
            let name = format!("{by_root}{number}");
            volume.remove(root, &name).await.expect("it is there");
            files.remove(&name);
        }
        volume.settle().await;
    }
    volume.files.shutdown().await.expect("nothing fails");
    (disk, files)
}

/// A move frees as much as it takes: it may use the space reserved for root, and leaves it to root
/// afterwards.
#[test]
fn zones_become_empty_where_only_root_has_room() {
    let executor = Executor::new(3);
    let files = executor.block_on(async {
        let (disk, files) = full_to_the_reserve(&executor).await;
        let disk = Disk::new(&executor, disk.contents());
        let mut volume = opened(executor.runtime(), &disk).await.expect("it is well");
        volume.root = Credentials { uid: 10, gid: 10, groups: Vec::new() }.into();
        let (before, empty) = (volume.space().await, empty_zones(&volume));
        assert!(before.available_bytes < 64 << 10 && before.free_bytes > 1 << 20, "{before:?}");
        pass(&executor, 20_000).await;
        let (moved, now) = (status(&volume).compacted_bytes, volume.space().await);
        assert!(moved > 0 && empty_zones(&volume) > empty + 2, "{moved}: {empty} were empty");
        let gone = before.free_bytes.saturating_sub(now.free_bytes);
        assert!(now.available_bytes < 64 << 10 && gone < 64 << 10, "{now:?} of {before:?}");
        volume.files.shutdown().await.expect("nothing fails");
        (disk.contents(), files)
    });
    assert_eq!(holds(files.0, &files.1), Ok(()));
}

#[test]
fn zones_become_empty_and_files_stay() {
    let (image, files) = aged(64, 16 << 20, 2200, 5);
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        let file = volume.lookup(volume.files.root(), "large").await.expect("it is there");
        let (before, used) = (volume.attributes(file).await, volume.space().await);
        assert!(empty_zones(&volume) < 7, "{}", empty_zones(&volume));
        pass(&executor, 10_000).await;
        let moved = status(&volume).compacted_bytes;
        assert!(moved > 0 && empty_zones(&volume) >= 14, "{moved}: {}", empty_zones(&volume));
        assert_eq!(volume.attributes(file).await, before, "no attribute has changed");
        assert_eq!(volume.space().await.free_files, used.free_files);
        assert_eq!(shows(&volume, SnapshotNumber::LIVE, &files).await, Ok(()));
        pass(&executor, 10_000).await;
        assert_eq!(status(&volume).compacted_bytes, moved, "there is no end to it");
        volume.files.shutdown().await.expect("nothing fails");
    });
    assert_eq!(holds(disk.contents(), &files), Ok(()));
}

/// The power fails at each event of a compaction.
#[test]
fn a_cut_leaves_all_that_there_was() {
    let (image, files) = aged(64, 5 << 20, 760, 6);
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image);
    let trace = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        disk.start_trace();
        pass(&executor, 1000).await;
        assert!(status(&volume).compacted_bytes > 15 * BLOCK, "{:?}", status(&volume));
        disk.trace()
    });
    println!("{} events", trace.events().len());
    for (position, platter) in trace.cuts() {
        let image = platter.image(&Choice::random(&platter, &mut Prng::new(position as u64)));
        assert_eq!(holds(image, &files), Ok(()), "event {position}");
    }
}

/// Clients write to files that are being moved, on a slow disk.
pub(crate) fn callers_write_meanwhile() -> Result<(), String> {
    let mut moved = 0;
    for seed in 1..=3 {
        let (image, files) = aged(512, 10 << 20, 1500, seed);
        let executor = Executor::new(seed);
        let options = Options { timing: presets::SATA_7200, ..Options::default() };
        let disk = Disk::with_options(&executor, image, options);
        let files = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            let mut aged = Aged { volume: &volume, chance: Seeded::new(seed), files };
            for round in 0..250 {
                aged.overwrite_at_once("large", 4).await;
                if round % 5 == 0 {
                    // UNSTABLE data is neither lost nor written before its turn.
                    let at = aged.below(900) * BLOCK + 5;
                    aged.write("large", at, vec![round as u8; 3000], Stability::Unstable).await;
                }
                if round % 50 == 49 {
                    aged.check().await?;
                }
            }
            moved += status(&volume).compacted_bytes;
            volume.files.shutdown().await.map_err(|error| error.to_string())?;
            Ok::<_, String>(aged.files)
        })?;
        holds(disk.contents(), &files)?;
    }
    println!("{moved} bytes were moved");
    if moved > 100 * BLOCK { Ok(()) } else { Err(format!("{moved} bytes were moved")) }
}

#[test]
fn what_callers_write_meanwhile_stays() {
    assert_eq!(callers_write_meanwhile(), Ok(()));
}

/// Blocks of snapshots are not moved, and stay as they are.
pub(crate) fn snapshots_stay() -> Result<(), String> {
    let (image, files) = aged(64, 12 << 20, 400, 4);
    let executor = Executor::new(4);
    let disk = Disk::new(&executor, image);
    let (later, files) = executor.block_on(async {
        let alone = opened_alone(&executor, &disk).await;
        let mut aged = Aged { volume: &alone, chance: Seeded::new(4), files: files.clone() };
        let held = pin(&alone, "s").await?;
        aged.create("new", 1200).await;
        aged.overwrite("large", 100).await;
        aged.overwrite("new", 900).await;
        let now = aged.files;
        alone.files.shutdown().await.map_err(|error| error.to_string())?;
        let later = Disk::new(&executor, disk.contents());
        let volume = opened(executor.runtime(), &later).await?;
        pass(&executor, 5_000).await;
        let mut aged = Aged { volume: &volume, chance: Seeded::new(5), files: now };
        aged.overwrite("new", 200).await;
        pass(&executor, 1_000).await;
        let moved = status(&volume).compacted_bytes;
        shows(&volume, held.number, &files).await?;
        aged.check().await?;
        println!("{moved} bytes were moved, {} zones are empty", empty_zones(&volume));
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        let done = (later, aged.files);
        if moved == 0 { Err("nothing was moved".to_owned()) } else { Ok(done) }
    })?;
    holds(later.contents(), &files)
}

#[test]
fn what_snapshots_hold_stays_where_it_is() {
    assert_eq!(snapshots_stay(), Ok(()));
}

#[test]
fn what_has_rotted_is_left_alone() {
    let (mut image, files) = aged(64, 16 << 20, 2200, 7);
    // All blocks of data of this file, which could not be recognised after a move.
    let mut rotten = 0;
    for unit in 0..image.size() / BLOCK {
        let mut bytes = [0; 8];
        image.read(unit * BLOCK + 1000, &mut bytes);
        if bytes == files["small0"][1000..1008] && unit % 3 == 0 {
            image.write(unit * BLOCK + 1000, &[!bytes[0]]);
            rotten += 1;
        }
    }
    assert!(rotten > 10, "{rotten}");
    let told = |image: &Image| {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, image.clone());
        let found = executor.block_on(shadow::scrub(disk, &mut |_| true)).expect("it is well");
        found.expect("it comes to its end").lost
    };
    let before = told(&image);
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        pass(&executor, 10_000).await;
        assert!(status(&volume).compacted_bytes > 0, "nothing was moved");
        volume.files.shutdown().await.expect("nothing fails");
    });
    assert!(!before.is_empty() && told(&disk.contents()) == before, "{before:?}");
}

/// A stop ends a compaction at any point, and one that has failed does not continue.
#[test]
fn a_stop_does_not_wait_for_its_end() {
    let (image, files) = aged(64, 8 << 20, 1300, 8);
    let mut ended = 0;
    for milliseconds in (1..12).map(|turn| turn * 40) {
        let executor = Executor::new(milliseconds);
        let options = Options { timing: presets::SATA_7200, ..Options::default() };
        let disk = Disk::with_options(&executor, image.clone(), options);
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is well");
            pass(&executor, milliseconds).await;
            let begun = executor.runtime().clock.now();
            volume.files.shutdown().await.expect("nothing fails");
            let took = executor.runtime().clock.now().since(begun);
            assert!(took < Duration::from_millis(500), "{took:?}");
            ended += u64::from(status(&volume).compacted_bytes > 0);
        });
        assert_eq!(holds(disk.contents(), &files), Ok(()), "{milliseconds}");
    }
    assert!(ended > 3, "{ended}");
}
