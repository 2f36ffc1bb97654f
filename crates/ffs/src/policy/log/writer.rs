//! The writer: entries go out in batches, as many as wait, one write at a time.

use block::IoError;
use futures::FutureExt;
use journal::Draft;
use journal::format::SEGMENT;

use super::record::{Record, write_records};
use super::{ActiveChain, Log, Waiting};
use crate::planted::{Bug, is_planted};

/// The most bytes of a batch, about.
const LARGEST_BATCH: usize = 2 * SEGMENT as usize;

impl Log {
    /// Starts the writer unless it runs.
    pub(super) fn kick_writer(&self) {
        if !self.writing.replace(true) {
            let this = self.this();
            self.runtime.tasks.spawn(async move { this.write_on().await }.boxed_local());
        }
    }

    /// Batches until nothing waits.
    async fn write_on(&self) {
        while !self.horizon.has_failed() && self.has_entries() {
            if self.write_batch().await.is_err() {
                self.stop();
            }
        }
        self.writing.set(false);
    }

    fn has_entries(&self) -> bool {
        let inherits = self.memory.borrow().is_inheriting();
        inherits || self.repeat.get() || !self.waiting.borrow().is_empty()
    }

    async fn write_batch(&self) -> Result<(), IoError> {
        let first_waits =
            self.waiting.borrow().front().is_some_and(|first| self.wants_flush(first));
        if first_waits && !is_planted(Bug::EarlyEntries) {
            let covered = self.next.get(); // payload of everything staged so far has been written
            self.home.flush().await?;
            let covered = if is_planted(Bug::LateCover) { self.next.get() } else { covered };
            self.flushed.set(covered); // invariant 2
        }
        let batch = self.next_batch();
        let sequences: Vec<u64> = batch.iter().map(|draft| draft.sequence).collect();
        let head = match is_planted(Bug::EagerHead) {
            true => None,
            false => self.head(),
        };
        let (recnos, written) = self.journal.place(batch, head);
        self.note_places(&sequences, &recnos);
        written.await.or_else(|error| match is_planted(Bug::IgnoredLogErrors) {
            true => Ok(()),
            false => Err(error),
        })?;
        let mut last = sequences.into_iter().max().unwrap_or(0).max(self.horizon.through().0);
        if is_planted(Bug::EagerReceipts) {
            last = self.next.get() - 1;
        }
        self.horizon.advance(last); // the commit point
        self.forget_chains(last);
        self.forget_logged();
        self.landed.notify(); // a later head may be durable now
        self.kick_sync();
        Ok(())
    }

    fn wants_flush(&self, waiting: &Waiting) -> bool {
        waiting.after_flush && waiting.draft.sequence >= self.flushed.get()
    }

    /// What goes out now: everything that waits, up to a limit, and up to the first entry whose
    /// payload is not flushed.
    fn next_batch(&self) -> Vec<Draft> {
        let mut batch = Vec::new();
        let mut size = 0;
        batch.extend(self.repeat());
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.front() {
            size += first.draft.body.len();
            let later = self.wants_flush(first) && !is_planted(Bug::EarlyEntries);
            if later || !batch.is_empty() && size > LARGEST_BATCH {
                break;
            }
            let first = waiting.pop_front().expect("just seen");
            self.use_up(first.room);
            batch.push(first.draft);
        }
        batch
    }

    /// An entry that tells again what the head is to pass: the oldest answers, if they lie far
    /// behind, and all chains that have not ended.
    fn repeat(&self) -> Option<Draft> {
        let mut records = Vec::new();
        if self.has_room_for_answers() {
            let head = self.head_of_changes();
            records = self.memory.borrow_mut().lagging(self.journal.tail(), head);
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
        (!records.is_empty()).then_some(Draft { records: records.len() as u32, body, sequence: 0 })
    }

    fn note_places(&self, sequences: &[u64], recnos: &[u64]) {
        for (&sequence, &recno) in sequences.iter().zip(recnos) {
            match sequence {
                0 => self.note_repeated(recno),
                _ => self.note_place(sequence, recno),
            }
        }
    }

    fn note_repeated(&self, recno: u64) {
        let mut chains = self.chains.borrow_mut();
        let told = chains.values_mut().filter(|active| active.recno.is_some());
        told.for_each(|active| active.recno = Some(recno));
        self.memory.borrow_mut().moved(recno);
    }

    fn note_place(&self, sequence: u64, recno: u64) {
        if let Some(flight) = self.flights.borrow_mut().get_mut(&sequence) {
            flight.recno = Some(recno);
            if flight.payload {
                self.logging.borrow_mut().push_back((sequence, recno));
            }
        }
        let mut chains = self.chains.borrow_mut();
        if let Some(active) = chains.values_mut().find(|active| active.begins == sequence) {
            active.recno = Some(recno);
        }
        self.memory.borrow_mut().placed(sequence, recno);
    }

    /// Chains whose last Update is durable hold nothing any more.
    fn forget_chains(&self, durable: u64) {
        let goes_on = |active: &ActiveChain| active.ends.is_none_or(|ends| ends > durable);
        self.chains.borrow_mut().retain(|_, active| goes_on(active));
    }

    /// Forgets payload in entries that will not be replayed any more.
    fn forget_logged(&self) {
        let head = self.journal.durable_head();
        let mut logging = self.logging.borrow_mut();
        let mut newest_gone = None;
        while let Some(&(sequence, recno)) = logging.front()
            && recno < head
        {
            newest_gone = Some(sequence);
            logging.pop_front();
        }
        if let Some(gone) = newest_gone {
            self.logged.borrow_mut().retain(|_, &mut (_, sequence)| sequence > gone);
        }
    }
}
