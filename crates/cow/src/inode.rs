//! A file in memory.

use std::rc::Rc;

use bytes::Bytes;
use namespace::{AttributeChange, Protection};
use vfs::{Attributes, FileKind, Ino, Timestamp};

use crate::format::UNIT;
use crate::format::inode::{Facts, Record};
use crate::node::{Node, Stem};

/// An inode, with a reference to its block.
#[derive(Clone)]
pub struct Inode {
    /// Its attributes.
    pub facts: Facts,
    /// The block that it is in.
    pub home: Rc<Node>,
    /// The slot there.
    pub slot: u64,
    /// The target of a symbolic link that is stored in it.
    pub target: Option<Bytes>,
}

impl Inode {
    /// The stem of the file's tree.
    pub fn stem(&self, ino: u64) -> Stem {
        Stem::File(ino, self.home.clone(), self.slot)
    }

    /// Changes attributes.
    pub fn change(&mut self, change: &AttributeChange) {
        let facts = &mut self.facts;
        // A change of the change time alone comes from a name.
        if (AttributeChange { ctime: None, ..*change }) != AttributeChange::default() {
            facts.verifier = None;
        }
        facts.mode = change.mode.unwrap_or(facts.mode);
        facts.uid = change.uid.unwrap_or(facts.uid);
        facts.gid = change.gid.unwrap_or(facts.gid);
        facts.atime = change.atime.unwrap_or(facts.atime);
        facts.mtime = change.mtime.unwrap_or(facts.mtime);
        facts.ctime = change.ctime.unwrap_or(facts.ctime);
    }
}

impl vnode::Facts for Inode {
    fn attributes(&self, ino: u64, kind: FileKind) -> Attributes {
        let facts = &self.facts;
        Attributes {
            kind,
            mode: facts.mode,
            nlink: facts.links,
            uid: facts.uid,
            gid: facts.gid,
            size: facts.size,
            used: facts.units.saturating_mul(UNIT as u64),
            device: facts.device,
            ino: Ino(ino),
            generation: facts.generation,
            atime: facts.atime,
            mtime: facts.mtime,
            ctime: facts.ctime,
        }
    }

    fn size(&self) -> u64 {
        self.facts.size
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.facts.mtime, self.facts.ctime)
    }

    fn has_verifier(&self, verifier: [u8; 8]) -> bool {
        self.facts.verifier == Some(verifier)
    }

    fn protection(&self) -> Protection {
        Protection::default()
    }

    fn inline_target(&self) -> Option<Bytes> {
        self.target.clone()
    }

    fn pinned(&self) -> (u64, usize) {
        (self.home.place.index, UNIT)
    }
}

/// Whether a stem still belongs to the same file.
pub fn is_still(stem: &Stem, file: Option<&Facts>) -> bool {
    let (Stem::File(_, home, slot), Some(was)) = (stem, file) else { return true };
    let is_it = |now: Facts| now.generation == was.generation && !now.is_inline();
    !home.is_gone() && home.inode(*slot, Record::facts).is_some_and(is_it)
}
