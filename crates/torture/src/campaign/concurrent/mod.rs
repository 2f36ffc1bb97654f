//! Histories of several concurrent clients, with power cuts, and a checker that looks for an order
//! in which the server can have executed the calls.
//!
//! * [`workload`]: what the clients do, drawn from a seed;
//! * [`play`](mod@play): the whole server in a world, and every client's replies;
//! * [`words`] and [`wire`]: calls and answers as the model understands them;
//! * [`model`] and [`content`]: the server as it should be, including what a cut may take;
//! * [`search`]: the checker, for durable linearizability;
//! * [`shrink`]: makes a violation small; [`case`]: a workload as a line that reproduces it.
//!
//! The model allows after a cut what `docs/durability.md` says, and nothing more.

pub mod case;
pub mod content;
pub mod model;
pub mod play;
pub mod search;
pub mod shrink;
pub mod wire;
pub mod words;
pub mod workload;

use std::collections::BTreeMap;

use super::budget::spend;
use super::{Cuts, Options, Outcome, message};
use crate::explore::Counts;
use crate::history::Call;
pub(super) use case::{WORD, replay};
use model::State;
use nfs3_types::nfs3::nfsstat3;
use play::Played;
use search::{Execution, History, Rules, check};
use workload::Workload;

/// Histories of a full run.
pub const FULL: u64 = 5_000;
/// Cuts of an engine over memory that must take something, and leave something, in full.
pub const LEAST_CUTS: u64 = 1_000;
/// Histories of a short run.
pub const SHORT: u64 = 100;

/// Result of one workload.
pub struct Verdict {
    /// The states that the checker has examined.
    pub states: u64,
    /// The recorded history.
    pub history: History,
    /// The violation, if no order explains the history.
    pub violation: Option<String>,
    /// Effects of its cuts, for an engine over memory.
    pub cuts: Cuts,
}

impl Verdict {
    /// The work done, for the report.
    pub fn counts(&self) -> Counts {
        Counts {
            workloads: 1,
            states: self.states,
            images: self.history.cuts.len() as u64,
            violations: self.violation.iter().count() as u64,
        }
    }
}

/// Plays histories and checks each.
pub fn concurrent(options: &Options) -> Outcome {
    let outcome = spend(
        options,
        options.count((FULL, SHORT)),
        || (),
        |(), number| outcome(options.seed_of(number), options),
    );
    if options.design.has_disks() {
        return outcome;
    }
    let played = outcome.counts.workloads;
    let least = if options.seconds.is_some() { played / 50 } else { played / 5 };
    outcome.with_cuts(LEAST_CUTS.min(least))
}

fn outcome(seed: u64, options: &Options) -> Outcome {
    let workload = Workload::draw(seed, options.design);
    let verdict = judge(&workload);
    let (counts, cuts) = (verdict.counts(), verdict.cuts);
    let violation = verdict.violation.map(|reason| {
        if options.stops_at_first {
            case::told(&workload, &reason)
        } else {
            shrink::report(&workload, &reason)
        }
    });
    Outcome { counts, violations: violation.into_iter().collect(), cuts, ..Outcome::default() }
}

/// Plays a workload and looks for an order that explains it. A panic is a violation too.
pub fn judge(workload: &Workload) -> Verdict {
    let failed = |reason| {
        let history = History::default();
        Verdict { states: 0, history, violation: Some(reason), cuts: Cuts::default() }
    };
    let played = std::panic::catch_unwind(|| play::play(workload));
    let played = match played {
        Ok(Ok(played)) => played,
        Ok(Err(reason)) => return failed(reason),
        Err(panic) => return failed(format!("it panics: {}", message(&*panic))),
    };
    let (root, history) = match (wire::file(&played.root), executions(&played, workload)) {
        (Ok(root), Ok(history)) => (root, history),
        (Err(reason), _) | (_, Err(reason)) => return failed(reason),
    };
    let (states, explained) = check(&history, &State::new(root));
    let violation = explained.err().map(|refusal| history.tell(&refusal));
    Verdict { states, history, violation, cuts: played.in_memory }
}

/// The executions of all calls.
fn executions(played: &Played, workload: &Workload) -> Result<History, String> {
    let mut executions = Vec::new();
    for (number, call) in played.calls.iter().enumerate() {
        let Some((op, told)) = wire::read(call)? else { continue };
        let survives = workload.survives && op.is_remembered();
        let answered = call.answered.as_ref();
        for (boot, begin) in first_sent(call) {
            let before = answered.is_some_and(|answered| boot < answered.boot);
            let is_refused = told.as_ref().is_some_and(|told| told.status != nfsstat3::NFS3_OK);
            if survives && before && is_refused {
                continue; // it has changed nothing, or that would have been the answer
            }
            let answered = answered.filter(|answered| answered.boot == boot);
            let end = answered.map(|answered| answered.when.order);
            if end.is_none() && !op.changes() {
                continue; // no client will ever know
            }
            let may_be_told = end.is_some() || survives && before;
            let told = may_be_told.then(|| told.clone()).flatten();
            let (client, op) = (call.client, op.clone());
            executions.push(Execution { call: number, client, boot, begin, end, op, told });
        }
    }
    // Recovery completes operations with intents; without a call's key there is no intent.
    let is_finished = workload.survives || !workload.design.has_ring();
    let is_whole = workload.design.remembers() && is_finished;
    let rules = Rules { survives: workload.survives, is_whole };
    Ok(History { executions, cuts: played.cuts.clone(), rules })
}

/// When a call was first sent to each boot.
fn first_sent(call: &Call) -> BTreeMap<u64, u64> {
    let mut boots = BTreeMap::new();
    for sent in &call.sent {
        boots.entry(sent.boot).or_insert(sent.when.order);
    }
    boots
}
