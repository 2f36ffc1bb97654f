//! This engine's part in files on the common floor.

use std::rc::Rc;

use cow::Run;
use cow::layout::{Layout, Room};
use vnode::Space as Kind;

use crate::commit::Commits;
use crate::planted::{Bug, is_planted};
use crate::units::Units;
use crate::work::Work;

impl Layout for Commits {
    type Disk = Units;
    type Work = Work;

    fn number(&self) -> u64 {
        Commits::number(self)
    }

    /// Changes that grow leave the pool alone, and those of others than root also leave the
    /// reserve.
    fn has_room(&self, room: Room) -> bool {
        let Room { blocks, units, deaths, kind, grows } = room;
        let mut units = units + self.needs(deaths);
        let mut pool = 0;
        if grows {
            // Whole blocks: an overwrite wants these.
            pool = self.space.pool().div_ceil(self.shape.block);
            units += self.keeps();
            if kind == Kind::User {
                pool += self.reserved().div_ceil(self.shape.block);
            }
        }
        self.space.has_blocks(blocks + pool, units, kind != Kind::Reserved)
    }

    async fn place(&self, blocks: u64) -> Option<Vec<Run>> {
        let runs = self.space.take_blocks(blocks)?;
        self.space.plan(&runs);
        Some(runs)
    }

    fn free(&self, runs: &[Run]) {
        if !is_planted(Bug::KeptPlans) {
            self.space.end_plan(runs);
            runs.iter().for_each(|&run| self.space.free(run));
        }
    }

    async fn prepare(&self, places: impl Iterator<Item = Run> + Clone) {
        let bytes = |run: Run| run.length * cow::UNIT as u64;
        self.discard(places.clone()).await;
        self.count(|counts| counts.data_bytes += places.map(bytes).sum::<u64>());
    }

    fn makes_room(self: &Rc<Self>) -> bool {
        self.is_busy() || self.fold_for_room()
    }
}
