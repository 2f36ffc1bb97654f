//! Members with unreadable blocks: they stay in, are reported, and are put out only if no rewritten
//! block can be read back.

use std::cell::RefCell;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::{Either, join, select};
use raid::label::Standing;
use raid::layout::Level;
use raid::{
    FailError, OpenOptions, READ_ERRORS_PER_HOUR, RebuildError, ReportSilence, Set, Work, open,
};
use sim::{Disk, Effect, Executor, Fault};

use crate::full::reopened_set;
use crate::losses::{all_of, copies, devices, new_disks};

const BLOCK: u64 = 4096;
const FAULTY: usize = 1;

/// A full set after a restart, with nothing in memory.
async fn full_set(
    executor: &Executor,
    level: Level,
    limit: usize,
) -> (Vec<Rc<Disk>>, Set, Vec<u8>) {
    let options = || OpenOptions { read_errors_per_hour: limit, ..OpenOptions::default() };
    let count = if level == Level::Parity { 4 } else { 3 };
    reopened_set(executor, (level, count), options).await
}

/// Byte range of blocks in a member's data area.
fn place(set: &Set, blocks: Range<u64>) -> Range<u64> {
    let start = set.label().data_start;
    start + blocks.start * BLOCK..start + blocks.end * BLOCK
}

/// Some blocks of a member are unreadable until they are rewritten. Returns the number that a scrub
/// repairs, and whether the member is then failing.
fn bad_sectors(level: Level, blocks: u64, limit: usize) -> (u64, bool) {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, level, limit).await;
        for block in 0..blocks {
            // Each is read twice before it counts as unreadable.
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
        assert_eq!(bad_sectors(level, 3, 3), (3, false), "{level}");
        assert_eq!(bad_sectors(level, 3, 2), (3, true), "{level}");
    }
    #[cfg(feature = "planted-bugs")]
    {
        let work = || bad_sectors(Level::Parity, 3, 2);
        assert_eq!(crate::with(raid::planted::Bug::UncountedErrors, work), (3, false));
    }
}

/// All blocks of a member but the first ones are unreadable, even after a rewrite. Returns the
/// number that a scrub counts as repaired, and the member's state.
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
    // The last member that the set needs stays in.
    assert_eq!(unreadable(Level::Parity, 3, true), (0, Standing::InSync, true));
    #[cfg(feature = "planted-bugs")]
    {
        let work = || unreadable(Level::Parity, 3, false);
        let (mended, standing, _) = crate::with(raid::planted::Bug::UnreadMends, work);
        assert!(mended > 0 && standing == Standing::InSync, "it says that it mended");
    }
}

/// A member refuses writes to an allocated range, and perhaps another one does as well. Returns the
/// state of the first one after some seconds, whether the status says that it waits, and the result
/// of a client's write.
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
        let working = async {
            let answer = set.write(0, vec![new.into()], Durability::Through).await;
            let _ = set.flush().await; // write the log's changes in place
            answer
        };
        let looking = async {
            executor.runtime().clock.sleep(Duration::from_secs(seconds)).await;
            let status = set.status();
            disks.iter().for_each(|disk| disk.heal());
            (status.label.slots[FAULTY].standing, status.met[FAULTY].waits_for_room)
        };
        let (answer, (standing, waits)) = join(working, looking).await;
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
        // A client sees no error of a single disk.
        let waited_for = (Standing::InSync, true, true);
        assert_eq!(refusing(Effect::Denied, false, 20, level), waited_for, "{level}");
        let its_own_fault = (Standing::Stale, false, true);
        assert_eq!(refusing(Effect::Denied, false, 40, level), its_own_fault, "{level}");
        // A file that cannot grow, and a full host of several members.
        for (effect, others) in [(Effect::NoSpace, false), (Effect::Denied, true)] {
            let refused = (Standing::InSync, true, false);
            assert_eq!(refusing(effect, others, 120, level), refused, "{level} {effect:?}");
        }
    }
    #[cfg(feature = "planted-bugs")]
    {
        let work = || refusing(Effect::Denied, false, 40, Level::Parity);
        let (standing, waits, _) = crate::with(raid::planted::Bug::EndlessRefusals, work);
        assert_eq!((standing, waits), (Standing::InSync, true));
    }
}

/// Opens a set of which one disk answers a verb late, from the `nth` call on. Returns the disks
/// that are reported.
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
    // The first reads are of labels, later ones of maps and logs.
    for nth in [1, 2, 3, 4] {
        for absent in [None, Some(3)] {
            assert_eq!(reported(Verb::Read, nth, 20, absent), [FAULTY], "read {nth} {absent:?}");
            assert_eq!(reported(Verb::Read, nth, 3, absent), [], "read {nth} {absent:?}");
        }
    }
    assert_eq!(reported(Verb::Flush, 1, 20, None), [FAULTY]);
}

/// The label writes of members find no space for a while, and a member fails meanwhile. Returns
/// whether all others are in once there is space, and a client can write.
fn full_labels(level: Level) -> bool {
    let executor = Executor::new(6);
    executor.block_on(async {
        let (disks, set, mut written) = full_set(&executor, level, READ_ERRORS_PER_HOUR).await;
        let others = || disks.iter().enumerate().filter(|(slot, _)| *slot != FAULTY);
        let (size, labels) = (disks[0].geometry().size, raid::label::DATA_START);
        for (_, disk) in others() {
            for range in [0..labels, size - labels..size] {
                let full = Fault::on(Verb::Write, Effect::Denied).within(range);
                disk.inject(full.forever());
            }
        }
        disks[FAULTY].fail(Verb::Flush, 1, sim::Persistence::Forever);
        let healing = async {
            executor.runtime().clock.sleep(Duration::from_secs(40)).await;
            disks.iter().for_each(|disk| disk.heal());
        };
        let _ = join(set.flush(), healing).await; // may fail for lack of space
        executor.runtime().clock.sleep(Duration::from_secs(2)).await;
        written[..4096].fill(3);
        let new = vec![written[..4096].to_vec().into()];
        let is_taken = set.write(0, new, Durability::Through).await.is_ok();
        let slots = set.label().slots;
        let is_in = |slot: usize| slots[slot].standing == Standing::InSync;
        is_taken && others().all(|(slot, _)| is_in(slot)) && all_of(&set).await == written
    })
}

#[test]
fn labels_that_find_no_room_put_nobody_out() {
    for level in [Level::Parity, Level::Mirrored] {
        assert!(full_labels(level), "{level}");
    }
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::HastyLabels, || full_labels(Level::Parity)));
}

/// A member hangs, and a person takes it out. Returns whether a client that waited for it gets an
/// answer, and all data is there.
fn hung(verb: Verb) -> bool {
    let executor = Executor::new(7);
    executor.block_on(async {
        let (disks, set, mut written) = full_set(&executor, Level::Parity, 20).await;
        disks[FAULTY].inject(Fault::on(verb, Effect::Silent).forever());
        written[..65_536].fill(5);
        let working = async {
            let new = vec![written[..65_536].to_vec().into()];
            set.write(0, new, Durability::Through).await.expect("the others are enough");
            set.flush().await.expect("the others are enough");
            all_of(&set).await == written
        };
        let failing = async {
            executor.runtime().clock.sleep(Duration::from_secs(60)).await;
            set.fail(FAULTY).await.expect("the others are enough");
        };
        let end = executor.runtime().clock.sleep(Duration::from_secs(600));
        match select(pin!(join(working, failing)), pin!(end)).await {
            Either::Left(((is_there, ()), _)) => is_there,
            Either::Right(_) => false,
        }
    })
}

#[test]
fn nobody_waits_for_a_disk_that_hangs_and_was_taken_out() {
    assert!(hung(Verb::Write) && hung(Verb::Flush) && hung(Verb::Read));
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::PatientCalls, || hung(Verb::Write)));
}

/// A disk fails a flush and stays plugged in, a block of another one rots, and a new disk replaces
/// the first. Returns whether all data is there.
fn failed_source(level: Level) -> bool {
    let executor = Executor::new(8);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, level, 20).await;
        crate::losses::lose(&set, &disks, 0).await;
        for disk in &disks[1..] {
            crate::failed_starts::flip(disk, place(&set, 3..4).start + 77).await;
        }
        let new = new_disks(&executor, 1).remove(0);
        set.rebuild(0, new, [9; 16], |_, _| ()).await.expect("the others are enough");
        let room = Buffer::zeroed(written.len());
        set.read(0, room).await.is_ok_and(|read| read[..] == written[..])
    })
}

#[test]
fn a_disk_that_failed_is_a_source_while_its_place_is_taken() {
    assert!(failed_source(Level::Mirrored));
    #[cfg(feature = "planted-bugs")]
    {
        let work = || failed_source(Level::Mirrored);
        assert!(!crate::with(raid::planted::Bug::ClosedSources, work));
    }
}

/// A new disk hangs while it is filled, and a person cancels the fill.
#[test]
fn a_replacement_by_a_disk_that_hangs_can_be_cancelled() {
    let executor = Executor::new(9);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, Level::Parity, 20).await;
        let new = new_disks(&executor, 1).remove(0);
        new.inject(Fault::on(Verb::Write, Effect::Silent).nth(40).forever());
        let replacing = set.replace(FAULTY, new, [9; 16], |_, _| ());
        let cancelling = async {
            executor.runtime().clock.sleep(Duration::from_secs(60)).await;
            assert!(set.status().met[FAULTY].silent_for.is_some(), "it is told");
            assert_eq!(set.fail(FAULTY).await, Err(FailError::Replaced(FAULTY)));
            set.cancel(Work::Fill);
        };
        let (replaced, ()) = join(replacing, cancelling).await;
        assert_eq!(replaced, Err(RebuildError::Cancelled));
        let label = set.label();
        assert!(label.is_whole() && label.replacement.is_none(), "the old disk stays");
        assert_eq!(all_of(&set).await, written);
        let data = vec![written[..4096].to_vec().into()];
        set.write(0, data, Durability::Through).await.expect("nothing hangs");
        assert_eq!(disks.len(), 4);
    });
}
