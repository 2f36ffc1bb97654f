//! The lists of MOUNT: the exports, and the mounts of clients. Both lists are encoded once, and not
//! for every call of a stranger.
//!
//! Mounts are remembered for DUMP alone, and nothing depends on them: clients that crash never send
//! UMNT, and handles outlive restarts. So the list is bounded, for each client and for all, and the
//! oldest mounts are dropped. Paths are normalised there, so that a client has as many entries as
//! it has mounts.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;

use bytes::Bytes;
use nfs::mount::{Export, ExportList, Mount, MountList};
use nfs::xdr::{Encode, Encoder, UNIT};

use crate::reply_cache::in_bounds;
use crate::{Exports, Volume, Volumes};

/// The most mounts that are remembered.
const MAX_REMEMBERED: usize = 1024;
/// The most mounts of one client. An IPv6 network of 64 bits is one client.
const MAX_OF_CLIENT: usize = 32;
/// The most bytes of all paths: a reply has room for them.
const MAX_PATH_BYTES: usize = 256 << 10;

/// The mounts that clients have reported.
#[derive(Default)]
pub(crate) struct Mounts {
    mounts: RefCell<VecDeque<(IpAddr, Bytes)>>,
    /// The encoded list, if it has not changed since.
    encoded: RefCell<Option<Bytes>>,
}

impl Mounts {
    pub(crate) fn add(&self, client: IpAddr, path: &[u8]) {
        self.remove(client, path);
        self.encoded.take();
        let mut mounts = self.mounts.borrow_mut();
        let is_of_client = |who: IpAddr| in_bounds(who) == in_bounds(client);
        let of_client = mounts.iter().filter(|(who, _)| is_of_client(*who)).count();
        if of_client >= MAX_OF_CLIENT {
            let oldest = mounts.iter().position(|(who, _)| is_of_client(*who));
            oldest.and_then(|oldest| mounts.remove(oldest));
        }
        mounts.push_back((client, Bytes::from(canonical(path))));
        let mut bytes: usize = mounts.iter().map(|(_, path)| path.len()).sum();
        while mounts.len() > MAX_REMEMBERED || bytes > MAX_PATH_BYTES {
            bytes -= mounts.pop_front().map_or(bytes, |(_, path)| path.len());
        }
    }

    pub(crate) fn remove(&self, client: IpAddr, path: &[u8]) {
        let path = canonical(path);
        self.retain(|(who, what)| *who != client || what != &path);
    }

    pub(crate) fn remove_all(&self, client: IpAddr) {
        self.retain(|(who, _)| *who != client);
    }

    fn retain(&self, is_kept: impl FnMut(&(IpAddr, Bytes)) -> bool) {
        let mut mounts = self.mounts.borrow_mut();
        let before = mounts.len();
        mounts.retain(is_kept);
        if mounts.len() < before {
            self.encoded.take();
        }
    }

    /// The reply to DUMP.
    pub(crate) fn list(&self) -> Bytes {
        let encode = || {
            let mount = |(client, path): &(IpAddr, Bytes)| Mount {
                client: Bytes::from(client.to_string()),
                path: path.clone(),
            };
            encoded(&MountList(self.mounts.borrow().iter().map(mount).collect()))
        };
        self.encoded.borrow_mut().get_or_insert_with(encode).clone()
    }
}

/// Normalises a path as [`crate::mount`] walks it: empty names and `.` are dropped, and `..` goes
/// back, but not out of the volume.
fn canonical(path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if names.len() > 1 => drop(names.pop()),
            b".." => {}
            name => names.push(name),
        }
    }
    names.iter().flat_map(|name| [b"/", *name].concat()).collect()
}

/// The reply to EXPORT under these rules. A volume that no client may use is not listed: an empty
/// list of groups would mean every client.
pub(crate) fn of_exports(volumes: &Volumes, exports: &Exports) -> Bytes {
    let groups = |volume: &str| -> Vec<Bytes> {
        let rules = exports.of(volume).rules().iter();
        rules.map(|rule| Bytes::from(rule.network.to_string())).collect()
    };
    let export = |volume: &Volume| Export {
        path: Bytes::from(format!("/{}", volume.name)),
        groups: groups(&volume.name),
    };
    let all = volumes.iter().map(export);
    encoded(&ExportList(all.filter(|export| !export.groups.is_empty()).collect()))
}

/// A value as it is encoded in a reply, without the record mark.
fn encoded(value: &impl Encode) -> Bytes {
    let mut to = Encoder::with_capacity(1024);
    to.value(value);
    Bytes::from(to.finish().concat()).slice(UNIT..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        for spelling in ["/data/a", "data/a", "//data//a/", "/data/./a/.", "/data/../b/../a"] {
            assert_eq!(canonical(spelling.as_bytes()), b"/data/a", "{spelling}");
        }
        assert_eq!(canonical(b"/data/../.."), b"/data", "the parent of a root is the root");
    }

    #[test]
    fn the_list_is_encoded_anew_when_it_changes_and_for_no_unmount_of_a_stranger() {
        let (mounts, stranger) = (Mounts::default(), IpAddr::from([10, 0, 0, 1]));
        let client = IpAddr::from([127, 0, 0, 1]);
        mounts.add(client, b"/data");
        let list = mounts.list();
        mounts.remove(stranger, b"/data");
        mounts.remove(client, b"/other");
        mounts.remove_all(stranger);
        assert_eq!(mounts.list().as_ptr(), list.as_ptr(), "it is the same encoded list");
        mounts.add(client, b"/other");
        let both = mounts.list();
        assert!(both.len() > list.len());
        mounts.remove(client, b"/other");
        assert_eq!(mounts.list(), list);
        mounts.remove_all(client);
        assert!(mounts.list().len() < list.len());
    }

    #[test]
    fn a_client_with_many_addresses_of_one_network_keeps_no_mount_of_others_from_the_list() {
        let (mounts, other) = (Mounts::default(), IpAddr::from([127, 0, 0, 1]));
        mounts.add(other, b"/data");
        for low in 0..2 * MAX_REMEMBERED as u16 {
            mounts.add(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, low]), b"/data");
        }
        assert_eq!(mounts.mounts.borrow().len(), 1 + MAX_OF_CLIENT);
        assert!(mounts.mounts.borrow().iter().any(|(client, _)| *client == other));
    }

    #[test]
    fn long_paths_fill_the_list_with_no_more_than_a_reply_takes() {
        let mounts = Mounts::default();
        for client in 0..2_000_u32 {
            let path = format!("/data/{}", "x".repeat(1_000));
            mounts.add(IpAddr::from(client.to_be_bytes()), path.as_bytes());
        }
        let length = mounts.list().len();
        assert!((MAX_PATH_BYTES / 2..2 * MAX_PATH_BYTES).contains(&length), "{length}");
    }
}
