//! Opening a volume and stopping it cleanly.
//!
//! # The mark
//! A volume that we write bears our mark in the superblock's last-mount field:
//! `duramen:POLICY:NONCE`, with *clean* 0 and NEEDSFSCK set, all in one write that is flushed
//! before anything else is written. Whoever finds the mark knows that nobody else wrote the disk
//! since: any other system's mount overwrites the field. A clean stop takes all of it back, in this
//! order: everything home, group summaries and totals, a flush; then, again in one write, *clean*
//! 1, NEEDSFSCK off and the old last-mount field.
//!
//! # What tears
//! Both writes change only bytes of the first and of the third sector of the superblock. If one
//! sector got there without the other, the mark is still there, or *clean* is 1 while NEEDSFSCK is
//! set, which no other system leaves behind. Both mean: ours, to be brought back. The totals in the
//! second sector are written before, under the mark, and summed anew at every opening.
//!
//! # What opens how
//! Clean disks open for writing unless they use something that we could not keep true. An unclean
//! disk with our mark is rebuilt first, or, under policy `log`, its log is replayed: the log bears
//! the number of the mark. Afterwards a new epoch of the log begins, and only then the volume gets
//! its number. Before any of that what stands on disk and log is flushed: a process that was killed
//! may have left it in a cache, and what follows rests on it. Any other unclean disk is refused:
//! its own system, or a checker, has to look at it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Durability};
use futures::FutureExt;
use futures::future::{Either, select};
use journal::Live;
use runtime::{Runtime, Timestamp};
use ufs2::layout::{
    BadSuperblock, ByteOrder, Dinode, Geometry, GroupHeader, ROOT_INODE, SUPERBLOCK_ADDRESS,
    SUPERBLOCK_ROOM, Summary, Superblock, Totals, flags,
};
use ufs2::mark::{self, Mark, PolicyKind};
use vfs::{FileKind, FsError, Ino, ObjectId};

use crate::alloc::Allocator;
use crate::buffer::Role;
use crate::engine::{Ffs, Parts};
use crate::home::Home;
use crate::inode::Node;
use crate::logged;
use crate::planted::{Bug, is_planted};
use crate::policy::Policy;
use crate::policy::log::LogOptions;
use crate::policy::sync::Sync;
use crate::replay::{ReplayError, Replayed, Survived};
use crate::update::Chain;

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Change nothing.
    pub read_only: bool,
    /// Bytes of memory for metadata, files and names, for UNSTABLE data, which may take half, and
    /// for data that is kept because it may be read again.
    pub cache_bytes: usize,
    /// Whether data is kept that may be read again. Without it each READ asks the device, which
    /// gives others more occasions to come between: for whoever looks for what they could break.
    pub keeps_data: bool,
    /// How often access times and old UNSTABLE data go to the disk.
    pub housekeeping_interval: Duration,
    /// How the log is kept small, if there is one.
    pub log: LogOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            cache_bytes: 256 << 20,
            keeps_data: true,
            housekeeping_interval: Duration::from_secs(5),
            log: LogOptions::default(),
        }
    }
}

/// So long a stop waits for room below.
const REFUSED_MOST: Duration = Duration::from_secs(5);
/// How often it looks.
const REFUSED_LOOK: Duration = Duration::from_millis(500);

/// Why a volume was not opened. Each sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The superblock is none.
    #[error("{}", .0.sentence())]
    Superblock(#[from] BadSuperblock),
    /// The disk failed.
    #[error("the disk cannot be read or written: {0}")]
    Device(#[from] block::IoError),
    /// Not stopped cleanly by another system.
    #[error(
        "the volume was not stopped cleanly, and not by this server: let the system that used it \
         last mount and unmount it, or repair it with 'duramen fsck --repair'"
    )]
    UncleanForeign,
    /// A check was cut off while it repaired.
    #[error(
        "a repair of the volume was cut off; run 'duramen fsck --repair' again before it is served"
    )]
    UnfinishedCheck,
    /// Not stopped cleanly by a policy of ours that is not built in.
    #[error(
        "the volume was not stopped cleanly under policy '{0}', which this version cannot recover: \
         serve it with the version that served it last"
    )]
    UncleanPolicy(String),
    /// Cut off under policy `log`, and opened without a log.
    #[error(
        "the volume was not stopped cleanly, and what it did last stands in its log: open it \
         together with its log; if that is lost, 'duramen fsck --repair --without-log' saves what \
         the volume itself has"
    )]
    LogMissing,
    /// Cut off under policy `log`, and to be opened without changing anything.
    #[error(
        "the volume was not stopped cleanly, and what it did last stands in its log: serve it, or \
         check it with 'duramen fsck --repair', before it is looked at"
    )]
    NotReplayed,
    /// The log has nothing of this volume's last time.
    #[error(
        "the log is not that with which the volume was used last, or another volume has used it \
         since, which it does only when nothing in it is needed any more: if there is another log \
         with which the volume may have been used, open it together with that one; if there is \
         none, 'duramen fsck --repair --without-log' brings the volume back with what it has \
         itself, and leaves what the log holds of others"
    )]
    LogForeign,
    /// The log holds something, and the volume was used without it since.
    #[error(
        "the log holds changes that were not brought to the volume, and the volume was used \
         without it since, or is another one; put the log away, or give them up with 'duramen fsck \
         --repair --without-log'"
    )]
    LogLeft,
    /// Several volumes have it together, and only a server can finish what it holds.
    #[error(
        "the log, which other volumes share, holds a change of a large file that was cut off in \
         its middle: serve the volume once with its log, and stop it, before it is repaired"
    )]
    LogChains,
    /// The superblock that would say whose the log is is none.
    #[error(
        "the superblock is none, so that nobody knows whether the volume needs the changes that \
         the log holds: 'duramen fsck --repair --without-log' repairs it without them, and leaves \
         them in the log"
    )]
    LogUnknown,
    /// Several volumes have the log together.
    #[error(
        "the log is shared by several volumes, of which this would be the only one: serve them \
         together"
    )]
    LogShared,
    /// It is to share a log, and cannot be written to.
    #[error("the volume can only be read, so it cannot share a log: serve it by itself")]
    LogReadOnly,
    /// It holds what somebody else needs, and there is no place to save that.
    #[error(
        "the log holds what a volume needs that is not named here, and that cannot be saved beside \
         the log: {0}; name all volumes of the log"
    )]
    LogUnsaved(#[source] std::io::Error),
    /// Another one of those that are to share a log has its number.
    #[error(
        "the volume has the same identity as another one that is to share its log: one of them is \
         a copy; serve it without a log, or with one of its own"
    )]
    LogTwin,
    /// More volumes than may share a log.
    #[error("at most {0} volumes can share a log")]
    LogCrowded(usize),
    /// The log cannot be replayed.
    #[error("the log cannot be replayed: {0}")]
    Replay(#[from] ReplayError),
    /// Something on the disk is not as it can be.
    #[error("the volume is damaged: {0}; repair it with 'duramen fsck --repair'")]
    Damaged(String),
    /// Reading or writing the volume's metadata failed.
    #[error("the volume cannot be opened: {0}")]
    File(#[from] FsError),
}

/// Why a volume opened read-only that was asked to be writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// The device refuses writes.
    Device,
    /// It is big-endian.
    ByteOrder,
    /// It has a soft-updates journal.
    Journal,
    /// It is journalled below the file system.
    GeomJournal,
    /// It has snapshots.
    Snapshots,
    /// It uses access control lists or labels.
    AccessControlLists,
}

impl std::fmt::Display for ReadOnlyReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Device => "the disk is write-protected",
            Self::ByteOrder => {
                "it is big-endian, written on a machine of the other byte order; to write to its \
                 files, copy them to a volume of this server"
            }
            Self::Journal => {
                "it has a soft-updates journal, which would go stale; switch it off with \
                 'tunefs -j disable' to serve the volume for writing"
            }
            Self::GeomJournal => {
                "it is journalled by gjournal; switch that off with 'tunefs -J disable' to serve \
                 the volume for writing"
            }
            Self::Snapshots => {
                "it has snapshots, which writing would break; remove them on FreeBSD to serve the \
                 volume for writing"
            }
            Self::AccessControlLists => {
                "it uses access control lists or labels, which this server does not enforce; \
                 switch them off with tunefs to serve the volume for writing"
            }
        })
    }
}

/// A volume that is open.
pub struct Opened {
    /// The engine.
    pub engine: Rc<Ffs>,
    /// Why it is read-only although it was to be writable.
    pub read_only: Option<ReadOnlyReason>,
    /// What bringing it back after a cut found, if that was needed.
    pub rebuilt: Option<fsck::Report>,
    /// What was replayed of its log, if that was needed.
    pub replayed: Option<Replayed>,
}

/// How far a clean stop has come.
#[derive(Clone, Copy)]
pub(crate) struct Stop {
    /// What the last one came to.
    result: Result<(), FsError>,
    /// All is home, and only the superblock is left to be written.
    is_at_rest: bool,
}

impl Stop {
    /// Nobody has asked for one.
    pub(crate) const NONE: Self = Self { result: Ok(()), is_at_rest: false };
}

/// The superblock of an open volume.
pub(crate) struct OpenSuperblock {
    /// All bytes that are written together.
    block: Vec<u8>,
    /// What the last-mount field said before our mark.
    last_mount: Vec<u8>,
}

/// Bytes of UNSTABLE data that wait in memory at most, however much of that there is: a COMMIT that
/// finds more takes longer than its caller may want to wait.
const DIRTY_MOST: u64 = 256 << 20;

/// The longest old last-mount field that is put back: it must end in the first sector.
const LAST_MOUNT_KEPT: usize = 512 - std::mem::offset_of!(Superblock, last_mount);

impl OpenSuperblock {
    pub(crate) fn superblock(&mut self) -> &mut Superblock {
        Superblock::of_mut(&mut self.block)
    }

    /// Writes it and waits until it is durable.
    pub(crate) async fn write(
        &mut self,
        device: &dyn BlockDevice,
        geometry: &Geometry,
    ) -> Result<(), block::IoError> {
        geometry.seal_superblock(&mut self.block);
        let data = block::Buffer::copied(&self.block[..geometry.superblock_size as usize]);
        device.write(SUPERBLOCK_ADDRESS, vec![data.freeze()], Durability::Plain).await?;
        device.flush().await
    }

    fn mark(&mut self, policy: PolicyKind, nonce: u64, now: Timestamp) {
        let superblock = self.superblock();
        superblock.time.set(now.seconds);
        mark::put(superblock, policy.name(), nonce);
    }

    fn unmark(&mut self) {
        let old = self.last_mount.clone(); // whoever could not write it does this again
        let superblock = self.superblock();
        superblock.clean = 1;
        superblock.flags.set(superblock.flags.get() & !flags::NEEDS_FSCK);
        superblock.last_mount.fill(0);
        superblock.last_mount[..old.len()].copy_from_slice(&old);
    }
}

impl From<fsck::RecoverError> for OpenError {
    fn from(error: fsck::RecoverError) -> Self {
        match error {
            fsck::RecoverError::Device(error) => Self::Device(error),
            fsck::RecoverError::Damaged(damage) => Self::Damaged(damage),
        }
    }
}

fn read_only_reason(geometry: &Geometry, superblock: &Superblock) -> Option<ReadOnlyReason> {
    let flags = superblock.flags.get();
    if geometry.byte_order == ByteOrder::Big {
        Some(ReadOnlyReason::ByteOrder)
    } else if flags & flags::SOFT_UPDATES_JOURNAL != 0 {
        Some(ReadOnlyReason::Journal)
    } else if flags & flags::GJOURNAL != 0 {
        Some(ReadOnlyReason::GeomJournal)
    } else if superblock.snapshots.iter().any(|ino| ino.get() != 0) {
        Some(ReadOnlyReason::Snapshots)
    } else if flags & (flags::POSIX_ACLS | flags::NFS4_ACLS | flags::MULTILABEL) != 0 {
        Some(ReadOnlyReason::AccessControlLists)
    } else {
        None
    }
}

/// Opens the volume on `device`. `progress` is told how far a check after a cut is.
///
/// # Errors
/// [`OpenError`]; then nothing was written, unless repairs were cut short by the disk, which the
/// next opening repeats.
pub async fn open(
    device: Rc<dyn BlockDevice>,
    runtime: Runtime,
    options: &OpenOptions,
    progress: &mut dyn FnMut(fsck::Progress),
) -> Result<Opened, OpenError> {
    open_with_log(device, None, runtime, options, progress).await
}

/// Opens the volume on `device`, under policy `log` if there is a log for it, else under `sync`.
///
/// # Errors
/// As [`open`].
pub async fn open_with_log(
    device: Rc<dyn BlockDevice>,
    log: Option<Rc<dyn BlockDevice>>,
    runtime: Runtime,
    options: &OpenOptions,
    progress: &mut dyn FnMut(fsck::Progress),
) -> Result<Opened, OpenError> {
    let mut found = Found::read(&*device).await?;
    let reason = found.read_only_reason(&*device, options);
    let read_only = options.read_only || reason.is_some();
    let log = log.filter(|_| !read_only);
    let back = match read_only {
        true => found.look()?,
        false => {
            let once = log.clone().map(journal::ReadOnce::new);
            let once = once.as_ref().map(|once| once as &dyn BlockDevice);
            found.bring_back(&*device, once, &runtime, progress).await?
        }
    };
    let mut candidate = Candidate::prepare(device, found, back, &runtime, options).await?;
    let opened = match log {
        Some(log) => logged::open_alone(candidate, log, &runtime, options).await?,
        None => {
            let nonce = runtime.random.next_u64();
            if !read_only {
                candidate.mark(PolicyKind::Sync, nonce, &runtime).await?;
            }
            let policy = Sync::new(candidate.home.clone(), runtime.clone());
            candidate.open(policy, &runtime, options, read_only).await?
        }
    };
    Ok(Opened { read_only: reason.filter(|_| !options.read_only), ..opened })
}

/// A volume that is not open yet.
pub(crate) struct Found {
    pub(crate) geometry: Rc<Geometry>,
    pub(crate) superblock: OpenSuperblock,
}

/// What bringing a volume back came to.
#[derive(Default)]
pub(crate) struct Back {
    pub(crate) rebuilt: Option<fsck::Report>,
    /// Where what follows came from.
    pub(crate) live: Option<Live>,
    pub(crate) replayed: Option<Replayed>,
    pub(crate) chains: Vec<Chain>,
    pub(crate) survived: Survived,
}

impl Found {
    pub(crate) async fn read(device: &dyn BlockDevice) -> Result<Self, OpenError> {
        let room = block::Buffer::zeroed(SUPERBLOCK_ROOM as usize);
        let block = device.read(SUPERBLOCK_ADDRESS, room).await?.to_vec();
        let mut superblock = OpenSuperblock { block, last_mount: Vec::new() };
        let geometry = Rc::new(Geometry::parse_any_order(&mut superblock.block)?);
        let (needed, size) = (geometry.byte_address(geometry.size), device.geometry().size);
        match needed > size {
            true => Err(BadSuperblock::Short { needed, size }.into()),
            false => Ok(Self { geometry, superblock }),
        }
    }

    /// Why it is not to be written to, although that was not asked for.
    pub(crate) fn read_only_reason(
        &mut self,
        device: &dyn BlockDevice,
        options: &OpenOptions,
    ) -> Option<ReadOnlyReason> {
        let reason = read_only_reason(&self.geometry, self.superblock.superblock());
        let protected = device.geometry().read_only && !options.read_only;
        reason.or(protected.then_some(ReadOnlyReason::Device))
    }

    /// The number by which it is known, wherever it is.
    pub(crate) fn id(&mut self) -> u64 {
        let [second, random] = self.superblock.superblock().id.map(|half| u64::from(half.get()));
        second << 32 | random
    }

    /// The number that its mark bears; 0 for none.
    pub(crate) fn nonce(&mut self) -> u64 {
        match Mark::of(self.superblock.superblock()) {
            Mark::Policy(_) => mark::nonce(self.superblock.superblock()).unwrap_or_default(),
            _ => 0,
        }
    }

    /// A volume that is opened without changing anything is taken as it is.
    fn look(&mut self) -> Result<Back, OpenError> {
        match Mark::of(self.superblock.superblock()) {
            Mark::Clean => self.check_clean()?,
            Mark::Policy(PolicyKind::Log) => return Err(OpenError::NotReplayed),
            _ => {}
        }
        Ok(Back::default())
    }

    /// Makes of a volume, however it was left, one that can be used; or refuses.
    pub(crate) async fn bring_back(
        &mut self,
        device: &dyn BlockDevice,
        log: Option<&dyn BlockDevice>,
        runtime: &Runtime,
        progress: &mut dyn FnMut(fsck::Progress),
    ) -> Result<Back, OpenError> {
        logged::make_certain(device, log).await?;
        match Mark::of(self.superblock.superblock()) {
            Mark::Clean => {
                self.check_clean()?;
                match log {
                    Some(log) => logged::look_at_rest(log, self.id()).await,
                    None => Ok(Back::default()),
                }
            }
            Mark::Foreign => Err(OpenError::UncleanForeign),
            Mark::Check => Err(OpenError::UnfinishedCheck),
            Mark::Policy(PolicyKind::Log) => {
                let log = log.ok_or(OpenError::LogMissing)?;
                let back = logged::replay_back(self, device, log, runtime.clock.wall()).await?;
                back.ok_or(OpenError::LogForeign)
            }
            Mark::UnknownPolicy(policy) => Err(OpenError::UncleanPolicy(policy)),
            mark @ (Mark::Policy(PolicyKind::Sync) | Mark::Torn) => {
                let (geometry, block) = (&self.geometry, &self.superblock.block);
                let report = fsck::recover(device, geometry, runtime, block, progress).await?;
                // Under policy `log` the mark is set, or taken back, while the log is at rest.
                let log = log.filter(|_| mark == Mark::Torn && !is_planted(Bug::TornMemory));
                let rest = match log {
                    Some(log) => logged::look_at_rest(log, self.id()).await?,
                    None => Back::default(),
                };
                Ok(Back { rebuilt: Some(report), ..rest })
            }
        }
    }

    fn check_clean(&mut self) -> Result<(), OpenError> {
        if self.geometry.verify_superblock(&self.superblock.block).is_err() {
            return Err(OpenError::Damaged("the superblock does not fit its hash".into()));
        }
        let old = &self.superblock.superblock().last_mount;
        let end = old.iter().position(|&byte| byte == 0).unwrap_or(0);
        self.superblock.last_mount = old[..end.min(LAST_MOUNT_KEPT)].to_vec();
        Ok(())
    }
}

/// A volume that is as it should be, and of which nothing says yet that we have it.
pub(crate) struct Candidate {
    device: Rc<dyn BlockDevice>,
    superblock: OpenSuperblock,
    /// See [`Found::id`].
    pub(crate) id: u64,
    pub(crate) home: Rc<Home>,
    pub(crate) rows: Vec<Summary>,
    allocator: Rc<Allocator>,
    root: ObjectId,
    pub(crate) back: Back,
}

impl Candidate {
    pub(crate) async fn prepare(
        device: Rc<dyn BlockDevice>,
        mut found: Found,
        back: Back,
        runtime: &Runtime,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        let id = found.id();
        let Found { geometry, superblock } = found;
        let clock = runtime.clock.clone();
        // Memory in pieces costs more than the pieces: an eighth is left for that.
        let budget = options.cache_bytes / 8 * 7;
        let home = Home::new(device.clone(), geometry, clock, budget, options.keeps_data);
        let rows = summary_rows(&home).await?;
        let allocator = Allocator::new(home.clone(), &rows);
        let root = root(&home).await?;
        Ok(Self { device, superblock, id, home, rows, allocator, root, back })
    }

    /// Sets the mark, durably.
    pub(crate) async fn mark(
        &mut self,
        policy: PolicyKind,
        nonce: u64,
        runtime: &Runtime,
    ) -> Result<(), OpenError> {
        if self.back.replayed.is_some() {
            self.superblock.set_totals(&self.rows);
        }
        self.superblock.mark(policy, nonce, runtime.clock.wall());
        Ok(self.superblock.write(&*self.device, self.home.geometry()).await?)
    }

    /// Opens it.
    pub(crate) async fn open(
        self,
        policy: Rc<dyn Policy>,
        runtime: &Runtime,
        options: &OpenOptions,
        read_only: bool,
    ) -> Result<Opened, OpenError> {
        let Back { rebuilt, replayed, chains, survived, .. } = self.back;
        let engine = Ffs::new(Parts {
            home: self.home,
            allocator: self.allocator,
            policy,
            runtime: runtime.clone(),
            read_only,
            dirty_limit: (options.cache_bytes as u64 / 2).min(DIRTY_MOST),
            superblock: self.superblock,
            root: self.root,
            remembered: survived.remembered,
        });
        engine.start_housekeeping(options.housekeeping_interval);
        engine.finish_chains(chains).await?;
        Ok(Opened { engine, read_only: None, rebuilt, replayed })
    }
}

/// The counts of every group, from the summary area.
async fn summary_rows(home: &Home) -> Result<Vec<Summary>, FsError> {
    read_rows(&**home.device(), home.geometry()).await.map_err(|_| FsError::Io)
}

pub(crate) async fn read_rows(
    device: &dyn BlockDevice,
    geometry: &Geometry,
) -> Result<Vec<Summary>, block::IoError> {
    let size = (geometry.summary_fragments * geometry.fragment_size) as usize;
    let offset = geometry.byte_address(geometry.summary_address);
    let mut area = device.read(offset, block::Buffer::zeroed(size)).await?;
    geometry.turn_summary(&mut area);
    Ok(Summary::rows(&area)[..geometry.group_count as usize].to_vec())
}

async fn root(home: &Home) -> Result<ObjectId, OpenError> {
    let geometry = home.geometry();
    let position = geometry.inode_position(ROOT_INODE);
    let size = geometry.block_size as usize;
    let buffer = home.load(position.fragment, size, Role::Inodes).await?;
    let dinode = buffer.read(|image| *Dinode::at(image, position.offset));
    if dinode.kind() != Some(FileKind::Directory) || geometry.verify_inode(&dinode).is_err() {
        return Err(OpenError::Damaged("the root directory is none".into()));
    }
    Ok(ObjectId { ino: Ino(ROOT_INODE), generation: dinode.generation.get() })
}

impl Ffs {
    /// Lands UNSTABLE data and writes access times now and then, for as long as the engine lives.
    fn start_housekeeping(self: &Rc<Self>, interval: Duration) {
        if self.read_only {
            return;
        }
        let engine = Rc::downgrade(self);
        let clock = self.runtime.clock.clone();
        let task = async move {
            loop {
                clock.sleep(interval).await;
                let Some(engine) = engine.upgrade() else { return };
                if engine.policy.has_stopped() || engine.is_closed() {
                    return;
                }
                engine.land_everything().await;
                if !engine.home.dirty_buffers().is_empty() {
                    let _ = engine.policy.settle().await; // a failure has stopped the volume
                }
            }
        };
        self.runtime.tasks.spawn(task.boxed_local());
    }

    /// Lands all UNSTABLE data; what cannot be landed is lost, and the verifier says so.
    async fn land_everything(&self) {
        let nodes: Vec<Rc<Node>> = self.dirty_nodes.borrow().values().cloned().collect();
        for node in nodes {
            let _alone = node.lock.exclusive().await;
            self.land_unasked(&node).await;
        }
    }

    /// Waits until everything that was asked for is done: UNSTABLE data landed, files without names
    /// freed, all of it durable.
    ///
    /// # Errors
    /// [`FsError::Io`] when the volume has stopped.
    pub async fn quiesce(&self) -> Result<(), FsError> {
        self.land_everything().await;
        let all_home = async {
            self.wait_for_orphans().await;
            self.wait_for_chains().await;
            self.policy.settle().await
        };
        match select(pin!(all_home), pin!(self.refused_for_long())).await {
            Either::Left((settled, _)) => settled?,
            // The next start brings it home, or gives it up if nobody was told of it.
            Either::Right(_) => return Err(FsError::NoSpace),
        }
        while self.wait_for_space().await {}
        self.check_running()
    }

    /// Completes when what the log has has waited for room below for [`REFUSED_MOST`].
    async fn refused_for_long(&self) {
        let clock = &self.runtime.clock;
        let mut since = clock.now();
        loop {
            clock.sleep(REFUSED_LOOK).await;
            let now = clock.now();
            if !self.home.data().refusals().is_waiting() {
                since = now;
            }
            if now.since(since) >= REFUSED_MOST {
                return;
            }
        }
    }

    /// Leaves the disk clean: see the module's prose. A stop that found no room below can be tried
    /// again, from where it was; after any other one this says what that came to.
    pub(crate) async fn close(&self) -> Result<(), FsError> {
        if self.read_only {
            return Ok(());
        }
        let Some(mut open) = self.superblock.take() else { return self.stop.get().result };
        let result = self.stop_with(&mut open).await;
        self.stop.set(Stop { result, ..self.stop.get() });
        if result == Err(FsError::NoSpace) {
            self.superblock.replace(Some(open));
        }
        result
    }

    async fn stop_with(&self, open: &mut OpenSuperblock) -> Result<(), FsError> {
        let (device, geometry) = (self.home.device().clone(), self.home.geometry().clone());
        if !self.stop.get().is_at_rest {
            self.come_to_rest(open).await?;
            self.stop.set(Stop { is_at_rest: true, ..self.stop.get() });
        }
        open.unmark();
        let result = self.patiently(async || open.write(&*device, &geometry).await).await;
        if result != Err(FsError::NoSpace) {
            device.close().await.map_err(|_| FsError::Io)?;
        }
        result
    }

    /// Brings everything home but what says that all is there.
    async fn come_to_rest(&self, open: &mut OpenSuperblock) -> Result<(), FsError> {
        self.check_running()?;
        self.quiesce().await?;
        self.check_nothing_stuck()?;
        let rows = self.true_rows().await?;
        let (device, geometry) = (self.home.device().clone(), self.home.geometry().clone());
        let mut area = vec![0; (geometry.summary_fragments * geometry.fragment_size) as usize];
        Summary::rows_mut(&mut area)[..rows.len()].copy_from_slice(&rows);
        let area = block::Buffer::copied(&area).freeze();
        let write = async || self.home.write(geometry.summary_address, vec![area.clone()]).await;
        self.patiently(write).await?;
        open.set_totals(&rows);
        if !is_planted(Bug::HastyStop) {
            self.patiently(async || open.write(&*device, &geometry).await).await?;
        }
        Ok(self.policy.close().await?)
    }

    /// Writes something, again and again while that finds no room below, for [`REFUSED_MOST`].
    async fn patiently(
        &self,
        mut write: impl AsyncFnMut() -> Result<(), block::IoError>,
    ) -> Result<(), FsError> {
        let clock = &self.runtime.clock;
        let begun = clock.now();
        loop {
            match write().await {
                Ok(()) => return Ok(()),
                Err(error) if !error.is_full() => return Err(FsError::Io),
                Err(_) if clock.now().since(begun) >= REFUSED_MOST => return Err(FsError::NoSpace),
                Err(_) => clock.sleep(REFUSED_LOOK).await,
            }
        }
    }

    /// The summary row of every group: of those in memory, from the maps.
    async fn true_rows(&self) -> Result<Vec<Summary>, FsError> {
        let mut rows = summary_rows(&self.home).await?;
        let geometry = self.home.geometry();
        for (group, row) in rows.iter_mut().enumerate() {
            let address = geometry.group_header_fragment(group as u64);
            if let Some(buffer) = self.home.cached(address) {
                let mut copy = buffer.read(<[u8]>::to_vec);
                *row = ufs2::derive::recompute_group(geometry, group as u64, &mut copy);
                debug_assert_eq!(GroupHeader::of(&copy).counts, *row);
            }
        }
        Ok(rows)
    }
}

impl OpenSuperblock {
    pub(crate) fn set_totals(&mut self, rows: &[Summary]) {
        self.superblock().totals = Totals::of(rows);
        self.superblock().pending_sectors.set(0);
        self.superblock().pending_inodes.set(0);
    }
}
