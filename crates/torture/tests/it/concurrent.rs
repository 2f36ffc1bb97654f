//! The campaign of histories.

use torture::campaign::concurrent::workload::Workload;
use torture::campaign::concurrent::{judge, play};
use torture::explore::design::Design;

#[test]
fn answers_survive_in_most_histories_with_a_log_and_repetitions_meet_them() {
    let mut told = [0; 2];
    for seed in 0..200 {
        let workload = Workload::draw(seed, Design::LOG);
        let history = judge(&workload).history;
        assert_eq!(history.rules.survives, workload.survives);
        // Executions with an answer, in boots before the one that gave it.
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
        assert_eq!(one.digest, other.digest, "{workload:?}");
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
    use super::*;

    fn first(seeds: u64) -> impl Iterator<Item = Workload> {
        (0..seeds).map(|seed| Workload::draw(seed, Design::SYNC))
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
        println!("{small:?}\n{reason}");
        assert!(small.steps().len() <= 10, "{small:?}");
    }
}
