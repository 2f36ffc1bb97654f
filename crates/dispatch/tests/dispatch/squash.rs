//! The user that each procedure acts as: the rule of the export applies to all of them, for
//! permissions and for new files.

use std::collections::BTreeSet;
use std::rc::Rc;

use dispatch::{Anonymous, Export, Exports, Rule, Squash};
use nfs3_types::nfs3::{
    self, NFS_PROGRAM, Nfs3Option, cookieverf3, createhow3, mknoddata3, nfs_fh3, nfspath3, sattr3,
    stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::{Opaque, Pack};
use vfs::Credentials;

use crate::fixture::{Client, Fixture, Sent, at};
use crate::watched::Watched;

const ADDRESS: &str = "10.1.1.1";
const NOBODY: u32 = 1234;
const NO_GROUP: u32 = 5678;

/// The procedures that act as a user. NULL, GETATTR, FSINFO and PATHCONF do not.
const ACTING: [&str; 18] = [
    "access",
    "commit",
    "create",
    "fsstat",
    "link",
    "lookup",
    "mkdir",
    "mknod",
    "read",
    "readdir",
    "readdirplus",
    "readlink",
    "remove",
    "rename",
    "rmdir",
    "setattr",
    "symlink",
    "write",
];

struct Scene {
    fixture: Fixture,
    watched: Rc<Watched>,
    client: Client,
    expected: Credentials,
    /// Procedures that acted as the wrong user.
    wrong: BTreeSet<&'static str>,
    called: BTreeSet<&'static str>,
}

impl Scene {
    fn new(squash: Squash, client: Client, expected: Credentials) -> Self {
        let rule = Rule {
            network: "10.0.0.0/8".parse().expect("a network"),
            writable: true,
            squash,
            anonymous: Anonymous { uid: NOBODY, gid: NO_GROUP },
        };
        let mut exports = Exports::default();
        exports.insert("data", Export::new(vec![rule]).expect("one network"));
        let mut watched = None;
        let fixture = Fixture::watched(exports, |files| {
            let front = Watched::new(files);
            watched = Some(front.clone());
            front
        });
        let (wrong, called) = Default::default();
        let watched = watched.expect("it was made");
        Self { fixture, watched, client, expected, wrong, called }
    }

    /// Makes a call, and checks the user that it was executed as.
    fn call(&mut self, name: &'static str, procedure: NFS_PROGRAM, arguments: &impl Pack) -> Sent {
        self.watched.take_seen();
        let xid = self.client.next_xid();
        let sent = self.fixture.send(&self.client, xid, procedure, arguments);
        let seen = self.watched.take_seen();
        self.called.insert(name);
        let is_right = if ACTING.contains(&name) {
            !seen.is_empty() && seen.iter().all(|who| *who == self.expected)
        } else {
            seen.is_empty()
        };
        if !is_right {
            self.wrong.insert(name);
        }
        sent
    }

    /// A new file belongs to its maker.
    fn owns(&mut self, name: &'static str, attributes: nfs3::post_op_attr) {
        let attributes = attributes.unwrap();
        if (attributes.uid, attributes.gid) != (self.expected.uid, self.expected.gid) {
            self.wrong.insert(name);
        }
    }

    /// Calls every procedure; those that name an existing file succeed.
    fn call_all(&mut self) {
        use NFS_PROGRAM as P;
        let root = self.fixture.mount(&self.client, "/data").expect("a mount");
        self.call("null", P::NFSPROC3_NULL, &nfs3_types::xdr_codec::Void);
        let file = self.make(&root);
        self.call("getattr", P::NFSPROC3_GETATTR, &nfs3::GETATTR3args { object: root.clone() });
        let args = nfs3::LOOKUP3args { what: at(&root, "file") };
        self.call("lookup", P::NFSPROC3_LOOKUP, &args);
        let args = nfs3::ACCESS3args { object: file.clone(), access: 0x3f };
        self.call("access", P::NFSPROC3_ACCESS, &args);
        let data = Opaque::borrowed(b"data");
        let stable = stable_how::UNSTABLE;
        let args = nfs3::WRITE3args { file: file.clone(), offset: 0, count: 4, stable, data };
        self.call("write", P::NFSPROC3_WRITE, &args);
        let args = nfs3::COMMIT3args { file: file.clone(), offset: 0, count: 0 };
        self.call("commit", P::NFSPROC3_COMMIT, &args);
        let args = nfs3::READ3args { file: file.clone(), offset: 0, count: 4 };
        self.call("read", P::NFSPROC3_READ, &args);
        let args = nfs3::SETATTR3args {
            object: file.clone(),
            new_attributes: sattr3 { mode: Nfs3Option::Some(0o640), ..sattr3::default() },
            guard: Nfs3Option::None,
        };
        self.call("setattr", P::NFSPROC3_SETATTR, &args);
        let (dir, cookieverf) = (root.clone(), cookieverf3::default());
        let args = nfs3::READDIR3args { dir, cookie: 0, cookieverf, count: 4096 };
        self.call("readdir", P::NFSPROC3_READDIR, &args);
        let (dir, cookieverf) = (root.clone(), cookieverf3::default());
        let (dircount, maxcount) = (4096, 8192);
        let args = nfs3::READDIRPLUS3args { dir, cookie: 0, cookieverf, dircount, maxcount };
        self.call("readdirplus", P::NFSPROC3_READDIRPLUS, &args);
        let args = nfs3::FSSTAT3args { fsroot: root.clone() };
        self.call("fsstat", P::NFSPROC3_FSSTAT, &args);
        let args = nfs3::FSINFO3args { fsroot: root.clone() };
        self.call("fsinfo", P::NFSPROC3_FSINFO, &args);
        let args = nfs3::PATHCONF3args { object: root.clone() };
        self.call("pathconf", P::NFSPROC3_PATHCONF, &args);
        let args = nfs3::LINK3args { file, link: at(&root, "other") };
        self.call("link", P::NFSPROC3_LINK, &args);
        let args = nfs3::RENAME3args { from: at(&root, "other"), to: at(&root, "renamed") };
        self.call("rename", P::NFSPROC3_RENAME, &args);
        let args = nfs3::REMOVE3args { object: at(&root, "renamed") };
        self.call("remove", P::NFSPROC3_REMOVE, &args);
        let args = nfs3::RMDIR3args { object: at(&root, "directory") };
        self.call("rmdir", P::NFSPROC3_RMDIR, &args);
    }

    /// The procedures that make a file.
    fn make(&mut self, root: &nfs_fh3) -> nfs_fh3 {
        use NFS_PROGRAM as P;
        let how = createhow3::GUARDED(sattr3::default());
        let args = nfs3::CREATE3args { where_: at(root, "file"), how };
        let made: nfs3::CREATE3res = self.call("create", P::NFSPROC3_CREATE, &args).reply();
        let made = made.unwrap();
        self.owns("create", made.obj_attributes);
        let attributes = sattr3::default();
        let args = nfs3::MKDIR3args { where_: at(root, "directory"), attributes };
        let directory: nfs3::MKDIR3res = self.call("mkdir", P::NFSPROC3_MKDIR, &args).reply();
        self.owns("mkdir", directory.unwrap().obj_attributes);
        let symlink = symlinkdata3 {
            symlink_attributes: sattr3::default(),
            symlink_data: nfspath3(Opaque::borrowed(b"file")),
        };
        let args = nfs3::SYMLINK3args { where_: at(root, "link"), symlink };
        let link: nfs3::SYMLINK3res = self.call("symlink", P::NFSPROC3_SYMLINK, &args).reply();
        let link = link.unwrap();
        self.owns("symlink", link.obj_attributes);
        let symlink = link.obj.unwrap();
        self.call("readlink", P::NFSPROC3_READLINK, &nfs3::READLINK3args { symlink });
        let what = mknoddata3::NF3FIFO(sattr3::default());
        let args = nfs3::MKNOD3args { where_: at(root, "pipe"), what };
        let pipe: nfs3::MKNOD3res = self.call("mknod", P::NFSPROC3_MKNOD, &args).reply();
        self.owns("mknod", pipe.unwrap().obj_attributes);
        made.obj.unwrap()
    }
}

/// The procedures that act as another user than a rule says.
fn wrong(squash: Squash, client: Client, expected: (u32, u32, &[u32])) -> BTreeSet<&'static str> {
    let (uid, gid, groups) = expected;
    let expected = Credentials { uid, gid, groups: groups.to_vec() };
    let mut scene = Scene::new(squash, client, expected);
    scene.call_all();
    assert_eq!(scene.called.len(), 22, "{:?}", scene.called);
    scene.wrong
}

fn superuser() -> Client {
    Client::user(ADDRESS, 0, 0, &[0, 7])
}

fn user() -> Client {
    Client::user(ADDRESS, 5, 6, &[7, 0])
}

#[test]
fn every_procedure_acts_as_nobody_for_a_squashed_root() {
    let nobody = (NOBODY, NO_GROUP, &[NO_GROUP, 7][..]);
    assert_eq!(wrong(Squash::Root, superuser(), nobody), BTreeSet::new());
}

#[test]
fn every_procedure_acts_as_a_user_without_the_group_of_root() {
    assert_eq!(wrong(Squash::Root, user(), (5, 6, &[7, NO_GROUP])), BTreeSet::new());
}

#[test]
fn every_procedure_acts_as_nobody_where_all_are_squashed() {
    for client in [superuser(), user()] {
        assert_eq!(wrong(Squash::All, client, (NOBODY, NO_GROUP, &[])), BTreeSet::new());
    }
}

#[test]
fn every_procedure_acts_as_who_calls_where_nobody_is_squashed() {
    assert_eq!(wrong(Squash::None, superuser(), (0, 0, &[0, 7])), BTreeSet::new());
    assert_eq!(wrong(Squash::None, user(), (5, 6, &[7, 0])), BTreeSet::new());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_claim_that_is_believed_is_noticed_in_each_procedure() {
    use dispatch::planted::{Bug, plant};

    for squash in [Squash::Root, Squash::All] {
        plant(Some(Bug::Unsquashed));
        let nobody =
            (NOBODY, NO_GROUP, if squash == Squash::All { &[][..] } else { &[NO_GROUP, 7] });
        let wrong = wrong(squash, superuser(), nobody);
        plant(None);
        assert_eq!(wrong, BTreeSet::from(ACTING), "{squash:?}");
    }
}
