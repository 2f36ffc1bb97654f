//! The label of an unmounted file system: a name for people, in its superblock.
//!
//! **Commit point**: the write of the superblock, in place. It changes the label, in the second
//! sector, and the hash, in the third: a crash between them leaves a wrong hash. So the write
//! before it sets NEEDSFSCK, and one after it clears that; both change only the third sector, which
//! is written atomically. *Clean* together with NEEDSFSCK is the state that a torn mark of ours
//! leaves ([`ufs2::mark`]): the next opening checks for the effects of a crash, rewrites the hash,
//! and goes on. The copies of the superblock keep the old label, as after FreeBSD's `tunefs`.

use std::mem::offset_of;

use block::BlockDevice;
use ufs2::layout::{ByteOrder, SECTOR_SIZE, Superblock, flags};

use crate::open_error::OpenError;
use crate::recovery::Unopened;

/// The sectors of the fields between which the three writes may tear.
const _: () = {
    const SECTOR: usize = SECTOR_SIZE as usize;
    assert!(offset_of!(Superblock, volume_name) / SECTOR == 1);
    assert!((offset_of!(Superblock, volume_name) + ufs2::label::MOST) / SECTOR == 1);
    assert!(offset_of!(Superblock, flags) / SECTOR == 2);
};

/// Changes the label of a file system that was stopped cleanly and that no system has open.
///
/// # Errors
/// [`OpenError`] if there is no file system that we can use, or its device fails.
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
