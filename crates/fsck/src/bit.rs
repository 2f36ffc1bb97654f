//! Repair of one wrong bit in a structure with a check hash: the hash shows which.
//!
//! Where one bit explains why a structure does not fit its hash, and the structure is perfectly
//! plausible with that bit put back, all of it is as it was written, and none of its fields is
//! doubted or has to be guessed. See [`ufs2::layout::wrong_bit`] for why at most one bit can do it,
//! and why plausibility must be checked.
//!
//! A disk of the other byte order is never repaired, so its hashes are only compared.

use std::mem::offset_of;

use ufs2::derive::check_group;
use ufs2::layout::{
    BitPosition, ByteOrder, Dinode, Geometry, GroupHeader, ROOT_INODE, check_hash, wrong_bit,
};
use zerocopy::IntoBytes;

use super::Severity::Repairable;
use super::{CheckError, Checker, Invariant, Log, Place, fields};
use crate::planted::{Bug, is_planted};

/// The repair text of a finding about a single bit.
pub(super) const PUT_BACK: &str = "one bit put back: the check hash fits then";

/// Fields of an inode by FreeBSD's names, and the bytes at which they begin.
const INODE_FIELDS: [(usize, &str); 26] = [
    (0, "di_mode"),
    (2, "di_nlink"),
    (4, "di_uid"),
    (8, "di_gid"),
    (12, "di_blksize"),
    (16, "di_size"),
    (24, "di_blocks"),
    (32, "di_atime"),
    (40, "di_mtime"),
    (48, "di_ctime"),
    (56, "di_birthtime"),
    (64, "di_mtimensec"),
    (68, "di_atimensec"),
    (72, "di_ctimensec"),
    (76, "di_birthnsec"),
    (80, "di_gen"),
    (84, "di_kernflags"),
    (88, "di_flags"),
    (92, "di_extsize"),
    (96, "di_extb"),
    (112, "di_db"),
    (208, "di_ib"),
    (232, "di_modrev"),
    (240, "di_freelink"),
    (244, "di_ckhash"),
    (248, "di_spare"),
];

/// Puts the one wrong bit of an inode back. Returns whether there was one.
pub(super) fn mend_inode(
    geometry: &Geometry,
    ino: u64,
    dinode: &mut Dinode,
    log: &mut Log,
) -> bool {
    let Some((right, wrong)) = right_inode(geometry, dinode) else { return false };
    let known = INODE_FIELDS.iter().rev().find(|(start, _)| *start <= wrong.byte);
    let (_, name) = known.expect("the first begins at byte 0");
    let place = Place::inode(ino).offset(wrong.byte as u64).named(*name);
    let hash = check_hash(dinode.as_bytes(), offset_of!(Dinode, check_hash));
    let (found, expected) = (fields::hex(dinode.check_hash.get()), fields::hex(hash));
    if ino < ROOT_INODE
        || !log.find(Invariant::InodeHash, Repairable, place, found, expected, PUT_BACK)
    {
        return false;
    }
    *dinode = right;
    true
}

/// The inode with its wrong bit put back, if one bit is wrong and the result is plausible.
fn right_inode(geometry: &Geometry, dinode: &Dinode) -> Option<(Dinode, BitPosition)> {
    let bears_hash = geometry.inode_hashes
        && geometry.byte_order == ByteOrder::Little
        && dinode.check_hash.get() != 0;
    if !bears_hash || !dinode.is_free() && geometry.verify_inode(dinode).is_ok() {
        return None;
    }
    let wrong = wrong_bit(dinode.as_bytes(), offset_of!(Dinode, check_hash))?;
    let mut right = *dinode;
    wrong.flip(right.as_mut_bytes());
    // A free inode may bear the hash of a file that it was: only its mode can have been lost.
    let was_file = !right.is_free() && (!dinode.is_free() || right.links.get() != 0);
    let makes_sense =
        fields::implausible(geometry, &right) == 0 || is_planted(Bug::BitsWithoutSense);
    (was_file && makes_sense).then_some((right, wrong))
}

impl Checker<'_> {
    /// Puts the one wrong bit of a group block back, on the disk too.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn mend_group_bit(
        &mut self,
        group: u64,
        block: &mut [u8],
    ) -> Result<(), CheckError> {
        let geometry = &self.geometry;
        let size = geometry.group_block_size as usize;
        // A crash leaves sectors of two versions, which look the same as a wrong bit.
        let is_asked = self.thorough && geometry.byte_order == ByteOrder::Little;
        if !is_asked || geometry.verify_group(block).is_ok() {
            return Ok(());
        }
        let Some(wrong) = wrong_bit(&block[..size], offset_of!(GroupHeader, check_hash)) else {
            return Ok(());
        };
        let mut right = block.to_vec();
        wrong.flip(&mut right);
        if check_group(geometry, group, &right).is_err() {
            return Ok(());
        }
        let hash = check_hash(&block[..size], offset_of!(GroupHeader, check_hash));
        let stored = GroupHeader::of(block).check_hash.get();
        let (found, expected) = (fields::hex(stored), fields::hex(hash));
        let place = Place::group(group).offset(wrong.byte as u64);
        if self.log.find(Invariant::GroupHash, Repairable, place, found, expected, PUT_BACK) {
            let start = self.geometry.group_header_fragment(group);
            let byte = self.geometry.byte_address(start) + wrong.byte as u64;
            self.disk.put(byte, &right[wrong.byte..=wrong.byte]).await?;
            block.copy_from_slice(&right);
        }
        Ok(())
    }
}
