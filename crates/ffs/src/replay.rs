//! Replay: recovery of a volume that crashed under policy `log`.
//!
//! Two passes over the live log of an open epoch, from the head to the tail. The first, which also
//! finds the tail, finds the changes that must not be written: older changes of fragments that were
//! freed, and of fragments whose content was written past the log. It collects these by runs, so
//! that they take no more memory than the records that name them. The second goes as far as the
//! first, and applies the rest in order, some segments at a time: changes of one place by several
//! entries are merged in memory, and each place is read and written once, in disk order. Then it
//! writes the maps of the affected groups, derived and sealed anew, with their summary rows; then
//! it flushes.
//!
//! **Commit point**: there is none here. Nothing in the log changes; the caller begins a new epoch
//! when all this is flushed, and until then the same replay can be repeated and interrupted again.
//!
//! # What tears
//! In-place writes in flight may have torn a block between sectors. Every byte that differs between
//! old and new is under a hold, hence logged, and is written again whole: inodes (two to a sector),
//! directory chunks (a sector each), ranges of pointers, bits. Derived fields of a group's header
//! are derived again. Sectors without logged changes have not changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use block::{BlockDevice, Durability, IoError};
use bytes::Bytes;
use futures::future::join_all;
use journal::format::{SEGMENT_UNITS, State};
use journal::{Entry, JournalError, Live, Walker, find_with};
use runtime::Timestamp;
use ufs2::derive::bits;
use ufs2::layout::{Dinode, GROUP_MAGIC, Geometry, GroupHeader, Summary};
use vfs::{CallKey, LoggedReply, Repetitions};

use crate::home::seal_group;
use crate::planted::{Bug, is_planted};
use crate::policy::log::Survived;
use crate::policy::log::record::{Map, Record, read_records};
use crate::revoked::Revoked;
use vnode::answer;
use vnode::chain::Chain;

/// Statistics of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Entries between head and tail.
    pub entries: u64,
    /// Size of the entries in bytes.
    pub bytes: u64,
    /// Records in the entries.
    pub records: u64,
    /// Records that change a place on the volume.
    pub changes: u64,
    /// Skipped records: their place was freed or overwritten since.
    pub revoked: u64,
    /// Runs of fragments that are revoked in older entries.
    pub revoked_runs: u64,
    /// Writes to the volume.
    pub writes: u64,
    /// Reads needed to find the last segment.
    pub search_reads: u64,
    /// Unfinished chains.
    pub chains: u64,
    /// Answers that are remembered.
    pub answers: u64,
}

/// Reason why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log is invalid or damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The volume failed.
    #[error("the disk cannot be read or written: {0}")]
    Device(#[from] IoError),
    /// The block of a group has been destroyed.
    #[error("the header of group {group}, to which the log has changes, is none")]
    Group {
        /// Number of the group.
        group: u64,
    },
    /// An entry is intact, but has an impossible record.
    #[error("the log's entry {recno} says what cannot be done on this volume")]
    Impossible {
        /// Recno of the entry.
        recno: u64,
    },
}

/// Number of segments that are merged at a time.
const SEGMENTS_AT_ONCE: u64 = 64;
/// Places within this many bytes are read and written together.
const SPAN: u64 = 64 << 10;
/// Number of spans that are read and written at a time.
const SPANS_AT_ONCE: usize = 32;
/// Maximum bytes that are implied by the log rather than stored in it, before merged data is
/// written.
const MOST_HELD: usize = 32 << 20;

static ZEROS: [u8; SPAN as usize] = [0; SPAN as usize];

/// Replays the log of an epoch for the volume with this number in it, and returns the unfinished
/// chains; `None` if the log has no such epoch. Everything is flushed at the end.
///
/// # Errors
/// [`ReplayError`]; the log is as it was.
pub async fn replay(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    log: &dyn BlockDevice,
    (epoch, number): (u64, u16),
    now: Timestamp,
) -> Result<Option<Outcome>, ReplayError> {
    let mut replay = Replay::new(device, geometry, number);
    let mut wrong = None;
    let surveyed = find_with(log, epoch, |entry| {
        if let Err(error) = replay.survey(entry) {
            wrong = Some((entry.recno(), error));
        }
    });
    let Some(live) = surveyed.await? else { return Ok(None) };
    // The changes of a closed log are in place, and a survey sees none.
    let is_open = live.slot.state() == State::Open || is_planted(Bug::ReplayedRest);
    assert!(is_open, "what is replayed was surveyed");
    if let Some((_, error)) = wrong.filter(|(recno, _)| *recno >= live.head) {
        return Err(error);
    }
    replay.chains.retain(|_, (recno, _)| *recno >= live.head);
    replay.done.bytes = live.bytes();
    replay.done.search_reads = live.search_reads;
    let mut walker = Walker::new(log, live.slot, live.head);
    let mut window = live.head / SEGMENT_UNITS / SEGMENTS_AT_ONCE;
    while let Some(entry) = walker.next().await? {
        if entry.recno() >= live.tail && !is_planted(Bug::ReplayedRest) {
            break;
        }
        let at = entry.recno() / SEGMENT_UNITS / SEGMENTS_AT_ONCE;
        if at != window || replay.held > MOST_HELD {
            window = at;
            replay.write_spans().await?;
        }
        replay.take(&entry)?;
    }
    replay.write_spans().await?;
    replay.write_groups(now.seconds).await?;
    if !is_planted(Bug::EarlyEpoch) {
        device.flush().await?;
    }
    let chains: Vec<Chain> = replay.chains.into_values().map(|(_, chain)| chain).collect();
    replay.done.chains = chains.len() as u64;
    replay.done.revoked_runs = replay.revoked.runs() as u64;
    let survived = replay.answers.survived(live.head);
    replay.done.answers = survived.remembered.len() as u64;
    Ok(Some(Outcome { live, replayed: replay.done, chains, survived }))
}

/// Result of a replay.
pub struct Outcome {
    /// The live log.
    pub live: Live,
    /// Statistics.
    pub replayed: Replayed,
    /// Unfinished chains.
    pub chains: Vec<Chain>,
    /// Answers and counters that were remembered.
    pub survived: Survived,
}

/// Answers as they are found: the last answer of a call counts, and rewritten ones are in their old
/// order.
#[derive(Default)]
pub struct Answers {
    found: HashMap<Rc<CallKey>, (u64, LoggedReply)>,
    repetitions: Repetitions,
}

impl Answers {
    /// Takes the answers in an entry. Ignores other records, and malformed entries.
    pub fn see(&mut self, entry: &Entry) {
        let records = read_records(entry.header.records.get(), &entry.body);
        for record in records.unwrap_or_default() {
            match record {
                Record::Answer(data) => {
                    let remembered = answer::read(&data);
                    remembered.into_iter().for_each(|one| self.add(entry.recno(), one));
                }
                Record::Repetitions(repetitions) => self.repetitions = repetitions,
                _ => {}
            }
        }
    }

    fn add(&mut self, recno: u64, remembered: LoggedReply) {
        let key = remembered.answered.key.clone();
        if !(is_planted(Bug::FirstAnswers) && self.found.contains_key(&key)) {
            self.found.insert(key, (recno, remembered));
        }
    }

    /// The answers in entries from the head on.
    pub fn survived(self, head: u64) -> Survived {
        let live = self.found.into_values().filter(|(recno, _)| *recno >= head);
        let mut all: Vec<LoggedReply> = live.map(|(_, remembered)| remembered).collect();
        all.sort_by(|one, other| (one.at, &one.answered.key).cmp(&(other.at, &other.answered.key)));
        Survived { remembered: all, repetitions: self.repetitions }
    }
}

/// A change of a group's block.
enum GroupChange {
    Bits { map: Map, first: u64, count: u64, value: bool },
    Bytes { offset: u64, data: Bytes },
}

struct Replay<'a> {
    device: &'a dyn BlockDevice,
    geometry: &'a Geometry,
    sector: u64,
    /// The volume's number in the log.
    number: u16,
    /// Fragments revoked in older entries, with the recno.
    revoked: Revoked,
    /// Chains by inode, each with the entry that records its beginning.
    chains: BTreeMap<u64, (u64, Chain)>,
    answers: Answers,
    groups: BTreeMap<u64, Vec<GroupChange>>,
    /// Bytes to write, by spans: offset in the span, and data, in order.
    spans: BTreeMap<u64, Vec<(u64, Bytes)>>,
    /// Bytes among them that the log does not store itself.
    held: usize,
    done: Replayed,
}

impl<'a> Replay<'a> {
    fn new(device: &'a dyn BlockDevice, geometry: &'a Geometry, number: u16) -> Self {
        Self {
            device,
            geometry,
            number,
            sector: u64::from(device.geometry().logical_sector_size),
            revoked: Revoked::default(),
            chains: BTreeMap::new(),
            answers: Answers::default(),
            groups: BTreeMap::new(),
            spans: BTreeMap::new(),
            held: 0,
            done: Replayed::default(),
        }
    }

    fn is_own(&self, entry: &Entry) -> bool {
        entry.header.volume.get() == self.number || is_planted(Bug::EverybodysEntries)
    }

    /// The first pass.
    fn survey(&mut self, entry: &Entry) -> Result<(), ReplayError> {
        if !self.is_own(entry) {
            return Ok(());
        }
        let recno = entry.recno();
        for record in self.records(entry)? {
            match record {
                Record::Bits { group, map: Map::Fragments, first, count, value: true }
                    if !is_planted(Bug::NoFreeingRevokes) =>
                {
                    let base = self.geometry.group_base(group) + first;
                    self.revoked.add(base..base + count, recno);
                }
                Record::Revoked { offset, length } => {
                    let fragment = self.geometry.fragment_size;
                    let run = offset / fragment..(offset + length).div_ceil(fragment);
                    self.revoked.add(run, recno);
                }
                Record::ChainBegins(chain) if !self.geometry.is_inode(chain.ino) => {
                    return Err(ReplayError::Impossible { recno });
                }
                Record::ChainBegins(chain) => {
                    self.chains.insert(chain.ino, (recno, chain));
                }
                Record::ChainEnds(ino) => {
                    self.chains.remove(&ino);
                }
                Record::Answer(data) => {
                    let remembered = answer::read(&data);
                    let remembered = remembered.ok_or(ReplayError::Impossible { recno })?;
                    self.answers.add(recno, remembered);
                }
                Record::Repetitions(repetitions) => self.answers.repetitions = repetitions,
                _ => {}
            }
        }
        Ok(())
    }

    /// The records of an entry, each of them valid on this volume.
    fn records(&self, entry: &Entry) -> Result<Vec<Record>, ReplayError> {
        let impossible = ReplayError::Impossible { recno: entry.recno() };
        let Ok(records) = read_records(entry.header.records.get(), &entry.body) else {
            return Err(impossible);
        };
        let possible = records.iter().all(|record| self.is_possible(record));
        if possible { Ok(records) } else { Err(impossible) }
    }

    fn is_possible(&self, record: &Record) -> bool {
        let geometry = self.geometry;
        let end = geometry.byte_address(geometry.size);
        let inside =
            |offset: u64, length: u64| offset.checked_add(length).is_some_and(|to| to <= end);
        match record {
            Record::Bytes { offset, data } => inside(*offset, data.len() as u64),
            Record::Zeros { offset, length } => {
                inside(*offset, *length) && *length <= 2 * geometry.block_size
            }
            Record::Revoked { offset, length } => inside(*offset, *length),
            Record::Inodes { offset, generations } => {
                let count = generations.len() / size_of::<u32>();
                inside(*offset, (count * size_of::<Dinode>()) as u64)
            }
            Record::Bits { group, map, first, count, .. } => {
                let most = match map {
                    Map::Inodes => geometry.inodes_per_group,
                    Map::Fragments if *group < geometry.group_count => {
                        geometry.group_size_fragments(*group)
                    }
                    Map::Fragments => 0,
                };
                let end = first.checked_add(*count);
                *group < geometry.group_count && end.is_some_and(|end| end <= most)
            }
            Record::Group { group, offset, data } => {
                let end = offset.checked_add(data.len() as u64);
                *group < geometry.group_count
                    && end.is_some_and(|end| end <= size_of::<GroupHeader>() as u64)
            }
            Record::ChainBegins(_)
            | Record::ChainEnds(_)
            | Record::Answer(_)
            | Record::Repetitions(_) => true,
        }
    }

    /// The second pass.
    fn take(&mut self, entry: &Entry) -> Result<(), ReplayError> {
        if !self.is_own(entry) {
            return Ok(());
        }
        let recno = entry.recno();
        self.done.entries += 1;
        for record in self.records(entry)? {
            self.done.records += 1;
            self.done.changes += u64::from(record.is_change());
            match record {
                Record::Bytes { offset, data } => self.put(recno, offset, data),
                Record::Zeros { offset, length } => self.put_zeros(recno, offset, length),
                Record::Inodes { offset, generations } => {
                    let image = inodes(&generations);
                    self.held += image.len();
                    self.put(recno, offset, image);
                }
                Record::Bits { group, map, first, count, value } => {
                    let flips = map == Map::Inodes && is_planted(Bug::FlippedInodeBits);
                    let value = value != flips;
                    let change = GroupChange::Bits { map, first, count, value };
                    self.groups.entry(group).or_default().push(change);
                }
                Record::Group { group, offset, data } => {
                    let change = GroupChange::Bytes { offset, data };
                    self.groups.entry(group).or_default().push(change);
                }
                Record::Revoked { .. }
                | Record::ChainBegins(_)
                | Record::ChainEnds(_)
                | Record::Answer(_)
                | Record::Repetitions(_) => {}
            }
        }
        Ok(())
    }

    /// Notes zeros to write, which share one copy.
    fn put_zeros(&mut self, recno: u64, offset: u64, length: u64) {
        for at in (0..length).step_by(ZEROS.len()) {
            let step = (length - at).min(SPAN) as usize;
            self.put(recno, offset + at, Bytes::from_static(&ZEROS[..step]));
        }
    }

    /// Notes bytes to write, span by span, except in fragments that were revoked later.
    fn put(&mut self, recno: u64, offset: u64, data: Bytes) {
        let fragment_size = self.geometry.fragment_size;
        let mut at = 0;
        let mut passed_over = false;
        while at < data.len() {
            let here = offset + at as u64;
            let (later, end) = self.revoked.at(here / fragment_size);
            let run = end.saturating_mul(fragment_size) - here;
            let step = run.min(SPAN - here % SPAN).min((data.len() - at) as u64);
            let piece = data.slice(at..at + step as usize);
            at += step as usize;
            if later.is_some_and(|later| later > recno) {
                passed_over = true;
                continue;
            }
            let span = self.spans.entry(here / SPAN).or_default();
            match span.last_mut() {
                _ if is_planted(Bug::ReplayBackwards) => span.insert(0, (here % SPAN, piece)),
                _ => span.push((here % SPAN, piece)),
            }
        }
        self.done.revoked += u64::from(passed_over);
    }

    /// Reads, merges and writes the noted bytes.
    async fn write_spans(&mut self) -> Result<(), ReplayError> {
        self.held = 0;
        let spans: Vec<_> = std::mem::take(&mut self.spans).into_iter().collect();
        for some in spans.chunks(SPANS_AT_ONCE) {
            let writes = some.iter().map(|(span, pieces)| self.write_span(*span, pieces));
            for result in join_all(writes).await {
                result?;
            }
            self.done.writes += some.len() as u64;
        }
        Ok(())
    }

    async fn write_span(&self, span: u64, pieces: &[(u64, Bytes)]) -> Result<(), IoError> {
        let first = pieces.iter().map(|(at, _)| *at).min().unwrap_or(0);
        let end = pieces.iter().map(|(at, data)| at + data.len() as u64).max().unwrap_or(0);
        let start = first / self.sector * self.sector;
        let length = (end - start).next_multiple_of(self.sector);
        let offset = span * SPAN + start;
        let mut image = self.device.read(offset, block::Buffer::unfilled(length as usize)).await?;
        for (at, data) in pieces {
            let at = (at - start) as usize;
            image[at..at + data.len()].copy_from_slice(data);
        }
        self.device.write(offset, vec![image.freeze()], Durability::Plain).await
    }

    /// Updates the affected groups, each with its summary row.
    async fn write_groups(&mut self, now_seconds: i64) -> Result<(), ReplayError> {
        let mut rows = BTreeMap::new();
        for (group, changes) in std::mem::take(&mut self.groups) {
            let address = self.geometry.group_header_fragment(group);
            let offset = self.geometry.byte_address(address);
            let size = self.geometry.group_block_size as usize;
            let mut image = self.device.read(offset, block::Buffer::unfilled(size)).await?;
            for change in changes {
                change.apply(self.geometry, &mut image);
            }
            let header = GroupHeader::of(&image);
            if header.magic.get() != GROUP_MAGIC || u64::from(header.index.get()) != group {
                return Err(ReplayError::Group { group });
            }
            seal_group(self.geometry, group, &mut image, now_seconds);
            rows.insert(group, GroupHeader::of(&image).counts);
            self.device.write(offset, vec![image.freeze()], Durability::Plain).await?;
            self.done.writes += 1;
        }
        if is_planted(Bug::StaleRows) {
            return Ok(());
        }
        self.write_rows(&rows).await
    }

    async fn write_rows(&mut self, rows: &BTreeMap<u64, Summary>) -> Result<(), ReplayError> {
        let geometry = self.geometry;
        let per_fragment = geometry.fragment_size / size_of::<Summary>() as u64;
        let fragments: BTreeSet<u64> = rows.keys().map(|group| group / per_fragment).collect();
        for fragment in fragments {
            let offset = geometry.byte_address(geometry.summary_address + fragment);
            let size = geometry.fragment_size as usize;
            let mut image = self.device.read(offset, block::Buffer::unfilled(size)).await?;
            let first = fragment * per_fragment;
            for (group, row) in rows.range(first..first + per_fragment) {
                Summary::rows_mut(&mut image)[(group - first) as usize] = *row;
            }
            self.device.write(offset, vec![image.freeze()], Durability::Plain).await?;
            self.done.writes += 1;
        }
        Ok(())
    }
}

impl GroupChange {
    fn apply(&self, geometry: &Geometry, image: &mut [u8]) {
        match self {
            GroupChange::Bits { map, first, count, value } => {
                let map = match map {
                    Map::Fragments => geometry.maps.fragments_in_mut(image),
                    Map::Inodes => geometry.maps.inodes_in_mut(image),
                };
                if *value {
                    bits::set_range(map, *first..first + count)
                } else {
                    bits::clear_range(map, *first..first + count)
                }
            }
            GroupChange::Bytes { offset, data } => {
                let at = *offset as usize;
                image[at..at + data.len()].copy_from_slice(data);
            }
        }
    }
}

/// A block of free inodes.
fn inodes(generations: &[u8]) -> Bytes {
    let size = size_of::<Dinode>();
    let mut image = vec![0; generations.len() / size_of::<u32>() * size];
    for (index, generation) in generations.chunks_exact(size_of::<u32>()).enumerate() {
        let generation = u32::from_le_bytes(generation.try_into().expect("four bytes"));
        Dinode::at_mut(&mut image, index * size).generation.set(generation);
    }
    image.into()
}
