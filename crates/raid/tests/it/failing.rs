//! Members that cannot be read: they stay in, are named, and are put out only if nothing that is
//! written to them comes back.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Durability, Verb};
use raid::label::Standing;
use raid::layout::Level;
use raid::{OpenOptions, READ_ERRORS_PER_HOUR, ReportSilence, Set, make, open};
use sim::{Disk, Effect, Executor, Fault};

use crate::losses::{all_of, bytes, copies, devices, new_disks, options};

const BLOCK: u64 = 4096;
const FAULTY: usize = 1;

/// A set that holds this, after a start: nothing of it is in memory.
async fn full_set(
    executor: &Executor,
    level: Level,
    limit: usize,
) -> (Vec<Rc<Disk>>, Set, Vec<u8>) {
    let disks = new_disks(executor, if level == Level::Parity { 4 } else { 3 });
    make(&devices(&disks), &options(level), &executor.runtime()).await.expect("there is room");
    let open = async |disks: &[Rc<Disk>]| {
        let options =
            OpenOptions { cache: 0, read_errors_per_hour: limit, ..OpenOptions::default() };
        open(devices(disks), &executor.runtime(), options).await.expect("all are there")
    };
    let set = open(&disks).await;
    let written = bytes(&set, 5);
    set.write(0, vec![written.clone().into()], Durability::Plain).await.expect("it is new");
    set.close().await.expect("nothing fails");
    let disks = copies(executor, &disks);
    let set = open(&disks).await;
    (disks, set, written)
}

/// Where blocks are in the data area of a member.
fn place(set: &Set, blocks: Range<u64>) -> Range<u64> {
    let start = set.label().data_start;
    start + blocks.start * BLOCK..start + blocks.end * BLOCK
}

/// Some blocks of a member cannot be read until they are written anew. What a scrub mends, and
/// whether the member is failing then.
fn bad_sectors(level: Level, blocks: u64, limit: usize) -> (u64, bool) {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, level, limit).await;
        for block in 0..blocks {
            // Each is read twice before it is given up.
            let bad = Fault::on(Verb::Read, Effect::Eio).within(place(&set, block..block + 1));
            (1..=2).for_each(|nth| disks[FAULTY].inject(bad.clone().nth(nth)));
        }
        let scrubbed = set.scrub(|_, _, _| ()).await.expect("it goes on");
        assert_eq!((scrubbed.lost, scrubbed.unread), (Vec::new(), Vec::new()));
        let status = set.status();
        assert_eq!(status.label.slots[FAULTY].standing, Standing::InSync, "it stays in");
        assert!(status.met.iter().enumerate().all(|(slot, it)| slot == FAULTY || !it.is_failing));
        assert_eq!(all_of(&set).await, written);
        (scrubbed.mended, status.met[FAULTY].is_failing)
    })
}

#[test]
fn a_member_with_more_bad_sectors_than_the_limit_is_failing() {
    for level in [Level::Parity, Level::Mirrored] {
        assert_eq!(bad_sectors(level, 3, 6), (3, false), "{level}");
        assert_eq!(bad_sectors(level, 3, 5), (3, true), "{level}");
    }
    #[cfg(feature = "planted-bugs")]
    {
        let work = || bad_sectors(Level::Parity, 3, 5);
        assert_eq!(crate::with(raid::planted::Bug::UncountedErrors, work), (3, false));
    }
}

/// All blocks of a member but the first ones cannot be read, whatever is written there. What a
/// scrub calls mended, and how the member stands then.
fn unreadable(level: Level, readable: u64, is_one_out: bool) -> (u64, Standing, bool) {
    let executor = Executor::new(2);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, level, READ_ERRORS_PER_HOUR).await;
        let size = disks[FAULTY].geometry().size;
        let rest = place(&set, readable..readable + 1).start..size;
        disks[FAULTY].inject(Fault::on(Verb::Read, Effect::Eio).within(rest).forever());
        if is_one_out {
            crate::losses::lose(&set, &disks, 0).await;
        }
        let scrubbed = set.scrub(|_, _, _| ()).await.expect("it goes on");
        let status = set.status();
        assert!(status.met[FAULTY].is_failing);
        if !is_one_out {
            assert_eq!((scrubbed.lost, scrubbed.unread), (Vec::new(), Vec::new()));
            assert_eq!(all_of(&set).await, written, "the others have all of it");
        }
        (scrubbed.mended, status.label.slots[FAULTY].standing, is_one_out)
    })
}

#[test]
fn a_member_that_gives_back_nothing_is_put_out_and_nothing_is_called_mended() {
    for level in [Level::Parity, Level::Mirrored] {
        assert_eq!(unreadable(level, 3, false), (0, Standing::Stale, false), "{level}");
    }
    // The last one that the set needs stays in.
    assert_eq!(unreadable(Level::Parity, 3, true), (0, Standing::InSync, true));
    #[cfg(feature = "planted-bugs")]
    {
        let work = || unreadable(Level::Parity, 3, false);
        let (mended, standing, _) = crate::with(raid::planted::Bug::UnreadMends, work);
        assert!(mended > 0 && standing == Standing::InSync, "it says that it mended");
    }
}

/// A member refuses what was written before, and perhaps another one does as well. How the first
/// one stands after some seconds, whether the status says that it waits, and what a write of a
/// client comes to.
fn refusing(effect: Effect, others: bool, seconds: u64, level: Level) -> (Standing, bool, bool) {
    let executor = Executor::new(3);
    executor.block_on(async {
        let (disks, set, mut written) = full_set(&executor, level, READ_ERRORS_PER_HOUR).await;
        let data = place(&set, 0..set.layout().rows);
        for disk in disks.iter().skip(FAULTY).take(if others { 2 } else { 1 }) {
            disk.inject(Fault::on(Verb::Write, effect).within(data.clone()).forever());
        }
        written[..BLOCK as usize * 12].fill(7);
        let new = written[..BLOCK as usize * 12].to_vec();
        let answer = set.write(0, vec![new.into()], Durability::Through).await;
        let _ = set.flush().await; // what is in the log is to go home
        executor.runtime().clock.sleep(Duration::from_secs(seconds)).await;
        let status = set.status();
        let (standing, waits) =
            (status.label.slots[FAULTY].standing, status.met[FAULTY].waits_for_room);
        disks.iter().for_each(|disk| disk.heal());
        executor.runtime().clock.sleep(Duration::from_secs(2)).await;
        assert!(set.status().met.iter().all(|met| !met.waits_for_room));
        if answer.is_ok() {
            assert_eq!(all_of(&set).await, written);
        }
        (standing, waits, answer.is_ok())
    })
}

#[test]
fn a_member_that_alone_refuses_what_was_allocated_is_put_out_after_a_while() {
    for level in [Level::Parity, Level::Mirrored] {
        let (standing, waits, _) = refusing(Effect::Denied, false, 20, level);
        assert_eq!((standing, waits), (Standing::InSync, true), "{level}: it is waited for");
        let (standing, waits, _) = refusing(Effect::Denied, false, 40, level);
        assert_eq!((standing, waits), (Standing::Stale, false), "{level}: it is its own fault");
        // A file that cannot grow, and a host that is full for several.
        for (effect, others) in [(Effect::NoSpace, false), (Effect::Denied, true)] {
            let (standing, waits, _) = refusing(effect, others, 120, level);
            assert_eq!((standing, waits), (Standing::InSync, true), "{level} {effect:?}");
        }
    }
    #[cfg(feature = "planted-bugs")]
    {
        let work = || refusing(Effect::Denied, false, 40, Level::Parity);
        let (standing, waits, _) = crate::with(raid::planted::Bug::EndlessRefusals, work);
        assert_eq!((standing, waits), (Standing::InSync, true));
    }
}

/// Opens a set of which one disk answers a verb late, from the `nth` call of it on. The disks that
/// are reported.
fn reported(verb: Verb, nth: u64, seconds: u64, absent: Option<usize>) -> Vec<usize> {
    let executor = Executor::new(4);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, Level::Parity, 20).await;
        drop(set);
        let mut disks = copies(&executor, &disks);
        absent.into_iter().for_each(|disk| drop(disks.remove(disk)));
        let late = Fault::on(verb, Effect::Slow(Duration::from_secs(seconds)));
        disks[FAULTY].inject(late.nth(nth));
        let reports = Rc::new(RefCell::new(Vec::new()));
        let noted = reports.clone();
        let report_silence: ReportSilence = Rc::new(move |disk| noted.borrow_mut().push(disk));
        let options = OpenOptions { report_silence, ..OpenOptions::default() };
        let set = open(devices(&disks), &executor.runtime(), options).await.expect("it is enough");
        assert_eq!(all_of(&set).await, written);
        reports.take()
    })
}

#[test]
fn a_disk_that_does_not_answer_while_a_set_is_opened_is_reported_once() {
    // The first reads are those of the labels, later ones those of maps and logs.
    for nth in [1, 2, 3, 4] {
        for absent in [None, Some(3)] {
            assert_eq!(reported(Verb::Read, nth, 20, absent), [FAULTY], "read {nth} {absent:?}");
            assert_eq!(reported(Verb::Read, nth, 3, absent), [], "read {nth} {absent:?}");
        }
    }
    assert_eq!(reported(Verb::Flush, 1, 20, None), [FAULTY]);
}
