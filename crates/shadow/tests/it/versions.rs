//! Recovery on a disk that returns two versions in two reads of one place, like a mirror without
//! checksums.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use futures::FutureExt;
use shadow::{OpenError, OpenOptions, open};
use sim::{Disk, Executor};
use vfs::FileSystem;

use crate::bench::{Setting, made, opened};

/// A mirror that returns another version when a place is read again.
struct TwoVersions {
    disk: Rc<Disk>,
    seen: RefCell<BTreeSet<u64>>,
}

impl BlockDevice for TwoVersions {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let is_first = self.seen.borrow_mut().insert(offset);
        let read = self.disk.read(offset, buffer);
        async move {
            let bytes = read.await?;
            let mut other = Buffer::copied(&bytes);
            other[9] ^= u8::from(!is_first);
            Ok(other)
        }
        .boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.disk.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.disk.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.disk.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        self.disk.close()
    }
}

#[test]
fn what_is_written_again_at_a_return_is_what_was_compared() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        volume.create(volume.files.root(), "file").await.expect("there is room");
    });
    let image = disk.contents();
    let executor = Executor::new(2);
    let disk = Disk::new(&executor, image.clone());
    let mirror = Rc::new(TwoVersions { disk: disk.clone(), seen: RefCell::default() });
    let options = OpenOptions::default();
    let refused = executor.block_on(open(mirror, executor.runtime(), &options));
    assert!(matches!(refused.map(drop), Err(OpenError::Io(_))), "it does not know which is right");
    assert_eq!(disk.contents(), image);
}
