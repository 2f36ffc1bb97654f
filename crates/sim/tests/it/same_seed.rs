//! The same seed gives the same run on every kind of disk, and a run takes hardly any time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::FutureExt;
use sim::{
    Counters, Disk, Effect, Executor, Fault, Image, Mechanical, Options, Persistence, Scheduler,
    Timing, presets,
};

const SIZE: u64 = 64 << 20;

/// One disk of each kind, and an arm whose small cache is always full.
fn kinds() -> [Timing; 6] {
    let Timing::Mechanical(ibm) = presets::IBM_0661 else { unreachable!("it has an arm") };
    let full = Mechanical {
        write_cache_bytes: 16 << 10,
        scheduler: Scheduler::ShortestFirst,
        queue_depth: 8,
        ..ibm
    };
    let full = Timing::Mechanical(full);
    [
        Timing::default(),
        presets::ACACIA,
        presets::SATA_7200,
        full,
        presets::SATA_SSD,
        presets::NVRAM,
    ]
}

/// Three tasks on each disk that use every verb, some faults, and a cut in the middle: returns the
/// digest of the run, the fingerprints after the cuts, and the counters.
fn run(seed: u64) -> (u64, Vec<u128>, Vec<Counters>) {
    let executor = Executor::new(seed);
    let (mut images, mut counters) = (Vec::new(), Vec::new());
    for boot in 0..2 {
        let disks = kinds().map(|timing| {
            let options = Options { timing, ..Options::default() };
            let disk = Disk::with_options(&executor, Image::zeroed(SIZE), options);
            disk.fail(Verb::Write, 9, Persistence::Once);
            disk.inject(Fault::on(Verb::Read, Effect::Slow(Duration::from_millis(3))).nth(4));
            disk
        });
        for disk in disks.iter().flat_map(|disk| [disk; 3]) {
            let (disk, runtime) = (disk.clone(), executor.runtime());
            let load = async move {
                for _ in 0..12 {
                    let draw = runtime.random.next_u64();
                    let (offset, length) = ((draw >> 8) % (SIZE >> 16) * 65_536, 512 << (draw % 8));
                    let data = vec![vec![draw as u8; length].into()];
                    match draw >> 32 & 7 {
                        0 | 1 => drop(disk.read(offset, Buffer::zeroed(length)).await),
                        2 => drop(disk.flush().await),
                        3 => drop(disk.discard(offset, length as u64).await),
                        4 => drop(disk.write(offset, data, Durability::Through).await),
                        _ => drop(disk.write(offset, data, Durability::Plain).await),
                    }
                    runtime.clock.sleep(Duration::from_micros(draw >> 40 & 1023)).await;
                }
            };
            executor.runtime().tasks.spawn(load.boxed_local());
        }
        executor.run_for(Duration::from_millis(if boot == 0 { 150 } else { 10_000 }));
        executor.crash();
        for disk in &disks {
            counters.push(disk.counters());
            images.push(disk.crash(&mut sim::Prng::new(seed)).fingerprint());
        }
    }
    (executor.digest(), images, counters)
}

#[test]
fn a_hundred_seeds_give_the_same_runs_twice() {
    let mut digests = BTreeSet::new();
    for seed in 0..100 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first, second, "seed {seed}");
        digests.insert(first.0);
    }
    assert_eq!(digests.len(), 100, "and different ones each");
}

/// One client that writes 4 KiB, flushes and reads them back ten times a second.
fn light_load(timing: Timing, duration: Duration) -> Counters {
    let executor = Executor::new(1);
    let options = Options { timing, ..Options::default() };
    let disk = Disk::with_options(&executor, Image::zeroed(SIZE), options);
    let runtime = executor.runtime();
    let client = async {
        loop {
            let offset = runtime.random.next_u64() % (SIZE / 4096) * 4096;
            let data = vec![vec![7; 4096].into()];
            disk.write(offset, data, Durability::Plain).await.expect("a write");
            disk.flush().await.expect("a flush");
            disk.read(offset, Buffer::zeroed(4096)).await.expect("a read");
            runtime.clock.sleep(Duration::from_millis(100)).await;
        }
    };
    let endless: Option<()> = executor.block_on_for(duration, client);
    assert!(endless.is_none());
    assert_eq!(u128::from(executor.now().0), duration.as_nanos());
    disk.counters()
}

#[test]
fn ten_minutes_of_a_light_load_pass() {
    let ten_minutes = Duration::from_secs(600);
    for timing in kinds() {
        #[expect(
            clippy::disallowed_methods,
            reason = "how fast it is, is printed and not asserted"
        )]
        let start = Instant::now();
        let counters = light_load(timing, ten_minutes);
        let ratio = ten_minutes.as_secs_f64() / start.elapsed().as_secs_f64();
        println!("{ratio:.0} times real time, {} flushes: {timing:?}", counters.flushes);
        assert!((4_000..=6_000).contains(&counters.flushes), "{counters:?}");
        assert_eq!(counters.writes, counters.synchronous_writes);
    }
}
