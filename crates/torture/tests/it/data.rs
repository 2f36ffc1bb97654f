//! Some stories of the campaign of bytes; `duramen-torture data --full` tells thousands.

use torture::campaign::{Options, data};
use torture::explore::design::Design;

fn options(design: Design) -> Options {
    Options::short(design, 1)
}

#[test]
fn every_byte_that_an_answer_covers_is_there_after_a_cut() {
    for design in Design::all() {
        let outcome = data::some(&options(design), 0..40);
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        assert!(outcome.counts.images > 500, "{:?}", outcome.counts);
    }
}

/// Of blocks that a file has just got nothing is needed, and a set of disks makes use of that.
#[cfg(feature = "planted-bugs")]
#[test]
fn what_is_written_over_is_not_called_free() {
    use ffs::planted::{Bug, plant};
    for design in [Design::SYNC, Design::LOG] {
        plant(Some(Bug::VacatedData));
        let outcome = data::first(&options(design), 20);
        plant(None);
        let [found] = &outcome.violations[..] else { panic!("it is found") };
        assert!(found.contains("stripes of"), "{found}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_story_that_fails_is_told_with_the_steps_that_matter() {
    use vnode::planted::{Bug, plant};
    let options = Options { seed: 2, ..options(Design::SYNC) };
    plant(Some(Bug::EmptyCommit));
    let outcome = data::first(&options, 20);
    plant(None);
    let [found] = &outcome.violations[..] else { panic!("it is found") };
    let line = found.lines().next().expect("a line");
    let (_, case) = line.split_once("DURAMEN_DATA=").expect("the line that repeats it");
    let (story, rest) = case.split_once(' ').expect("a command");
    assert_eq!(rest, "cargo xtask torture data --policy sync");
    let (_, steps) = story.split_once(':').expect("steps");
    assert!(steps.split(',').count() < 8, "{found}");
    plant(Some(Bug::EmptyCommit));
    let again = data::repeat(&options, story);
    plant(None);
    assert_eq!(&again.violations, &outcome.violations, "its line shows it again");
    let without = data::repeat(&options, story);
    assert_eq!(without.violations, Vec::<String>::new(), "without the bug");
}

/// A file whose removal was cut has candidates behind its end. It gives them back itself, while
/// reclaim has to wait.
#[cfg(feature = "planted-bugs")]
#[test]
fn what_a_file_gives_back_is_not_given_back_before() {
    use ffs::planted::{Bug, plant};
    let design = Design::SOFTDEP;
    let options = Options { full: true, ..options(design) };
    for story in ["1004728", "1003194"] {
        plant(Some(Bug::HastyCandidates));
        let found = data::repeat(&options, story);
        plant(None);
        assert_eq!(found.violations.len(), 1, "{story} shows it");
        assert_eq!(data::repeat(&options, story).violations, Vec::<String>::new(), "{story}");
    }
}
