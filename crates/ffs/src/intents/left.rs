//! The ring of an earlier boot.
//!
//! A damaged ring costs what its damaged part held. An intent there is forgotten. A mark there says
//! that an earlier intent is done, and without it nobody knows whether later Updates have hidden
//! the evidence: so an intent in front of a gap counts only if a mark elsewhere says that it is
//! done.
//! Intents behind the last gap have all their marks, and are judged by the disk as always.
//!
//! A ring at rest ends with a record that says so. Without that record its end is missing, which is
//! a gap like any other.

use std::collections::BTreeSet;

use block::BlockDevice;
use journal::format::{AREA, Circle, LARGEST_BATCH, SEGMENT, Slot, State, UNIT};
use journal::{Entry, JournalError, Live};
use ufs2::mark::{Mark, PolicyKind};

use super::forgiving::Forgiving;
use super::record::{INHERITED, Intent, OWNER, Record, Survivor};
use crate::open_superblock::OpenSuperblock;
use crate::planted::{Bug, is_planted};

/// Intents left by an earlier boot.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Their entries; `None` if no entry counts.
    pub(crate) live: Option<Live>,
    /// Intents in order.
    pub(crate) survivors: Vec<Survivor>,
    /// Damage of the ring by which intents may be lost.
    pub(crate) damage: Option<String>,
}

/// Contents of the entries read so far.
#[derive(Default)]
pub(super) struct Reading {
    intents: Vec<Intent>,
    done: BTreeSet<u64>,
    dropped: BTreeSet<u64>,
    rest: Option<i64>,
    /// Number of intents in front of the last gap.
    before_gap: usize,
}

/// A ring that was read.
struct Ring {
    /// `None` if it is void.
    live: Option<Live>,
    reading: Reading,
    damage: Option<String>,
}

impl Ring {
    /// The same ring, void. Nothing is lost to damage unless that has the time for which it might
    /// be valid.
    fn void(self) -> Self {
        let damage = self.damage.filter(|_| self.reading.rest.is_none());
        Self { live: None, reading: Reading::default(), damage }
    }
}

impl Reading {
    pub(super) fn see(&mut self, entry: &Entry) {
        for record in Record::read_all(&entry.body).unwrap_or_default() {
            self.rest = None;
            match record {
                Record::Intent(intent) => self.intents.push(intent),
                Record::Done(numbers) => self.done.extend(numbers),
                Record::Dropped(numbers) => self.dropped.extend(numbers),
                Record::Rest(time) => self.rest = Some(time),
            }
        }
    }

    /// Entries are missing here.
    fn note_gap(&mut self) {
        if !is_planted(Bug::TrustedGaps) {
            self.before_gap = self.intents.len();
        }
    }

    /// The Updates that may have happened. An Update becomes visible after those that it waits for
    /// are done, and the ring says so.
    pub(super) fn survivors(self) -> Vec<Survivor> {
        let Self { intents, done, dropped, before_gap, .. } = self;
        let is_done = |number: &u64| done.contains(number);
        let may_be_seen = |intent: &Intent| {
            intent.after.iter().all(is_done) || is_planted(Bug::IgnoredIntentOrder)
        };
        let intents = intents.into_iter().enumerate();
        let alive = intents.filter(|(_, intent)| !dropped.contains(&intent.sequence));
        let seen = alive.filter(|(at, intent)| {
            is_done(&intent.sequence) || *at >= before_gap && may_be_seen(intent)
        });
        // An intent that was written again stands behind later ones.
        let mut seen: Vec<Intent> = seen.map(|(_, intent)| intent).collect();
        seen.sort_by_key(|intent| intent.sequence ^ INHERITED);
        seen.dedup_by_key(|intent| intent.sequence);
        let survivor = |intent: Intent| Survivor { is_done: is_done(&intent.sequence), intent };
        seen.into_iter().map(survivor).collect()
    }
}

/// Reads the ring of a volume whose superblock is as its last boot left it. Changes of the disk by
/// another system or another policy since then make all of it void.
pub(crate) async fn look(
    ring: &Forgiving,
    superblock: &mut OpenSuperblock,
) -> Result<Left, JournalError> {
    match look_whole(ring, superblock).await {
        Ok(Some(Ring { live, reading, damage })) => {
            Ok(Left { live, survivors: reading.survivors(), damage })
        }
        // Neither a new ring nor a foreign one has sectors that cannot be read.
        Ok(None) => Ok(Left { damage: unreadable(ring), ..Left::default() }),
        Err(error @ JournalError::Device(_)) => Err(error),
        Err(damage) => Ok(Left { damage: Some(damage.to_string()), ..Left::default() }),
    }
}

fn unreadable(ring: &Forgiving) -> Option<String> {
    let count = ring.unreadable();
    (count > 0).then(|| format!("{count} of its sectors cannot be read"))
}

async fn look_whole(
    ring: &Forgiving,
    superblock: &mut OpenSuperblock,
) -> Result<Option<Ring>, JournalError> {
    let superblock = superblock.superblock();
    let (mark, volume) = (Mark::of(superblock), superblock.number() ^ OWNER);
    let time = superblock.time.get();
    let nonce = ufs2::mark::nonce(superblock).unwrap_or_default();
    let newest = journal::peek(ring).await?;
    if newest.is_some_and(|slot| slot.owner() != Some(volume)) {
        return Ok(None);
    }
    match mark {
        // A repair keeps the number of the ring.
        Mark::Policy(PolicyKind::Sync | PolicyKind::SoftUpdates) | Mark::Check => {
            let slot = match newest {
                Some(slot) if is_planted(Bug::AnyMark) => Some(slot),
                _ => journal::belongs(ring, volume, nonce).await?.map(|(slot, _)| slot),
            };
            match slot {
                Some(slot) if slot.state() == State::Open => read_open(ring, slot).await,
                Some(_) => read_at_rest(ring).await,
                None => read_without_slot(ring, newest, nonce).await,
            }
        }
        // Another system that wrote the disk has changed the time.
        Mark::Clean => Ok(read_at_rest(ring).await?.map(|ring| {
            let is_valid = ring.reading.rest == Some(time) || is_planted(Bug::AnyMark);
            if is_valid { ring } else { ring.void() }
        })),
        Mark::Torn => read_torn(ring, newest, time).await,
        _ => Ok(None),
    }
}

/// Reads the ring of a volume whose mark is torn. The time is that of the mark. If a stop was
/// clearing the mark, the ring at rest has the same time. Otherwise a start was setting the mark,
/// and the time of the clean volume is gone: but that start had compared it, and has taken over
/// what it believed into the epoch that it began before.
async fn read_torn(
    ring: &Forgiving,
    newest: Option<Slot>,
    time: i64,
) -> Result<Option<Ring>, JournalError> {
    let at_rest = read_at_rest(ring).await?;
    if at_rest.as_ref().is_some_and(|ring| ring.reading.rest == Some(time))
        || is_planted(Bug::TimelessMarks)
    {
        return Ok(at_rest);
    }
    match newest.filter(|slot| slot.state() == State::Open) {
        Some(slot) => read_open(ring, slot).await,
        None => Ok(at_rest.map(Ring::void)),
    }
}

/// Reads an epoch that was cut.
async fn read_open(ring: &Forgiving, slot: Slot) -> Result<Option<Ring>, JournalError> {
    let mut reading = Reading::default();
    match journal::find_with(ring, slot.epoch.get(), |entry| reading.see(entry)).await {
        Ok(Some(live)) => {
            let mut damage = None;
            if is_end_unreadable(ring, &live) {
                reading.note_gap();
                damage = unreadable(ring);
            }
            Ok(Some(Ring { live: Some(live), reading, damage }))
        }
        Ok(None) => Ok(None),
        Err(error @ (JournalError::Damaged { .. } | JournalError::Headless { .. })) => {
            read_damaged(ring, slot, error).await
        }
        Err(error) => Err(error),
    }
}

/// Whether the last batch may be missing since it cannot be read. A torn batch can be read.
fn is_end_unreadable(ring: &Forgiving, live: &Live) -> bool {
    let capacity = live.slot.capacity.get();
    let from = live.tail * UNIT % capacity;
    let end = from + LARGEST_BATCH;
    let is_unreadable = |from: u64, end: u64| ring.is_unreadable(AREA + from..AREA + end);
    is_unreadable(from, end.min(capacity)) || is_unreadable(0, end.saturating_sub(capacity))
}

/// Reads the newest epoch that was closed.
async fn read_at_rest(ring: &Forgiving) -> Result<Option<Ring>, JournalError> {
    let mut reading = Reading::default();
    let Some(live) = journal::at_rest(ring, |entry| reading.see(entry)).await? else {
        return Ok(None);
    };
    if reading.rest.is_some() || is_planted(Bug::TrustedGaps) {
        return Ok(Some(Ring { live: Some(live), reading, damage: None }));
    }
    read_damaged(ring, live.slot, JournalError::Headless { head: live.tail }).await
}

/// Reads the epoch of the volume's mark, whose slot is damaged; the other slot is of another epoch,
/// if it is whole. A volume that was served without its ring has none.
async fn read_without_slot(
    ring: &Forgiving,
    other: Option<Slot>,
    epoch: u64,
) -> Result<Option<Ring>, JournalError> {
    let room = (ring.geometry().size - AREA) / SEGMENT * SEGMENT;
    let capacity = other.map_or(room, |slot| slot.capacity.get());
    let slot = Slot::new(epoch, 0, Circle { capacity, start: 0 }, 0, State::Open, &[]);
    match read_damaged(ring, slot, JournalError::Headless { head: 0 }).await {
        Err(JournalError::Headless { .. }) => Ok(None),
        read => read,
    }
}

/// Reads what is intact of a damaged epoch.
async fn read_damaged(
    ring: &Forgiving,
    slot: Slot,
    damage: JournalError,
) -> Result<Option<Ring>, JournalError> {
    let Some(salvaged) = journal::salvage(ring, slot).await? else { return Err(damage) };
    let mut reading = Reading::default();
    for entry in &salvaged.entries {
        if salvaged.behind_gap == Some(entry.recno()) {
            reading.note_gap();
        }
        reading.see(entry);
    }
    let live = salvaged.live;
    let is_cut_off = slot.state() != State::Open && reading.rest.is_none();
    if is_cut_off || is_end_unreadable(ring, &live) {
        reading.note_gap();
    }
    let damage = unreadable(ring).unwrap_or_else(|| damage.to_string());
    Ok(Some(Ring { live: Some(live), reading, damage: Some(damage) }))
}
