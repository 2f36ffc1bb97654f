//! The check of a volume that has a ring of intents.
//!
//! A repair would make all intents void, since the ring is that of the volume only as long as the
//! superblock bears the number of its epoch. So a repair keeps that number, and the intents are
//! judged behind it, by what the disk shows then:
//!
//! ```text
//!  duramen:sync:N  or clean -> duramen:fsck:N -> duramen:sync:N -> duramen:sync:M -> clean
//!                    |---- the repair -------|- judged at an opening -|--- a stop ---|
//! ```
//!
//! Only a check is done behind the first of these marks, and every start does the rest behind the
//! second. So wherever this is cut, the repair that is begun anew, or the next start, judges the
//! same intents. Effects that damage has taken are not on the disk, and a call whose
//! effect the disk does not show is new.
//!
//! Invariants:
//! 1. Nothing that a ring says is believed unless the superblock, as it was before the repair, says
//!    that no other system has had the disk since.
//! 2. A repair ends with a volume that was stopped cleanly, though intents cannot be judged because
//!    of damage: then these are given up, and the report says so.
//! 3. A repair gives no intent up for want of room, or for a write that fails: it says that the
//!    volume is repaired and the intents are not judged, and the next repair or start goes on.
//!
//! Not asserted: 1, 2 and 3, which are about the order of whole steps on disks: the tests of
//! `check_intents` cut them everywhere.

use std::rc::Rc;

use block::BlockDevice;
use fsck::{CheckError, CheckOptions, Progress, Report};
use journal::JournalError;
use runtime::Runtime;
use ufs2::mark::PolicyKind;
use vfs::FsError;

use crate::check_log::{KeptOpen, serve_once};
use crate::intents::{Forgiving, look};
use crate::mount::Disks;
use crate::open_error::OpenError;
use crate::planted::{Bug, is_planted};
use crate::recovery::Unopened;

/// Checks a volume, and repairs it if asked to. The intents of the ring are kept, so
/// that the next start remembers the answers.
///
/// # Errors
/// [`CheckError`].
pub async fn check(
    device: &Rc<dyn BlockDevice>,
    ring: Option<&Rc<dyn BlockDevice>>,
    runtime: &Runtime,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let (epoch, mut lost) = match ring.filter(|_| options.repair) {
        Some(_) if is_planted(Bug::RepairedIntents) => (None, None),
        Some(ring) => epoch_of(device, ring).await,
        None => (None, None),
    };
    let (Some(ring), Some(_)) = (ring, epoch) else {
        let report = fsck::check(&**device, runtime, options, progress).await?;
        return Ok(Report { lost_intents: lost, ..report });
    };
    let keeping = CheckOptions { epoch, ..*options };
    let mut report = fsck::check(&**device, runtime, &keeping, progress).await?;
    if report.repaired {
        match judge(device, ring, runtime).await {
            Ok(unjudged) => lost = lost.or(unjudged),
            // The volume bears the number of its ring: a start judges the intents.
            Err(error) if may_be_over(&error) && !is_planted(Bug::GivenUpIntents) => {
                return Err(CheckError::Unjudged(error.to_string()));
            }
            // Invariant 2.
            Err(error) => {
                fsck::check(&**device, runtime, options, progress).await?;
                lost = Some(error.to_string());
            }
        }
    }
    report.lost_intents = lost;
    Ok(report)
}

/// Whether a later attempt may succeed: the host has no room, or the disk failed a write or a
/// flush. Reads that fail cost single intents.
fn may_be_over(error: &OpenError) -> bool {
    match error {
        OpenError::Device(_) | OpenError::File(FsError::NoSpace | FsError::Io) => true,
        OpenError::Intents(JournalError::Device(error)) => error.is_full(),
        _ => false,
    }
}

/// The epoch of the ring, if anything in it may be believed, and the reason why some of it may not.
async fn epoch_of(
    device: &Rc<dyn BlockDevice>,
    ring: &Rc<dyn BlockDevice>,
) -> (Option<u64>, Option<String>) {
    // A superblock of which a sector cannot be read is zero there, and none.
    let (device, ring) = (Forgiving::new(device.clone()), Forgiving::new(ring.clone()));
    let mut found = match Unopened::read(&*device).await {
        Ok(found) => found,
        Err(error) => return (None, Some(error.to_string())),
    };
    match look(&ring, &mut found.superblock).await {
        Ok(left) => {
            let live = left.live.filter(|_| !left.survivors.is_empty());
            (live.map(|live| live.slot.epoch.get()), left.damage)
        }
        Err(error) => (None, Some(error.to_string())),
    }
}

/// Judges the intents of a volume that was repaired, and stops it cleanly. Returns the reason why
/// some are lost.
async fn judge(
    device: &Rc<dyn BlockDevice>,
    ring: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<Option<String>, OpenError> {
    let [device, ring]: [Rc<dyn BlockDevice>; 2] =
        [device, ring].map(|device| -> Rc<dyn BlockDevice> { Rc::new(KeptOpen(device.clone())) });
    let disks = Disks::with_intents(device, ring);
    let opened = serve_once(PolicyKind::Sync, disks, runtime).await?;
    match opened.read_only {
        Some(reason) => Err(OpenError::Damaged(reason.to_string())),
        None => Ok(opened.lost_intents),
    }
}
