//! A device that writes nothing: changes stay in memory.
//!
//! For a caller that wants to see the result of a change. Reads show written data over the contents
//! of the device below; a flush has nothing to do.
//!
//! Invariant: a page in memory is whole; it was read from below before a part of it was written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use futures::FutureExt;

use crate::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, IsRight, Verb, length_of};

/// Bytes of a page: a multiple of every logical sector.
const PAGE: u64 = 4096;

/// See the module's prose.
pub struct ScratchDevice {
    below: Rc<dyn BlockDevice>,
    pages: Rc<RefCell<BTreeMap<u64, Box<[u8]>>>>,
}

impl ScratchDevice {
    /// A scratch device over a device, which may be read-only.
    pub fn new(below: Rc<dyn BlockDevice>) -> Self {
        Self { below, pages: Rc::default() }
    }

    /// The pages of a range that are not in memory. A page that is to be written in part is read.
    fn fill(&self, offset: u64, length: u64) -> Vec<Io<(u64, Buffer)>> {
        let size = self.below.geometry().size;
        let (first, last) = (offset / PAGE, (offset + length - 1) / PAGE);
        let missing = (first..=last).filter(|page| !self.pages.borrow().contains_key(page));
        let fill = |page: u64| {
            let (start, end) = (page * PAGE, size.min((page + 1) * PAGE));
            let bytes = (end - start) as usize;
            if offset <= start && end <= offset + length {
                return std::future::ready(Ok((page, Buffer::zeroed(bytes)))).boxed_local();
            }
            let read = self.below.read(start, Buffer::unfilled(bytes));
            async move { Ok((page, read.await?)) }.boxed_local()
        };
        missing.map(fill).collect()
    }
}

impl BlockDevice for ScratchDevice {
    fn geometry(&self) -> Geometry {
        Geometry { read_only: false, ..self.below.geometry() }
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let length = buffer.len() as u64;
        let read = self.below.read(offset, buffer);
        let (pages, below) = (self.pages.clone(), self.below.clone());
        async move {
            let mut buffer = match read.await {
                Ok(buffer) => buffer,
                // Pages that cannot be read below may have been overwritten in memory.
                Err(error) if !pages.borrow().is_empty() => {
                    read_missing(&pages, &*below, offset, length).await.map_err(|_| error)?
                }
                Err(error) => return Err(error),
            };
            let pages = pages.borrow();
            for (page, bytes) in pages.range(offset / PAGE..(offset + length).div_ceil(PAGE)) {
                let start = page * PAGE;
                let from = offset.max(start);
                let to = (offset + length).min(start + bytes.len() as u64);
                buffer[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
            }
            Ok(buffer)
        }
        .boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
        let length = length_of(&data);
        if let Err(error) = self.geometry().check(Verb::Write, offset, length) {
            return std::future::ready(Err(error)).boxed_local();
        }
        if length == 0 {
            return std::future::ready(Ok(())).boxed_local();
        }
        let reads = self.fill(offset, length);
        let pages = self.pages.clone();
        async move {
            for read in futures::future::join_all(reads).await {
                let (page, bytes) = read?;
                pages.borrow_mut().entry(page).or_insert_with(|| Box::from(&*bytes));
            }
            let mut pages = pages.borrow_mut();
            let mut at = offset;
            for mut piece in data {
                while !piece.is_empty() {
                    let page = pages.get_mut(&(at / PAGE)).expect("filled above");
                    let start = (at % PAGE) as usize;
                    let count = piece.len().min(page.len() - start);
                    page[start..start + count].copy_from_slice(&piece.split_to(count));
                    at += count as u64;
                }
            }
            Ok(())
        }
        .boxed_local()
    }

    fn flush(&self) -> Io<()> {
        std::future::ready(Ok(())).boxed_local()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        let checked = self.geometry().check(Verb::Discard, offset, length);
        std::future::ready(checked).boxed_local() // the contents afterwards are unspecified
    }

    /// Ranges without pages in memory are repaired by the device below.
    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Buffer>> {
        let range = offset / PAGE..(offset + length).div_ceil(PAGE);
        if self.pages.borrow().range(range).next().is_some() {
            return std::future::ready(Ok(None)).boxed_local();
        }
        self.below.mend(offset, length, is_right)
    }

    fn close(&self) -> Io<()> {
        self.below.close()
    }
}

/// Reads a range from below, but only the pages that are not in memory; the others are zeros.
async fn read_missing(
    pages: &RefCell<BTreeMap<u64, Box<[u8]>>>,
    below: &dyn BlockDevice,
    offset: u64,
    length: u64,
) -> Result<Buffer, IoError> {
    let mut all = Buffer::zeroed(length as usize);
    let mut at = offset;
    while at < offset + length {
        let end = (offset + length).min((at / PAGE + 1) * PAGE);
        if !pages.borrow().contains_key(&(at / PAGE)) {
            let part = below.read(at, Buffer::unfilled((end - at) as usize)).await?;
            all[(at - offset) as usize..(end - offset) as usize].copy_from_slice(&part);
        }
        at = end;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    /// A read-only device that shows the number of each sector. Its second page may be unreadable.
    struct Numbers {
        has_bad_page: bool,
    }

    impl BlockDevice for Numbers {
        fn geometry(&self) -> Geometry {
            let sector = 512;
            Geometry {
                size: 20 * 512,
                logical_sector_size: sector,
                physical_sector_size: sector,
                read_only: true,
                stripe: None,
                platters: None,
            }
        }

        fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
            let end = offset + buffer.len() as u64;
            if self.has_bad_page && offset < 2 * PAGE && end > PAGE {
                let error = IoError::closed(Verb::Read);
                return std::future::ready(Err(error)).boxed_local();
            }
            for (index, byte) in buffer.iter_mut().enumerate() {
                *byte = ((offset + index as u64) / 512) as u8;
            }
            std::future::ready(Ok(buffer)).boxed_local()
        }

        fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
            let error = self.geometry().check(Verb::Write, offset, length_of(&data));
            std::future::ready(error).boxed_local()
        }

        fn flush(&self) -> Io<()> {
            unreachable!("nothing was written below")
        }

        fn discard(&self, _offset: u64, _length: u64) -> Io<()> {
            unreachable!("nothing goes below")
        }

        fn close(&self) -> Io<()> {
            std::future::ready(Ok(())).boxed_local()
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_goes_below() {
        let scratch = ScratchDevice::new(Rc::new(Numbers { has_bad_page: false }));
        let piece = |byte| Bytes::from(vec![byte; 512]);
        block_on(scratch.write(7 * 512, vec![piece(0xa1), piece(0xa2)], Durability::Through))
            .expect("in memory");
        block_on(scratch.write(19 * 512, vec![piece(0xa3)], Durability::Plain)).expect("the last");
        block_on(scratch.flush()).expect("nothing to do");
        let all = block_on(scratch.read(0, Buffer::zeroed(20 * 512))).expect("whole");
        let seen: Vec<u8> = all.chunks(512).map(|sector| sector[0]).collect();
        let mut expected: Vec<u8> = (0..20).collect();
        (expected[7], expected[8], expected[19]) = (0xa1, 0xa2, 0xa3);
        assert_eq!(seen, expected);
        let part = block_on(scratch.read(8 * 512, Buffer::zeroed(1024))).expect("inside");
        assert_eq!((part[0], part[512]), (0xa2, 9));
        let beyond = block_on(scratch.write(20 * 512, vec![piece(0)], Durability::Plain));
        assert_eq!(beyond.map_err(|error: IoError| error.verb), Err(Verb::Write));
    }

    #[test]
    fn a_page_that_cannot_be_read_can_be_written_over() {
        let scratch = ScratchDevice::new(Rc::new(Numbers { has_bad_page: true }));
        let read = |offset, length| block_on(scratch.read(offset, Buffer::zeroed(length)));
        let piece = |length| vec![Bytes::from(vec![0xa1; length])];
        let part = block_on(scratch.write(PAGE + 512, piece(512), Durability::Plain));
        assert!(part.is_err() && read(0, 2 * 4096).is_err(), "the rest of it is unknown");
        block_on(scratch.write(PAGE, piece(4096), Durability::Plain)).expect("all of it is new");
        let both = read(512, 2 * 4096).expect("the bad page is in memory");
        let seen: Vec<u8> = both.chunks(512).map(|sector| sector[0]).collect();
        let expected = [&[1, 2, 3, 4, 5, 6, 7][..], &[0xa1; 8], &[16]].concat();
        assert_eq!(seen, expected);
    }
}
