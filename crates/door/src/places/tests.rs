//! These tests use virtual time.

use super::*;
use sim::Executor;

const LOCAL: [u8; 4] = [127, 0, 0, 1];
/// An address that no export admits.
const STRANGER: [u8; 4] = [10, 0, 0, 1];

fn places(executor: &Executor, count: u64) -> Rc<Places> {
    let admits = Rc::new(|address| address != IpAddr::from(STRANGER));
    Places::new(executor.runtime().clock, count, admits)
}

fn enter(executor: &Executor, places: &Rc<Places>, address: [u8; 4]) -> Place {
    executor.block_on(places.enter(address.into())).expect("it is admitted")
}

/// Places with an occupant in each, which leaves when it is asked. They came a second after each
/// other.
fn full(executor: &Executor, count: u64) -> (Rc<Places>, Vec<Rc<Occupant>>) {
    let places = places(executor, count);
    let occupants = seated(executor, &places, &vec![LOCAL; count as usize]);
    (places, occupants)
}

fn seated(executor: &Executor, places: &Rc<Places>, addresses: &[[u8; 4]]) -> Vec<Rc<Occupant>> {
    let runtime = executor.runtime();
    let occupants = addresses.iter().map(|&address| {
        let place = enter(executor, places, address);
        let occupant = place.occupant().clone();
        runtime.tasks.spawn(Box::pin(async move {
            place.occupant().asked_to_leave().await;
            drop(place);
        }));
        executor.run_for(Duration::from_secs(1));
        occupant
    });
    occupants.collect()
}

fn asked(occupants: &[Rc<Occupant>]) -> Vec<usize> {
    (0..occupants.len()).filter(|&index| occupants[index].asked.get()).collect()
}

#[test]
fn who_has_been_quiet_for_longest_makes_room_when_that_is_long() {
    let executor = Executor::new(1);
    let (places, occupants) = full(&executor, 3);
    occupants[0].note(true, false); // it has just called
    let place = enter(&executor, &places, LOCAL);
    assert_eq!(asked(&occupants), [1]);
    // The occupant that was asked came after one second.
    assert_eq!(executor.now().0, 6_000_000_000);
    drop(place);
}

#[test]
fn nobody_is_asked_while_a_place_is_free() {
    let executor = Executor::new(1);
    let (places, occupants) = full(&executor, 3);
    executor.run_for(QUIET * 10);
    assert_eq!(asked(&occupants), [0; 0]);
    drop(enter(&executor, &places, LOCAL));
    assert_eq!(asked(&occupants), [0], "one for one");
    drop(enter(&executor, &places, LOCAL));
    assert_eq!(asked(&occupants), [0], "his place is free");
}

#[test]
fn who_works_is_not_asked_however_long_it_takes() {
    let executor = Executor::new(1);
    let (places, occupants) = full(&executor, 2);
    occupants.iter().for_each(|occupant| occupant.note(false, false));
    let none = executor.block_on_for(QUIET * 10, places.enter(LOCAL.into()));
    assert!(none.is_none());
    occupants[1].note(true, true);
    let before = executor.now();
    enter(&executor, &places, LOCAL);
    assert_eq!(asked(&occupants), [1]);
    let waited = Duration::from_nanos(executor.now().0 - before.0);
    assert!((QUIET..=QUIET + LEAVING).contains(&waited), "his work is his last sign: {waited:?}");
}

#[test]
fn when_one_does_not_leave_another_is_asked() {
    let executor = Executor::new(1);
    let places = places(&executor, 2);
    let stubborn = enter(&executor, &places, LOCAL);
    executor.run_for(Duration::from_secs(1));
    let other = enter(&executor, &places, LOCAL);
    let occupants = [stubborn.occupant().clone(), other.occupant().clone()];
    executor.runtime().tasks.spawn(Box::pin(async move {
        other.occupant().asked_to_leave().await;
        drop(other);
    }));
    executor.run_for(QUIET);
    enter(&executor, &places, LOCAL);
    assert_eq!(asked(&occupants), [0, 1]);
    drop(stubborn);
}

#[test]
fn a_stranger_makes_room_at_once_and_finds_none() {
    let executor = Executor::new(1);
    let places = places(&executor, 3);
    let occupants = seated(&executor, &places, &[LOCAL, STRANGER, STRANGER]);
    occupants[1].note(true, false); // it has just made a call
    assert!(executor.block_on(places.enter(STRANGER.into())).is_none());
    assert_eq!(asked(&occupants), [0; 0]);
    let before = executor.now();
    drop(enter(&executor, &places, LOCAL));
    assert_eq!(asked(&occupants), [2], "the stranger that has been quiet for longest");
    assert_eq!(executor.now(), before, "nobody waits for a stranger to have been quiet");
    drop(executor.block_on(places.enter(STRANGER.into())).expect("there is a place now"));
}

#[test]
fn an_address_that_has_more_than_its_share_makes_room_for_one_that_has_less() {
    let executor = Executor::new(1);
    let places = places(&executor, 4);
    let greedy = [127, 0, 0, 2];
    let occupants = seated(&executor, &places, &[LOCAL, greedy, greedy, greedy]);
    occupants.iter().for_each(|occupant| occupant.note(true, false)); // none is quiet for long
    occupants[1].note(false, false);
    executor.run_for(Duration::from_millis(1));
    occupants[2].note(true, false);
    let place = enter(&executor, &places, LOCAL);
    assert_eq!(asked(&occupants), [3], "of the three the one that has been quiet for longest");
    let none = executor.block_on_for(QUIET / 2, places.enter(LOCAL.into()));
    assert!(none.is_none(), "both have their share now");
    drop(place);
}

#[test]
fn a_newcomer_of_the_fullest_address_waits_for_a_quiet_guest() {
    let executor = Executor::new(1);
    let places = places(&executor, 4);
    let greedy = [127, 0, 0, 2];
    let occupants = seated(&executor, &places, &[LOCAL, greedy, greedy, greedy]);
    occupants.iter().for_each(|occupant| occupant.note(true, false));
    assert!(executor.block_on_for(QUIET / 2, places.enter(greedy.into())).is_none());
    assert_eq!(asked(&occupants), [0; 0]);
    drop(enter(&executor, &places, greedy));
    assert_eq!(asked(&occupants).len(), 1);
}

#[test]
fn what_no_file_system_answers_keeps_nobody_in_its_place() {
    let executor = Executor::new(1);
    let (places, occupants) = full(&executor, 2);
    executor.run_for(QUIET);
    occupants[0].note(true, true); // a NULL
    occupants[1].note(true, false); // a call
    drop(enter(&executor, &places, LOCAL));
    assert_eq!(asked(&occupants), [0]);
}

#[test]
fn an_ipv6_network_is_one_address() {
    let addresses = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::ffff:10.0.0.1"];
    let [one, other, third, fourth] =
        addresses.map(|text| in_bounds(text.parse().expect("an address")));
    assert_eq!(one, other);
    assert_ne!(one, third);
    assert_eq!(fourth, IpAddr::from([10, 0, 0, 1]));
}

/// A client that waits at the door in a task of its own, and keeps its place.
fn waits(executor: &Executor, places: &Rc<Places>, address: [u8; 4]) -> Rc<Cell<Option<bool>>> {
    let (places, outcome) = (places.clone(), Rc::new(Cell::new(None)));
    let noted = outcome.clone();
    executor.runtime().tasks.spawn(Box::pin(async move {
        let place = places.enter(address.into()).await;
        noted.set(Some(place.is_some()));
        if place.is_some() {
            std::future::pending::<()>().await;
        }
    }));
    executor.run_for(Duration::ZERO);
    outcome
}

#[test]
fn a_newcomer_has_a_place_before_a_client_that_has_many_and_waits_for_more() {
    let executor = Executor::new(1);
    let places = places(&executor, 4);
    let greedy = [127, 0, 0, 2];
    let occupants = seated(&executor, &places, &[greedy; 4]);
    occupants.iter().for_each(|occupant| occupant.note(false, false)); // all work, and leave late
    let more = [(); 3].map(|()| waits(&executor, &places, greedy));
    executor.run_for(QUIET * 10);
    let before = executor.now();
    let place = enter(&executor, &places, LOCAL);
    assert_eq!((asked(&occupants).len(), executor.now()), (1, before));
    assert!(more.iter().all(|outcome| outcome.get().is_none()), "they go on waiting");
    drop(place);
    executor.run_for(Duration::ZERO);
    let seated = more.iter().filter(|outcome| outcome.get() == Some(true)).count();
    assert_eq!(seated, 1, "a place that is free is handed out");
}

#[test]
fn a_full_door_has_room_for_a_client_that_does_not_fill_it() {
    let executor = Executor::new(1);
    let places = places(&executor, 1);
    let greedy = [127, 0, 0, 2];
    let only = enter(&executor, &places, greedy);
    only.occupant().note(false, false);
    let many = [(); MAX_AT_DOOR].map(|()| waits(&executor, &places, greedy));
    let one_more = waits(&executor, &places, greedy);
    assert_eq!(one_more.get(), Some(false), "the door is full of its own");
    let newcomer = waits(&executor, &places, LOCAL);
    assert_eq!(newcomer.get(), None);
    assert_eq!(many[MAX_AT_DOOR - 1].get(), Some(false), "the last of them makes room");
    assert!(many[..MAX_AT_DOOR - 1].iter().all(|outcome| outcome.get().is_none()));
    drop(only);
    executor.run_for(Duration::ZERO);
    assert_eq!(many[0].get(), Some(true), "of those with as few places, the first");
}

#[test]
fn a_client_that_goes_while_it_waits_leaves_its_place_to_another() {
    let executor = Executor::new(1);
    let places = places(&executor, 1);
    let only = enter(&executor, &places, LOCAL);
    only.occupant().note(false, false);
    let mut gone = places.enter(LOCAL.into()).boxed_local();
    assert!((&mut gone).now_or_never().is_none());
    let next = waits(&executor, &places, LOCAL);
    drop(only); // the first at the door has the place, and does not know it yet
    drop(gone);
    executor.run_for(Duration::ZERO);
    assert_eq!(next.get(), Some(true));
}

#[test]
fn occupants_that_are_about_to_leave_make_room_at_the_door() {
    let executor = Executor::new(1);
    let count = 2 * MAX_AT_DOOR + 1;
    let places = places(&executor, count as u64);
    let strangers: Vec<Place> = (0..count).map(|_| enter(&executor, &places, STRANGER)).collect();
    let guests: Vec<_> = (0..count).map(|_| waits(&executor, &places, LOCAL)).collect();
    assert!(guests.iter().all(|outcome| outcome.get().is_none()), "each has asked one to leave");
    drop(strangers);
    executor.run_for(Duration::ZERO);
    assert!(guests.iter().all(|outcome| outcome.get() == Some(true)));
}

#[test]
fn a_client_that_has_just_called_keeps_its_place_when_descriptors_are_short() {
    let executor = Executor::new(1);
    let places = places(&executor, 3);
    let occupants = seated(&executor, &places, &[LOCAL, LOCAL, STRANGER]);
    occupants.iter().for_each(|occupant| occupant.note(true, false));
    places.relieve();
    assert_eq!(asked(&occupants), [2], "a stranger goes at once");
    executor.run_for(QUIET / 2);
    occupants[0].note(true, false);
    places.relieve();
    assert_eq!(asked(&occupants), [2], "all others have just called");
    executor.run_for(QUIET / 2);
    places.relieve();
    assert_eq!(asked(&occupants), [1, 2], "one has been quiet for long");
}
