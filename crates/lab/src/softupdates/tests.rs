use super::files::Writes;
use super::*;

fn tar(style: Style) -> [Taken; 2] {
    let costs = if style == Style::Normal { Processor::normal() } else { Processor::soft() };
    World::of_paper(style, 1).tar(costs.tar)
}

fn sync(taken: &Taken) -> (u64, u64) {
    (taken.at_end.sync, taken.at_end.async_)
}

#[test]
fn without_soft_updates_tar_waits_for_523_writes_and_rm_for_258() {
    let [make, remove] = tar(Style::Normal);
    assert_eq!(sync(&make), (523, 0));
    assert_eq!(remove.at_rest.sync, 258);
}

#[test]
fn with_soft_updates_nothing_is_waited_for() {
    let [make, remove] = tar(Style::Soft(Ages::PAPER));
    assert_eq!([sync(&make), sync(&remove)], [(0, 0); 2]);
    assert!((make.elapsed_s - 0.5).abs() < 1e-9, "the processor's time alone: {make:?}");
}

/// Whether the number of writes by tar with soft updates is as published: 33.
fn is_as_published(style: Style) -> bool {
    let [make, _] = tar(style);
    let figure = Figure::new("e", "f", "").published(33.0).measured(make.at_rest.all());
    figure.is_reproduced() == Some(true)
}

#[test]
fn soft_updates_that_write_each_change_by_itself_are_noticed() {
    assert!(is_as_published(Style::Soft(Ages::PAPER)));
    assert!(!is_as_published(Style::Hasty));
}

#[test]
fn of_what_comes_and_goes_before_it_is_old_ours_writes_a_few_blocks() {
    let world = World::ours(1);
    // No directory here exceeds its first fragment, so none moves.
    let shape = workloads::Shape::flat(8, 20, 0);
    let mut calls = shape.make();
    calls.extend(shape.remove());
    let taken = world.script(&Script { calls, processor: Duration::from_millis(700) });
    assert_eq!(taken.at_rest.sync, 0);
    // 168 names and as many inodes; the remaining writes are maps, blocks of inodes and of
    // directories.
    assert!(taken.at_rest.async_ < 25, "{taken:?}");
}

#[test]
fn the_same_seed_gives_the_same_digits_and_another_gives_others() {
    let torture = |seed| {
        let world = World::<Model>::of_paper(Style::Soft(Ages::PAPER), seed);
        world.torture(1, &Processor::soft().torture, seed)
    };
    assert_eq!(torture(3), torture(3));
    assert_ne!(torture(3), torture(4));
}

#[test]
fn a_headline_that_is_missed_and_notes_for_all_are_failures() {
    let row = |figure: &str, measured| {
        Figure::new("tar of 28 directories with 202 empty files", figure, "")
            .published(10.0)
            .measured(measured)
    };
    let missed = figures::failures(&[row("gain", 20.0)]);
    assert!(missed[0].contains("headline"), "{missed:?}");
    let noted = figures::failures(&[row("other", 20.0).note("because")]);
    assert!(noted.iter().any(|failure| failure.contains("notes explain 1 of 1")), "{noted:?}");
    assert_eq!(Writes { sync: 2, async_: 3 }.all(), 5.0);
}
