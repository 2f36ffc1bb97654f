//! Volumes that share a log, over many boots: some of them are absent, power fails in the middle of
//! anything, and each keeps everything that was acknowledged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Verb};
use ffs::logged::{Sharer, open_sharing, saved_under};
use ffs::policy::log::LogOptions;
use ffs::{OpenError, OpenOptions, Opened};
use futures::future::join_all;
use namespace::Namespace;
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Persistence, Prng};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, FsStat, Requester, Stability};

use super::Seeded;
use super::cutting::{judge, sizes};
use super::volume::Volume;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const VOLUMES: usize = 3;
const BOOTS: u64 = 12;
/// Size of a disk for a saved log.
const SPARE: u64 = journal::format::SMALLEST + journal::format::SEGMENT;
/// Large enough to have an indirect block.
const LARGE: usize = 150 << 10;
/// Large enough that its removal is a chain.
const LARGEST: usize = 4 << 20;

/// Known state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It has this many bytes of this value.
    There(usize, u8),
    Gone,
    /// Power failed while it was being changed.
    Unknown,
}

type Model = RefCell<BTreeMap<String, Known>>;

/// Everything that survives a boot.
#[derive(Clone)]
pub(crate) struct Estate {
    pub(crate) volumes: Vec<Image>,
    log: Image,
    /// Saved parts of the log, by volume.
    saved: BTreeMap<u64, Image>,
    models: Vec<Model>,
}

/// The disks of one boot.
pub(crate) struct Disks {
    pub(crate) volumes: Vec<Rc<Disk>>,
    pub(crate) log: Rc<Disk>,
    saved: Rc<RefCell<BTreeMap<u64, Rc<Disk>>>>,
    /// Disks without a saved log.
    pub(crate) spare: Rc<RefCell<Vec<Rc<Disk>>>>,
}

impl Estate {
    pub(crate) fn new() -> Self {
        let executor = Executor::new(1);
        let volumes = (0..VOLUMES as u64).map(|number| {
            let disk = Disk::new(&executor, Image::zeroed(8 << 20));
            let random = Seeded::new(7 + number);
            let made = executor.block_on(mkfs(&*disk, &sizes(8192, 1024), &random, NOW));
            made.expect("the disk holds it");
            disk.contents()
        });
        Self {
            volumes: volumes.collect(),
            log: Image::zeroed(journal::format::SMALLEST),
            saved: BTreeMap::new(),
            models: vec![Model::default(); VOLUMES],
        }
    }

    pub(crate) fn disks(&self, executor: &Executor) -> Disks {
        let disk = |image: &Image| Disk::new(executor, image.clone());
        let saved = self.saved.iter().map(|(&epoch, image)| (epoch, disk(image)));
        Disks {
            volumes: self.volumes.iter().map(disk).collect(),
            log: disk(&self.log),
            saved: Rc::new(RefCell::new(saved.collect())),
            spare: Rc::new(RefCell::new(
                (0..VOLUMES).map(|_| disk(&Image::zeroed(SPARE))).collect(),
            )),
        }
    }

    /// Cuts the power.
    pub(crate) fn cut(&mut self, executor: &Executor, disks: &Disks, prng: &mut Prng) {
        executor.crash();
        self.volumes = disks.volumes.iter().map(|disk| disk.crash(prng)).collect();
        self.log = disks.log.crash(prng);
        let saved = disks.saved.borrow();
        self.saved = saved.iter().map(|(&epoch, disk)| (epoch, disk.crash(prng))).collect();
    }
}

/// Opens the volumes of a boot.
pub(crate) async fn open(
    executor: &Executor,
    disks: &Disks,
    present: &[usize],
) -> Result<Vec<Result<Opened, OpenError>>, OpenError> {
    let (mut sharers, mut used) = (Vec::new(), Vec::new());
    for &number in present {
        let device: Rc<dyn BlockDevice> = disks.volumes[number].clone();
        let names = saved_under(&*device).await?;
        let saved = names.iter().find_map(|name| disks.saved.borrow().get(name).cloned());
        used.push(names);
        sharers.push(Sharer { device, saved: saved.map(|saved| saved as Rc<dyn BlockDevice>) });
    }
    let runtime = executor.runtime();
    let (saved, spare) = (disks.saved.clone(), disks.spare.clone());
    let save = move |name: u64, size: u64| {
        // As if there had always been a disk for it.
        let disk = spare.borrow_mut().pop().ok_or(io::ErrorKind::StorageFull)?;
        assert!(size <= SPARE);
        saved.borrow_mut().insert(name, disk.clone());
        Ok(disk as Rc<dyn BlockDevice>)
    };
    let log = LogOptions {
        sync_interval: Duration::from_millis(20),
        sync_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let options = OpenOptions { log, ..OpenOptions::default() };
    let (log, save) = (disks.log.clone(), Rc::new(save));
    let opened = open_sharing(sharers, log, save, &runtime, &options, &mut |_| ()).await?;
    let back = used.iter().zip(&opened).filter(|(_, opened)| opened.is_ok());
    for name in back.flat_map(|(names, _)| names) {
        disks.saved.borrow_mut().remove(name); // it is not needed any more
    }
    Ok(opened)
}

/// Makes, extends, truncates or removes a file, at random.
async fn change(volume: &Volume, model: &Model, name: &str, prng: &RefCell<Prng>) {
    let root = volume.files.root();
    let before = model.borrow().get(name).copied().unwrap_or(Known::Gone);
    let length = if prng.borrow_mut().chance(1, 4) { LARGE } else { 700 };
    let byte = prng.borrow_mut().next_u64() as u8 | 1;
    let goes = prng.borrow_mut().chance(1, 2);
    model.borrow_mut().insert(name.to_owned(), Known::Unknown);
    let known = match before {
        Known::Unknown => panic!("one task a file"),
        Known::There(..) if goes => {
            volume.remove(root, name).await.expect("it is there");
            Known::Gone
        }
        Known::There(..) => {
            let file = volume.lookup(root, name).await.expect("it is there");
            volume.resize(file, 0).await.expect("it is a file");
            Known::There(0, 0)
        }
        Known::Gone => {
            let file = volume.create(root, name).await.expect("there is room");
            let data = vec![byte; length];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
            Known::There(length, byte)
        }
    };
    model.borrow_mut().insert(name.to_owned(), known);
}

/// Checks that the files agree with the acknowledged state; an unknown state is known from now on.
async fn look(volume: &Volume, model: &Model) -> Result<(), String> {
    let root = volume.files.root();
    let told = model.borrow().clone();
    for (name, known) in told {
        let found = match volume.lookup(root, &name).await {
            Ok(file) => Some(volume.read(file).await.map_err(|error| format!("{name}: {error}"))?),
            Err(_) => None,
        };
        let is_so = match (&found, known) {
            (None, Known::Gone) | (_, Known::Unknown) => true,
            (Some(data), Known::There(length, byte)) => *data == vec![byte; length],
            _ => false,
        };
        if !is_so {
            let found = found.map(|data| data.len());
            return Err(format!("{name}: {found:?} bytes are there, and {known:?} was told"));
        }
        let first = |data: &Vec<u8>| data.first().copied().unwrap_or(0);
        let known = found.map_or(Known::Gone, |data| Known::There(data.len(), first(&data)));
        model.borrow_mut().insert(name, known);
    }
    Ok(())
}

/// One boot of these volumes: they are opened, checked, used for a while, and stopped if power does
/// not fail before.
async fn boot(
    executor: &Executor,
    disks: &Disks,
    present: &[usize],
    models: &[Model],
    stops: bool,
) -> Result<(), String> {
    let opened = all(executor, disks, present).await?;
    let prng = RefCell::new(Prng::new(executor.runtime().random.next_u64()));
    let mut volumes = Vec::new();
    for (&number, volume) in present.iter().zip(opened) {
        look(&volume, &models[number])
            .await
            .map_err(|wrong| format!("volume {number}: {wrong}"))?;
        volumes.push((volume, &models[number]));
    }
    let prng = &prng;
    let work = volumes.iter().flat_map(|(volume, model)| {
        (0..3).map(move |task| async move {
            let steps = if stops { 6 } else { u64::MAX };
            for step in 0..steps {
                change(volume, model, &format!("file-{task}-{}", step % 5), prng).await;
            }
        })
    });
    join_all(work).await;
    for (volume, _) in &volumes {
        volume.files.shutdown().await.map_err(|error| format!("stop: {error}"))?;
    }
    Ok(())
}

/// A life of volumes with one log.
///
/// # Errors
/// The first state that differs from the acknowledged one.
pub(crate) fn life(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let mut estate = Estate::new();
    for number in 0..BOOTS {
        let last = number + 1 == BOOTS;
        let mut present: Vec<usize> = (0..VOLUMES).collect();
        present.retain(|_| last || prng.chance(2, 3));
        let stops = last || prng.chance(1, 4);
        let executor = Executor::new(seed << 8 | number);
        let disks = estate.disks(&executor);
        let models = std::mem::take(&mut estate.models);
        let run = boot(&executor, &disks, &present, &models, stops);
        // The shortest times cut a boot while it opens.
        let short = |prng: &mut Prng| Duration::from_micros(prng.between(100, 100_000));
        let time = if last { Duration::from_secs(3600) } else { short(&mut prng) };
        let ended = executor.block_on_for(time, run);
        let told = format!("seed {seed}, boot {number} of {present:?}");
        match ended {
            Some(Err(wrong)) => return Err(format!("{told}: {wrong}")),
            None if last => return Err(format!("{told}: it does not end")),
            _ => {}
        }
        estate.models = models;
        if last {
            for &volume in &present {
                judge(&disks.volumes[volume], "shared-log")
                    .map_err(|wrong| format!("{told}: volume {volume}: {wrong}"))?;
            }
        }
        estate.cut(&executor, &disks, &mut prng);
    }
    Ok(())
}

/// A large file is removed from one of the volumes, power fails, and fails again while they are
/// opened: at any moment of that the space to be freed is known.
///
/// # Errors
/// The space that was not freed.
pub(crate) fn large_file_that_goes(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let present: Vec<usize> = (0..VOLUMES).collect();
    let (estate, before, time) = with_a_chain(seed, &mut prng)?;
    for _ in 0..60 {
        let mut cut_again = estate.clone();
        let executor = Executor::new(seed);
        let disks = cut_again.disks(&executor);
        let until = Duration::from_nanos(prng.between(1, time));
        executor.block_on_for(until, all(&executor, &disks, &present));
        cut_again.cut(&executor, &disks, &mut prng);
        let executor = Executor::new(seed);
        let disks = cut_again.disks(&executor);
        let after = executor.block_on(async {
            let volumes = all(&executor, &disks, &present).await?;
            volumes[1].settle().await;
            Ok::<_, String>(volumes[1].space().await)
        })?;
        if (after.free_bytes, after.free_files) != (before.free_bytes, before.free_files) {
            return Err(format!("seed {seed}, cut after {until:?}: {after:?} is not {before:?}"));
        }
    }
    Ok(())
}

/// Volumes that crashed while a large file of the second one was being freed; the free space
/// before, on that one; and the time that it takes to open all of them.
pub(crate) fn with_a_chain(seed: u64, prng: &mut Prng) -> Result<(Estate, FsStat, u64), String> {
    let present: Vec<usize> = (0..VOLUMES).collect();
    loop {
        let (estate, before) = cut_after_removal(prng)?;
        let executor = Executor::new(seed);
        let disks = estate.disks(&executor);
        let opened = executor.block_on(open(&executor, &disks, &present));
        let opened = opened.map_err(|error| error.to_string())?.swap_remove(1);
        let replayed = opened.map_err(|error| error.to_string())?.replayed.expect("it was cut");
        if replayed.chains > 0 {
            return Ok((estate, before, executor.now().0));
        }
    }
}

/// Cuts the power when the removal of a large file has been answered; also returns the free space
/// before.
fn cut_after_removal(prng: &mut Prng) -> Result<(Estate, FsStat), String> {
    let mut estate = Estate::new();
    let executor = Executor::new(prng.next_u64());
    let disks = estate.disks(&executor);
    let before = executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1, 2]).await?;
        let (volume, root) = (&volumes[1], volumes[1].files.root());
        let before = volume.space().await;
        let id = volume.create(root, "file").await.expect("new");
        volume.write(id, 0, vec![1; LARGEST], Stability::FileSync).await.expect("there is room");
        volume.remove(root, "file").await.expect("it is there");
        Ok::<_, String>(before)
    })?;
    estate.cut(&executor, &disks, prng);
    Ok((estate, before))
}

/// Opens volumes, none of which is refused.
pub(crate) async fn all(
    executor: &Executor,
    disks: &Disks,
    present: &[usize],
) -> Result<Vec<Volume>, String> {
    let opened = open(executor, disks, present).await.map_err(|error| error.to_string())?;
    let volumes = opened.into_iter().map(|opened| {
        let engine = opened.map_err(|error| error.to_string())?.files;
        Ok(Volume { files: Namespace::new(engine), root: Requester::root() })
    });
    volumes.collect()
}

/// The disk of one volume fails, and the other writes on for several rounds of the log; then both
/// come back.
///
/// # Errors
/// The first state that differs from the acknowledged one.
pub(crate) fn one_that_stops(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let mut estate = Estate::new();
    let executor = Executor::new(seed);
    let disks = estate.disks(&executor);
    let rounds = executor.block_on_for(Duration::from_secs(600), async {
        let volumes = all(&executor, &disks, &[0, 1]).await?;
        let made = (0..5).map(|number| make(&volumes[1], number));
        join_all(made).await;
        disks.volumes[1].fail(Verb::Flush, 1, Persistence::Forever);
        let log = || volumes[0].files.store().engine().log_statistics().expect("it has one");
        for number in 0.. {
            make(&volumes[0], number).await;
            volumes[0]
                .remove(volumes[0].files.root(), &format!("file-{number}"))
                .await
                .expect("there");
            if log().writes.bytes > 4 * log().capacity {
                break;
            }
        }
        make(&volumes[0], 0).await;
        Ok(())
    });
    rounds.unwrap_or_else(|| Err("the one that stopped holds up the other".to_owned()))?;
    assert_eq!(disks.saved.borrow().len(), 1, "that of the other has been saved");
    estate.cut(&executor, &disks, &mut prng);
    let executor = Executor::new(seed);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1]).await?;
        for (volume, count) in volumes.iter().zip([1, 5]) {
            for number in 0..count {
                let found = volume.lookup(volume.files.root(), &format!("file-{number}")).await;
                let data = volume.read(found.map_err(|error| error.to_string())?).await;
                assert_eq!(data.map_err(|error| error.to_string())?, [7; 700]);
            }
        }
        Ok(())
    })
}

/// Several tasks write to each volume at once, more than the payload limit of an entry. Returns the
/// numbers of entries and writes of the log.
pub(crate) fn large_writes(seed: u64) -> (u64, u64) {
    const WRITERS: u32 = 4;
    const ROUNDS: u32 = 10;
    let executor = Executor::new(seed);
    let disks = Estate::new().disks(&executor);
    executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1, 2]).await.expect("none is refused");
        let written = || {
            let log = volumes[0].files.store().engine().log_statistics().expect("there is one");
            (log.writes.entries, log.writes.batches)
        };
        let before = written();
        let writers = volumes.iter().flat_map(|volume| (0..WRITERS).map(move |one| (volume, one)));
        let writing = writers.map(async |(volume, one)| {
            let file = volume.create(volume.files.root(), &format!("file-{one}")).await;
            let file = file.expect("new");
            for round in 0..ROUNDS {
                let data = vec![round as u8; 32 << 10];
                volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
            }
        });
        join_all(writing).await;
        let after = written();
        (after.0 - before.0, after.1 - before.1)
    })
}

pub(crate) async fn make(volume: &Volume, number: u32) {
    let file = volume.create(volume.files.root(), &format!("file-{number}")).await.expect("new");
    volume.write(file, 0, vec![7; 700], Stability::FileSync).await.expect("there is room");
}

/// Two volumes and the log that they share, at a power failure; and their contents after recovery.
pub(crate) fn golden() -> (Vec<Image>, String) {
    let executor = Executor::new(1);
    let estate = Estate::new();
    let mut disks = estate.disks(&executor);
    disks.volumes.truncate(2);
    executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1]).await.expect("they are new");
        for (volume, count) in volumes.iter().zip([2, 3]) {
            join_all((0..count).map(|number| make(volume, number))).await;
        }
    });
    let images = disks.volumes.iter().chain([&disks.log]);
    let images: Vec<Image> = images.map(|disk| disk.platter().durable_image()).collect();
    let told = replayed(&images);
    (images, told)
}

/// Contents of volumes after recovery with their log, a line for each name.
pub(crate) fn replayed(images: &[Image]) -> String {
    let (log, volumes) = images.split_last().expect("there are some");
    let (volumes, models) = (volumes.to_vec(), Vec::new());
    let estate = Estate { volumes, log: log.clone(), saved: BTreeMap::new(), models };
    let executor = Executor::new(2);
    let disks = estate.disks(&executor);
    let present: Vec<usize> = (0..disks.volumes.len()).collect();
    executor.block_on(async {
        let mut text = String::new();
        let opened = open(&executor, &disks, &present).await.expect("it is a log");
        for (number, opened) in opened.into_iter().enumerate() {
            let opened = opened.unwrap_or_else(|error| panic!("volume {number}: {error}"));
            let entries = opened.replayed.expect("it was cut").entries;
            let volume = Volume { files: Namespace::new(opened.files), root: Requester::root() };
            let root = volume.files.root();
            let mut names = volume.list(root).await.expect("it can be listed");
            names.retain(|name| name != "." && name != "..");
            names.sort();
            for name in names {
                let file = volume.lookup(root, &name).await.expect("it was listed");
                let length = volume.read(file).await.expect("it can be read").len();
                text += &format!("volume {number}, {entries} entries: {name} {length}\n");
            }
            volume.files.shutdown().await.expect("a clean stop");
        }
        text
    })
}
