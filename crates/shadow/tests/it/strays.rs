//! Data pointers to units that something else holds, with checksums that match: a repair leaves the
//! units to their owner, and loses no block of an intact tree.

use std::collections::BTreeMap;

use cow::{Kind, sum};
use enginekit::Volume;
use shadow::format::kind;
use shadow::{Law, Shadow, repair};
use sim::{Choice, Disk, Executor, Image, Prng, Trace};
use vfs::{FileSystem, Stability};

use crate::bench::{Setting, findings, made, opened};
use crate::forge::forge;
use crate::judged::{found, units};
use crate::mended::on;
use crate::repair::repaired;
use crate::scrub::{UNIT, unit_of};

/// Number of adjacent files, the first of their numbers, and the directory.
const FILES: u64 = 40;
pub(crate) const FIRST: u64 = 17;
pub(crate) const D: u64 = 16;
/// A file with blocks of pointers.
pub(crate) const LARGE: u64 = FIRST + FILES;

pub(crate) fn name(number: u64) -> String {
    if number == LARGE { "large".to_owned() } else { format!("f{number}") }
}

/// A stopped volume with `/d`, which has many files of three blocks, and a large one.
pub(crate) fn of_files(block_kib: u64) -> Image {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(block_kib, 64, 8 << 20)));
    let (image, ()) = on(&disk.contents(), async |volume| {
        let d = volume.mkdir(volume.files.root(), "d").await.expect("there is room");
        assert_eq!(d.ino.0, D);
        for number in FIRST..=LARGE {
            let file = volume.create(d, &name(number)).await.expect("there is room");
            assert_eq!(file.ino.0, number);
            let blocks = if number == LARGE { 20 } else { 3 };
            let data = vec![number as u8; ((blocks * block_kib) << 10) as usize];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
        }
        Ok(())
    })
    .expect("there is room");
    assert_eq!(findings(&image), Ok(()));
    image
}

/// Points block 1 of a file to this unit, as if that were its data.
fn astray(image: &Image, file: u64, to: u64, block_kib: u64) -> Image {
    let units = block_kib / 4;
    let data: Vec<u8> = (to..to + units).flat_map(|unit| unit_of(image, unit)).collect();
    let home = units_of_home(image, file);
    let mut image = image.clone();
    forge(&mut image, home, |block| {
        let at = 64 + (file % 16) as usize * 252 + 88 + 24;
        block[at..at + 8].copy_from_slice(&to.to_le_bytes());
        block[at + 16..at + 24].copy_from_slice(&sum(&data).to_le_bytes());
    });
    image
}

pub(crate) fn units_of_home(image: &Image, file: u64) -> u64 {
    *units(image, Kind::INODES, 0, file / 16).last().expect("it is there")
}

/// The contents of all files but this one.
pub(crate) async fn read_all(
    volume: &Volume<Shadow>,
    but: u64,
) -> Result<BTreeMap<u64, Vec<u8>>, String> {
    read_but(volume, &[but]).await
}

async fn read_but(volume: &Volume<Shadow>, but: &[u64]) -> Result<BTreeMap<u64, Vec<u8>>, String> {
    let root = volume.files.root();
    let d = volume.lookup(root, "d").await.map_err(|error| error.to_string())?;
    let mut all = BTreeMap::new();
    for number in (FIRST..=LARGE).filter(|number| !but.contains(number)) {
        let told = |error| format!("{}: {error}", name(number));
        let file = volume.lookup(d, &name(number)).await.map_err(told)?;
        all.insert(number, volume.read(file).await.map_err(told)?);
    }
    Ok(all)
}

/// A repair of a stray pointer, and the calls of a client afterwards: `copied` is the content of
/// that block of the file, and everything else is as it was.
fn is_parted(right: &Image, wrong: &Image, file: u64, copied: &[u8]) -> Result<(), String> {
    let told = found(wrong)?.wrong;
    let path = format!("/d/{}", name(file));
    let is_told = |it: &shadow::Wrong| it.law == Law::Once && it.path.as_ref() == Some(&path);
    if !told.iter().any(is_told) || told.iter().any(|it| it.law == Law::Block) {
        return Err(format!("{told:?}"));
    }
    let (mended, _) = repaired(wrong)?;
    findings(&mended)?;
    let (_, mut all) = on(right, async |volume| read_all(volume, 0).await)?;
    let length = copied.len();
    all.get_mut(&file).expect("it is there")[length..2 * length].copy_from_slice(copied);
    let (mended, ()) = on(&mended, async |volume| {
        if read_all(volume, 0).await? != all {
            return Err("something else is there".to_owned());
        }
        let d = volume.lookup(volume.files.root(), "d").await.expect("it is there");
        let id = volume.lookup(d, &name(file)).await.expect("it is there");
        let data = vec![9; 3 * length];
        let written = volume.write(id, 0, data.clone(), Stability::FileSync).await;
        written.map_err(|error| error.to_string())?;
        all.insert(file, data);
        volume.settle().await;
        for number in 0..20 {
            let new = volume.create(d, &format!("new{number}")).await.expect("there is room");
            let data = vec![8; length];
            volume.write(new, 0, data, Stability::FileSync).await.expect("there is room");
        }
        Ok(())
    })?;
    findings(&mended)?;
    let (_, now) = on(&mended, async |volume| read_all(volume, 0).await)?;
    if now == all { Ok(()) } else { Err("what another has is lost".to_owned()) }
}

/// The blocks of metadata of a consistent volume, with their kinds.
fn metadata(image: &Image) -> Vec<(&'static str, u64)> {
    let in_use = |unit: u64| {
        let mut rotten = image.clone();
        rotten.write(unit * UNIT + 77, &[unit_of(image, unit)[77] ^ 4]);
        findings(&rotten).is_err()
    };
    let newest = |kind: Kind, owner: u64, level: u8| {
        let is_it = |unit: &u64| {
            let bytes = unit_of(image, *unit);
            let is_kind = bytes.starts_with(b"DuSh") && bytes[6] == kind.byte();
            is_kind && (bytes[8], bytes[16]) == (owner as u8, level) && in_use(*unit)
        };
        (32..image.size() / UNIT - 2).rfind(is_it).expect("it has some")
    };
    vec![
        ("the root's inodes", units_of_home(image, 2)),
        ("inodes", units_of_home(image, 33)),
        ("names", newest(Kind::NAMES, D, 0)),
        ("pointers", newest(Kind::POINTERS, LARGE, 1)),
        ("the space log", newest(kind::LOG, 7, 0)),
        ("a record", newest(kind::RECORD, 0, 0)),
    ]
}

#[test]
fn a_block_of_metadata_stays_whose_it_is() {
    for block_kib in [4, 16] {
        let image = of_files(block_kib);
        let zeros = vec![0; (block_kib as usize) << 10];
        for (what, unit) in metadata(&image) {
            // One file that is checked before, and one that is checked after.
            for file in [FIRST, FIRST + FILES - 1] {
                let to = unit / (block_kib / 4) * (block_kib / 4);
                let wrong = astray(&image, file, to, block_kib);
                let parted = is_parted(&image, &wrong, file, &zeros);
                assert_eq!(parted, Ok(()), "{what}, file {file}, blocks of {block_kib} KiB");
            }
        }
    }
}

/// The unit of a file's first block.
fn first_block(image: &Image, file: u64) -> u64 {
    let home = unit_of(image, units_of_home(image, file));
    let at = 64 + (file % 16) as usize * 252 + 88;
    u64::from_le_bytes(home[at..at + 8].try_into().expect("8 bytes"))
}

#[test]
fn a_block_of_data_that_two_have_is_copied() {
    for block_kib in [4, 16] {
        let image = of_files(block_kib);
        let block = |file: u64| first_block(&image, file);
        for (file, other) in [(FIRST, FIRST + 30), (FIRST + 30, FIRST), (FIRST + 8, FIRST + 8)] {
            let wrong = astray(&image, file, block(other), block_kib);
            // One of the two has a copy, and nothing shows whose the block was.
            let told = found(&wrong).expect("it can be looked at").wrong;
            assert!(told.iter().any(|it| it.law == Law::Once), "{told:?}");
            let (mended, _) = repaired(&wrong).expect("there is room");
            assert_eq!(findings(&mended), Ok(()));
            let (_, mut all) = on(&image, async |volume| read_all(volume, 0).await).expect("well");
            let length = (block_kib as usize) << 10;
            all.get_mut(&file).expect("it is there")[length..2 * length].fill(other as u8);
            let (mended, ()) = on(&mended, async |volume| {
                assert!(read_all(volume, 0).await? == all, "file {file}, block of {other}");
                let d = volume.lookup(volume.files.root(), "d").await.expect("it is there");
                volume.remove(d, &name(file)).await.map_err(|error| error.to_string())?;
                volume.settle().await;
                let new = volume.create(d, &name(file)).await.expect("there is room");
                let data = vec![7; 9 * length];
                volume.write(new, 0, data, Stability::FileSync).await.expect("there is room");
                let left = read_all(volume, 0).await?;
                let is_left = |&(number, data): &(&u64, &Vec<u8>)| {
                    *number == file || all.get(number) == Some(data)
                };
                assert!(left.iter().all(|it| is_left(&it)), "file {file}, block of {other}");
                Ok(())
            })
            .expect("it opens");
            assert_eq!(findings(&mended), Ok(()));
        }
    }
}

/// Trace of the removal of a large file from a full volume with a stray pointer.
fn a_removal(wrong: &Image) -> Trace {
    let executor = Executor::new(6);
    let disk = Disk::new(&executor, wrong.clone());
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it opens");
        let root = volume.files.root();
        let filler = volume.create(root, "filler").await.expect("there is room");
        for block in 0.. {
            let data = vec![3; 4096];
            if volume.write(filler, block * 4096, data, Stability::FileSync).await.is_err() {
                break;
            }
        }
        volume.settle().await;
        disk.start_trace();
        let d = volume.lookup(root, "d").await.expect("it is there");
        volume.remove(d, &name(LARGE)).await.expect("it is there");
        disk.trace()
    })
}

/// A server is killed when its newest superblock is only in the disk's cache. A repair needs
/// copies; the power fails in the middle of it, and the blocks of the superblock before are intact.
pub(crate) fn copies_spare_what_may_come_back() -> Result<(), String> {
    let image = of_files(4);
    // So many need copies that some go to places that were in use before.
    let strays = FIRST..FIRST + 25;
    let but: Vec<u64> = strays.clone().chain([LARGE]).collect();
    let (_, right) = on(&image, async |volume| read_but(volume, &but).await)?;
    let to = first_block(&image, FIRST + 30);
    let wrong = strays.fold(image, |image, file| astray(&image, file, to, 4));
    let trace = a_removal(&wrong);
    let (mut there, mut gone) = (0, 0);
    for position in 0..=trace.events().len() {
        let executor = Executor::new(2);
        let disk = Disk::resumed(&executor, trace.platter_at(position).killed());
        disk.start_trace();
        executor.block_on(repair(disk.clone(), executor.runtime())).map_err(|it| it.to_string())?;
        let repairs = disk.trace();
        for cut in 0..=repairs.events().len() {
            let platter = repairs.platter_at(cut);
            let told = |wrong: String| format!("event {position}, cut {cut}: {wrong}");
            let random = Choice::random(&platter, &mut Prng::new(9));
            for left in [platter.durable_image(), platter.image(&random)] {
                let (mended, _) = repaired(&left).map_err(told)?;
                let look = async |volume: &Volume<Shadow>| {
                    let d = volume.lookup(volume.files.root(), "d").await.expect("it is there");
                    let large = match volume.lookup(d, &name(LARGE)).await {
                        Ok(large) => Some(volume.read(large).await),
                        Err(_) => None,
                    };
                    Ok((read_but(volume, &but).await?, large))
                };
                let (_, (all, large)) = on(&mended, look).map_err(told)?;
                if all.iter().any(|(number, data)| right.get(number) != Some(data)) {
                    return Err(told("what another has is lost".to_owned()));
                }
                match large {
                    None => gone += 1,
                    Some(Ok(data)) if data == vec![LARGE as u8; 20 * 4096] => there += 1,
                    Some(large) => {
                        return Err(told(format!("{:?}", large.map(|data| data.len()))));
                    }
                }
            }
        }
    }
    if there > 5 && gone > 5 { Ok(()) } else { Err(format!("there {there}, gone {gone}")) }
}

#[test]
fn a_repair_that_copies_may_be_cut_off_after_a_server_that_was_killed() {
    assert_eq!(copies_spare_what_may_come_back(), Ok(()));
}
