//! The plain device: every verb is done when the call returns. For tools, and as the last resort of
//! a server that has neither io_uring nor threads to spare: it stalls its reactor on every flush.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::ready;

pub use crate::disk_file::{Access, DiskFile, OpenError, free_below, is_in_memory};
use crate::held::Holder;
use crate::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb, length_of};

/// A [`DiskFile`] behind the [`BlockDevice`] trait. Its futures are ready from the start.
pub struct FileDevice(Holder);

impl FileDevice {
    /// Takes over an open disk.
    pub fn new(file: DiskFile) -> Self {
        Self(Holder::new(file))
    }

    fn perform<T: 'static>(
        &self,
        verb: Verb,
        offset: u64,
        length: u64,
        action: impl FnOnce(&DiskFile) -> Result<T, IoError>,
    ) -> Io<T> {
        let result = self.0.share(verb, offset, length).and_then(|file| action(&file));
        ready(result).boxed_local()
    }
}

impl BlockDevice for FileDevice {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        self.perform(Verb::Read, offset, buffer.len() as u64, |file| {
            file.read(offset, &mut buffer).map(|()| buffer)
        })
    }

    fn read_medium(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        self.perform(Verb::Read, offset, buffer.len() as u64, |file| {
            file.read_medium(offset, &mut buffer).map(|()| buffer)
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.perform(Verb::Write, offset, length_of(&data), |file| {
            file.write(offset, &data, durability)
        })
    }

    fn flush(&self) -> Io<()> {
        self.perform(Verb::Flush, 0, 0, DiskFile::flush)
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.perform(Verb::Discard, offset, length, |file| file.discard(offset, length))
    }

    fn close(&self) -> Io<()> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;

    #[test]
    fn a_dropped_future_has_written_and_a_closed_device_refuses() {
        let path = std::env::temp_dir().join(format!("block-file-{}", std::process::id()));
        let device = FileDevice::new(DiskFile::create(&path, 8192).expect("a new disk"));
        drop(device.write(512, vec![Bytes::from(vec![9; 512])], Durability::Plain));
        let sector = block_on(device.read(512, Buffer::zeroed(512))).expect("a read");
        assert_eq!(sector[..], [9; 512]);
        block_on(device.flush()).expect("a flush");
        block_on(device.close()).expect("a close");
        let error = block_on(device.flush()).expect_err("a closed device");
        assert_eq!(error, IoError::closed(Verb::Flush));
        DiskFile::open(&path, Access::ReadWrite).expect("the lock went with the close");
        std::fs::remove_file(&path).expect("tidying up");
    }
}
