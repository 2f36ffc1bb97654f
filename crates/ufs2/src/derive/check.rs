//! Judges a group block that was read.
//!
//! A wrong bit in a map can make two files share a block, so a map is believed only if the bits of
//! everything that must be used agree. Counts, runs and clusters are not compared: they are
//! recomputed before they matter.

use super::{bits, fixed_header};
use crate::layout::{BadHash, Geometry, GroupHeader, ROOT_INODE};

/// An error in a group block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGroup {
    /// Its check hash is wrong.
    #[error("group {group}: {source}")]
    Hash {
        /// The group.
        group: u64,
        /// The stored and the computed hash.
        source: BadHash,
    },
    /// A field of its header is wrong.
    #[error("group {group}: header field {field} is {found}, expected {expected}")]
    Field {
        /// The group.
        group: u64,
        /// FreeBSD's name of the field.
        field: &'static str,
        /// Its value.
        found: u32,
        /// The required value; for a range, the highest.
        expected: u32,
    },
    /// Its fragment map offers metadata, or fragments behind its end, as free space.
    #[error("group {group}: the fragment map has free what no file may hold")]
    FragmentMap {
        /// The group.
        group: u64,
    },
    /// The inode map of the first group offers reserved inodes, or the root, as free.
    #[error("group {group}: the inode map has the reserved inodes or the root free")]
    InodeMap {
        /// The group.
        group: u64,
    },
}

/// Checks everything that may be relied on in a group block: the hash, the fixed fields of the
/// header, the ranges of the others, and that the maps offer nothing as free that never is.
///
/// # Errors
/// [`BadGroup`] is the first error.
///
/// # Panics
/// When `block` is shorter than a group block, or there is no such group.
pub fn check_group(geometry: &Geometry, group: u64, block: &[u8]) -> Result<(), BadGroup> {
    // The fields first: "no such magic number" says more than a wrong hash.
    check_fields(geometry, group, GroupHeader::of(block))?;
    geometry.verify_group(block).map_err(|source| BadGroup::Hash { group, source })?;
    check_maps(geometry, group, block)
}

/// The fields that follow from the geometry: name, value, and required value.
fn fixed_fields(
    geometry: &Geometry,
    group: u64,
    header: &GroupHeader,
) -> [(&'static str, u32, u32); 10] {
    let fixed = fixed_header(geometry, group);
    [
        ("cg_magic", header.magic, fixed.magic),
        ("cg_cgx", header.index, fixed.index),
        ("cg_ndblk", header.fragments, fixed.fragments),
        ("cg_iusedoff", header.inode_map_offset, fixed.inode_map_offset),
        ("cg_freeoff", header.fragment_map_offset, fixed.fragment_map_offset),
        ("cg_nextfreeoff", header.maps_end_offset, fixed.maps_end_offset),
        ("cg_clustersumoff", header.cluster_sums_offset, fixed.cluster_sums_offset),
        ("cg_clusteroff", header.cluster_map_offset, fixed.cluster_map_offset),
        ("cg_nclusterblks", header.cluster_blocks, fixed.cluster_blocks),
        ("cg_niblk", header.inodes, fixed.inodes),
    ]
    .map(|(field, found, expected)| (field, found.get(), expected.get()))
}

/// The number of fixed fields of a header that fit a geometry, and the number of all.
pub fn count_fitting(geometry: &Geometry, group: u64, header: &GroupHeader) -> (u64, u64) {
    let fields = fixed_fields(geometry, group, header);
    let fitting = fields.iter().filter(|(_, found, expected)| found == expected).count();
    (fitting as u64, fields.len() as u64)
}

fn check_fields(geometry: &Geometry, group: u64, header: &GroupHeader) -> Result<(), BadGroup> {
    for (field, found, expected) in fixed_fields(geometry, group, header) {
        if found != expected {
            return Err(BadGroup::Field { group, field, found, expected });
        }
    }
    let fragments = geometry.group_size_fragments(group) as u32;
    let inodes = geometry.inodes_per_group as u32;
    for (field, found, expected) in [
        ("cg_rotor", header.block_rotor.get(), fragments - 1),
        ("cg_frotor", header.fragment_rotor.get(), fragments - 1),
        ("cg_irotor", header.inode_rotor.get(), inodes - 1),
        ("cg_initediblk", header.initialized_inodes.get(), inodes),
    ] {
        if found > expected {
            return Err(BadGroup::Field { group, field, found, expected });
        }
    }
    let found = header.initialized_inodes.get();
    let partial = found % geometry.inodes_per_block as u32;
    if partial != 0 {
        let expected = found - partial;
        return Err(BadGroup::Field { group, field: "cg_initediblk", found, expected });
    }
    Ok(())
}

fn check_maps(geometry: &Geometry, group: u64, block: &[u8]) -> Result<(), BadGroup> {
    let map = geometry.maps.fragments_in(block);
    let behind = geometry.group_size_fragments(group)..map.len() as u64 * 8;
    let [metadata, summary] = geometry.metadata_offsets(group);
    if ![metadata, summary, behind].into_iter().all(|range| bits::none_set(map, range)) {
        return Err(BadGroup::FragmentMap { group });
    }
    if group == 0 && !bits::all_set(geometry.maps.inodes_in(block), 0..ROOT_INODE + 1) {
        return Err(BadGroup::InodeMap { group });
    }
    Ok(())
}
