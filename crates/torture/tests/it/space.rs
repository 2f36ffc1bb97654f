//! Some worlds of the campaign of full volumes; `duramen-torture space --full` has fifty.

use torture::campaign::{Options, space};
use torture::explore::design::Design;

fn designs() -> impl Iterator<Item = Design> {
    Design::all().filter(|design| design.remembers())
}

#[test]
fn who_needs_no_room_is_never_told_that_there_is_none() {
    for design in designs() {
        let outcome = space::first(design, 2);
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        assert!(outcome.counts.states > 500, "{:?}", outcome.counts);
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn bugs_of_what_is_free_are_found_and_their_lines_show_them_again() {
    use shadow::planted::{Bug, plant};
    let design = designs().find(|design| design.is_summed()).expect("there is one");
    for bug in [Bug::KeptPlans, Bug::KeptRecords, Bug::UnfoldedFrees] {
        plant(Some(bug));
        let outcome = space::first(design, 4);
        plant(None);
        let Some(found) = outcome.violations.first() else { panic!("{bug:?} is not found") };
        println!("{bug:?}: {found}");
        let (_, line) = found.rsplit_once("DURAMEN_SPACE=").expect("the line that repeats it");
        let (seed, rest) = line.split_once(' ').expect("a command");
        assert_eq!(rest, "cargo xtask torture space --engine shadow");
        let options = Options::short(design, 1);
        plant(Some(bug));
        let again = space::repeat(&options, seed);
        plant(None);
        assert_eq!(&again.violations, &outcome.violations, "its line shows it again");
    }
}
