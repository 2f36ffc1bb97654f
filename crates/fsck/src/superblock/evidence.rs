//! Evidence on the rest of the disk for a superblock: headers of a few groups, their rows in the
//! summary area, and the check hashes that are kept.

use ufs2::derive;
use ufs2::layout::{
    Dinode, GROUP_MAGIC, Geometry, GroupHeader, INODE_SIZE, Summary, hashes as kinds,
};
use zerocopy::FromBytes;

use super::candidates::{read_at, sample};
use crate::CheckError;
use crate::overlay::Overlay;

/// The weight of a check hash that fits, or a summary row that agrees, in fields.
const AGREEMENT: u64 = 5;
/// The unit of scores, which are averages over the sampled groups.
const SCALE: u64 = 1000;

/// How well a geometry fits the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// For comparisons between geometries.
    pub(super) score: u64,
    /// At least one group has a header that fits but for a field or two.
    pub(super) fits: bool,
}

/// The geometry of a disk that keeps hashes of every kind.
fn with_all_hashes(geometry: &Geometry) -> Geometry {
    let mut geometry = geometry.clone();
    geometry.superblock_hashes = true;
    geometry.group_hashes = true;
    geometry.inode_hashes = true;
    geometry
}

/// Reads a group block, little-endian; its hash fits there if it fits on the disk.
async fn group_block(
    disk: &Overlay<'_>,
    geometry: &Geometry,
    group: u64,
) -> Result<Option<Vec<u8>>, CheckError> {
    let address = geometry.byte_address(geometry.group_header_fragment(group));
    let mut block = read_at(disk, address, geometry.group_block_size as usize).await?;
    if let Some(block) = &mut block {
        geometry.turn_group(block);
    }
    Ok(block)
}

async fn summary_row(
    disk: &Overlay<'_>,
    geometry: &Geometry,
    group: u64,
) -> Result<Option<Summary>, CheckError> {
    let size = size_of::<Summary>();
    let address = geometry.byte_address(geometry.summary_address) + group * size as u64;
    let Some(mut row) = read_at(disk, address, size).await? else { return Ok(None) };
    geometry.turn_summary(&mut row);
    Ok(Summary::read_from_bytes(&row).ok())
}

/// Compares a geometry with a few groups.
pub(super) async fn weigh(disk: &Overlay<'_>, geometry: &Geometry) -> Result<Evidence, CheckError> {
    let geometry = with_all_hashes(geometry);
    let groups = sample(geometry.group_count);
    let (mut points, mut fits) = (0, false);
    for &group in &groups {
        let Some(block) = group_block(disk, &geometry, group).await? else { continue };
        let header = GroupHeader::of(&block);
        let (fitting, fields) = derive::count_fitting(&geometry, group, header);
        fits |= fitting + 2 >= fields;
        points += fitting;
        if geometry.verify_group(&block).is_ok() {
            points += AGREEMENT;
        }
        let is_header = header.magic.get() == GROUP_MAGIC;
        if is_header && summary_row(disk, &geometry, group).await? == Some(header.counts) {
            points += AGREEMENT;
        }
    }
    let score = points * SCALE / groups.len() as u64;
    // Any mkfs puts the summary area there; only a grown volume has it elsewhere.
    let first = u64::from(geometry.summary_address == geometry.first_data_fragment(0));
    Ok(Evidence { score: score + first, fits })
}

/// Whether group blocks or inodes have check hashes, judged by a few groups; nothing when they do
/// not show it.
pub(super) async fn are_kept(
    disk: &Overlay<'_>,
    geometry: &Geometry,
    kind: u32,
) -> Result<Option<bool>, CheckError> {
    let geometry = with_all_hashes(geometry);
    let mut tally = Tally::default();
    for group in sample(geometry.group_count) {
        let Some(block) = group_block(disk, &geometry, group).await? else { continue };
        let header = GroupHeader::of(&block);
        if header.magic.get() != GROUP_MAGIC {
            continue;
        }
        if kind == kinds::GROUP {
            tally.count(header.check_hash.get(), geometry.verify_group(&block).is_ok());
            continue;
        }
        let address = geometry.byte_address(geometry.inode_table_fragment(group));
        let initialized = u64::from(header.initialized_inodes.get());
        let inodes = initialized.min(geometry.inodes_per_block) * INODE_SIZE;
        let Some(mut table) = read_at(disk, address, inodes as usize).await? else { continue };
        geometry.turn_inodes(&mut table);
        for offset in (0..inodes as usize).step_by(INODE_SIZE as usize) {
            let inode = Dinode::at(&table, offset);
            if !inode.is_free() {
                tally.count(inode.check_hash.get(), geometry.verify_inode(inode).is_ok());
            }
        }
    }
    Ok(tally.verdict())
}

/// Structures whose hash fits, and others. A hash of 0 is none, whatever it should be.
#[derive(Default)]
struct Tally {
    fitting: u64,
    other: u64,
}

impl Tally {
    fn count(&mut self, hash: u32, fits: bool) {
        if fits && hash != 0 {
            self.fitting += 1;
        } else {
            self.other += 1;
        }
    }

    /// A few damaged ones do not count against many that fit; but a system that stopped keeping
    /// hashes left the old ones where nothing was written since.
    fn verdict(&self) -> Option<bool> {
        if self.fitting > 0 && self.fitting >= 8 * self.other {
            Some(true)
        } else {
            (self.fitting == 0 && self.other > 0).then_some(false)
        }
    }
}
