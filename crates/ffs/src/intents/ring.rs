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
use vnode::chain::ChainLink;
use vnode::horizon::Horizon;

use super::FIRST_SEEN;
use super::chains::Chains;
use super::evidence::Evidence;
use super::record::{INHERITED, Intent, OWNER, Record, Survivor};
use crate::planted::{Bug, is_planted};

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

/// A wait of an Update for the mark of a tracked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The tracked Update.
    pub(crate) on: u64,
    /// The first rank that waits: 0 where the Update changes an inode that is evidence, whatever it
    /// changes there.
    pub(crate) from: u32,
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
    /// For each Update that is held up, its waits.
    waits: BTreeMap<u64, Vec<Hold>>,
    /// Intents that no batch has taken yet.
    staged: VecDeque<Intent>,
    /// Intents whose batch is not durable.
    unwritten: BTreeSet<u64>,
    /// Batch in flight: the Updates that it marks as done, its last intent, and its recno.
    writing: Option<(Vec<u64>, u64, u64)>,
    written: VecDeque<Written>,
    chains: Chains,
    /// Whether the intents of earlier boots have verdicts; until then none is given up.
    is_judged: bool,
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
        let first = this.journal.tail();
        for (survivor, number) in left.iter().zip(INHERITED..) {
            let intent = Intent { sequence: number, after: Vec::new(), ..survivor.intent.clone() };
            this.book.borrow_mut().chains.inherit(intent.clone(), first);
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

    /// Records the verdicts on the inherited intents, in their order, where there are some.
    pub(crate) async fn judged(&self, has_happened: &[Option<bool>]) -> Result<(), IoError> {
        let of = |kind| {
            let numbered = has_happened.iter().zip(INHERITED..);
            numbered.filter(move |&(&one, _)| one == Some(kind)).map(|(_, number)| number)
        };
        let (done, dropped): (Vec<u64>, Vec<u64>) = (of(true).collect(), of(false).collect());
        let done = done.chunks(1024).map(|some| Record::Done(some.to_vec()));
        let dropped = dropped.chunks(1024).map(|some| Record::Dropped(some.to_vec()));
        let records: Vec<Record> = done.chain(dropped).collect();
        self.write_all(&records).await
    }

    /// The verdicts are durable, and truncations of these files go on.
    pub(crate) fn resume(&self, files: &[u64]) {
        let mut book = self.book.borrow_mut();
        book.chains.keep(files);
        book.is_judged = true;
    }

    /// Writes records while no Update is in flight.
    async fn write_all(&self, records: &[Record]) -> Result<(), IoError> {
        let mut records = records.iter().peekable();
        while records.peek().is_some() {
            let mut bodies = Bodies::default();
            while records.next_if(|record| bodies.take(record, usize::MAX).is_some()).is_some() {}
            self.place(bodies.drafts(), Vec::new(), 0).1.await?;
            self.note_written();
        }
        Ok(())
    }

    /// Begins to write a batch, with the oldest needed entry as its head. Gives its place, too.
    fn place(
        &self,
        drafts: Vec<Draft>,
        done: Vec<u64>,
        last: u64,
    ) -> (u64, LocalBoxFuture<'static, Result<(), IoError>>) {
        let head = self.book.borrow().written.front().map(|first| first.recno);
        let (recnos, written) = self.journal.place(drafts, head);
        self.book.borrow_mut().writing = Some((done, last, recnos[0]));
        (recnos[0], written)
    }

    /// The batch in flight is durable.
    fn note_written(&self) {
        let mut book = self.book.borrow_mut();
        let (_, last, recno) = book.writing.take().expect("a batch is under way");
        book.written.push_back(Written { recno, last });
    }

    /// Gives up the oldest batches if all of them are too large (invariants 4 and 5). Returns the
    /// intents in them that the next batch must have again. Their Updates are done.
    fn prune(&self, book: &mut Book, horizon: &Horizon) -> Vec<Intent> {
        let mut again = Vec::new();
        let in_flight = book.tracked.iter().find(|&(&sequence, tracked)| {
            tracked.has_intent && !horizon.has_passed(Sequence(sequence))
        });
        let in_flight = in_flight.map_or(u64::MAX, |(&sequence, _)| sequence);
        let (most, tail) = (self.journal.capacity() / SHARE, self.journal.tail());
        while book.is_judged
            && book.written.len() > 1
            && book
                .written
                .front()
                .is_some_and(|first| (tail - first.recno) * UNIT > most && first.last < in_flight)
        {
            let given_up = book.written.pop_front().expect("it was looked at");
            again.extend(book.chains.in_batch(given_up.recno, horizon));
        }
        again
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
        let hiding = fields.iter().copied().filter(|field| matches!(field, Field::Name(_)));
        let hiding = hiding.chain(evidence.ended.iter().map(|&ino| Field::Directory(ino)));
        let hiding = hiding.chain(evidence.touched.iter().map(|&ino| Field::Inode(ino)));
        let waits = book.waits_for(hiding, has_intent);
        if has_intent && let Some(inode) = evidence.inode {
            fields.push(Field::Inode(inode.ino));
        }
        let intent = answered.map(|(answered, at)| Intent {
            sequence,
            after: waits.iter().map(|wait| wait.on).collect(),
            names: evidence.names.clone(),
            inode: evidence.inode,
            goal: goal_of(chain),
            answer: answer::write(at, answered),
        });
        if let Some(link) = chain {
            book.chains.note(sequence, link, intent.as_ref());
        }
        if let Some(intent) = intent {
            book.staged.push_back(intent);
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

    /// Whether the changes of this rank of an Update may reach the disk (invariants 1 and 2).
    pub(crate) fn allows(&self, sequence: u64, rank: u32) -> bool {
        let book = self.book.borrow();
        let is_written = rank < FIRST_SEEN || !book.unwritten.contains(&sequence);
        let is_over = |wait: &Hold| wait.from > rank || !book.tracked.contains_key(&wait.on);
        (is_written || is_planted(Bug::LateIntents))
            && book.waits.get(&sequence).is_none_or(|waits| waits.iter().all(is_over))
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

    /// The waits of an Update.
    pub(crate) fn waits_of(&self, sequence: u64) -> Vec<Hold> {
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
        let is_wanted = |wait: &Hold| done.binary_search(&wait.on).is_ok();
        if book.staged.is_empty() && !book.waits.values().flatten().any(is_wanted) {
            return None;
        }
        let (mut bodies, mut last) = (Bodies::default(), 0);
        let mut intents = Vec::new();
        for intent in self.prune(&mut book, horizon) {
            intents.push(intent.sequence);
            bodies.take(&Record::Done(vec![intent.sequence]), usize::MAX);
            let taken = bodies.take(&Record::Intent(intent), usize::MAX);
            assert!(taken.is_some(), "few files are truncated at a time");
        }
        // Behind those that move: they are in the first entry, which names their old place as given
        // up, so a torn batch has both or neither.
        if !done.is_empty() {
            bodies.take(&Record::Done(done.clone()), usize::MAX);
        }
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
            intents.push(number);
        }
        drop(book);
        let drafts = bodies.drafts();
        if drafts.is_empty() {
            return None;
        }
        let (recno, written) = self.place(drafts, done, last);
        self.book.borrow_mut().chains.place(&intents, recno);
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
    /// The waits of an Update that would hide evidence in these fields.
    fn waits_for(&self, hiding: impl Iterator<Item = Field>, has_intent: bool) -> Vec<Hold> {
        let mut waits: Vec<Hold> = Vec::new();
        for field in hiding {
            let Some(&on) = self.last.get(&field) else { continue };
            if !has_intent && !self.tracked[&on].has_intent {
                continue;
            }
            let is_whole = matches!(field, Field::Inode(_)) && !is_planted(Bug::EarlyLinkCounts);
            waits.push(Hold { on, from: if is_whole { 0 } else { FIRST_SEEN } });
        }
        waits.sort_unstable_by_key(|wait| (wait.on, wait.from));
        waits.dedup_by_key(|wait| wait.on);
        waits
    }

    /// The Updates that have happened and need a mark in the ring; forgets other ones that have
    /// happened.
    fn take_done(&mut self, horizon: &Horizon, most: usize) -> Vec<u64> {
        let passed = |sequence: &u64| horizon.has_passed(Sequence(*sequence));
        let wanted: BTreeSet<u64> = self.waits.values().flatten().map(|wait| wait.on).collect();
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
        Some(ChainLink::Begins(chain)) => chain.size,
        _ => None,
    }
}
