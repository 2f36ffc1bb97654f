//! Campaigns as tests, for `cargo xtask mutants` alone, which judges broken source by tests.
//! Nothing else runs them (`test = false` in the manifest), since `cargo xtask test` plays the
//! campaigns themselves.

use torture::campaign::{
    Options, Outcome, concurrent, conformance, contract, crowd, data, faults, nested, retry,
    sequences, space, ways,
};
use torture::explore::design::Design;
use torture::explore::device::Device;

/// Seconds of each campaign on each design.
const SECONDS: u64 = 4;

fn finds_nothing(designs: impl Iterator<Item = Design>, campaign: fn(&Options) -> Outcome) {
    for design in designs {
        let options = Options { seconds: Some(SECONDS), ..Options::short(design, 1) };
        let outcome = campaign(&options);
        assert_eq!(outcome.violations, Vec::<String>::new());
        assert!(outcome.counts.workloads > 0, "{}", design.case_name());
    }
}

fn memorable() -> impl Iterator<Item = Design> {
    Design::all().filter(|design| design.remembers())
}

fn sets() -> impl Iterator<Item = Design> {
    [Design::SYNC.on(Device::Raid1), Design::LOG.on(Device::Raid5)].into_iter()
}

#[test]
fn sequences() {
    finds_nothing(Design::all().chain(Design::all().map(Design::delayed)), sequences::singles);
    finds_nothing(Design::all(), sequences::pairs);
}

#[test]
fn returns() {
    finds_nothing(Design::all(), nested::nested);
    finds_nothing(Design::all(), ways::ways);
}

#[test]
fn histories() {
    finds_nothing(Design::all().chain([Design::RAM]), concurrent::concurrent);
}

#[test]
fn crowds() {
    finds_nothing([Design::LOG, Design::RAM].into_iter(), crowd::crowd);
}

#[test]
fn bytes() {
    finds_nothing(Design::all(), data::data);
}

#[test]
fn full_volumes() {
    finds_nothing(memorable(), space::space);
}

#[test]
fn repetitions() {
    finds_nothing(Design::all(), retry::promised);
}

#[test]
fn errors() {
    finds_nothing(Design::all(), faults::everywhere);
}

#[test]
fn reference() {
    finds_nothing(Design::all().chain([Design::RAM]), conformance::random);
}

#[test]
fn disks_behind_nvrams() {
    let designs = [Device::Nvram, Device::Raid5Nvram].map(|device| Design::SYNC.on(device));
    finds_nothing(designs.into_iter(), contract::contract);
}

#[test]
fn sets_of_disks() {
    finds_nothing(sets(), contract::contract);
    finds_nothing(sets(), sequences::singles);
    finds_nothing(sets(), faults::everywhere);
    finds_nothing(sets(), conformance::random);
}
