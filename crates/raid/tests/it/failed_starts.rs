//! Starts that are refused: they leave a member that was missing as it was.

use std::cell::RefCell;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use futures::FutureExt;
use raid::assembly::{Refused, Witness};
use raid::label::{MAP_BLOCK, Standing};
use raid::layout::Level;
use raid::{OpenError, OpenOptions, Set, make, open};
use sim::{Disk, Executor};

use crate::losses::{all_of, bytes, copies, devices, new_disks, options};

/// The member that is absent, and one that has rotted.
const ABSENT: usize = 1;
const ROTTEN: usize = 0;

/// Flips a bit of a disk.
async fn flip(disk: &Disk, at: u64) {
    let start = at / 512 * 512;
    let read = disk.read(start, Buffer::zeroed(512)).await.expect("it can be read");
    let mut sector = read.to_vec();
    sector[(at - start) as usize] ^= 4;
    let written = disk.write(start, vec![sector.into()], Durability::Through);
    written.await.expect("nothing fails");
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
}

/// A mirror with bytes on it, one rotten bit in the map of one half, and a start without the other.
/// Whether the next start has both, and all bytes.
fn is_whole_after_a_refusal() -> bool {
    let executor = Executor::new(7);
    let disks = new_disks(&executor, 2);
    let folder = Folder::default();
    executor.block_on(async {
        let level = options(Level::Mirrored);
        make(&devices(&disks), &level, &executor.runtime()).await.expect("there is room");
        let set = folder.open(&executor, &disks).await.expect("it is new");
        let written = bytes(&set, 3);
        let data = vec![written.clone().into()];
        set.write(0, data, Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        let label = set.label();
        set.close().await.expect("nothing fails");
        let disks = copies(&executor, &disks);
        let map = label.data_start + label.layout.rows * label.layout.unit;
        flip(&disks[ROTTEN], map + MAP_BLOCK / 2).await;
        let alone = folder.open(&executor, &disks[ROTTEN..=ROTTEN]).await;
        assert!(matches!(alone, Err(OpenError::Map(0))), "{:?}", alone.map(|set| set.label()));
        let Ok(set) = folder.open(&executor, &disks).await else { return false };
        let is_in = set.label().slots[ABSENT].standing == Standing::InSync;
        is_in && all_of(&set).await == written
    })
}

/// Opens some disks of a set, writes, and goes; a copy of each disk as it is then.
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
/// What becomes of a start with both, and of one with that half alone. The first may be cut before
/// anything is acknowledged.
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
            folder.0.replace(before); // its labels alone are written
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
