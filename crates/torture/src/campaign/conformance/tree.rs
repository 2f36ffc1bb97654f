//! The file system as RFC 1813 and the manual pages of UNIX describe it: a tree in memory.
//!
//! It knows nothing of disks, and shares no code with the engine. Each verb either changes the tree
//! or returns *all* the reasons to refuse it: if several hold at once the protocol does not say
//! which of them the server reports, so any will do. A refused verb changes nothing.
//!
//! Times are rules: a verb says which of them become *now*; see [`Stamp`].

use std::collections::BTreeMap;

use nfs3_types::nfs3::{ftype3, nfsstat3};

use super::content::Content;
use super::stamp::Stamp;

/// The reasons to refuse a verb: any of these is right.
pub(crate) type Why = Vec<nfsstat3>;

/// The name of a directory entry.
pub(crate) type Name = Vec<u8>;

/// The contents of a file, by its kind.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Regular(Content),
    Directory(BTreeMap<Name, usize>),
    Symlink(Vec<u8>),
    /// A device, fifo or socket, with its device number.
    Special(ftype3, (u32, u32)),
}

/// A file of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub body: Body,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// The link count; 0 once the file is deleted.
    pub links: u32,
    pub atime: Stamp,
    pub mtime: Stamp,
    pub ctime: Stamp,
    /// The parent directory, if it is a directory.
    pub parent: usize,
    /// The verifier of the exclusive CREATE that made it.
    pub verifier: Option<[u8; 8]>,
    /// The number of the step that made it.
    pub slot: usize,
    /// Attributes that the server may choose but not change, as reported so far.
    pub told: Told,
}

/// Attributes of a file that only the server knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub handle: Option<Vec<u8>>,
    pub fileid: Option<u64>,
    /// The size of a directory, until an entry changes.
    pub size: Option<u64>,
}

/// The file system.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
    pub max_file_size: u64,
}

/// The root directory.
pub(crate) const ROOT: usize = 0;

/// Collects reasons to refuse a verb.
#[derive(Default)]
pub(crate) struct Reasons(Why);

impl Reasons {
    /// Adds statuses that a refusal may have if a condition holds.
    pub(crate) fn when(&mut self, holds: bool, statuses: &[nfsstat3]) -> &mut Self {
        if holds {
            self.0.extend(statuses);
        }
        self
    }

    /// Refuses if there is any reason so far.
    pub(crate) fn judge(&mut self) -> Result<(), Why> {
        if self.0.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.0)) }
    }

    /// Checks a name by itself (RFC 1813, section 3.2).
    pub(crate) fn name(&mut self, name: &[u8]) -> &mut Self {
        self.when(name.is_empty(), &[nfsstat3::NFS3ERR_ACCES])
            .when(name.iter().any(|byte| matches!(byte, 0 | b'/')), &[nfsstat3::NFS3ERR_INVAL])
            .when(name.len() > 255, &[nfsstat3::NFS3ERR_NAMETOOLONG])
    }
}

impl Node {
    pub(crate) fn new(body: Body, mode: u32, (uid, gid): (u32, u32), slot: usize) -> Self {
        let links = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        let [atime, mtime, ctime] = [Stamp::Now; 3];
        let (parent, verifier, told) = (ROOT, None, Told::default());
        Self { body, mode, uid, gid, links, atime, mtime, ctime, parent, verifier, slot, told }
    }

    pub(crate) fn kind(&self) -> ftype3 {
        match self.body {
            Body::Regular(_) => ftype3::NF3REG,
            Body::Directory(_) => ftype3::NF3DIR,
            Body::Symlink(_) => ftype3::NF3LNK,
            Body::Special(kind, _) => kind,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    /// Length in bytes; the server chooses that of a directory.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.body {
            Body::Regular(content) => Some(content.size()),
            Body::Directory(_) => self.told.size,
            Body::Symlink(target) => Some(target.len() as u64),
            Body::Special(..) => Some(0),
        }
    }

    pub(crate) fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::Regular(content) => Some(content),
            _ => None,
        }
    }

    pub(crate) fn entries(&self) -> Option<&BTreeMap<Name, usize>> {
        match &self.body {
            Body::Directory(entries) => Some(entries),
            _ => None,
        }
    }
}

impl Tree {
    /// A tree of one directory that every user may use.
    pub(crate) fn new(max_file_size: u64) -> Self {
        let root = Node::new(Body::Directory(BTreeMap::new()), 0o777, (0, 0), ROOT);
        Self { nodes: vec![root], max_file_size }
    }

    /// The files that exist.
    pub(crate) fn live(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.links > 0)
    }

    /// The file under a name, "." and ".." included.
    pub(crate) fn child(&self, directory: usize, name: &[u8]) -> Option<usize> {
        match name {
            b"." => Some(directory),
            b".." => Some(self.nodes[directory].parent),
            _ => self.nodes[directory].entries()?.get(name).copied(),
        }
    }

    /// All names of a directory with their files.
    pub(crate) fn listing(&self, directory: usize) -> BTreeMap<Name, usize> {
        let mut listing = self.nodes[directory].entries().cloned().unwrap_or_default();
        listing.insert(b".".to_vec(), directory);
        listing.insert(b"..".to_vec(), self.nodes[directory].parent);
        listing
    }

    /// Whether a directory is `above` or lies below it.
    pub(crate) fn lies_below(&self, mut directory: usize, above: usize) -> bool {
        while directory != above {
            if directory == ROOT {
                return false;
            }
            directory = self.nodes[directory].parent;
        }
        true
    }

    /// The entries of a directory, for a change.
    pub(crate) fn change_entries(&mut self, directory: usize) -> &mut BTreeMap<Name, usize> {
        let node = &mut self.nodes[directory];
        (node.mtime, node.ctime) = (Stamp::Now, Stamp::Now);
        node.told.size = None;
        match &mut node.body {
            Body::Directory(entries) => entries,
            _ => panic!("only a directory has entries, and the verbs look first"),
        }
    }

    /// Drops a name of a file that is not a directory.
    pub(crate) fn drop_link(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.links -= 1;
        node.ctime = Stamp::Now;
    }

    /// Removes a directory from its parent.
    pub(crate) fn drop_directory(&mut self, node: usize) {
        let parent = self.nodes[node].parent;
        self.nodes[node].links = 0;
        self.nodes[parent].links -= 1;
    }

    /// Ends the call in progress: *now* was between these two times.
    pub(crate) fn settle(&mut self, from: (u32, u32), to: (u32, u32)) {
        for node in &mut self.nodes {
            for stamp in [&mut node.atime, &mut node.mtime, &mut node.ctime] {
                stamp.settle(from, to);
            }
        }
    }
}
