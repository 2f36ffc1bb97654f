//! Members that go and come back: they get everything that they have missed, and little else.

use std::rc::Rc;

use block::{BlockDevice, Durability, Verb};
use futures::future::join;
use raid::label::{Label, Standing};
use raid::layout::Level;
use raid::{Set, label_of, make};
use sim::{Disk, Executor, Persistence, Prng};

use crate::losses::{all_of, bytes, copies, devices, lose, new_disks, new_set, opened, options};

/// The slot of the member that goes.
const GONE: usize = 1;

/// Changes pieces of a set and of its expected contents, in its first half or anywhere; sometimes
/// vacates them before, and sometimes flushes.
async fn scribble(set: &Set, expected: &mut [u8], prng: &mut Prng, writes: u64) {
    let of = prng.between(1, 2) as usize;
    for _ in 0..writes {
        let length = 512 * prng.between(1, 40) as usize;
        let at = 512 * prng.below((expected.len() / of - length) as u64 / 512) as usize;
        prng.fill(&mut expected[at..at + length]);
        if prng.chance(1, 3) {
            set.discard(at as u64, length as u64).await.expect("the others are there");
        }
        let data = vec![expected[at..at + length].to_vec().into()];
        let durability = [Durability::Plain, Durability::Through][prng.index(2)];
        set.write(at as u64, data, durability).await.expect("the others are there");
        if prng.chance(1, 3) {
            set.flush().await.expect("the others are there");
        }
    }
}

/// Opens a set anew from the contents of its disks, as after a kill or after a clean stop.
async fn again(executor: &Executor, set: Set, disks: &mut Vec<Rc<Disk>>, is_closed: bool) -> Set {
    set.flush().await.expect("the others are there");
    if is_closed {
        set.close().await.expect("the others are there");
    }
    drop(set);
    *disks = copies(executor, disks);
    opened(executor, disks).await.expect("enough are there")
}

fn member_of(set: &Set) -> [u8; 16] {
    set.label().slots[GONE].member
}

/// The first violation in a set that should hold these bytes on whole members, if any.
async fn judge(
    executor: &Executor,
    set: &Set,
    disks: &[Rc<Disk>],
    expected: &[u8],
) -> Result<(), String> {
    if set.label().slots[GONE].standing != Standing::InSync {
        return Err("it is not in".to_owned());
    }
    if all_of(set).await != expected {
        return Err("it holds something else".to_owned());
    }
    set.flush().await.expect("nothing fails");
    let found = set.scrub(|_, _, _| ()).await.expect("nothing fails");
    if found.mended > 0 || !found.lost.is_empty() || found.unknown > 0 {
        return Err(format!("{found:?}"));
    }
    for lost in 0..disks.len() {
        let mut rest = copies(executor, disks);
        rest.remove(lost);
        let options = raid::OpenOptions { is_meant: true, ..Default::default() };
        let set = raid::open(devices(&rest), &executor.runtime(), options).await.expect("enough");
        if all_of(&set).await != expected {
            return Err(format!("without {lost} it holds something else"));
        }
    }
    Ok(())
}

/// A member goes in some way, the set is used and reopened, and the member comes back meanwhile.
fn goes_and_comes(level: Level, count: usize, seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let mut disks = new_disks(&executor, count);
    let mut prng = Prng::new(seed);
    executor.block_on(async {
        let mut set = new_set(&executor, &disks, level).await;
        let mut expected = bytes(&set, seed);
        let half = expected.len() / 2 / 512 * 512;
        expected[half..].fill(0); // new stripes are also written while it is away
        let data = vec![expected[..half].to_vec().into()];
        set.write(0, data, Durability::Plain).await.expect("nothing fails");
        scribble(&set, &mut expected, &mut prng, 4).await;
        match prng.below(3) {
            0 => lose(&set, &disks, GONE).await,
            1 => disks[GONE].fail(Verb::Write, prng.between(1, 5), Persistence::Forever),
            _ => disks[GONE].fail(Verb::Flush, prng.between(1, 3), Persistence::Forever),
        }
        for _ in 0..prng.between(1, 4) {
            let writes = prng.between(1, 12);
            scribble(&set, &mut expected, &mut prng, writes).await;
            if prng.chance(1, 2) {
                let is_closed = prng.chance(1, 2);
                set = again(&executor, set, &mut disks, is_closed).await;
            }
        }
        set.flush().await.expect("the others are there");
        if set.label().slots[GONE].standing == Standing::InSync {
            return Ok(()); // its fault has not occurred
        }
        disks[GONE].heal();
        if prng.chance(1, 3) {
            // It goes once more before it has caught up.
            disks[GONE].fail(Verb::Write, prng.between(2, 60), Persistence::Forever);
            let _ = set.rebuild(GONE, disks[GONE].clone(), member_of(&set), |_, _| ()).await;
            disks[GONE].heal();
            scribble(&set, &mut expected, &mut prng, 3).await;
            set = again(&executor, set, &mut disks, false).await;
        }
        if set.label().slots[GONE].standing != Standing::InSync {
            let back = set.rebuild(GONE, disks[GONE].clone(), member_of(&set), |_, _| ());
            let (back, ()) = join(back, scribble(&set, &mut expected, &mut prng, 6)).await;
            back.map_err(|error| error.to_string())?;
        }
        scribble(&set, &mut expected, &mut prng, 3).await;
        judge(&executor, &set, &disks, &expected).await
    })
}

fn all_go_and_come(seeds: u64) -> Result<(), String> {
    for seed in 0..seeds {
        for (level, count) in [(Level::Parity, 3), (Level::Mirrored, 2), (Level::Mirrored, 3)] {
            goes_and_comes(level, count, seed)
                .map_err(|wrong| format!("{level} of {count}, seed {seed}: {wrong}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_member_that_comes_back_has_all_that_it_missed() {
    assert_eq!(all_go_and_come(16), Ok(()));
}

/// Bytes read from the others when a member that has missed one write comes back, or when another
/// disk replaces it.
fn bytes_read(level: Level, count: usize, is_another: bool, is_restarted: bool) -> u64 {
    let executor = Executor::new(5);
    let mut disks = new_disks(&executor, count);
    executor.block_on(async {
        let mut set = new_set(&executor, &disks, level).await;
        let written = bytes(&set, 1);
        set.write(0, vec![written.into()], Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        lose(&set, &disks, GONE).await;
        let data = vec![vec![7; 4096].into()];
        set.write(64 << 10, data, Durability::Plain).await.expect("nothing fails");
        if is_restarted {
            set = again(&executor, set, &mut disks, true).await;
        }
        let count = |disks: &[Rc<Disk>]| -> u64 {
            disks.iter().map(|disk| disk.counters().bytes_read).sum()
        };
        let before = count(&disks);
        let another = || (new_disks(&executor, 1).remove(0), [9; 16]);
        let back = || (disks[GONE].clone(), member_of(&set));
        let (disk, member) = if is_another { another() } else { back() };
        set.rebuild(GONE, disk, member, |_, _| ()).await.expect("nothing fails");
        count(&disks) - before
    })
}

#[test]
fn a_member_that_comes_back_gets_little_else() {
    for (level, count) in [(Level::Parity, 4), (Level::Mirrored, 2)] {
        for is_restarted in [false, true] {
            let [back, another] =
                [false, true].map(|another| bytes_read(level, count, another, is_restarted));
            println!("{level}, {is_restarted}: {back} bytes, and {another} for another disk");
            assert!(back * 10 < another, "{level}, restarted: {is_restarted}");
        }
    }
}

/// A copy of a member from before others went and came back, in the member's place.
fn a_copy_from_long_ago_gets_everything() -> Result<(), String> {
    let executor = Executor::new(6);
    let disks = new_disks(&executor, 3);
    executor.block_on(async {
        make(&devices(&disks), &options(Level::Parity), &executor.runtime()).await.expect("room");
        let set = opened(&executor, &disks).await.expect("it is new");
        let mut expected = bytes(&set, 1);
        let all = |bytes: &[u8]| vec![bytes.to_vec().into()];
        set.write(0, all(&expected), Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        let copy = Disk::new(&executor, disks[GONE].contents());
        lose(&set, &disks, 2).await;
        let other = set.label().slots[2].member;
        set.rebuild(2, disks[2].clone(), other, |_, _| ()).await.expect("nothing fails");
        expected = bytes(&set, 2);
        set.write(0, all(&expected), Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        let whole = async |disk: &Rc<Disk>| -> Label { label_of(&**disk).await.expect("it has") };
        assert!(whole(&copy).await.whole < whole(&disks[GONE]).await.whole);
        lose(&set, &disks, GONE).await;
        let member = member_of(&set);
        set.rebuild(GONE, copy.clone(), member, |_, _| ()).await.expect("nothing fails");
        judge(&executor, &set, &[disks[0].clone(), copy, disks[2].clone()], &expected).await
    })
}

#[test]
fn a_copy_from_before_is_no_member_that_comes_back() {
    assert_eq!(a_copy_from_long_ago_gets_everything(), Ok(()));
}

/// A member fails after its data was flushed and before its checksums were written in place. It is
/// back after a start, and then the other member with these tables is lost. Returns whether all
/// data can be read.
fn checksums_are_missed_like_data(level: Level, count: usize) -> bool {
    let executor = Executor::new(7);
    let mut disks: Vec<Rc<Disk>> =
        (0..count).map(|_| Disk::new(&executor, sim::Image::zeroed(48 << 20))).collect();
    executor.block_on(async {
        let set = new_set(&executor, &disks, level).await;
        let mut expected = bytes(&set, 1);
        let data = vec![expected.clone().into()];
        set.write(0, data, Durability::Plain).await.expect("nothing fails");
        let set = again(&executor, set, &mut disks, true).await;
        // These blocks have another table than the next write.
        expected[..4096].fill(3);
        let data = vec![vec![3; 4096].into()];
        set.write(0, data.clone(), Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        lose(&set, &disks, GONE).await;
        let far = expected.len() - 4096;
        expected[far..].fill(3);
        set.write(far as u64, data, Durability::Plain).await.expect("the others are there");
        let set = again(&executor, set, &mut disks, true).await;
        let back = set.rebuild(GONE, disks[GONE].clone(), member_of(&set), |_, _| ());
        back.await.expect("nothing fails");
        let set = again(&executor, set, &mut disks, true).await;
        drop(set);
        let mut are_read = true;
        for lost in (0..count).filter(|&slot| slot != GONE) {
            let mut rest = copies(&executor, &disks);
            rest.remove(lost);
            let options = raid::OpenOptions { is_meant: true, ..Default::default() };
            let set = raid::open(devices(&rest), &executor.runtime(), options).await;
            let room = block::Buffer::zeroed(expected.len());
            let read = set.expect("enough are left").read(0, room).await;
            are_read &= read.is_ok_and(|read| read[..] == expected[..]);
        }
        are_read
    })
}

#[test]
fn a_member_that_comes_back_has_the_checksums_that_it_missed() {
    for (level, count) in [(Level::Mirrored, 2), (Level::Parity, 3)] {
        assert!(checksums_are_missed_like_data(level, count), "{level}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn bugs_of_members_that_come_back_are_found() {
    use raid::planted::Bug;

    for bug in [Bug::OldMisses, Bug::UntouchedStripes] {
        let found = crate::with(bug, || all_go_and_come(40));
        assert!(found.is_err(), "{bug:?}");
        println!("{bug:?}: {found:?}");
    }
    let are_read = || checksums_are_missed_like_data(Level::Mirrored, 2);
    assert!(!crate::with(Bug::ForgottenTables, are_read));
    let found = crate::with(Bug::OldReturns, a_copy_from_long_ago_gets_everything);
    assert!(found.is_err());
    println!("{found:?}");
}
