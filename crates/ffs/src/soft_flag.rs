//! The superblock flag that says that a file system uses soft updates. On a disk that has no
//! settings beside it, the flag selects the policy under which it is served.
//!
//! **Commit point**: the write of the superblock, in place. It changes the flags and the hash, both
//! in the third sector, which is written at once.

use std::mem::offset_of;

use block::BlockDevice;
use ufs2::layout::{ByteOrder, SECTOR_SIZE, Superblock, flags};

use crate::open_error::OpenError;
use crate::recovery::Unopened;

const _: () = {
    const SECTOR: usize = SECTOR_SIZE as usize;
    assert!(offset_of!(Superblock, flags) / SECTOR == 2);
    assert!(offset_of!(Superblock, check_hash) / SECTOR == 2);
};

/// Sets or clears the flag. The file system was stopped cleanly, and no system has it open.
///
/// # Errors
/// [`OpenError`] if there is no file system that we can use, or its device fails.
///
/// # Panics
/// If the file system is big-endian.
pub async fn set(device: &dyn BlockDevice, is_set: bool) -> Result<(), OpenError> {
    let Unopened { geometry, mut superblock } = Unopened::read(device).await?;
    assert_eq!(geometry.byte_order, ByteOrder::Little, "the other is only read");
    let field = &mut superblock.superblock().flags;
    let others = field.get() & !flags::SOFT_UPDATES;
    field.set(if is_set { others | flags::SOFT_UPDATES } else { others });
    superblock.write(device, &geometry).await?; // the commit point
    Ok(())
}
