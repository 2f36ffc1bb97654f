//! Sets whose members return bytes that were never written there.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Verb};
use raid::layout::Level;
use raid::{OpenOptions, Scrubbed, Set, open};
use sim::{Choice, Disk, Effect, Executor, Fault, Image, Prng, Trace};

use crate::losses::{all_of, bytes, copies, devices, new_disks, new_set, opened};

const BLOCK: u64 = 4096;

/// A full set, stopped, and its contents.
fn written(executor: &Executor, level: Level, count: usize) -> (Vec<Rc<Disk>>, Vec<u8>) {
    written_on(executor, level, &new_disks(executor, count))
}

/// A full set on these disks, stopped, and its contents.
fn written_on(executor: &Executor, level: Level, disks: &[Rc<Disk>]) -> (Vec<Rc<Disk>>, Vec<u8>) {
    let bytes = executor.block_on(async {
        let set = new_set(executor, disks, level).await;
        let bytes = bytes(&set, 9);
        set.write(0, vec![bytes.clone().into()], Durability::Plain).await.expect("all are there");
        set.flush().await.expect("nothing fails");
        set.close().await.expect("nothing fails");
        bytes
    });
    (copies(executor, disks), bytes)
}

/// Disks with the same contents, one of which has rotted in these blocks.
pub(crate) fn rotten(
    executor: &Executor,
    disks: &[Rc<Disk>],
    slot: usize,
    blocks: &[u64],
) -> Vec<Rc<Disk>> {
    let mut image = disks[slot].contents();
    for at in blocks {
        let mut block = vec![0; BLOCK as usize];
        image.read(*at, &mut block);
        block[(*at / BLOCK % BLOCK) as usize] ^= 0x10;
        image.write(*at, &block);
    }
    let mut all = copies(executor, disks);
    all[slot] = Disk::new(executor, image);
    all
}

async fn scrubbed(set: &Set) -> Scrubbed {
    set.scrub(|_, _, _| ()).await.expect("enough are there")
}

/// A set with a missing disk.
async fn degraded(executor: &Executor, disks: &[Rc<Disk>]) -> Set {
    let options = OpenOptions { is_meant: true, ..OpenOptions::default() };
    open(devices(disks), &executor.runtime(), options).await.expect("enough are there")
}

fn nothing() -> Scrubbed {
    Scrubbed::default()
}

const LEVELS: [(Level, usize); 3] =
    [(Level::Mirrored, 2), (Level::Mirrored, 3), (Level::Parity, 4)];

#[test]
fn what_has_rotted_is_found_by_a_read_and_mended() {
    for (level, count) in LEVELS {
        let executor = Executor::new(1);
        let (disks, expected) = written(&executor, level, count);
        executor.block_on(async {
            let start = opened(&executor, &disks).await.expect("all").label().data_start;
            let blocks: Vec<u64> = (0..9).map(|number| start + number * BLOCK).collect();
            for slot in 0..count {
                let disks = rotten(&executor, &disks, slot, &blocks);
                let set = opened(&executor, &disks).await.expect("all are there");
                assert!(all_of(&set).await == expected, "{level}, {slot}");
                let by_read = set.status().met[slot];
                let by_scrub = scrubbed(&set).await.mended;
                assert_eq!(by_read.mended + by_scrub, 9, "{level}, {slot}");
                assert_eq!(set.status().met[slot].checksum_errors, 9, "{level}, {slot}");
                assert_eq!(scrubbed(&set).await, nothing(), "{level}, {slot}");
                for lost in 0..count {
                    let mut rest = copies(&executor, &disks);
                    rest.remove(lost);
                    let set = degraded(&executor, &rest).await;
                    assert!(all_of(&set).await == expected, "without {lost}");
                }
            }
        });
    }
}

#[test]
fn a_write_that_a_disk_has_lost_is_found_and_made_again() {
    for (level, count) in LEVELS {
        for slot in 0..count {
            let executor = Executor::new(2);
            let (disks, mut expected) = written(&executor, level, count);
            executor.block_on(async {
                let set = opened(&executor, &disks).await.expect("all are there");
                let start = set.label().data_start;
                let lost = Fault::on(Verb::Write, Effect::Lost).within(start..start + 3 * BLOCK);
                disks[slot].inject(lost.forever());
                let new = vec![7; 6 * BLOCK as usize];
                expected[..new.len()].copy_from_slice(&new);
                set.write(0, vec![new.into()], Durability::Through).await.expect("it says so");
                set.close().await.expect("nothing fails");
                disks[slot].heal();
                let disks = copies(&executor, &disks);
                let set = opened(&executor, &disks).await.expect("all are there");
                assert!(all_of(&set).await == expected, "{level}, {slot}");
                assert_eq!(scrubbed(&set).await.lost, [], "{level}, {slot}");
                assert_eq!(scrubbed(&set).await, nothing(), "{level}, {slot}");
            });
        }
    }
}

/// Byte offset of the checksum tables on each member, and the size of one copy.
pub(crate) fn tables(set: &Set) -> (u64, u64) {
    let layout = set.layout();
    let start = set.label().data_start + layout.rows * layout.unit;
    let size = raid::label::tables_size(layout.rows, layout.unit);
    (start + raid::label::map_size(layout.rows), size)
}

#[test]
fn checksums_that_have_rotted_are_read_of_the_other_copy() {
    for (level, count) in LEVELS {
        let executor = Executor::new(3);
        let (disks, expected) = written(&executor, level, count);
        executor.block_on(async {
            let (at, size) = tables(&opened(&executor, &disks).await.expect("all"));
            for slot in 0..count {
                for copy in [0, size] {
                    let both = [at + copy, at + copy + BLOCK];
                    let disks = rotten(&executor, &disks, slot, &both);
                    let set = opened(&executor, &disks).await.expect("all are there");
                    assert!(all_of(&set).await == expected, "{level}, {slot}");
                    let found = scrubbed(&set).await;
                    assert_eq!((found.unknown, found.lost), (0, vec![]), "the other has it");
                    assert_eq!(set.status().met[slot].mended, 1, "{level}, {slot}");
                    // The member has it again, even if the other goes.
                    let mut rest = copies(&executor, &disks);
                    rest.remove((slot + 1) % count);
                    let set = degraded(&executor, &rest).await;
                    assert_eq!(scrubbed(&set).await, nothing(), "{level}, {slot}");
                }
            }
        });
    }
}

#[test]
fn a_map_that_has_rotted_or_lost_a_write_is_made_of_the_others() {
    for (level, count) in LEVELS {
        let executor = Executor::new(8);
        let (disks, expected) = written(&executor, level, count);
        executor.block_on(async {
            let set = opened(&executor, &disks).await.expect("all are there");
            let layout = set.layout();
            let map = set.label().data_start + layout.rows * layout.unit;
            for slot in 0..count {
                let disks = rotten(&executor, &disks, slot, &[map]);
                let set = opened(&executor, &disks).await.expect("the others have it");
                assert!(all_of(&set).await == expected, "{level}, {slot}");
                set.close().await.expect("nothing fails");
                let mut rest = copies(&executor, &disks);
                rest.remove((slot + 1) % count);
                let set = degraded(&executor, &rest).await;
                assert!(all_of(&set).await == expected, "{level}, {slot}: it has it, too");
            }

            // The first write of a stripe, whose bit one member loses.
            let disks = new_disks(&executor, count);
            let set = new_set(&executor, &disks, level).await;
            let lost = Fault::on(Verb::Write, Effect::Lost).within(map..map + BLOCK);
            disks[0].inject(lost.forever());
            let data = vec![vec![7; BLOCK as usize].into()];
            set.write(0, data, Durability::Through).await.expect("it says so");
            set.close().await.expect("nothing fails");
            let set = opened(&executor, &copies(&executor, &disks)).await.expect("all are there");
            let read = set.read(0, Buffer::zeroed(BLOCK as usize)).await.expect("it is there");
            assert!(read.iter().all(|&byte| byte == 7), "{level}");
        });
    }
}

/// Tables from before the last write, on both members that have them: the writes were lost.
#[test]
fn disks_that_agree_with_each_other_and_with_no_checksum_are_lost() {
    for (level, count) in LEVELS {
        let executor = Executor::new(4);
        let (disks, _) = written(&executor, level, count);
        executor.block_on(async {
            let set = opened(&executor, &disks).await.expect("all are there");
            let (at, size) = tables(&set);
            let before: Vec<_> = disks.iter().map(|disk| disk.contents()).collect();
            let new = vec![8; 2 * BLOCK as usize];
            set.write(0, vec![new.into()], Durability::Through).await.expect("all are there");
            set.close().await.expect("nothing fails");
            // One more start, so that the log does not need the write any more.
            let disks = copies(&executor, &disks);
            opened(&executor, &disks).await.expect("all are there").close().await.expect("fine");
            let old = |(disk, before): (&Rc<Disk>, &Image)| {
                let (mut tables, mut image) = (vec![0; 2 * size as usize], disk.contents());
                before.read(at, &mut tables);
                image.write(at, &tables);
                Disk::new(&executor, image)
            };
            let disks: Vec<Rc<Disk>> = disks.iter().zip(&before).map(old).collect();
            let set = opened(&executor, &disks).await.expect("all are there");
            // On a mirror all copies agree, and so do all tables. With parity two blocks of each
            // column do not fit, data and parity.
            for _ in 0..2 {
                set.read(0, Buffer::zeroed(BLOCK as usize)).await.expect_err("none fits");
                let found = scrubbed(&set).await;
                assert_eq!((found.mended, found.lost), (0, vec![(0, 2 * BLOCK)]), "{level}");
            }
        });
    }
}

#[test]
fn what_two_members_have_lost_costs_those_blocks_until_they_are_written() {
    let executor = Executor::new(5);
    let (disks, mut expected) = written(&executor, Level::Parity, 4);
    executor.block_on(async {
        let start = opened(&executor, &disks).await.expect("all are there").label().data_start;
        // Stripe 2: unit 6 on member 2, 7 on 3, 8 on 0, and parity on 1.
        let at = start + 2 * BLOCK;
        let disks = rotten(&executor, &disks, 2, &[at]);
        let disks = rotten(&executor, &disks, 0, &[at]);
        let set = opened(&executor, &disks).await.expect("all are there");
        assert_eq!(scrubbed(&set).await.lost, [(6 * BLOCK, BLOCK), (8 * BLOCK, BLOCK)]);
        let read = async |set: &Set, unit: u64| {
            let read = set.read(unit * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
            read.map(|bytes| bytes.to_vec()).ok()
        };
        let of = |bytes: &[u8], unit: usize| Some(bytes[unit * 4096..][..4096].to_vec());
        for unit in [5, 7, 9] {
            assert_eq!(read(&set, unit).await, of(&expected, unit as usize), "{unit}");
        }
        let lost_reads = || set.status().done.lost_reads;
        assert_eq!(lost_reads(), 0, "all other blocks are there");
        assert_eq!((read(&set, 6).await, read(&set, 8).await), (None, None), "never wrong bytes");
        assert_eq!(lost_reads(), 2);
        // A write to part of such a block is refused, and the blocks beside it are written.
        let part = set.write(6 * BLOCK, vec![vec![1; 512].into()], Durability::Plain).await;
        part.expect_err("the rest of it is lost");
        let mut write = async |unit: usize, byte: u8| {
            expected[unit * 4096..][..4096].fill(byte);
            let data = vec![vec![byte; BLOCK as usize].into()];
            set.write(unit as u64 * BLOCK, data, Durability::Plain).await.expect("it is whole");
        };
        write(7, 3).await;
        assert_eq!((read(&set, 6).await, read(&set, 8).await), (None, None), "they stay lost");
        write(6, 4).await;
        assert_eq!((read(&set, 6).await, read(&set, 8).await), (of(&[4; 32768], 0), None));
        // Even if the member with the other goes.
        set.flush().await.expect("nothing fails");
        let rest = copies(&executor, &disks[1..]);
        let without = degraded(&executor, &rest).await;
        assert_eq!(read(&without, 8).await, None, "nothing can be made of it");
        let new = new_disks(&executor, 1).remove(0);
        without.rebuild(0, new, [5; 16], |_, _| ()).await.expect("it goes on");
        assert_eq!((read(&without, 6).await, read(&without, 8).await), (of(&[4; 32768], 0), None));
        write(8, 5).await;
        assert!(all_of(&set).await == expected, "all of it is there again");
        scrubbed(&set).await;
        assert_eq!(scrubbed(&set).await, nothing());
        assert_eq!(lost_reads(), 0, "nothing is lost any more");
    });
}

#[test]
fn a_member_is_made_again_also_where_another_has_rotted() {
    let executor = Executor::new(6);
    let (disks, expected) = written(&executor, Level::Parity, 4);
    executor.block_on(async {
        let start = opened(&executor, &disks).await.expect("all are there").label().data_start;
        let mut disks = rotten(&executor, &disks, 2, &[start + 2 * BLOCK]);
        disks[0] = new_disks(&executor, 1).remove(0);
        let set = degraded(&executor, &disks[1..]).await;
        let read = set.read(6 * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
        read.expect_err("nobody can tell it any more");
        set.rebuild(0, disks[0].clone(), [5; 16], |_, _| ()).await.expect("it goes on");
        let lost = [(6 * BLOCK, BLOCK), (8 * BLOCK, BLOCK)];
        assert_eq!(scrubbed(&set).await.lost, lost, "on the new one, too");
        for unit in (0..set.geometry().size / BLOCK).filter(|unit| ![6, 8].contains(unit)) {
            let read = set.read(unit * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
            let expected = &expected[(unit * BLOCK) as usize..][..BLOCK as usize];
            assert!(read.expect("it is there")[..] == *expected, "{unit}");
        }
    });
}

/// Number of blocks without a known checksum after a rebuild: a member stores checksums of others,
/// and so does a rebuilt one.
async fn unknown_after_a_rebuild(executor: &Executor, disks: &[Rc<Disk>]) -> u64 {
    let mut disks = copies(executor, disks);
    let slot = 1;
    disks[slot] = new_disks(executor, 1).remove(0);
    let rest = [&disks[..slot], &disks[slot + 1..]].concat();
    let set = degraded(executor, &rest).await;
    set.rebuild(slot, disks[slot].clone(), [5; 16], |_, _| ()).await.expect("enough are there");
    set.close().await.expect("nothing fails");
    let mut unknown = 0;
    for lost in (0..disks.len()).filter(|&lost| lost != slot) {
        let mut rest = copies(executor, &disks);
        rest.remove(lost);
        let set = degraded(executor, &rest).await;
        unknown += scrubbed(&set).await.unknown;
    }
    unknown
}

#[test]
fn a_new_member_gets_the_checksums_that_it_is_to_hold() {
    for (level, count) in [(Level::Mirrored, 3), (Level::Parity, 4)] {
        let executor = Executor::new(7);
        let (disks, _) = written(&executor, level, count);
        let unknown = || executor.block_on(unknown_after_a_rebuild(&executor, &disks));
        assert_eq!(unknown(), 0, "{level}");
        #[cfg(feature = "planted-bugs")]
        {
            let without = crate::with(raid::planted::Bug::LostTables, unknown);
            assert!(without > 0, "{level}");
        }
    }
}

/// Two blocks of a column are lost, one is rewritten, and the member of the other goes, with both
/// copies of its checksums. Returns the other block as read.
async fn lost_beside_new(executor: &Executor, disks: &[Rc<Disk>]) -> Option<Vec<u8>> {
    let start = opened(executor, disks).await.expect("all are there").label().data_start;
    let disks = rotten(executor, disks, 2, &[start + 2 * BLOCK]);
    let disks = rotten(executor, &disks, 0, &[start + 2 * BLOCK]);
    let set = opened(executor, &disks).await.expect("all are there");
    let data = vec![vec![4; BLOCK as usize].into()];
    set.write(6 * BLOCK, data, Durability::Plain).await.expect("it is whole");
    set.flush().await.expect("nothing fails");
    let (at, size) = tables(&set);
    let disks = rotten(executor, &disks, 1, &[at, at + BLOCK]);
    let disks = rotten(executor, &disks, 2, &[at + size, at + size + BLOCK]);
    let without = degraded(executor, &disks[1..]).await;
    let read = without.read(8 * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
    read.map(|bytes| bytes.to_vec()).ok()
}

#[test]
fn nothing_is_made_of_the_parity_over_what_is_lost() {
    let executor = Executor::new(9);
    let (disks, _) = written(&executor, Level::Parity, 4);
    let read = || executor.block_on(lost_beside_new(&executor, &copies(&executor, &disks)));
    assert_eq!(read(), None);
    #[cfg(feature = "planted-bugs")]
    {
        let made = crate::with(raid::planted::Bug::MadeOfLost, read);
        assert!(made.is_some(), "what is anything passes for what was written");
    }
}

#[test]
fn what_has_no_checksum_is_not_believed_against_what_has_one() {
    for (level, count) in LEVELS {
        let executor = Executor::new(10);
        let (disks, expected) = written(&executor, level, count);
        executor.block_on(async {
            let set = opened(&executor, &disks).await.expect("all are there");
            let (start, (at, size)) = (set.label().data_start, tables(&set));
            // Both copies of slot 0's table are gone, and one of its blocks has rotted.
            let holders = set.layout().holders(0);
            let disks = rotten(&executor, &disks, holders[0], &[at, at + BLOCK]);
            let disks = rotten(&executor, &disks, holders[1], &[at + size, at + size + BLOCK]);
            let disks = rotten(&executor, &disks, 0, &[start]);
            let set = opened(&executor, &disks).await.expect("all are there");
            assert!(scrubbed(&set).await.mended > 0, "{level}");
            assert!(all_of(&set).await == expected, "{level}");
            assert_eq!(scrubbed(&set).await, nothing(), "{level}");
        });
    }
}

#[test]
fn a_disk_that_loses_a_block_and_its_tables_is_never_believed() {
    for (level, count) in LEVELS {
        for slot in 0..count {
            let executor = Executor::new(11);
            let (disks, mut expected) = written(&executor, level, count);
            executor.block_on(async {
                let set = opened(&executor, &disks).await.expect("all are there");
                let (start, (at, size)) = (set.label().data_start, tables(&set));
                for range in [start..start + BLOCK, at..at + 2 * size] {
                    let lost = Fault::on(Verb::Write, Effect::Lost).within(range);
                    disks[slot].inject(lost.forever());
                }
                let new = vec![7; 3 * BLOCK as usize];
                expected[..new.len()].copy_from_slice(&new);
                set.write(0, vec![new.into()], Durability::Through).await.expect("it says so");
                set.close().await.expect("nothing fails");
                disks[slot].heal();
                let disks = copies(&executor, &disks);
                let set = opened(&executor, &disks).await.expect("all are there");
                // The member's tables fit its blocks, and both are old.
                assert!(all_of(&set).await == expected, "{level}, {slot}");
                assert_eq!(scrubbed(&set).await.lost, [], "{level}, {slot}");
                assert_eq!(scrubbed(&set).await, nothing(), "{level}, {slot}");
            });
        }
    }
}

/// Whether a cut while tables are written in place, with any one member lost, can leave a block
/// whose checksum is unknown or wrong.
fn is_spoilt_by_a_cut(level: Level, count: usize) -> bool {
    let executor = Executor::new(12);
    let small = |_| Disk::new(&executor, Image::from_bytes(&vec![0xee; 2 << 20]));
    let (mut disks, _) = written_on(&executor, level, &(0..count).map(small).collect::<Vec<_>>());
    executor.block_on(async {
        for turn in 1..=2 {
            disks = copies(&executor, &disks);
            let set = opened(&executor, &disks).await.expect("all are there");
            // Checksums far apart, so that a torn table is neither old nor new.
            for at in [turn * BLOCK, set.geometry().size - turn * BLOCK] {
                let data = vec![vec![7; BLOCK as usize].into()];
                set.write(at, data, Durability::Plain).await.expect("all are there");
            }
            set.flush().await.expect("nothing fails");
            disks.iter().for_each(|disk| disk.start_trace());
            set.close().await.expect("nothing fails");
        }
    });
    let traces: Vec<Trace> = disks.iter().map(|disk| disk.trace()).collect();
    let events = traces.iter().flat_map(|trace| trace.events());
    let serials: BTreeSet<u64> = events.map(|event| event.serial).collect();
    let mut prng = Prng::new(13);
    let draws = |serial| (0..2 * count).map(move |draw| (serial, draw % count));
    serials.into_iter().flat_map(draws).any(|(serial, lost)| {
        let left = traces.iter().enumerate().filter(|(slot, _)| *slot != lost);
        let left = left.map(|(_, trace)| {
            let platter = trace.platter_at(trace.position_of(serial));
            Disk::new(&executor, platter.image(&Choice::random(&platter, &mut prng)))
        });
        let left: Vec<Rc<Disk>> = left.collect();
        executor.block_on(async {
            let found = scrubbed(&degraded(&executor, &left).await).await;
            found.unknown + found.mended > 0 || !found.lost.is_empty()
        })
    })
}

#[test]
fn a_cut_while_checksums_go_home_costs_none_of_them() {
    for (level, count) in [(Level::Mirrored, 2), (Level::Parity, 3)] {
        assert!(!is_spoilt_by_a_cut(level, count), "{level}");
        #[cfg(feature = "planted-bugs")]
        {
            let bug = raid::planted::Bug::OnePlace;
            assert!(crate::with(bug, || is_spoilt_by_a_cut(level, count)), "{level}");
        }
    }
}

/// A block rots that is on one mirror only, and then each member is rebuilt from the other. Returns
/// the ranges that a scrub then calls lost, and the block as read.
async fn lost_on_all(
    executor: &Executor,
    disks: &[Rc<Disk>],
) -> (Vec<(u64, u64)>, Option<Vec<u8>>) {
    let start = opened(executor, disks).await.expect("all are there").label().data_start;
    let mut disks = rotten(executor, disks, 0, &[start]);
    for slot in [1, 0] {
        let rest: Vec<Rc<Disk>> = copies(executor, &disks[1 - slot..2 - slot]);
        let set = degraded(executor, &rest).await;
        let new = new_disks(executor, 1).remove(0);
        let member = [5 + slot as u8; 16];
        set.rebuild(slot, new.clone(), member, |_, _| ()).await.expect("it goes on");
        set.close().await.expect("nothing fails");
        (disks[slot], disks[1 - slot]) = (new, rest[0].clone());
    }
    let set = opened(executor, &copies(executor, &disks)).await.expect("all are there");
    let lost = scrubbed(&set).await.lost;
    let read = set.read(0, Buffer::zeroed(BLOCK as usize)).await;
    (lost, read.map(|bytes| bytes.to_vec()).ok())
}

#[test]
fn what_all_members_were_told_is_lost_is_nothing_that_they_agree_upon() {
    let executor = Executor::new(14);
    let (disks, _) = written(&executor, Level::Mirrored, 2);
    let read = || executor.block_on(lost_on_all(&executor, &copies(&executor, &disks)));
    assert_eq!(read(), (vec![(0, BLOCK)], None));
}

/// Writes all of a block whose member is out, in a column in which another block has rotted.
/// Returns whether that is acknowledged.
async fn write_nowhere(executor: &Executor, disks: &[Rc<Disk>]) -> bool {
    let start = opened(executor, disks).await.expect("all are there").label().data_start;
    // Stripe 2: unit 6 on member 2, 7 on 3, 8 on 0, and parity on 1.
    let disks = rotten(executor, disks, 2, &[start + 2 * BLOCK]);
    let set = degraded(executor, &disks[1..]).await;
    let data = vec![vec![3; BLOCK as usize].into()];
    let written = set.write(8 * BLOCK, data.clone(), Durability::Through).await;
    // Together with the rotten one, everything in the column is new.
    set.write(6 * BLOCK, [data.clone(), data.clone(), data].concat(), Durability::Through)
        .await
        .expect("all of the column is new");
    let read = set.read(8 * BLOCK, Buffer::zeroed(BLOCK as usize)).await.expect("it can be made");
    assert!(read.iter().all(|&byte| byte == 3));
    written.is_ok()
}

#[test]
fn what_would_be_nowhere_is_not_acknowledged() {
    let executor = Executor::new(15);
    let (disks, _) = written(&executor, Level::Parity, 4);
    let is_acknowledged =
        || executor.block_on(write_nowhere(&executor, &copies(&executor, &disks)));
    assert!(!is_acknowledged());
    #[cfg(feature = "planted-bugs")]
    {
        let is_acknowledged = crate::with(raid::planted::Bug::WrittenNowhere, is_acknowledged);
        assert!(is_acknowledged);
    }
}

/// The same bytes are erased from all copies of a mirror, as by a trim. Returns the block as read,
/// and the numbers that a scrub repairs and loses.
fn punched(executor: &Executor, disks: &[Rc<Disk>]) -> (Option<Vec<u8>>, u64, Vec<(u64, u64)>) {
    executor.block_on(async {
        let start = opened(executor, disks).await.expect("all are there").label().data_start;
        let hole = |disk: &Rc<Disk>| {
            let mut image = disk.contents();
            image.write(start, &vec![0; 8 * BLOCK as usize]);
            Disk::new(executor, image)
        };
        let set = opened(executor, &disks.iter().map(hole).collect::<Vec<_>>()).await;
        let set = set.expect("all are there");
        let read = set.read(0, Buffer::zeroed(BLOCK as usize)).await;
        let found = scrubbed(&set).await;
        (read.ok().map(|bytes| bytes.to_vec()), found.mended, found.lost)
    })
}

#[test]
fn copies_that_are_wrong_in_the_same_way_are_lost_and_not_mended() {
    for count in [2, 3] {
        let executor = Executor::new(16);
        let (disks, _) = written(&executor, Level::Mirrored, count);
        let punched = || punched(&executor, &copies(&executor, &disks));
        assert_eq!(punched(), (None, 0, vec![(0, 8 * BLOCK)]), "of {count}");
        #[cfg(feature = "planted-bugs")]
        {
            let (read, ..) = crate::with(raid::planted::Bug::AgreedLosses, punched);
            assert_eq!(read, Some(vec![0; BLOCK as usize]), "zeros pass for what was written");
        }
    }
}
