//! A short run of generated cases of every target, the same every time. `cargo xtask fuzz` runs
//! more of them.

use fuzz::harness::{self, Plan};
use fuzz::{TARGETS, Target, corpus};

const SEED: u64 = 1;

/// Cases of each target: counted, not timed, so that every machine runs the same ones.
const CASES: u64 = 5_000;
/// The same if a case is a volume that is opened, used and stopped.
const VOLUMES: u64 = 1_000;

fn cases(target: &Target) -> u64 {
    if ["disk", "log", "server", "shadow"].contains(&target.name) { VOLUMES } else { CASES }
}

#[test]
fn the_first_cases_of_every_target_pass() {
    for target in TARGETS {
        let kept = corpus::load(target).expect("the repository can be read");
        let kept = kept.into_iter().map(|kept| kept.input).collect();
        let cases = cases(target);
        let plan = Plan { seed: SEED, first: 0, cases, time: None };
        let report = harness::run(target, kept, plan, |_| ());
        if let Some(failure) = report.failure {
            let (name, case) = (target.name, failure.case);
            let again = format!("cargo xtask fuzz {name} --seed {SEED} --case {case}");
            panic!("{name}: case {case} {}; again: {again}", failure.fault);
        }
        assert_eq!(report.passed, cases, "{}", target.name);
    }
}

#[test]
fn a_case_follows_from_its_seed_and_number() {
    for target in TARGETS {
        let input = |seed, case| harness::input_of(target, &[], seed, case);
        let inputs = |seed| (0..40).map(|case| input(seed, case)).collect::<Vec<_>>();
        assert_eq!(inputs(1), inputs(1), "{}", target.name);
        assert_ne!(inputs(1), inputs(2), "{}", target.name);
        assert!(inputs(1).iter().all(|input| input.len() <= 4 * target.longest));
    }
}
