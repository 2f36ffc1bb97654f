//! Rows and segments by themselves.

use super::*;

fn rows() -> Rows {
    let shape = Shape { units: 4096, segment: 16, block: 2, reserve: 8 };
    assert!(shape.is_legal());
    Rows::new(shape, &[Line::default()], 1).expect("it is empty")
}

/// A checkpoint that is durable at once.
fn checkpoint(rows: &Rows) {
    let (_, releases) = rows.snapshot(0);
    rows.number.set(rows.number.get() + 1);
    rows.release(&releases);
    rows.audit();
}

fn taken(rows: &Rows, blocks: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    for _ in 0..blocks {
        let run = rows.plan(Owner::Files, 1, 2, 4).expect("there is room");
        rows.take(run);
        runs.push(run);
    }
    rows.audit();
    runs
}

#[test]
fn a_place_is_used_again_after_a_checkpoint_and_its_readers() {
    let rows = rows();
    let all = rows.clean();
    let runs = taken(&rows, 60);
    let piece = rows.pieces(runs[0].start, 2).expect("it has a place")[0];
    rows.count_reader(piece, true);
    assert!(runs.iter().all(|&run| rows.lose(run)));
    assert!(!rows.lose(runs[0]), "nothing is lost twice");
    assert!(rows.clean() < all - 6, "no checkpoint has come");
    checkpoint(&rows);
    assert_eq!(rows.clean(), all - 1, "one segment is open");
    let first = rows.shape.segment_of(piece.place);
    for _ in 0..rows.shape.segments() - 8 {
        let place = rows.take_units(Which::Beside, 16, 0).expect("there is room");
        assert_ne!(rows.shape.segment_of(place), first, "it is being read");
    }
    rows.count_reader(piece, false);
    rows.audit();
}

#[test]
fn a_row_that_moves_keeps_its_addresses() {
    let rows = rows();
    let runs = taken(&rows, 60);
    let lost = |run: &&Run| (run.start / 2).is_multiple_of(3);
    assert!(runs.iter().filter(lost).all(|&run| rows.lose(run)));
    checkpoint(&rows);
    let _ = rows.take_touched();
    checkpoint(&rows);
    let victims = rows.victims(rows.number.get());
    assert!(victims.len() >= 5, "{victims:?}");
    for (segment, ..) in victims {
        for mover in rows.movers(segment).expect("no plan is there") {
            let place = rows.hold_units(mover.used.count(), 0).expect("there is room");
            rows.move_to(&mover, place);
            let moved = runs.iter().filter(|run| split(run.start).0 == u64::from(mover.row));
            for (index, run) in moved.filter(|run| !lost(run)).enumerate() {
                let piece = rows.pieces(run.start, 2).expect("it has a place")[0];
                let right = Piece { place: place + 2 * index as u64, units: 2 };
                assert_eq!(piece, right, "{run:?}");
            }
        }
        rows.audit();
        assert!(rows.dead() > 0, "nothing is left there");
    }
    checkpoint(&rows);
    assert_eq!(rows.dead(), 0);
}

#[test]
fn the_segment_of_the_next_summary_and_of_rows_on_their_way_stays() {
    let rows = rows();
    let next = rows.take_units(Which::Log, 1, 0).expect("there is room");
    let runs = taken(&rows, 20);
    assert!(runs.iter().all(|&run| rows.lose(run)));
    let held = rows.hold_units(3, 0).expect("there is room");
    let _ = rows.take_units(Which::Beside, 16, 0);
    let (_, releases) = rows.snapshot(next);
    for place in [next, held] {
        let segment = rows.shape.segment_of(place).expect("it is in one");
        assert!(!releases.segments.contains(&segment));
    }
    assert!(!releases.segments.is_empty(), "others are free");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_segment_of_the_next_summary_that_is_freed_is_noticed() {
    let rows = rows();
    let next = rows.take_units(Which::Log, 16, 0).expect("there is room") + 15;
    taken(&rows, 1); // in the next segment
    crate::planted::plant(Some(Bug::LostLink));
    let (_, releases) = rows.snapshot(next);
    crate::planted::plant(None);
    let segment = rows.shape.segment_of(next).expect("it is in one");
    assert!(releases.segments.contains(&segment), "the bug frees it");
}
