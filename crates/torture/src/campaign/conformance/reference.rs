//! The tree behind the protocol: turns steps into calls, and compares replies with the tree.
//!
//! [`Reference::request`] builds the call of a step, unless there is nothing to send it to.
//! [`Reference::judge`] applies the step to the tree and compares the whole reply with the result.
//! A reference can be cloned, for a caller that does not know whether a step was carried out.

use nfs3_types::nfs3 as wire;
use nfs3_types::nfs3::{
    Nfs3Option, Nfs3Result, createhow3, createverf3, devicedata3, diropargs3, ftype3, mknoddata3,
    nfs_fh3, nfspath3, nfsstat3, nfstime3, sattr3, set_atime, set_mtime, specdata3, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;

use super::listing::Scan;
use super::stamp::Time;
use super::step::{Act, Changes, From, Guard, How, Object, Step, When, payload};
use super::tree::{Node, ROOT, Tree, Why};
use crate::protocol::{Null, Request, User};

/// Constant facts about the volume as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Inodes, free and in use together.
    pub files: Option<u64>,
    pub totals: Option<(u64, u64)>,
    /// The sizes that FSINFO recommends: multiples of reads and writes, and listings.
    pub multiples: Option<(u32, u32, u32)>,
    /// The write verifier of this start of the server.
    pub verifier: Option<[u8; 8]>,
    /// The verifiers of earlier starts.
    pub old_verifiers: Vec<[u8; 8]>,
}

/// The reference: see the module.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub tree: Tree,
    pub users: Vec<User>,
    pub known: Known,
    /// Listings under way: of READDIR and of READDIRPLUS.
    pub scans: [Option<Scan>; 2],
    /// The largest link count of a file.
    pub max_links: u32,
}

/// An invalid handle.
fn nonsense() -> nfs_fh3 {
    nfs_fh3 { data: Opaque::owned(b"this is no handle of anybody".to_vec()) }
}

fn elsewhere() -> nfs_fh3 {
    let id = vfs::ObjectId::live(vfs::Ino(2), 1);
    let handle = dispatch::Handle { fsid: dispatch::Fsid(99), id };
    nfs_fh3 { data: Opaque::owned(handle.encode().to_vec()) }
}

impl Reference {
    /// A new volume, used by these users.
    pub(crate) fn new(
        root: &nfs_fh3,
        (max_file_size, max_links): (u64, u32),
        users: Vec<User>,
    ) -> Self {
        let mut tree = Tree::new(max_file_size);
        tree.nodes[ROOT].told.handle = Some(root.data.to_vec());
        Self { tree, users, known: Known::default(), scans: [None, None], max_links }
    }

    /// The file that a step made.
    pub(crate) fn node(&self, slot: usize) -> Option<usize> {
        self.tree.nodes.iter().position(|node| node.slot == slot)
    }

    /// The file that a call names, or why there is none.
    pub(crate) fn find(&self, object: Object) -> Result<usize, Why> {
        let stale = || vec![nfsstat3::NFS3ERR_STALE];
        match object {
            Object::Nonsense => Err(vec![nfsstat3::NFS3ERR_BADHANDLE]),
            Object::Elsewhere => Err(stale()),
            Object::Of(slot) => {
                let node = self.node(slot).ok_or_else(stale)?;
                if self.tree.nodes[node].links > 0 { Ok(node) } else { Err(stale()) }
            }
        }
    }

    fn handle(&self, object: Object) -> Option<nfs_fh3> {
        match object {
            Object::Nonsense => Some(nonsense()),
            Object::Elsewhere => Some(elsewhere()),
            Object::Of(slot) => {
                let handle = self.tree.nodes[self.node(slot)?].told.handle.clone()?;
                Some(nfs_fh3 { data: Opaque::owned(handle) })
            }
        }
    }

    fn place(&self, directory: Object, name: &[u8]) -> Option<diropargs3<'static>> {
        Some(diropargs3 { dir: self.handle(directory)?, name: name.to_vec().into() })
    }

    /// The change time of a guard.
    pub(crate) fn guard(&self, object: Object, guard: Guard) -> Option<Time> {
        let ctime = self.find(object).ok().and_then(|node| self.tree.nodes[node].ctime.known());
        match guard {
            Guard::None => None,
            Guard::Right => ctime,
            Guard::Wrong => Some((7, 7)),
        }
    }

    /// Where a listing continues: the cookie, its verifier, and whether the server gave them.
    pub(crate) fn resume(&self, directory: Object, from: From, plus: bool) -> (u64, [u8; 8], bool) {
        let node = self.find(directory).ok();
        let scan = self.scans[usize::from(plus)].as_ref();
        let scan = scan.filter(|scan| Some(scan.directory) == node);
        match (from, scan) {
            (From::Last, Some(scan)) => (scan.cookie, scan.verifier, true),
            (From::Start | From::Last, _) => (0, [0; 8], true),
            (From::Anywhere(cookie), _) => (cookie.max(1), [0; 8], false),
            (From::OtherVerifier, _) => (1, *b"another!", false),
        }
    }

    /// The call of a step; `None` when it is no call, or has no file to name.
    pub(crate) fn request(&self, step: &Step) -> Option<Request> {
        Some(match &step.act {
            Act::Restart => return None,
            Act::Null => Request::Null(Null),
            Act::Getattr(o) => Request::Getattr(wire::GETATTR3args { object: self.handle(*o)? }),
            Act::Access(object, access) => {
                let object = self.handle(*object)?;
                Request::Access(wire::ACCESS3args { object, access: *access })
            }
            Act::Readlink(o) => {
                Request::Readlink(wire::READLINK3args { symlink: self.handle(*o)? })
            }
            Act::Fsstat(o) => Request::Fsstat(wire::FSSTAT3args { fsroot: self.handle(*o)? }),
            Act::Fsinfo(o) => Request::Fsinfo(wire::FSINFO3args { fsroot: self.handle(*o)? }),
            Act::Pathconf(o) => Request::Pathconf(wire::PATHCONF3args { object: self.handle(*o)? }),
            Act::Read(file, offset, count) => {
                let (file, offset, count) = (self.handle(*file)?, *offset, *count);
                Request::Read(wire::READ3args { file, offset, count })
            }
            Act::Commit(file, offset, count) => {
                let (file, offset, count) = (self.handle(*file)?, *offset, *count);
                Request::Commit(wire::COMMIT3args { file, offset, count })
            }
            Act::Write(file, offset, length, more, stable) => Request::Write(wire::WRITE3args {
                file: self.handle(*file)?,
                offset: *offset,
                count: length + more,
                stable: *stable,
                data: Opaque::owned(payload(step.number, *length)),
            }),
            Act::Setattr(object, changes, guard) => Request::Setattr(wire::SETATTR3args {
                object: self.handle(*object)?,
                new_attributes: changes.wire(),
                guard: self.guard(*object, *guard).map_or(Nfs3Option::None, |time| {
                    Nfs3Option::Some(nfstime3 { seconds: time.0, nseconds: time.1 })
                }),
            }),
            Act::Readdir(directory, from, count) => {
                let (cookie, verifier, _) = self.resume(*directory, *from, false);
                let (dir, cookieverf) = (self.handle(*directory)?, wire::cookieverf3(verifier));
                Request::Readdir(wire::READDIR3args { dir, cookie, cookieverf, count: *count })
            }
            Act::Readdirplus(directory, from, dircount, maxcount) => {
                let (cookie, verifier, _) = self.resume(*directory, *from, true);
                Request::Readdirplus(wire::READDIRPLUS3args {
                    dir: self.handle(*directory)?,
                    cookie,
                    cookieverf: wire::cookieverf3(verifier),
                    dircount: *dircount,
                    maxcount: *maxcount,
                })
            }
            named => return self.request_with_name(named),
        })
    }

    /// The same for the procedures that take a name.
    fn request_with_name(&self, act: &Act) -> Option<Request> {
        Some(match act {
            Act::Lookup(d, name) => {
                Request::Lookup(wire::LOOKUP3args { what: self.place(*d, name)? })
            }
            Act::Remove(d, name) => {
                Request::Remove(wire::REMOVE3args { object: self.place(*d, name)? })
            }
            Act::Rmdir(d, name) => {
                Request::Rmdir(wire::RMDIR3args { object: self.place(*d, name)? })
            }
            Act::Link(file, d, name) => {
                let (file, link) = (self.handle(*file)?, self.place(*d, name)?);
                Request::Link(wire::LINK3args { file, link })
            }
            Act::Rename(from, from_name, to, to_name) => {
                let (from, to) = (self.place(*from, from_name)?, self.place(*to, to_name)?);
                Request::Rename(wire::RENAME3args { from, to })
            }
            Act::Create(d, name, how) => {
                let (where_, how) = (self.place(*d, name)?, how.wire());
                Request::Create(wire::CREATE3args { where_, how })
            }
            Act::Mkdir(d, name, changes) => {
                let (where_, attributes) = (self.place(*d, name)?, changes.wire());
                Request::Mkdir(wire::MKDIR3args { where_, attributes })
            }
            Act::Symlink(d, name, target, changes) => {
                let symlink_data = nfspath3(Opaque::owned(target.to_vec()));
                let symlink = symlinkdata3 { symlink_attributes: changes.wire(), symlink_data };
                Request::Symlink(wire::SYMLINK3args { where_: self.place(*d, name)?, symlink })
            }
            Act::Mknod(d, name, kind, device, changes) => {
                let (where_, what) = (self.place(*d, name)?, special(*kind, *device, changes));
                Request::Mknod(wire::MKNOD3args { where_, what })
            }
            other => unreachable!("{other:?} takes no name"),
        })
    }

    /// Checks that a status is among the expected ones. Returns the results of a success.
    pub(crate) fn granted<'a, T, E>(
        expected: &Result<(), Why>,
        reply: &'a Nfs3Result<T, E>,
    ) -> Result<Result<&'a T, &'a E>, String> {
        match (expected, reply) {
            (Ok(()), Nfs3Result::Ok(results)) => Ok(Ok(results)),
            (Err(why), Nfs3Result::Err((status, rest))) if why.contains(status) => Ok(Err(rest)),
            (expected, Nfs3Result::Ok(_)) => Err(format!("NFS3_OK, expected {expected:?}")),
            (expected, Nfs3Result::Err((status, _))) => {
                Err(format!("{status:?}, expected {expected:?}"))
            }
        }
    }

    /// Updates the listings to the files that exist: see [`Scan::follow`].
    pub(crate) fn follow(&mut self) {
        for scan in &mut self.scans {
            let gone = |scan: &Scan| self.tree.nodes[scan.directory].links == 0;
            if scan.as_ref().is_some_and(gone) {
                *scan = None;
            }
            if let Some(scan) = scan {
                scan.follow(&self.tree);
            }
        }
    }

    /// Notes a restart of the server: a new write verifier is due.
    pub(crate) fn restarted(&mut self) {
        self.known.old_verifiers.extend(self.known.verifier.take());
    }

    /// The file of a node, for messages and generators.
    pub(crate) fn at(&self, node: usize) -> &Node {
        &self.tree.nodes[node]
    }
}

fn optional<T: nfs3_types::xdr_codec::Pack + nfs3_types::xdr_codec::Unpack>(
    value: Option<T>,
) -> Nfs3Option<T> {
    value.map_or(Nfs3Option::None, Nfs3Option::Some)
}

impl Changes {
    fn wire(&self) -> sattr3 {
        let at = |(seconds, nseconds)| nfstime3 { seconds, nseconds };
        sattr3 {
            mode: optional(self.mode),
            uid: optional(self.uid),
            gid: optional(self.gid),
            size: optional(self.size),
            atime: match self.atime {
                When::Leave => set_atime::DONT_CHANGE,
                When::Now => set_atime::SET_TO_SERVER_TIME,
                When::At(time) => set_atime::SET_TO_CLIENT_TIME(at(time)),
            },
            mtime: match self.mtime {
                When::Leave => set_mtime::DONT_CHANGE,
                When::Now => set_mtime::SET_TO_SERVER_TIME,
                When::At(time) => set_mtime::SET_TO_CLIENT_TIME(at(time)),
            },
        }
    }
}

impl How {
    fn wire(&self) -> createhow3 {
        match self {
            Self::Unchecked(changes) => createhow3::UNCHECKED(changes.wire()),
            Self::Guarded(changes) => createhow3::GUARDED(changes.wire()),
            Self::Exclusive(verifier) => createhow3::EXCLUSIVE(createverf3(*verifier)),
        }
    }
}

fn special(kind: ftype3, (specdata1, specdata2): (u32, u32), changes: &Changes) -> mknoddata3 {
    let device = || {
        let spec = specdata3 { specdata1, specdata2 };
        devicedata3 { dev_attributes: changes.wire(), spec }
    };
    match kind {
        ftype3::NF3CHR => mknoddata3::NF3CHR(device()),
        ftype3::NF3BLK => mknoddata3::NF3BLK(device()),
        ftype3::NF3SOCK => mknoddata3::NF3SOCK(changes.wire()),
        ftype3::NF3FIFO => mknoddata3::NF3FIFO(changes.wire()),
        ftype3::NF3REG | ftype3::NF3DIR | ftype3::NF3LNK => mknoddata3::default,
    }
}
