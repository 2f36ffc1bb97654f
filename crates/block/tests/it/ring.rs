//! The interplay of a reactor and a ring.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};

use block::file::{Access, DiskFile};
use block::uring::{Ring, UringDevice};
use block::{BlockDevice, Buffer, Durability};
use futures::FutureExt;

use crate::common::{Scratch, drive, ring};

fn device(ring: &std::rc::Rc<Ring>, scratch: &Scratch) -> UringDevice {
    UringDevice::new(ring, DiskFile::create(scratch.path(), 1 << 20).expect("a new disk"))
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_is_done_makes_the_event_readable_and_reaping_wakes_the_future() {
    let Some(ring) = ring() else { return };
    let scratch = Scratch::new("event");
    let device = device(&ring, &scratch);
    let flag = Arc::new(Flag::default());
    let waker = flag.clone().into();
    let mut write = device.write(0, vec![vec![1; 512].into()], Durability::Plain);
    assert!(write.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    let mut event = File::from(ring.event_fd().try_clone_to_owned().expect("a descriptor"));
    assert!(event.read(&mut [0; 8]).is_err(), "nothing happens before a submit");
    ring.submit().expect("a submit");
    while event.read(&mut [0; 8]).is_err() {
        std::thread::yield_now();
    }
    assert!(!flag.0.load(Ordering::Relaxed));
    assert_eq!(ring.reap().expect("a reap"), 1);
    assert!(flag.0.load(Ordering::Relaxed));
    assert!(write.poll_unpin(&mut Context::from_waker(&waker)).is_ready());
    assert_eq!((ring.in_flight(), ring.reap().expect("an idle reap")), (0, 0));
}

#[test]
fn one_ring_serves_several_disks() {
    let Some(ring) = ring() else { return };
    let scratches = [Scratch::new("several-0"), Scratch::new("several-1")];
    let devices = scratches.each_ref().map(|scratch| device(&ring, scratch));
    let write = |n: usize| {
        let data = vec![vec![n as u8 + 1; 512].into()];
        devices[n].write(0, data, Durability::Through)
    };
    let (one, two) = drive(&ring, futures::future::join(write(0), write(1)));
    one.and(two).expect("two writes");
    for (n, device) in devices.iter().enumerate() {
        let read = drive(&ring, device.read(0, Buffer::zeroed(512))).expect("a read");
        assert_eq!(read[..], [n as u8 + 1; 512]);
    }
}

#[test]
fn the_end_of_the_ring_waits_for_what_is_under_way() {
    let Some(ring) = ring() else { return };
    let scratch = Scratch::new("end");
    let device = device(&ring, &scratch);
    let write = device.write(0, vec![vec![3; 512].into()], Durability::Plain);
    drop((device.read(0, Buffer::zeroed(1 << 20)), device.flush()));
    drop((device, ring));
    write.now_or_never().expect("answered by the end of the ring").expect("a write");
    let disk = DiskFile::open(scratch.path(), Access::ReadWrite).expect("nobody holds it");
    let mut bytes = [0; 512];
    disk.read(0, &mut bytes).expect("a read");
    assert_eq!(bytes, [3; 512]);
}

#[test]
fn waiting_for_nothing_returns_at_once() {
    let Some(ring) = ring() else { return };
    assert_eq!(ring.wait().expect("an idle wait"), 0);
}
