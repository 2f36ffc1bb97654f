//! The devices to measure: plain disks, or the one set that they form.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use futures::future::try_join_all;
use raid::layout::Level;
use raid::{MakeOptions, OpenOptions, Set};
use runtime::Runtime;
use serde_json::{Value, json};
use server::disks::Disks;

use crate::failure::Failure;

/// The transfers that bypass the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Large ones, as for a server's volume.
    Large,
    All,
}

/// Devices that are used in parallel.
pub(crate) struct Places {
    /// The disks, or the set alone.
    pub(crate) devices: Vec<Rc<dyn BlockDevice>>,
    pub(crate) set: Option<Rc<Set>>,
    drives: Disks,
    takes: Takes,
}

impl Places {
    /// Plain disks.
    ///
    /// # Errors
    /// [`Failure`] when one cannot be opened.
    pub(crate) fn disks(paths: &[PathBuf], takes: Takes) -> Result<Places, Failure> {
        let drives = Disks::new().map_err(Failure::Reactor)?;
        let devices = paths.iter().map(|path| open(&drives, path, takes));
        let devices = devices.collect::<Result<Vec<_>, Failure>>()?;
        Ok(Places { devices, set: None, drives, takes })
    }

    /// The set of these disks, as it is, or made anew.
    ///
    /// # Errors
    /// [`Failure`] when that cannot be.
    pub(crate) async fn set(
        paths: &[PathBuf],
        takes: Takes,
        is_new: bool,
        runtime: &Runtime,
    ) -> Result<Places, Failure> {
        let Places { devices: members, drives, .. } = Places::disks(paths, takes)?;
        if is_new {
            raid::make(&members, &MakeOptions::new(Level::Parity), runtime).await?;
        }
        let set = Rc::new(raid::open(members, runtime, OpenOptions::default()).await?);
        Ok(Places { devices: vec![set.clone()], set: Some(set), drives, takes })
    }

    /// A further disk.
    ///
    /// # Errors
    /// [`Failure`] when it cannot be opened.
    pub(crate) fn further(&self, path: &Path) -> Result<Rc<dyn BlockDevice>, Failure> {
        open(&self.drives, path, self.takes)
    }

    /// Counters of the set.
    pub(crate) fn told(&self) -> Value {
        let Some(set) = &self.set else { return Value::Null };
        let status = set.status();
        let wrong: u64 = status
            .met
            .iter()
            .map(|met| met.read_errors + met.write_errors + met.checksum_errors)
            .sum();
        json!({
            "reads": status.done.reads,
            "writes": status.done.writes,
            "log_writes": status.done.log_writes,
            "full_stripes": status.done.full_stripes,
            "partial_stripes": status.done.partial_stripes,
            "wrong": wrong,
        })
    }

    /// Waits for pending requests, and closes all devices.
    ///
    /// # Errors
    /// [`Failure`] when a device fails.
    pub(crate) async fn close(&self) -> Result<(), Failure> {
        try_join_all(self.devices.iter().map(|device| device.close())).await?;
        Ok(())
    }
}

fn open(drives: &Disks, path: &Path, takes: Takes) -> Result<Rc<dyn BlockDevice>, Failure> {
    let disk = DiskFile::open(path, Access::ReadWrite)?;
    Ok(drives.device(match takes {
        Takes::Large => disk.large_past_cache(),
        Takes::All => disk.past_cache(),
    }))
}
