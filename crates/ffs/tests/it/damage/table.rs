//! Results by structure.

use std::collections::BTreeMap;
use std::fmt;

use super::judge::Outcome;
use super::mutation::Structure;
use super::reason::Reason;

/// Counts of one line.
#[derive(Default)]
struct Line {
    detected: u64,
    missed: u64,
    excused: BTreeMap<Reason, u64>,
}

/// A line for each structure, raw and sealed.
#[derive(Default)]
pub(crate) struct Table {
    lines: BTreeMap<(Structure, bool), Line>,
}

impl Table {
    pub(crate) fn add(&mut self, structure: Structure, sealed: bool, outcome: &Outcome) {
        let line = self.lines.entry((structure, sealed)).or_default();
        match outcome {
            Outcome::Detected(_) => line.detected += 1,
            Outcome::Missed => line.missed += 1,
            Outcome::Excused(reason) => *line.excused.entry(*reason).or_default() += 1,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16}{:>8}{:>10}{:>10}{:>14}{:>8}  why undetectable",
            "structure", "", "detected", "harmless", "undetectable", "missed"
        )?;
        for ((structure, sealed), line) in &self.lines {
            let count = |harmless| -> u64 {
                let some = line.excused.iter().filter(|(one, _)| one.is_harmless() == harmless);
                some.map(|(_, count)| count).sum()
            };
            let why = line.excused.iter().filter(|(one, _)| !one.is_harmless());
            let why: Vec<String> = why.map(|(one, count)| format!("{one:?} {count}")).collect();
            writeln!(
                f,
                "{:<16}{:>8}{:>10}{:>10}{:>14}{:>8}  {}",
                format!("{structure:?}"),
                if *sealed { "sealed" } else { "raw" },
                line.detected,
                count(true),
                count(false),
                line.missed,
                why.join(", ")
            )?;
        }
        Ok(())
    }
}
