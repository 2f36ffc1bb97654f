//! The map of written stripes, when no member has a whole copy of one of its blocks.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Verb};
use raid::layout::Level;
use sim::{Choice, Disk, Effect, Executor, Fault, Prng};

use crate::failed_starts::{flip, records};
use crate::hiccups::count;
use crate::losses::{all_of, assert_any_may_be_lost, bytes, copies, new_disks, new_set, opened};
use crate::rot::{rotten, tables};

const BLOCK: u64 = 4096;
const LEVELS: [(Level, usize); 3] = [(Level::Mirrored, 2), (Level::Parity, 3), (Level::Parity, 5)];

/// A set whose first half and last block were written. Its map has rotted on every member, and so
/// have the tables of these members' checksums. Also returns the expected contents.
async fn without_map(
    executor: &Executor,
    (level, count): (Level, usize),
    without_tables_of: &[usize],
) -> (Vec<Rc<Disk>>, Vec<u8>) {
    let disks = new_disks(executor, count);
    let set = new_set(executor, &disks, level).await;
    let mut expected = bytes(&set, 3);
    let (half, last) = (expected.len() / 2 / 4096 * 4096, expected.len() - 4096);
    expected[half..last].fill(0);
    for range in [0..half, last..expected.len()] {
        let data = vec![expected[range.clone()].to_vec().into()];
        set.write(range.start as u64, data, Durability::Plain).await.expect("all are there");
    }
    set.flush().await.expect("nothing fails");
    let (label, (at, size)) = (set.label(), tables(&set));
    let map = label.data_start + label.layout.rows * label.layout.unit;
    set.close().await.expect("nothing fails");
    let mut disks = copies(executor, &disks);
    for slot in 0..count {
        disks = rotten(executor, &disks, slot, &[map]);
    }
    for &of in without_tables_of {
        for (copy, holder) in label.layout.holders(of).into_iter().enumerate() {
            let at = at + copy as u64 * size;
            disks = rotten(executor, &disks, holder, &[at, at + BLOCK]);
        }
    }
    (disks, expected)
}

/// Whether such a set has its contents, whichever member is lost, now and later.
fn is_made_again(kind: (Level, usize), without_tables_of: &[usize]) -> bool {
    let executor = Executor::new(31);
    executor.block_on(async {
        let (disks, mut expected) = without_map(&executor, kind, without_tables_of).await;
        let set = opened(&executor, &disks).await.expect("the tables tell it");
        let read = set.read(0, Buffer::zeroed(expected.len())).await;
        if !read.is_ok_and(|read| read[..] == expected[..]) {
            return false;
        }
        assert!(set.status().met.iter().all(|met| met.mended > 0), "it is reported");
        let fresh = expected.len() - 2 * 4096;
        expected[fresh..][..4096].fill(9);
        let data = vec![vec![9; 4096].into()];
        set.write(fresh as u64, data, Durability::Through).await.expect("all are there");
        set.close().await.expect("nothing fails");
        if without_tables_of.is_empty() {
            assert_any_may_be_lost(&executor, &disks, &expected, "the map was made again").await;
        }
        let set = opened(&executor, &copies(&executor, &disks)).await.expect("all are there");
        all_of(&set).await == expected
    })
}

#[test]
fn a_block_of_the_map_that_is_whole_nowhere_is_made_of_the_tables() {
    for kind in LEVELS {
        assert!(is_made_again(kind, &[]), "{kind:?}");
        assert!(is_made_again(kind, &[0]), "{kind:?}: the tables of another slot tell it");
        #[cfg(feature = "planted-bugs")]
        crate::with(raid::planted::Bug::HalfRecalls, || assert!(!is_made_again(kind, &[0])));
    }
}

/// Whether nothing is read of a set that has neither the map nor a table.
fn is_lost_as_a_whole(kind: (Level, usize)) -> bool {
    let executor = Executor::new(32);
    let all: Vec<usize> = (0..kind.1).collect();
    executor.block_on(async {
        let (disks, expected) = without_map(&executor, kind, &all).await;
        for _ in 0..2 {
            let disks = copies(&executor, &disks);
            let set = opened(&executor, &disks).await.expect("it is no reason to refuse");
            for at in (0..expected.len() as u64).step_by(4096) {
                if set.read(at, Buffer::zeroed(4096)).await.is_ok() {
                    return false;
                }
            }
            let data = vec![vec![9; 4096].into()];
            set.write(0, data, Durability::Through).await.expect("a whole block may be written");
            set.close().await.expect("nothing fails");
        }
        true
    })
}

/// Whether a half of a mirror without tables of its own gives a block that has rotted on the other
/// half, whose tables tell it.
fn is_proven_by_the_other() -> bool {
    let executor = Executor::new(36);
    executor.block_on(async {
        let (disks, expected) = without_map(&executor, (Level::Mirrored, 2), &[0]).await;
        let data = raid::label_of(&*disks[1]).await.expect("it is a member").data_start;
        for row in 0..4 {
            flip(&disks[1], data + row * BLOCK + 100).await;
        }
        let set = opened(&executor, &disks).await.expect("the tables tell it");
        count(&set, &expected[..8 * 4096]).await[1..] == [0, 0]
    })
}

#[test]
fn a_table_of_one_half_proves_the_other() {
    assert!(is_proven_by_the_other());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::LonelyTables, is_proven_by_the_other));
}

/// A start rebuilds the map, and the power fails at each of its events in turn. A block has rotted
/// whose table has rotted on both of its members. Returns the number of cuts after which a start
/// shows wrong bytes.
fn wrong_after_a_cut(kind: (Level, usize)) -> usize {
    let executor = Executor::new(34);
    let (traces, expected) = executor.block_on(async {
        let (disks, expected) = without_map(&executor, kind, &[0]).await;
        let data = raid::label_of(&*disks[0]).await.expect("it is a member").data_start;
        // Only its table would tell that the block of disk 0 is wrong, or another mirror.
        for disk in &disks[..kind.1 - 1] {
            flip(disk, data + 100).await;
        }
        let disks = copies(&executor, &disks);
        disks.iter().for_each(|disk| disk.start_trace());
        opened(&executor, &disks).await.expect("the tables tell it");
        (disks.iter().map(|disk| disk.trace()).collect::<Vec<_>>(), expected)
    });
    let events = traces.iter().flat_map(|trace| trace.events());
    let serials: BTreeSet<u64> = events.map(|event| event.serial).collect();
    let mut prng = Prng::new(35);
    let mut wrong = 0;
    for serial in serials {
        let after = traces.iter().map(|trace| {
            let platter = trace.platter_at(trace.position_of(serial));
            Disk::new(&executor, platter.image(&Choice::random(&platter, &mut prng)))
        });
        let after: Vec<Rc<Disk>> = after.collect();
        executor.block_on(async {
            let set = opened(&executor, &after).await.expect("no cut is a reason to refuse");
            let [_, bad, _] = count(&set, &expected[..8 * 4096]).await;
            wrong += usize::from(bad > 0);
        });
    }
    wrong
}

#[test]
fn a_cut_forgets_no_loss_that_a_rebuilt_map_shows() {
    for kind in [(Level::Mirrored, 2), (Level::Parity, 3)] {
        assert_eq!(wrong_after_a_cut(kind), 0, "{kind:?}");
        #[cfg(feature = "planted-bugs")]
        {
            let bug = raid::planted::Bug::LateLosses;
            assert!(crate::with(bug, || wrong_after_a_cut(kind)) > 0, "{kind:?}");
        }
    }
}

#[test]
fn what_neither_the_map_nor_a_table_tells_is_lost_and_never_zeros() {
    for kind in LEVELS {
        assert!(is_lost_as_a_whole(kind), "{kind:?}");
        #[cfg(feature = "planted-bugs")]
        crate::with(raid::planted::Bug::ForgottenStripes, || assert!(!is_lost_as_a_whole(kind)));
    }
}

/// Contents of a stripe whose first write is only in the log, when that record has rotted.
fn only_logged((level, count): (Level, usize)) -> Vec<u8> {
    let executor = Executor::new(33);
    executor.block_on(async {
        let disks = new_disks(&executor, count);
        let set = new_set(&executor, &disks, level).await;
        let (label, width) = (set.label(), set.layout().width() as usize);
        let before: Vec<_> = disks.iter().map(|disk| records(disk)).collect();
        let units = label.data_start..label.data_start + label.layout.rows * label.layout.unit;
        for disk in &disks {
            disk.inject(Fault::on(Verb::Write, Effect::Lost).within(units.clone()).forever());
        }
        let data = vec![vec![5; 4096].into()];
        set.write(0, data, Durability::Through).await.expect("all are there");
        let disks = copies(&executor, &disks);
        for (disk, before) in disks.iter().zip(&before) {
            for (_, at) in records(disk).difference(before) {
                flip(disk, at + 100).await;
            }
        }
        let set = opened(&executor, &disks).await.expect("no record is left that needs one");
        let read = set.read(0, Buffer::zeroed(4096 * width)).await;
        read.map(|read| read.to_vec()).unwrap_or_default()
    })
}

#[test]
fn a_first_write_whose_record_rots_leaves_zeros() {
    for kind in LEVELS {
        assert!(only_logged(kind).iter().all(|&byte| byte == 0), "{kind:?}");
        #[cfg(feature = "planted-bugs")]
        {
            let shown = crate::with(raid::planted::Bug::HastyMaps, || only_logged(kind));
            assert!(shown.contains(&0xee), "{kind:?}: the bug is seen");
        }
    }
}
