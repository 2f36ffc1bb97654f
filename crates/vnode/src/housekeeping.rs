//! Background work for a volume while it is served, and its clean stop.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use runtime::sync::Permit;
use vfs::FsError;

use crate::engine::{Engine, File};
use crate::files::{Files, Stop};
use crate::planted::{Bug, is_planted};

/// Time that a stop waits for room below.
pub const REFUSED_MOST: Duration = Duration::from_secs(5);
/// Interval between checks for room.
pub const REFUSED_LOOK: Duration = Duration::from_millis(500);

impl<E: Engine> Files<E> {
    /// Writes UNSTABLE data back, and access times, now and then, for as long as the engine lives.
    pub fn start_housekeeping(self: &Rc<Self>, interval: Duration) {
        if self.is_read_only() {
            return;
        }
        let files = Rc::downgrade(self);
        let clock = self.runtime.clock.clone();
        let task = async move {
            loop {
                clock.sleep(interval).await;
                let Some(files) = files.upgrade() else { return };
                if files.has_stopped() || files.stop.get().has_begun {
                    return;
                }
                files.write_back_all().await;
                if !files.stop.get().has_begun {
                    files.engine.write_times().await;
                }
            }
        };
        self.runtime.tasks.spawn(task.boxed_local());
    }

    /// Writes all UNSTABLE data back; data that cannot be written is lost, and the verifier
    /// changes.
    pub(crate) async fn write_back_all(&self) {
        let nodes: Vec<File<E>> = self.dirty_files.borrow().values().cloned().collect();
        for node in nodes {
            let _alone = node.lock.exclusive().await;
            self.write_back_unasked(&node).await;
        }
    }

    /// Waits until all requested work is done: UNSTABLE data written back, files without names
    /// freed, all of it durable.
    ///
    /// # Errors
    /// [`FsError::Io`] when the volume has stopped.
    pub async fn quiesce(&self) -> Result<(), FsError> {
        self.write_back_all().await;
        let all_home = async {
            self.wait_for_orphans().await;
            drop(self.all_places_among_chains().await);
            self.engine.settle().await
        };
        // If there is no room, the next start writes it in place, or drops it if no caller got a
        // reply.
        self.unless_refused(async { Ok(all_home.await?) }).await?;
        while self.more_space().await {}
        self.check_running()
    }

    /// Runs `work`, unless Updates wait for room below for too long.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] then, besides those of `work`.
    async fn unless_refused<T>(
        &self,
        work: impl Future<Output = Result<T, FsError>>,
    ) -> Result<T, FsError> {
        match select(pin!(work), pin!(self.refused_for_long())).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => Err(FsError::NoSpace),
        }
    }

    /// Completes when the log has waited for room below for [`REFUSED_MOST`].
    async fn refused_for_long(&self) {
        let clock = &self.runtime.clock;
        let mut since = clock.now();
        loop {
            clock.sleep(REFUSED_LOOK).await;
            let now = clock.now();
            if !self.is_waiting_for_room() {
                since = now;
            }
            if now.since(since) >= REFUSED_MOST {
                return;
            }
        }
    }

    /// Leaves the disk clean. Large files that are being freed stay as they are, if the engine
    /// keeps chains: no client is kept waiting for them. Truncations come to their ends. A stop
    /// that found no room below can be tried again, from where it was; after any other stop this
    /// returns the result of that one.
    pub(crate) async fn close(&self) -> Result<(), FsError> {
        let stop = self.stop.get();
        if self.is_read_only() || stop.has_begun {
            return stop.result;
        }
        self.stop.set(Stop { has_begun: true, ..stop });
        let result = self.stop_in_order().await;
        let may_be_tried = result == Err(FsError::NoSpace);
        self.stop.set(Stop { has_begun: !may_be_tried, result, ..self.stop.get() });
        if may_be_tried {
            self.resume_orphans().await;
        }
        result
    }

    async fn stop_in_order(&self) -> Result<(), FsError> {
        let _snapshots_stay = self.end_snapshot_changes().await?;
        if !self.stop.get().is_at_rest {
            self.end_background().await?;
            self.check_running()?;
            self.quiesce().await?;
            if !self.engine.keeps_chains() {
                self.check_nothing_stuck()?;
            }
            self.engine.come_to_rest().await?;
            self.stop.set(Stop { is_at_rest: true, ..self.stop.get() });
        }
        self.engine.close().await
    }

    /// Ends the engine's background task, whose last change may wait for room below.
    async fn end_background(&self) -> Result<(), FsError> {
        if is_planted(Bug::EndlessBackground) {
            self.engine.end_background().await;
            return Ok(());
        }
        let ended = async {
            self.engine.end_background().await;
            Ok(())
        };
        self.unless_refused(ended).await
    }

    /// Waits for a change of the set of snapshots, if one is under way; no other one begins then.
    async fn end_snapshot_changes(&self) -> Result<Option<Permit>, FsError> {
        let Some(book) = &self.snapshots else { return Ok(None) };
        self.unless_refused(async { Ok(Some(book.changing.exclusive().await)) }).await
    }
}
