//! Everything that a change must pass: cheap steps that find most come first.
//!
//! Everything is built once, in one profile, slightly optimised and with all assertions: tests,
//! campaigns, the lab, and the server that the real client uses. Each step has a budget
//! ([`crate::budgets`]). Samples follow from a seed, that of the commit: each commit plays another
//! sample, and the same commit the same one. `--full` plays everything, for hours.
//!
//! A step that fails does not prevent later ones: a person who waits for a slow run wants to know
//! all failures. At the end follow the seconds of each step, the draws of each campaign, and the
//! slowest tests; the last line is the sum over all runners, `N passed, M failed`. A campaign
//! counts as one test there, and so does each step that is not a test runner, if it fails.

mod programs;
mod report;

use std::process::Command;

use programs::{Program, Ran};
use report::{Drawn, Report};

use crate::budgets::{self, ROWS, Row};
use crate::client_test::{self, Plan as ClientPlan};
use crate::{Failure, Repository, Result, Totals, bench_test, command, lab, program, setup, tidy};

/// The amount to test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Everything, not a sample.
    pub full: bool,
    /// Seed of all draws; by default derived from the commit.
    pub seed: Option<u64>,
}

/// Modules whose tests look for the folder of references.
const FOREIGN: [(&str, &str); 3] =
    [("ffs/it", "freebsd"), ("ffs/it", "damage::oracle"), ("fsck/fsck", "freebsd")];

/// Runs everything; returns whether all of it passed.
pub fn run(repository: &Repository, plan: &Plan) -> Result<bool> {
    setup::all(repository)?;
    let seed = plan.seed.unwrap_or_else(|| of_commit(repository));
    println!("== the seed is {seed}; to draw the same again: cargo xtask test --seed {seed}");
    let mut report = Report::default();
    sources(repository, &mut report);
    let programs = built(repository, &mut report);
    if let Some(programs) = &programs {
        report.step(budgets::UNIT, || programs::run_all(programs));
        report.step(budgets::ALONE, || alone(programs));
        report.step(budgets::DOCS, || programs::examples(repository));
        campaigns(repository, plan, seed, &mut report);
        others(repository, plan, seed, &mut report);
    }
    Ok(report.finish())
}

/// Checks that need no build.
fn sources(repository: &Repository, report: &mut Report) {
    let cargo = |words: &[&str]| {
        command::run(Command::new("cargo").args(words).current_dir(repository.root()))
    };
    report.step(budgets::FORMAT, || cargo(&["fmt", "--all", "--check"]).map(|()| Ran::default()));
    report.step(budgets::TIDY, || {
        let is_tidy = tidy::run(repository)?;
        Ok(Ran { totals: Totals::one(is_tidy), ..Ran::default() })
    });
}

/// Builds everything; `None` if the tests do not build.
fn built(repository: &Repository, report: &mut Report) -> Option<Vec<Program>> {
    let mut lint = Command::new("cargo");
    lint.args(["clippy", "--quiet", "--workspace", "--all-targets", "--all-features"]);
    lint.args(["--", "-D", "warnings"]).current_dir(repository.root());
    report.step(budgets::LINT, || command::run(&mut lint).map(|()| Ran::default()));
    let mut programs = None;
    report.step(budgets::BUILD, || {
        programs = Some(programs::build(repository)?);
        Ok(Ran::default())
    });
    programs
}

/// Runs tests as in a stranger's clone, without the folder `shared` beside it: tests that look for
/// it skip then.
fn alone(programs: &[Program]) -> Result<Ran> {
    let run = |(name, filter)| {
        let found = programs.iter().find(|program| program.name == name);
        let found = found.ok_or_else(|| Failure::new(format!("no tests {name}")))?;
        found.run(Some(filter), true)
    };
    Ok(FOREIGN.into_iter().map(run).map(Ran::of).fold(Ran::default(), Ran::plus))
}

/// The campaigns and the planted bugs.
fn campaigns(repository: &Repository, plan: &Plan, seed: u64, report: &mut Report) {
    let torture = repository.target().join("debug/duramen-torture");
    let seed = seed.to_string();
    for Row { words, seconds, .. } in ROWS {
        let mut campaign = Command::new(&torture);
        campaign.args(words.split(' ')).args(["--seed", &seed, "--json"]);
        let budget = seconds.to_string();
        let much = if plan.full { vec!["--full"] } else { vec!["--seconds", &budget] };
        report.campaign(words, *seconds, || Drawn::by(campaign.args(much)));
    }
    let mut planted = Command::new(&torture);
    planted.args(["planted", "--json"]).args(plan.full.then_some("--full"));
    report.step(budgets::PLANTED, || {
        let Drawn { passed, workloads, .. } = Drawn::by(&mut planted)?;
        let found = if passed { workloads } else { 0 };
        let totals = Totals { passed: found, failed: u64::from(!passed) };
        Ok(Ran { totals, ..Ran::default() })
    });
}

/// Runs the papers, the measurements, and the real client.
fn others(repository: &Repository, plan: &Plan, seed: u64, report: &mut Report) {
    let counted = |totals: Result<Totals>| totals.map(|totals| Ran { totals, ..Ran::default() });
    let built = |name: &str| repository.target().join("debug").join(name);
    report.step(budgets::LAB, || {
        let lab = if plan.full {
            program::built(repository, "duramen-lab")?
        } else {
            built("duramen-lab")
        };
        counted(lab::test(repository, &lab, plan.full))
    });
    report.step(budgets::BENCH, || {
        counted(if plan.full {
            bench_test::run(repository)
        } else {
            bench_test::sample(&built("duramen"))
        })
    });
    let scenarios = if plan.full { Vec::new() } else { client_test::sample(seed) };
    println!("== scenarios of the real client: {scenarios:?}");
    let program = (!plan.full).then(|| built("duramen"));
    let drawn = (!plan.full).then_some(seed);
    let client = ClientPlan { drawn, scenarios, program, ..ClientPlan::default() };
    report.step(budgets::CLIENT, || counted(client_test::run(repository, &client)));
}

/// A seed derived from the commit.
fn of_commit(repository: &Repository) -> u64 {
    let mut git = Command::new("git");
    git.args(["rev-parse", "HEAD"]).current_dir(repository.root());
    let hash = command::capture(&mut git).ok();
    let digits = hash.as_deref().and_then(|hash| hash.get(..8));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(1)
}
