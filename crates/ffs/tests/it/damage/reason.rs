//! Reasons why a damage cannot be detected: the bytes are dead, or any value of them is legal.
//!
//! The question is not whether a byte may be excused but whether *this change* may: the new value
//! is put back to the old one field by field, wherever the new one is legal by itself. If any
//! difference is left, there is no excuse, and a checker that reports nothing has missed it.

use std::ops::Range;

use directory::entry::{CHUNK_SIZE, ENTRY_HEADER_SIZE, EntryHeader, minimum_record_length};
use ufs2::layout::{
    DIRECT_POINTERS, Dinode, FLAG_SNAPSHOT, FLAGS_MOVED, Geometry, GroupHeader,
    INLINE_SYMLINK_SIZE, INODE_SIZE, RECOVERY_RECORD_ADDRESS, SUPERBLOCK_ADDRESS, Superblock,
    flags, hashes,
};
use vfs::FileKind;
use zerocopy::{FromBytes, IntoBytes};

use super::base::Base;
use super::map::Owner;
use super::mutation::Mutation;
use crate::common::MemoryDisk;
use crate::common::edit::{group_at, inode_at};

/// Reason why a damage cannot be detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    // The bytes are never read.
    FreeSpace,
    InCorePointers,
    OldFields,
    FreeInodeRemains,
    UninitialisedInode,
    UnusedInodeField,
    EntrySlack,
    EmptyEntry,
    // Any value is legal.
    Content,
    BlockOrder,
    Permissions,
    Ownership,
    Seconds,
    Nanoseconds,
    Generation,
    FileFlags,
    ChangeCounter,
    SizeInTail,
    EmptyChunks,
    LinkTarget,
    DeviceNumber,
    Name,
    NoDepth,
    Depth,
    Label,
    MountPoint,
    Tunable,
    Hint,
    WriteTime,
    MoreInodes,
    VolumeFlags,
    HashesKept,
    StaleCopy,
}

impl Reason {
    /// Whether the bytes are dead, so that nothing was harmed.
    pub(crate) fn is_harmless(self) -> bool {
        self <= Self::EmptyEntry
    }
}

/// Reason why the damage cannot be detected; `None` if it must be.
pub(crate) fn reason(base: &Base, mutation: &Mutation, disk: &MemoryDisk) -> Option<Reason> {
    let mut worst = None;
    let touched: Vec<u64> = fragments_of(base, mutation).collect();
    for &start in &touched {
        let one = excuse(base, disk, start).or_else(|| in_indirects(base, disk, &touched, start));
        worst = worst.max(Some(one?));
    }
    worst
}

/// First fragments of the ranges that a mutation touches.
fn fragments_of<'a>(base: &'a Base, mutation: &'a Mutation) -> impl Iterator<Item = u64> + 'a {
    let step = base.geometry.fragment_size;
    mutation.changes.iter().flat_map(move |(at, bytes)| {
        (at - at % step..at + bytes.len() as u64).step_by(step as usize)
    })
}

/// The excuse for all changes in one fragment; no change at all is as good as free space.
fn excuse(base: &Base, disk: &MemoryDisk, start: u64) -> Option<Reason> {
    let geometry = &base.geometry;
    let size = geometry.fragment_size as usize;
    let (old, new) = (base.disk.bytes(start, size), disk.bytes(start, size));
    if old == new {
        return Some(Reason::FreeSpace);
    }
    match base.map.owner(start) {
        Owner::Nothing => in_free_space(start, &old, &new),
        Owner::Data(ino, _) => in_data(base, ino, &new),
        Owner::Directory(ino, offset) => in_directory(base, ino, offset, &old, &new),
        Owner::Inodes(first) => {
            let count = geometry.fragment_size / INODE_SIZE;
            let inodes = (first..first + count).map(|ino| in_inode(base, disk, ino));
            inodes.max_by_key(|one| one.map_or((1, None), |one| (0, Some(one))))?
        }
        Owner::Group(group) => in_group(base, disk, group),
        Owner::Superblock => in_superblock(base, disk, SUPERBLOCK_ADDRESS, false),
        Owner::Backup(group) => {
            let fragment = geometry.backup_superblock_fragment(group);
            in_superblock(base, disk, geometry.byte_address(fragment), true)
        }
        Owner::Attribute(ino, _) => in_attributes(base, disk, ino),
        Owner::Indirect(ino, _) => in_indirect(base, disk, ino, start),
        Owner::Summary => None,
    }
}

fn in_free_space(start: u64, old: &[u8], new: &[u8]) -> Option<Reason> {
    let end = start + old.len() as u64;
    if start < SUPERBLOCK_ADDRESS && RECOVERY_RECORD_ADDRESS < end {
        let record = (RECOVERY_RECORD_ADDRESS - start) as usize;
        // A record without its magic number is absent, which is legal.
        let gone = new[record..record + 4] != old[record..record + 4];
        return (gone || old[record..] == new[record..]).then_some(Reason::FreeSpace);
    }
    Some(Reason::FreeSpace)
}

fn in_data(base: &Base, ino: u64, new: &[u8]) -> Option<Reason> {
    let dinode = &base.map.inodes[&ino];
    Some(match dinode.kind() {
        Some(FileKind::Symlink) => {
            let size = dinode.size.get() as usize;
            if new[..size.min(new.len())].contains(&0) {
                return None;
            }
            Reason::LinkTarget
        }
        _ => Reason::Content,
    })
}

fn in_directory(base: &Base, ino: u64, offset: u64, old: &[u8], new: &[u8]) -> Option<Reason> {
    let size = base.map.inodes[&ino].size.get();
    let used = (size.saturating_sub(offset) as usize).min(old.len());
    let mut worst = Reason::FreeSpace;
    let chunks = old[..used].chunks_exact(CHUNK_SIZE).zip(new.chunks_exact(CHUNK_SIZE));
    for (old, new) in chunks {
        worst = worst.max(in_chunk(old, new)?);
    }
    Some(worst)
}

/// Offset of a live entry, its inode and type, and its name.
type LiveEntry<'a> = (usize, u32, u8, &'a [u8]);

/// The live entries of a chunk; `None` if the chain of lengths does not end with the chunk.
fn live_entries(chunk: &[u8]) -> Option<Vec<LiveEntry<'_>>> {
    let (mut live, mut at) = (Vec::new(), 0);
    while at < chunk.len() {
        let (header, _) = EntryHeader::read_from_prefix(&chunk[at..]).ok()?;
        let length = usize::from(header.record_length.get());
        let whole = length.is_multiple_of(4)
            && length >= minimum_record_length(header.name_length.into())
            && at + length <= chunk.len();
        if !whole {
            return None;
        }
        if header.inode.get() != 0 {
            let start = at + ENTRY_HEADER_SIZE;
            let name = &chunk[start..start + usize::from(header.name_length) + 1];
            live.push((at, header.inode.get(), header.kind, name));
        }
        at += length;
    }
    Some(live)
}

/// Names may change. The bytes behind a name and in an empty entry are arbitrary; an empty entry
/// may also belong to the entry before it.
fn in_chunk(old: &[u8], new: &[u8]) -> Option<Reason> {
    if old != new && live_entries(new).is_some_and(|live| live_entries(old) == Some(live)) {
        return Some(Reason::EmptyEntry);
    }
    let (mut new, mut worst) = (new.to_vec(), Reason::FreeSpace);
    let mut put_back = |range: Range<usize>, reason: Reason| {
        if new[range.clone()] != old[range.clone()] {
            new[range.clone()].copy_from_slice(&old[range]);
            worst = worst.max(reason);
        }
    };
    let mut at = 0;
    while at < old.len() {
        let (header, _) = EntryHeader::read_from_prefix(&old[at..]).expect("a sound chunk");
        let length = usize::from(header.record_length.get());
        let start = at + ENTRY_HEADER_SIZE;
        let nul = start + usize::from(header.name_length);
        if header.inode.get() == 0 {
            let fits = minimum_record_length(header.name_length.into()) <= length;
            put_back(start..at + length, Reason::EmptyEntry);
            if fits {
                put_back(at + 6..at + 7, Reason::EmptyEntry);
            }
        } else {
            put_back(nul + 1..at + length, Reason::EntrySlack);
        }
        at += length;
    }
    let mut names = old.to_vec();
    let mut at = 0;
    while at < old.len() {
        let (header, _) = EntryHeader::read_from_prefix(&old[at..]).expect("a sound chunk");
        let (stated, _) = EntryHeader::read_from_prefix(&new[at..]).expect("the same place");
        let start = at + ENTRY_HEADER_SIZE;
        let name = start..start + usize::from(header.name_length);
        let legal = new[name.clone()].iter().all(|&byte| byte != 0 && byte != b'/');
        let dots = matches!(&old[name.clone()], b"." | b"..");
        if header.inode.get() != 0 && legal && !dots && old[name.clone()] != new[name.clone()] {
            names[name.clone()].copy_from_slice(&new[name]);
            worst = worst.max(Reason::Name);
        }
        // An empty entry has no name that could be too long for it.
        let room = usize::from(header.record_length.get());
        let empty = header.inode.get() == 0 && stated.inode.get() == 0;
        if empty && minimum_record_length(stated.name_length.into()) <= room {
            if names[at + 7] != new[at + 7] {
                worst = worst.max(Reason::EmptyEntry);
            }
            names[at + 7] = new[at + 7];
        }
        at += room;
    }
    (names == new).then_some(worst)
}

/// Blocks of a file may have changed places, and holes with them: their original order is unknown.
/// But the last block is not a hole, and there is no block behind the end.
fn in_indirect(base: &Base, disk: &MemoryDisk, ino: u64, start: u64) -> Option<Reason> {
    let size = base.geometry.block_size;
    let first = start - start % size;
    let (mut old, mut new) = (pointers(&base.disk, first, size), pointers(disk, first, size));
    let end = |all: &[u64]| all.iter().rposition(|&address| address != 0);
    let Owner::Indirect(_, lbn) = base.map.owner(first) else { return None };
    let blocks = base.map.inodes[&ino].size.get().div_ceil(size);
    let leads_on = |&address: &u64| {
        matches!(base.map.owner(base.geometry.byte_address(address)), Owner::Indirect(..))
    };
    let is_last = lbn + old.len() as u64 >= blocks || old.iter().any(leads_on);
    let ends = !is_last || end(&old) == end(&new);
    old.sort_unstable();
    new.sort_unstable();
    let regular = base.map.inodes[&ino].kind() == Some(FileKind::Regular);
    (regular && ends && old == new).then_some(Reason::BlockOrder)
}

/// The pointers in a block.
fn pointers(disk: &MemoryDisk, at: u64, size: u64) -> Vec<u64> {
    let bytes = disk.bytes(at, size as usize);
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// As [`in_indirect`], across several indirect blocks of one file, all of them touched: together
/// they point at the same blocks, and the file still ends with a block.
fn in_indirects(base: &Base, disk: &MemoryDisk, touched: &[u64], start: u64) -> Option<Reason> {
    let size = base.geometry.block_size;
    let Owner::Indirect(ino, _) = base.map.owner(start) else { return None };
    let mine = |at: u64| matches!(base.map.owner(at), Owner::Indirect(other, _) if other == ino);
    let blocks = touched.iter().filter(|&&at| mine(at)).map(|at| at - at % size);
    let blocks: std::collections::BTreeSet<u64> = blocks.collect();
    let all = |disk: &MemoryDisk| {
        let all = blocks.iter().flat_map(|&at| pointers(disk, at, size));
        let mut all: Vec<u64> = all.collect();
        all.sort_unstable();
        all
    };
    let inode = &base.map.inodes[&ino];
    let last = inode.size.get().div_ceil(size) - 1;
    let is_whole = block_of(base, disk, ino, last) != 0 && all(&base.disk) == all(disk);
    (inode.kind() == Some(FileKind::Regular) && is_whole).then_some(Reason::BlockOrder)
}

/// Address of a block of a file, or 0 for a hole.
fn block_of(base: &Base, disk: &MemoryDisk, ino: u64, lbn: u64) -> u64 {
    let geometry = &base.geometry;
    let dinode = inode_at(disk, geometry, ino);
    let Some(mut rest) = lbn.checked_sub(dinode.direct.len() as u64) else {
        return dinode.direct[lbn as usize].get() as u64;
    };
    let width = geometry.block_size / 8;
    for (level, root) in dinode.indirect.iter().enumerate() {
        let mut span = width.pow(level as u32 + 1);
        if rest >= span {
            rest -= span;
            continue;
        }
        let mut here = root.get() as u64;
        while here != 0 && span > 1 {
            span /= width;
            let table = pointers(disk, geometry.byte_address(here), geometry.block_size);
            here = table[(rest / span) as usize];
            rest %= span;
        }
        return here;
    }
    0
}

/// The extended attributes of a file, up to their size.
fn attribute_area(base: &Base, disk: &MemoryDisk, ino: u64) -> Vec<u8> {
    let geometry = &base.geometry;
    let size = base.map.inodes[&ino].attribute_size.get() as usize;
    let mine = |owner| matches!(owner, Owner::Attribute(own, _) if own == ino);
    let mut area = vec![0; size.next_multiple_of(geometry.fragment_size as usize)];
    for fragment in base.map.fragments(mine) {
        let byte = geometry.byte_address(fragment);
        let Owner::Attribute(_, at) = base.map.owner(byte) else { unreachable!("chosen") };
        let bytes = disk.bytes(byte, geometry.fragment_size as usize);
        area[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
    }
    area.truncate(size);
    area
}

/// The length of the record at an offset of an undamaged area.
fn record_length(area: &[u8], at: usize) -> usize {
    u32::from_le_bytes(area[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Extended attributes may have any content under any name, as long as the records fill the area.
fn in_attributes(base: &Base, disk: &MemoryDisk, ino: u64) -> Option<Reason> {
    let area = attribute_area(base, disk, ino);
    let (mut at, mut names) = (0, std::collections::BTreeSet::new());
    while at < area.len() {
        if area.len() - at < 8 {
            return None;
        }
        let (length, space, pad) = (record_length(&area, at), area[at + 4], area[at + 5]);
        let end = 7 + usize::from(area[at + 6]);
        let body = end.next_multiple_of(8);
        let whole = length % 8 == 0 && length >= body + usize::from(pad) && pad < 8;
        if !whole || length > area.len() - at || end == 7 || !(1..=2).contains(&space) {
            return None;
        }
        let name = &area[at + 7..at + end];
        if name.contains(&0) || !names.insert((space, name)) {
            return None;
        }
        at += length;
    }
    Some(Reason::Content)
}

fn in_inode(base: &Base, disk: &MemoryDisk, ino: u64) -> Option<Reason> {
    let geometry = &base.geometry;
    let (old, new) = (inode_at(&base.disk, geometry, ino), inode_at(disk, geometry, ino));
    if old.as_bytes() == new.as_bytes() {
        return Some(Reason::FreeSpace);
    }
    let group = geometry.group_of_inode(ino);
    if ino % geometry.inodes_per_group >= base.map.initialised[group as usize] {
        return Some(Reason::UninitialisedInode);
    }
    if old.is_free() {
        return in_free_inode(&old, new);
    }
    if geometry.verify_inode(&new).is_err() {
        return None;
    }
    let mut rest = new;
    if has_empty_tail(base, disk, ino, &old, &new) {
        rest.size = old.size;
        return in_live_inode(geometry, &old, rest).map(|reason| reason.max(Reason::EmptyChunks));
    }
    let directory = old.kind() == Some(FileKind::Directory);
    if directory && new.free_link != old.free_link && new.free_link.get() == depth(base, ino) {
        rest.free_link = old.free_link;
        return in_live_inode(geometry, &old, rest).map(|reason| reason.max(Reason::Depth));
    }
    in_live_inode(geometry, &old, rest)
}

/// Depth of a file below the root.
fn depth(base: &Base, ino: u64) -> u32 {
    let path = base.files.get(&ino).map_or("", |file| file.paths[0].as_str());
    path.matches('/').count() as u32
}

/// Whether a directory only gained or lost chunks without entries, in the fragments that it has.
fn has_empty_tail(base: &Base, disk: &MemoryDisk, ino: u64, old: &Dinode, new: &Dinode) -> bool {
    let (was, is) = (old.size.get(), new.size.get());
    let fragment = base.geometry.fragment_size;
    let chunk = CHUNK_SIZE as u64;
    if old.kind() != Some(FileKind::Directory)
        || is == was
        || is == 0
        || !is.is_multiple_of(chunk)
        || is.div_ceil(fragment) != was.div_ceil(fragment)
    {
        return false;
    }
    let last = (was - 1) / fragment * fragment;
    let own = |owner| owner == Owner::Directory(ino, last);
    let Some(&address) = base.map.fragments(own).first() else { return false };
    let byte = base.geometry.byte_address(address);
    (was.min(is)..was.max(is)).step_by(CHUNK_SIZE).all(|start| {
        let bytes = disk.bytes(byte + start - last, ENTRY_HEADER_SIZE);
        bytes[..6] == [0, 0, 0, 0, 0, 2] // no inode, and a length of 512
    })
}

fn in_free_inode(old: &Dinode, new: Dinode) -> Option<Reason> {
    let mut rest = *old;
    rest.mode = new.mode;
    (rest.size, rest.sectors) = (new.size, new.sectors);
    (rest.attribute_size, rest.attribute_blocks) = (new.attribute_size, new.attribute_blocks);
    (rest.direct, rest.indirect) = (new.direct, new.indirect);
    (rest.as_bytes() == old.as_bytes()).then_some(Reason::FreeInodeRemains)
}

/// Puts a field back; notes its reason, if the field was changed.
macro_rules! put_back {
    ($new:ident, $old:ident, $worst:ident, $reason:expr, $($field:ident),+) => {
        $(if $new.$field.as_bytes() != $old.$field.as_bytes() {
            $new.$field = $old.$field;
            $worst = $worst.max($reason);
        })+
    };
}

fn in_live_inode(geometry: &Geometry, old: &Dinode, mut new: Dinode) -> Option<Reason> {
    let mut worst = Reason::FreeSpace;
    if new.mode.get() >> 12 == old.mode.get() >> 12 {
        put_back!(new, old, worst, Reason::Permissions, mode);
    }
    put_back!(new, old, worst, Reason::Ownership, uid, gid);
    put_back!(new, old, worst, Reason::UnusedInodeField, block_size, kernel_flags);
    put_back!(new, old, worst, Reason::Seconds, atime, mtime, ctime, birthtime);
    let legal = |field: zerocopy::little_endian::I32| (0..1_000_000_000).contains(&field.get());
    if [
        new.mtime_nanoseconds,
        new.atime_nanoseconds,
        new.ctime_nanoseconds,
        new.birthtime_nanoseconds,
    ]
    .into_iter()
    .all(legal)
    {
        put_back!(new, old, worst, Reason::Nanoseconds, mtime_nanoseconds, atime_nanoseconds);
        put_back!(new, old, worst, Reason::Nanoseconds, ctime_nanoseconds, birthtime_nanoseconds);
    }
    put_back!(new, old, worst, Reason::Generation, generation);
    if (new.flags.get() ^ old.flags.get()) & FLAG_SNAPSHOT == 0 {
        put_back!(new, old, worst, Reason::FileFlags, flags);
    }
    put_back!(new, old, worst, Reason::ChangeCounter, change);
    let directory = old.kind() == Some(FileKind::Directory);
    if !directory {
        put_back!(new, old, worst, Reason::UnusedInodeField, free_link);
    } else if new.free_link.get() == 0 {
        put_back!(new, old, worst, Reason::NoDepth, free_link);
    }
    if is_size_in_tail(geometry, old, &new) {
        put_back!(new, old, worst, Reason::SizeInTail, size);
    }
    if is_other_target(old, &new) {
        put_back!(new, old, worst, Reason::LinkTarget, direct, indirect);
    }
    let device = matches!(old.kind(), Some(FileKind::CharacterDevice | FileKind::BlockDevice));
    if device && new.direct[0].get() as u32 != u32::MAX {
        let mut direct = old.direct;
        direct[0] = new.direct[0];
        if direct.as_bytes() == new.direct.as_bytes() {
            put_back!(new, old, worst, Reason::DeviceNumber, direct);
        }
    }
    new.check_hash = old.check_hash;
    (new.as_bytes() == old.as_bytes()).then_some(worst)
}

/// Whether the new size needs the same fragments in the same places.
fn is_size_in_tail(geometry: &Geometry, old: &Dinode, new: &Dinode) -> bool {
    if old.kind() != Some(FileKind::Regular) || new.size.get() > geometry.max_file_size {
        return false;
    }
    let block = geometry.block_size;
    let count = |dinode: &Dinode| dinode.size.get().div_ceil(block);
    let direct = DIRECT_POINTERS as u64;
    if count(old) > direct || count(new) > direct {
        return count(old) == count(new);
    }
    (0..direct).zip(&old.direct).all(|(lbn, address)| {
        let run = |dinode: &Dinode| {
            let rest = dinode.size.get().saturating_sub(lbn * block).min(block);
            rest.div_ceil(geometry.fragment_size)
        };
        address.get() == 0 || run(old) == run(new)
    })
}

/// Whether both are short targets of the same length.
fn is_other_target(old: &Dinode, new: &Dinode) -> bool {
    let size = old.size.get() as usize;
    let short = old.kind() == Some(FileKind::Symlink) && size < INLINE_SYMLINK_SIZE;
    let area = new.inline_symlink_area();
    short
        && new.size.get() as usize == size
        && area[..size].iter().all(|&byte| byte != 0)
        && area[size..].iter().all(|&byte| byte == 0)
}

fn in_group(base: &Base, disk: &MemoryDisk, group: u64) -> Option<Reason> {
    let geometry = &base.geometry;
    let old = group_at(&base.disk, geometry, group);
    let mut block = group_at(disk, geometry, group);
    if geometry.verify_group(&block).is_err() {
        return None;
    }
    let was = GroupHeader::of(&old);
    let fragments = geometry.group_size_fragments(group);
    let mut worst = Reason::FreeSpace;
    let limit = u64::from(GroupHeader::of(&block).initialized_inodes.get());
    let fits = limit_fits(base, disk, group, limit);
    let new = GroupHeader::of_mut(&mut block);
    put_back!(new, was, worst, Reason::WriteTime, time);
    put_back!(new, was, worst, Reason::OldFields, old_time);
    if u64::from(new.block_rotor.get()) < fragments {
        put_back!(new, was, worst, Reason::Hint, block_rotor);
    }
    if u64::from(new.fragment_rotor.get()) < fragments {
        put_back!(new, was, worst, Reason::Hint, fragment_rotor);
    }
    if u64::from(new.inode_rotor.get()) < geometry.inodes_per_group {
        put_back!(new, was, worst, Reason::Hint, inode_rotor);
    }
    if fits {
        put_back!(new, was, worst, Reason::MoreInodes, initialized_inodes);
    }
    new.check_hash = was.check_hash;
    (block == old).then_some(worst)
}

/// Whether another number of initialised inodes neither hides a file nor adds one.
fn limit_fits(base: &Base, disk: &MemoryDisk, group: u64, limit: u64) -> bool {
    let geometry = &base.geometry;
    let first = group * geometry.inodes_per_group;
    let legal =
        limit <= geometry.inodes_per_group && limit.is_multiple_of(geometry.inodes_per_block);
    let reserved = group == 0 && limit == 0;
    legal
        && !reserved
        && (limit..geometry.inodes_per_group)
            .all(|index| !base.map.inodes.contains_key(&(first + index)))
        && (base.map.initialised[group as usize]..limit)
            .all(|index| inode_at(disk, geometry, first + index).as_bytes()[..80] == [0; 80])
}

fn superblock(block: &[u8]) -> Superblock {
    Superblock::read_from_prefix(block).expect("the room of a superblock").0
}

/// In a copy, every field that a mount changes may be outdated.
fn in_superblock(base: &Base, disk: &MemoryDisk, at: u64, copy: bool) -> Option<Reason> {
    let size = base.geometry.superblock_size as usize;
    let (old_block, new_block) = (base.disk.bytes(at, size), disk.bytes(at, size));
    if base.geometry.verify_superblock(&new_block).is_err() {
        return None;
    }
    if old_block[size_of::<Superblock>()..] != new_block[size_of::<Superblock>()..] {
        return None;
    }
    let (old, mut new) = (superblock(&old_block), superblock(&new_block));
    let mut worst = Reason::FreeSpace;
    put_back!(new, old, worst, Reason::InCorePointers, in_core);
    put_back!(new, old, worst, Reason::OldFields, old_totals, old_inode_format);
    put_back!(new, old, worst, Reason::MountPoint, last_mount);
    put_back!(new, old, worst, Reason::Label, volume_name);
    put_back!(new, old, worst, Reason::WriteTime, time, mount_time);
    tunables(&base.geometry, &old, &mut new, &mut worst);
    volume_flags(&old, &mut new, &mut worst);
    if new.own_address.get() == 0 || copy && new.own_address.get() == 65_536 {
        put_back!(new, old, worst, Reason::OldFields, own_address);
    }
    if copy {
        put_back!(new, old, worst, Reason::StaleCopy, totals, clean, pending_sectors);
        put_back!(new, old, worst, Reason::StaleCopy, pending_inodes, unreferenced_inodes);
        put_back!(new, old, worst, Reason::StaleCopy, snapshots, journal_free_list, flags);
        put_back!(new, old, worst, Reason::StaleCopy, modified, read_only);
        if new.check_hashes.get() & !hashes::ALL == 0 {
            put_back!(new, old, worst, Reason::StaleCopy, check_hashes);
        }
        put_back!(new, old, worst, Reason::StaleCopy, group_rotor, device_size);
        put_back!(new, old, worst, Reason::StaleCopy, reserve_percent, optimization);
    }
    new.check_hash = old.check_hash;
    (new.as_bytes() == old.as_bytes()).then_some(worst)
}

/// Settings that only steer allocation, in their ranges.
fn tunables(geometry: &Geometry, old: &Superblock, new: &mut Superblock, worst: &mut Reason) {
    let mut found = *worst;
    if (0..=99).contains(&new.reserve_percent.get()) {
        put_back!(new, old, found, Reason::Tunable, reserve_percent);
    }
    if (0..=1).contains(&new.optimization.get()) {
        put_back!(new, old, found, Reason::Tunable, optimization);
    }
    if new.max_blocks_per_group.get() > 0 {
        put_back!(new, old, found, Reason::Tunable, max_blocks_per_group);
    }
    if (16..=256).contains(&new.max_contiguous_blocks.get()) && old.cluster_sum_size.get() == 16 {
        put_back!(new, old, found, Reason::Tunable, max_contiguous_blocks);
    }
    if new.average_file_size.get() > 0 {
        put_back!(new, old, found, Reason::Tunable, average_file_size);
    }
    if new.average_files_per_directory.get() > 0 {
        put_back!(new, old, found, Reason::Tunable, average_files_per_directory);
    }
    let metadata = new.metadata_space.get();
    if (0..=geometry.fragments_per_group as i64 / 2).contains(&metadata)
        && (metadata as u64).is_multiple_of(geometry.fragments_per_block)
    {
        put_back!(new, old, found, Reason::Tunable, metadata_space);
    }
    if (0..geometry.group_count).contains(&(new.group_rotor.get() as u64)) {
        put_back!(new, old, found, Reason::Hint, group_rotor);
    }
    if new.device_size.get() == 0 || new.device_size.get() >= geometry.size as i64 {
        put_back!(new, old, found, Reason::Hint, device_size);
    }
    *worst = found;
}

/// Flags that a system may have set, and hashes that a system may no longer keep.
fn volume_flags(old: &Superblock, new: &mut Superblock, worst: &mut Reason) {
    let mut found = *worst;
    let may_differ = flags::SOFT_UPDATES
        | flags::SOFT_UPDATES_JOURNAL
        | flags::POSIX_ACLS
        | flags::MULTILABEL
        | flags::GJOURNAL
        | flags::NFS4_ACLS
        | flags::TRIM
        | u32::from(FLAGS_MOVED);
    let both = flags::POSIX_ACLS | flags::NFS4_ACLS;
    let changed = new.flags.get() ^ old.flags.get();
    if changed & !may_differ == 0 && new.flags.get() & both != both {
        put_back!(new, old, found, Reason::VolumeFlags, flags);
    }
    // Group hashes that are not kept must be zero: a system that stops keeping them has to clear
    // them.
    let kept = new.check_hashes.get();
    if kept & !hashes::ALL == 0 && kept & hashes::GROUP == old.check_hashes.get() & hashes::GROUP {
        put_back!(new, old, found, Reason::HashesKept, check_hashes);
    }
    *worst = found;
}
