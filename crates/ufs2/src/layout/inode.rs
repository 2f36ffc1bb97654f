//! The inode: 256 bytes that describe a file.

use std::mem::offset_of;
use std::ops::Range;

use directory::entry::{kind_bits, kind_of_bits};
use runtime::Timestamp;
use vfs::{Device, FileKind};
use zerocopy::little_endian::{I32, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an inode.
pub const INODE_SIZE: u64 = size_of::<Dinode>() as u64;
/// The root directory. Inodes 0 and 1 are never files and always count as used.
pub const ROOT_INODE: u64 = 2;
/// Pointers to data blocks in an inode itself.
pub const DIRECT_POINTERS: usize = 12;
/// Blocks of a file that its inode points at.
pub const DIRECT_BLOCKS: u64 = DIRECT_POINTERS as u64;
/// Bytes of a pointer, in inodes and in indirect blocks.
pub const POINTER_SIZE: usize = size_of::<I64>();
/// Pointers to indirect blocks: one level, two, three.
pub const INDIRECT_POINTERS: usize = 3;
/// Bytes of the pointers, which can hold the target of a symbolic link instead. A target must be
/// *shorter* than this to be stored there.
pub const INLINE_SYMLINK_SIZE: usize = 120;
/// The most names that a file can have. FreeBSD 14 counts without a sign and leaves the highest
/// numbers alone; systems before it take a count of more than 32,767 for a negative one.
pub const MAX_LINKS: u32 = 65_500;
/// The unit of [`Dinode::sectors`], in bytes.
pub const SECTOR_SIZE: u64 = 512;
/// The bit of [`Dinode::flags`] that marks a snapshot file.
pub const FLAG_SNAPSHOT: u32 = 0x0020_0000;
/// The flags that forbid any change of a file: `uchg`, `schg`.
pub const FLAGS_IMMUTABLE: u32 = 0x0000_0002 | 0x0002_0000;
/// The flags that allow a file only to become longer: `uappnd`, `sappnd`.
pub const FLAGS_APPEND_ONLY: u32 = 0x0000_0004 | 0x0004_0000;
/// The flags that forbid removing names of a file: `uunlnk`, `sunlnk`.
pub const FLAGS_NO_UNLINK: u32 = 0x0000_0010 | 0x0010_0000;
/// The permission bits of the mode; the others are the file type.
pub const MODE_PERMISSIONS: u16 = 0o7777;

/// An inode. It is free if its mode is 0; then size, sectors and pointers are 0, while the
/// generation stays, so that no handle of the old file fits the next one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Dinode {
    /// File type (high 4 bits) and permissions (low 12).
    pub mode: U16,
    /// Names of the file; for directories 2 and one for each subdirectory.
    pub links: U16,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Zero in practice.
    pub block_size: U32,
    /// Length in bytes. 0 for fifos, sockets and devices.
    pub size: U64,
    /// 512-byte sectors held by data, indirect blocks and extended attributes.
    pub sectors: U64,
    /// Last read, in seconds.
    pub atime: I64,
    /// Last change of the content, in seconds.
    pub mtime: I64,
    /// Last change of content or attributes, in seconds.
    pub ctime: I64,
    /// Creation, in seconds.
    pub birthtime: I64,
    /// Nanoseconds of `mtime`. They come before those of `atime`.
    pub mtime_nanoseconds: I32,
    /// Nanoseconds of `atime`.
    pub atime_nanoseconds: I32,
    /// Nanoseconds of `ctime`.
    pub ctime_nanoseconds: I32,
    /// Nanoseconds of `birthtime`.
    pub birthtime_nanoseconds: I32,
    /// Generation of the inode number.
    pub generation: U32,
    /// Flags of the running kernel.
    pub kernel_flags: U32,
    /// Flags that users set (chflags), and [`FLAG_SNAPSHOT`].
    pub flags: U32,
    /// Bytes of extended attributes.
    pub attribute_size: U32,
    /// Blocks of extended attributes, in fragments.
    pub attribute_blocks: [I64; 2],
    /// Data blocks, in fragments; 0 is a hole. Inline symlinks and device numbers are here too.
    pub direct: [I64; DIRECT_POINTERS],
    /// Indirect blocks of one, two and three levels, in fragments; 0 is a hole.
    pub indirect: [I64; INDIRECT_POINTERS],
    /// Change counter for NFSv4.
    pub change: U64,
    /// Journal: the next file without a name. FreeBSD 14 keeps a directory's depth here.
    pub free_link: U32,
    /// Check hash of the inode, when mode is not 0.
    pub check_hash: U32,
    /// Spare bytes. FreeBSD ignores them.
    pub spare: [u8; 8],
}

offsets!(Dinode, 256, {
    mode: 0, links: 2, uid: 4, gid: 8, block_size: 12, size: 16, sectors: 24, atime: 32,
    mtime: 40, ctime: 48, birthtime: 56, mtime_nanoseconds: 64, atime_nanoseconds: 68,
    ctime_nanoseconds: 72, birthtime_nanoseconds: 76, generation: 80, kernel_flags: 84,
    flags: 88, attribute_size: 92, attribute_blocks: 96, direct: 112, indirect: 208, change: 232,
    free_link: 240, check_hash: 244, spare: 248,
});

/// The mode of a file of this kind with these permissions.
pub const fn mode_of(kind: FileKind, permissions: u16) -> u16 {
    ((kind_bits(kind) as u16) << 12) | (permissions & MODE_PERMISSIONS)
}

impl Dinode {
    /// An inode of zeros: free, and without a generation.
    pub fn zeroed() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }

    /// The inode at `offset` bytes in a block of inodes.
    ///
    /// # Panics
    /// When it is not within the block: [`super::Geometry::inode_position`] gives the offset.
    pub fn at(block: &[u8], offset: usize) -> &Self {
        let (inode, _) =
            Self::ref_from_prefix(&block[offset..]).expect("the inode is in its block");
        inode
    }

    /// The inode at `offset` bytes in a block of inodes, for changes.
    ///
    /// # Panics
    /// As [`Dinode::at`].
    pub fn at_mut(block: &mut [u8], offset: usize) -> &mut Self {
        let (inode, _) =
            Self::mut_from_prefix(&mut block[offset..]).expect("the inode is in its block");
        inode
    }

    /// Whether both have the same length, blocks and pointers.
    pub fn has_extent_of(&self, other: &Self) -> bool {
        self.size == other.size
            && self.sectors == other.sectors
            && self.attribute_size == other.attribute_size
            && self.attribute_blocks == other.attribute_blocks
            && self.direct == other.direct
            && self.indirect == other.indirect
    }

    /// Takes length, blocks and pointers from `other`.
    pub fn take_extent_of(&mut self, other: &Self) {
        self.size = other.size;
        self.sectors = other.sectors;
        self.attribute_size = other.attribute_size;
        self.attribute_blocks = other.attribute_blocks;
        self.direct = other.direct;
        self.indirect = other.indirect;
    }

    /// Whether the inode is free.
    pub fn is_free(&self) -> bool {
        self.mode.get() == 0
    }

    /// The file type; nothing when the inode is free or its mode makes no sense.
    pub fn kind(&self) -> Option<FileKind> {
        kind_of_bits((self.mode.get() >> 12) as u8)
    }

    /// Permission, set-id and sticky bits.
    pub fn permissions(&self) -> u16 {
        self.mode.get() & MODE_PERMISSIONS
    }

    /// Last read.
    pub fn access_time(&self) -> Timestamp {
        timestamp(self.atime, self.atime_nanoseconds)
    }

    /// Last change of the content.
    pub fn modify_time(&self) -> Timestamp {
        timestamp(self.mtime, self.mtime_nanoseconds)
    }

    /// Last change of content or attributes.
    pub fn change_time(&self) -> Timestamp {
        timestamp(self.ctime, self.ctime_nanoseconds)
    }

    /// Creation.
    pub fn birth_time(&self) -> Timestamp {
        timestamp(self.birthtime, self.birthtime_nanoseconds)
    }

    /// Sets the time of the last read.
    pub fn set_access_time(&mut self, time: Timestamp) {
        (self.atime, self.atime_nanoseconds) = seconds_and_nanoseconds(time);
    }

    /// Forgets the verifier of an exclusive creation, which is kept in the change counter: the file
    /// has changed since.
    pub fn forget_verifier(&mut self) {
        self.change.set(0);
    }

    /// Sets the time of the last change of the content.
    pub fn set_modify_time(&mut self, time: Timestamp) {
        (self.mtime, self.mtime_nanoseconds) = seconds_and_nanoseconds(time);
    }

    /// Sets the time of the last change of content or attributes.
    pub fn set_change_time(&mut self, time: Timestamp) {
        (self.ctime, self.ctime_nanoseconds) = seconds_and_nanoseconds(time);
    }

    /// Sets the time of creation.
    pub fn set_birth_time(&mut self, time: Timestamp) {
        (self.birthtime, self.birthtime_nanoseconds) = seconds_and_nanoseconds(time);
    }

    /// The 120 bytes of the pointers, as an inline symbolic link uses them.
    pub fn inline_symlink_area(&self) -> &[u8; INLINE_SYMLINK_SIZE] {
        self.as_bytes()[INLINE_SYMLINK_START..]
            .first_chunk()
            .expect("the pointers lie in the inode")
    }

    /// The same bytes, for changes. The bytes after the target must be zero.
    pub fn inline_symlink_area_mut(&mut self) -> &mut [u8; INLINE_SYMLINK_SIZE] {
        self.as_mut_bytes()[INLINE_SYMLINK_START..]
            .first_chunk_mut()
            .expect("the pointers lie in the inode")
    }

    /// The device that a device file names.
    pub fn device(&self) -> Device {
        unpack_device(self.direct[0].get() as u64)
    }

    /// Makes the inode name a device.
    pub fn set_device(&mut self, device: Device) {
        self.direct[0].set(pack_device(device) as i64);
    }
}

/// The bytes of an inode that represent the file type, and whether the inode is in use.
pub const KIND_FIELD: Range<usize> = field(offset_of!(Dinode, mode), size_of::<U16>());
/// The bytes of the link count.
pub const LINKS_FIELD: Range<usize> = field(offset_of!(Dinode, links), size_of::<U16>());
/// The bytes that represent length, blocks and pointers.
pub const EXTENT_FIELD: Range<usize> = field(offset_of!(Dinode, size), size_of::<U64>());

const fn field(start: usize, size: usize) -> Range<usize> {
    start..start + size
}

const INLINE_SYMLINK_START: usize = offset_of!(Dinode, direct);

/// A time from the disk. Nanoseconds out of range, which damage can leave, count as 0.
fn timestamp(seconds: I64, nanoseconds: I32) -> Timestamp {
    let nanoseconds = u32::try_from(nanoseconds.get()).ok().filter(|&n| n < 1_000_000_000);
    Timestamp { seconds: seconds.get(), nanoseconds: nanoseconds.unwrap_or(0) }
}

fn seconds_and_nanoseconds(time: Timestamp) -> (I64, I32) {
    assert!(time.nanoseconds < 1_000_000_000, "a Timestamp holds less than a second of these");
    (I64::new(time.seconds), I32::new(time.nanoseconds as i32))
}

/// FreeBSD's 64-bit device number: it grew from 16 bits, so the halves are interleaved.
///
/// | bits of the number | hold |
/// |---|---|
/// | 0 to 7 | minor 0 to 7 |
/// | 8 to 15 | major 0 to 7 |
/// | 16 to 31 | minor 16 to 31 |
/// | 32 to 39 | minor 8 to 15 |
/// | 40 to 63 | major 8 to 31 |
pub fn pack_device(device: Device) -> u64 {
    let (major, minor) = (u64::from(device.major), u64::from(device.minor));
    (minor & 0xffff_00ff)
        | (major & 0xff) << 8
        | (minor >> 8 & 0xff) << 32
        | (major >> 8 & 0xff_ffff) << 40
}

/// The reverse of [`pack_device`].
pub fn unpack_device(number: u64) -> Device {
    let major = (number >> 8 & 0xff) | (number >> 40) << 8;
    let minor = (number & 0xffff_00ff) | (number >> 32 & 0xff) << 8;
    Device { major: major as u32, minor: minor as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn device_numbers_come_back(major in any::<u32>(), minor in any::<u32>()) {
            let device = Device { major, minor };
            prop_assert_eq!(unpack_device(pack_device(device)), device);
        }
    }

    #[test]
    fn small_device_numbers_fill_16_bits() {
        assert_eq!(pack_device(Device { major: 0x12, minor: 0x34 }), 0x1234);
    }

    #[test]
    fn large_device_numbers_are_interleaved() {
        let device = Device { major: 0x1234_5678, minor: 0x9abc_def0 };
        assert_eq!(pack_device(device), 0x1234_56de_9abc_78f0);
    }

    #[test]
    fn every_kind_has_bits_of_its_own() {
        for bits in 0..16 {
            if let Some(kind) = kind_of_bits(bits) {
                assert_eq!(kind_bits(kind), bits);
                assert_eq!(mode_of(kind, 0o170_755), u16::from(bits) << 12 | 0o755);
            }
        }
    }

    #[test]
    fn nanoseconds_stand_where_the_format_has_them() {
        let mut inode = Dinode::zeroed();
        let time = |n| Timestamp { seconds: -i64::from(n), nanoseconds: n };
        inode.set_access_time(time(1));
        inode.set_modify_time(time(2));
        inode.set_change_time(time(3));
        inode.set_birth_time(time(4));
        assert_eq!(inode.as_bytes()[64..80], [2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(inode.access_time(), time(1));
        assert_eq!(inode.modify_time(), time(2));
        assert_eq!(inode.change_time(), time(3));
        assert_eq!(inode.birth_time(), time(4));
    }

    #[test]
    fn an_extent_is_all_that_says_where_data_is_and_nothing_else() {
        let (empty, mut full) = (Dinode::zeroed(), Dinode::zeroed());
        full.as_mut_bytes().fill(0x5a);
        let mut taken = empty;
        taken.take_extent_of(&full);
        let bytes = taken.as_bytes();
        let expected =
            |at: usize| if (16..32).contains(&at) || (92..232).contains(&at) { 0x5a } else { 0 };
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == expected(at)), "{bytes:x?}");
        assert!(taken.has_extent_of(&full) && !taken.has_extent_of(&empty));
        for at in (16..32).chain(92..232) {
            let mut other = full;
            other.as_mut_bytes()[at] ^= 1;
            assert!(!other.has_extent_of(&full), "byte {at}");
        }
    }

    #[test]
    fn impossible_nanoseconds_count_as_zero() {
        let mut inode = Dinode::zeroed();
        for nanoseconds in [-1, 1_000_000_000] {
            inode.mtime_nanoseconds.set(nanoseconds);
            assert_eq!(inode.modify_time().nanoseconds, 0);
        }
    }

    #[test]
    fn the_inline_target_lies_over_all_pointers_and_nothing_else() {
        let mut inode = Dinode::zeroed();
        inode.inline_symlink_area_mut().fill(0xff);
        assert!(inode.direct.iter().chain(&inode.indirect).all(|pointer| pointer.get() == -1));
        inode.direct = Default::default();
        inode.indirect = Default::default();
        assert!(inode.as_bytes().iter().all(|&byte| byte == 0));
    }
}
