//! Members that a person takes out: they stay out, and catch up when a person brings them back.

use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::join;
use raid::assembly::Refused;
use raid::label::Standing;
use raid::layout::Level;
use raid::{OpenError, OpenOptions, RebuildError, Set, open};
use sim::{Disk, Effect, Executor, Fault, Persistence};

use crate::losses::{all_of, bytes, copies, devices, lose, new_disks, new_set, opened};

/// The slot of the member that is taken out.
const OUT: usize = 1;

fn standing(set: &Set) -> Standing {
    set.label().slots[OUT].standing
}

async fn write(set: &Set, at: usize, data: &[u8]) {
    let written = set.write(at as u64, vec![data.to_vec().into()], Durability::Through).await;
    written.expect("the others are there");
}

#[test]
fn a_member_that_is_taken_out_stays_out_until_it_is_made_again() {
    for (level, count) in [(Level::Parity, 4), (Level::Mirrored, 2)] {
        let executor = Executor::new(1);
        let mut disks = new_disks(&executor, count);
        executor.block_on(async {
            let set = new_set(&executor, &disks, level).await;
            let mut expected = bytes(&set, 1);
            write(&set, 0, &expected).await;
            let member = set.label().slots[OUT].member;
            set.fail(OUT).await.expect("the others are enough");
            assert_eq!(
                (standing(&set), set.label().slots[OUT].member),
                (Standing::Offline, member)
            );
            expected[64 << 10..][..4096].fill(7);
            write(&set, 64 << 10, &[7; 4096]).await;
            set.close().await.expect("nothing fails");
            for _ in 0..2 {
                disks = copies(&executor, &disks);
                let set = opened(&executor, &disks).await.expect("the others are enough");
                assert_eq!(standing(&set), Standing::Offline, "{level}: no start takes it back");
                assert!(all_of(&set).await == expected, "{level}: nothing of before is read");
                set.close().await.expect("nothing fails");
            }
            disks = copies(&executor, &disks);
            let set = opened(&executor, &disks).await.expect("the others are enough");
            let count = || disks.iter().map(|disk| disk.counters().bytes_read).sum::<u64>();
            let before = count();
            set.rebuild(OUT, disks[OUT].clone(), member, |_, _| ()).await.expect("nothing fails");
            let read = count() - before;
            assert!(read * 4 < expected.len() as u64, "{level}: {read} bytes for what it missed");
            assert_eq!(standing(&set), Standing::InSync);
            set.close().await.expect("nothing fails");
            for lost in 0..disks.len() {
                let mut rest = copies(&executor, &disks);
                rest.remove(lost);
                let options = OpenOptions { is_meant: true, ..OpenOptions::default() };
                let set = open(devices(&rest), &executor.runtime(), options).await;
                assert!(all_of(&set.expect("enough")).await == expected, "{level}, without {lost}");
            }
        });
    }
}

#[test]
fn an_error_that_comes_late_does_not_have_a_member_come_back_by_itself() {
    let executor = Executor::new(4);
    let disks = new_disks(&executor, 3);
    executor.block_on(async {
        let set = new_set(&executor, &disks, Level::Mirrored).await;
        disks[OUT].fail(Verb::Write, 1, Persistence::Forever);
        let (failed, ()) = join(set.fail(OUT), write(&set, 0, &[7; 4096])).await;
        failed.expect("the others are enough");
        assert_eq!(standing(&set), Standing::Offline);
    });
}

#[test]
fn a_return_that_is_refused_leaves_a_member_as_it_was_taken_out() {
    let executor = Executor::new(2);
    let disks = new_disks(&executor, 3);
    executor.block_on(async {
        let set = new_set(&executor, &disks, Level::Mirrored).await;
        set.fail(OUT).await.expect("the others are enough");
        let small = Disk::new(&executor, sim::Image::zeroed(1 << 20));
        let member = set.label().slots[OUT].member;
        let refused = set.rebuild(OUT, small, member, |_, _| ()).await;
        assert!(matches!(refused, Err(RebuildError::TooSmall { .. })), "{refused:?}");
        assert_eq!(standing(&set), Standing::Offline);
        let twice = set.fail(OUT).await;
        assert_eq!(twice, Err(raid::FailError::IsOut(OUT)));
    });
}

/// Without another disk too few others are left, and the one that was taken out lacks nothing.
#[test]
fn a_member_that_was_taken_out_and_lacks_nothing_is_in_if_a_person_means_that() {
    let executor = Executor::new(3);
    let mut disks = new_disks(&executor, 3);
    executor.block_on(async {
        let set = new_set(&executor, &disks, Level::Parity).await;
        let expected = bytes(&set, 3);
        write(&set, 0, &expected).await;
        set.close().await.expect("nothing fails");
        disks = copies(&executor, &disks);
        let set = opened(&executor, &disks).await.expect("nothing fails");
        set.fail(OUT).await.expect("the others are enough");
        set.close().await.expect("nothing fails");
        let rest = || copies(&executor, &disks)[..2].to_vec();
        let refused = open(devices(&rest()), &executor.runtime(), OpenOptions::default()).await;
        let too_few = OpenError::Refused(Refused::TooFew { found: 1, needed: 2, of: 3 });
        assert_eq!(refused.err(), Some(too_few));
        let meant = OpenOptions { is_meant: true, ..OpenOptions::default() };
        let set = open(devices(&rest()), &executor.runtime(), meant).await.expect("it is meant");
        assert_eq!(standing(&set), Standing::InSync);
        let read = set.read(0, Buffer::zeroed(expected.len())).await.expect("two are enough");
        assert!(read[..] == expected[..]);
    });
}

/// The end of a return whose disk is taken out while its label is read.
fn taken_out_meanwhile() -> (Result<(), RebuildError>, Standing) {
    let executor = Executor::new(9);
    let disks = new_disks(&executor, 4);
    executor.block_on(async {
        let set = new_set(&executor, &disks, Level::Parity).await;
        let member = set.label().slots[OUT].member;
        lose(&set, &disks, OUT).await;
        let slow = Effect::Slow(Duration::from_millis(300));
        disks[OUT].inject(Fault::on(Verb::Read, slow).lasting(Persistence::Forever));
        let returns = set.rebuild(OUT, disks[OUT].clone(), member, |_, _| ());
        let fails = async {
            executor.runtime().clock.sleep(Duration::from_millis(100)).await;
            set.fail(OUT).await
        };
        let (returned, failed) = join(returns, fails).await;
        failed.expect("it is out, and is kept out");
        (returned, standing(&set))
    })
}

#[test]
fn a_member_that_is_taken_out_while_it_returns_stays_out() {
    let cancelled = (Err(RebuildError::Cancelled), Standing::Offline);
    assert_eq!(taken_out_meanwhile(), cancelled);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = raid::planted::Bug::HastyReturns;
        assert_eq!(crate::with(bug, taken_out_meanwhile).1, Standing::InSync);
    }
}
