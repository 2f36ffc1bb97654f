//! Intents of truncations in steps that go on.
//!
//! The first step of such a truncation is durable long before the last. Its intent has the final
//! size, and a start needs that to go on. So the intent moves with the ring: a batch that gives up
//! its old place has it again.
//!
//! Invariant: the live part of the ring has the intent of each truncation whose last step is not
//! durable.
//!
//! Not asserted: the test below reads the ring.

use vfs::Sequence;
use vnode::chain::{Chain, ChainLink};
use vnode::horizon::Horizon;

use super::record::Intent;
use crate::planted::{Bug, is_planted};

/// A truncation in steps.
struct Truncation {
    ino: u64,
    intent: Intent,
    /// The batch that has the intent, by its first entry; `None` if no batch has taken it yet.
    recno: Option<u64>,
    /// The Update of its last step, once that is staged.
    end: Option<u64>,
}

/// See the module's prose.
#[derive(Default)]
pub(super) struct Chains(Vec<Truncation>);

impl Chains {
    /// Notes an Update at this position of a chain, and its intent, if it has one.
    pub(super) fn note(&mut self, sequence: u64, link: ChainLink, intent: Option<&Intent>) {
        let (ChainLink::Begins(Chain { ino, .. }) | ChainLink::Ends(ino)) = link;
        // A file has one chain at a time: what begins another one ends the first.
        for of_file in self.0.iter_mut().filter(|one| one.ino == ino && one.end.is_none()) {
            of_file.end = Some(sequence);
        }
        if let Some(intent) = intent.filter(|intent| intent.goal.is_some()) {
            self.0.push(Truncation { ino, intent: intent.clone(), recno: None, end: None });
        }
    }

    /// Adds the intent of an earlier boot, which the ring has in this batch.
    pub(super) fn inherit(&mut self, intent: Intent, recno: u64) {
        if let Some(inode) = intent.inode.filter(|_| intent.goal.is_some()) {
            // Intents come in their order, and a file has one truncation at a time: the last one.
            self.0.retain(|one| one.ino != inode.ino);
            self.0.push(Truncation { ino: inode.ino, intent, recno: Some(recno), end: None });
        }
    }

    /// Forgets truncations other than those of these files.
    pub(super) fn keep(&mut self, files: &[u64]) {
        self.0.retain(|one| files.contains(&one.ino));
    }

    /// The intents that go with the batch at `recno` and are still needed.
    pub(super) fn in_batch(&mut self, recno: u64, horizon: &Horizon) -> Vec<Intent> {
        let is_over = |end: u64| horizon.has_passed(Sequence(end));
        self.0.retain(|one| !one.end.is_some_and(is_over));
        let of_batch = self.0.iter().filter(|one| one.recno == Some(recno));
        of_batch.filter(|_| !is_planted(Bug::PrunedChains)).map(|one| one.intent.clone()).collect()
    }

    /// The batch at `recno` has these intents.
    pub(super) fn place(&mut self, intents: &[u64], recno: u64) {
        for one in self.0.iter_mut().filter(|one| intents.contains(&one.intent.sequence)) {
            one.recno = Some(recno);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use journal::format::SMALLEST;
    use sim::{Disk, Executor, Image};
    use vfs::{CallKey, CallOutcome, CallReply, Timestamp};

    use super::super::{Evidence, InodeEvidence, Intents, NameEvidence};
    use super::*;
    use crate::intents::left::Reading;

    const CHAIN: Chain = Chain { ino: 5, generation: 1, size: Some(3) };
    const NOW: Timestamp = Timestamp { seconds: 1, nanoseconds: 0 };

    fn evidence_of_inode() -> Evidence {
        let (ino, generation) = (CHAIN.ino, CHAIN.generation);
        let (mode, uid, gid, size, mtime, ctime) = (0o100_644, 0, 0, 1 << 30, NOW, NOW);
        let inode = InodeEvidence { ino, generation, mode, uid, gid, size, mtime, ctime };
        Evidence { inode: Some(inode), touched: vec![ino], ..Evidence::default() }
    }

    fn evidence_of_name(number: u64) -> Evidence {
        let name = format!("{number:0255}").into_bytes().into();
        let name = NameEvidence { directory: 2, name, before: 0, after: number };
        Evidence { names: vec![name], ..Evidence::default() }
    }

    /// Makes a call durable, alone.
    async fn call(ring: &Intents, number: u64, chain: Option<ChainLink>, horizon: &Horizon) {
        let evidence = match chain {
            Some(_) => evidence_of_inode(),
            None => evidence_of_name(number),
        };
        let key = Rc::new(CallKey::new(&number.to_le_bytes()).expect("short"));
        let reply = CallReply { key, outcome: CallOutcome::default() };
        ring.note(Sequence(number), (&evidence, Some((&reply, NOW)), chain), horizon);
        ring.batch(horizon).expect("an intent waits").await.expect("the disk is good");
        ring.batch_written(horizon);
        horizon.advance(number);
    }

    /// Whether the ring has the final size of a truncation after `calls` later calls, the first of
    /// which ends it if it `ends`.
    fn has_goal(calls: u64, ends: bool) -> bool {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::zeroed(SMALLEST));
        executor.block_on(async {
            let ring = Intents::begin(disk.clone(), (7, 8), None, &[]).await.expect("new");
            ring.resume(&[]);
            let horizon = Horizon::default();
            call(&ring, 1, Some(ChainLink::Begins(CHAIN)), &horizon).await;
            for number in 2..2 + calls {
                let link = (number == 2 && ends).then_some(ChainLink::Ends(CHAIN.ino));
                call(&ring, number, link, &horizon).await;
            }
            let mut reading = Reading::default();
            let live = journal::find_with(&*disk, 7, |entry| reading.see(entry)).await;
            assert!(live.expect("it is whole").is_some());
            let survivors = reading.survivors();
            assert!(survivors.is_sorted_by_key(|survivor| survivor.intent.sequence));
            let mut goals = survivors.iter().filter(|it| it.intent.goal == CHAIN.size);
            goals.next().is_some_and(|survivor| survivor.is_done || calls == 0)
        })
    }

    #[test]
    fn the_ring_keeps_the_goal_of_a_truncation_until_it_ends() {
        for calls in [0, 1, 50, 100, 200, 1000] {
            assert!(has_goal(calls, false), "{calls}");
        }
        assert!(!has_goal(1000, true), "it takes room for ever");
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn goals_that_are_given_up_are_found() {
        crate::planted::plant(Some(Bug::PrunedChains));
        let kept = has_goal(1000, false);
        crate::planted::plant(None);
        assert!(!kept);
    }
}
