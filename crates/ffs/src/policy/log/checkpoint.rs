//! The sync: a background checkpoint that writes logged changes in place, so that holds drop.
//!
//! A round writes every buffer that has deltas, in disk order, with every change undone that is not
//! durable in the log; then the summary rows of the groups among them, and delayed data; then it
//! flushes. It pauses for a while unless the log has become long, a task wants room, or everything
//! is to be written in place.
//!
//! A round that finds the device below full, because the disk is a growing file on a full
//! filesystem, has failed no caller: its changes stay pending, their entries stay needed, and the
//! round is tried again.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::IoError;
use cache::refusals::all_written;
use futures::FutureExt;
use futures::future::{join_all, select};
use ufs2::layout::{GroupHeader, Summary};
use vfs::{Depends, Ledger, Lost, Sequence};
use zerocopy::IntoBytes;

use super::RedoLog;
use crate::buffer::{Buffer, Delta, Role, WriteImage};
use crate::home::REFUSED_PAUSE;
use crate::planted::{Bug, is_planted};

/// Number of buffers that are copied and written at a time, so that copies do not fill the memory.
const WRITES_AT_ONCE: usize = 64;

impl RedoLog {
    /// Starts the sync unless it runs or has no work, and wakes it if it must not pause.
    pub(super) fn kick_sync(&self) {
        if self.is_urgent() {
            self.urge.notify();
        }
        if self.has_work() && !self.syncing.replace(true) {
            let this = self.this();
            self.shared.runtime.tasks.spawn(async move { this.sync_on().await }.boxed_local());
        }
    }

    /// Whether a task waits for the sync.
    fn is_asked(&self) -> bool {
        self.wanted.get() > self.ended.get() || self.shared.wants_help_of(self)
    }

    fn has_work(&self) -> bool {
        self.is_asked() || !self.flights.borrow().is_empty()
    }

    fn is_urgent(&self) -> bool {
        self.is_asked()
            || self.is_pressed()
            || self.shared.bytes_since(self.head_of_changes()) > self.sync_bytes()
    }

    /// Whether changes pin much memory and some of them can be written in place: a round that
    /// writes nothing would be followed by another one at once.
    fn is_pressed(&self) -> bool {
        let oldest = self.flights.borrow().first();
        self.home.pins_much() && oldest.is_some_and(|oldest| oldest <= self.horizon.through().0)
    }

    /// Bytes of live log from which on the sync does not pause.
    pub(super) fn sync_bytes(&self) -> u64 {
        self.options.sync_bytes.min(self.shared.journal.capacity() / 4)
    }

    async fn sync_on(&self) {
        while self.has_work() && !self.horizon.has_failed() {
            if !self.is_urgent() {
                let rest = self.shared.runtime.clock.sleep(self.options.sync_interval);
                select(rest, self.urge.wait()).await;
            }
            if self.horizon.has_failed() {
                break;
            }
            let round = self.round().await;
            self.home
                .data()
                .refusals()
                .set_waiting(matches!(&round, Err(error) if error.is_full()));
            let is_refused =
                self.home.data().refusals().is_waiting() && !is_planted(Bug::StoppedByRefusals);
            let given = match (is_refused, &round) {
                (true, _) => {
                    self.begun.set(self.begun.get() - 1); // it does not count as a round
                    self.shared.give_what_is_obsolete().await
                }
                (false, Err(_)) => {
                    self.stop(); // invariant 9
                    Ok(())
                }
                (false, Ok(())) if self.horizon.has_failed() => Ok(()),
                (false, Ok(())) => self.shared.give_room().await,
            };
            if given.is_err() {
                self.shared.stop();
            }
            self.landed.notify();
            self.shared.freed.notify();
            if is_refused {
                self.shared.runtime.clock.sleep(REFUSED_PAUSE).await;
            }
        }
        self.syncing.set(false);
    }

    async fn round(&self) -> Result<(), IoError> {
        let number = self.begun.get() + 1;
        self.begun.set(number);
        let durable = self.horizon.through();
        let holds = |delta: &Delta| delta.sequence <= durable || is_planted(Bug::UnloggedHome);
        let mut buffers = self.pending.borrow().clone();
        if self.wanted.get() >= number {
            let dirty = self.home.dirty_buffers();
            buffers.extend(dirty.into_iter().map(|buffer| (buffer.address(), buffer)));
        }
        let buffers: Vec<Rc<Buffer>> = buffers.into_values().collect();
        let mut written = Vec::new();
        let brought = self.bring_home(&buffers, holds, &mut written).await;
        if brought.is_err() {
            // No hold has dropped: the next round, if there is one, writes all of them again.
            written.iter().for_each(|buffer| buffer.write_again());
        }
        let covered = brought?;
        // Now payload of everything before `covered` has been written.
        if is_planted(Bug::EarlyHolds) {
            self.drop_holds(&written, covered);
        }
        self.home.flush().await?;
        if self.horizon.has_failed() {
            return Ok(()); // invariant 9: another flush has failed meanwhile
        }
        self.drop_holds(&written, covered);
        self.ended.set(number);
        Ok(())
    }

    /// Writes everything that a round has to write, and collects the copied buffers. Returns the
    /// first Update whose payload it may have left out.
    async fn bring_home(
        &self,
        buffers: &[Rc<Buffer>],
        holds: impl Fn(&Delta) -> bool,
        written: &mut Vec<Rc<Buffer>>,
    ) -> Result<u64, IoError> {
        let mut groups = BTreeSet::new();
        for some in buffers.chunks(WRITES_AT_ONCE) {
            let mut images = Vec::new();
            for buffer in some {
                let Some(image) = self.home.image(buffer, &holds) else { continue };
                if let Role::Group(group) = buffer.role() {
                    let counts = GroupHeader::of(&image.data).counts;
                    self.rows.borrow_mut()[group as usize] = counts;
                    groups.insert(group);
                }
                images.push(image);
                written.push(buffer.clone());
            }
            self.write_home(images).await?;
        }
        self.write_rows(&groups).await?;
        let covered = self.next.get();
        if !is_planted(Bug::UnlandedDelays) {
            self.home.data().write_delayed().await?;
        }
        Ok(covered)
    }

    async fn write_home(&self, images: Vec<WriteImage>) -> Result<(), IoError> {
        let addresses: Vec<u64> = images.iter().map(|image| image.address).collect();
        self.landing.borrow_mut().extend(&addresses);
        let result = self.home.write_images(images).await;
        for address in &addresses {
            self.landing.borrow_mut().remove(address);
        }
        self.landed.notify();
        result
    }

    /// Writes the summary rows of groups (invariant 8).
    async fn write_rows(&self, groups: &BTreeSet<u64>) -> Result<(), IoError> {
        if is_planted(Bug::LeftRows) {
            return Ok(());
        }
        let geometry = self.home.geometry();
        let per_fragment = geometry.fragment_size / size_of::<Summary>() as u64;
        let fragments: BTreeSet<u64> = groups.iter().map(|group| group / per_fragment).collect();
        let writes = fragments.into_iter().map(|fragment| {
            let mut image = block::Buffer::zeroed(geometry.fragment_size as usize);
            let rows = self.rows.borrow();
            let first = (fragment * per_fragment) as usize;
            let some = &rows[first..rows.len().min(first + per_fragment as usize)];
            image[..size_of_val(some)].copy_from_slice(some.as_bytes());
            self.home.write(geometry.summary_address + fragment, vec![image.freeze()])
        });
        let writes: Vec<_> = writes.collect();
        all_written(join_all(writes).await)
    }

    /// The `written` buffers, and the payload of Updates before `covered`, are durable on the
    /// volume (invariant 3).
    fn drop_holds(&self, written: &[Rc<Buffer>], covered: u64) {
        let mut flights = self.flights.borrow_mut();
        for buffer in written {
            for (sequence, _) in buffer.landed() {
                let is_logged = sequence <= self.horizon.through();
                let is_early = is_planted(Bug::UnloggedHome);
                debug_assert!(is_logged || is_early, "invariant 1: its entry is durable");
                flights.land(sequence.0);
            }
        }
        flights.bring_payload_home(covered);
        flights.drop_obsolete();
        self.pending.borrow_mut().retain(|_, buffer| buffer.is_pending());
    }

    /// A block was freed durably: nothing more is written to it, and its changes in older entries
    /// are not needed (invariants 3 and 6).
    pub(super) async fn release_block(&self, address: u64) {
        let keeps = is_planted(Bug::KeptDeltas);
        if let Some(buffer) = self.home.cached(address).filter(|_| !keeps) {
            let mut flights = self.flights.borrow_mut();
            buffer.drain_block().into_iter().for_each(|sequence| flights.land(sequence.0));
            flights.drop_obsolete();
            self.pending.borrow_mut().remove(&address);
        }
        while self.landing.borrow().contains(&address) && !is_planted(Bug::LateLandings) {
            if self.horizon.has_failed() {
                return;
            }
            self.landed.wait().await;
        }
        let is_there = self.pending.borrow().contains_key(&address);
        debug_assert!(
            !is_there || keeps,
            "invariant 6: nothing is on its way to what was given back"
        );
    }

    /// Waits until every change staged so far, or made without a delta so far, is written in place.
    pub(super) async fn settle_all(&self) -> Result<(), Lost> {
        self.horizon.durable(Depends::through(Sequence(self.next.get() - 1))).await?;
        let target = self.begun.get() + 1;
        self.wanted.set(self.wanted.get().max(target));
        loop {
            if self.horizon.has_failed() {
                return Err(Lost);
            }
            if self.ended.get() >= target {
                return Ok(());
            }
            let landed = self.landed.wait();
            self.kick_sync();
            landed.await;
        }
    }
}
