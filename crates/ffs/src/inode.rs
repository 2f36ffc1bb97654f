//! The inode of a file in memory: its position on the disk, and its content.
//!
//! It pins the buffer of its inode block, and its dinode equals the bytes in the buffer's image.

use std::rc::Rc;

use bytes::Bytes;
use namespace::{AttributeChange, Protection};
use ufs2::layout::{
    Dinode, FLAGS_APPEND_ONLY, FLAGS_IMMUTABLE, FLAGS_NO_UNLINK, INLINE_SYMLINK_SIZE, SECTOR_SIZE,
    mode_of,
};
use vfs::{Attributes, FileKind, Ino, Timestamp};
use vnode::{Facts, Vnode};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::buffer::Buffer;
use crate::edit::Edit;
use crate::planted::{Bug, is_planted};

/// Mixed into the 64 bits of an exclusive create, so that neither zero nor a small counter in the
/// field looks like one.
const VERIFIER_MASK: u64 = 0xd0ca_5ead_0d1e_5afe;

/// See the module's prose.
pub struct Inode {
    buffer: Rc<Buffer>,
    offset: usize,
    dinode: Dinode,
}

/// A file in memory.
pub(crate) type Node = Vnode<Inode>;

impl Inode {
    /// The file of inode `ino` at `offset` of `buffer`. `dinode` is the inode there, or the one
    /// that an Update is about to make of it.
    pub(crate) fn in_memory(
        ino: u64,
        (buffer, offset): (Rc<Buffer>, usize),
        dinode: Dinode,
        kind: FileKind,
    ) -> Rc<Node> {
        let generation = dinode.generation.get();
        Vnode::new((ino, generation), kind, Self { buffer, offset, dinode })
    }

    /// Sets the access time where no Update carries it.
    pub(crate) fn touch_access_time(&mut self, time: Timestamp, seal: impl FnOnce(&mut Dinode)) {
        self.dinode.set_access_time(time);
        seal(&mut self.dinode);
        self.buffer.write_unordered(self.offset, self.dinode.as_bytes());
    }
}

impl Facts for Inode {
    fn attributes(&self, ino: u64, kind: FileKind) -> Attributes {
        attributes_of((ino, kind), &self.dinode)
    }

    fn size(&self) -> u64 {
        self.dinode.size.get()
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.dinode.modify_time(), self.dinode.change_time())
    }

    fn has_verifier(&self, verifier: [u8; 8]) -> bool {
        self.dinode.change.get() == encode_verifier(verifier)
    }

    fn protection(&self) -> Protection {
        let flags = self.dinode.flags.get();
        Protection {
            immutable: flags & FLAGS_IMMUTABLE != 0,
            append_only: flags & FLAGS_APPEND_ONLY != 0,
            no_unlink: flags & FLAGS_NO_UNLINK != 0,
        }
    }

    fn inline_target(&self) -> Option<Bytes> {
        let size = self.dinode.size.get() as usize;
        let is_short = size < INLINE_SYMLINK_SIZE;
        is_short.then(|| Bytes::copy_from_slice(&self.dinode.inline_symlink_area()[..size]))
    }

    fn pinned(&self) -> (u64, usize) {
        (self.buffer.address(), self.buffer.size())
    }
}

/// The on-disk inode of a file in memory.
pub(crate) trait OnDisk {
    /// Passes the inode in the buffer to `look`.
    fn look_at<T>(&self, look: impl FnOnce(&Dinode) -> T) -> T;
    /// The inode in the buffer.
    fn dinode(&self) -> Dinode;
    /// The inode with the times that readers see: the start of an Update's working copy.
    fn dinode_with_times(&self) -> Dinode;
    /// The edit that puts `dinode` into the inode block.
    fn edit(&self, dinode: &Dinode) -> (Rc<Buffer>, Edit);
    /// Takes over the inode that an Update left in the buffer.
    fn set_dinode(&self, dinode: Dinode);
}

impl OnDisk for Node {
    fn look_at<T>(&self, look: impl FnOnce(&Dinode) -> T) -> T {
        self.look(|inode| look(&inode.dinode))
    }

    fn dinode(&self) -> Dinode {
        self.look_at(|dinode| *dinode)
    }

    fn dinode_with_times(&self) -> Dinode {
        let mut dinode = self.dinode();
        if let Some(volatile) = self.volatile() {
            dinode.set_modify_time(volatile.mtime);
            dinode.set_change_time(volatile.ctime);
        }
        dinode
    }

    fn edit(&self, dinode: &Dinode) -> (Rc<Buffer>, Edit) {
        let new = Box::from(dinode.as_bytes());
        self.look(|inode| (inode.buffer.clone(), Edit::Bytes { offset: inode.offset, new }))
    }

    fn set_dinode(&self, dinode: Dinode) {
        self.set_inode(|inode| inode.dinode = dinode);
    }
}

/// Attributes of an inode.
pub(crate) fn attributes_of((ino, kind): (u64, FileKind), dinode: &Dinode) -> Attributes {
    Attributes {
        kind,
        mode: dinode.permissions(),
        nlink: dinode.links.get().into(),
        uid: dinode.uid.get(),
        gid: dinode.gid.get(),
        size: dinode.size.get(),
        used: dinode.sectors.get().saturating_mul(SECTOR_SIZE),
        device: match kind {
            FileKind::BlockDevice | FileKind::CharacterDevice => dinode.device(),
            _ => vfs::Device::default(),
        },
        ino: Ino(ino),
        generation: dinode.generation.get(),
        atime: dinode.access_time(),
        mtime: dinode.modify_time(),
        ctime: dinode.change_time(),
    }
}

/// The value that an exclusive create stores in the inode.
pub(crate) fn encode_verifier(verifier: [u8; 8]) -> u64 {
    let bits = u64::from_be_bytes(verifier);
    let bits = if is_planted(Bug::HalfVerifier) { bits >> 32 } else { bits };
    bits ^ VERIFIER_MASK
}

/// Changes attributes of an inode.
pub(crate) fn change_attributes(change: &AttributeChange, kind: FileKind, dinode: &mut Dinode) {
    // A change time alone comes from a name.
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
