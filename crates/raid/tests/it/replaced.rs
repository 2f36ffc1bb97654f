//! Replacement of members that are in.

use std::cell::RefCell;
use std::rc::Rc;

use block::{BlockDevice, Durability, Verb};
use futures::future::join;
use raid::assembly::{Refused, Witness};
use raid::label::{Label, Standing};
use raid::layout::Level;
use raid::{OpenError, OpenOptions, RebuildError, Set, label_of, open};
use sim::{Disk, Executor, Persistence, Prng};

use crate::full::full_set;
use crate::losses::{
    all_of, assert_any_may_be_lost, bytes, copies, devices, opened, write_in_pieces,
};

const LEVELS: [Level; 2] = [Level::Mirrored, Level::Parity];
/// The slot whose member is replaced, and the id of the new member.
const SLOT: usize = 1;
const NEW: [u8; 16] = [77; 16];

/// The disks of the slots after a replacement.
fn after(disks: &[Rc<Disk>]) -> Vec<Rc<Disk>> {
    vec![disks[0].clone(), disks[3].clone(), disks[2].clone()]
}

async fn assert_is_whole(executor: &Executor, set: &Set, disks: &[Rc<Disk>], written: &[u8]) {
    let Label { slots, replacement, .. } = set.label();
    assert!(slots.iter().all(|slot| slot.standing == Standing::InSync), "{slots:?}");
    assert_eq!(replacement, None);
    assert!(all_of(set).await == written);
    let scrubbed = set.scrub(|_, _, _| ()).await.expect("nothing fails");
    assert_eq!((scrubbed.mended, scrubbed.lost), (0, Vec::new()));
    set.close().await.expect("it ends");
    assert_any_may_be_lost(executor, disks, written, "after a replacement").await;
}

#[test]
fn a_member_is_replaced_while_the_set_is_written() {
    for level in LEVELS {
        let executor = Executor::new(1);
        executor.block_on(async {
            let (disks, set, _) = full_set(&executor, level).await;
            let other = bytes(&set, 6);
            let mut prng = Prng::new(6);
            let writes = write_in_pieces(&set, &other, &mut prng);
            let replaced = set.replace(SLOT, disks[3].clone(), NEW, |_, _| ());
            let (_, replaced) = join(writes, replaced).await;
            replaced.expect("nothing fails");
            assert_eq!(set.label().slots[SLOT].member, NEW);
            assert_is_whole(&executor, &set, &after(&disks), &other).await;
        });
    }
}

/// The old disk alone has blocks that the other disks have lost.
#[test]
fn rot_on_another_disk_costs_nothing_during_a_replacement() {
    for level in LEVELS {
        let executor = Executor::new(2);
        executor.block_on(async {
            let (disks, set, written) = full_set(&executor, level).await;
            let label = set.label();
            set.close().await.expect("it ends");
            for other in [0, 2] {
                let rows = (0..label.layout.rows).filter(|row| row % 2 == other as u64 / 2);
                for row in rows.step_by(7) {
                    disks[other].rot(label.data_start + row * label.layout.unit + 100, 3);
                }
            }
            let disks = copies(&executor, &disks);
            let set = opened(&executor, &disks[..3]).await.expect("all are there");
            set.replace(SLOT, disks[3].clone(), NEW, |_, _| ()).await.expect("it goes on");
            set.scrub(|_, _, _| ()).await.expect("nothing fails");
            assert_is_whole(&executor, &set, &after(&disks), &written).await;
        });
    }
}

/// Fails a disk at its nth write or flush of a replacement, while clients write.
async fn with_failure(executor: &Executor, level: Level, (disk, verb, nth): (usize, Verb, u64)) {
    let (disks, set, _) = full_set(executor, level).await;
    disks[disk].fail(verb, nth, Persistence::Forever);
    play(executor, level, (&disks, set), (disk, &format!("{verb:?} {nth}"))).await;
}

/// Replaces a member while all of the set is written, and checks the outcome.
async fn play(
    executor: &Executor,
    level: Level,
    (disks, set): (&[Rc<Disk>], Set),
    (disk, what): (usize, &str),
) {
    let other = bytes(&set, 7);
    let mut prng = Prng::new(7);
    let writes = write_in_pieces(&set, &other, &mut prng);
    let replaced = set.replace(SLOT, disks[3].clone(), NEW, |_, _| ());
    let (_, replaced) = join(writes, replaced).await;
    set.flush().await.expect("two are left");
    let told = format!("{level}, disk {disk}, {what}: {replaced:?}");
    let is_new = set.label().slots[SLOT].member == NEW;
    assert_eq!(is_new, replaced.is_ok(), "{told}");
    if disk == 3 {
        assert!(replaced == Err(RebuildError::Failed) || replaced.is_ok(), "{told}");
    }
    let standing = set.label().slots[SLOT].standing;
    if standing != Standing::InSync {
        // The disk failed after it had become the member.
        assert!(all_of(&set).await == other, "{told}");
        return;
    }
    let disks = if is_new { after(disks) } else { disks[..3].to_vec() };
    disks.iter().for_each(|disk| disk.heal());
    assert_is_whole(executor, &set, &disks, &other).await;
}

#[test]
fn a_new_disk_that_fails_ends_the_replacement_alone() {
    for level in LEVELS {
        for nth in [1, 2, 4, 9, 60, 900] {
            let executor = Executor::new(3);
            executor.block_on(with_failure(&executor, level, (3, Verb::Write, nth)));
        }
        for nth in [1, 2, 4] {
            let executor = Executor::new(4);
            executor.block_on(with_failure(&executor, level, (3, Verb::Flush, nth)));
        }
    }
}

#[test]
fn when_the_old_disk_fails_the_new_one_is_filled_from_the_others() {
    for level in LEVELS {
        for nth in [1, 2, 4, 9, 60, 900] {
            let executor = Executor::new(5);
            executor.block_on(with_failure(&executor, level, (SLOT, Verb::Write, nth)));
        }
        for nth in [1, 2, 4] {
            let executor = Executor::new(6);
            executor.block_on(with_failure(&executor, level, (SLOT, Verb::Flush, nth)));
        }
    }
}

/// The last writes of a replacement are those of the labels that call the new disk in.
#[test]
fn a_disk_may_fail_while_the_labels_are_written() {
    for level in LEVELS {
        let run = async |executor: &Executor, failure: Option<(usize, u64)>| {
            let (disks, set, written) = full_set(executor, level).await;
            let before = disks.iter().map(|disk| disk.counters().writes).collect::<Vec<_>>();
            if let Some((disk, nth)) = failure {
                disks[disk].fail(Verb::Write, nth, Persistence::Forever);
            }
            let replaced = set.replace(SLOT, disks[3].clone(), NEW, |_, _| ()).await;
            let writes = disks.iter().zip(before).map(|(disk, it)| disk.counters().writes - it);
            let writes: Vec<u64> = writes.collect();
            disks.iter().for_each(|disk| disk.heal());
            let data = vec![written[..8192].to_vec().into()];
            set.write(4096, data, Durability::Through).await.expect("two are left");
            let mut written = written;
            written.copy_within(..8192, 4096);
            let Label { slots, replacement, .. } = set.label();
            let is_new = slots[SLOT].member == NEW;
            assert_eq!((is_new, replacement), (replaced.is_ok(), None), "{level}, {failure:?}");
            if slots[SLOT].standing != Standing::InSync || slots[0].standing != Standing::InSync {
                assert!(all_of(&set).await == written, "{level}, {failure:?}");
                return writes;
            }
            let disks = if is_new { after(&disks) } else { disks[..3].to_vec() };
            assert_is_whole(executor, &set, &disks, &written).await;
            writes
        };
        let writes = Executor::new(10);
        let writes = writes.block_on(run(&writes, None));
        for disk in [0, SLOT, 3] {
            for nth in writes[disk].saturating_sub(5)..=writes[disk] {
                let executor = Executor::new(10);
                executor.block_on(run(&executor, Some((disk, nth.max(1)))));
            }
        }
    }
}

/// A start with both disks resumes the replacement; one with the old disk alone keeps it as before;
/// one with the new disk alone does not use it.
#[test]
fn a_replacement_that_was_interrupted_goes_on_with_both() {
    for level in LEVELS {
        let executor = Executor::new(7);
        executor.block_on(async {
            let (disks, set, written) = full_set(&executor, level).await;
            let seen = Rc::new(RefCell::new(None));
            let (kept, all) = (seen.clone(), disks.clone());
            let progress = move |done, _| {
                if done == 100 {
                    let images = all.iter().map(|disk| disk.contents()).collect::<Vec<_>>();
                    kept.replace(Some(images));
                }
            };
            set.replace(SLOT, disks[3].clone(), NEW, progress).await.expect("nothing fails");
            let images = seen.take().expect("it had so many stripes");
            let disks: Vec<Rc<Disk>> =
                images.into_iter().map(|image| Disk::new(&executor, image)).collect();
            let incoming = label_of(&*disks[3]).await.expect("it has one");
            assert_eq!((incoming.member(), incoming.is_incoming), (NEW, true));

            let both = copies(&executor, &disks);
            let set = opened(&executor, &both).await.expect("all are there");
            let begun = set.label().incoming().expect("it is named");
            assert_eq!((begun.slot, begun.other), (SLOT, NEW));
            assert!(all_of(&set).await == written);
            set.replace(SLOT, both[3].clone(), NEW, |_, _| ()).await.expect("nothing fails");
            assert_is_whole(&executor, &set, &after(&both), &written).await;

            let old = copies(&executor, &disks[..3]);
            if level == Level::Mirrored {
                let refused = opened(&executor, &old).await.err();
                let may_be_new = OpenError::Refused(Refused::MaybeOld(3));
                assert_eq!(refused, Some(may_be_new), "the new disk may have been called in");
            }
            let witness = label_of(&*old[0]).await.map(|label| Witness::of(&label)).ok();
            let known = OpenOptions { witness, ..OpenOptions::default() };
            let set = open(devices(&old), &executor.runtime(), known).await;
            let set = set.expect("the old one is in");
            assert_is_whole(&executor, &set, &old, &written).await;

            let mut new = copies(&executor, &disks);
            let late = new.remove(SLOT);
            let meant = OpenOptions { is_meant: true, ..OpenOptions::default() };
            let set = open(devices(&new), &executor.runtime(), meant).await.expect("two are in");
            let Label { slots, replacement, .. } = set.label();
            assert_eq!(slots[SLOT].standing, Standing::Stale);
            assert!(replacement.is_some(), "the old one may come back");
            assert!(all_of(&set).await == written);
            let back = set.rebuild(SLOT, late, slots[SLOT].member, |_, _| ()).await;
            back.expect("nothing fails");
            set.replace(SLOT, new[2].clone(), NEW, |_, _| ()).await.expect("nothing fails");
            let after = [new[0].clone(), new[2].clone(), new[1].clone()];
            assert_is_whole(&executor, &set, &after, &written).await;
        });
    }
}

/// The old disk counts until the new one is in, even if another member is out.
#[test]
fn a_member_is_replaced_in_a_set_that_lacks_another() {
    for level in LEVELS {
        let executor = Executor::new(8);
        executor.block_on(async {
            let (disks, set, written) = full_set(&executor, level).await;
            disks[0].fail(Verb::Flush, 1, Persistence::Forever);
            let data = vec![written[..4096].to_vec().into()];
            set.write(0, data, Durability::Plain).await.expect("two are left");
            set.flush().await.expect("two are left");
            assert_eq!(set.label().slots[0].standing, Standing::Stale);
            disks[0].heal();
            set.replace(SLOT, disks[3].clone(), NEW, |_, _| ()).await.expect("it has its source");
            let member = set.label().slots[0].member;
            set.rebuild(0, disks[0].clone(), member, |_, _| ()).await.expect("nothing fails");
            assert_is_whole(&executor, &set, &after(&disks), &written).await;
        });
    }
}

#[test]
fn a_disk_that_cannot_replace_a_member_is_refused() {
    let executor = Executor::new(9);
    executor.block_on(async {
        let (disks, set, _) = full_set(&executor, Level::Parity).await;
        let replace = async |slot, member| {
            set.replace(slot, disks[3].clone(), member, |_, _| ()).await.expect_err("refused")
        };
        assert_eq!(replace(3, NEW).await, RebuildError::NoSlot(3));
        assert_eq!(replace(0, [0; 16]).await, RebuildError::Known);
        let other = set.label().slots[2].member;
        assert_eq!(replace(0, other).await, RebuildError::Known);
        set.fail(0).await.expect("two are enough");
        assert_eq!(replace(0, NEW).await, RebuildError::NoSlot(0), "it is out");
    });
}
