//! A volume's part of a log: replayed, inspected, left alone, or given up.

use block::BlockDevice;
use journal::format::{Slot, State};
use journal::{Entry, JournalError, Live};
use runtime::Timestamp;
use ufs2::mark::{Mark, PolicyKind};

use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::recovery::{Recovery, Unopened, read_rows};
use crate::replay::{Answers, ReplayError, Replayed, replay};

/// The treatment of a log in a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogUse {
    /// Replay its changes durably: afterwards it holds none.
    Replay,
    /// Replay its changes, and leave the log as it is: `device` keeps nothing durably.
    Look,
    /// Ignore it, and leave it as it is.
    LeaveOut,
    /// Give up its changes.
    GiveUp,
}

/// Replays the log of a volume that was not stopped cleanly, without opening the volume: for a
/// caller that wants to check it. Does nothing if the log has no changes.
///
/// # Errors
/// [`OpenError`].
pub async fn replay_log(
    device: &dyn BlockDevice,
    log: &dyn BlockDevice,
    now: Timestamp,
    log_use: LogUse,
) -> Result<Option<Replayed>, OpenError> {
    let Ok(mut found) = Unopened::read(device).await else {
        return Ok(None); // no superblock identifies the log's volume
    };
    match Mark::of(found.superblock.superblock()) {
        Mark::Policy(PolicyKind::Log) => {}
        _ => {
            refuse_left(log, found.id()).await?;
            return Ok(None);
        }
    }
    if log_use == LogUse::Replay {
        make_certain(device, Some(log)).await?;
    }
    let back = replay_back(&mut found, device, log, now).await?.ok_or(OpenError::LogForeign)?;
    // The totals in the superblock are only written when a volume is opened or stopped.
    let (geometry, superblock) = (found.geometry.clone(), &mut found.superblock);
    superblock.set_totals(&read_rows(device, &geometry).await?);
    superblock.write(device, &geometry).await?;
    if let (Some(live), LogUse::Replay) = (&back.live, log_use) {
        let (volume, epoch) = (found.id(), live.slot.epoch.get());
        let number = live.slot.number_of(volume, epoch).filter(|_| live.slot.is_shared());
        let closed = match number {
            Some(number) => journal::close_one(log, live.slot, number, found.nonce()).await,
            None => journal::close(log, live).await,
        };
        closed.map_err(ReplayError::from)?;
    }
    Ok(back.replayed)
}

/// Makes the readable state durable: after a process was killed it may be in a cache alone. Writes
/// based on it, a replay above all, would outlive it if power was lost.
pub(crate) async fn make_certain(
    device: &dyn BlockDevice,
    log: Option<&dyn BlockDevice>,
) -> Result<(), OpenError> {
    if is_planted(Bug::BelievedCaches) {
        return Ok(());
    }
    device.flush().await?;
    match log {
        Some(log) => {
            Ok(log.flush().await.map_err(JournalError::from).map_err(ReplayError::from)?)
        }
        None => Ok(()),
    }
}

/// Gives up a log's changes of the volume on `device`; all changes, if the log is not shared.
/// Changes of other volumes stay: see [`given_up`]. All of them stay while the disk does not
/// identify its volume: it may never do so again, and then nothing was gained.
///
/// # Errors
/// [`JournalError`].
pub(crate) async fn give_up(
    device: &dyn BlockDevice,
    log: &dyn BlockDevice,
) -> Result<(), JournalError> {
    let Some(slot) = journal::peek(log).await? else { return Ok(()) };
    let Ok(mut found) = Unopened::read(device).await else { return Ok(()) };
    match given_up(&slot, &mut found) {
        None => Ok(()),
        Some(number) if slot.is_shared() => {
            journal::close_one(log, slot, number, found.nonce()).await
        }
        Some(_) => journal::forget(log).await,
    }
}

/// The number under which a volume gives up its changes in the newest epoch of a log. `None` if the
/// changes are of other volumes, or the volume never came to bear the epoch and has nothing in it.
/// Others may be copies of the volume, with its id, so the epoch that the disk bears decides. A
/// disk that bears none was stopped cleanly, and gives up the rest under its id.
pub(crate) fn given_up(newest: &Slot, found: &mut Unopened) -> Option<u16> {
    match found.nonce() {
        0 => newest.number_at_rest(found.id()),
        nonce => newest.number_of(found.id(), nonce),
    }
}

/// Recovers a volume that bears the number of an epoch; `None` if the log has no such epoch.
pub(crate) async fn replay_back(
    found: &mut Unopened,
    device: &dyn BlockDevice,
    log: &dyn BlockDevice,
    now: Timestamp,
) -> Result<Option<Recovery>, OpenError> {
    let place = journal::belongs(log, found.id(), found.nonce()).await;
    let Some((slot, number)) = place.map_err(ReplayError::from)? else { return Ok(None) };
    refuse_others(log, &slot).await?;
    let is_open = match slot.lines().get(usize::from(number)) {
        Some(line) => line.is_open(),
        None => slot.state() == State::Open || is_planted(Bug::ReplayedRest),
    };
    if !is_open {
        // It was about to be stopped cleanly, or all its changes are in place.
        let rest = at_rest(log, &slot, number).await?;
        return Ok(Some(Recovery { replayed: Some(Replayed::default()), ..rest }));
    }
    let epoch = (slot.epoch.get(), number);
    let outcome = replay(device, &found.geometry, log, epoch, now).await?;
    Ok(outcome.map(|outcome| Recovery {
        reclaims: false,
        rebuilt: None,
        live: Some(outcome.live),
        replayed: Some(outcome.replayed),
        chains: outcome.chains,
        survived: outcome.survived,
        intents: None,
    }))
}

/// The log of a volume that was stopped cleanly: its changes are in place, and it may keep answers.
pub(crate) async fn look_at_rest(
    log: &dyn BlockDevice,
    volume: u64,
) -> Result<Recovery, OpenError> {
    refuse_left(log, volume).await?;
    let Some(newest) = journal::peek(log).await.map_err(ReplayError::from)? else {
        return Ok(Recovery::default());
    };
    let Some(number) = newest.number_at_rest(volume) else {
        return Ok(Recovery::default()); // it was never in this log
    };
    at_rest(log, &newest, number).await
}

/// Whether this error says that a part of the log is gone.
pub(super) fn is_broken(error: &JournalError) -> bool {
    use JournalError::{Damaged, Headless, Short};
    matches!(error, Damaged { .. } | Headless { .. } | Short { .. })
}

/// The log's records other than changes, for a volume that was stopped cleanly.
async fn at_rest(log: &dyn BlockDevice, slot: &Slot, number: u16) -> Result<Recovery, OpenError> {
    let mut answers = Answers::default();
    let see = |entry: &Entry| {
        if entry.header.volume.get() == number {
            answers.see(entry);
        }
    };
    let rest = match slot.state() {
        State::Open if slot.is_shared() => journal::find_with(log, slot.epoch.get(), see).await,
        _ => journal::at_rest(log, see).await,
    };
    if slot.is_shared() && rest.as_ref().is_err_and(is_broken) {
        return Ok(Recovery::default()); // no volume needs anything in it
    }
    let Some(live) = rest.map_err(ReplayError::from)? else { return Ok(Recovery::default()) };
    let survived = answers.survived(live.head);
    Ok(Recovery { live: Some(live), survived, ..Recovery::default() })
}

/// Refuses a log that holds changes, for a volume that does not bear its epoch; if the log is
/// shared, changes of this volume. A log without changes is the beginning of an epoch that the
/// volume never came to bear.
pub(crate) async fn refuse_left(log: &dyn BlockDevice, volume: u64) -> Result<(), OpenError> {
    let newest = journal::peek(log).await.map_err(ReplayError::from)?;
    let Some(slot) = newest.filter(|slot| slot.state() == State::Open) else { return Ok(()) };
    let Some(number) = slot.number_of(volume, slot.epoch.get()) else { return Ok(()) };
    if slot.lines().get(usize::from(number)).is_some_and(|line| !line.is_open()) {
        return Ok(());
    }
    let is_anothers = slot.owner().is_some_and(|owner| owner != volume);
    match changes_of(log, &slot, |other| other == number).await {
        Ok(Some(_)) if is_anothers => Err(OpenError::LogAnothers),
        // An unreadable log may hold anything: this volume must not give it up.
        Err(OpenError::Replay(ReplayError::Journal(error))) if is_anothers && is_broken(&error) => {
            Err(OpenError::LogAnothers)
        }
        Ok(Some(_)) => Err(OpenError::LogLeft),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a log in which an epoch that began after that of `slot` holds changes. Another volume
/// bears it: changes come once an epoch is borne, and this volume bears that of `slot`.
pub(crate) async fn refuse_others(log: &dyn BlockDevice, slot: &Slot) -> Result<(), OpenError> {
    let newest = journal::peek(log).await.map_err(ReplayError::from)?;
    let other = newest.filter(|newest| {
        let is_other = newest.epoch.get() != slot.epoch.get() && !newest.is_shared();
        is_other && newest.state() == State::Open && !is_planted(Bug::OverwrittenOthers)
    });
    let Some(other) = other else { return Ok(()) };
    match changes_of(log, &other, |_| true).await? {
        Some(_) => Err(OpenError::LogLeft),
        None => Ok(()),
    }
}

/// The live part of an epoch, if it has changes of these volumes.
pub(crate) async fn changes_of(
    log: &dyn BlockDevice,
    slot: &Slot,
    is_meant: impl Fn(u16) -> bool,
) -> Result<Option<Live>, OpenError> {
    let mut last_change = None;
    let found = journal::find_with(log, slot.epoch.get(), |entry| {
        if entry.header.sequence.get() != 0 && is_meant(entry.header.volume.get()) {
            last_change = Some(entry.recno());
        }
    });
    let live = found.await.map_err(ReplayError::from)?;
    Ok(live.filter(|live| last_change.is_some_and(|recno| recno >= live.head)))
}

/// Whether the volume on `device` needs changes in this log.
///
/// # Errors
/// [`OpenError`].
pub async fn is_needed(device: &dyn BlockDevice, log: &dyn BlockDevice) -> Result<bool, OpenError> {
    let mut found = Unopened::read(device).await?;
    let place = journal::belongs(log, found.id(), found.nonce()).await;
    Ok(place.map_err(ReplayError::from)?.is_some())
}
