//! A client's knowledge of a file system with faults.
//!
//! After an error a client cannot know whether a call was carried out. So several states may be
//! possible; every later reply must fit one of them, and states that it does not fit are dropped.
//! If none is left, an answer was false.
//!
//! Data is separate: see [`data`](super::data).
//!
//! The rules:
//! 1. No error without a fault.
//! 2. A stopped volume answers NFS3ERR_IO to everything, and does nothing.
//! 3. A call that fails because of a read has changed nothing but, perhaps, data.
//! 4. The write verifier changes after a fault alone.
//! 5. A call that finds no room below has changed nothing but, perhaps, data. If a change was made
//!    and finds no room afterwards, only its caller sees that (NFS3ERR_IO): the change may still
//!    come into effect. Until it does no other change takes effect, whatever their callers are
//!    answered.

use std::collections::{BTreeMap, BTreeSet};

use nfs3_types::nfs3::{Nfs3Result, fattr3, nfsstat3, stable_how};

use super::super::conformance::attributes::time;
use super::super::conformance::content::Content;
use super::super::conformance::judge::Verdict;
use super::super::conformance::reference::Reference;
use super::super::conformance::session::Reply;
use super::super::conformance::stamp::{Stamp, Time};
use super::super::conformance::step::{Act, Object, Step};
use super::super::conformance::tree::{Body, Node};
use super::data::{Change, Data};
use crate::protocol::Response;

/// Most states that the witness can tell apart.
const STATES: usize = 64;
const ALWAYS: Stamp = Stamp::Within((0, 0), (u32::MAX, u32::MAX));

/// A possible state.
#[derive(Clone)]
pub(super) struct State {
    pub(super) reference: Reference,
    /// Data that is not known to be durable, by the step that made the file.
    data: BTreeMap<usize, Data>,
}

/// The witness: see the module.
pub(super) struct Witness {
    pub(super) states: Vec<State>,
    /// The volume has stopped.
    pub(super) stopped: bool,
    /// The verifier has changed: rule 4.
    pub(super) rotated: bool,
    /// A client got an error.
    pub(super) told: bool,
    /// The fault is that writes find no room below: data may be refused because of it.
    pub(super) may_refuse: bool,
    /// A change failed for its caller because of that, and none has succeeded since.
    refuses: bool,
}

/// The state of the fault when a reply arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing has failed.
    None,
    /// A read has failed.
    Read,
    /// A write or a flush has failed.
    Write,
}

/// A file and the contents that were read.
pub(super) struct Looked {
    pub(super) slot: usize,
    /// `None` if the file is gone.
    pub(super) seen: Option<(fattr3, Vec<u8>)>,
}

/// The file whose data a step concerns.
fn subject(act: &Act) -> Option<usize> {
    match *act {
        Act::Write(Object::Of(slot), ..) | Act::Commit(Object::Of(slot), ..) => Some(slot),
        Act::Setattr(Object::Of(slot), changes, _) if changes.size.is_some() => Some(slot),
        _ => None,
    }
}

/// Whether a step changes names or attributes.
fn changes(act: &Act) -> bool {
    matches!(
        act,
        Act::Setattr(..)
            | Act::Create(..)
            | Act::Mkdir(..)
            | Act::Symlink(..)
            | Act::Mknod(..)
            | Act::Remove(..)
            | Act::Rmdir(..)
            | Act::Rename(..)
            | Act::Link(..)
    )
}

/// Whether a reply says that there was no room below.
pub(super) fn is_refusal(reply: &Reply) -> bool {
    reply.status() == Some(nfsstat3::NFS3ERR_NOSPC)
}

fn verifier(response: &Response) -> Option<[u8; 8]> {
    match response {
        Response::Write(Nfs3Result::Ok(ok)) => Some(ok.verf.0),
        Response::Commit(Nfs3Result::Ok(ok)) => Some(ok.verf.0),
        _ => None,
    }
}

impl Witness {
    pub(super) fn new(reference: Reference) -> Self {
        let state = State { reference, data: BTreeMap::new() };
        let states = vec![state];
        Self {
            states,
            stopped: false,
            rotated: false,
            told: false,
            may_refuse: false,
            refuses: false,
        }
    }

    /// The newest write verifier.
    pub(super) fn verifier(&self) -> Option<[u8; 8]> {
        self.states[0].reference.known.verifier
    }

    /// Follows a reply.
    ///
    /// # Errors
    /// Why no state explains the reply.
    pub(super) fn hear(&mut self, step: &Step, reply: &Reply, fault: Fault) -> Verdict {
        let is_name = changes(&step.act) && subject(&step.act).is_none();
        if self.is_failure(reply, fault) {
            self.told = true;
            return match fault {
                Fault::None => Err("NFS3ERR_IO, and nothing has failed".into()), // rule 1
                _ if self.stopped => Ok(()),                                     // rule 2
                // Rule 5.
                _ if is_name && (is_refusal(reply) || self.refuses) => Ok(()),
                fault => {
                    self.refuses |= self.may_refuse && is_name;
                    self.fail(step, reply.window, fault)
                }
            };
        }
        if self.stopped {
            return Err(format!("{:?} from a volume that has stopped", reply.status()));
        }
        self.refuses &= !is_name;
        self.note_verifier(&reply.response, fault)?;
        self.keep(|state| state.apply(step, reply))
    }

    /// Whether a reply reports the fault.
    pub(super) fn is_failure(&self, reply: &Reply, fault: Fault) -> bool {
        match reply.status() {
            Some(nfsstat3::NFS3ERR_IO) => true,
            // The disk is larger than the whole trace.
            Some(nfsstat3::NFS3ERR_NOSPC) => {
                is_refusal(reply) && fault == Fault::Write && self.may_refuse
            }
            _ => false,
        }
    }

    /// Drops the states that do not fit.
    fn keep(&mut self, mut fits: impl FnMut(&mut State) -> Verdict) -> Verdict {
        let mut reason = String::new();
        self.states.retain_mut(|state| {
            let verdict = fits(state);
            verdict.map_err(|error| reason = error).is_ok()
        });
        if self.states.is_empty() { Err(reason) } else { Ok(()) }
    }

    /// Rule 4. Data that was not durable may be lost.
    fn note_verifier(&mut self, response: &Response, fault: Fault) -> Verdict {
        let Some(seen) = verifier(response) else { return Ok(()) };
        let known = self.verifier();
        if known.is_none_or(|known| known == seen) {
            return Ok(());
        }
        if fault == Fault::None {
            return Err("another write verifier, and nothing has failed".into());
        }
        self.rotated = true;
        self.states.iter_mut().for_each(|state| state.lose_volatile(true));
        Ok(())
    }

    /// A call failed: it may have been carried out.
    fn fail(&mut self, step: &Step, window: (Time, Time), fault: Fault) -> Verdict {
        let states = std::mem::take(&mut self.states);
        for state in states {
            let mut done = state.clone();
            done.carry_out(step, window);
            match subject(&step.act) {
                Some(slot) => {
                    let mut mixed = state;
                    let current = mixed.content(slot);
                    let data = mixed.data.entry(slot).or_default();
                    data.fail(current, Change::of(step));
                    self.states.push(mixed);
                }
                None if changes(&step.act) && fault == Fault::Write => {
                    let mut undone = state;
                    relax(&mut undone, &mut done);
                    self.states.extend(both_names(step, &undone, &done));
                    self.states.extend([undone, done]);
                }
                None => self.states.push(state), // rule 3
            }
        }
        if self.states.len() > STATES { Err("too many states may be true".into()) } else { Ok(()) }
    }

    /// A call was never answered: it may have been carried out.
    ///
    /// # Errors
    /// When there are too many states to follow.
    pub(super) fn fail_unanswered(&mut self, step: &Step, window: (Time, Time)) -> Verdict {
        self.fail(step, window, Fault::Write)
    }

    /// The files that the trial must read.
    pub(super) fn unsure(&self) -> BTreeSet<usize> {
        self.states.iter().flat_map(State::unsure).collect()
    }

    /// Follows a look at an unsure file.
    ///
    /// # Errors
    /// When no state explains it.
    pub(super) fn look(&mut self, looked: &Looked) -> Verdict {
        self.keep(|state| state.look(looked))
    }

    /// A power cut: data that was not durable may be lost, and access times are.
    pub(super) fn lose_power(&mut self) {
        self.stopped = false;
        for state in &mut self.states {
            state.lose_volatile(false);
            for node in &mut state.reference.tree.nodes {
                node.atime = ALWAYS;
            }
        }
    }
}

impl State {
    fn node(&self, slot: usize) -> Option<&Node> {
        self.reference.node(slot).map(|node| self.reference.at(node))
    }

    fn content(&self, slot: usize) -> Content {
        let content = self.node(slot).and_then(|node| node.content().cloned());
        content.unwrap_or_default()
    }

    fn unsure(&self) -> impl Iterator<Item = usize> {
        self.data.iter().filter(|(_, data)| data.is_unsure()).map(|(&slot, _)| slot)
    }

    fn is_unsure(&self, slot: usize) -> bool {
        self.data.get(&slot).is_some_and(Data::is_unsure)
    }

    /// There is a new write verifier, because writes `failed` or the power was cut; data that was
    /// not durable is unsure.
    fn lose_volatile(&mut self, failed: bool) {
        self.reference.restarted();
        for (slot, mut data) in std::mem::take(&mut self.data) {
            data.lose(self.content(slot), failed);
            self.data.insert(slot, data);
        }
    }

    /// Applies a successful step, and compares.
    fn apply(&mut self, step: &Step, reply: &Reply) -> Verdict {
        let before = subject(&step.act).map(|slot| (slot, self.content(slot)));
        let verdict = self.reference.judge(step, &reply.response, reply.window);
        self.reference.tree.settle(reply.window.0, reply.window.1);
        if !self.shows_unsure(&step.act) {
            verdict?; // otherwise it shows an unknown value
        }
        if let Some((slot, before)) = before {
            self.note_data(step, slot, before, &reply.response);
        }
        Ok(())
    }

    /// Whether a reply shows part of an unsure file.
    fn shows_unsure(&self, act: &Act) -> bool {
        self.unsure().next().is_some()
            && match act {
                Act::Getattr(Object::Of(slot))
                | Act::Read(Object::Of(slot), ..)
                | Act::Write(Object::Of(slot), ..)
                | Act::Commit(Object::Of(slot), ..)
                | Act::Setattr(Object::Of(slot), ..)
                | Act::Link(Object::Of(slot), ..) => self.is_unsure(*slot),
                Act::Lookup(..) | Act::Readdirplus(..) | Act::Create(..) => true,
                _ => false,
            }
    }

    /// Follows the effect of a successful step on a file's data.
    fn note_data(&mut self, step: &Step, slot: usize, before: Content, response: &Response) {
        let change = Change::of(step);
        let is_known = match (response, change) {
            (Response::Write(Nfs3Result::Ok(ok)), Some(write)) => {
                let is_durable = ok.committed != stable_how::UNSTABLE;
                if !is_durable || self.data.contains_key(&slot) {
                    self.data.entry(slot).or_default().write(before, &write, is_durable);
                }
                false
            }
            (Response::Commit(Nfs3Result::Ok(_)), None) => {
                self.data.get_mut(&slot).is_some_and(Data::commit)
            }
            (Response::Setattr(Nfs3Result::Ok(_)), Some(resize)) => {
                self.data.get_mut(&slot).is_some_and(|data| data.resize(&resize))
            }
            _ => false,
        };
        if is_known {
            self.data.remove(&slot);
        }
    }

    /// Applies a step that may have been carried out, with no reply to compare.
    fn carry_out(&mut self, step: &Step, window: (Time, Time)) {
        self.reference.carry_out(step);
        self.reference.tree.settle(window.0, window.1);
    }

    fn look(&mut self, looked: &Looked) -> Verdict {
        let slot = looked.slot;
        if !self.is_unsure(slot) {
            return Ok(());
        }
        let mut data = self.data.remove(&slot).unwrap_or_default();
        let node = self.reference.node(slot).filter(|&node| self.reference.at(node).links > 0);
        let (node, (attributes, bytes)) = match (node, &looked.seen) {
            (None, None) => return Ok(()),
            (Some(node), Some(seen)) => (node, seen),
            (Some(_), None) => return Err(format!("the file of step {slot} is gone")),
            (None, Some(_)) => return Err(format!("the file of step {slot} is still there")),
        };
        let verdict = data.look(attributes.size, bytes);
        verdict.map_err(|reason| format!("file of step {slot}: {reason}"))?;
        self.data.insert(slot, data);
        let file = &mut self.reference.tree.nodes[node];
        let mut content = Content::default();
        content.write(0, bytes);
        content.resize(attributes.size);
        file.body = Body::Regular(content);
        (file.mtime, file.ctime) =
            (Stamp::Known(time(&attributes.mtime)), Stamp::Known(time(&attributes.ctime)));
        Ok(())
    }
}

/// The time of a step that may not have been carried out is unknown.
fn relax(undone: &mut State, done: &mut State) {
    let old = undone.reference.tree.nodes.len();
    let [one, two] = [&mut undone.reference.tree.nodes, &mut done.reference.tree.nodes];
    for (before, after) in one.iter_mut().zip(two.iter_mut()) {
        if before.ctime != after.ctime || before.links != after.links {
            for node in [before, after] {
                (node.atime, node.mtime, node.ctime) = (ALWAYS, ALWAYS, ALWAYS);
                node.told.size = None;
            }
        }
    }
    for node in two.iter_mut().skip(old) {
        (node.atime, node.mtime, node.ctime) = (ALWAYS, ALWAYS, ALWAYS);
    }
}

/// A RENAME that a cut interrupts may leave both names (docs/durability.md).
fn both_names(step: &Step, undone: &State, done: &State) -> Option<State> {
    let Act::Rename(from, from_name, ..) = &step.act else { return None };
    let directory = undone.reference.find(*from).ok()?;
    let node = undone.reference.tree.child(directory, from_name)?;
    if undone.reference.at(node).is_directory() {
        return None;
    }
    let mut both = done.clone();
    let Body::Directory(names) = &mut both.reference.tree.nodes[directory].body else {
        return None;
    };
    names.insert(from_name.to_vec(), node);
    both.reference.tree.nodes[node].links += 1;
    Some(both)
}
