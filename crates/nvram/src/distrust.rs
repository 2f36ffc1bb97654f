//! An NVRAM whose battery is not to be trusted: nothing is answered any more that is not on the
//! device below.
//!
//! Writes pass. One of a block that the memory has entries of waits until these are below and
//! durably void, so that none of them can come back over it. The keeper does that first, and brings
//! everything else below in the background. When nothing is left, the volume records that it needs
//! nothing of the memory. At a good reading writes are held again.
//!
//! Invariants:
//! 1. Of what was not answered before the bad reading, nothing is answered before it is below.
//! 2. While the volume's record says that it needs nothing of the memory, no write is held.
//!
//! Not asserted: 1, which `tests/it/health.rs` compares with the device below; 2, which
//! [`Cache::passes`] keeps.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use block::{Durability, IoError, Verb};
use bytes::Bytes;

use crate::cache::Cache;
use crate::destage::ROUND;
use crate::directory::Directory;
use crate::format::BLOCK;
use crate::health::Health;
use crate::planted::{Bug, is_planted};
use crate::writing::places;

/// Blocks that a call waits for: the keeper brings them below first.
struct Wanted<'a> {
    cache: &'a Cache,
    places: Vec<u64>,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let mut wanted = self.cache.wanted.borrow_mut();
        for place in &self.places {
            let count = wanted.get_mut(place).expect("it was counted");
            *count -= 1;
            if *count == 0 {
                wanted.remove(place);
            }
        }
    }
}

impl Cache {
    /// Whether the memory may not outlive a power cut.
    pub(crate) fn distrusts(&self) -> bool {
        let is_bad = self.health.borrow().as_ref().is_some_and(|health| *health != Health::Good);
        is_bad && !is_planted(Bug::IgnoredBattery)
    }

    /// A write past a memory that is not trusted.
    pub(crate) async fn write_past(
        &self,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), IoError> {
        let all = places(offset, block::length_of(&data));
        let held = self.hold(all.clone()).await;
        let is_free = |directory: &Directory, place| directory.is_free_of(place);
        if !is_planted(Bug::HastyPass) {
            self.wait_for(all.clone().collect(), is_free).await?;
        }
        let is_held = self.directory.borrow().holds(all.clone());
        if !is_held || is_planted(Bug::HastyPass) {
            return self.pass(offset, data, durability).await;
        }
        drop(held);
        // The battery is good again, or what is left knows of sectors that are lost, and has to
        // learn that they are written.
        self.write_held(offset, &data, durability).await
    }

    /// Waits until these blocks are below.
    pub(crate) async fn bring_below(&self, places: BTreeSet<u64>) -> Result<(), IoError> {
        self.wait_for(places, |directory, place| !directory.is_dirty(place)).await
    }

    /// Has the keeper bring blocks below first, and waits until each is as it should be, or the
    /// battery is good again: then the memory is as good a place.
    async fn wait_for(
        &self,
        places: BTreeSet<u64>,
        is_done: impl Fn(&Directory, u64) -> bool,
    ) -> Result<(), IoError> {
        let wanted = Wanted { cache: self, places: places.iter().copied().collect() };
        for place in &wanted.places {
            *self.wanted.borrow_mut().entry(*place).or_default() += 1;
            self.directory.borrow_mut().try_again(*place..place + 1);
        }
        let mut woken_at = None;
        loop {
            let moved = self.moved.wait();
            self.check(Verb::Write)?;
            let left = places.iter().find(|&&place| !is_done(&self.directory.borrow(), place));
            let Some(&place) = left.filter(|_| self.distrusts()) else { return Ok(()) };
            let is_refused = self.directory.borrow().is_refused(place)
                || is_planted(Bug::AnyRefusal) && self.directory.borrow().is_dirty(place);
            if is_refused {
                let kind = ErrorKind::StorageFull;
                return Err(IoError::new(Verb::Write, place * BLOCK, BLOCK, kind));
            }
            self.wake_keeper(&mut woken_at);
            moved.await;
        }
    }

    /// Brings blocks below for which calls wait, and voids their entries. Whether anything has
    /// changed.
    pub(crate) async fn serve_wanted(&self) -> bool {
        let wanted: BTreeSet<u64> = self.wanted.borrow().keys().copied().collect();
        let dirty = {
            let directory = self.directory.borrow();
            let dirty = wanted.iter().copied().filter(|&place| directory.is_dirty(place));
            dirty.take(ROUND).collect()
        };
        let going = self.begin_destage(dirty);
        let has_moved = self.destage(going, true).await;
        let is_held = wanted.iter().any(|&place| {
            let directory = self.directory.borrow();
            !directory.is_free_of(place)
        });
        let has_voided = is_held && self.void_some(Some(&wanted)).await;
        has_moved || has_voided
    }

    /// Makes durable what callers have written before: so many plain writes they have heard of.
    pub(crate) async fn flush_for_caller(&self, heard: u64) -> Result<(), IoError> {
        self.flush().await?;
        if self.distrusts() && !is_planted(Bug::TrustingFlush) {
            let owed = self.directory.borrow().owed(heard);
            self.bring_below(owed).await?;
        }
        let now = self.directory.borrow().heard();
        self.directory.borrow_mut().pay(if is_planted(Bug::PaidAhead) { now } else { heard });
        Ok(())
    }

    /// Does what a change of the health asks for, once nothing stands against it.
    pub(crate) async fn heed(&self) -> Result<(), IoError> {
        let is_empty = {
            let directory = self.directory.borrow();
            directory.dirty() == 0 && directory.lost().is_empty()
        };
        if self.distrusts() && (!self.passes() || self.is_unsure()) && is_empty {
            self.settle_distrusted().await
        } else if !self.distrusts() && self.is_settled.get() {
            self.hold_again().await
        } else {
            Ok(())
        }
    }

    /// Has the volume record that it needs nothing of the memory.
    async fn settle_distrusted(&self) -> Result<(), IoError> {
        let _alone = self.gate.exclusive().await;
        self.check(Verb::Flush)?;
        if self.passes() && !self.is_unsure() || !self.distrusts() {
            return Ok(());
        }
        self.empty(false, false).await?;
        // Also if that fails: some disks may say so then.
        self.is_settled.set(true);
        self.say(false).await
    }

    /// Holds writes again after a good reading.
    async fn hold_again(&self) -> Result<(), IoError> {
        let _alone = self.gate.exclusive().await;
        self.check(Verb::Flush)?;
        if self.distrusts() || !self.is_settled.get() {
            return Ok(());
        }
        // What has passed by is durable before anything may hide it.
        self.below.flush().await.inspect_err(|error| self.fail(error))?;
        // A memory that was given up stays void.
        if !self.is_down() && !is_planted(Bug::UnsaidReturn) {
            self.say(true).await?;
        }
        self.is_settled.set(false);
        Ok(())
    }
}
