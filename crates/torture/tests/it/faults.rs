//! A fault at some reads, writes and flushes of a trace; `duramen-torture faults --full` takes all.

use torture::campaign::{Options, faults};
use torture::explore::design::Design;
use torture::explore::device::Device;

fn options(design: Design) -> Options {
    Options::short(design, 2)
}

#[test]
fn no_fault_makes_the_server_lie_or_the_disk_unrepairable() {
    // Under policy `log` the trace calls its disks less often.
    for (design, every) in [(Design::SYNC, 61), (Design::LOG, 29)] {
        let outcome = faults::some(&options(design), every);
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        assert!(outcome.counts.workloads > 40, "{:?}", outcome.counts);
    }
}

#[test]
fn no_fault_of_one_disk_of_a_set_is_seen_by_anybody() {
    let designs = [(Design::SYNC, Device::Raid1, 211), (Design::LOG, Device::Raid5, 173)];
    for (design, device, every) in designs {
        let outcome = faults::some(&options(design.on(device)), every);
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        assert!(outcome.counts.workloads > 40, "{:?}", outcome.counts);
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_server_that_makes_light_of_errors_is_found_out() {
    use ffs::planted::Bug::{ForgottenPayloadErrors, IgnoredFlushErrors, IgnoredLogErrors};
    use torture::planted::{Bug, plant};
    use vnode::planted::Bug::{KeptVerifier, RottenLosses, ServingOn};
    // Each with a step that is small enough to come by what shows it.
    for (bug, design, every) in [
        (Bug::Ffs(IgnoredFlushErrors), Design::SYNC, 17),
        (Bug::Ffs(ForgottenPayloadErrors), Design::SYNC, 17),
        (Bug::Vnode(KeptVerifier), Design::SYNC, 3),
        (Bug::Vnode(ServingOn), Design::SYNC, 17),
        (Bug::Ffs(IgnoredLogErrors), Design::LOG, 17),
        (Bug::Vnode(RottenLosses), Design::LOG, 3),
    ] {
        plant(Some(bug));
        let outcome = faults::some(&options(design), every);
        plant(None);
        let tried = outcome.counts.workloads;
        let Some(first) = outcome.violations.first() else {
            panic!("none of {tried} faults shows {bug:?}");
        };
        println!("{bug:?}, after {tried} faults: {first}");
    }
}
