//! The engine over memory: no campaign that needs no disks finds anything, unless it is planted.

use torture::campaign::concurrent::concurrent;
use torture::campaign::retry::promised;
use torture::campaign::{Options, conformance};
use torture::explore::design::Design;

const OPTIONS: Options = Options::short(Design::RAM, 2);

#[test]
fn every_campaign_that_needs_no_disks_finds_nothing() {
    let outcome = concurrent(&OPTIONS).plus(promised(&OPTIONS));
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert!(outcome.cuts.taking.min(outcome.cuts.keeping) > 100, "{:?}", outcome.cuts);
    for seed in 0..4 {
        let outcome = conformance::world_in_memory(seed);
        assert_eq!(outcome.violations, Vec::<String>::new());
        assert_eq!(outcome.counts.states, 2000);
    }
}

#[test]
fn a_campaign_in_which_nothing_is_cut_fails() {
    let outcome = torture::campaign::Outcome::default().with_cuts(1);
    assert_eq!((outcome.counts.violations, outcome.violations.len()), (1, 1));
    let both = torture::campaign::Cuts { taking: 1, keeping: 1 };
    let outcome = torture::campaign::Outcome { cuts: both, ..Default::default() };
    assert_eq!(outcome.with_cuts(1).violations, Vec::<String>::new());
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use torture::campaign::concurrent::judge;
    use torture::campaign::concurrent::workload::Workload;
    use torture::planted::{Bug, plant};

    use super::*;

    /// Some history of the first that a bug makes inexplicable.
    fn is_found(bug: Bug) {
        let in_history = (0..3_000).find_map(|seed| {
            let workload = Workload::draw(seed, Design::RAM);
            plant(Some(bug));
            let violation = judge(&workload).violation;
            plant(None);
            violation.filter(|_| judge(&workload).violation.is_none())
        });
        println!("{bug:?}: {:.300}", in_history.expect("the bug is not found"));
    }

    #[test]
    fn updates_without_what_they_rest_on_are_found() {
        is_found(Bug::Ram(ram::planted::Bug::NoOrder));
    }

    #[test]
    fn receipts_before_the_commit_point_are_found() {
        is_found(Bug::Ram(ram::planted::Bug::StagedReceipts));
    }

    #[test]
    fn answers_that_are_forgotten_are_found() {
        is_found(Bug::Ram(ram::planted::Bug::ForgottenAnswers));
    }
}
