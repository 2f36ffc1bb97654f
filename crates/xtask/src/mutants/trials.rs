//! Tests, what they reach, and what becomes of a mutant under them.
//!
//! 1. Each test is a process of its own. It has at most [`MEMORY`], and with a mutant at most
//!    [`TIMES`] times its own time and [`MORE`]: a mutant may ask for ever more of both.
//! 2. A test passes where no mutant is switched on, or nothing is tried.
//! 3. A mutant is tried with the tests that reach it, the quickest first, up to the first that
//!    fails.
//!
//! Not asserted: 1, which the command keeps; 2, which is a failure, not a bug; 3, a loop in one
//! place.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::broken::Program;
use super::rewrite::{FOLDER, NUMBER};
use crate::failure::While;
use crate::temporary::TemporaryFolder;
use crate::{Failure, Result, clock, command};

/// What a process of tests may write to of its memory, in bytes.
const MEMORY: u64 = 4 << 30;
/// How many times the time of a test without a mutant is its limit with one.
const TIMES: u32 = 5;
/// What is added to that: the machine may be busy with something else.
const MORE: Duration = Duration::from_secs(10);
/// No test may take longer without a mutant.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// A test failed.
    Caught,
    /// Tests reached it, and none failed.
    Missed,
    /// No test reached it.
    Unreached,
    /// It does not compile.
    Unviable,
    /// A test did not come to an end in time, which its runner notices.
    Timeout,
}

/// One test.
#[derive(Clone, Debug)]
pub(super) struct Test {
    program: Program,
    name: String,
    /// How long it takes, alone.
    time: Duration,
    /// The mutants that it comes by.
    reached: BTreeSet<usize>,
}

/// Lists the tests of these programs whose names have one of these parts, and finds out what each
/// reaches.
pub(super) fn tests(programs: &[Program], parts: &[&str]) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for program in programs {
        let mut list = Command::new(&program.path);
        list.current_dir(&program.folder).args(["--list", "--format", "terse"]).args(parts);
        let listed = command::capture(&mut list)?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        tests.extend(names.map(|name| {
            let (name, time, reached) = (name.to_owned(), Duration::ZERO, BTreeSet::new());
            Test { program: program.clone(), name, time, reached }
        }));
    }
    let mut tests =
        together(tests, |test| test.measured()).into_iter().collect::<Result<Vec<_>>>()?;
    tests.sort_by_key(|test| test.time);
    Ok(tests)
}

/// What becomes of a mutant under tests that are sorted by their time, and which test says so.
pub(super) fn fate(tests: &[Test], number: usize) -> Result<(Fate, String)> {
    let mut fate = (Fate::Unreached, String::new());
    for test in tests.iter().filter(|test| test.reached.contains(&number)) {
        let limit = TIMES * test.time + MORE;
        let (has_passed, time, _) = test.run(NUMBER, number.to_string().as_ref(), limit)?;
        if !has_passed {
            let fate = if time < limit { Fate::Caught } else { Fate::Timeout };
            return Ok((fate, test.name.clone()));
        }
        fate.0 = Fate::Missed;
    }
    Ok(fate)
}

impl Test {
    /// The same test, with its time and all that it reaches.
    fn measured(&self) -> Result<Test> {
        let folder = TemporaryFolder::new("reached")?;
        let run = || self.run(FOLDER, folder.path().as_os_str(), LONGEST);
        let (mut has_passed, mut time, mut printed) = run()?;
        if !has_passed {
            // A busy machine may be to blame.
            (has_passed, time, printed) = run()?;
        }
        if !has_passed {
            let name = &self.name;
            return Err(Failure::new(format!("{name} fails without a mutant:\n{printed}")));
        }
        let mut reached = BTreeSet::new();
        for entry in fs::read_dir(folder.path()).while_doing(folder.path().display())? {
            let path = entry.while_doing(folder.path().display())?.path();
            let numbers = fs::read_to_string(&path).while_doing(path.display())?;
            reached.extend(numbers.lines().filter_map(|line| line.parse::<usize>().ok()));
        }
        Ok(Test { time, reached, ..self.clone() })
    }

    /// Runs it with a variable; says whether it passed, how long it took, and what it printed.
    fn run(&self, key: &str, value: &OsStr, limit: Duration) -> Result<(bool, Duration, String)> {
        // What a killed test leaves behind goes with this folder.
        let temporary = TemporaryFolder::new("mutant")?;
        let mut nice = Command::new("nice");
        nice.args(["-n", "10", "timeout", "--signal=KILL", &limit.as_secs_f64().to_string()]);
        nice.args(["prlimit", &format!("--data={MEMORY}"), "--core=0"]).arg(&self.program.path);
        nice.args(["--exact", &self.name, "--test-threads=1"]).current_dir(&self.program.folder);
        nice.env_remove(NUMBER).env_remove(FOLDER).env(key, value);
        nice.env("CARGO_MANIFEST_DIR", &self.program.folder).env("TMPDIR", temporary.path());
        let printed = fs::File::create(temporary.path().join("printed"));
        let printed = printed.while_doing(temporary.path().display())?;
        let other = printed.try_clone().while_doing(temporary.path().display())?;
        // A file, not a pipe: a process that outlives the test would keep that open.
        nice.stdin(Stdio::null()).stdout(printed).stderr(other);
        let start = clock::now();
        let status = nice.status().while_doing(&self.name)?;
        let time = clock::now() - start;
        let printed = fs::read(temporary.path().join("printed")).unwrap_or_default();
        Ok((status.success(), time, String::from_utf8_lossy(&printed).into_owned()))
    }
}

/// Does something with each, as many at a time as there are processors; the results are in order.
pub(super) fn together<T: Sync, R: Send>(all: Vec<T>, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(all.len()));
    let workers = thread::available_parallelism().map_or(1, usize::from).min(all.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((index, one)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    all.get(index).map(|one| (index, one))
                } {
                    let result = work(one);
                    done.lock().expect("no worker panics with it").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no worker panics with it");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose tests are shell scripts: each is named by what it does.
    fn program(folder: &TemporaryFolder, script: &str) -> Program {
        let path = folder.path().join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("there is room");
        let mut mode = Command::new("chmod");
        command::run(mode.arg("+x").arg(&path)).expect("it is ours");
        Program { path, folder: folder.path().to_owned() }
    }

    const SCRIPT: &str = r#"
        if [ "$1" = --list ]; then
            echo "one: test"; echo "slow: test"; echo "x: benchmark"; exit
        fi
        [ "$2" = slow ] && sleep 0.2
        if [ "$MUTANTS_REACHED" ]; then
            [ "$2" = slow ] && echo 3 >> "$MUTANTS_REACHED/$$"
            echo 1 >> "$MUTANTS_REACHED/$$"; exit
        fi
        [ "$MUTANT" = 3 ] && exit 101
        exit 0"#;

    #[test]
    fn a_mutant_is_tried_with_the_tests_that_reach_it() {
        let folder = TemporaryFolder::new("trials").expect("there is room");
        let tests = tests(&[program(&folder, SCRIPT)], &[]).expect("they pass");
        let names = tests.iter().map(|test| &test.name[..]).collect::<Vec<_>>();
        assert_eq!(names, ["one", "slow"], "the quickest is first");
        assert_eq!(fate(&tests, 3), Ok((Fate::Caught, "slow".to_owned())));
        assert_eq!(fate(&tests, 1), Ok((Fate::Missed, String::new())));
        assert_eq!(fate(&tests, 2), Ok((Fate::Unreached, String::new())));
    }

    #[test]
    fn a_test_that_fails_without_a_mutant_is_told() {
        let folder = TemporaryFolder::new("trials").expect("there is room");
        let script = r#"[ "$1" = --list ] && echo "a: test" && exit; echo why; exit 1"#;
        let failure = tests(&[program(&folder, script)], &[]).expect_err("it fails");
        assert_eq!(failure.to_string(), "a fails without a mutant:\nwhy\n");
    }

    #[test]
    fn a_test_that_does_not_end_is_killed_with_all_that_it_started() {
        let folder = TemporaryFolder::new("trials").expect("there is room");
        let program = program(&folder, "sleep 60 & wait");
        let (name, reached) = ("a".to_owned(), BTreeSet::new());
        let test = Test { program, name, time: Duration::ZERO, reached };
        let limit = Duration::from_millis(100);
        let (has_passed, time, _) = test.run(NUMBER, "1".as_ref(), limit).expect("it runs");
        assert!(!has_passed && time >= limit && time < Duration::from_secs(50), "{time:?}");
    }

    #[test]
    fn results_are_in_order() {
        assert_eq!(
            together((0..99).collect(), |one| one * 2),
            (0..99).map(|one| one * 2).collect::<Vec<_>>()
        );
    }
}
