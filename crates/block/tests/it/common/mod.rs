//! Helpers that the tests of the devices share.

use std::cell::RefCell;
use std::future::Future;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use block::BlockDevice;
use block::file::{DiskFile, FileDevice};
use block::threads::{Pool, ThreadsDevice};
use block::uring::{Ring, UringDevice};
use futures::task::noop_waker;

/// A file of one test, removed at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(format!("block-test-{process}-{number}-{name}")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A ring, or a message on stderr about why there is none.
pub(crate) fn ring() -> Option<Rc<Ring>> {
    let ring = Ring::new();
    if let Err(error) = &ring {
        eprintln!("SKIPPED: io_uring cannot be used here: {error}");
    }
    ring.ok()
}

/// A device of some kind, and a way to wait for its futures.
pub(crate) struct Driven {
    pub(crate) name: &'static str,
    pub(crate) device: Box<dyn BlockDevice>,
    ring: Option<Rc<Ring>>,
}

impl Driven {
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        match &self.ring {
            Some(ring) => drive(ring, future),
            None => futures::executor::block_on(future),
        }
    }
}

/// The smallest reactor: polls, and waits for the ring when there is nothing to do.
pub(crate) fn drive<F: Future>(ring: &Ring, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let polled = future.as_mut().poll(&mut Context::from_waker(&noop_waker()));
        if let Poll::Ready(output) = polled {
            return output;
        }
        assert!(ring.in_flight() > 0, "the future waits for something else");
        ring.wait().expect("the kernel takes and gives");
    }
}

/// A device of every kind that is available here, each on a new disk.
pub(crate) fn every_device(name: &str, size: u64) -> Vec<(Driven, Scratch)> {
    let disk = |kind: &str| {
        let scratch = Scratch::new(&format!("{name}-{kind}"));
        (DiskFile::create(scratch.path(), size).expect("a new disk"), scratch)
    };
    thread_local! {
        // One pool for all disks of a test, as in a server.
        static POOL: RefCell<Option<Rc<Pool>>> = const { RefCell::new(None) };
    }
    let threads = NonZeroUsize::new(3).expect("not zero");
    let pool = POOL.with_borrow_mut(|pool| {
        pool.get_or_insert_with(|| Pool::new(threads).expect("threads")).clone()
    });
    let (file, scratch) = disk("threads");
    let device = Box::new(ThreadsDevice::new(&pool, file));
    let mut devices = vec![(Driven { name: "threads", device, ring: None }, scratch)];
    let ring = ring();
    for (of_file, of_ring, way) in [
        ("file", "uring", (|file| file) as fn(DiskFile) -> DiskFile),
        ("file past the page cache", "uring past the page cache", DiskFile::past_cache),
        (
            "file with large transfers past the page cache",
            "uring with large transfers past the page cache",
            DiskFile::large_past_cache,
        ),
    ] {
        let (file, scratch) = disk(of_file);
        let device = Box::new(FileDevice::new(way(file)));
        devices.push((Driven { name: of_file, device, ring: None }, scratch));
        let Some(ring) = &ring else { continue };
        let (file, scratch) = disk(of_ring);
        let device = Box::new(UringDevice::new(ring, way(file)));
        devices.push((Driven { name: of_ring, device, ring: Some(ring.clone()) }, scratch));
    }
    devices
}
