//! The fields of one inode: what its bytes say without a look at anything else.
//!
//! An inode of which three and more fields make no sense is taken for garbage, such as a block of
//! something else written over the inode table, and is freed: to believe the rest of it would give
//! it blocks of files that are well. Fewer are mended one by one.

use vfs::FileKind;

use super::Severity::{Loss, Repairable};
use super::{Invariant, Log, Place};
use zerocopy::little_endian::I64;

use ufs2::layout::{
    Dinode, FLAG_SNAPSHOT, Geometry, INLINE_SYMLINK_SIZE, ROOT_INODE, SECTOR_SIZE, kind_bits,
    mode_of,
};
use ufs2::map::has_blocks;
use ufs2::map::{block_count, run_length};

/// From this many fields on that make no sense, none is believed.
const GARBAGE: u32 = 3;
/// The largest directory: its size fits 31 bits everywhere.
const LARGEST_DIRECTORY: u64 = i32::MAX as u64;

/// The largest size of a file of this kind; special files have none.
fn largest(geometry: &Geometry, kind: FileKind) -> u64 {
    match kind {
        FileKind::Regular => geometry.max_file_size,
        FileKind::Directory => LARGEST_DIRECTORY,
        FileKind::Symlink => geometry.block_size,
        _ => 0,
    }
}

/// Whether a pointer of an inode is one: a hole, or data of this disk.
pub(super) fn is_pointer(geometry: &Geometry, dinode: &Dinode, address: u64, run: u64) -> bool {
    is_hole(dinode, address) || geometry.is_data_run(address, run)
}

/// Whether a pointer says that there is nothing. In snapshots two more numbers do.
pub(super) fn is_hole(dinode: &Dinode, address: u64) -> bool {
    let snapshot = dinode.flags.get() & FLAG_SNAPSHOT != 0;
    address == 0 || snapshot && address <= 2
}

/// The direct pointers and the roots of the trees, with the fragments that each should hold.
pub(super) fn pointers(geometry: &Geometry, dinode: &Dinode) -> impl Iterator<Item = (u64, u64)> {
    let size = dinode.size.get();
    let direct = dinode.direct.iter().enumerate();
    let direct = direct
        .map(move |(lbn, address)| (address.get() as u64, run_length(geometry, size, lbn as u64)));
    let roots = dinode.indirect.iter();
    direct.chain(roots.map(|address| (address.get() as u64, geometry.fragments_per_block)))
}

/// How many fields of an allocated inode make no sense.
pub(super) fn implausible(geometry: &Geometry, dinode: &Dinode) -> u32 {
    let mut count = 0;
    let mut blame = |wrong: bool| count += u32::from(wrong);
    blame(geometry.verify_inode(dinode).is_err());
    blame(dinode.links.get() < 0);
    blame(dinode.spare != [0; 8]);
    nanoseconds(dinode).for_each(|field| blame(!(0..NANOSECONDS).contains(&field)));
    let room = 2 * geometry.block_size;
    blame(u64::from(dinode.attribute_size.get()) > room);
    for address in &dinode.attribute_blocks {
        blame(address.get() != 0 && !geometry.is_data_fragment(address.get() as u64));
    }
    let kind = dinode.kind();
    blame(kind.is_none());
    let kind = kind.unwrap_or(FileKind::Regular);
    blame(dinode.size.get() > largest(geometry, kind));
    if has_blocks(kind, dinode) {
        pointers(geometry, dinode)
            .for_each(|(address, _)| blame(!is_pointer(geometry, dinode, address, 1)));
    }
    count
}

const NANOSECONDS: i32 = 1_000_000_000;

fn nanoseconds(dinode: &Dinode) -> impl Iterator<Item = i32> {
    [
        dinode.mtime_nanoseconds,
        dinode.atime_nanoseconds,
        dinode.ctime_nanoseconds,
        dinode.birthtime_nanoseconds,
    ]
    .map(|field| field.get())
    .into_iter()
}

/// Mends the fields of an inode in place. An inode that is free afterwards is to be taken as such.
pub(super) fn mend(geometry: &Geometry, ino: u64, dinode: &mut Dinode, log: &mut Log) {
    if dinode.is_free() && !has_only_lost_its_mode(geometry, dinode) {
        return mend_free(ino, dinode, log);
    }
    let count = implausible(geometry, dinode);
    let garbage = count >= GARBAGE && ino != ROOT_INODE;
    let place = || Place::inode(ino);
    if ino < ROOT_INODE {
        let repair = "freed";
        if log.find(Invariant::FreeInode, Loss, place(), "a file", "a free inode", repair) {
            clear(dinode);
        }
        return;
    }
    if garbage {
        let found = format!("{count} fields that make no sense");
        let repair = "freed, with all that it says";
        if log.find(Invariant::InodeWhole, Loss, place(), found, "fewer than 3", repair) {
            clear(dinode);
        }
        return;
    }
    if count >= GARBAGE {
        // The root is kept for its pointers: what they lead to tells whether they are any good.
        let found = format!("{count} fields that make no sense");
        let repair = "its pointers kept, its owner and permissions set anew";
        if log.find(Invariant::InodeWhole, Loss, place(), found, "fewer than 3", repair) {
            (dinode.uid, dinode.gid) = (0.into(), 0.into());
            dinode.flags.set(0);
            dinode.mode.set(mode_of(FileKind::Directory, 0o755));
        }
    }
    if let Err(bad) = geometry.verify_inode(dinode) {
        let (found, expected) = (hex(bad.found), hex(bad.expected));
        let repair = "sealed as it is; see whether its attributes are right";
        log.find(Invariant::InodeHash, Repairable, place(), found, expected, repair);
    }
    mend_type(geometry, ino, dinode, log);
    mend_times(ino, dinode, log);
    if dinode.spare != [0; 8] {
        let found = format!("{:02x?}", dinode.spare);
        if log.find(Invariant::InodeSpare, Repairable, place(), found, "zeros", "cleared") {
            dinode.spare = [0; 8];
        }
    }
    mend_size(geometry, ino, dinode, log);
    match dinode.kind() {
        Some(FileKind::Symlink) => mend_symlink(ino, dinode, log),
        Some(FileKind::Regular | FileKind::Directory) | None => {}
        Some(kind) => mend_special(ino, kind, dinode, log),
    }
}

fn hex(number: u32) -> String {
    format!("{number:#010x}")
}

/// Makes an inode free. Its generation stays, so that old handles go stale.
pub(super) fn clear(dinode: &mut Dinode) {
    let generation = dinode.generation;
    *dinode = Dinode::zeroed();
    dinode.generation = generation;
}

/// Whether all but the mode of an inode is that of a file.
fn has_only_lost_its_mode(geometry: &Geometry, dinode: &Dinode) -> bool {
    let mut all = pointers(geometry, dinode);
    dinode.links.get() > 0
        && dinode.size.get() > 0
        && dinode.direct[0].get() != 0
        && all.all(|(address, run)| is_pointer(geometry, dinode, address, run))
}

fn mend_free(ino: u64, dinode: &mut Dinode, log: &mut Log) {
    let empty = dinode.size.get() == 0
        && dinode.sectors.get() == 0
        && dinode.attribute_size.get() == 0
        && dinode.attribute_blocks.iter().all(|address| address.get() == 0)
        && dinode.direct.iter().chain(&dinode.indirect).all(|address| address.get() == 0);
    let found = "a size, blocks or pointers";
    let place = Place::inode(ino);
    if !empty
        && log.find(Invariant::FreeInode, Repairable, place, found, "none", "what is left cleared")
    {
        clear(dinode);
    }
}

/// Gives an inode a type that fits its other fields, where its own does not.
fn mend_type(geometry: &Geometry, ino: u64, dinode: &mut Dinode, log: &mut Log) {
    let size = dinode.size.get();
    // A file may begin with a hole.
    let points = pointers(geometry, dinode).any(|(address, _)| address != 0)
        && pointers(geometry, dinode)
            .all(|(address, run)| is_pointer(geometry, dinode, address, run));
    let contradiction = match dinode.kind() {
        None => true,
        Some(FileKind::Regular | FileKind::Directory) => false,
        Some(FileKind::Symlink) => points && (size > geometry.block_size || !is_text(dinode)),
        Some(_) => points && size > 0,
    };
    if !contradiction {
        return;
    }
    let found = format!("type {}", dinode.mode.get() >> 12);
    let (place, repair) = (Place::inode(ino), "made a regular file");
    if log.find(Invariant::InodeType, Repairable, place, found, "a type that fits", repair) {
        set_kind(dinode, FileKind::Regular);
    }
}

/// Gives an inode another type; its permissions stay.
pub(super) fn set_kind(dinode: &mut Dinode, kind: FileKind) {
    let permissions = dinode.permissions();
    dinode.mode.set(u16::from(kind_bits(kind)) << 12 | permissions);
}

fn mend_times(ino: u64, dinode: &mut Dinode, log: &mut Log) {
    let times = [
        ("di_mtimensec", &mut dinode.mtime_nanoseconds),
        ("di_atimensec", &mut dinode.atime_nanoseconds),
        ("di_ctimensec", &mut dinode.ctime_nanoseconds),
        ("di_birthnsec", &mut dinode.birthtime_nanoseconds),
    ];
    for (name, field) in times {
        let found = field.get();
        if (0..NANOSECONDS).contains(&found) {
            continue;
        }
        let place = Place::inode(ino).named(name);
        let expected = "0 to 999999999";
        if log.find(Invariant::InodeTimes, Repairable, place, found, expected, "set to 0") {
            field.set(0);
        }
    }
}

fn mend_size(geometry: &Geometry, ino: u64, dinode: &mut Dinode, log: &mut Log) {
    let Some(kind) = dinode.kind() else { return };
    let size = dinode.size.get();
    let largest = largest(geometry, kind);
    let place = Place::inode(ino).named("di_size");
    if size > largest {
        let wanted = reach_of_all(geometry, kind, dinode);
        let repair = "set to what the pointers reach";
        if log.find(Invariant::InodeSize, Repairable, place, size, wanted, repair) {
            dinode.size.set(wanted);
        }
    } else if kind == FileKind::Directory && (size == 0 || !size.is_multiple_of(512)) {
        let wanted = if size == 0 { reach(geometry, dinode) } else { size.next_multiple_of(512) };
        // Without any block it is a hole of one chunk, which gets its dots.
        let wanted = wanted.max(512);
        let repair = "made whole chunks";
        if log.find(Invariant::InodeSize, Repairable, place, size, wanted, repair) {
            dinode.size.set(wanted);
        }
    }
}

/// The size to begin with where the own one cannot be: with trees the largest, which is cut off at
/// the last block, or a directory's first hole, once that is known; else where the direct pointers
/// end.
fn reach_of_all(geometry: &Geometry, kind: FileKind, dinode: &Dinode) -> u64 {
    let legal = |address: u64| geometry.is_data_run(address, geometry.fragments_per_block);
    let trees = dinode.indirect.iter().any(|root| legal(root.get() as u64));
    let largest = largest(geometry, kind);
    match kind {
        FileKind::Regular if trees => largest,
        FileKind::Directory if trees => largest / 512 * 512,
        _ => reach(geometry, dinode).min(largest),
    }
}

/// The size at which the direct pointers end. What the trees hold is not known here. How much of
/// its last block a file holds follows from its sectors; if they say what cannot be, it is one
/// fragment in the middle of a block, and else all of it.
fn reach(geometry: &Geometry, dinode: &Dinode) -> u64 {
    let legal =
        |address: &I64| address.get() != 0 && geometry.is_data_fragment(address.get() as u64);
    let Some(last) = dinode.direct.iter().rposition(legal) else { return 0 };
    let block = geometry.fragments_per_block;
    let attributes = u64::from(dinode.attribute_size.get()).div_ceil(geometry.fragment_size);
    let others = dinode.direct[..last].iter().filter(|address| legal(address)).count() as u64;
    let held = dinode.sectors.get().saturating_mul(SECTOR_SIZE) / geometry.fragment_size;
    let run = held.wrapping_sub(others * block).wrapping_sub(attributes);
    let address = dinode.direct[last].get() as u64;
    let room = block - address % block;
    let run = match run {
        run if (1..=room).contains(&run) => run,
        _ if room == block => block,
        _ => 1,
    };
    last as u64 * geometry.block_size + run * geometry.fragment_size
}

/// Whether the bytes of a short target are ones: no NUL among them, and zeros behind.
fn is_text(dinode: &Dinode) -> bool {
    let size = dinode.size.get();
    if size >= INLINE_SYMLINK_SIZE as u64 {
        return true;
    }
    let (target, rest) = dinode.inline_symlink_area().split_at(size as usize);
    !target.contains(&0) && rest.iter().all(|&byte| byte == 0)
}

/// A short target stands in the inode, with zeros up to the end of the pointers.
fn mend_symlink(ino: u64, dinode: &mut Dinode, log: &mut Log) {
    if is_text(dinode) {
        return;
    }
    let size = dinode.size.get() as usize;
    let area = *dinode.inline_symlink_area();
    let text = area.iter().position(|&byte| byte == 0).unwrap_or(INLINE_SYMLINK_SIZE - 1);
    let text = text.min(INLINE_SYMLINK_SIZE - 1);
    let place = Place::inode(ino);
    let found = format!("{size} bytes, of which {} are text", text.min(size));
    let expected = "as many as its size, and zeros";
    let repair = if text == 0 { "made a link to '?'" } else { "its size set to its text" };
    if !log.find(Invariant::SymlinkTarget, Loss, place, found, expected, repair) {
        return;
    }
    let wanted = text.max(1);
    let target = dinode.inline_symlink_area_mut();
    if text == 0 {
        target[0] = b'?';
    }
    target[wanted..].fill(0);
    dinode.size.set(wanted as u64);
}

/// The number of no device.
const NO_DEVICE: u32 = u32::MAX;

/// A device has a number, and -1 is none. Which it was is not known any more.
fn mend_device_number(ino: u64, dinode: &mut Dinode, log: &mut Log) {
    if dinode.direct[0].get() as u32 != NO_DEVICE {
        return;
    }
    let (place, found, repair) = (Place::inode(ino), "device number -1", "set to 0");
    if log.find(Invariant::Device, Loss, place, found, "the number of a device", repair) {
        dinode.direct[0].set(0);
    }
}

/// Devices, pipes and sockets hold nothing; of the pointers, devices use one for their number.
fn mend_special(ino: u64, kind: FileKind, dinode: &mut Dinode, log: &mut Log) {
    let device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice);
    let first = usize::from(device);
    if device {
        mend_device_number(ino, dinode, log);
    }
    let held = dinode.direct[first..].iter().chain(&dinode.indirect).any(|one| one.get() != 0);
    let size = dinode.size.get();
    let found = match (held, size) {
        (true, _) => "pointers".to_owned(),
        (false, 0) => return,
        (false, size) => format!("{size} bytes"),
    };
    let repair = "cleared";
    if log.find(Invariant::Device, Repairable, Place::inode(ino), found, "neither", repair) {
        dinode.direct[first..].iter_mut().for_each(|one| one.set(0));
        dinode.indirect.iter_mut().for_each(|one| one.set(0));
        dinode.size.set(0);
    }
}

/// Blocks of a file up to its size, as far as its pointers can reach.
pub(super) fn blocks_of(geometry: &Geometry, dinode: &Dinode) -> u64 {
    block_count(geometry, dinode.size.get().min(geometry.max_file_size))
}
