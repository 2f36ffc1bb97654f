//! The number of calls that an NVRAM spares its disks, and the time that it spares its callers.

use std::rc::Rc;

use block::{BlockDevice, Durability};
use bytes::Bytes;
use futures::future::join_all;
use nvram::Nvram;
use raid::layout::Level;
use raid::{MakeOptions, OpenOptions, Set};
use sim::{Disk, Executor, Image, Options, Prng, presets};

use crate::world::{ID, World, made_with};

/// Bytes of an overwrite, as an NFS client of those years sent it.
const CALL: u64 = 8192;

#[test]
fn blocks_that_are_written_again_and_again_go_below_once() {
    let world = World::new(1, &made_with(2 << 20));
    let (device, _) = world.executor.block_on(world.open());
    world.executor.block_on(async {
        let mut prng = Prng::new(1);
        for _ in 0..10_000 {
            let data = vec![vec![prng.below(256) as u8; 4096].into()];
            let write = device.write(prng.below(100) * 4096, data, Durability::Through);
            write.await.expect("nothing fails");
        }
        device.settle(false).await.expect("nothing fails");
    });
    let writes = world.below.counters().writes;
    println!("10,000 writes of 100 blocks: {writes} writes of the disk");
    assert!(writes <= 200, "{writes}");
}

/// A set of eleven disks of those years, all of it written.
fn set(executor: &Executor, level: Level, size: u64) -> Rc<Set> {
    let options = MakeOptions { unit: CALL, ..MakeOptions::new(level) };
    let width = 11 - u64::from(level == Level::Parity);
    let member = options.member_size(11, size.div_ceil(width * CALL));
    let devices: Vec<Rc<dyn BlockDevice>> = (0..11)
        .map(|_| {
            let options = Options { timing: presets::NETRA_4_2_GB, ..Options::default() };
            let disk = Disk::with_options(executor, Image::zeroed(member), options);
            disk as Rc<dyn BlockDevice>
        })
        .collect();
    let runtime = executor.runtime();
    executor.block_on(async {
        raid::make(&devices, &options, &runtime).await.expect("there is room");
        let set = raid::open(devices, &runtime, OpenOptions::default()).await.expect("it is new");
        let piece: Bytes = vec![1; 1 << 20].into();
        for at in (0..set.geometry().size / piece.len() as u64).map(|it| it << 20) {
            set.write(at, vec![piece.clone()], Durability::Plain).await.expect("nothing fails");
        }
        set.flush().await.expect("nothing fails");
        Rc::new(set)
    })
}

/// Overwrites a second by 32 callers at places by chance, after so many that a memory is settled.
fn rate(executor: &Executor, device: &Rc<dyn BlockDevice>, before: u64, count: u64) -> f64 {
    let (clock, size) = (executor.runtime().clock, device.geometry().size);
    let write = |calls: u64| {
        let begun = clock.now();
        executor.block_on(join_all((0..32).map(|caller| {
            let mut prng = Prng::new(calls ^ caller);
            async move {
                for _ in 0..calls / 32 {
                    let data = vec![vec![caller as u8; CALL as usize].into()];
                    let at = prng.below(size / CALL) * CALL;
                    device.write(at, data, Durability::Through).await.expect("nothing fails");
                }
            }
        })));
        calls as f64 / clock.now().since(begun).as_secs_f64()
    };
    write(before);
    write(count)
}

/// Bytes of the memory: a 43rd of the set, as 24 MiB are of 1 GiB.
const MEMORY: u64 = 3 << 20;
/// Bytes of the log device.
const LOWER: u64 = 8 << 20;

/// The devices beside the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beside {
    has_memory: bool,
    has_log_device: bool,
}

/// The rate of a set.
fn rate_with(level: Level, Beside { has_memory, has_log_device }: Beside) -> f64 {
    let executor = Executor::new(1);
    let set = set(&executor, level, 43 * MEMORY);
    let fast = |size| -> Rc<dyn BlockDevice> {
        let options = Options { timing: presets::NVRAM, ..Options::default() };
        Disk::with_options(&executor, Image::zeroed(size), options)
    };
    if has_log_device {
        executor.block_on(set.log_to(fast(LOWER))).expect("it is large enough");
    }
    if !has_memory {
        let set: Rc<dyn BlockDevice> = set;
        return rate(&executor, &set, 320, 960);
    }
    let (memory, runtime) = (fast(MEMORY), executor.runtime());
    let nvram: Nvram = executor.block_on(async {
        nvram::make(&memory, ID, set.geometry().size).await.expect("it is large enough");
        nvram::open(set, memory, runtime, ID).await.expect("it is its own").0
    });
    let nvram: Rc<dyn BlockDevice> = Rc::new(nvram);
    rate(&executor, &nvram, 10 * MEMORY / CALL, 1_920)
}

/// The rate of a set behind a memory, over that of the set alone.
fn gain(level: Level) -> f64 {
    let with = |has_memory| rate_with(level, Beside { has_memory, has_log_device: false });
    let [alone, behind] = [false, true].map(with);
    println!("{level:?}: {alone:.0}/s alone, {behind:.0}/s behind a memory");
    behind / alone
}

/// Places by chance are the worst case: hardly any block is written twice before it goes below, so
/// the gain is that of a sorted order.
#[test]
fn overwrites_of_a_set_are_faster_behind_a_memory() {
    let gains = [Level::Parity, Level::Striped].map(gain);
    println!("gains: {gains:.2?}");
    assert!(gains[0] > 1.2 && gains[1] > 1.4, "{gains:?}");
}

#[test]
fn a_set_whose_log_is_beside_it_is_faster_still() {
    let rate = |has_memory, has_log_device| {
        rate_with(Level::Parity, Beside { has_memory, has_log_device })
    };
    let [alone, logged, behind, both] =
        [(false, false), (false, true), (true, false), (true, true)].map(|it| rate(it.0, it.1));
    println!(
        "RAID-5: {alone:.0}/s, with a log device {logged:.0}/s, behind a memory {behind:.0}/s, \
         with both {both:.0}/s"
    );
    assert!(logged > 1.2 * alone && both > 1.1 * behind);
}
