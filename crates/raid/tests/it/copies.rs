//! The witness of a set: it distinguishes an older copy of a member from the member. A set that
//! cannot write its witness acknowledges nothing, and still stops.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::FutureExt;
use futures::future::pending;
use raid::assembly::Witness;
use raid::label::Standing;
use raid::layout::Level;
use raid::{MakeOptions, OpenOptions, Set, make, open};
use sim::{Choice, Disk, Executor, Fate, Image, Persistence, Sectors};

/// The witness, kept outside of the set.
type Known = Rc<RefCell<Option<Witness>>>;

fn devices(disks: &[Rc<Disk>]) -> Vec<Rc<dyn BlockDevice>> {
    disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect()
}

async fn made(executor: &Executor, count: usize) -> Vec<Rc<Disk>> {
    let disks: Vec<Rc<Disk>> =
        (0..count).map(|_| Disk::new(executor, Image::zeroed(4 << 20))).collect();
    let level = if count == 2 { Level::Mirrored } else { Level::Parity };
    let options = MakeOptions { level, unit: 4096, log: 0 };
    make(&devices(&disks), &options, &executor.runtime()).await.expect("there is room");
    disks
}

/// Opens a set as a server does.
async fn served(executor: &Executor, disks: &[Rc<Disk>], known: &Known) -> Set {
    let keep = known.clone();
    let options = OpenOptions {
        witness: known.borrow().clone(),
        witnessed: Rc::new(move |witness| {
            keep.replace(Some(witness));
            async {}.boxed_local()
        }),
        ..OpenOptions::default()
    };
    open(devices(disks), &executor.runtime(), options).await.expect("there are enough")
}

async fn write(set: &Set, byte: u8) {
    let data = vec![vec![byte; 8 * 4096].into()];
    set.write(0, data, Durability::Through).await.expect("nothing fails");
}

/// Serves a set twice, and the third time with a copy of a member from before the second. Returns
/// whether the later writes are read, whichever member was copied.
fn old_copies_are_not_read(count: usize) -> bool {
    let executor = Executor::new(4);
    (0..count).all(|copied| {
        executor.block_on(async {
            let known = Known::default();
            let copies = |disks: &[Rc<Disk>]| -> Vec<Rc<Disk>> {
                disks.iter().map(|disk| Disk::new(&executor, disk.contents())).collect()
            };
            let first = made(&executor, count).await;
            write(&served(&executor, &first, &known).await, 1).await;
            let second = copies(&first);
            write(&served(&executor, &second, &known).await, 2).await;
            let mut third = copies(&second);
            third[copied] = copies(&first).swap_remove(copied);
            let set = served(&executor, &third, &known).await;
            let is_out = set.label().slots[copied].standing == Standing::Stale;
            let read = set.read(0, Buffer::zeroed(8 * 4096)).await.expect("it can be read");
            is_out && read.iter().all(|&byte| byte == 2)
        })
    })
}

#[test]
fn a_copy_of_a_member_from_before_the_last_start_is_not_read() {
    assert!(old_copies_are_not_read(2));
    assert!(old_copies_are_not_read(4));
}

/// An unreachable witness holds up writes that a member has missed, but not the closing of the set.
#[test]
fn a_set_that_cannot_tell_its_witness_acknowledges_nothing_and_stops() {
    let executor = Executor::new(5);
    executor.block_on(async {
        let disks = made(&executor, 3).await;
        let first = Cell::new(true);
        let witnessed: raid::Witnessed = Rc::new(move |_| {
            let is_first = first.replace(false);
            if is_first { async {}.boxed_local() } else { pending().boxed_local() }
        });
        let options = OpenOptions { witnessed, ..OpenOptions::default() };
        let set = open(devices(&disks), &executor.runtime(), options).await.expect("all there");
        write(&set, 1).await;
        disks[1].fail(Verb::Write, 1, Persistence::Forever);
        let data = vec![vec![2; 8 * 4096].into()];
        let mut late = set.write(0, data, Durability::Through);
        let clock = executor.runtime().clock;
        let waits = futures::future::select(&mut late, clock.sleep(Duration::from_secs(30))).await;
        assert!(matches!(waits, futures::future::Either::Right(_)), "it is not acknowledged");
        let begun = clock.now();
        set.close().await.expect("it ends");
        assert!(clock.now().since(begun) < Duration::from_secs(10));
        late.await.expect_err("it was never acknowledged");
    });
}

/// Overwrites the beginning of a member, or its end. Returns whether the remains of it are read.
fn remains_are_read(count: usize, at: u64, length: usize) -> bool {
    let executor = Executor::new(6);
    executor.block_on(async {
        let known = Known::default();
        let disks = made(&executor, count).await;
        write(&served(&executor, &disks, &known).await, 1).await;
        let left: Vec<Rc<Disk>> =
            disks.iter().map(|disk| Disk::new(&executor, disk.contents())).collect();
        let over = left[1].write(at, vec![vec![0xdd; length].into()], Durability::Through);
        over.await.expect("nothing fails");
        let set = served(&executor, &left, &known).await;
        let read = set.read(0, Buffer::zeroed(8 * 4096)).await.expect("it can be read");
        let is_right = read.iter().all(|&byte| byte == 1);
        assert!(is_right || length > 4096, "the data is there");
        set.label().slots[1].standing == Standing::InSync || !is_right
    })
}

#[test]
fn what_is_left_of_a_member_that_was_written_over_is_not_read() {
    for count in [2, 4] {
        assert!(!remains_are_read(count, 0, 2 << 20), "its beginning, of {count}");
        assert!(!remains_are_read(count, (4 << 20) - (64 << 10), 4096), "its end, of {count}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn what_is_no_member_any_more_is_seen_when_it_is_read() {
    use raid::planted::{Bug, plant};

    for count in [2, 4] {
        plant(Some(Bug::OldCopies));
        let is_seen = std::panic::catch_unwind(|| !old_copies_are_not_read(count));
        plant(Some(Bug::Remains));
        let are_read = std::panic::catch_unwind(|| remains_are_read(count, 0, 2 << 20));
        plant(None);
        assert!(is_seen.unwrap_or(true) && are_read.unwrap_or(true), "with {count}");
    }
}

/// A cut tears a copy of a member's label, a cut during recovery tears the label write there, and
/// another member is lost as well. Checks that each such set opens and has its contents.
fn labels_torn_twice(count: usize, copy: usize) -> Result<(), String> {
    let executor = Executor::new(9);
    let known = Known::default();
    let (disks, witness) = executor.block_on(async {
        let disks = made(&executor, count).await;
        write(&served(&executor, &disks, &known).await, 1).await;
        let witness = known.borrow().clone();
        let at = raid::label::places(4 << 20)[copy] + 512;
        let torn = disks[0].write(at, vec![vec![0xdd; 512].into()], Durability::Through);
        torn.await.expect("nothing fails");
        disks.iter().for_each(|disk| disk.start_trace());
        served(&executor, &disks, &known).await;
        (disks, witness)
    });
    let traces: Vec<_> = disks.iter().map(|disk| disk.trace()).collect();
    let last = traces.iter().flat_map(|trace| trace.events()).map(|event| event.serial).max();
    for serial in 0..=last.unwrap_or_default() + 1 {
        let executor = Executor::new(serial);
        let left = traces.iter().enumerate().filter(|(slot, _)| *slot != 1).map(|(slot, trace)| {
            let platter = trace.platter_at(trace.position_of(serial));
            let fates = platter.pending().map(|written| match written.data.len() / 512 {
                sectors if slot == 0 && sectors > 1 => Fate::Torn(Sectors::first(1, sectors)),
                _ => Fate::Whole,
            });
            Disk::new(&executor, platter.image(&Choice::new(fates.collect())))
        });
        let left: Vec<Rc<Disk>> = left.collect();
        let opened = executor.block_on(async {
            let options = OpenOptions { witness: witness.clone(), ..OpenOptions::default() };
            let set = open(devices(&left), &executor.runtime(), options).await;
            let set = set.map_err(|error| error.to_string())?;
            let read = set.read(0, Buffer::zeroed(8 * 4096)).await;
            let read = read.map_err(|error| error.to_string())?;
            if read.iter().all(|&byte| byte == 1) { Ok(()) } else { Err("it shows others".into()) }
        });
        opened.map_err(|wrong: String| format!("before event {serial}: {wrong}"))?;
    }
    Ok(())
}

#[test]
fn a_label_that_is_torn_again_has_a_copy_left() {
    for count in [3, 4] {
        assert_eq!([0, 1].map(|copy| labels_torn_twice(count, copy)), [Ok(()), Ok(())], "{count}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_label_that_is_written_over_the_copy_that_holds_is_found() {
    raid::planted::plant(Some(raid::planted::Bug::SameCopies));
    let found = [0, 1].map(|copy| labels_torn_twice(3, copy).is_err());
    raid::planted::plant(None);
    assert!(found[0] || found[1], "it is not found");
}
