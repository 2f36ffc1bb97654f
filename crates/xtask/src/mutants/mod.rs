//! Sources that are broken on purpose, one small change at a time, and whether a test notices.
//!
//! 1. [`areas`] names the parts of the workspace that keep the promise, and the tests of each.
//! 2. [`choose`] takes from their mutants those of a change, a sample, a share.
//! 3. [`workshop`] has a copy of the sources, where cargo-mutants breaks them.
//! 4. [`outcomes`] reads what it has found; [`accepted`] knows what no test can notice.
//! 5. [`report`] tells of it. A mutant that was missed and is not accepted fails the run, and so
//!    does an entry of the accepted that fits nothing, or a mutant that a test does notice.
//!
//! Architecture invariant: nothing here says what a mutant is. That is for cargo-mutants alone.

mod accepted;
mod areas;
mod choose;
mod outcomes;
mod report;
mod workshop;

use std::fs;
use std::process::Command;

use accepted::{Accepted, LIST};
use areas::Area;
pub use choose::Shard;
use choose::{Mutant, sample};
use outcomes::Fate;
use report::Report;
use workshop::Workshop;

use crate::failure::While;
use crate::{Repository, Result, command, setup};

/// Which mutants to try.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Only those in what has changed since this commit.
    pub diff: Option<String>,
    /// Only those of these parts.
    pub areas: Vec<String>,
    /// Of each part only so many.
    pub sample: Option<usize>,
    /// What draws them.
    pub seed: u64,
    /// Of those only this share.
    pub shard: Option<Shard>,
    /// Only with the quickest tests of each part.
    pub first: bool,
    /// Name them, and try none.
    pub list: bool,
}

/// Carries out the plan. Says whether no mutant was missed.
pub fn run(repository: &Repository, plan: &Plan) -> Result<bool> {
    setup::mutants()?;
    let list = repository.root().join(LIST);
    let accepted = Accepted::list(&fs::read_to_string(&list).while_doing(LIST)?)?;
    let areas = areas::chosen(&plan.areas)?;
    let difference = plan.diff.as_deref().map(|base| difference(repository, base)).transpose()?;
    let workshop = Workshop::open(repository)?;
    let mut report = Report::new(plan, &accepted);
    let touched = |area: &Area| {
        difference.as_deref().is_none_or(|difference| files_of(difference).any(|f| area.has(f)))
    };
    for mut area in areas.into_iter().filter(touched) {
        if plan.first {
            area.stages = &area.stages[..1];
        }
        let all = workshop.list(&area, None)?;
        report.must_fit(&area, &all, |mutant| workshop.line(mutant));
        let of = all.len();
        let all = match difference.as_deref() {
            None => all,
            Some(difference) => workshop.list(&area, Some(difference))?,
        };
        let chosen = choose(plan, all);
        if plan.list {
            chosen.iter().for_each(|mutant| println!("{}", mutant.name));
        }
        let fates = if plan.list { Vec::new() } else { try_out(&workshop, &area, chosen)? };
        report.add(&area, of, fates, |mutant| workshop.line(mutant));
    }
    report.print();
    Ok(report.is_good())
}

/// What has changed since `base` and this branch went apart, up to the files as they are now.
fn difference(repository: &Repository, base: &str) -> Result<String> {
    let mut git = Command::new("git");
    git.args(["diff", "--no-color", "--no-ext-diff", "--merge-base", base, "--", "crates"]);
    command::capture(git.current_dir(repository.root()))
}

/// The files that a difference leaves behind with other text.
fn files_of(difference: &str) -> impl Iterator<Item = &str> {
    difference.lines().filter_map(|line| line.strip_prefix("+++ b/"))
}

fn choose(plan: &Plan, all: Vec<Mutant>) -> Vec<Mutant> {
    let drawn = match plan.sample {
        None => all,
        Some(size) => sample(all, size, plan.seed),
    };
    plan.shard.map_or(drawn.clone(), |shard| shard.of(drawn))
}

/// Tries mutants with one stage of tests after the other. What one has missed is for the next.
fn try_out(workshop: &Workshop, area: &Area, chosen: Vec<Mutant>) -> Result<Vec<(Mutant, Fate)>> {
    let mut left = chosen;
    let mut decided = Vec::new();
    for (index, stage) in area.stages.iter().enumerate() {
        if left.is_empty() {
            break;
        }
        let (count, name, package) = (left.len(), area.name, stage.package);
        println!("mutants: {count} of {name}, tests of {package} {}", stage.which.join(" "));
        let is_last = index + 1 == area.stages.len();
        let (missed, others) = workshop
            .try_out(stage, &left)?
            .into_iter()
            .partition::<Vec<_>, _>(|(_, fate)| *fate == Fate::Missed && !is_last);
        decided.extend(others);
        left = missed.into_iter().map(|(mutant, _)| mutant).collect();
    }
    decided.sort();
    Ok(decided)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_touches_the_files_that_it_changes() {
        let difference = "--- a/crates/journal/src/save.rs\n+++ b/crates/journal/src/save.rs\n\
                          @@ -1 +1 @@\n-old\n+new\n--- a/gone.rs\n+++ /dev/null\n";
        assert_eq!(files_of(difference).collect::<Vec<_>>(), ["crates/journal/src/save.rs"]);
    }

    #[test]
    fn a_shard_is_a_share_of_the_sample() {
        let mutant = |line: usize| Mutant {
            name: format!("a.rs:{line}:1: replace f"),
            file: "a.rs".to_owned(),
            line,
            what: "replace f".to_owned(),
        };
        let all = (0..100).map(mutant).collect::<Vec<_>>();
        let plan = |shard: &str| Plan {
            sample: Some(10),
            seed: 7,
            shard: Some(shard.parse().expect("a shard")),
            ..Plan::default()
        };
        let [first, second] = ["1/2", "2/2"].map(|shard| choose(&plan(shard), all.clone()));
        assert_eq!((first.len(), second.len()), (5, 5));
        assert!(first.iter().all(|mutant| !second.contains(mutant)));
    }
}
