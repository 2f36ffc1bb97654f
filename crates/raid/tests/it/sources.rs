//! Repairs while another disk has the block that has rotted: no present disk is passed over.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use raid::layout::Level;
use raid::{OpenOptions, Set, open};
use sim::{Disk, Executor};

use crate::losses::{all_of, bytes, come_back, copies, devices, lose, new_disks, new_set, opened};

const BLOCK: u64 = 4096;
/// The member that goes and comes back.
const GONE: usize = 0;
/// The member with a rotten block.
const ROTTEN: usize = 2;

/// A set with one stripe under test: in a set of four with parity, stripe 2 has unit 6 on member 2,
/// 7 on 3, 8 on 0, and its parity on 1. A mirror has stripe 6 on all members.
struct Story {
    disks: Vec<Rc<Disk>>,
    expected: Vec<u8>,
    set: Set,
}

/// One disk is away while a block of it is written, or only one beside it; meanwhile the block of
/// another disk rots, in the same stripe.
async fn begin(executor: &Executor, is_its_own: bool) -> Story {
    let disks = new_disks(executor, 4);
    let set = new_set(executor, &disks, Level::Parity).await;
    let mut expected = bytes(&set, 9);
    let data = vec![expected.clone().into()];
    set.write(0, data, Durability::Plain).await.expect("all are there");
    set.flush().await.expect("nothing fails");
    lose(&set, &disks, GONE).await;
    let unit = if is_its_own { 8 } else { 7 };
    expected[unit * BLOCK as usize..][..BLOCK as usize].fill(3);
    let data = vec![vec![3; BLOCK as usize].into()];
    set.write(unit as u64 * BLOCK, data, Durability::Plain).await.expect("enough are there");
    set.close().await.expect("nothing fails");
    drop(set);
    let disks = copies(executor, &disks);
    let start = raid::label_of(&*disks[1]).await.expect("it is a member").data_start;
    disks[ROTTEN].rot(start + 2 * BLOCK + 77, 4);
    let set = open(devices(&disks), &executor.runtime(), OpenOptions::default()).await;
    Story { disks, expected, set: set.expect("enough are there") }
}

impl Story {
    /// The disk comes back unchanged.
    async fn come_back(&self) {
        come_back(&self.set, &self.disks, GONE).await;
    }

    async fn read(&self, unit: u64) -> Option<Vec<u8>> {
        let read = self.set.read(unit * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
        read.ok().map(|bytes| bytes.to_vec())
    }

    fn of(&self, unit: usize) -> Option<Vec<u8>> {
        Some(self.expected[unit * BLOCK as usize..][..BLOCK as usize].to_vec())
    }
}

/// Whether all data is there after a disk has come back that has the block another one has lost.
fn returns_and_gives() -> bool {
    let executor = Executor::new(1);
    executor.block_on(async {
        let story = begin(&executor, false).await;
        story.come_back().await;
        let found = story.set.scrub(|_, _, _| ()).await.expect("all are there");
        found.lost.is_empty() && all_of(&story.set).await == story.expected
    })
}

#[test]
fn a_disk_that_returns_gives_what_another_has_lost() {
    assert!(returns_and_gives());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::UnaskedReturns, returns_and_gives));
}

/// Returns the block that was written while its disk was away, as read after the disk is back and
/// the block cannot be reconstructed; and whether another lost block is reported as lost.
fn old_bytes() -> (Option<Vec<u8>>, Vec<(u64, u64)>) {
    let executor = Executor::new(2);
    executor.block_on(async {
        let story = begin(&executor, true).await;
        story.come_back().await;
        let lost = story.set.scrub(|_, _, _| ()).await.expect("all are there").lost;
        (story.read(8).await, lost)
    })
}

#[test]
fn bytes_that_fit_an_older_checksum_are_no_answer() {
    let both = vec![(6 * BLOCK, BLOCK), (8 * BLOCK, BLOCK)];
    assert_eq!(old_bytes(), (None, both));
    #[cfg(feature = "planted-bugs")]
    {
        let (read, _) = crate::with(raid::planted::Bug::OldSums, old_bytes);
        assert!(read.is_some(), "old bytes pass for what was written");
    }
}

/// Numbers of blocks reported as lost: after a disk has come back to which no other disk could give
/// everything, and after a scrub has listed them.
fn told_of_fill() -> [u64; 2] {
    let executor = Executor::new(2);
    executor.block_on(async {
        let story = begin(&executor, true).await;
        story.come_back().await;
        let told = || story.set.status().done.lost_blocks;
        let before = told();
        story.set.scrub(|_, _, _| ()).await.expect("all are there");
        [before, told()]
    })
}

#[test]
fn a_disk_that_could_not_be_given_all_is_not_said_to_be_up_to_date() {
    assert_eq!(told_of_fill(), [1, 1]);
    #[cfg(feature = "planted-bugs")]
    assert_eq!(crate::with(raid::planted::Bug::UntoldFills, told_of_fill), [0, 0]);
}

/// A block is lost while its disk cannot be rebuilt, and then the other disk returns its block
/// after all. Returns whether both are back.
fn comes_back_later() -> bool {
    let executor = Executor::new(3);
    executor.block_on(async {
        let story = begin(&executor, true).await;
        story.come_back().await;
        assert_eq!((story.read(6).await, story.read(8).await), (None, None), "both are lost");
        story.set.close().await.expect("nothing fails");
        let start = story.set.label().data_start;
        let disks = copies(&executor, &story.disks);
        disks[ROTTEN].rot(start + 2 * BLOCK + 77, 4); // as it was
        let set = opened(&executor, &disks).await.expect("all are there");
        let later = Story { set, disks, expected: story.expected.clone() };
        later.read(6).await == later.of(6) && later.read(8).await == later.of(8)
    })
}

#[test]
fn a_block_is_back_when_a_disk_gives_it_later() {
    assert!(comes_back_later());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::ReplacedSums, comes_back_later));
}

/// Whether nothing is lost while a disk is present that is out, even when another disk has taken
/// its place.
fn stranger_gives() -> bool {
    let executor = Executor::new(4);
    executor.block_on(async {
        let story = begin(&executor, false).await;
        if story.read(6).await != story.of(6) {
            return false;
        }
        let story = begin(&executor, false).await;
        let [new] = &new_disks(&executor, 1)[..] else { unreachable!("one was made") };
        let filled = story.set.rebuild(GONE, new.clone(), [77; 16], |_, _| ());
        filled.await.expect("it goes on");
        let found = story.set.scrub(|_, _, _| ()).await.expect("all are there");
        found.lost.is_empty() && all_of(&story.set).await == story.expected
    })
}

#[test]
fn a_disk_that_is_out_gives_what_the_members_have_lost() {
    assert!(stranger_gives());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::UnaskedStrangers, stranger_gives));
}
