//! The log of a volume that is to be checked, with or without a repair.
//!
//! The log's changes are brought to the volume before a check, so that the check sees the state
//! that the server would see. A look replays them in memory. A repair has to replay them durably,
//! and to close the log: writes beside an open log would be overwritten by a replay.
//!
//! Invariants:
//! 1. No log is given up unless the administrator says so: a volume that bears the epoch of a
//!    missing log is not repaired.
//! 2. Nothing is written, to the volume or the log, before it is known that all changes in the log
//!    can be replayed: everything is done in memory first.
//! 3. A log is closed when no chain in it is open. Chains are finished as the server does it: the
//!    volume is opened, and stopped cleanly.
//! 4. The log is closed first, and the volume loses its mark last. In between, the volume bears the
//!    epoch of a log at rest: nothing is replayed, and the answers in it are valid.
//!
//! Not asserted: 1, 2, 3 and 4, which are about the order of whole steps on disks: the tests of
//! `check_log` cut them everywhere.

use std::rc::Rc;

use block::scratch::ScratchDevice;
use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use fsck::LogState;
use futures::FutureExt;
use journal::JournalError;
use journal::format::{Line, Slot, State};
use runtime::Runtime;
use ufs2::layout::BadSuperblock;
use ufs2::mark::{Mark, PolicyKind};
use vfs::FsError;

pub use crate::logged::LogUse;
use crate::logged::{changes_of, give_up, given_up, refuse_left, refuse_others, replay_log};
use crate::mount::{Disks, open};
use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::recovery::{OpenOptions, Opened, Unopened};
use crate::replay::{ReplayError, Replayed};
use namespace::Store;

/// State of a log after preparation.
#[derive(Debug)]
pub struct Prepared {
    /// Log state for [`fsck::CheckOptions`].
    pub state: LogState,
    /// Statistics of the replay, if there was one.
    pub replayed: Option<Replayed>,
    /// Whether changes in the log were given up, of any volume.
    pub has_given_up: bool,
    /// Reason for which a repair would be refused, if the volume is only looked at.
    pub refused: Option<OpenError>,
}

impl Prepared {
    fn in_state(state: LogState) -> Self {
        Self { state, replayed: None, has_given_up: false, refused: None }
    }
}

/// Prepares a volume for a check: replays its changes in `log`, if the volume needs them.
///
/// # Errors
/// [`OpenError`]. Then nothing was written, unless the disk or the log failed in the middle; the
/// replay can be repeated.
pub async fn prepare(
    device: &Rc<dyn BlockDevice>,
    log: Option<&Rc<dyn BlockDevice>>,
    runtime: &Runtime,
    log_use: LogUse,
) -> Result<Prepared, OpenError> {
    match log_use {
        LogUse::LeaveOut => return Ok(Prepared::in_state(LogState::GivenUp)),
        LogUse::GiveUp => {
            let mut prepared = Prepared::in_state(LogState::GivenUp);
            if let Some(log) = log {
                // A damaged log may have held anything.
                let holds = holds_changes(&**log).await.unwrap_or(true);
                prepared.has_given_up = holds && !is_anothers(&**device, &**log).await;
                match give_up(&**device, &**log).await {
                    Err(JournalError::TooSmall { .. }) => {} // it can hold nothing
                    given_up => given_up.map_err(ReplayError::from)?,
                }
            }
            return Ok(prepared);
        }
        LogUse::Look | LogUse::Replay => {}
    }
    let mut found = match Unopened::read(&**device).await {
        Ok(found) => found,
        Err(short @ OpenError::Superblock(BadSuperblock::Short { .. })) => return Err(short),
        Err(_) => {
            let holds = match log {
                Some(log) => holds_changes(&**log).await?,
                None => false,
            };
            let refused = holds.then_some(OpenError::LogUnknown);
            return match (refused, log_use) {
                (Some(error), LogUse::Replay) => Err(error),
                (refused, _) => Ok(Prepared { refused, ..Prepared::in_state(LogState::Home) }),
            };
        }
    };
    if Mark::of(found.superblock.superblock()) != Mark::Policy(PolicyKind::Log) {
        if let Some(log) = log {
            refuse_left(&**log, found.id()).await?;
        }
        return Ok(Prepared::in_state(LogState::Home));
    }
    let replayed = match (place(&mut found, log).await, log_use) {
        (Err(error), LogUse::Look) if is_away(&error) => {
            return Ok(Prepared { refused: Some(error), ..Prepared::in_state(LogState::Missing) });
        }
        (Err(error), _) => return Err(error),
        (Ok((log, _)), LogUse::Look) => {
            replay_log(&**device, &**log, runtime.clock.wall(), log_use).await?
        }
        (Ok((log, slot)), _) => bring_home(device, log, &slot, runtime).await?,
    };
    Ok(Prepared { replayed, ..Prepared::in_state(LogState::Home) })
}

/// Whether the log holds changes of other volumes and none of this one, as far as the disk
/// identifies its volume.
async fn is_anothers(device: &dyn BlockDevice, log: &dyn BlockDevice) -> bool {
    let Ok(Some(newest)) = journal::peek(log).await else { return false };
    let Ok(mut found) = Unopened::read(device).await else { return true };
    given_up(&newest, &mut found).is_none()
}

/// Whether this error says that the log that a volume needs is missing.
fn is_away(error: &OpenError) -> bool {
    matches!(error, OpenError::LogMissing | OpenError::LogForeign)
}

/// The log, and the slot of its epoch, if the volume bears that epoch.
async fn place<'a>(
    found: &mut Unopened,
    log: Option<&'a Rc<dyn BlockDevice>>,
) -> Result<(&'a Rc<dyn BlockDevice>, Slot), OpenError> {
    let log = log.ok_or(OpenError::LogMissing)?;
    let place = journal::belongs(&**log, found.id(), found.nonce()).await;
    match place.map_err(ReplayError::from)? {
        Some((slot, _)) => {
            refuse_others(&**log, &slot).await?;
            Ok((log, slot))
        }
        None => Err(OpenError::LogForeign),
    }
}

/// Whether a log holds changes of any volume that are not in place.
///
/// # Errors
/// [`OpenError::Replay`].
pub async fn holds_changes(log: &dyn BlockDevice) -> Result<bool, OpenError> {
    let newest = journal::peek(log).await.map_err(ReplayError::from)?;
    let Some(slot) = newest.filter(|slot| slot.state() == State::Open) else { return Ok(false) };
    let is_open = |number| slot.lines().get(usize::from(number)).is_none_or(Line::is_open);
    Ok(changes_of(log, &slot, is_open).await?.is_some())
}

/// Replays a volume's changes durably, and closes the log.
async fn bring_home(
    device: &Rc<dyn BlockDevice>,
    log: &Rc<dyn BlockDevice>,
    slot: &Slot,
    runtime: &Runtime,
) -> Result<Option<Replayed>, OpenError> {
    let now = runtime.clock.wall();
    let trial = ScratchDevice::new(device.clone());
    let replayed = replay_log(&trial, &**log, now, LogUse::Look).await?;
    drop(trial);
    let is_whole = replayed.is_none_or(|replayed| replayed.chains == 0);
    if is_whole || is_planted(Bug::DroppedChains) {
        return replay_log(&**device, &**log, now, LogUse::Replay).await;
    }
    if slot.is_shared() {
        return Err(OpenError::LogChains);
    }
    let [device, log]: [Rc<dyn BlockDevice>; 2] =
        [device, log].map(|device| -> Rc<dyn BlockDevice> { Rc::new(KeptOpen(device.clone())) });
    let in_memory = |device: &Rc<dyn BlockDevice>| Rc::new(ScratchDevice::new(device.clone()));
    let trial = Disks::with_log(in_memory(&device), in_memory(&log));
    let tried = serve_once(PolicyKind::Log, trial, runtime).await;
    if matches!(tried, Err(OpenError::File(FsError::Io))) && !is_planted(Bug::StuckRepairs) {
        // A file that lost its name cannot be freed to its end. It has no links: the check frees
        // what can be read of it.
        return replay_log(&*device, &*log, now, LogUse::Replay).await;
    }
    tried?;
    Ok(serve_once(PolicyKind::Log, Disks::with_log(device, log), runtime).await?.replayed)
}

/// Opens a volume and stops it cleanly, which finishes interrupted chains.
pub(crate) async fn serve_once(
    policy: PolicyKind,
    disks: Disks,
    runtime: &Runtime,
) -> Result<Opened, OpenError> {
    let options = OpenOptions::default();
    let opened = open(policy, disks, runtime.clone(), &options, &mut |_| ()).await?;
    opened.files.shutdown().await?;
    Ok(opened)
}

/// A device that stays usable after an engine has closed it.
pub(crate) struct KeptOpen(pub(crate) Rc<dyn BlockDevice>);

impl BlockDevice for KeptOpen {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.0.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.0.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        std::future::ready(Ok(())).boxed_local()
    }
}
