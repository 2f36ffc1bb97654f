//! The possible contents of a platter after a cut, for a caller that tries thousands of choices at
//! one moment.
//!
//! A page of the image depends on the fates of the few writes that touch it, and on nothing else.
//! So each page is built and hashed once for every combination of those, and the fingerprint of a
//! choice is combined from known pages, without building an image. Images that are built share
//! their pages.
//!
//! Invariant: for every choice, [`Remains::fingerprint`] is that of [`Remains::image`], which is
//! equal to [`Platter::image`].

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::image::{PAGE_SIZE, Page};
use crate::{Choice, Fate, Image, Platter, SECTOR_SIZE, Stage, Written};

/// Most combinations of a page that are compared one by one before a table is used.
const FEW: usize = 24;

/// The possible contents of a platter after a cut.
pub struct Remains<'a> {
    base: &'a Image,
    /// The fingerprint of all untouched pages.
    rest: u128,
    touched: Vec<Touched<'a>>,
    /// The number of pending writes.
    pending: usize,
    key: Vec<u16>,
}

/// A page with pending writes.
struct Touched<'a> {
    number: u64,
    base: Option<Rc<Page>>,
    /// The parts of writes, in the order in which they take effect.
    parts: Vec<Part<'a>>,
    /// The known pages, by the surviving sectors of each part: mostly there are a few.
    known: Vec<(Vec<u16>, Option<Rc<Page>>)>,
    /// The indexes of the other known pages.
    places: HashMap<Vec<u16>, usize>,
}

/// A part of a write, inside one page.
struct Part<'a> {
    written: &'a Written,
    /// The write's position in a choice; `None` if it is durable.
    place: Option<usize>,
    /// The write's sectors that touch the page, counted from the beginning of the write.
    sectors: std::ops::Range<usize>,
}

impl<'a> Remains<'a> {
    /// The remains of a platter.
    pub fn new(platter: &'a Platter) -> Self {
        let (mut parts, mut pending) = (BTreeMap::<u64, Vec<Part<'a>>>::new(), 0);
        for written in platter.writes() {
            let place = (written.stage != Stage::Durable).then_some(pending);
            pending += usize::from(place.is_some());
            for number in pages_of(written) {
                let sectors = sectors_in(written, number);
                parts.entry(number).or_default().push(Part { written, place, sectors });
            }
        }
        let base = platter.base();
        let touched = parts.into_iter().map(|(number, parts)| {
            let base = base.page_at(number).cloned();
            Touched { number, base, parts, known: Vec::new(), places: HashMap::new() }
        });
        let touched: Vec<_> = touched.collect();
        let hash = |touched: &Touched<'_>| fingerprint(&touched.base, touched.number);
        let rest = touched.iter().map(hash).fold(base.fingerprint(), |sum, page| sum ^ page);
        Self { base, rest, touched, pending, key: Vec::new() }
    }

    /// The fingerprint of the contents after a choice.
    ///
    /// # Panics
    /// When there are more or fewer fates than pending writes.
    pub fn fingerprint(&mut self, choice: &Choice) -> u128 {
        assert_eq!(choice.fates().len(), self.pending, "a fate for every pending write");
        let Self { touched, key, rest, .. } = self;
        touched.iter_mut().fold(*rest, |sum, touched| {
            let number = touched.number;
            sum ^ fingerprint(touched.page(choice.fates(), key), number)
        })
    }

    /// The contents after a choice.
    ///
    /// # Panics
    /// When there are more or fewer fates than pending writes.
    pub fn image(&mut self, choice: &Choice) -> Image {
        assert_eq!(choice.fates().len(), self.pending, "a fate for every pending write");
        let mut image = self.base.clone();
        for touched in &mut self.touched {
            if let Some(page) = touched.page(choice.fates(), &mut self.key).clone() {
                image.put_page(touched.number, page);
            }
        }
        image
    }
}

impl Touched<'_> {
    fn page(&mut self, fates: &[Fate], key: &mut Vec<u16>) -> &Option<Rc<Page>> {
        key.clear();
        key.extend(self.parts.iter().map(|part| part.surviving(fates)));
        let few = self.known.iter().take(FEW).position(|(known, _)| known == key);
        let place = few.or_else(|| self.places.get(&key[..]).copied()).unwrap_or_else(|| {
            let place = self.known.len();
            self.known.push((key.clone(), self.make(key)));
            if place >= FEW {
                self.places.insert(key.clone(), place);
            }
            place
        });
        &self.known[place].1
    }

    fn make(&self, key: &[u16]) -> Option<Rc<Page>> {
        let mut page = self.base.clone();
        for (part, surviving) in self.parts.iter().zip(key) {
            for index in 0..part.sectors.len() {
                if surviving >> index & 1 == 1 {
                    let page = page.get_or_insert_with(Page::zeroed);
                    part.put(part.sectors.start + index, self.number, page);
                }
            }
        }
        page
    }
}

impl Part<'_> {
    /// A bit for each of its surviving sectors.
    fn surviving(&self, fates: &[Fate]) -> u16 {
        let fate = self.place.map_or(&Fate::Whole, |place| &fates[place]);
        let bits = self.sectors.clone().enumerate();
        bits.fold(0, |bits, (bit, sector)| {
            bits | u16::from(self.written.survives(fate, sector)) << bit
        })
    }

    /// Copies a sector's part of a page to the page.
    fn put(&self, sector: usize, number: u64, page: &mut Rc<Page>) {
        let data = self.written.data.chunks(SECTOR_SIZE).nth(sector).expect("a sector of its own");
        let (start, page_start) =
            (self.written.offset + (sector * SECTOR_SIZE) as u64, number * PAGE_SIZE as u64);
        let before = page_start.saturating_sub(start) as usize;
        let within = start.saturating_sub(page_start) as usize;
        let count = (data.len() - before).min(PAGE_SIZE - within);
        Page::change(page, within, &data[before..before + count]);
    }
}

fn fingerprint(page: &Option<Rc<Page>>, number: u64) -> u128 {
    page.as_ref().map_or(0, |page| page.fingerprint(number))
}

fn pages_of(written: &Written) -> std::ops::Range<u64> {
    let end = written.offset + written.data.len() as u64;
    written.offset / PAGE_SIZE as u64..end.div_ceil(PAGE_SIZE as u64)
}

/// The sectors of a write that touch a page; the first and the last may reach beyond it.
fn sectors_in(written: &Written, number: u64) -> std::ops::Range<usize> {
    let start = number * PAGE_SIZE as u64;
    let first = start.saturating_sub(written.offset) as usize / SECTOR_SIZE;
    let end = (start + PAGE_SIZE as u64 - written.offset) as usize;
    first..end.min(written.data.len()).div_ceil(SECTOR_SIZE)
}

#[cfg(test)]
mod tests {
    use block::Durability;

    use super::*;
    use crate::{Event, Honesty, Prng, Sectors};

    /// A platter with writes of every kind after some events: durable ones behind pending ones,
    /// failed ones that are partly there, and some in flight, over each other.
    fn platter(prng: &mut Prng) -> Platter {
        let mut bytes = vec![0; 6 * PAGE_SIZE];
        prng.fill(&mut bytes[..2 * PAGE_SIZE]);
        let mut platter = Platter::new(Image::from_bytes(&bytes), Honesty::Honest);
        for write in 0..prng.between(1, 9) {
            let sectors = prng.between(1, 20);
            let offset = prng.below(6 * 8 - sectors + 1) * SECTOR_SIZE as u64;
            let mut data = vec![0; sectors as usize * SECTOR_SIZE];
            if prng.chance(3, 4) {
                prng.fill(&mut data);
            }
            let through = prng.chance(1, 3);
            let durability = if through { Durability::Through } else { Durability::Plain };
            platter.apply(&Event::WriteIssued { write, offset, data: data.into(), durability });
            match prng.below(4) {
                0 => {}
                1 => {
                    let left = Fate::Torn(Sectors::random(sectors as usize, prng));
                    platter.apply(&Event::WriteFailed { write, left });
                }
                _ => platter.apply(&Event::WriteCompleted { write }),
            }
            if prng.chance(1, 6) {
                platter.apply(&Event::FlushIssued { flush: write });
                platter.apply(&Event::FlushCompleted { flush: write });
            }
        }
        platter
    }

    #[test]
    fn it_is_what_the_platter_leaves() {
        let (mut torn, mut behind) = (0, 0);
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let platter = platter(&mut prng);
            let stages: Vec<Stage> = platter.writes().map(|written| written.stage).collect();
            behind += usize::from(stages.contains(&Stage::Durable));
            let mut remains = Remains::new(&platter);
            for choice in Choice::explore(&platter, &mut prng).iter().step_by(3) {
                torn += choice.fates().iter().filter(|fate| matches!(fate, Fate::Torn(_))).count();
                let (expected, found) = (platter.image(choice), remains.image(choice));
                assert_eq!(found, expected, "seed {seed}, {choice}");
                assert_eq!(remains.fingerprint(choice), expected.fingerprint(), "seed {seed}");
            }
        }
        assert!(torn > 1000 && behind > 20, "{torn}, {behind}");
    }
}
