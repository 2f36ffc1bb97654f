//! The states that a cut may leave.
//!
//! Acknowledged operations are there. Each of those in progress may be there or not; together they
//! are there in some order in which they could have been done. Names, modes and link counts are all
//! or nothing, except for an interrupted rename: it may show both names. Bytes are old or new, each
//! byte independently, and so is the size: those of an interrupted write, and those of UNSTABLE
//! writes, which may be lost at any time before a COMMIT; then the verifier changes. A client's
//! handle names the same file as before, or none.
//!
//! A snapshot is there or not, and so are its deletion and a rollback to it. It holds the state of
//! the moment when it was made, to the byte, for ever.
//!
//! On a delayed volume an operation counts as acknowledged once a later one was promised durable.
//!
//! docs/durability.md says the same of the policy `sync`.

use std::collections::BTreeMap;
use std::rc::Rc;

use vfs::{FsError, ObjectId, SnapshotNumber};

use super::Style;
use super::caller::last_name;
use super::design::Design;
use super::loose::Moments;
use super::model::{Act, Held, Model, Seen, View, What};
use super::op::{Op, Stable};
use super::recover::Recovered;

/// The operations of a workload, with their final answers.
pub struct History {
    /// The operations in the order in which they were begun.
    pub acts: Vec<(Act, Result<(), FsError>)>,
    /// The style in which they were made.
    pub style: Style,
    /// The design that served them.
    design: Design,
    /// Whether they may be lost although they were answered,
    is_delayed: bool,
    /// and then only the last of them.
    keeps_history: bool,
    /// Whether unacknowledged changes may be there in any order (see `loose`).
    is_loose: bool,
    /// Handles that clients hold from before: by the number of the file in the model, the id in its
    /// handle.
    pub handles: BTreeMap<usize, ObjectId>,
    /// For each operation, the id in the handle of its answer.
    pub given: Vec<Option<ObjectId>>,
    /// The verifiers in the answers.
    pub verifiers: Vec<[u8; 8]>,
    /// The progress of the operations when recording began.
    pub start: Moment,
}

/// The progress of the operations at a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// A bit for each operation in progress or done.
    pub begun: u32,
    /// A bit for each acknowledged operation.
    pub acknowledged: u32,
}

/// All possible contents of files, by the number of the file in the model.
type Versions = BTreeMap<usize, Possible>;

/// The bytes of a file at several moments: each byte may be from any of them, and so may the size.
#[derive(Clone, Default)]
struct Possible {
    contents: Vec<Rc<Vec<u8>>>,
    /// A part of an UNSTABLE write may be there without the rest: the size may be in between.
    in_parts: bool,
}

/// The result of operations that are done one after the other.
struct Played {
    /// The states before the first, and after each.
    states: Vec<Model>,
    versions: Versions,
    /// Possible contents of files in snapshots.
    held: Held<Versions>,
    handles: BTreeMap<usize, ObjectId>,
}

/// A state that is allowed.
struct Candidate {
    view: View,
    versions: Versions,
    /// The views and possible contents of snapshots.
    held: Rc<Held<(View, Versions)>>,
    /// The ids in the handles of clients.
    handles: BTreeMap<usize, ObjectId>,
}

impl History {
    /// An empty history.
    pub fn new(design: Design, style: Style) -> Self {
        Self {
            acts: Vec::new(),
            style,
            design,
            is_delayed: design.is_delayed(),
            keeps_history: design.keeps_history(),
            is_loose: !design.keeps_order(),
            handles: BTreeMap::new(),
            given: Vec::new(),
            verifiers: Vec::new(),
            start: Moment::default(),
        }
    }

    /// Notes that recording begins with all operations so far answered.
    pub fn all_acknowledged(&mut self) {
        let all = (1 << self.acts.len()) - 1;
        self.start = Moment { begun: all, acknowledged: all };
    }

    /// Whether `seen` is allowed at a moment.
    ///
    /// # Errors
    /// The violation: the difference to the state with most in it.
    pub fn allows(&self, seen: &Recovered, moment: Moment) -> Result<(), String> {
        if self.verifiers.contains(&seen.verifier) {
            return Err("UNSTABLE bytes may be lost, and the verifier is still the same".into());
        }
        let mut last = None;
        for order in self.orders(moment) {
            for candidate in self.candidates(&order, moment) {
                let fits = fits(seen, &candidate);
                match fits.and_then(|()| self.names_nothing_lost(seen, &order)) {
                    Ok(()) => return Ok(()),
                    Err(reason) => last = Some(reason),
                }
            }
            if self.is_loose
                && let Some(loosely) = self.allows_loosely(seen, &order, moment)
            {
                match loosely {
                    Ok(()) => return Ok(()),
                    Err(reason) => last = Some(reason),
                }
            }
        }
        Err(last.unwrap_or_else(|| "no order of the operations gives their answers".into()))
    }

    /// The possible orders of operations: all acknowledged ones, and any of the others that were
    /// begun.
    fn orders(&self, moment: Moment) -> Vec<Vec<usize>> {
        let begun = (0..self.acts.len()).filter(|index| moment.begun >> index & 1 == 1);
        let begun: Vec<usize> = begun.collect();
        let mut orders = Vec::new();
        for subset in 0..1_u32 << begun.len() {
            let chosen = begun.iter().enumerate();
            let chosen = chosen.filter(|(bit, _)| subset >> bit & 1 == 1).map(|(_, &index)| index);
            let chosen: Vec<usize> = chosen.collect();
            let holds_all = (0..self.acts.len())
                .all(|index| moment.acknowledged >> index & 1 == 0 || chosen.contains(&index));
            if !holds_all || !self.may_be_left(&begun, &chosen) || !self.is_all(&begun, &chosen) {
                continue;
            }
            if self.style != Style::Together && self.style != Style::AtOnce {
                orders.push(chosen);
            } else {
                permute(&chosen, &mut Vec::new(), &mut orders);
            }
        }
        orders
    }

    /// Where changes land in any order, a cut does not simply take some operations and leave
    /// others: its remains of each are judged against all that were done. An operation that was
    /// begun before the others may have been done after them.
    fn is_all(&self, begun: &[usize], chosen: &[usize]) -> bool {
        let is_done = |index: &&usize| self.acts[**index].1.is_ok();
        let must_be = self.is_loose && begun.len() == self.acts.len();
        !must_be || begun.iter().filter(is_done).all(|index| chosen.contains(index))
    }

    /// Whether a cut may take, of the operations begun in this order, all but the chosen ones. If
    /// history is kept and the order is known, no later operation survives without the earlier
    /// ones. Bytes go to their places independently.
    fn may_be_left(&self, begun: &[usize], chosen: &[usize]) -> bool {
        if !self.is_delayed || !self.keeps_history || self.style == Style::AtOnce {
            return true;
        }
        let changes_names = |index: &usize| {
            let (act, told) = &self.acts[*index];
            told.is_ok() && !matches!(act.op, Op::Write(..))
        };
        let names = begun.iter().filter(|index| changes_names(index));
        let mut is_left = names.map(|index| chosen.contains(index));
        is_left.by_ref().find(|is_left| !is_left);
        !is_left.any(|is_left| is_left)
    }

    /// A client of a delayed volume may hold the handle of a file that a cut took. It names no
    /// file, even if there are new ones.
    fn names_nothing_lost(&self, seen: &Recovered, order: &[usize]) -> Result<(), String> {
        let is_left = |index: &usize| order.contains(index);
        let known = |id: &ObjectId| {
            let of_order = self.given.iter().enumerate().filter(|(index, _)| is_left(index));
            self.handles.values().chain(of_order.flat_map(|(_, id)| id)).any(|known| known == id)
        };
        let given = self.given.iter().enumerate().filter(|(index, _)| !is_left(index));
        let given = given.flat_map(|(_, id)| id).filter(|id| self.is_delayed && !known(id));
        let mut lost = given.copied();
        match lost.find(|&id| id == seen.made || seen.ids.contains(&id)) {
            Some(id) => {
                Err(format!("{id:?} was told of a file that is lost, and names another one"))
            }
            None => Ok(()),
        }
    }

    /// Whether `seen` is allowed where changes land in any order, if the operations were done in
    /// this one; `None` if that order is impossible.
    fn allows_loosely(
        &self,
        seen: &Recovered,
        order: &[usize],
        moment: Moment,
    ) -> Option<Result<(), String>> {
        let Played { states, versions, handles, .. } = self.play(order, moment)?;
        let number = |one: &Seen| {
            let id = seen.ids[one.file];
            handles.iter().find(|(_, known)| **known == id).map(|(&number, _)| number)
        };
        let acts = order.iter().map(|&index| (index, &self.acts[index].0)).collect();
        let fits_bytes = || {
            for (path, one) in &seen.view {
                if let (What::Regular(bytes), Some(number)) = (&one.what, number(one)) {
                    let possible = versions.get(&number).ok_or("a file that was none")?;
                    fits_bytes(bytes, possible).map_err(|reason| format!("{path}: {reason}"))?;
                }
            }
            let told = handles.values().chain(self.given.iter().flatten());
            match told.copied().find(|&id| id == seen.made) {
                Some(id) => Err(format!("{id:?} was told of a file, and names a new one")),
                None => Ok(()),
            }
        };
        let promised = |index: usize| moment.acknowledged >> index & 1 == 1;
        let names = Moments { acts, states }.allow(seen, promised, number);
        Some(names.and_then(|()| fits_bytes()))
    }

    /// The states that an order of operations may leave.
    fn candidates(&self, order: &[usize], moment: Moment) -> Vec<Candidate> {
        let is_acknowledged = |index: usize| moment.acknowledged >> index & 1 == 1;
        let Some(Played { states, versions, mut held, handles }) = self.play(order, moment) else {
            return Vec::new();
        };
        let model = states.last().expect("the one before them at least");
        let mut views = vec![model.view()];
        for &index in order.iter().filter(|&&index| !is_acknowledged(index)) {
            let act = &self.acts[index].0;
            let cut: Vec<View> =
                views.iter().filter_map(|view| cut_rename(act, model, view)).collect();
            views.extend(cut);
        }
        let of_snapshots = model.held().into_iter().map(|(name, view)| {
            let versions = held.remove(&name).expect("it is noted when it is made");
            (name, (view, versions))
        });
        let held: Rc<Held<_>> = Rc::new(of_snapshots.collect());
        let candidate = |view| {
            let (versions, held, handles) = (versions.clone(), held.clone(), handles.clone());
            Candidate { view, versions, held, handles }
        };
        views.into_iter().map(candidate).collect()
    }

    /// Possible contents of files in a snapshot: UNSTABLE bytes included that were answered before
    /// the request for it, and any part of those in progress.
    fn pinned(&self, view: &View, versions: &Versions) -> Versions {
        let mut pinned = exactly(view);
        if matches!(self.style, Style::Together | Style::AtOnce) {
            let known = versions.iter().filter(|(_, possible)| possible.in_parts);
            pinned.extend(known.map(|(&file, possible)| (file, possible.clone())));
            note(view, &mut pinned);
        }
        pinned
    }

    /// Applies operations in an order; `None` if that order contradicts their answers.
    fn play(&self, order: &[usize], moment: Moment) -> Option<Played> {
        let is_acknowledged = |index: usize| moment.acknowledged >> index & 1 == 1;
        let mut model = Model::before(self.design);
        let mut states = vec![model.clone()];
        let (mut versions, mut handles) = (Versions::new(), self.handles.clone());
        note(&model.view(), &mut versions);
        let mut held: Held<Versions> =
            model.held().into_iter().map(|(name, view)| (name, exactly(&view))).collect();
        for &index in order {
            let (act, told) = &self.acts[index];
            let done = model.apply(act);
            if is_acknowledged(index) && done != *told || !is_acknowledged(index) && done.is_err() {
                return None; // not in this order
            }
            states.push(model.clone());
            if done.is_err() {
                continue;
            }
            if let (Some(id), Ok(node)) =
                (self.given[index], model.child(act.subject, act.op.last_name()))
            {
                handles.insert(node, id);
            }
            let possible = versions.entry(act.subject).or_default();
            match act.op {
                Op::Write(_, _, Stable::Commit) if is_acknowledged(index) => {
                    *possible = Possible::default();
                }
                Op::Write(_, _, Stable::Unstable | Stable::Commit) => possible.in_parts = true,
                // A stable write says nothing about UNSTABLE bytes beside it.
                Op::Write(..) | Op::Resize(..) if is_acknowledged(index) && !possible.in_parts => {
                    *possible = Possible::default();
                }
                Op::Pin(name) => {
                    _ = held.insert(name.to_owned(), self.pinned(&model.view(), &versions));
                }
                Op::RollBack(name) => versions = held[name].clone(),
                _ => {}
            }
            note(&model.view(), &mut versions);
        }
        Some(Played { states, versions, held, handles })
    }
}

/// The state after an interrupted rename: the old name of a file stays beside the new one; a
/// directory may not have moved, while the empty one at its new name has lost that name.
fn cut_rename(act: &Act, model: &Model, view: &View) -> Option<View> {
    let Op::Rename(from, to) = act.op else { return None };
    // The directories may have moved since.
    let place = |directory, path| Some(model.path_of(directory)? + last_name(path));
    let (from, to) = (&*place(act.subject, from)?, &*place(act.destination?, to)?);
    let moved = view.get(to)?.clone();
    let mut both = view.clone();
    if moved.what != What::Directory {
        if both.contains_key(from) {
            return None;
        }
        both.insert(from.to_owned(), moved.clone());
        let names = both.values_mut().filter(|seen| seen.file == moved.file);
        names.for_each(|seen| seen.links += 1);
        return Some(both);
    }
    let below: Vec<String> =
        view.keys().filter(|path| path.starts_with(&format!("{to}/"))).cloned().collect();
    for path in below {
        let seen = both.remove(&path).expect("it is there");
        both.insert(format!("{from}{}", &path[to.len()..]), seen);
    }
    both.remove(to);
    both.insert(from.to_owned(), moved);
    Some(both)
}

/// All orders of some operations.
fn permute(rest: &[usize], done: &mut Vec<usize>, orders: &mut Vec<Vec<usize>>) {
    if rest.is_empty() {
        orders.push(done.clone());
    }
    for &next in rest {
        let others: Vec<usize> = rest.iter().copied().filter(|&one| one != next).collect();
        done.push(next);
        permute(&others, done, orders);
        done.pop();
    }
}

/// The contents of a state, and no others.
fn exactly(view: &View) -> Versions {
    let mut versions = Versions::new();
    note(view, &mut versions);
    versions
}

/// Adds the contents of a state to the possible ones.
fn note(view: &View, versions: &mut Versions) {
    for seen in view.values() {
        let What::Regular(bytes) = &seen.what else { continue };
        let known = versions.entry(seen.file).or_default();
        if known.contents.last() != Some(bytes) {
            known.contents.push(bytes.clone());
        }
    }
}

/// Whether the recovered tree is a candidate state, up to the bytes of files, and each snapshot has
/// its contents.
fn fits(seen: &Recovered, candidate: &Candidate) -> Result<(), String> {
    let Candidate { view, versions, held, handles } = candidate;
    fits_tree((&seen.view, &seen.ids), (view, versions), handles)?;
    if let Some(name) = held.keys().find(|name| !seen.held.contains_key(*name)) {
        return Err(format!("snapshot {name} is missing"));
    }
    for (name, (view, ids)) in &seen.held {
        let wrong = |reason| format!("in snapshot {name}: {reason}");
        let (state, versions) = held.get(name).ok_or_else(|| wrong("it is there".to_owned()))?;
        let live: Vec<ObjectId> = ids.iter().map(|id| id.within(SnapshotNumber::LIVE)).collect();
        fits_tree((view, &live), (state, versions), handles).map_err(wrong)?;
    }
    Ok(())
}

fn fits_tree(
    (seen, ids): (&View, &[ObjectId]),
    (state, versions): (&View, &Versions),
    handles: &BTreeMap<usize, ObjectId>,
) -> Result<(), String> {
    for path in state.keys() {
        if !seen.contains_key(path) {
            return Err(format!("{path} is missing"));
        }
    }
    // The view's file numbers may differ from the state's; two names of one file must still be one
    // file.
    let mut same = BTreeMap::new();
    for (path, one) in seen {
        let Some(other) = state.get(path) else { return Err(format!("{path} is there")) };
        if *same.entry(one.file).or_insert(other.file) != other.file {
            return Err(format!("{path} is another file"));
        }
        let id = ids[one.file];
        let (own, held) = (handles.get(&other.file), handles.values());
        if own.map_or_else(|| held.clone().any(|held| *held == id), |own| *own != id) {
            return Err(format!("{path} is not what its handle names, or another handle names it"));
        }
        fits_file(path, one, other, versions)?;
    }
    Ok(())
}

fn fits_file(path: &str, seen: &Seen, state: &Seen, versions: &Versions) -> Result<(), String> {
    if (seen.mode, seen.links) != (state.mode, state.links) {
        let (found, expected) = ((seen.mode, seen.links), (state.mode, state.links));
        return Err(format!("{path} has mode and links {found:?}, not {expected:?}"));
    }
    match (&seen.what, &state.what) {
        (What::Regular(bytes), What::Regular(_)) => {
            fits_bytes(bytes, &versions[&state.file]).map_err(|reason| format!("{path}: {reason}"))
        }
        (found, expected) if found == expected => Ok(()),
        _ => Err(format!("{path} is something else")),
    }
}

fn fits_bytes(bytes: &[u8], possible: &Possible) -> Result<(), String> {
    let contents = &possible.contents;
    if contents.iter().any(|one| one[..] == *bytes) {
        return Ok(());
    }
    let sizes = || contents.iter().map(|one| one.len());
    let size = bytes.len();
    let between = possible.in_parts
        && sizes().min().is_some_and(|least| least <= size)
        && sizes().max().is_some_and(|most| size <= most);
    if !between && !sizes().any(|one| one == size) {
        return Err(format!("{size} bytes, which is none of {:?}", sizes().collect::<Vec<_>>()));
    }
    let foreign = bytes.iter().enumerate().find(|&(index, byte)| {
        !contents.iter().enumerate().any(|(at, one)| match one.get(index) {
            Some(there) => there == byte,
            // Bytes behind the end of a file are zeros only once the file has grown over them.
            None => *byte == 0 && contents[at + 1..].iter().any(|later| later.len() > index),
        })
    });
    match foreign {
        Some((index, byte)) => {
            Err(format!("byte {index} is {byte:#04x}, which nobody wrote there"))
        }
        None => Ok(()),
    }
}
