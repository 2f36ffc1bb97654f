//! Stand-in for a missing member, when a set is opened with too few members.
//!
//! A set expects a device for each of its members. A void stands in for one that is missing: reads
//! fail, except of blocks that were written to it since, which stay in memory. So the set's log
//! replays what it has for the member; all other blocks are reconstructed from the other members,
//! or lost.
//!
//! Before the start of the data area it reads as zeros: it has no label, and its log has no record.
//!
//! Invariant: bytes that it returns from the data area were written to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb};
use bytes::Bytes;
use futures::FutureExt;

use crate::blocks::BLOCK;

/// See the module.
pub(crate) struct Void {
    geometry: Geometry,
    data_start: u64,
    /// Written blocks, by block number.
    written: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl Void {
    /// A void with another member's geometry, whose data area begins at this byte.
    pub(crate) fn new(like: Geometry, data_start: u64) -> Self {
        let geometry = Geometry { read_only: false, ..like };
        Self { geometry, data_start, written: RefCell::default() }
    }

    /// A block's bytes, if known.
    fn block(&self, number: u64) -> Option<Vec<u8>> {
        let nothing = || (number * BLOCK < self.data_start).then(|| vec![0; BLOCK as usize]);
        self.written.borrow().get(&number).cloned().or_else(nothing)
    }

    fn read_now(&self, offset: u64, mut buffer: Buffer) -> Result<Buffer, IoError> {
        let length = buffer.len() as u64;
        self.geometry.check(Verb::Read, offset, length)?;
        let unknown = || IoError::new(Verb::Read, offset, length, ErrorKind::Other);
        let mut done = 0;
        while done < length {
            let (number, within) = ((offset + done) / BLOCK, (offset + done) % BLOCK);
            let block = self.block(number).ok_or_else(unknown)?;
            let count = (BLOCK - within).min(length - done);
            buffer[done as usize..][..count as usize]
                .copy_from_slice(&block[within as usize..][..count as usize]);
            done += count;
        }
        Ok(buffer)
    }

    /// A set writes whole blocks to its members; a partial write to an unknown block leaves it
    /// unknown.
    fn write_now(&self, offset: u64, data: &[Bytes]) -> Result<(), IoError> {
        self.geometry.check(Verb::Write, offset, block::length_of(data))?;
        let data = data.concat();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (number, within) = (at / BLOCK, (at % BLOCK) as usize);
            let count = (BLOCK as usize - within).min(data.len() - done);
            let is_whole = count == BLOCK as usize;
            let before = if is_whole { Some(vec![0; count]) } else { self.block(number) };
            if let Some(mut block) = before {
                block[within..][..count].copy_from_slice(&data[done..][..count]);
                self.written.borrow_mut().insert(number, block);
            }
            done += count;
        }
        Ok(())
    }
}

impl BlockDevice for Void {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        std::future::ready(self.read_now(offset, buffer)).boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
        std::future::ready(self.write_now(offset, &data)).boxed_local()
    }

    fn flush(&self) -> Io<()> {
        std::future::ready(Ok(())).boxed_local()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        std::future::ready(self.geometry.check(Verb::Discard, offset, length)).boxed_local()
    }

    fn close(&self) -> Io<()> {
        std::future::ready(Ok(())).boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use sim::{Disk, Executor, Image};

    use super::*;

    #[test]
    fn it_gives_what_was_written_to_it_and_nothing_else() {
        let executor = Executor::new(1);
        let like = Disk::new(&executor, Image::zeroed(4 << 20)).geometry();
        let void = Void::new(like, 1 << 20);
        let read = |at: u64, length: usize| void.read_now(at, Buffer::zeroed(length));
        assert!(read(4096, 8192).is_ok_and(|read| read.iter().all(|&byte| byte == 0)));
        assert!(read(1 << 20, 4096).is_err() && read((1 << 20) - 4096, 8192).is_err());
        let seven = [Bytes::from(vec![7; 8192])];
        void.write_now(2 << 20, &seven).expect("it takes everything");
        let half = read((2 << 20) + 3584, 1024).expect("it was written");
        assert!(half.iter().all(|&byte| byte == 7));
        assert!(read(2 << 20, 12_288).is_err(), "the third block was not");
        void.write_now(3 << 20, &[Bytes::from(vec![7; 512])]).expect("it takes everything");
        assert!(read(3 << 20, 512).is_err(), "nobody knows the rest of the block");
        assert!(void.write_now(4 << 20, &seven).is_err(), "it ends there");
    }
}
