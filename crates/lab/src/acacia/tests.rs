use std::cell::RefCell;
use std::time::Duration;

use super::disks::{Disks, Layout};
use super::experiments::{self, variant};
use super::placement::{Run as Blocks, SUPERBLOCK, Search};
use super::prototype::{File, Prototype};
use super::*;

/// Inputs without randomness.
const STEADY: Inputs =
    Inputs { delay: Duration::ZERO, stray_one_in: u64::MAX, pause: Duration::ZERO, ..PROTOTYPE };

/// Whether raw speeds with requests of 40 and of 100 KB are as published.
fn are_as_published(design: Design) -> [bool; 2] {
    [(40, 550.0), (100, 850.0)].map(|(kb, published)| {
        let run = variant(3, PROTOTYPE, design, kb, 100);
        let figure = Figure::new("e", "f", "KB/s").published(published).measured(run.user());
        figure.is_reproduced() == Some(true)
    })
}

#[test]
fn another_seed_is_as_published_too() {
    let results = run(2, true, &|_| ());
    assert_eq!(results.failures, [""; 0]);
}

#[test]
fn a_superblock_that_is_not_in_the_cylinder_is_noticed() {
    assert_eq!(are_as_published(PAPER), [true; 2]);
    assert_eq!(are_as_published(Design { in_cylinder: false, ..PAPER }), [false; 2]);
}

#[test]
fn writes_that_are_not_placed_by_the_turn_are_noticed() {
    assert_eq!(are_as_published(Design { by_turn: false, ..PAPER }), [false; 2]);
}

#[test]
fn a_server_that_is_slower_than_its_leeway_misses_turns() {
    let slow = Inputs { delay: PROTOTYPE.leeway * 4, ..PROTOTYPE };
    let [in_time, late] = [PROTOTYPE, slow].map(|inputs| variant(1, inputs, PAPER, 100, 60));
    assert!(late.user() < 0.75 * in_time.user(), "{} and {}", late.user(), in_time.user());
}

/// A search in a cylinder of the paper's disk.
fn search<'a>(inputs: &'a Inputs, layout: &'a Layout, free: &[bool]) -> Search<'a> {
    Search::new(layout, inputs, 7, free)
}

#[test]
fn a_sequence_is_of_free_blocks_and_leaves_out_the_superblock() {
    let layout = Layout(DISK.platters());
    let free: Vec<bool> = (0..layout.cylinder_blocks()).map(|block| block % 7 != 3).collect();
    let found = search(&PROTOTYPE, &layout, &free).sequence(20).expect("there is one");
    let mut blocks: Vec<u64> =
        found.iter().flat_map(|run| run.first..run.first + run.blocks).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 20);
    assert!(blocks.iter().all(|&block| free[block as usize] && block != SUPERBLOCK));
    let tracks = |run: &Blocks| [run.first, run.first + run.blocks - 1].map(|block| block / 9);
    assert!(found.iter().map(tracks).all(|[first, last]| first == last), "{found:?}");
}

#[test]
fn a_search_without_patience_gives_up_and_the_simplest_is_taken() {
    let (layout, inputs) = (Layout(DISK.platters()), Inputs { patience: 30, ..PROTOTYPE });
    let free = vec![true; layout.cylinder_blocks() as usize];
    let mut search = search(&inputs, &layout, &free);
    assert_eq!(search.sequence(20), None);
    assert_eq!(search.examined(), 30);
    let first = |run: &Blocks| (run.first, run.blocks);
    let runs = search.simplest(11);
    assert_eq!(runs.iter().map(first).collect::<Vec<_>>(), [(1, 4), (5, 4), (9, 3)]);
    assert!(variant(1, inputs, PAPER, 40, 3).updates.iter().all(|update| update.is_simplest));
}

#[test]
fn between_the_writes_of_a_sequence_the_disk_waits_for_the_leeway_and_little_more() {
    let update = variant(5, STEADY, PAPER, 100, 1).updates[0];
    assert!(!update.is_simplest);
    let layout = Layout(DISK.platters());
    let blocks = update.all_bytes / 4096;
    // Seven writes and the superblock; the first waits for one rotation at most.
    let (moved_ns, turn_ns) =
        (layout.transfer_ns(blocks) + layout.pass_ns(blocks), DISK.rotation_ns());
    let gap_ns = (STEADY.leeway + STEADY.slack).as_nanos() as u64 + DISK.head_switch_ns;
    let most_ns = moved_ns + turn_ns + 7 * gap_ns;
    let least_ns = moved_ns + 7 * STEADY.leeway.as_nanos() as u64;
    let raw_ns = update.raw.as_nanos() as u64;
    assert!((least_ns..=most_ns).contains(&raw_ns), "{raw_ns}, not {least_ns} to {most_ns}");
}

#[test]
fn what_an_update_replaces_is_free_and_nothing_else() {
    let server = Prototype::new(1, Disks::new(1, DISK, 1), STEADY, PAPER);
    let file = RefCell::<File>::default();
    let mut data = 0;
    for blocks in [3, 9, 10, 25] {
        server.disks.run(server.update(&file, blocks));
        data += blocks;
        let pointers = u64::from(data > 12);
        assert_eq!(server.used(), data + pointers + 2, "after {data} blocks of data");
    }
}

#[test]
fn the_same_seed_gives_the_same_digits() {
    let digits = |seed| {
        let run = experiments::write(seed, Writers { clients: 2, daemons: 2 }, 60, 40);
        (run.seen(), run.user(), run.all())
    };
    assert_eq!(digits(3), digits(3));
    assert_ne!(digits(3), digits(4));
}

#[test]
fn a_headline_that_is_missed_and_a_claim_that_is_broken_are_failures() {
    let row = |measured| {
        Figure::new("the prototype, while it writes", "the disk's maximum", "MB/s")
            .published(1.4)
            .measured(measured)
    };
    let failures = |measured, holds| figures::failures(&[row(measured)], &[("it holds", holds)]);
    let has = |failures: &[String], word| failures.iter().any(|failure| failure.contains(word));
    assert!(has(&failures(3.0, true), "the disk's maximum (a headline)"));
    assert!(!has(&failures(1.4, true), "the disk's maximum"));
    assert!(has(&failures(1.4, false), "the claim that it holds"));
    assert!(!has(&failures(1.4, true), "the claim"));
}

#[test]
fn updates_that_go_to_a_logs_end_break_the_claim() {
    let [near, log] = [true, false].map(|near| experiments::between_reads(6, near, 60));
    assert!(near.crossed < 1.0 && log.crossed > 100.0, "{near:?} {log:?}");
    // An average seek of the disk takes 17 ms.
    assert!(log.update_ms - near.update_ms > 10.0, "{near:?} {log:?}");
}
