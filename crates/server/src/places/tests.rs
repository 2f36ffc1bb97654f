//! Under virtual time.

use super::*;
use sim::Executor;

/// Places with somebody in each, who leaves when he is asked. They came a second after each other.
fn full(executor: &Executor, count: u64) -> (Rc<Places>, Vec<Rc<Guest>>) {
    let runtime = executor.runtime();
    let places = Places::new(runtime.clock.clone(), count);
    let guests = (0..count).map(|_| {
        let place = executor.block_on(places.enter());
        let guest = place.guest().clone();
        runtime.tasks.spawn(Box::pin(async move {
            place.guest().asked_to_leave().await;
            drop(place);
        }));
        executor.run_for(Duration::from_secs(1));
        guest
    });
    let guests = guests.collect();
    (places, guests)
}

fn asked(guests: &[Rc<Guest>]) -> Vec<usize> {
    (0..guests.len()).filter(|&index| guests[index].asked.get()).collect()
}

#[test]
fn who_has_been_quiet_for_longest_makes_room_when_that_is_long() {
    let executor = Executor::new(1);
    let (places, guests) = full(&executor, 3);
    guests[0].note(true, false); // he has just called
    let place = executor.block_on(places.enter());
    assert_eq!(asked(&guests), [1]);
    // He came after one second.
    assert_eq!(executor.now().0, 6_000_000_000);
    drop(place);
}

#[test]
fn nobody_is_asked_while_a_place_is_free() {
    let executor = Executor::new(1);
    let (places, guests) = full(&executor, 3);
    executor.run_for(QUIET * 10);
    assert_eq!(asked(&guests), [0; 0]);
    drop(executor.block_on(places.enter()));
    assert_eq!(asked(&guests), [0], "one for one");
    drop(executor.block_on(places.enter()));
    assert_eq!(asked(&guests), [0], "his place is free");
}

#[test]
fn who_works_is_not_asked_however_long_it_takes() {
    let executor = Executor::new(1);
    let (places, guests) = full(&executor, 2);
    guests.iter().for_each(|guest| guest.note(false, false));
    let none = executor.block_on_for(QUIET * 10, places.enter());
    assert!(none.is_none());
    guests[1].note(true, true);
    let before = executor.now();
    executor.block_on(places.enter());
    assert_eq!(asked(&guests), [1]);
    let waited = Duration::from_nanos(executor.now().0 - before.0);
    assert!((QUIET..=QUIET + LEAVING).contains(&waited), "his work is his last sign: {waited:?}");
}

#[test]
fn when_one_does_not_leave_another_is_asked() {
    let executor = Executor::new(1);
    let places = Places::new(executor.runtime().clock, 2);
    let stubborn = executor.block_on(places.enter());
    executor.run_for(Duration::from_secs(1));
    let other = executor.block_on(places.enter());
    let guests = [stubborn.guest().clone(), other.guest().clone()];
    executor.runtime().tasks.spawn(Box::pin(async move {
        other.guest().asked_to_leave().await;
        drop(other);
    }));
    executor.run_for(QUIET);
    executor.block_on(places.enter());
    assert_eq!(asked(&guests), [0, 1]);
    drop(stubborn);
}
