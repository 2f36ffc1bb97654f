//! The ring of an earlier boot.

use std::collections::BTreeSet;

use block::BlockDevice;
use journal::format::State;
use journal::{Entry, JournalError, Live};
use ufs2::mark::{Mark, PolicyKind};

use super::record::{Intent, OWNER, Record, Survivor};
use crate::open_superblock::OpenSuperblock;
use crate::planted::{Bug, is_planted};

/// Intents left by an earlier boot.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Their entries; `None` if no entry counts.
    pub(crate) live: Option<Live>,
    /// Intents in order.
    pub(crate) survivors: Vec<Survivor>,
    /// Damage of the ring, for which no entry is believed.
    pub(crate) damage: Option<JournalError>,
}

/// Contents of the entries read so far.
#[derive(Default)]
struct Reading {
    intents: Vec<Intent>,
    done: BTreeSet<u64>,
    dropped: BTreeSet<u64>,
    rest: Option<i64>,
}

impl Reading {
    fn see(&mut self, entry: &Entry) {
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

    /// The Updates that may have happened. An Update becomes visible after those that it waits for
    /// are done, and the ring says so.
    fn survivors(self) -> Vec<Survivor> {
        let Self { intents, done, dropped, .. } = self;
        let is_done = |number: &u64| done.contains(number);
        let may_be_seen = |intent: &Intent| {
            intent.after.iter().all(is_done) || is_planted(Bug::IgnoredIntentOrder)
        };
        let alive = intents.into_iter().filter(|intent| !dropped.contains(&intent.sequence));
        let seen = alive.filter(|intent| is_done(&intent.sequence) || may_be_seen(intent));
        seen.map(|intent| Survivor { is_done: done.contains(&intent.sequence), intent }).collect()
    }
}

/// Reads the ring of a volume whose superblock is as its last boot left it. Changes of the disk by
/// another system or another policy since then make all of it void; so does damage.
pub(crate) async fn look(
    ring: &dyn BlockDevice,
    superblock: &mut OpenSuperblock,
) -> Result<Left, JournalError> {
    match look_whole(ring, superblock).await {
        Ok(left) => Ok(left),
        Err(error @ JournalError::Device(_)) => Err(error),
        Err(damage) => Ok(Left { damage: Some(damage), ..Left::default() }),
    }
}

async fn look_whole(
    ring: &dyn BlockDevice,
    superblock: &mut OpenSuperblock,
) -> Result<Left, JournalError> {
    let superblock = superblock.superblock();
    let (mark, volume) = (Mark::of(superblock), superblock.number() ^ OWNER);
    let time = superblock.time.get();
    let nonce = ufs2::mark::nonce(superblock).unwrap_or_default();
    let newest = journal::peek(ring).await?;
    if newest.is_none_or(|slot| slot.owner() != Some(volume)) {
        return Ok(Left::default());
    }
    let mut reading = Reading::default();
    // A repair keeps the number of the ring.
    let is_marked =
        matches!(mark, Mark::Policy(PolicyKind::Sync | PolicyKind::SoftUpdates) | Mark::Check);
    let open = match (is_marked, newest) {
        (true, Some(slot)) if is_planted(Bug::AnyMark) => Some((slot, 0)),
        (true, _) => journal::belongs(ring, volume, nonce).await?,
        _ => None,
    };
    let live = match (mark, open) {
        (_, Some((slot, _))) if slot.state() == State::Open => {
            journal::find_with(ring, slot.epoch.get(), |entry| reading.see(entry)).await?
        }
        (_, Some(_)) | (Mark::Torn, _) => {
            journal::at_rest(ring, |entry| reading.see(entry)).await?
        }
        (Mark::Clean, _) => {
            let live = journal::at_rest(ring, |entry| reading.see(entry)).await?;
            // Another system that wrote the disk has changed the time.
            live.filter(|_| reading.rest == Some(time) || is_planted(Bug::AnyMark))
        }
        _ => None,
    };
    let survivors = if live.is_some() { reading.survivors() } else { Vec::new() };
    Ok(Left { live, survivors, damage: None })
}
