//! The campaign of histories, short, and bugs that it must find.

use torture::campaign::Options;
use torture::campaign::concurrent::workload::Workload;
use torture::campaign::concurrent::{concurrent, judge, play};
use torture::explore::design::Design;

#[test]
fn histories_are_explained_by_an_order_of_their_calls() {
    for design in Design::all() {
        let outcome = concurrent(&Options::short(design, 2));
        assert_eq!(outcome.violations, Vec::<String>::new());
        let counts = outcome.counts;
        assert_eq!(counts.workloads, torture::campaign::concurrent::SHORT);
        assert!(counts.states > 20 * counts.workloads, "{counts:?}");
    }
}

#[test]
fn answers_survive_in_most_histories_with_a_log_and_repetitions_meet_them() {
    let mut told = [0; 2];
    for seed in 0..200 {
        let workload = Workload::draw(seed, Design::LOG);
        let history = judge(&workload).history;
        assert_eq!(history.rules.survives, workload.survives);
        // Executions in boots before the one that answered, with its answer.
        let early = history.executions.iter().filter(|one| one.end.is_none() && one.told.is_some());
        told[usize::from(workload.survives)] += early.count();
    }
    assert!(told[0] == 0 && told[1] > 100, "{told:?}");
}

#[test]
fn a_workload_is_played_the_same_again_and_meets_trouble() {
    let [mut crossed, mut cuts, mut overlapping] = [0; 3];
    for seed in 0..30 {
        let workload = Workload::draw(seed, Design::SYNC);
        let [one, other] = [(); 2].map(|()| play::play(&workload).expect("it comes back"));
        assert_eq!(one.digest, other.digest, "{workload}");
        cuts += one.cuts.len();
        crossed += one.calls.iter().filter(|call| call.crossed_a_crash()).count();
        let end = |index: usize| one.calls[index].answered.as_ref().map(|end| end.when.order);
        overlapping += (1..one.calls.len())
            .filter(|&index| end(index - 1).is_some_and(|end| end > one.calls[index].made.order))
            .count();
    }
    assert!(cuts > 30 && crossed > 30 && overlapping > 300, "{cuts}, {crossed}, {overlapping}");
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use torture::planted::{Bug, plant};

    use super::*;

    /// The first of the workloads that is a violation with a bug planted; it is none without it.
    fn found(
        mut workloads: impl Iterator<Item = Workload>,
        plant: impl Fn(bool),
    ) -> Option<Workload> {
        let workload = workloads.find(|workload| {
            plant(true);
            let verdict = judge(workload);
            plant(false);
            verdict.violation.is_some()
        })?;
        assert_eq!(judge(&workload).violation, None, "without the bug");
        Some(workload)
    }

    fn first(seeds: u64) -> impl Iterator<Item = Workload> {
        (0..seeds).map(|seed| Workload::draw(seed, Design::SYNC))
    }

    fn bug_of_the_engine(bug: Bug, workloads: impl Iterator<Item = Workload>) {
        let planted = |there: bool| plant(there.then_some(bug));
        let workload = found(workloads, planted);
        println!("{bug:?}: {}", workload.unwrap_or_else(|| panic!("{bug:?} was not found")));
    }

    #[test]
    fn bugs_of_the_engine_are_found() {
        use ffs::planted::Bug::{EarlyReceipts, EqualRanks};
        use vnode::planted::Bug::ConstantVerifier;
        bug_of_the_engine(Bug::Ffs(EarlyReceipts), first(100));
        bug_of_the_engine(Bug::Ffs(EqualRanks), first(600));
        bug_of_the_engine(Bug::Vnode(ConstantVerifier), first(60));
    }

    #[test]
    fn answers_that_do_not_survive_as_they_should_are_found() {
        use ffs::planted::Bug as Of;
        // Seldom: a call has to be repeated to the next boot, or even to the one after that.
        let with_log = || {
            let all = (0..2_000).map(|seed| Workload::draw(seed, Design::LOG));
            all.filter(|workload| workload.survives)
        };
        bug_of_the_engine(Bug::Ffs(Of::PassedAnswers), with_log());
        bug_of_the_engine(Bug::Ffs(Of::UnkeptAnswers), with_log());
        bug_of_the_engine(Bug::Ffs(Of::UninheritedAnswers), with_log());
        bug_of_the_engine(Bug::Ffs(Of::UntoldAnswers), with_log());
    }

    #[test]
    fn looks_that_wait_for_nothing_are_found() {
        use namespace::planted::{Bug, plant};
        let planted = |there: bool| plant(there.then_some(Bug::UnwaitedLooks));
        println!("{}", found(first(300), planted).expect("it was not found"));
    }

    #[test]
    fn a_reply_cache_that_does_not_know_a_repetition_is_found() {
        use dispatch::planted::{Bug, plant};
        for bug in [Bug::ConnectionInKey, Bug::UnnotedRunning] {
            let planted = |there: bool| plant(there.then_some(bug));
            let workload = found(first(300), planted);
            println!("{bug:?}: {}", workload.unwrap_or_else(|| panic!("{bug:?} was not found")));
        }
    }

    #[test]
    fn a_violation_is_made_small() {
        use ffs::planted::{Bug, plant};
        use torture::campaign::concurrent::shrink::shrink;
        plant(Some(Bug::EarlyReceipts));
        let violations = first(100).find_map(|workload| {
            let reason = judge(&workload).violation?;
            Some(shrink(&workload, reason))
        });
        plant(None);
        let (small, reason) = violations.expect("it is found");
        println!("{small}\n{reason}");
        assert!(small.steps().len() <= 10, "{small}");
    }
}
