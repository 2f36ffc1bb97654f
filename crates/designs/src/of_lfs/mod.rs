//! The engine `lfs`, adapted to the table.
//!
//! It recovers a volume by opening it, and its log is the volume itself.

mod check;

use std::rc::Rc;

use block::{BlockDevice, IoError};
use futures::FutureExt;
use lfs::{Lfs, Seen, Status};
use runtime::{Random, Runtime, Timestamp};
use vfs::FsError;

use crate::design::{HEAD_SIZE, Work};
use crate::errors::{CheckError, LookError, MkfsError, OpenError};
use crate::found::Found;
use crate::made::{Made, MkfsOptions};
use crate::opened::{Opened, Prepared, Told};
use crate::options::{Disks, LogState, OpenOptions};

impl Told for Lfs {
    fn directories(&self) -> u64 {
        Self::directories(self)
    }

    fn lfs(&self) -> Option<Status> {
        Some(self.status())
    }
}

/// Damage that the engine reports, with advice.
#[derive(Debug, thiserror::Error)]
#[error(
    "the volume is damaged: a block of metadata is not what its pointer says, and no other version \
     of it is left; 'duramen fsck' names what is lost with it"
)]
struct Damaged;

impl From<lfs::OpenError> for OpenError {
    fn from(error: lfs::OpenError) -> Self {
        match error {
            lfs::OpenError::Failed(FsError::Corrupt) => Self::new(Damaged),
            error => Self::new(error),
        }
    }
}

impl From<lfs::OpenError> for LookError {
    fn from(error: lfs::OpenError) -> Self {
        match error {
            lfs::OpenError::Io(error) => Self::Device(error),
            why => Self::NoVolume { why: why.into(), has_copies: false },
        }
    }
}

impl From<&OpenOptions> for lfs::OpenOptions {
    fn from(options: &OpenOptions) -> Self {
        let OpenOptions { read_only, cache_bytes, keeps_data, housekeeping_interval, .. } =
            *options;
        let usual = Self::default();
        Self { read_only, cache_bytes, keeps_data, housekeeping_interval, ..usual }
    }
}

impl From<Seen> for Found {
    fn from(seen: Seen) -> Self {
        Self {
            number: seen.number,
            label: seen.label,
            is_clean: seen.is_at_rest,
            is_fresh: seen.is_fresh,
            size: seen.size,
            free: seen.free,
            block_size: seen.block_size,
            files: seen.files,
            directories: seen.directories,
            free_files: seen.free_files,
            last_written: seen.seconds,
            ..Self::default()
        }
    }
}

/// A client's bytes are never where other programs look to identify a disk.
const _: () = assert!(lfs::format::FRONT as usize * cow::format::UNIT == HEAD_SIZE);

/// Reason why a volume is not created.
#[derive(Debug, thiserror::Error)]
enum Refused {
    /// An option that the engine does not have.
    #[error("a volume of engine lfs has no {0}")]
    Absent(&'static str),
    /// The units do not fit the sectors of the disk.
    #[error("sectors of {0} bytes are too large for a volume of engine lfs: 4096 at most")]
    Sector(u32),
    /// The label is invalid.
    #[error("a label has at most 31 letters, digits, '-' and '_'")]
    Label,
    /// The engine's own reason.
    #[error(transparent)]
    Lfs(#[from] lfs::MkfsError),
}

/// The engine's options for a new volume on a disk with such sectors.
fn options_for(sector: u32, options: &MkfsOptions) -> Result<lfs::MkfsOptions, Refused> {
    let MkfsOptions { block_size, segment_size, .. } = *options;
    let absent = [
        ("zones: it fills segments", options.zone_size.is_some()),
        ("fragments: it keeps files in whole blocks", options.fragment_size.is_some()),
        (
            "fixed number of inodes: there is room for a file as long as there is any",
            options.bytes_per_inode.is_some(),
        ),
    ];
    if let Some((what, _)) = absent.into_iter().find(|(_, is_wanted)| *is_wanted) {
        return Err(Refused::Absent(what));
    }
    if sector > cow::format::UNIT as u32 {
        return Err(Refused::Sector(sector));
    }
    if !ufs2::label::is_legal(&options.label) {
        return Err(Refused::Label);
    }
    let usual = lfs::MkfsOptions::default();
    let block_size = block_size.unwrap_or(usual.block_size);
    let reserve = options.reserve_percent.unwrap_or(usual.reserve);
    let (label, root) = (options.label.clone(), options.root);
    Ok(lfs::MkfsOptions { block_size, segment_size, reserve, label, root })
}

fn plan(size: u64, sector: u32, options: &MkfsOptions) -> Result<(), Refused> {
    Ok(lfs::plan(size, None, &options_for(sector, options)?).map(drop)?)
}

async fn make(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Made, Refused> {
    let options = options_for(device.geometry().logical_sector_size, options)?;
    let shape = lfs::mkfs(device, &options, random, now).await?;
    let unit = cow::format::UNIT as u64;
    let (fragment_size, groups, most_files) = (None, None, None);
    let (size, block_size) = (shape.units * unit, shape.block * unit);
    Ok(Made { format: "lfs", size, block_size, fragment_size, groups, most_files })
}

async fn open(disks: Disks, runtime: Runtime, options: &OpenOptions) -> Result<Opened, OpenError> {
    Ok(Opened::new(lfs::open(disks.volume, runtime, &options.into()).await?))
}

/// Identifies a volume that has lost the head at its beginning.
async fn find_lost(device: &dyn BlockDevice) -> Result<Option<&'static str>, IoError> {
    match lfs::look(device).await {
        Ok(_) => Ok(Some("a volume of engine lfs that has lost its first head")),
        Err(lfs::OpenError::NoVolume | lfs::OpenError::Unfinished) => Ok(None),
        Err(lfs::OpenError::Io(error)) => Err(error),
        Err(_) => Ok(Some("what is left of a damaged volume of engine lfs")),
    }
}

/// Opens a volume and stops it, which recovers a volume that was only cut off.
async fn bring_to_rest(device: &Rc<dyn BlockDevice>, runtime: &Runtime) -> Result<(), OpenError> {
    let options = lfs::OpenOptions { keeps_device: true, ..lfs::OpenOptions::default() };
    let files = lfs::open(device.clone(), runtime.clone(), &options).await?;
    Opened::new(files).files.shutdown().await.map_err(OpenError::new)
}

/// The operations of the engine, which has only one policy.
pub(crate) const WORK: Work = Work {
    plan: |size, sector, options| plan(size, sector, options).map_err(MkfsError::new),
    make: |device, options, random, now| {
        make(device, options, random, now).map(|made| made.map_err(MkfsError::new)).boxed_local()
    },
    recognise: |head| {
        lfs::format::head::VolumeHead::begins(head).then_some("a volume of engine lfs")
    },
    is_begun: lfs::format::head::VolumeHead::is_begun,
    look: |device| lfs::look(device).map(|seen| Ok(seen?.into())).boxed_local(),
    find_lost: |device| find_lost(device).boxed_local(),
    open: |disks, runtime, options, _| open(disks, runtime, options).boxed_local(),
    prepare: |_, _, _, _| {
        let (replayed, has_given_up, refused) = (None, false, None);
        let prepared = Prepared { state: LogState::Home, replayed, has_given_up, refused };
        std::future::ready(Ok(prepared)).boxed_local()
    },
    check: |device, _, runtime, options, progress| {
        check::check(device, runtime, options, progress).boxed_local()
    },
    scrub: None,
    note_policy: |_, _| std::future::ready(Ok(())).boxed_local(), // has no policies
    set_label: |device, label| {
        async move { Ok(lfs::set_label(device, label).await?) }.boxed_local()
    },
    set_reserve: Some(|device, _, percent| {
        async move { Ok(lfs::set_reserve(&**device, percent).await?) }.boxed_local()
    }),
};

/// The reason why a check did not complete.
fn unchecked(error: lfs::OpenError) -> CheckError {
    CheckError::new(OpenError::from(error))
}
