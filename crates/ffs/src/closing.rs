//! A clean stop of an engine: everything is written in place, and the disk is marked clean, unless
//! reclaim has not finished.

use ufs2::layout::{GroupHeader, Summary};
use vfs::FsError;
use vnode::{REFUSED_LOOK, REFUSED_MOST};

use crate::engine::Ffs;
use crate::open_superblock::OpenSuperblock;
use crate::planted::{Bug, is_planted};
use crate::recovery::summary_rows;

impl Ffs {
    /// Writes everything in place except the clean mark.
    pub(crate) async fn come_to_rest(&self) -> Result<(), FsError> {
        if self.keeps_mark() {
            return Ok(());
        }
        let rows = self.true_rows().await?;
        let geometry = self.home.geometry().clone();
        let mut area = vec![0; (geometry.summary_fragments * geometry.fragment_size) as usize];
        Summary::rows_mut(&mut area)[..rows.len()].copy_from_slice(&rows);
        let area = block::Buffer::copied(&area).freeze();
        let write = async || self.home.write(geometry.summary_address, vec![area.clone()]).await;
        self.patiently(write).await?;
        self.superblock.borrow_mut().set_totals(&rows);
        if !is_planted(Bug::HastyStop) {
            self.write_superblock().await?;
        }
        match self.policy.beside() {
            Some(beside) => Ok(beside.close().await?),
            None => Ok(()),
        }
    }

    /// Whether leaks of a crash may remain: then the volume is not clean, and the next start looks
    /// for them again.
    fn keeps_mark(&self) -> bool {
        self.leftovers().is_some() && !is_planted(Bug::CleanReclaim)
    }

    /// Clears the mark.
    pub(crate) async fn close(&self) -> Result<(), FsError> {
        if self.keeps_mark() {
            if let Some(beside) = self.policy.beside() {
                beside.close().await?;
            }
            return self.home.device().close().await.map_err(|_| FsError::Io);
        }
        self.superblock.borrow_mut().unmark();
        let written = self.write_superblock().await;
        if written != Err(FsError::NoSpace) {
            // Nothing must reach the disk after a mark that may be gone, whatever the outcome.
            self.home.device().close().await.map_err(|_| FsError::Io)?;
        }
        written
    }

    /// Writes the superblock and waits until it is durable.
    async fn write_superblock(&self) -> Result<(), FsError> {
        let (device, geometry) = (self.home.device(), self.home.geometry());
        self.patiently(async || {
            let block = self.superblock.borrow_mut().sealed(geometry);
            OpenSuperblock::write_sealed(&**device, block).await
        })
        .await
    }

    /// Writes, and retries for [`REFUSED_MOST`] while the device below is full.
    async fn patiently(
        &self,
        mut write: impl AsyncFnMut() -> Result<(), block::IoError>,
    ) -> Result<(), FsError> {
        let clock = &self.runtime.clock;
        let begun = clock.now();
        loop {
            match write().await {
                Ok(()) => return Ok(()),
                Err(error) if !error.is_full() => return Err(FsError::Io),
                Err(_) if clock.now().since(begun) >= REFUSED_MOST => return Err(FsError::NoSpace),
                Err(_) => clock.sleep(REFUSED_LOOK).await,
            }
        }
    }

    /// The summary row of every group; for groups in memory, derived from the maps.
    async fn true_rows(&self) -> Result<Vec<Summary>, FsError> {
        let mut rows = summary_rows(&self.home).await?;
        let geometry = self.home.geometry();
        for (group, row) in rows.iter_mut().enumerate() {
            let address = geometry.group_header_fragment(group as u64);
            if let Some(buffer) = self.home.cached(address) {
                let mut copy = buffer.read(<[u8]>::to_vec);
                *row = ufs2::derive::recompute_group(geometry, group as u64, &mut copy);
                debug_assert_eq!(GroupHeader::of(&copy).counts, *row);
            }
        }
        Ok(rows)
    }
}
