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
//! 2. A repair ends with a volume that was stopped cleanly, though its intents cannot be judged:
//!    then they are given up.
//!
//! Not asserted: 1 and 2, which are about the order of whole steps on disks: the tests of
//! `check_intents` cut them everywhere.

use std::rc::Rc;

use block::BlockDevice;
use fsck::{CheckError, CheckOptions, Progress, Report};
use runtime::Runtime;
use ufs2::mark::PolicyKind;

use crate::check_log::{KeptOpen, serve_once};
use crate::intents::look;
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
    let epoch = match ring.filter(|_| options.repair && !is_planted(Bug::RepairedIntents)) {
        Some(ring) => epoch_of(&**device, &**ring).await,
        None => None,
    };
    let (Some(ring), Some(_)) = (ring, epoch) else {
        return fsck::check(&**device, runtime, options, progress).await;
    };
    let keeping = CheckOptions { epoch, ..*options };
    let report = fsck::check(&**device, runtime, &keeping, progress).await?;
    if report.repaired {
        match judge(device, ring, runtime).await {
            Ok(true) => {}
            Err(OpenError::Device(error)) => return Err(error.into()),
            // Invariant 2.
            Ok(false) | Err(_) => drop(fsck::check(&**device, runtime, options, progress).await?),
        }
    }
    Ok(report)
}

/// The epoch of the ring, if anything in it may be believed. One that is damaged, or cannot be
/// read, holds nothing without which a volume could not be served.
async fn epoch_of(device: &dyn BlockDevice, ring: &dyn BlockDevice) -> Option<u64> {
    let mut found = Unopened::read(device).await.ok()?;
    let left = look(ring, &mut found.superblock).await.ok()?;
    left.live.filter(|_| !left.survivors.is_empty()).map(|live| live.slot.epoch.get())
}

/// Judges the intents of a volume that was repaired, and stops it cleanly. Whether that was done.
async fn judge(
    device: &Rc<dyn BlockDevice>,
    ring: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
) -> Result<bool, OpenError> {
    let [device, ring]: [Rc<dyn BlockDevice>; 2] =
        [device, ring].map(|device| -> Rc<dyn BlockDevice> { Rc::new(KeptOpen(device.clone())) });
    let disks = Disks::with_intents(device, ring);
    let opened = serve_once(PolicyKind::Sync, disks, runtime).await?;
    Ok(opened.read_only.is_none())
}
