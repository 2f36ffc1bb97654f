//! The arguments of `duramen mkfs`, and the file system that follows from them.

use std::path::{Path, PathBuf};

use block::{BlockDevice, Buffer, clear};
use clap::Args;
use designs::{DESIGNS, Design, DiskRole, HEAD_SIZE, Made, MkfsOptions};
use duramen_settings::SMALLEST_LOG;
use runtime::Runtime;

use crate::choice::{Word, chosen};
use crate::failure::Failure;
use crate::root_directory::{Owner, parse_mode, parse_owner, root_directory};
use crate::size::{parse_size, show_size};

/// The arguments of `duramen mkfs`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MkfsArguments {
    /// Where to create it: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// Size of the new disk, or of each disk of a RAID set: 512M, 1G, 1T. The file is sparse: it
    /// grows as data is written
    #[arg(long, value_parser = parse_size)]
    pub(crate) size: Option<u64>,
    /// Storage engine [default: ffs]
    #[arg(long, value_parser = Word::Engine)]
    pub(crate) engine: Option<String>,
    /// Write policy of engine ffs [default: log]
    #[arg(long, value_parser = Word::Policy, conflicts_with = "bare")]
    pub(crate) policy: Option<String>,
    /// Maximum size of the log [default: 256M; less for a small disk]
    #[arg(long, value_parser = parse_size, conflicts_with = "bare")]
    pub(crate) log_size: Option<u64>,
    /// Block size: 4K, 8K, 16K, 32K or 64K [default: 32K; for engines shadow
    /// and lfs 8K]
    #[arg(long, value_parser = parse_size)]
    pub(crate) block_size: Option<u64>,
    /// Zone size of engine shadow, which fills one zone of the disk after another: a multiple of
    /// the block size, at least 64K, a power of two above 256M [default: 64M; less for a small
    /// disk]
    #[arg(long, value_parser = parse_size)]
    pub(crate) zone_size: Option<u64>,
    /// Segment size of engine lfs, which writes whole segments: a multiple of the block size and of
    /// a stripe, at most 256M [default: about 1M; less for a small disk]
    #[arg(long, value_parser = parse_size)]
    pub(crate) segment_size: Option<u64>,
    /// Fragment size, the smallest allocation unit: 1, 1/2, 1/4 or 1/8 of a block [default: 1/8,
    /// but at least 512 bytes and one disk sector]
    #[arg(long, value_parser = parse_size)]
    pub(crate) fragment_size: Option<u64>,
    /// Create one inode for this many bytes of space [default: two fragments]
    #[arg(long, value_parser = parse_size)]
    pub(crate) bytes_per_inode: Option<u64>,
    /// Percentage of the space reserved for root; for engine lfs, of the segments left to the
    /// cleaner [default: 8; for engine shadow 0]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) reserve: Option<u64>,
    /// Volume label: up to 31 letters, digits, '-' and '_'
    #[arg(long, default_value = "")]
    pub(crate) label: String,
    /// Owner of the root directory, by number [default: the user who runs this command]
    #[arg(long, value_name = "UID:GID", value_parser = parse_owner)]
    pub(crate) owner: Option<Owner>,
    /// Mode of the root directory in octal, such as 1777 [default: 755]
    #[arg(long, value_parser = parse_mode)]
    pub(crate) mode: Option<u16>,
    /// Stripe the volume over two or more disks without redundancy. Missing files are created, each
    /// of --size bytes
    #[arg(long, value_name = "DISK", num_args = 2.., group = "set", conflicts_with = "bare")]
    pub(crate) raid0: Vec<PathBuf>,
    /// Mirror the volume on two or more disks
    #[arg(long, value_name = "DISK", num_args = 2.., group = "set", conflicts_with = "bare")]
    pub(crate) raid1: Vec<PathBuf>,
    /// Stripe the volume with parity over three or more disks: any one of them may fail
    #[arg(long, value_name = "DISK", num_args = 3.., group = "set", conflicts_with = "bare")]
    pub(crate) raid5: Vec<PathBuf>,
    /// Hot spare, which replaces a failed disk automatically; may be repeated
    #[arg(long, value_name = "DISK", requires = "set")]
    pub(crate) spare: Vec<PathBuf>,
    /// Stripe unit: contiguous bytes on each disk, a power of two, 4K to 4M [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "set")]
    pub(crate) stripe_unit: Option<u64>,
    /// Put an NVRAM in front of the volume: a fast file or device whose contents outlive the power.
    /// Of two, either may be lost. A missing file is created
    #[arg(long, value_name = "PATH", num_args = 1..=2, conflicts_with = "bare")]
    pub(crate) nvram: Vec<PathBuf>,
    /// Size of the NVRAM's file, if it is created [default: 24M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "nvram")]
    pub(crate) upper: Option<u64>,
    /// Size of the part of the NVRAM that gets the log of the set, so that a small write to a
    /// mirror or RAID-5 costs the disks less. A file that is created has it in addition
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "nvram")]
    pub(crate) lower: Option<u64>,
    /// Keep the log of policy 'log' in the NVRAM: it goes to the disks only when the NVRAM goes
    /// down, and no call waits for a disk
    #[arg(long, requires = "nvram")]
    pub(crate) pin_log: bool,
    /// Do not preallocate the files of a RAID set: they grow as data is written
    #[arg(long, requires = "set", conflicts_with = "preallocate")]
    pub(crate) sparse: bool,
    /// Create a bare image file instead of a folder
    #[arg(long)]
    pub(crate) bare: bool,
    /// Preallocate the whole disk, so that the host cannot run out of space for it
    #[arg(long)]
    pub(crate) preallocate: bool,
    /// Overwrite existing contents
    #[arg(long)]
    pub(crate) force: bool,
}

/// Refuses an option that concerns a log, for a design without one.
///
/// # Errors
/// [`Failure::Usage`].
pub(crate) fn refuse_without_log(design: &Design, option: &str) -> Result<(), Failure> {
    if design.has(DiskRole::Log) {
        return Ok(());
    }
    let name = design.name();
    Err(Failure::Usage(format!("{name} has no log: {option} says nothing of it")))
}

impl MkfsArguments {
    /// Arguments of an `mkfs` that gives nothing but the size.
    pub(crate) fn usual(volume: &Path, size: u64) -> Self {
        Self {
            volume: volume.to_owned(),
            size: Some(size),
            engine: None,
            policy: None,
            log_size: None,
            block_size: None,
            zone_size: None,
            segment_size: None,
            fragment_size: None,
            bytes_per_inode: None,
            reserve: None,
            label: String::new(),
            owner: None,
            mode: None,
            raid0: Vec::new(),
            raid1: Vec::new(),
            raid5: Vec::new(),
            spare: Vec::new(),
            stripe_unit: None,
            nvram: Vec::new(),
            upper: None,
            lower: None,
            pin_log: false,
            sparse: false,
            bare: false,
            preallocate: false,
            force: false,
        }
    }

    /// Refuses what concerns a log for a design without a log, and a size too small for a log.
    pub(crate) fn check_log(&self, design: &Design) -> Result<(), Failure> {
        let named = [("--log-size", self.log_size.is_some()), ("--pin-log", self.pin_log)];
        for (option, _) in named.into_iter().filter(|(_, is_named)| *is_named) {
            refuse_without_log(design, option)?;
        }
        if self.log_size.is_some_and(|size| size < SMALLEST_LOG) {
            let least = show_size(SMALLEST_LOG);
            return Err(Failure::Usage(format!("a log has at least {least}")));
        }
        Ok(())
    }

    /// Refuses an existing disk whose size is not the requested one.
    pub(crate) fn check_size(&self, path: &Path, size: u64) -> Result<(), Failure> {
        if self.size.is_none_or(|wanted| wanted == size) {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{} has {size} bytes already; leave --size away to use them all, or remove it first",
            path.display()
        )))
    }

    /// The requested design.
    pub(crate) fn design(&self) -> Result<&'static Design, Failure> {
        chosen(self.engine.as_deref(), self.policy.as_deref())
    }

    /// The requested options of the file system.
    fn options(&self) -> MkfsOptions {
        MkfsOptions {
            block_size: self.block_size,
            zone_size: self.zone_size,
            segment_size: self.segment_size,
            fragment_size: self.fragment_size,
            bytes_per_inode: self.bytes_per_inode,
            reserve_percent: self.reserve,
            label: self.label.clone(),
            root: root_directory(self.owner, self.mode),
        }
    }

    /// Refuses a file system that cannot be created on `size` bytes, before anything is written.
    pub(crate) fn check_file_system(
        &self,
        design: &Design,
        size: u64,
        sector: u32,
    ) -> Result<(), Failure> {
        let planned = (design.work().plan)(size, sector, &self.options());
        planned.map_err(|source| Failure::Mkfs { path: self.volume.clone(), source })
    }

    /// Creates the file system on a device, whose path is `path`.
    pub(crate) async fn make_on(
        &self,
        device: &dyn BlockDevice,
        path: &Path,
        design: &Design,
        runtime: &Runtime,
    ) -> Result<Made, Failure> {
        let size = device.geometry().size;
        let length = size.min(HEAD_SIZE as u64);
        // If both ends are empty, no engine would recognise the disk, and the search is skipped.
        if !are_ends_empty(device, length).await
            && let Some((other, _)) = DESIGNS.look(device).await
            && other.engine != design.engine
        {
            // The new engine's mkfs would leave the old engine's structures at either end.
            let device_failed = |source| Failure::Device { path: path.to_owned(), source };
            clear(device, 0..length).await.map_err(device_failed)?;
            clear(device, size - length..size).await.map_err(device_failed)?;
        }
        let (make, options) = (design.work().make, self.options());
        let made = make(device, &options, &*runtime.random, runtime.clock.wall()).await;
        made.map_err(|source| Failure::Mkfs { path: path.to_owned(), source })
    }
}

/// Whether `length` bytes at each end of a disk are all zeros. An unreadable end does not count as
/// empty.
async fn are_ends_empty(device: &dyn BlockDevice, length: u64) -> bool {
    for at in [0, device.geometry().size - length] {
        let read = device.read(at, Buffer::unfilled(length as usize)).await;
        if !read.is_ok_and(|bytes| bytes.iter().all(|&byte| byte == 0)) {
            return false;
        }
    }
    true
}
