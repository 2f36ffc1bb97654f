//! What a log holds of a volume: brought home, looked at, left alone, or given up.

use block::BlockDevice;
use journal::format::{Slot, State};
use journal::{Entry, JournalError, Live};
use runtime::Timestamp;
use ufs2::mark::{Mark, PolicyKind};

use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::recovery::{Recovery, Unopened, read_rows};
use crate::replay::{Answers, ReplayError, Replayed, replay};

/// What is to become of a log, for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogUse {
    /// Bring what it holds home, for good: afterwards it holds nothing.
    Replay,
    /// Bring it home, and leave the log as it is: `device` keeps nothing for good.
    Look,
    /// Leave it out, and as it is.
    LeaveOut,
    /// Give up what it holds.
    GiveUp,
}

/// Brings home what the log of a volume holds that was not stopped cleanly, without opening it: for
/// a caller that wants to check it. Nothing happens if there is nothing.
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
        return Ok(None); // no superblock tells whose log it is
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
    // What the superblock says of the rows is only written when a volume is opened or stopped.
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

/// Makes durable what is there to be read: of a process that was killed, that may be in a cache
/// alone. What is written because of it, a replay above all, would outlive it if the power went.
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

/// Gives up what a log holds of the volume on `device`; all of it, if the log is not shared. What
/// is another's stays: see [`given_up`]. So does all of it, while the disk does not say which
/// volume it is: it may never do so again, and then nothing was gained.
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

/// Under which number a volume has what it gives up in the newest epoch of a log; none, if that is
/// of others, or the volume never came to bear it and has nothing in it. Others may be copies of
/// the volume, with its id, so what the disk bears decides. One that bears none was stopped
/// cleanly, and gives up what is left under its id.
pub(crate) fn given_up(newest: &Slot, found: &mut Unopened) -> Option<u16> {
    match found.nonce() {
        0 => newest.number_at_rest(found.id()),
        nonce => newest.number_of(found.id(), nonce),
    }
}

/// Brings a volume back that bears the number of an epoch; none when the log has none such.
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
        // It was about to be stopped cleanly, or all of it has been brought home.
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

/// The log of a volume that was stopped cleanly: its changes are home, and it may keep answers.
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

/// Whether this says that a part of the log is gone.
pub(super) fn is_broken(error: &JournalError) -> bool {
    use JournalError::{Damaged, Headless, Short};
    matches!(error, Damaged { .. } | Headless { .. } | Short { .. })
}

/// What the log keeps beside changes of a volume that was stopped cleanly.
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
        return Ok(Recovery::default()); // nothing that any volume needs
    }
    let Some(live) = rest.map_err(ReplayError::from)? else { return Ok(Recovery::default()) };
    let survived = answers.survived(live.head);
    Ok(Recovery { live: Some(live), survived, ..Recovery::default() })
}

/// Refuses a log that holds changes, for a volume that does not bear its epoch; if it is shared,
/// changes of this volume. What holds none is the beginning of an epoch that the volume never came
/// to bear.
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
        // What cannot be read may be anything: it is not for this volume to give it up.
        Err(OpenError::Replay(ReplayError::Journal(error))) if is_anothers && is_broken(&error) => {
            Err(OpenError::LogAnothers)
        }
        Ok(Some(_)) => Err(OpenError::LogLeft),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a log in which an epoch that began behind that of `slot` holds changes. Another volume
/// bears it: changes come when an epoch is borne, and the volume bears that of `slot`.
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

/// What is live of an epoch, if there are changes in it of these volumes.
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

/// Whether the volume on `device` needs what is in this log.
///
/// # Errors
/// [`OpenError`].
pub async fn is_needed(device: &dyn BlockDevice, log: &dyn BlockDevice) -> Result<bool, OpenError> {
    let mut found = Unopened::read(device).await?;
    let place = journal::belongs(log, found.id(), found.nonce()).await;
    Ok(place.map_err(ReplayError::from)?.is_some())
}
