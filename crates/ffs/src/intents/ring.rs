//! Intents of this boot: the Updates that they hold up, and the batches in which they become
//! durable.
//!
//! A *tracked* Update is one whose evidence a later one may hide: with an intent until the ring
//! says that it is done, and without one, if it changes names, while it is in flight.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use block::{BlockDevice, IoError};
use futures::future::LocalBoxFuture;
use journal::format::{LARGEST_BODY, UNIT};
use journal::{Draft, Journal, JournalError, Live};
use runtime::Timestamp;
use vfs::{CallReply, Sequence};
use vnode::answer;
use vnode::chain::{Chain, ChainLink};
use vnode::horizon::Horizon;

use super::evidence::Evidence;
use super::record::{Intent, OWNER, Record, Survivor};
use crate::planted::{Bug, is_planted};

/// Flag in the numbers of intents of earlier boots.
const INHERITED: u64 = 1 << 63;
/// Divisor of the ring that gives the share that may be live (invariant 5).
const SHARE: u64 = 3;
/// Maximum number of entries of a batch: none is longer than a segment, and the first may begin in
/// the middle of one.
const MOST_ENTRIES: usize = 3;
/// Minimum number of tracked Updates before finished ones are looked for.
const LEAST_TRACKED: usize = 1024;
/// Maximum number of marks in a batch.
const MOST_MARKS: usize = 4096;

/// A name, directory or inode, for which the tracked Update that changed it last is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Field {
    /// A name, by a hash of it and its directory.
    Name(u64),
    /// Any name of a directory.
    Directory(u64),
    /// An inode that is evidence.
    Inode(u64),
}

/// See the module's prose.
struct Tracked {
    has_intent: bool,
    fields: Vec<Field>,
}

/// A batch that is durable.
struct Written {
    recno: u64,
    /// The last of its intents; 0 for none.
    last: u64,
}

#[derive(Default)]
struct Book {
    tracked: BTreeMap<u64, Tracked>,
    /// The tracked Update that changed each field last.
    last: HashMap<Field, u64>,
    /// For each Update that is held up, the tracked Updates that it waits for.
    waits: BTreeMap<u64, Vec<u64>>,
    /// Intents that no batch has taken yet.
    staged: VecDeque<Intent>,
    /// Intents whose batch is not durable.
    unwritten: BTreeSet<u64>,
    /// Batch in flight: the Updates that it marks as done, its last intent, and its recno.
    writing: Option<(Vec<u64>, u64, u64)>,
    written: VecDeque<Written>,
    /// Number of tracked Updates at which to look next for finished ones.
    most_tracked: usize,
}

/// Facts about an Update: its evidence; the answer to its call and the time, if it is to be
/// remembered; and the chain that it begins.
pub(crate) type Noted<'a> = (&'a Evidence, Option<(&'a CallReply, Timestamp)>, Option<ChainLink>);

/// The ring of an open volume.
pub(crate) struct Intents {
    journal: Journal,
    book: RefCell<Book>,
    hashes: RandomState,
    /// The time in the volume's superblock.
    time: Cell<i64>,
    has_moved: Cell<bool>,
}

impl Intents {
    /// Begins an epoch that takes over the intents `left` from the previous one, each under a new
    /// number, in order. The caller then sets the volume's mark with the number of the epoch, and
    /// calls [`Intents::bear`].
    pub(crate) async fn begin(
        device: Rc<dyn BlockDevice>,
        (epoch, volume): (u64, u64),
        live: Option<&Live>,
        left: &[Survivor],
    ) -> Result<Rc<Self>, JournalError> {
        let journal = match Journal::begin(device.clone(), epoch, volume ^ OWNER, live).await {
            Err(JournalError::Full) => Journal::begin(device, epoch, volume ^ OWNER, None).await?,
            begun => begun?,
        };
        let this = Self {
            journal,
            book: RefCell::default(),
            hashes: RandomState::new(),
            time: Cell::new(0),
            has_moved: Cell::new(false),
        };
        let mut records = Vec::new();
        for (survivor, number) in left.iter().zip(INHERITED..) {
            let intent = Intent { sequence: number, after: Vec::new(), ..survivor.intent.clone() };
            records.push(Record::Intent(intent));
            if survivor.is_done {
                records.push(Record::Done(vec![number]));
            }
        }
        this.write_all(&records).await?;
        Ok(Rc::new(this))
    }

    /// The volume bears the number of this epoch, and this time.
    pub(crate) fn bear(&self, time: i64) {
        self.journal.bear();
        self.time.set(time);
    }

    /// Records the verdicts on the inherited intents, in their order.
    pub(crate) async fn judged(&self, has_happened: &[bool]) -> Result<(), IoError> {
        let numbered = || has_happened.iter().zip(INHERITED..);
        let of = |kind| numbered().filter(move |&(&one, _)| one == kind).map(|(_, number)| number);
        let (done, dropped): (Vec<u64>, Vec<u64>) = (of(true).collect(), of(false).collect());
        let done = done.chunks(1024).map(|some| Record::Done(some.to_vec()));
        let dropped = dropped.chunks(1024).map(|some| Record::Dropped(some.to_vec()));
        let records: Vec<Record> = done.chain(dropped).collect();
        self.write_all(&records).await
    }

    /// Writes records while no Update is in flight.
    async fn write_all(&self, records: &[Record]) -> Result<(), IoError> {
        let mut records = records.iter().peekable();
        while records.peek().is_some() {
            let mut bodies = Bodies::default();
            while records.next_if(|record| bodies.take(record, usize::MAX).is_some()).is_some() {}
            self.place(bodies.drafts(), 0).await?;
            self.note_written();
        }
        Ok(())
    }

    /// Begins to write a batch, with the oldest needed entry as its head.
    fn place(&self, drafts: Vec<Draft>, last: u64) -> LocalBoxFuture<'static, Result<(), IoError>> {
        let head = self.book.borrow().written.front().map(|first| first.recno);
        let (recnos, written) = self.journal.place(drafts, head);
        self.book.borrow_mut().writing = Some((Vec::new(), last, recnos[0]));
        written
    }

    /// The batch in flight is durable.
    fn note_written(&self) {
        let mut book = self.book.borrow_mut();
        let (_, last, recno) = book.writing.take().expect("a batch is under way");
        book.written.push_back(Written { recno, last });
    }

    /// Gives up the oldest batches if all of them are too large (invariants 4 and 5).
    fn prune(&self, book: &mut Book, horizon: &Horizon) {
        let in_flight = book.tracked.iter().find(|&(&sequence, tracked)| {
            tracked.has_intent && !horizon.has_passed(Sequence(sequence))
        });
        let in_flight = in_flight.map_or(u64::MAX, |(&sequence, _)| sequence);
        let (most, tail) = (self.journal.capacity() / SHARE, self.journal.tail());
        while book.written.len() > 1
            && book
                .written
                .front()
                .is_some_and(|first| (tail - first.recno) * UNIT > most && first.last < in_flight)
        {
            book.written.pop_front();
        }
    }

    fn field_of(&self, directory: u64, name: &[u8]) -> Field {
        Field::Name(self.hashes.hash_one((directory, name)))
    }

    /// Notes an Update, with the call that it answers, if that is to be remembered.
    pub(crate) fn note(
        &self,
        Sequence(sequence): Sequence,
        (evidence, answered, chain): Noted<'_>,
        horizon: &Horizon,
    ) {
        let has_intent = answered.is_some();
        let mut book = self.book.borrow_mut();
        if book.tracked.len() > book.most_tracked.max(LEAST_TRACKED) {
            book.take_done(horizon, usize::MAX); // forgets those without intents
            book.most_tracked = 2 * book.tracked.len();
        }
        let names = evidence.names.iter();
        let mut fields: Vec<Field> =
            names.clone().map(|name| self.field_of(name.directory, &name.name)).collect();
        fields.extend(names.map(|name| Field::Directory(name.directory)));
        let mut waits: Vec<u64> = Vec::new();
        let mut wait_for = |book: &Book, field: &Field| {
            if let Some(&before) = book.last.get(field)
                && (has_intent || book.tracked[&before].has_intent)
            {
                waits.push(before);
            }
        };
        for field in fields.iter().filter(|field| matches!(field, Field::Name(_))) {
            wait_for(&book, field);
        }
        for &directory in &evidence.ended {
            wait_for(&book, &Field::Directory(directory));
        }
        for &ino in &evidence.touched {
            wait_for(&book, &Field::Inode(ino));
        }
        waits.sort_unstable();
        waits.dedup();
        if has_intent && let Some(inode) = evidence.inode {
            fields.push(Field::Inode(inode.ino));
        }
        if let Some((answered, at)) = answered {
            book.staged.push_back(Intent {
                sequence,
                after: waits.clone(),
                names: evidence.names.clone(),
                inode: evidence.inode,
                goal: goal_of(chain),
                answer: answer::write(at, answered),
            });
            book.unwritten.insert(sequence);
        }
        if !waits.is_empty() && !is_planted(Bug::OverlappingEvidence) {
            book.waits.insert(sequence, waits);
        }
        if has_intent || !evidence.names.is_empty() {
            book.last.extend(fields.iter().map(|&field| (field, sequence)));
            book.tracked.insert(sequence, Tracked { has_intent, fields });
        }
    }

    /// Whether the visible changes of an Update may reach the disk (invariants 1 and 2).
    pub(crate) fn allows(&self, sequence: u64) -> bool {
        let book = self.book.borrow();
        let is_written = !book.unwritten.contains(&sequence) || is_planted(Bug::LateIntents);
        let waits = book.waits.get(&sequence);
        is_written && waits.is_none_or(|on| on.iter().all(|on| !book.tracked.contains_key(on)))
    }

    /// Whether the Update has an intent that is not known to be done, or waits for one that has.
    pub(crate) fn is_evidence(&self, sequence: u64) -> bool {
        let book = self.book.borrow();
        let has_intent = book.tracked.get(&sequence).is_some_and(|tracked| tracked.has_intent);
        has_intent || book.waits.contains_key(&sequence)
    }

    /// Whether a tracked Update is judged by this inode.
    pub(crate) fn judges_by(&self, ino: u64) -> bool {
        self.book.borrow().last.contains_key(&Field::Inode(ino))
    }

    /// Whether a batch has become durable since the last call.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved.take()
    }

    /// The Updates whose marks an Update waits for.
    pub(crate) fn waits_of(&self, sequence: u64) -> Vec<u64> {
        self.book.borrow().waits.get(&sequence).cloned().unwrap_or_default()
    }

    /// Begins to write a batch, if an Update waits for anything in it.
    pub(crate) fn batch(
        &self,
        horizon: &Horizon,
    ) -> Option<LocalBoxFuture<'static, Result<(), IoError>>> {
        let mut book = self.book.borrow_mut();
        if book.staged.is_empty() && book.waits.is_empty() {
            return None;
        }
        let done = book.take_done(horizon, MOST_MARKS);
        debug_assert!(
            done.iter().all(|&one| horizon.has_passed(Sequence(one))),
            "invariant 3: what is done is durable"
        );
        let is_wanted = |on: &u64| done.binary_search(on).is_ok();
        if book.staged.is_empty() && !book.waits.values().flatten().any(is_wanted) {
            return None;
        }
        let (mut bodies, mut last) = (Bodies::default(), 0);
        if !done.is_empty() {
            bodies.take(&Record::Done(done.clone()), usize::MAX);
        }
        self.prune(&mut book, horizon);
        let head = book.written.front().map_or(self.journal.tail(), |first| first.recno);
        let live = (self.journal.tail() - head) * UNIT;
        let mut room = (self.journal.capacity() / SHARE * 2).saturating_sub(live) as usize;
        while let Some(mut intent) = book.staged.pop_front() {
            intent.after.retain(|on| !horizon.has_passed(Sequence(*on)));
            let (number, record) = (intent.sequence, Record::Intent(intent));
            let Some(size) = bodies.take(&record, room) else {
                let Record::Intent(intent) = record else { unreachable!("it was made one") };
                book.staged.push_front(intent);
                break;
            };
            (room, last) = (room - size, number);
        }
        drop(book);
        let drafts = bodies.drafts();
        if drafts.is_empty() {
            return None;
        }
        let written = self.place(drafts, last);
        self.book.borrow_mut().writing.as_mut().expect("it is under way").0 = done;
        Some(written)
    }

    /// The batch in flight is durable.
    pub(crate) fn batch_written(&self, horizon: &Horizon) {
        let mut book = self.book.borrow_mut();
        let (done, last, _) = book.writing.as_ref().expect("a batch is under way");
        let (done, last) = (done.clone(), *last);
        book.unwritten = book.unwritten.split_off(&(last + 1));
        for sequence in done {
            book.forget(sequence);
        }
        book.waits.retain(|&sequence, _| !horizon.has_passed(Sequence(sequence)));
        drop(book);
        self.has_moved.set(true);
        self.note_written();
    }

    /// Everything is in place: records that, and that the volume was stopped cleanly.
    pub(crate) async fn close(&self, horizon: &Horizon) -> Result<(), IoError> {
        let done = self.book.borrow_mut().take_done(horizon, usize::MAX);
        let mut records: Vec<Record> =
            done.chunks(1024).map(|some| Record::Done(some.to_vec())).collect();
        records.push(Record::Rest(self.time.get()));
        self.write_all(&records).await?;
        let head = self.book.borrow().written.front().map(|first| first.recno);
        self.journal.close(head).await
    }
}

impl Book {
    /// The Updates that have happened and need a mark in the ring; forgets other ones that have
    /// happened.
    fn take_done(&mut self, horizon: &Horizon, most: usize) -> Vec<u64> {
        let passed = |sequence: &u64| horizon.has_passed(Sequence(*sequence));
        let wanted: BTreeSet<u64> = self.waits.values().flatten().copied().collect();
        let (mut done, mut over) = (Vec::new(), Vec::new());
        for (&sequence, tracked) in self.tracked.iter().filter(|(sequence, _)| passed(sequence)) {
            if tracked.has_intent || wanted.contains(&sequence) {
                done.push(sequence);
            } else {
                over.push(sequence);
            }
            if done.len() >= most {
                break;
            }
        }
        over.into_iter().for_each(|sequence| self.forget(sequence));
        done
    }

    fn forget(&mut self, sequence: u64) {
        let Some(tracked) = self.tracked.remove(&sequence) else { return };
        for field in tracked.fields {
            if self.last.get(&field) == Some(&sequence) {
                self.last.remove(&field);
            }
        }
    }
}

/// Entries of a batch that is being collected.
#[derive(Default)]
struct Bodies {
    drafts: Vec<Draft>,
}

impl Bodies {
    /// Takes a record if it fits, also into `room` bytes; returns its size.
    fn take(&mut self, record: &Record, room: usize) -> Option<usize> {
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        let fits = |draft: &Draft| draft.body.len() + bytes.len() <= LARGEST_BODY;
        if bytes.len() > room {
            return None;
        }
        if !self.drafts.last().is_some_and(fits) {
            if self.drafts.len() == MOST_ENTRIES {
                return None;
            }
            self.drafts.push(Draft::default());
        }
        let draft = self.drafts.last_mut()?;
        draft.body.extend_from_slice(&bytes);
        draft.records += 1;
        Some(bytes.len())
    }

    fn drafts(self) -> Vec<Draft> {
        self.drafts
    }
}

/// The final size of a file.
fn goal_of(chain: Option<ChainLink>) -> Option<u64> {
    match chain {
        Some(ChainLink::Begins(Chain { size, .. })) => size,
        _ => None,
    }
}
