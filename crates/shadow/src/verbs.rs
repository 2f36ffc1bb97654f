//! The verbs of the engine.

use block::IoError;
use cow::Balance;
use cow::files::Freed;
use cow::floor::File;
use cow::update::Placed;
use vfs::{
    CallReply, Credentials, Depends, FsError, FsStat, Sequence, SnapshotNumber, SnapshotUsage,
};
use vnode::{Engine, Space as Kind};

use crate::commit::{Commits, Staged};
use crate::engine::{Shadow, Update};
use crate::planted::{Bug, is_planted};
use crate::snapshots::Worked;
use crate::work::Work;

/// An Update that is visible to all readers, its work on snapshots, and the units that it frees.
type Applied = (cow::apply::Applied<Commits>, Worked, u64);

impl Engine for Shadow {
    cow::verbs!(Commits);
    cow::snapshot_verbs!();

    type Applied = Applied;

    fn space(&self, who: &Credentials, orphans: (u64, u64)) -> FsStat {
        self.fullness(who.is_root(), orphans)
    }

    fn claim(&self, blocks: u64, kind: Kind) -> Result<(), FsError> {
        if blocks > 0 && !self.floor.has_room(blocks, 0, kind, true) {
            return Err(FsError::NoSpace);
        }
        self.space.claim(blocks);
        Ok(())
    }

    fn release(&self, blocks: u64) {
        self.space.release(blocks);
    }

    async fn delete_held(
        &self,
        update: &mut Update,
        tree: SnapshotNumber,
    ) -> Result<bool, FsError> {
        self.plan_step(update, tree).await
    }

    fn snapshot_usage(&self, trees: &[SnapshotNumber]) -> Vec<SnapshotUsage> {
        self.pins.usage(trees, &self.commits.unlisted())
    }

    async fn reserve(&self, mut update: Update) -> Result<Update, FsError> {
        if let Some(change) = update.asked.take() {
            self.plan_change(&mut update, change).await?;
        }
        // No update goes out while these wait.
        let may_wait = !matches!(update.work, Some(Work::Pin(..) | Work::RollBack(..)));
        self.floor.reserve(update, may_wait).await
    }

    fn apply(&self, ready: Update, see: impl FnMut(&File, Sequence)) -> (Sequence, Applied) {
        let is_move = |block: &Placed| block.was.is_some();
        let loses_pins = is_planted(Bug::MovedPins) && ready.blocks.iter().any(is_move);
        let mut applied = self.floor.apply_all(ready, see);
        (0..applied.given_up).for_each(|_| self.commits.note_given_up());
        if loses_pins {
            let died = applied.balance.died.drain(..);
            applied.balance.freed.extend(died.map(|(run, _)| run));
        }
        let work = applied.work.take().map(|work| self.work(work, &mut applied.balance.freed));
        let worked = work.unwrap_or_default();
        let freed = applied.balance.freed.iter().chain(&worked.unheld);
        let units = freed.map(|run| run.length).sum();
        self.floor.leaving_units.set(self.floor.leaving_units.get() + units);
        (Sequence(applied.sequence), (applied, worked, units))
    }

    fn stage(
        &self,
        (applied, worked, units): Applied,
        answered: Option<(CallReply, Depends)>,
    ) -> Option<Freed> {
        let cow::apply::Applied { sequence, balance, written, riding, .. } = applied;
        let Balance { taken, freed, died } = balance;
        let Worked { pin, hold, unheld } = worked;
        let now = self.runtime.clock.wall();
        let mut answer = answered.map(|(answered, _)| vnode::answer::write(now, &answered));
        if is_planted(Bug::LateAnswers) {
            std::mem::swap(&mut answer, &mut self.late_answer.borrow_mut());
        }
        self.commits.stage(Staged {
            sequence,
            answer,
            taken,
            freed,
            unheld,
            died,
            written,
            pin,
            hold,
            riding,
        });
        if applied.may_wait {
            self.commits.commit_later(sequence);
        } else {
            self.commits.commit_soon();
        }
        let freed = Freed { units, inos: applied.ended };
        (units > 0 || !freed.inos.is_empty()).then_some(freed)
    }

    async fn write_times(&self) {
        self.write_touched();
        self.follow();
    }

    async fn end_background(&self) {
        self.end_scrub().await;
        self.end_compaction().await;
    }

    async fn come_to_rest(&self) -> Result<(), FsError> {
        self.write_touched();
        self.commits.all_durable().await
    }

    async fn close(&self) -> Result<(), FsError> {
        self.commits.idle().await?;
        let is_full = |error: IoError| if error.is_full() { FsError::NoSpace } else { FsError::Io };
        self.commits.rest().await.map_err(is_full)?;
        if self.keeps_device {
            return Ok(());
        }
        self.path.device().close().await.map_err(|_| FsError::Io)
    }
}
