//! One flipped bit in the newest superblock of a volume that was killed, or in a run that it lists:
//! no acknowledged change is lost.

use cow::format::head::birth;
use shadow::format::anchor::Anchor;
use shadow::format::superblock::{Listed, Superblock};
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, Stability};

use crate::bench::{Setting, findings, made, opened};
use crate::lost::newest;
use crate::scrub::{UNIT, unit_of};

/// A volume that was killed after it had acknowledged these changes; the last one was data, or a
/// name.
fn killed(ends_with_name: bool) -> Image {
    ended(ends_with_name, false)
}

/// The same, killed or stopped.
fn ended(ends_with_name: bool, stops: bool) -> Image {
    let executor = Executor::new(3);
    let disk = executor.block_on(made(&executor, &Setting::of(8, 64, 4 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        for number in 0..5 {
            let file = volume.create(root, &format!("f{number}")).await.expect("there is room");
            let data = vec![number; 9000];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
        }
        let last = volume.create(root, "last").await.expect("there is room");
        volume.write(last, 0, vec![9; 12_000], Stability::FileSync).await.expect("there is room");
        if ends_with_name {
            volume.create(root, "end").await.expect("there is room");
        }
        if stops {
            volume.files.shutdown().await.expect("nothing fails");
        }
    });
    disk.contents()
}

/// The newest superblock, with its unit.
fn last(image: &Image) -> (u64, Superblock) {
    let anchor: Anchor = newest(image);
    let read = |unit| Superblock::read(&unit_of(image, unit), unit, &anchor.secret);
    let all = (32..image.size() / UNIT - 2).filter_map(|unit| Some((unit, read(unit)?)));
    all.max_by_key(|(_, superblock)| superblock.number).expect("there is one")
}

/// Checks that all acknowledged changes are there.
fn has_all(image: &Image, ends_with_name: bool) -> Result<(), String> {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let root = volume.files.root();
        let file = volume.lookup(root, "last").await.map_err(|error| error.to_string())?;
        let end = volume.lookup(root, "end").await;
        if end.is_ok() != ends_with_name {
            return Err("the last name is gone".to_owned());
        }
        let data = volume.read(file).await.map_err(|error| error.to_string())?;
        if data == [9; 12_000] { Ok(()) } else { Err(format!("{} bytes", data.len())) }
    })?;
    findings(&disk.contents())
}

fn flip(image: &Image, unit: u64, byte: u64, bit: u64) -> Image {
    let mut image = image.clone();
    let before = unit_of(&image, unit)[byte as usize];
    image.write(unit * UNIT + byte, &[before ^ 1 << bit]);
    image
}

/// A bit flips in the newest superblock, anywhere.
pub(crate) fn superblocks_are_mended() -> Result<(), String> {
    let image = killed(false);
    let (at, _) = last(&image);
    for byte in (0..UNIT).step_by(61).chain(48..72) {
        let rotten = flip(&image, at, byte, byte % 8);
        has_all(&rotten, false).map_err(|error| format!("byte {byte}: {error}"))?;
    }
    Ok(())
}

/// The same in each block that it lists.
pub(crate) fn what_is_listed_is_mended() -> Result<(), String> {
    let mut count = 0;
    for ends_with_name in [false, true] {
        let image = killed(ends_with_name);
        let (_, superblock) = last(&image);
        count += superblock.listed.len();
        for unit in superblock.listed.iter().flat_map(|it| it.run.start..it.run.end()) {
            for byte in [0, 9, 77, 2000, UNIT - 1] {
                let rotten = flip(&image, unit, byte, unit % 8);
                has_all(&rotten, ends_with_name)
                    .map_err(|error| format!("unit {unit}, byte {byte}: {error}"))?;
            }
        }
    }
    if count > 2 { Ok(()) } else { Err("little is listed".to_owned()) }
}

#[test]
fn a_flipped_bit_of_the_newest_superblock_takes_nothing_back() {
    assert_eq!(superblocks_are_mended(), Ok(()));
}

#[test]
fn a_flipped_bit_of_what_it_lists_takes_nothing_back() {
    assert_eq!(what_is_listed_is_mended(), Ok(()));
}

/// One copy of a block with two rots as a whole: the other copy has its contents.
#[test]
fn a_copy_that_rots_takes_nothing_back() {
    let image = killed(true);
    let (_, superblock) = last(&image);
    let copies = [superblock.inodes.root.pointers[0].address.get(), superblock.inodes.twin];
    for copy in copies {
        let is_listed = |it: &Listed| (it.run.start..it.run.end()).contains(&copy);
        assert!(superblock.listed.iter().any(is_listed), "{copy}");
        let mut rotten = image.clone();
        rotten.write(copy * UNIT, &[0x5a; 4096]);
        assert_eq!(has_all(&rotten, true), Ok(()));
    }
}

/// A volume was stopped: one copy of its last superblock rots, and a block that the other lists. It
/// does not go back, and the block costs what it held.
pub(crate) fn what_was_stopped_is_not_doubted() -> Result<(), String> {
    let image = ended(true, true);
    let (_, superblock) = last(&image);
    let read =
        |unit: &u64| Superblock::read(&unit_of(&image, *unit), *unit, &newest(&image).secret);
    let mut other = image.clone();
    let mut listed = Vec::new();
    for unit in 32..image.size() / UNIT - 2 {
        match read(&unit).filter(|it| it.number == superblock.number) {
            Some(it) if it.listed.is_empty() => other.write(unit * UNIT, &[0x5a; 4096]),
            Some(it) => listed.extend(it.listed.iter().flat_map(|it| it.run.start..it.run.end())),
            None => {}
        }
    }
    if listed.len() < 2 {
        return Err("little is listed".to_owned());
    }
    for unit in listed {
        let mut rotten = other.clone();
        rotten.write(unit * UNIT, &[0x5a; 4096]);
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, rotten);
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            match volume.list(volume.files.root()).await {
                Ok(names) if !names.contains(&"end".to_owned()) => Err("it went back".to_owned()),
                _ => Ok(()),
            }
        })?;
    }
    Ok(())
}

#[test]
fn a_volume_that_was_stopped_does_not_go_back() {
    assert_eq!(what_was_stopped_is_not_doubted(), Ok(()));
}

/// Damage of more than one bit may be a torn write: the update before it holds.
#[test]
fn what_may_be_torn_did_not_happen() {
    let image = killed(true);
    let (at, superblock) = last(&image);
    let mut torn = image.clone();
    torn.write(at * UNIT + 512, &[0; 512]);
    assert_eq!(birth(&unit_of(&torn, at)), superblock.number);
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, torn);
    executor.block_on(async {
        opened(executor.runtime(), &disk).await.expect("the update before it holds");
    });
    assert_eq!(findings(&disk.contents()), Ok(()));
}
