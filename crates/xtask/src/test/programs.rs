//! The test programs of a build, run two at a time, with the time of each test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::{Failure, Repository, Result, Totals, command};

/// Build arguments of all tests. With all features: then bugs can be planted, and the tests that
/// should find them run too.
const TESTS: [&str; 3] = ["test", "--workspace", "--all-features"];

/// Programs that take longest, which start first.
const LONGEST: [&str; 4] = ["cli/it", "ffs/it", "raid/it", "shadow/it"];

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    path: PathBuf,
    /// Folder of its package, in which it runs.
    folder: PathBuf,
    /// Package and target, as in `ffs/it`.
    pub(super) name: String,
}

/// A test and the time that it took.
pub(super) type Timed = (Duration, String);

/// Results of a run.
#[derive(Debug, Default)]
pub(super) struct Ran {
    pub(super) totals: Totals,
    pub(super) timed: Vec<Timed>,
    /// Names of tests that failed.
    pub(super) failed: Vec<String>,
}

impl Ran {
    /// The results; a failure to run is printed, and counts as one failure.
    pub(super) fn of(carried_out: Result<Self>) -> Self {
        carried_out.unwrap_or_else(|failure| {
            println!("{failure}");
            Self { totals: Totals { passed: 0, failed: 1 }, ..Self::default() }
        })
    }

    /// The sum of both.
    pub(super) fn plus(mut self, other: Self) -> Self {
        self.totals += other.totals;
        self.timed.extend(other.timed);
        self.failed.extend(other.failed);
        self
    }
}

/// Builds all tests, and with them all programs; returns the test programs.
pub(super) fn build(repository: &Repository) -> Result<Vec<Program>> {
    let mut build = cargo(repository, &TESTS);
    build.args(["--no-run", "--quiet", "--message-format", "json-render-diagnostics"]);
    let built = command::capture(&mut build)?;
    let mut rest = cargo(repository, &["build", "--workspace", "--all-features", "--quiet"]);
    command::run(rest.args(["--bins", "--examples"]))?;
    let mut programs = programs(&built);
    let place = |program: &Program| LONGEST.iter().position(|name| *name == program.name);
    programs.sort_by_key(|program| place(program).unwrap_or(LONGEST.len()));
    Ok(programs)
}

/// Runs the examples of the documentation, which are separate programs.
pub(super) fn examples(repository: &Repository) -> Result<Ran> {
    run(cargo(repository, &TESTS).args(["--doc", "--quiet"]), "doc")
}

fn cargo(repository: &Repository, arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).current_dir(repository.root());
    cargo
}

/// The test programs in cargo's list of build products.
fn programs(built: &str) -> Vec<Program> {
    let messages = built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = |message: Value| {
        if message["profile"]["test"] != true {
            return None;
        }
        let path = PathBuf::from(message["executable"].as_str()?);
        let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = folder.file_name()?.to_string_lossy().into_owned();
        let name = format!("{package}/{}", message["target"]["name"].as_str()?);
        Some(Program { path, folder, name })
    };
    messages.filter_map(program).collect()
}

impl Program {
    /// Runs its tests, or only those whose names contain `filter`.
    pub(super) fn run(&self, filter: Option<&str>, alone: bool) -> Result<Ran> {
        let mut tests = Command::new(&self.path);
        // As cargo does it; and the test harness reports times only with unstable options.
        tests.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        tests.env("RUSTC_BOOTSTRAP", "1").args(["-Z", "unstable-options", "--report-time"]);
        tests.args(filter);
        if alone {
            tests.env("DURAMEN_ALONE", "1");
        }
        run(&mut tests, &self.name)
    }
}

/// Runs all tests of programs, two at a time: some wait for a process or for each other, and the
/// last test of a program leaves a processor idle.
pub(super) fn run_all(programs: &[Program]) -> Result<Ran> {
    let next = Mutex::new(programs.iter());
    let all = Mutex::new(Ran::default());
    let take = || next.lock().expect("to take one cannot fail").next();
    let work = || {
        while let Some(program) = take() {
            let ran = Ran::of(program.run(None, false));
            let mut all = all.lock().expect("to add cannot fail");
            *all = std::mem::take(&mut *all).plus(ran);
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    Ok(all.into_inner().expect("both are done"))
}

/// Runs test programs, shows their output when they have ended, and counts.
fn run(tests: &mut Command, name: &str) -> Result<Ran> {
    let mut ran = Ran::default();
    let (passed, printed) = command::output(tests)?;
    print!("== {name}\n{printed}");
    for line in printed.lines() {
        ran.totals += Totals::from_cargo_line(line).unwrap_or_default();
        ran.timed.extend(timed(line).map(|(took, test)| (took, format!("{name} {test}"))));
        ran.failed.extend(failed(line).map(|test| format!("{name} {test}")));
    }
    if !passed && ran.totals.failed == 0 {
        return Err(Failure::new(format!("{name} failed without a test that did")));
    }
    Ok(ran)
}

/// The test in a line such as `test a::b ... FAILED <0.123s>`.
fn failed(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    rest.starts_with("FAILED").then_some(name)
}

/// The time in a line such as `test a::b ... ok <0.123s>`.
fn timed(line: &str) -> Option<(Duration, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, seconds) = rest.split_once('<')?;
    let seconds: f64 = seconds.strip_suffix("s>")?.parse().ok()?;
    Some((Duration::from_secs_f64(seconds), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_among_all_that_cargo_has_built() {
        let artifact = |package: &str, name: &str, test: bool, executable: &str| {
            format!(r#"{{"manifest_path":"/{package}/Cargo.toml","target":{{"name":"{name}"}},"#)
                + &format!(r#""profile":{{"test":{test}}},"executable":{executable}}}"#)
        };
        let built = [
            artifact("a", "it", true, r#""/a-it""#),
            artifact("b", "b", false, r#""/b""#),
            artifact("b", "b", true, "null"),
            artifact("b", "it", true, r#""/b-it""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let found = programs(&built.join("\n"));
        let names: Vec<&str> = found.iter().map(|program| &*program.name).collect();
        assert_eq!(names, ["a/it", "b/it"]);
        assert_eq!(found[1].path, PathBuf::from("/b-it"));
        assert_eq!(found[1].folder, PathBuf::from("/b"));
    }

    #[test]
    fn the_time_and_the_failure_of_a_test_are_read_from_its_line() {
        let line = "test rename::a_name_returns ... ok <0.123s>";
        assert_eq!(timed(line), Some((Duration::from_millis(123), "rename::a_name_returns")));
        assert_eq!(timed("test rename::a_name_returns ... ok"), None);
        assert_eq!(timed("running 3 tests"), None);
        assert_eq!(failed(line), None);
        assert_eq!(
            failed("test rename::a_name_returns ... FAILED"),
            Some("rename::a_name_returns")
        );
    }
}
