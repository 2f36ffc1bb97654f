//! A read-only device over a disk, or a part of one.

use std::io::ErrorKind;

use block::file::DiskFile;
use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb, length_of};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;

/// A read-only device. See the module's documentation.
pub(crate) struct Reader<'a> {
    geometry: Geometry,
    read: Box<dyn Fn(u64, Buffer) -> Io<Buffer> + 'a>,
}

impl<'a> Reader<'a> {
    /// A reader of a file, which is read synchronously.
    pub(crate) fn of(disk: &'a DiskFile) -> Self {
        let read = |offset, mut buffer: Buffer| {
            let read = disk.read(offset, &mut buffer).map(|()| buffer);
            ready(read).boxed_local()
        };
        let geometry = Geometry { read_only: true, ..disk.geometry() };
        Self { geometry, read: Box::new(read) }
    }

    /// A reader of `size` bytes of a device from `start` on.
    pub(crate) fn of_part(device: &'a dyn BlockDevice, start: u64, size: u64) -> Self {
        let geometry = Geometry { size, read_only: true, ..device.geometry() };
        let read = move |offset, buffer: Buffer| match geometry.check(
            Verb::Read,
            offset,
            buffer.len() as u64,
        ) {
            Ok(()) => device.read(start + offset, buffer),
            Err(error) => ready(Err(error)).boxed_local(),
        };
        Self { geometry, read: Box::new(read) }
    }
}

fn refused<T: 'static>(verb: Verb, offset: u64, length: u64) -> Io<T> {
    let error = IoError::new(verb, offset, length, ErrorKind::ReadOnlyFilesystem);
    ready(Err(error)).boxed_local()
}

impl BlockDevice for Reader<'_> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        (self.read)(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> Io<()> {
        refused(Verb::Write, offset, length_of(&data))
    }

    fn flush(&self) -> Io<()> {
        ready(Ok(())).boxed_local()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        refused(Verb::Discard, offset, length)
    }

    fn close(&self) -> Io<()> {
        ready(Ok(())).boxed_local()
    }
}
