//! Attributes of a file, the caller, and what may be set.

use crate::{Ino, Timestamp};

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// An ordinary file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A named pipe.
    Fifo,
    /// A local socket.
    Socket,
}

/// A device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// The driver.
    pub major: u32,
    /// The unit.
    pub minor: u32,
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its type.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits: the low 12.
    pub mode: u16,
    /// Number of links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Bytes of disk that it holds.
    pub used: u64,
    /// The device that a device file names.
    pub device: Device,
    /// Inode number; for a file of a snapshot, its file id (see [`crate::ObjectId::file_id`]).
    pub ino: Ino,
    /// Generation of the inode number.
    pub generation: u32,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
}

/// Attributes after an operation, where they are known.
pub type PostOp = Option<Attributes>;

/// The three attributes by which a client knows whether its cache was current (weak cache
/// consistency).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WccBefore {
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
}

impl From<&Attributes> for WccBefore {
    fn from(attributes: &Attributes) -> Self {
        Self { size: attributes.size, mtime: attributes.mtime, ctime: attributes.ctime }
    }
}

/// An object before and after one operation, captured with nothing in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// Just before.
    pub before: Option<WccBefore>,
    /// Just after.
    pub after: PostOp,
}

/// The value to set a time to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's time now.
    Now,
    /// A time that the client gives; only the owner may.
    To(Timestamp),
}

/// Attributes to set; `None` leaves one alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The low 12 bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes: truncates or extends with zeros.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of the content.
    pub mtime: Option<SetTime>,
}

/// Owner and permissions of the root directory of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootDirectory {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission, set-id and sticky bits: the low 12.
    pub mode: u16,
}

impl Default for RootDirectory {
    /// It belongs to root, and only root can change it.
    fn default() -> Self {
        Self { uid: 0, gid: 0, mode: 0o755 }
    }
}

impl From<Attributes> for RootDirectory {
    fn from(Attributes { uid, gid, mode, .. }: Attributes) -> Self {
        Self { uid, gid, mode }
    }
}

/// The user on whose behalf a call is made, after the export's squashing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// User; 0 is the superuser.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// The superuser.
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: Vec::new() }
    }

    /// Whether this is the superuser.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether `gid` is one of the user's groups.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}
