//! A disk in memory on which nothing takes time: for looking at what a cut has left.

use std::cell::RefCell;

use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;
use sim::Image;

/// The disk.
pub struct Ram {
    image: RefCell<Image>,
}

impl Ram {
    /// A disk that holds `image`.
    pub fn new(image: Image) -> Self {
        Self { image: RefCell::new(image) }
    }

    /// What is on it.
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
        }
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        self.image.borrow().read(offset, &mut buffer);
        ready(Ok(buffer)).boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
        let mut at = offset;
        for piece in data {
            self.image.borrow_mut().write(at, &piece);
            at += piece.len() as u64;
        }
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
