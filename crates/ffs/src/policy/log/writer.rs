//! The writer: all waiting entries go out in batches, one write at a time.

use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;

use block::IoError;
use futures::FutureExt;
use futures::future::{join_all, select};
use journal::Draft;
use vfs::Sequence;

use super::record::{Record, write_records};
use super::shared::Waiting;
use super::{MAX_BATCH_DELAY, RedoLog, SharedLog};
use crate::planted::{Bug, is_planted};

impl SharedLog {
    /// Starts the writer unless it runs.
    pub(super) fn kick_writer(&self) {
        if !self.writing.replace(true) {
            let this = self.this();
            self.runtime.tasks.spawn(async move { this.write_on().await }.boxed_local());
        }
    }

    /// Writes batches until nothing is due.
    async fn write_on(&self) {
        while self.is_wanted() {
            if self.write_batch().await.is_err() {
                self.stop();
            }
        }
        assert!(self.writing.replace(false), "there is one writer");
        let waiting = self.waiting.borrow().iter().map(|entry| entry.room).sum::<u64>();
        assert_eq!(self.reserved.get(), waiting, "what is set aside is for what waits");
        // A task that waits for the writer was not necessarily waiting for a batch.
        if !is_planted(Bug::SilentWriter) {
            self.volumes().for_each(|volume| volume.horizon.wake());
        }
    }

    fn is_wanted(&self) -> bool {
        self.running().any(|volume| volume.has_to_tell() || volume.is_due())
    }

    async fn write_batch(&self) -> Result<(), IoError> {
        join_all(self.to_flush_first().iter().map(|volume| volume.flush_payload())).await;
        let batch = self.next_batch();
        let meant: Vec<(u16, u64)> =
            batch.iter().map(|draft| (draft.volume, draft.sequence)).collect();
        let head = if is_planted(Bug::EagerHead) { None } else { self.head() };
        let (recnos, written) = self.journal.place(batch, head);
        for (&(volume, sequence), &recno) in meant.iter().zip(&recnos) {
            let volume = self.volume(volume);
            volume.inspect(|volume| volume.note_place(sequence, recno));
        }
        written
            .await
            .or_else(|error| if is_planted(Bug::IgnoredLogErrors) { Ok(()) } else { Err(error) })?;
        for volume in self.volumes() {
            let own = meant.iter().filter(|(number, _)| *number == volume.number);
            volume.commit(own.map(|(_, sequence)| *sequence).max().unwrap_or(0));
        }
        self.freed.notify(); // a later head may be durable now
        Ok(())
    }

    /// If the first entry waits for a flush of its volume: that volume, and all others with an
    /// entry that waits for a flush, so that those do not cut the batch short.
    fn to_flush_first(&self) -> Vec<Rc<RedoLog>> {
        let waiting = self.waiting.borrow();
        let wants = |entry: &Waiting| {
            let volume = self.volume(entry.draft.volume);
            volume.is_some_and(|volume| volume.wants_flush(entry))
        };
        if is_planted(Bug::EarlyEntries) || !waiting.front().is_some_and(wants) {
            return Vec::new();
        }
        let numbers = waiting.iter().filter(|entry| wants(entry)).map(|entry| entry.draft.volume);
        let numbers: BTreeSet<u16> = numbers.collect();
        numbers.into_iter().filter_map(|number| self.volume(number)).collect()
    }

    /// The entries that go out now: all waiting ones, up to a size limit, up to the part of the
    /// circle that a batch may take, and up to the first entry whose payload is not flushed.
    fn next_batch(&self) -> Vec<Draft> {
        let mut batch = Vec::new();
        let mut size = 0;
        let mut filling = self.journal.filling();
        batch.extend(self.told_again());
        batch.iter().for_each(|draft| assert!(filling.takes(draft.body.len()), "it is the first"));
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.front() {
            size += first.draft.body.len();
            let volume = self.volume(first.draft.volume);
            let later = volume.is_some_and(|volume| volume.wants_flush(first))
                && !is_planted(Bug::EarlyEntries);
            let is_full = !batch.is_empty() && size > self.batch_bytes;
            if later || is_full || !filling.takes(first.draft.body.len()) {
                break;
            }
            let first = waiting.pop_front().expect("just seen");
            let volume = self.volume(first.draft.volume);
            if let Some(volume) = volume {
                assert!(!volume.horizon.has_failed(), "a volume that has stopped writes nothing");
                volume.queued.set(volume.queued.get() - first.room);
            }
            self.use_up(first.room);
            batch.push(first.draft);
        }
        batch
    }

    /// An entry of one volume, in round-robin order, that rewrites records which the head must
    /// pass.
    fn told_again(&self) -> Option<Draft> {
        let (first, count) = (self.turn.get(), self.shares());
        let mut turns = (0..count).map(|step| (first + step) % count);
        turns.find_map(|turn| {
            let volume = self.volume(turn).filter(|volume| !volume.horizon.has_failed())?;
            self.turn.set((turn + 1) % count);
            volume.repeat()
        })
    }
}

impl RedoLog {
    /// Makes all staged Updates go out now.
    pub(super) fn commit_soon(&self) {
        self.due.set(self.next.get() - 1);
        self.shared.kick_writer();
    }

    /// Makes staged Updates go out when a task asks for `sequence` or a later one, and soon in any
    /// case.
    pub(super) fn batch_later(&self, sequence: Sequence) {
        if self.waits.replace(true) {
            return;
        }
        let this = self.this();
        let wait = async move {
            let patience = this.shared.runtime.clock.sleep(MAX_BATCH_DELAY);
            let asked = pin!(this.horizon.asked(sequence));
            if is_planted(Bug::EndlessPatience) {
                asked.await;
            } else if is_planted(Bug::DeafPatience) {
                patience.await;
            } else {
                select(asked, patience).await;
            }
            this.waits.set(false);
            this.commit_soon();
        };
        self.shared.runtime.tasks.spawn(wait.boxed_local());
    }

    /// Whether there is an entry that does not wait for others.
    fn is_due(&self) -> bool {
        self.due.get() > self.horizon.through().0
    }

    /// Flushes payload, which comes before entries (invariant 2).
    async fn flush_payload(&self) {
        let covered = self.next.get(); // payload of everything staged so far has been written
        if self.home.flush().await.is_err() {
            return self.stop();
        }
        let covered = if is_planted(Bug::LateCover) { self.next.get() } else { covered };
        self.flushed.set(covered);
    }

    /// A batch with Updates of this volume up to `last`, or none for 0, is durable.
    fn commit(&self, last: u64) {
        if self.horizon.has_failed() {
            return; // its disk failed while the batch was written
        }
        let mut last = last.max(self.horizon.through().0);
        if is_planted(Bug::EagerReceipts) {
            last = self.next.get() - 1;
        }
        self.horizon.advance(last); // the commit point
        self.forget_chains(last);
        self.logged.borrow_mut().forget_before(self.shared.journal.durable_head());
        self.kick_sync();
    }

    fn wants_flush(&self, waiting: &Waiting) -> bool {
        waiting.after_flush && waiting.draft.sequence >= self.flushed.get()
    }

    /// An entry that rewrites records which the head must pass: the oldest answers, if they lie far
    /// behind, and all chains that have not ended.
    fn repeat(&self) -> Option<Draft> {
        let mut records = Vec::new();
        // Inherited answers were bounded by the room, none of which is reserved yet.
        if self.shared.has_room_for_answers() || self.memory.borrow().is_inheriting() {
            let head = self.head_of_changes();
            records = self.memory.borrow_mut().lagging(self.shared.journal.tail(), head);
            if is_planted(Bug::UntoldAnswers) && !records.is_empty() {
                records = vec![Record::ChainEnds(0)];
            }
        }
        if !self.repeat.replace(false) && records.is_empty() {
            return None;
        }
        let chains = self.chains.borrow();
        let told = chains.values().filter(|active| active.recno.is_some());
        records.extend(told.map(|active| Record::ChainBegins(active.chain)));
        let body = write_records(&records);
        let draft = Draft { records: records.len() as u16, body, sequence: 0, volume: self.number };
        (!records.is_empty()).then_some(draft)
    }

    fn note_repeated(&self, recno: u64) {
        let mut chains = self.chains.borrow_mut();
        let told = chains.values_mut().filter(|active| active.recno.is_some());
        told.for_each(|active| active.recno = Some(recno));
        self.memory.borrow_mut().moved(recno);
    }

    /// The entry of an Update has its place; for 0, the entry of rewritten records.
    fn note_place(&self, sequence: u64, recno: u64) {
        if sequence == 0 {
            return self.note_repeated(recno);
        }
        if let Some(flight) = self.flights.borrow_mut().get(sequence) {
            flight.recno = Some(recno);
            if flight.payload {
                self.logged.borrow_mut().placed(sequence, recno);
            }
        }
        let mut chains = self.chains.borrow_mut();
        if let Some(active) = chains.values_mut().find(|active| active.begins == sequence) {
            active.recno = Some(recno);
        }
        self.memory.borrow_mut().placed(sequence, recno);
    }

    /// Drops chains whose last Update is durable. Chains whose first Update is durable release
    /// their earlier record.
    fn forget_chains(&self, durable: u64) {
        self.chains.borrow_mut().retain(|_, active| {
            active.before = active.before.filter(|_| active.begins > durable);
            active.ends.is_none_or(|ends| ends > durable)
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use journal::Journal;
    use sim::{Disk, Executor, Image};

    use super::super::Survived;
    use super::super::record::LINE;
    use super::*;
    use crate::item::Intent;
    use crate::policy::{Beside, Policy, Staged, StagedUpdate};
    use crate::recovery::{OpenOptions, Recovered};
    use crate::update::Update;
    use vfs::{Depends, Ledger};
    use vnode::chain::Chain;

    /// Memory that sets no limit.
    const PLENTY: usize = 256 << 20;

    async fn log_on(executor: &Executor, cache_bytes: usize) -> Rc<RedoLog> {
        let [log] = logs_on(executor, cache_bytes).await;
        log
    }

    /// Volumes that share one log.
    async fn logs_on<const N: usize>(executor: &Executor, cache_bytes: usize) -> [Rc<RedoLog>; N] {
        let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
        let log = Disk::new(executor, Image::zeroed(2 << 20));
        let journal = Journal::begin(log, 7, 0, None).await.expect("it is large enough");
        let (ids, runtime) = ((1..=N as u64).collect(), executor.runtime());
        let shared = SharedLog::new(journal, ids, None, runtime, &options.log);
        let mut logs = Vec::new();
        for _ in 0..N {
            let recovered = Recovered::just_made(executor, &options).await;
            let (home, rows) = (recovered.home.clone(), recovered.rows.clone());
            logs.push(RedoLog::new(home, shared.clone(), rows, options.log));
        }
        logs.try_into().ok().expect("so many were made")
    }

    /// The result of a task that waits for the writer when nothing is staged.
    fn wait() -> Option<Result<(), vfs::Lost>> {
        let executor = Executor::new(1);
        let log = executor.block_on(log_on(&executor, PLENTY));
        let waiting = async {
            log.commit_soon(); // the writer begins, and will find nothing
            log.repeated().await
        };
        executor.block_on_for(Duration::from_secs(10), waiting)
    }

    #[test]
    fn who_waits_for_a_writer_that_finds_nothing_due_is_woken() {
        assert_eq!(wait(), Some(Ok(())), "nobody waits for ever");
    }

    /// Bytes of data that are delayed when the log takes no 4 KiB more.
    fn carried(cache_bytes: usize) -> (u64, Rc<RedoLog>) {
        let executor = Executor::new(1);
        let log = executor.block_on(log_on(&executor, cache_bytes));
        let payload = |address| vec![(address, vec![Bytes::from(vec![7; 4096])])];
        let mut address = 2000;
        while log.carries(&payload(address)).is_delayed {
            log.home.delay(address, &payload(address)[0].1);
            address += 1;
        }
        let delayed = log.home.data().delayed_bytes() as u64;
        assert_eq!(delayed, (address - 2000) * 4096);
        (delayed, log)
    }

    #[test]
    fn the_log_carries_twice_what_wakes_the_sync_or_an_eighth_of_little_memory() {
        let (most, log) = carried(PLENTY);
        assert_eq!(log.sync_bytes(), log.shared.journal.capacity() / 4);
        assert_eq!(most, 2 * log.sync_bytes() / 4096 * 4096);
        let (less, log) = carried(4 << 20);
        assert_eq!(less, log.home.budget().bytes() as u64 / 8 / 4096 * 4096);
        assert!((1..most / 2).contains(&less), "{less} bytes");
    }

    /// Writes 4 KiB of log that no volume needs.
    async fn fill(log: &RedoLog) {
        let (records, body) = (1, write_records(&[Record::Answer(vec![7; 4000 - LINE].into())]));
        let draft = Draft { volume: 0, records, body, sequence: 0 };
        let (_, written) = log.shared.journal.place(vec![draft], log.shared.head());
        written.await.expect("the disk is good");
    }

    #[test]
    fn a_chain_that_holds_the_head_is_told_again_when_it_lies_an_eighth_of_the_circle_behind() {
        let executor = Executor::new(1);
        executor.block_on(async {
            let log = log_on(&executor, PLENTY).await;
            let chain = Chain { ino: 77, generation: 5, size: None };
            log.adopt(&[chain], &Survived::default()).await.expect("the disk is good");
            let far = log.shared.journal.capacity() / 8;
            for round in 0..3 {
                let old = log.head().expect("the chain is needed");
                let behind = || log.shared.bytes_since(Some(old));
                while behind() <= far {
                    log.repeat_what_holds();
                    log.repeated().await.expect("the disk is good");
                    assert_eq!(log.head(), Some(old), "round {round}: it is not far");
                    fill(&log).await;
                }
                assert!(behind() <= far + 8192, "round {round}: it is only just far");
                log.repeat_what_holds();
                log.repeated().await.expect("the disk is good");
                assert!(log.head() > Some(old), "round {round}: it is told again");
            }
        });
    }

    /// Stages an Update with 4 KiB of payload that the log carries.
    async fn stage_payload(log: &RedoLog) -> vfs::Sequence {
        let payload = vec![(2000, vec![Bytes::from(vec![7; 4096])])];
        let mut update = Update::new(vnode::Space::Superuser);
        update.carried = log.carries(&payload);
        assert!(update.carried.is_delayed, "the log brings it home");
        update.push_payload(2000, payload[0].1.clone());
        let room = log.plan(&mut update).await.expect("an empty log has room");
        let (intent, sequence) = (Intent::PayloadWritten, log.next_sequence());
        let staged = StagedUpdate {
            items: vec![Staged::unnamed(intent, None, 0)],
            payload: update.payload,
            carried: update.carried,
            freed: Vec::new(),
            moved: Vec::new(),
            manner: update.manner,
            evidence: Default::default(),
            answered: None,
            room,
        };
        log.stage(sequence, staged);
        sequence
    }

    #[test]
    fn a_volume_that_stops_takes_its_entries_back_and_the_room_for_them() {
        let executor = Executor::new(1);
        executor.block_on(async {
            let [log, other] = logs_on(&executor, PLENTY).await;
            let shared = log.shared.clone();
            stage_payload(&log).await;
            let of_one = shared.reserved.get();
            stage_payload(&other).await;
            assert!(of_one > 4096 && shared.reserved.get() == 2 * of_one);
            log.stop();
            assert_eq!(shared.reserved.get(), of_one, "the other one's");
            let waiting: Vec<u16> =
                shared.waiting.borrow().iter().map(|entry| entry.draft.volume).collect();
            assert_eq!(waiting, [other.number]);
        });
    }

    #[test]
    fn a_disk_without_room_below_refuses_unless_another_volume_brings_home_what_holds_the_head() {
        let executor = Executor::new(1);
        executor.block_on(async {
            let [first, second] = logs_on(&executor, PLENTY).await;
            let shared = first.shared.clone();
            for log in [&first, &second] {
                let sequence = stage_payload(log).await;
                log.horizon.durable(Depends::through(sequence)).await.expect("the disk is good");
            }
            assert!(first.head() < second.head() && first.head().is_some());
            assert!(!shared.is_refused(), "there is room below");
            second.home.data().refusals().set_waiting(true);
            assert!(!shared.is_refused(), "the first one goes on, and holds the head");
            first.home.data().refusals().set_waiting(true);
            second.home.data().refusals().set_waiting(false);
            assert!(shared.is_refused(), "what the second one brings home is not at the head");
        });
    }

    /// The number of 60 Updates that are admitted while the writer does not run, though the log has
    /// room for all; and whether the next one is admitted when it runs.
    fn staged_without_the_writer() -> (usize, bool) {
        let executor = Executor::new(1);
        executor.block_on(async {
            let [log, other] = logs_on(&executor, PLENTY).await;
            let mut staged = 0;
            while staged < 60 && pin!(stage_payload(&log)).now_or_never().is_some() {
                staged += 1;
            }
            let others = pin!(stage_payload(&other)).now_or_never();
            assert!(others.is_some(), "another volume does not wait for this one");
            let sequence = stage_payload(&log).await;
            log.horizon.durable(Depends::through(sequence)).await.expect("the disk is good");
            (staged, log.queued.get() == 0)
        })
    }

    #[test]
    fn an_update_waits_while_many_wait_for_the_writer() {
        let (staged, is_empty) = staged_without_the_writer();
        assert!((20..60).contains(&staged) && is_empty, "{staged}, {is_empty}");
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn a_queue_without_an_end_is_seen() {
        crate::planted::plant(Some(Bug::EndlessQueue));
        let (staged, _) = staged_without_the_writer();
        crate::planted::plant(None);
        assert_eq!(staged, 60);
    }

    #[test]
    fn an_entry_is_needed_until_the_payload_in_it_is_home() {
        let executor = Executor::new(1);
        executor.block_on(async {
            let log = log_on(&executor, PLENTY).await;
            let sequence = stage_payload(&log).await;
            log.horizon.durable(Depends::through(sequence)).await.expect("the disk is good");
            let statistics = log.statistics();
            assert!(log.head_of_changes().is_some(), "nothing else has the data");
            assert_eq!(statistics.capacity, log.shared.journal.capacity());
            assert!((4096..16 << 10).contains(&statistics.live_bytes), "{statistics:?}");
            log.settle().await.expect("the disk is good");
            assert_eq!(log.head_of_changes(), None, "the volume has it");
            assert!(log.statistics().syncs > statistics.syncs);
        });
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn a_writer_that_wakes_nobody_is_noticed() {
        crate::planted::plant(Some(Bug::SilentWriter));
        let told = wait();
        crate::planted::plant(None);
        assert_eq!(told, None);
    }
}
