//! The checker: whether a sequential order of calls explains a history of overlapping calls, with
//! cuts in between.
//!
//! It searches for such a *row* as Wing and Gong do, with Lowe's memory of visited states. A call
//! that was made after another one was answered comes later in the row; calls that overlapped may
//! come in either order; every answer must be that of the [model](super::model).
//!
//! # Cuts
//! An *execution* is a call in one boot of the server. A call that was sent to several boots has
//! several executions:
//! * The one in the boot that answered it. It stays in the row for ever, whether or not the client
//!   received the answer before the cut: nothing takes back an answered call. That is *durable
//!   linearizability*.
//! * One for every other boot to which it was sent. No client received its answer, and it may or
//!   may not have been carried out: wholly, and then others may have seen it before the cut, or in
//!   the parts that `docs/durability.md` lists, and then no other call has seen it. The reply cache
//!   is gone after a cut, so a repetition is carried out again, and may fail because of the first.
//!
//! Within one boot a call is carried out once, however often it arrives.
//!
//! # Answers that survive
//! Where [`Rules::survives`] says so, a call that must not be executed twice is executed once,
//! whatever boots it is sent to. Then the execution that changed something is the one whose answer
//! is given, by its own boot or by any later one, and it stays in the row for ever; so does the
//! execution of a call that was answered as done:
//! * A call that was answered as done has one execution with this answer: in the boot that
//!   answered, or in an earlier one to which it was sent. It has no other, unless it has changed
//!   nothing, which is not remembered: then a boot *after* the one that answered may carry it out.
//! * A call that was refused has changed nothing in any boot up to the one that refused it.
//! * A call that was not answered may be carried out in one of the boots to which it was sent.
//!
//! So if a repetition is answered *exists* or *no such file*, only another client's call explains
//! it, never its own first execution.
//!
//! UNSTABLE data is left to the model: after a cut it is old or new, piece by piece.

use std::collections::HashSet;

use nfs3_types::nfs3::nfsstat3;

use super::model::State;
use super::words::{Op, Told};

/// A call in one boot of the server.
#[derive(Clone, Debug)]
pub struct Execution {
    /// The number of the call, for the report.
    pub call: usize,
    /// The client that made it, for the report.
    pub client: u32,
    /// The boot, counted from 1.
    pub boot: u64,
    /// When it was first sent to this boot.
    pub begin: u64,
    /// When it was answered, if this boot has answered it.
    pub end: Option<u64>,
    /// The call.
    pub op: Op,
    /// The answer, if this boot gave it, or if a later boot may have remembered it.
    pub told: Option<Told>,
}

impl Execution {
    /// Whether the execution changed something, if it was carried out; false if in doubt. Setting
    /// an attribute to its old value is a change: it changes a time.
    fn has_changed(&self, before: &State, after: &State) -> bool {
        matches!(self.op, Op::Chmod(..) | Op::Resize(..)) || !before.has_names_of(after)
    }
}

/// Promises beyond those of every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Answers survive a cut.
    pub survives: bool,
    /// A cut leaves nothing in parts but WRITEs.
    pub is_whole: bool,
}

/// A history to explain.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The executions, in any order.
    pub executions: Vec<Execution>,
    /// When each boot but the last one ended.
    pub cuts: Vec<u64>,
    /// The promises to check.
    pub rules: Rules,
}

/// An unexplained history: the longest row that was found.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The executions of the row; `None` is a cut.
    pub row: Vec<Option<usize>>,
    /// Executions of which one would have to come next.
    pub next: Vec<usize>,
}

/// Searches for a row that explains a history; returns how many states were examined.
///
/// # Errors
/// No such row exists.
///
/// # Panics
/// With more than 128 executions: the search would not end in useful time.
pub fn check(history: &History, start: &State) -> (u64, Result<(), Refusal>) {
    assert!(history.executions.len() <= 128, "short histories");
    let mut search = Search {
        history,
        seen: HashSet::new(),
        row: Vec::new(),
        longest: Refusal { row: Vec::new(), next: Vec::new() },
    };
    let explained = search.explains(0, 1, start);
    let nodes = search.seen.len() as u64;
    (nodes, if explained { Ok(()) } else { Err(search.longest) })
}

struct Search<'a> {
    history: &'a History,
    /// Visited states: executions that are done or past, the boot, and the state.
    seen: HashSet<(u128, u64, State)>,
    row: Vec<Option<usize>>,
    longest: Refusal,
}

impl Search<'_> {
    /// Whether the rest can be explained from here on.
    fn explains(&mut self, done: u128, boot: u64, state: &State) -> bool {
        let wanted = |one: &&Execution| one.end.is_some();
        let undone = || {
            let all = self.history.executions.iter().enumerate();
            all.filter(move |(index, one)| done >> index & 1 == 0 && one.boot >= boot)
        };
        let last_boot = self.history.cuts.len() as u64 + 1;
        let end_of_boot = !undone().any(|(_, one)| one.boot == boot && wanted(&one));
        if end_of_boot && boot == last_boot {
            return true;
        }
        if !self.seen.insert((done, boot, state.clone())) {
            return false;
        }
        // An execution that begins after this comes later in the row.
        let limit = undone().filter_map(|(_, one)| self.end(one)).min().unwrap_or(u64::MAX);
        let mut next: Vec<usize> = undone()
            .filter(|(_, one)| one.boot == boot && one.begin < limit)
            .map(|(index, _)| index)
            .collect();
        next.sort_by_key(|&index| {
            let one = &self.history.executions[index];
            (one.end.is_none(), one.end, one.begin)
        });
        self.note(&next);
        for index in next {
            let one = &self.history.executions[index];
            let mut after = state.apply(index, &one.op, one.told.as_ref());
            if one.told.is_none() {
                after.retain(|after| after != state); // not carried out: that is tried anyhow
                if end_of_boot && boot < last_boot && self.may_be_cut(&one.op) {
                    // No client saw a partial execution before the cut.
                    after.extend(state.cut(index, &one.op));
                }
            }
            for after in after {
                self.row.push(Some(index));
                let ended = self.ended_by(index, state, &after);
                if self.explains(done | ended, boot, &after) {
                    return true;
                }
                self.row.pop();
            }
        }
        if !end_of_boot || boot == last_boot {
            return false;
        }
        let mut after = state.clone();
        after.crash();
        let past = self.history.executions.iter().enumerate();
        let past = past.filter(|(_, one)| one.boot == boot).fold(0, |past, (at, _)| past | 1 << at);
        self.row.push(None);
        let explained = self.explains(done | past, boot + 1, &after);
        self.row.pop();
        explained
    }

    fn may_be_cut(&self, op: &Op) -> bool {
        !self.history.rules.is_whole || matches!(op, Op::Write { .. })
    }

    /// The executions that this one rules out: itself, and those of the same call if its answer
    /// survives.
    fn ended_by(&self, index: usize, before: &State, after: &State) -> u128 {
        let one = &self.history.executions[index];
        let is_refused = one.told.as_ref().is_some_and(|told| told.status != nfsstat3::NFS3_OK);
        // The answer of a later boot was remembered, whether or not it changed anything.
        let is_kept = one.end.is_none() || !is_refused && one.has_changed(before, after);
        if !self.history.rules.survives || !one.op.is_remembered() || !is_kept {
            return 1 << index;
        }
        let all = self.history.executions.iter().enumerate();
        all.filter(|(_, other)| other.call == one.call).fold(0, |ended, (at, _)| ended | 1 << at)
    }

    /// The latest end of an execution: its answer, or the end of its boot.
    fn end(&self, one: &Execution) -> Option<u64> {
        let cut = self.history.cuts.get(one.boot as usize - 1).copied().unwrap_or(u64::MAX);
        one.end.map(|end| end.min(cut))
    }

    fn note(&mut self, next: &[usize]) {
        if self.row.len() >= self.longest.row.len() {
            let next = next.iter().copied();
            let wanted = next.filter(|&index| self.history.executions[index].end.is_some());
            self.longest = Refusal { row: self.row.clone(), next: wanted.collect() };
        }
    }
}

impl History {
    /// A refusal in lines: the row, and the candidates for its next execution.
    pub fn tell(&self, refusal: &Refusal) -> String {
        let mut text = String::from("explained:\n");
        for step in &refusal.row {
            match step {
                Some(index) => text += &self.line(*index),
                None => text += "  -- cut --\n",
            }
        }
        text += "not explained, next would be one of:\n";
        refusal.next.iter().for_each(|&index| text += &self.line(index));
        text
    }

    /// All executions, in the order in which they began.
    pub fn all(&self) -> String {
        let mut order: Vec<usize> = (0..self.executions.len()).collect();
        order.sort_by_key(|&index| self.executions[index].begin);
        let mut cuts = self.cuts.iter().peekable();
        let mut text = String::new();
        for index in order {
            while let Some(cut) = cuts.next_if(|&&cut| cut < self.executions[index].begin) {
                text += &format!("  {cut} -- cut --\n");
            }
            text += &self.line(index);
        }
        text
    }

    fn line(&self, index: usize) -> String {
        let Execution { call, client, boot, begin, end, op, told } = &self.executions[index];
        let told = told.as_ref().map_or("not answered".into(), ToString::to_string);
        let end = end.map_or("..".into(), |end| end.to_string());
        format!("  {begin}-{end} boot {boot} client {client} call {call} {op:?}: {told}\n")
    }
}
