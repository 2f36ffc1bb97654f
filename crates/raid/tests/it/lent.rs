//! Tables of checksums that no member gives, and that another present disk has.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::join;
use raid::layout::Level;
use raid::{MakeOptions, OpenOptions, Set, make, open};
use sim::{Disk, Effect, Executor, Fault, Image};

use crate::failed_starts::flip;
use crate::full::reopened_set;
use crate::hiccups::count;
use crate::losses::{all_of, copies, devices, new_disks};
use crate::rot::tables;

const BLOCK: u64 = 4096;
/// The slot whose blocks the tables cover, the member that lacks them, and the one that goes.
const OF: usize = 0;
const LACKING: usize = 1;
const GONE: usize = 2;

/// Why the member that stays does not give the tables.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// They have rotted.
    Rotten,
    /// They are zeros.
    Zeroed,
    /// They can never be read again.
    Unread,
}

const FATES: [Fate; 3] = [Fate::Rotten, Fate::Zeroed, Fate::Unread];

/// A full set of four disks of which [`LACKING`] does not give the tables of [`OF`]. No table is in
/// memory.
async fn begin(executor: &Executor, fate: Fate, is_gone: bool) -> (Vec<Rc<Disk>>, Set, Vec<u8>) {
    let known = || OpenOptions { is_meant: true, ..OpenOptions::default() };
    let (disks, set, written) = reopened_set(executor, (Level::Parity, 4), known).await;
    if is_gone {
        set.fail(GONE).await.expect("the others are enough");
    }
    set.close().await.expect("nothing fails");
    let (at, disks) = (tables(&set).0, copies(executor, &disks));
    match fate {
        Fate::Rotten => {
            flip(&disks[LACKING], at + 100).await;
            flip(&disks[LACKING], at + BLOCK + 100).await;
        }
        Fate::Zeroed => {
            let zeros = vec![vec![0; 2 * BLOCK as usize].into()];
            disks[LACKING].write(at, zeros, Durability::Through).await.expect("nothing fails");
        }
        Fate::Unread => {
            let both = Fault::on(Verb::Read, Effect::Eio).within(at..at + 2 * BLOCK);
            disks[LACKING].inject(both.forever());
        }
    }
    let options = OpenOptions { cache: 0, ..OpenOptions::default() };
    let set = open(devices(&disks), &executor.runtime(), options).await.expect("enough");
    (disks, set, written)
}

/// Number of blocks that are not as written after a block of [`OF`] has rotted, and number of wrong
/// ones after a restart without the disk that could not read its tables, and with the same rot.
async fn judge(
    executor: &Executor,
    (set, disks, written): (Set, &[Rc<Disk>], &[u8]),
    is_lost: bool,
) -> [usize; 2] {
    let at = set.label().data_start + 4 * BLOCK + 77;
    flip(&disks[OF], at).await;
    let [_, wrong, unread] = count(&set, written).await;
    set.close().await.expect("nothing fails");
    let mut disks = copies(executor, disks);
    flip(&disks[OF], at + 1).await;
    if is_lost {
        disks.remove(LACKING);
    }
    let options = OpenOptions { cache: 0, is_meant: true, ..OpenOptions::default() };
    let set = open(devices(&disks), &executor.runtime(), options).await.expect("enough");
    let [_, wrong_later, unread_later] = count(&set, written).await;
    assert!(is_lost || unread_later == 0, "the others have it");
    [wrong + unread, wrong_later]
}

/// The old disk of a replacement fails, and only the new one has the tables.
fn of_the_new_disk(fate: Fate) -> [usize; 2] {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (mut disks, set, written) = begin(&executor, fate, false).await;
        let (set, new) = (Rc::new(set), new_disks(&executor, 1).remove(0));
        let (old, begun) = (disks[GONE].clone(), Rc::new(Cell::new(false)));
        let is_begun = begun.clone();
        let progress = move |done, _| {
            if done == 3 && !is_begun.replace(true) {
                old.inject(Fault::on_any(Effect::Dead).forever());
            }
        };
        let flushing = async {
            while !begun.get() {
                executor.runtime().clock.sleep(Duration::from_millis(1)).await;
            }
            set.flush().await
        };
        let replacing = set.replace(GONE, new.clone(), [9; 16], progress);
        let (replaced, _) = join(replacing, flushing).await;
        assert_eq!(replaced, Ok(()), "{fate:?}");
        disks[GONE] = new;
        let set = Rc::into_inner(set).expect("nobody else has it");
        judge(&executor, (set, &disks, &written), matches!(fate, Fate::Unread)).await
    })
}

/// A disk that went has the tables, which nobody has written since. It stays out, comes back, or
/// another one takes its place.
fn of_the_old_disk(fate: Fate, next: Next) -> [usize; 2] {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (mut disks, set, written) = begin(&executor, fate, true).await;
        let (member, old) = (set.label().slots[GONE].member, disks[GONE].clone());
        assert_eq!(count(&set, &written).await[1..], [0, 0]);
        match next {
            Next::Nothing => {}
            Next::Return => {
                set.rebuild(GONE, old.clone(), member, |_, _| ()).await.expect("it goes on");
            }
            Next::Spare => {
                disks[GONE] = new_disks(&executor, 1).remove(0);
                let new = disks[GONE].clone();
                set.rebuild(GONE, new, [9; 16], |_, _| ()).await.expect("it goes on");
            }
        }
        let is_lost = matches!(fate, Fate::Unread) && !matches!(next, Next::Nothing);
        judge(&executor, (set, &disks, &written), is_lost).await
    })
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Nothing,
    Return,
    Spare,
}

#[test]
fn a_table_that_only_the_new_disk_of_a_replacement_has_stays() {
    let all = || FATES.map(of_the_new_disk);
    assert_eq!(all(), [[0; 2]; 3]);
    #[cfg(feature = "planted-bugs")]
    {
        let planted = crate::with(raid::planted::Bug::UnlentTables, all);
        assert!(planted.iter().all(|both| *both != [0; 2]), "{planted:?}");
    }
}

#[test]
fn a_table_that_only_a_disk_has_that_is_out_stays() {
    for next in [Next::Nothing, Next::Return, Next::Spare] {
        let all = || FATES.map(|fate| of_the_old_disk(fate, next));
        assert_eq!(all(), [[0; 2]; 3], "{next:?}");
        #[cfg(feature = "planted-bugs")]
        {
            let planted = crate::with(raid::planted::Bug::UnlentTables, all);
            // A table that is unread stays, unless its disk is overwritten.
            assert!(planted[..2].iter().all(|both| *both != [0; 2]), "{next:?}: {planted:?}");
        }
    }
}

/// The old disk of a replacement has damaged tables. Later the other member that stores them is
/// gone, and a block has rotted that they cover. Returns the number of wrong blocks.
fn after_a_replacement(fate: Fate) -> usize {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (mut disks, set, written) = begin(&executor, fate, false).await;
        disks[LACKING] = new_disks(&executor, 1).remove(0);
        let new = disks[LACKING].clone();
        set.replace(LACKING, new, [9; 16], |_, _| ()).await.expect("it goes on");
        set.close().await.expect("nothing fails");
        let mut disks = copies(&executor, &disks);
        flip(&disks[OF], set.label().data_start + 4 * BLOCK + 77).await;
        disks.remove(GONE);
        let options = OpenOptions { cache: 0, is_meant: true, ..OpenOptions::default() };
        let set = open(devices(&disks), &executor.runtime(), options).await.expect("enough");
        count(&set, &written).await[1]
    })
}

#[test]
fn a_replacement_does_not_leave_one_copy_of_a_table() {
    assert_eq!(FATES.map(after_a_replacement), [0; 3]);
    #[cfg(feature = "planted-bugs")]
    {
        let planted = || FATES.map(after_a_replacement);
        let wrong = crate::with(raid::planted::Bug::CopiedDamage, planted);
        assert!(wrong[..2].iter().all(|wrong| *wrong > 0), "{wrong:?}");
    }
}

/// A block of a mirror is written while its other half is away, and then the tables of the half
/// that stays have rotted, which the other half has as they were. Returns the number of blocks that
/// are not as written.
fn with_an_older_version() -> usize {
    let executor = Executor::new(1);
    executor.block_on(async {
        let known = || OpenOptions { is_meant: true, ..OpenOptions::default() };
        let (disks, set, mut written) = reopened_set(&executor, (Level::Mirrored, 2), known).await;
        assert_eq!(set.layout().holders(0), [1, 0]);
        set.fail(1).await.expect("the other half is enough");
        written[..BLOCK as usize].fill(7);
        let data = vec![vec![7; BLOCK as usize].into()];
        set.write(0, data, Durability::Through).await.expect("enough");
        set.close().await.expect("nothing fails");
        let ((at, size), disks) = (tables(&set), copies(&executor, &disks));
        flip(&disks[0], at + size + 100).await;
        flip(&disks[0], at + size + BLOCK + 100).await;
        let options = OpenOptions { cache: 0, ..OpenOptions::default() };
        let set = open(devices(&disks), &executor.runtime(), options).await.expect("enough");
        let [_, wrong, unread] = count(&set, &written).await;
        wrong + unread
    })
}

#[test]
fn a_version_that_its_disk_has_missed_is_not_lent() {
    assert_eq!(with_an_older_version(), 0);
    #[cfg(feature = "planted-bugs")]
    assert!(crate::with(raid::planted::Bug::OldTables, with_an_older_version) > 0);
}

/// Whether tables that reads have found missing on a member are written there, though nobody writes
/// to the set.
fn are_written_in_time() -> bool {
    /// Tables of each of the 32 members: together there are more than are kept.
    const EACH: u64 = 34;
    let executor = Executor::new(1);
    executor.block_on(async {
        let (unit, of_table) = (4096, raid::label::SUMS * BLOCK);
        let options = MakeOptions { level: Level::Parity, unit, log: 0 };
        let size = options.member_size(32, EACH * raid::label::SUMS);
        let disks: Vec<Rc<Disk>> =
            (0..32).map(|_| Disk::new(&executor, Image::zeroed(size))).collect();
        make(&devices(&disks), &options, &executor.runtime()).await.expect("there is room");
        let known = || OpenOptions { cache: 0, ..OpenOptions::default() };
        let set = open(devices(&disks), &executor.runtime(), known()).await.expect("it is new");
        let width = set.layout().width() * unit;
        let stripe = |number: u64| number * of_table / unit * width;
        for number in 0..EACH {
            let data = vec![vec![7; width as usize].into()];
            set.write(stripe(number), data, Durability::Plain).await.expect("nothing fails");
        }
        set.close().await.expect("nothing fails");
        let ((at, length), disks) = (tables(&set), copies(&executor, &disks));
        for disk in &disks {
            let zeros = vec![vec![0; length as usize].into()];
            disk.write(at, zeros, Durability::Through).await.expect("nothing fails");
        }
        let set = open(devices(&disks), &executor.runtime(), known()).await.expect("all");
        for number in 0..EACH {
            let read = set.read(stripe(number), Buffer::zeroed(width as usize)).await;
            assert!(read.is_ok_and(|read| read.iter().all(|&byte| byte == 7)));
        }
        executor.runtime().clock.sleep(Duration::from_secs(10)).await;
        let mut first = vec![0; 16];
        disks[1].contents().read(at, &mut first);
        first[8..] == *b"raid sum"
    })
}

#[test]
fn tables_that_reads_have_changed_are_written_before_they_are_too_many() {
    assert!(are_written_in_time());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::UnpressedTables, are_written_in_time));
}

#[test]
fn the_disks_of_a_story_are_as_it_says() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let (_, set, written) = begin(&executor, Fate::Rotten, true).await;
        assert_eq!(set.layout().holders(OF), [LACKING, GONE]);
        assert!(all_of(&set).await == written);
    });
}
