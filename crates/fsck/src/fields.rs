//! The fields of one inode: checks that need nothing but its bytes.
//!
//! An inode with three or more implausible fields is taken for garbage, such as a block of other
//! contents written over the inode table, and is freed: trusting the rest of it would give it
//! blocks of intact files. Fewer are repaired one by one. Consequences of a wrong field do not
//! count beside it: see [`implausible`].

use vfs::FileKind;

use super::Severity::{Loss, Repairable};
use super::{Invariant, Log, Place};
use zerocopy::little_endian::I64;

use ufs2::layout::{
    Dinode, FLAG_SNAPSHOT, Geometry, INLINE_SYMLINK_SIZE, MAX_LINKS, ROOT_INODE, SECTOR_SIZE,
    kind_bits, mode_of,
};
use ufs2::map::has_blocks;
use ufs2::map::{block_count, run_length};

/// An inode with this many implausible fields is garbage.
const GARBAGE: u32 = 3;
/// The largest directory: its size fits 31 bits everywhere.
const LARGEST_DIRECTORY: u64 = i32::MAX as u64;

/// The largest size of a file of this kind; special files have none.
pub(super) fn largest(geometry: &Geometry, kind: FileKind) -> u64 {
    match kind {
        FileKind::Regular => geometry.max_file_size,
        FileKind::Directory => LARGEST_DIRECTORY,
        FileKind::Symlink => geometry.block_size,
        _ => 0,
    }
}

/// Whether a pointer of an inode is valid: a hole, or data of this disk.
pub(super) fn is_pointer(geometry: &Geometry, dinode: &Dinode, address: u64, run: u64) -> bool {
    is_hole(dinode, address) || geometry.is_data_run(address, run)
}

/// Whether a pointer is a hole. In snapshots two more numbers are.
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

/// Number of implausible fields of an allocated inode.
///
/// Each counts once, whatever follows from it: the check hash only where nothing else is wrong; all
/// direct pointers together, and all others, which can go without the file; and for an invalid
/// type, neither its size nor its pointers, which may be those of another.
pub(super) fn implausible(geometry: &Geometry, dinode: &Dinode) -> u32 {
    let mut count = 0;
    let mut blame = |wrong: bool| count += u32::from(wrong);
    blame(u32::from(dinode.links.get()) > MAX_LINKS);
    blame(dinode.spare != [0; 8]);
    nanoseconds(dinode).for_each(|field| blame(!(0..NANOSECONDS).contains(&field)));
    let room = 2 * geometry.block_size;
    blame(u64::from(dinode.attribute_size.get()) > room);
    let is_data = |address: &I64| geometry.is_data_fragment(address.get() as u64);
    blame(dinode.attribute_blocks.iter().any(|one| one.get() != 0 && !is_data(one)));
    let size = dinode.size.get();
    match (dinode.kind(), inline_target(geometry, dinode)) {
        (Some(FileKind::Symlink), Some(length)) => blame(size != length),
        (_, Some(_)) => blame(true), // a link of another type
        (None, None) => {
            blame(true);
            blame(size > geometry.max_file_size);
        }
        (Some(kind), None) => {
            blame(size > largest(geometry, kind));
            if has_blocks(kind, dinode) {
                let is_bad = |address: &I64| !is_pointer(geometry, dinode, address.get() as u64, 1);
                blame(dinode.direct.iter().any(is_bad));
                blame(dinode.indirect.iter().any(is_bad));
            }
        }
    }
    if count > 0 { count } else { u32::from(geometry.verify_inode(dinode).is_err()) }
}

/// The length of the target of a short link, where the inode holds one in place of pointers: text,
/// then zeros, while no sectors are counted. An inode of another type holds one only if its size is
/// that of the text, and its pointers are invalid.
fn inline_target(geometry: &Geometry, dinode: &Dinode) -> Option<u64> {
    let area = dinode.inline_symlink_area();
    let length = area.iter().position(|&byte| byte == 0)?;
    let is_text = length > 0 && area[length..].iter().all(|&byte| byte == 0);
    if !is_text || dinode.sectors.get() != 0 {
        return None;
    }
    let length = length as u64;
    let may_hold = match dinode.kind() {
        Some(FileKind::Symlink) => true,
        Some(FileKind::Regular | FileKind::Directory) => {
            let mut all = pointers(geometry, dinode);
            let are_pointers = all.all(|(address, _)| is_pointer(geometry, dinode, address, 1));
            dinode.size.get() == length && !are_pointers
        }
        _ => dinode.size.get() == length,
    };
    may_hold.then_some(length)
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

/// Repairs the fields of an inode in place. The caller must treat an inode that is free afterwards
/// as such.
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
        // The root is kept for its pointers: the blocks behind them show whether they are any good.
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

/// A check hash, formatted for findings.
pub(super) fn hex(number: u32) -> String {
    format!("{number:#010x}")
}

/// Frees an inode. Its generation stays, so that old handles go stale.
pub(super) fn clear(dinode: &mut Dinode) {
    let generation = dinode.generation;
    *dinode = Dinode::zeroed();
    dinode.generation = generation;
}

/// Whether everything in an inode but its mode is that of a file.
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

/// Gives an inode a type that fits its other fields, if its own does not.
fn mend_type(geometry: &Geometry, ino: u64, dinode: &mut Dinode, log: &mut Log) {
    let size = dinode.size.get();
    let place = || Place::inode(ino);
    let invariant = Invariant::InodeType;
    let found = format!("type {}", dinode.mode.get() >> 12);
    let expected = "a type that fits";
    if dinode.kind() != Some(FileKind::Symlink) && inline_target(geometry, dinode).is_some() {
        let repair = "made a symbolic link, whose target it holds";
        if log.find(invariant, Repairable, place(), found, expected, repair) {
            set_kind(dinode, FileKind::Symlink);
        }
        return;
    }
    // A file may begin with a hole.
    let points = pointers(geometry, dinode).any(|(address, _)| address != 0)
        && pointers(geometry, dinode)
            .all(|(address, run)| is_pointer(geometry, dinode, address, run));
    let contradiction = match dinode.kind() {
        None => true,
        Some(FileKind::Regular | FileKind::Directory) => false,
        Some(FileKind::Symlink) => {
            let is_neither = size > geometry.block_size || !is_text(dinode);
            points && is_neither && right_target_size(geometry, dinode).is_none()
        }
        Some(_) => points && size > 0,
    };
    if !contradiction {
        return;
    }
    let repair = "made a regular file";
    if log.find(invariant, Repairable, place(), found, expected, repair) {
        set_kind(dinode, FileKind::Regular);
    }
}

/// Gives an inode another type; its permissions stay.
pub(super) fn set_kind(dinode: &mut Dinode, kind: FileKind) {
    let permissions = dinode.permissions();
    dinode.mode.set(u16::from(kind_bits(kind)) << 12 | permissions);
}

/// Whether the contents of an inode fit a type other than directory.
pub(super) fn can_be(geometry: &Geometry, dinode: &Dinode, kind: FileKind) -> bool {
    let size = dinode.size.get();
    let are_none = |from: usize| {
        let rest = dinode.direct[from..].iter().chain(&dinode.indirect);
        rest.into_iter().all(|one| one.get() == 0)
    };
    match kind {
        FileKind::Regular => true,
        FileKind::Directory => false,
        FileKind::Symlink if size < INLINE_SYMLINK_SIZE as u64 => size > 0 && is_text(dinode),
        FileKind::Symlink => {
            let first = dinode.direct[0].get() as u64;
            size <= geometry.block_size && geometry.is_data_run(first, 1) && are_none(1)
        }
        FileKind::CharacterDevice | FileKind::BlockDevice => size == 0 && are_none(1),
        FileKind::Fifo | FileKind::Socket => size == 0 && are_none(0),
    }
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
    if let (FileKind::Symlink, Some(right)) = (kind, right_target_size(geometry, dinode)) {
        let repair = "set to what holds its target";
        if log.find(Invariant::SymlinkTarget, Repairable, place, size, right, repair) {
            dinode.size.set(right);
        }
    } else if size > largest {
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

/// The initial size where the stated one is impossible: with trees the largest, which is cut off at
/// the last block, or a directory's first hole, once that is known; else the end of the direct
/// pointers.
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

/// The size at which the direct pointers end. The blocks of the trees are not known here. The
/// inode's sectors show how much of its last block a file holds; if they are impossible, it is one
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

/// The size of a link whose target is elsewhere than its size says: in the inode, or in the one
/// block that it has, up to whose end it is searched for later.
fn right_target_size(geometry: &Geometry, dinode: &Dinode) -> Option<u64> {
    let size = dinode.size.get();
    if let Some(length) = inline_target(geometry, dinode) {
        return (size != length).then_some(length);
    }
    let held = dinode.sectors.get().checked_mul(SECTOR_SIZE)?;
    let run = held / geometry.fragment_size;
    let (first, mut others) = (dinode.direct[0].get() as u64, pointers(geometry, dinode).skip(1));
    let is_block = (1..=geometry.fragments_per_block).contains(&run)
        && geometry.is_data_run(first, run)
        && others.all(|(address, _)| address == 0);
    let is_elsewhere = size < INLINE_SYMLINK_SIZE as u64
        || size.div_ceil(geometry.fragment_size) != run && dinode.attribute_size.get() == 0;
    (is_block && is_elsewhere).then_some(run * geometry.fragment_size)
}

/// Whether the bytes of a short target are valid: no NUL among them, and zeros behind.
fn is_text(dinode: &Dinode) -> bool {
    let size = dinode.size.get();
    if size >= INLINE_SYMLINK_SIZE as u64 {
        return true;
    }
    let (target, rest) = dinode.inline_symlink_area().split_at(size as usize);
    !target.contains(&0) && rest.iter().all(|&byte| byte == 0)
}

/// A short target is in the inode, with zeros up to the end of the pointers.
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

/// The number that stands for no device.
const NO_DEVICE: u32 = u32::MAX;

/// A device has a number, and -1 is none. The old number is lost.
fn mend_device_number(ino: u64, dinode: &mut Dinode, log: &mut Log) {
    if dinode.direct[0].get() as u32 != NO_DEVICE {
        return;
    }
    let (place, found, repair) = (Place::inode(ino), "device number -1", "set to 0");
    if log.find(Invariant::Device, Loss, place, found, "the number of a device", repair) {
        dinode.direct[0].set(0);
    }
}

/// Devices, pipes and sockets have no data; devices use one of the pointers for their number.
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

/// Number of blocks of a file up to its size, within the reach of its pointers.
pub(super) fn blocks_of(geometry: &Geometry, dinode: &Dinode) -> u64 {
    block_count(geometry, dinode.size.get().min(geometry.max_file_size))
}
