//! A server's answers to our client: the header of a reply, and the results of the 22 procedures of
//! NFS version 3.

use bytes::Bytes;
use nfs::nfs3::arguments::{
    AccessArgs, CommitArgs, CreateArgs, FsinfoArgs, FsstatArgs, GetattrArgs, LinkArgs, LookupArgs,
    MkdirArgs, MknodArgs, PathconfArgs, ReadArgs, ReaddirArgs, ReaddirplusArgs, ReadlinkArgs,
    RemoveArgs, RenameArgs, RmdirArgs, SetattrArgs, SymlinkArgs, WriteArgs,
};
use nfs::nfs3::results::{
    BareFailure, CreateOk, Entry, EntryPlus, LookupOk, ReadOk, ReaddirplusOk, WriteOk,
};
use nfs::nfs3::{
    Attributes, Device, FileKind, Handle, Outcome, Procedure, Request, Stability, Status, Time,
    Verifier, Wcc,
};
use nfs::rpc::{self, Reply};
use nfs::xdr::{Decoder, Encode, UNIT};
use sim::Prng;

use super::{Target, some_bytes};
use crate::input::Input;
use crate::wire;

pub(super) const TARGET: Target =
    Target { name: "nfs-replies", check, generate, longest: 4 << 10, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let procedure = *input.pick(&Procedure::ALL);
    let record = Bytes::copy_from_slice(input.rest());
    let Ok(reply) = Reply::decode(Decoder::of_parts(&record, &[])) else { return };
    assert_eq!(record[..UNIT], reply.xid.to_be_bytes());
    match reply.results {
        Err(refusal) => {
            let again = rpc::refuse(reply.xid, refusal).concat().split_off(UNIT);
            let again = Reply::decode(Decoder::new(&again)).expect("our own refusal");
            assert_eq!(again.results.err(), Some(refusal));
        }
        Ok(results) => check_results_of(procedure, results),
    }
}

fn check_results_of(procedure: Procedure, from: Decoder<'_>) {
    let check = match procedure {
        Procedure::Null => return,
        Procedure::Getattr => check_results::<GetattrArgs<'_>>,
        Procedure::Setattr => check_results::<SetattrArgs<'_>>,
        Procedure::Lookup => check_results::<LookupArgs<'_>>,
        Procedure::Access => check_results::<AccessArgs<'_>>,
        Procedure::Readlink => check_results::<ReadlinkArgs<'_>>,
        Procedure::Read => check_results::<ReadArgs<'_>>,
        Procedure::Write => check_results::<WriteArgs<'_>>,
        Procedure::Create => check_results::<CreateArgs<'_>>,
        Procedure::Mkdir => check_results::<MkdirArgs<'_>>,
        Procedure::Symlink => check_results::<SymlinkArgs<'_>>,
        Procedure::Mknod => check_results::<MknodArgs<'_>>,
        Procedure::Remove => check_results::<RemoveArgs<'_>>,
        Procedure::Rmdir => check_results::<RmdirArgs<'_>>,
        Procedure::Rename => check_results::<RenameArgs<'_>>,
        Procedure::Link => check_results::<LinkArgs<'_>>,
        Procedure::Readdir => check_results::<ReaddirArgs<'_>>,
        Procedure::Readdirplus => check_results::<ReaddirplusArgs<'_>>,
        Procedure::Fsstat => check_results::<FsstatArgs<'_>>,
        Procedure::Fsinfo => check_results::<FsinfoArgs<'_>>,
        Procedure::Pathconf => check_results::<PathconfArgs<'_>>,
        Procedure::Commit => check_results::<CommitArgs<'_>>,
    };
    check(from);
}

/// Decoded results can be encoded, to the same length, and decode to the same.
fn check_results<R>(from: Decoder<'_>)
where
    R: Request<Ok: Encode, About: Encode>,
{
    let Ok(outcome) = R::results(from) else { return };
    let again = wire::bytes_of(|to| to.value(&outcome));
    assert_eq!(again.len(), from.remaining().0.len(), "results fill their bytes");
    let back = R::results(Decoder::new(&again)).expect("what we wrote");
    assert_eq!(wire::bytes_of(|to| to.value(&back)), again);
    for cut in [again.len() - 1, again.len() / 2, again.len() - UNIT] {
        assert!(R::results(Decoder::new(&again[..cut])).is_err(), "{cut} of {}", again.len());
    }
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let procedure = Procedure::ALL[prng.index(22)];
    let mut to = rpc::success(prng.next_u64() as u32);
    let handle = Handle::new(&some_bytes(prng, 63)).expect("short enough");
    let some = Some(attributes(prng.next_u64()));
    let wcc = Wcc { before: None, after: some };
    match procedure {
        Procedure::Null => {}
        Procedure::Getattr => to.value(&Outcome::<_, ()>::Ok(attributes(1))),
        Procedure::Lookup => {
            let ok = LookupOk { object: handle, attributes: some, directory: None };
            to.value(&Outcome::<_, ()>::Ok(ok));
        }
        Procedure::Read => {
            let data = vec![some_bytes(prng, 300).into()];
            to.value(&Outcome::<_, ()>::Ok(ReadOk { attributes: some, eof: true, data }));
        }
        Procedure::Write => {
            let (committed, verifier) = (Stability::FileSync, Verifier([7; 8]));
            to.value(&Outcome::<_, ()>::Ok(WriteOk { wcc, count: 3, committed, verifier }));
        }
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            let ok = CreateOk { object: Some(handle), attributes: some, directory: wcc };
            to.value(&Outcome::<_, ()>::Ok(ok));
        }
        Procedure::Readdirplus => {
            let entry = |prng: &mut Prng| EntryPlus {
                entry: Entry { fileid: 1, name: some_bytes(prng, 40).into(), cookie: 2 },
                attributes: some,
                handle: Some(handle),
            };
            let entries = (0..prng.index(4)).map(|_| entry(prng)).collect();
            let cookie_verifier = Verifier::default();
            let ok = ReaddirplusOk { directory: some, cookie_verifier, entries, eof: true };
            to.value(&Outcome::<_, ()>::Ok(ok));
        }
        _ => to.value(&BareFailure { procedure, status: Status::ALL[prng.index(28)] }),
    }
    let mut input = vec![procedure as u8];
    input.extend(to.finish().concat().split_off(UNIT));
    input
}

fn attributes(fileid: u64) -> Attributes {
    let time = Time { seconds: 1, nanoseconds: 2 };
    Attributes {
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 2,
        gid: 3,
        size: 4,
        used: 5,
        device: Device::default(),
        fsid: 6,
        fileid,
        atime: time,
        mtime: time,
        ctime: time,
    }
}
