//! Reads a disk that a FreeBSD 14 kernel wrote, structure by structure.

use runtime::Random;
use ufs2::derive::{self, BadGroup, bits};
use ufs2::layout::{
    BadSuperblock, ByteOrder, Dinode, GROUP_MAGIC, Geometry, GroupHeader, INODE_SIZE,
    RECOVERY_RECORD_ADDRESS, ROOT_INODE, RecoveryRecord, SUPERBLOCK_ADDRESS, SUPERBLOCK_MAGIC,
    SUPERBLOCK_ROOM, Summary, Superblock, mode_of,
};
use vfs::FileKind;
use zerocopy::{FromBytes, IntoBytes};

use crate::common::edit::{group_byte, inode_byte};
use crate::common::{Seeded, freebsd_disk};

struct Disk {
    bytes: Vec<u8>,
    geometry: Geometry,
}

impl Disk {
    fn open() -> Option<Self> {
        let bytes = freebsd_disk("little")?;
        let geometry = Geometry::parse(superblock(&bytes, SUPERBLOCK_ADDRESS)).expect("it is good");
        Some(Self { bytes, geometry })
    }

    fn at(&self, fragment: u64) -> &[u8] {
        &self.bytes[self.geometry.byte_address(fragment) as usize..]
    }

    fn group(&self, group: u64) -> &[u8] {
        self.at(self.geometry.group_header_fragment(group))
    }

    fn inode(&self, ino: u64) -> &Dinode {
        let position = self.geometry.inode_position(ino);
        Dinode::at(self.at(position.fragment), position.offset)
    }

    /// All inodes in use.
    fn inodes(&self) -> impl Iterator<Item = (u64, &Dinode)> {
        let per_group = self.geometry.inodes_per_group;
        (0..self.geometry.group_count)
            .flat_map(move |group| {
                let initialized = GroupHeader::of(self.group(group)).initialized_inodes.get();
                (0..u64::from(initialized)).map(move |index| group * per_group + index)
            })
            .map(|ino| (ino, self.inode(ino)))
            .filter(|(_, inode)| !inode.is_free())
    }
}

fn superblock(bytes: &[u8], address: u64) -> &Superblock {
    Superblock::ref_from_prefix(&bytes[address as usize..]).expect("it fits the disk").0
}

#[test]
fn the_superblock_parses_and_fits_its_hash() {
    let Some(disk) = Disk::open() else { return };
    let geometry = &disk.geometry;
    assert_eq!((geometry.block_size, geometry.fragment_size), (32_768, 4_096));
    assert_eq!(geometry.byte_address(geometry.size), disk.bytes.len() as u64);
    assert!(geometry.superblock_hashes && geometry.group_hashes && geometry.inode_hashes);
    assert_eq!(geometry.verify_superblock(&disk.bytes[SUPERBLOCK_ADDRESS as usize..]), Ok(()));
}

#[test]
fn every_backup_parses_to_the_same_geometry_and_fits_its_hash() {
    let Some(disk) = Disk::open() else { return };
    for group in 0..disk.geometry.group_count {
        let bytes = disk.at(disk.geometry.backup_superblock_fragment(group));
        assert_eq!(Geometry::parse(superblock(bytes, 0)).as_ref(), Ok(&disk.geometry));
        assert_eq!(disk.geometry.verify_superblock(bytes), Ok(()));
    }
}

#[test]
fn the_recovery_record_agrees_with_the_superblock() {
    let Some(disk) = Disk::open() else { return };
    let bytes = &disk.bytes[RECOVERY_RECORD_ADDRESS as usize..];
    let (record, _) = RecoveryRecord::ref_from_prefix(bytes).expect("it fits the disk");
    let primary = superblock(&disk.bytes, SUPERBLOCK_ADDRESS);
    assert_eq!(record.magic.get(), SUPERBLOCK_MAGIC);
    assert_eq!(record.sector_shift, primary.sector_shift);
    assert_eq!(record.backup_offset, primary.backup_offset);
    assert_eq!(record.fragments_per_group, primary.fragments_per_group);
    assert_eq!(record.group_count, primary.group_count);
}

#[test]
fn every_group_header_says_what_the_geometry_says() {
    let Some(disk) = Disk::open() else { return };
    let geometry = &disk.geometry;
    for group in 0..geometry.group_count {
        let header = GroupHeader::of(disk.group(group));
        assert_eq!(header.magic.get(), GROUP_MAGIC);
        assert_eq!(u64::from(header.index.get()), group);
        assert_eq!(u64::from(header.fragments.get()), geometry.group_size_fragments(group));
        assert_eq!(u64::from(header.cluster_blocks.get()), geometry.group_size_blocks(group));
        assert_eq!(u64::from(header.inodes.get()), geometry.inodes_per_group);
        let offsets = [
            header.inode_map_offset,
            header.fragment_map_offset,
            header.cluster_sums_offset,
            header.cluster_map_offset,
            header.maps_end_offset,
        ];
        assert_eq!(offsets.map(|offset| offset.get()), geometry.maps.header_offsets());
        assert_eq!(derive::check_group(geometry, group, disk.group(group)), Ok(()));
    }
}

#[test]
fn the_counts_agree_in_all_three_places() {
    let Some(disk) = Disk::open() else { return };
    let area = disk.at(disk.geometry.summary_address);
    let length = disk.geometry.byte_address(disk.geometry.summary_fragments) as usize;
    let rows = Summary::rows(&area[..length]);
    let mut free_inodes = 0;
    for group in 0..disk.geometry.group_count {
        let counts = GroupHeader::of(disk.group(group)).counts;
        assert_eq!(rows[group as usize], counts);
        free_inodes += i64::from(counts.free_inodes.get());
    }
    let totals = superblock(&disk.bytes, SUPERBLOCK_ADDRESS).totals;
    assert_eq!(totals.free_inodes.get(), free_inodes);
}

#[test]
fn the_metadata_is_marked_used_in_the_fragment_maps() {
    let Some(disk) = Disk::open() else { return };
    let geometry = &disk.geometry;
    for group in 0..geometry.group_count {
        let map = geometry.maps.fragments_in(disk.group(group));
        for fragment in 0..geometry.group_size_fragments(group) {
            let free = map[fragment as usize / 8] >> (fragment % 8) & 1 == 1;
            let data = geometry.is_data_fragment(geometry.group_base(group) + fragment);
            assert!(data || !free, "group {group} fragment {fragment}");
        }
    }
}

#[test]
fn what_derives_from_the_maps_is_what_freebsd_wrote() {
    let Some(disk) = Disk::open() else { return };
    let geometry = &disk.geometry;
    for group in 0..geometry.group_count {
        let written = &disk.group(group)[..geometry.group_block_size as usize];
        let old = GroupHeader::of(written);

        let mut block = vec![0xaa; written.len()];
        derive::initialize_group(geometry, group, &mut block);
        let map = geometry.maps.fragments_in(written);
        geometry.maps.fragments_in_mut(&mut block).copy_from_slice(map);
        let map = geometry.maps.inodes_in(written);
        geometry.maps.inodes_in_mut(&mut block).copy_from_slice(map);
        let header = GroupHeader::of_mut(&mut block);
        header.old_time = old.old_time;
        header.time = old.time;
        header.block_rotor = old.block_rotor;
        header.fragment_rotor = old.fragment_rotor;
        header.inode_rotor = old.inode_rotor;
        header.initialized_inodes = old.initialized_inodes;
        header.counts.directories = old.counts.directories;
        derive::recompute_group(geometry, group, &mut block);
        geometry.seal_group(&mut block);

        assert!(block == written, "group {group}:\n{:?}\n{old:?}", GroupHeader::of(&block));
    }
}

#[test]
fn every_inode_fits_its_hash_and_a_changed_one_does_not() {
    let Some(disk) = Disk::open() else { return };
    let mut count = 0;
    for (ino, inode) in disk.inodes() {
        assert_eq!(disk.geometry.verify_inode(inode), Ok(()), "inode {ino}");
        let mut changed = *inode;
        changed.size.set(inode.size.get() + 1);
        assert!(disk.geometry.verify_inode(&changed).is_err(), "inode {ino}");
        changed.size = inode.size;
        changed.check_hash.set(0);
        disk.geometry.seal_inode(&mut changed);
        assert_eq!(changed.check_hash, inode.check_hash, "inode {ino}");
        count += 1;
    }
    assert!(count > 10, "the disk holds {count} files");
}

#[test]
fn the_root_is_a_directory() {
    let Some(disk) = Disk::open() else { return };
    let root = disk.inode(ROOT_INODE);
    assert_eq!(root.kind(), Some(FileKind::Directory));
    assert_eq!(root.size.get() % 512, 0);
    assert!(disk.geometry.is_data_fragment(root.direct[0].get() as u64));
}

#[test]
fn a_disk_of_the_other_byte_order_has_the_same_shape() {
    let (Some(disk), Some(mut bytes)) = (Disk::open(), freebsd_disk("big")) else {
        return;
    };
    let block = &mut bytes[SUPERBLOCK_ADDRESS as usize..][..SUPERBLOCK_ROOM as usize];
    let (raw, _) = Superblock::ref_from_prefix(block).expect("it fits the disk");
    assert_eq!(Geometry::parse(raw), Err(BadSuperblock::BigEndian));

    let geometry = Geometry::parse_any_order(block).expect("it is good");
    assert_eq!(geometry.byte_order, ByteOrder::Big);
    assert_eq!(geometry.verify_superblock(block), Ok(()));
    assert_eq!(Geometry::parse(superblock(block, 0)), Ok(disk.geometry));
}

#[test]
fn a_superblock_of_the_other_byte_order_says_the_same_in_every_field() {
    let (Some(disk), Some(mut bytes)) = (Disk::open(), freebsd_disk("big")) else {
        return;
    };
    let block = &mut bytes[SUPERBLOCK_ADDRESS as usize..][..SUPERBLOCK_ROOM as usize];
    Geometry::parse_any_order(block).expect("it is good");
    let mut turned = *superblock(block, 0);
    let little = superblock(&disk.bytes, SUPERBLOCK_ADDRESS);
    let minutes = |one: i64, other: i64| (one - other).abs() / 60;
    assert!(minutes(turned.time.get(), little.time.get()) < 60);
    assert!(minutes(turned.mount_time.get(), little.mount_time.get()) < 60);
    assert!(minutes(turned.id[0].get().into(), little.id[0].get().into()) < 60);
    // These differ from disk to disk.
    turned.time = little.time;
    turned.mount_time = little.mount_time;
    turned.id = little.id;
    turned.last_mount = little.last_mount;
    turned.check_hash = little.check_hash;
    let (turned, little) = (turned.as_bytes(), little.as_bytes());
    let different: Vec<usize> = (0..little.len()).filter(|&at| turned[at] != little[at]).collect();
    assert_eq!(different, []);
}

#[test]
fn a_damaged_superblock_of_the_other_byte_order_does_not_fit_its_hash() {
    let Some(mut bytes) = freebsd_disk("big") else { return };
    let block = &mut bytes[SUPERBLOCK_ADDRESS as usize..][..SUPERBLOCK_ROOM as usize];
    block[std::mem::offset_of!(Superblock, volume_name)] ^= 1;
    let geometry = Geometry::parse_any_order(block).expect("its label is no geometry");
    assert!(geometry.verify_superblock(block).is_err());
}

#[test]
fn group_blocks_of_the_other_byte_order_pass_the_same_checks() {
    let Some(mut bytes) = freebsd_disk("big") else { return };
    let block = &mut bytes[SUPERBLOCK_ADDRESS as usize..][..SUPERBLOCK_ROOM as usize];
    let geometry = Geometry::parse_any_order(block).expect("it is good");
    for group in 0..geometry.group_count {
        let start = group_byte(&geometry, group) as usize;
        let good = &mut bytes[start..][..geometry.group_block_size as usize];
        let mut damaged = good.to_vec();
        geometry.turn_group(good);
        assert_eq!(derive::check_group(&geometry, group, good), Ok(()));
        // The values derived from the maps match the disk: the cluster sums too.
        let mut derived = good.to_vec();
        derive::recompute_group(&geometry, group, &mut derived);
        geometry.seal_group(&mut derived);
        assert!(derived == good, "group {group}");

        damaged[geometry.maps.clusters.start] ^= 1;
        geometry.turn_group(&mut damaged);
        let refused = derive::check_group(&geometry, group, &damaged);
        assert!(matches!(refused, Err(BadGroup::Hash { .. })), "{refused:?}");
    }
}

/// The shape of the big-endian disk.
fn big_geometry() -> Option<Geometry> {
    let mut bytes = freebsd_disk("big")?;
    let block = &mut bytes[SUPERBLOCK_ADDRESS as usize..][..SUPERBLOCK_ROOM as usize];
    Some(Geometry::parse_any_order(block).expect("it is good"))
}

#[test]
fn device_numbers_are_turned_and_short_targets_are_not() {
    let Some(geometry) = big_geometry() else { return };
    let mut block = [0_u8; 512];
    let (device, link) = block.split_at_mut(256);
    device[..2].copy_from_slice(&mode_of(FileKind::BlockDevice, 0o640).to_be_bytes());
    device[112..120].copy_from_slice(&0x1234_u64.to_be_bytes());
    link[..2].copy_from_slice(&mode_of(FileKind::Symlink, 0o777).to_be_bytes());
    link[16..24].copy_from_slice(&9_u64.to_be_bytes());
    link[112..121].copy_from_slice(b"somewhere");
    geometry.turn_inodes(&mut block);

    let (device, link) = (Dinode::at(&block, 0), Dinode::at(&block, 256));
    assert_eq!(device.device(), vfs::Device { major: 0x12, minor: 0x34 });
    assert_eq!(device.permissions(), 0o640);
    assert_eq!(link.kind(), Some(FileKind::Symlink));
    assert!(link.inline_symlink_area().starts_with(b"somewhere\0"));
}

#[test]
fn no_bytes_are_too_bad_to_be_turned() {
    let Some(geometry) = big_geometry() else { return };
    let chance = Seeded::new(9);
    for _ in 0..2000 {
        let mut block: Vec<u8> = (0..1024).map(|_| chance.next_u64() as u8).collect();
        // Record lengths are small, so that the walk through a chunk does not end at once.
        for word in block.chunks_exact_mut(4) {
            (word[0], word[1]) = (0, word[1] & 0x3c);
        }
        for turn in [Geometry::turn_directory, Geometry::turn_inodes, Geometry::turn_indirect] {
            turn(&geometry, &mut block.clone());
        }
    }
}

#[test]
fn inodes_lie_one_after_the_other() {
    let Some(disk) = Disk::open() else { return };
    let geometry = &disk.geometry;
    for group in 0..geometry.group_count {
        let table = geometry.byte_address(geometry.inode_table_fragment(group));
        for index in 0..geometry.inodes_per_group {
            let ino = group * geometry.inodes_per_group + index;
            assert_eq!(inode_byte(geometry, ino), table + index * INODE_SIZE);
        }
    }
}

/// The disk, as if it kept no hashes of groups.
fn without_group_hashes() -> Option<Disk> {
    let mut disk = Disk::open()?;
    disk.geometry.group_hashes = false;
    Some(disk)
}

#[test]
fn a_group_with_a_changed_bit_does_not_fit_its_hash() {
    let Some(disk) = Disk::open() else { return };
    let mut block = disk.group(0).to_vec();
    bits::set(disk.geometry.maps.inodes_in_mut(&mut block), 200);
    let refused = derive::check_group(&disk.geometry, 0, &block);
    assert!(matches!(refused, Err(BadGroup::Hash { group: 0, .. })));
}

#[test]
fn a_group_with_a_bad_header_is_refused_by_its_field() {
    type Damage = fn(&mut GroupHeader);
    let Some(disk) = without_group_hashes() else { return };
    let damage: [(&str, Damage); 7] = [
        ("cg_magic", |header| header.magic.set(1)),
        ("cg_cgx", |header| header.index.set(1)),
        ("cg_ndblk", |header| header.fragments.set(263)),
        ("cg_rotor", |header| header.block_rotor.set(264)),
        ("cg_initediblk", |header| header.initialized_inodes.set(100)),
        ("cg_initediblk", |header| header.initialized_inodes.set(512)),
        ("cg_niblk", |header| header.inodes.set(512)),
    ];
    for (name, damage) in damage {
        let mut block = disk.group(0).to_vec();
        damage(GroupHeader::of_mut(&mut block));
        let refused = derive::check_group(&disk.geometry, 0, &block);
        assert!(matches!(refused, Err(BadGroup::Field { field, .. }) if field == name), "{name}");
    }
}

#[test]
fn a_group_that_offers_its_metadata_as_free_is_refused() {
    let Some(disk) = without_group_hashes() else { return };
    let geometry = &disk.geometry;
    for fragment in [0, geometry.inode_table_fragment(0), geometry.summary_address] {
        let mut block = disk.group(0).to_vec();
        bits::set(geometry.maps.fragments_in_mut(&mut block), fragment);
        let refused = derive::check_group(geometry, 0, &block);
        assert_eq!(refused, Err(BadGroup::FragmentMap { group: 0 }), "fragment {fragment}");
    }
}

#[test]
fn a_group_that_offers_what_lies_behind_its_end_is_refused() {
    let Some(disk) = without_group_hashes() else { return };
    let geometry = &disk.geometry;
    let last = geometry.group_count - 1;
    let mut block = disk.group(last).to_vec();
    let behind = geometry.group_size_fragments(last);
    bits::set(geometry.maps.fragments_in_mut(&mut block), behind);
    let refused = derive::check_group(geometry, last, &block);
    assert_eq!(refused, Err(BadGroup::FragmentMap { group: last }));
}

#[test]
fn a_first_group_that_offers_the_root_is_refused() {
    let Some(disk) = without_group_hashes() else { return };
    let mut block = disk.group(0).to_vec();
    bits::clear(disk.geometry.maps.inodes_in_mut(&mut block), ROOT_INODE);
    let refused = derive::check_group(&disk.geometry, 0, &block);
    assert_eq!(refused, Err(BadGroup::InodeMap { group: 0 }));
}
