//! The permissions of each user: the permission bits of a UNIX file system, with the freedoms that
//! section 4.4 of RFC 1813 gives to a server that does not know which client has a file open.

use crate::protocol::User;

use super::tree::Node;

pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 2;
pub(crate) const SEARCH: u32 = 1;

pub(crate) const SET_UID: u32 = 0o4000;
pub(crate) const SET_GID: u32 = 0o2000;
pub(crate) const STICKY: u32 = 0o1000;

pub(crate) fn is_root(who: &User) -> bool {
    who.uid == 0
}

pub(crate) fn is_member(who: &User, group: u32) -> bool {
    who.gid == group || who.groups.contains(&group)
}

/// The three bits for `who`. The superuser has all, but may execute only a file that some user may.
pub(crate) fn bits(who: &User, node: &Node) -> u32 {
    if is_root(who) {
        let runs = node.is_directory() || node.mode & 0o111 != 0;
        return READ | WRITE | if runs { SEARCH } else { 0 };
    }
    let class = match () {
        () if who.uid == node.uid => 6,
        () if is_member(who, node.gid) => 3,
        () => 0,
    };
    node.mode >> class & 7
}

pub(crate) fn may(who: &User, node: &Node, wanted: u32) -> bool {
    bits(who, node) & wanted == wanted
}

pub(crate) fn owns(who: &User, node: &Node) -> bool {
    is_root(who) || who.uid == node.uid
}

/// The owner may read, whatever the bits say, and so may a user who may execute the file.
pub(crate) fn may_read_data(who: &User, node: &Node) -> bool {
    owns(who, node) || bits(who, node) & (READ | SEARCH) != 0
}

/// The owner may write, whatever the bits say.
pub(crate) fn may_write_data(who: &User, node: &Node) -> bool {
    owns(who, node) || may(who, node, WRITE)
}

/// In a sticky directory only the owners may remove names.
pub(crate) fn may_take_away(who: &User, directory: &Node, node: &Node) -> bool {
    directory.mode & STICKY == 0 || owns(who, directory) || owns(who, node)
}

/// The rights that ACCESS grants (RFC 1813, section 3.3.4).
pub(crate) fn access(who: &User, node: &Node) -> u32 {
    use nfs3_types::nfs3::{
        ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY,
        ACCESS3_READ,
    };
    let bits = bits(who, node);
    let grant = |bit, what| if bits & bit != 0 { what } else { 0 };
    let change = ACCESS3_MODIFY | ACCESS3_EXTEND;
    grant(READ, ACCESS3_READ)
        | if node.is_directory() {
            grant(WRITE, change | ACCESS3_DELETE) | grant(SEARCH, ACCESS3_LOOKUP)
        } else {
            grant(WRITE, change) | grant(SEARCH, ACCESS3_EXECUTE)
        }
}
