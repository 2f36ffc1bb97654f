//! `set.errors`: the errors of each member of a set, counted over all starts.
//!
//! The counters of an open set start at zero. Their increments are added here, by member: a disk
//! that takes a slot starts with zero. The file is only for administrators: a cut may lose the last
//! errors.
//!
//! Invariants:
//! 1. Each error that an open set counts is added once.
//!
//! Not asserted: 1, which comparing the counters with their previous values ensures.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use duramen_settings::{id_of, text_of};
use raid::label::Id;
use raid::{Met, Status};
use serde::{Deserialize, Serialize};
use server::reactor::elsewhere;

use crate::failure::Failure;
use crate::held_folder::HeldFolder;

/// Name of the file in the folder of a volume.
pub(crate) const ERRORS_NAME: &str = "set.errors";
/// Name of the file while it is written.
pub(crate) const NEW_ERRORS_NAME: &str = ".set.errors.new";

/// Errors of a member, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorCounts {
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) checksum: u64,
}

impl ErrorCounts {
    fn of(met: &Met) -> Self {
        Self { read: met.read_errors, write: met.write_errors, checksum: met.checksum_errors }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            write: self.write.saturating_add(other.write),
            checksum: self.checksum.saturating_add(other.checksum),
        }
    }

    fn minus(self, earlier: Self) -> Self {
        Self {
            read: self.read.saturating_sub(earlier.read),
            write: self.write.saturating_sub(earlier.write),
            checksum: self.checksum.saturating_sub(earlier.checksum),
        }
    }
}

/// Contents of the file.
#[derive(Default, Serialize, Deserialize)]
struct Keys {
    members: BTreeMap<String, ErrorCounts>,
}

/// Error counts by member.
pub(crate) type ByMember = BTreeMap<Id, ErrorCounts>;

/// Error counts of an open set.
pub(crate) struct ErrorBook {
    folder: Option<Arc<HeldFolder>>,
    counts: RefCell<ByMember>,
    /// Previous counters of the open set, by slot.
    last: RefCell<Vec<ErrorCounts>>,
    /// Counts as the file has them.
    kept: RefCell<ByMember>,
}

/// Reads the counts from the folder of a volume. An invalid file counts as empty.
pub(crate) fn read(folder: &Path) -> ByMember {
    HeldFolder::open(folder).map(|folder| read_held(&folder)).unwrap_or_default()
}

fn read_held(folder: &HeldFolder) -> ByMember {
    let text = folder.read(ERRORS_NAME).ok().flatten().unwrap_or_default();
    let keys: Keys = toml::from_str(&text).unwrap_or_default();
    keys.members.iter().filter_map(|(member, counts)| Some((id_of(member)?, *counts))).collect()
}

impl ErrorBook {
    /// Continues from the counts in the folder of a volume.
    pub(crate) fn open(folder: Option<Arc<HeldFolder>>) -> Self {
        let counts = folder.as_deref().map(read_held).unwrap_or_default();
        let kept = RefCell::new(counts.clone());
        Self { folder, counts: RefCell::new(counts), last: RefCell::default(), kept }
    }

    /// Adds the errors that an open set has counted since the last call, and returns the counts.
    pub(crate) fn note(&self, status: &Status) -> ByMember {
        let now: Vec<ErrorCounts> = status.met.iter().map(ErrorCounts::of).collect();
        let last = self.last.replace(now.clone());
        let mut counts = self.counts.borrow_mut();
        for (slot, (known, now)) in status.label.slots.iter().zip(&now).enumerate() {
            let gained = now.minus(last.get(slot).copied().unwrap_or_default());
            if gained != ErrorCounts::default() {
                let all = counts.entry(known.member).or_default();
                *all = all.plus(gained);
            }
        }
        counts.clone()
    }

    /// Adds errors like [`Self::note`], and writes the file if the counts changed.
    pub(crate) async fn keep(&self, status: &Status) {
        let mut counts = self.note(status);
        counts.retain(|member, _| status.label.has_place_for(member));
        let Some(folder) = self.folder.clone().filter(|_| counts != *self.kept.borrow()) else {
            return;
        };
        self.kept.replace(counts.clone());
        // A failure is not reported: the file holds only counts, and the next error retries the
        // write.
        let _ = elsewhere(move || write(&folder, &counts).is_ok()).await;
    }
}

fn write(folder: &HeldFolder, counts: &ByMember) -> Result<(), Failure> {
    let members = counts.iter().map(|(member, counts)| (text_of(member), *counts)).collect();
    let text = toml::to_string(&Keys { members }).expect("its values are plain");
    folder.replace(ERRORS_NAME, NEW_ERRORS_NAME, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use raid::label::{Label, Slot, Standing};
    use raid::layout::{Layout, Level};

    use super::*;

    fn status(members: [Id; 2], read_errors: [u64; 2]) -> Status {
        let layout = Layout { level: Level::Mirrored, members: 2, unit: 4096, rows: 9 };
        let slots = members.map(|member| Slot { member, standing: Standing::InSync }).to_vec();
        let label = Label {
            set: [1; 16],
            slot: 0,
            generation: 1,
            number: 1,
            whole: 1,
            forced: 0,
            layout,
            data_start: 1 << 20,
            slots,
            replacement: None,
            is_incoming: false,
            nvram: None,
            has_log_apart: false,
        };
        let met = read_errors.map(|read_errors| Met { read_errors, ..Met::default() }).to_vec();
        let (rebuild, done) = (None, raid::Done::default());
        Status { label, rebuild, met, done, is_paused: false }
    }

    #[test]
    fn errors_count_for_the_member_that_had_them() {
        let book = ErrorBook::open(None);
        let reads = |book: &ErrorBook, members, errors| {
            let counts = book.note(&status(members, errors));
            members.map(|member| counts.get(&member).copied().unwrap_or_default().read)
        };
        let (one, two, new) = ([1; 16], [2; 16], [3; 16]);
        assert_eq!(reads(&book, [one, two], [5, 0]), [5, 0]);
        assert_eq!(reads(&book, [one, two], [5, 0]), [5, 0], "no error is counted twice");
        assert_eq!(reads(&book, [one, two], [7, 1]), [7, 1]);
        assert_eq!(reads(&book, [new, two], [7, 1]), [0, 1], "another disk has the slot");
        assert_eq!(reads(&book, [new, two], [9, 1]), [2, 1]);
    }
}
