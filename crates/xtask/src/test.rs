//! Everything that a change must pass, in the order in which a fault is cheapest to find.
//!
//! A step that fails does not keep the later ones from running: a user that waits for a slow run
//! wants to know all that is wrong. The last line is the sum over all runners,
//! `N passed, M failed`; a step that is no runner of tests (the formatter, the linter) adds to it
//! only when it fails.

use std::ffi::OsString;
use std::process::Command;

use crate::client_test::{self, Plan};
use crate::{Repository, Result, Totals, bench_test, clock, command, lab, program, setup};

/// Runs everything; says whether all of it passed.
pub fn run(repository: &Repository) -> Result<bool> {
    setup::all(repository)?;
    let mut totals = Totals::default();
    totals += step("format", || check(repository, &["fmt", "--all", "--check"]));
    let lint = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    totals += step("lint", || check(repository, &lint));
    // With all features: bugs can be planted then, and those that should find them are run too.
    let tests = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    totals += step("unit and integration tests", || cargo_test(&mut cargo(repository, &tests)));
    // A stranger's clone has no folder `shared` beside it. Where it is, the tests that look for it
    // do another thing: once they are to do without.
    let alone = ["test", "-p", "ffs", "--all-features", "--lib", "--test", "it", "--no-fail-fast"];
    totals += step("the tests of ffs, in the repository alone", || {
        cargo_test(cargo(repository, &alone).env("DURAMEN_ALONE", "1"))
    });
    // Some minutes, fast. `cargo xtask torture --full` does the whole.
    let sample = ["all", "--seed", "1"].map(OsString::from);
    totals += step("the torture campaigns", || {
        program::torture(repository, &sample).map(|()| Totals::default())
    });
    for policy in ["log", "softdep"] {
        for campaign in ["seq1", "nested", "concurrent", "data", "retry", "faults"] {
            let words = [campaign, "--policy", policy, "--seed", "1"].map(OsString::from);
            totals += step(&format!("a torture campaign, policy {policy}"), || {
                program::torture(repository, &words).map(|()| Totals::default())
            });
        }
    }
    let delayed = ["nested", "--policy", "softdep", "--durability", "delayed"].map(OsString::from);
    totals += step("a torture campaign, policy softdep, delayed", || {
        program::torture(repository, &delayed).map(|()| Totals::default())
    });
    totals += step("the papers' figures", || lab::test(repository));
    totals += step("measuring servers", || bench_test::run(repository));
    totals += step("the real client", || client_test::run(repository, &Plan::default()));
    println!("{totals}");
    Ok(totals.failed == 0)
}

/// Carries out one step; one that cannot be carried out counts as one failure.
fn step(name: &str, step: impl FnOnce() -> Result<Totals>) -> Totals {
    println!("== {name}");
    let start = clock::now();
    let totals = step().unwrap_or_else(|failure| {
        println!("{failure}");
        Totals { passed: 0, failed: 1 }
    });
    println!("== {name}: {totals} ({:.0} s)", start.elapsed().as_secs_f64());
    totals
}

fn cargo(repository: &Repository, arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).current_dir(repository.root());
    cargo
}

fn check(repository: &Repository, arguments: &[&str]) -> Result<Totals> {
    command::run(&mut cargo(repository, arguments)).map(|()| Totals::default())
}

fn cargo_test(cargo: &mut Command) -> Result<Totals> {
    let mut totals = Totals::default();
    let passed = command::watch(cargo, |line| {
        totals += Totals::from_cargo_line(line).unwrap_or_default();
    })?;
    if !passed && totals.failed == 0 {
        // A test that did not build has no line of its own.
        totals.failed = 1;
    }
    Ok(totals)
}
