//! A disk whose calls go through a [`Ring`].

use std::rc::Rc;

use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::ready;

use super::Ring;
use super::operation::{Operation, Work};
use crate::disk_file::DiskFile;
use crate::held::Holder;
use crate::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb, length_of};

/// A [`DiskFile`] behind the [`BlockDevice`] trait, driven by a [`Ring`].
pub struct UringDevice {
    disk: Holder,
    ring: Rc<Ring>,
}

impl UringDevice {
    /// Takes over an open disk.
    pub fn new(ring: &Rc<Ring>, file: DiskFile) -> Self {
        Self { disk: Holder::new(file), ring: ring.clone() }
    }

    /// Queues an operation in the ring; an empty one is done already.
    fn start<T: 'static>(
        &self,
        verb: Verb,
        offset: u64,
        length: u64,
        work: impl FnOnce(oneshot::Sender<Result<T, IoError>>) -> Work,
    ) -> Io<T> {
        let file = match self.disk.share(verb, offset, length) {
            Ok(file) => file,
            Err(error) => return ready(Err(error)).boxed_local(),
        };
        let (sender, receiver) = oneshot::channel();
        let operation = Operation::new(file, offset, length, work(sender));
        if length == 0 && verb != Verb::Flush {
            operation.answer(Ok(()))
        } else {
            self.ring.start(operation)
        }
        receiver.map(|answer| answer.expect("the ring answers before it ends")).boxed_local()
    }
}

impl BlockDevice for UringDevice {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        if self.disk.read_now(offset, &mut buffer) {
            return ready(Ok(buffer)).boxed_local();
        }
        let length = buffer.len() as u64;
        self.start(Verb::Read, offset, length, |answer| Work::Read {
            buffer,
            is_of_medium: false,
            answer,
        })
    }

    fn read_medium(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let length = buffer.len() as u64;
        self.start(Verb::Read, offset, length, |answer| Work::Read {
            buffer,
            is_of_medium: true,
            answer,
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let through = durability == Durability::Through;
        let length = length_of(&data);
        self.start(Verb::Write, offset, length, |answer| Work::Write { data, through, answer })
    }

    fn flush(&self) -> Io<()> {
        self.start(Verb::Flush, 0, 0, |answer| Work::Flush { answer })
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.start(Verb::Discard, offset, length, |answer| Work::Discard { answer })
    }

    fn close(&self) -> Io<()> {
        self.disk.close()
    }
}
