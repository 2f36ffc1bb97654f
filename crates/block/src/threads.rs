//! The device for systems that forbid io_uring: a few threads make the blocking calls.
//!
//! Invariants:
//! 1. A job owns its memory and its share of the disk, so it needs no waiting caller.
//! 2. A job drops its share of the disk before it replies: a caller that has the reply and drops
//!    the device can open the disk again.
//! 3. Dropping the pool waits for every queued job.
//!
//! Not asserted: 1, which the type of a job keeps; 2 and 3, which are about the order of two lines:
//! a test shows them.

use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::ready;

use crate::disk_file::DiskFile;
use crate::held::Holder;
use crate::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb, length_of};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that do blocking work, in no particular order.
pub struct Pool {
    /// Empty only while the pool is dropped.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    completed: Arc<AtomicU64>,
}

impl Pool {
    /// A pool of this many threads, which all devices of a reactor share: the most calls that are
    /// in flight at once. A flush holds one of them as long as it takes.
    ///
    /// # Errors
    /// The operating system's, when it cannot start threads.
    pub fn new(threads: NonZeroUsize) -> std::io::Result<Rc<Self>> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let completed = Arc::default();
        let mut pool = Self { jobs: Some(jobs), threads: Vec::new(), completed };
        for number in 0..threads.get() {
            let (queue, completed) = (queue.clone(), pool.completed.clone());
            let thread = std::thread::Builder::new().name(format!("disk-{number}"));
            pool.threads.push(thread.spawn(move || work(&queue, &completed))?);
        }
        Ok(Rc::new(pool))
    }

    /// Number of calls that have completed since the start.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    fn give(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("only the end of the pool takes it");
        jobs.send(job).expect("the threads listen as long as the pool lives");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs.take(); // the threads finish the queue, find it closed, and end: invariant 3
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a thread that panicked has reported it
        }
    }
}

fn work(queue: &Mutex<Receiver<Job>>, completed: &AtomicU64) {
    loop {
        let job = queue.lock().expect("nobody panics while waiting for a job").recv();
        match job {
            Ok(job) => job(),
            Err(_closed) => return,
        }
        completed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A [`DiskFile`] behind the [`BlockDevice`] trait, driven by a [`Pool`]. The futures belong to one
/// thread, as all of ours do; they are woken from another.
pub struct ThreadsDevice {
    disk: Holder,
    pool: Rc<Pool>,
}

impl ThreadsDevice {
    /// Takes over an open disk.
    pub fn new(pool: &Rc<Pool>, file: DiskFile) -> Self {
        Self { disk: Holder::new(file), pool: pool.clone() }
    }

    fn perform<T: Send + 'static>(
        &self,
        verb: Verb,
        offset: u64,
        length: u64,
        action: impl FnOnce(&DiskFile) -> Result<T, IoError> + Send + 'static,
    ) -> Io<T> {
        let file = match self.disk.share(verb, offset, length) {
            Ok(file) => file,
            Err(error) => return ready(Err(error)).boxed_local(),
        };
        let (sender, receiver) = oneshot::channel();
        self.pool.give(Box::new(move || {
            let result = action(&file);
            drop(file); // invariant 2
            let _ = sender.send(result); // invariant 1: the caller may be gone
        }));
        receiver.map(|answer| answer.expect("a job answers")).boxed_local()
    }
}

impl BlockDevice for ThreadsDevice {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        if self.disk.read_now(offset, &mut buffer) {
            return ready(Ok(buffer)).boxed_local();
        }
        self.perform(Verb::Read, offset, buffer.len() as u64, move |file| {
            file.read(offset, &mut buffer).map(|()| buffer)
        })
    }

    fn read_medium(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        self.perform(Verb::Read, offset, buffer.len() as u64, move |file| {
            file.read_medium(offset, &mut buffer).map(|()| buffer)
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.perform(Verb::Write, offset, length_of(&data), move |file| {
            file.write(offset, &data, durability)
        })
    }

    fn flush(&self) -> Io<()> {
        self.perform(Verb::Flush, 0, 0, DiskFile::flush)
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.perform(Verb::Discard, offset, length, move |file| file.discard(offset, length))
    }

    fn close(&self) -> Io<()> {
        self.disk.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Access;

    #[test]
    fn the_end_of_the_pool_waits_for_its_jobs() {
        let path = std::env::temp_dir().join(format!("block-threads-{}", std::process::id()));
        let pool = Pool::new(NonZeroUsize::MIN).expect("a thread");
        let device = ThreadsDevice::new(&pool, DiskFile::create(&path, 1 << 20).expect("a disk"));
        for number in 0..200 {
            drop(device.write(number * 512, vec![vec![1; 512].into()], Durability::Plain));
        }
        drop((device, pool));
        let disk = DiskFile::open(&path, Access::ReadWrite).expect("nobody holds it");
        let mut bytes = vec![0; 102_400];
        disk.read(0, &mut bytes).expect("a read");
        std::fs::remove_file(&path).expect("tidying up");
        assert!(bytes.iter().all(|&byte| byte == 1));
    }
}
