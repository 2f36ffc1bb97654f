//! The server as it should be: a tree in memory, and the answer to each call.
//!
//! [`State::apply`] takes a state from one call to the next. It returns the states in which the
//! call has been carried out *and* was answered like this: none if that is impossible, several
//! where a cut has left an outcome open that no client has seen yet. [`State::cut`] returns the
//! states after a call that a cut has left in part; [`State::crash`] is the cut.
//!
//! A file's id is the execution that made it. The first answer that shows its handle fixes the
//! handle; no file ever has the handle of another, not even of a deleted one. In the same way the
//! first answer of a boot that contains the write verifier fixes it until the cut; the next boot
//! has another one.
//!
//! Modes and link counts are as UFS has them. Every client is the superuser. Times are not
//! modelled, nor is the size of a directory.

mod answers;
mod procedures;

use std::collections::{BTreeMap, BTreeSet};

use nfs3_types::nfs3::nfsstat3::{self, *};

use super::content::Content;
use super::words::{File, How, Kind, Op, Place, Told};

/// The number of a file: that of the execution which made it, plus one.
pub type Id = usize;

/// The root directory.
const ROOT: Id = 0;

/// The length of all targets of symbolic links.
pub const TARGET: &str = "target";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Body {
    Directory { names: BTreeMap<String, Id>, parent: Id },
    Regular(Content),
    Other(Kind),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    body: Body,
    mode: u32,
    links: u32,
    file: Option<File>,
    /// The verifier of the exclusive CREATE that made the file.
    verifier: Option<Verifier>,
}

/// The verifier of an exclusive CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Verifier {
    number: u64,
    /// A SETATTR or WRITE has come since, and the change may have overwritten it.
    may_be_gone: bool,
}

/// A state of the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: BTreeMap<Id, Node>,
    /// Handles of deleted files.
    retired: BTreeSet<File>,
    verifier: Option<[u8; 8]>,
    old_verifiers: BTreeSet<[u8; 8]>,
}

/// The effect of a call.
#[derive(Default)]
struct Done {
    object: Option<Id>,
    about: [Option<Id>; 2],
    size_before: Option<u64>,
}

impl Done {
    fn about(id: Id) -> Self {
        Self { about: [Some(id), None], ..Self::default() }
    }
}

/// Why a call fails.
enum Failure {
    /// The status, and the files whose attributes the reply carries.
    Status(nfsstat3, [Option<Id>; 2]),
    /// It names a file that does not exist yet: the call comes later.
    TooEarly,
}

impl From<nfsstat3> for Failure {
    fn from(status: nfsstat3) -> Self {
        Self::Status(status, [None, None])
    }
}

impl State {
    /// An empty tree, with the handle of its root.
    pub fn new(root: File) -> Self {
        let body = Body::Directory { names: BTreeMap::new(), parent: ROOT };
        let root = Node { body, mode: 0o755, links: 2, file: Some(root), verifier: None };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            retired: BTreeSet::new(),
            verifier: None,
            old_verifiers: BTreeSet::new(),
        }
    }

    /// The states after a call: those in which the answer was this one, if there was an answer.
    pub fn apply(&self, execution: usize, op: &Op, told: Option<&Told>) -> Vec<Self> {
        let mut after = self.settled(op);
        after.retain_mut(|state| {
            let stable = told.map_or(op.asks_stable(), |told| told.is_stable);
            match (state.carry_out(execution, op, stable), told) {
                (Err(Failure::TooEarly), _) => false,
                (Ok(_) | Err(Failure::Status(..)), None) => true,
                (Ok(done), Some(told)) => state.fits(op, &done, told),
                (Err(Failure::Status(status, about)), Some(told)) => {
                    status == told.status && state.fits_about(about, told)
                }
            }
        });
        after
    }

    /// The states after an unanswered call that a cut has left in part.
    pub fn cut(&self, execution: usize, op: &Op) -> Vec<Self> {
        let mut after = self.clone();
        match op {
            Op::Write { file, at, count, value, .. } => {
                let Ok(id) = after.find(*file) else { return Vec::new() };
                let Some(content) = after.content(id) else { return Vec::new() };
                content.cut_write(*at, *count, *value);
            }
            Op::Rename(from, to) => {
                if after.carry_out(execution, op, true).is_err()
                    || !after.cut_rename(self, from, to)
                {
                    return Vec::new();
                }
            }
            _ => return Vec::new(),
        }
        if after == *self { Vec::new() } else { vec![after] }
    }

    /// The file keeps its old name beside the new one. A directory may not have moved, while the
    /// empty one at its new name is gone.
    fn cut_rename(&mut self, before: &Self, from: &Place, to: &Place) -> bool {
        let places = before.entry(from).and_then(|moved| Ok((moved, before.find(to.0)?)));
        let Ok((moved, target_parent)) = places else { return false };
        if !before.is_directory(moved) {
            let parent = self.find(from.0).unwrap_or_else(|_| unreachable!("it was renamed"));
            let links = self.nodes[&moved].links;
            if before.nodes[&moved].links != links || self.names(parent).contains_key(&from.1) {
                return false; // two names of one file: nothing has happened
            }
            self.nodes.get_mut(&moved).expect("it was renamed").links += 1;
            self.names_mut(parent).insert(from.1.clone(), moved);
            return true;
        }
        let Some(&target) = before.names(target_parent).get(&to.1) else { return false };
        if target == moved {
            return false;
        }
        *self = before.clone();
        self.names_mut(target_parent).remove(&to.1);
        self.nodes.get_mut(&target_parent).expect("a directory").links -= 1;
        self.end(target);
        true
    }

    /// Whether all names are the same, of the same files.
    pub fn has_names_of(&self, other: &Self) -> bool {
        let shape = |(&id, node): (&Id, &Node)| match &node.body {
            Body::Directory { names, .. } => (id, Some(names.clone())),
            _ => (id, None),
        };
        self.nodes.iter().map(shape).eq(other.nodes.iter().map(shape))
    }

    /// A power cut.
    pub fn crash(&mut self) {
        for node in self.nodes.values_mut() {
            if let Body::Regular(content) = &mut node.body {
                content.crash();
            }
        }
        self.old_verifiers.extend(self.verifier.take());
    }

    /// The states in which the file that a call examines has a known length, and an exclusive
    /// CREATE recognises it or not.
    fn settled(&self, op: &Op) -> Vec<Self> {
        let Some(id) = self.looked_at(op) else { return vec![self.clone()] };
        let Body::Regular(content) = &self.nodes[&id].body else { return vec![self.clone()] };
        let verifier = self.nodes[&id].verifier;
        let is_asked = matches!(op, Op::Create(_, How::Exclusive(_), _));
        let is_gone = verifier.filter(|verifier| is_asked && verifier.may_be_gone).map(|_| None);
        let settled = content.settled().into_iter().flat_map(|content| {
            [Some(verifier), is_gone].into_iter().flatten().map(move |verifier| {
                let mut state = self.clone();
                let node = state.nodes.get_mut(&id).expect("it is there");
                (node.body, node.verifier) = (Body::Regular(content.clone()), verifier);
                state
            })
        });
        settled.collect()
    }

    fn looked_at(&self, op: &Op) -> Option<Id> {
        match op {
            Op::Getattr(file)
            | Op::Access(file)
            | Op::Read(file)
            | Op::Resize(file, _)
            | Op::Chmod(file, _)
            | Op::Write { file, .. }
            | Op::Commit(file)
            | Op::Link(file, _) => self.find(*file).ok(),
            Op::Lookup(place) | Op::Create(place, ..) => self.entry(place).ok(),
            _ => None,
        }
    }

    fn find(&self, file: File) -> Result<Id, Failure> {
        let found = self.nodes.iter().find(|(_, node)| node.file == Some(file));
        match found {
            Some((&id, _)) => Ok(id),
            None if self.retired.contains(&file) => Err(NFS3ERR_STALE.into()),
            None => Err(Failure::TooEarly),
        }
    }

    fn directory(&self, file: File) -> Result<Id, Failure> {
        let id = self.find(file)?;
        if self.is_directory(id) { Ok(id) } else { Err(NFS3ERR_NOTDIR.into()) }
    }

    fn regular(&self, file: File) -> Result<Id, Failure> {
        let id = self.find(file)?;
        let about = [Some(id), None];
        match self.nodes[&id].body {
            Body::Regular(_) => Ok(id),
            Body::Directory { .. } => Err(Failure::Status(NFS3ERR_ISDIR, about)),
            Body::Other(_) => Err(Failure::Status(NFS3ERR_INVAL, about)),
        }
    }

    fn entry(&self, place: &Place) -> Result<Id, Failure> {
        let parent = self.directory(place.0)?;
        self.names(parent).get(&place.1).copied().ok_or(NFS3ERR_NOENT.into())
    }

    fn is_directory(&self, id: Id) -> bool {
        matches!(self.nodes[&id].body, Body::Directory { .. })
    }

    fn names(&self, id: Id) -> &BTreeMap<String, Id> {
        match &self.nodes[&id].body {
            Body::Directory { names, .. } => names,
            _ => unreachable!("only directories are asked for names"),
        }
    }

    fn names_mut(&mut self, id: Id) -> &mut BTreeMap<String, Id> {
        match &mut self.nodes.get_mut(&id).expect("a directory that was found").body {
            Body::Directory { names, .. } => names,
            _ => unreachable!("only directories are asked for names"),
        }
    }

    fn content(&mut self, id: Id) -> Option<&mut Content> {
        match &mut self.nodes.get_mut(&id)?.body {
            Body::Regular(content) => Some(content),
            _ => None,
        }
    }
}
