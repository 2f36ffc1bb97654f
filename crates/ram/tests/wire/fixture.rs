//! A dispatcher over an engine with snapshots, and a client that uses an independent implementation
//! of the protocol for its calls and replies.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use bytes::Bytes;
use dispatch::{Dispatcher, Export, Exports, Fsid, Limits, Volume, Volumes, Window};
use namespace::Namespace;
use nfs::record::Record;
use nfs3_types::mount::{self, MOUNT_PROGRAM, dirpath, mountres3};
use nfs3_types::nfs3::{
    self, CREATE3args, CREATE3res, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res, MKDIR3args,
    MKDIR3res, NFS_PROGRAM, Nfs3Result, READ3args, READ3res, READDIR3args, READDIR3res,
    READDIRPLUS3args, READDIRPLUS3res, SYMLINK3args, SYMLINK3res, WRITE3args, WRITE3res,
    cookieverf3, createhow3, diropargs3, fattr3, nfs_fh3, nfsstat3, sattr3, stable_how,
    symlinkdata3,
};
use nfs3_types::rpc::{
    accept_stat_data, auth_unix, call_body, msg_body, opaque_auth, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use ram::{Disk, RamOptions, open};
use runtime::Timestamp;
use sim::Executor;
use vfs::{FileSystem, Name, SnapshotsShown};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BYTES: u64 = 16 << 20;

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) fileid: u64,
    /// The handle, and the file id in the attributes, if the reply has both.
    pub(crate) told: Option<(nfs_fh3, u64)>,
}

/// A volume `data`, and a client that is its superuser.
pub(crate) struct Fixture {
    executor: Executor,
    disk: Rc<Disk>,
    files: Rc<dyn FileSystem>,
    dispatcher: Rc<Dispatcher>,
    xid: Cell<u32>,
}

impl Fixture {
    /// A new volume.
    pub(crate) fn new(shown: SnapshotsShown) -> Self {
        Self::on(Disk::new(BYTES, NOW), shown)
    }

    fn on(disk: Rc<Disk>, shown: SnapshotsShown) -> Self {
        let executor = Executor::new(5);
        let opened = open(disk.clone(), executor.runtime(), RamOptions::default());
        let files = executor.block_on(opened).unwrap_or_else(|error| panic!("{error}"));
        let files: Rc<dyn FileSystem> = Rc::new(Namespace::new(files));
        let volume = Volume { name: "data".into(), fsid: Fsid(0xda7a), file_system: files.clone() };
        let volumes = Volumes::new(vec![volume]).expect("one volume");
        let (window, limits) = (Window::default(), Limits::default());
        let exports = exports(shown);
        let dispatcher = Dispatcher::new(executor.runtime(), volumes, exports, window, limits);
        Self { executor, disk, files, dispatcher, xid: Cell::new(1) }
    }

    /// The same volume after a restart.
    pub(crate) fn restarted(self, shown: SnapshotsShown) -> Self {
        let Self { executor, disk, files, dispatcher, .. } = self;
        executor.block_on(files.shutdown()).expect("it stops");
        drop((files, dispatcher, executor));
        Self::on(disk, shown)
    }

    /// Replaces the rules of the export from now on.
    pub(crate) fn show(&self, shown: SnapshotsShown) {
        self.dispatcher.set_exports(exports(shown));
    }

    /// Makes a snapshot.
    pub(crate) fn pin(&self, text: &str) {
        let all = self.files.snapshots().expect("this engine has them");
        let name = Name::parse(text.as_bytes()).expect("a legal name");
        let made = self.executor.block_on(async { all.pin(&name).await.open().await });
        made.expect("it runs").into_inner().expect("a new name");
    }

    /// Deletes a snapshot; completely, if `end` is set.
    pub(crate) fn delete(&self, text: &str, end: bool) {
        let all = self.files.snapshots().expect("this engine has them");
        let name = Name::parse(text.as_bytes()).expect("a legal name");
        self.executor.block_on(async {
            let gone = all.delete(&name).await.open().await.expect("it runs").into_inner();
            let number = gone.expect("it was there").number;
            let step = async || {
                let step = all.delete_step(number).await.open().await;
                step.expect("it runs").into_inner().expect("it is being deleted")
            };
            while end && !step().await {}
        });
    }

    fn results<R: Unpack>(&self, target: (u32, u32, u32), args: &impl Pack) -> R {
        let (prog, vers, proc) = target;
        self.xid.set(self.xid.get() + 1);
        let user = auth_unix { machinename: Opaque::borrowed(b"machine"), ..auth_unix::default() };
        let (cred, verf) = (opaque_auth::auth_unix(&user), opaque_auth::default());
        let body = call_body { rpcvers: 2, prog, vers, proc, cred, verf };
        let message = rpc_msg { xid: self.xid.get(), body: msg_body::CALL(body) };
        let mut bytes = Vec::new();
        message.pack(&mut bytes).expect("memory takes everything");
        args.pack(&mut bytes).expect("memory takes everything");
        let record = Record::whole(Bytes::from(bytes));
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let reply = self.executor.block_on(self.dispatcher.call(client, record));
        let bytes = reply.expect("a reply").segments().concat().split_off(4);
        let (message, length) = rpc_msg::unpack(&mut &bytes[..]).expect("a message");
        let msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) = message.body else {
            panic!("the call is not accepted");
        };
        assert!(matches!(accepted.reply_data, accept_stat_data::SUCCESS), "{accepted:?}");
        let (value, all) = R::unpack(&mut &bytes[length..]).expect("results");
        assert_eq!(length + all, bytes.len(), "nothing behind the results");
        value
    }

    /// Makes a call.
    pub(crate) fn call<R: Unpack>(&self, procedure: NFS_PROGRAM, args: &impl Pack) -> R {
        self.results((nfs3::PROGRAM, nfs3::VERSION, procedure as u32), args)
    }

    pub(crate) fn mount(&self, path: &str) -> Result<nfs_fh3, u32> {
        let path = dirpath(Opaque::borrowed(path.as_bytes()));
        let target = (mount::PROGRAM, mount::VERSION, MOUNT_PROGRAM::MOUNTPROC3_MNT as u32);
        match self.results(target, &path) {
            mountres3::Ok(ok) => Ok(nfs_fh3 { data: Opaque::owned(ok.fhandle.0.to_vec()) }),
            mountres3::Err(status) => Err(status as u32),
        }
    }

    pub(crate) fn mkdir(&self, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        let args = MKDIR3args { where_: at(directory, name), attributes: sattr3::default() };
        let made: MKDIR3res = self.call(NFS_PROGRAM::NFSPROC3_MKDIR, &args);
        made.unwrap().obj.unwrap()
    }

    pub(crate) fn symlink(&self, directory: &nfs_fh3, name: &str, target: &str) -> nfs_fh3 {
        let data = Opaque::borrowed(target.as_bytes());
        let symlink = symlinkdata3 {
            symlink_attributes: sattr3::default(),
            symlink_data: nfs3::nfspath3(data),
        };
        let args = SYMLINK3args { where_: at(directory, name), symlink };
        let made: SYMLINK3res = self.call(NFS_PROGRAM::NFSPROC3_SYMLINK, &args);
        made.unwrap().obj.unwrap()
    }

    /// Makes a file with these contents.
    pub(crate) fn file(&self, directory: &nfs_fh3, name: &str, content: &[u8]) -> nfs_fh3 {
        let how = createhow3::GUARDED(sattr3::default());
        let args = CREATE3args { where_: at(directory, name), how };
        let made: CREATE3res = self.call(NFS_PROGRAM::NFSPROC3_CREATE, &args);
        let file = made.unwrap().obj.unwrap();
        assert_eq!(self.write(&file, content), nfsstat3::NFS3_OK);
        file
    }

    pub(crate) fn write(&self, file: &nfs_fh3, content: &[u8]) -> nfsstat3 {
        let args = WRITE3args {
            file: file.clone(),
            offset: 0,
            count: content.len() as u32,
            stable: stable_how::UNSTABLE,
            data: Opaque::borrowed(content),
        };
        status(self.call::<WRITE3res>(NFS_PROGRAM::NFSPROC3_WRITE, &args))
    }

    pub(crate) fn read(&self, file: &nfs_fh3) -> Result<Vec<u8>, nfsstat3> {
        let args = READ3args { file: file.clone(), offset: 0, count: 1 << 20 };
        match self.call::<READ3res<'_>>(NFS_PROGRAM::NFSPROC3_READ, &args) {
            Nfs3Result::Ok(ok) => Ok(ok.data.to_vec()),
            Nfs3Result::Err((status, _)) => Err(status),
        }
    }

    pub(crate) fn getattr(&self, object: &nfs_fh3) -> Result<fattr3, nfsstat3> {
        let args = GETATTR3args { object: object.clone() };
        match self.call::<GETATTR3res>(NFS_PROGRAM::NFSPROC3_GETATTR, &args) {
            Nfs3Result::Ok(ok) => Ok(ok.obj_attributes),
            Nfs3Result::Err((status, _)) => Err(status),
        }
    }

    pub(crate) fn lookup(&self, directory: &nfs_fh3, name: &str) -> Result<nfs_fh3, nfsstat3> {
        let args = LOOKUP3args { what: at(directory, name) };
        match self.call::<LOOKUP3res>(NFS_PROGRAM::NFSPROC3_LOOKUP, &args) {
            Nfs3Result::Ok(ok) => Ok(ok.object),
            Nfs3Result::Err((status, _)) => Err(status),
        }
    }

    /// The handle at a path from a directory.
    pub(crate) fn walk(&self, from: &nfs_fh3, path: &str) -> Result<nfs_fh3, nfsstat3> {
        path.split('/').try_fold(from.clone(), |directory, name| self.lookup(&directory, name))
    }

    /// All entries, by READDIR with this count.
    pub(crate) fn readdir(&self, dir: &nfs_fh3, count: u32) -> Result<Vec<Entry>, nfsstat3> {
        let (mut all, mut cookie, mut cookieverf) = (Vec::new(), 0, cookieverf3::default());
        loop {
            let args = READDIR3args { dir: dir.clone(), cookie, cookieverf, count };
            let listed = match self.call::<READDIR3res<'_>>(NFS_PROGRAM::NFSPROC3_READDIR, &args) {
                Nfs3Result::Ok(listed) => listed,
                Nfs3Result::Err((status, _)) => return Err(status),
            };
            for entry in &listed.reply.entries.0 {
                cookie = entry.cookie;
                let name = String::from_utf8_lossy(entry.name.as_ref()).into_owned();
                all.push(Entry { name, fileid: entry.fileid, told: None });
            }
            if listed.reply.eof {
                return Ok(all);
            }
            cookieverf = listed.cookieverf;
        }
    }

    /// All entries, by READDIRPLUS with this count.
    pub(crate) fn readdirplus(&self, dir: &nfs_fh3, count: u32) -> Vec<Entry> {
        let (mut all, mut cookie, mut cookieverf) = (Vec::new(), 0, cookieverf3::default());
        loop {
            let (dircount, maxcount) = (count, count);
            let dir = dir.clone();
            let args = READDIRPLUS3args { dir, cookie, cookieverf, dircount, maxcount };
            let listed: READDIRPLUS3res<'_> = self.call(NFS_PROGRAM::NFSPROC3_READDIRPLUS, &args);
            let listed = listed.unwrap();
            for entry in &listed.reply.entries.0 {
                cookie = entry.cookie;
                let name = String::from_utf8_lossy(entry.name.as_ref()).into_owned();
                let told = entry.name_attributes.is_some() && entry.name_handle.is_some();
                let told = told.then(|| {
                    let attributes = entry.name_attributes.clone().unwrap();
                    (entry.name_handle.clone().unwrap(), attributes.fileid)
                });
                all.push(Entry { name, fileid: entry.fileid, told });
            }
            if listed.reply.eof {
                return all;
            }
            cookieverf = listed.cookieverf;
        }
    }

    /// The names of a directory.
    pub(crate) fn names(&self, directory: &nfs_fh3) -> Vec<String> {
        let entries = self.readdir(directory, 200).expect("a directory");
        let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    }
}

fn exports(shown: SnapshotsShown) -> Exports {
    let mut exports = Exports::default();
    exports.insert("data", Export::loopback().with_snapshots(shown));
    exports
}

pub(crate) fn at<'a>(directory: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: name.as_bytes().into() }
}

/// The status of a call.
pub(crate) fn status<T, E>(result: Nfs3Result<T, E>) -> nfsstat3 {
    match result {
        Nfs3Result::Ok(_) => nfsstat3::NFS3_OK,
        Nfs3Result::Err((status, _)) => status,
    }
}
