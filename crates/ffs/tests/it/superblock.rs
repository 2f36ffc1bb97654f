//! Validity of a superblock, and the guarantees of its geometry.

use proptest::prelude::*;
use ufs2::layout::{BadSuperblock, Geometry, Superblock};
use ufs2::mkfs::{MkfsOptions, plan};
use zerocopy::{FromBytes, IntoBytes};

const MEGABYTE: u64 = 1 << 20;

/// The superblock of a disk of 100 MiB in 25 groups, the last one short.
fn good() -> Superblock {
    let options = MkfsOptions { max_group_blocks: Some(127), ..MkfsOptions::default() };
    plan(100 * MEGABYTE - 40_960, 512, &options).expect("it fits the disk").superblock
}

/// Queries everything at the edges of a disk: nothing may panic or point outside it.
fn exercise(geometry: &Geometry) {
    let end = geometry.size;
    for group in [0, geometry.group_count / 2, geometry.group_count - 1] {
        assert!(geometry.group_size_fragments(group) > 0);
        assert!(geometry.group_size_blocks(group) > 0);
        let block = geometry.group_header_fragment(group);
        let last = block + geometry.group_block_size / geometry.fragment_size - 1;
        for fragment in [
            geometry.backup_superblock_fragment(group),
            block,
            last,
            geometry.inode_table_fragment(group),
            geometry.first_data_fragment(group) - 1,
        ] {
            assert!(fragment < end, "fragment {fragment} of {end}");
            assert!(!geometry.is_data_fragment(fragment), "fragment {fragment}");
            assert_eq!(geometry.group_of_fragment(fragment), group);
        }
        for ino in [group * geometry.inodes_per_group, (group + 1) * geometry.inodes_per_group - 1]
        {
            let position = geometry.inode_position(ino);
            assert_eq!(geometry.group_of_inode(ino), group);
            assert!(position.fragment < geometry.first_data_fragment(group));
            assert!(position.offset + 256 <= geometry.block_size as usize);
        }
    }
    for fragment in [0, end / 2, end - 1, end, u64::MAX] {
        let single = geometry.is_data_run(fragment, 1);
        assert_eq!(single, geometry.is_data_fragment(fragment), "fragment {fragment}");
        assert!(!geometry.is_data_run(fragment, geometry.fragments_per_block + 1));
        assert!(!geometry.is_data_run(fragment, 0));
    }
    assert!(!geometry.is_data_fragment(end));
    assert!(geometry.maps.end as u64 <= geometry.group_block_size);
    assert!(geometry.group_block_size <= geometry.block_size);
}

#[test]
fn a_good_superblock_gives_a_sound_geometry() {
    let geometry = Geometry::parse(&good()).expect("it is good");
    assert!(geometry.group_count > 20);
    exercise(&geometry);
}

#[test]
fn each_field_is_refused_by_its_name() {
    type Damage = fn(&mut Superblock);
    let damage: [(&str, Damage); 44] = [
        ("fs_sblockloc", |s| s.primary_address.set(8192)),
        ("fs_old_flags", |s| s.old_flags = 0),
        ("fs_bsize", |s| s.block_size.set(0)),
        ("fs_bsize", |s| s.block_size.set(131_072)),
        ("fs_bsize", |s| s.block_size.set(-32_768)),
        ("fs_bsize", |s| s.block_size.set(32_769)),
        ("fs_fsize", |s| s.fragment_size.set(0)),
        ("fs_fsize", |s| s.fragment_size.set(2048)),
        ("fs_fsize", |s| s.fragment_size.set(65_536)),
        ("fs_frag", |s| s.fragments_per_block.set(4)),
        ("fs_bmask", |s| s.block_mask.set(0)),
        ("fs_fmask", |s| s.fragment_mask.set(0)),
        ("fs_qbmask", |s| s.block_offset_mask.set(0)),
        ("fs_qfmask", |s| s.fragment_offset_mask.set(0)),
        ("fs_bshift", |s| s.block_shift.set(14)),
        ("fs_fshift", |s| s.fragment_shift.set(64)),
        ("fs_fragshift", |s| s.fragments_shift.set(-1)),
        ("fs_fsbtodb", |s| s.sector_shift.set(0)),
        ("fs_nindir", |s| s.pointers_per_indirect.set(0)),
        ("fs_inopb", |s| s.inodes_per_block.set(0)),
        ("fs_maxsymlinklen", |s| s.inline_symlink_size.set(121)),
        ("fs_maxfilesize", |s| s.max_file_size.set(u64::MAX)),
        ("fs_minfree", |s| s.reserve_percent.set(100)),
        ("fs_optim", |s| s.optimization.set(2)),
        ("fs_maxbpg", |s| s.max_blocks_per_group.set(0)),
        ("fs_avgfilesize", |s| s.average_file_size.set(0)),
        ("fs_avgfpdir", |s| s.average_files_per_directory.set(0)),
        ("fs_maxbsize", |s| s.max_extent_size.set(16_384)),
        ("fs_maxcontig", |s| s.max_contiguous_blocks.set(257)),
        ("fs_contigsumsize", |s| s.cluster_sum_size.set(17)),
        ("fs_ncg", |s| s.group_count.set(0)),
        ("fs_cgrotor", |s| s.group_rotor.set(i32::MAX)),
        ("fs_fpg", |s| s.fragments_per_group.set(0)),
        ("fs_fpg", |s| s.fragments_per_group.set(1015)),
        ("fs_ipg", |s| s.inodes_per_group.set(0)),
        ("fs_ipg", |s| s.inodes_per_group.set(u32::MAX - 127)),
        ("fs_size", |s| s.size.set(i64::MAX)),
        ("fs_sblkno", |s| s.backup_offset.set(0)),
        ("fs_cblkno", |s| s.group_block_offset.set(24)),
        ("fs_iblkno", |s| s.inode_table_offset.set(32)),
        ("fs_dblkno", |s| s.data_offset.set(40)),
        ("fs_cgsize", |s| s.group_block_size.set(100)),
        ("fs_csaddr", |s| s.summary_address.set(-1)),
        ("fs_cssize", |s| s.summary_size.set(0)),
    ];
    for (name, damage) in damage {
        let mut superblock = good();
        damage(&mut superblock);
        match Geometry::parse(&superblock) {
            Err(BadSuperblock::Field { field, .. }) => assert_eq!(field, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_disk_whose_size_and_groups_disagree_is_refused() {
    let mut superblock = good();
    superblock.size.set(superblock.size.get() / 2);
    let refused = Geometry::parse(&superblock);
    assert!(matches!(refused, Err(BadSuperblock::Field { field: "fs_ncg", .. })));
}

#[test]
fn a_last_group_without_room_for_its_metadata_is_refused() {
    let mut superblock = good();
    let before = i64::from(superblock.group_count.get() - 1)
        * i64::from(superblock.fragments_per_group.get());
    superblock.size.set(before + 10);
    let refused = Geometry::parse(&superblock);
    assert!(matches!(refused, Err(BadSuperblock::Field { field: "fs_size", .. })));
}

#[test]
fn a_summary_area_outside_of_the_data_of_one_group_is_refused() {
    let geometry = Geometry::parse(&good()).expect("it is good");
    for address in [0, geometry.inode_table_fragment(3), geometry.size] {
        let mut superblock = good();
        superblock.summary_address.set(address as i64);
        let refused = Geometry::parse(&superblock);
        assert!(matches!(refused, Err(BadSuperblock::Field { field: "fs_csaddr", .. })));
    }
}

#[test]
fn what_is_no_ufs2_at_all_is_called_by_its_name() {
    let mut superblock = good();
    for (magic, refused) in [
        (0, BadSuperblock::Missing { found: 0 }),
        (0x0001_1954, BadSuperblock::Ufs1),
        (0x1996_0408, BadSuperblock::Unfinished),
        (0x1901_5419, BadSuperblock::BigEndian),
    ] {
        superblock.magic.set(magic);
        assert_eq!(Geometry::parse(&superblock), Err(refused));
    }
}

#[test]
fn hashes_count_only_with_their_flag() {
    let mut superblock = good();
    superblock.flags.set(0);
    let geometry = Geometry::parse(&superblock).expect("it is good");
    assert!(!geometry.superblock_hashes && !geometry.group_hashes && !geometry.inode_hashes);
}

#[test]
fn an_error_is_a_sentence() {
    let mut superblock = good();
    superblock.reserve_percent.set(-3);
    let error = Geometry::parse(&superblock).expect_err("no reserve is negative");
    assert_eq!(error.to_string(), "superblock field fs_minfree is -3, expected 0 to 99");
}

proptest! {
    #[test]
    fn no_damage_gets_past_the_checks(
        damage in prop::collection::vec((8..1376_usize, any::<u8>()), 1..4),
    ) {
        let mut superblock = good();
        for (at, byte) in damage {
            superblock.as_mut_bytes()[at] = byte;
        }
        if let Ok(geometry) = Geometry::parse(&superblock) {
            exercise(&geometry);
        }
    }

    #[test]
    fn noise_is_no_superblock(bytes in prop::collection::vec(any::<u8>(), 1376)) {
        let superblock = Superblock::read_from_bytes(&bytes).expect("as long as a superblock");
        prop_assert!(Geometry::parse(&superblock).is_err());
    }
}
