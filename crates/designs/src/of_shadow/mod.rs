//! The engine `shadow`, adapted to the table.
//!
//! It recovers a volume by opening it, and has no log. Its check repairs with one update, and then
//! opens the volume and stops it.

mod check;

use std::rc::Rc;

use block::{BlockDevice, IoError};
use futures::FutureExt;
use runtime::{Random, Runtime, Timestamp};
use shadow::format::superblock::MOST_RESERVE;
use shadow::{Seen, Shadow, Status};
use vfs::FsError;
use vnode::scrub::Watch;

use crate::design::{HEAD_SIZE, Work};
use crate::errors::{CheckError, LookError, MkfsError, OpenError};
use crate::found::Found;
use crate::made::{Made, MkfsOptions};
use crate::opened::{Opened, Prepared, Scrubbing, Told};
use crate::options::{Disks, LogState, OpenOptions};

impl Told for Shadow {
    fn directories(&self) -> u64 {
        Self::directories(self)
    }

    fn shadow(&self) -> Option<Status> {
        Some(self.status())
    }

    fn scrub<'a>(&'a self, watch: Watch<'a>) -> Option<Scrubbing<'a>> {
        Some(Self::scrub(self, watch).boxed_local())
    }
}

impl From<shadow::OpenError> for OpenError {
    fn from(error: shadow::OpenError) -> Self {
        match error {
            shadow::OpenError::Failed(FsError::Corrupt) => Self::new(Damaged::Metadata),
            error => Self::new(error),
        }
    }
}

/// Kind of damage that the engine reports, with advice.
#[derive(Debug, thiserror::Error)]
enum Damaged {
    /// Metadata that leads to files is unreadable.
    #[error(
        "the volume is damaged: a block of metadata is not what its pointer says, and no other \
         version of it is left; 'duramen fsck' names what is lost with it, and 'duramen fsck \
         --repair' keeps what can be kept"
    )]
    Metadata,
    /// Metadata that a repair depends on is unreadable.
    #[error(
        "a block of metadata on which all others rest is not what its pointer says, and no other \
         version of it is left: bring the disk back from a backup"
    )]
    Beyond,
}

/// Message about a repair that failed.
fn unrepaired(error: shadow::OpenError) -> String {
    match error {
        shadow::OpenError::Failed(FsError::Corrupt) => Damaged::Beyond.to_string(),
        error => error.to_string(),
    }
}

impl From<shadow::OpenError> for LookError {
    fn from(error: shadow::OpenError) -> Self {
        match error {
            shadow::OpenError::Io(error) => Self::Device(error),
            why => Self::NoVolume { why: why.into(), has_copies: false },
        }
    }
}

impl From<&OpenOptions> for shadow::OpenOptions {
    fn from(options: &OpenOptions) -> Self {
        let OpenOptions { read_only, cache_bytes, keeps_data, housekeeping_interval, .. } =
            *options;
        let usual = Self::default();
        Self { read_only, cache_bytes, keeps_data, housekeeping_interval, ..usual }
    }
}

impl From<Seen> for Found {
    fn from(seen: Seen) -> Self {
        let Seen { number, label, is_at_rest, is_fresh, size, free, reserved, .. } = seen;
        Self {
            number,
            label,
            is_clean: is_at_rest,
            is_fresh,
            has_anchors: Some(seen.has_anchors),
            size,
            free,
            reserved,
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
const _: () = assert!(shadow::format::FRONT as usize * cow::format::UNIT == HEAD_SIZE);

/// Reason why a volume is not created.
#[derive(Debug, thiserror::Error)]
enum Refused {
    /// An option that the engine does not have.
    #[error("a volume of engine shadow has no {0}")]
    Absent(&'static str),
    /// The units do not fit the sectors of the disk.
    #[error("sectors of {0} bytes are too large for a volume of engine shadow: 4096 at most")]
    Sector(u32),
    /// The label is invalid.
    #[error("a label has at most 31 letters, digits, '-' and '_'")]
    Label,
    /// The engine's own reason.
    #[error(transparent)]
    Shadow(#[from] shadow::MkfsError),
}

/// The engine's options for a new volume on a disk with such sectors.
fn options_for(sector: u32, options: &MkfsOptions) -> Result<shadow::MkfsOptions, Refused> {
    let MkfsOptions { block_size, zone_size, fragment_size, bytes_per_inode, .. } = *options;
    let absent = [
        ("segments: it fills zones", options.segment_size.is_some()),
        ("fragments: it keeps files in whole blocks", fragment_size.is_some()),
        ("fixed number of inodes: there is room for a file as long as there is any", {
            bytes_per_inode.is_some()
        }),
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
    let usual = shadow::MkfsOptions::default();
    let block_size = block_size.unwrap_or(usual.block_size);
    let reserve = options.reserve_percent.unwrap_or(usual.reserve);
    let (label, root) = (options.label.clone(), options.root);
    Ok(shadow::MkfsOptions { block_size, zone_size, reserve, label, root })
}

fn plan(size: u64, sector: u32, options: &MkfsOptions) -> Result<(), Refused> {
    Ok(shadow::plan(size, &options_for(sector, options)?).map(drop)?)
}

async fn make(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Made, Refused> {
    let options = options_for(device.geometry().logical_sector_size, options)?;
    let shape = shadow::mkfs(device, &options, random, now).await?;
    let unit = cow::format::UNIT as u64;
    let (fragment_size, groups, most_files) = (None, None, None);
    let (size, block_size) = (shape.units * unit, shape.block * unit);
    Ok(Made { format: "shadow", size, block_size, fragment_size, groups, most_files })
}

async fn open(disks: Disks, runtime: Runtime, options: &OpenOptions) -> Result<Opened, OpenError> {
    Ok(Opened::new(shadow::open(disks.volume, runtime, &options.into()).await?))
}

/// Identifies a volume that has lost the anchors at its beginning.
async fn find_lost(device: &dyn BlockDevice) -> Result<Option<&'static str>, IoError> {
    match shadow::look(device).await {
        Ok(_) => Ok(Some("a volume of engine shadow that has lost anchors")),
        Err(shadow::OpenError::NoVolume | shadow::OpenError::Unfinished) => Ok(None),
        Err(shadow::OpenError::Io(error)) => Err(error),
        Err(_) => Ok(Some("what is left of a damaged volume of engine shadow")),
    }
}

/// Opens a volume and stops it, which recovers a volume that was only cut off.
async fn bring_to_rest(device: &Rc<dyn BlockDevice>, runtime: &Runtime) -> Result<(), OpenError> {
    let options = shadow::OpenOptions { keeps_device: true, ..shadow::OpenOptions::default() };
    let files = shadow::open(device.clone(), runtime.clone(), &options).await?;
    let opened = Opened::new(files);
    opened.files.shutdown().await.map_err(OpenError::new)
}

async fn set_reserve(
    device: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
    percent: u64,
) -> Result<(), OpenError> {
    let legal = u8::try_from(percent).ok().filter(|&percent| percent <= MOST_RESERVE);
    let refused = || OpenError::new(shadow::MkfsError::Reserve(percent));
    Ok(shadow::set_reserve(device, runtime, legal.ok_or_else(refused)?).await?)
}

/// The operations of the engine, which has only one policy.
pub(crate) const WORK: Work = Work {
    plan: |size, sector, options| plan(size, sector, options).map_err(MkfsError::new),
    make: |device, options, random, now| {
        make(device, options, random, now).map(|made| made.map_err(MkfsError::new)).boxed_local()
    },
    recognise: |head| {
        shadow::format::anchor::Anchor::begins(head).then_some("a volume of engine shadow")
    },
    is_begun: shadow::format::anchor::is_begun,
    look: |device| shadow::look(device).map(|seen| Ok(seen?.into())).boxed_local(),
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
    scrub: Some(|device, watch| {
        let scrubbed = shadow::scrub(device.clone(), watch);
        let told = |error: shadow::OpenError| CheckError::new(OpenError::from(error));
        scrubbed.map(move |scrubbed| scrubbed.map_err(told)).boxed_local()
    }),
    note_policy: |_, _| std::future::ready(Ok(())).boxed_local(), // has no policies
    set_label: |device, label| {
        async move { Ok(shadow::set_label(device, label).await?) }.boxed_local()
    },
    set_reserve: Some(|device, runtime, percent| {
        set_reserve(device, runtime, percent).boxed_local()
    }),
};
