//! The next epoch of volumes that share a log, which begins for all of them at once.

use std::cell::RefCell;
use std::rc::Rc;

use block::BlockDevice;
use fsck::Progress;
use futures::future::join_all;
use journal::format::{LINES, Line, Slot, State};
use journal::{Journal, JournalError, Live, ReadOnce};
use runtime::Runtime;
use ufs2::mark::PolicyKind;
use vfs::FsError;

use super::back::{changes_of, is_broken, is_needed, refuse_left};
use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::policy::log::{RedoLog, Save, SharedLog};
use crate::recovery::{OpenOptions, Opened, Recovered, Unopened};
use crate::replay::ReplayError;

/// A volume that is to share a log.
pub struct Sharer {
    /// The volume's disk.
    pub device: Rc<dyn BlockDevice>,
    /// The volume's saved part of an earlier log, if any: see [`Save`].
    pub saved: Option<Rc<dyn BlockDevice>>,
}

/// Whether this log may belong to another volume, which had it alone, had nothing in it, and was
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

/// The numbers under which a log may have been saved for the volume on `device`: see [`Save`].
///
/// # Errors
/// [`OpenError`] if there is no superblock.
pub async fn saved_under(device: &dyn BlockDevice) -> Result<[u64; 2], OpenError> {
    let mut found = Unopened::read(device).await?;
    Ok([found.id(), found.nonce()])
}

/// A volume of a log that is being opened.
struct Member {
    recovered: Recovered,
    was: u64,
}

/// Opens volumes that write to one log, each of them as [`crate::open`] does under policy `log`, or
/// none. A refused volume does not delay the others: its part of the log, and that of absent
/// volumes, is saved through `save`.
///
/// # Errors
/// [`OpenError`] if the log itself cannot be used; then all volumes are as they were, except for
/// replayed changes.
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
    // Records that are saved or taken over are believed, so they must be durable too.
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
    drop(once); // its cached data is not needed any more
    let journal = begin_together(&here, &epochs, live.first(), log, runtime).await?;
    let ids = here.iter().map(|member| member.recovered.id).collect();
    let shared = SharedLog::new(journal, ids, Some(save), runtime.clone(), &options.log);
    if is_planted(Bug::EarlyFounding) {
        shared.found().await.map_err(|_| FsError::Io)?;
    }
    let mut logs = Vec::new();
    for member in members.iter().flatten() {
        let Recovered { home, rows, back, .. } = &member.recovered;
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
                mark_and_open(member.recovered, log, runtime, options).await
            }
            Err(error) => Err(error),
        });
    }
    // A copy that bears an older epoch, and returns later, lacks the changes of this one.
    if !is_planted(Bug::OldBearers) {
        shared.told_bearers().await.map_err(|_| FsError::Io)?;
    }
    Ok(opened)
}

/// Which volumes have the same number as another one. A volume and its copy cannot be told apart:
/// neither gets the changes in the log, which stay for the one that is named alone.
async fn twins(sharers: &[Sharer]) -> Vec<bool> {
    let ids = sharers.iter().map(async |sharer| {
        let found = Unopened::read(&*sharer.device).await;
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
    let mut found = Unopened::read(&*device).await?;
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
            // A volume that had a log alone and was stopped cleanly begins without its answers.
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
    let recovered = Recovered::prepare(device, found, back, runtime, options).await?;
    Ok(Member { recovered, was })
}

/// The live parts of the log that are needed until the next epoch exists: those of the epoch of a
/// shared log, or of the one volume that had it alone, whether or not that is present; newest
/// first. If that volume is absent and has changed nothing since it began its last epoch, it is
/// unknown whether it came to bear that epoch: then the previous epoch is needed as well.
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
            // No volume needs the rest.
            State::AtRest => match journal::at_rest(log, |_| ()).await {
                Err(error) if is_broken(&error) => Ok(None),
                rest => rest,
            },
            State::GivenUp => Ok(None),
        };
        return Ok(live.map_err(ReplayError::from)?.into_iter().collect());
    }
    let mut needed = Vec::new();
    for slot in open {
        let live = match journal::find(log, slot.epoch.get()).await {
            // Only a borne epoch overwrites the previous one.
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

/// Saves the entries of volumes that are absent (invariant 1).
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
    let is_here = |volume| members.iter().any(|member| member.recovered.id == volume);
    let mut absent: Vec<_> = named.filter(|(_, volume)| !is_here(*volume)).collect();
    let epoch = slot.epoch.get();
    // The epoch decides, not the owner of the log: a copy of the owner lacks the log's changes.
    if !slot.is_shared() && !members.iter().any(|member| member.was == epoch) {
        absent.push((0, epoch));
    }
    for (number, name) in absent {
        let to = save(name, journal::saved_size(live)).map_err(OpenError::LogUnsaved)?;
        journal::save(log, live, number, &*to).await.map_err(ReplayError::from)?;
    }
    Ok(())
}

/// Begins the epoch of the recovered volumes. Other volumes that were at rest keep their lines, as
/// long as there is room.
async fn begin_together(
    members: &[&Member],
    epochs: &[Slot],
    kept: Option<&Live>,
    log: Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<Journal, OpenError> {
    let mut lines: Vec<Line> = members
        .iter()
        .map(|member| Line::new(member.recovered.id, member.was, State::Open))
        .collect();
    let others = epochs.first().into_iter().flat_map(|newest| newest.lines().iter());
    let is_here =
        |line: &Line| members.iter().any(|member| member.recovered.id == line.volume.get());
    lines.extend(others.filter(|line| line.is_at_rest() && !is_here(line)));
    lines.truncate(LINES);
    let nonce = runtime.random.next_u64();
    let journal = Journal::begin_shared(log, nonce, kept, lines).await;
    Ok(journal.map_err(ReplayError::from)?)
}

async fn mark_and_open(
    mut recovered: Recovered,
    log: Rc<RedoLog>,
    runtime: &Runtime,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let epoch = log.shared().epoch();
    if let Err(error) = recovered.mark(PolicyKind::Log, epoch, runtime).await {
        log.abandon();
        return Err(error);
    }
    log.borne();
    let opened = recovered.open(log.clone(), runtime, options, false).await;
    opened.inspect_err(|_| log.abandon())
}
