//! The disks of a reactor: devices whose calls never block it.
//!
//! With io_uring, the disk requests of one round of tasks go to the kernel in one system call, when
//! the reactor has run all ready tasks and is about to wait. Completions are announced by an event
//! counter, for which the reactor waits along with its sockets. If io_uring is forbidden, a few
//! threads make the calls instead.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use block::file::DiskFile;
use block::threads::{Pool, ThreadsDevice};
use block::uring::{Ring, UringDevice};
use futures::FutureExt;
use futures::future::{Either, select};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::reactor;

/// Maximum number of calls under way without io_uring.
const THREADS: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not 0");

/// Pause before a retry when the kernel accepts no more requests.
const RETRY: Duration = Duration::from_millis(1);

/// Common state of the devices of one reactor.
#[derive(Clone)]
pub struct Disks(Driver);

#[derive(Clone)]
enum Driver {
    Ring(Rc<Ring>),
    Threads(Rc<Pool>),
}

impl Disks {
    /// Uses io_uring, or threads if that is forbidden. Call it on the reactor, once.
    ///
    /// # Errors
    /// The operating system's error, if it provides neither.
    pub fn new() -> io::Result<Self> {
        Self::by_ring().or_else(|error| {
            tracing::info!(%error, "io_uring is not to be had here; threads drive the disks");
            Self::by_threads()
        })
    }

    /// Uses io_uring.
    ///
    /// # Errors
    /// The operating system's error; io_uring is often forbidden in containers.
    pub fn by_ring() -> io::Result<Self> {
        let ring = Ring::new()?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe and wants what is so here: Event keeps the ring, \
                      which keeps the same counter open, for as long as it is watched"
        )]
        let event = AsyncFd::with_interest(Event(ring.clone()), Interest::READABLE)?;
        let trouble = Rc::new(Notify::new());
        reactor::before_waiting({
            let (ring, trouble) = (ring.clone(), trouble.clone());
            move || {
                if ring.turn().is_err() {
                    trouble.notify_one();
                }
            }
        });
        tokio::task::spawn_local(reap(event, trouble));
        let counted = ring.clone();
        reactor::count_disk_calls(move || counted.completed());
        Ok(Self(Driver::Ring(ring)))
    }

    /// Uses threads.
    ///
    /// # Errors
    /// The operating system's error, if it provides no threads.
    pub fn by_threads() -> io::Result<Self> {
        let pool = Pool::new(THREADS)?;
        // A pool that is dropped waits for its calls: the reactor keeps it, as it keeps a ring.
        let kept = pool.clone();
        reactor::count_disk_calls(move || kept.completed());
        Ok(Self(Driver::Threads(pool)))
    }

    /// Creates a device for an opened disk.
    pub fn device(&self, disk: DiskFile) -> Rc<dyn BlockDevice> {
        match &self.0 {
            Driver::Ring(ring) => Rc::new(UringDevice::new(ring, disk)),
            Driver::Threads(pool) => Rc::new(ThreadsDevice::new(pool, disk)),
        }
    }
}

/// The event counter of a ring, which the reactor watches for edges, like all its sources.
struct Event(Rc<Ring>);

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.event_fd().as_raw_fd()
    }
}

/// Reaps completions, for ever. If the kernel accepts no more requests, waits a moment: before the
/// reactor waits again, it tries again.
async fn reap(event: AsyncFd<Event>, trouble: Rc<Notify>) {
    loop {
        let failed =
            match select(event.readable().boxed_local(), trouble.notified().boxed_local()).await {
                Either::Left((Ok(mut guard), _)) => {
                    guard.clear_ready(); // later completions signal it again
                    event.get_ref().0.reap().err()
                }
                Either::Left((Err(error), _)) => {
                    // Only a reactor that shuts down has no events.
                    tracing::debug!(%error, "the disks are watched no more");
                    return;
                }
                Either::Right(_) => Some(io::ErrorKind::ResourceBusy.into()),
            };
        if let Some(error) = failed {
            tracing::debug!(%error, "the kernel takes no more disk operations for now");
            tokio::time::sleep(RETRY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Buffer, Durability};
    use bytes::Bytes;
    use futures::future::join_all;

    const SIZE: u64 = 1 << 20;

    fn with_disk(name: &str, disks: fn() -> io::Result<Disks>) {
        let path = std::env::temp_dir().join(format!("duramen-{}-{name}", std::process::id()));
        let done = reactor::block_on(|_| async {
            let disks = disks().expect("seen to be available");
            let device = disks.device(DiskFile::create(&path, SIZE).expect("a temporary file"));
            // More writes at once than a ring has room for, from tasks that wait side by side.
            let writes = (0..SIZE / 512).map(|sector| {
                let data = Bytes::from(vec![sector as u8; 512]);
                device.write(sector * 512, vec![data], Durability::Plain)
            });
            for written in join_all(writes).await {
                written.expect("the disk is good");
            }
            device.flush().await.expect("the disk is good");
            let buffer = Buffer::zeroed(usize::try_from(SIZE).expect("1 MiB"));
            let buffer = device.read(0, buffer).await.expect("the disk is good");
            for (sector, bytes) in buffer.chunks(512).enumerate() {
                assert!(bytes.iter().all(|&byte| byte == sector as u8), "sector {sector}");
            }
            device.close().await.expect("the disk is good");
        });
        std::fs::remove_file(&path).expect("it is there");
        done.expect("a reactor");
    }

    #[test]
    fn a_ring_drives_disks_beside_the_reactor() {
        if !block::uring::is_available() {
            eprintln!("SKIPPED: io_uring is forbidden here");
            return;
        }
        with_disk("ring", Disks::by_ring);
    }

    #[test]
    fn threads_drive_disks_beside_the_reactor() {
        with_disk("threads", Disks::by_threads);
    }
}
