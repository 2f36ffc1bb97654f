//! The contract of a device, on plain disks and on sets; and that bugs of a set are found.

use torture::campaign::Options;
use torture::campaign::contract::{contract, first};
use torture::explore::design::Design;
use torture::explore::device::Device;

fn options(device: Device, threads: usize) -> Options {
    Options::short(Design::default().on(device), threads)
}

fn keeps(device: Device, least: u64) {
    let outcome = contract(&options(device, 2));
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert!(outcome.counts.states >= least, "{:?}", outcome.counts);
}

#[test]
fn a_disk_keeps_the_contract() {
    keeps(Device::Plain, 150);
}

#[test]
fn mirrors_keep_the_contract_whichever_is_lost() {
    keeps(Device::Raid1, 40_000);
}

#[test]
fn a_set_with_parity_keeps_the_contract_whichever_disk_is_lost() {
    keeps(Device::Raid5, 50_000);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn bugs_of_a_set_are_found() {
    use raid::planted::{Bug, plant};

    for (bug, device) in [
        (Bug::DataFirst, Device::Raid5),
        (Bug::DataFirst, Device::Raid1),
        (Bug::HalfReturns, Device::Raid5),
        (Bug::HastyMembers, Device::Raid5),
        (Bug::HastyRecords, Device::Raid5),
        (Bug::LonelyRecords, Device::Raid5),
        (Bug::LonelyReturns, Device::Raid5),
        (Bug::OldRecords, Device::Raid5),
        (Bug::StaleBlocks, Device::Raid5),
        (Bug::StaleParity, Device::Raid5),
        (Bug::UnsummedRecords, Device::Raid5),
        (Bug::UntoldLosses, Device::Raid5),
    ] {
        plant(Some(bug));
        let found = first(&options(device, 1)).violations;
        plant(None);
        let found = found.first().unwrap_or_else(|| panic!("{bug:?} on {device} is not found"));
        println!("{bug:?} on {device}: {found}");
    }
}
