//! File handles: valid ones, and invalid ones.

use crate::fixture::{DATA, Fixture, OTHER, at, local, refusal};
use dispatch::{Fsid, Handle};
use nfs3_types::nfs3::{
    GETATTR3res, LINK3args, LINK3res, NFS_PROGRAM, Nfs3Result, RENAME3args, RENAME3res, nfs_fh3,
    nfsstat3,
};
use nfs3_types::xdr_codec::Opaque;

fn fh(bytes: &[u8]) -> nfs_fh3 {
    nfs_fh3 { data: Opaque::owned(bytes.to_vec()) }
}

#[test]
fn bytes_that_no_server_made_are_a_bad_handle() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let mut damaged = root.data.to_vec();
    damaged[15] ^= 1;
    for bytes in [&[][..], &[0; 28], &[7; 64], &damaged] {
        let result: GETATTR3res = fixture.getattr(&local(), &fh(bytes));
        assert_eq!(refusal(result), nfsstat3::NFS3ERR_BADHANDLE, "{bytes:?}");
    }
}

#[test]
fn a_handle_of_a_volume_that_is_not_served_is_stale() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let handle = Handle::decode(&root.data).expect("ours");
    let gone = Handle { fsid: Fsid(0xdead), ..handle };
    let result = fixture.getattr(&local(), &fh(&gone.encode()));
    assert_eq!(refusal(result), nfsstat3::NFS3ERR_STALE);
}

#[test]
fn a_handle_survives_a_restart_of_the_server() {
    let mut fixture = Fixture::new();
    let before = fixture.mount(&local(), "/data").expect("a mount");
    let mut fixture = Fixture::new();
    let Nfs3Result::Ok(found) = fixture.getattr(&local(), &before) else { panic!("not stale") };
    assert_eq!(found.obj_attributes.fsid, DATA.0);
}

#[test]
fn names_are_not_linked_or_moved_across_volumes() {
    let mut fixture = Fixture::new();
    let data = fixture.mount(&local(), "/data").expect("a mount");
    let other = fixture.mount(&local(), "/other").expect("a mount");
    let file = fixture.create(&local(), &data, "file");
    assert_eq!(Handle::decode(&other.data).expect("ours").fsid, OTHER);

    let args = RENAME3args { from: at(&data, "file"), to: at(&other, "file") };
    let result: RENAME3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_RENAME, &args);
    assert_eq!(refusal(result), nfsstat3::NFS3ERR_XDEV);

    let args = LINK3args { file, link: at(&other, "file") };
    let result: LINK3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_LINK, &args);
    assert_eq!(refusal(result), nfsstat3::NFS3ERR_XDEV);
}
