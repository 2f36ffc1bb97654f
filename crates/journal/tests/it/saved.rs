//! The live part of a log, saved as a log of its own, and a volume that leaves a shared one.

use block::Verb;
use journal::format::{AREA, Line, SEGMENT, SEGMENT_UNITS, SMALLEST, State, UNIT};
use journal::{Journal, JournalError, close_one, peek, save, saved_size};
use sim::{Choice, Image, Persistence, Prng};

use crate::common::{EPOCH, Placed, World, draft};

/// A log of 16 segments that has wrapped around once, with its last entries behind the head.
fn closed_circle(world: &World, journal: &Journal) -> Vec<Placed> {
    let mut placed: Vec<Placed> = Vec::new();
    for sequence in 1..60 {
        let needed = placed.get(placed.len().saturating_sub(9)).map(|oldest| oldest.recno);
        if journal.room() < 2 * SEGMENT {
            world.run(journal.note_head(needed.expect("some were placed"))).expect("healthy");
        }
        let length = 15_000 + sequence as usize * 311;
        placed.extend(world.place(journal, vec![draft(sequence, length)], needed));
    }
    assert!(journal.tail() * UNIT > 16 * SEGMENT, "once around");
    placed
}

/// A shared log, founded, with an open volume and another.
fn shared(world: &World, other: State) -> Journal {
    let lines = vec![Line::new(1, 0, State::Open), Line::new(2, 0, other)];
    let begun = world.run(Journal::begin_shared(world.device(), EPOCH, None, lines));
    let journal = begun.expect("the device is large enough");
    world.run(journal.found(0)).expect("a healthy disk");
    journal
}

#[test]
fn what_is_saved_of_a_closed_circle_is_found_where_it_was_saved() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let placed = closed_circle(&world, &journal);
    let (live, found) = world.again().entries(EPOCH);
    assert!(live.head / SEGMENT_UNITS > 0, "the head has moved on");
    assert_eq!(found, placed[placed.len() - found.len()..]);
    assert_eq!(saved_size(&live), SMALLEST, "a small part of a log is no smaller log");

    let to = world.another(Image::zeroed(saved_size(&live)));
    world.run(save(&*world.disk, &live, 0, &*to)).expect("there is room");
    let (again, entries) = World::of(to.contents()).entries(EPOCH);
    assert_eq!((again.head, again.tail, entries), (live.head, live.tail, found));
}

/// A saved log has its slot last: wherever the power goes, there is no log yet, or all of it.
#[test]
fn a_log_that_is_being_saved_is_whole_or_not_there_after_any_cut() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    closed_circle(&world, &journal);
    let (live, found) = world.again().entries(EPOCH);
    let to = world.another(Image::zeroed(saved_size(&live)));
    to.start_trace();
    world.run(save(&*world.disk, &live, 0, &*to)).expect("there is room");
    let mut prng = Prng::new(1);
    let mut is_there = [0; 2];
    for (_, platter) in to.trace().cuts() {
        let choices = (0..8).map(|_| Choice::random(&platter, &mut prng)).collect::<Vec<_>>();
        for choice in choices {
            let left = World::of(platter.image(&choice)).read(EPOCH).expect("no damage");
            is_there[usize::from(left.is_some())] += 1;
            assert!(left.is_none_or(|(_, entries)| entries == found), "a part of the log");
        }
    }
    assert!(is_there.iter().all(|&count| count > 0), "{is_there:?}");
    let durable = World::of(to.platter().durable_image()).entries(EPOCH);
    assert_eq!(durable.1, found, "it is durable when the save ends");
}

#[test]
fn a_log_that_cannot_be_saved_is_reported_whichever_call_fails() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    closed_circle(&world, &journal);
    let (live, _) = world.again().entries(EPOCH);
    let save_with = |verb: Verb, nth: u64| {
        let to = world.another(Image::zeroed(saved_size(&live)));
        to.fail(verb, nth, Persistence::Once);
        let saved = world.run(save(&*world.disk, &live, 0, &*to));
        (saved, to.counters())
    };
    let (saved, made) = save_with(Verb::Write, 1_000);
    assert!(saved.is_ok() && made.flushes == 2, "{made:?}");
    let writes = (1..=made.writes).map(|nth| (Verb::Write, nth));
    for (verb, nth) in writes.chain([(Verb::Flush, 1), (Verb::Flush, 2)]) {
        let (saved, _) = save_with(verb, nth);
        assert!(matches!(saved, Err(JournalError::Save(_))), "{verb:?} {nth}: {saved:?}");
    }
}

#[test]
fn saving_more_than_the_smallest_log_takes_takes_more() {
    let world = World::of(Image::zeroed(SMALLEST + 8 * SEGMENT));
    let journal = world.begin(EPOCH);
    let placed =
        (1..20).flat_map(|sequence| world.place(&journal, vec![draft(sequence, 60_000)], Some(0)));
    let placed: Vec<Placed> = placed.collect();
    let (live, _) = world.again().entries(EPOCH);
    let segments = live.tail.div_ceil(SEGMENT_UNITS);
    assert_eq!(segments, 19);
    assert_eq!(saved_size(&live), AREA + segments * SEGMENT);
    let to = world.another(Image::zeroed(saved_size(&live)));
    world.run(save(&*world.disk, &live, 0, &*to)).expect("there is room");
    assert_eq!(World::of(to.contents()).entries(EPOCH).1, placed);
}

#[test]
fn a_volume_that_parts_from_a_shared_log_is_open_where_it_was_saved_and_there_alone() {
    let world = World::smallest();
    let journal = shared(&world, State::Open);
    let placed = closed_circle(&world, &journal);
    let head = placed[placed.len() - 9].recno;
    let size = journal.part_size(head);
    assert_eq!(size, SMALLEST);
    let to = world.another(Image::zeroed(size));
    world.run(journal.part(1, head, &*to)).expect("there is room");

    let saved = world.run(peek(&*to)).expect("readable").expect("a log");
    assert_eq!(saved.lines().iter().map(Line::is_open).collect::<Vec<_>>(), [false, true]);
    assert_eq!((saved.number_of(1, EPOCH), saved.number_of(2, EPOCH)), (None, Some(1)));
    let stays = world.run(peek(&*world.disk)).expect("readable").expect("a log");
    assert_eq!((stays.number_of(1, EPOCH), stays.number_of(2, EPOCH)), (Some(0), None));
    let (live, entries) = World::of(to.contents()).entries(EPOCH);
    assert_eq!((live.head, entries), (head, placed[placed.len() - 9..].to_vec()));
}

#[test]
fn a_shared_log_is_at_rest_when_the_last_of_its_volumes_is() {
    let world = World::smallest();
    drop(shared(&world, State::Open));
    let slot = || world.run(peek(&*world.disk)).expect("readable").expect("a log");
    let at_rest = || slot().lines().iter().map(Line::is_at_rest).collect::<Vec<_>>();
    world.run(close_one(&*world.disk, slot(), 1, EPOCH)).expect("healthy");
    assert_eq!((slot().state(), at_rest()), (State::Open, vec![false, true]));
    world.run(close_one(&*world.disk, slot(), 0, EPOCH)).expect("healthy");
    assert_eq!((slot().state(), at_rest()), (State::AtRest, vec![true, true]));
}
