//! The competitor: a btrfs file, with RAID-5 data and two copies of metadata, on the devices that
//! the set had before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::While;
use crate::track::disk::fill;
use crate::track::janitor::{Janitor, quoted};
use crate::{Result, command};

/// The mount point.
pub(super) struct Btrfs {
    folder: PathBuf,
}

impl Btrfs {
    /// Promises to unmount it from this folder at the end, if it is mounted then. Its users may
    /// need a moment to end.
    pub(super) fn at(folder: PathBuf, janitor: &mut Janitor) -> Result<Btrfs> {
        fs::create_dir(&folder).while_doing(folder.display())?;
        let name = quoted(&folder);
        janitor.promise(&format!(
            "for i in 1 2 3 4 5 6 7 8 9 10; do mountpoint -q {name} || break; \
             umount {name} && break; sleep 1; done"
        ))?;
        Ok(Btrfs { folder })
    }

    /// Makes the file system on these devices, with a file of this many MiB that is written
    /// completely, and lends the file. Nothing is discarded: the files underneath keep their
    /// allocated space.
    pub(super) fn with_file<T>(
        &self,
        devices: &[&Path],
        mib: u64,
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        let mut make = Command::new("mkfs.btrfs");
        make.args(["-q", "-f", "-K", "-d", "raid5", "-m", "raid1"]);
        command::capture(make.args(devices))?;
        let names = devices.iter().map(|device| format!(",device={}", device.display()));
        let options = format!("nodiscard{}", names.collect::<String>());
        let mut mount = Command::new("mount");
        mount.args(["-t", "btrfs", "-o", &options]).arg(devices[0]).arg(&self.folder);
        command::capture(&mut mount)?;
        let file = self.folder.join("file");
        let done = fill(&file, mib).while_doing(file.display()).and_then(|()| work(&file));
        let unmounted = command::capture(Command::new("umount").arg(&self.folder));
        unmounted.and(done)
    }
}
