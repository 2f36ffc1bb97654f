//! The engine: its parts, and the one place where an Update is applied.
//!
//! [`Ffs::apply`] changes the buffers and gives an Update its sequence; then the policy takes it.
//! Nothing waits or fails in between: every step that could was done while the Update was prepared.
//!
//! Invariants:
//! 1. Group buffers, promises and pointers need no lock, since they are changed between two awaits.
//! 2. Space that an Update frees is held until [`Engine::give_back`], which comes when the Update
//!    is durable; or until the Update is staged, if its file has left no trace.
//!
//! Not asserted: 1, since the absence of an await cannot be asserted; 2, which the allocator
//! asserts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::take;
use std::rc::Rc;

use runtime::Runtime;
use runtime::sync::Semaphore;
use ufs2::layout::{Dinode, Geometry, MAX_LINKS};
use vfs::{FsError, FsInfo, MAX_NAME, ObjectId, PathConf, Sequence, Timestamp};
use vnode::{Engine, Limits};

use crate::alloc::{Allocator, EndRoom, Freed};
use crate::buffer::Role;
use crate::home::Home;
use crate::inode::{Node, OnDisk};
use crate::intents::Evidence;
use crate::item::{Item, Subject};
use crate::leftovers::{Leftovers, Reclaimed};
use crate::map::Map;
use crate::open_superblock::OpenSuperblock;
use crate::planted::{Bug, is_planted};
use crate::policy::log::LogStatistics;
use crate::policy::{Beside, Policy, SoftUpdatesCounts, Staged, StagedUpdate};
use crate::recent_blocks::RecentBlocks;
use crate::update::{Ready, Update};

/// The longest target of a symbolic link that Linux follows. It fits into the smallest block.
/// FreeBSD keeps longer ones than it follows, whose targets have 1,023 bytes at most.
const MAX_TARGET: usize = 4095;

/// An engine over a disk in the UFS2 format; [`crate::Files`] serve it.
pub struct Ffs {
    pub(crate) home: Rc<Home>,
    pub(crate) allocator: Rc<Allocator>,
    pub(crate) policy: Rc<dyn Policy>,
    pub(crate) runtime: Runtime,
    /// The superblock as it is, and as it will be after a clean stop.
    pub(crate) superblock: RefCell<OpenSuperblock>,
    pub(crate) recent_blocks: RecentBlocks,
    /// Lets one task at a time initialise inodes. `inodes_grown` has the initialisations that may
    /// not be durable, by the first inode of the block.
    pub(crate) inode_growth: Rc<Semaphore>,
    pub(crate) inodes_grown: RefCell<BTreeMap<u64, Sequence>>,
    /// Blocks, inodes and links that a crash may have leaked, on a volume that is served before the
    /// scan for them.
    pub(crate) leftovers: Option<Rc<Leftovers>>,
    /// Whether a stop waits until that scan has finished.
    pub(crate) finishes_reclaim: bool,
    /// Lets one file at a time be settled that a crash may have left with blocks behind its end.
    pub(crate) settling: Rc<Semaphore>,
    pub(crate) limits: Limits,
}

/// The parts of an engine; see [`crate::mount`].
pub(crate) struct EngineParts {
    pub home: Rc<Home>,
    pub allocator: Rc<Allocator>,
    pub policy: Rc<dyn Policy>,
    pub runtime: Runtime,
    pub read_only: bool,
    pub superblock: OpenSuperblock,
    pub root: ObjectId,
    pub leftovers: Option<Rc<Leftovers>>,
    pub finishes_reclaim: bool,
}

/// An Update that was applied to the buffers but not yet handed to the policy.
pub struct Applied {
    pub(crate) sequence: Sequence,
    pub(crate) staged: StagedUpdate,
    pub(crate) freed: Vec<Freed>,
    pub(crate) end_room: Option<EndRoom>,
}

/// Fragments and inodes that an Update freed.
pub struct GivenUp {
    pub(crate) freed: Vec<Freed>,
    /// The room that the Update took is there again when its freed fragments are.
    pub(crate) _end_room: Option<EndRoom>,
}

impl Ffs {
    pub(crate) fn new(parts: EngineParts) -> Rc<Self> {
        let geometry = parts.home.geometry();
        let limits = Limits {
            root: parts.root,
            block_size: geometry.block_size,
            capacity: geometry.data_size * geometry.fragment_size,
            max_target: MAX_TARGET,
            fsinfo: FsInfo {
                max_file_size: geometry.max_file_size.min(i64::MAX as u64),
                block_size: geometry.block_size as u32,
                time_delta: Timestamp { seconds: 0, nanoseconds: 1 },
                read_only: parts.read_only,
            },
            pathconf: PathConf { link_max: MAX_LINKS, name_max: MAX_NAME as u32 },
        };
        Rc::new(Self {
            home: parts.home,
            allocator: parts.allocator,
            policy: parts.policy,
            runtime: parts.runtime,
            superblock: RefCell::new(parts.superblock),
            recent_blocks: RecentBlocks::default(),
            inode_growth: Semaphore::new(1),
            inodes_grown: RefCell::default(),
            leftovers: parts.leftovers,
            finishes_reclaim: parts.finishes_reclaim,
            settling: Semaphore::new(1),
            limits,
        })
    }

    /// Layout of the volume.
    pub fn geometry(&self) -> &Geometry {
        self.home.geometry()
    }

    /// Statistics of the log, under a policy that has one.
    pub fn log_statistics(&self) -> Option<LogStatistics> {
        self.policy.beside().and_then(Beside::log_statistics)
    }

    /// Leaks of a crash, while some may still be found.
    pub(crate) fn leftovers(&self) -> Option<&Rc<Leftovers>> {
        self.leftovers.as_ref().filter(|leftovers| leftovers.is_open())
    }

    /// Progress of reclaim, if a crash may have leaked anything before the volume was opened.
    pub fn reclaimed(&self) -> Option<Reclaimed> {
        self.leftovers.as_ref().map(|leftovers| leftovers.progress())
    }

    /// Counters of soft updates, under that policy.
    pub fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        self.policy.soft_updates()
    }

    /// Number of directories.
    pub fn directories(&self) -> u64 {
        self.allocator.directories()
    }

    pub(crate) fn map(&self) -> Map<'_> {
        Map { home: &self.home, allocator: &self.allocator }
    }

    /// Seals an inode for the disk.
    pub(crate) fn seal(&self) -> impl Fn(&mut Dinode) + use<> {
        let geometry = self.home.geometry().clone();
        move |dinode| geometry.seal_inode(dinode)
    }

    /// Reserves, applies and stages an Update that changes no file in memory and frees nothing.
    ///
    /// # Errors
    /// As [`Engine::reserve`].
    pub(crate) async fn commit(&self, update: Update) -> Result<Sequence, FsError> {
        let (sequence, applied) = self.apply(self.reserve(update).await?, |_, _| ());
        let freed = self.stage(applied, None);
        assert!(freed.is_none(), "who frees something has to give it back");
        Ok(sequence)
    }

    /// Installs the buffers that an Update made, and holds the space that it frees.
    fn take_buffers(&self, update: &Update) {
        for freed in &update.freed {
            self.allocator.hold_freed(freed);
        }
        for buffer in &update.fresh {
            self.home.install(buffer);
        }
        for (buffer, size) in &update.grown {
            self.home.grow(buffer, *size);
        }
    }

    /// Whether the inodes of an Update land as a whole, although the policy splits inodes into
    /// parts: an intent is judged by one of them.
    fn lands_whole(&self, update: &Update, nodes: &[(Rc<Node>, Dinode)]) -> bool {
        let is_evidence = || nodes.iter().any(|(node, _)| self.policy.is_evidence(node.ino));
        self.policy.keeps_intents()
            && (update.manner.lands_whole || update.only_sets_attributes() || is_evidence())
    }

    /// Applies the items to the buffers and gives the Update its sequence. Calls `see` with each
    /// file whose inode changed.
    pub(crate) fn apply(
        &self,
        ready: Ready,
        mut see: impl FnMut(&Rc<Node>, Sequence),
    ) -> (Sequence, Applied) {
        let Ready { mut update, room } = ready;
        let nodes = update.finish(self.seal());
        let sequence = self.policy.next_sequence();
        let lands_whole = self.lands_whole(&update, &nodes);
        let tags = self.policy.tags(&update.items, lands_whole);
        let parts_inodes = self.policy.parts_inodes() && !lands_whole;
        let mut evidence = self.policy.keeps_intents().then(Evidence::default);
        if is_planted(Bug::EarlyReuse) {
            update.freed.retain(|freed| self.allocator.holds_metadata(freed));
        }
        self.take_buffers(&update);
        let mut staged = Vec::with_capacity(update.items.len());
        let mut named = Vec::new();
        for (item, tag) in update.items.drain(..).zip(tags) {
            if let Some(leftovers) = self.leftovers() {
                leftovers.follow(&item, update.manner.goes_on);
                if let Subject::Entry { target: Some(target), .. } = item.subject {
                    named.push(target);
                }
            }
            let one = apply_item(item, (sequence, tag), parts_inodes);
            if let (Some(evidence), Some((buffer, _))) = (&mut evidence, &one.change) {
                evidence.see_entry(one.subject, one.entry, buffer);
            }
            staged.push(one);
        }
        if let Some(evidence) = &mut evidence {
            evidence.see_inodes(nodes.iter().map(|(node, dinode)| (node.ino, dinode)));
            evidence.see_ended(&update.directories);
        }
        let staged = StagedUpdate {
            items: staged,
            payload: take(&mut update.payload),
            carried: update.carried,
            moved: take(&mut update.moved),
            freed: update.freed.iter().filter_map(|freed| self.allocator.run_of(freed)).collect(),
            manner: update.manner,
            evidence: evidence.unwrap_or_default(),
            answered: None,
            room,
        };
        if let Some(leftovers) = self.leftovers() {
            leftovers.follow_named(&named);
        }
        update.promises.drain(..).for_each(crate::alloc::Promise::keep);
        for (node, dinode) in nodes {
            node.set_dinode(dinode);
            see(&node, sequence);
        }
        for (ino, change) in update.directories.drain(..) {
            self.allocator.count_directory(ino, change);
        }
        let (freed, end_room) = (take(&mut update.freed), update.end_room.take());
        (sequence, Applied { sequence, staged, freed, end_room })
    }
}

/// Changes the buffer of an item.
fn apply_item(item: Item, (sequence, tag): (Sequence, u32), parts_inodes: bool) -> Staged {
    let (intent, subject) = (item.intent, item.subject);
    let entry = item.change.as_ref().and_then(|(buffer, edit)| {
        let (before, _) = buffer.read(|image| edit.names_before(image))?;
        Some((edit.entry()?, before.into()))
    });
    let change = item.change.map(|(buffer, edit)| {
        let extent = edit.extent();
        let is_parted = parts_inodes && buffer.role() == Role::Inodes;
        let edit = if is_parted { edit.by_parts() } else { edit };
        buffer.apply(sequence, tag, edit);
        (buffer, extent)
    });
    Staged { intent, subject, entry, change, tag }
}
