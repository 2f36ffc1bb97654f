//! Makes a new, empty UFS2 file system.
//!
//! [`plan`] divides the disk, without touching it; [`mkfs`] writes the result.
//!
//! # Writes, in order
//! 1. Zeros over the primary superblock and the recovery record, and the number that marks an
//!    unfinished file system; a flush. From here on the disk is no file system.
//! 2. All the rest, in any order: for each group its backup superblock and its group block, in one
//!    write; the first inodes; the summary area and the root directory. A flush.
//! 3. The primary superblock and the recovery record; a flush. **That is the commit point**: cut
//!    before it, the disk has the number of one that was never finished; torn at it, the superblock
//!    does not parse or does not fit its hash.
//!
//! # Deliberately absent
//! * Inode tables. A group states how many of its inodes are initialised; group 0 starts with two
//!   blocks of them, which hold the root, and the others with none. So a disk of a terabyte takes
//!   one small write a group, and its earlier contents do not matter.
//! * `lost+found` and `.snap`: the checker and the snapshot tool make theirs when they need it.
//! * Erasing the data area, and the boot area in the first 64 KiB.
//! * Backup superblocks of an older file system, where they do not coincide with ours.

mod plan;

use block::{BlockDevice, Buffer, Durability, IoError};
use bytes::Bytes;
use directory::chunk::first_chunk;
use directory::entry::CHUNK_SIZE;
use futures::stream::{self, StreamExt, TryStreamExt};
use runtime::{Random, Timestamp};
use vfs::{FileKind, RootDirectory};
use zerocopy::little_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

use crate::derive::{self, bits};
use crate::layout::{
    Dinode, Geometry, GroupHeader, RECOVERY_RECORD_ADDRESS, ROOT_INODE, RecoveryRecord,
    SECTOR_SIZE, SUPERBLOCK_ADDRESS, SUPERBLOCK_MAGIC, SUPERBLOCK_MAGIC_UNFINISHED,
    SUPERBLOCK_ROOM, Summary, Superblock, Totals, kind_bits, mode_of,
};

pub use plan::{Plan, plan};

/// Options for a new file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes in a block: a power of 2, 4096 to 65536.
    pub block_size: u64,
    /// Bytes in a fragment: the block size or a half, a quarter or an eighth of it, at least 512
    /// and at least a logical sector of the device.
    pub fragment_size: u64,
    /// Bytes of disk per inode. Without a value there is one inode for every two fragments, as in
    /// FreeBSD, or fewer on a disk so large that inode numbers of 32 bits would not suffice.
    pub bytes_per_inode: Option<u64>,
    /// The most blocks in a group. Without a value groups are as large as their maps allow, but a
    /// disk of 16 MiB and more has at least four.
    pub max_group_blocks: Option<u64>,
    /// Percent of the space that only root may fill, 0 to 99.
    pub reserve_percent: u64,
    /// Label of the volume: at most 31 bytes of letters, digits, `-` and `_`.
    pub volume_name: String,
    /// Whether superblocks, groups and inodes have check hashes.
    pub check_hashes: bool,
    /// Owner and permissions of the root directory.
    pub root: RootDirectory,
}

impl Default for MkfsOptions {
    fn default() -> Self {
        Self {
            block_size: 32_768,
            fragment_size: 4_096,
            bytes_per_inode: None,
            max_group_blocks: None,
            reserve_percent: 8,
            volume_name: String::new(),
            check_hashes: true,
            root: RootDirectory::default(),
        }
    }
}

/// The reasons for which no file system was made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MkfsError {
    /// An option is out of its range.
    #[error("the {option} cannot be {found}: it must be {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// The legal values.
        expected: String,
    },
    /// The disk is too small for the metadata.
    #[error("{size} bytes are too small for a file system; with these options {needed} are needed")]
    TooSmall {
        /// Bytes of the disk.
        size: u64,
        /// The smallest sufficient size in bytes.
        needed: u64,
    },
    /// The disk is larger than the format can describe with these block sizes.
    #[error("{size} bytes are too large for these block sizes; larger blocks reach further")]
    TooLarge {
        /// Bytes of the disk.
        size: u64,
    },
    /// The device refuses writes.
    #[error("the disk is write-protected")]
    ReadOnly,
    /// The device failed. Its contents are no file system now.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Groups in flight to the device at once.
const GROUPS_IN_FLIGHT: usize = 64;

/// Makes an empty file system that fills `device`, and returns its shape.
///
/// # Errors
/// [`MkfsError`]: options are checked before anything is written.
pub async fn mkfs(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Geometry, MkfsError> {
    let target = device.geometry();
    if target.read_only {
        return Err(MkfsError::ReadOnly);
    }
    let sector = u64::from(target.logical_sector_size).max(SECTOR_SIZE);
    let Plan { geometry, superblock } = plan(target.size, sector, options)?;
    let mut maker = Maker { device, geometry, superblock, root: options.root, now };
    maker.name(random);

    let boot_sector = maker.read_boot_sector(sector).await?;
    maker.erase(&boot_sector).await?;
    device.flush().await?;

    let rows = maker.write_groups().await?;
    maker.write_first_inodes(random).await?;
    maker.write_summary_and_root(&rows).await?;
    device.flush().await?;

    maker.add_totals(&rows);
    maker.write_superblock(&boot_sector).await?; // the commit point
    device.flush().await?;
    Ok(maker.geometry)
}

/// Whether the first bytes of a disk mark an unfinished file system: its superblock consists of the
/// number for that alone, as step 1 leaves it.
pub fn is_begun_mark(head: &[u8]) -> bool {
    let start = SUPERBLOCK_ADDRESS as usize;
    let Some(room) = head.get(start..start + SUPERBLOCK_ROOM as usize) else { return false };
    room == unfinished()
}

/// The contents in place of the superblock meanwhile.
fn unfinished() -> Vec<u8> {
    let mut superblock = Superblock::new_zeroed();
    superblock.magic.set(SUPERBLOCK_MAGIC_UNFINISHED);
    let mut room = superblock.as_bytes().to_vec();
    room.resize(SUPERBLOCK_ROOM as usize, 0);
    room
}

/// A file system in the making.
struct Maker<'a> {
    device: &'a dyn BlockDevice,
    geometry: Geometry,
    superblock: Superblock,
    root: RootDirectory,
    now: Timestamp,
}

impl Maker<'_> {
    /// Sets the identity and the creation time of the file system.
    fn name(&mut self, random: &dyn Random) {
        let now = self.now.seconds;
        self.superblock.id = [U32::new(now as u32), U32::new(random.next_u64() as u32)];
        self.superblock.time.set(now);
        self.superblock.mount_time.set(now);
    }

    /// The sector that ends with the recovery record; the rest of it may be boot code.
    async fn read_boot_sector(&self, sector: u64) -> Result<Buffer, IoError> {
        self.device.read(SUPERBLOCK_ADDRESS - sector, Buffer::zeroed(sector as usize)).await
    }

    async fn erase(&self, boot_sector: &[u8]) -> Result<(), IoError> {
        let none = [0; size_of::<RecoveryRecord>()];
        self.write_head(boot_sector, &none, &unfinished()).await
    }

    async fn write_superblock(&mut self, boot_sector: &[u8]) -> Result<(), IoError> {
        let record = RecoveryRecord {
            magic: U32::new(SUPERBLOCK_MAGIC),
            sector_shift: self.superblock.sector_shift,
            backup_offset: self.superblock.backup_offset,
            fragments_per_group: self.superblock.fragments_per_group,
            group_count: self.superblock.group_count,
        };
        let superblock = self.superblock_copy(SUPERBLOCK_ADDRESS);
        self.write_head(boot_sector, record.as_bytes(), &superblock).await
    }

    /// Writes the boot sector with this recovery record, and right behind it the superblock.
    async fn write_head(
        &self,
        boot_sector: &[u8],
        record: &[u8],
        superblock: &[u8],
    ) -> Result<(), IoError> {
        let sector = boot_sector.len();
        let mut head = Buffer::zeroed(sector + SUPERBLOCK_ROOM as usize);
        head[..sector].copy_from_slice(boot_sector);
        let start = SUPERBLOCK_ADDRESS - sector as u64;
        let record_at = (RECOVERY_RECORD_ADDRESS - start) as usize;
        head[record_at..sector].copy_from_slice(record);
        head[sector..sector + superblock.len()].copy_from_slice(superblock);
        self.device.write(start, vec![head.freeze()], Durability::Plain).await
    }

    /// The superblock for a byte address: each copy contains its own.
    fn superblock_copy(&self, address: u64) -> Vec<u8> {
        let mut superblock = self.superblock;
        superblock.own_address.set(address as i64);
        let mut copy = superblock.as_bytes().to_vec();
        copy.resize(self.geometry.superblock_size as usize, 0);
        self.geometry.seal_superblock(&mut copy);
        copy
    }

    /// Writes backup superblock and group block of every group; returns the summary rows.
    async fn write_groups(&self) -> Result<Vec<Summary>, IoError> {
        stream::iter(0..self.geometry.group_count)
            .map(|group| async move {
                let (bytes, counts) = self.make_group(group);
                let fragment = self.geometry.backup_superblock_fragment(group);
                let address = self.geometry.byte_address(fragment);
                self.device.write(address, vec![bytes], Durability::Plain).await?;
                Ok(counts)
            })
            .buffered(GROUPS_IN_FLIGHT)
            .try_collect()
            .await
    }

    /// The backup superblock, zeros, and the group block, which are close to each other.
    fn make_group(&self, group: u64) -> (Bytes, Summary) {
        let geometry = &self.geometry;
        let backup = geometry.backup_superblock_fragment(group);
        let gap = geometry.byte_address(geometry.group_header_fragment(group) - backup) as usize;
        let mut bytes = Buffer::zeroed(gap + geometry.group_block_size as usize);
        let copy = self.superblock_copy(geometry.byte_address(backup));
        bytes[..copy.len()].copy_from_slice(&copy);
        let counts = self.make_group_block(group, &mut bytes[gap..]);
        (bytes.freeze(), counts)
    }

    fn make_group_block(&self, group: u64, block: &mut [u8]) -> Summary {
        let geometry = &self.geometry;
        derive::initialize_group(geometry, group, block);
        if group == 0 {
            // Inodes 0 and 1 are never files and always count as used.
            bits::set_range(geometry.maps.inodes_in_mut(block), 0..ROOT_INODE + 1);
            bits::clear(geometry.maps.fragments_in_mut(block), self.root_fragment());
            let initialized = self.first_inodes() as u32;
            let header = GroupHeader::of_mut(block);
            header.initialized_inodes.set(initialized);
            header.counts.directories.set(1);
        }
        let counts = derive::recompute_group(geometry, group, block);
        GroupHeader::of_mut(block).time.set(self.now.seconds);
        geometry.seal_group(block);
        counts
    }

    /// Address of the root directory's only fragment: the first that is free, in group 0.
    fn root_fragment(&self) -> u64 {
        self.geometry.summary_address + self.geometry.summary_fragments
    }

    /// Number of inodes of group 0 that are initialised from the start.
    fn first_inodes(&self) -> u64 {
        self.geometry.inodes_per_group.min(2 * self.geometry.inodes_per_block)
    }

    /// Writes the initialised inodes of group 0: the root, and free ones that only have a
    /// generation, so that handles of a former file system do not fit the files of this one.
    async fn write_first_inodes(&self, random: &dyn Random) -> Result<(), IoError> {
        let geometry = &self.geometry;
        let size = size_of::<Dinode>();
        let mut table = Buffer::zeroed(self.first_inodes() as usize * size);
        for index in 0..self.first_inodes() {
            let inode = Dinode::at_mut(&mut table, index as usize * size);
            inode.generation.set(generation(random));
            if index == ROOT_INODE {
                self.make_root(inode);
            }
            geometry.seal_inode(inode);
        }
        let address = geometry.byte_address(geometry.inode_table_fragment(0));
        self.device.write(address, vec![table.freeze()], Durability::Plain).await
    }

    fn make_root(&self, inode: &mut Dinode) {
        inode.mode.set(mode_of(FileKind::Directory, self.root.mode));
        inode.uid.set(self.root.uid);
        inode.gid.set(self.root.gid);
        inode.links.set(2);
        inode.size.set(CHUNK_SIZE as u64);
        inode.sectors.set(self.geometry.fragment_size / SECTOR_SIZE);
        inode.direct[0].set(self.root_fragment() as i64);
        inode.set_access_time(self.now);
        inode.set_modify_time(self.now);
        inode.set_change_time(self.now);
        inode.set_birth_time(self.now);
    }

    /// Writes the summary area and, right behind it, the body of the root directory.
    async fn write_summary_and_root(&self, rows: &[Summary]) -> Result<(), IoError> {
        let geometry = &self.geometry;
        let area = geometry.byte_address(geometry.summary_fragments) as usize;
        let mut bytes = Buffer::zeroed(area + geometry.fragment_size as usize);
        let (row_bytes, root) = bytes.split_at_mut(area);
        Summary::rows_mut(row_bytes)[..rows.len()].copy_from_slice(rows);
        let ino = ROOT_INODE as u32;
        root[..CHUNK_SIZE].copy_from_slice(&first_chunk(ino, ino, kind_bits(FileKind::Directory)));
        let address = geometry.byte_address(geometry.summary_address);
        self.device.write(address, vec![bytes.freeze()], Durability::Plain).await
    }

    /// Adds the rows to the totals of the superblock.
    fn add_totals(&mut self, rows: &[Summary]) {
        self.superblock.totals = Totals::of(rows);
    }
}

/// A random generation. Zero would mean "none yet".
fn generation(random: &dyn Random) -> u32 {
    (random.next_u64() as u32).max(1)
}
