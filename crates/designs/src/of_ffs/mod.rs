//! The engine `ffs` and its checker, adapted to the table.

mod look;

use std::rc::Rc;

use block::BlockDevice;
use ffs::{Ffs, check_intents, check_log, label};
use fsck::Invariant;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::{Random, Runtime, Timestamp};
use ufs2::layout::Geometry;
use ufs2::mark::PolicyKind;
use ufs2::mkfs::{self, is_begun_mark, mkfs};

use crate::design::{Open, Work};
use crate::errors::{CheckError, MkfsError, OpenError};
use crate::found::{Found, FoundUfs2};
use crate::made::{Made, MkfsOptions};
use crate::opened::{LogStatistics, Opened, Prepared, Reclaimed, SoftUpdatesCounts, Told};
use crate::options::{CheckOptions, Disks, OpenOptions};
use crate::report::{DataPlace, Finding, Findings, Progress, Report, Rule};

impl Told for Ffs {
    fn directories(&self) -> u64 {
        Self::directories(self)
    }

    fn log_statistics(&self) -> Option<LogStatistics> {
        Self::log_statistics(self)
    }

    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        Self::soft_updates(self)
    }

    fn reclaimed(&self) -> Option<Reclaimed> {
        Self::reclaimed(self)
    }

    fn wait_for_reclaim(&self) -> LocalBoxFuture<'_, bool> {
        Self::wait_for_reclaim(self).boxed_local()
    }
}

impl From<ffs::Opened> for Opened {
    fn from(opened: ffs::Opened) -> Self {
        let ffs::Opened { files, read_only, rebuilt, replayed, reclaims, lost_intents } = opened;
        Self {
            read_only: read_only.map(|reason| reason.to_string()),
            rebuilt: rebuilt.map(Report::from),
            replayed,
            reclaims,
            lost_intents,
            ..Self::new(files)
        }
    }
}

impl From<ffs::OpenError> for OpenError {
    fn from(error: ffs::OpenError) -> Self {
        match error {
            ffs::OpenError::UnfinishedCheck => Self::UnfinishedCheck(error.into()),
            ffs::OpenError::LogMissing => Self::LogMissing(error.into()),
            ffs::OpenError::LogForeign => Self::LogForeign(error.into()),
            _ => Self::new(error),
        }
    }
}

impl From<&OpenOptions> for ffs::OpenOptions {
    fn from(options: &OpenOptions) -> Self {
        let OpenOptions { read_only, cache_bytes, keeps_data, finishes_reclaim, .. } = *options;
        let OpenOptions { housekeeping_interval, log, softdep, .. } = options.clone();
        Self {
            read_only,
            cache_bytes,
            keeps_data,
            housekeeping_interval,
            log,
            finishes_reclaim,
            softdep,
        }
    }
}

impl From<check_log::Prepared> for Prepared {
    fn from(prepared: check_log::Prepared) -> Self {
        let check_log::Prepared { state, replayed, has_given_up, refused } = prepared;
        Self { state, replayed, has_given_up, refused: refused.map(OpenError::from) }
    }
}

impl From<Invariant> for Rule {
    fn from(invariant: Invariant) -> Self {
        Self { name: invariant.name(), sentence: invariant.rule() }
    }
}

impl From<fsck::Progress> for Progress {
    fn from(progress: fsck::Progress) -> Self {
        let fsck::Progress { phase, round, done, total } = progress;
        Self { phase: phase.name(), round, done, total }
    }
}

impl From<fsck::Finding> for Finding {
    fn from(finding: fsck::Finding) -> Self {
        let fsck::Finding { invariant, severity, place, path, found, expected, repair } = finding;
        let (rule, data, snapshot) = (invariant.into(), None, None);
        Self { rule, severity, place, data, snapshot, path, found, expected, repair }
    }
}

impl From<fsck::Findings> for Findings {
    fn from(findings: fsck::Findings) -> Self {
        let fsck::Findings { list, counts, worst, unrepairable, damaged } = findings;
        Self {
            list: list.into_iter().map(Finding::from).collect(),
            counts: counts.into_iter().map(|(one, count)| (one.into(), count)).collect(),
            worst,
            unrepairable,
            damaged,
        }
    }
}

impl From<fsck::Report> for Report {
    fn from(report: fsck::Report) -> Self {
        Self {
            was_unclean: report.findings.count(Invariant::State) > 0,
            findings: report.findings.into(),
            files: report.files,
            directories: report.directories,
            held_bytes: report.held_bytes,
            freed: report.freed,
            reconnected: report.reconnected,
            log_since_seconds: report.log_since_seconds,
            repaired: report.repaired,
            unrepaired: None,
            lost_intents: report.lost_intents,
        }
    }
}

impl MkfsOptions {
    /// The options for a disk with sectors of `sector` bytes.
    fn of_ufs2(&self, sector: u32) -> mkfs::MkfsOptions {
        let usual = mkfs::MkfsOptions::default();
        let block_size = self.block_size.unwrap_or(usual.block_size);
        let smallest_fragment = u64::from(sector).max(512);
        let fragment_size = (block_size / 8).max(smallest_fragment);
        mkfs::MkfsOptions {
            block_size,
            fragment_size: self.fragment_size.unwrap_or(fragment_size),
            bytes_per_inode: self.bytes_per_inode,
            reserve_percent: self.reserve_percent.unwrap_or(usual.reserve_percent),
            volume_name: self.label.clone(),
            root: self.root,
            ..usual
        }
    }
}

impl From<&Geometry> for Made {
    fn from(geometry: &Geometry) -> Self {
        Self {
            format: "UFS2",
            size: geometry.byte_address(geometry.size),
            block_size: geometry.block_size,
            fragment_size: Some(geometry.fragment_size),
            groups: Some(geometry.group_count),
            // The first two are never files, the third is the root.
            most_files: Some(geometry.inode_count() - 3),
        }
    }
}

/// Opens a volume under a policy.
pub(crate) async fn open(
    policy: PolicyKind,
    disks: Disks,
    runtime: Runtime,
    options: &OpenOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, OpenError> {
    let Disks { volume, log, intents } = disks;
    let (disks, options) = (ffs::Disks { volume, log, intents }, options.into());
    let mut tell = |now: fsck::Progress| progress(now.into());
    let opened = ffs::open(policy, disks, runtime, &options, &mut tell).await;
    Ok(opened?.into())
}

/// Refusal of an option that the format does not have.
#[derive(Debug, thiserror::Error)]
#[error("a UFS2 file system has no zones: its groups follow from its blocks")]
struct NoZones;

/// Refusal of another one.
#[derive(Debug, thiserror::Error)]
#[error("a UFS2 file system has no segments: it writes in place")]
struct NoSegments;

fn refuse_zones(options: &MkfsOptions) -> Result<(), MkfsError> {
    options.segment_size.map_or(Ok(()), |_| Err(MkfsError::new(NoSegments)))?;
    options.zone_size.map_or(Ok(()), |_| Err(MkfsError::new(NoZones)))
}

async fn make(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Made, MkfsError> {
    refuse_zones(options)?;
    let options = options.of_ufs2(device.geometry().logical_sector_size);
    let made = mkfs(device, &options, random, now).await;
    made.map(|geometry| Made::from(&geometry)).map_err(MkfsError::new)
}

async fn check(
    device: &Rc<dyn BlockDevice>,
    intents: Option<&Rc<dyn BlockDevice>>,
    runtime: &Runtime,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let CheckOptions { repair, full, log } = *options;
    let options = fsck::CheckOptions { repair, full, log, ..fsck::CheckOptions::default() };
    let mut tell = |now: fsck::Progress| progress(now.into());
    let report = check_intents::check(device, intents, runtime, &options, &mut tell).await;
    let mut report = report.map(Report::from).map_err(CheckError::new)?;
    // Without a superblock, addresses cannot be computed.
    if full && let Ok(found) = look::look(&**device).await {
        name_data(&mut report, &found);
    }
    Ok(report)
}

/// Adds the disk address to each finding of unreadable data.
fn name_data(report: &mut Report, volume: &Found) {
    let Some(FoundUfs2 { fragment_size, .. }) = volume.ufs2 else { return };
    for finding in &mut report.findings.list {
        let (fragment, block) = (finding.place.fragment, finding.place.block);
        if finding.rule == Invariant::Data.into()
            && let Some((fragment, block)) = fragment.zip(block)
        {
            let (at, length) = (fragment * fragment_size, volume.block_size);
            finding.data = Some(DataPlace { offset: block * length, at, length });
        }
    }
}

async fn prepare(
    device: &Rc<dyn BlockDevice>,
    log: Option<&Rc<dyn BlockDevice>>,
    runtime: &Runtime,
    log_use: check_log::LogUse,
) -> Result<Prepared, OpenError> {
    Ok(check_log::prepare(device, log, runtime, log_use).await?.into())
}

/// All policies share one format, so only their way to open a volume differs.
pub(crate) const fn work(open: Open) -> Work {
    Work {
        plan: |size, sector, options| {
            refuse_zones(options)?;
            let planned = mkfs::plan(size, u64::from(sector), &options.of_ufs2(sector));
            planned.map(drop).map_err(MkfsError::new)
        },
        make: |device, options, random, now| make(device, options, random, now).boxed_local(),
        open,
        prepare: |device, log, runtime, log_use| {
            prepare(device, log, runtime, log_use).boxed_local()
        },
        check: |device, intents, runtime, options, progress| {
            check(device, intents, runtime, options, progress).boxed_local()
        },
        scrub: None,
        recognise: look::recognise,
        is_begun: is_begun_mark,
        look: |device| look::look(device).boxed_local(),
        find_lost: |device| look::find_lost(device).boxed_local(),
        note_policy: |device, design| look::note_policy(device, design).boxed_local(),
        set_label: |device, label| {
            async move { Ok(label::set(device, label).await?) }.boxed_local()
        },
        set_reserve: None,
    }
}
