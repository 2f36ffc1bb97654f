//! The path up from a directory: a rename follows it to see whether a directory would move below
//! itself, at any depth; and on a damaged disk the search ends.

use std::rc::Rc;

use directory::entry::CHUNK_SIZE;
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::common::cutting::sizes;
use crate::common::edit::{change_inode, geometry_of, inode_at};
use crate::common::volume::{Volume, fresh, reopen};
use crate::common::{MemoryDisk, World};

const SIZE: u64 = 16 << 20;
const BLOCK: u64 = 4096;
const DEEPEST: usize = 7;
/// Offset of the inode number in '..' in the first chunk.
const DOT_DOT: u64 = 12;

/// A line of directories, each in the one before, the first in the root.
async fn line(volume: &Volume) -> Vec<ObjectId> {
    let mut line = Vec::new();
    let mut parent = volume.files.root();
    for level in 0..=DEEPEST {
        parent = volume.mkdir(parent, &format!("d{level}")).await.expect("new");
        line.push(parent);
    }
    line
}

/// Results of moving the first directory of a line below each of the others.
fn moves_below_itself() -> Vec<Result<(), FsError>> {
    let world = World::new(1);
    world.run(async {
        let (_, volume) = fresh(&world, SIZE, &sizes(BLOCK, 512)).await;
        let root = volume.files.root();
        let mut results = Vec::new();
        for level in 0..=DEEPEST {
            let name = format!("line-{level}");
            let top = volume.mkdir(root, &name).await.expect("new");
            let mut lowest = top;
            for below in 0..level {
                lowest = volume.mkdir(lowest, &format!("d{below}")).await.expect("new");
            }
            results.push(volume.rename((root, &name), (lowest, "itself")).await);
        }
        results
    })
}

#[test]
fn a_directory_does_not_move_below_itself_however_deep() {
    assert_eq!(moves_below_itself(), vec![Err(FsError::Invalid); DEEPEST + 1]);
}

#[test]
fn a_directory_moves_up_and_aside_from_every_depth() {
    let world = World::new(1);
    world.run(async {
        let (_, volume) = fresh(&world, SIZE, &sizes(BLOCK, 512)).await;
        let root = volume.files.root();
        let line = line(&volume).await;
        let aside = volume.mkdir(line[DEEPEST], "aside").await.expect("new");
        for level in (1..DEEPEST).rev() {
            let (from, name) = (line[level - 1], format!("d{level}"));
            volume.rename((from, &name), (root, &name)).await.expect("it is up there");
            assert_eq!(volume.lookup(line[level], "..").await, Ok(root));
        }
        volume.rename((root, "d0"), (aside, "d0")).await.expect("it is not below itself");
        assert_eq!(volume.lookup(line[0], "..").await, Ok(aside));
    });
}

/// A line of directories on a disk that was stopped, on which '..' of the first names `parent`.
async fn with_parent(
    world: &World,
    parent: impl FnOnce(&[ObjectId], ObjectId) -> u32,
) -> (Rc<MemoryDisk>, Vec<ObjectId>) {
    let (disk, volume) = fresh(world, SIZE, &sizes(BLOCK, 512)).await;
    let root = volume.files.root();
    let line = line(&volume).await;
    volume.mkdir(root, "other").await.expect("new");
    let file = volume.create(root, "file").await.expect("new");
    volume.write(file, 0, vec![7; 512], Stability::FileSync).await.expect("room");
    volume.files.shutdown().await.expect("it stops");
    let geometry = geometry_of(&disk);
    let chunk = inode_at(&disk, &geometry, line[0].ino.0).direct[0].get() as u64;
    let byte = geometry.byte_address(chunk) + DOT_DOT;
    disk.put(byte, &parent(&line, file).to_le_bytes());
    (disk, line)
}

/// Moves another directory into each of a line whose '..' lead in a circle.
fn moves_below_a_circle() -> Vec<Result<(), FsError>> {
    let world = World::new(1);
    world.run(async {
        let circle = |line: &[ObjectId], _| line[3].ino.0 as u32;
        let (disk, line) = with_parent(&world, circle).await;
        let volume = reopen(&world, &disk).await;
        let root = volume.files.root();
        let mut results = Vec::new();
        for &directory in &line {
            results.push(volume.rename((root, "other"), (directory, "moved")).await);
        }
        volume.create(line[1], "new").await.expect("the rest is served");
        volume.rename((root, "other"), (root, "renamed")).await.expect("it stays in the root");
        volume.files.shutdown().await.expect("it stops");
        results
    })
}

#[test]
fn a_circle_of_parents_is_corrupt_for_whoever_climbs_it() {
    assert_eq!(moves_below_a_circle(), vec![Err(FsError::Corrupt); DEEPEST + 1]);
}

/// Results of a climb and a lookup when '..' names this number.
fn with_wrong_parent(parent: impl FnOnce(&[ObjectId], ObjectId) -> u32) -> [Option<FsError>; 2] {
    let world = World::new(1);
    world.run(async {
        let (disk, line) = with_parent(&world, parent).await;
        let volume = reopen(&world, &disk).await;
        let moved = volume.rename((volume.files.root(), "other"), (line[2], "moved")).await;
        let looked = volume.lookup(line[0], "..").await;
        [moved.err(), looked.err()]
    })
}

#[test]
fn a_parent_that_is_no_directory_is_corrupt() {
    const BOTH: [Option<FsError>; 2] = [Some(FsError::Corrupt); 2];
    assert_eq!(with_wrong_parent(|_, file| file.ino.0 as u32), BOTH, "a file");
    assert_eq!(with_wrong_parent(|_, file| file.ino.0 as u32 + 1), BOTH, "a free inode");
    assert_eq!(with_wrong_parent(|_, _| u32::MAX), BOTH, "no inode");
    assert_eq!(with_wrong_parent(|_, _| 0), BOTH, "none");
    assert_eq!(with_wrong_parent(|_, _| 1), BOTH, "a whiteout");
}

/// Results for a directory whose pointer blocks name the same empty chunks again and again, so that
/// it seems to have half a gigabyte of them.
fn with_endless_chunks(size: u64) -> [Option<FsError>; 3] {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, SIZE, &sizes(BLOCK, 512)).await;
        let root = volume.files.root();
        let long = volume.mkdir(root, "long").await.expect("new");
        let file = volume.create(root, "file").await.expect("new");
        volume
            .write(file, 0, vec![7; 4 * BLOCK as usize], Stability::FileSync)
            .await
            .expect("room");
        volume.files.shutdown().await.expect("it stops");
        let geometry = geometry_of(&disk);
        let pointers = inode_at(&disk, &geometry, file.ino.0).direct;
        let [top, middle, leaf, first] = [0, 1, 2, 3].map(|index| pointers[index].get() as u64);
        let fill = |block: u64, piece: &[u8]| {
            let bytes = piece.repeat(BLOCK as usize / piece.len());
            disk.put(geometry.byte_address(block), &bytes);
        };
        let mut empty = [0; CHUNK_SIZE];
        empty[4..6].copy_from_slice(&(CHUNK_SIZE as u16).to_le_bytes());
        fill(leaf, &empty);
        fill(first, &empty);
        let mut dots = [0; 24];
        for (at, ino, length, name) in [(0, long, 12, "."), (12, root, 500_u16, "..")] {
            dots[at..at + 4].copy_from_slice(&(ino.ino.0 as u32).to_le_bytes());
            dots[at + 4..at + 6].copy_from_slice(&length.to_le_bytes());
            dots[at + 6..at + 8].copy_from_slice(&[4, name.len() as u8]);
            dots[at + 8..at + 8 + name.len()].copy_from_slice(name.as_bytes());
        }
        disk.put(geometry.byte_address(first), &dots);
        fill(middle, &leaf.to_le_bytes());
        fill(top, &middle.to_le_bytes());
        change_inode(&disk, &geometry, file.ino.0, |dinode| {
            dinode.size.set(0);
            dinode.direct.fill(0.into());
        });
        change_inode(&disk, &geometry, long.ino.0, |dinode| {
            dinode.direct.fill((leaf as i64).into());
            dinode.direct[0].set(first as i64);
            dinode.indirect[0].set(middle as i64);
            dinode.indirect[1].set(top as i64);
            dinode.size.set(size);
        });
        let volume = reopen(&world, &disk).await;
        let listed = volume.list(long).await.err();
        let looked = volume.lookup(long, "name").await.err().filter(|&e| e != FsError::NoEntry);
        let made = volume.create(long, "new").await.err();
        volume.files.shutdown().await.expect("it stops");
        [listed, looked, made]
    })
}

#[test]
fn a_directory_that_is_longer_than_its_volume_is_corrupt() {
    assert_eq!(with_endless_chunks(512 << 20), [Some(FsError::Corrupt); 3]);
}

#[test]
fn a_directory_that_has_one_block_many_times_is_corrupt_where_all_its_names_are_wanted() {
    let [_, looked, made] = with_endless_chunks(8 << 20);
    assert_eq!([looked, made], [Some(FsError::Corrupt); 2]);
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use namespace::planted::{Bug, plant};

    use super::*;

    #[test]
    fn a_look_at_two_levels_alone_is_found() {
        plant(Some(Bug::ShortSighted));
        let results = moves_below_itself();
        plant(None);
        assert_eq!(results[0], Err(FsError::Invalid));
        assert_eq!(results[DEEPEST], Ok(()), "nobody looks so far");
    }

    #[test]
    fn a_climb_without_an_end_is_found() {
        plant(Some(Bug::EndlessClimb));
        let outcome = std::panic::catch_unwind(moves_below_a_circle);
        plant(None);
        let wrong = outcome.expect_err("it climbs for ever");
        let text = wrong.downcast_ref::<&str>().expect("an assertion with a text");
        assert!(text.contains("the climb has no end"), "{text}");
    }

    #[test]
    fn a_parent_of_any_kind_is_found() {
        plant(Some(Bug::AnyParent));
        let results = with_wrong_parent(|_, file| file.ino.0 as u32);
        plant(None);
        assert_eq!(results[1], None, "a file is told as a parent");
    }

    #[test]
    fn directories_without_a_bound_are_found() {
        vnode::planted::plant(Some(vnode::planted::Bug::BoundlessDirectories));
        let results = with_endless_chunks(512 << 20);
        vnode::planted::plant(None);
        assert_eq!(results[0], None, "it is listed to its end");
    }
}
