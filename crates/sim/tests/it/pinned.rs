//! The default disk's runs, pinned: a change of its random draws or of its order of events changes
//! the meaning of every seed of every test, and must not go unnoticed.

use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::FutureExt;
use sim::{Disk, Executor, Image, Persistence};

/// Three tasks that use every verb, an injected fault of each kind, and a crash in the middle.
fn run(seed: u64) -> u64 {
    let executor = Executor::new(seed);
    let mut disk = Disk::new(&executor, Image::zeroed(1 << 20));
    for _ in 0..2 {
        disk.fail(Verb::Read, 5, Persistence::Once);
        disk.fail(Verb::Write, 7, Persistence::Once);
        disk.fail(Verb::Flush, 3, Persistence::Once);
        for task in 0..3_u8 {
            let (disk, runtime) = (disk.clone(), executor.runtime());
            let load = async move {
                for _ in 0..20 {
                    let draw = runtime.random.next_u64();
                    let (offset, length) = ((draw >> 8 & 63) * 4096, 512 << (draw >> 16 & 7));
                    let data = vec![vec![task + 1; length].into()];
                    match draw % 6 {
                        0 => drop(disk.read(offset, Buffer::zeroed(length)).await),
                        1 => drop(disk.flush().await),
                        2 => drop(disk.discard(offset, length as u64).await),
                        3 => drop(disk.write(offset, data, Durability::Through).await),
                        _ => drop(disk.write(offset, data, Durability::Plain).await),
                    }
                    runtime.clock.sleep(Duration::from_micros(draw >> 32 & 63)).await;
                }
            };
            executor.runtime().tasks.spawn(load.boxed_local());
        }
        executor.run_for(Duration::from_millis(2));
        executor.crash();
        let image = disk.crash(&mut sim::Prng::new(seed));
        disk = Disk::new(&executor, image);
    }
    executor.digest() ^ disk.contents().fingerprint() as u64
}

#[test]
fn the_default_disk_runs_as_it_always_did() {
    let runs: Vec<u64> = (0..4).map(run).collect();
    let pinned = "[66ed539bf65b9ca5, d849951a9f6f2be1, 4b1031f4e947edb3, 3c6a35d11a5ff6bd]";
    assert_eq!(format!("{runs:x?}"), pinned);
}
