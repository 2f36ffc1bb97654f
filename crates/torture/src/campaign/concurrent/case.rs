//! A workload as a line: `SEED`, then `world N`, `steps 0.1,0.4,2.0` and `cuts 0,1` where they
//! differ from those of the seed. Its replay reports everything.

use super::workload::Workload;
use super::{Outcome, judge};
use crate::campaign::line;
use crate::explore::design::Design;

/// The word of a case.
pub const WORD: &str = "concurrent";

/// Replays a workload and reports everything.
///
/// # Errors
/// Why the line names none.
pub fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let workload = read(design, details)?;
    let mut remarks = Vec::new();
    for (client, steps) in workload.clients.iter().enumerate() {
        let told = |(number, pause_us, step): &_| {
            format!("  {client}.{number} after {pause_us} us: {step:?}")
        };
        remarks.extend(steps.iter().map(told));
    }
    remarks.extend(workload.cuts.iter().map(|(number, cut)| format!("  cut {number}: {cut:?}")));
    let verdict = judge(&workload);
    remarks.push(verdict.history.all());
    let counts = verdict.counts();
    let violations = verdict.violation.map(|reason| told(&workload, &reason));
    let violations = violations.into_iter().collect();
    Ok(Outcome { counts, violations, remarks, ..Outcome::default() })
}

/// A violation with the line that reproduces it.
pub(super) fn told(workload: &Workload, reason: &str) -> String {
    line::told(reason, WORD, workload.design, &details(workload))
}

fn details(workload: &Workload) -> String {
    let whole = Workload::draw(workload.seed, workload.design);
    let mut line = workload.seed.to_string();
    if workload.world != whole.world {
        line += &format!(" world {}", workload.world);
    }
    if workload.clients != whole.clients {
        let steps: Vec<String> =
            workload.steps().iter().map(|(client, at)| format!("{client}.{at}")).collect();
        line += &format!(" steps {}", if steps.is_empty() { "-".into() } else { steps.join(",") });
    }
    if workload.cuts.len() != whole.cuts.len() {
        line += &format!(" cuts {}", line::list(&workload.as_part().cuts));
    }
    line
}

fn read(design: Design, details: &str) -> Result<Workload, String> {
    let mut words = details.split_whitespace();
    let seed = line::number(words.next().unwrap_or_default())?;
    let mut part = Workload::draw(seed, design).as_part();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("nothing follows '{word}'"))?;
        match word {
            "world" => part.world = line::number(value)?,
            "steps" => part.steps = steps(value)?,
            "cuts" => part.cuts = line::numbers(value)?,
            _ => return Err(format!("'{word}' is not one of world, steps, cuts")),
        }
    }
    Ok(Workload::part(seed, design, &part))
}

fn steps(text: &str) -> Result<Vec<(usize, usize)>, String> {
    let step = |text: &str| {
        let (client, number) = text.split_once('.')?;
        Some((client.parse().ok()?, number.parse().ok()?))
    };
    let steps = text.split(',').filter(|&one| one != "-").map(step);
    steps.collect::<Option<_>>().ok_or_else(|| "a step is a client and a number, as in 2.0".into())
}

#[cfg(test)]
mod tests {
    use super::super::workload::Part;
    use super::*;

    #[test]
    fn a_workload_is_read_as_it_was_written() {
        let whole = Workload::draw(7, Design::SYNC);
        let part = Part { steps: vec![(0, 2), (3, 1)], cuts: Vec::new(), world: 99 };
        let nothing = Part { steps: Vec::new(), ..part.clone() };
        for workload in [
            whole,
            Workload::part(7, Design::SYNC, &part),
            Workload::part(7, Design::SYNC, &nothing),
        ] {
            assert_eq!(read(Design::SYNC, &details(&workload)), Ok(workload));
        }
        for wrong in ["", "x", "7 world", "7 steps 1", "7 luck 3"] {
            assert!(read(Design::SYNC, wrong).is_err(), "{wrong}");
        }
    }
}
