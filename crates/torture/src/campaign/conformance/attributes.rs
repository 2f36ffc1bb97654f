//! Checks the attributes of a reply against the tree.
//!
//! Compared exactly: type, mode, link count, owner, group, device, size of everything but
//! directories, file system and file number, and times by their rules. By rule: the size of a
//! directory is whole chunks and changes with its entries alone; `used` is whole sectors and not
//! more than the file can need.

use nfs3_types::nfs3::{
    Nfs3Option, fattr3, nfs_fh3, nfstime3, post_op_attr, post_op_fh3, wcc_attr, wcc_data,
};

use super::stamp::{Stamp, Time};
use super::tree::{Body, Node, Tree};

/// A chunk of a directory, in bytes.
const CHUNK: u64 = 512;
/// Blocks of the file systems here, in bytes, and pointers in one of them.
const BLOCK: u64 = 8192;
const POINTERS: u64 = BLOCK / 8;

/// The attributes of a file before a change that a reply may carry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    size: Option<u64>,
    mtime: Stamp,
    ctime: Stamp,
}

impl Before {
    pub(crate) fn of(node: &Node) -> Self {
        Self { size: node.size(), mtime: node.mtime, ctime: node.ctime }
    }

    fn check(mut self, seen: &wcc_attr) -> Result<(), String> {
        let size = self.size.is_none_or(|size| size == seen.size);
        let times = self.mtime.agrees(time(&seen.mtime)) && self.ctime.agrees(time(&seen.ctime));
        if size && times { Ok(()) } else { Err(format!("before: {seen:?}, expected {self:?}")) }
    }
}

pub(crate) fn time(seen: &nfstime3) -> Time {
    (seen.seconds, seen.nseconds)
}

/// The most bytes that a file of this size can use, with its indirect blocks.
fn most(size: u64) -> u64 {
    let mut blocks = size.div_ceil(BLOCK);
    let mut all = blocks;
    while blocks > 1 {
        blocks = blocks.div_ceil(POINTERS);
        all += blocks;
    }
    (all + 3) * BLOCK
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{what} {seen:?}, expected {expected:?}")) }
}

impl Tree {
    /// Compares attributes, and records those that the server may choose.
    pub(crate) fn check_attributes(&mut self, node: usize, seen: &fattr3) -> Result<(), String> {
        let taken = |(index, other): (usize, &Node)| {
            index != node && other.told.fileid == Some(seen.fileid)
        };
        if self.nodes[node].told.fileid.is_none() && self.live().any(taken) {
            return Err(format!("file number {} is that of another file", seen.fileid));
        }
        let node = &mut self.nodes[node];
        equal("type", seen.type_, node.kind())?;
        equal("mode", seen.mode, node.mode)?;
        equal("nlink", seen.nlink, node.links)?;
        equal("owner", (seen.uid, seen.gid), (node.uid, node.gid))?;
        let device = if let Body::Special(_, device) = node.body { device } else { (0, 0) };
        equal("device", (seen.rdev.specdata1, seen.rdev.specdata2), device)?;
        equal("fsid", seen.fsid, 1)?;
        equal("fileid", seen.fileid, *node.told.fileid.get_or_insert(seen.fileid))?;
        if node.is_directory() && node.told.size.is_none() {
            let whole = seen.size > 0 && seen.size.is_multiple_of(CHUNK);
            equal("a directory's size is whole chunks", whole, true)?;
            node.told.size = Some(seen.size);
        }
        equal("size", Some(seen.size), node.size())?;
        let used = seen.used.is_multiple_of(CHUNK) && seen.used <= most(seen.size);
        equal("used is whole sectors and not too many", used, true)
            .map_err(|error| format!("{error}: {seen:?}"))?;
        for (what, stamp, seen) in [
            ("atime", &mut node.atime, &seen.atime),
            ("mtime", &mut node.mtime, &seen.mtime),
            ("ctime", &mut node.ctime, &seen.ctime),
        ] {
            if !stamp.agrees(time(seen)) {
                return Err(format!("{what} {seen:?}, expected {stamp:?}"));
            }
        }
        Ok(())
    }

    /// Attributes in a success: they must be present.
    pub(crate) fn check_given(&mut self, node: usize, seen: &post_op_attr) -> Result<(), String> {
        match seen {
            Nfs3Option::Some(seen) => self.check_attributes(node, seen),
            Nfs3Option::None => Err("attributes are missing".into()),
        }
    }

    /// Attributes in a refusal: they may be missing.
    pub(crate) fn check_any(
        &mut self,
        node: Option<usize>,
        seen: &post_op_attr,
    ) -> Result<(), String> {
        match (node, seen) {
            (_, Nfs3Option::None) => Ok(()),
            (Some(node), Nfs3Option::Some(seen)) => self.check_attributes(node, seen),
            (None, Nfs3Option::Some(seen)) => Err(format!("attributes of nothing: {seen:?}")),
        }
    }

    /// Checks the attributes before and after a successful change.
    pub(crate) fn check_wcc(
        &mut self,
        node: usize,
        was: Before,
        seen: &wcc_data,
    ) -> Result<(), String> {
        match &seen.before {
            Nfs3Option::Some(before) => was.check(before)?,
            Nfs3Option::None => return Err("what was before is missing".into()),
        }
        self.check_given(node, &seen.after)
    }

    /// Checks the attributes before and after a refused change: both are the same.
    pub(crate) fn check_unchanged(
        &mut self,
        node: Option<usize>,
        seen: &wcc_data,
    ) -> Result<(), String> {
        if let (Some(node), Nfs3Option::Some(before)) = (node, &seen.before) {
            Before::of(&self.nodes[node]).check(before)?;
        }
        self.check_any(node, &seen.after)
    }

    /// A handle: the same for ever, and never that of another file.
    pub(crate) fn check_handle(&mut self, node: usize, seen: &nfs_fh3) -> Result<(), String> {
        let handle = seen.data.to_vec();
        if self.nodes[node].told.handle.is_none() {
            if self.nodes.iter().any(|other| other.told.handle.as_ref() == Some(&handle)) {
                return Err(format!("the handle {handle:?} was that of another file"));
            }
            self.nodes[node].told.handle = Some(handle.clone());
        }
        equal("handle", Some(&handle), self.nodes[node].told.handle.as_ref())
    }

    /// Checks the handle and attributes of a new file.
    pub(crate) fn check_made(
        &mut self,
        node: usize,
        handle: &post_op_fh3,
        attributes: &post_op_attr,
    ) -> Result<(), String> {
        match handle {
            Nfs3Option::Some(handle) => self.check_handle(node, handle)?,
            Nfs3Option::None => return Err("the handle is missing".into()),
        }
        self.check_given(node, attributes)
    }
}
