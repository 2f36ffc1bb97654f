//! One workload, told in full: for the reader of a violation.

use super::workload::{Part, Workload};
use super::{Outcome, judge};
use crate::explore::design::Design;

/// Plays the workload of a seed, or a part of it, and tells everything.
pub fn seed(seed: u64, design: Design, part: &PartOf) -> Outcome {
    let workload = part.of(seed, design);
    println!("{workload}");
    for (client, steps) in workload.clients.iter().enumerate() {
        for (number, pause_us, step) in steps {
            println!("  {client}.{number} after {pause_us} us: {step:?}");
        }
    }
    for (number, cut) in &workload.cuts {
        println!("  cut {number}: {cut:?}");
    }
    let verdict = judge(&workload);
    println!("{}", verdict.history.all());
    let counts = verdict.counts();
    let violations = verdict.violation.into_iter().collect();
    Outcome { counts, violations, ..Outcome::default() }
}

/// What of a workload is played, as the command line has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct PartOf {
    /// The seed of the world, if it is another one
    #[arg(long)]
    world: Option<u64>,
    /// The steps, as in 0.1,0.4,2.0, or none
    #[arg(long, value_parser = steps)]
    steps: Option<Steps>,
    /// The cuts, as in 0,1, or none
    #[arg(long, value_parser = cuts)]
    cuts: Option<Cuts>,
}

/// Numbers of cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cuts(Vec<usize>);

/// Steps, as client and number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Steps(Vec<(usize, usize)>);

fn steps(text: &str) -> Result<Steps, String> {
    let step = |text: &str| {
        let (client, number) = text.split_once('.')?;
        Some((client.parse().ok()?, number.parse().ok()?))
    };
    let steps = list(text).map(step).collect::<Option<_>>();
    steps.map(Steps).ok_or_else(|| "a step is a client and a number, as in 2.0".into())
}

fn cuts(text: &str) -> Result<Cuts, String> {
    let numbers = list(text).map(str::parse).collect::<Result<_, _>>();
    numbers.map(Cuts).map_err(|_| "cuts are numbers, as in 0,1".into())
}

/// What a comma stands between.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|&one| one != "none")
}

impl PartOf {
    fn of(&self, seed: u64, design: Design) -> Workload {
        let whole = Workload::draw(seed, design).as_part();
        let part = Part {
            steps: self.steps.clone().map_or(whole.steps, |Steps(steps)| steps),
            cuts: self.cuts.clone().map_or(whole.cuts, |Cuts(cuts)| cuts),
            world: self.world.unwrap_or(whole.world),
        };
        Workload::part(seed, design, &part)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        part: PartOf,
    }

    #[test]
    fn what_a_workload_prints_is_read_as_the_same_workload() {
        let whole = Workload::draw(7, Design::SYNC);
        let part = Part { steps: vec![(0, 2), (3, 1)], cuts: Vec::new(), world: 99 };
        let nothing = Part { steps: Vec::new(), ..part.clone() };
        for workload in [
            whole,
            Workload::part(7, Design::SYNC, &part),
            Workload::part(7, Design::SYNC, &nothing),
        ] {
            let line = workload.to_string();
            let words = line.split(' ').skip(3); // cargo xtask torture
            let line = Line::try_parse_from(words.skip(1)).expect("a seed was before it");
            assert_eq!(line.part.of(7, Design::SYNC), workload);
        }
    }
}
