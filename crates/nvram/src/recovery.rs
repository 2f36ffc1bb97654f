//! Recovery: which entries of an NVRAM hold, after whatever happened.
//!
//! Of each buffer there are two headers and the data, and any sector of a torn write is new or old.
//! The header that fits the data tells what the buffer holds. Where none does, the later header
//! tells of a write that was torn, or of an entry that has rotted. Everything up to some sequence
//! was durable, says any later header or mark: a wrong checksum at or below it is rot, above it a
//! tear. What cannot be read is no tear: it is lost, until a start can read it. But where one
//! header cannot be read and the other knows of no entry, a write was torn, if there was one: the
//! buffer becomes void before anything says what is durable. Where neither header of a buffer can
//! be read, or neither copy of a part of the map, nobody knows what is there: the start fails.
//!
//! Invariants:
//! 1. Of the entries of a block that are whole and not void, the latest holds.
//! 2. A block whose latest entry has rotted is lost: no older version of it is read.
//! 3. No sequence is given away that a header on the medium may have.
//!
//! Not asserted: 1, 2 and 3, which are about the medium and which `tests/it` breaks.

use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockDevice, Buffer as Memory, IoError};

use crate::directory::{Buffer, Directory, Entry};
use crate::format::{BLOCK, Header, Id, Label, Layout, MARKS, SECTOR, SLOT, decode_marks, sum};
use crate::planted::{Bug, is_planted};

/// Buffers that are read at once.
const AT_ONCE: u64 = 128;

/// What an opening has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Blocks that are to go below.
    pub dirty: u64,
    /// Writes that a cut has torn. None of them was durable.
    pub torn: u64,
    /// Entries that have rotted: their sectors are lost until they are written.
    pub rotten: u64,
}

/// The state of an NVRAM after recovery.
pub(crate) struct Recovery {
    pub(crate) directory: Directory,
    pub(crate) recovered: Recovered,
    /// Sectors of the void map whose copies differ.
    pub(crate) torn_marks: Vec<u64>,
}

/// What a buffer holds.
enum Content {
    Nothing,
    /// A whole entry.
    Whole(Entry),
    /// A header tells of an entry that does not fit it. Another header may tell of an older one,
    /// which was void when it was written over.
    Broken(Header),
    /// The same, and a part of it cannot be read: a cut does not do that.
    Unread(Header),
}

/// Reads all buffers of an NVRAM, which was flushed.
pub(crate) async fn recover(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    label: &Label,
) -> Result<Recovery, IoError> {
    let Marks { mut void, durable, torn: torn_marks } = read_map(memory, layout, &label.id).await?;
    let durable = durable.max(label.durable);
    let last = label.first_sequence.saturating_sub(1).max(durable);
    let Buffers { contents, durable, mut last } =
        read_buffers(memory, layout, &label.id, (durable, last)).await?;
    if is_planted(Bug::OldSequences) {
        last = durable;
    }
    // What the label calls void is void, whatever the map says.
    let before = label.first_sequence.saturating_sub(1);
    void.iter_mut().for_each(|mark| *mark = (*mark).max(before));
    let mut recovered = Recovered::default();
    let mut found: Vec<(Buffer, Entry)> = Vec::new();
    let mut torn: Vec<(Buffer, u64, u64)> = Vec::new();
    let mut unsure: Vec<Buffer> = Vec::new();
    // Nobody knows the entries that they may have, but no sequence in flight was above that.
    let above = last + layout.buffers + 1;
    for (buffer, (content, newest, is_header_unread)) in (0..).zip(contents) {
        let is_void = |sequence: u64| sequence <= void[buffer as usize];
        match content {
            Content::Whole(entry) if !is_void(entry.sequence) => found.push((buffer, entry)),
            Content::Broken(header) if !is_void(header.sequence) => {
                let is_rot = header.sequence <= durable || is_planted(Bug::TornIsRot);
                if is_rot && !is_planted(Bug::RotIsTorn) {
                    found.push((buffer, lost_entry(&header)));
                } else {
                    torn.push((buffer, header.place, header.sequence));
                }
            }
            Content::Unread(header) if !is_void(header.sequence) => {
                found.push((buffer, lost_entry(&header)));
                unsure.extend((header.sequence > durable).then_some(buffer));
            }
            // A void entry that a torn write may have begun to write over.
            _ => match newest.filter(|it| !is_void(it.sequence)) {
                Some(header) => torn.push((buffer, header.place, header.sequence)),
                None if is_header_unread && !is_planted(Bug::UnreadHeader) => {
                    last = last.max(above + buffer);
                    torn.push((buffer, NOWHERE, above + buffer));
                }
                None => {}
            },
        }
    }
    let mut directory = Directory::new(layout.buffers, last + 1);
    if is_planted(Bug::FirstFound) {
        found.iter_mut().for_each(|(buffer, entry)| entry.sequence = last - *buffer);
    }
    (recovered.dirty, recovered.rotten) = count(&found);
    recovered.torn = torn.len() as u64;
    directory.recover(&void, found);
    if !is_planted(Bug::UnreadIsDurable) {
        unsure.into_iter().for_each(|buffer| directory.doubt(buffer));
    }
    for (buffer, place, sequence) in torn {
        directory.recover_torn(buffer, place, sequence);
    }
    Ok(Recovery { directory, recovered, torn_marks })
}

/// The place of an entry that nobody knows.
const NOWHERE: u64 = u64::MAX;

/// The contents of all buffers.
struct Buffers {
    /// One for each buffer, with its newest header, and whether one cannot be read.
    contents: Vec<(Content, Option<Header>, bool)>,
    /// The sequence up to which all was durable.
    durable: u64,
    /// The last sequence that was given away.
    last: u64,
}

/// Reads all buffers. The map and the label told of these sequences.
async fn read_buffers(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    id: &Id,
    (mut durable, mut last): (u64, u64),
) -> Result<Buffers, IoError> {
    let mut contents = Vec::with_capacity(layout.buffers as usize);
    for first in (0..layout.buffers).step_by(AT_ONCE as usize) {
        let count = AT_ONCE.min(layout.buffers - first);
        let (bytes, unread) = read_slots(memory, layout, first, count).await;
        let sectors = unread.chunks_exact((SLOT / SECTOR) as usize);
        for (slot, unread) in bytes.chunks_exact(SLOT as usize).zip(sectors) {
            let (content, headers) = judge((slot, unread), id)?;
            for header in headers.iter().flatten() {
                durable = durable.max(header.durable);
                last = last.max(header.sequence);
            }
            let newest = headers.into_iter().flatten().max_by_key(|header| header.sequence);
            let is_header_unread =
                [unread.first(), unread.last()].iter().any(|it| *it != Some(&None));
            contents.push((content, newest, is_header_unread));
        }
    }
    Ok(Buffers { contents, durable, last })
}

/// The blocks whose latest entry has data, and those whose latest entry has lost some.
fn count(found: &[(Buffer, Entry)]) -> (u64, u64) {
    let mut latest: BTreeMap<u64, Entry> = BTreeMap::new();
    for (_, entry) in found {
        let known = latest.entry(entry.place).or_insert(*entry);
        if known.sequence < entry.sequence {
            *known = *entry;
        }
    }
    let dirty = latest.values().filter(|entry| entry.mask != 0).count();
    let rotten = latest.values().filter(|entry| entry.lost != 0).count();
    (dirty as u64, rotten as u64)
}

fn lost_entry(header: &Header) -> Entry {
    let Header { place, sequence, mask, lost, data_sum, .. } = *header;
    Entry { place, sequence, mask: 0, lost: lost | mask, data_sum }
}

/// What a buffer holds, and the headers that it has. Of each sector: why it cannot be read, if so.
///
/// # Errors
/// Neither header can be read.
fn judge(
    (slot, unread): (&[u8], &[Option<IoError>]),
    id: &Id,
) -> Result<(Content, [Option<Header>; 2]), IoError> {
    if let [Some(error), .., Some(_)] = unread
        && !is_planted(Bug::UnreadIsVoid)
    {
        return Err(error.clone());
    }
    let behind = (SECTOR + BLOCK) as usize;
    let data = &slot[SECTOR as usize..behind];
    let headers =
        [&slot[..SECTOR as usize], &slot[behind..]].map(|bytes| Header::decode(bytes, id));
    let mut by_age: Vec<Header> = headers.into_iter().flatten().collect();
    by_age.sort_unstable_by_key(|header| std::cmp::Reverse(header.sequence));
    let is_read = unread[1..unread.len() - 1].iter().all(Option::is_none);
    let data_sum = is_read.then(|| sum(data));
    let content = match by_age.iter().find(|header| Some(header.data_sum) == data_sum) {
        Some(&Header { place, sequence, mask, lost, data_sum, .. }) => {
            Content::Whole(Entry { place, sequence, mask, lost, data_sum })
        }
        None => match by_age.first() {
            Some(&header) if is_read || is_planted(Bug::UnreadIsTorn) => Content::Broken(header),
            Some(&header) => Content::Unread(header),
            None => Content::Nothing,
        },
    };
    Ok((content, headers))
}

/// Some buffers, and of each sector why it cannot be read, if so: it is zeros.
async fn read_slots(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    first: u64,
    count: u64,
) -> (Memory, Vec<Option<IoError>>) {
    let at = layout.slot(first);
    let mut unread = vec![None; (count * SLOT / SECTOR) as usize];
    let room = Memory::unfilled((count * SLOT) as usize);
    if let Ok(bytes) = memory.read(at, room).await {
        return (bytes, unread);
    }
    let mut bytes = Memory::zeroed((count * SLOT) as usize);
    for (index, sector) in bytes.chunks_exact_mut(SECTOR as usize).enumerate() {
        let room = Memory::unfilled(SECTOR as usize);
        match memory.read(at + index as u64 * SECTOR, room).await {
            Ok(read) => sector.copy_from_slice(&read),
            Err(error) => unread[index] = Some(error),
        }
    }
    (bytes, unread)
}

/// The void map.
struct Marks {
    /// The mark of each buffer: the larger one of the copies that are whole.
    void: Vec<u64>,
    /// The sequence up to which all was durable.
    durable: u64,
    /// Sectors whose copies differ.
    torn: Vec<u64>,
}

/// The marks of a sector of the map. One that was never written has none.
fn marks_in(bytes: &[u8], id: &Id) -> Option<([u64; MARKS as usize], u64)> {
    let is_new = bytes.iter().all(|&byte| byte == 0);
    if is_new { Some(([0; MARKS as usize], 0)) } else { decode_marks(bytes, id) }
}

async fn read_map(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    id: &Id,
) -> Result<Marks, IoError> {
    let mut marks = Marks { void: vec![0; layout.buffers as usize], durable: 0, torn: Vec::new() };
    for sector in 0..layout.map_sectors() {
        let mut copies = Vec::new();
        let mut failed = Vec::new();
        for at in layout.map(sector) {
            let read = memory.read(at, Memory::unfilled(SECTOR as usize)).await;
            copies.push(read.as_ref().ok().and_then(|bytes| marks_in(bytes, id)));
            failed.extend(read.err());
        }
        let is_known = copies != [None, None] || is_planted(Bug::UnreadIsVoid);
        if let Some(error) = failed.pop().filter(|_| !is_known) {
            return Err(error);
        }
        if copies[0] != copies[1] {
            marks.torn.push(sector);
        }
        for (found, durable) in copies.into_iter().flatten() {
            marks.durable = marks.durable.max(durable);
            let of = marks.void.iter_mut().skip((sector * MARKS) as usize);
            of.zip(found).for_each(|(void, mark)| *void = (*void).max(mark));
        }
    }
    Ok(marks)
}
