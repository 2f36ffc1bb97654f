//! The throttle of a compaction: a tenth of the device's time, or half of it if no zone is empty.
//!
//! All time that a compaction waits for the device counts, including the time in which the device
//! serves others first. After a little work it rests nine times as long, or only as long as it
//! worked if space is short: calls take longer while it works.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use runtime::sync::yield_now;
use vfs::Sequence;
use vnode::Engine;

use crate::engine::Shadow;

/// It rests this many times as long as it worked.
const RESTS: u32 = 9;
/// Interval at which a rest checks whether space has become short, to end sooner.
const NAP: Duration = Duration::from_millis(50);
/// It rests after this much work: a call may take this much longer.
const LONG: Duration = Duration::from_millis(20);

/// The compaction is to end, or cannot go on.
pub(crate) struct Ended;

/// See the module's prose.
pub(crate) struct Pace<'a> {
    pub(crate) engine: &'a Shadow,
    worked: Duration,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(engine: &'a Shadow) -> Self {
        Self { engine, worked: Duration::ZERO }
    }

    /// Waits for the device, and counts the time.
    pub(crate) async fn work<T>(&mut self, work: impl Future<Output = T>) -> T {
        let clock = &self.engine.runtime.clock;
        let begun = clock.now();
        let done = work.await;
        self.worked += clock.now().since(begun);
        done
    }

    /// The same for an update that may never become durable.
    ///
    /// # Errors
    /// [`Ended`].
    pub(crate) async fn durable(&mut self, sequence: u64) -> Result<(), Ended> {
        let engine = self.engine;
        let ended = async {
            select(pin!(engine.compaction.ended()), pin!(engine.no_room_comes())).await;
        };
        let reach = engine.commits.live.horizon.reach(Sequence(sequence));
        match self.work(select(pin!(reach), pin!(ended))).await {
            Either::Left((Ok(()), _)) => Ok(()),
            _ => Err(Ended),
        }
    }

    /// Rests if it has worked long enough.
    ///
    /// # Errors
    /// [`Ended`].
    pub(crate) async fn rest_if_long(&mut self) -> Result<(), Ended> {
        if self.worked > LONG { self.rest().await } else { Ok(()) }
    }

    /// Rests as long as is due, and in any case yields to other tasks.
    ///
    /// # Errors
    /// [`Ended`].
    pub(crate) async fn rest(&mut self) -> Result<(), Ended> {
        let engine = self.engine;
        yield_now().await; // a disk may answer at once
        let worked = std::mem::take(&mut self.worked);
        let mut rested = Duration::ZERO;
        while engine.may_compact() {
            let is_short = engine.space.standing().empty == 0;
            let left = (worked * if is_short { 1 } else { RESTS }).saturating_sub(rested);
            if left.is_zero() {
                break;
            }
            let nap = left.min(NAP);
            select(engine.runtime.clock.sleep(nap), pin!(engine.compaction.ended())).await;
            rested += nap;
        }
        if engine.may_compact() { Ok(()) } else { Err(Ended) }
    }
}
