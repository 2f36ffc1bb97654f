//! The label of a file system that nobody has open: a name for people, in its superblock.
//!
//! **Commit point**: the write of the superblock, in place. A cut that tears it between two sectors
//! leaves a hash that does not fit: then whatever opens it says so, and a repair mends it. The
//! copies of the superblock keep the old label, as after `tunefs` of FreeBSD.

use block::BlockDevice;
use ufs2::layout::ByteOrder;

use crate::mount::{Found, OpenError};

/// Gives a file system another label. It was stopped cleanly, and nobody has it.
///
/// # Errors
/// [`OpenError`] when there is no file system that we can use, or its device fails.
///
/// # Panics
/// If the label [is not legal](ufs2::label::is_legal), or the file system is big-endian.
pub async fn set(device: &dyn BlockDevice, label: &str) -> Result<(), OpenError> {
    assert!(ufs2::label::is_legal(label), "{label:?} is no label");
    let Found { geometry, mut superblock } = Found::read(device).await?;
    assert_eq!(geometry.byte_order, ByteOrder::Little, "the other is only read");
    let name = &mut superblock.superblock().volume_name;
    name.fill(0);
    name[..label.len()].copy_from_slice(label.as_bytes());
    superblock.write(device, &geometry).await?;
    Ok(())
}
