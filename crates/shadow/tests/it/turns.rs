//! Placement on a disk whose arm position is known: the cost of appends, in virtual time.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use enginekit::Volume;
use enginekit::random::Seeded;
use futures::future::{Either, join_all, select};
use runtime::Random;
use shadow::{MkfsOptions, OpenOptions, Shadow, open};
use sim::{Disk, Executor, Image, Options, Prng, Tells, presets};
use vfs::{FileSystem, Stability};

use crate::bench::{findings, undisturbed};

/// An open volume on the disk of Acacia.
struct Bench {
    executor: Executor,
    disk: Rc<Disk>,
    volume: Volume<Shadow>,
}

impl Bench {
    fn new(tells: Tells, bytes: u64) -> Self {
        let options = Options { timing: presets::ACACIA, tells, ..Options::default() };
        let made = MkfsOptions { block_size: 4096, ..MkfsOptions::default() };
        let (executor, disk, volume) = undisturbed(options, &made, bytes);
        Self { executor, disk, volume }
    }

    /// Daemons append to files of 1 MiB, with requests of `kib` KiB; returns KiB a second, of data
    /// and of all writes.
    fn append(&self, daemons: u64, kib: std::ops::RangeInclusive<u64>, requests: u64) -> [f64; 2] {
        let most = kib.end() << 10;
        let files = requests.div_ceil((1 << 20) / most) + 1;
        let root = self.volume.files.root();
        let ids = self.executor.block_on(async {
            let mut ids = Vec::new();
            for number in 0..files {
                let name = format!("file{number}");
                ids.push(self.volume.create(root, &name).await.expect("it is new"));
            }
            ids
        });
        let (before, begun) = (self.disk.counters(), self.executor.now());
        let (at, data) = (Cell::new((0, 0)), Cell::new(0));
        let daemon = |number| {
            let (ids, at, data, chance) = (&ids, &at, &data, Seeded::new(number));
            let kib = kib.clone();
            async move {
                for _ in 0..requests / daemons {
                    let kib = kib.start() + chance.next_u64() % (kib.end() - kib.start() + 1);
                    let bytes = kib << 10 & !4095;
                    let (mut file, mut start) = at.get();
                    if start + bytes > 1 << 20 {
                        (file, start) = (file + 1, 0);
                    }
                    at.set((file, start + bytes));
                    data.set(data.get() + bytes);
                    let bytes = vec![7; bytes as usize];
                    let stability = Stability::FileSync;
                    let written = self.volume.write(ids[file], start, bytes, stability).await;
                    written.expect("there is room");
                }
            }
        };
        self.executor.block_on(join_all((0..daemons).map(daemon)));
        let time = self.executor.now().since(begun).as_secs_f64();
        let came = self.disk.counters().since(&before);
        [data.get(), came.bytes_written].map(|bytes| bytes as f64 / 1024.0 / time)
    }
}

/// KiB of data in a second, with a lone daemon and with eight.
fn speeds(tells: Tells) -> [f64; 2] {
    [(1, 40..=40), (8, 40..=100)].map(|(daemons, kib)| {
        let bench = Bench::new(tells, 64 << 20);
        let [data, all] = bench.append(daemons, kib.clone(), 120);
        println!("{tells:?}, {daemons} of {kib:?} KiB: {data:.0} KiB/s, all {all:.0}");
        bench.executor.block_on(async { bench.volume.files.shutdown().await.expect("running") });
        findings(&bench.disk.contents()).expect("a volume without damage");
        data
    })
}

/// If rotation is known, appends use most of the disk's bandwidth.
pub(crate) fn appends_follow_the_turns() -> Result<(), String> {
    let [lone, eight] = speeds(Tells::Turns);
    if lone > 720.0 && eight > 1120.0 { Ok(()) } else { Err(format!("{lone}, {eight}")) }
}

#[test]
fn where_turns_are_known_appends_follow_them() {
    appends_follow_the_turns().unwrap_or_else(|slow| panic!("{slow}"));
}

#[test]
fn where_cylinders_alone_are_known_appends_stay_in_them() {
    let [nothing, cylinders] = [Tells::Nothing, Tells::Cylinders].map(speeds);
    assert!(cylinders[0] > 1.05 * nothing[0], "{cylinders:?}, {nothing:?}");
    assert!(cylinders[1] > 1.1 * nothing[1], "{cylinders:?}, {nothing:?}");
}

/// A disk with a known arm position is cut while it is written.
#[test]
fn a_cut_leaves_what_was_answered() {
    let bench = Bench::new(Tells::Turns, 16 << 20);
    let root = bench.volume.files.root();
    let answered = Rc::new(Cell::new(0));
    let file = bench.executor.block_on(bench.volume.create(root, "file")).expect("it is new");
    let mut chance = Prng::new(5);
    for round in 0..40 {
        let written =
            bench.volume.write(file, round * 65_536, vec![7; 65_536], Stability::FileSync);
        let image = bench.executor.block_on(async {
            let late = bench.executor.runtime().clock;
            let cut = late.sleep(Duration::from_millis(chance.between(1, 90)));
            match select(pin!(written), pin!(cut)).await {
                Either::Left((done, _)) => {
                    done.expect("there is room");
                    answered.set(round + 1);
                    bench.disk.crash(&mut chance)
                }
                Either::Right((_, written)) => {
                    let image = bench.disk.crash(&mut chance);
                    written.await.expect("there is room");
                    answered.set(round); // the image is from before
                    image
                }
            }
        });
        findings_after_return(&image, answered.get() * 65_536);
        answered.set(round + 1);
    }
}

/// Opens the disk after a cut: everything that was acknowledged is there, and a check finds
/// nothing.
fn findings_after_return(image: &Image, size: u64) {
    let executor = Executor::new(3);
    let options = Options { timing: presets::ACACIA, tells: Tells::Turns, ..Options::default() };
    let disk = Disk::with_options(&executor, image.clone(), options);
    executor.block_on(async {
        let options = OpenOptions::default();
        let opened = open(disk.clone(), executor.runtime(), &options).await;
        let volume = Volume::new(opened.expect("it was cut off"));
        let root = volume.files.root();
        let file = volume.lookup(root, "file").await.expect("it was made");
        assert!(volume.attributes(file).await.size >= size, "{size} bytes were answered");
        volume.files.shutdown().await.expect("running");
    });
    findings(&disk.contents()).expect("a volume without damage");
}
