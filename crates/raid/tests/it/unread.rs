//! Disks that do not return their blocks for a while: these do not count as lost.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use raid::layout::Level;
use raid::{MakeOptions, Set, make};
use sim::{Disk, Effect, Executor, Fault};

use crate::losses::{bytes, come_back, devices, lose, new_disks, opened};

const BLOCK: u64 = 4096;
const UNIT: u64 = 4 * BLOCK;
/// The member that goes, and another one.
const GONE: usize = 1;
const FAULTY: usize = 2;

/// A full set of four with parity, or of three mirrors, with one member out. In stripe 0 of the
/// four, members 0, 1 and 2 have units 0, 1 and 2, and member 3 the parity.
struct Story {
    disks: Vec<Rc<Disk>>,
    expected: Vec<u8>,
    set: Set,
}

/// The member that is out has missed a sector, or everything.
async fn begin(executor: &Executor, level: Level, is_all_missed: bool) -> Story {
    let disks = new_disks(executor, if level == Level::Parity { 4 } else { 3 });
    let options = MakeOptions { level, unit: UNIT, log: 0 };
    make(&devices(&disks), &options, &executor.runtime()).await.expect("there is room");
    let set = opened(executor, &disks).await.expect("it is new");
    let mut expected = bytes(&set, 9);
    let data = vec![expected.clone().into()];
    set.write(0, data, Durability::Plain).await.expect("all are there");
    set.flush().await.expect("nothing fails");
    lose(&set, &disks, GONE).await;
    let missed = if is_all_missed { expected.len() } else { 512 };
    expected[..missed].iter_mut().for_each(|byte| *byte ^= 1);
    let data = vec![expected[..missed].to_vec().into()];
    set.write(0, data, Durability::Plain).await.expect("enough are there");
    set.flush().await.expect("the others are enough");
    Story { disks, expected, set }
}

impl Story {
    async fn write(&mut self, at: u64, length: u64) {
        self.expected[at as usize..][..length as usize].fill(7);
        let data = vec![vec![7; length as usize].into()];
        self.set.write(at, data, Durability::Plain).await.expect("enough are there");
    }

    async fn come_back(&self) {
        come_back(&self.set, &self.disks, GONE).await;
    }

    async fn has_all(&self) -> bool {
        let room = Buffer::zeroed(self.expected.len());
        self.set.read(0, room).await.is_ok_and(|read| read[..] == self.expected[..])
    }

    /// Fault of reads of these blocks of a member's unit of stripe 0.
    fn unread(&self, blocks: Range<u64>) -> Fault {
        let start = self.set.label().data_start;
        let range = start + blocks.start * BLOCK..start + blocks.end * BLOCK;
        Fault::on(Verb::Read, Effect::Eio).within(range)
    }
}

/// A write covers the end of one unit of a stripe and the beginning of the next, while a block
/// between these is unreadable, and is needed for the member that is out. Returns whether all data
/// is there once the block is readable.
fn gap_is_kept() -> bool {
    let executor = Executor::new(1);
    executor.block_on(async {
        let mut story = begin(&executor, Level::Parity, true).await;
        story.disks[FAULTY].inject(story.unread(1..2).forever());
        story.write(UNIT - BLOCK, 2 * BLOCK).await;
        story.disks[FAULTY].heal();
        story.has_all().await
    })
}

#[test]
fn parity_between_the_parts_of_a_write_stays_as_it_is() {
    assert!(gap_is_kept());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::WideColumns, gap_is_kept));
}

/// Writes a block that is unreadable for a moment, and is needed for a block of the member that is
/// out. Returns whether that block is read afterwards.
fn neighbour_is_kept() -> bool {
    let executor = Executor::new(2);
    executor.block_on(async {
        let mut story = begin(&executor, Level::Parity, true).await;
        // Unit 2 is on member 2, and unit 1 on member 1.
        (1..=6).for_each(|nth| story.disks[FAULTY].inject(story.unread(1..2).nth(nth)));
        story.write(2 * UNIT + BLOCK, BLOCK).await;
        story.has_all().await
    })
}

#[test]
fn a_write_waits_for_a_block_that_cannot_be_read_at_the_moment() {
    assert!(neighbour_is_kept());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::HastyLosses, neighbour_is_kept));
}

#[test]
fn a_block_that_cannot_be_read_costs_no_other_of_its_write() {
    let executor = Executor::new(3);
    executor.block_on(async {
        let mut story = begin(&executor, Level::Parity, true).await;
        story.disks[FAULTY].inject(story.unread(1..2).forever());
        story.write(UNIT * 2, UNIT).await;
        story.disks[FAULTY].heal();
        // One block of member 1 cannot be reconstructed any more; the write was accepted all the
        // same.
        for block in 0..story.expected.len() as u64 / BLOCK {
            let read = story.set.read(block * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
            let is_lost = block == 5;
            assert_eq!(read.is_err(), is_lost, "block {block}");
            let expected = &story.expected[(block * BLOCK) as usize..][..BLOCK as usize];
            assert!(is_lost || read.is_ok_and(|read| read[..] == *expected), "block {block}");
        }
    });
}

/// Fills a member while another one is unreadable, which is readable again before the fill ends, or
/// some time after. Returns the status's count of unread blocks right after the fill, and two
/// minutes after the other member is readable; and whether all data is there then.
fn filled(level: Level, is_soon: bool) -> (u64, u64, bool) {
    let executor = Executor::new(4);
    executor.block_on(async {
        let story = begin(&executor, level, true).await;
        let bad = |disk: &Rc<Disk>| disk.inject(story.unread(0..UNIT / BLOCK).forever());
        let others = || (0..story.disks.len()).filter(|&disk| disk != GONE);
        match level {
            Level::Parity => bad(&story.disks[FAULTY]),
            _ => others().for_each(|disk| bad(&story.disks[disk])),
        }
        let heal = || others().for_each(|disk| story.disks[disk].heal());
        let clock = executor.runtime().clock;
        let healed = async {
            if is_soon {
                clock.sleep(Duration::from_secs(8)).await;
                heal();
            }
        };
        futures::join!(story.come_back(), healed);
        let unread = || story.set.status().met[GONE].unread;
        let then = unread();
        assert!(story.set.label().is_whole(), "the fill has ended");
        if then > 0 {
            assert!(!story.has_all().await, "no disk gives it");
            let found = story.set.scrub(|_, _, _| ()).await.expect("it goes on");
            assert_eq!(found.lost, [], "it is not lost");
            let length: u64 = found.unread.iter().map(|(_, length)| length).sum();
            assert!(length >= UNIT, "{found:?}");
        }
        heal();
        clock.sleep(Duration::from_secs(120)).await;
        (then, unread(), story.has_all().await)
    })
}

#[test]
fn a_member_that_is_filled_gets_a_block_as_soon_as_a_disk_gives_it() {
    for level in [Level::Parity, Level::Mirrored] {
        assert_eq!(filled(level, true), (0, 0, true), "{level}, soon");
        assert_eq!(filled(level, false), (UNIT / BLOCK, 0, true), "{level}, later");
    }
    #[cfg(feature = "planted-bugs")]
    {
        let filled = || filled(Level::Parity, false);
        let (then, ..) = crate::with(raid::planted::Bug::GivenUpFills, filled);
        assert_eq!(then, 0, "nothing is said of what is not there");
    }
}
