//! What is done for a volume while it is open, and what stops it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use ufs2::layout::{GroupHeader, Summary};
use vfs::FsError;

use crate::candidate::summary_rows;
use crate::engine::Ffs;
use crate::inode::Node;
use crate::open_superblock::{OpenSuperblock, Stop};
use crate::planted::{Bug, is_planted};

/// So long a stop waits for room below.
const REFUSED_MOST: Duration = Duration::from_secs(5);
/// How often it looks.
const REFUSED_LOOK: Duration = Duration::from_millis(500);

impl Ffs {
    /// Writes UNSTABLE data back, and access times, now and then, for as long as the engine lives.
    pub(crate) fn start_housekeeping(self: &Rc<Self>, interval: Duration) {
        if self.read_only {
            return;
        }
        let engine = Rc::downgrade(self);
        let clock = self.runtime.clock.clone();
        let task = async move {
            loop {
                clock.sleep(interval).await;
                let Some(engine) = engine.upgrade() else { return };
                if engine.policy.has_stopped() || engine.is_closed() {
                    return;
                }
                engine.write_back_all().await;
                if !engine.home.dirty_buffers().is_empty() {
                    let _ = engine.policy.settle().await; // a failure has stopped the volume
                }
            }
        };
        self.runtime.tasks.spawn(task.boxed_local());
    }

    /// Writes all UNSTABLE data back; what cannot be is lost, and the verifier says so.
    async fn write_back_all(&self) {
        let nodes: Vec<Rc<Node>> = self.dirty_nodes.borrow().values().cloned().collect();
        for node in nodes {
            let _alone = node.lock.exclusive().await;
            self.write_back_unasked(&node).await;
        }
    }

    /// Waits until everything that was asked for is done: UNSTABLE data written back, files without
    /// names freed, all of it durable.
    ///
    /// # Errors
    /// [`FsError::Io`] when the volume has stopped.
    pub async fn quiesce(&self) -> Result<(), FsError> {
        self.write_back_all().await;
        let all_home = async {
            self.wait_for_orphans().await;
            self.wait_for_chains().await;
            self.policy.settle().await
        };
        match select(pin!(all_home), pin!(self.refused_for_long())).await {
            Either::Left((settled, _)) => settled?,
            // The next start brings it home, or gives it up if nobody was told of it.
            Either::Right(_) => return Err(FsError::NoSpace),
        }
        while self.wait_for_space().await {}
        self.check_running()
    }

    /// Completes when what the log has has waited for room below for [`REFUSED_MOST`].
    async fn refused_for_long(&self) {
        let clock = &self.runtime.clock;
        let mut since = clock.now();
        loop {
            clock.sleep(REFUSED_LOOK).await;
            let now = clock.now();
            if !self.home.data().refusals().is_waiting() {
                since = now;
            }
            if now.since(since) >= REFUSED_MOST {
                return;
            }
        }
    }

    /// Leaves the disk clean: see the module's prose. A stop that found no room below can be tried
    /// again, from where it was; after any other one this says what that came to.
    pub(crate) async fn close(&self) -> Result<(), FsError> {
        if self.read_only {
            return Ok(());
        }
        let Some(mut open) = self.superblock.take() else { return self.stop.get().result };
        let result = self.stop_with(&mut open).await;
        self.stop.set(Stop { result, ..self.stop.get() });
        if result == Err(FsError::NoSpace) {
            self.superblock.replace(Some(open));
        }
        result
    }

    async fn stop_with(&self, open: &mut OpenSuperblock) -> Result<(), FsError> {
        let (device, geometry) = (self.home.device().clone(), self.home.geometry().clone());
        if !self.stop.get().is_at_rest {
            self.come_to_rest(open).await?;
            self.stop.set(Stop { is_at_rest: true, ..self.stop.get() });
        }
        open.unmark();
        let result = self.patiently(async || open.write(&*device, &geometry).await).await;
        if result != Err(FsError::NoSpace) {
            device.close().await.map_err(|_| FsError::Io)?;
        }
        result
    }

    /// Brings everything home but what says that all is there.
    async fn come_to_rest(&self, open: &mut OpenSuperblock) -> Result<(), FsError> {
        self.check_running()?;
        self.quiesce().await?;
        self.check_nothing_stuck()?;
        let rows = self.true_rows().await?;
        let (device, geometry) = (self.home.device().clone(), self.home.geometry().clone());
        let mut area = vec![0; (geometry.summary_fragments * geometry.fragment_size) as usize];
        Summary::rows_mut(&mut area)[..rows.len()].copy_from_slice(&rows);
        let area = block::Buffer::copied(&area).freeze();
        let write = async || self.home.write(geometry.summary_address, vec![area.clone()]).await;
        self.patiently(write).await?;
        open.set_totals(&rows);
        if !is_planted(Bug::HastyStop) {
            self.patiently(async || open.write(&*device, &geometry).await).await?;
        }
        Ok(self.policy.close().await?)
    }

    /// Writes something, again and again while that finds no room below, for [`REFUSED_MOST`].
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

    /// The summary row of every group: of those in memory, from the maps.
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
