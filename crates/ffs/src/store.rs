//! The engine in the words of the namespace.

use std::pin::pin;
use std::rc::Rc;

use block::zeros;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{Either, join, select};
use namespace::{AttributeChange, Listed, NewFile, Object, Protection, Stat, Store, Witness};
use runtime::sync::Lock;
use ufs2::layout::{
    Dinode, FLAGS_APPEND_ONLY, FLAGS_IMMUTABLE, FLAGS_NO_UNLINK, Geometry, GroupHeader,
    INLINE_SYMLINK_SIZE, MAX_LINKS, ROOT_INODE, SECTOR_SIZE, mode_of,
};
use ufs2::map::{block_count, run_length};
use vfs::{
    Attributes, Credentials, FileKind, FsError, FsInfo, FsStat, MAX_NAME, Name, ObjectId, PathConf,
    Receipt, Remembered, Sealed, Sequence, Stability, Timestamp, Verifier,
};
use zerocopy::little_endian::{I16, U16, U32};

use crate::alloc::{FoundInode, Near};
use crate::buffer::{Buffer, Role};
use crate::chain::ChainLink;
use crate::edit::Edit;
use crate::engine::Ffs;
use crate::inode::Node;
use crate::item::{Budget, Intent};
use crate::planted::{Bug, is_planted};
use crate::update::{Ready, Update};

/// The longest target of a symbolic link that Linux follows. It fits into the smallest block.
/// FreeBSD keeps longer ones than it follows, whose targets have 1,023 bytes at most.
const MAX_TARGET: usize = 4095;

/// Mixed into the 64 bits of an exclusive create, so that neither zero nor a small counter in the
/// field looks like one.
const VERIFIER_MASK: u64 = 0xd0ca_5ead_0d1e_5afe;

impl Object for Node {
    fn id(&self) -> ObjectId {
        Node::id(self)
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn attributes(&self) -> Attributes {
        Node::attributes(self)
    }

    fn sequence(&self) -> Sequence {
        Node::sequence(self)
    }

    fn is_dead(&self) -> bool {
        Node::is_dead(self)
    }

    fn lock(&self) -> &Lock {
        &self.lock
    }

    fn has_verifier(&self, verifier: [u8; 8]) -> bool {
        // Who has written since knows that the file is there.
        let is_as_made = self.volatile.get().is_none();
        is_as_made && self.dinode().change.get() == encode_verifier(verifier)
    }

    fn protection(&self) -> Protection {
        let flags = self.look(|dinode| dinode.flags.get());
        Protection {
            immutable: flags & FLAGS_IMMUTABLE != 0,
            append_only: flags & FLAGS_APPEND_ONLY != 0,
            no_unlink: flags & FLAGS_NO_UNLINK != 0,
        }
    }
}

fn encode_verifier(verifier: [u8; 8]) -> u64 {
    let bits = u64::from_be_bytes(verifier);
    let bits = if is_planted(Bug::HalfVerifier) { bits >> 32 } else { bits };
    bits ^ VERIFIER_MASK
}

fn budget(who: &Credentials) -> Budget {
    if who.is_root() { Budget::Superuser } else { Budget::User }
}

/// The block behind a range that ends at this byte.
fn end_of_commit(geometry: &Geometry, end: u64) -> u64 {
    match is_planted(Bug::ShortCommits) {
        true => end / geometry.block_size,
        false => block_count(geometry, end),
    }
}

fn change_attributes(change: &AttributeChange, kind: FileKind, dinode: &mut Dinode) {
    // A change time alone is that of a name.
    if (AttributeChange { ctime: None, ..*change }) != AttributeChange::default() {
        dinode.forget_verifier();
    }
    if let Some(mode) = change.mode {
        dinode.mode = U16::new(mode_of(kind, mode));
    }
    if let Some(uid) = change.uid {
        dinode.uid = U32::new(uid);
    }
    if let Some(gid) = change.gid {
        dinode.gid = U32::new(gid);
    }
    if let Some(time) = change.atime {
        dinode.set_access_time(time);
    }
    if let Some(time) = change.mtime {
        dinode.set_modify_time(time);
    }
    if let Some(time) = change.ctime {
        dinode.set_change_time(time);
    }
}

impl Store for Ffs {
    type Node = Rc<Node>;
    type Update = Update;
    type Ready = Ready;

    fn root(&self) -> ObjectId {
        self.root_id()
    }

    fn verifier(&self) -> Verifier {
        self.current_verifier()
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn now(&self) -> Timestamp {
        Ffs::now(self)
    }

    fn receipt(&self, sequence: Sequence) -> Receipt {
        Ffs::receipt(self, sequence)
    }

    fn check_running(&self) -> Result<(), FsError> {
        Ffs::check_running(self)
    }

    async fn node(&self, id: ObjectId) -> Result<Rc<Node>, FsError> {
        Ffs::node(self, id).await
    }

    async fn node_of(&self, ino: u64) -> Result<Rc<Node>, FsError> {
        Ffs::node_of(self, ino).await
    }

    async fn peek(&self, ino: u64) -> Result<Stat, FsError> {
        Ffs::peek(self, ino).await
    }

    fn check_usable(&self, node: &Rc<Node>) -> Result<(), FsError> {
        self.check_not_stuck(node.ino)
    }

    fn gone_sequence(&self, ino: u64) -> Sequence {
        Ffs::gone_sequence(self, ino)
    }

    async fn find(&self, directory: &Rc<Node>, name: &Name) -> Result<Option<u64>, FsError> {
        self.find_name(directory, name).await
    }

    async fn is_empty(&self, directory: &Rc<Node>) -> Result<bool, FsError> {
        self.is_directory_empty(directory).await
    }

    async fn list(&self, directory: &Rc<Node>, cookie: u64) -> Result<Vec<Listed>, FsError> {
        self.list_chunk(directory, cookie).await
    }

    fn begin(&self, who: &Credentials) -> Update {
        Update::new(budget(who))
    }

    async fn reserve(&self, update: Update) -> Result<Ready, FsError> {
        Ffs::reserve(self, update).await
    }

    fn apply(&self, update: Ready, witness: &mut dyn Witness) {
        Ffs::apply_seen(self, update, witness);
    }

    async fn wait_for_space(&self) -> bool {
        if is_planted(Bug::AbandonedLandings) {
            let comes = async { Ffs::wait_for_space(self).await || self.write_back_idle().await };
            return match select(pin!(comes), self.policy.no_room_comes()).await {
                Either::Left((comes, _)) => comes,
                Either::Right(_) => false,
            };
        }
        // What is about to be given back may itself wait for room in the log. The wait is left, and
        // never a landing: it has writes under way.
        match select(pin!(Ffs::wait_for_space(self)), self.policy.no_room_comes()).await {
            Either::Left((true, _)) => true,
            Either::Left((false, no_room_comes)) => {
                no_room_comes.now_or_never().is_none() && self.write_back_idle().await
            }
            Either::Right(_) => false,
        }
    }

    async fn create(
        &self,
        update: &mut Update,
        parent: &Rc<Node>,
        new: NewFile<'_>,
    ) -> Result<Rc<Node>, FsError> {
        let is_directory = new.kind == FileKind::Directory;
        let ino = self.take_inode(update, parent.ino, is_directory).await?;
        let node = self.new_node(ino, &new).await?;
        if is_directory {
            self.plan_body(update, &node, parent).await?;
        }
        if new.kind == FileKind::Symlink {
            self.plan_target(update, &node, new.target).await?;
        }
        update.change_inode(&node, Intent::InodeInitialised, |_| ());
        if is_directory {
            update.items.push(self.allocator.count_in_group(ino, 1).await?);
        }
        update.lives.push((node.clone(), true));
        Ok(node)
    }

    fn add_link(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
        let links = update.dinode(node).links.get();
        if links as u32 >= MAX_LINKS {
            return Err(FsError::TooManyLinks);
        }
        update.change_inode(node, Intent::LinkAdded, |dinode| dinode.links.set(links + 1));
        Ok(())
    }

    fn drop_link(&self, update: &mut Update, node: &Rc<Node>) {
        update.change_inode(node, Intent::LinkDropped, |dinode| {
            dinode.links = I16::new((dinode.links.get() - 1).max(0));
        });
    }

    async fn destroy(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
        update.change_inode(node, Intent::LinkDropped, |dinode| dinode.links = I16::new(0));
        update.discards.push(node.clone());
        if !self.end_life(update, node).await? {
            let permit = self.place_among_chains().await?;
            update.orphans.push((node.clone(), permit));
            update.chain = Some(ChainLink::Begins(node.chain(None)));
        }
        Ok(())
    }

    fn set_attributes(&self, update: &mut Update, node: &Rc<Node>, change: &AttributeChange) {
        update.touch_inode(node, |dinode| change_attributes(change, node.kind, dinode));
    }

    async fn add_entry(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
        name: &Name,
        target: &Rc<Node>,
    ) -> Result<(), FsError> {
        self.plan_add(update, directory, name, target).await
    }

    async fn drop_entry(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
        name: &Name,
    ) -> Result<(), FsError> {
        self.plan_drop(update, directory, name).await
    }

    async fn retarget_entry(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
        name: &Name,
        target: &Rc<Node>,
    ) -> Result<(), FsError> {
        self.plan_retarget(update, directory, name, target).await
    }

    async fn retarget_parent(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
        parent: &Rc<Node>,
    ) -> Result<(), FsError> {
        self.plan_parent(update, directory, parent).await
    }

    async fn read(
        &self,
        node: &Rc<Node>,
        offset: u64,
        count: u64,
    ) -> Result<(Vec<Bytes>, bool), FsError> {
        let read = self.read_data(node, offset, count);
        let (data, ()) = join(read, self.read_ahead(node, offset, count)).await;
        let data = data?;
        if !self.read_only && count > 0 {
            node.touch_access_time(self.now(), self.seal());
        }
        Ok(data)
    }

    async fn buffer_write(
        &self,
        who: &Credentials,
        node: &Rc<Node>,
        offset: u64,
        data: &[Bytes],
        witness: &mut dyn Witness,
    ) -> Result<bool, FsError> {
        self.keep_data(node, offset, data, who.is_root(), witness).await
    }

    async fn write(
        &self,
        who: &Credentials,
        node: &Rc<Node>,
        data: (u64, &[Bytes]),
        stability: Stability,
        change: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Stability, FsError> {
        // Attributes change when they are durable, and the data with them.
        let is_alone = *change == AttributeChange::default();
        let stability = if is_alone { stability } else { stability.max(Stability::FileSync) };
        let also = |dinode: &mut Dinode| change_attributes(change, node.kind, dinode);
        self.write_data(node, data, (stability, who.is_root()), also, witness).await
    }

    async fn resize(
        &self,
        who: &Credentials,
        node: &Rc<Node>,
        size: u64,
        change: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<(), FsError> {
        if !is_planted(Bug::KeepsPages) {
            Ffs::write_back(self, node, 0, u64::MAX).await?;
        }
        node.promise_written_back();
        let also = |dinode: &mut Dinode| change_attributes(change, node.kind, dinode);
        Ffs::resize(self, node, (size, budget(who)), also, witness).await?;
        Ok(())
    }

    async fn write_back(&self, node: &Rc<Node>, offset: u64, count: u64) -> Result<(), FsError> {
        let geometry = self.geometry();
        let first = offset / geometry.block_size;
        let end = match count {
            0 if !is_planted(Bug::EmptyCommit) => u64::MAX,
            count => end_of_commit(geometry, offset.saturating_add(count)),
        };
        Ffs::write_back(self, node, first, end).await?;
        self.settle_doubts(node, first..end).await?;
        if node.take_refusal() {
            return Err(FsError::NoSpace); // of data that is gone: its writer is to know why
        }
        node.promise_written_back();
        Ok(())
    }

    async fn link_target(&self, node: &Rc<Node>) -> Result<Bytes, FsError> {
        Ffs::link_target(self, node).await
    }

    fn max_target(&self) -> usize {
        MAX_TARGET
    }

    fn fsstat(&self, who: &Credentials) -> FsStat {
        let geometry = self.geometry();
        let bytes = |fragments: i64| fragments.max(0) as u64 * geometry.fragment_size;
        // What an answered removal gave back counts as free, though it may take a moment until it
        // can be used: whoever asks just after it expects that.
        let (fragments, inodes) = self.allocator.leaving();
        let orphans = self.orphans.borrow();
        let orphaned = orphans.values().map(|node| node.dinode().sectors.get()).sum::<u64>();
        let orphaned = (orphaned * SECTOR_SIZE / geometry.fragment_size) as i64;
        let free = self.allocator.free_space() + fragments + orphaned;
        let free_files = self.allocator.free_inodes() + inodes + orphans.len() as i64;
        let free_files = free_files.max(0) as u64;
        let kept = if who.is_root() { self.allocator.kept() } else { self.allocator.reserve() };
        FsStat {
            total_bytes: geometry.data_size * geometry.fragment_size,
            free_bytes: bytes(free),
            available_bytes: bytes(free - kept),
            total_files: geometry.inode_count() - ROOT_INODE,
            free_files,
            available_files: free_files,
        }
    }

    fn fsinfo(&self) -> FsInfo {
        FsInfo {
            max_file_size: self.geometry().max_file_size.min(i64::MAX as u64),
            block_size: self.geometry().block_size as u32,
            time_delta: Timestamp { seconds: 0, nanoseconds: 1 },
            read_only: self.read_only,
        }
    }

    fn pathconf(&self) -> PathConf {
        PathConf { link_max: MAX_LINKS, name_max: MAX_NAME as u32 }
    }

    fn take_remembered(&self) -> Sealed<Vec<Remembered>> {
        Sealed::new(self.remembered.take(), Ffs::receipt(self, Sequence(0)))
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.policy.count_repetition(over_a_start);
    }

    async fn shutdown(&self) -> Result<(), FsError> {
        self.close().await
    }
}

impl Ffs {
    /// Promises an inode near `parent`, initialising a further block of them where needed.
    async fn take_inode(
        &self,
        update: &mut Update,
        parent: u64,
        is_directory: bool,
    ) -> Result<u64, FsError> {
        loop {
            match self.allocator.take_inode(parent, is_directory).await? {
                FoundInode::Promised(taken) if self.is_unused(taken.place).await? => {
                    return Ok(update.take(taken));
                }
                FoundInode::Promised(taken) => taken.promise.withhold(),
                FoundInode::Uninitialised(group) => self.initialise_inodes(group).await?,
            }
        }
    }

    /// Whether an inode is as free as its map says. On a damaged disk it may be a file.
    async fn is_unused(&self, ino: u64) -> Result<bool, FsError> {
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        let size = geometry.block_size as usize;
        let buffer = self.home.load(position.fragment, size, Role::Inodes).await?;
        Ok(buffer.read(|image| Dinode::at(image, position.offset).is_free()))
    }

    /// Gives a group one more block of inodes, and waits until that is durable: from then on a name
    /// may lead to any of them, with whatever Update it comes.
    async fn initialise_inodes(&self, group: u64) -> Result<(), FsError> {
        let _alone = self.inode_growth.acquire(1).await;
        let geometry = self.geometry();
        let header = self.allocator.group_buffer(group).await?;
        let initialised = header.read(|image| GroupHeader::of(image).initialized_inodes.get());
        if !self.allocator.needs_inodes(group, initialised.into()) {
            return Ok(()); // somebody else was faster
        }
        let ino = group * geometry.inodes_per_group + u64::from(initialised);
        let mut image = block::Buffer::zeroed(geometry.block_size as usize);
        for index in 0..geometry.inodes_per_block as usize {
            let random = self.runtime.random.next_u64() as u32;
            let offset = index * size_of::<Dinode>();
            Dinode::at_mut(&mut image, offset).generation.set(random.max(1));
        }
        let address = geometry.inode_position(ino).fragment;
        let mut update = Update::new(Budget::Superuser);
        update.push_fresh(Intent::InodeBlockInitialised, Buffer::new(address, Role::Inodes, image));
        let raised = initialised + geometry.inodes_per_block as u32;
        let offset = std::mem::offset_of!(GroupHeader, initialized_inodes);
        let new = Box::from(raised.to_le_bytes().as_slice());
        update.push(Intent::InitialisedRaised, &header, Edit::Bytes { offset, new });
        let sequence = Ffs::apply(self, Ffs::reserve(self, update).await?);
        if self.policy.commits_in_order() {
            return Ok(()); // whatever leads to one of them becomes durable later
        }
        self.durable(sequence).await
    }

    /// A node for a promised inode: its generation raised, its times now.
    async fn new_node(&self, ino: u64, new: &NewFile<'_>) -> Result<Rc<Node>, FsError> {
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        let size = geometry.block_size as usize;
        let buffer = self.home.load(position.fragment, size, Role::Inodes).await?;
        let old = buffer.read(|image| *Dinode::at(image, position.offset));
        let now = self.now();
        let mut dinode = Dinode::zeroed();
        let step = u32::from(!is_planted(Bug::SameGeneration));
        dinode.generation.set(old.generation.get().wrapping_add(step).max(1));
        dinode.mode.set(mode_of(new.kind, new.mode));
        dinode.links.set(if new.kind == FileKind::Directory { 2 } else { 1 });
        dinode.uid.set(new.uid);
        dinode.gid.set(new.gid);
        dinode.set_access_time(now);
        dinode.set_modify_time(now);
        dinode.set_change_time(now);
        dinode.set_birth_time(now);
        if matches!(new.kind, FileKind::BlockDevice | FileKind::CharacterDevice) {
            dinode.set_device(new.device);
        }
        if let Some(verifier) = new.verifier {
            dinode.change.set(encode_verifier(verifier));
        }
        Ok(Node::with_dinode(ino, buffer, position.offset, dinode, new.kind))
    }

    /// The target of a new symbolic link: in the inode if it is short, else in a block.
    async fn plan_target(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        target: &[u8],
    ) -> Result<(), FsError> {
        let size = target.len() as u64;
        update.touch_inode(node, |dinode| dinode.size.set(size));
        if target.len() < INLINE_SYMLINK_SIZE {
            update.touch_inode(node, |dinode| {
                dinode.inline_symlink_area_mut()[..target.len()].copy_from_slice(target);
            });
            return Ok(());
        }
        let geometry = self.geometry();
        let run = run_length(geometry, size, 0);
        let near = Near::Group(geometry.group_of_inode(node.ino));
        let address = self.map().take(update, node, near, run).await?;
        update.touch_inode(node, |dinode| dinode.direct[0].set(address as i64));
        let rest = (run * geometry.fragment_size) as usize - target.len();
        let pieces = vec![Bytes::copy_from_slice(target), zeros(rest)];
        self.write_payload(update, vec![(address, pieces)]).await
    }
}
