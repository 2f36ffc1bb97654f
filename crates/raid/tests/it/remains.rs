//! Sets with too few disks: the data that these still have is returned, and no other.

use std::cell::RefCell;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use raid::assembly::Refused;
use raid::label::Standing;
use raid::layout::Level;
use raid::{OpenError, OpenOptions, Set, label_of, open};
use sim::{Disk, Executor, Prng};

use crate::losses::{bytes, copies, devices, lose, new_disks, new_set, opened};

const BLOCK: usize = 4096;

/// Opens the remains of a set, and asserts that the disks stay unchanged.
async fn remains(executor: &Executor, disks: &[Rc<Disk>]) -> Result<Set, OpenError> {
    let options = OpenOptions { accepts_loss: true, ..OpenOptions::default() };
    let set = open(devices(disks), &executor.runtime(), options).await?;
    assert!(disks.iter().all(|disk| disk.counters().writes == 0), "nothing is written");
    Ok(set)
}

/// Each block of a set; `None` for a lost one.
async fn blocks(set: &Set) -> Vec<Option<Vec<u8>>> {
    let mut blocks = Vec::new();
    for at in (0..set.geometry().size).step_by(BLOCK) {
        let read = set.read(at, Buffer::zeroed(BLOCK)).await;
        blocks.push(read.ok().map(|read| read.to_vec()));
    }
    blocks
}

/// Number of blocks that are there; asserts that each is as expected.
#[track_caller]
fn count_right(blocks: &[Option<Vec<u8>>], expected: &[u8], what: &str) -> usize {
    let are_right = blocks.iter().zip(expected.chunks(BLOCK)).enumerate();
    for (place, (block, expected)) in are_right {
        assert!(block.as_ref().is_none_or(|it| it == expected), "{what}: block {place} is wrong");
    }
    blocks.iter().flatten().count()
}

/// A full set, cleanly stopped, without some of its disks.
async fn left_of(
    executor: &Executor,
    (level, count): (Level, usize),
    gone: &[usize],
) -> (Vec<Rc<Disk>>, Vec<u8>) {
    let disks = new_disks(executor, count);
    let set = new_set(executor, &disks, level).await;
    let written = bytes(&set, 1);
    let all = vec![written.clone().into()];
    set.write(0, all, Durability::Plain).await.expect("nothing fails");
    set.close().await.expect("nothing fails");
    let left = copies(executor, &disks).into_iter().enumerate();
    let left = left.filter(|(disk, _)| !gone.contains(disk)).map(|(_, disk)| disk);
    (left.collect(), written)
}

#[test]
fn what_the_disks_that_are_left_have_is_given() {
    for (set, gone) in [
        ((Level::Parity, 3), &[1, 2][..]),
        ((Level::Parity, 5), &[0, 3]),
        ((Level::Parity, 5), &[1, 2]), // both have the tables of slot 0
        ((Level::Striped, 3), &[1]),
    ] {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (left, written) = left_of(&executor, set, gone).await;
            let refused = opened(&executor, &copies(&executor, &left)).await.err();
            let is_refused = matches!(refused, Some(OpenError::Refused(Refused::TooFew { .. })));
            assert!(is_refused, "{refused:?}");
            let remains = remains(&executor, &left).await.expect("it is the last resort");
            let (level, count) = set;
            let what = format!("{level} of {count} without {gone:?}");
            let right = count_right(&blocks(&remains).await, &written, &what);
            let all = written.len() / BLOCK;
            // Each row lacks one unit for each missing disk; parity rotates over the rows.
            assert!(
                (right + count) * count >= all * (count - gone.len()),
                "{what}: {right} of {all}"
            );
            assert!(right < all, "{what}");
            remains.close().await.expect("nothing fails");
            assert!(left.iter().all(|disk| disk.counters().writes == 0), "nor at the end");
        });
    }
}

/// A set that is written completely, and again in part while the member of slot 1 is away. Returns
/// its disks without some, its first contents, and its last ones.
async fn with_one_away(
    executor: &Executor,
    (level, count): (Level, usize),
    gone: &[usize],
) -> (Vec<Rc<Disk>>, Vec<u8>, Vec<u8>) {
    let disks = new_disks(executor, count);
    let set = new_set(executor, &disks, level).await;
    let before = bytes(&set, 2);
    let all = vec![before.clone().into()];
    set.write(0, all, Durability::Plain).await.expect("nothing fails");
    set.flush().await.expect("nothing fails");
    lose(&set, &disks, 1).await;
    let mut after = before.clone();
    let changed = after.len() / 8;
    after[..changed].fill(7);
    let data = vec![after[..changed].to_vec().into()];
    set.write(0, data, Durability::Plain).await.expect("the others are enough");
    set.close().await.expect("nothing fails");
    let left = copies(executor, &disks).into_iter().enumerate();
    let left = left.filter(|(disk, _)| !gone.contains(disk)).map(|(_, disk)| disk);
    (left.collect(), before, after)
}

/// A member that was away has old bytes where a write missed it, and right ones elsewhere.
#[test]
fn a_disk_that_was_away_helps_with_what_it_has_not_missed() {
    let executor = Executor::new(2);
    executor.block_on(async {
        let (left, before, after) = with_one_away(&executor, (Level::Parity, 4), &[2]).await;
        let remains = remains(&executor, &left).await.expect("it is the last resort");
        let right = count_right(&blocks(&remains).await, &after, "it was away");
        let all = after.len() / BLOCK;
        let changed = before.iter().zip(&after).rposition(|(one, other)| one != other);
        let whole = all - changed.expect("some").div_ceil(BLOCK);
        assert!(right >= whole, "{right} of {whole} that nobody has changed");
        assert!(right < all, "the rest is nowhere");
    });
}

/// The last disk of a mirror is up to date by its own label. It is used as it was, and the set says
/// that this is against advice.
#[test]
fn a_mirror_of_which_an_old_disk_is_left_is_opened_as_against_advice() {
    let executor = Executor::new(3);
    executor.block_on(async {
        let (left, before, _) = with_one_away(&executor, (Level::Mirrored, 3), &[0, 2]).await;
        let remains = remains(&executor, &left).await.expect("it is the last resort");
        assert!(remains.label().forced > 0);
        let right = count_right(&blocks(&remains).await, &before, "it is old");
        assert_eq!(right, before.len() / BLOCK);
    });
}

/// The last disk was away, came back, and had not caught up when the others were lost.
#[test]
fn of_a_set_whose_last_disk_was_catching_up_that_disk_is_taken_for_what_it_is() {
    for (set, gone) in [
        ((Level::Mirrored, 2), &[0][..]),
        ((Level::Mirrored, 3), &[0, 2]),
        ((Level::Parity, 3), &[0, 2]),
    ] {
        let executor = Executor::new(5);
        executor.block_on(async {
            let disks = new_disks(&executor, set.1);
            let opened = new_set(&executor, &disks, set.0).await;
            let before = bytes(&opened, 5);
            let all = vec![before.clone().into()];
            opened.write(0, all, Durability::Plain).await.expect("nothing fails");
            opened.flush().await.expect("nothing fails");
            lose(&opened, &disks, 1).await;
            let mut after = before.clone();
            after.fill(7);
            let data = vec![after.clone().into()];
            opened.write(0, data, Durability::Through).await.expect("the others are enough");
            let halfway = Rc::new(RefCell::new(None));
            let (kept, disk) = (halfway.clone(), disks[1].clone());
            let look = move |_, _| _ = kept.borrow_mut().get_or_insert_with(|| disk.contents());
            let member = opened.label().slots[1].member;
            let came = opened.rebuild(1, disks[1].clone(), member, look).await;
            came.expect("it goes on");
            let left = [Disk::new(&executor, halfway.take().expect("it took a while"))];
            let label = label_of(&*left[0]).await.expect("it has one");
            assert_eq!(label.slots[1].standing, Standing::CatchingUp, "by its own label");
            let remains = remains(&executor, &left).await.expect("it is the last resort");
            assert!(remains.label().forced > 0, "it may be old");
            let blocks = blocks(&remains).await;
            let given = blocks.iter().flatten().count();
            let of = (before.chunks(BLOCK)).zip(after.chunks(BLOCK));
            for (place, (block, (before, after))) in blocks.iter().zip(of).enumerate() {
                let is_of_one = |it: &Vec<u8>| it == before || it == after;
                assert!(block.as_ref().is_none_or(is_of_one), "block {place}, {gone:?}");
            }
            // Blocks that were being written have an older checksum.
            let least = if set.0 == Level::Mirrored { blocks.len() - 16 } else { 1 };
            assert!(given >= least, "{given} of {} blocks, {set:?}", blocks.len());
        });
    }
}

/// The power fails, and then disks. The log is replayed, also for a missing disk; if no record is
/// missing, no older data is returned.
#[test]
fn nothing_of_before_is_given_where_the_log_has_all_records() {
    let (mut given, mut lacked) = (0, 0);
    for seed in 0..60 {
        let executor = Executor::new(seed);
        let mut prng = Prng::new(seed);
        executor.block_on(async {
            let count = 3 + seed as usize % 2;
            let disks = new_disks(&executor, count);
            let set = new_set(&executor, &disks, Level::Parity).await;
            let mut expected = bytes(&set, seed);
            let all = vec![expected.clone().into()];
            set.write(0, all, Durability::Plain).await.expect("nothing fails");
            set.flush().await.expect("nothing fails");
            for _ in 0..prng.between(1, 8) {
                let at = prng.index(expected.len() / BLOCK) * BLOCK;
                prng.fill(&mut expected[at..at + BLOCK]);
                let data = vec![expected[at..at + BLOCK].to_vec().into()];
                set.write(at as u64, data, Durability::Through).await.expect("nothing fails");
            }
            let gone = [prng.index(count), prng.index(count - 1)];
            let mut left: Vec<Rc<Disk>> =
                disks.iter().map(|disk| Disk::new(&executor, disk.crash(&mut prng))).collect();
            gone[..1 + seed as usize % 2].iter().for_each(|&disk| _ = left.remove(disk));
            let remains = remains(&executor, &left).await.expect("it is the last resort");
            let lacking = remains.status().done.lacked_records;
            lacked += u64::from(lacking > 0);
            if lacking == 0 {
                let what = format!("seed {seed}");
                given += count_right(&blocks(&remains).await, &expected, &what);
            }
        });
    }
    println!("{given} blocks were given, and {lacked} logs lacked a record");
    assert!(given > 0 && lacked > 0, "both are seen");
}
