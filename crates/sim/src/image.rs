//! The bytes of a disk: sparse, and copied only where they are changed.
//!
//! Invariants:
//! 1. A page that is not there reads as zeros. A page that is there may be all zeros too; the two
//!    are equal and have the same fingerprint.
//! 2. A copy shares its pages with the original until one of them is written to.
//!
//! Not asserted: 1, which is what reading and comparing do; 2, which `Rc::make_mut` keeps.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use crate::{Digest, Prng};

/// The atomic unit of a medium: writes are torn only between sectors.
pub const SECTOR_SIZE: usize = 512;
/// The unit of copy-on-write, with a fingerprint of its own.
pub const PAGE_SIZE: usize = 4096;
/// Pages that share one node of the tree: a change after a copy copies one node.
const LEAF_PAGES: u64 = 64;

/// The contents of a disk. Cloning it is cheap, however large it is.
#[derive(Clone)]
pub struct Image {
    size: u64,
    leaves: Rc<BTreeMap<u64, Rc<Leaf>>>,
}

type Leaf = [Option<Rc<Page>>; LEAF_PAGES as usize];

#[derive(Clone)]
pub(crate) struct Page {
    bytes: [u8; PAGE_SIZE],
    /// The hash of the page and its number, once it has been computed.
    fingerprint: OnceCell<u128>,
}

impl Image {
    /// A disk of `size` zero bytes.
    pub fn zeroed(size: u64) -> Self {
        Self { size, leaves: Rc::default() }
    }

    /// A disk that holds `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut image = Self::zeroed(bytes.len() as u64);
        for (index, page) in bytes.chunks(PAGE_SIZE).enumerate() {
            if page.iter().any(|&byte| byte != 0) {
                image.write((index * PAGE_SIZE) as u64, page);
            }
        }
        image
    }

    /// The content of a file.
    ///
    /// # Errors
    /// The operating system's.
    pub fn load(path: &Path) -> io::Result<Self> {
        Ok(Self::from_bytes(&std::fs::read(path)?))
    }

    /// Saves it as a sparse file, for tools that read files. Replaces an existing one.
    ///
    /// # Errors
    /// The operating system's.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.size)?;
        for (number, page) in self.pages() {
            let start = number * PAGE_SIZE as u64;
            let length = (self.size - start).min(PAGE_SIZE as u64) as usize;
            file.write_all_at(&page.bytes[..length], start)?;
        }
        Ok(())
    }

    /// All bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.size).expect("it fits into memory")];
        self.read(0, &mut bytes);
        bytes
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fills `bytes` from `offset`. The range must be inside.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        self.assert_inside(offset, bytes.len());
        for (number, within, range) in parts(offset, bytes.len()) {
            match self.page(number) {
                Some(page) => {
                    bytes[range.clone()].copy_from_slice(&page.bytes[within..within + range.len()]);
                }
                None => bytes[range].fill(0), // invariant 1
            }
        }
    }

    /// Writes `bytes` at `offset`. The range must be inside.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.assert_inside(offset, bytes.len());
        for (number, within, range) in parts(offset, bytes.len()) {
            let there = self.page(number).map(|page| &page.bytes[within..within + range.len()]);
            if there == Some(&bytes[range.clone()]) {
                continue; // an unchanged page stays shared
            }
            let page = self.slot(number).get_or_insert_with(Page::zeroed);
            Page::change(page, within, &bytes[range]);
        }
    }

    /// Memory that a cut tears between words of 8 bytes: each word is that of one image or that of
    /// the other, which has the same size.
    #[must_use]
    pub fn torn(&self, other: &Self, prng: &mut Prng) -> Self {
        let mut left = self.clone();
        let (mut one, mut two) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        for number in 0..self.size.div_ceil(PAGE_SIZE as u64) {
            if self.page_fingerprint(number) == other.page_fingerprint(number) {
                continue;
            }
            let at = number * PAGE_SIZE as u64;
            let length = (self.size - at).min(PAGE_SIZE as u64) as usize;
            self.read(at, &mut one[..length]);
            other.read(at, &mut two[..length]);
            for (kept, word) in one.chunks_mut(8).zip(two.chunks(8)) {
                if kept != word && prng.below(2) == 0 {
                    kept.copy_from_slice(word);
                }
            }
            left.write(at, &one[..length]);
        }
        left
    }

    /// A hash of the content. Images with different fingerprints differ; images with the same one
    /// are equal, barring a collision by accident.
    pub fn fingerprint(&self) -> u128 {
        let pages = self.pages().map(|(number, page)| page.fingerprint(number));
        pages.fold(u128::from(self.size), |sum, page| sum ^ page)
    }

    /// A hash of a page of [`PAGE_SIZE`] bytes.
    pub fn page_fingerprint(&self, number: u64) -> u128 {
        self.page(number).map_or(0, |page| page.fingerprint(number))
    }

    fn page(&self, number: u64) -> Option<&Page> {
        self.page_at(number).map(|page| &**page)
    }

    pub(crate) fn page_at(&self, number: u64) -> Option<&Rc<Page>> {
        self.leaves.get(&(number / LEAF_PAGES))?[(number % LEAF_PAGES) as usize].as_ref()
    }

    /// Puts a page in the image; the page stays shared.
    pub(crate) fn put_page(&mut self, number: u64, page: Rc<Page>) {
        if !self.page_at(number).is_some_and(|there| Rc::ptr_eq(there, &page)) {
            *self.slot(number) = Some(page);
        }
    }

    /// The slot of a page (invariant 2, at two of three levels).
    fn slot(&mut self, number: u64) -> &mut Option<Rc<Page>> {
        let leaves = Rc::make_mut(&mut self.leaves);
        let leaf = leaves
            .entry(number / LEAF_PAGES)
            .or_insert_with(|| Rc::new([const { None }; LEAF_PAGES as usize]));
        &mut Rc::make_mut(leaf)[(number % LEAF_PAGES) as usize]
    }

    fn pages(&self) -> impl Iterator<Item = (u64, &Page)> {
        self.leaves.iter().flat_map(|(leaf_number, leaf)| {
            (leaf_number * LEAF_PAGES..)
                .zip(leaf.iter())
                .filter_map(|(number, page)| Some((number, page.as_deref()?)))
        })
    }

    fn assert_inside(&self, offset: u64, length: usize) {
        let end = offset.checked_add(length as u64);
        assert!(
            end.is_some_and(|end| end <= self.size),
            "{length} bytes at {offset} of a disk of {} bytes",
            self.size
        );
    }
}

impl Page {
    pub(crate) fn zeroed() -> Rc<Self> {
        Rc::new(Self { bytes: [0; PAGE_SIZE], fingerprint: OnceCell::new() })
    }

    /// Writes bytes to a page, or to a copy of it if it is shared (invariant 2).
    pub(crate) fn change(this: &mut Rc<Self>, within: usize, bytes: &[u8]) {
        let page = Rc::make_mut(this);
        page.fingerprint.take();
        page.bytes[within..within + bytes.len()].copy_from_slice(bytes);
    }

    /// Zero for a page of zeros (invariant 1).
    pub(crate) fn fingerprint(&self, number: u64) -> u128 {
        *self.fingerprint.get_or_init(|| {
            if self.bytes == [0; PAGE_SIZE] {
                return 0;
            }
            let mut halves = [Digest::new(number), Digest::new(!number)];
            halves.iter_mut().for_each(|half| half.add_bytes(&self.bytes));
            u128::from(halves[0].value()) << 64 | u128::from(halves[1].value())
        })
    }
}

/// Splits a range at page boundaries: the page, the offset in it, and the part of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let position = offset + done as u64;
        let within = (position % PAGE_SIZE as u64) as usize;
        let count = (PAGE_SIZE - within).min(length - done);
        done += count;
        Some((position / PAGE_SIZE as u64, within, done - count..done))
    })
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: &Image, two: &Image| {
            one.pages().all(|(number, page)| match two.page(number) {
                Some(twin) => std::ptr::eq(page, twin) || page.bytes == twin.bytes,
                None => page.bytes == [0; PAGE_SIZE],
            })
        };
        self.size == other.size && same(self, other) && same(other, self)
    }
}

impl Eq for Image {}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} bytes, {:032x})", self.size, self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    #[test]
    fn it_holds_what_an_array_holds() {
        let mut prng = Prng::new(3);
        let size = 700_000;
        let (mut image, mut model) = (Image::zeroed(size as u64), vec![0; size]);
        for _ in 0..200 {
            let offset = prng.index(size);
            let mut bytes = vec![0; prng.index((size - offset).min(20_000)) + 1];
            bytes.truncate(size - offset);
            prng.fill(&mut bytes);
            image.write(offset as u64, &bytes);
            model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            let mut read = vec![0; bytes.len().min(size - offset)];
            image.read(offset as u64, &mut read);
            assert_eq!(read, bytes);
        }
        assert_eq!(image.bytes(), model);
        assert_eq!(image, Image::from_bytes(&model));
        assert_eq!(image.fingerprint(), Image::from_bytes(&model).fingerprint());
    }

    #[test]
    fn a_copy_does_not_change_with_the_original() {
        let mut image = Image::zeroed(1 << 40);
        image.write(4000, &[1; 200]);
        let copy = image.clone();
        image.write(4000, &[2; 200]);
        let mut bytes = [0; 200];
        copy.read(4000, &mut bytes);
        assert_eq!(bytes, [1; 200]);
        assert_ne!(image, copy);
        assert_ne!(image.fingerprint(), copy.fingerprint());
    }

    #[test]
    fn written_zeros_are_no_different_from_none() {
        let mut image = Image::zeroed(10_000);
        image.write(0, &[0; 10_000]);
        assert_eq!(image, Image::zeroed(10_000));
        assert_eq!(image.fingerprint(), Image::zeroed(10_000).fingerprint());
        assert_ne!(image.fingerprint(), Image::zeroed(9_999).fingerprint());
    }

    #[test]
    fn the_same_bytes_at_another_place_are_another_image() {
        let (mut one, mut two) = (Image::zeroed(16_384), Image::zeroed(16_384));
        one.write(0, &[9; 4096]);
        two.write(4096, &[9; 4096]);
        assert_ne!(one.fingerprint(), two.fingerprint());
    }

    #[test]
    fn a_file_holds_all_of_it() {
        let path = std::env::temp_dir().join(format!("sim-image-{}", std::process::id()));
        let mut image = Image::zeroed(1_000_448);
        image.write(1_000_000, &[5; 448]);
        image.save(&path).expect("a file");
        let loaded = Image::load(&path).expect("the file");
        std::fs::remove_file(&path).expect("tidying up");
        assert_eq!(loaded, image);
    }
}
