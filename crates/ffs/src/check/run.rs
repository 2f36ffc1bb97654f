//! The rounds of a check, and what is written at their end.

use std::collections::{BTreeMap, BTreeSet};

use block::BlockDevice;
use runtime::Runtime;

use super::overlay::Overlay;
use super::table::Table;
use super::{CheckError, CheckOptions, Checker, Log, Orphans, Phase, Progress, Report, Severity};
use crate::OpenError;
use crate::derive::bits;
use crate::layout::Geometry;

/// More rounds than any damage should take.
const ROUNDS: u32 = 16;

/// Checks the volume on `device`, and repairs it if `options` say so.
///
/// # Errors
/// [`CheckError`].
pub async fn check(
    device: &dyn BlockDevice,
    runtime: &Runtime,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let room = block::Buffer::zeroed(crate::layout::SUPERBLOCK_ROOM as usize);
    let mut block = device.read(crate::layout::SUPERBLOCK_ADDRESS, room).await?.to_vec();
    let geometry = Geometry::parse_any_order(&mut block)?;
    let mut checker = Checker::new(device, geometry, block, runtime, progress);
    checker.log = Log::new(options.without);
    checker.thorough = true;
    while checker.round().await? {
        if checker.round >= ROUNDS {
            return Err(CheckError::NoEnd { rounds: ROUNDS });
        }
    }
    checker.name_findings().await?;
    if options.repair && !checker.disk.is_empty() {
        checker.disk.write().await?;
    }
    Ok(checker.into_report())
}

/// Brings a volume back that was cut under policy `sync`. Afterwards its maps, summary area and link
/// counts are true; its superblock is as it was.
///
/// # Errors
/// [`OpenError::Damaged`] for what no cut can leave, before anything was written;
/// [`OpenError::Device`].
pub(crate) async fn recover(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    runtime: &Runtime,
    superblock: &[u8],
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, OpenError> {
    let superblock = superblock.to_vec();
    let mut checker = Checker::new(device, geometry.clone(), superblock, runtime, progress);
    checker.was_cut = true;
    checker.round().await.map_err(|error| match error {
        CheckError::Device(error) => OpenError::Device(error),
        other => OpenError::Damaged(other.to_string()),
    })?;
    let damage = checker
        .log
        .findings
        .list
        .iter()
        .find(|finding| !finding.invariant.may_be_cut() && finding.severity > Severity::Note);
    if let Some(damage) = damage {
        return Err(OpenError::Damaged(damage.to_string()));
    }
    checker.disk.write().await?;
    Ok(checker.into_report())
}

impl<'a> Checker<'a> {
    fn new(
        device: &'a dyn BlockDevice,
        geometry: Geometry,
        superblock: Vec<u8>,
        runtime: &Runtime,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        let bits = geometry.size.div_ceil(8) as usize;
        Self {
            disk: Overlay::new(device),
            superblock,
            superblock_changed: false,
            log: Log::new(None),
            progress,
            now: runtime.clock.wall(),
            thorough: false,
            was_cut: false,
            round: 0,
            orphans: Orphans::Undecided,
            claimed: vec![0; bits],
            next_fresh: 0,
            doubted: BTreeSet::new(),
            freed: 0,
            reconnected: 0,
            initialised: Vec::new(),
            table: Table::new(0, 1),
            held: Vec::new(),
            contested: None,
            claims: Vec::new(),
            directories: BTreeMap::new(),
            headless: Vec::new(),
            mismatches: Vec::new(),
            named: Vec::new(),
            directories_read: 0,
            data: Vec::new(),
            geometry,
        }
    }

    /// Runs all passes once. Whether anything was found.
    async fn round(&mut self) -> Result<bool, CheckError> {
        self.round += 1;
        self.log.in_round = 0;
        self.initialised.clear();
        self.table = Table::new(self.geometry.inode_count(), self.geometry.inodes_per_block);
        self.held = vec![0; self.geometry.size.div_ceil(8) as usize];
        self.contested = None;
        self.claims.clear();
        self.directories.clear();
        self.headless.clear();
        self.mismatches.clear();
        self.named.clear();
        self.directories_read = 0;

        self.read_groups().await?;
        self.read_inodes().await?;
        let changed = self.settle_contests().await?
            || self.fill_first_blocks().await?
            || self.settle_root().await?
            || self.read_directories().await?
            || self.settle_tree().await?;
        if changed {
            return Ok(true);
        }
        self.settle_links().await?;
        self.check_maps().await?;
        Ok(self.log.in_round > 0)
    }

    pub(super) fn tell(&mut self, phase: Phase, done: u64, total: u64) {
        (self.progress)(Progress { phase, round: self.round, done, total });
    }

    fn into_report(self) -> Report {
        Report {
            files: self.table.iter().count() as u64,
            directories: self.directories.len() as u64,
            held_fragments: bits::count_ones(&self.held),
            freed: self.freed,
            reconnected: self.reconnected,
            repaired: false,
            findings: self.log.findings,
        }
    }
}
