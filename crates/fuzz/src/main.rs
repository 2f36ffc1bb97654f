//! `duramen-fuzz`: the cases of a seed, from the command line. `cargo xtask fuzz` calls it.
//!
//! First come the kept inputs, then generated ones, for the requested number or time. An input that
//! fails is kept in `fuzz/regressions`, and a line is printed that repeats it. The targets share
//! the time equally.
//!
//! A second process does the work, so that out of memory or a stack overflow ends only that
//! process. A file then has the number of the case.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use fuzz::harness::{self, Failure, Plan, Report};
use fuzz::{TARGETS, Target, corpus};

/// Damages valid inputs and feeds them to the decoders
#[derive(Parser, Debug)]
#[command(name = "cargo xtask fuzz", disable_help_subcommand = true)]
struct Arguments {
    /// Which decoders; without any, or with "all": every one
    targets: Vec<String>,
    /// How long, all targets together
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// So many cases of each target, however long that takes
    #[arg(long, conflicts_with = "seconds")]
    cases: Option<u64>,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this case
    #[arg(long, conflicts_with_all = ["seconds", "cases"])]
    case: Option<u64>,
    /// Only the bytes of this file
    #[arg(long, conflicts_with_all = ["seconds", "cases", "case"])]
    input: Option<PathBuf>,
    /// Keep so many made inputs of each target as a corpus to start from
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["case", "input"])]
    keep: Option<u64>,
    /// Where the second process notes what it does
    #[arg(long, hide = true)]
    notes: Option<PathBuf>,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.notes {
        Some(_) => work(&arguments).map(|passed| if passed { 0 } else { 1 }),
        None => supervise(&arguments),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

fn chosen(arguments: &Arguments) -> Result<Vec<&'static Target>> {
    if arguments.targets.is_empty() || arguments.targets == ["all"] {
        return Ok(TARGETS.iter().collect());
    }
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let named = arguments.targets.iter().map(|name| {
        Target::named(name).ok_or_else(|| format!("no target {name:?}; expected: {}", known()))
    });
    Ok(named.collect::<std::result::Result<_, String>>()?)
}

/// A folder for a file that is written a million times a second and must never wait for a disk.
fn notes_folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Has another process do the work, and finds the case that ended it if one did.
fn supervise(arguments: &Arguments) -> Result<u8> {
    chosen(arguments)?;
    let notes = notes_folder().join(format!("duramen-fuzz-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe()?);
    let status = command.args(std::env::args_os().skip(1)).arg("--notes").arg(&notes).status()?;
    let note = std::fs::read_to_string(&notes);
    let _ = std::fs::remove_file(&notes);
    if let Some(code) = status.code() {
        return Ok(u8::try_from(code).unwrap_or(1));
    }
    println!("the process itself ended: {status}");
    let note = note?;
    let mut words = note.split_whitespace();
    let target = words.next().and_then(Target::named).ok_or("no case had begun")?;
    let case = words.next().ok_or("no case had begun")?.parse()?;
    let kept = kept_inputs(target)?;
    let input = harness::input_of(target, &kept, arguments.seed, case);
    tell(target, arguments.seed, case, &input)?;
    Ok(1)
}

fn work(arguments: &Arguments) -> Result<bool> {
    let targets = chosen(arguments)?;
    if let Some(path) = &arguments.input {
        let input = std::fs::read(path)?;
        return Ok(targets.iter().all(|target| {
            show(target, 0, &harness::replay(target, vec![input.clone()])).is_ok_and(|ok| ok)
        }));
    }
    let mut passed = true;
    for target in &targets {
        if let Some(count) = arguments.keep {
            for case in 0..count {
                corpus::keep_start(target, &harness::input_of(target, &[], arguments.seed, case))?;
            }
            continue;
        }
        passed &= work_on(target, arguments, targets.len())?;
    }
    Ok(passed)
}

fn kept_inputs(target: &Target) -> Result<Vec<Vec<u8>>> {
    Ok(corpus::load(target)?.into_iter().map(|kept| kept.input).collect())
}

/// Runs the kept inputs of a target, followed by its share of generated cases.
fn work_on(target: &'static Target, arguments: &Arguments, of: usize) -> Result<bool> {
    let kept = corpus::load(target)?;
    let inputs: Vec<_> = kept.iter().map(|kept| kept.input.clone()).collect();
    if let Some(failure) = harness::replay(target, inputs.clone()).failure {
        println!(
            "{}: {} {}",
            target.name,
            kept[failure.case as usize].path.display(),
            failure.fault
        );
        return Ok(false);
    }
    let time = Duration::from_secs(arguments.seconds) / of as u32;
    let plan = Plan {
        seed: arguments.seed,
        first: arguments.case.unwrap_or(0),
        cases: arguments.cases.or(arguments.case.map(|_| 1)).unwrap_or(u64::MAX),
        time: arguments.cases.or(arguments.case).is_none().then_some(time),
    };
    let notes = File::create(arguments.notes.as_ref().ok_or("notes are given by main")?)?;
    let note = move |case: u64| {
        let line = format!("{} {case} ", target.name);
        let _ = notes.write_at(line.as_bytes(), 0); // a failure only costs the repeat line
    };
    let report = harness::run(target, inputs, plan, note);
    let passed = show(target, arguments.seed, &report)?;
    if report.failure.is_some_and(|failure| failure.fault == harness::Fault::Hung) {
        return Err("a case that hangs cannot be ended: the other targets were not run".into());
    }
    Ok(passed)
}

fn show(target: &Target, seed: u64, report: &Report) -> Result<bool> {
    let Report { passed, peak, failure } = report;
    println!("{}: {passed} cases passed, {peak} bytes at most", target.name);
    let Some(Failure { case, input, fault }) = failure else { return Ok(true) };
    println!("{}: case {case} {fault}", target.name);
    tell(target, seed, *case, input)?;
    Ok(false)
}

/// Keeps an input that failed and prints how to reproduce it.
fn tell(target: &Target, seed: u64, case: u64, input: &[u8]) -> Result<()> {
    let path = corpus::keep_failure(target, input)?;
    println!("  kept as {}", path.display());
    println!("  again: cargo xtask fuzz {} --input {}", target.name, path.display());
    println!("     or: cargo xtask fuzz {} --seed {seed} --case {case}", target.name);
    Ok(())
}
