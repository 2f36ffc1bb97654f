//! Starts that are refused leave a missing member as it was.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::FutureExt;
use raid::assembly::{Refused, Witness};
use raid::label::{DATA_START, Standing};
use raid::layout::Level;
use raid::{OpenError, OpenOptions, Set, make, open};
use sim::{Disk, Effect, Executor, Fault};

use crate::losses::{all_of, bytes, copies, devices, new_disks, options};

/// The member that is absent, and one that has rotted.
const ABSENT: usize = 1;
const ROTTEN: usize = 0;

/// Flips a bit of a disk.
pub(crate) async fn flip(disk: &Disk, at: u64) {
    let start = at / 512 * 512;
    let read = disk.read(start, Buffer::zeroed(512)).await.expect("it can be read");
    let mut sector = read.to_vec();
    sector[(at - start) as usize] ^= 4;
    let written = disk.write(start, vec![sector.into()], Durability::Through);
    written.await.expect("nothing fails");
}

/// Numbers and offsets of the records in the log of a disk.
pub(crate) fn records(disk: &Disk) -> BTreeSet<(u64, u64)> {
    let image = disk.contents();
    let begins = |at: u64| {
        let mut head = [0; 40];
        image.read(at, &mut head);
        let number = u64::from_le_bytes(head[32..].try_into().expect("eight bytes"));
        (head[..8] == raid::record::MAGIC).then_some((number, at))
    };
    (DATA_START..2 * DATA_START).step_by(4096).filter_map(begins).collect()
}

/// A witness that outlives starts.
#[derive(Clone, Default)]
struct Folder(Rc<RefCell<Option<Witness>>>);

impl Folder {
    async fn open(&self, executor: &Executor, disks: &[Rc<Disk>]) -> Result<Set, OpenError> {
        let kept = self.0.clone();
        let witnessed = Rc::new(move |witness: Witness| {
            *kept.borrow_mut() = Some(witness);
            std::future::ready(()).boxed_local()
        });
        let witness = self.0.borrow().clone();
        let known = OpenOptions { witness, witnessed, ..OpenOptions::default() };
        open(devices(disks), &executor.runtime(), known).await
    }

    /// A new set of this level that holds these bytes, durably.
    async fn filled(
        &self,
        executor: &Executor,
        disks: &[Rc<Disk>],
        level: Level,
    ) -> (Set, Vec<u8>) {
        make(&devices(disks), &options(level), &executor.runtime()).await.expect("there is room");
        let set = self.open(executor, disks).await.expect("it is new");
        let written = bytes(&set, 5);
        let data = vec![written.clone().into()];
        set.write(0, data, Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        (set, written)
    }
}

/// A mirror is cut after two writes, a bit rots in the first record of one half, and a start
/// without the other half is refused. Returns whether the next start has both, and all bytes.
fn is_whole_after_a_refusal() -> bool {
    let executor = Executor::new(7);
    let disks = new_disks(&executor, 2);
    let folder = Folder::default();
    executor.block_on(async {
        let (set, mut written) = folder.filled(&executor, &disks, Level::Mirrored).await;
        let before = records(&disks[ROTTEN]);
        for at in [0, 8192] {
            written[at..][..4096].fill(7);
            let data = vec![vec![7; 4096].into()];
            set.write(at as u64, data, Durability::Through).await.expect("nothing fails");
        }
        let disks = copies(&executor, &disks);
        let mut new = records(&disks[ROTTEN]).into_iter().filter(|it| !before.contains(it));
        let (Some((_, first)), Some(_)) = (new.next(), new.next()) else {
            panic!("each write has a record")
        };
        flip(&disks[ROTTEN], first + 100).await;
        let alone = folder.open(&executor, &disks[ROTTEN..=ROTTEN]).await;
        assert!(matches!(alone, Err(OpenError::Hole(_))), "{:?}", alone.map(|set| set.label()));
        let Ok(set) = folder.open(&executor, &disks).await else { return false };
        let is_in = set.label().slots[ABSENT].standing == Standing::InSync;
        is_in && all_of(&set).await == written
    })
}

/// Opens some disks of a set, writes, and stops; returns a copy of each disk at that time.
async fn served(
    executor: &Executor,
    opening: impl Future<Output = Result<Set, OpenError>>,
    disks: &[Rc<Disk>],
    byte: u8,
) -> Vec<Rc<Disk>> {
    let set = opening.await.expect("it may be opened");
    let data = vec![vec![byte; 4096].into()];
    set.write(0, data, Durability::Through).await.expect("nothing fails");
    set.close().await.expect("nothing fails");
    copies(executor, disks)
}

/// Both halves of a mirror are used without the other one, the second because a person says so.
/// Returns the outcome of a start with both, and of one with that half alone. The first use may be
/// cut before anything is acknowledged.
fn used_apart(is_cut: bool) -> (Result<(), OpenError>, bool) {
    let executor = Executor::new(9);
    let disks = new_disks(&executor, 2);
    let folder = Folder::default();
    executor.block_on(async {
        let level = options(Level::Mirrored);
        make(&devices(&disks), &level, &executor.runtime()).await.expect("there is room");
        let disks = served(&executor, folder.open(&executor, &disks), &disks, 1).await;
        let before = folder.0.borrow().clone();
        let alone = folder.open(&executor, &disks[..1]);
        let disks = served(&executor, alone, &disks, 2).await;
        if is_cut {
            folder.0.replace(before); // only its labels are written
        }
        let known = || {
            let (kept, witness) = (folder.0.clone(), folder.0.borrow().clone());
            let witnessed = Rc::new(move |witness: Witness| {
                *kept.borrow_mut() = Some(witness);
                std::future::ready(()).boxed_local()
            });
            OpenOptions { witness, witnessed, is_meant: !is_cut, ..OpenOptions::default() }
        };
        let (runtime, other) = (executor.runtime(), devices(&disks[1..]));
        let disks = served(&executor, open(other, &runtime, known()), &disks, 3).await;
        let alone = copies(&executor, &disks);
        let aside = Folder(Rc::new(RefCell::new(folder.0.borrow().clone())));
        let alone = aside.open(&executor, &alone[1..]).await;
        let reads = alone.is_ok_and(|set| set.label().slots[1].standing == Standing::InSync);
        let both = folder.open(&executor, &copies(&executor, &disks)).await;
        (both.map(drop), reads)
    })
}

#[test]
fn of_halves_that_were_used_apart_by_force_none_is_given_up() {
    let (both, is_there) = used_apart(false);
    assert!(matches!(both, Err(OpenError::Refused(Refused::Apart(..)))), "{both:?}");
    assert!(is_there, "one alone goes on");
    assert_eq!(used_apart(true), (Ok(()), true), "what a cut interrupted is no reason");
    #[cfg(feature = "planted-bugs")]
    {
        let (both, _) = crate::with(raid::planted::Bug::GivenUpUnasked, || used_apart(false));
        assert_eq!(both, Ok(()), "the bug is seen");
    }
}

#[test]
fn a_start_that_is_refused_calls_nobody_out() {
    assert!(is_whole_after_a_refusal());
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::HastyVerdicts, is_whole_after_a_refusal));
}

/// RAID-5 of three: one member is away for a start, in which a block may be written; then another
/// one dies. Returns whether the two remaining ones hold their contents, if they may be opened, and
/// the state of each member.
fn after_an_idle_start(
    is_idle: bool,
    is_flushed: bool,
) -> Result<(bool, Vec<Standing>), OpenError> {
    let executor = Executor::new(11);
    let disks = new_disks(&executor, 3);
    let folder = Folder::default();
    executor.block_on(async {
        let (set, mut expected) = folder.filled(&executor, &disks, Level::Parity).await;
        set.close().await.expect("nothing fails");
        let disks = copies(&executor, &disks);
        let set = folder.open(&executor, &disks[1..]).await.expect("two are enough");
        if !is_idle {
            expected[..4096].fill(8); // on the absent member
            let data = vec![vec![8; 4096].into()];
            set.write(0, data, Durability::Through).await.expect("two are enough");
        }
        if is_flushed {
            set.close().await.expect("nothing fails");
        }
        let disks = copies(&executor, &disks);
        let rest = [disks[0].clone(), disks[2].clone()];
        let set = folder.open(&executor, &rest).await?;
        let room = Buffer::zeroed(expected.len());
        let holds = set.read(0, room).await.is_ok_and(|read| read[..] == expected[..]);
        let standing = set.label().slots.iter().map(|slot| slot.standing).collect();
        set.close().await.expect("nothing fails");
        let again = folder.open(&executor, &copies(&executor, &rest)).await?;
        Ok((holds && all_of(&again).await == expected, standing))
    })
}

#[test]
fn a_member_that_was_away_and_missed_nothing_stands_in_for_one_that_dies() {
    let are_in = vec![Standing::InSync, Standing::Stale, Standing::InSync];
    let too_few = |opened: Result<_, OpenError>| {
        matches!(opened, Err(OpenError::Refused(Refused::TooFew { found: 1, .. })))
    };
    for is_flushed in [true, false] {
        assert_eq!(after_an_idle_start(true, is_flushed), Ok((true, are_in.clone())));
        assert!(too_few(after_an_idle_start(false, is_flushed)), "it lacks a block");
    }
    #[cfg(feature = "planted-bugs")]
    {
        let bug = raid::planted::Bug::EarlyPardons;
        let opened = crate::with(bug, || after_an_idle_start(false, true));
        assert_ne!(opened, Ok((true, are_in)), "the bug is seen");
        assert!(!too_few(opened));
    }
}

/// The label writes of such a readmission are cut at each of them: the next start works all the
/// same.
#[test]
fn a_return_of_such_a_member_may_be_cut_anywhere() {
    let executor = Executor::new(12);
    let disks = new_disks(&executor, 3);
    let folder = Folder::default();
    executor.block_on(async {
        let (set, expected) = folder.filled(&executor, &disks, Level::Parity).await;
        set.close().await.expect("nothing fails");
        let disks = copies(&executor, &disks);
        let set = folder.open(&executor, &disks[1..]).await.expect("two are enough");
        set.close().await.expect("nothing fails");
        let known = folder.0.borrow().clone();
        for writes in 0..8 {
            let disks = copies(&executor, &[disks[0].clone(), disks[2].clone()]);
            let folder = Folder(Rc::new(RefCell::new(known.clone())));
            // From one of the writes on, no write reaches any disk.
            for disk in &disks {
                disk.inject(Fault::on(Verb::Write, Effect::Lost).nth(1 + writes).forever());
            }
            drop(folder.open(&executor, &disks).await);
            let folder = Folder(Rc::new(RefCell::new(known.clone())));
            let set = folder.open(&executor, &copies(&executor, &disks)).await;
            let set = set.unwrap_or_else(|why| panic!("after {writes} writes: {why}"));
            assert!(all_of(&set).await == expected, "after {writes} writes");
        }
    });
}
