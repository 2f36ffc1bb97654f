//! A fault at some reads, writes and flushes of a trace; `duramen-torture faults --full` takes all.

use torture::campaign::faults;

#[test]
fn no_fault_makes_the_server_lie_or_the_disk_unrepairable() {
    let outcome = faults::some(1, 61);
    assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
    assert!(outcome.counts.workloads >= 45, "{:?}", outcome.counts);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_server_that_makes_light_of_errors_is_found_out() {
    use ffs::planted::{Bug, plant};
    for bug in
        [Bug::IgnoredFlushErrors, Bug::ForgottenPayloadErrors, Bug::KeptVerifier, Bug::ServingOn]
    {
        plant(Some(bug));
        let outcome = faults::some(1, 17);
        plant(None);
        let tried = outcome.counts.workloads;
        let Some(first) = outcome.violations.first() else {
            panic!("none of {tried} faults shows {bug:?}");
        };
        println!("{bug:?}, after {tried} faults: {first}");
    }
}
