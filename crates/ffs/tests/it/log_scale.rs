//! Recovery time depends on the size of the live log, not of the volume.
//!
//! Real files, and real time, which is printed and not judged: `DURAMEN_RUNS=100000 cargo test
//! --release -p ffs --test it log_scale -- --nocapture`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use block::BlockDevice;
use block::file::{Access, DiskFile, FileDevice};
use ffs::OpenOptions;
use ffs::replay::Replayed;
use futures::future::join_all;
use namespace::Namespace;
use runtime::Timestamp;
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{CallKey, CreateHow, FileSystem, Requester};

use crate::common::volume::{Volume, name, open_with_log};
use crate::common::{Seeded, World, temporary};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const AT_ONCE: u64 = 32;
/// Four times the size to which a log grows by itself: a quarter of it is live without a sync.
const LARGEST_LOG: u64 = 1 << 30;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(temporary(name))
    }

    fn device(&self) -> Rc<dyn BlockDevice> {
        let file = DiskFile::open(&self.0, Access::ReadWrite).expect("it was made");
        Rc::new(FileDevice::new(file))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Keys of remembered calls, by default as many as of one client.
#[derive(Default)]
struct Callers(RefCell<VecDeque<Rc<CallKey>>>);

impl Callers {
    const HELD: usize = 8192;

    fn next(&self) -> Requester {
        let mut held = self.0.borrow_mut();
        let serial = held.back().map_or(0, |last| {
            1 + u64::from_be_bytes(last.as_bytes()[..8].try_into().expect("eight bytes"))
        });
        // As long as the keys of the reply cache.
        let key = Rc::new(CallKey::new(&[serial.to_be_bytes(); 6].concat()).expect("48 bytes"));
        held.push_back(key.clone());
        if held.len() > Self::HELD {
            held.pop_front();
        }
        Requester { call: Some(key), ..Requester::root() }
    }
}

async fn opened(world: &World, files: &[Scratch; 2]) -> (Volume, Option<Replayed>) {
    let [home, log] = files.each_ref().map(Scratch::device);
    let options = OpenOptions::default();
    let opened = open_with_log(home, Some(log), world.runtime(), &options, &mut |_| ()).await;
    let opened = opened.unwrap_or_else(|error| panic!("{error}"));
    (Volume { files: Namespace::new(opened.files), root: Requester::root() }, opened.replayed)
}

/// Makes files under load and stops without shutting down; then recovers. Returns the time in
/// milliseconds.
fn come_back(label: &str, size: u64, count: u64) -> (f64, Replayed) {
    let files = [Scratch::new(&format!("{label}-disk")), Scratch::new(&format!("{label}-log"))];
    for (file, size) in files.iter().zip([size, LARGEST_LOG]) {
        drop(DiskFile::create(&file.0, size).expect("sparse files are long for free"));
    }
    let world = World::new(1);
    world.run(async {
        let home = files[0].device();
        let made = mkfs(&*home, &MkfsOptions::default(), &Seeded::new(7), NOW).await;
        made.expect("the disk holds it");
        home.close().await.expect("it was written");
        let (volume, _) = opened(&world, &files).await;
        let root = volume.files.root();
        let callers = Callers::default();
        for hundred in 0..count.div_ceil(1000) {
            let own = volume.mkdir(root, &format!("d{hundred}")).await.expect("new");
            for first in (0..1000).step_by(AT_ONCE as usize) {
                let (volume, callers) = (&volume, &callers);
                let made = (first..(first + AT_ONCE).min(1000)).map(|index| async move {
                    let (requester, how) = (callers.next(), CreateHow::Guarded(Default::default()));
                    let name = name(&format!("f{index}"));
                    let made = volume.files.create(&requester, own, &name, how).await.open().await;
                    made.expect("running").into_inner().result.expect("there is room");
                });
                join_all(made).await;
            }
        }
    });
    drop(world); // every task of it, in the middle of its work
    let world = World::new(2);
    #[expect(clippy::disallowed_methods, reason = "how long a person waited")]
    let start = Instant::now();
    let (volume, replayed) = world.run(opened(&world, &files));
    let took_ms = start.elapsed().as_secs_f64() * 1000.0;
    let last = format!("d{}", count.div_ceil(1000) - 1);
    world.run(async {
        let own = volume.lookup(volume.files.root(), &last).await.expect("it was answered");
        assert_eq!(volume.list(own).await.expect("a directory").len(), 1002, "with its dots");
        volume.files.shutdown().await.expect("a clean stop");
    });
    (took_ms, replayed.expect("it was cut off"))
}

#[test]
fn a_large_volume_is_back_as_soon_as_a_small_one() {
    let count = std::env::var("DURAMEN_RUNS").map_or(1000, |text| text.parse().expect("a number"));
    for (label, size) in [("1 GiB", 1 << 30), ("64 GiB", 64 << 30)] {
        let (took_ms, replayed) = come_back(&label.replace(' ', "-"), size, count);
        println!("{label}, {count} files: back in {took_ms:.1} ms; {replayed:?}");
        assert!(replayed.entries >= 1000, "what was answered stood in the log");
    }
}
