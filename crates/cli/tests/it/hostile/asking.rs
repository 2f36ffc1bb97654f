//! Calls every procedure but NULL with a handle.

use nfs3_types::nfs3::NFS_PROGRAM::{self, *};
use nfs3_types::nfs3::nfsstat3::NFS3_OK;
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Opaque;

use crate::hostile::fixture::{at, write_args};
use crate::hostile::wire::{Peer, Raw, bytes_of};

/// Valid arguments of every procedure but NULL, in the order of their numbers, for `handle` and,
/// where they take one, the name "name" in it.
pub(crate) fn all_calls(handle: &nfs_fh3) -> Vec<(NFS_PROGRAM, Raw)> {
    let raw = |procedure, bytes: Vec<u8>| (procedure, Raw(bytes));
    let (object, place) = (|| handle.clone(), || at(handle, b"name"));
    let (cookie, cookieverf) = (0, cookieverf3::default());
    let how = createhow3::GUARDED(sattr3::default());
    let symlink_data = b"target".as_slice().into();
    let symlink = symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data };
    let what = mknoddata3::NF3FIFO(sattr3::default());
    let (new_attributes, guard) = (sattr3::default(), Nfs3Option::None);
    let (dircount, maxcount) = (4096, 4096);
    let (from, to) = (place(), at(handle, b"to"));
    vec![
        raw(NFSPROC3_GETATTR, bytes_of(&GETATTR3args { object: object() })),
        raw(NFSPROC3_SETATTR, bytes_of(&SETATTR3args { object: object(), new_attributes, guard })),
        raw(NFSPROC3_LOOKUP, bytes_of(&LOOKUP3args { what: place() })),
        raw(NFSPROC3_ACCESS, bytes_of(&ACCESS3args { object: object(), access: 0x3f })),
        raw(NFSPROC3_READLINK, bytes_of(&READLINK3args { symlink: object() })),
        raw(NFSPROC3_READ, bytes_of(&READ3args { file: object(), offset: 0, count: 1 })),
        raw(NFSPROC3_WRITE, bytes_of(&write_args(handle, 0, b"x"))),
        raw(NFSPROC3_CREATE, bytes_of(&CREATE3args { where_: place(), how })),
        raw(
            NFSPROC3_MKDIR,
            bytes_of(&MKDIR3args { where_: place(), attributes: sattr3::default() }),
        ),
        raw(NFSPROC3_SYMLINK, bytes_of(&SYMLINK3args { where_: place(), symlink })),
        raw(NFSPROC3_MKNOD, bytes_of(&MKNOD3args { where_: place(), what })),
        raw(NFSPROC3_REMOVE, bytes_of(&REMOVE3args { object: place() })),
        raw(NFSPROC3_RMDIR, bytes_of(&RMDIR3args { object: place() })),
        raw(NFSPROC3_RENAME, bytes_of(&RENAME3args { from, to })),
        raw(NFSPROC3_LINK, bytes_of(&LINK3args { file: object(), link: place() })),
        raw(
            NFSPROC3_READDIR,
            bytes_of(&READDIR3args { dir: object(), cookie, cookieverf, count: 4096 }),
        ),
        raw(
            NFSPROC3_READDIRPLUS,
            bytes_of(&READDIRPLUS3args { dir: object(), cookie, cookieverf, dircount, maxcount }),
        ),
        raw(NFSPROC3_FSSTAT, bytes_of(&FSSTAT3args { fsroot: object() })),
        raw(NFSPROC3_FSINFO, bytes_of(&FSINFO3args { fsroot: object() })),
        raw(NFSPROC3_PATHCONF, bytes_of(&PATHCONF3args { object: object() })),
        raw(NFSPROC3_COMMIT, bytes_of(&COMMIT3args { file: object(), offset: 0, count: 0 })),
    ]
}

/// Asserts that every procedure but NULL answers with this status for these bytes as a handle.
#[track_caller]
pub(crate) fn assert_all(peer: &mut Peer, handle: &[u8], expected: nfsstat3) {
    let object = nfs_fh3 { data: Opaque::owned(handle.to_vec()) };
    let calls = all_calls(&object);
    assert_eq!(calls.len(), 21);
    for (procedure, args) in calls {
        let status = peer.nfs(procedure, &args).status();
        assert_eq!(status, expected, "{procedure:?} of {handle:02x?}");
    }
}

/// Asserts that procedures with two handles check each of them.
#[track_caller]
pub(crate) fn assert_either(peer: &mut Peer, good: &nfs_fh3, bad: &[u8], expected: nfsstat3) {
    assert_ne!(expected, NFS3_OK);
    let bad = nfs_fh3 { data: Opaque::owned(bad.to_vec()) };
    for (one, other) in [(good, &bad), (&bad, good)] {
        let args = RENAME3args { from: at(one, b"name"), to: at(other, b"to") };
        assert_eq!(peer.nfs(NFSPROC3_RENAME, &args).status(), expected, "{bad:?}");
        let args = LINK3args { file: one.clone(), link: at(other, b"name") };
        assert_eq!(peer.nfs(NFSPROC3_LINK, &args).status(), expected, "{bad:?}");
    }
}
