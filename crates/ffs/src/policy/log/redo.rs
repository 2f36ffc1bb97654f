//! From an Update to the entry that redoes it.
//!
//! Inodes and directory chunks are logged whole, bits and pointers as far as they change; of a
//! block that is new, what is not zero. A small payload rides along: then the entry alone makes it
//! durable. A larger one is durable before; what an older entry holds of the same place is revoked.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use directory::entry::CHUNK_SIZE;
use journal::Draft;
use ufs2::layout::{Dinode, Geometry, POINTER_SIZE};

use super::answer;
use super::record::{LINE, Map, Record, write_records};
use crate::buffer::{Buffer, Role};
use crate::edit::{Edit, Extent};
use crate::planted::{Bug, is_planted};
use crate::policy::StagedUpdate;
use crate::update::{ChainLink, Update};

/// Shorter zeros are logged as they are.
const SHORT: usize = LINE;

/// What the payload of an Update takes in its entry if it rides there: if that is at most so many
/// bytes, of which zeros count none.
pub(super) fn rides(payload: &[(u64, Vec<Bytes>)], most: usize) -> Option<usize> {
    let (mut bytes, mut lines) = (0, 0);
    for piece in payload.iter().flat_map(|(_, pieces)| pieces) {
        bytes += if is_zero(piece) { 0 } else { piece.len() };
        lines += 1;
    }
    let all = || payload.iter().map(|(_, pieces)| block::length_of(pieces) as usize).sum();
    let taken = if is_planted(Bug::HeavyZeros) { all() } else { bytes };
    (bytes <= most).then_some(taken + lines * LINE)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.len() > SHORT && holds_nothing(bytes)
}

/// Looks at many bytes at a time, and stops at a chunk that holds something, not at a byte.
fn holds_nothing(bytes: &[u8]) -> bool {
    bytes.chunks(CHUNK_SIZE).all(|some| some.iter().fold(0, |seen, byte| seen | byte) == 0)
}

/// The most bytes that the body of the entry for an Update can have: those of which
/// [`Redo::draft`] makes it, each item's for itself.
///
/// An Update is never so large that this is more than an entry can have: it lands so many blocks
/// or clears so many ([`crate::data`], [`crate::size`]), each with a bit and a pointer, and two
/// more of each if a tree begins or ends there; a directory that moves is less than a block, and
/// what rides is little.
pub(super) fn bound(update: &Update, rides: Option<usize>) -> usize {
    let items = update.items.iter().filter_map(|item| item.change.as_ref());
    let items: usize = items.map(|(buffer, edit)| bound_of(buffer, edit)).sum();
    let inodes = update.inode_count() * (size_of::<Dinode>() + LINE);
    let payload = rides.unwrap_or(update.payload.len() * LINE); // what it revokes
    items + inodes + payload + LINE + answer::LARGEST
}

fn bound_of(buffer: &Buffer, edit: &Edit) -> usize {
    match edit {
        Edit::Whole => buffer.read(|image| whole(buffer.role(), image)),
        Edit::Bytes { .. } if buffer.role() == Role::Directory => CHUNK_SIZE + LINE,
        // What is set beside pointers that are cleared is a record of its own, and two stretches
        // of zeros are left.
        Edit::Bytes { new, .. } if is_zero(new) => 2 * LINE,
        Edit::Bytes { new, .. } => new.len() + LINE,
        Edit::Entry { .. } => CHUNK_SIZE + LINE,
        Edit::Bits { .. } => LINE,
        Edit::Count { .. } => size_of::<u32>() + LINE,
    }
}

/// Bytes that a new block takes.
fn whole(role: Role, image: &[u8]) -> usize {
    match role {
        Role::Inodes => image.len() / size_of::<Dinode>() * size_of::<u32>() + LINE,
        _ => {
            let spans = spans(image, unit_of(role));
            spans.iter().map(|span| span.len() + LINE).sum::<usize>() + LINE
        }
    }
}

fn unit_of(role: Role) -> usize {
    if role == Role::Directory { CHUNK_SIZE } else { POINTER_SIZE }
}

/// The stretches of a block that are not zero.
fn spans(image: &[u8], unit: usize) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (index, piece) in image.chunks(unit).enumerate() {
        let at = index * unit;
        match spans.last_mut() {
            _ if holds_nothing(piece) => {}
            Some(last) if last.end == at => last.end += piece.len(),
            _ => spans.push(at..at + piece.len()),
        }
    }
    spans
}

/// Collects the records of one entry.
pub(super) struct Redo<'a> {
    geometry: &'a Geometry,
    records: Vec<Record>,
    /// Bytes of buffers to be logged, once all of the Update has been applied.
    extents: Vec<(Rc<Buffer>, Range<usize>)>,
}

impl<'a> Redo<'a> {
    /// The entry of an Update whose items have been applied. `is_logged` says of a run of
    /// fragments whether an older entry, which may be replayed, holds payload of it.
    pub(super) fn draft(
        geometry: &'a Geometry,
        sequence: u64,
        update: &StagedUpdate,
        rides: bool,
        is_logged: impl Fn(u64, u64) -> bool,
        answer: Option<Record>,
    ) -> Draft {
        let mut redo = Self { geometry, records: Vec::new(), extents: Vec::new() };
        for (buffer, extent) in update.items.iter().filter_map(|item| item.change.as_ref()) {
            let address = buffer.address();
            let freed = |&(first, count): &(u64, u64)| (first..first + count).contains(&address);
            // An old item must never land on what is given back with it.
            if !update.freed.iter().any(freed) {
                redo.add(buffer, extent);
            }
        }
        redo.add_extents();
        for (address, pieces) in &update.payload {
            if rides {
                redo.add_payload(*address, pieces);
            } else {
                redo.revoke(*address, pieces, &is_logged);
            }
        }
        match update.chain {
            Some(ChainLink::Begins(chain)) => redo.records.push(Record::ChainBegins(chain)),
            Some(ChainLink::Ends(ino)) => redo.records.push(Record::ChainEnds(ino)),
            None => {}
        }
        redo.records.extend(answer);
        let body = write_records(&redo.records);
        Draft { records: redo.records.len() as u16, body, sequence, volume: 0 }
    }

    fn add(&mut self, buffer: &Rc<Buffer>, extent: &Extent) {
        match (buffer.role(), extent) {
            (Role::Group(group), Extent::Bytes(range)) => {
                let data = buffer.read(|image| Bytes::copy_from_slice(&image[range.clone()]));
                let offset = range.start as u64;
                self.records.push(Record::Group { group, offset, data });
            }
            (Role::Group(group), &Extent::Bits { map, first, count, value }) => {
                self.add_bits(group, map, first as u64, count as u64, value);
            }
            (Role::Inodes, Extent::Whole) => self.add_inodes(buffer),
            (role, Extent::Whole) => {
                let zero = Record::Zeros {
                    offset: self.geometry.byte_address(buffer.address()),
                    length: buffer.size() as u64,
                };
                if role == Role::Indirect && !is_planted(Bug::NoZeros) {
                    self.records.push(zero); // of a directory, what is behind its size is not read
                }
                let spans = buffer.read(|image| spans(image, unit_of(role)));
                spans.into_iter().for_each(|span| self.extend(buffer, span));
            }
            (Role::Directory, Extent::Bytes(range)) => {
                let start = range.start / CHUNK_SIZE * CHUNK_SIZE;
                self.extend(buffer, start..range.end.next_multiple_of(CHUNK_SIZE));
            }
            (_, Extent::Bytes(range)) => self.extend(buffer, range.clone()),
            (_, Extent::Bits { .. }) => unreachable!("only groups have maps"),
        }
    }

    fn extend(&mut self, buffer: &Rc<Buffer>, range: Range<usize>) {
        self.extents.push((buffer.clone(), range));
    }

    /// One record for bits that follow each other.
    fn add_bits(&mut self, group: u64, map: usize, first: u64, count: u64, value: bool) {
        let of_inodes = map == self.geometry.maps.inodes.start;
        let map = if of_inodes { Map::Inodes } else { Map::Fragments };
        if is_planted(Bug::UnloggedBits) && !value && map == Map::Fragments {
            return;
        }
        if let Some(Record::Bits { group: g, map: m, first: f, count: c, value: v }) =
            self.records.last_mut()
            && (*g, *m, *v) == (group, map, value)
            && (*f + *c == first || first + count == *f)
        {
            *f = (*f).min(first);
            *c += count;
            return;
        }
        self.records.push(Record::Bits { group, map, first, count, value });
    }

    fn add_inodes(&mut self, buffer: &Buffer) {
        let generations = buffer.read(|image| {
            let inodes = image.chunks(size_of::<Dinode>()).map(|bytes| Dinode::at(bytes, 0));
            let generations = inodes.map(|dinode| dinode.generation.get().to_le_bytes());
            generations.collect::<Vec<_>>().concat()
        });
        let offset = self.geometry.byte_address(buffer.address());
        self.records.push(Record::Inodes { offset, generations: generations.into() });
    }

    /// What buffers hold now, each byte once.
    fn add_extents(&mut self) {
        let mut extents = std::mem::take(&mut self.extents);
        extents.sort_unstable_by_key(|(buffer, range)| (buffer.address(), range.start));
        let mut extents = extents.into_iter().peekable();
        while let Some((buffer, mut range)) = extents.next() {
            let joins = |(other, next): &(Rc<Buffer>, Range<usize>), end| {
                other.address() == buffer.address() && next.start <= end
            };
            while let Some((_, next)) = extents.next_if(|next| joins(next, range.end)) {
                range.end = range.end.max(next.end);
            }
            let offset = self.geometry.byte_address(buffer.address()) + range.start as u64;
            let data = buffer.read(|image| Bytes::copy_from_slice(&image[range]));
            match buffer.role() {
                Role::Indirect => self.add_pointers(offset, &data),
                _ => self.add_bytes(offset, data),
            }
        }
    }

    /// Pointers of which a file may have cleared a whole block, and set one beside them.
    fn add_pointers(&mut self, offset: u64, data: &Bytes) {
        let mut from = 0;
        for set in spans(data, POINTER_SIZE) {
            self.add_some(offset, data, from..set.start);
            from = set.end;
            self.add_some(offset, data, set);
        }
        self.add_some(offset, data, from..data.len());
    }

    fn add_some(&mut self, offset: u64, data: &Bytes, range: Range<usize>) {
        if !range.is_empty() {
            self.add_bytes(offset + range.start as u64, data.slice(range));
        }
    }

    fn add_bytes(&mut self, offset: u64, data: Bytes) {
        let length = data.len() as u64;
        self.records.push(match is_zero(&data) {
            true => Record::Zeros { offset, length },
            false => Record::Bytes { offset, data },
        });
    }

    fn add_payload(&mut self, address: u64, pieces: &[Bytes]) {
        let mut offset = self.geometry.byte_address(address);
        for piece in pieces {
            self.add_bytes(offset, piece.clone());
            offset += piece.len() as u64;
        }
    }

    fn revoke(&mut self, address: u64, pieces: &[Bytes], is_logged: impl Fn(u64, u64) -> bool) {
        let length = block::length_of(pieces);
        let count = length.div_ceil(self.geometry.fragment_size);
        if is_logged(address, count) && !is_planted(Bug::NoRevokes) {
            let offset = self.geometry.byte_address(address);
            self.records.push(Record::Revoked { offset, length });
        }
    }
}
