//! Damage to the memory, and the sectors that it may cost.
//!
//! The memory is read as docs/formats/nvram.md has it, apart from crate `nvram`'s recovery: which
//! entries are whole, not void, and the latest of their blocks. Damage to one of these may cost its
//! sectors, and any other damage costs nothing. An entry that nothing on the medium calls durable
//! is not damaged: rot there cannot be told from a torn write.

use std::collections::BTreeMap;
use std::ops::Range;

use nvram::format::{BLOCK, Header, LABEL, Label, Layout, MARKS, SECTOR, SLOT, decode_marks, sum};
use sim::{Image, Prng};

use super::model::{Allowed, ERROR};
use super::stage::MEMORY;

/// Sectors of a block.
const OF_BLOCK: u64 = BLOCK / SECTOR;

/// A place of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The data of an entry.
    Data,
    /// One of the two headers of a buffer.
    Header,
    /// One of the two labels.
    Label,
    /// One copy of a sector of the void map.
    Map,
}

/// One damaged byte range, and the sectors of the volume that it may cost.
#[derive(Clone)]
pub(super) struct Damage {
    pub(super) at: u64,
    pub(super) length: u64,
    pub(super) costs: Vec<Range<u64>>,
}

/// The entries of a memory.
pub(super) struct Entries {
    layout: Layout,
    /// Whole ones that are not void, by their buffers.
    whole: BTreeMap<u64, Header>,
    /// All entries up to this sequence were durable.
    durable: u64,
    /// Labels and sectors of the map that a cut has torn: the other one of each is needed.
    torn: Vec<u64>,
}

fn part(image: &Image, at: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    image.read(at, &mut bytes);
    bytes
}

/// The number of the start that the memory says it belongs to.
pub(super) fn generation(image: &Image) -> Option<u64> {
    label(image, &layout()).map(|label| label.generation)
}

/// The start that the memory has begun.
pub(super) fn begun(image: &Image) -> Option<u64> {
    label(image, &layout()).filter(|label| label.is_begun).map(|label| label.generation)
}

fn layout() -> Layout {
    Layout::of(MEMORY).expect("it is large enough")
}

fn label(image: &Image, layout: &Layout) -> Option<Label> {
    let labels = layout.labels().map(|at| Label::decode(&part(image, at, LABEL)).ok());
    labels.into_iter().flatten().max_by_key(|label| label.number)
}

impl Entries {
    /// Reads a memory. None if it has no label.
    pub(super) fn of(image: &Image) -> Option<Self> {
        let layout = layout();
        let label = label(image, &layout)?;
        let mut void = vec![label.first_sequence.saturating_sub(1); layout.buffers as usize];
        let mut durable = label.durable;
        let is_torn = |at: &u64| Label::decode(&part(image, *at, LABEL)).is_err();
        let mut torn: Vec<u64> = layout.labels().into_iter().filter(is_torn).collect();
        for sector in 0..layout.map_sectors() {
            for at in layout.map(sector) {
                let bytes = part(image, at, SECTOR);
                let Some((marks, told)) = decode_marks(&bytes, &label.id) else {
                    torn.extend(bytes.iter().any(|&byte| byte != 0).then_some(at));
                    continue;
                };
                durable = durable.max(told);
                let of_it = void.iter_mut().skip((sector * MARKS) as usize);
                of_it.zip(marks).for_each(|(void, mark)| *void = (*void).max(mark));
            }
        }
        let mut whole = BTreeMap::new();
        for buffer in 0..layout.buffers {
            let slot = part(image, layout.slot(buffer), SLOT);
            let data_sum = sum(&slot[SECTOR as usize..(SECTOR + BLOCK) as usize]);
            let headers = [0, (SECTOR + BLOCK) as usize];
            let headers = headers.map(|at| Header::decode(&slot[at..], &label.id));
            for header in headers.into_iter().flatten() {
                durable = durable.max(header.durable);
                let is_void = header.sequence <= void[buffer as usize];
                if header.data_sum == data_sum && !is_void {
                    whole.insert(buffer, header);
                }
            }
        }
        Some(Self { layout, whole, durable, torn })
    }

    /// One of two copies: the torn one, if there is one.
    fn one_of(&self, copies: [u64; 2], prng: &mut Prng) -> u64 {
        let drawn = copies[prng.index(2)];
        copies.into_iter().find(|at| self.torn.contains(at)).unwrap_or(drawn)
    }

    /// Whether no later entry of its block is whole.
    fn is_latest(&self, entry: &Header) -> bool {
        let mut of_block = self.whole.values().filter(|it| it.place == entry.place);
        of_block.all(|it| it.sequence <= entry.sequence)
    }

    /// What damage to the data of a buffer may cost.
    pub(super) fn costs(&self, buffer: u64) -> Vec<Range<u64>> {
        let Some(entry) = self.whole.get(&buffer).filter(|entry| self.is_latest(entry)) else {
            return Vec::new();
        };
        let first = entry.place * OF_BLOCK;
        let is_held = |sector: &u64| entry.mask >> sector & 1 == 1;
        (0..OF_BLOCK).filter(is_held).map(|sector| first + sector..first + sector + 1).collect()
    }

    /// Chooses a place to damage. None if there is none of this part.
    pub(super) fn damage(&self, which: Part, prng: &mut Prng) -> Option<Damage> {
        let layout = &self.layout;
        match which {
            Part::Data => {
                let is_told = |entry: &Header| entry.sequence <= self.durable;
                let told = self.whole.iter().filter(|(_, entry)| is_told(entry));
                let told: Vec<u64> = told.map(|(&buffer, _)| buffer).collect();
                let buffer = *told.get(prng.index(told.len().max(1)))?;
                let at = layout.slot(buffer) + SECTOR * prng.between(1, OF_BLOCK);
                Some(Damage { at, length: SECTOR, costs: self.costs(buffer) })
            }
            Part::Header => {
                let used: Vec<u64> = self.whole.keys().copied().collect();
                let buffer = *used.get(prng.index(used.len().max(1)))?;
                let at = layout.slot(buffer) + [0, SECTOR + BLOCK][prng.index(2)];
                Some(Damage { at, length: 56, costs: Vec::new() })
            }
            Part::Label => {
                let at = self.one_of(layout.labels(), prng);
                Some(Damage { at, length: 90, costs: Vec::new() })
            }
            Part::Map => {
                let at = self.one_of(layout.map(prng.below(layout.map_sectors())), prng);
                Some(Damage { at, length: SECTOR, costs: Vec::new() })
            }
        }
    }
}

impl Damage {
    /// Allows the sectors that it may cost to be unreadable.
    pub(super) fn allow(&self, allowed: &mut Allowed) {
        for sector in self.costs.iter().cloned().flatten() {
            allowed[sector as usize].push(ERROR);
        }
    }

    /// Damages an image: a bit, other bytes, or zeros.
    pub(super) fn strike(&self, image: &mut Image, prng: &mut Prng) {
        let mut bytes = part(image, self.at, self.length);
        match prng.below(3) {
            0 => bytes[prng.index(self.length as usize)] ^= 1 << prng.below(8),
            1 => prng.fill(&mut bytes),
            _ => bytes.fill(0),
        }
        image.write(self.at, &bytes);
    }
}

/// Bytes of the memory whose reads fail: a sector, a part of a buffer, a buffer, or everything.
pub(super) fn unread(prng: &mut Prng) -> Range<u64> {
    let layout = layout();
    let slot = layout.slot(prng.below(layout.buffers));
    match prng.below(6) {
        0 => slot..slot + SLOT,
        1 => slot + SECTOR..slot + SECTOR + BLOCK,
        2 => {
            let at = slot + SECTOR * prng.below(OF_BLOCK + 2);
            at..at + SECTOR
        }
        3 => {
            let at = layout.map(prng.below(layout.map_sectors()))[prng.index(2)];
            at..at + SECTOR
        }
        4 => layout.slot(0)..layout.slot(layout.buffers),
        _ => 0..MEMORY,
    }
}
