//! Promises of the directory.

use super::*;

#[cfg(feature = "planted-bugs")]
fn with<T>(bug: Bug, work: impl Fn() -> T) -> T {
    crate::planted::plant(Some(bug));
    let done = work();
    crate::planted::plant(None);
    done
}

fn entry(place: u64, sequence: u64) -> Entry {
    Entry { place, sequence, mask: u8::MAX, lost: 0, data_sum: 0 }
}

/// A block was written twice, and the later entry is below. A reader still has the earlier one.
/// The buffers that may become void.
fn void_while_the_older_is_read() -> Vec<Buffer> {
    let mut directory = Directory::new(64, 1);
    let buffers = directory.take(2).expect("all are free");
    let first = directory.begin(buffers[0], 9);
    directory.written(buffers[0], entry(9, first), true);
    directory.hold(buffers[0]);
    let second = directory.begin(buffers[1], 9);
    directory.written(buffers[1], entry(9, second), true);
    let (newer, newest) = directory.destage(9).expect("it is dirty");
    directory.destaged(newer, newest.sequence, Outcome::Below);
    directory.begin_voiding(64, None)
}

#[test]
fn the_latest_entry_of_a_block_is_void_after_all_others() {
    assert!(void_while_the_older_is_read().is_empty());
    #[cfg(feature = "planted-bugs")]
    assert_eq!(with(Bug::YoungestFirst, void_while_the_older_is_read).len(), 1);
}

/// A block is written again while its first entry is on its way below. Whether the second goes
/// there, too.
fn goes_below_twice() -> bool {
    let mut directory = Directory::new(64, 1);
    let buffers = directory.take(2).expect("all are free");
    let first = directory.begin(buffers[0], 9);
    directory.written(buffers[0], entry(9, first), true);
    let (older, oldest) = directory.destage(9).expect("it is dirty");
    let second = directory.begin(buffers[1], 9);
    directory.written(buffers[1], entry(9, second), true);
    let goes = !directory.next_dirty(0, 9, true).is_empty() && directory.destage(9).is_some();
    assert!(directory.is_destaging(9..10) && directory.is_dirty(9));
    directory.destaged(older, oldest.sequence, Outcome::Below);
    assert!(goes || directory.next_dirty(0, 9, true) == [9]);
    goes
}

/// A block was written again, and the second entry is not durable yet. The buffers that may
/// become void.
fn void_before_the_successor_is_durable() -> Vec<Buffer> {
    let mut directory = Directory::new(64, 1);
    let buffers = directory.take(2).expect("all are free");
    for (&buffer, is_durable) in buffers.iter().zip([true, false]) {
        let sequence = directory.begin(buffer, 9);
        directory.written(buffer, entry(9, sequence), is_durable);
    }
    directory.begin_voiding(64, None)
}

#[test]
fn an_entry_is_void_after_its_successor_is_durable() {
    assert!(void_before_the_successor_is_durable().is_empty());
    #[cfg(feature = "planted-bugs")]
    assert_eq!(with(Bug::HastySuccessor, void_before_the_successor_is_durable).len(), 1);
}

#[test]
fn an_entry_waits_until_the_one_before_it_is_below() {
    assert!(!goes_below_twice());
    #[cfg(feature = "planted-bugs")]
    assert!(with(Bug::TwoDestages, goes_below_twice));
}

#[test]
fn a_failed_write_keeps_everything_after_it_from_counting_as_durable() {
    let mut directory = Directory::new(64, 1);
    let buffers = directory.take(2).expect("all are free");
    let first = directory.begin(buffers[0], 1);
    let second = directory.begin(buffers[1], 2);
    directory.failed(buffers[0]);
    directory.written(buffers[1], entry(2, second), true);
    assert_eq!(directory.durable(), first - 1);
    let void = directory.begin_voiding(64, None);
    assert_eq!(void, [buffers[0]]);
    directory.voided(&void);
    assert_eq!(directory.durable(), second);
}

/// A directory with a dirty entry of each of these blocks, and the sequence of each.
fn with_dirty(places: &[u64]) -> Directory {
    let mut directory = Directory::new(256, 1);
    let buffers = directory.take(places.len()).expect("all are free");
    for (&buffer, &place) in buffers.iter().zip(places) {
        let sequence = directory.begin(buffer, place);
        directory.written(buffer, entry(place, sequence), true);
    }
    directory
}

/// An attempt to bring a block below ends.
fn try_below(directory: &mut Directory, place: u64, outcome: Outcome) {
    let (buffer, entry) = directory.destage(place).expect("it is dirty");
    directory.destaged(buffer, entry.sequence, outcome);
}

#[test]
fn blocks_without_room_go_below_last_and_alone_only_where_all_are_refused() {
    let mut directory = with_dirty(&[1, 2, 3, 4]);
    assert_eq!(directory.next_dirty(3, 9, true), [3, 4, 1, 2]);
    try_below(&mut directory, 3, Outcome::Refused);
    assert!(directory.is_refused(3) && !directory.are_refused(true));
    assert_eq!(directory.next_dirty(3, 9, true), [4, 1, 2, 3]);
    assert_eq!(directory.next_dirty(3, 2, true), [4, 1]);
    directory.try_again(4..9);
    directory.try_again(0..3);
    assert!(directory.is_refused(3), "it is in neither range");
    for place in [1, 2, 4] {
        try_below(&mut directory, place, Outcome::Refused);
    }
    assert!(directory.are_refused(true) && directory.are_refused(false));
    directory.try_again(1..3);
    let refused = [1, 2, 3, 4].map(|place| directory.is_refused(place));
    assert_eq!(refused, [false, false, true, true], "the range alone");
    // An attempt that fails otherwise says nothing of the room.
    try_below(&mut directory, 3, Outcome::Failed);
    assert!(!directory.is_refused(3));
    try_below(&mut directory, 4, Outcome::Below);
    assert!(!directory.is_refused(4) && !directory.is_dirty(4));
    try_below(&mut directory, 1, Outcome::Refused);
    directory.drop_block(1);
    assert_eq!((directory.dirty(), directory.next_dirty(0, 9, true)), (2, vec![2, 3]));
    assert!(!directory.is_refused(1), "nobody needs it");
}

#[test]
fn pinned_blocks_count_for_room_only_where_all_go_below() {
    let mut directory = with_dirty(&[1, 2, 9]);
    directory.pin(0..4);
    assert_eq!((directory.dirty(), directory.pinned()), (3, 2), "those of before are pinned, too");
    assert_eq!(directory.next_dirty(0, 9, false), [9]);
    assert_eq!(directory.next_dirty(0, 9, true), [9, 1, 2]);
    try_below(&mut directory, 9, Outcome::Refused);
    assert!(directory.are_refused(false) && !directory.are_refused(true));
    for place in [1, 2] {
        try_below(&mut directory, place, Outcome::Refused);
    }
    assert!(directory.are_refused(true));
    directory.pin(8..12);
    assert_eq!((directory.dirty(), directory.pinned()), (3, 1), "others are pinned by now");
    let mut directory = with_dirty(&[1]);
    directory.pin(0..4);
    assert!(!directory.are_refused(false) && !directory.are_refused(true), "nothing was tried");
    try_below(&mut directory, 1, Outcome::Refused);
    assert!(!directory.are_refused(false) && directory.are_refused(true));
    try_below(&mut directory, 1, Outcome::Below);
    assert!(!directory.are_refused(false) && !directory.are_refused(true), "nothing is dirty");
}

#[test]
fn three_quarters_of_the_buffers_may_be_dirty() {
    let places: Vec<u64> = (0..192).collect();
    let mut directory = with_dirty(&places);
    assert!(!directory.is_high() && with_dirty(&(0..193).collect::<Vec<u64>>()).is_high());
    directory.pin(500..508);
    assert!(directory.is_high(), "fewer buffers are left");
}

#[test]
fn a_block_that_is_lost_as_a_whole_does_not_go_below() {
    let mut directory = with_dirty(&[1]);
    let buffer = directory.take(1).expect("most are free")[0];
    let sequence = directory.begin(buffer, 1);
    directory.written(buffer, Entry { mask: 0, lost: 255, ..entry(1, sequence) }, true);
    assert_eq!((directory.dirty(), directory.lost()), (0, vec![(1, 255)]));
}

#[test]
fn stale_entries_and_clean_ones_may_become_void() {
    let mut directory = with_dirty(&[1, 2]);
    assert!(!directory.may_void());
    try_below(&mut directory, 1, Outcome::Below);
    assert!(directory.may_void(), "one is clean");
    let void = directory.begin_voiding(64, None);
    directory.voided(&void);
    assert!(!directory.may_void() && directory.free() == 255);
    directory.drop_block(2);
    assert!(directory.may_void(), "one is stale");
}

#[test]
fn what_a_torn_entry_hides_shows_when_it_is_void() {
    let mut directory = Directory::new(64, 8);
    directory.recover_torn((5, NOWHERE, 7), 3);
    assert_eq!((directory.durable(), directory.free()), (3, 63));
    let torn = directory.begin_voiding_torn();
    assert_eq!((&torn[..], directory.durable()), (&[5][..], 3));
    directory.voided_torn(&torn);
    assert_eq!((directory.durable(), directory.free()), (7, 64));
}
