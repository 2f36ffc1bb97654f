//! A disk in memory with no delays: for inspecting the images that cuts leave.
//!
//! Several disks of one machine share a list of the pages that were read unmodified, in the order
//! of the first reads.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;
use sim::{Image, PAGE_SIZE};

use super::disks::Images;

/// The disk.
pub struct Ram {
    image: RefCell<Image>,
    number: usize,
    /// Pages that were modified, and pages that were read before.
    known: RefCell<BTreeSet<u64>>,
    looked: Rc<RefCell<Vec<(usize, u64)>>>,
    /// Pages that cannot be read.
    unreadable: RefCell<BTreeSet<u64>>,
}

impl Ram {
    /// A disk with the contents of `image`.
    pub fn new(image: Image) -> Self {
        Self::numbered(0, image, Rc::default())
    }

    /// Disks with these contents, the volume first, which record their reads.
    pub fn all(images: &Images) -> Vec<Rc<Self>> {
        let looked: Rc<RefCell<_>> = Rc::default();
        let numbered = images.0.iter().enumerate();
        let disk = |(number, image): (usize, &Image)| {
            Rc::new(Self::numbered(number, image.clone(), Rc::clone(&looked)))
        };
        numbered.map(disk).collect()
    }

    fn numbered(number: usize, image: Image, looked: Rc<RefCell<Vec<(usize, u64)>>>) -> Self {
        let (known, unreadable) = Default::default();
        Self { image: RefCell::new(image), number, known, looked, unreadable }
    }

    /// Pages that were read unmodified, of this disk and the others, by disk and number.
    pub fn looked(&self) -> Vec<(usize, u64)> {
        self.looked.borrow().clone()
    }

    /// Replaces bytes without a write.
    pub fn rot(&self, at: u64, bytes: &[u8]) {
        self.image.borrow_mut().write(at, bytes);
    }

    /// Makes exactly these pages unreadable.
    pub fn set_unreadable(&self, pages: &[u64]) {
        self.unreadable.replace(pages.iter().copied().collect());
    }

    /// The current contents.
    pub fn image(&self) -> Image {
        self.image.borrow().clone()
    }
}

impl BlockDevice for Ram {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.image.borrow().size(),
            logical_sector_size: 512,
            physical_sector_size: 512,
            read_only: false,
            stripe: None,
            platters: None,
        }
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        let pages =
            offset / PAGE_SIZE as u64..(offset + buffer.len() as u64).div_ceil(PAGE_SIZE as u64);
        if pages.clone().any(|page| self.unreadable.borrow().contains(&page)) {
            let error = IoError::new(Verb::Read, offset, buffer.len() as u64, ErrorKind::Other);
            return ready(Err(error)).boxed_local();
        }
        let mut known = self.known.borrow_mut();
        let new = pages.filter(|&page| known.insert(page)).map(|page| (self.number, page));
        self.looked.borrow_mut().extend(new);
        self.image.borrow().read(offset, &mut buffer);
        ready(Ok(buffer)).boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
        let mut at = offset;
        for piece in data {
            self.image.borrow_mut().write(at, &piece);
            at += piece.len() as u64;
        }
        // The rest of a partly written page may still be read.
        let page = PAGE_SIZE as u64;
        self.known.borrow_mut().extend(offset.div_ceil(page)..at / page);
        ready(Ok(())).boxed_local()
    }

    fn flush(&self) -> Io<()> {
        ready(Ok(())).boxed_local()
    }

    fn discard(&self, _offset: u64, _length: u64) -> Io<()> {
        ready(Ok(())).boxed_local()
    }

    fn close(&self) -> Io<()> {
        ready(Ok(())).boxed_local()
    }
}
