//! Bit rot is detected, and never produces an entry that was not written.

use journal::JournalError;
use journal::format::{AREA, SEGMENT_UNITS, SLOTS, UNIT};

use crate::common::damage::{Outcome, Sample, damaged_rest, last_but_one, lost_head, mixed_copies};
use crate::common::{EPOCH, Placed, World, draft};

#[test]
fn a_sample_without_damage_is_whole() {
    let sample = Sample::new(150);
    assert_eq!(sample.judge(sample.image.clone()), Ok(Outcome::Whole));
}

#[test]
fn a_byte_in_a_log_whose_circle_has_closed_is_noticed() {
    let sample = Sample::new(150);
    let outcomes = sample.first_wrong(&sample.places()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let count = |wanted| outcomes.iter().filter(|&&outcome| outcome == wanted).count();
    let (refused, shorter) = (count(Outcome::Refused), count(Outcome::Shorter));
    println!("{} bytes: {refused} refused, {shorter} shorter", outcomes.len());
    assert!(refused > 500 && shorter > 100, "{refused} refused, {shorter} shorter");
}

#[test]
fn a_byte_in_a_log_of_one_round_is_noticed() {
    let sample = Sample::new(20);
    let outcomes = sample.first_wrong(&sample.places()).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(outcomes.contains(&Outcome::Refused) && outcomes.contains(&Outcome::Shorter));
}

#[test]
fn a_byte_in_a_slot_is_noticed() {
    for batches in [20, 150] {
        let sample = Sample::new(batches);
        let places: Vec<u64> = SLOTS.iter().flat_map(|&slot| slot..slot + 72).collect();
        sample.first_wrong(&places).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn two_copies_that_went_different_ways_are_not_mixed() {
    assert_eq!(mixed_copies(), Ok(Outcome::Refused));
}

#[test]
fn damage_of_the_last_batch_but_one_is_no_cut() {
    let tried = last_but_one().unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(tried > 300, "{tried} bytes");
}

#[test]
fn a_log_whose_head_is_gone_is_not_taken_for_an_empty_one() {
    lost_head().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_damaged_slot_of_a_log_at_rest_costs_nothing() {
    damaged_rest().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn damage_in_the_first_segment_is_no_cut_though_all_that_follows_is_in_others() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let placed: Vec<Placed> = [100, 61_000, 60_000]
        .into_iter()
        .zip(1..)
        .flat_map(|(length, sequence)| {
            world.place(&journal, vec![draft(sequence, length)], Some(0))
        })
        .collect();
    let [damaged, beyond] = [1, 2].map(|index| placed[index].recno);
    assert!(damaged < SEGMENT_UNITS && beyond >= SEGMENT_UNITS, "as the name says");
    let mut image = world.disk.contents();
    image.write(AREA + damaged * UNIT + 1000, &[0; 100]);
    let read = World::of(image).read(EPOCH).map(|_| "no damage");
    let is_told = matches!(read, Err(JournalError::Damaged { beyond: told, .. }) if told == beyond);
    assert!(is_told, "{read:?}");
}
