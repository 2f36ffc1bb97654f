//! Tables of checksums that no member can read for a while.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::join;
use raid::layout::Level;
use raid::{OpenOptions, RebuildError, Set, Work, open};
use sim::{Disk, Effect, Executor, Fault, Persistence};

use crate::failed_starts::flip;
use crate::full::reopened_set;
use crate::hiccups::count;
use crate::losses::{all_of, assert_any_may_be_lost, copies, devices, new_disks};

const BLOCK: u64 = 4096;
/// Maximum bytes of a label at the end of a disk.
const LABELS: u64 = 64 << 10;
const KINDS: [(Level, usize); 3] = [(Level::Parity, 3), (Level::Parity, 4), (Level::Mirrored, 2)];

/// Byte range of the tables on a member.
fn tables(set: &Set, disk: &Disk) -> Range<u64> {
    let layout = set.layout();
    let map = set.label().data_start + layout.rows * layout.unit;
    map + raid::label::MAP_BLOCK..disk.geometry().size - LABELS
}

/// These disks cannot read their tables.
fn hide_tables(set: &Set, disks: &[&Rc<Disk>]) {
    for disk in disks {
        let range = tables(set, disk);
        disk.inject(Fault::on(Verb::Read, Effect::Eio).within(range).forever());
    }
}

async fn write(set: &Set, at: u64, bytes: &[u8]) -> bool {
    let data = vec![bytes.to_vec().into()];
    set.write(at, data, Durability::Through).await.is_ok()
}

/// A block is written while nobody can read the table that covers it, and once more when that can
/// be read. Later another block has rotted whose checksum is in the same table, and no other disk
/// has it. Returns whether the first write failed, and the number of wrong blocks in the end.
fn after_a_write_without_its_table(kind: (Level, usize)) -> (bool, usize) {
    let executor = Executor::new(1);
    executor.block_on(async {
        let known = OpenOptions::default;
        let (disks, set, mut written) = reopened_set(&executor, kind, known).await;
        hide_tables(&set, &disks.iter().collect::<Vec<_>>());
        let place = 60 * BLOCK as usize..61 * BLOCK as usize;
        written[place.clone()].fill(7);
        let has_failed = !write(&set, 60 * BLOCK, &written[place.clone()]).await;
        disks.iter().for_each(|disk| disk.heal());
        assert!(write(&set, 60 * BLOCK, &written[place]).await, "{kind:?}: all can be read");
        set.close().await.expect("nothing fails");
        let start = set.label().data_start;
        let disks = copies(&executor, &disks);
        for at in [4, 5, 6] {
            flip(&disks[0], start + at * BLOCK + 77).await;
        }
        let meant = OpenOptions { cache: 0, is_meant: true, ..OpenOptions::default() };
        let left = [&disks[..1], &disks[2..]].concat();
        let set = open(devices(&left), &executor.runtime(), meant).await.expect("enough");
        (has_failed, count(&set, &written).await[1])
    })
}

#[test]
fn a_table_that_cannot_be_read_is_not_replaced_while_the_set_runs() {
    assert_eq!(KINDS.map(after_a_write_without_its_table), [(true, 0); 3]);
    #[cfg(feature = "planted-bugs")]
    {
        let planted = || KINDS.map(after_a_write_without_its_table);
        let with_it = crate::with(raid::planted::Bug::ReplacedTables, planted);
        assert!(with_it.iter().all(|(_, wrong)| *wrong > 0), "{with_it:?}");
    }
}

/// The tables of all members are unreadable for long, and a block has rotted. Returns the numbers
/// of right, wrong and unreadable blocks by then.
fn with_rot_and_no_tables(kind: (Level, usize), is_scrubbed: bool) -> [usize; 3] {
    let executor = Executor::new(1);
    executor.block_on(async {
        let known = OpenOptions::default;
        let (disks, set, written) = reopened_set(&executor, kind, known).await;
        hide_tables(&set, &disks.iter().collect::<Vec<_>>());
        flip(&disks[0], set.label().data_start + 4 * BLOCK + 77).await;
        if is_scrubbed {
            let found = set.scrub(|_, _, _| ()).await.expect("nothing else fails");
            assert_eq!((found.mended, found.lost.len()), (0, 0), "{kind:?}");
        }
        let counts = count(&set, &written).await;
        disks.iter().for_each(|disk| disk.heal());
        assert!(all_of(&set).await == written, "{kind:?}: the checksums tell");
        counts
    })
}

#[test]
fn copies_that_differ_while_no_table_can_be_read_are_not_believed() {
    for is_scrubbed in [false, true] {
        let [right, wrong, unread] = with_rot_and_no_tables((Level::Mirrored, 2), is_scrubbed);
        assert_eq!((wrong, unread), (0, 1), "{right} are right");
        with_rot_and_no_tables((Level::Parity, 4), is_scrubbed);
    }
}

/// All other tables of a column can be read, so the others prove a block.
#[test]
fn a_block_without_its_table_is_judged_by_the_others() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let known = OpenOptions::default;
        let kind = (Level::Parity, 5);
        let (disks, set, written) = reopened_set(&executor, kind, known).await;
        // Those of member 0 alone are on no other disk than these two.
        hide_tables(&set, &[&disks[1], &disks[2]]);
        flip(&disks[0], set.label().data_start + 4 * BLOCK + 77).await;
        assert_eq!(count(&set, &written).await[1..], [0, 0]);
    });
}

/// A member comes back while the others cannot read their tables. It is not in until they can.
#[test]
fn a_member_is_not_filled_from_what_nothing_proves() {
    for kind in [(Level::Mirrored, 2), (Level::Parity, 3)] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let known = OpenOptions::default;
            let (disks, set, mut written) = reopened_set(&executor, kind, known).await;
            set.fail(1).await.expect("the others are enough");
            written[..BLOCK as usize].fill(7);
            assert!(write(&set, 0, &written[..BLOCK as usize]).await);
            let member = set.label().slots[1].member;
            set.close().await.expect("nothing fails");
            let disks = copies(&executor, &disks);
            let left = [&disks[..1], &disks[2..]].concat();
            let meant = OpenOptions { is_meant: true, cache: 0, ..OpenOptions::default() };
            let set = open(devices(&left), &executor.runtime(), meant).await.expect("enough");
            set.close().await.expect("nothing fails");
            let left = copies(&executor, &left);
            let known = OpenOptions { cache: 0, ..OpenOptions::default() };
            let set = open(devices(&left), &executor.runtime(), known).await.expect("enough");
            hide_tables(&set, &left.iter().collect::<Vec<_>>());
            let filled = set.rebuild(1, disks[1].clone(), member, |_, _| ()).await;
            assert_eq!(filled, Err(RebuildError::Unread), "{kind:?}");
            left.iter().for_each(|disk| disk.heal());
            let filled = set.rebuild(1, disks[1].clone(), member, |_, _| ()).await;
            assert_eq!(filled, Ok(()), "{kind:?}");
            assert!(all_of(&set).await == written, "{kind:?}");
            set.close().await.expect("nothing fails");
            let disks = [&left[..1], &disks[1..2], &left[1..]].concat();
            assert_any_may_be_lost(&executor, &disks, &written, "the tables are back").await;
        });
    }
}

/// A disk that alone has tables, and cannot read them, is not replaced.
#[test]
fn a_disk_that_may_have_the_only_tables_stays() {
    for kind in [(Level::Mirrored, 2), (Level::Parity, 4)] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let known = OpenOptions::default;
            let (mut disks, set, written) = reopened_set(&executor, kind, known).await;
            hide_tables(&set, &disks.iter().collect::<Vec<_>>());
            let [bad, new] = [(); 2].map(|()| new_disks(&executor, 1).remove(0));
            let replaced = set.replace(0, bad, [9; 16], |_, _| ()).await;
            assert_eq!(replaced, Err(RebuildError::Unread), "{kind:?}");
            // Another member has them from here on.
            disks[1..].iter().for_each(|disk| disk.heal());
            let replaced = set.replace(0, new.clone(), [8; 16], |_, _| ()).await;
            assert_eq!(replaced, Ok(()), "{kind:?}");
            executor.runtime().clock.sleep(Duration::from_secs(60)).await;
            let read = set.read(0, Buffer::zeroed(written.len())).await;
            assert!(read.is_ok_and(|read| read[..] == written[..]), "{kind:?}");
            set.close().await.expect("nothing fails");
            disks[0] = new;
            assert_any_may_be_lost(&executor, &disks, &written, "the new one has them").await;
        });
    }
}

/// The rebuild that follows the death of the old disk in a replacement hears of a cancellation at
/// once, however many tables it has to read.
#[test]
fn a_replacement_whose_old_disk_has_died_can_be_cancelled() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let known = OpenOptions::default;
        let (disks, set, _) = reopened_set(&executor, (Level::Parity, 4), known).await;
        let half = set.layout().rows / 2;
        let set = Rc::new(set);
        let come = Rc::new(Cell::new(0));
        let (told, asked, mut has_paused) = (come.clone(), set.clone(), false);
        let progress = move |done, _| {
            told.set(done);
            if has_paused && done < half {
                asked.cancel(Work::Fill); // it looks at the stripes that the new disk has
            } else if done >= half && !std::mem::replace(&mut has_paused, true) {
                asked.pause(true);
            }
        };
        let replaced = set.replace(1, new_disks(&executor, 1).remove(0), [9; 16], progress);
        let dies = async {
            while come.get() < half {
                executor.runtime().clock.sleep(Duration::from_millis(1)).await;
            }
            disks[1].fail(Verb::Flush, 1, Persistence::Forever);
            set.flush().await.expect("the others are enough");
            set.pause(false);
        };
        let (replaced, ()) = join(replaced, dies).await;
        assert_eq!(replaced, Err(RebuildError::Cancelled));
        set.close().await.expect("nothing fails");
    });
}
