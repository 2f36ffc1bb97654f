//! Reclaim: finds and repairs the leaks that a crash under soft updates left, while the volume is
//! served.
//!
//! The tree below the root is consistent after a crash, so calls can be answered at once. Leaks
//! (bits without an owner, links without names, files without a name) cost only space, and are
//! found by a scan:
//!
//! 1. Every group is read; bits in use in its maps are candidates.
//! 2. Every inode that existed at the opening is scanned, in the order of numbers. The blocks of a
//!    file leave the candidates, its links and names are counted ([`crate::leftovers`]), and damage
//!    that a crash can cause is repaired: pointers behind its end, a wrong block count, duplicate
//!    entries of a directory.
//! 3. Files without a name are freed, and directories together with the names in them; excess links
//!    are dropped. A file that a caller has changed since the opening, and a directory with a name
//!    of such a file in it, gets a name in `lost+found`.
//! 4. Everything is written in place. The remaining candidates are freed; a torn group is used
//!    again if the scan has found the blocks of all its files in use.
//!
//! Each repair is an ordinary Update: a crash may interrupt it anywhere, and the next opening
//! begins anew. The scan takes a share of the time: it rests after each step for as long as that
//! share requires. Damage that no crash causes ends reclaim: the volume stays in service, nothing
//! more is freed, and the volume keeps the mark that it was not stopped cleanly.
//!
//! **Commit point**: reclaim is through when [`Leftovers::close`] is called; the volume can be
//! stopped cleanly from then on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::Instant;
use runtime::sync::yield_now;
use ufs2::layout::{DIRECT_BLOCKS, Dinode, ROOT_INODE};
use ufs2::map::{block_count, has_blocks, path, pointer, run_length, sectors};
use vfs::{FileKind, FsError, Ledger};
use vnode::{Dropped, Engine, Space};

use crate::buffer::Role;
use crate::edit::Edit;
use crate::engine::Ffs;
use crate::inode::{Node, OnDisk};
use crate::item::Intent;
use crate::leftovers::{Leftovers, ReclaimState};
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// The files of a volume in the UFS2 format.
type Files = vnode::Files<Ffs>;

/// Maximum number of runs that one Update frees.
const RUNS_PER_UPDATE: usize = 64;
/// Maximum length of one rest.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Maximum number of consecutive rounds without a repair: a caller's change in flight ends
/// meanwhile.
const MOST_ROUNDS: usize = 8;
/// Number of names that are removed from a directory at once.
const NAMES_AT_ONCE: usize = 64;
/// Number of inodes that are scanned without yielding to other tasks.
const INODES_AT_ONCE: u64 = 64;

/// Starts the task that looks for leaks of a crash, if there may be any; returns whether there may.
pub(crate) fn start(files: &Rc<Files>, share: f64) -> bool {
    let engine = files.engine();
    let Some(leftovers) = engine.leftovers().cloned() else { return false };
    let (tasks, clock) = (engine.runtime.tasks.clone(), engine.runtime.clock.clone());
    let files = Rc::downgrade(files);
    let task = async move {
        let begun = clock.now();
        let Some(files) = files.upgrade() else { return };
        let pace = Pace { share, begun: Cell::new(begun) };
        let (dead, homeless) = Default::default();
        let reclaim = Reclaim { files, leftovers: leftovers.clone(), pace, dead, homeless };
        let state = match reclaim.run().await {
            Ok(()) => ReclaimState::Done,
            Err(Stopped::Asked) => ReclaimState::Running,
            Err(Stopped::By(_)) if leftovers.is_to_end() => ReclaimState::Running,
            Err(Stopped::By(_)) => ReclaimState::Failed,
        };
        match state {
            ReclaimState::Done => leftovers.close(),
            ReclaimState::Failed => leftovers.fail(),
            state => leftovers.note(|progress| progress.state = state),
        }
        leftovers.has_ended();
        reclaim.files.engine().allocator.released.notify();
    };
    tasks.spawn(task.boxed_local());
    true
}

/// Reason why reclaim did not finish.
enum Stopped {
    /// The volume is being stopped.
    Asked,
    /// Damage that no crash causes, or an error of the disk.
    By(#[expect(dead_code, reason = "for a debugger")] FsError),
}

impl From<FsError> for Stopped {
    fn from(error: FsError) -> Self {
        Self::By(error)
    }
}

/// Throttle that rests between steps.
struct Pace {
    share: f64,
    begun: Cell<Instant>,
}

struct Reclaim {
    files: Rc<Files>,
    leftovers: Rc<Leftovers>,
    pace: Pace,
    /// Files without links that the scan has met and that no task frees.
    dead: RefCell<Vec<u64>>,
    /// Files that could not be named for lack of room.
    homeless: RefCell<BTreeMap<u64, FileKind>>,
}

impl Ffs {
    /// Whether reclaim is running.
    pub(crate) fn reclaims(&self) -> bool {
        self.leftovers.as_ref().is_some_and(|leftovers| leftovers.are_looked_for())
    }

    /// Asks reclaim to end, finished or not, unless it must finish.
    pub(crate) fn ask_reclaim_to_end(&self) {
        if let Some(leftovers) = self.leftovers.as_ref().filter(|_| !self.finishes_reclaim) {
            leftovers.end();
            self.allocator.released.notify(); // wakes callers that wait for space reclaim may find
        }
    }

    /// Asks reclaim to end, unless it must finish, and waits until it has ended.
    pub(crate) async fn end_reclaim(&self) {
        self.ask_reclaim_to_end();
        if let Some(leftovers) = &self.leftovers {
            leftovers.wait_for_end().await;
        }
    }

    /// Waits until reclaim has finished or failed; returns whether it has finished.
    pub async fn wait_for_reclaim(&self) -> bool {
        let Some(leftovers) = &self.leftovers else { return true };
        leftovers.wait_for_end().await;
        !leftovers.is_open()
    }

    /// Whether a crash may have left pointers behind the end of a file.
    fn may_have_end_left(&self, kind: FileKind, dinode: &Dinode) -> bool {
        let last = block_count(self.geometry(), dinode.size.get()).saturating_sub(1);
        last >= DIRECT_BLOCKS && has_blocks(kind, dinode) && !is_planted(Bug::UnsettledEnds)
    }

    /// Clears pointers behind the end of a file that a crash may have left, since the file must not
    /// grow over them: those in the indirect blocks that lead to its last block. Their blocks are
    /// candidates. When this returns, the pointers are cleared durably. Returns whether the file
    /// may have had any; then earlier copies of its inode are outdated.
    pub(crate) async fn settle_end(&self, node: &Rc<Node>) -> Result<bool, FsError> {
        let before = node.dinode();
        if !self.may_have_end_left(node.kind, &before) {
            return Ok(false);
        }
        let _alone = self.settling.acquire(1).await;
        let (inode, offset) = self.inode_place(node.ino).await?;
        let now = || inode.read(|image| *Dinode::at(image, offset));
        loop {
            // A task that was faster may use the file by now, and extend it.
            let dinode = if is_planted(Bug::StaleEnds) { before } else { now() };
            let is_it = !dinode.is_free() && dinode.generation.get() == node.generation;
            if !is_it || !self.may_have_end_left(node.kind, &dinode) {
                return Ok(true);
            }
            let update = self.clear_end(&dinode).await?;
            if vnode::Plan::is_empty(&update) {
                return Ok(true);
            }
            let ready = self.reserve(update).await?;
            let is_still =
                now().has_extent_of(&dinode) && now().change_time() == dinode.change_time();
            if is_still || is_planted(Bug::StaleEnds) {
                let (sequence, applied) = self.apply(ready, |_, _| ());
                let freed = self.stage(applied, None);
                assert!(freed.is_none(), "what is cleared is given back by reclaim");
                let horizon = self.policy.horizon();
                horizon.durable(horizon.up_to(sequence)).await?;
                return Ok(true);
            }
        }
    }

    /// An Update that clears pointers behind the end of the file with this inode.
    async fn clear_end(&self, dinode: &Dinode) -> Result<Update, FsError> {
        let geometry = self.geometry();
        let path = path(geometry, block_count(geometry, dinode.size.get()) - 1)?;
        let mut address = dinode.indirect[path.tree].get() as u64;
        let mut update = Update::new(Space::Superuser);
        update.manner.goes_on = true;
        for slot in path.slots {
            if address == 0 {
                break; // a hole
            }
            if !geometry.is_data_run(address, geometry.fragments_per_block) {
                return Err(FsError::Corrupt);
            }
            let size = geometry.block_size as usize;
            let buffer = self.home.load(address, size, Role::Indirect).await?;
            let behind = slot + 1..geometry.pointers_per_indirect as usize;
            let is_set = |slot: &usize| buffer.read(|image| pointer(image, *slot)) != 0;
            if let Some(first) = behind.clone().find(is_set) {
                let end = behind.rev().find(is_set).expect("there is one") + 1;
                let new = vec![0; (end - first) * size_of::<u64>()].into();
                let edit = Edit::Bytes { offset: first * size_of::<u64>(), new };
                update.push(Intent::PointerCleared, &buffer, edit);
            }
            address = buffer.read(|image| pointer(image, slot));
        }
        Ok(update)
    }
}

impl Reclaim {
    fn engine(&self) -> &Rc<Ffs> {
        self.files.engine()
    }

    async fn run(&self) -> Result<(), Stopped> {
        let groups = self.engine().geometry().group_count;
        for group in 0..groups {
            self.engine().allocator.group_buffer(group).await?;
            self.step().await?;
        }
        for group in 0..groups {
            self.leftovers.pass_to(group);
            self.scan_group(group).await?;
        }
        self.leftovers.scan_is_through();
        let dead = self.dead.take();
        for &ino in &dead {
            self.mend_nameless(ino).await?;
            self.step().await?;
        }
        self.mend_all().await?;
        for ino in dead {
            // It frees the candidates behind its end itself.
            if !is_planted(Bug::HastyCandidates) {
                self.files.wait_until_freed(ino).await?;
            }
        }
        self.tell_named();
        for group in 0..groups {
            self.give_back(group).await?;
        }
        loop {
            self.settle().await?;
            let homeless = self.homeless.take();
            if homeless.is_empty() {
                return Ok(());
            }
            for &ino in homeless.keys() {
                self.mend_nameless(ino).await?; // there may be room now
            }
            if self.homeless.borrow().len() == homeless.len() {
                return Err(FsError::NoSpace.into());
            }
            self.mend_all().await?;
            self.tell_named();
        }
    }

    /// Reports that all files have a name, except those for which there is no room. The entries of
    /// a directory without a name are no better off: then nothing is reported.
    fn tell_named(&self) {
        let homeless = self.homeless.borrow();
        if homeless.values().all(|&kind| kind != FileKind::Directory) {
            self.leftovers.all_are_named_but(homeless.keys().copied().collect());
        }
    }

    /// Repairs links and names until all are correct, except those without room.
    async fn mend_all(&self) -> Result<(), Stopped> {
        let groups = self.engine().geometry().group_count;
        // Correct counts stay correct. But a name may go while its file has a link too many.
        let mut rounds = 0;
        loop {
            let suspects = (0..groups).flat_map(|group| self.leftovers.suspects(group));
            let (mut is_well, mut is_freed) = (true, false);
            for ino in suspects.filter(|ino| !self.homeless.borrow().contains_key(ino)) {
                is_well = false;
                is_freed |= self.files.orphan(ino).is_some(); // in steps, by another task
            }
            if is_well {
                break;
            } else if rounds > MOST_ROUNDS {
                return Err(FsError::Corrupt.into()); // no round repairs anything
            }
            let before = self.leftovers.progress();
            self.settle().await?; // a link goes after its name
            for group in 0..groups {
                self.mend_nameless_files(group).await?;
            }
            self.settle().await?; // ".." of a freed directory leads to a directory that counts it
            for group in 0..groups {
                self.lower_links_in(group).await?;
            }
            let has_mended = self.leftovers.progress() != before;
            rounds = if has_mended || is_freed { 0 } else { rounds + 1 };
        }
        self.settle().await
    }

    /// Writes all changes so far in place.
    async fn settle(&self) -> Result<(), Stopped> {
        self.check()?;
        self.engine().policy.settle().await.map_err(|_| Stopped::By(FsError::Io))
    }

    fn check(&self) -> Result<(), Stopped> {
        let is_left = Rc::strong_count(&self.files) == 1; // no other task uses the volume
        if self.leftovers.is_to_end() || is_left {
            Err(Stopped::Asked)
        } else if self.engine().policy.has_stopped() {
            Err(Stopped::By(FsError::Io))
        } else {
            Ok(())
        }
    }

    /// Ends a step: other tasks have their turn, and the disk its rest.
    async fn step(&self) -> Result<(), Stopped> {
        self.check()?;
        let clock = &self.engine().runtime.clock;
        let took = clock.now().since(self.pace.begun.get()).as_secs_f64();
        let rest = Duration::from_secs_f64((took * (1.0 / self.pace.share - 1.0)).max(0.0));
        if rest.is_zero() || self.leftovers.is_urgent() {
            yield_now().await;
        } else {
            let rest = pin!(clock.sleep(rest.min(LONGEST_REST)));
            futures::future::select(rest, pin!(self.leftovers.no_rest())).await;
        }
        self.pace.begun.set(clock.now());
        self.check()
    }

    /// Scans all inodes that a group had at the opening.
    async fn scan_group(&self, group: u64) -> Result<(), Stopped> {
        let first = group * self.engine().geometry().inodes_per_group;
        for ino in first..first + self.leftovers.inode_count(group) {
            if ino < ROOT_INODE {
                self.leftovers.pass(ino);
                continue;
            }
            self.scan_inode(ino).await?;
            if (ino + 1).is_multiple_of(INODES_AT_ONCE) {
                self.step().await?;
            }
        }
        self.step().await
    }

    async fn scan_inode(&self, ino: u64) -> Result<(), Stopped> {
        loop {
            let (buffer, offset) = self.engine().inode_place(ino).await?;
            let dinode = buffer.read(|image| *Dinode::at(image, offset));
            if dinode.is_free() {
                self.leftovers.pass(ino);
                return Ok(());
            }
            if self.engine().geometry().verify_inode(&dinode).is_err() {
                return Err(FsError::Corrupt.into());
            }
            let kind = dinode.kind().ok_or(FsError::Corrupt)?;
            let is_large =
                has_blocks(kind, &dinode) && dinode.indirect.iter().any(|p| p.get() != 0);
            let is_simple = kind != FileKind::Directory && !is_large;
            if is_simple && self.hold_direct(kind, &dinode).await? == dinode.sectors.get() {
                // Nothing was awaited since the inode was read, if its groups are in memory.
                if buffer.read(|image| Dinode::at(image, offset).has_extent_of(&dinode)) {
                    let dinode = buffer.read(|image| *Dinode::at(image, offset));
                    self.pass_file(ino, &dinode, &[]);
                    return Ok(());
                }
                continue;
            }
            if self.scan_file(ino, dinode.links.get() > 0).await? {
                return Ok(());
            }
        }
    }

    /// Scans a file under its lock; returns whether it existed.
    async fn scan_file(&self, ino: u64, has_links: bool) -> Result<bool, Stopped> {
        let node = match self.files.orphan(ino) {
            Some(orphan) => orphan,
            None if has_links => match self.files.node_of(ino).await {
                Err(FsError::Stale) => return Ok(false), // it has ended since
                node => node?,
            },
            None => self.engine().load_as_it_is(ino).await?,
        };
        let still = node.lock.shared().await;
        if node.is_dead() {
            return Ok(self.files.orphan(ino).is_some() && self.pass_orphan(&node).await?);
        }
        let names = match node.kind {
            FileKind::Directory if has_links => self.files.look_through(&node).await?,
            _ => Vec::new(), // a directory was empty when its links went
        };
        let held = self.hold_file(&node).await?;
        self.pass_file(ino, &node.dinode(), &names);
        drop(still);
        if held != node.dinode().sectors.get() {
            self.count_blocks(&node).await?;
        }
        Ok(true)
    }

    fn pass_file(&self, ino: u64, dinode: &Dinode, names: &[(u64, bool)]) {
        if dinode.links.get() == 0 && self.files.orphan(ino).is_none() {
            self.dead.borrow_mut().push(ino);
        }
        self.leftovers.pass_file(ino, dinode, names);
    }

    /// Scans a file that is being freed in steps, whose lock was free: it cannot go on.
    async fn pass_orphan(&self, node: &Rc<Node>) -> Result<bool, Stopped> {
        self.hold_file(node).await?;
        self.leftovers.pass_file(node.ino, &node.dinode(), &[]);
        Ok(true)
    }

    /// Corrects the block count of a file, which after a crash may differ from its pointers.
    async fn count_blocks(&self, node: &Rc<Node>) -> Result<(), Stopped> {
        let plan = async |update: &mut Update| {
            let held = self.hold_file(node).await?;
            if held != node.dinode().sectors.get() {
                update.change_inode(node, Intent::SizeSet, |dinode| dinode.sectors.set(held));
            }
            Ok(())
        };
        self.files.repair_file(node, plan, || true).await?;
        Ok(())
    }

    /// Takes the blocks of a file out of the candidates; returns the number of its sectors.
    async fn hold_file(&self, node: &Rc<Node>) -> Result<u64, FsError> {
        let dinode = node.dinode();
        let mut held = self.hold_direct(node.kind, &dinode).await?;
        if has_blocks(node.kind, &dinode) {
            let blocks = block_count(self.engine().geometry(), dinode.size.get());
            let fan = self.engine().geometry().pointers_per_indirect;
            let (mut first, mut span) = (DIRECT_BLOCKS, 1);
            for address in dinode.indirect {
                held += self.hold_tree(address.get() as u64, (first, span), blocks).await?;
                span *= fan;
                first += span;
            }
        }
        Ok(held)
    }

    /// Takes the blocks that the inode itself points at out of the candidates; returns their
    /// sectors.
    async fn hold_direct(&self, kind: FileKind, dinode: &Dinode) -> Result<u64, FsError> {
        let geometry = self.engine().geometry();
        let mut held = 0;
        if has_blocks(kind, dinode) {
            for (lbn, address) in dinode.direct.iter().enumerate() {
                let run = run_length(geometry, dinode.size.get(), lbn as u64);
                held += self.hold(address.get() as u64, run).await?;
            }
        }
        let attributes = u64::from(dinode.attribute_size.get());
        for (index, address) in dinode.attribute_blocks.iter().enumerate() {
            let run = run_length(geometry, attributes, index as u64);
            held += self.hold(address.get() as u64, run).await?;
        }
        Ok(held)
    }

    /// Takes a tree of pointers with its block at `address` out of the candidates, and the blocks
    /// that it leads to below the end of the file. Each slot spans `span` blocks of the file,
    /// starting with block `first`.
    fn hold_tree(
        &self,
        address: u64,
        (first, span): (u64, u64),
        blocks: u64,
    ) -> LocalBoxFuture<'_, Result<u64, FsError>> {
        async move {
            let geometry = self.engine().geometry();
            let per_block = geometry.fragments_per_block;
            if address == 0 {
                return Ok(0);
            }
            if self.check().is_err() {
                return Err(FsError::Io); // a stop does not wait for the scan of a large file
            }
            let mut held = self.hold(address, per_block).await?;
            let size = geometry.block_size as usize;
            let buffer = self.engine().home.load(address, size, Role::Indirect).await?;
            for slot in 0..geometry.pointers_per_indirect {
                let start = first + slot * span;
                if start >= blocks {
                    break;
                }
                let child = buffer.read(|image| pointer(image, slot as usize));
                if child != 0 && span > 1 {
                    let below = (start, span / geometry.pointers_per_indirect);
                    held += self.hold_tree(child, below, blocks).await?;
                } else {
                    held += self.hold(child, per_block).await?;
                }
            }
            Ok(held)
        }
        .boxed_local()
    }

    /// Takes one run of a file out of the candidates; returns its sectors.
    async fn hold(&self, address: u64, count: u64) -> Result<u64, FsError> {
        if address == 0 {
            return Ok(0);
        }
        let geometry = self.engine().geometry();
        if !geometry.is_data_run(address, count) {
            return Err(FsError::Corrupt);
        }
        let group = geometry.group_of_fragment(address);
        let buffer = self.engine().allocator.group_buffer(group).await?;
        buffer.read(|image| self.leftovers.hold(address, count, image));
        Ok(sectors(geometry, count))
    }

    /// Repairs files of a group without a name.
    async fn mend_nameless_files(&self, group: u64) -> Result<(), Stopped> {
        for ino in self.leftovers.suspects(group) {
            if self.leftovers.is_nameless(ino) && !self.homeless.borrow().contains_key(&ino) {
                self.mend_nameless(ino).await?;
                self.step().await?;
            }
        }
        Ok(())
    }

    /// Drops excess links of a group.
    async fn lower_links_in(&self, group: u64) -> Result<(), Stopped> {
        for ino in self.leftovers.suspects(group) {
            self.lower_links(ino).await?;
            self.step().await?;
        }
        Ok(())
    }

    async fn mend_nameless(&self, ino: u64) -> Result<(), Stopped> {
        let is_needed = || self.leftovers.is_nameless(ino);
        let (buffer, offset) = self.engine().inode_place(ino).await?;
        let dinode = buffer.read(|image| *Dinode::at(image, offset));
        if dinode.is_free() || self.files.orphan(ino).is_some() {
            return Ok(());
        }
        if dinode.links.get() == 0 {
            let node = self.engine().load_as_it_is(ino).await?;
            let is_left = || is_needed() && self.files.orphan(ino).is_none();
            self.count_freed(self.files.free_nameless(&node, is_left).await?);
            return Ok(());
        }
        let node = match self.files.node_of(ino).await {
            Err(FsError::Stale) => return Ok(()),
            node => node?,
        };
        let is_kept = self.is_wanted(ino)
            || node.kind == FileKind::Directory && !self.drop_names(&node).await?;
        if is_kept {
            self.reconnect(&node).await?;
        } else {
            let is_left = || is_needed() && !self.is_wanted(ino);
            self.count_freed(self.files.free_nameless(&node, is_left).await?);
        }
        Ok(())
    }

    /// Whether a caller needs a file that has lost its name.
    fn is_wanted(&self, ino: u64) -> bool {
        self.leftovers.is_wanted(ino) || self.files.has_unstable(ino)
    }

    /// Names a file in `lost+found`; if there is no room, it is tried again at the end.
    async fn reconnect(&self, node: &Rc<Node>) -> Result<(), Stopped> {
        let is_needed = || self.leftovers.is_nameless(node.ino);
        match self.files.reconnect(node, is_needed).await {
            Err(FsError::NoSpace | FsError::TooManyLinks) => {
                self.homeless.borrow_mut().insert(node.ino, node.kind);
                Ok(())
            }
            done => Ok(done.map(|_| ())?),
        }
    }

    /// Removes the names from a directory that has no name itself. Returns whether none is left: a
    /// name stays if it leads to a file that a caller has changed since the opening.
    async fn drop_names(&self, node: &Rc<Node>) -> Result<bool, Stopped> {
        let may_go = |target| {
            let is_wanted = self.is_wanted(node.ino) || self.is_wanted(target);
            self.leftovers.is_nameless(node.ino) && !is_wanted
        };
        loop {
            match self.files.drop_names(node, NAMES_AT_ONCE, may_go).await? {
                Dropped::Some => {
                    self.settle().await?; // pending Updates slow down every round
                    self.step().await?;
                }
                all => return Ok(all == Dropped::All),
            }
        }
    }

    fn count_freed(&self, is_freed: bool) {
        self.leftovers.note(|progress| progress.inodes += u64::from(is_freed));
    }

    async fn lower_links(&self, ino: u64) -> Result<(), Stopped> {
        let excess = self.leftovers.excess(ino);
        if excess < 0 {
            return Err(FsError::Corrupt.into()); // more names than links
        }
        if excess == 0 || self.leftovers.is_nameless(ino) {
            return Ok(()); // it is being freed
        }
        let node = match self.files.node_of(ino).await {
            Err(FsError::Stale) => return Ok(()),
            node => node?,
        };
        let engine = self.engine();
        let plan = async |update: &mut Update| {
            (0..excess).for_each(|_| engine.drop_link(update, &node));
            Ok(())
        };
        let lowered = self.files.repair_file(&node, plan, || self.leftovers.excess(ino) == excess);
        if lowered.await? {
            self.leftovers.note(|progress| progress.links += excess as u64);
        }
        Ok(())
    }

    /// Frees the remaining candidates of a group, which belong to no file.
    async fn give_back(&self, group: u64) -> Result<(), Stopped> {
        if self.leftovers.is_rotten(group) {
            return Err(FsError::Corrupt.into()); // leave the group alone
        }
        let engine = self.engine();
        let allocator = &engine.allocator;
        let base = engine.geometry().group_base(group);
        let first_inode = group * engine.geometry().inodes_per_group;
        loop {
            let (mut fragments, mut inodes) = (0, 0);
            let plan = async |update: &mut Update| {
                let mut from = 0;
                while let Some((first, count)) = self.leftovers.next_fragments(group, from)
                    && update.freed.len() < RUNS_PER_UPDATE
                {
                    update.give_back(allocator.give_back(base + first, count).await?);
                    (from, fragments) = (first + count, fragments + count);
                }
                let mut from = 0;
                while let Some(index) = self.leftovers.next_inode(group, from)
                    && update.freed.len() < RUNS_PER_UPDATE
                {
                    update.give_back(allocator.give_back_inode(first_inode + index).await?);
                    (from, inodes) = (index + 1, inodes + 1);
                }
                Ok(())
            };
            if !self.files.repair(plan).await? {
                break;
            }
            self.leftovers.note(|progress| {
                progress.fragments += fragments;
                progress.inodes += inodes;
            });
            self.step().await?;
        }
        self.count_directories(group).await?;
        if self.leftovers.may_open(group) && !is_planted(Bug::OpenTornGroups) {
            allocator.count_group(group);
        }
        Ok(())
    }

    /// Corrects the directory count of a group.
    async fn count_directories(&self, group: u64) -> Result<(), Stopped> {
        let engine = self.engine();
        let first_inode = group * engine.geometry().inodes_per_group;
        let plan = async |update: &mut Update| {
            let there = self.leftovers.directories(group);
            let (change, item) = engine.allocator.correct_directories(group, there).await?;
            if change != 0 {
                update.items.push(item);
                update.directories.push((first_inode, change.into()));
            }
            Ok(())
        };
        self.files.repair(plan).await?;
        Ok(())
    }
}
