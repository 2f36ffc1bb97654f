//! The label of a file system that no system has open: a name for people, in its superblock.
//!
//! **Commit point**: the write of the superblock, in place. It changes the label, in the second
//! sector, and the hash, in the third: a cut between them leaves a hash that does not fit. So the
//! write before it sets NEEDSFSCK, and one behind it takes that back; both change the third sector
//! alone, which is written at once. *Clean* together with NEEDSFSCK is what a torn mark of ours
//! leaves ([`ufs2::mark`]): the next opening checks what a cut can leave, writes the hash anew,
//! and goes on. The copies of the superblock keep the old label, as after `tunefs` of FreeBSD.

use std::mem::offset_of;

use block::BlockDevice;
use ufs2::layout::{ByteOrder, SECTOR_SIZE, Superblock, flags};

use crate::open_error::OpenError;
use crate::recovery::Unopened;

/// Where each sector of the superblock ends that the three writes tear between.
const _: () = {
    const SECTOR: usize = SECTOR_SIZE as usize;
    assert!(offset_of!(Superblock, volume_name) / SECTOR == 1);
    assert!((offset_of!(Superblock, volume_name) + ufs2::label::MOST) / SECTOR == 1);
    assert!(offset_of!(Superblock, flags) / SECTOR == 2);
};

/// Gives a file system another label. It was stopped cleanly, and no system has it open.
///
/// # Errors
/// [`OpenError`] when there is no file system that we can use, or its device fails.
///
/// # Panics
/// If the label [is not legal](ufs2::label::is_legal), or the file system is big-endian.
pub async fn set(device: &dyn BlockDevice, label: &str) -> Result<(), OpenError> {
    assert!(ufs2::label::is_legal(label), "{label:?} is no label");
    let Unopened { geometry, mut superblock } = Unopened::read(device).await?;
    assert_eq!(geometry.byte_order, ByteOrder::Little, "the other is only read");
    let flags = superblock.superblock().flags.get();
    superblock.superblock().flags.set(flags | flags::NEEDS_FSCK);
    superblock.write(device, &geometry).await?;
    let name = &mut superblock.superblock().volume_name;
    name.fill(0);
    name[..label.len()].copy_from_slice(label.as_bytes());
    superblock.write(device, &geometry).await?; // the commit point
    superblock.superblock().flags.set(flags);
    superblock.write(device, &geometry).await?;
    Ok(())
}
