//! Scrubs: rot is found, and reported with the name of its file; and beside clients nothing is
//! found on a good disk.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IsRight};
use bytes::Bytes;
use enginekit::Volume;
use enginekit::snapshots::pin;
use futures::FutureExt;
use shadow::{Law, OpenOptions, Shadow, check, open, scrub};
use sim::{Disk, Executor, Image, Latency, Options, Prng, Timing, presets};
use vfs::{Credentials, FileSystem, FsError, Stability};
use vnode::scrub::{Lost, ScrubError, Scrubbed};

use crate::bench::{Setting, findings, made, opened};
use crate::judged::found;

pub(crate) const UNIT: u64 = 4096;

fn setting() -> Setting {
    Setting::of(4, 64, 3 << 20)
}

/// A stopped volume with files of every kind: `/deep/er/small`, `/large` with blocks of pointers,
/// `/many` with more names than a block has, a long link, and removed files.
pub(crate) fn filled() -> Image {
    let executor = Executor::new(11);
    let disk = executor.block_on(made(&executor, &setting()));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        let deep = volume.mkdir(root, "deep").await.expect("there is room");
        let deeper = volume.mkdir(deep, "er").await.expect("there is room");
        let many = volume.mkdir(root, "many").await.expect("there is room");
        let sizes = [(deeper, "small", 9000), (root, "large", 200_000), (root, "gone", 50_000)];
        for (directory, name, size) in sizes {
            let file = volume.create(directory, name).await.expect("there is room");
            let data = vec![name.as_bytes()[0]; size];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
        }
        for number in 0..70 {
            let name = format!("{number:060}");
            volume.create(many, &name).await.expect("there is room");
        }
        volume.symlink(root, "link", &[b'x'; 1000]).await.expect("there is room");
        volume.remove(root, "gone").await.expect("it is there");
        volume.settle().await;
        volume.files.shutdown().await.expect("nothing fails");
    });
    disk.contents()
}

/// The result of a scrub of a volume that is not open, and the disk after it.
fn scrubbed(image: Image) -> Result<(Scrubbed, Image), String> {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image);
    let found = executor.block_on(scrub(disk.clone(), &mut |_| true));
    let found = found.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    Ok((found, disk.contents()))
}

/// Whether a check of everything finds nothing.
fn is_well(image: &Image) -> bool {
    let executor = Executor::new(1);
    let disk: Rc<dyn BlockDevice> = Disk::new(&executor, image.clone());
    let found = executor.block_on(check(disk, true, &mut |_, _| ()));
    found.is_ok_and(|found| found.wrong.is_empty())
}

pub(crate) fn unit_of(image: &Image, unit: u64) -> Vec<u8> {
    let mut bytes = vec![0; UNIT as usize];
    image.read(unit * UNIT, &mut bytes);
    bytes
}

/// The last block of `/deep/er/small`, a part of which is behind the end.
fn last_of_small(image: &Image) -> u64 {
    let is_last = |bytes: Vec<u8>| bytes[0] == b's' && bytes[4095] == 0;
    let mut units = 0..image.size() / UNIT;
    units.find(|&unit| is_last(unit_of(image, unit))).expect("it has data")
}

/// The owners of a unit in use, as far as its bytes show: paths that may be named for it.
fn owners(bytes: &[u8]) -> Vec<&'static str> {
    if !bytes.starts_with(b"DuSh") {
        return match bytes[0] {
            b's' => vec!["/deep/er/small"],
            b'l' => vec!["/large"],
            _ => vec!["/link"],
        };
    }
    match (bytes[6], bytes[8]) {
        (6, 2) => vec!["/"],
        (6, 16) => vec!["/deep"],
        (6, 17) => vec!["/deep/er"],
        (6, 18) => vec!["/many"],
        (4, 20) => vec!["/large"],
        (4, 18) => vec!["/many"],
        _ => Vec::new(), // of several files, or of none
    }
}

/// Whether a block is on the path to the root directory, and so has two copies.
pub(crate) fn stands_twice(bytes: &[u8]) -> bool {
    bytes.starts_with(b"DuSh")
        && matches!(bytes[6], 4 | 5)
        && bytes[8] == 0
        && bytes[24..32] == [0; 8]
}

fn paths(found: &Scrubbed) -> BTreeSet<Option<&str>> {
    found.lost.iter().map(|lost| lost.path.as_deref()).collect()
}

/// Every unit of the disk rots, one after the other.
fn rot_is_named() -> Result<(), String> {
    let image = filled();
    let (well, after) = scrubbed(image.clone())?;
    if !well.lost.is_empty() || well.mended > 0 || after != image {
        return Err(format!("nothing is wrong, and it found {well:?}"));
    }
    let (mut lost, mut mended) = (BTreeSet::new(), 0);
    for unit in 0..image.size() / UNIT {
        let bytes = unit_of(&image, unit);
        let mut rotten = image.clone();
        let byte = 70 + unit as usize % 4000;
        rotten.write(unit * UNIT + byte as u64, &[bytes[byte] ^ 1 << (unit % 8)]);
        let (found, after) = scrubbed(rotten.clone()).map_err(|it| format!("unit {unit}: {it}"))?;
        let wrong = |what: &str| Err(format!("unit {unit} {what}: {found:?}"));
        if found.done_bytes != well.done_bytes && found.lost.is_empty() {
            return wrong("hides something");
        }
        if is_well(&rotten) {
            mended += found.mended;
            // A block with two copies lists runs that are durable, or does not.
            let again = scrubbed(after.clone())?.0;
            if !found.lost.is_empty() || again.mended > 0 || !is_well(&after) {
                return wrong("is no one's, or stands twice");
            }
            continue;
        }
        if found.lost.is_empty() && stands_twice(&bytes) {
            mended += found.mended;
            if found.mended == 1 && is_well(&after) {
                continue;
            }
        }
        let owners = owners(&bytes);
        let named = paths(&found);
        if found.lost.is_empty() {
            return wrong("is not told");
        }
        if !owners.is_empty() && named != owners.iter().map(|&path| Some(path)).collect() {
            return wrong("is told as another's");
        }
        let is_inodes = bytes.starts_with(b"DuSh") && bytes[6] == 5 && bytes[24] > 0;
        if is_inodes && named.len() < 2 {
            return wrong("has the inodes of several files");
        }
        lost.insert(if bytes.starts_with(b"DuSh") { bytes[6] } else { 0 });
    }
    // Data, records, pointers, inodes, names, the map and the log; anchors and superblocks.
    if lost != BTreeSet::from([0, 3, 4, 5, 6, 7, 13]) || mended != 8 {
        return Err(format!("kinds {lost:?} were lost, and {mended} mended"));
    }
    Ok(())
}

#[test]
fn what_rots_is_named_and_what_stands_twice_is_mended() {
    assert_eq!(rot_is_named(), Ok(()));
}

#[test]
fn offsets_are_those_of_the_file() {
    let image = filled();
    let found_for = |unit: u64| {
        let mut rotten = image.clone();
        rotten.write(unit * UNIT + 9, &[0]);
        scrubbed(rotten).expect("it can be scrubbed").0.lost
    };
    let units = 0..image.size() / UNIT;
    let of_large = units.filter(|&unit| unit_of(&image, unit).iter().all(|&byte| byte == b'l'));
    let mut offsets = BTreeSet::new();
    for unit in of_large {
        for Lost { path, snapshot, offset } in found_for(unit) {
            assert_eq!((path.as_deref(), snapshot), (Some("/large"), None));
            offsets.insert(offset);
        }
    }
    let expected: BTreeSet<u64> = (0..200_000 / UNIT).map(|block| block * UNIT).collect();
    assert_eq!(offsets, expected);
}

#[test]
fn what_rots_behind_the_end_of_a_file_is_told_once() {
    let image = filled();
    let mut rotten = image.clone();
    rotten.write((last_of_small(&image) + 1) * UNIT - 1, &[1]);
    let found = found(&rotten).expect("it can be checked");
    let laws: Vec<Law> = found.wrong.iter().map(|wrong| wrong.law).collect();
    assert_eq!(laws, [Law::Data]);
}

/// Clients change files at random.
async fn churn(volume: &Volume<Shadow>, seed: u64, is_done: &dyn Fn() -> bool) {
    let mut prng = Prng::new(seed);
    let root = volume.files.root();
    let home = volume.mkdir(root, &format!("d{seed}")).await.expect("there is room");
    while !is_done() {
        let name = format!("f{}", prng.index(8));
        match prng.index(6) {
            0 => _ = volume.remove(home, &name).await,
            1 => _ = volume.symlink(home, &name, b"/short").await,
            2 => {
                if let Ok(file) = volume.lookup(home, &name).await {
                    let _ = volume.resize(file, prng.index(60_000) as u64).await;
                }
            }
            _ => {
                let file = match volume.create(home, &name).await {
                    Ok(file) => Ok(file),
                    Err(_) => volume.lookup(home, &name).await,
                };
                let Ok(file) = file else { continue };
                let data = vec![seed as u8; 1 + prng.index(40_000)];
                let how = if prng.chance(1, 2) { Stability::FileSync } else { Stability::Unstable };
                let _ = volume.write(file, prng.index(90_000) as u64, data, how).await;
            }
        }
    }
}

/// Runs scrubs one after the other beside clients, on a good disk.
pub(crate) fn nothing_is_found_beside_callers() -> Result<(), String> {
    for seed in 1..=7 {
        let executor = Executor::new(seed);
        let setting = Setting::of(4 << (seed % 3), 128, 3 << 20);
        let disk = executor.block_on(made(&executor, &setting));
        let done_bytes = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            let is_done = std::cell::Cell::new(false);
            let scrubs = async {
                let mut done_bytes = 0;
                for _ in 0..30 {
                    executor.runtime().clock.sleep(Duration::from_millis(30)).await;
                    let engine = volume.files.store().engine();
                    let found = engine.scrub(&mut |_| true).await;
                    let found = found.map_err(|error| error.to_string())?;
                    if !found.lost.is_empty() || found.mended > 0 {
                        return Err(format!(
                            "seed {seed}: it is well, and this was told: {found:?}"
                        ));
                    }
                    done_bytes += found.done_bytes;
                }
                Ok(done_bytes)
            };
            let scrubs = scrubs.inspect(|_| is_done.set(true));
            let is_over = || is_done.get();
            let churning = futures::future::join3(
                churn(&volume, 10 * seed, &is_over),
                churn(&volume, 10 * seed + 1, &is_over),
                churn(&volume, 10 * seed + 2, &is_over),
            );
            let (done_bytes, _) = futures::join!(scrubs, churning);
            volume.files.shutdown().await.map_err(|error| error.to_string())?;
            done_bytes
        })?;
        if done_bytes < 4 << 20 {
            return Err(format!("{done_bytes} bytes were looked at"));
        }
        findings(&disk.contents())?;
    }
    Ok(())
}

#[test]
fn beside_callers_nothing_is_found_on_a_disk_that_is_well() {
    assert_eq!(nothing_is_found_beside_callers(), Ok(()));
}

#[test]
fn what_rots_while_it_is_served_is_named() {
    let executor = Executor::new(3);
    let image = filled();
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        disk.rot(last_of_small(&image) * UNIT + 5, 2);
        let engine = volume.files.store().engine();
        let found = engine.scrub(&mut |_| true).await.expect("it comes to its end");
        let path = Some("/deep/er/small".to_owned());
        assert_eq!(found.lost, [Lost { path, snapshot: None, offset: 8192 }]);
        assert_eq!(found.done_bytes, found.total_bytes);
        let root = volume.files.root();
        let file = volume.create(root, "new").await.expect("it goes on");
        volume.write(file, 0, vec![1; 9], Stability::FileSync).await.expect("it goes on");
    });
}

/// The names that are reported of a file that has lost its last block, and has `links` more links.
fn names_told_of(links: usize) -> Vec<String> {
    let executor = Executor::new(3);
    let image = filled();
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        let root = volume.files.root();
        let deep = volume.lookup(root, "deep").await.expect("it is there");
        let deeper = volume.lookup(deep, "er").await.expect("it is there");
        let file = volume.lookup(deeper, "small").await.expect("it is there");
        for number in 0..links {
            let directory = if number % 2 == 0 { deep } else { root };
            volume.link(file, directory, &format!("link {number}")).await.expect("there is room");
        }
        disk.rot(last_of_small(&image) * UNIT + 5, 2);
        let engine = volume.files.store().engine();
        let found = engine.scrub(&mut |_| true).await.expect("it comes to its end");
        assert!(found.lost.iter().all(|lost| lost.offset == 8192), "{found:?}");
        found.lost.into_iter().map(|lost| lost.path.expect("it has names")).collect()
    })
}

#[test]
fn all_names_of_a_file_are_told_up_to_sixteen() {
    let mut told = names_told_of(3);
    told.sort();
    assert_eq!(told, ["/deep/er/small", "/deep/link 0", "/deep/link 2", "/link 1"]);
    assert_eq!([names_told_of(15).len(), names_told_of(16).len()], [16, 16]);
}

#[test]
fn it_ends_when_it_is_told_to_or_the_volume_stops_and_one_goes_at_a_time() {
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, filled());
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        let engine = volume.files.store().engine();
        assert_eq!(engine.scrub(&mut |_| false).await, Err(ScrubError::Ended));
        let (mut all, mut none) = (|_: &Scrubbed| true, |_: &Scrubbed| true);
        let (first, second) = futures::join!(engine.scrub(&mut all), engine.scrub(&mut none));
        assert_eq!((first.is_ok(), second), (true, Err(ScrubError::Busy)));
        let (mut all, stop) = (|_: &Scrubbed| true, volume.files.shutdown());
        let (cut, stopped) = futures::join!(engine.scrub(&mut all), stop);
        assert_eq!((cut, stopped.is_ok()), (Err(ScrubError::Ended), true));
    });
    assert_eq!(findings(&disk.contents()), Ok(()));
}

/// A small volume, on which a scrub begins at any moment of an update on its way.
pub(crate) fn what_is_being_written_is_not_judged() -> Result<(), String> {
    let executor = Executor::new(5);
    let new = executor.block_on(made(&executor, &setting())).contents();
    // Its writes take longer than its reads.
    let slow = Latency { write_ns: (100_000, 900_000), ..Latency::default() };
    let options = Options { timing: Timing::Random(slow), ..Options::default() };
    let disk = Disk::with_options(&executor, new, options);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let (clock, engine) = (executor.runtime().clock, volume.files.store().engine());
        let file = volume.create(volume.files.root(), "f").await;
        let file = file.map_err(|error| error.to_string())?;
        let mut prng = Prng::new(5);
        for round in 0..300_u64 {
            let pause = Duration::from_micros(prng.index(600) as u64);
            let written = async {
                for turn in 0..4 {
                    let data = vec![(4 * round + turn) as u8; 4096];
                    volume.write(file, 0, data, Stability::FileSync).await?;
                }
                Ok::<_, FsError>(())
            };
            let scrubbed = async {
                clock.sleep(pause).await;
                engine.scrub(&mut |_| true).await
            };
            let (written, found) = futures::join!(written, scrubbed);
            written.map_err(|error| error.to_string())?;
            let found = found.map_err(|error| error.to_string())?;
            if !found.lost.is_empty() {
                return Err(format!("round {round}, after {pause:?}: {found:?}"));
            }
        }
        Ok(())
    })
}

/// The search for names goes through all directories.
#[test]
fn it_ends_while_it_looks_for_names() {
    let mut image = filled();
    let is_of_large = |unit: &u64| owners(&unit_of(&image, *unit)) == ["/large"];
    let of_large = (0..image.size() / UNIT).find(is_of_large).expect("it has some");
    image.write(of_large * UNIT + 9, b"rot");
    let (whole, _) = scrubbed(image.clone()).expect("it is opened");
    assert_eq!(paths(&whole), BTreeSet::from([Some("/large")]));
    let (executor, mut calls, mut last) = (Executor::new(1), 0, Vec::new());
    let ended = executor.block_on(scrub(Disk::new(&executor, image), &mut |scrubbed| {
        calls += u64::from(scrubbed.done_bytes == whole.done_bytes);
        last.clone_from(&scrubbed.lost);
        calls < 4
    }));
    assert_eq!(ended.expect("it is opened").map(drop), Err(ScrubError::Ended));
    let lost = Lost { path: None, snapshot: None, offset: of_large * UNIT };
    assert_eq!(last, [lost], "it is told all the same");
}

#[test]
fn an_update_on_its_way_is_not_judged() {
    assert_eq!(what_is_being_written_is_not_judged(), Ok(()));
}

/// Two copies of everything: reads return the first.
struct Twins(Rc<Disk>, Rc<Disk>);

impl BlockDevice for Twins {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let first = self.0.write(offset, data.clone(), durability);
        let second = self.1.write(offset, data, durability);
        async move { first.await.and(second.await) }.boxed_local()
    }

    fn flush(&self) -> Io<()> {
        let (first, second) = (self.0.flush(), self.1.flush());
        async move { first.await.and(second.await) }.boxed_local()
    }

    fn discard(&self, _: u64, _: u64) -> Io<()> {
        async { Ok(()) }.boxed_local()
    }

    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        let (first, second) = (self.0.clone(), self.1.clone());
        async move {
            let other = second.read(offset, Buffer::unfilled(length as usize)).await?;
            if !is_right(&other) {
                return Ok(None);
            }
            let data = vec![Buffer::copied(&other).freeze()];
            first.write(offset, data, Durability::Plain).await?;
            Ok(Some(other))
        }
        .boxed_local()
    }

    fn close(&self) -> Io<()> {
        async { Ok(()) }.boxed_local()
    }
}

/// Every unit rots on the first disk: reads are right, and so is the disk afterwards. A block that
/// rots on both is an error, and is not taken from the other.
pub(crate) fn the_other_copy_mends() -> Result<(), String> {
    let image = filled();
    let content = |name: &str, size: usize| vec![name.as_bytes()[0]; size];
    let units = 32..image.size() / UNIT - 2;
    let (mut mended, mut refused) = (0, 0);
    for unit in units {
        let mut rotten = image.clone();
        let bytes = unit_of(&image, unit);
        let is_slot = bytes.starts_with(b"DuSh") && bytes[6] == 2;
        if is_well_with(&image, unit, &mut rotten) || is_slot {
            continue; // it belongs to no file, or has two copies
        }
        for is_lost in [false, true] {
            let executor = Executor::new(unit);
            let other = if is_lost { spoilt(&rotten, unit) } else { image.clone() };
            let disks = [rotten.clone(), other].map(|image| Disk::new(&executor, image));
            let twins = Rc::new(Twins(disks[0].clone(), disks[1].clone()));
            let read = executor.block_on(async {
                let files = open(twins, executor.runtime(), &OpenOptions::default()).await;
                let volume = Volume::new(files.map_err(|error| error.to_string())?);
                let all = read_all(&volume).await.map_err(|error| error.to_string())?;
                volume.files.shutdown().await.map_err(|error| error.to_string())?;
                Ok::<_, String>(all)
            });
            let right = [content("small", 9000), content("large", 200_000)];
            match read {
                Ok(all) if all != right => return Err(format!("unit {unit} is read as it is")),
                Ok(_) if !is_lost => {
                    mended += 1;
                    findings(&disks[0].contents()).map_err(|it| format!("unit {unit}: {it}"))?;
                }
                Err(error) if !is_lost => return Err(format!("unit {unit}: {error}")),
                // The books are rebuilt, and a check reports them.
                Ok(_) if is_of_books(&bytes) || stands_twice(&bytes) => refused += 1,
                Ok(_) => return Err(format!("unit {unit} is lost, and no one tells")),
                Err(_) => refused += 1,
            }
        }
    }
    if mended > 60 && refused > 50 { Ok(()) } else { Err(format!("{mended}, {refused}")) }
}

/// Whether a block belongs to the map, its log, the records, the replies or the lines of lists, or
/// leads to one that does.
fn is_of_books(bytes: &[u8]) -> bool {
    let is_above = bytes[6] == 4 && matches!(bytes[8], 1 | 3 | 5 | 7);
    bytes.starts_with(b"DuSh") && (matches!(bytes[6], 3 | 7 | 8 | 11 | 13) || is_above)
}

/// Lets a unit rot, and returns whether that is harmless.
fn is_well_with(image: &Image, unit: u64, rotten: &mut Image) -> bool {
    let byte = unit_of(image, unit)[77];
    rotten.write(unit * UNIT + 77, &[byte ^ 4]);
    is_well(rotten)
}

/// The same with another byte of the unit, too.
fn spoilt(image: &Image, unit: u64) -> Image {
    let mut spoilt = image.clone();
    spoilt.write(unit * UNIT + 79, &[unit_of(image, unit)[79] ^ 1]);
    spoilt
}

/// The contents of the files, whose names have to be there.
pub(crate) async fn read_all(volume: &Volume<Shadow>) -> Result<[Vec<u8>; 2], FsError> {
    let root = volume.files.root();
    let deep = volume.lookup(root, "deep").await?;
    let deeper = volume.lookup(deep, "er").await?;
    let small = volume.lookup(deeper, "small").await?;
    let large = volume.lookup(root, "large").await?;
    let many = volume.lookup(root, "many").await?;
    for number in 0..70 {
        let file = volume.lookup(many, &format!("{number:060}")).await?;
        volume.read(file).await?;
    }
    let link = volume.lookup(root, "link").await?;
    let target = volume.files.readlink(&Credentials::root(), link).await;
    target.open().await.map_err(|_| FsError::Io)?.into_inner().result?;
    Ok([volume.read(small).await?, volume.read(large).await?])
}

/// Inodes, names and pointers that are all in memory, and perhaps held by a snapshot, rot on the
/// disk. Returns the findings of a scrub, and the image of a cut after it.
fn scrubbed_in_memory(with_snapshot: bool) -> Result<(Scrubbed, Image), String> {
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, filled());
    let found = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        if with_snapshot {
            pin(&volume, "early").await.map_err(|error| error.to_string())?;
        }
        let before = read_all(&volume).await.map_err(|error| error.to_string())?;
        volume.settle().await;
        let image = disk.contents();
        for unit in 0..image.size() / UNIT {
            let bytes = unit_of(&image, unit);
            if bytes.starts_with(b"DuSh") && (4..=6).contains(&bytes[6]) {
                disk.rot(unit * UNIT + 70, 2);
            }
        }
        let engine = volume.files.store().engine();
        let found = engine.scrub(&mut |_| true).await.map_err(|error| error.to_string())?;
        let after = read_all(&volume).await.map_err(|error| error.to_string())?;
        if after == before { Ok(found) } else { Err("files are others".to_owned()) }
    })?;
    Ok((found, disk.crash(&mut Prng::new(1))))
}

pub(crate) fn memory_mends() -> Result<(), String> {
    let (found, image) = scrubbed_in_memory(false)?;
    if !found.lost.is_empty() || found.mended < 10 {
        return Err(format!("all of it is in memory, and {found:?}"));
    }
    findings(&image)?;
    let (found, image) = scrubbed_in_memory(true)?;
    let of_snapshot = |lost: &Lost| lost.snapshot.as_deref() == Some("early");
    if found.lost.is_empty() || !found.lost.iter().all(of_snapshot) || found.mended < 10 {
        return Err(format!("a snapshot has lost it alone, and {found:?}"));
    }
    let executor = Executor::new(4);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        read_all(&volume).await.map(drop).map_err(|error| error.to_string())
    })
}

#[test]
fn what_is_in_memory_is_written_again() {
    assert_eq!(memory_mends(), Ok(()));
}

#[test]
fn what_rots_on_one_disk_is_read_of_the_other_and_mended() {
    assert_eq!(the_other_copy_mends(), Ok(()));
}

#[test]
fn a_disk_with_an_arm_is_read_at_its_speed() {
    const FILES: usize = 40;
    let executor = Executor::new(6);
    let setting = Setting::of(8, 16 << 10, 256 << 20);
    let new = executor.block_on(made(&executor, &setting)).contents();
    let options = Options { timing: presets::SATA_7200, ..Options::default() };
    let disk = Disk::with_options(&executor, new, options);
    executor.block_on(async {
        let clock = executor.runtime().clock;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        for number in 0..FILES {
            let made = volume.create(volume.files.root(), &format!("f{number}")).await;
            let file = made.expect("there is room");
            let data = vec![number as u8 + 1; 2 << 20];
            volume.write(file, 0, data, Stability::Unstable).await.expect("there is room");
            volume.commit(file).await.expect("there is room");
        }
        // Some have been removed.
        for number in (0..FILES).step_by(5) {
            volume.remove(volume.files.root(), &format!("f{number}")).await.expect("it is there");
        }
        volume.settle().await;
        clock.sleep(Duration::from_secs(10)).await; // the last update has its successor
        let engine = volume.files.store().engine();
        let begun = clock.now();
        let found = engine.scrub(&mut |_| true).await.expect("it comes to its end");
        let scrubbed = clock.now().since(begun);
        let begun = clock.now();
        for at in (0..found.done_bytes >> 20).map(|piece| piece << 20) {
            let read = disk.read((8 << 20) + at, Buffer::unfilled(1 << 20)).await;
            read.expect("nothing fails");
        }
        let share = clock.now().since(begun).as_secs_f64() / scrubbed.as_secs_f64();
        println!("{} bytes, {share:.2} of sequential", found.done_bytes);
        assert!(share >= 0.5, "a scrub takes {scrubbed:?}, {share:.2} of what reads do");
    });
}

/// The losses that a scrub reports of a file with a rotten block, if a snapshot is made after a
/// pause, and the file is overwritten then; and the time that it took.
fn told_beside_a_snapshot(pause: Duration) -> (Vec<Lost>, Duration) {
    let executor = Executor::new(3);
    let image = filled();
    let options = Options { timing: Timing::Random(Latency::default()), ..Options::default() };
    let disk = Disk::with_options(&executor, image.clone(), options);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        let of_large = |unit: &u64| unit_of(&image, *unit) == [b'l'; UNIT as usize];
        let rotten = (0..image.size() / UNIT).find(of_large).expect("it has data");
        disk.rot(rotten * UNIT + 5, 2);
        let clock = executor.runtime().clock;
        let file = volume.lookup(volume.files.root(), "large").await.expect("it is there");
        let goes = async {
            clock.sleep(pause).await;
            pin(&volume, "late").await.expect("there is room");
            let data = vec![b'n'; 200_000];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
        };
        let begun = clock.now();
        let engine = volume.files.store().engine();
        let mut all = |_: &Scrubbed| true;
        let scrubbed = async {
            let found = engine.scrub(&mut all).await.expect("it comes to its end");
            (found.lost, clock.now().since(begun))
        };
        futures::join!(scrubbed, goes).0
    })
}

#[test]
fn what_a_snapshot_takes_over_meanwhile_is_told() {
    let (_, whole) = told_beside_a_snapshot(Duration::from_secs(100));
    let mut with_snapshot = BTreeSet::new();
    for part in 0..=40 {
        let (told, _) = told_beside_a_snapshot(whole * part / 40);
        let [Lost { path, snapshot, .. }] = &told[..] else {
            panic!("{part} of 40 parts of {whole:?}: {told:?}");
        };
        assert_eq!(path.as_deref(), Some("/large"));
        with_snapshot.insert(snapshot.clone());
    }
    assert_eq!(with_snapshot, BTreeSet::from([None, Some("late".to_owned())]));
}
