//! Number of member calls that a set makes for a request, in virtual time.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, stream};
use raid::layout::Level;
use raid::{MakeOptions, OpenOptions, Set, make, open};
use runtime::Clock;
use sim::{Counters, Disk, Executor, Image, Options, Prng, Timing, presets};

/// A new set, and its disks.
fn set(
    executor: &Executor,
    disks: usize,
    timing: Timing,
    cache: usize,
) -> (Rc<Set>, Vec<Rc<Disk>>) {
    let size = MakeOptions::new(Level::Parity).member_size(disks, 64);
    let new = |_| {
        let options = Options { timing, ..Options::default() };
        Disk::with_options(executor, Image::zeroed(size), options)
    };
    let members: Vec<Rc<Disk>> = (0..disks).map(new).collect();
    let devices = || members.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect();
    let runtime = executor.runtime();
    let set = executor.block_on(async {
        let devices: Vec<Rc<dyn BlockDevice>> = devices();
        make(&devices, &MakeOptions::new(Level::Parity), &runtime).await.expect("there is room");
        let options = || OpenOptions { cache, ..OpenOptions::default() };
        let set = open(devices.clone(), &runtime, options()).await.expect("it is new");
        // All but the last stripes, which stay unwritten.
        let size = set.geometry().size - 8 * set.layout().width() * set.layout().unit;
        let data = vec![vec![1; size as usize].into()];
        set.write(0, data, Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        open(devices, &runtime, options()).await.expect("all are there")
    });
    (Rc::new(set), members)
}

fn counters(disks: &[Rc<Disk>]) -> Counters {
    disks.iter().map(|disk| disk.counters()).fold(Counters::default(), |mut all, one| {
        all.reads += one.reads;
        all.writes += one.writes;
        all.flushes += one.flushes;
        all.bytes_read += one.bytes_read;
        all.bytes_written += one.bytes_written;
        all
    })
}

/// Loads the checksums of a set: with so few stripes a member has one table or two.
fn warm(executor: &Executor, set: &Set) {
    let room = || Buffer::zeroed(set.geometry().size as usize);
    executor.block_on(set.read(0, room())).expect("nothing fails");
    let stripe = set.layout().width() * set.layout().unit;
    for at in (0..set.geometry().size).step_by(stripe as usize).take(set.layout().members) {
        let data = vec![vec![1; 4096].into()];
        executor.block_on(set.write(at, data, Durability::Plain)).expect("nothing fails");
    }
}

/// Reads, writes and flushes of members while something is done.
fn cost(disks: &[Rc<Disk>], work: impl FnOnce()) -> [u64; 3] {
    let before = counters(disks);
    work();
    let after = counters(disks);
    [after.reads - before.reads, after.writes - before.writes, after.flushes - before.flushes]
}

#[test]
fn a_small_overwrite_takes_six_calls_and_four_when_what_was_there_is_known() {
    let executor = Executor::new(1);
    let (set, disks) = set(&executor, 4, Timing::default(), 8 << 20);
    warm(&executor, &set);
    let write = |at: u64| {
        executor
            .block_on(set.write(at, vec![vec![1; 8192].into()], Durability::Through))
            .expect("nothing fails");
    };
    assert_eq!(cost(&disks, || write(64 << 10)), [2, 4, 0], "two read, two to the log, two home");
    assert_eq!(cost(&disks, || write(64 << 10)), [0, 4, 0], "it is known");
    assert_eq!(cost(&disks, || write((64 << 10) + 4096)), [2, 4, 0], "half of it is");
}

#[test]
fn with_a_log_device_a_small_overwrite_takes_four_calls_and_two_when_what_was_there_is_known() {
    let executor = Executor::new(1);
    let (set, disks) = set(&executor, 4, Timing::default(), 8 << 20);
    let log = Disk::new(&executor, Image::zeroed(8 << 20));
    executor.block_on(set.log_to(log.clone())).expect("it is large enough");
    warm(&executor, &set);
    let write = |at: u64| {
        executor
            .block_on(set.write(at, vec![vec![1; 8192].into()], Durability::Through))
            .expect("nothing fails");
    };
    let before = log.counters().writes;
    assert_eq!(cost(&disks, || write(64 << 10)), [2, 2, 0], "two read, two home");
    assert_eq!(cost(&disks, || write(64 << 10)), [0, 2, 0], "it is known");
    assert_eq!(log.counters().writes - before, 2, "a record each");
}

#[test]
fn a_log_device_that_is_too_small_is_none() {
    let executor = Executor::new(1);
    let (set, _) = set(&executor, 4, Timing::default(), 0);
    let least = raid::least_log_device(&set.layout()).expect("it has a log");
    assert_eq!(least, 8 * 4 * (64 << 10));
    let small = Disk::new(&executor, Image::zeroed(least - 512));
    assert!(executor.block_on(set.log_to(small)).is_err());
    let log = Disk::new(&executor, Image::zeroed(least));
    executor.block_on(set.log_to(log)).expect("it is large enough");
}

#[test]
fn a_set_without_memory_reads_before_each_small_write() {
    let executor = Executor::new(1);
    let (set, disks) = set(&executor, 4, Timing::default(), 0);
    warm(&executor, &set);
    for _ in 0..3 {
        let write = || {
            let done = set.write(4096, vec![vec![1; 4096].into()], Durability::Plain);
            executor.block_on(done).expect("nothing fails");
        };
        assert_eq!(cost(&disks, write), [2, 4, 0]);
    }
}

/// A record on two members says which stripes are vacated, and another one sets their bits; the
/// rest is as on a new set: data and parity written in place, and checksums with the flush.
#[test]
fn a_whole_stripe_of_which_nothing_is_needed_is_neither_read_nor_logged() {
    const STRIPES: u64 = 5;
    let executor = Executor::new(1);
    let (set, disks) = set(&executor, 4, Timing::default(), 8 << 20);
    warm(&executor, &set);
    let stripe = set.geometry().stripe.expect("it is cut").length();
    let logged = |is_vacated: bool| {
        let before = counters(&disks);
        executor.block_on(async {
            if is_vacated {
                set.discard(0, STRIPES * stripe).await.expect("nothing fails");
            }
            let data = vec![vec![3; (STRIPES * stripe) as usize].into()];
            set.write(0, data, Durability::Plain).await.expect("nothing fails");
            set.flush().await.expect("nothing fails");
        });
        let after = counters(&disks);
        let home = STRIPES * (stripe + set.layout().unit);
        (after.reads - before.reads, after.bytes_written - before.bytes_written - home)
    };
    let (reads, bytes) = logged(false);
    assert!(reads == 0 && bytes > 2 * STRIPES * stripe, "all of it is logged twice: {bytes}");
    let (reads, bytes) = logged(true);
    assert!(reads == 0 && bytes < stripe, "{reads} reads, {bytes} bytes beside what goes home");
}

/// Checksum cost of a cold read: 8 KiB of two other members for each 4 MiB.
#[test]
fn a_cold_read_reads_its_checksums_once() {
    let executor = Executor::new(1);
    let (set, disks) = set(&executor, 4, Timing::default(), 0);
    executor.block_on(set.close()).expect("nothing fails");
    let options = || Options { timing: presets::NETRA_4_2_GB, ..Options::default() };
    let again = |disk: &Rc<Disk>| Disk::with_options(&executor, disk.contents(), options());
    let disks: Vec<Rc<Disk>> = disks.iter().map(again).collect();
    let devices = disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect();
    let (runtime, cache) = (executor.runtime(), 0);
    let options = OpenOptions { cache, ..OpenOptions::default() };
    let set = executor.block_on(open(devices, &runtime, options)).expect("all are there");
    let clock = runtime.clock;
    let size = set.geometry().size as usize;
    let read = |at: u64, length: usize| {
        let begun = clock.now();
        let calls = cost(&disks, || {
            let read = set.read(at, Buffer::zeroed(length));
            executor.block_on(read).expect("nothing fails");
        });
        (calls[0], clock.now().since(begun).as_micros())
    };
    let ((cold, cold_time), (warm, warm_time)) = (read(0, 4096), read(512 << 10, 4096));
    println!("4 KiB, cold: {cold} reads, {cold_time} us; then {warm} reads, {warm_time} us");
    assert_eq!((cold, warm), (3, 1), "a table, of both that have it, once");
    let ((first, first_time), (second, second_time)) = (read(0, size), read(0, size));
    println!("{size} bytes: {first} reads, {first_time} us; then {second}, {second_time} us");
    assert_eq!(first - second, 6, "those of the three other disks");
}

#[test]
fn whole_stripes_are_written_without_a_read() {
    let executor = Executor::new(1);
    let (set, disks) = set(&executor, 4, Timing::default(), 8 << 20);
    warm(&executor, &set);
    let stripe = set.layout().width() * set.layout().unit;
    let write = || {
        let data = vec![vec![1; 4 * stripe as usize].into()];
        let at = set.geometry().size - 8 * stripe;
        executor.block_on(set.write(at, data, Durability::Plain)).expect("nothing fails");
    };
    let [reads, writes, _] = cost(&disks, write);
    assert_eq!(reads, 0);
    let most = 16 + 4 * (2 + 4);
    assert!(writes <= most, "{writes}: units, and for each stripe at most a record and the map");
}

/// 32 callers overwrite 8 KiB each, anywhere, on 11 old disks: they share one record a round.
#[test]
fn overwrites_that_come_together_share_their_record() {
    let executor = Executor::new(3);
    let (set, disks) = set(&executor, 11, presets::NETRA_4_2_GB, 0);
    let (callers, each) = (32, 20);
    let size = set.geometry().size - 8 * set.layout().width() * set.layout().unit;
    let work = || {
        executor.block_on(join_all((0..callers).map(|caller| {
            let set = set.clone();
            async move {
                let mut prng = Prng::new(caller);
                for _ in 0..each {
                    let at = prng.below(size / 8192) * 8192;
                    let data = vec![vec![caller as u8; 8192].into()];
                    set.write(at, data, Durability::Through).await.expect("nothing fails");
                }
            }
        })));
    };
    let [reads, writes, _] = cost(&disks, work);
    let per_call = (reads + writes) as f64 / (callers * each) as f64;
    println!("{per_call:.2} member I/Os for each overwrite, {} records", set.log_writes());
    assert!(per_call <= 4.5, "{per_call}");
}

/// Microseconds to write `bytes` bytes to a device from its beginning, `each` bytes a write and
/// four writes at once, and to flush it.
async fn write_all(device: &dyn BlockDevice, bytes: u64, each: u64, clock: &dyn Clock) -> u128 {
    let begun = clock.now();
    let data: Bytes = vec![5; each as usize].into();
    let write = |at| device.write(at, vec![data.clone()], Durability::Plain);
    let mut writes = stream::iter((0..bytes).step_by(each as usize)).map(write).buffered(4);
    while let Some(written) = writes.next().await {
        written.expect("nothing fails");
    }
    device.flush().await.expect("nothing fails");
    clock.now().since(begun).as_micros()
}

/// Speed of streaming writes of `each` bytes to a new set of four, as a fraction of the speed of
/// three bare disks; and the number of reads of a disk meanwhile.
fn streamed(timing: Timing, each: u64) -> (f64, u64) {
    let bytes = 90 << 20;
    let executor = Executor::new(1);
    let runtime = executor.runtime();
    let options = MakeOptions::new(Level::Parity);
    let size = options.member_size(4, bytes / 3 / options.unit);
    let new = |_| {
        let options = Options { timing, ..Options::default() };
        Disk::with_options(&executor, Image::zeroed(size), options)
    };
    let disks: Vec<Rc<Disk>> = (0..4).map(new).collect();
    let devices: Vec<Rc<dyn BlockDevice>> =
        disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect();
    executor.block_on(async {
        make(&devices, &options, &runtime).await.expect("there is room");
        let set = open(devices, &runtime, OpenOptions::default()).await.expect("it is new");
        let before = counters(&disks).reads;
        let ours = write_all(&set, bytes, each, &*runtime.clock).await;
        let reads = counters(&disks).reads - before;
        let raw = write_all(&*new(0), bytes / 3, each, &*runtime.clock).await;
        (raw as f64 / ours as f64, reads)
    })
}

#[test]
fn what_streams_into_new_space_is_not_read_and_nearly_as_fast_as_the_disks() {
    // A stripe is 192 KiB: the ends of 1 MiB are written twice, in place of the stripe's other
    // part.
    for (name, timing, each, least) in [
        ("old", presets::NETRA_4_2_GB, 960 << 10, 0.85),
        ("old", presets::NETRA_4_2_GB, 1 << 20, 0.75),
        ("new", presets::SATA_7200, 960 << 10, 0.8),
        ("new", presets::SATA_7200, 1 << 20, 0.8),
    ] {
        let (share, reads) = streamed(timing, each);
        println!("{name}, {} KiB each: {:.1} % of three disks", each >> 10, share * 100.0);
        assert_eq!(reads, 0, "{name}");
        assert!(share >= least, "{name}, {each}: {share}");
    }
}
