//! The verbs on files and names, each with all the reasons to refuse it.

use std::collections::BTreeMap;

use nfs3_types::nfs3::{ftype3, nfsstat3, nfsstat3::*};

use super::rights::{self, READ, SEARCH, SET_GID, SET_UID, WRITE};
use super::stamp::Stamp;
use super::step::{Changes, How, When};
use super::tree::{Body, Node, Reasons, Tree, Why};
use crate::protocol::User;

/// The longest target of a symbolic link.
const MAX_TARGET: usize = 4095;
/// Refusals of a LINK to anything but a file: programs expect EPERM, the protocol allows it.
const NO_LINKS: &[nfsstat3] = &[NFS3ERR_PERM, NFS3ERR_ISDIR, NFS3ERR_INVAL];

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

impl Tree {
    /// Refusals of data calls on anything but a regular file.
    fn not_regular(&self, node: usize) -> &'static [nfsstat3] {
        match self.nodes[node].kind() {
            ftype3::NF3REG => &[],
            ftype3::NF3DIR => &[NFS3ERR_ISDIR, NFS3ERR_INVAL],
            _ => &[NFS3ERR_INVAL],
        }
    }

    /// Checks a directory in which `who` may look up a legal name.
    fn enter(&self, reasons: &mut Reasons, who: &User, directory: usize) -> Result<(), Why> {
        let node = &self.nodes[directory];
        reasons.when(!node.is_directory(), &[NFS3ERR_NOTDIR]);
        reasons.when(node.is_directory() && !rights::may(who, node, SEARCH), &[NFS3ERR_ACCES]);
        reasons.judge()
    }

    pub(crate) fn lookup(&self, who: &User, directory: usize, name: &[u8]) -> Result<usize, Why> {
        let mut reasons = Reasons::default();
        self.enter(reasons.name(name), who, directory)?;
        self.child(directory, name).ok_or_else(|| vec![NFS3ERR_NOENT])
    }

    pub(crate) fn setattr(
        &mut self,
        who: &User,
        node: usize,
        changes: &Changes,
        is_guarded_off: bool,
    ) -> Result<(), Why> {
        let not_resizable = match self.nodes[node].kind() {
            ftype3::NF3REG if rights::may_write_data(who, &self.nodes[node]) => &[][..],
            ftype3::NF3REG => &[NFS3ERR_ACCES],
            _ => self.not_regular(node),
        };
        let too_large = changes.size.is_some_and(|size| size > self.max_file_size);
        let file = &self.nodes[node];
        let (owns, root) = (rights::owns(who, file), rights::is_root(who));
        let gives_away = changes.uid.is_some_and(|uid| uid != file.uid)
            || changes.gid.is_some_and(|gid| gid != file.gid && !rights::is_member(who, gid));
        let chowns = changes.uid.is_some() || changes.gid.is_some();
        let times = [changes.atime, changes.mtime];
        let sets = times.iter().any(|time| matches!(time, When::At(_)));
        let touches = times.contains(&When::Now);
        let writes = rights::may(who, file, WRITE);
        let mut reasons = Reasons::default();
        reasons
            .when(is_guarded_off, &[NFS3ERR_NOT_SYNC])
            .when(changes.mode.is_some() && !owns, &[NFS3ERR_PERM])
            .when(chowns && !root && (!owns || gives_away), &[NFS3ERR_PERM])
            .when(sets && !owns, &[NFS3ERR_PERM])
            .when(touches && !owns && !writes, &[NFS3ERR_ACCES, NFS3ERR_PERM])
            .when(changes.has_bad_time(), &[NFS3ERR_INVAL])
            .when(changes.size.is_some(), not_resizable)
            .when(changes.size.is_some() && too_large, &[NFS3ERR_FBIG]);
        reasons.judge()?;
        self.apply(who, node, changes);
        Ok(())
    }

    /// Sets the permitted attributes, with all consequences.
    fn apply(&mut self, who: &User, node: usize, changes: &Changes) {
        if *changes == Changes::default() {
            return;
        }
        let node = &mut self.nodes[node];
        node.verifier = None; // the file is no longer as the exclusive creation left it
        let (root, directory) = (rights::is_root(who), node.is_directory());
        let mut mode = changes.mode.map_or(node.mode, |mode| mode & 0o7777);
        if changes.mode.is_some() && !root {
            mode = tame(who, mode, changes.gid.unwrap_or(node.gid));
        }
        let chowns = changes.uid.is_some() || changes.gid.is_some();
        if !root && (chowns && !directory || changes.size.is_some()) {
            mode &= !(SET_UID | SET_GID); // no user runs as another what a third one changed
        }
        node.mode = mode;
        node.uid = changes.uid.unwrap_or(node.uid);
        node.gid = changes.gid.unwrap_or(node.gid);
        if let (Some(size), Body::Regular(content)) = (changes.size, &mut node.body) {
            content.resize(size);
            node.mtime = Stamp::Now;
        }
        changes.atime.set(&mut node.atime);
        changes.mtime.set(&mut node.mtime);
        node.ctime = Stamp::Now;
    }

    /// Returns the number of bytes that are read.
    pub(crate) fn read(
        &mut self,
        who: &User,
        node: usize,
        (offset, count): (u64, u32),
    ) -> Result<Vec<u8>, Why> {
        let allowed = rights::may_read_data(who, &self.nodes[node]);
        Reasons::default()
            .when(true, self.not_regular(node))
            .when(!allowed, &[NFS3ERR_ACCES])
            .judge()?;
        if count > 0 {
            self.nodes[node].atime = Stamp::Now; // the protocol leaves it open, the server does it
        }
        let content = self.nodes[node].content().expect("a regular file");
        Ok(content.read(offset, count.into()))
    }

    pub(crate) fn write(
        &mut self,
        who: &User,
        node: usize,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Why> {
        let allowed = rights::may_write_data(who, &self.nodes[node]);
        let end = offset.checked_add(data.len() as u64);
        Reasons::default()
            .when(true, self.not_regular(node))
            .when(!allowed, &[NFS3ERR_ACCES])
            .when(end.is_none_or(|end| end > self.max_file_size), &[NFS3ERR_FBIG])
            .judge()?;
        if data.is_empty() {
            return Ok(());
        }
        let node = &mut self.nodes[node];
        node.verifier = None;
        if !rights::is_root(who) {
            node.mode &= !(SET_UID | SET_GID);
        }
        (node.mtime, node.ctime) = (Stamp::Now, Stamp::Now);
        if let Body::Regular(content) = &mut node.body {
            content.write(offset, data);
        }
        Ok(())
    }

    pub(crate) fn commit(&self, who: &User, node: usize) -> Result<(), Why> {
        let file = &self.nodes[node];
        let allowed = rights::may_write_data(who, file) || rights::may_read_data(who, file);
        Reasons::default()
            .when(true, self.not_regular(node))
            .when(!allowed, &[NFS3ERR_ACCES])
            .judge()
    }

    pub(crate) fn readlink(&self, node: usize) -> Result<Vec<u8>, Why> {
        match &self.nodes[node].body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(vec![NFS3ERR_INVAL]),
        }
    }

    pub(crate) fn create(
        &mut self,
        who: &User,
        (directory, name): (usize, &[u8]),
        how: &How,
        slot: usize,
    ) -> Result<usize, Why> {
        let changes = match how {
            How::Unchecked(changes) | How::Guarded(changes) => *changes,
            How::Exclusive(_) => Changes { mode: Some(0), ..Changes::default() },
        };
        let mut reasons = Reasons::default();
        reasons
            .when(is_dot(name), &[NFS3ERR_EXIST, NFS3ERR_ISDIR])
            .when(changes.has_bad_time(), &[NFS3ERR_INVAL])
            .when(changes.size.is_some_and(|size| size > self.max_file_size), &[NFS3ERR_FBIG]);
        self.enter(reasons.name(name), who, directory)?;
        match self.child(directory, name) {
            Some(existing) => self.create_again(who, existing, how),
            None => {
                let file = Body::Regular(Default::default());
                let made = self.make(who, (directory, name), file, &changes, slot)?;
                if let How::Exclusive(verifier) = how {
                    self.nodes[made].verifier = Some(*verifier);
                }
                Ok(made)
            }
        }
    }

    /// CREATE of an existing name.
    fn create_again(&mut self, who: &User, node: usize, how: &How) -> Result<usize, Why> {
        let file = &self.nodes[node];
        let regular = file.kind() == ftype3::NF3REG;
        let mut reasons = Reasons::default();
        match how {
            How::Guarded(_) => reasons.when(true, &[NFS3ERR_EXIST]),
            How::Exclusive(verifier) => {
                let own = regular && file.verifier == Some(*verifier);
                reasons.when(!own, &[NFS3ERR_EXIST])
            }
            How::Unchecked(_) => {
                reasons.when(!regular, &[NFS3ERR_EXIST]).when(file.is_directory(), &[NFS3ERR_ISDIR])
            }
        };
        reasons.judge()?;
        if let How::Unchecked(Changes { size: Some(size), .. }) = how {
            let changes = Changes { size: Some(*size), ..Changes::default() };
            self.setattr(who, node, &changes, false)?;
        }
        Ok(node)
    }

    pub(crate) fn mkdir(
        &mut self,
        who: &User,
        place: (usize, &[u8]),
        changes: &Changes,
        slot: usize,
    ) -> Result<usize, Why> {
        let changes = Changes { size: None, ..*changes };
        self.check_new(&mut Reasons::default(), who, place, &changes)?;
        let made = self.make(who, place, Body::Directory(BTreeMap::new()), &changes, slot)?;
        self.nodes[made].parent = place.0;
        self.nodes[place.0].links += 1;
        Ok(made)
    }

    pub(crate) fn symlink(
        &mut self,
        who: &User,
        place: (usize, &[u8]),
        target: &[u8],
        changes: &Changes,
        slot: usize,
    ) -> Result<usize, Why> {
        let mode = Some(changes.mode.unwrap_or(0o777));
        let changes = Changes { size: None, mode, ..*changes };
        let mut reasons = Reasons::default();
        reasons
            .when(target.is_empty() || target.contains(&0), &[NFS3ERR_INVAL])
            .when(target.len() > MAX_TARGET, &[NFS3ERR_NAMETOOLONG]);
        self.check_new(&mut reasons, who, place, &changes)?;
        self.make(who, place, Body::Symlink(target.to_vec()), &changes, slot)
    }

    pub(crate) fn mknod(
        &mut self,
        who: &User,
        place: (usize, &[u8]),
        (kind, device): (ftype3, (u32, u32)),
        changes: &Changes,
        slot: usize,
    ) -> Result<usize, Why> {
        let is_device = matches!(kind, ftype3::NF3BLK | ftype3::NF3CHR);
        let special = is_device || matches!(kind, ftype3::NF3FIFO | ftype3::NF3SOCK);
        let changes = Changes { size: None, ..*changes };
        let mut reasons = Reasons::default();
        reasons
            .when(!special, &[NFS3ERR_BADTYPE])
            .when(is_device && !rights::is_root(who), &[NFS3ERR_PERM]);
        // A node that MKNOD cannot make has no attributes in its call.
        let attributes = if special { changes } else { Changes::default() };
        self.check_new(&mut reasons, who, place, &attributes)?;
        let device = if is_device { device } else { (0, 0) };
        self.make(who, place, Body::Special(kind, device), &changes, slot)
    }

    /// Checks that a name is legal and not in use.
    fn check_new(
        &self,
        reasons: &mut Reasons,
        who: &User,
        (directory, name): (usize, &[u8]),
        changes: &Changes,
    ) -> Result<(), Why> {
        reasons.when(is_dot(name), &[NFS3ERR_EXIST]);
        reasons.when(changes.has_bad_time(), &[NFS3ERR_INVAL]);
        self.enter(reasons.name(name), who, directory)?;
        let writes = rights::may(who, &self.nodes[directory], WRITE);
        let exists = self.child(directory, name).is_some();
        reasons.when(exists, &[NFS3ERR_EXIST]).when(!writes, &[NFS3ERR_ACCES]).judge()
    }

    /// Makes a file under an unused name. Its owner is the maker, or the user that the superuser
    /// names; its group is that of the directory, or one of the maker's.
    fn make(
        &mut self,
        who: &User,
        (directory, name): (usize, &[u8]),
        body: Body,
        changes: &Changes,
        slot: usize,
    ) -> Result<usize, Why> {
        let (root, parent) = (rights::is_root(who), &self.nodes[directory]);
        let writes = rights::may(who, parent, WRITE);
        Reasons::default().when(!writes, &[NFS3ERR_ACCES]).judge()?;
        let gid = changes.gid.filter(|&gid| root || rights::is_member(who, gid));
        let owner = (changes.uid.filter(|_| root), gid);
        let owner = (owner.0.unwrap_or(who.uid), owner.1.unwrap_or(parent.gid));
        let mut mode = changes.mode.unwrap_or(0) & 0o7777;
        if !root {
            mode = tame(who, mode, owner.1);
        }
        self.nodes.push(Node::new(body, mode, owner, slot));
        let node = self.nodes.len() - 1;
        self.change_entries(directory).insert(name.to_vec(), node);
        // The rest is a SETATTR by the maker.
        let size = changes.size.filter(|&size| size > 0);
        let Changes { atime, mtime, .. } = *changes;
        self.apply(who, node, &Changes { size, atime, mtime, ..Changes::default() });
        Ok(node)
    }
}

/// The mode that a user other than the superuser gets.
fn tame(who: &User, mode: u32, gid: u32) -> u32 {
    let group = if rights::is_member(who, gid) { 0 } else { SET_GID };
    mode & !group
}

impl Changes {
    /// Whether it has an invalid time.
    pub(crate) fn has_bad_time(&self) -> bool {
        [self.atime, self.mtime].iter().any(|when| matches!(when, When::At((_, 1_000_000_000..))))
    }
}

impl When {
    fn set(self, stamp: &mut Stamp) {
        match self {
            Self::Leave => {}
            Self::Now => *stamp = Stamp::Now,
            Self::At(time) => *stamp = Stamp::Known(time),
        }
    }
}

/// READDIR needs read permission.
pub(crate) fn check_listing(who: &User, directory: &Node) -> Result<(), Why> {
    let mut reasons = Reasons::default();
    reasons.when(!directory.is_directory(), &[NFS3ERR_NOTDIR]);
    reasons.when(directory.is_directory() && !rights::may(who, directory, READ), &[NFS3ERR_ACCES]);
    reasons.judge()
}

/// Verbs that remove and add names in two directories.
impl Tree {
    pub(crate) fn remove(&mut self, who: &User, directory: usize, name: &[u8]) -> Result<(), Why> {
        let mut reasons = Reasons::default();
        reasons.when(is_dot(name), &[NFS3ERR_INVAL, NFS3ERR_ISDIR]);
        self.enter(reasons.name(name), who, directory)?;
        let node = self.child(directory, name).ok_or_else(|| vec![NFS3ERR_NOENT])?;
        self.check_taking(&mut reasons, who, directory, node);
        reasons.when(self.nodes[node].is_directory(), &[NFS3ERR_ISDIR]).judge()?;
        self.change_entries(directory).remove(name);
        self.drop_link(node);
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, who: &User, directory: usize, name: &[u8]) -> Result<(), Why> {
        let mut reasons = Reasons::default();
        reasons
            .when(name == b".", &[NFS3ERR_INVAL])
            .when(name == b"..", &[NFS3ERR_EXIST, NFS3ERR_NOTEMPTY, NFS3ERR_INVAL]);
        self.enter(reasons.name(name), who, directory)?;
        let node = self.child(directory, name).ok_or_else(|| vec![NFS3ERR_NOENT])?;
        self.check_taking(&mut reasons, who, directory, node);
        let entries = self.nodes[node].entries();
        reasons.when(entries.is_none(), &[NFS3ERR_NOTDIR]);
        reasons.when(entries.is_some_and(|one| !one.is_empty()), &[NFS3ERR_NOTEMPTY]).judge()?;
        self.change_entries(directory).remove(name);
        self.drop_directory(node);
        Ok(())
    }

    fn check_taking(&self, reasons: &mut Reasons, who: &User, directory: usize, node: usize) {
        let (directory, node) = (&self.nodes[directory], &self.nodes[node]);
        let sticks = !rights::may_take_away(who, directory, node);
        reasons
            .when(!rights::may(who, directory, WRITE), &[NFS3ERR_ACCES])
            .when(sticks, &[NFS3ERR_PERM, NFS3ERR_ACCES]);
    }

    pub(crate) fn link(
        &mut self,
        who: &User,
        node: usize,
        (directory, name): (usize, &[u8]),
    ) -> Result<(), Why> {
        let mut reasons = Reasons::default();
        reasons.when(self.nodes[node].is_directory(), NO_LINKS);
        // Whether a directory can be linked does not depend on the target directory.
        let refused = self.check_new(&mut reasons, who, (directory, name), &Changes::default());
        refused?;
        self.change_entries(directory).insert(name.to_vec(), node);
        self.nodes[node].links += 1;
        self.nodes[node].ctime = Stamp::Now;
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        who: &User,
        (from, from_name): (usize, &[u8]),
        (to, to_name): (usize, &[u8]),
    ) -> Result<(), Why> {
        let mut reasons = Reasons::default();
        reasons.when(is_dot(from_name) || is_dot(to_name), &[NFS3ERR_INVAL]);
        reasons.name(from_name).name(to_name);
        for directory in [from, to] {
            let node = &self.nodes[directory];
            let closed = node.is_directory() && !rights::may(who, node, SEARCH);
            reasons.when(!node.is_directory(), &[NFS3ERR_NOTDIR]);
            reasons.when(closed, &[NFS3ERR_ACCES]);
        }
        reasons.judge()?;
        let node = self.child(from, from_name).ok_or_else(|| vec![NFS3ERR_NOENT])?;
        let target = self.child(to, to_name);
        self.check_rename(who, (from, to), node, target)?;
        if target == Some(node) {
            return Ok(()); // two names of one file: both stay
        }
        self.change_entries(from).remove(from_name);
        self.change_entries(to).insert(to_name.to_vec(), node);
        match target {
            Some(target) if self.nodes[target].is_directory() => self.drop_directory(target),
            Some(target) => self.drop_link(target),
            None => {}
        }
        if self.nodes[node].is_directory() {
            self.nodes[from].links -= 1;
            self.nodes[to].links += 1;
            self.nodes[node].parent = to;
        }
        self.nodes[node].ctime = Stamp::Now;
        Ok(())
    }

    /// Where the protocol asks for NFS3ERR_EXIST, rename(2) has more precise errors; both will do.
    fn check_rename(
        &self,
        who: &User,
        (from, to): (usize, usize),
        node: usize,
        target: Option<usize>,
    ) -> Result<(), Why> {
        let moves = self.nodes[node].is_directory();
        let reparents = moves && from != to;
        let mut reasons = Reasons::default();
        self.check_taking(&mut reasons, who, from, node);
        let writes = rights::may(who, &self.nodes[to], WRITE);
        let owns_dots = rights::may(who, &self.nodes[node], WRITE);
        reasons
            .when(!writes, &[NFS3ERR_ACCES])
            .when(reparents && !owns_dots, &[NFS3ERR_ACCES])
            .when(moves && self.lies_below(to, node), &[NFS3ERR_INVAL]);
        if let Some(target) = target {
            self.check_taking(&mut reasons, who, to, target);
            let entries = self.nodes[target].entries();
            let full = target != node && entries.is_some_and(|entries| !entries.is_empty());
            reasons
                .when(moves && entries.is_none(), &[NFS3ERR_NOTDIR, NFS3ERR_EXIST])
                .when(!moves && entries.is_some(), &[NFS3ERR_ISDIR, NFS3ERR_EXIST])
                .when(moves && full, &[NFS3ERR_NOTEMPTY, NFS3ERR_EXIST]);
        }
        reasons.judge()
    }
}
