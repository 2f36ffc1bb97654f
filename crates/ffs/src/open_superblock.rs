//! The superblock of an open volume, with the changes for a clean stop.

use block::{BlockDevice, Durability};
use bytes::Bytes;
use runtime::Timestamp;
use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, Summary, Superblock, Totals, flags};
use ufs2::mark::{self, PolicyKind};

/// Maximum length of an old last-mount field that is restored: it must end in the first sector.
const LAST_MOUNT_KEPT: usize = 512 - std::mem::offset_of!(Superblock, last_mount);

/// The superblock of an open volume.
pub(crate) struct OpenSuperblock {
    /// All bytes of the block, which are written together.
    pub(crate) block: Vec<u8>,
    /// The last-mount field before our mark.
    last_mount: Vec<u8>,
}

impl OpenSuperblock {
    /// The superblock in a block that was read.
    pub(crate) fn new(block: Vec<u8>) -> Self {
        Self { block, last_mount: Vec::new() }
    }

    /// Remembers the last-mount field, to restore it later.
    pub(crate) fn keep_last_mount(&mut self) {
        let old = &self.superblock().last_mount;
        let end = old.iter().position(|&byte| byte == 0).unwrap_or(0);
        self.last_mount = old[..end.min(LAST_MOUNT_KEPT)].to_vec();
    }

    pub(crate) fn superblock(&mut self) -> &mut Superblock {
        Superblock::of_mut(&mut self.block)
    }

    /// Writes it and waits until it is durable.
    pub(crate) async fn write(
        &mut self,
        device: &dyn BlockDevice,
        geometry: &Geometry,
    ) -> Result<(), block::IoError> {
        let sealed = self.sealed(geometry);
        Self::write_sealed(device, sealed).await
    }

    /// The sealed bytes to write.
    pub(crate) fn sealed(&mut self, geometry: &Geometry) -> Bytes {
        geometry.seal_superblock(&mut self.block);
        block::Buffer::copied(&self.block[..geometry.superblock_size as usize]).freeze()
    }

    /// Writes sealed bytes and waits until they are durable.
    pub(crate) async fn write_sealed(
        device: &dyn BlockDevice,
        sealed: Bytes,
    ) -> Result<(), block::IoError> {
        device.write(SUPERBLOCK_ADDRESS, vec![sealed], Durability::Plain).await?;
        device.flush().await
    }

    pub(crate) fn mark(&mut self, policy: PolicyKind, nonce: u64, now: Timestamp) {
        let superblock = self.superblock();
        superblock.time.set(now.seconds);
        if policy == PolicyKind::SoftUpdates {
            // Other systems then go on with soft updates; 'duramen tune' clears the flag.
            superblock.flags.set(superblock.flags.get() | flags::SOFT_UPDATES);
        }
        mark::put(superblock, policy.name(), nonce);
    }

    pub(crate) fn unmark(&mut self) {
        let old = self.last_mount.clone(); // cloned, since a caller may retry after a failed write
        let superblock = self.superblock();
        superblock.clean = 1;
        superblock.flags.set(superblock.flags.get() & !flags::NEEDS_FSCK);
        superblock.last_mount.fill(0);
        superblock.last_mount[..old.len()].copy_from_slice(&old);
    }

    pub(crate) fn set_totals(&mut self, rows: &[Summary]) {
        self.superblock().totals = Totals::of(rows);
        self.superblock().pending_sectors.set(0);
        self.superblock().pending_inodes.set(0);
    }
}
