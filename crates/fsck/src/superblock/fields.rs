//! The fields of a superblock by FreeBSD's names: the class of each, and its right value.
//!
//! *Shape* fields describe the division of the disk. *Derived* ones follow from them, so that a
//! copy in which they are wrong can be corrected by itself. No mount changes either; only they are
//! compared between copies. *Tunables* have defaults.

use std::ops::Range;

use ufs2::layout::{
    FLAGS_MOVED, Geometry, GroupOffsets, INLINE_SYMLINK_SIZE, INODE_SIZE, MAX_CLUSTER_SUM_SIZE,
    SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock, max_file_size, summary_fragments,
};
use zerocopy::little_endian::{I32, I64, U32, U64};

/// The class of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Describes the division of the disk, or its identity.
    Shape,
    /// Follows from the shape.
    Derived,
    /// Zero on a disk.
    Zero,
    /// A setting, which `tunefs` may change in the primary alone.
    Tunable,
    /// `fs_flags` and `fs_metackhash`.
    Flags,
    /// Whether the volume was stopped cleanly.
    State,
    /// A count, a time or a hint.
    Changing,
}

/// A field that is a number.
pub(crate) struct Field {
    /// FreeBSD's name.
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    get: fn(&Superblock) -> i128,
    set: fn(&mut Superblock, i128),
    range: fn(&Superblock) -> Range<usize>,
}

impl Field {
    pub(crate) fn get(&self, block: &[u8]) -> i128 {
        (self.get)(Superblock::of(block))
    }

    pub(crate) fn set(&self, block: &mut [u8], value: i128) {
        (self.set)(Superblock::of_mut(block), value);
    }

    /// Whether it is the same in every copy.
    pub(crate) fn is_static(&self) -> bool {
        matches!(self.class, Class::Shape | Class::Derived)
    }
}

/// A number in a superblock. A value that does not fit is cut off: no such value passes
/// [`Geometry::parse`].
trait Number {
    fn value(&self) -> i128;
    fn put(&mut self, value: i128);
}

macro_rules! numbers {
    ($($number:ident $integer:ident),+) => {$(
        impl Number for $number {
            fn value(&self) -> i128 {
                i128::from(self.get())
            }

            fn put(&mut self, value: i128) {
                $number::set(self, value as $integer);
            }
        }
    )+};
}

macro_rules! bytes {
    ($($integer:ident),+) => {$(
        impl Number for $integer {
            fn value(&self) -> i128 {
                i128::from(*self)
            }

            fn put(&mut self, value: i128) {
                *self = value as $integer;
            }
        }
    )+};
}

numbers!(I32 i32, U32 u32, I64 i64, U64 u64);
bytes!(i8, u8);

/// The byte range of a part of a superblock.
fn place<T: ?Sized>(whole: &Superblock, part: &T) -> Range<usize> {
    let start = std::ptr::from_ref(part).addr() - std::ptr::from_ref(whole).addr();
    start..start + size_of_val(part)
}

macro_rules! fields {
    ($($class:ident { $($name:literal $($part:ident).+ $([$index:literal])?;)+ })+) => {
        /// Every field that is a number.
        pub(crate) const FIELDS: &[Field] = &[$($(Field {
            name: $name,
            class: Class::$class,
            get: |s| s.$($part).+ $([$index])?.value(),
            set: |s, value| s.$($part).+ $([$index])?.put(value),
            range: |s| place(s, &s.$($part).+ $([$index])?),
        },)+)+];
    };
}

fields! {
    Shape {
        "fs_magic" magic;
        "fs_bsize" block_size;
        "fs_fsize" fragment_size;
        "fs_ipg" inodes_per_group;
        "fs_fpg" fragments_per_group;
        "fs_size" size;
        "fs_csaddr" summary_address;
        "fs_cgsize" group_block_size;
        "fs_contigsumsize" cluster_sum_size;
        "fs_maxbsize" max_extent_size;
        "fs_id[0]" id[0];
        "fs_id[1]" id[1];
    }
    Derived {
        "fs_sblkno" backup_offset;
        "fs_cblkno" group_block_offset;
        "fs_iblkno" inode_table_offset;
        "fs_dblkno" data_offset;
        "fs_ncg" group_count;
        "fs_frag" fragments_per_block;
        "fs_bmask" block_mask;
        "fs_fmask" fragment_mask;
        "fs_bshift" block_shift;
        "fs_fshift" fragment_shift;
        "fs_fragshift" fragments_shift;
        "fs_fsbtodb" sector_shift;
        "fs_sbsize" superblock_size;
        "fs_nindir" pointers_per_indirect;
        "fs_inopb" inodes_per_block;
        "fs_cssize" summary_size;
        "fs_old_flags" old_flags;
        "fs_sblockloc" primary_address;
        "fs_dsize" data_size;
        "fs_maxsymlinklen" inline_symlink_size;
        "fs_maxfilesize" max_file_size;
        "fs_qbmask" block_offset_mask;
        "fs_qfmask" fragment_offset_mask;
    }
    Zero {
        "fs_fmod" modified;
        "fs_ronly" read_only;
    }
    Tunable {
        "fs_minfree" reserve_percent;
        "fs_maxcontig" max_contiguous_blocks;
        "fs_maxbpg" max_blocks_per_group;
        "fs_optim" optimization;
        "fs_cgrotor" group_rotor;
        "fs_metaspace" metadata_space;
        "fs_avgfilesize" average_file_size;
        "fs_avgfpdir" average_files_per_directory;
    }
    Flags {
        "fs_flags" flags;
        "fs_metackhash" check_hashes;
    }
    State {
        "fs_clean" clean;
        "fs_unrefs" unreferenced_inodes;
        "fs_pendingblocks" pending_sectors;
        "fs_pendinginodes" pending_inodes;
        "fs_sujfree" journal_free_list;
    }
    Changing {
        "fs_providersize" device_size;
        "fs_sblockactualloc" own_address;
        "fs_cstotal.cs_ndir" totals.directories;
        "fs_cstotal.cs_nbfree" totals.free_blocks;
        "fs_cstotal.cs_nifree" totals.free_inodes;
        "fs_cstotal.cs_nffree" totals.free_fragments;
        "fs_cstotal.cs_numclusters" totals.free_clusters;
        "fs_time" time;
        "fs_mtime" mount_time;
        "fs_ckhash" check_hash;
    }
}

/// The field of this name.
///
/// # Panics
/// When there is none.
pub(crate) fn field(name: &str) -> &'static Field {
    let found = FIELDS.iter().find(|field| field.name == name);
    found.unwrap_or_else(|| panic!("no field {name} is known"))
}

/// The fields that are the same in every copy.
pub(crate) fn static_fields() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(|field| field.is_static())
}

/// The number field that contains a byte of a superblock, if one does.
pub(super) fn field_at(block: &[u8], offset: usize) -> Option<&'static Field> {
    let superblock = Superblock::of(block);
    FIELDS.iter().find(|field| (field.range)(superblock).contains(&offset))
}

/// The bytes that are zero in every copy.
pub(crate) fn spare_ranges(block: &[u8], geometry: &Geometry) -> Vec<Range<usize>> {
    let s = Superblock::of(block);
    vec![
        place(s, &s.reserved_0),
        place(s, &s.reserved_24),
        place(s, &s.reserved_64),
        place(s, &s.reserved_108),
        place(s, &s.reserved_124),
        place(s, &s.reserved_132),
        place(s, &s.reserved_152),
        place(s, &s.reserved_164),
        place(s, &s.system_id),
        place(s, &s.reserved_720),
        place(s, &s.reserved_856),
        place(s, &s.reserved_888),
        place(s, &s.reserved_1204),
        place(s, &s.reserved_1220),
        place(s, &s.state),
        place(s, &s.reserved_1356),
        size_of::<Superblock>()..geometry.superblock_size as usize,
    ]
}

/// The superblock with all derived fields computed from its shape; nothing when that shape is
/// invalid.
pub(super) fn derived(s: &Superblock) -> Option<Superblock> {
    let unsigned = |value: i128| u64::try_from(value).ok().filter(|&value| value > 0);
    let block = unsigned(s.block_size.value())?;
    let fragment = unsigned(s.fragment_size.value())?;
    let legal = block.is_power_of_two()
        && (4096..=65_536).contains(&block)
        && fragment.is_power_of_two()
        && ((block / 8).max(512)..=block).contains(&fragment);
    if !legal {
        return None;
    }
    let inodes = unsigned(s.inodes_per_group.value())?;
    let size = unsigned(s.size.value())?;
    let groups = size.div_ceil(unsigned(s.fragments_per_group.value())?);
    let groups = u64::from(u32::try_from(groups).ok()?);
    let offsets = GroupOffsets::new(fragment, block / fragment, inodes);
    let summary = summary_fragments(groups, fragment);
    let data_size = i128::from(size)
        - i128::from(offsets.backup)
        - i128::from(groups) * i128::from(offsets.data - offsets.backup)
        - i128::from(summary);

    let mut s = *s;
    s.backup_offset.put(offsets.backup.into());
    s.group_block_offset.put(offsets.group_block.into());
    s.inode_table_offset.put(offsets.inode_table.into());
    s.data_offset.put(offsets.data.into());
    s.group_count.put(groups.into());
    s.summary_size.put((summary * fragment).into());
    s.data_size.put(data_size);
    s.old_flags = FLAGS_MOVED;
    s.primary_address.put(SUPERBLOCK_ADDRESS.into());
    derive_units(&mut s, block, fragment);
    Some(s)
}

/// Computes the fields that follow from the sizes of block and fragment alone.
fn derive_units(s: &mut Superblock, block: u64, fragment: u64) {
    let per_block = block / fragment;
    s.fragments_per_block.put(per_block.into());
    s.block_mask.put(-i128::from(block));
    s.fragment_mask.put(-i128::from(fragment));
    s.block_offset_mask.put(i128::from(block) - 1);
    s.fragment_offset_mask.put(i128::from(fragment) - 1);
    s.block_shift.put(block.ilog2().into());
    s.fragment_shift.put(fragment.ilog2().into());
    s.fragments_shift.put(per_block.ilog2().into());
    s.sector_shift.put((fragment / 512).ilog2().into());
    s.pointers_per_indirect.put((block / size_of::<u64>() as u64).into());
    s.inodes_per_block.put((block / INODE_SIZE).into());
    s.inline_symlink_size.put(INLINE_SYMLINK_SIZE as i128);
    s.max_file_size.put(max_file_size(block).into());
    let copy = (size_of::<Superblock>() as u64).next_multiple_of(fragment);
    s.superblock_size.put(copy.min(SUPERBLOCK_ROOM).into());
}

/// A setting: its legal values, and a replacement for any other. The shape fields are right when it
/// is checked.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) is_legal: fn(&Superblock) -> bool,
    pub(super) default: fn(&Superblock) -> i128,
    pub(super) expected: &'static str,
}

/// The longest I/O that FreeBSD's kernel does, in bytes.
const LONGEST_IO: i32 = 1 << 20;
const MAX_SUMS: i32 = MAX_CLUSTER_SUM_SIZE as i32;

/// The settings, in an order in which each depends on earlier ones alone.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "fs_minfree",
        is_legal: |s| (0..=99).contains(&s.reserve_percent.get()),
        default: |_| 8,
        expected: "0 to 99",
    },
    Setting {
        name: "fs_optim",
        is_legal: |s| (0..=1).contains(&s.optimization.get()),
        default: |_| 0,
        expected: "0 or 1",
    },
    Setting {
        name: "fs_maxbpg",
        is_legal: |s| s.max_blocks_per_group.get() > 0,
        default: |s| s.block_size.value() / 8,
        expected: "more than 0",
    },
    Setting {
        name: "fs_avgfilesize",
        is_legal: |s| s.average_file_size.get() > 0,
        default: |_| 16_384,
        expected: "more than 0",
    },
    Setting {
        name: "fs_avgfpdir",
        is_legal: |s| s.average_files_per_directory.get() > 0,
        default: |_| 64,
        expected: "more than 0",
    },
    Setting {
        name: "fs_maxbsize",
        is_legal: |s| {
            let (extent, block) = (s.max_extent_size.value(), s.block_size.value());
            let power_of_two = extent & (extent - 1) == 0;
            extent == 0 || (power_of_two && (block..=16 * block).contains(&extent))
        },
        default: |s| s.block_size.value(),
        expected: "0 or a power of 2 from 1 to 16 blocks",
    },
    Setting {
        name: "fs_contigsumsize",
        is_legal: |s| (0..=MAX_SUMS).contains(&s.cluster_sum_size.get()),
        default: |s| match s.max_contiguous_blocks.get() {
            contiguous @ 0..=256 => contiguous.min(MAX_SUMS).into(),
            _ => MAX_SUMS.into(),
        },
        expected: "0 to 16",
    },
    Setting {
        name: "fs_maxcontig",
        is_legal: |s| (0..=256).contains(&s.max_contiguous_blocks.get()),
        default: |s| match s.cluster_sum_size.get() {
            MAX_SUMS => MAX_SUMS.max(LONGEST_IO / s.block_size.get().max(1)).into(),
            sums => sums.into(),
        },
        expected: "0 to 256",
    },
    Setting {
        name: "fs_cgrotor",
        is_legal: |s| (0..s.group_count.value()).contains(&s.group_rotor.value()),
        default: |_| 0,
        expected: "a group",
    },
    Setting {
        name: "fs_metaspace",
        is_legal: |s| {
            let space = s.metadata_space.value();
            (0..=s.fragments_per_group.value() / 2).contains(&space)
                && space % s.fragments_per_block.value().max(1) == 0
        },
        default: |_| 0,
        expected: "whole blocks, at most half a group",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use ufs2::mkfs::{MkfsOptions, plan};
    use zerocopy::IntoBytes;

    #[test]
    fn what_is_derived_is_what_mkfs_writes() {
        for (block_size, fragment_size) in [(32_768, 4096), (4096, 512), (65_536, 65_536)] {
            let options = MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() };
            let superblock = plan(100 << 20, 512, &options).expect("it fits").superblock;
            let again = derived(&superblock).expect("it has a shape");
            assert_eq!(again.as_bytes(), superblock.as_bytes(), "{block_size}/{fragment_size}");
            for setting in SETTINGS {
                assert!((setting.is_legal)(&superblock), "{}", setting.name);
            }
        }
    }

    #[test]
    fn every_default_of_a_setting_is_legal() {
        let options = MkfsOptions::default();
        let good = plan(100 << 20, 512, &options).expect("it fits").superblock;
        for setting in SETTINGS {
            let mut broken = good;
            field(setting.name).set(broken.as_mut_bytes(), -1);
            if !matches!(setting.name, "fs_avgfilesize" | "fs_avgfpdir") {
                assert!(!(setting.is_legal)(&broken), "{}", setting.name);
            }
            let value = (setting.default)(&broken);
            field(setting.name).set(broken.as_mut_bytes(), value);
            assert!(Geometry::parse(&broken).is_ok(), "{}", setting.name);
        }
    }

    #[test]
    fn no_two_fields_and_no_spare_bytes_overlap() {
        let options = MkfsOptions::default();
        let plan = plan(100 << 20, 512, &options).expect("it fits");
        let block = plan.superblock.as_bytes();
        let ranges = FIELDS.iter().map(|field| (field.range)(&plan.superblock));
        let mut all: Vec<_> = ranges.chain(spare_ranges(block, &plan.geometry)).collect();
        all.sort_by_key(|range| range.start);
        for pair in all.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
        }
    }
}
