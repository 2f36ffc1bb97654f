//! Random operations give the replies that a reference gives. `duramen-torture conformance --full`
//! does a million.

use torture::campaign::conformance;
use torture::explore::device::Device;

#[test]
fn random_operations_are_answered_as_by_the_reference() {
    for seed in 0..2 {
        let outcome = conformance::world(seed);
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        assert_eq!(outcome.counts.states, 2000);
    }
}

/// Every bug shows in some reply, or in what the checker says of the disk.
#[cfg(feature = "planted-bugs")]
#[test]
fn an_engine_that_errs_is_found_out() {
    use torture::planted::{Bug, plant};
    for bug in [
        Bug::Ffs(ffs::planted::Bug::LeakedFragments),
        Bug::Vnode(vnode::planted::Bug::StaleChangeTimes),
    ] {
        plant(Some(bug));
        let outcome = conformance::world(3);
        plant(None);
        assert!(!outcome.violations.is_empty(), "{bug:?}");
    }
}

#[test]
fn random_calls_are_answered_as_the_reference_says_on_sets_of_disks() {
    for (seed, device) in
        [(4, Device::Raid1), (5, Device::Raid1), (6, Device::Raid5), (7, Device::Raid5)]
    {
        let outcome = conformance::world_on(seed, device);
        assert_eq!(outcome.violations, Vec::<String>::new(), "{device}");
    }
}
