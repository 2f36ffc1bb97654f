//! Contents of the log of a volume, whether the volume is served or not.

use std::collections::BTreeSet;
use std::path::Path;

use block::BlockDevice;
use block::file::{Access, DiskFile, FileDevice};
use journal::format::State;
use journal::{Entry, JournalError, Walker};
use serde::{Deserialize, Serialize};
use server::reactor;

use crate::failure::Failure;
use crate::redo_log::{Answers, Survived};
use crate::stack::Stack;
use crate::volume::Volume;

/// Contents of a log. The live part is what a replay would read now. The names are those of the
/// JSON object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LogInfo {
    pub(super) path: String,
    pub(super) size_bytes: u64,
    pub(super) live_bytes: u64,
    pub(super) live_entries: u64,
    /// Writes that brought the live entries into the log: entries by batches is the batching
    /// efficiency.
    pub(super) live_batches: u64,
    /// Calls whose replies survive a crash.
    pub(super) answers: u64,
    /// Calls that were repeated and got their replies from memory,
    pub(super) repeated_calls: u64,
    /// and those of them that were executed before the last start of the server.
    pub(super) repeated_over_a_start: u64,
}

/// Inspects a log; returns nothing if there is none.
///
/// # Errors
/// [`Failure`] if the log cannot be read or is no log.
pub(super) fn look(path: &Path) -> Result<Option<LogInfo>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let device = FileDevice::new(DiskFile::open(path, Access::Glance)?);
    let looked = reactor::block_on(|_| async move { count(path, &device).await });
    let looked = looked.map_err(Failure::Start)?;
    looked.map(Some).map_err(|source| Failure::Log { path: path.to_owned(), source })
}

/// Inspects the log that a volume has in its underlying set; returns nothing if the set holds none.
/// The set is open: its members' data is visible, including records that a recovery writes in
/// place.
///
/// # Errors
/// As [`look`].
pub(super) async fn look_in_set(
    volume: &Volume,
    stack: &Stack,
) -> Result<Option<LogInfo>, Failure> {
    let Some(log) = &stack.log else { return Ok(None) };
    let path = &volume.disk_path;
    let counted = count(path, &**log).await;
    counted.map(Some).map_err(|source| Failure::Log { path: path.clone(), source })
}

async fn count(path: &Path, device: &dyn BlockDevice) -> Result<LogInfo, JournalError> {
    let mut info = LogInfo {
        path: path.display().to_string(),
        size_bytes: device.geometry().size,
        live_bytes: 0,
        live_entries: 0,
        live_batches: 0,
        answers: 0,
        repeated_calls: 0,
        repeated_over_a_start: 0,
    };
    let Some(slot) = journal::peek(device).await? else { return Ok(info) };
    let mut answers = Answers::default();
    let see = |entry: &Entry| answers.see(entry);
    let live = match slot.state() {
        State::Open => journal::find_with(device, slot.epoch.get(), see).await?,
        State::AtRest | State::GivenUp => journal::at_rest(device, see).await?,
    };
    let Some(live) = live else { return Ok(info) };
    let Survived { remembered, repetitions } = answers.survived(live.head);
    info.answers = remembered.len() as u64;
    info.repeated_calls = repetitions.answered;
    info.repeated_over_a_start = repetitions.over_a_start;
    if slot.state() != State::Open {
        return Ok(info); // an empty log: no change in it is needed
    }
    info.live_bytes = live.bytes();
    let mut batches = BTreeSet::new();
    let mut walker = Walker::new(device, live.slot, live.head);
    while let Some(entry) = walker.next().await? {
        info.live_entries += 1;
        batches.insert(entry.header.batch.get());
    }
    info.live_batches = batches.len() as u64;
    Ok(info)
}

impl LogInfo {
    /// Entries per write.
    pub(super) fn batching(&self) -> f64 {
        self.live_entries as f64 / self.live_batches.max(1) as f64
    }
}
