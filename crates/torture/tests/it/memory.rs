//! The engine over memory: its cuts are counted, so that a campaign without cuts does not pass.

use torture::campaign::{Cuts, Outcome};

#[test]
fn a_campaign_in_which_nothing_is_cut_fails() {
    let outcome = Outcome::default().with_cuts(1);
    assert_eq!((outcome.counts.violations, outcome.violations.len()), (1, 1));
    let both = Cuts { taking: 1, keeping: 1 };
    let outcome = Outcome { cuts: both, ..Default::default() };
    assert_eq!(outcome.with_cuts(1).violations, Vec::<String>::new());
}
