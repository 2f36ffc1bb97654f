//! Conversion of an Update to its redo entry.
//!
//! Inodes and directory chunks are logged whole, bits and pointers only where they change, and a
//! new block without its zeros. A small payload is logged too: then the entry alone makes it
//! durable. A larger one is durable before the entry; older entries' data at the same place is
//! revoked.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use directory::entry::CHUNK_SIZE;
use journal::Draft;
use ufs2::layout::{Dinode, Geometry, POINTER_SIZE};

use super::record::{LARGEST_ANSWER, LINE, Map, Record, write_records};
use crate::buffer::{Buffer, Role};
use crate::edit::{Edit, Extent};
use crate::planted::{Bug, is_planted};
use crate::policy::StagedUpdate;
use crate::update::Update;
use vnode::chain::ChainLink;

/// Shorter runs of zeros are logged as data.
const SHORT: usize = LINE;

/// The size of an Update's payload in its entry, if it is logged: it may have at most `most` bytes,
/// not counting zeros.
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

/// Compares many bytes at a time, and stops at a chunk with a nonzero byte rather than at the byte.
fn holds_nothing(bytes: &[u8]) -> bool {
    bytes.chunks(CHUNK_SIZE).all(|some| some.iter().fold(0, |seen, byte| seen | byte) == 0)
}

/// Maximum size of the entry body for an Update: the sum of the bounds of its items, from which
/// [`Redo::draft`] makes the body.
///
/// An Update never exceeds the maximum of an entry. It lands or clears a limited number of blocks
/// (`vnode::data`, `vnode::resize`), each with a bit and a pointer, and two more of each if a
/// tree begins or ends there; a directory that moves is less than a block, and logged payload is
/// small.
pub(super) fn bound(update: &Update) -> usize {
    let items = update.items.iter().filter_map(|item| item.change.as_ref());
    let items: usize = items.map(|(buffer, edit)| bound_of(buffer, edit)).sum();
    let inodes = update.inode_count() * (size_of::<Dinode>() + LINE);
    let payload = update.carried.rides.unwrap_or(update.payload.len() * LINE); // its revokes
    items + inodes + payload + LINE + LARGEST_ANSWER
}

fn bound_of(buffer: &Buffer, edit: &Edit) -> usize {
    match edit {
        Edit::Whole => buffer.read(|image| whole(buffer.role(), image)),
        Edit::Bytes { .. } if buffer.role() == Role::Directory => CHUNK_SIZE + LINE,
        // A pointer set beside cleared ones is a record of its own, and leaves two stretches of
        // zeros.
        Edit::Bytes { new, .. } if is_zero(new) => 2 * LINE,
        Edit::Bytes { new, .. } => new.len() + LINE,
        Edit::Inode { new, .. } => size_of_val(&**new) + LINE,
        Edit::Entry { .. } => CHUNK_SIZE + LINE,
        Edit::Bits { .. } => LINE,
        Edit::Count { .. } => size_of::<u32>() + LINE,
    }
}

/// Size of a new block in the entry.
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

/// The nonzero stretches of a block.
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
    /// Ranges of buffers to log once the whole Update has been applied.
    extents: Vec<(Rc<Buffer>, Range<usize>)>,
}

impl<'a> Redo<'a> {
    /// The entry of an Update whose items have been applied. `is_logged` returns whether an older
    /// entry, which may be replayed, holds payload of a run of fragments.
    pub(super) fn draft(
        geometry: &'a Geometry,
        sequence: u64,
        update: &StagedUpdate,
        is_logged: impl Fn(u64, u64) -> bool,
        answer: Option<Record>,
    ) -> Draft {
        let mut redo = Self { geometry, records: Vec::new(), extents: Vec::new() };
        for (buffer, extent) in update.items.iter().filter_map(|item| item.change.as_ref()) {
            let address = buffer.address();
            let freed = |&(first, count): &(u64, u64)| (first..first + count).contains(&address);
            // An old item must never land on a block that the same Update frees.
            if !update.freed.iter().any(freed) {
                redo.add(buffer, extent);
            }
        }
        redo.add_extents();
        for (address, pieces) in &update.payload {
            if update.carried.rides.is_some() {
                redo.add_payload(*address, pieces);
            } else {
                redo.revoke(*address, pieces, &is_logged);
            }
        }
        match update.manner.chain {
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
                    self.records.push(zero); // a directory is not read behind its size
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

    /// Logs adjacent bits as one record.
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

    /// Logs the current contents of the buffers, each byte once.
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

    /// Logs pointers: a file may have cleared a whole block of them, and set one beside them.
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
        self.records.push(if is_zero(&data) {
            Record::Zeros { offset, length }
        } else {
            Record::Bytes { offset, data }
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

#[cfg(test)]
mod tests {
    use ufs2::mkfs::{MkfsOptions, plan};

    use super::super::record::read_records;
    use super::*;
    use vnode::Space;

    use crate::item::Intent;
    use crate::policy::Staged;

    const BLOCK: usize = 32 << 10;

    fn geometry() -> Geometry {
        plan(64 << 20, 512, &MkfsOptions::default()).expect("it is large enough").geometry
    }

    fn block(address: u64, role: Role, image: &[u8]) -> Rc<Buffer> {
        Buffer::new(address, role, block::Buffer::padded(image, BLOCK))
    }

    /// The records of an Update that frees `freed`, if some fragments are logged; and the number of
    /// bytes by which the entry is shorter than its bound.
    fn entry(
        mut update: Update,
        freed: Vec<(u64, u64)>,
        most: usize,
        is_logged: impl Fn(u64, u64) -> bool,
    ) -> (Vec<Record>, usize) {
        let geometry = geometry();
        update.carried.rides = rides(&update.payload, most);
        let bound = bound(&update);
        let items = update.items.into_iter().map(|item| {
            let change = item.change.map(|(buffer, edit)| {
                let extent = edit.extent();
                buffer.apply(vfs::Sequence(7), 0, edit);
                (buffer, extent)
            });
            Staged::unnamed(item.intent, change, 0)
        });
        let staged = StagedUpdate {
            items: items.collect(),
            payload: update.payload,
            carried: update.carried,
            freed,
            moved: Vec::new(),
            manner: update.manner,
            evidence: Default::default(),
            answered: None,
            room: 0,
        };
        let draft = Redo::draft(&geometry, 7, &staged, is_logged, None);
        let spare = bound.checked_sub(draft.body.len()).expect("it is bounded");
        let records = read_records(draft.records, &draft.body.into());
        (records.expect("it was just written"), spare)
    }

    /// The records of an Update with these edits of one block.
    fn changed(buffer: &Rc<Buffer>, edits: Vec<Edit>) -> (Vec<Record>, usize) {
        let mut update = Update::new(Space::User);
        edits.into_iter().for_each(|edit| update.push(Intent::SizeSet, buffer, edit));
        entry(update, Vec::new(), 0, |_, _| false)
    }

    fn bytes(offset: usize, new: &[u8]) -> Edit {
        Edit::Bytes { offset, new: new.into() }
    }

    /// Part of every bound besides the items: room for a chain and for an answer.
    const BESIDE: usize = LINE + LARGEST_ANSWER;

    #[test]
    fn an_entry_takes_what_was_set_aside_for_it_and_no_byte_more() {
        let group = block(8, Role::Group(0), &[]);
        let maps = geometry().maps;
        let bits = |map, first| Edit::Bits { map, first, count: 3, value: true };
        let far = vec![bits(maps.fragments.start, 5), bits(maps.fragments.start, 70)];
        assert_eq!(changed(&group, far).1, BESIDE);
        assert_eq!(changed(&group, vec![Edit::Count { offset: 24, change: -2 }]).1, BESIDE);

        let directory = block(16, Role::Directory, &[9; BLOCK]);
        assert_eq!(changed(&directory, vec![bytes(CHUNK_SIZE - 8, &[1; 8])]).1, BESIDE);
        let entry = Edit::Entry { offset: 3 * CHUNK_SIZE, ino: 5, kind: 4, layout: Vec::new() };
        assert_eq!(changed(&directory, vec![entry]).1, BESIDE);
        // In front of a new directory block's names there is no record of zeros.
        let half = block(24, Role::Directory, &[9; BLOCK / 2]);
        assert_eq!(changed(&half, vec![Edit::Whole]).1, BESIDE + LINE);

        let inodes = block(32, Role::Inodes, &[5; BLOCK]);
        assert_eq!(changed(&inodes, vec![Edit::Whole]).1, BESIDE);

        let mut pointers = vec![0; BLOCK];
        pointers.chunks_mut(16 * POINTER_SIZE).for_each(|some| some[0] = 1);
        let indirect = block(40, Role::Indirect, &pointers);
        assert_eq!(changed(&indirect, vec![Edit::Whole]).1, BESIDE);
        assert_eq!(changed(&indirect, vec![bytes(64, &[7; POINTER_SIZE])]).1, BESIDE);
    }

    #[test]
    fn pointers_that_are_cleared_take_two_lines_beside_one_that_is_set_among_them() {
        let start = geometry().byte_address(40);
        let indirect = block(40, Role::Indirect, &[5; BLOCK]);
        let set = 700 * POINTER_SIZE;
        let edits = vec![bytes(64, &[0; BLOCK - 64]), bytes(set, &[1; POINTER_SIZE])];
        let (records, spare) = changed(&indirect, edits);
        let zeros = |from: usize, to: usize| Record::Zeros {
            offset: start + from as u64,
            length: (to - from) as u64,
        };
        let data = Bytes::from(vec![1; POINTER_SIZE]);
        let expected = [
            zeros(64, set),
            Record::Bytes { offset: start + set as u64, data },
            zeros(set + POINTER_SIZE, BLOCK),
        ];
        assert_eq!((&records[..], spare), (&expected[..], BESIDE));
    }

    /// Whether the whole payload is logged, and how many bytes its entry has to spare.
    fn with_payload(pieces: Vec<(u64, Vec<Bytes>)>, most: usize) -> (bool, Vec<Record>, usize) {
        let rides = rides(&pieces, most).is_some();
        let mut update = Update::new(Space::User);
        pieces.into_iter().for_each(|(address, pieces)| update.push_payload(address, pieces));
        let (records, spare) = entry(update, Vec::new(), most, |address, _| address != 80);
        (rides, records, spare)
    }

    #[test]
    fn payload_rides_piece_behind_piece_and_zeros_count_none() {
        let data = |byte, length| Bytes::from(vec![byte; length]);
        let pieces = || {
            vec![
                (64, vec![data(1, 4096), data(0, 65_536), data(3, 512)]),
                (800, (0..40).map(|byte| data(byte + 1, 100)).collect()),
            ]
        };
        let most = 4096 + 512 + 40 * 100;
        let (rides, records, spare) = with_payload(pieces(), most);
        assert!(rides && spare == BESIDE, "{spare} bytes to spare");
        let start = geometry().byte_address(64);
        let expected = [
            Record::Bytes { offset: start, data: data(1, 4096) },
            Record::Zeros { offset: start + 4096, length: 65_536 },
            Record::Bytes { offset: start + 4096 + 65_536, data: data(3, 512) },
        ];
        assert_eq!(records[..3], expected);
        let offset = geometry().byte_address(800) + 39 * 100;
        assert_eq!(records.last(), Some(&Record::Bytes { offset, data: data(40, 100) }));
        let (rides, _, _) = with_payload(pieces(), most - 1);
        assert!(!rides, "that is one byte too many");
    }

    #[test]
    fn payload_that_does_not_ride_revokes_what_the_log_has_of_it_and_nothing_else() {
        let pieces = || (0..30).map(|run| (run * 16, vec![Bytes::from(vec![7; 5000])]));
        let (rides, records, spare) = with_payload(pieces().collect(), 0);
        assert!(!rides && spare == BESIDE + LINE, "{spare} bytes to spare");
        let of = |run: u64| geometry().byte_address(run * 16);
        let revoked = |run| Record::Revoked { offset: of(run), length: 5000 };
        // The sixth run is not in the log.
        let expected: Vec<_> = (0..30).filter(|&run| run != 5).map(revoked).collect();
        assert_eq!(records, expected);
    }

    #[test]
    fn bits_that_follow_each_other_are_one_record_and_others_are_not() {
        let group = block(8, Role::Group(3), &[]);
        let maps = geometry().maps;
        let set =
            |first, count| Edit::Bits { map: maps.fragments.start, first, count, value: true };
        let clear = |first| Edit::Bits { map: maps.fragments.start, first, count: 2, value: false };
        let inode = Edit::Bits { map: maps.inodes.start, first: 44, count: 2, value: false };
        let inodes = |first| Edit::Bits { map: maps.inodes.start, first, count: 2, value: true };
        let edits = vec![
            set(100, 4), // the first of a run,
            set(104, 2), // which goes on behind
            set(99, 1),  // and in front;
            set(91, 1),  // as far before it as it is long
            set(40, 2),
            inodes(42), // another map
            inodes(44), // goes on
            inode,      // another value
            clear(40),  // another map again
        ];
        let (records, _) = changed(&group, edits);
        let bits = |map, first, count, value| Record::Bits { group: 3, map, first, count, value };
        let expected = [
            bits(Map::Fragments, 99, 7, true),
            bits(Map::Fragments, 91, 1, true),
            bits(Map::Fragments, 40, 2, true),
            bits(Map::Inodes, 42, 4, true),
            bits(Map::Inodes, 44, 2, false),
            bits(Map::Fragments, 40, 2, false),
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn what_is_given_back_with_an_update_is_not_in_its_entry() {
        let freed = vec![(16, 8), (48, 16)];
        let offsets = |address| {
            let mut update = Update::new(Space::User);
            let buffer = block(address, Role::Indirect, &[]);
            update.push(Intent::PointerCleared, &buffer, bytes(0, &[1; 64]));
            entry(update, freed.clone(), 0, |_, _| false).0.len()
        };
        let told: Vec<u64> = (0..80).step_by(8).filter(|&address| offsets(address) > 0).collect();
        assert_eq!(told, [0, 8, 24, 32, 40, 64, 72]);
    }

    #[test]
    fn bytes_of_a_block_are_logged_once_and_as_they_are_in_the_end() {
        let inodes = block(32, Role::Inodes, &[]);
        let (records, _) = changed(
            &inodes,
            vec![
                bytes(512, &[1; 256]),
                bytes(768, &[2; 256]),
                bytes(512, &[3; 256]),
                bytes(2048, &[4; 256]),
            ],
        );
        let start = geometry().byte_address(32);
        let both = [[3; 256], [2; 256]].concat();
        let expected = [
            Record::Bytes { offset: start + 512, data: both.into() },
            Record::Bytes { offset: start + 2048, data: vec![4; 256].into() },
        ];
        assert_eq!(records, expected);
    }
}
