//! Places on a disk whose arm can be followed: what appends cost there, in virtual time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use enginekit::Volume;
use enginekit::random::Seeded;
use futures::future::join_all;
use runtime::Random;
use shadow::{MkfsOptions, OpenOptions, Shadow, mkfs, open};
use sim::{Disk, Executor, Image, Options, Tells, presets};
use vfs::{FileSystem, Stability};

use crate::bench::NOW;

/// A volume on the disk of Acacia, that is open.
struct Bench {
    executor: Executor,
    disk: Rc<Disk>,
    volume: Volume<Shadow>,
}

impl Bench {
    fn new(tells: Tells, bytes: u64) -> Self {
        let executor = Executor::new(1);
        let options = Options { timing: presets::ACACIA, tells, ..Options::default() };
        let disk = Disk::with_options(&executor, Image::zeroed(bytes), options);
        let volume = executor.block_on(async {
            let options = MkfsOptions { block_size: 4096, ..MkfsOptions::default() };
            mkfs(&*disk, &options, &Seeded::new(7), NOW).await.expect("the disk holds it");
            let options = OpenOptions {
                cache_bytes: 64 << 20,
                housekeeping_interval: Duration::from_secs(100_000),
                ..OpenOptions::default()
            };
            Volume::new(open(disk.clone(), executor.runtime(), &options).await.expect("it is new"))
        });
        Self { executor, disk, volume }
    }

    /// So many daemons append to files of 1 MiB, with requests of so many KiB; tells KiB a second,
    /// of data and of all.
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
        let counts = self.volume.files.store().engine().counts();
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
        let counts_now = self.volume.files.store().engine().counts();
        let time = self.executor.now().since(begun).as_secs_f64();
        let came = self.disk.counters().since(&before);
        let ideal = came.bytes_written as f64 / 1024.0 / 1402.8 / time;
        println!(
            "{ideal:.3} of the most; {} updates, {} writes, {} barriers, {} split, metadata {} KiB, through {}, seeks {}",
            counts_now.updates - counts.updates,
            came.writes,
            counts_now.barriers - counts.barriers,
            counts_now.split_updates - counts.split_updates,
            (counts_now.metadata_bytes - counts.metadata_bytes) >> 10,
            came.through_writes,
            came.seeks,
        );
        [data.get(), came.bytes_written].map(|bytes| bytes as f64 / 1024.0 / time)
    }
}

#[test]
fn where_turns_are_known_appends_follow_them() {
    for tells in [Tells::Nothing, Tells::Cylinders, Tells::Turns] {
        for (daemons, kib) in [(1, 40..=40), (1, 100..=100), (8, 40..=100)] {
            let bench = Bench::new(tells, 256 << 20);
            let [data, all] = bench.append(daemons, kib.clone(), 240);
            println!("{tells:?}, {daemons} of {kib:?}: {data:.0} KiB/s, all {all:.0}");
        }
    }
}
