//! Volumes and their logs, from one epoch to the next.
//!
//! A volume that has a log alone decides by itself in which epoch it is: a new one begins behind
//! what is live in the old one, takes over chains and answers, and is that of the volume as soon as
//! the superblock bears its number. Until then the old one stays as it is.
//!
//! Several superblocks cannot be written at once. So of a log that is shared the log decides: a
//! slot with a line for every volume is written when all of them have been brought back and the new
//! epoch has taken over what they need. A volume that bears the epoch before belongs to the new one
//! from then on.
//!
//! ```text
//!  bring back each -> save what absent ones need -> take over -> slot -> mark each -> serve
//!  --------------- a cut: the old epoch ------------------------|----- a cut: the new one ----
//! ```
//!
//! **Commit point** of a shared log's beginning: its slot (`SharedLog::found`).
//!
//! A volume that is not there, or that is refused, holds no other up: what the log has of it is
//! saved as a log of its own before the slot is written, and with that it comes back another day.
//! So does one that has stopped while the others go on.
//!
//! Invariants:
//! 1. Nothing of an epoch is overwritten before everything in it is home and flushed on every
//!    volume that is there, and saved for every other one.
//! 2. Chains and answers are in the new epoch before it counts.
//!
//! Not asserted: 1 and 2, which are about the order of whole steps on disks: the tests of returns
//! cut them everywhere.

use std::cell::RefCell;
use std::rc::Rc;

use block::BlockDevice;
use fsck::Progress;
use futures::future::join_all;
use journal::format::{LINES, Line, Slot, State};
use journal::{Entry, Journal, JournalError, Live, ReadOnce};
use runtime::{Runtime, Timestamp};
use ufs2::mark::{Mark, PolicyKind};
use vfs::FsError;

use crate::candidate::{Back, Candidate, Found, OpenOptions, Opened, read_rows};
use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::policy::log::{RedoLog, Save, SharedLog, Survived};
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
    let Ok(mut found) = Found::read(device).await else {
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
    let Ok(mut found) = Found::read(device).await else { return Ok(()) };
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
pub(crate) fn given_up(newest: &Slot, found: &mut Found) -> Option<u16> {
    match found.nonce() {
        0 => newest.number_at_rest(found.id()),
        nonce => newest.number_of(found.id(), nonce),
    }
}

/// Brings a volume back that bears the number of an epoch; none when the log has none such.
pub(crate) async fn replay_back(
    found: &mut Found,
    device: &dyn BlockDevice,
    log: &dyn BlockDevice,
    now: Timestamp,
) -> Result<Option<Back>, OpenError> {
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
        return Ok(Some(Back { replayed: Some(Replayed::default()), ..rest }));
    }
    let epoch = (slot.epoch.get(), number);
    let outcome = replay(device, &found.geometry, log, epoch, now).await?;
    Ok(outcome.map(|outcome| Back {
        rebuilt: None,
        live: Some(outcome.live),
        replayed: Some(outcome.replayed),
        chains: outcome.chains,
        survived: outcome.survived,
    }))
}

/// The log of a volume that was stopped cleanly: its changes are home, and it may keep answers.
pub(crate) async fn look_at_rest(log: &dyn BlockDevice, volume: u64) -> Result<Back, OpenError> {
    refuse_left(log, volume).await?;
    let Some(newest) = journal::peek(log).await.map_err(ReplayError::from)? else {
        return Ok(Back::default());
    };
    let Some(number) = newest.number_at_rest(volume) else {
        return Ok(Back::default()); // it was never in this log
    };
    at_rest(log, &newest, number).await
}

/// What the log keeps beside changes of a volume that was stopped cleanly.
async fn at_rest(log: &dyn BlockDevice, slot: &Slot, number: u16) -> Result<Back, OpenError> {
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
    let is_damaged =
        matches!(rest, Err(JournalError::Damaged { .. } | JournalError::Headless { .. }));
    if slot.is_shared() && is_damaged {
        return Ok(Back::default()); // nothing that any volume needs
    }
    let Some(live) = rest.map_err(ReplayError::from)? else { return Ok(Back::default()) };
    let survived = answers.survived(live.head);
    Ok(Back { live: Some(live), survived, ..Back::default() })
}

/// Opens a volume that has its log alone. Nothing of the old epoch may go before the volume bears
/// the number of the new one.
pub(crate) async fn open_alone(
    mut candidate: Candidate,
    log: Rc<dyn BlockDevice>,
    runtime: &Runtime,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let nonce = runtime.random.next_u64();
    let epochs = journal::epochs(&*log).await.map_err(ReplayError::from)?;
    if epochs.first().is_some_and(Slot::is_shared) {
        return Err(OpenError::LogShared);
    }
    if candidate.back.live.is_none() {
        refuse_left(&*log, candidate.id).await?;
    }
    let journal = Journal::begin(log, nonce, candidate.id, candidate.back.live.as_ref()).await;
    let shared = SharedLog::new(
        journal.map_err(ReplayError::from)?,
        vec![candidate.id],
        None,
        runtime.clone(),
        &options.log,
    );
    let log = RedoLog::new(candidate.home.clone(), shared, candidate.rows.clone(), options.log);
    let back = &candidate.back;
    let is_left = is_planted(Bug::LateInheritance) || is_planted(Bug::UninheritedAnswers);
    let nothing = Survived::default();
    let inherited = if is_left { &nothing } else { &back.survived };
    log.adopt(&back.chains, inherited).await.map_err(|_| FsError::Io)?;
    candidate.mark(PolicyKind::Log, nonce, runtime).await?;
    log.shared().bear();
    if is_planted(Bug::LateInheritance) {
        log.adopt(&[], &candidate.back.survived).await.map_err(|_| FsError::Io)?;
    }
    candidate.open(log, runtime, options, false).await
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
    let changes = changes_of(log, &slot, |other| other == number).await?;
    match changes {
        Some(_) if slot.owner().is_some_and(|owner| owner != volume) => Err(OpenError::LogAnothers),
        Some(_) => Err(OpenError::LogLeft),
        None => Ok(()),
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

/// One of the volumes that are to share a log.
pub struct Sharer {
    /// Its disk.
    pub device: Rc<dyn BlockDevice>,
    /// What was saved of the log for it, if there is such: see [`Save`].
    pub saved: Option<Rc<dyn BlockDevice>>,
}

/// Whether the volume on `device` needs what is in this log.
///
/// # Errors
/// [`OpenError`].
pub async fn is_needed(device: &dyn BlockDevice, log: &dyn BlockDevice) -> Result<bool, OpenError> {
    let mut found = Found::read(device).await?;
    let place = journal::belongs(log, found.id(), found.nonce()).await;
    Ok(place.map_err(ReplayError::from)?.is_some())
}

/// Whether this log may be that of another volume, which had it alone, had nothing in it, and was
/// not stopped cleanly. The volume on `device` does not need it.
///
/// # Errors
/// [`OpenError`].
pub async fn is_idle_of_another(
    device: &dyn BlockDevice,
    log: &dyn BlockDevice,
) -> Result<bool, OpenError> {
    let newest = journal::peek(log).await.map_err(ReplayError::from)?;
    let is_meant = |slot: &Slot| slot.state() == State::Open && !slot.is_shared();
    let Some(newest) = newest.filter(is_meant) else { return Ok(false) };
    if is_needed(device, log).await? {
        return Ok(false);
    }
    Ok(changes_of(log, &newest, |_| true).await?.is_none())
}

/// Under which numbers something may have been saved for the volume on `device`: see [`Save`].
///
/// # Errors
/// [`OpenError`] when there is no superblock.
pub async fn saved_under(device: &dyn BlockDevice) -> Result<[u64; 2], OpenError> {
    let mut found = Found::read(device).await?;
    Ok([found.id(), found.nonce()])
}

/// A volume of a log, on its way.
struct Member {
    candidate: Candidate,
    was: u64,
}

/// Opens volumes that write to one log, each or none of them as [`crate::open`] does under policy
/// `log`. Those that are refused hold no other up: what the log has of them, and of others that are
/// not there, goes where `save` says.
///
/// # Errors
/// [`OpenError`] when the log itself cannot be used; then all volumes are as they were, but for
/// what has come home.
pub async fn open_sharing(
    sharers: Vec<Sharer>,
    log: Rc<dyn BlockDevice>,
    save: Save,
    runtime: &Runtime,
    options: &OpenOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Result<Opened, OpenError>>, OpenError> {
    // Until the new epoch begins nothing is written to the log.
    let (once, progress) = (ReadOnce::new(log.clone()), RefCell::new(progress));
    // What is saved for others, or taken over, is believed too.
    once.flush().await.map_err(JournalError::from).map_err(ReplayError::from)?;
    let twins = twins(&sharers).await;
    let coming = sharers.into_iter().enumerate().map(async |(index, sharer)| {
        if index >= LINES {
            return Err(OpenError::LogCrowded(LINES));
        }
        if twins[index] {
            return Err(OpenError::LogTwin);
        }
        let mut tell = |now| progress.borrow_mut()(now);
        bring_back(sharer, &once, runtime, options, &mut tell).await
    });
    let members: Vec<Result<Member, OpenError>> = join_all(coming).await;
    let here: Vec<&Member> = members.iter().flatten().collect();
    if here.is_empty() {
        return Ok(members.into_iter().filter_map(|member| member.err().map(Err)).collect());
    }
    let epochs = journal::epochs(&once).await.map_err(ReplayError::from)?;
    let live = live_in(&once, &epochs, &here).await?;
    for live in &live {
        save_absent(&once, live, &here, &save).await?;
    }
    drop(once); // what it keeps is not needed any more
    let journal = begin_together(&here, &epochs, live.first(), log, runtime).await?;
    let ids = here.iter().map(|member| member.candidate.id).collect();
    let shared = SharedLog::new(journal, ids, Some(save), runtime.clone(), &options.log);
    if is_planted(Bug::EarlyFounding) {
        shared.found().await.map_err(|_| FsError::Io)?;
    }
    let mut logs = Vec::new();
    for member in members.iter().flatten() {
        let Candidate { home, rows, back, .. } = &member.candidate;
        let log = RedoLog::new(home.clone(), shared.clone(), rows.clone(), options.log);
        log.adopt(&back.chains, &back.survived).await.map_err(|_| FsError::Io)?;
        logs.push(log);
    }
    shared.found().await.map_err(|_| FsError::Io)?; // the commit point
    let mut logs = logs.into_iter();
    let mut opened = Vec::new();
    for member in members {
        opened.push(match member {
            Ok(member) => {
                let log = logs.next().expect("one for each");
                mark_and_open(member.candidate, log, runtime, options).await
            }
            Err(error) => Err(error),
        });
    }
    // A copy that bears an older epoch, and comes back later, lacks what is in this one.
    if !is_planted(Bug::OldBearers) {
        shared.told_bearers().await.map_err(|_| FsError::Io)?;
    }
    Ok(opened)
}

/// Which of them have the number of another one. Nothing tells a volume from its copy: what the log
/// has of them is brought to neither, and stays for whichever is named alone.
async fn twins(sharers: &[Sharer]) -> Vec<bool> {
    let ids = sharers.iter().map(async |sharer| {
        let found = Found::read(&*sharer.device).await;
        found.ok().map(|mut found| found.id())
    });
    let ids = join_all(ids).await;
    let count = |id| ids.iter().filter(|other| **other == id).count();
    ids.iter().map(|&id| id.is_some() && count(id) > 1).collect()
}

async fn bring_back(
    sharer: Sharer,
    log: &dyn BlockDevice,
    runtime: &Runtime,
    options: &OpenOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Member, OpenError> {
    let Sharer { device, saved } = sharer;
    let mut found = Found::read(&*device).await?;
    let was = found.nonce();
    if found.read_only_reason(&*device, options).is_some() {
        return Err(OpenError::LogReadOnly);
    }
    let newest = journal::peek(log).await.map_err(ReplayError::from)?;
    let is_shared = newest.is_some_and(|slot| slot.is_shared());
    let log = match (was, saved.as_deref()) {
        (0, saved) => {
            if let Some(saved) = saved {
                refuse_left(saved, found.id()).await?;
            }
            // Which volume had a log alone, and was stopped cleanly, is not known.
            Some(log).filter(|_| is_shared)
        }
        (_, Some(saved)) => {
            let place = journal::belongs(log, found.id(), was).await;
            let is_there = place.map_err(ReplayError::from)?.is_some();
            Some(if is_there { log } else { saved })
        }
        (_, None) => Some(log),
    };
    let back = found.bring_back(&*device, log, runtime, progress).await?;
    let candidate = Candidate::prepare(device, found, back, runtime, options).await?;
    Ok(Member { candidate, was })
}

/// What the log holds that is needed until the next epoch is there: of the epoch of a shared log,
/// or of the one volume that had it alone, whether or not that is here; newest first. Where that
/// volume is not here, and has changed nothing since it began its last epoch, it is not known
/// whether it came to bear it: then what the one before holds is needed as well.
async fn live_in(
    log: &dyn BlockDevice,
    epochs: &[Slot],
    members: &[&Member],
) -> Result<Vec<Live>, OpenError> {
    let Some(newest) = epochs.first() else { return Ok(Vec::new()) };
    let is_borne = |slot: &Slot| members.iter().any(|member| member.was == slot.epoch.get());
    let open = epochs.iter().filter(|slot| slot.state() == State::Open);
    let slot =
        if newest.is_shared() { Some(newest) } else { open.clone().find(|slot| is_borne(slot)) };
    if let Some(slot) = slot {
        let live = match slot.state() {
            State::Open => journal::find(log, slot.epoch.get()).await,
            State::AtRest => journal::at_rest(log, |_| ()).await,
            State::GivenUp => Ok(None),
        };
        return Ok(live.map_err(ReplayError::from)?.into_iter().collect());
    }
    let mut needed = Vec::new();
    for slot in open {
        let live = match journal::find(log, slot.epoch.get()).await {
            // Only an epoch that is borne writes over the one before.
            Err(JournalError::Damaged { .. } | JournalError::Headless { .. })
                if !needed.is_empty() =>
            {
                break;
            }
            found => found.map_err(ReplayError::from)?,
        };
        needed.extend(live);
        if changes_of(log, slot, |_| true).await?.is_some() {
            break;
        }
    }
    if needed.is_empty() {
        let rest = journal::at_rest(log, |_| ()).await.map_err(ReplayError::from)?;
        needed.extend(rest);
    }
    Ok(needed)
}

/// Invariant 1, for volumes that are not here.
async fn save_absent(
    log: &dyn BlockDevice,
    live: &Live,
    members: &[&Member],
    save: &Save,
) -> Result<(), OpenError> {
    let slot = &live.slot;
    if slot.state() != State::Open || is_planted(Bug::UnsavedAbsent) {
        return Ok(());
    }
    let lines = slot.lines().iter().enumerate().filter(|(_, line)| line.is_open());
    let named = lines.map(|(number, line)| (number as u16, line.volume.get()));
    let is_here = |volume| members.iter().any(|member| member.candidate.id == volume);
    let mut absent: Vec<_> = named.filter(|(_, volume)| !is_here(*volume)).collect();
    let epoch = slot.epoch.get();
    if !slot.is_shared() && !members.iter().any(|member| member.was == epoch) {
        absent.push((0, epoch));
    }
    for (number, name) in absent {
        let to = save(name, journal::saved_size(live)).map_err(OpenError::LogUnsaved)?;
        journal::save(log, live, number, &*to).await.map_err(ReplayError::from)?;
    }
    Ok(())
}

/// Begins the epoch of those that have been brought back. Others that were at rest keep their
/// lines, as long as there is room.
async fn begin_together(
    members: &[&Member],
    epochs: &[Slot],
    kept: Option<&Live>,
    log: Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<Journal, OpenError> {
    let mut lines: Vec<Line> = members
        .iter()
        .map(|member| Line::new(member.candidate.id, member.was, State::Open))
        .collect();
    let others = epochs.first().into_iter().flat_map(|newest| newest.lines().iter());
    let is_here =
        |line: &Line| members.iter().any(|member| member.candidate.id == line.volume.get());
    lines.extend(others.filter(|line| line.is_at_rest() && !is_here(line)));
    lines.truncate(LINES);
    let nonce = runtime.random.next_u64();
    let journal = Journal::begin_shared(log, nonce, kept, lines).await;
    Ok(journal.map_err(ReplayError::from)?)
}

async fn mark_and_open(
    mut candidate: Candidate,
    log: Rc<RedoLog>,
    runtime: &Runtime,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let epoch = log.shared().epoch();
    if let Err(error) = candidate.mark(PolicyKind::Log, epoch, runtime).await {
        log.abandon();
        return Err(error);
    }
    log.borne();
    let opened = candidate.open(log.clone(), runtime, options, false).await;
    opened.inspect_err(|_| log.abandon())
}
