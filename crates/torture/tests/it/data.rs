//! The campaign of bytes: a failure is shrunk, and its line reproduces it.
#![cfg(feature = "planted-bugs")]

use torture::campaign::{Options, case, data};
use torture::explore::design::Design;
use vnode::planted::{Bug, plant};

#[test]
fn a_story_that_fails_is_told_with_the_steps_that_matter() {
    let short = Options::short(Design::SYNC, 1);
    let options = Options { seed: 2, stops_at_first: true, ..short };
    plant(Some(Bug::EmptyCommit));
    let outcome = data::data(&options);
    plant(None);
    let found = outcome.violations.first().expect("it is found");
    let (_, line) = found.split_once("torture replay '").expect("the line that repeats it");
    let (line, _) = line.split_once('\'').expect("its end");
    let (_, steps) = line.rsplit_once(' ').expect("steps");
    assert!(steps.split(',').count() < 8, "{found}");
    plant(Some(Bug::EmptyCommit));
    let again = case::replay(line).expect("a case");
    plant(None);
    assert_eq!(again.violations.first(), Some(found), "its line shows it again");
    let without = case::replay(line).expect("a case");
    assert_eq!(without.violations, Vec::<String>::new(), "without the bug");
}
