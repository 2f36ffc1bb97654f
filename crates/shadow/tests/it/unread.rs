//! Snapshots with an unreadable block of metadata: blocks that the trees before and after them
//! share are held once, and a repair copies none of them.

use cow::Kind;
use enginekit::Volume;
use enginekit::snapshots::{delete, pin};
use shadow::{Law, Shadow};
use sim::Image;
use vfs::{FileSystem, ObjectId, Stability};

use crate::bench::{Setting, findings, made};
use crate::forge::versions;
use crate::judged::found;
use crate::mended::{on, shown};
use crate::repair::repaired;
use crate::scrub::{UNIT, unit_of};

/// The file with most of the space, and with a block of pointers that differs in each tree.
const BIG: u64 = 16;
/// Number of files: so many that blocks of pointers lead to inodes.
const FILES: u64 = 100;
/// The trees, with the names of their snapshots.
const TREES: [(u32, &str); 3] = [(1, "one"), (2, "two"), (3, "three")];
/// A block: its kind, owner, level and index.
type Block = (Kind, u64, u8, u64);
const INODES: Block = (Kind::INODES, 0, 0, 1);
const ABOVE_INODES: Block = (Kind::POINTERS, 0, 1, 0);
const POINTERS: Block = (Kind::POINTERS, BIG, 1, 0);

async fn write(volume: &Volume<Shadow>, file: ObjectId, blocks: u64, byte: u8) {
    let data = vec![byte; (blocks * UNIT) as usize];
    volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
}

/// A stopped volume, more than half full, with three snapshots that share nearly everything with
/// the live tree, except a block of inodes 16 to 31, and the blocks that lead to it.
fn of_four_trees() -> Image {
    let executor = sim::Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let (image, ()) = on(&disk.contents(), async |volume| {
        let root = volume.files.root();
        let big = volume.create(root, "big").await.expect("there is room");
        assert_eq!(big.ino.0, BIG);
        for number in 0..FILES {
            volume.create(root, &format!("f{number}")).await.expect("there is room");
        }
        write(volume, big, 500, 9).await;
        for (number, text) in TREES {
            write(volume, big, 1, number as u8).await;
            pin(volume, text).await?;
        }
        write(volume, big, 1, 7).await;
        Ok(())
    })
    .expect("there is room");
    assert_eq!(findings(&image), Ok(()));
    image
}

/// Flips one bit of a unit.
fn rot(image: &mut Image, unit: u64) {
    image.write(unit * UNIT + 77, &[unit_of(image, unit)[77] ^ 4]);
}

/// The units of a block in all trees, the oldest first.
fn units(image: &Image, block: Block) -> Vec<u64> {
    let is_used = |unit| {
        let mut rotten = image.clone();
        rot(&mut rotten, unit);
        findings(&rotten).is_err()
    };
    versions(image, block, is_used)
}

/// Lets these blocks of snapshots, each with its number, rot in all copies, and compares the
/// findings of a check, and the state after a repair.
fn is_rot_alone(image: &Image, rotten: &[(u32, Vec<u64>)]) -> Result<(), String> {
    let mut wrong = image.clone();
    rotten.iter().flat_map(|(_, units)| units).for_each(|&unit| rot(&mut wrong, unit));
    let has_rotten = |name: Option<&str>| {
        let of_name = TREES.iter().find(|(_, text)| Some(*text) == name);
        of_name.is_some_and(|(tree, _)| rotten.iter().any(|(number, _)| number == tree))
    };
    let told = found(&wrong)?.wrong;
    let mut blocks = 0;
    for it in &told {
        // Runs held only below the rot are in use and on lists, but have no holder.
        let is_unheld = it.ino.is_none() && matches!(it.law, Law::Map | Law::Listed);
        if it.law == Law::Once || !is_unheld && !has_rotten(it.snapshot.as_deref()) {
            return Err(format!("{} found, of them: {it}", told.len()));
        }
        blocks += usize::from(it.law == Law::Block);
    }
    if blocks != rotten.len() {
        return Err(format!("{blocks} blocks that cannot be read"));
    }
    let whole: Vec<u32> = TREES
        .map(|(tree, text)| (tree, has_rotten(Some(text))))
        .into_iter()
        .filter(|(_, is_rotten)| !is_rotten)
        .map(|(tree, _)| tree)
        .chain([0])
        .collect();
    let (_, right) = shown(image, &whole)?;
    let (_, free) = on(image, async |volume| Ok(volume.space().await.free_bytes)).expect("well");
    let (mended, _) = repaired(&wrong)?;
    let left = found(&mended)?.wrong;
    if let Some(it) = left.iter().find(|it| !has_rotten(it.snapshot.as_deref())) {
        return Err(format!("after a repair: {it}"));
    }
    let (mut mended, now) = shown(&mended, &whole)?;
    if now != right {
        return Err("something else is there after a repair".to_owned());
    }
    let (_, after) = on(&mended, async |volume| Ok(volume.space().await.free_bytes))?;
    if after + 32 * UNIT < free {
        return Err(format!("{after} bytes are free after a repair, {free} were before"));
    }
    for text in ["two", "one", "three"] {
        let delete = async |volume: &Volume<Shadow>| {
            let listed = enginekit::snapshots::listed(volume).await?;
            if listed.iter().any(|(name, _)| name == text) {
                delete(volume, text, true).await?;
            }
            Ok(())
        };
        (mended, _) = on(&mended, delete)?;
    }
    findings(&mended)?;
    let (_, now) = shown(&mended, &[0])?;
    let is_there = right.iter().filter(|((tree, _), _)| *tree == 0).eq(now.iter());
    if is_there { Ok(()) } else { Err("something else is there without snapshots".to_owned()) }
}

pub(crate) fn what_others_share_is_held_once() -> Result<(), String> {
    let image = of_four_trees();
    let of = |block: Block| {
        let units = units(&image, block);
        let copies = if block == ABOVE_INODES { 2 } else { 1 };
        assert_eq!(units.len(), 4 * copies, "each tree has its own: {block:?}");
        move |tree: u32| (tree, units[(tree as usize - 1) * copies..][..copies].to_vec())
    };
    let (inodes, above, pointers) = (of(INODES), of(ABOVE_INODES), of(POINTERS));
    for (what, rotten) in [
        ("inodes of two", vec![inodes(2)]),
        ("inodes of two and three", vec![inodes(2), inodes(3)]),
        ("what leads to inodes of two", vec![above(2)]),
        ("what leads to inodes of two and three", vec![above(2), above(3)]),
        ("inodes of two, and what leads to those of three", vec![inodes(2), above(3)]),
        ("what leads to inodes of two, and those of three", vec![above(2), inodes(3)]),
        ("pointers of two", vec![pointers(2)]),
        ("pointers of two and three", vec![pointers(2), pointers(3)]),
        ("pointers of two, and inodes of three", vec![pointers(2), inodes(3)]),
        ("inodes of two, and pointers of three", vec![inodes(2), pointers(3)]),
        ("what leads to inodes of two, and pointers of three", vec![above(2), pointers(3)]),
    ] {
        is_rot_alone(&image, &rotten).map_err(|wrong| format!("{what}: {wrong}"))?;
    }
    Ok(())
}

#[test]
fn what_others_share_with_a_snapshot_that_has_rotted_is_held_once() {
    assert_eq!(what_others_share_is_held_once(), Ok(()));
}
