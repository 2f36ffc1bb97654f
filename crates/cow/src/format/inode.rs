//! Inodes on the disk.

use std::mem::offset_of;
use std::ops::Range;

use directory::entry::{kind_bits, kind_of_bits};
use namespace::NewFile;
use vfs::{Device, FileKind, Timestamp};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::head::Head;
use super::pointer::{HIGHEST, Root};
use super::{view, view_mut};

/// A time.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Time {
    seconds: I64,
    nanoseconds: U32,
}

/// An inode. One of zeros is free.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Record {
    /// Kind and permissions, as in UNIX; 0 if free.
    mode: U16,
    /// Height of its tree.
    pub height: u8,
    /// Whether `verifier` counts.
    has_verifier: u8,
    generation: U32,
    links: U32,
    uid: U32,
    gid: U32,
    major: U32,
    minor: U32,
    size: U64,
    /// Units of its leaves.
    units: U64,
    atime: Time,
    mtime: Time,
    ctime: Time,
    verifier: [u8; 8],
    /// Its tree; or the target of a symbolic link, if it fits.
    pub root: Root,
    reserved: [u8; 20],
}

const _: () = assert!(size_of::<Record>() == 252);

/// The longest target of a symbolic link that is stored in the inode.
pub const INLINE: usize = size_of::<Root>();

/// Attributes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Kind of file.
    pub kind: FileKind,
    /// Permissions, as in UNIX.
    pub mode: u16,
    /// Generation: differs between files that had this number.
    pub generation: u32,
    /// Link count.
    pub links: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Device number of a device file.
    pub device: Device,
    /// Size in bytes.
    pub size: u64,
    /// Units of its leaves.
    pub units: u64,
    /// Time of the last read.
    pub atime: Timestamp,
    /// Time of the last write.
    pub mtime: Timestamp,
    /// Time of the last change.
    pub ctime: Timestamp,
    /// Verifier of an exclusive create, until attributes are set.
    pub verifier: Option<[u8; 8]>,
}

const PERMISSIONS: u16 = 0o7777;

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self { seconds: time.seconds.into(), nanoseconds: time.nanoseconds.into() }
    }
}

impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        Self { seconds: time.seconds.get(), nanoseconds: time.nanoseconds.get() }
    }
}

impl Facts {
    /// Attributes of a new file.
    pub fn new(new: &NewFile<'_>, generation: u32, now: Timestamp) -> Self {
        Self {
            kind: new.kind,
            generation,
            mode: new.mode & PERMISSIONS,
            links: if new.kind == FileKind::Directory { 2 } else { 1 },
            uid: new.uid,
            gid: new.gid,
            device: new.device,
            size: new.target.len() as u64,
            units: 0,
            atime: now,
            mtime: now,
            ctime: now,
            verifier: new.verifier,
        }
    }

    /// Whether it is a symbolic link whose target is stored in the inode.
    pub fn is_inline(&self) -> bool {
        self.kind == FileKind::Symlink && self.size <= INLINE as u64
    }
}

impl Record {
    /// Bytes of an inode that say where its tree is: its height, and its root.
    pub const TREE: [Range<usize>; 2] = [
        offset_of!(Self, height)..offset_of!(Self, has_verifier),
        offset_of!(Self, root)..offset_of!(Self, reserved),
    ];

    /// Byte at which the inode of this slot begins in its block.
    pub fn offset(slot: u64) -> usize {
        size_of::<Head>() + slot as usize * size_of::<Self>()
    }

    /// The inode in a slot of a block of inodes.
    pub fn of(block: &[u8], slot: u64) -> &Self {
        view(&block[Self::offset(slot)..])
    }

    /// The same, mutable.
    pub fn of_mut(block: &mut [u8], slot: u64) -> &mut Self {
        view_mut(&mut block[Self::offset(slot)..])
    }

    /// Whether it belongs to no file.
    pub fn is_free(&self) -> bool {
        self.mode.get() == 0
    }

    /// Its attributes; none if it is free, or makes no sense.
    pub fn facts(&self) -> Option<Facts> {
        let mode = self.mode.get();
        let facts = Facts {
            kind: kind_of_bits((mode >> 12) as u8)?,
            mode: mode & PERMISSIONS,
            generation: self.generation.get(),
            links: self.links.get(),
            uid: self.uid.get(),
            gid: self.gid.get(),
            device: Device { major: self.major.get(), minor: self.minor.get() },
            size: self.size.get(),
            units: self.units.get(),
            atime: self.atime.into(),
            mtime: self.mtime.into(),
            ctime: self.ctime.into(),
            verifier: (self.has_verifier != 0).then_some(self.verifier),
        };
        (self.height <= HIGHEST).then_some(facts)
    }

    /// Sets its attributes. Its tree stays.
    pub fn set(&mut self, facts: &Facts) {
        let Facts { kind, mode, generation, links, uid, gid, device, size, .. } = facts;
        *self = Self {
            mode: (u16::from(kind_bits(*kind)) << 12 | mode).into(),
            height: self.height,
            has_verifier: u8::from(facts.verifier.is_some()),
            generation: (*generation).into(),
            links: (*links).into(),
            uid: (*uid).into(),
            gid: (*gid).into(),
            major: device.major.into(),
            minor: device.minor.into(),
            size: (*size).into(),
            units: facts.units.into(),
            atime: facts.atime.into(),
            mtime: facts.mtime.into(),
            ctime: facts.ctime.into(),
            verifier: facts.verifier.unwrap_or_default(),
            root: self.root,
            reserved: [0; 20],
        };
    }

    /// Sets the time of the last read.
    pub fn set_access_time(&mut self, time: Timestamp) {
        self.atime = time.into();
    }

    /// Frees it: it has no tree afterwards.
    pub fn clear(&mut self) {
        self.zero();
    }

    /// The target of a symbolic link that is stored in it.
    pub fn target(&self, length: usize) -> &[u8] {
        &self.root.as_bytes()[..length]
    }

    /// Stores the target of a symbolic link.
    pub fn set_target(&mut self, target: &[u8]) {
        self.root.as_mut_bytes()[..target.len()].copy_from_slice(target);
    }
}
