//! Check hashes: CRC-32C over a structure whose hash field counts as zero.
//!
//! The register starts with all ones as usual; the usual inversion at the end is left out.

use std::mem::offset_of;

use crc_fast::{CrcAlgorithm, Digest};
use zerocopy::{FromBytes, IntoBytes};

use super::{Dinode, Geometry, GroupHeader, Superblock};

/// A structure that does not fit its check hash: it was damaged, or torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("check hash is {found:#010x}, the bytes give {expected:#010x}")]
pub struct BadHash {
    /// The stored hash.
    pub found: u32,
    /// The hash computed from the bytes.
    pub expected: u32,
}

/// The hash of `bytes` with the 4 bytes at `field` taken as zero.
pub fn check_hash(bytes: &[u8], field: usize) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..field]);
    digest.update(&[0; 4]);
    digest.update(&bytes[field + 4..]);
    // The digest inverts at the end; this format does not.
    !(digest.finalize() as u32)
}

fn compare(found: u32, expected: u32) -> Result<(), BadHash> {
    if found == expected { Ok(()) } else { Err(BadHash { found, expected }) }
}

/// Sealing sets the hash just before a structure is written, verifying checks it just after it was
/// read. Both do nothing on a disk without hashes of that kind.
impl Geometry {
    /// Seals a superblock copy.
    ///
    /// # Panics
    /// When `block` is shorter than [`Geometry::superblock_size`].
    pub fn seal_superblock(&self, block: &mut [u8]) {
        if self.superblock_hashes {
            let block = &mut block[..self.superblock_size as usize];
            let hash = check_hash(block, offset_of!(Superblock, check_hash));
            let (superblock, _) = Superblock::mut_from_prefix(block).expect("longer than a struct");
            superblock.check_hash.set(hash);
        }
    }

    /// Verifies a superblock copy.
    ///
    /// # Errors
    /// [`BadHash`] when the hash does not fit.
    ///
    /// # Panics
    /// As [`Geometry::seal_superblock`].
    pub fn verify_superblock(&self, block: &[u8]) -> Result<(), BadHash> {
        if !self.superblock_hashes {
            return Ok(());
        }
        let block = &block[..self.superblock_size as usize];
        let (superblock, _) = Superblock::ref_from_prefix(block).expect("longer than a struct");
        let expected = check_hash(block, offset_of!(Superblock, check_hash));
        compare(superblock.check_hash.get(), expected)
    }

    /// Seals a group block.
    ///
    /// # Panics
    /// When `block` is shorter than [`Geometry::group_block_size`].
    pub fn seal_group(&self, block: &mut [u8]) {
        if self.group_hashes {
            let block = &mut block[..self.group_block_size as usize];
            let hash = check_hash(block, offset_of!(GroupHeader, check_hash));
            GroupHeader::of_mut(block).check_hash.set(hash);
        }
    }

    /// Verifies a group block.
    ///
    /// # Errors
    /// [`BadHash`] when the hash does not fit.
    ///
    /// # Panics
    /// As [`Geometry::seal_group`].
    pub fn verify_group(&self, block: &[u8]) -> Result<(), BadHash> {
        if !self.group_hashes {
            return Ok(());
        }
        let block = &block[..self.group_block_size as usize];
        let expected = check_hash(block, offset_of!(GroupHeader, check_hash));
        compare(GroupHeader::of(block).check_hash.get(), expected)
    }

    /// Seals an inode. A free one has no hash.
    pub fn seal_inode(&self, inode: &mut Dinode) {
        if self.inode_hashes {
            let hash = if inode.is_free() { 0 } else { inode_hash(inode) };
            inode.check_hash.set(hash);
        }
    }

    /// Verifies an inode. A free one always fits.
    ///
    /// # Errors
    /// [`BadHash`] when the hash does not fit.
    pub fn verify_inode(&self, inode: &Dinode) -> Result<(), BadHash> {
        if !self.inode_hashes || inode.is_free() {
            return Ok(());
        }
        compare(inode.check_hash.get(), inode_hash(inode))
    }
}

fn inode_hash(inode: &Dinode) -> u32 {
    check_hash(inode.as_bytes(), offset_of!(Dinode, check_hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_crc_32c_without_its_last_inversion() {
        // The published check value of CRC-32C is 0xe3069283 for these nine digits.
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(b"123456789");
        assert_eq!(digest.finalize(), 0xe306_9283);
        // A register of all ones after 32 zero bits: the published value is 0x48674bc7.
        assert_eq!(check_hash(&[0; 4], 0), !0x4867_4bc7);
    }

    #[test]
    fn the_hash_field_counts_as_zero() {
        let hash = check_hash(b"aaaa\0\0\0\0bbbb", 4);
        assert_eq!(check_hash(b"aaaaXXXXbbbb", 4), hash);
        assert_ne!(check_hash(b"aaaaXXXXbbbc", 4), hash);
    }
}
