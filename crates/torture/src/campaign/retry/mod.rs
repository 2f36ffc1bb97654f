//! Repeated calls: each of the procedures that must not be executed twice, with a power cut at
//! every write, and the same bytes sent again.
//!
//! * [`cases`]: the calls, and the allowed answers to their repetitions;
//! * [`stage`]: worlds and connections;
//! * [`over_cut`]: repetitions to the next boot;
//! * [`one_boot`]: repetitions to the same boot, at every moment of the first call.
//!
//! Within one boot the reply cache promises that a call is carried out once and always gets the
//! same answer. Across a cut that depends on where replies are remembered: [`Expectation`] is the
//! campaign's rule.

pub mod cases;
mod number;
pub mod one_boot;
pub mod over_cut;
pub mod stage;

use std::collections::BTreeMap;

use bytes::Bytes;
use nfs3_types::nfs3::{WRITE3args, nfsstat3};

use super::budget::spend;
use super::concurrent::LEAST_CUTS;
use super::concurrent::wire;
use super::{Cuts, Options, Outcome, line};
use crate::explore::Counts;
use crate::explore::design::Design;
use crate::explore::model::View;
use crate::protocol::{Answer, Procedure, Response};
use cases::{Case, cases};
use over_cut::First;
use stage::{Base, Served, Stage, results};

/// The word of a case: the expectation, the seed, `full` if more is cut, and the call.
pub(super) const WORD: &str = "retry";
/// Marks a case in the full form.
const IN_FULL: &str = "full";

/// The allowed answers to a repetition across a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Replies are remembered in memory alone: `docs/durability.md`, "A retry across a crash". A
    /// call that was carried out is carried out again; it succeeds only where that changes nothing,
    /// and otherwise fails with the error of its case.
    Documented,
    /// Replies survive together with the change: the original answer, every time.
    Original,
}

impl Expectation {
    fn word(self) -> &'static str {
        match self {
            Self::Documented => "documented",
            Self::Original => "original",
        }
    }

    /// The server that has to meet the expectation. Calls without keys have no intents.
    fn served(self, design: Design) -> Served {
        let survives = self == Self::Original;
        let design = if survives { design.with_ring() } else { design.without_ring() };
        Served { design, survives }
    }
}

/// Judges one case.
pub struct Judge<'a> {
    case: &'a Case,
    expectation: Expectation,
    counts: Counts,
    violations: Vec<String>,
    cuts: Cuts,
}

impl Judge<'_> {
    /// The expectation of its case. The answer of a call that changed nothing has no change to be
    /// stored with; a WRITE writes the same again.
    fn expectation_of(&self, first: &First) -> Expectation {
        let is_kept = self.case.target != WRITE3args::TARGET
            && self.case.first == nfsstat3::NFS3_OK
            && first.has_changed();
        if is_kept { self.expectation } else { Expectation::Documented }
    }

    fn violate(&mut self, when: &str, reason: &str) {
        self.counts.violations += 1;
        if self.violations.is_empty() {
            // The first violation of a case is enough.
            self.violations.push(format!("{}: {when}: {reason}", self.case.name));
        }
    }
}

/// The campaign: the documented answers for a cache that dies with the server; and, for a policy
/// that stores answers, the original answer every time.
pub fn promised(options: &Options) -> Outcome {
    let expectations: &[Expectation] =
        if options.design.remembers() || options.design.keeps_intents() {
            &[Expectation::Documented, Expectation::Original]
        } else {
            &[Expectation::Documented]
        };
    // Each gets its share of a time budget.
    let seconds = options.seconds.map(|all| all.div_ceil(expectations.len() as u64));
    let share = Options { seconds, ..*options };
    let played = expectations.iter().map(|&expectation| retry(&share, expectation));
    let all = played.fold(Outcome::default(), Outcome::plus);
    if options.design.has_disks() {
        return all;
    }
    all.with_cuts(match (options.seconds, options.full) {
        (Some(_), _) => 1,
        (None, true) => LEAST_CUTS,
        (None, false) => LEAST_CUTS / 10,
    })
}

/// Repeats every call in every way. In full, with more of the losses that a cut can cause; within a
/// time budget, again with the losses of another seed.
pub fn retry(options: &Options, expectation: Expectation) -> Outcome {
    first(usize::MAX, options, expectation)
}

/// The same for the first `count` calls of the list.
pub fn first(count: usize, options: &Options, expectation: Expectation) -> Outcome {
    let base = || Base::new(expectation.served(options.design));
    let listed = cases(&base().handles).len().min(count) as u64;
    let pieces = if options.seconds.is_some() { u64::MAX } else { listed };
    spend(options, pieces, base, |base, piece| {
        let case = &cases(&base.handles)[(piece % listed) as usize];
        let seed = options.seed.wrapping_add(piece / listed);
        one(base, case, &Options { seed, ..*options }, expectation)
    })
}

fn one(base: &Base, case: &Case, options: &Options, expectation: Expectation) -> Outcome {
    let counts = Counts { workloads: 1, ..Counts::default() };
    let mut judge =
        Judge { case, expectation, counts, violations: Vec::new(), cuts: Cuts::default() };
    match First::run(base, case, options.full) {
        Ok(first) => {
            judge.cuts = first.cuts();
            over_cut::judge(&mut judge, &first, options);
            one_boot::judge(&mut judge, base, &first, options.full);
        }
        Err(reason) => judge.violate("the first time", &reason),
    }
    let Judge { counts, violations, cuts, .. } = judge;
    let full = if options.full { format!(" {IN_FULL}") } else { String::new() };
    let details = format!("{} {}{full} {}", expectation.word(), options.seed, case.name);
    let told = |reason: String| line::told(&reason, WORD, options.design, &details);
    let violations = violations.into_iter().map(told).collect();
    Outcome { counts, violations, cuts, ..Outcome::default() }
}

/// Replays one call.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let no = || format!("'{details}' is not what is expected, a seed, and a call");
    let (word, rest) = details.split_once(' ').ok_or_else(no)?;
    let (seed, name) = rest.split_once(' ').ok_or_else(no)?;
    let stripped = name.strip_prefix(IN_FULL).and_then(|name| name.strip_prefix(' '));
    let (full, name) = stripped.map_or((false, name), |name| (true, name));
    let known = [Expectation::Documented, Expectation::Original];
    let expectation = known.into_iter().find(|known| known.word() == word).ok_or_else(no)?;
    let options = Options { full, seed: line::number(seed)?, ..Options::short(design, 1) };
    let base = Base::new(expectation.served(design));
    let cases = cases(&base.handles);
    let case = cases.iter().find(|case| case.name == name).ok_or_else(no)?;
    Ok(one(&base, case, &options, expectation))
}

/// Whether two views are the same but for the numbers of the files.
fn same(one: &View, other: &View) -> bool {
    let mut numbers = BTreeMap::new();
    let mut back = BTreeMap::new();
    one.len() == other.len()
        && one.iter().zip(other).all(|((path, seen), (other_path, other_seen))| {
            path == other_path
                && (&seen.what, seen.mode, seen.links)
                    == (&other_seen.what, other_seen.mode, other_seen.links)
                && *numbers.entry(seen.file).or_insert(other_seen.file) == other_seen.file
                && *back.entry(other_seen.file).or_insert(seen.file) == seen.file
        })
}

/// Whether the handle in a reply belongs to the file that the call makes.
fn made_is_there(case: &Case, reply: &Bytes, stage: &Stage) -> Result<(), String> {
    let (Some(path), Answer::Results(results)) = (case.makes, results(reply)?) else {
        return Ok(());
    };
    let response = Response::decode(case.target, &results).ok_or("no results of its procedure")?;
    let Some(object) = wire::told(&response).object else { return Ok(()) };
    match stage.find(path) {
        Some(there) if there == (object.0, object.1) => Ok(()),
        there => Err(format!("the handle is of {object:?}, and {path} is {there:?}")),
    }
}
