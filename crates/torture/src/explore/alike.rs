//! Images that no recovery can tell apart.
//!
//! The result of recovering an image depends on the world in which that happens, and on the pages
//! that are read on the way, before anything is written there. These pages are noted for every
//! recovered image ([`super::ram`]). An image with the same bytes on all of them, in the same
//! world, has the same result, whatever the other pages hold: the remains of an incomplete update
//! are on pages that no recovery reads.
//!
//! For a set of disks the contents of the set are compared, and the lost disk: the rest of the
//! members is left to the campaign `contract`.
//!
//! Invariant: the result found for an image is the one that [`super::recover::recover`] returns for
//! it. Not asserted; a test compares.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use sim::Digest;

use super::disks::Images;

/// Most lists of pages to try, starting with those that matched last. A recovery reads nearly the
/// same pages of most images.
const LISTS: usize = 48;

/// Pages that were read, by disk and number.
pub(super) type Looked = Rc<[(usize, u64)]>;

/// Results of images, by the pages that were read.
pub(super) struct Alike<T> {
    lists: VecDeque<(Looked, HashMap<u128, T>)>,
    pages: BTreeSet<u64>,
}

impl<T> Default for Alike<T> {
    fn default() -> Self {
        Self { lists: VecDeque::new(), pages: BTreeSet::new() }
    }
}

impl<T: Clone> Alike<T> {
    /// The result of an equivalent image, recovered in this world.
    pub(super) fn find(&mut self, images: &Images, world: u64) -> Option<T> {
        let known = |(looked, known): &(Looked, HashMap<u128, T>)| {
            known.get(&digest(looked, images, world)).cloned()
        };
        let (place, found) =
            self.lists.iter().enumerate().find_map(|(place, list)| Some((place, known(list)?)))?;
        let list = self.lists.remove(place)?;
        self.lists.push_front(list);
        Some(found)
    }

    /// All pages of the first disk that were read for any image.
    pub(super) fn pages(&self) -> &BTreeSet<u64> {
        &self.pages
    }

    /// Records the result of an image, for which these pages were read.
    pub(super) fn insert(&mut self, images: &Images, world: u64, looked: &Looked, became: T) {
        let key = digest(looked, images, world);
        match self.lists.iter_mut().find(|(known, _)| known == looked) {
            Some((_, known)) => _ = known.insert(key, became),
            None => {
                let of_first = looked.iter().filter(|(disk, _)| *disk == 0);
                self.pages.extend(of_first.map(|(_, page)| page));
                self.lists.truncate(LISTS - 1);
                self.lists.push_front((looked.clone(), HashMap::from([(key, became)])));
            }
        }
    }
}

/// A hash of the pages of an image.
fn digest(looked: &Looked, images: &Images, world: u64) -> u128 {
    let mut halves = [Digest::new(world), Digest::new(!world)];
    let sizes = images.0.iter().map(|image| u128::from(image.size()));
    let pages = looked.iter().map(|&(disk, page)| images.0[disk].page_fingerprint(page));
    for word in sizes.chain(pages) {
        halves[0].add(word as u64);
        halves[1].add((word >> 64) as u64);
    }
    u128::from(halves[0].value()) << 64 | u128::from(halves[1].value())
}

#[cfg(test)]
mod tests {
    use sim::Prng;

    use super::super::design::Design;
    use super::super::device::Device;
    use super::super::recover::recover;
    use super::super::run::run;
    use super::super::{Explorer, Style};

    #[test]
    fn what_is_found_is_what_a_return_gives() {
        let on_sets = Design::all().filter(|design| design.is_summed());
        let on_sets = on_sets.map(|design| (design.on(Device::Raid5), 211));
        for (design, every) in Design::all().map(|design| (design, 3)).chain(on_sets) {
            let mut explorer = Explorer::new(design);
            let ops = ["create bar unchecked", "write foo append filesync"];
            let ops = ops.map(|op| op.parse().expect("an operation"));
            let run = run(design, (&explorer.base, &explorer.before), &ops, Style::OneByOne);
            let run = run.expect("it is answered as it should be").expect("there is one");
            let (mut prng, mut images) = (Prng::new(1), 0);
            for cut in run.recording.cuts() {
                let losses = cut.losses(&mut prng).into_iter();
                let losses = losses.flat_map(|loss| loss.with_each(design.device().losable()));
                for loss in losses.step_by(every) {
                    let left = cut.images(&loss).expect("a loss of this cut");
                    let found = explorer.brought_back(&left).outcome.clone();
                    assert_eq!(*found, recover(design, &left, &explorer.before), "{design:?}");
                    images += 1;
                }
            }
            let executed: usize = explorer.alike.lists.iter().map(|(_, known)| known.len()).sum();
            if design.is_summed() {
                assert!(images > 100 && executed < images / 2, "{executed} of {images}");
            }
        }
    }
}
