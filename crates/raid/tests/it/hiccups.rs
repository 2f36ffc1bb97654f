//! Disks that are unreadable for a moment, or do not answer: their data is not given up, and no
//! call waits for them forever.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::scratch::ScratchDevice;
use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::{Either, join, select};
use raid::assembly::Witness;
use raid::label::Standing;
use raid::layout::Level;
use raid::{OpenError, OpenOptions, RebuildError, Set, Work, open};
use sim::{Disk, Effect, Executor, Fault, Persistence, Prng};

use crate::failed_starts::{flip, records};
use crate::full::reopened_set;
use crate::losses::{all_of, copies, devices, new_disks, new_set};

const BLOCK: u64 = 4096;
/// Time for which disks are unreadable.
const A_MOMENT: Duration = Duration::from_secs(3);
/// Maximum bytes of a label at the end of a disk.
const LABELS: u64 = 64 << 10;

fn meant() -> OpenOptions {
    OpenOptions { cache: 0, is_meant: true, ..OpenOptions::default() }
}

/// A set with contents, reopened without a cache.
async fn full_set(executor: &Executor, kind: (Level, usize)) -> (Vec<Rc<Disk>>, Set, Vec<u8>) {
    reopened_set(executor, kind, meant).await
}

/// Numbers of right, wrong and unreadable blocks.
pub(crate) async fn count(set: &Set, expected: &[u8]) -> [usize; 3] {
    let mut counts = [0; 3];
    for (place, expected) in expected.chunks(BLOCK as usize).enumerate() {
        let read = set.read(place as u64 * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
        counts[read.map_or(2, |read| usize::from(read[..] != *expected))] += 1;
    }
    counts
}

/// Result of the work if it finishes in time.
async fn within<T>(executor: &Executor, seconds: u64, work: impl Future<Output = T>) -> Option<T> {
    let end = executor.runtime().clock.sleep(Duration::from_secs(seconds));
    match select(pin!(work), pin!(end)).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// The map and the tables of some disks are unreadable while the set is opened, with one member out
/// or none. Returns whether all data is right at the next start.
fn is_whole_after_a_bad_start(kind: (Level, usize), out: Option<usize>, bad: &[usize]) -> bool {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, kind).await;
        if let Some(out) = out {
            set.fail(out).await.expect("the others are enough");
        }
        set.close().await.expect("nothing fails");
        let disks = copies(&executor, &disks);
        let layout = set.layout();
        let tail = set.label().data_start + layout.rows * layout.unit;
        let tail = tail..disks[0].geometry().size - LABELS;
        for &disk in bad {
            disks[disk].inject(Fault::on(Verb::Read, Effect::Eio).within(tail.clone()).forever());
        }
        let opened = open(devices(&disks), &executor.runtime(), meant()).await;
        disks.iter().for_each(|disk| disk.heal());
        if let Ok(set) = opened {
            set.close().await.expect("nothing fails");
        }
        let again = copies(&executor, &disks);
        let set = open(devices(&again), &executor.runtime(), meant()).await.expect("all is well");
        count(&set, &written).await[0] == written.len() / BLOCK as usize
    })
}

#[test]
fn a_start_that_cannot_read_what_a_set_knows_of_itself_gives_nothing_up() {
    let all_right = || {
        [
            ((Level::Mirrored, 2), Some(1), &[0][..]),
            ((Level::Mirrored, 2), None, &[0, 1]),
            ((Level::Mirrored, 2), None, &[0]),
            ((Level::Parity, 3), Some(1), &[0, 2]),
            ((Level::Parity, 3), Some(1), &[0]),
            ((Level::Parity, 4), None, &[0, 1, 2, 3]),
        ]
        .into_iter()
        .all(|(kind, out, bad)| is_whole_after_a_bad_start(kind, out, bad))
    };
    assert!(all_right());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::HastyReads, all_right));
}

/// The power fails after a write, and a start cannot read the tables to which the log has changes.
/// Later a block has rotted whose checksum one of them has. Returns whether the first start is
/// refused, and the number of wrong blocks then.
fn after_a_start_without_tables(kind: (Level, usize)) -> (bool, usize) {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, kind).await;
        let again = vec![written[60 * 4096..][..4096].to_vec().into()];
        set.write(60 * BLOCK, again, Durability::Through).await.expect("nothing fails");
        let (start, layout, disks) =
            (set.label().data_start, set.layout(), copies(&executor, &disks));
        let tables = start + layout.rows * layout.unit..disks[0].geometry().size - LABELS;
        for disk in &disks {
            let maps = raid::label::MAP_BLOCK;
            let tables = tables.start + maps..tables.end;
            disk.inject(Fault::on(Verb::Read, Effect::Eio).within(tables).forever());
        }
        let known = || OpenOptions { cache: 0, ..OpenOptions::default() };
        let opened = open(devices(&disks), &executor.runtime(), known()).await;
        disks.iter().for_each(|disk| disk.heal());
        let is_refused = opened.as_ref().is_err_and(|error| *error == OpenError::Unread);
        if let Ok(set) = opened {
            set.close().await.expect("nothing fails");
        }
        let disks = copies(&executor, &disks);
        flip(&disks[0], start + 4 * BLOCK + 77).await;
        let set = open(devices(&disks), &executor.runtime(), known()).await;
        (is_refused, count(&set.expect("all can be read"), &written).await[1])
    })
}

#[test]
fn a_start_does_not_replace_tables_that_it_cannot_read() {
    let kinds = [(Level::Parity, 3), (Level::Parity, 4), (Level::Mirrored, 2)];
    assert_eq!(kinds.map(after_a_start_without_tables), [(true, 0); 3]);
    #[cfg(feature = "planted-bugs")]
    {
        let planted = || kinds.map(after_a_start_without_tables);
        let with_it = crate::with(raid::planted::Bug::ReplacedTables, planted);
        assert!(with_it.iter().any(|(_, wrong)| *wrong > 0), "{with_it:?}");
    }
}

/// One member is gone, a block of another has rotted, and the only table with its checksum is
/// unreadable for a moment. Returns the numbers of right, wrong and unreadable blocks then, and
/// after the next start.
fn with_an_unread_table(kind: (Level, usize)) -> [[usize; 3]; 2] {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, kind).await;
        set.fail(1).await.expect("the others are enough");
        set.close().await.expect("nothing fails");
        let disks = copies(&executor, &disks);
        let left = |disks: &[Rc<Disk>]| devices(&[&disks[..1], &disks[2..]].concat());
        let set = open(left(&disks), &executor.runtime(), meant()).await.expect("enough");
        let (start, layout) = (set.label().data_start, set.layout());
        let holder = if kind.1 == 2 { 0 } else { 2 };
        flip(&disks[0], start + 4 * BLOCK + 77).await;
        let tables = start + layout.rows * layout.unit..disks[0].geometry().size - LABELS;
        disks[holder].inject(Fault::on(Verb::Read, Effect::Eio).within(tables).forever());
        let heals = async {
            executor.runtime().clock.sleep(A_MOMENT).await;
            disks.iter().for_each(|disk| disk.heal());
        };
        let (first, ()) = join(count(&set, &written), heals).await;
        let again = vec![written[60 * 4096..][..4096].to_vec().into()];
        set.write(60 * BLOCK, again, Durability::Through).await.expect("nothing fails");
        set.close().await.expect("nothing fails");
        let again = copies(&executor, &disks);
        let set = open(left(&again), &executor.runtime(), meant()).await.expect("enough");
        [first, count(&set, &written).await]
    })
}

#[test]
fn bytes_that_a_table_would_refuse_do_not_pass_while_it_cannot_be_read() {
    let kinds = [(Level::Parity, 3), (Level::Parity, 4), (Level::Mirrored, 2)];
    let wrong = || kinds.map(with_an_unread_table).map(|both| both.map(|[_, wrong, _]| wrong));
    assert_eq!(wrong(), [[0; 2]; 3]);
    #[cfg(feature = "planted-bugs")]
    assert_ne!(crate::with(raid::planted::Bug::HastyReads, wrong), [[0; 2]; 3]);
}

/// Disks of a set after a power failure, which followed an acknowledged write of sevens to its
/// first block. They are so few that the write's record has to come from disks of which one of its
/// blocks is unreadable. Also returns the set's witness.
async fn with_a_hidden_record(
    executor: &Executor,
    (kind, is_young): ((Level, usize), bool),
    (block, seed): (u64, u64),
) -> (Vec<Rc<Disk>>, Option<Witness>) {
    let (disks, set) = if is_young {
        let disks = new_disks(executor, kind.1);
        let set = new_set(executor, &disks, kind.0).await;
        (disks, set)
    } else {
        let (disks, set, _) = full_set(executor, kind).await;
        (disks, set)
    };
    let data = vec![vec![7; BLOCK as usize].into()];
    set.write(0, data, Durability::Through).await.expect("nothing fails");
    let witness = Some(Witness::of(&set.label()));
    let latest = disks.iter().flat_map(|disk| records(disk)).max().expect("there is one");
    let mut prng = Prng::new(seed);
    let after = disks.iter().map(|disk| Disk::new(executor, disk.crash(&mut prng)));
    let after: Vec<Rc<Disk>> = after.collect();
    let has_it = |disk: &&Rc<Disk>| records(disk).contains(&latest);
    let late = if kind.0 == Level::Mirrored { kind.1 - 1 } else { 1 };
    let late: Vec<&Rc<Disk>> = after.iter().filter(has_it).take(late).collect();
    let is_late = |disk: &Rc<Disk>| late.iter().any(|it| Rc::ptr_eq(it, disk));
    let rest: Vec<Rc<Disk>> = after.iter().filter(|it| !is_late(it)).cloned().collect();
    for disk in rest.iter().filter(|disk| has_it(disk)) {
        let at = latest.1 + block * BLOCK;
        disk.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK).forever());
    }
    (rest, witness)
}

/// The last record of a set is unreadable in part, for a moment or forever. Returns the number of
/// starts that do not have its write, and the number that are refused.
fn starts_without_the_last_record(
    set: ((Level, usize), bool),
    block: u64,
    is_forever: bool,
) -> [usize; 2] {
    let (mut given_up, mut refused) = (0, 0);
    for seed in 0..12 {
        let executor = Executor::new(seed);
        executor.block_on(async {
            let (rest, witness) = with_a_hidden_record(&executor, set, (block, seed)).await;
            let options = OpenOptions { cache: 0, witness, ..OpenOptions::default() };
            let (runtime, heals) = (executor.runtime(), async {
                executor.runtime().clock.sleep(A_MOMENT).await;
                rest.iter().filter(|_| !is_forever).for_each(|disk| disk.heal());
            });
            match join(open(devices(&rest), &runtime, options), heals).await.0 {
                Err(error) => {
                    assert_eq!(error, OpenError::Unread, "{set:?}, seed {seed}");
                    refused += 1;
                }
                Ok(set) => {
                    let read = set.read(0, Buffer::zeroed(BLOCK as usize)).await;
                    given_up += usize::from(!read.is_ok_and(|read| read[..] == [7; 4096]));
                }
            }
        });
    }
    [given_up, refused]
}

const KINDS: [(Level, usize); 3] = [(Level::Mirrored, 2), (Level::Mirrored, 3), (Level::Parity, 3)];

#[test]
fn a_start_that_cannot_read_the_last_record_does_not_give_it_up() {
    let starts =
        |is_forever| KINDS.map(|kind| starts_without_the_last_record((kind, false), 0, is_forever));
    assert_eq!(starts(false), [[0, 0]; 3]);
    assert_eq!(starts(true), [[0, 12]; 3]);
    #[cfg(feature = "planted-bugs")]
    assert_ne!(crate::with(raid::planted::Bug::HastyReads, || starts(false)), [[0, 0]; 3]);
}

/// The first block of the record can be read, and a later one cannot.
#[test]
fn a_start_that_cannot_read_all_of_the_last_record_does_not_give_it_up() {
    let starts =
        |is_forever| KINDS.map(|kind| starts_without_the_last_record((kind, false), 1, is_forever));
    assert_eq!(starts(false), [[0, 0]; 3]);
    assert_eq!(starts(true), [[0, 12]; 3]);
    #[cfg(feature = "planted-bugs")]
    assert_ne!(crate::with(raid::planted::Bug::TornBodies, || starts(false)), [[0, 0]; 3]);
}

/// A set that was just made has no other record.
#[test]
fn a_start_that_cannot_read_the_only_record_does_not_give_it_up() {
    for block in 0..2 {
        let starts = |is_forever| {
            KINDS.map(|kind| starts_without_the_last_record((kind, true), block, is_forever))
        };
        assert_eq!(starts(false), [[0, 0]; 3], "block {block}");
        assert_eq!(starts(true), [[0, 12]; 3], "block {block}");
    }
}

/// Whether the remains of a set are said to lack records, whose last record is on disks that cannot
/// read all of it.
fn remains_tell_of_a_hidden_record(kind: (Level, usize), block: u64) -> bool {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (rest, witness) = with_a_hidden_record(&executor, (kind, false), (block, 1)).await;
        let opened = async || {
            let (runtime, witness) = (executor.runtime(), witness.clone());
            let options = OpenOptions { accepts_loss: true, witness, ..OpenOptions::default() };
            open(devices(&rest), &runtime, options).await.expect("it is the last resort")
        };
        let told = opened().await.status().done.may_lack_the_last;
        rest.iter().for_each(|disk| disk.heal());
        let set = opened().await;
        assert!(!set.status().done.may_lack_the_last, "all can be read");
        let read = set.read(0, Buffer::zeroed(BLOCK as usize)).await;
        assert_eq!(read.expect("it is there")[..], [7; BLOCK as usize]);
        told
    })
}

#[test]
fn remains_without_the_last_record_are_said_to_lack_it() {
    let are_told = || {
        let of = |kind| [0, 1].map(|block| remains_tell_of_a_hidden_record(kind, block));
        KINDS.map(of)
    };
    assert_eq!(are_told(), [[true; 2]; 3]);
    #[cfg(feature = "planted-bugs")]
    assert_eq!(crate::with(raid::planted::Bug::TornBodies, are_told), [[true, false]; 3]);
}

/// Two of four disks are gone. By turns, the last record is on two disks side by side.
#[test]
fn remains_without_all_disks_of_the_next_record_are_said_to_lack_it() {
    let is_told = |gone: [usize; 2]| {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (disks, set, _) = full_set(&executor, (Level::Parity, 4)).await;
            let data = vec![vec![7; BLOCK as usize].into()];
            set.write(0, data, Durability::Through).await.expect("nothing fails");
            let left = copies(&executor, &disks).into_iter().enumerate();
            let left = left.filter(|(disk, _)| !gone.contains(disk)).map(|(_, disk)| disk);
            let left: Vec<Rc<Disk>> = left.collect();
            let options = OpenOptions { accepts_loss: true, ..OpenOptions::default() };
            let set = open(devices(&left), &executor.runtime(), options).await;
            set.expect("it is the last resort").status().done.may_lack_the_last
        })
    };
    assert_eq!([[0, 1], [2, 3]].map(is_told), [true; 2]);
    assert_eq!([[0, 2], [0, 3], [1, 2], [1, 3]].map(is_told), [false; 4]);
}

/// A sector of the log is unreadable, where the next record goes or elsewhere: it is overwritten.
#[test]
fn a_person_has_a_set_started_whose_log_has_a_bad_sector() {
    for kind in [(Level::Mirrored, 2), (Level::Parity, 3)] {
        for place in 0..4 {
            let executor = Executor::new(1);
            executor.block_on(async {
                let (disks, set, written) = full_set(&executor, kind).await;
                set.close().await.expect("nothing fails");
                let rest = &copies(&executor, &disks)[..kind.1 - 1];
                let at = (1 << 20) + place * BLOCK;
                let fault = Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK);
                rest[0].inject(fault.forever());
                let set = open(devices(rest), &executor.runtime(), meant()).await;
                let set = set.expect("the others are enough");
                assert_eq!(count(&set, &written).await[1..], [0, 0], "{kind:?}, block {place}");
            });
        }
    }
}

/// Two disks have different bad sectors; nothing is written to the disks.
#[test]
fn what_is_opened_in_memory_makes_bad_sectors_of_the_other_disks() {
    for kind in [(Level::Parity, 4), (Level::Mirrored, 2)] {
        for accepts_loss in [true, false] {
            let executor = Executor::new(1);
            executor.block_on(async {
                let (disks, set, written) = full_set(&executor, kind).await;
                set.close().await.expect("nothing fails");
                let (start, disks) = (set.label().data_start, copies(&executor, &disks));
                for (turn, disk) in disks.iter().rev().take(2).enumerate() {
                    let at = start + (20 + 20 * turn as u64) * BLOCK;
                    let fault = Fault::on(Verb::Read, Effect::Eio).within(at..at + 4 * BLOCK);
                    disk.inject(fault.forever());
                }
                let in_memory = |disk| Rc::new(ScratchDevice::new(disk)) as Rc<dyn BlockDevice>;
                let disks: Vec<_> = devices(&disks).into_iter().map(in_memory).collect();
                let options = OpenOptions { accepts_loss, ..meant() };
                let set = open(disks, &executor.runtime(), options).await.expect("all are there");
                assert_eq!(count(&set, &written).await[1..], [0, 0], "{kind:?}");
                assert!(set.label().is_whole(), "no disk is out for a bad sector");
            });
        }
    }
}

/// Only a disk that was being filled is left; its earlier contents must not be used.
#[test]
fn a_disk_that_was_being_filled_gives_nothing_of_before() {
    for (kind, has_old) in [((Level::Mirrored, 2), false), ((Level::Mirrored, 2), true)] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (disks, set, written) = full_set(&executor, kind).await;
            let set = Rc::new(set);
            set.fail(1).await.expect("the other one is enough");
            let (new, paused) = (new_disks(&executor, 1).remove(0), set.clone());
            let progress = move |done, _| {
                if done >= 30 {
                    paused.pause(true)
                }
            };
            let filled = set.rebuild(1, new.clone(), [9; 16], progress);
            assert!(within(&executor, 600, filled).await.is_none(), "it is cut off");
            let left: &[Rc<Disk>] = if has_old { &[new, disks[1].clone()] } else { &[new] };
            let left = copies(&executor, left);
            let options = OpenOptions { accepts_loss: true, ..meant() };
            let Ok(set) = open(devices(&left), &executor.runtime(), options).await else {
                return assert!(!has_old, "the old disk has everything");
            };
            let [right, wrong, _] = count(&set, &written).await;
            assert_eq!(wrong, 0, "has the old disk: {has_old}");
            assert_eq!(right == written.len() / BLOCK as usize, has_old);
        });
    }
}

/// A member with a rotten block is replaced while another disk cannot read its part of the column.
#[test]
fn a_block_that_a_replacement_could_not_have_made_is_unread() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, (Level::Parity, 4)).await;
        let at = set.label().data_start + 3 * BLOCK;
        disks[2].inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK).forever());
        flip(&disks[1], at + 77).await;
        let new = new_disks(&executor, 1).remove(0);
        set.replace(1, new, [8; 16], |_, _| ()).await.expect("nothing fails");
        let status = set.status();
        assert_eq!((status.met[1].unread, status.done.lost_blocks), (1, 0));
        disks[2].heal();
        executor.runtime().clock.sleep(Duration::from_secs(600)).await;
        assert_eq!(set.status().met[1].unread, 0, "a disk gives it");
        assert!(all_of(&set).await == written);
    });
}

/// A member lacks a block that another disk cannot give at the moment, or cannot give it itself. It
/// is to be replaced, and that is cancelled before any stripe is copied, or after some.
#[test]
fn what_a_member_lacks_is_told_after_a_replacement_that_was_cancelled() {
    for (is_rotten, is_early) in [(true, true), (true, false), (false, false)] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (disks, set, written) = full_set(&executor, (Level::Parity, 4)).await;
            let (at, set) = (set.label().data_start + 3 * BLOCK, Rc::new(set));
            let fault = Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK).forever();
            disks[2].inject(fault.clone());
            let mut new = new_disks(&executor, 2);
            if is_rotten {
                flip(&disks[1], at + 77).await;
                set.replace(1, new.remove(0), [8; 16], |_, _| ()).await.expect("nothing fails");
                assert_eq!(set.status().met[1].unread, 1);
            } else {
                disks[1].inject(fault);
            }
            let cancelling = set.clone();
            let cancel = move |done, _| _ = (done == 30).then(|| cancelling.cancel(Work::Fill));
            set.pause(is_early);
            let later = async {
                executor.runtime().clock.sleep(Duration::from_secs(5)).await;
                set.cancel(Work::Fill);
            };
            let replaced = set.replace(1, new.remove(0), [9; 16], cancel);
            let replaced = join(replaced, later).await.0;
            assert_eq!(replaced, Err(RebuildError::Cancelled));
            let unread = || set.status().met[1].unread;
            assert_eq!(unread(), 1, "rotten: {is_rotten}, early: {is_early}");
            disks.iter().for_each(|disk| disk.heal());
            executor.runtime().clock.sleep(Duration::from_secs(600)).await;
            assert_eq!(unread(), 0, "rotten: {is_rotten}, early: {is_early}");
            assert!(all_of(&set).await == written);
        });
    }
}

/// A block is lost, and another one is unread.
#[test]
fn reads_of_what_is_lost_count_while_something_else_is_unread() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, _) = full_set(&executor, (Level::Parity, 4)).await;
        let at = set.label().data_start;
        let bad = at + 3 * BLOCK..at + 4 * BLOCK;
        disks[2].inject(Fault::on(Verb::Read, Effect::Eio).within(bad).forever());
        set.fail(1).await.expect("the others are enough");
        set.let_go(1).await;
        let new = new_disks(&executor, 1).remove(0);
        set.rebuild(1, new, [7; 16], |_, _| ()).await.expect("it is in");
        for disk in [0, 3] {
            flip(&disks[disk], at + 9 * BLOCK + 77).await;
        }
        let mut failed = 0;
        for unit in 0..60 {
            let read = set.read(unit * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
            failed += u64::from(read.is_err());
        }
        let lost = set.status().done.lost_reads;
        assert!(lost > 0 && lost < failed, "{lost} of {failed}: the others are unread");
    });
}

/// A disk cannot read a block at the moment, and no other has it. Returns the number of reads that
/// failed for lost data.
fn lost_for_a_moment(level: Level) -> u64 {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, (level, 3)).await;
        let at = set.label().data_start + 3 * BLOCK;
        let fault = Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK).forever();
        let bad = if level == Level::Mirrored { &[0, 1, 2][..] } else { &[2] };
        bad.iter().for_each(|&disk| disks[disk].inject(fault.clone()));
        if level == Level::Parity {
            set.fail(1).await.expect("the others are enough");
            set.let_go(1).await;
        }
        assert!(count(&set, &written).await[2] > 0, "{level}");
        let lost = set.status().done.lost_reads;
        disks.iter().for_each(|disk| disk.heal());
        assert!(all_of(&set).await == written, "{level}");
        lost
    })
}

#[test]
fn reads_of_what_a_disk_may_give_later_are_not_counted_as_lost() {
    let lost = || [Level::Parity, Level::Mirrored, Level::Striped].map(lost_for_a_moment);
    assert_eq!(lost(), [0; 3]);
    #[cfg(feature = "planted-bugs")]
    {
        let [parity, mirrored, _] = crate::with(raid::planted::Bug::HastyReads, lost);
        assert!(parity > 0 && mirrored > 0, "{parity} and {mirrored}");
    }
}

/// A disk that was taken out stays a source of its slot while another slot's disk is replaced.
#[test]
fn a_replacement_keeps_the_sources_of_other_slots() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, (Level::Parity, 4)).await;
        let (at, set) = (set.label().data_start, Rc::new(set));
        set.fail(1).await.expect("the others are enough");
        let (cancelling, new) = (set.clone(), new_disks(&executor, 1).remove(0));
        let cancel = move |done, _| _ = (done == 1).then(|| cancelling.cancel(Work::Fill));
        let filled = set.rebuild(1, new, [9; 16], cancel).await;
        assert!(filled.is_err(), "it was cancelled");
        set.let_go(1).await;
        flip(&disks[2], at + 3 * BLOCK + 77).await;
        let new = new_disks(&executor, 1).remove(0);
        set.replace(3, new, [8; 16], |_, _| ()).await.expect("the old one is good");
        assert_eq!(count(&set, &written).await[1..], [0, 0]);
    });
}

/// A member fails one write while it is being replaced, a person cancels that, and a block of
/// another member has rotted. Returns the numbers of right, wrong and unreadable blocks.
fn cancelled_without_the_old_disk(level: Level) -> [usize; 3] {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, written) = full_set(&executor, (level, 3)).await;
        let (at, set) = (set.label().data_start, Rc::new(set));
        let (cancelling, new) = (set.clone(), new_disks(&executor, 1).remove(0));
        disks[1].fail(Verb::Write, 1, Persistence::Once);
        let cancel = move |done, _| _ = (done == 1).then(|| cancelling.cancel(Work::Fill));
        let filled = set.replace(1, new, [9; 16], cancel).await;
        assert_eq!(filled, Err(RebuildError::Cancelled));
        assert!(set.label().slots[1].standing.is_out(), "it has failed");
        set.let_go(1).await; // the new disk
        let bad = if level == Level::Parity { &[2][..] } else { &[0, 2] };
        for &disk in bad {
            flip(&disks[disk], at + 3 * BLOCK + 77).await;
        }
        count(&set, &written).await
    })
}

#[test]
fn a_disk_that_has_left_its_slot_is_kept_while_no_other_is_in() {
    let levels = [Level::Parity, Level::Mirrored];
    let counts = || levels.map(cancelled_without_the_old_disk);
    let bad = || counts().map(|[_, wrong, unread]| (wrong, unread));
    assert_eq!(bad(), [(0, 0); 2]);
    #[cfg(feature = "planted-bugs")]
    for (wrong, unread) in crate::with(raid::planted::Bug::HastyReleases, bad) {
        assert!(wrong == 0 && unread > 0, "{wrong} wrong, {unread} unread");
    }
}

/// A new disk hangs, and a person cancels its fill a minute later. Returns whether the order ends,
/// and the set is then as before.
fn ends_when_cancelled(level: Level, is_replacement: bool, fault: &Fault) -> bool {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (_, set, written) = full_set(&executor, (level, 3)).await;
        let new = new_disks(&executor, 1).remove(0);
        new.inject(fault.clone().forever());
        let filling = async {
            if is_replacement {
                return set.replace(1, new, [9; 16], |_, _| ()).await;
            }
            set.fail(1).await.expect("the others are enough");
            set.rebuild(1, new, [9; 16], |_, _| ()).await
        };
        let cancelling = async {
            executor.runtime().clock.sleep(Duration::from_secs(60)).await;
            set.cancel(Work::Fill);
        };
        let both = within(&executor, 600, join(filling, cancelling)).await;
        let Some((filled, ())) = both else { return false };
        assert_eq!(set.status().rebuild, None, "{level}, {fault:?}: {filled:?}");
        if filled.is_ok() {
            return *fault == Fault::on(Verb::Read, Effect::Silent); // a member that hangs is one
        }
        let counts = within(&executor, 600, count(&set, &written)).await;
        assert!(counts.is_some_and(|it| it[1..] == [0, 0]), "{level}, {fault:?}: {counts:?}");
        assert!(within(&executor, 600, set.close()).await.is_some(), "{level}, {fault:?}");
        filled == Err(RebuildError::Cancelled)
    })
}

#[test]
fn a_fill_ends_when_it_is_cancelled_wherever_its_disk_hangs() {
    let write = Fault::on(Verb::Write, Effect::Silent);
    let faults = (1..=6).map(|nth| write.clone().nth(nth));
    let others = [Verb::Read, Verb::Flush].map(|verb| Fault::on(verb, Effect::Silent));
    for fault in faults.chain(others) {
        for level in [Level::Parity, Level::Mirrored] {
            for is_replacement in [false, true] {
                let ends = ends_when_cancelled(level, is_replacement, &fault);
                assert!(ends, "{level}, is a replacement: {is_replacement}, {fault:?}");
            }
        }
    }
    #[cfg(feature = "planted-bugs")]
    for is_replacement in [false, true] {
        let work = || ends_when_cancelled(Level::Parity, is_replacement, &write.clone().nth(4));
        assert!(!crate::with(raid::planted::Bug::PatientCalls, work));
    }
}

/// A disk hangs and is taken out, and another one cannot read a block: no call waits forever.
#[test]
fn a_disk_that_hangs_and_was_taken_out_holds_nobody_up() {
    for level in [Level::Parity, Level::Mirrored] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (disks, set, written) = full_set(&executor, (level, 4)).await;
            let at = set.label().data_start;
            disks[1].inject(Fault::on_any(Effect::Silent).forever());
            set.fail(1).await.expect("the others are enough");
            let bad = if level == Level::Parity { &[2][..] } else { &[0, 2, 3] };
            for &disk in bad {
                let fault = Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK);
                disks[disk].inject(fault.forever());
            }
            let all = set.read(0, Buffer::zeroed(written.len()));
            let read = within(&executor, 600, all).await;
            assert!(read.is_some_and(|read| read.is_err()), "{level}: the block is nowhere");
            let new = new_disks(&executor, 1).remove(0);
            let filled = within(&executor, 600, set.rebuild(1, new, [9; 16], |_, _| ())).await;
            assert_eq!(filled, Some(Ok(())), "{level}");
            assert!(within(&executor, 600, set.close()).await.is_some(), "{level}: it stops");
        });
    }
}

/// One client reads a block of a disk that hangs, and no other disk has a call under way.
#[test]
fn a_disk_that_hangs_is_told_though_the_others_are_idle() {
    for level in [Level::Parity, Level::Mirrored, Level::Striped] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (disks, set, _) = full_set(&executor, (level, 3)).await;
            disks[0].inject(Fault::on_any(Effect::Silent).forever());
            let read = set.read(0, Buffer::zeroed(BLOCK as usize));
            assert!(within(&executor, 600, read).await.is_none(), "it waits");
            let silent = set.status().met.iter().position(|met| met.silent_for.is_some());
            assert_eq!(silent, Some(0), "{level}");
            assert_eq!(set.label().slots[0].standing, Standing::InSync);
        });
    }
}

/// A member cannot read its log when the set is opened.
#[test]
fn a_member_whose_log_cannot_be_read_at_a_start_stays_in() {
    for kind in [(Level::Mirrored, 2), (Level::Parity, 3)] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (disks, set, mut written) = full_set(&executor, kind).await;
            written[..4096].fill(7);
            let data = vec![written[..4096].to_vec().into()];
            set.write(0, data, Durability::Through).await.expect("nothing fails");
            let disks = copies(&executor, &disks);
            let log = 1 << 20..set.label().data_start;
            disks[0].inject(Fault::on(Verb::Read, Effect::Eio).within(log).forever());
            let options = OpenOptions { cache: 0, ..OpenOptions::default() };
            let opened = open(devices(&disks), &executor.runtime(), options).await;
            let set = opened.expect("the others have the log");
            assert_eq!(set.label().slots[0].standing, Standing::InSync, "{kind:?}");
            disks.iter().for_each(|disk| disk.heal());
            assert!(all_of(&set).await == written, "{kind:?}");
        });
    }
}

/// A fill is cancelled while the label of its disk, which hangs, is looked at.
#[test]
fn a_fill_is_cancelled_while_its_disk_is_looked_at() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (disks, set, _) = full_set(&executor, (Level::Parity, 3)).await;
        set.fail(1).await.expect("the others are enough");
        let member = set.label().slots[1].member;
        disks[1].inject(Fault::on_any(Effect::Silent).forever());
        let filling = set.rebuild(1, disks[1].clone(), member, |_, _| ());
        let cancelling = async {
            executor.runtime().clock.sleep(A_MOMENT).await;
            assert!(set.is_filling() && set.status().rebuild.is_none());
            set.cancel(Work::Fill);
        };
        let both = within(&executor, 5, join(filling, cancelling)).await;
        assert_eq!(both, Some((Err(RebuildError::Cancelled), ())));
        assert!(!set.is_filling());
    });
}

/// Starts a mirror after a power failure, one half of which went out a moment before. The other one
/// cannot read a record in the middle of its log, forever. Returns the number of records that it
/// lacks, and the number of blocks that are not as they were written.
fn with_a_hole(has_other: bool, is_meant: bool) -> Result<(u64, usize), OpenError> {
    let executor = Executor::new(1);
    executor.block_on(async {
        let disks = new_disks(&executor, 2);
        let set = new_set(&executor, &disks, Level::Mirrored).await;
        let write = |block: u64| {
            let data = vec![vec![block as u8 + 1; BLOCK as usize].into()];
            set.write(block * BLOCK, data, Durability::Through)
        };
        for block in 0..4 {
            write(block).await.expect("nothing fails");
        }
        disks[0].fail(Verb::Write, 1, Persistence::Forever);
        write(4).await.expect("the other one is enough");
        assert!(set.label().slots[0].standing.is_out(), "it has failed");
        let mut prng = Prng::new(1);
        let after = disks.iter().map(|disk| Disk::new(&executor, disk.crash(&mut prng)));
        let after: Vec<Rc<Disk>> = after.collect();
        let (one, other) = (records(&after[0]), records(&after[1]));
        let common: Vec<_> = one.intersection(&other).collect();
        let at = common[common.len() - 2].1;
        let bad = Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK);
        after[1].inject(bad.forever());
        let present = if has_other { &after[..] } else { &after[1..] };
        let options = OpenOptions { cache: 0, is_meant, ..OpenOptions::default() };
        let set = open(devices(present), &executor.runtime(), options).await?;
        let mut wrong = 0;
        for block in 0..5 {
            let read = set.read(block * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
            let is_right = read.is_ok_and(|read| read[..] == [block as u8 + 1; BLOCK as usize]);
            wrong += usize::from(!is_right);
        }
        Ok((set.status().done.lacked_records, wrong))
    })
}

#[test]
fn a_disk_that_is_out_gives_a_record_that_the_members_have_lost() {
    assert_eq!(with_a_hole(true, false), Ok((0, 0)));
    assert!(matches!(with_a_hole(false, false), Err(OpenError::Hole(_))));
    #[cfg(feature = "planted-bugs")]
    {
        let planted = crate::with(raid::planted::Bug::UnaskedHoles, || with_a_hole(true, false));
        assert!(matches!(planted, Err(OpenError::Hole(_))), "{planted:?}");
    }
}

/// A record that nobody can read costs what it changed, and not the set.
#[test]
fn a_person_has_a_set_started_whose_log_has_lost_a_record() {
    let (lacked, wrong) = with_a_hole(false, true).expect("a person means it");
    assert!(lacked == 1 && wrong <= 1, "{lacked} records, {wrong} blocks");
    #[cfg(feature = "planted-bugs")]
    {
        let planted = crate::with(raid::planted::Bug::RefusedHoles, || with_a_hole(false, true));
        assert!(matches!(planted, Err(OpenError::Hole(_))), "{planted:?}");
    }
}
