//! Membership of a log, and its two slots while volumes start and stop sharing it.

use block::{BlockDevice, Buffer, Durability};
use journal::format::{Line, SLOTS, SMALLEST, Slot, State, UNIT};
use journal::{Journal, ReadOnce, belongs, close, close_one, epochs, find, forget, peek};
use sim::Image;

use crate::common::{EPOCH, VOLUME, World, draft};

/// The two slots.
fn slots(world: &World) -> [Option<Slot>; 2] {
    SLOTS.map(|offset| Slot::read(&world.bytes(offset, UNIT)))
}

/// The numbers and epochs of the two slots.
fn numbers(world: &World) -> [Option<(u64, u64)>; 2] {
    slots(world).map(|slot| slot.map(|slot| (slot.number.get(), slot.epoch.get())))
}

/// The epoch and the number with which a volume belongs to the log.
fn belonging(world: &World, volume: u64, epoch: u64) -> Option<(u64, u16)> {
    let found = world.run(belongs(&*world.disk, volume, epoch)).expect("readable");
    found.map(|(slot, number)| (slot.epoch.get(), number))
}

#[test]
fn each_slot_is_written_to_the_place_of_the_other() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    assert_eq!(numbers(&world), [Some((1, EPOCH)), None]);
    for (number, place) in (2..6).zip([1, 0, 1, 0]) {
        world.run(journal.note_head(0)).expect("healthy");
        assert_eq!(numbers(&world)[place], Some((number, EPOCH)));
        assert_eq!(numbers(&world)[1 - place], Some((number - 1, EPOCH)));
    }
    let live = world.entries(EPOCH).0;
    world.run(close(&*world.disk, &live)).expect("healthy");
    // The slot of a finished epoch is written twice.
    assert_eq!(numbers(&world), [Some((6, EPOCH)); 2]);
    assert_eq!(slots(&world).map(|slot| slot.map(|slot| slot.state())), [Some(State::AtRest); 2]);
    world.run(forget(&*world.disk)).expect("healthy");
    assert_eq!(numbers(&world), [Some((7, EPOCH)); 2]);
    let newest = world.run(peek(&*world.disk)).expect("readable").expect("a log");
    assert_eq!((newest.state(), newest.number.get()), (State::GivenUp, 7));
    // The next epoch takes the place of the older slot, and its number goes on.
    world.begin(EPOCH + 1);
    assert_eq!(numbers(&world), [Some((7, EPOCH)), Some((8, EPOCH + 1))]);
    let newest_first = world.run(epochs(&*world.disk)).expect("readable");
    let newest_first = newest_first.iter().map(|slot| slot.epoch.get()).collect::<Vec<_>>();
    assert_eq!(newest_first, [EPOCH + 1, EPOCH]);
}

#[test]
fn of_the_slots_of_an_epoch_the_newest_counts_once() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    world.run(journal.note_head(0)).expect("healthy");
    let found = world.run(epochs(&*world.disk)).expect("readable");
    assert_eq!(found.iter().map(|slot| slot.number.get()).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_volume_belongs_to_the_epoch_that_it_bears_until_that_is_given_up() {
    let world = World::smallest();
    world.begin(EPOCH);
    assert_eq!(belonging(&world, 9, EPOCH), Some((EPOCH, 0)));
    assert_eq!(belonging(&world, 9, EPOCH + 1), None);
    let kept = world.entries(EPOCH).0;
    let begun = Journal::begin(world.device(), EPOCH + 1, VOLUME, Some(&kept));
    world.run(begun).expect("there is room");
    assert_eq!(belonging(&world, 9, EPOCH), Some((EPOCH, 0)), "both are there");
    assert_eq!(belonging(&world, 9, EPOCH + 1), Some((EPOCH + 1, 0)));
    world.run(forget(&*world.disk)).expect("healthy");
    assert_eq!(belonging(&world, 9, EPOCH), None);
    assert_eq!(belonging(&world, 9, EPOCH + 1), None);
}

#[test]
fn a_shared_log_is_there_when_it_is_founded_and_what_was_before_it_is_over() {
    let world = World::smallest();
    let alone = world.begin(EPOCH);
    let placed = world.place(&alone, vec![draft(1, 1_000)], Some(0));
    let kept = world.entries(EPOCH).0;
    let lines = vec![Line::new(1, EPOCH, State::Open), Line::new(2, 0, State::Open)];
    let begun = Journal::begin_shared(world.device(), EPOCH + 1, Some(&kept), lines);
    let journal = world.run(begun).expect("there is room");
    assert_eq!((journal.epoch(), journal.durable_head()), (EPOCH + 1, kept.head));
    let copied = world.place(&journal, vec![draft(2, 1_000)], None);
    assert_eq!(world.run(find(&*world.disk, EPOCH + 1)), Ok(None), "not yet");
    assert_eq!(world.again().entries(EPOCH).1, placed);
    assert_eq!(belonging(&world, 1, EPOCH), Some((EPOCH, 0)));

    world.run(journal.found(copied[0].recno)).expect("healthy");
    assert_eq!(journal.durable_head(), copied[0].recno);
    assert_eq!(world.again().entries(EPOCH + 1).1, copied);
    assert_eq!(belonging(&world, 1, EPOCH), Some((EPOCH + 1, 0)), "it bears the one before");
    assert_eq!(belonging(&world, 1, EPOCH + 1), Some((EPOCH + 1, 0)));
    assert_eq!(belonging(&world, 2, EPOCH + 1), Some((EPOCH + 1, 1)));
    assert_eq!(belonging(&world, 2, EPOCH), None, "it never bore that");
    assert_eq!(belonging(&world, 3, EPOCH), None, "what is older than the lines is over");
    journal.borne(0);
    world.run(journal.note_head(copied[0].recno)).expect("healthy");
    assert_eq!(belonging(&world, 1, EPOCH), None, "it bears this one now");
    assert_eq!(belonging(&world, 1, EPOCH + 1), Some((EPOCH + 1, 0)));
}

#[test]
fn a_log_rests_when_the_last_of_its_volumes_does() {
    let world = World::smallest();
    let lines = vec![Line::new(1, 0, State::Open), Line::new(2, 0, State::Open)];
    let begun = world.run(Journal::begin_shared(world.device(), EPOCH, None, lines));
    let journal = begun.expect("there is room");
    world.run(journal.found(0)).expect("healthy");
    assert!(!journal.rest(1), "the first is open");
    assert!(!journal.rest(1));
    assert!(journal.rest(0));
    assert!(world.begin(EPOCH + 1).rest(0), "who has a log alone rests alone");
}

#[test]
fn one_volume_that_is_closed_by_another_process_leaves_head_and_state_to_the_other() {
    let world = World::smallest();
    let lines = vec![Line::new(1, 0, State::Open), Line::new(2, 0, State::Open)];
    let begun = world.run(Journal::begin_shared(world.device(), EPOCH, None, lines));
    let journal = begun.expect("there is room");
    let placed = world.place(&journal, vec![draft(1, 10), draft(2, 10)], None);
    world.run(journal.found(placed[0].recno)).expect("healthy");
    let slot = world.run(peek(&*world.disk)).expect("readable").expect("a log");
    world.run(close_one(&*world.disk, slot, 0, EPOCH)).expect("healthy");
    let (live, found) = world.again().entries(EPOCH);
    assert_eq!((live.slot.state(), live.head), (State::Open, placed[0].recno));
    assert_eq!(found, placed);
}

#[test]
fn a_device_that_is_read_once_is_otherwise_the_device() {
    let world = World::of(Image::zeroed(SMALLEST));
    let once = ReadOnce::new(world.device());
    assert_eq!(once.geometry(), world.disk.geometry());
    let byte = |once: &ReadOnce| world.run(once.read(0, Buffer::zeroed(512))).expect("it works")[0];
    world.run(once.write(0, vec![vec![7; 512].into()], Durability::Plain)).expect("it works");
    assert_eq!(byte(&once), 7);
    let flushes = world.disk.counters().flushes;
    world.run(once.flush()).expect("it works");
    assert_eq!(world.disk.counters().flushes, flushes + 1);
    world.run(once.discard(0, 4096)).expect("it works");
    let device = world.run(world.disk.read(0, Buffer::zeroed(512))).expect("it works")[0];
    assert_eq!(byte(&once), device, "what was read before is not told again");
    world.run(once.close()).expect("it works");
    assert!(world.run(world.disk.read(0, Buffer::zeroed(512))).is_err(), "it is closed");
}
