//! Recovery: which entries of an NVRAM hold, after whatever happened.
//!
//! A buffer has two headers and the data, and any word of a torn write is new or old.
//! The header that fits the data tells what the buffer holds. Where none does, the later header
//! tells of a write that was torn, or of an entry that has rotted. Everything up to some sequence
//! was durable, says any later header or mark: a wrong checksum at or below it is rot, above it a
//! tear. What cannot be read is no tear: it is lost, until a start can read it. But where one
//! header cannot be read and the other knows of no entry, a write was torn, if there was one: the
//! buffer becomes void before anything says what is durable. Where neither header of a buffer can
//! be read, or neither copy of a part of the map is whole, nobody knows what is there: the start
//! fails.
//!
//! Each of two memories has everything that was answered, and a cut leaves them unlike: any header
//! of either that fits the data of either tells what the buffer holds. That both are alike proves
//! nothing. An entry that only one of them has is written to the other before anything rests on it.
//! A memory that does not count is asked last: its headers prove nothing, but data that fit the
//! header of one that counts are those.
//!
//! Invariants:
//! 1. Of the entries of a block that are whole and not void, the latest holds.
//! 2. A block whose latest entry has rotted is lost: no older version of it is read.
//! 3. No sequence is given away that a header on the medium may have.
//!
//! Not asserted: 1, 2 and 3, which are about the medium and which `tests/it` breaks.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::rc::Rc;

use block::{BlockDevice, Buffer as Memory, Durability, IoError, Verb};
use bytes::Bytes;
use futures::future::join_all;

use crate::directory::{Buffer, Directory, Entry, NOWHERE};
use crate::format::{BLOCK, Header, Id, Label, Layout, MARKS, SECTOR, SLOT, marks_in, sum};
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
    /// The counts, and sectors of the void map whose copies differ.
    pub(crate) rest: (Recovered, [Vec<u64>; 2]),
    /// Bytes that one memory lacks and the other has.
    pub(crate) repairs: Vec<Repair>,
    /// Buffers that are believed, and of which nothing says that they were durable.
    pub(crate) unproven: Vec<(Buffer, Entry)>,
}

/// Writes entries again as they are: a call that failed before a kill may have left them in a cache
/// of which no later flush promises anything. A cut leaves a whole one, or a torn one, as before. A
/// header that cannot be read becomes like the other. Nothing rests on an entry that cannot be read
/// or written.
pub(crate) async fn write_again(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    recovery: &mut Recovery,
) {
    for (buffer, entry) in std::mem::take(&mut recovery.unproven) {
        let is_done = is_planted(Bug::StrandedEntries)
            || write_one_again(memory, layout, buffer, &entry).await;
        if !is_done {
            recovery.directory.doubt(buffer);
        }
    }
}

/// Whether it was whole, and is written.
async fn write_one_again(
    memory: &Rc<dyn BlockDevice>,
    layout: &Layout,
    buffer: Buffer,
    entry: &Entry,
) -> bool {
    let (mut slot, unread) = read_slots(memory, layout, buffer, 1).await;
    match &unread[..] {
        [Some(_), .., None] => slot.copy_within(TAIL.., 0),
        [None, .., Some(_)] => slot.copy_within(..HEAD, TAIL),
        _ => {}
    }
    if !is_data_read(&unread) || sum(&slot[HEAD..TAIL]) != entry.data_sum {
        return false;
    }
    let at = layout.slot(buffer);
    memory.write(at, vec![slot.freeze()], Durability::Plain).await.is_ok()
}

/// Bytes that one of two memories lacks.
pub(crate) struct Repair {
    /// The memory, as it was given.
    pub(crate) copy: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
    /// The bytes are those of a memory that does not count.
    pub(crate) is_from_elsewhere: bool,
}

/// A buffer as one memory has it, and of each sector why it cannot be read, if so.
type SlotCopy<'a> = (&'a [u8], &'a [Option<IoError>]);

/// The content of a buffer, and all that its headers say.
struct Judged {
    content: Content,
    /// The newest header, whether or not it fits the data.
    newest: Option<Header>,
    /// The sequence up to which its headers say that all was durable, and the last one they have.
    durable: u64,
    last: u64,
    /// A header cannot be read in some memory.
    is_header_unread: bool,
    /// The buffer as it should be in each memory that has something else.
    repairs: Vec<(usize, u64, Bytes)>,
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

/// Reads all buffers of an NVRAM, which was flushed. A memory that does not count may be asked.
pub(crate) async fn recover(
    copies: &[Rc<dyn BlockDevice>],
    elsewhere: Option<&dyn BlockDevice>,
    layout: &Layout,
    label: &Label,
) -> Result<Recovery, IoError> {
    let Marks { mut void, durable, torn: torn_marks } = read_map(copies, layout, &label.id).await?;
    // What the label calls void is void, whatever the map says.
    let before = label.first_sequence.saturating_sub(1);
    void.iter_mut().for_each(|mark| *mark = (*mark).max(before));
    let durable = durable.max(label.durable);
    let mut buffers =
        read_buffers(copies, layout, (&label.id, &void), (durable, before.max(durable))).await?;
    if let Some(elsewhere) = elsewhere.filter(|_| !is_planted(Bug::UnaskedTwin)) {
        let of = (&label.id, &void[..]);
        ask_elsewhere(elsewhere, copies.len(), layout, of, &mut buffers).await;
    }
    let Buffers { contents, durable, mut last, repairs } = buffers;
    if is_planted(Bug::OldSequences) {
        last = durable;
    }
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
    let late = found.iter().filter(|(_, entry)| entry.sequence > durable);
    let unproven = late.filter(|found| !unsure.contains(&found.0)).copied().collect();
    recovered.torn = torn.len() as u64;
    directory.recover(&void, found);
    if !is_planted(Bug::UnreadIsDurable) {
        unsure.into_iter().for_each(|buffer| directory.doubt(buffer));
    }
    torn.into_iter().for_each(|torn| directory.recover_torn(torn, durable));
    Ok(Recovery { directory, rest: (recovered, torn_marks), repairs, unproven })
}

/// The contents of all buffers.
struct Buffers {
    /// One for each buffer, with its newest header, and whether one cannot be read.
    contents: Vec<(Content, Option<Header>, bool)>,
    /// The sequence up to which all was durable.
    durable: u64,
    /// The last sequence that was given away.
    last: u64,
    repairs: Vec<Repair>,
}

/// Reads all buffers. The map and the label told of these sequences.
async fn read_buffers(
    copies: &[Rc<dyn BlockDevice>],
    layout: &Layout,
    (id, void): (&Id, &[u64]),
    (durable, last): (u64, u64),
) -> Result<Buffers, IoError> {
    let contents = Vec::with_capacity(layout.buffers as usize);
    let mut buffers = Buffers { contents, durable, last, repairs: Vec::new() };
    for first in (0..layout.buffers).step_by(AT_ONCE as usize) {
        let count = AT_ONCE.min(layout.buffers - first);
        let read = copies.iter().map(|copy| read_slots(copy, layout, first, count));
        let read = join_all(read).await;
        for index in 0..count as usize {
            let (bytes, sectors) = (index * SLOT as usize, index * SECTORS);
            let slots: Vec<SlotCopy<'_>> = (read.iter())
                .map(|(all, unread)| {
                    (&all[bytes..bytes + SLOT as usize], &unread[sectors..sectors + SECTORS])
                })
                .collect();
            let buffer = first + index as u64;
            let judged = judge(&slots, id, void[buffer as usize])?;
            buffers.durable = buffers.durable.max(judged.durable);
            buffers.last = buffers.last.max(judged.last);
            let at = layout.slot(buffer);
            let repairs = judged.repairs.into_iter();
            buffers.repairs.extend(repairs.map(|(copy, offset, bytes)| Repair {
                copy,
                offset: at + offset,
                bytes,
                is_from_elsewhere: false,
            }));
            let Judged { content, newest, is_header_unread, .. } = judged;
            buffers.contents.push((content, newest, is_header_unread));
        }
    }
    Ok(buffers)
}

/// Takes the data of entries that have rotted from a memory that does not count, if it has those.
async fn ask_elsewhere(
    elsewhere: &dyn BlockDevice,
    copies: usize,
    layout: &Layout,
    (id, void): (&Id, &[u64]),
    buffers: &mut Buffers,
) {
    for (buffer, (content, ..)) in (0..).zip(&mut buffers.contents) {
        let (Content::Broken(header) | Content::Unread(header)) = content else { continue };
        let Header { place, sequence, mask, lost, data_sum, .. } = *header;
        if sequence <= void[buffer as usize] {
            continue;
        }
        let room = Memory::unfilled(SLOT as usize);
        let Ok(slot) = elsewhere.read(layout.slot(buffer), room).await else { continue };
        let mut heads =
            [&slot[..HEAD], &slot[TAIL..]].map(|bytes| Header::decode(bytes, id)).into_iter();
        let is_same = heads.any(|head| head.is_some_and(|head| head.sequence == sequence));
        if is_same && sum(&slot[HEAD..TAIL]) == data_sum {
            let head = header.encode();
            let bytes = Bytes::from([&head, &slot[HEAD..TAIL], &head].concat());
            let offset = layout.slot(buffer);
            let is_from_elsewhere = true;
            let repair = |copy| Repair { copy, offset, bytes: bytes.clone(), is_from_elsewhere };
            let repairs = (0..copies).map(repair);
            // Later than those of the headers alone.
            buffers.repairs.extend(repairs);
            *content = Content::Whole(Entry { place, sequence, mask, lost, data_sum });
        }
    }
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

/// Judges a buffer by its copies, one for each memory.
///
/// # Errors
/// No header can be read.
fn judge(copies: &[SlotCopy<'_>], id: &Id, void: u64) -> Result<Judged, IoError> {
    let unread_headers = copies.iter().map(|(_, unread)| match unread {
        [Some(error), .., Some(_)] => Some(error.clone()),
        _ => None,
    });
    let unread_headers: Option<Vec<IoError>> = unread_headers.collect();
    if let Some(error) = unread_headers.and_then(|errors| errors.into_iter().next())
        && !is_planted(Bug::UnreadIsVoid)
    {
        return Err(error);
    }
    let headers: Vec<[Option<Header>; 2]> = (copies.iter())
        .map(|(slot, _)| [&slot[..HEAD], &slot[TAIL..]].map(|bytes| Header::decode(bytes, id)))
        .collect();
    let mut by_age: Vec<Header> = headers.iter().flatten().flatten().copied().collect();
    by_age.sort_unstable_by_key(|header| std::cmp::Reverse(header.sequence));
    let sums: Vec<Option<u32>> = (copies.iter())
        .map(|(slot, unread)| is_data_read(unread).then(|| sum(&slot[HEAD..TAIL])))
        .collect();
    let are_alike = copies.len() > 1 && copies.iter().all(|copy| copy == &copies[0]);
    let fits = |header: &&Header| {
        sums.contains(&Some(header.data_sum)) || are_alike && is_planted(Bug::AlikeIsRight)
    };
    let whole = by_age.iter().find(fits).copied();
    let newest = by_age.first().copied();
    let content = match (whole, newest) {
        (Some(Header { place, sequence, mask, lost, data_sum, .. }), _) => {
            let data_sum = sums.iter().flatten().find(|_| are_alike).copied().unwrap_or(data_sum);
            Content::Whole(Entry { place, sequence, mask, lost, data_sum })
        }
        (None, Some(header)) => {
            let is_unread = is_unread(copies, &headers, &header);
            let is_torn = !is_unread || is_planted(Bug::UnreadIsTorn);
            if is_torn { Content::Broken(header) } else { Content::Unread(header) }
        }
        (None, None) => Content::Nothing,
    };
    let needed = whole.or(newest).filter(|header| header.sequence > void);
    let repairs = match needed {
        Some(header) if copies.len() > 1 => repairs(copies, &sums, &header),
        _ => Vec::new(),
    };
    let largest = |of: fn(&Header) -> u64| by_age.iter().map(of).max().unwrap_or_default();
    Ok(Judged {
        content,
        newest,
        durable: largest(|header| header.durable),
        last: largest(|header| header.sequence),
        is_header_unread: (copies.iter())
            .any(|(_, unread)| unread[0].is_some() || unread[SECTORS - 1].is_some()),
        repairs,
    })
}

/// Sectors of a buffer with its headers, and the bytes before its data and before the last header.
const SECTORS: usize = (SLOT / SECTOR) as usize;
const HEAD: usize = SECTOR as usize;
const TAIL: usize = (SECTOR + BLOCK) as usize;

fn is_data_read(unread: &[Option<IoError>]) -> bool {
    unread[1..SECTORS - 1].iter().all(Option::is_none)
}

/// Whether nobody knows if the data of a header are whole, which are read nowhere. A memory that
/// can be read never got them, so the write was not answered; or they have rotted there.
fn is_unread(copies: &[SlotCopy<'_>], headers: &[[Option<Header>; 2]], newest: &Header) -> bool {
    let has_it = |headers: &[Option<Header>; 2]| {
        headers.iter().flatten().any(|it| it.sequence == newest.sequence)
    };
    let mut all = copies.iter().zip(headers);
    let is_unread = all.any(|((_, unread), its)| has_it(its) && !is_data_read(unread));
    let is_known = copies.iter().any(|(_, unread)| unread.iter().all(Option::is_none));
    is_unread && (!is_known || is_planted(Bug::TornInOne))
}

/// The parts that memories lack of an entry with this header: all of it, or where no data fit, its
/// headers, so that neither forgets what is lost.
fn repairs(
    copies: &[SlotCopy<'_>],
    sums: &[Option<u32>],
    header: &Header,
) -> Vec<(usize, u64, Bytes)> {
    let head = header.encode();
    let data = sums.iter().position(|it| *it == Some(header.data_sum));
    let data = data.map(|at| &copies[at].0[HEAD..TAIL]);
    let mut repairs = Vec::new();
    for (copy, (slot, unread)) in copies.iter().enumerate() {
        let is_read = |sector: usize| unread[sector].is_none();
        let has_heads = slot[..HEAD] == head && slot[TAIL..] == head;
        let has_heads = has_heads && is_read(0) && is_read(SECTORS - 1);
        let has_data = data.is_none_or(|data| is_data_read(unread) && slot[HEAD..TAIL] == *data);
        match data {
            _ if has_heads && has_data => {}
            Some(data) => repairs.push((copy, 0, Bytes::from([&head, data, &head].concat()))),
            None => {
                let head = Bytes::copy_from_slice(&head);
                repairs.push((copy, 0, head.clone()));
                repairs.push((copy, TAIL as u64, head));
            }
        }
    }
    repairs
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
    /// Sectors whose copies differ: those whose second copy is whole, and the others.
    torn: [Vec<u64>; 2],
}

async fn read_map(
    copies: &[Rc<dyn BlockDevice>],
    layout: &Layout,
    id: &Id,
) -> Result<Marks, IoError> {
    let mut marks =
        Marks { void: vec![0; layout.buffers as usize], durable: 0, torn: Default::default() };
    for sector in 0..layout.map_sectors() {
        let mut found = Vec::new();
        let mut failed = None;
        let places = layout.map(sector);
        for (memory, at) in copies.iter().flat_map(|copy| places.map(|at| (copy, at))) {
            let read = memory.read(at, Memory::unfilled(SECTOR as usize)).await;
            found.push(read.as_ref().ok().and_then(|bytes| marks_in(bytes, id)));
            failed = read.err().or(failed);
        }
        let is_known = found.iter().any(Option::is_some) || is_planted(Bug::UnreadIsVoid);
        if let Some(error) = failed.filter(|_| !is_known) {
            return Err(error);
        }
        if found.iter().all(Option::is_none) && !is_planted(Bug::UnreadIsVoid) {
            // A cut leaves one of them whole.
            return Err(IoError::new(Verb::Read, places[0], SECTOR, ErrorKind::InvalidData));
        }
        if found.iter().any(|copy| *copy != found[0]) {
            // The copies of all memories are written at once: one that is whole comes last.
            let has_first = found.iter().step_by(2).any(Option::is_some);
            let has_second = found.iter().skip(1).step_by(2).all(Option::is_some);
            marks.torn[usize::from(has_first && !has_second)].push(sector);
        }
        for (found, durable) in found.into_iter().flatten() {
            marks.durable = marks.durable.max(durable);
            let of = marks.void.iter_mut().skip((sector * MARKS) as usize);
            of.zip(found).for_each(|(void, mark)| *void = (*void).max(mark));
        }
    }
    Ok(marks)
}
