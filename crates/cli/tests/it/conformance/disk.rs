//! A disk in memory that fails when a test says so, and that can be copied like after a power cut.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb};
use bytes::Bytes;

/// A request to a disk, for a rule to decide on.
pub(crate) enum Request<'a> {
    Read(u64, usize),
    Write(&'a [u8]),
    Flush,
}

type Rule = Box<dyn Fn(&Request<'_>) -> bool>;

/// A disk whose writes are durable at once: order and flushes are tested elsewhere.
pub(crate) struct MemoryDisk {
    bytes: RefCell<Vec<u8>>,
    fails: RefCell<Option<Rule>>,
}

impl MemoryDisk {
    /// Creates a disk of zeros.
    pub(crate) fn new(size: usize) -> Rc<Self> {
        Rc::new(Self { bytes: RefCell::new(vec![0; size]), fails: RefCell::default() })
    }

    /// Creates a copy of the disk as it is now, without its faults.
    pub(crate) fn copy(&self) -> Rc<Self> {
        Rc::new(Self { bytes: self.bytes.clone(), fails: RefCell::default() })
    }

    /// Makes all requests fail from now on for which `rule` is true.
    pub(crate) fn fail_when(&self, rule: impl Fn(&Request<'_>) -> bool + 'static) {
        *self.fails.borrow_mut() = Some(Box::new(rule));
    }

    /// Lets all requests succeed again.
    pub(crate) fn heal(&self) {
        *self.fails.borrow_mut() = None;
    }

    /// Offset of these bytes on the disk.
    pub(crate) fn find(&self, wanted: &[u8]) -> u64 {
        let bytes = self.bytes.borrow();
        let found = bytes.windows(wanted.len()).position(|window| window == wanted);
        found.expect("they were written") as u64
    }

    /// Changes bytes without the server's knowledge.
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        self.bytes.borrow_mut()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Saves the disk to a file.
    pub(crate) fn save(&self, path: &Path) {
        std::fs::write(path, &*self.bytes.borrow()).expect("there is room");
    }

    fn check(&self, verb: Verb, request: &Request<'_>) -> Result<(), IoError> {
        let fails = self.fails.borrow().as_ref().is_some_and(|rule| rule(request));
        if fails { Err(IoError::new(verb, 0, 0, ErrorKind::Other)) } else { Ok(()) }
    }
}

impl BlockDevice for MemoryDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.bytes.borrow().len() as u64,
            logical_sector_size: 512,
            physical_sector_size: 512,
            read_only: false,
            stripe: None,
            platters: None,
        }
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        let start = offset as usize;
        let checked = self.check(Verb::Read, &Request::Read(offset, buffer.len()));
        let length = buffer.len();
        buffer.copy_from_slice(&self.bytes.borrow()[start..start + length]);
        Box::pin(async move { checked.map(|()| buffer) })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
        let data = data.concat();
        let checked = self.check(Verb::Write, &Request::Write(&data));
        if checked.is_ok() {
            let start = offset as usize;
            self.bytes.borrow_mut()[start..start + data.len()].copy_from_slice(&data);
        }
        Box::pin(async move { checked })
    }

    fn flush(&self) -> Io<()> {
        let checked = self.check(Verb::Flush, &Request::Flush);
        Box::pin(async move { checked })
    }

    fn discard(&self, _offset: u64, _length: u64) -> Io<()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Io<()> {
        Box::pin(async { Ok(()) })
    }
}
