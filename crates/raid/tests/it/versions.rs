//! Members that return wrong bytes with a fitting checksum: the reader knows it, and the set has
//! another version.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use raid::Set;
use raid::layout::Level;
use raid::planted::Bug;
use sim::{Disk, Executor};

use crate::losses::{all_of, bytes, copies, new_disks, new_set, opened};
use crate::with;

const BLOCK: u64 = 4096;
/// Blocks of a member that rot, from the start of its data on.
const ROTTEN: u64 = 40;

/// Disks of a set, one of which has rotted; and their contents.
fn rotten(
    executor: &Executor,
    level: Level,
    count: usize,
    slot: usize,
) -> (Vec<Rc<Disk>>, Vec<u8>) {
    let disks = new_disks(executor, count);
    let (bytes, start) = executor.block_on(async {
        let set = new_set(executor, &disks, level).await;
        let bytes = bytes(&set, 9);
        set.write(0, vec![bytes.clone().into()], Durability::Plain).await.expect("all are there");
        set.flush().await.expect("nothing fails");
        set.close().await.expect("nothing fails");
        (bytes, set.label().data_start)
    });
    let mut image = disks[slot].contents();
    for block in 0..ROTTEN {
        let at = start + block * BLOCK + 7 * block;
        let mut byte = [0];
        image.read(at, &mut byte);
        image.write(at, &[byte[0] ^ 0x20]);
    }
    let mut all = copies(executor, &disks);
    all[slot] = Disk::new(executor, image);
    (all, bytes)
}

/// Repairs pieces of `length` bytes that are not as expected; returns how many were repaired.
async fn mended(set: &Set, expected: &[u8], length: u64) -> usize {
    let mut mended = 0;
    for at in (0..set.geometry().size - length).step_by(length as usize) {
        let right = expected[at as usize..][..length as usize].to_vec();
        let read = set.read(at, Buffer::unfilled(length as usize)).await.expect("all are there");
        if read[..] == right {
            continue;
        }
        let wanted = right.clone();
        let none = set.mend(at, length, Rc::new(|_| false)).await;
        assert!(none.expect("all are there").is_none(), "no version is right");
        let found = set.mend(at, length, Rc::new(move |bytes| bytes == wanted)).await;
        let found = found.expect("all are there").expect("another version is right");
        assert!(found[..] == right);
        mended += 1;
    }
    mended
}

#[test]
fn what_fits_a_checksum_and_is_wrong_is_made_of_the_others() {
    for (level, count) in [(Level::Mirrored, 2), (Level::Mirrored, 3), (Level::Parity, 4)] {
        for slot in 0..count {
            // Within a unit, and across unit boundaries.
            for length in [BLOCK, 5 * BLOCK] {
                with(Bug::UnjudgedReads, || {
                    let executor = Executor::new(3);
                    let (disks, expected) = rotten(&executor, level, count, slot);
                    executor.block_on(async {
                        let set = opened(&executor, &disks).await.expect("all are there");
                        let told = format!("{level}, {slot}, {length}");
                        assert!(mended(&set, &expected, length).await > 0, "{told}");
                        assert_eq!(mended(&set, &expected, length).await, 0, "{told}");
                        assert!(all_of(&set).await == expected, "{told}");
                        assert!(set.status().met[slot].mended > 0, "{told}");
                        set.close().await.expect("nothing fails");
                    });
                });
            }
        }
    }
}

#[test]
fn a_striped_set_has_one_version_of_everything() {
    let executor = Executor::new(4);
    let disks = new_disks(&executor, 2);
    executor.block_on(async {
        let set = new_set(&executor, &disks, Level::Striped).await;
        let mended = set.mend(0, BLOCK, Rc::new(|_| true)).await;
        assert!(mended.expect("all are there").is_none());
        let beyond = set.mend(set.geometry().size, BLOCK, Rc::new(|_| true)).await;
        assert!(beyond.is_err(), "there is nothing");
    });
}
