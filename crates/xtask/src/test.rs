//! Everything that a change must pass, in the order in which a fault is cheapest to find.
//!
//! A step that fails does not keep the later ones from running: a user that waits for a slow run
//! wants to know all that is wrong. The last line is the sum over all runners,
//! `N passed, M failed`; a step that is no runner of tests (the formatter, the linter) adds to it
//! only when it fails.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::client_test::{self, Plan};
use crate::{Failure, Repository, Result, Totals, bench_test, clock, command, lab, program, setup};

/// All tests. With all features: bugs can be planted then, and those that should find them are run
/// too.
const TESTS: [&str; 3] = ["test", "--workspace", "--all-features"];

/// Runs everything; says whether all of it passed.
pub fn run(repository: &Repository) -> Result<bool> {
    setup::all(repository)?;
    let mut totals = Totals::default();
    totals += step("format", || check(repository, &["fmt", "--all", "--check"]));
    let lint = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    totals += step("lint", || check(repository, &lint));
    totals += step("unit and integration tests", || {
        run_tests(cargo(repository, &TESTS).arg("--no-fail-fast"))
    });
    totals += step("the tests of ffs, in the repository alone", || ffs_alone(repository));
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
    for campaign in ["seq1", "space", "retry", "faults"] {
        let words = [campaign, "--engine", "shadow", "--seed", "1"].map(OsString::from);
        totals += step("a torture campaign, engine shadow", || {
            program::torture(repository, &words).map(|()| Totals::default())
        });
    }
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

/// A stranger's clone has no folder `shared` beside it. Where it is, the tests that look for it do
/// another thing: once they are to do without. They are the programs that were built for all tests:
/// for this crate by itself cargo would build much anew, since some of its dependencies have fewer
/// features then.
fn ffs_alone(repository: &Repository) -> Result<Totals> {
    let mut build = cargo(repository, &TESTS);
    build.args(["--no-run", "--quiet", "--message-format", "json-render-diagnostics"]);
    let built = command::capture(&mut build);
    let built = built.map_err(|_| Failure::new("there are tests that do not build"))?;
    let folder = repository.root().join("crates/ffs");
    let manifest = folder.join("Cargo.toml");
    let mut totals = Totals::default();
    for name in ["ffs", "it"] {
        let program = test_program(&built, &manifest.to_string_lossy(), name)?;
        let mut tests = Command::new(program);
        // As cargo has it.
        tests.current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
        totals += run_tests(tests.env("DURAMEN_ALONE", "1"))?;
    }
    Ok(totals)
}

/// Which program has the tests of the target `name` of a package, by what cargo says about a build.
fn test_program(built: &str, manifest: &str, name: &str) -> Result<PathBuf> {
    let messages = built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| {
        let is_it = message["manifest_path"] == manifest
            && message["target"]["name"] == name
            && message["profile"]["test"] == true;
        is_it.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    match (programs.next(), programs.next()) {
        (Some(program), None) => Ok(program),
        (None, _) => Err(Failure::new(format!("{manifest}: no tests of {name} were built"))),
        (Some(_), Some(_)) => {
            Err(Failure::new(format!("{manifest}: the tests of {name} were built twice")))
        }
    }
}

/// Runs programs of tests, and counts.
fn run_tests(tests: &mut Command) -> Result<Totals> {
    let mut totals = Totals::default();
    let passed = command::watch(tests, |line| {
        totals += Totals::from_cargo_line(line).unwrap_or_default();
    })?;
    if !passed && totals.failed == 0 {
        // A test that did not build has no line of its own.
        totals.failed = 1;
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_target_is_found_among_all_that_cargo_has_built() {
        let artifact = |manifest: &str, name: &str, test: bool, executable: &str| {
            format!(r#"{{"manifest_path":"/{manifest}","target":{{"name":"{name}"}},"#,)
                + &format!(r#""profile":{{"test":{test}}},"executable":{executable}}}"#)
        };
        let built = [
            artifact("a", "it", true, r#""/a-it""#),
            artifact("b", "b", false, "null"),
            artifact("b", "b", true, r#""/b-b""#),
            artifact("b", "it", true, r#""/b-it""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = |name: &str| test_program(&built.join("\n"), "/b", name);
        assert_eq!(found("it"), Ok(PathBuf::from("/b-it")));
        assert_eq!(found("b"), Ok(PathBuf::from("/b-b")));
        let failure = found("other").expect_err("there is none").to_string();
        assert_eq!(failure, "/b: no tests of other were built");
        let twice =
            test_program(&[&built[3], &built[3]].map(String::as_str).join("\n"), "/b", "it");
        assert!(twice.is_err());
    }
}
