//! Repair of one broken directory chunk.
//!
//! The entries of a chunk form a chain of lengths. Where it breaks, it may resume: at the next
//! offset from which a chain of entries, each naming a file of its type, ends exactly at the end of
//! the chunk. The bytes between belong to the entry at the break, if that is still plausible, or to
//! the one before it.
//!
//! Names are repaired rather than dropped: the NUL behind a name gives its new length, and bytes
//! that no name may hold become `_`.

use directory::entry::{
    CHUNK_SIZE, ENTRY_ALIGNMENT, ENTRY_HEADER_SIZE, EntryHeader, minimum_record_length,
};
use zerocopy::{FromBytes, IntoBytes};

/// A problem at a byte of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The chain of lengths.
    Chain(usize),
    /// A name.
    Name(usize),
}

/// A repaired chunk.
pub(super) struct Mended {
    pub(super) bytes: [u8; CHUNK_SIZE],
    pub(super) problems: Vec<Problem>,
}

/// An entry of a valid chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) ino: u64,
    pub(super) kind: u8,
    pub(super) name: Vec<u8>,
}

/// Empty chunks for this many bytes.
pub(super) fn empty_chunks(bytes: usize) -> Vec<u8> {
    directory::chunk::empty_chunk().repeat(bytes / CHUNK_SIZE)
}

fn header_at(chunk: &[u8], at: usize) -> Option<EntryHeader> {
    let (header, _) = EntryHeader::read_from_prefix(&chunk[at..]).ok()?;
    Some(header)
}

/// The record length of the entry at `at`, if it is possible.
fn length_at(chunk: &[u8], at: usize) -> Option<usize> {
    let header = header_at(chunk, at)?;
    let length = usize::from(header.record_length.get());
    let legal = length.is_multiple_of(ENTRY_ALIGNMENT)
        && length >= minimum_record_length(header.name_length.into())
        && at + length <= CHUNK_SIZE;
    legal.then_some(length)
}

/// Whether the name of a live entry is valid.
fn name_is_whole(chunk: &[u8], at: usize) -> bool {
    let Some(header) = header_at(chunk, at) else { return false };
    let length = usize::from(header.name_length);
    let name = &chunk[at + ENTRY_HEADER_SIZE..];
    length > 0
        && name.len() > length
        && name[length] == 0
        && name[..length].iter().all(|&byte| byte != 0 && byte != b'/')
}

/// Repairs a chunk. `fits` says whether an inode of that number has the type of that byte.
pub(super) fn mend(chunk: &[u8], fits: &dyn Fn(u64, u8) -> bool) -> Mended {
    let mut bytes: [u8; CHUNK_SIZE] = chunk.try_into().expect("a chunk has 512 bytes");
    let mut problems = Vec::new();
    let (mut at, mut before) = (0, None);
    while at < CHUNK_SIZE {
        if length_at(&bytes, at).is_none() {
            problems.push(Problem::Chain(at));
            let next = resume(&bytes, at, fits);
            if !keep(&mut bytes, at, next, fits) {
                match before {
                    Some(before) => set_length(&mut bytes, before, next - before),
                    None => put_header(&mut bytes, at, 0, next - at, 0, 0),
                }
                at = next;
                continue;
            }
        }
        let header = header_at(&bytes, at).expect("it has a length");
        if header.inode.get() != 0 && !name_is_whole(&bytes, at) {
            problems.push(Problem::Name(at));
            mend_name(&mut bytes, at);
        }
        before = Some(at);
        at += length_at(&bytes, at).expect("it was mended");
    }
    Mended { bytes, problems }
}

/// The offset at which a broken chain resumes.
fn resume(chunk: &[u8], broken: usize, fits: &dyn Fn(u64, u8) -> bool) -> usize {
    let first = broken + minimum_record_length(0);
    let mut places = (first..CHUNK_SIZE).step_by(ENTRY_ALIGNMENT);
    places.find(|&at| is_chain(chunk, at, fits)).unwrap_or(CHUNK_SIZE)
}

/// Whether a chain of live entries leads from here to the end.
fn is_chain(chunk: &[u8], from: usize, fits: &dyn Fn(u64, u8) -> bool) -> bool {
    let mut at = from;
    while at < CHUNK_SIZE {
        let Some(length) = length_at(chunk, at) else { return false };
        let header = header_at(chunk, at).expect("it has a length");
        let live = fits(header.inode.get().into(), header.kind) && name_is_whole(chunk, at);
        let first = at == from;
        if !live && (first || header.inode.get() != 0) {
            return false;
        }
        at += length;
    }
    true
}

/// Keeps the entry at the break, if it is plausible up to `next`; returns whether it was.
fn keep(chunk: &mut [u8], at: usize, next: usize, fits: &dyn Fn(u64, u8) -> bool) -> bool {
    let Some(header) = header_at(chunk, at) else { return false };
    let window = &chunk[(at + ENTRY_HEADER_SIZE).min(next)..next];
    let Some(length) = window.iter().position(|&byte| byte == 0) else { return false };
    let sensible = (1..=255).contains(&length)
        && minimum_record_length(length) <= next - at
        && fits(header.inode.get().into(), header.kind);
    if sensible {
        let (ino, kind) = (header.inode.get(), header.kind);
        put_header(chunk, at, ino, next - at, kind, length as u8);
    }
    sensible
}

/// Gives a live entry a valid name, or makes it empty.
fn mend_name(chunk: &mut [u8], at: usize) {
    let header = header_at(chunk, at).expect("it has a length");
    let length = usize::from(header.record_length.get());
    let window = &mut chunk[at + ENTRY_HEADER_SIZE..at + length];
    let room = window.len().min(256);
    let stated = usize::from(header.name_length);
    let end = window[..room].iter().position(|&byte| byte == 0);
    // Without a NUL in sight, the name ends at its stated length, or at the end of the room.
    let name_length = end.unwrap_or_else(|| stated.clamp(1, room - 1));
    window[..name_length]
        .iter_mut()
        .filter(|byte| **byte == b'/' || **byte == 0)
        .for_each(|byte| *byte = b'_');
    if name_length == 0 {
        put_header(chunk, at, 0, length, 0, 0);
    } else {
        window[name_length] = 0;
        put_header(chunk, at, header.inode.get(), length, header.kind, name_length as u8);
    }
}

fn set_length(chunk: &mut [u8], at: usize, length: usize) {
    let header = header_at(chunk, at).expect("it is an entry");
    put_header(chunk, at, header.inode.get(), length, header.kind, header.name_length);
}

fn put_header(chunk: &mut [u8], at: usize, ino: u32, length: usize, kind: u8, name_length: u8) {
    let header =
        EntryHeader { inode: ino.into(), record_length: (length as u16).into(), kind, name_length };
    chunk[at..at + ENTRY_HEADER_SIZE].copy_from_slice(header.as_bytes());
}

/// The live entries of a valid chunk.
pub(super) fn entries(chunk: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(length) = (at < CHUNK_SIZE).then(|| length_at(chunk, at)).flatten() {
        let header = header_at(chunk, at).expect("it has a length");
        let ino = u64::from(header.inode.get());
        if ino != 0 {
            let start = at + ENTRY_HEADER_SIZE;
            let name = chunk[start..start + usize::from(header.name_length)].to_vec();
            entries.push(Entry { offset: at, length, ino, kind: header.kind, name });
        }
        at += length;
    }
    entries
}

/// A first chunk with dots, and behind them as many of `others` as fit. Returns how many did.
pub(super) fn with_dots(
    ino: u64,
    parent: u64,
    directory: u8,
    others: &[Entry],
) -> ([u8; CHUNK_SIZE], usize) {
    let mut chunk = directory::chunk::first_chunk(ino as u32, parent as u32, directory);
    let mut last = directory::chunk::DOT_DOT_OFFSET;
    let mut end = last + minimum_record_length(2);
    let mut placed = 0;
    for entry in others {
        let needed = minimum_record_length(entry.name.len());
        if end + needed > CHUNK_SIZE {
            continue;
        }
        set_length(&mut chunk, last, end - last);
        let name_length = entry.name.len();
        put_header(&mut chunk, end, entry.ino as u32, needed, entry.kind, name_length as u8);
        let start = end + ENTRY_HEADER_SIZE;
        chunk[start..start + name_length].copy_from_slice(&entry.name);
        (last, end) = (end, end + needed);
        placed += 1;
    }
    set_length(&mut chunk, last, CHUNK_SIZE - last);
    (chunk, placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ino: u64, name: &str) -> Entry {
        Entry { offset: 0, length: 0, ino, kind: 8, name: name.into() }
    }

    fn sample() -> [u8; CHUNK_SIZE] {
        let others = [entry(10, "one"), entry(11, "the second"), entry(12, "three")];
        with_dots(9, 2, 4, &others).0
    }

    fn names(chunk: &[u8]) -> Vec<String> {
        let all = entries(chunk).into_iter();
        all.map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
    }

    /// All inodes of the sample, with their types.
    fn fits(ino: u64, kind: u8) -> bool {
        matches!((ino, kind), (2 | 9, 4) | (10..=12, 8))
    }

    #[test]
    fn a_whole_chunk_stays_as_it_is() {
        let chunk = sample();
        let mended = mend(&chunk, &fits);
        assert_eq!((mended.bytes, mended.problems.len()), (chunk, 0));
        assert_eq!(names(&chunk), [".", "..", "one", "the second", "three"]);
    }

    #[test]
    fn a_wrong_length_costs_no_name() {
        let offsets: Vec<usize> = entries(&sample()).iter().map(|entry| entry.offset).collect();
        for at in offsets {
            for wrong in [0, 3, 8, 511, 0xffff] {
                let mut chunk = sample();
                chunk[at + 4..at + 6].copy_from_slice(&u16::to_le_bytes(wrong));
                let mended = mend(&chunk, &fits);
                assert_eq!(mended.problems, [Problem::Chain(at)], "{wrong} at {at}");
                assert_eq!(names(&mended.bytes), names(&sample()), "{wrong} at {at}");
            }
        }
    }

    #[test]
    fn a_wrong_name_length_is_told_by_the_nul() {
        for wrong in [0, 1, 5] {
            let mut chunk = sample();
            chunk[24 + 7] = wrong;
            let mended = mend(&chunk, &fits);
            assert_eq!(names(&mended.bytes), names(&sample()), "{wrong}");
        }
    }

    #[test]
    fn what_no_name_may_hold_is_replaced() {
        let mut chunk = sample();
        chunk[24 + 9] = b'/';
        let mended = mend(&chunk, &fits);
        assert_eq!(names(&mended.bytes)[2], "o_e");
        assert_eq!(mended.problems, [Problem::Name(24)]);
    }

    #[test]
    fn noise_becomes_a_chunk() {
        let mut state = 1_u64;
        for _ in 0..2000 {
            let noise: Vec<u8> = (0..CHUNK_SIZE)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let mended = mend(&noise, &fits);
            assert!(mend(&mended.bytes, &fits).problems.is_empty());
        }
    }
}
