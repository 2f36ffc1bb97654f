//! Damaged disks that still open: damage is refused when it is met, file by file, and the rest is
//! served.

use std::rc::Rc;

use ufs2::derive::bits;
use ufs2::mkfs::MkfsOptions;
use vfs::{FileSystem, FsError, Stability};

use crate::common::edit::{change_group, change_inode, geometry_of, inode_at};
use crate::common::volume::{fresh, reopen, try_open};
use crate::common::{MemoryDisk, World};

const SIZE: u64 = 16 << 20;

fn options() -> MkfsOptions {
    MkfsOptions { block_size: 8192, fragment_size: 1024, ..MkfsOptions::default() }
}

/// Marks an inode as free in the map.
fn free_in_map(disk: &MemoryDisk, ino: u64) {
    let geometry = geometry_of(disk);
    change_group(disk, &geometry, geometry.group_of_inode(ino), |block| {
        bits::clear(geometry.maps.inodes_in_mut(block), ino % geometry.inodes_per_group);
    });
}

/// The same for a fragment.
fn free_fragment_in_map(disk: &MemoryDisk, fragment: u64) {
    let geometry = geometry_of(disk);
    let group = geometry.group_of_fragment(fragment);
    change_group(disk, &geometry, group, |block| {
        let bit = fragment - geometry.group_base(group);
        bits::set(geometry.maps.fragments_in_mut(block), bit);
    });
}

#[test]
fn one_of_two_files_that_share_a_block_is_refused() {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, SIZE, &options()).await;
        let root = volume.files.root();
        let (one, two) = (volume.create(root, "one").await, volume.create(root, "two").await);
        let (one, two) = (one.expect("room"), two.expect("room"));
        for id in [one, two] {
            volume.write(id, 0, vec![7; 40_000], Stability::FileSync).await.expect("room");
        }
        volume.files.shutdown().await.expect("the disk works");
        let geometry = geometry_of(&disk);
        let shared = inode_at(&disk, &geometry, one.ino.0).direct;
        change_inode(&disk, &geometry, two.ino.0, |dinode| dinode.direct = shared);

        let volume = reopen(&world, &disk).await;
        let (first, second) = futures::join!(volume.resize(one, 0), volume.resize(two, 0));
        let results = [first, second];
        assert!(results.contains(&Ok(())), "{results:?}");
        assert!(results.contains(&Err(FsError::Corrupt)), "{results:?}");
        let other = volume.create(root, "other").await.expect("the rest is served");
        volume.write(other, 0, vec![8; 9000], Stability::FileSync).await.expect("room");
    });
}

#[test]
fn a_file_that_points_twice_at_a_block_cannot_be_cut() {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, SIZE, &options()).await;
        let root = volume.files.root();
        let file = volume.create(root, "file").await.expect("room");
        volume.write(file, 0, vec![7; 40_000], Stability::FileSync).await.expect("room");
        volume.files.shutdown().await.expect("the disk works");
        change_inode(&disk, &geometry_of(&disk), file.ino.0, |dinode| {
            dinode.direct[2] = dinode.direct[1];
        });

        let volume = reopen(&world, &disk).await;
        assert_eq!(volume.resize(file, 0).await, Err(FsError::Corrupt));
        assert_eq!(volume.read(file).await.map(|data| data.len()), Ok(40_000));
        volume.resize(file, 30_000).await.expect("nothing is wrong behind there");
    });
}

#[test]
fn a_file_that_the_map_says_is_free_is_not_made_another() {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, SIZE, &options()).await;
        let root = volume.files.root();
        let file = volume.create(root, "file").await.expect("room");
        volume.write(file, 0, vec![7; 40_000], Stability::FileSync).await.expect("room");
        volume.files.shutdown().await.expect("the disk works");
        free_in_map(&disk, file.ino.0);

        for look_first in [false, true] {
            let volume = reopen(&world, &disk).await;
            if look_first {
                assert_eq!(volume.lookup(root, "file").await, Ok(file));
            }
            for name in ["a", "b", "c"] {
                let made = volume.create(root, name).await.expect("others are free");
                assert_ne!(made.ino, file.ino);
                volume.remove(root, name).await.expect("it was made");
            }
            assert_eq!(volume.read(file).await, Ok(vec![7; 40_000]));
            volume.files.shutdown().await.expect("the disk works");
        }
    });
}

#[test]
fn a_directory_that_the_map_says_is_free_is_not_built_over() {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, 4 << 20, &options()).await;
        let root = volume.files.root();
        volume.create(root, "file").await.expect("room");
        volume.files.shutdown().await.expect("the disk works");
        let address = inode_at(&disk, &geometry_of(&disk), root.ino.0).direct[0].get();
        free_fragment_in_map(&disk, address as u64);

        let volume = reopen(&world, &disk).await;
        volume.lookup(root, "file").await.expect("it is there");
        for name in ["a", "b", "c", "d"] {
            volume.mkdir(root, name).await.expect("there is other room");
        }
        assert_eq!(volume.list(root).await.map(|names| names.len()), Ok(7));
    });
}

#[test]
fn a_disk_that_ends_before_its_file_system_is_refused_with_both_sizes() {
    let world = World::new(8);
    let (whole, volume) = world.run(fresh(&world, SIZE, &options()));
    world.run(volume.files.shutdown()).expect("it stops");
    let short = Rc::new(MemoryDisk::new(SIZE / 2));
    short.put(0, &whole.bytes(0, (SIZE / 2) as usize));
    let opened = world.run(try_open(world.runtime(), short));
    let Err(error) = opened else { panic!("half a disk opened") };
    let text = error.to_string();
    assert!(text.contains("16777216") && text.contains("8388608"), "{text}");
}
