//! The rounds of a check, and the writes at their end.

use std::collections::{BTreeMap, BTreeSet};

use block::{BlockDevice, Durability};
use runtime::Runtime;
use ufs2::derive::bits;
use ufs2::layout::{
    ByteOrder, Geometry, SECTOR_SIZE, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock, flags,
};
use ufs2::mark::{self, PolicyKind};

use super::overlay::Overlay;
use super::superblock::{self, Mark};
use super::table::Table;
use super::{
    CheckError, CheckOptions, Checker, Invariant, Log, LogState, Orphans, Phase, Place, Progress,
    RecoverError, Report, Severity, copies,
};
use crate::planted::{Bug, is_planted};

/// More rounds than any damage should need.
const ROUNDS: u32 = 16;

/// Checks the volume on `device`, and repairs it if `options` request it.
///
/// # Errors
/// [`CheckError`].
pub async fn check(
    device: &dyn BlockDevice,
    runtime: &Runtime,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let mut log = Log::new(options.without);
    let disk = Overlay::new(device);
    let found = superblock::find(&disk, &mut log, options.full).await?;
    let mut checker = Checker::new(disk, found.geometry, found.block, runtime, progress);
    checker.log = log;
    if found.mark == Mark::Policy(PolicyKind::Log) {
        checker.settle_log(options).await?;
    }
    checker.thorough = true;
    let journalled = Superblock::of(&checker.superblock).flags.get() & flags::GJOURNAL != 0;
    checker.has_journal_below = journalled && found.mark == Mark::Foreign;
    checker.was_cut = match found.mark {
        Mark::Policy(policy) => !policy.has_log(),
        Mark::Torn => true,
        Mark::UnknownPolicy(_) => false,
        Mark::Clean | Mark::Check | Mark::Foreign => false,
    };
    // Repairs over a disk of the other byte order could not be read again.
    let rounds = if checker.geometry.byte_order == ByteOrder::Little { ROUNDS } else { 1 };
    while checker.round(options).await? && rounds > 1 {
        // Directories within each other are found one by one; none is given its type twice. A round
        // may find many that lie side by side: they are more than the rounds then.
        if checker.round >= rounds + checker.retyped.len() as u32 {
            return Err(CheckError::NoEnd { rounds });
        }
    }
    let is_silent = rounds == 1 || checker.log.in_round == 0;
    debug_assert!(is_silent, "invariant 1: the last round was silent");
    if options.full {
        checker.read_all_data().await?;
    }
    checker.name_findings().await?;
    checker.leave_unreadable();
    let are_found = checker.disk.is_empty() || !checker.log.findings.list.is_empty();
    assert!(are_found, "invariant 2: what is repaired was found");
    let repaired = options.repair && !checker.disk.is_empty();
    if repaired {
        checker.may_be_repaired(device)?;
        checker.write_repairs(device, runtime, options.epoch).await?;
    }
    Ok(Report { repaired, ..checker.into_report() })
}

/// Recovers a volume that was cut under policy `sync`. Afterwards its maps, summary area and link
/// counts are true; its superblock is as it was.
///
/// # Errors
/// [`RecoverError`].
pub async fn recover(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    runtime: &Runtime,
    superblock: &[u8],
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, RecoverError> {
    let superblock = superblock.to_vec();
    let disk = Overlay::strict(device);
    let mut checker = Checker::new(disk, geometry.clone(), superblock, runtime, progress);
    checker.was_cut = true;
    checker.passes().await.map_err(|error| match error {
        CheckError::Device(error) => RecoverError::Device(error),
        other => RecoverError::Damaged(other.to_string()),
    })?;
    let findings = &checker.log.findings;
    if findings.damaged {
        // The list may have ended before.
        let damage = findings
            .list
            .iter()
            .find(|finding| !finding.invariant.may_be_cut() && finding.severity > Severity::Note);
        let damage = damage.map_or_else(|| "in many places".to_owned(), ToString::to_string);
        return Err(RecoverError::Damaged(damage));
    }
    checker.disk.write().await?;
    Ok(checker.into_report())
}

impl<'a> Checker<'a> {
    fn new(
        disk: Overlay<'a>,
        geometry: Geometry,
        superblock: Vec<u8>,
        runtime: &Runtime,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        let bits = geometry.size.div_ceil(8) as usize;
        Self {
            disk,
            superblock,
            log: Log::new(None),
            progress,
            now: runtime.clock.wall(),
            thorough: false,
            was_cut: false,
            has_journal_below: false,
            round: 0,
            orphans: Orphans::Undecided,
            claimed: vec![0; bits],
            next_fresh: 0,
            copied: 0,
            room_for_copies: 0,
            doubted: BTreeSet::new(),
            retyped: BTreeSet::new(),
            affirmed: BTreeSet::new(),
            strays: BTreeSet::new(),
            unsealed: BTreeSet::new(),
            stated_sizes: BTreeMap::new(),
            sized: BTreeSet::new(),
            begins_again: false,
            log_since_seconds: None,
            freed: 0,
            reconnected: 0,
            initialised: Vec::new(),
            stated_maps: Vec::new(),
            table: Table::new(0, 1),
            held: Vec::new(),
            contested: None,
            claims: Vec::new(),
            named_in_contest: BTreeSet::new(),
            bad_slots: Vec::new(),
            entered: BTreeSet::new(),
            directories: BTreeMap::new(),
            holes: Vec::new(),
            behind_end: BTreeSet::new(),
            suspects: Vec::new(),
            mismatches: Vec::new(),
            named: Vec::new(),
            directories_read: 0,
            data: Vec::new(),
            geometry,
        }
    }

    /// Handles a volume with the epoch of a log: the log's contents were written in place, are left
    /// out because the administrator says so, or are missing.
    async fn settle_log(&mut self, options: &CheckOptions) -> Result<(), CheckError> {
        if options.log == LogState::Home {
            return Ok(());
        }
        let is_missing = options.log == LogState::Missing && !is_planted(Bug::UnaskedRepairs);
        if is_missing && options.repair {
            return Err(CheckError::LogMissing);
        }
        // As it is on the disk: the superblock in memory has lost its mark already.
        let room = self.disk.probe(SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM as usize).await?;
        let superblock = Superblock::of(&room);
        let epoch = mark::nonce(superblock).unwrap_or_default();
        self.log_since_seconds = Some(superblock.time.get());
        let place = Place::field("fs_fsmnt");
        let found = format!(
            "the epoch {epoch:016x} of a log that is {}",
            if is_missing { "not at hand" } else { "left out" }
        );
        let expected = "what that log holds: acknowledged changes may stand in it alone";
        let (invariant, severity) = (Invariant::LogHome, Severity::Loss);
        if is_missing {
            self.log.leave(invariant, severity, place, found, expected);
        } else {
            self.log.find(invariant, severity, place, found, expected, "given up");
        }
        Ok(())
    }

    /// Runs all passes once. Returns whether anything was found.
    async fn round(&mut self, options: &CheckOptions) -> Result<bool, CheckError> {
        self.round += 1;
        self.begins_again = false;
        if self.round > 1 {
            self.log.in_round = 0;
            let found = superblock::find(&self.disk, &mut self.log, options.full).await?;
            (self.geometry, self.superblock) = (found.geometry, found.block);
            self.claimed.resize(self.geometry.size.div_ceil(8) as usize, 0);
        }
        if self.passes().await? {
            let (geometry, block) = (&self.geometry, &self.superblock);
            copies::check_copies(&mut self.disk, geometry, block, &mut self.log).await?;
        }
        if self.log.in_round > 0 {
            self.put_superblock().await?;
        }
        Ok(self.log.in_round > 0 || self.begins_again)
    }

    /// Runs the passes over inodes, directories and maps once. Returns whether they were completed:
    /// some repairs need a new round.
    async fn passes(&mut self) -> Result<bool, CheckError> {
        self.initialised.clear();
        self.stated_maps.clear();
        self.table = Table::new(self.geometry.inode_count(), self.geometry.inodes_per_block);
        self.held = vec![0; self.geometry.size.div_ceil(8) as usize];
        self.contested = None;
        self.claims.clear();
        self.named_in_contest.clear();
        self.bad_slots.clear();
        self.entered.clear();
        self.directories.clear();
        self.holes.clear();
        self.behind_end.clear();
        self.suspects.clear();
        self.mismatches.clear();
        self.affirmed.clear();
        self.named.clear();
        self.directories_read = 0;

        let whole = (SUPERBLOCK_ADDRESS / self.geometry.fragment_size, SUPERBLOCK_ROOM as usize);
        self.note_unreadable(whole, Severity::Repairable, |_| Place::field("superblock"));
        self.read_groups().await?;
        self.read_inodes().await?;
        let changed = self.settle_sizes().await?
            || self.settle_contests().await?
            || self.fill_holes().await?
            || self.settle_root().await?
            || self.read_directories().await?
            || self.settle_tree().await?;
        if changed {
            self.note_all_unreadable();
            return Ok(false);
        }
        self.settle_links().await?;
        self.check_maps().await?;
        self.note_all_unreadable();
        Ok(true)
    }

    /// Puts the repaired superblock over the disk.
    async fn put_superblock(&mut self) -> Result<(), CheckError> {
        let new = self.geometry.superblock_on_disk(&self.superblock);
        let old = self.disk.probe(SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM as usize).await?;
        if old[..new.len()] != new[..] {
            self.disk.put(SUPERBLOCK_ADDRESS, &new).await?;
        }
        Ok(())
    }

    /// Refuses disks that can be checked, but not repaired.
    fn may_be_repaired(&self, device: &dyn BlockDevice) -> Result<(), CheckError> {
        let snapshots = Superblock::of(&self.superblock).snapshots;
        let reason = if device.geometry().read_only {
            "the disk is write-protected"
        } else if self.geometry.byte_order == ByteOrder::Big {
            "it is big-endian, and only its own system can write it"
        } else if self.has_journal_below {
            "it is journalled by gjournal and was not stopped cleanly: what is in the journal \
             would come over the repairs; let FreeBSD attach and check it, or switch the journal \
             off with 'tunefs -J disable'"
        } else if snapshots.iter().any(|ino| ino.get() != 0) {
            "it has snapshots, which repairs would spoil; remove them on FreeBSD first"
        } else {
            return Ok(());
        };
        Err(CheckError::NotRepairable(reason))
    }

    /// Writes the repairs: see the module's prose.
    async fn write_repairs(
        &mut self,
        device: &dyn BlockDevice,
        runtime: &Runtime,
        epoch: Option<u64>,
    ) -> Result<(), CheckError> {
        let size = self.geometry.superblock_size as usize;
        let mut marked = self.superblock.clone();
        let number = epoch.unwrap_or_else(|| runtime.random.next_u64());
        mark::put(Superblock::of_mut(&mut marked), mark::CHECK, number);
        self.geometry.seal_superblock(&mut marked);
        // First the sector with the mark and *clean*: a flag without them would say that a policy
        // of ours had the volume, and files without names would be freed.
        let first = u64::from(device.geometry().logical_sector_size).max(SECTOR_SIZE) as usize;
        for part in [first.min(size), size] {
            let marked = block::Buffer::copied(&marked[..part]).freeze();
            device.write(SUPERBLOCK_ADDRESS, vec![marked], Durability::Plain).await?;
            device.flush().await?;
        }

        let superblock = Superblock::of_mut(&mut self.superblock);
        superblock.time.set(self.now.seconds);
        if let Some(epoch) = epoch {
            mark::put(superblock, PolicyKind::Sync.name(), epoch);
        }
        self.geometry.seal_superblock(&mut self.superblock);
        // All of it: the mark is also in sectors whose contents do not change otherwise.
        self.disk.put(SUPERBLOCK_ADDRESS, &self.superblock[..size]).await?;
        Ok(self.disk.write().await?) // the commit point is its last stage
    }

    pub(super) fn tell(&mut self, phase: Phase, done: u64, total: u64) {
        (self.progress)(Progress { phase, round: self.round, done, total });
    }

    fn into_report(self) -> Report {
        Report {
            files: self.table.iter().count() as u64,
            directories: self.directories.len() as u64,
            held_bytes: bits::count_ones(&self.held) * self.geometry.fragment_size,
            freed: self.freed,
            reconnected: self.reconnected,
            log_since_seconds: self.log_since_seconds,
            repaired: false,
            lost_intents: None,
            findings: self.log.findings,
        }
    }
}
