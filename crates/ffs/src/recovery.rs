//! Stages of a volume that is being opened: as found, after recovery, and as the parts of an
//! engine.

use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use journal::Live;
use runtime::Runtime;
use ufs2::layout::{
    BadSuperblock, ByteOrder, Dinode, Geometry, ROOT_INODE, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM,
    Summary, Superblock, flags,
};
use ufs2::mark::{self, Mark, PolicyKind};
use vfs::{FileKind, FsError, Ino, ObjectId};
use vnode::FilesOptions;
use vnode::chain::Chain;

use crate::alloc::Allocator;
use crate::buffer::Role;
use crate::engine::{EngineParts, Ffs};
use crate::home::Home;
use crate::intents::{Intents, Survivor};
use crate::judge::{compare, judge};
use crate::leftovers::Leftovers;
use crate::open_error::{OpenError, ReadOnlyReason};
use crate::open_superblock::OpenSuperblock;
use crate::planted::{Bug, is_planted};
use crate::policy::Policy;
use crate::policy::log::{LogOptions, Survived};
use crate::policy::softdep::SoftUpdatesOptions;
use crate::reclaim;
use crate::replay::Replayed;

/// The files of a volume in the UFS2 format.
pub type Files = vnode::Files<Ffs>;

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Open without changing anything.
    pub read_only: bool,
    /// Bytes of memory for metadata, files and names, for UNSTABLE data, which may take half, and
    /// for cached data.
    pub cache_bytes: usize,
    /// Whether data is cached for later reads. Without a cache each READ asks the device, which
    /// gives other tasks more occasions to interleave: for a test that looks for races.
    pub keeps_data: bool,
    /// Interval at which access times and old UNSTABLE data go to the disk.
    pub housekeeping_interval: Duration,
    /// Limits of the log, if there is one.
    pub log: LogOptions,
    /// Whether a stop waits until reclaim is through instead of ending it.
    pub finishes_reclaim: bool,
    /// Settings of soft updates, under that policy.
    pub softdep: SoftUpdatesOptions,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            cache_bytes: 256 << 20,
            keeps_data: true,
            housekeeping_interval: Duration::from_secs(5),
            log: LogOptions::default(),
            finishes_reclaim: false,
            softdep: SoftUpdatesOptions::default(),
        }
    }
}

/// An open volume.
pub struct Opened {
    /// The volume's files, and the engine below them.
    pub files: Rc<Files>,
    /// Reason why it is read-only although it was to be writable.
    pub read_only: Option<ReadOnlyReason>,
    /// Report of the check after a crash, if one was needed.
    pub rebuilt: Option<fsck::Report>,
    /// Statistics of the log's replay, if one was needed.
    pub replayed: Option<Replayed>,
    /// Whether the volume is served before a scan for leaks of a crash; reclaim runs in parallel.
    pub reclaims: bool,
    /// Reason why intents of an earlier boot are lost: the ring or their evidence is damaged.
    pub lost_intents: Option<String>,
}

/// Maximum bytes of UNSTABLE data in memory, whatever the budget: a COMMIT that finds more takes
/// longer than its caller may want to wait.
const DIRTY_MOST: u64 = 256 << 20;

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

/// A volume that is not open yet.
pub(crate) struct Unopened {
    pub(crate) geometry: Rc<Geometry>,
    pub(crate) superblock: OpenSuperblock,
}

/// Result of recovery.
#[derive(Default)]
pub(crate) struct Recovery {
    pub(crate) rebuilt: Option<fsck::Report>,
    /// Live log that the following fields came from.
    pub(crate) live: Option<Live>,
    pub(crate) replayed: Option<Replayed>,
    pub(crate) chains: Vec<Chain>,
    /// Whether leaks of a crash are looked for while the volume is served.
    pub(crate) reclaims: bool,
    pub(crate) survived: Survived,
    /// The ring of intents, and the intents of an earlier boot in it.
    pub(crate) intents: Option<(Rc<Intents>, Vec<Survivor>)>,
}

impl Unopened {
    pub(crate) async fn read(device: &dyn BlockDevice) -> Result<Self, OpenError> {
        let room = block::Buffer::zeroed(SUPERBLOCK_ROOM as usize);
        let block = device.read(SUPERBLOCK_ADDRESS, room).await?.to_vec();
        let mut superblock = OpenSuperblock::new(block);
        let geometry = Rc::new(Geometry::parse_any_order(&mut superblock.block)?);
        let (needed, size) = (geometry.byte_address(geometry.size), device.geometry().size);
        if needed > size {
            Err(BadSuperblock::Short { needed, size }.into())
        } else {
            Ok(Self { geometry, superblock })
        }
    }

    /// Reason why it must not be written to, although that was not asked for.
    pub(crate) fn read_only_reason(
        &mut self,
        device: &dyn BlockDevice,
        options: &OpenOptions,
    ) -> Option<ReadOnlyReason> {
        let reason = read_only_reason(&self.geometry, self.superblock.superblock());
        let protected = device.geometry().read_only && !options.read_only;
        reason.or(protected.then_some(ReadOnlyReason::Device))
    }

    /// The number that identifies the volume on any disk.
    pub(crate) fn id(&mut self) -> u64 {
        self.superblock.superblock().number()
    }

    /// The number in its mark; 0 for none.
    pub(crate) fn nonce(&mut self) -> u64 {
        match Mark::of(self.superblock.superblock()) {
            Mark::Policy(_) => mark::nonce(self.superblock.superblock()).unwrap_or_default(),
            _ => 0,
        }
    }

    /// Accepts a volume as it is, to be opened without changing anything.
    pub(crate) fn look(&mut self) -> Result<Recovery, OpenError> {
        match Mark::of(self.superblock.superblock()) {
            Mark::Clean => self.check_clean()?,
            Mark::Policy(PolicyKind::Log) => return Err(OpenError::NotReplayed),
            _ => {}
        }
        Ok(Recovery::default())
    }

    pub(crate) fn check_clean(&mut self) -> Result<(), OpenError> {
        if self.geometry.verify_superblock(&self.superblock.block).is_err() {
            return Err(OpenError::Damaged("the superblock does not fit its hash".into()));
        }
        self.superblock.keep_last_mount();
        Ok(())
    }
}

/// A volume in a consistent state that is not marked as ours yet.
pub(crate) struct Recovered {
    device: Rc<dyn BlockDevice>,
    superblock: OpenSuperblock,
    /// See [`Unopened::id`].
    pub(crate) id: u64,
    pub(crate) home: Rc<Home>,
    pub(crate) rows: Vec<Summary>,
    allocator: Rc<Allocator>,
    leftovers: Option<Rc<Leftovers>>,
    root: ObjectId,
    pub(crate) back: Recovery,
}

impl Recovered {
    pub(crate) async fn prepare(
        device: Rc<dyn BlockDevice>,
        mut found: Unopened,
        back: Recovery,
        runtime: &Runtime,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        let id = found.id();
        let Unopened { geometry, superblock } = found;
        let clock = runtime.clock.clone();
        // Allocating memory in pieces has overhead: an eighth is left for that.
        let budget = options.cache_bytes / 8 * 7;
        let home = Home::new(device.clone(), geometry, clock, budget, options.keeps_data);
        let rows = summary_rows(&home).await?;
        let leftovers = back.reclaims.then(|| {
            let memory = home.budget().beside().clone();
            Rc::new(Leftovers::new(home.geometry().clone(), memory))
        });
        let allocator = Allocator::new(home.clone(), &rows, leftovers.clone());
        let root = root(&home).await?;
        Ok(Self { device, superblock, id, home, rows, allocator, leftovers, root, back })
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

    /// The time in its superblock.
    pub(crate) fn superblock_time(&mut self) -> i64 {
        self.superblock.superblock().time.get()
    }

    /// Opens it.
    pub(crate) async fn open(
        self,
        policy: Rc<dyn Policy>,
        runtime: &Runtime,
        options: &OpenOptions,
        read_only: bool,
    ) -> Result<Opened, OpenError> {
        let Recovery { rebuilt, replayed, chains, survived, intents, .. } = self.back;
        let (interval, share) = (options.housekeeping_interval, options.softdep.reclaim_share);
        let engine = Ffs::new(EngineParts {
            home: self.home,
            allocator: self.allocator,
            policy,
            runtime: runtime.clone(),
            read_only,
            superblock: self.superblock,
            root: self.root,
            leftovers: self.leftovers,
            finishes_reclaim: options.finishes_reclaim,
        });
        let dirty_limit = (options.cache_bytes as u64 / 2).min(DIRTY_MOST);
        let remembered = survived.remembered;
        let options = FilesOptions { dirty_limit, remembered };
        let files = Files::new(engine, runtime.clone(), options);
        files.start_housekeeping(interval);
        files.finish_chains(chains).await?;
        let reclaims = !read_only && reclaim::start(&files, share);
        let lost_intents = match intents {
            Some((ring, left)) => judge_left(&files, &ring, &left).await?,
            None => None,
        };
        Ok(Opened { files, read_only: None, rebuilt, replayed, reclaims, lost_intents })
    }
}

/// Judges intents of an earlier boot; afterwards the ring has the verdicts. Returns the reason why
/// some have none.
async fn judge_left(
    files: &Rc<Files>,
    ring: &Intents,
    left: &[Survivor],
) -> Result<Option<String>, OpenError> {
    let mut unjudged = 0;
    let by_inode = compare(files, left, &mut unjudged).await?;
    if !is_planted(Bug::LateVerdicts) {
        ring.judged(&by_inode).await?;
    }
    let judgement = judge(files, left, by_inode, &mut unjudged).await?;
    if !is_planted(Bug::ForgottenVerdicts) {
        ring.judged(&judgement.has_happened).await?;
    }
    let going_on: Vec<u64> = judgement.chains.iter().map(|(chain, _)| chain.ino).collect();
    ring.resume(&going_on);
    files.remember(judgement.remembered);
    // Behind the verdicts: a step changes what they were found by.
    files.resume_chains(judgement.chains).await?;
    Ok((unjudged > 0).then(|| format!("the disk cannot be read where {unjudged} calls show")))
}

/// The counts of every group, from the summary area.
pub(crate) async fn summary_rows(home: &Home) -> Result<Vec<Summary>, FsError> {
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
    Ok(ObjectId::live(Ino(ROOT_INODE), dinode.generation.get()))
}

#[cfg(test)]
impl Recovered {
    /// A volume that was just made on a disk of 16 MiB, for tests of the policies.
    pub(crate) async fn just_made(executor: &sim::Executor, options: &OpenOptions) -> Self {
        let disk: Rc<dyn BlockDevice> = sim::Disk::new(executor, sim::Image::zeroed(16 << 20));
        let (runtime, make) = (executor.runtime(), ufs2::mkfs::MkfsOptions::default());
        let made = ufs2::mkfs::mkfs(&*disk, &make, &*runtime.random, runtime.clock.wall()).await;
        made.expect("it fits");
        let found = Unopened::read(&*disk).await.expect("just made");
        let prepared = Self::prepare(disk, found, Recovery::default(), &runtime, options).await;
        prepared.expect("just made")
    }
}
