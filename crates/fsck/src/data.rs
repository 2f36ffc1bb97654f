//! The data of every file: whether the disk can still read it.

use futures::stream::{self, StreamExt};

use super::Severity::Loss;
use super::blocks::{Purpose, READS_IN_FLIGHT};
use super::{CheckError, Checker, Invariant, Phase, Place};

impl Checker<'_> {
    /// Reads every block of every file.
    ///
    /// # Errors
    /// [`CheckError::Device`] for metadata; unreadable data is a finding.
    pub(super) async fn read_all_data(&mut self) -> Result<(), CheckError> {
        self.take_inodes(Purpose::Data, Phase::Data).await
    }

    /// Reads the blocks that a walk has gathered, in the order of the disk.
    pub(super) async fn read_data(&mut self) {
        let mut data = std::mem::take(&mut self.data);
        data.sort_by_key(|pointer| pointer.address);
        let (disk, geometry) = (&self.disk, &self.geometry);
        let reads = stream::iter(&data).map(|pointer| async move {
            let bytes = (pointer.run * geometry.fragment_size) as usize;
            disk.read_data(geometry.byte_address(pointer.address), bytes).await.map(drop)
        });
        let read: Vec<Result<(), _>> = reads.buffered(READS_IN_FLIGHT).collect().await;
        for (pointer, result) in data.iter().zip(read) {
            if let Err(error) = result {
                let place = Place::inode(pointer.ino).block(pointer.lbn).fragment(pointer.address);
                self.log.leave(Invariant::Data, Loss, place, error, "data");
            }
        }
        data.clear();
        self.data = data;
    }
}
