//! Sectors that the disk cannot read.
//!
//! Checks are run on disks that begin to fail. An unreadable sector does not end the check: where
//! it holds metadata it is taken for zeros, which claim nothing and name nothing, and a finding
//! gives its place. A repair rewrites it, with contents that follow from the rest of the disk, and
//! the disk usually remaps it then.
//!
//! 1. A sector is tried twice before it is given up, with others and alone, and then no more: each
//!    try can take a failing disk seconds.
//! 2. Sectors that may not belong to the file system's own structures are taken for zeros in
//!    searches, but never written.
//! 3. Data of files is never taken for zeros: a reader gets the error.
//! 4. Other failures end the check, and so do more of these than `sectors` keeps: such a disk has
//!    to be copied first.

use std::ops::Range;

use super::overlay::Overlay;
use super::{Checker, Invariant, Log, Place, Severity};

/// Reports all unreadable sectors of a range that are not reported yet; a repair writes them.
pub(super) fn note(
    disk: &mut Overlay<'_>,
    log: &mut Log,
    range: Range<u64>,
    severity: Severity,
    place: impl Fn(u64) -> Place,
) {
    let new = disk.unreadable().take(range);
    for (byte, error) in new {
        let place = place(byte).offset(byte);
        let (expected, repair) = ("what was written there", "taken for zeros, and written anew");
        if log.find(Invariant::Readable, severity, place, error, expected, repair) {
            disk.put_zeros(byte);
        }
    }
}

impl Checker<'_> {
    /// The same for a range that starts at a fragment.
    pub(super) fn note_unreadable(
        &mut self,
        (fragment, bytes): (u64, usize),
        severity: Severity,
        place: impl Fn(u64) -> Place,
    ) {
        let start = self.geometry.byte_address(fragment);
        note(&mut self.disk, &mut self.log, start..start + bytes as u64, severity, place);
    }

    /// The same for the whole disk: unreported sectors have no consequence.
    pub(super) fn note_all_unreadable(&mut self) {
        let size = self.geometry.fragment_size;
        let place = |byte| Place::default().fragment(byte / size);
        note(&mut self.disk, &mut self.log, 0..u64::MAX, Severity::Loss, place);
    }

    /// The same, where only one file was checked since all were reported.
    pub(super) fn note_unreadable_of(&mut self, ino: u64) {
        let place = |_| Place::inode(ino);
        note(&mut self.disk, &mut self.log, 0..u64::MAX, Severity::Loss, place);
    }

    /// Leaves sectors that proved unreadable after the last round as they are.
    pub(super) fn leave_unreadable(&mut self) {
        let new = self.disk.unreadable().take(0..u64::MAX);
        for (byte, error) in new {
            let place = Place::default().offset(byte);
            let expected = "what was written there";
            self.log.leave(Invariant::Readable, Severity::Loss, place, error, expected);
        }
    }
}
