//! Background work shares the members with clients, in virtual time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability};
use futures::future::{join, join_all};
use raid::layout::Level;
use raid::{MakeOptions, OpenOptions, Set, make, open};
use sim::{Disk, Executor, Image, Options, Prng, Timing, presets};

use crate::losses::lose;

const DISKS: usize = 4;
/// Stripes of the set.
const ROWS: u64 = 384;
/// Client calls under way at once.
const CLIENTS: u64 = 8;
/// Bytes of each call.
const EACH: u64 = 8192;
/// The member that goes.
const GONE: usize = 1;

/// The clients' calls.
#[derive(Clone, Copy, Debug)]
enum Load {
    Reads,
    Writes,
}

/// The background work.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Rebuild,
    CatchUp,
    Scrub,
}

fn disk(executor: &Executor, timing: Timing) -> Rc<Disk> {
    let size = MakeOptions::new(Level::Parity).member_size(DISKS, ROWS);
    let options = Options { timing, ..Options::default() };
    Disk::with_options(executor, Image::zeroed(size), options)
}

/// A full set, and its disks. One is out if the work brings it back; if it is to catch up,
/// everything was written since.
async fn set(executor: &Executor, timing: Timing, work: Work) -> (Rc<Set>, Vec<Rc<Disk>>) {
    let disks: Vec<Rc<Disk>> = (0..DISKS).map(|_| disk(executor, timing)).collect();
    let devices: Vec<Rc<dyn BlockDevice>> =
        disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect();
    let runtime = executor.runtime();
    make(&devices, &MakeOptions::new(Level::Parity), &runtime).await.expect("there is room");
    let options = OpenOptions { cache: 0, ..OpenOptions::default() };
    let set = open(devices, &runtime, options).await.expect("it is new");
    let fill = async || {
        let data = vec![vec![1; set.geometry().size as usize].into()];
        set.write(0, data, Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
    };
    fill().await;
    if work != Work::Scrub {
        lose(&set, &disks, GONE).await;
    }
    if work == Work::CatchUp {
        fill().await;
    }
    (Rc::new(set), disks)
}

/// Does the work to its end.
async fn do_all(work: Work, set: &Set, disks: &[Rc<Disk>]) {
    let rebuild = async |member| {
        let rebuilt = set.rebuild(GONE, disks[GONE].clone(), member, |_, _| ());
        rebuilt.await.expect("nothing fails");
    };
    match work {
        Work::Rebuild => rebuild([7; 16]).await,
        Work::CatchUp => rebuild(set.label().slots[GONE].member).await,
        Work::Scrub => {
            let found = set.scrub(|_, _, _| ()).await.expect("nothing fails");
            assert!(found.lost.is_empty() && found.mended == 0, "{found:?}");
        }
    }
}

/// Lets clients call until a condition holds. Returns the number of calls completed.
async fn calls(set: &Set, load: Load, is_over: &dyn Fn() -> bool) -> u64 {
    let done = Cell::new(0);
    let places = set.geometry().size / EACH;
    let client = async |number| {
        let mut prng = Prng::new(number);
        while !is_over() {
            let at = prng.below(places) * EACH;
            match load {
                Load::Reads => {
                    let room = Buffer::unfilled(EACH as usize);
                    set.read(at, room).await.expect("nothing fails");
                }
                Load::Writes => {
                    let data = vec![vec![number as u8; EACH as usize].into()];
                    set.write(at, data, Durability::Through).await.expect("nothing fails");
                }
            }
            done.set(done.get() + 1);
        }
    };
    join_all((0..CLIENTS).map(client)).await;
    done.get()
}

/// Client calls a second, with or without background work; and the duration of that work.
fn measured(timing: Timing, load: Option<Load>, work: Work, is_done: bool) -> (f64, Duration) {
    let executor = Executor::new(1);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let (set, disks) = set(&executor, timing, work).await;
        let begun = clock.now();
        let passed = || clock.now().since(begun);
        let is_over = Cell::new(false);
        let work = async {
            if is_done {
                do_all(work, &set, &disks).await;
            } else {
                clock.sleep(Duration::from_secs(2)).await;
            }
            is_over.set(true);
            passed()
        };
        let Some(load) = load else { return (0.0, work.await) };
        let (done, took) = join(calls(&set, load, &|| is_over.get()), work).await;
        (done as f64 / passed().as_secs_f64(), took)
    })
}

/// Checks background work with clients, and its rate alone, in MiB of a member a second.
fn judge(name: &str, timing: Timing, work: Work, least_alone: f64, times: u32) {
    let (_, alone) = measured(timing, None, work, true);
    let rate = (ROWS / 16) as f64 / alone.as_secs_f64();
    println!("{name}, {work:?}: {alone:?} alone, {rate:.1} MiB/s");
    assert!(rate >= least_alone, "{name}, {work:?}: {rate} MiB/s with nobody else");
    for load in [Load::Reads, Load::Writes] {
        let (free, _) = measured(timing, Some(load), work, false);
        let (shared, took) = measured(timing, Some(load), work, true);
        let share = shared / free;
        let percent = share * 100.0;
        println!("  {load:?}: {free:.0}/s, with it {shared:.0}/s, {percent:.0} %; {took:?}");
        assert!(share >= 0.5, "{name}, {work:?}, {load:?}: {share}");
        assert!(took < alone * times, "{name}, {work:?}, {load:?}: {took:?}");
    }
}

#[test]
fn clients_have_half_of_the_old_disks_while_a_member_is_made_again() {
    judge("old", presets::NETRA_4_2_GB, Work::Rebuild, 5.0, 4);
}

#[test]
fn clients_have_half_of_the_new_disks_while_a_member_comes() {
    judge("new", presets::SATA_7200, Work::Rebuild, 55.0, 8);
    judge("new", presets::SATA_7200, Work::CatchUp, 55.0, 8);
}

/// A scrub has one stripe under way at a time, whatever clients call.
#[test]
fn clients_have_half_of_the_disks_while_all_is_looked_at() {
    judge("new", presets::SATA_7200, Work::Scrub, 55.0, 60);
}
