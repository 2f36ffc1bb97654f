//! Fills and scrubs that a person pauses or cancels.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Durability};
use futures::future::join;
use raid::label::Standing;
use raid::layout::Level;
use raid::{RebuildError, ScrubError, Set, Work};
use sim::{Disk, Executor};

use crate::full::full_set;
use crate::losses::{all_of, assert_any_may_be_lost, copies, lose};

const SLOT: usize = 1;

/// Reason why a disk is filled.
#[derive(Clone, Copy, Debug)]
enum Fill {
    /// It replaces a member that is in.
    Replacement,
    /// It replaces a member that is out.
    Rebuild,
    /// It is a member that comes back.
    Return,
}

/// A full set of four disks, and its contents; a member is out unless it is to be replaced.
async fn begin(executor: &Executor, fill: Fill, level: Level) -> (Vec<Rc<Disk>>, Set, Vec<u8>) {
    let (disks, set, written) = full_set(executor, level).await;
    if !matches!(fill, Fill::Replacement) {
        lose(&set, &disks, SLOT).await;
        set.write(0, vec![written.clone().into()], Durability::Plain).await.expect("it is enough");
    }
    (disks, set, written)
}

/// Fills a disk; `progress` is called for each stripe.
async fn fill(
    set: &Set,
    disks: &[Rc<Disk>],
    how: Fill,
    progress: impl FnMut(u64, u64) + 'static,
) -> Result<(), RebuildError> {
    let member = set.label().slots[SLOT].member;
    match how {
        Fill::Replacement => set.replace(SLOT, disks[3].clone(), [9; 16], progress).await,
        Fill::Rebuild => set.rebuild(SLOT, disks[3].clone(), [9; 16], progress).await,
        Fill::Return => set.rebuild(SLOT, disks[SLOT].clone(), member, progress).await,
    }
}

#[test]
fn a_fill_that_is_cancelled_leaves_the_set_as_it_was() {
    for level in [Level::Parity, Level::Mirrored] {
        for how in [Fill::Replacement, Fill::Rebuild, Fill::Return] {
            for after in [1, 2, 30] {
                let executor = Executor::new(after);
                executor.block_on(async {
                    let (disks, set, written) = begin(&executor, how, level).await;
                    let set = Rc::new(set);
                    let cancelling = set.clone();
                    let progress = move |done, _| {
                        if done == after {
                            cancelling.cancel(Work::Fill);
                        }
                    };
                    let ended = fill(&set, &disks, how, progress).await;
                    assert_eq!(ended, Err(RebuildError::Cancelled), "{level} {how:?} {after}");
                    let label = set.label();
                    assert!(label.replacement.is_none() && set.status().rebuild.is_none());
                    let is_in = label.slots[SLOT].standing == Standing::InSync;
                    assert_eq!(is_in, matches!(how, Fill::Replacement), "{level} {how:?}");
                    assert_eq!(all_of(&set).await, written);
                    // The same work completes now; a disk that was closed is opened anew.
                    let (old, disks) = (disks.clone(), copies(&executor, &disks));
                    fill(&set, &disks, how, |_, _| ()).await.expect("nothing ends it");
                    set.close().await.expect("nothing fails");
                    let mut members = old[..3].to_vec();
                    members[SLOT] =
                        disks[if matches!(how, Fill::Return) { SLOT } else { 3 }].clone();
                    assert_any_may_be_lost(&executor, &members, &written, "cancelled once").await;
                });
            }
        }
    }
}

/// Pauses a fill after some stripes, and resumes it. Returns the stripes done after a minute, and
/// in total.
fn paused(how: Fill) -> (u64, u64) {
    let executor = Executor::new(5);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let (disks, set, written) = begin(&executor, how, Level::Parity).await;
        let set = Rc::new(set);
        let (pausing, stripes) = (set.clone(), Rc::new(Cell::new(0)));
        let count = stripes.clone();
        let progress = move |done, _| {
            count.set(done);
            if done == 2 {
                pausing.pause(true);
            }
        };
        let filling = fill(&set, &disks, how, progress);
        let waiting = async {
            clock.sleep(Duration::from_secs(60)).await;
            let had = stripes.get();
            assert!(set.status().is_paused);
            // Clients continue.
            set.write(0, vec![written[..4096].to_vec().into()], Durability::Through)
                .await
                .expect("nothing is held still");
            set.pause(false);
            had
        };
        let (filled, had) = join(filling, waiting).await;
        filled.expect("it goes on");
        assert_eq!(all_of(&set).await, written);
        (had, set.layout().rows)
    })
}

#[test]
fn a_fill_that_is_paused_goes_on_when_it_is_told_to() {
    for how in [Fill::Replacement, Fill::Rebuild] {
        let (had, rows) = paused(how);
        assert!((2..rows).contains(&had), "{how:?}: {had} of {rows}");
    }
    #[cfg(feature = "planted-bugs")]
    {
        let (had, rows) =
            crate::with(raid::planted::Bug::UnheardPauses, || paused(Fill::Replacement));
        assert_eq!(had, rows, "it does not wait");
    }
}

#[test]
fn what_is_paused_can_be_cancelled_and_closed() {
    let executor = Executor::new(6);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let (disks, set, written) = begin(&executor, Fill::Replacement, Level::Parity).await;
        set.pause(true);
        let later = async |work: Work| {
            clock.sleep(Duration::from_secs(10)).await;
            set.cancel(work);
        };
        let (filled, ()) =
            join(fill(&set, &disks, Fill::Replacement, |_, _| ()), later(Work::Fill)).await;
        assert_eq!(filled, Err(RebuildError::Cancelled));
        let (scrubbed, ()) = join(set.scrub(|_, _, _| ()), later(Work::Scrub)).await;
        assert_eq!(scrubbed, Err(ScrubError::Cancelled));
        assert_eq!(all_of(&set).await, written);
        let scrubbing = set.scrub(|_, _, _| ());
        let closing = async {
            clock.sleep(Duration::from_secs(10)).await;
            set.close().await
        };
        let (scrubbed, closed) = join(scrubbing, closing).await;
        assert_eq!(scrubbed, Err(ScrubError::Stopped));
        closed.expect("nothing fails");
    });
}
