//! Recovery: which entries of an NVRAM hold, after whatever happened.
//!
//! Of each buffer there are two headers and the data, and any sector of a torn write is new or old.
//! The header that fits the data tells what the buffer holds. Where none does, the later header
//! tells of a write that was torn, or of an entry that has rotted. Everything up to some sequence
//! was durable, says any later header or mark: a wrong checksum at or below it is rot, above it a
//! tear.
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
}

/// Reads all buffers of an NVRAM, which was flushed.
pub(crate) async fn recover(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    label: &Label,
) -> Result<Recovery, IoError> {
    let Marks { mut void, mut durable, torn: torn_marks } =
        read_map(memory, layout, &label.id).await;
    durable = durable.max(label.durable);
    let mut contents = Vec::with_capacity(layout.buffers as usize);
    let mut last = label.first_sequence.saturating_sub(1).max(durable);
    for first in (0..layout.buffers).step_by(AT_ONCE as usize) {
        let count = AT_ONCE.min(layout.buffers - first);
        let bytes = read_slots(memory, layout, first, count).await?;
        for slot in bytes.chunks_exact(SLOT as usize) {
            let (content, headers) = judge(slot, &label.id);
            for header in headers.iter().flatten() {
                durable = durable.max(header.durable);
                last = last.max(header.sequence);
            }
            let newest = headers.into_iter().flatten().max_by_key(|header| header.sequence);
            contents.push((content, newest));
        }
    }
    if is_planted(Bug::OldSequences) {
        last = durable;
    }
    // What the label calls void is void, whatever the map says.
    let before = label.first_sequence.saturating_sub(1);
    void.iter_mut().for_each(|mark| *mark = (*mark).max(before));
    let mut directory = Directory::new(layout.buffers, last + 1);
    let mut recovered = Recovered::default();
    let mut found: Vec<(Buffer, Entry)> = Vec::new();
    let mut torn: Vec<(Buffer, Header)> = Vec::new();
    for (buffer, (content, newest)) in (0..).zip(contents) {
        let is_void = |sequence: u64| sequence <= void[buffer as usize];
        match content {
            Content::Whole(entry) if !is_void(entry.sequence) => found.push((buffer, entry)),
            Content::Broken(header) if !is_void(header.sequence) => {
                let is_rot = header.sequence <= durable || is_planted(Bug::TornIsRot);
                if is_rot && !is_planted(Bug::RotIsTorn) {
                    found.push((buffer, lost_entry(&header)));
                } else {
                    torn.push((buffer, header));
                }
            }
            // A void entry that a torn write has begun to write over.
            _ => torn
                .extend(newest.filter(|it| !is_void(it.sequence)).map(|header| (buffer, header))),
        }
    }
    if is_planted(Bug::FirstFound) {
        found.iter_mut().for_each(|(buffer, entry)| entry.sequence = last - *buffer);
    }
    let mut latest: BTreeMap<u64, Entry> = BTreeMap::new();
    for (_, entry) in &found {
        let known = latest.entry(entry.place).or_insert(*entry);
        if known.sequence < entry.sequence {
            *known = *entry;
        }
    }
    recovered.dirty = latest.values().filter(|entry| entry.mask != 0).count() as u64;
    recovered.rotten = latest.values().filter(|entry| entry.lost != 0).count() as u64;
    recovered.torn = torn.len() as u64;
    directory.recover(&void, found);
    for (buffer, header) in torn {
        directory.recover_torn(buffer, header.place, header.sequence);
    }
    Ok(Recovery { directory, recovered, torn_marks })
}

fn lost_entry(header: &Header) -> Entry {
    let Header { place, sequence, mask, lost, data_sum, .. } = *header;
    Entry { place, sequence, mask: 0, lost: lost | mask, data_sum }
}

/// What a buffer holds, and the headers that it has.
fn judge(slot: &[u8], id: &Id) -> (Content, [Option<Header>; 2]) {
    let behind = (SECTOR + BLOCK) as usize;
    let data = &slot[SECTOR as usize..behind];
    let headers =
        [&slot[..SECTOR as usize], &slot[behind..]].map(|bytes| Header::decode(bytes, id));
    let mut by_age: Vec<Header> = headers.into_iter().flatten().collect();
    by_age.sort_unstable_by_key(|header| std::cmp::Reverse(header.sequence));
    let data_sum = sum(data);
    let content = match by_age.iter().find(|header| header.data_sum == data_sum) {
        Some(&Header { place, sequence, mask, lost, data_sum, .. }) => {
            Content::Whole(Entry { place, sequence, mask, lost, data_sum })
        }
        None => by_age.first().map_or(Content::Nothing, |&header| Content::Broken(header)),
    };
    (content, headers)
}

/// Some buffers. What cannot be read is zeros, and so fits nothing.
async fn read_slots(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    first: u64,
    count: u64,
) -> Result<Memory, IoError> {
    let at = layout.slot(first);
    let room = Memory::unfilled((count * SLOT) as usize);
    if let Ok(bytes) = memory.read(at, room).await {
        return Ok(bytes);
    }
    let mut bytes = Memory::zeroed((count * SLOT) as usize);
    for (index, sector) in bytes.chunks_exact_mut(SECTOR as usize).enumerate() {
        let room = Memory::unfilled(SECTOR as usize);
        if let Ok(read) = memory.read(at + index as u64 * SECTOR, room).await {
            sector.copy_from_slice(&read);
        }
    }
    Ok(bytes)
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

async fn read_map(memory: &Rc<dyn BlockDevice>, layout: &Layout, id: &Id) -> Marks {
    let mut marks = Marks { void: vec![0; layout.buffers as usize], durable: 0, torn: Vec::new() };
    for sector in 0..layout.map_sectors() {
        let mut copies = Vec::new();
        for at in layout.map(sector) {
            let read = memory.read(at, Memory::unfilled(SECTOR as usize)).await;
            copies.push(read.ok().and_then(|bytes| decode_marks(&bytes, id)));
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
    marks
}
