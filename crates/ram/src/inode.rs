//! Attributes and other metadata of a file.

use bytes::Bytes;
use namespace::{AttributeChange, NewFile, Protection};
use vfs::{Attributes, Device, FileKind, Ino, Timestamp};
use vnode::Facts;

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 4096;

/// An inode; the disk has one copy and memory another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    pub(crate) kind: FileKind,
    pub(crate) generation: u32,
    pub(crate) mode: u16,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: Device,
    pub(crate) size: u64,
    /// Number of blocks of the file.
    pub(crate) blocks: u64,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    pub(crate) verifier: Option<[u8; 8]>,
    pub(crate) target: Bytes,
}

impl Inode {
    /// The inode of a new file.
    pub(crate) fn new(new: &NewFile<'_>, generation: u32, now: Timestamp) -> Self {
        Self {
            kind: new.kind,
            generation,
            mode: new.mode,
            links: if new.kind == FileKind::Directory { 2 } else { 1 },
            uid: new.uid,
            gid: new.gid,
            device: new.device,
            size: new.target.len() as u64,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            verifier: new.verifier,
            target: Bytes::copy_from_slice(new.target),
        }
    }

    /// The inode of a root directory.
    pub(crate) fn root(now: Timestamp) -> Self {
        let (uid, gid, target, verifier) = (0, 0, &[][..], None);
        let (kind, device) = (FileKind::Directory, Device::default());
        Self::new(&NewFile { kind, mode: 0o755, uid, gid, device, target, verifier }, 1, now)
    }

    pub(crate) fn change(&mut self, change: &AttributeChange) {
        // A change of the change time alone is that of a name.
        if (AttributeChange { ctime: None, ..*change }) != AttributeChange::default() {
            self.verifier = None;
        }
        self.mode = change.mode.unwrap_or(self.mode);
        self.uid = change.uid.unwrap_or(self.uid);
        self.gid = change.gid.unwrap_or(self.gid);
        self.atime = change.atime.unwrap_or(self.atime);
        self.mtime = change.mtime.unwrap_or(self.mtime);
        self.ctime = change.ctime.unwrap_or(self.ctime);
    }

    /// Whether this state of a directory is an earlier one with names added or removed since: all
    /// such changes may become durable in any order.
    pub(crate) fn follows_by_names(&self, earlier: &Self) -> bool {
        let same = Self {
            size: self.size,
            blocks: self.blocks,
            mtime: self.mtime,
            ctime: self.ctime,
            ..earlier.clone()
        };
        let is_later = self.mtime == self.ctime
            && self.mtime >= earlier.mtime.max(earlier.ctime)
            && self.size >= earlier.size;
        self.kind == FileKind::Directory && same == *self && is_later
    }
}

impl Facts for Inode {
    fn attributes(&self, ino: u64, kind: FileKind) -> Attributes {
        Attributes {
            kind,
            mode: self.mode,
            nlink: self.links,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            used: self.blocks * BLOCK,
            device: self.device,
            ino: Ino(ino),
            generation: self.generation,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.mtime, self.ctime)
    }

    fn has_verifier(&self, verifier: [u8; 8]) -> bool {
        self.verifier == Some(verifier)
    }

    fn protection(&self) -> Protection {
        Protection::default()
    }

    fn inline_target(&self) -> Option<Bytes> {
        Some(self.target.clone())
    }

    fn pinned(&self) -> (u64, usize) {
        (0, 0)
    }
}
