//! Sets that are full of known bytes.

use std::rc::Rc;

use block::{BlockDevice, Durability};
use raid::layout::Level;
use raid::{OpenOptions, Set, make, open};
use sim::{Disk, Executor, Prng};

use crate::losses::{bytes, copies, devices, new_disks, new_set, options, write_in_pieces};

/// A full set of three disks, a fourth disk, and the contents of the set.
pub(crate) async fn full_set(executor: &Executor, level: Level) -> (Vec<Rc<Disk>>, Set, Vec<u8>) {
    let disks = new_disks(executor, 4);
    let set = new_set(executor, &disks[..3], level).await;
    let written = bytes(&set, 5);
    write_in_pieces(&set, &written, &mut Prng::new(5)).await;
    set.flush().await.expect("nothing fails");
    (disks, set, written)
}

/// A full set after a restart, with nothing in memory.
pub(crate) async fn reopened_set(
    executor: &Executor,
    (level, count): (Level, usize),
    known: impl Fn() -> OpenOptions,
) -> (Vec<Rc<Disk>>, Set, Vec<u8>) {
    let disks = new_disks(executor, count);
    make(&devices(&disks), &options(level), &executor.runtime()).await.expect("there is room");
    let open = async |disks: &[Rc<Disk>]| {
        let known = OpenOptions { cache: 0, ..known() };
        open(devices(disks), &executor.runtime(), known).await.expect("all are there")
    };
    let set = open(&disks).await;
    let written = bytes(&set, 5);
    set.write(0, vec![written.clone().into()], Durability::Plain).await.expect("it is new");
    set.close().await.expect("nothing fails");
    let disks = copies(executor, &disks);
    let set = open(&disks).await;
    (disks, set, written)
}
