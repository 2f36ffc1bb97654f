//! Planted bugs, one at a time: a campaign that passes with a bug in it proves nothing.
//!
//! Each row of the table names a bug, a design, and the campaign's workload that exposes the bug
//! ([`rows`]). A row is played until its first violation, or until its time is over, which counts
//! as a violation of this campaign. For every fifth row the line of the violation is replayed, with
//! the bug, and must reproduce it. The full form replays all of them, plays the slow rows, and
//! plays each workload without the bug, which must find nothing; otherwise the campaigns themselves
//! show that.
//!
//! Rows do not depend on the seed of the run: the same workload finds a bug each time.

mod rows;

use std::fmt;
use std::time::Duration;

use super::budget::{now, spend_on_list};
use super::retry::Expectation;
use super::sequences::{self, all_pairs, all_singles};
use super::ways as campaign_ways;
use super::{
    Options, Outcome, case, concurrent, conformance, contract, crowd, data, faults, retry, rot,
    space,
};
use crate::explore::design::Design;
use crate::explore::op::Op;
use crate::explore::ways::way::Way;
use crate::explore::ways::{Effort, Ways};
use crate::explore::{Explorer, Style};
use crate::planted::{Bug, plant};
use rows::{ROWS, SLOW_ROWS};

/// Seconds in which a row must find its bug. Most take a fraction of one.
const BOUND_SECONDS: u64 = 30;

/// One of this many rows is replayed.
const REPLAYED_EVERY: usize = 5;
/// Seconds from which on a row is reported as slow.
const SLOW_SECONDS: f64 = 1.0;

/// A bug, and the workload that exposes it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    bug: &'static str,
    design: Design,
    how: How,
}

/// The campaign and the workload of a row.
#[derive(Clone, Copy, Debug)]
enum How {
    /// These operations, cut everywhere.
    Cut(&'static str),
    /// A scene of `explore::ways`, begun with a way.
    Way(&'static str, Way, Effort),
    /// Stories of a seed.
    Stories(u64),
    /// Histories of four clients.
    Histories,
    /// Repeated calls.
    Calls(Expectation),
    /// Faults of disks.
    Faults(u64),
    /// Full volumes.
    Worlds,
    /// A damaged block and the accesses after it.
    Rot,
    /// Crowds of clients.
    Crowds,
    /// Random operations in the world of a seed.
    Reference(u64),
    /// A workload of the contract of a device.
    Contract(&'static str),
    /// Any case.
    Case(&'static str),
    /// A case, or one of those with the next numbers: a change of the engine moves what happens in
    /// each.
    Near(&'static str),
}

/// Plays all rows.
pub fn planted(options: &Options) -> Outcome {
    let listed = Options { seconds: None, ..*options };
    let slow = if options.full { SLOW_ROWS } else { &[] };
    let rows: Vec<(usize, &Row)> = ROWS.iter().chain(slow).enumerate().collect();
    spend_on_list(
        &listed,
        &rows,
        || (),
        |(), (number, row)| {
            row.outcome(options.full, options.full || number.is_multiple_of(REPLAYED_EVERY))
        },
    )
}

/// The names of the bugs that have a row.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.bug)
}

/// The operations of each row with a cut, with its design.
pub fn workloads() -> impl Iterator<Item = (Design, Vec<Op>)> {
    ROWS.iter().filter_map(|row| match row.how {
        How::Cut(text) => Some((row.design, ops(text))),
        _ => None,
    })
}

fn ops(text: &str) -> Vec<Op> {
    text.split(", ").map(|op| op.parse().expect(text)).collect()
}

impl Row {
    fn outcome(&self, full: bool, replays: bool) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.counts.workloads = 1;
        let start = now();
        if let Err(reason) = self.judge((full, replays), &mut outcome) {
            outcome.counts.violations = 1;
            outcome.violations.push(format!("{self}: {reason}"));
        }
        let seconds = (now() - start).as_secs_f64();
        if seconds > SLOW_SECONDS {
            outcome.remarks.push(format!("{self}: {seconds:.1} s"));
        }
        outcome
    }

    fn judge(&self, (full, replays): (bool, bool), outcome: &mut Outcome) -> Result<(), String> {
        let bug: Bug = self.bug.parse()?;
        plant(Some(bug));
        let found = self.play();
        // A case in the table needs no line: it is the case.
        let is_line = matches!(self.how, How::Contract(_) | How::Case(_) | How::Near(_));
        let again = |found: &String| if replays && !is_line { again(found) } else { Ok(()) };
        let again = found.violations.first().map(again);
        plant(None);
        outcome.counts.states += found.counts.states;
        outcome.counts.images += found.counts.images;
        outcome.remarks.extend(found.remarks);
        match again {
            None => return Err("it is not found".to_owned()),
            Some(Err(reason)) => return Err(reason),
            Some(Ok(())) => {}
        }
        if !full || self.is_drawn() {
            return Ok(());
        }
        match self.play().violations.first() {
            Some(found) => Err(format!("without the bug: {found}")),
            None => Ok(()),
        }
    }

    /// Whether it tries further workloads until its time is over.
    fn is_drawn(&self) -> bool {
        matches!(
            self.how,
            How::Stories(_)
                | How::Histories
                | How::Faults(_)
                | How::Worlds
                | How::Rot
                | How::Crowds
                | How::Near(_)
        )
    }

    fn play(&self) -> Outcome {
        let Self { design, .. } = *self;
        let seconds = Some(BOUND_SECONDS);
        let short = Options { stops_at_first: true, ..Options::short(design, 1) };
        let drawn = Options { seconds, ..short };
        match self.how {
            How::Cut(text) => explored(design, &ops(text)),
            How::Way(scene, way, effort) => {
                campaign_ways::explore(design, scene, way, &mut Ways::new(effort, 1))
            }
            How::Stories(seed) => data::data(&Options { seed, ..drawn }),
            How::Histories => concurrent::concurrent(&Options { seed: 0, ..drawn }),
            How::Calls(expectation) => retry::retry(&short, expectation),
            How::Faults(seed) => faults::everywhere(&Options { seed, ..drawn }),
            How::Rot => rot::rot(&Options { seed: 0, ..drawn }),
            How::Crowds => crowd::crowd(&Options { seed: 0, ..drawn }),
            How::Worlds => space::space(&Options { seed: 0, ..drawn }),
            How::Reference(seed) => conformance::world(design, seed),
            How::Contract(workload) => failing(contract::named(&short, workload)),
            How::Case(line) => failing(case::replay(line)),
            How::Near(line) => near(line, seconds),
        }
    }
}

/// Replays a case and those with the next numbers until one fails, or the time is over.
fn near(line: &str, seconds: Option<u64>) -> Outcome {
    let number_of = |word: &str| word.parse::<u64>().ok();
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.iter().rposition(|word| number_of(word).is_some());
    let first = at.and_then(|at| number_of(words[at])).unwrap_or_default();
    let case = |number: u64| {
        let number = number.to_string();
        let mut words = words.clone();
        at.into_iter().for_each(|at| words[at] = &number);
        failing(case::replay(&words.join(" ")))
    };
    let mut outcome = Outcome::default();
    let end = now() + Duration::from_secs(seconds.unwrap_or(BOUND_SECONDS));
    for number in (first..).take_while(|_| now() < end) {
        let played = case(number);
        outcome.counts.states += played.counts.states;
        outcome.counts.images += played.counts.images;
        outcome.remarks = played.remarks;
        outcome.violations = played.violations;
        if !outcome.violations.is_empty() {
            if number != first {
                outcome.remarks.push(format!("{line}: {number} shows it now"));
            }
            break;
        }
    }
    outcome
}

/// A row that cannot be played finds nothing, and says why.
fn failing(played: Result<Outcome, String>) -> Outcome {
    played.unwrap_or_else(|reason| Outcome { remarks: vec![reason], ..Outcome::default() })
}

/// Explores operations in every style until a violation.
fn explored(design: Design, ops: &[Op]) -> Outcome {
    let mut explorer = Explorer::new(design);
    for &style in Style::ALL {
        explorer.explore(ops, style);
        if !explorer.violations.is_empty() {
            break;
        }
    }
    let violations = explorer.violations.iter().map(sequences::told).collect();
    Outcome { counts: explorer.counts, violations, ..Outcome::default() }
}

/// Replays the line of a violation, which must reproduce it.
fn again(found: &str) -> Result<(), String> {
    let line = found.split_once("replay '").and_then(|(_, rest)| rest.split_once('\''));
    let (line, _) = line.ok_or_else(|| format!("no line shows it again: {found}"))?;
    let replayed = case::replay(line).map_err(|reason| format!("'{line}': {reason}"))?;
    if replayed.violations.is_empty() {
        return Err(format!("'{line}' does not show it again"));
    }
    Ok(())
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {:?}", self.bug, self.design.case_name(), self.how)
    }
}

/// Searches for the workload that exposes a bug, to add a row: that of the bug's present row, if it
/// is drawn; for a set of disks the quickest that the seconds allow to find, or the first with two
/// faults; otherwise the first of those of one operation and then of two.
pub fn search(options: &Options, bug: Bug) -> Outcome {
    plant(Some(bug));
    let name = bug.to_string();
    let is_its = |row: &&Row| row.bug == name && row.is_drawn() && row.design == options.design;
    let line = if let Some(row) = ROWS.iter().find(is_its) {
        let found = match row.how {
            How::Near(line) => near(line, options.seconds),
            _ => row.play(),
        };
        found.violations.into_iter().next()
    } else if matches!(bug, Bug::Raid(_) | Bug::Nvram(_)) {
        let seconds = options.seconds.unwrap_or(BOUND_SECONDS);
        let plant = |is_planted: bool| plant(is_planted.then_some(bug));
        let of_two_faults = || contract::two_faults::first(options, seconds, plant);
        let quickest = contract::quickest(options, seconds, plant);
        let is_set = !options.design.device().has_nvram();
        quickest.or_else(|| is_set.then(of_two_faults).flatten())
    } else {
        first_of_sequences(options.design)
    };
    plant(None);
    let line = line.unwrap_or_else(|| "is not found".to_owned());
    Outcome { remarks: vec![format!("{bug}: {line}")], ..Outcome::default() }
}

fn first_of_sequences(design: Design) -> Option<String> {
    let mut explorer = Explorer::new(design);
    let mut first = None;
    for ops in all_singles(design).into_iter().chain(all_pairs(design)) {
        if first.as_ref() != ops.first() {
            first = ops.first().cloned();
            explorer.forget();
        }
        explorer.explore_all(&ops);
        if let Some(violation) = explorer.violations.first() {
            return Some(sequences::told(&violation.clone().shrunk()));
        }
    }
    None
}
