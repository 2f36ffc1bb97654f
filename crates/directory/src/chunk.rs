//! Directory chunks: finding, adding and dropping entries in 512 bytes.
//!
//! A chunk is filled by its entries without gaps, none crosses its end, and it is the unit that the
//! disk writes atomically. These functions look at the bytes of one chunk and return the changes
//! that an Update should make; they change nothing themselves.
//!
//! Invariants:
//! 1. An entry never moves while its chunk can be resumed by a cookie: adding splits the room
//!    behind an entry or takes an empty slot, dropping sets the inode number to 0.
//! 2. A slot with a pending delta keeps its name and its minimum length.

use std::ops::Range;

use zerocopy::{FromBytes, IntoBytes};

use crate::entry::{
    CHUNK_SIZE, ENTRY_ALIGNMENT, ENTRY_HEADER_SIZE, EntryHeader, WHITEOUT_INODE,
    minimum_record_length,
};

/// One entry of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Byte offset in the chunk.
    pub offset: usize,
    /// Bytes up to the next entry.
    pub record_length: usize,
    /// The inode number; 0 for an empty slot.
    pub ino: u32,
    /// The type byte.
    pub kind: u8,
    /// The name.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Whether the name leads to a file: the entry is neither an empty slot nor a whiteout.
    pub fn is_live(&self) -> bool {
        self.ino != 0 && u64::from(self.ino) != WHITEOUT_INODE
    }

    /// Bytes that header and name need.
    pub fn minimum(&self) -> usize {
        minimum_record_length(self.name.len())
    }
}

/// The bytes are not a valid chunk: a length is wrong, or a live name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory chunk is broken at byte {offset}")]
pub struct BadChunk {
    /// Byte offset of the first invalid entry.
    pub offset: usize,
}

/// The entries of a chunk, empty slots included. The last is [`BadChunk`] if they do not fill the
/// chunk exactly.
pub fn entries(chunk: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, BadChunk>> {
    assert_eq!(chunk.len(), CHUNK_SIZE, "a chunk has 512 bytes");
    let mut offset = 0;
    std::iter::from_fn(move || {
        (offset < CHUNK_SIZE).then(|| {
            let entry = entry_at(chunk, offset).ok_or(BadChunk { offset });
            offset += entry.map_or(CHUNK_SIZE, |entry| entry.record_length);
            entry
        })
    })
}

fn entry_at(chunk: &[u8], offset: usize) -> Option<Entry<'_>> {
    let (header, rest) = EntryHeader::ref_from_prefix(&chunk[offset..]).ok()?;
    let record_length = usize::from(header.record_length.get());
    let length = usize::from(header.name_length);
    let ino = header.inode.get();
    let legal = record_length.is_multiple_of(ENTRY_ALIGNMENT)
        && offset + record_length <= CHUNK_SIZE
        && record_length >= minimum_record_length(if ino == 0 { 0 } else { length });
    if !legal {
        return None;
    }
    // The name of an empty slot has no meaning, and may not even fit.
    let name = if minimum_record_length(length) <= record_length { &rest[..length] } else { &[] };
    let bad_name = name.is_empty() || name.iter().any(|&byte| byte == b'/' || byte == 0);
    if ino != 0 && (bad_name || rest[length] != 0) {
        return None;
    }
    Some(Entry { offset, record_length, ino, kind: header.kind, name })
}

/// The name of the entry at `offset` of a run of chunks, if it has one.
pub fn name_at(run: &[u8], offset: usize) -> Option<&[u8]> {
    let (header, rest) = EntryHeader::ref_from_prefix(run.get(offset..)?).ok()?;
    let length = usize::from(header.name_length);
    if header.inode.get() == 0 || length == 0 { None } else { rest.get(..length) }
}

/// The place of a new entry in a chunk, and the bytes to write to make room.
#[derive(Debug)]
pub struct Place {
    /// Byte offset of the new entry in the chunk.
    pub offset: usize,
    /// Bytes up to the next entry; empty slots within it disappear for good.
    pub record_length: usize,
    /// Record lengths and the name, by byte offset in the chunk. They leave the new entry empty.
    pub layout: Vec<(usize, Box<[u8]>)>,
    /// Maximum length of a record that fits into the chunk afterwards.
    pub slack: u16,
}

/// An entry with the free space behind it.
struct Host {
    offset: usize,
    /// Bytes that the entry itself needs; 0 for an empty slot.
    keep: usize,
    /// Bytes up to the next entry that stays.
    length: usize,
}

impl Host {
    fn room(&self) -> usize {
        self.length - self.keep
    }
}

/// Visits the entries that stay in place, each with all free space up to the next one.
fn each_host(
    chunk: &[u8],
    is_empty: impl Fn(&Entry<'_>) -> bool,
    mut see: impl FnMut(Host),
) -> Result<(), BadChunk> {
    let mut last: Option<Host> = None;
    for entry in entries(chunk) {
        let entry = entry?;
        let empty = is_empty(&entry);
        match &mut last {
            Some(host) if empty => host.length += entry.record_length,
            _ => {
                let keep = if empty { 0 } else { entry.minimum().min(entry.record_length) };
                let host = Host { offset: entry.offset, keep, length: entry.record_length };
                last.replace(host).into_iter().for_each(&mut see);
            }
        }
    }
    last.into_iter().for_each(see);
    Ok(())
}

/// Finds room for `name` in a chunk: empty slots, or the free space behind an entry. `pending`
/// returns whether bytes of the chunk are under a delta. Without room, returns the available
/// length.
///
/// # Errors
/// [`BadChunk`].
pub fn place(
    chunk: &[u8],
    name: &[u8],
    pending: impl Fn(Range<usize>) -> bool,
) -> Result<Result<Place, u16>, BadChunk> {
    let needed = minimum_record_length(name.len());
    let is_empty = |entry: &Entry<'_>| {
        entry.ino == 0 && !pending(entry.offset..entry.offset + ENTRY_HEADER_SIZE)
    };
    let (mut found, mut others) = (None, 0);
    each_host(chunk, is_empty, |host| match found {
        None if host.room() >= needed => found = Some(host),
        _ => others = others.max(host.room()),
    })?;
    let Some(host) = found else { return Ok(Err(others as u16)) };
    let offset = host.offset + host.keep;
    let record_length = host.room();
    assert!(
        record_length >= needed && offset + record_length <= CHUNK_SIZE,
        "invariant 1: the new entry has the room behind another to itself"
    );
    debug_assert!(
        host.keep > 0 || !pending(offset..offset + ENTRY_HEADER_SIZE),
        "invariant 2: an empty slot is taken when nothing of it may come back"
    );
    let mut layout = vec![(offset, empty_entry(record_length, name))];
    if host.keep > 0 {
        let shorter = Box::from((host.keep as u16).to_le_bytes());
        layout.push((host.offset + EntryHeader::RECORD_LENGTH_OFFSET, shorter));
    }
    let slack = others.max(record_length - needed) as u16;
    Ok(Ok(Place { offset, record_length, layout, slack }))
}

/// An entry that names no inode yet.
fn empty_entry(record_length: usize, name: &[u8]) -> Box<[u8]> {
    let mut bytes = vec![0; minimum_record_length(name.len())];
    let header = EntryHeader {
        inode: 0.into(),
        record_length: (record_length as u16).into(),
        kind: 0,
        name_length: name.len() as u8,
    };
    bytes[..ENTRY_HEADER_SIZE].copy_from_slice(header.as_bytes());
    bytes[ENTRY_HEADER_SIZE..ENTRY_HEADER_SIZE + name.len()].copy_from_slice(name);
    bytes.into()
}

/// Maximum length of a record that fits into the chunk, if the entry at `dropped` were gone.
///
/// # Errors
/// [`BadChunk`].
pub fn slack(chunk: &[u8], dropped: Option<usize>) -> Result<u16, BadChunk> {
    let is_empty = |entry: &Entry<'_>| entry.ino == 0 || Some(entry.offset) == dropped;
    let mut most = 0;
    each_host(chunk, is_empty, |host| most = most.max(host.room()))?;
    Ok(most as u16)
}

/// A chunk without names.
pub fn empty_chunk() -> [u8; CHUNK_SIZE] {
    let mut chunk = [0; CHUNK_SIZE];
    EntryHeader::at_mut(&mut chunk, 0).record_length.set(CHUNK_SIZE as u16);
    chunk
}

/// The first chunk of a directory: "." and "..".
pub fn first_chunk(ino: u32, parent: u32, kind: u8) -> [u8; CHUNK_SIZE] {
    let mut chunk = [0; CHUNK_SIZE];
    let dot = minimum_record_length(1);
    for (offset, target, length, name) in
        [(0, ino, dot, &b"."[..]), (dot, parent, CHUNK_SIZE - dot, &b".."[..])]
    {
        let header = EntryHeader {
            inode: target.into(),
            record_length: (length as u16).into(),
            kind,
            name_length: name.len() as u8,
        };
        chunk[offset..offset + ENTRY_HEADER_SIZE].copy_from_slice(header.as_bytes());
        let start = offset + ENTRY_HEADER_SIZE;
        chunk[start..start + name.len()].copy_from_slice(name);
    }
    chunk
}

/// Byte offset of ".." in the first chunk of every directory.
pub const DOT_DOT_OFFSET: usize = minimum_record_length(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(chunk: &mut [u8], place: &Place, ino: u32) {
        for (at, bytes) in &place.layout {
            chunk[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        chunk[place.offset..place.offset + 4].copy_from_slice(&ino.to_le_bytes());
    }

    fn names(chunk: &[u8]) -> Vec<Vec<u8>> {
        let entries = entries(chunk).map(|entry| entry.expect("a whole chunk"));
        entries.filter(Entry::is_live).map(|entry| entry.name.to_vec()).collect()
    }

    #[test]
    fn entries_fill_the_room_behind_others() {
        let mut chunk = first_chunk(9, 2, 4);
        for (ino, name) in [(10, &b"one"[..]), (11, b"second"), (12, b"the third one")] {
            let place = place(&chunk, name, |_| false).unwrap().expect("there is room");
            apply(&mut chunk, &place, ino);
        }
        let all: [&[u8]; 5] = [b".", b"..", b"one", b"second", b"the third one"];
        assert_eq!(names(&chunk), all);
    }

    #[test]
    fn an_entry_has_its_name_for_as_long_as_it_names_something() {
        let mut chunk = first_chunk(9, 2, 4);
        assert_eq!(name_at(&chunk, DOT_DOT_OFFSET), Some(&b".."[..]));
        chunk[DOT_DOT_OFFSET..DOT_DOT_OFFSET + 4].fill(0);
        assert_eq!(name_at(&chunk, DOT_DOT_OFFSET), None);
        assert_eq!(name_at(&chunk, CHUNK_SIZE), None);
    }

    #[test]
    fn a_full_chunk_says_how_much_room_it_has() {
        let mut chunk = empty_chunk();
        let long = [b'x'; 255];
        let first = place(&chunk, &long, |_| false).unwrap().expect("264 of 512 bytes");
        apply(&mut chunk, &first, 5);
        assert_eq!(first.slack, 248);
        assert_eq!(place(&chunk, &long, |_| false).unwrap().unwrap_err(), 248);
    }

    #[test]
    fn a_slot_under_a_delta_keeps_its_name() {
        let mut chunk = empty_chunk();
        let old = place(&chunk, b"old", |_| false).unwrap().unwrap();
        apply(&mut chunk, &old, 5);
        apply(&mut chunk, &old, 0);
        let new = place(&chunk, b"new", |range| range.contains(&0)).unwrap().unwrap();
        assert_eq!(new.offset, minimum_record_length(3));
        let free = place(&chunk, b"new", |_| false).unwrap().unwrap();
        assert_eq!(free.offset, 0);
    }

    #[test]
    fn empty_neighbours_are_room_for_a_longer_name() {
        let mut chunk = empty_chunk();
        let mut offsets = Vec::new();
        for name in [[b'a'; 150], [b'b'; 150], [b'c'; 150]] {
            let place = place(&chunk, &name, |_| false).unwrap().unwrap();
            apply(&mut chunk, &place, 7);
            offsets.push(place.offset);
        }
        for offset in &offsets[..2] {
            chunk[*offset..offset + 4].fill(0);
        }
        let long = place(&chunk, &[b'd'; 255], |_| false).unwrap().expect("two slots together");
        assert_eq!((long.offset, long.record_length), (0, offsets[2]));
        assert_eq!(slack(&chunk, None).map(usize::from), Ok(offsets[2]));
    }

    #[test]
    fn broken_chunks_are_refused() {
        let first_bad = |chunk: &[u8]| entries(chunk).find_map(Result::err);
        assert_eq!(first_bad(&[0; CHUNK_SIZE]), Some(BadChunk { offset: 0 }));
        let mut chunk = first_chunk(9, 2, 4);
        chunk[16] = 8; // the record length of "..": too short for its name
        assert!(first_bad(&chunk).is_some());
        assert!(place(&chunk, b"new", |_| false).is_err() && slack(&chunk, None).is_err());
        let mut chunk = first_chunk(9, 2, 4);
        chunk[8] = b'/';
        assert_eq!(first_bad(&chunk), Some(BadChunk { offset: 0 }));
    }
}
