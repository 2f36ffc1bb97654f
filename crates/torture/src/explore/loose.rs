//! The states that a cut may leave where unpromised changes land in any order that keeps their
//! dependencies.
//!
//! Then no earlier state need be there as a whole. The law holds name by name, over the states from
//! the last one that was promised entirely:
//! 1. A name is present or absent as in one of these states, but not one before the last promised
//!    operation on it.
//! 2. A file that had a name in each of them has one.
//! 3. A file has as many links as names; its mode is one that it had.
//! 4. A handle names its old file, and that of a lost file names none.
//!
//! Possible bytes are described in `judge`.

use std::collections::{BTreeMap, BTreeSet};

use super::caller::last_name;
use super::model::{Act, Model, ROOT, Seen, View, What};
use super::op::Op;
use super::recover::Recovered;

/// The directory, by its number in the model, and the name in it.
type Name = (usize, String);

/// The states that operations produced one after the other.
pub(super) struct Moments<'a> {
    /// The successful operations, in their order, with their numbers.
    pub acts: Vec<(usize, &'a Act)>,
    /// The states before the first of them, and after each.
    pub states: Vec<Model>,
}

/// The names of a view; `number` gives the number of a file in the model.
fn names(
    view: &View,
    number: impl Fn(&Seen) -> Option<usize>,
) -> Result<BTreeMap<Name, (usize, &Seen)>, String> {
    let mut names = BTreeMap::new();
    for (path, seen) in view {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let known = |seen: &Seen| number(seen).ok_or_else(|| format!("{path} is an unknown file"));
        let directory = if above.is_empty() { ROOT } else { known(&view[above])? };
        names.insert((directory, name.to_owned()), (known(seen)?, seen));
    }
    Ok(names)
}

impl Moments<'_> {
    /// Whether `seen` is allowed; `number` returns the number of a file in the model.
    ///
    /// # Errors
    /// The violation.
    pub(super) fn allow(
        &self,
        seen: &Recovered,
        promised: impl Fn(usize) -> bool,
        number: impl Fn(&Seen) -> Option<usize>,
    ) -> Result<(), String> {
        let views: Vec<View> = self.states.iter().map(Model::view).collect();
        let of_model = |seen: &Seen| Some(seen.file);
        let states: Result<Vec<_>, String> =
            views.iter().map(|view| names(view, of_model)).collect();
        let (states, found) = (states?, names(&seen.view, number)?);
        self.names_were_so(&states, &found, &promised)?;
        let first = self.acts.iter().take_while(|(index, _)| promised(*index)).count();
        let alive = states[first..]
            .iter()
            .map(|names| names.values().map(|(file, _)| *file).collect::<BTreeSet<usize>>());
        let always = alive.reduce(|one, other| &one & &other).unwrap_or_default();
        let there: BTreeSet<usize> = found.values().map(|(file, _)| *file).collect();
        if let Some(lost) = (&always - &there).first() {
            return Err(format!("file {lost} had a name all the time, and has none"));
        }
        for (file, one) in found.values() {
            links_fit(*file, one, &found)?;
            let modes = states[first..].iter().flat_map(BTreeMap::values);
            let mut modes = modes.filter(|(other, _)| other == file).map(|(_, seen)| seen.mode);
            if !modes.any(|mode| mode == one.mode) {
                return Err(format!("file {file} has mode {:o}, which it never had", one.mode));
            }
        }
        Ok(())
    }

    /// Checks the first law.
    fn names_were_so(
        &self,
        states: &[BTreeMap<Name, (usize, &Seen)>],
        found: &BTreeMap<Name, (usize, &Seen)>,
        promised: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let all: BTreeSet<&Name> =
            states.iter().flat_map(BTreeMap::keys).chain(found.keys()).collect();
        for name in all {
            let touched =
                self.acts.iter().rposition(|(index, act)| promised(*index) && touches(act, name));
            let from = touched.map_or(0, |at| at + 1);
            let is = found.get(name).map(|(file, _)| *file);
            let is_gone = name.0 != ROOT && !found.values().any(|(file, _)| *file == name.0);
            let was = |names: &BTreeMap<Name, (usize, &Seen)>| {
                names.get(name).map(|(file, _)| *file) == is
            };
            let may_be_lost = || {
                let mut later = self.acts.iter().zip(states).skip(from);
                is.is_none() && later.any(|((_, act), names)| replaces(act, name, names))
            };
            if !is_gone && !states[from..].iter().any(was) && !may_be_lost() {
                return Err(format!(
                    "{} in directory {} names {is:?}, as it never did",
                    name.1, name.0
                ));
            }
        }
        Ok(())
    }
}

/// Checks the third law.
fn links_fit(
    file: usize,
    seen: &Seen,
    found: &BTreeMap<Name, (usize, &Seen)>,
) -> Result<(), String> {
    let names = found.values().filter(|(other, _)| *other == file).count();
    let below = found
        .iter()
        .filter(|((directory, _), (_, seen))| *directory == file && seen.what == What::Directory);
    let links = if seen.what == What::Directory { 2 + below.count() } else { names };
    if links != seen.links as usize || seen.what == What::Directory && names != 1 {
        return Err(format!("file {file} has {} links and {names} names", seen.links));
    }
    Ok(())
}

/// Whether an operation moves a directory over another one, which has lost its name if the recovery
/// leaves the first one where it was.
fn replaces(act: &Act, name: &Name, before: &BTreeMap<Name, (usize, &Seen)>) -> bool {
    let Op::Rename(from, to) = act.op else { return false };
    let moved = before.get(&(act.subject, last_name(from).to_owned()));
    let is_directory = moved.is_some_and(|(_, seen)| seen.what == What::Directory);
    is_directory && act.destination == Some(name.0) && last_name(to) == name.1
}

/// Whether an operation changes a name.
pub(super) fn touches(act: &Act, (directory, name): &Name) -> bool {
    let last = |path| last_name(path) == name;
    let here = act.subject == *directory;
    let there = act.destination == Some(*directory);
    match act.op {
        Op::Create(path, _)
        | Op::Mkdir(path)
        | Op::Rmdir(path)
        | Op::Symlink(path, _)
        | Op::Remove(path) => here && last(path),
        Op::Rename(from, to) => here && last(from) || there && last(to),
        Op::Link(_, to) => there && last(to),
        Op::Write(..) | Op::Resize(..) | Op::Chmod(..) => false,
        Op::Pin(_) | Op::Unpin(_) | Op::RollBack(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::design::Design;
    use super::super::model::Held;
    use super::*;

    /// The verdict on the state after `left`, if only the operations `begun` were begun, and none
    /// is promised unless a bit says so.
    fn judged(begun: &[Op], promised: u32, left: &[Op]) -> Result<(), String> {
        let played = |ops: &[Op]| {
            let mut states = vec![Model::before(Design::SOFTDEP)];
            let mut acts = Vec::new();
            for (number, op) in ops.iter().enumerate() {
                let mut model = states[number].clone();
                let act = Act::new(&model, number, op).expect("it can be asked for");
                model.apply(&act).expect("it can be done");
                states.push(model);
                acts.push(act);
            }
            (states, acts)
        };
        let (states, acts) = played(begun);
        let (left, _) = played(left);
        let view = left.last().expect("one at least").view();
        let made = vfs::ObjectId::live(vfs::Ino(0), 0);
        let seen = Recovered { view, ids: Vec::new(), held: Held::new(), made, verifier: [0; 8] };
        let moments = Moments { acts: acts.iter().enumerate().collect(), states };
        moments.allow(&seen, |index| promised >> index & 1 == 1, |seen| Some(seen.file))
    }

    #[test]
    fn what_was_renamed_twice_may_have_all_of_its_names_and_loses_none() {
        let renames = [Op::Rename("foo", "bar"), Op::Rename("bar", "baz")];
        let links = [Op::Link("foo", "bar"), Op::Link("foo", "baz")];
        assert_eq!(judged(&renames, 0, &links), Ok(()));
        assert_eq!(judged(&renames, 0, &renames), Ok(()));
        assert_eq!(judged(&renames, 0, &[]), Ok(()));
        assert!(judged(&renames, 0, &[Op::Remove("foo")]).is_err(), "it has no name");
        assert!(judged(&renames, 1, &links).is_err(), "the first one was promised");
        assert_eq!(judged(&renames, 1, &renames[..1]), Ok(()));
    }

    #[test]
    fn what_is_not_of_the_history_is_told() {
        let remove = [Op::Remove("foo")];
        assert_eq!(judged(&remove, 0, &[]), Ok(()));
        assert!(judged(&remove, 1, &[]).is_err(), "it was promised to be gone");
        assert!(judged(&remove, 0, &[Op::Rename("foo", "bar")]).is_err(), "it never was there");
        assert!(judged(&remove, 0, &[Op::Chmod("foo", 0o111)]).is_err(), "it never had that mode");
    }
}
