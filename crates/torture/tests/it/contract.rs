//! The contract of a device, on plain disks and on sets; and that bugs of a set are found.

use torture::campaign::Options;
use torture::campaign::contract::{contract, named};
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
    keeps(Device::Plain, 80);
}

#[test]
fn mirrors_keep_the_contract_whichever_is_lost() {
    keeps(Device::Raid1, 10_000);
}

#[test]
fn a_set_with_parity_keeps_the_contract_whichever_disk_is_lost() {
    keeps(Device::Raid5, 15_000);
}

/// What is found once has to be found again by whoever looks for it.
#[test]
fn a_workload_is_the_same_each_time() {
    let tried = || named(&options(Device::Raid5, 1), "raid5-3-Rebuilt-0+8192-3584+1024").counts;
    assert_eq!(tried(), tried());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn bugs_of_a_set_are_found() {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::thread;

    use raid::planted::{Bug, plant};

    let rows = [
        (Bug::DataFirst, "raid5-3-Apart-0+512-3584+1024"),
        (Bug::DataFirst, "raid1-2-Apart-0+512-3072+1536"),
        (Bug::EarlyBits, "raid5-3-Flushed-0+512-0+512-fresh"),
        (Bug::EarlyBits, "raid1-2-Flushed-0+512-0+512-fresh"),
        (Bug::EarlyPlaces, "raid5-3-Vacated-0+512-0+8192"),
        (Bug::EarlyPlaces, "raid1-2-Vacated-0+512-0+8192"),
        (Bug::ForgottenSums, "raid5-3-Through-0+512-0+4096-fresh"),
        (Bug::HalfReturns, "raid5-3-Through-0+512-0+4096-fresh"),
        (Bug::HastyMembers, "raid5-3-Rebuilt-0+8192-3584+1024"),
        (Bug::HastyRecords, "raid5-3-Through-0+512-0+4096-fresh"),
        (Bug::LonelyRecords, "raid5-3-Through-0+512-0+4096-fresh"),
        (Bug::LonelyReturns, "raid5-3-Through-0+512-0+4096-fresh"),
        (Bug::OldRecords, "raid5-3-Returned-0+8192-4096+16384"),
        (Bug::OldStripes, "raid5-3-Vacated-0+16896-0+8192"),
        (Bug::OldStripes, "raid1-2-Vacated-0+512-0+8192"),
        (Bug::StaleBlocks, "raid5-4-Together-0+4096-3584+1024"),
        (Bug::StaleParity, "raid5-3-Apart-0+512-4096+16384-0w1"),
        (Bug::UnjudgedReads, "raid1-2-Flushed-0+512-3584+1024"),
        (Bug::UnjudgedReads, "raid5-3-Flushed-0+8192-3584+1024"),
        (Bug::UnloggedMaps, "raid5-3-Through-0+512-0+4096-fresh"),
        (Bug::UnsummedRecords, "raid5-3-Flushed-0+512-0+512-fresh"),
        (Bug::UntoldLosses, "raid5-3-Apart-0+512-4096+16384-0w1"),
        (Bug::UnzeroedStripes, "raid5-3-Flushed-0+512-0+512-fresh"),
    ];
    // A bug is planted in one thread: two work, each at what comes next. Without a bug every
    // workload passes.
    let workloads: BTreeSet<&str> = rows.iter().map(|(_, workload)| *workload).collect();
    let planted = rows.into_iter().map(|(bug, workload)| (Some(bug), workload));
    let all = planted.chain(workloads.into_iter().map(|workload| (None, workload)));
    let (all, wrong) = (Mutex::new(all), Mutex::new(Vec::new()));
    let next = || all.lock().expect("to take one cannot fail").next();
    let work = || {
        while let Some((bug, workload)) = next() {
            let (device, _) = workload.split_once('-').expect("its device comes first");
            let options = options(device.parse().expect("it is one"), 1);
            plant(bug);
            let found = named(&options, workload).violations;
            plant(None);
            println!("{bug:?} by {workload}: {:?}", found.first());
            if bug.is_some() == found.is_empty() {
                let told = format!("{bug:?} by {workload}: {found:?}");
                wrong.lock().expect("to add one cannot fail").push(told);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    assert_eq!(wrong.into_inner().expect("both are done"), Vec::<String>::new());
}
