//! No reply before its time, and none that shows lost changes.

use crate::fixture::{Fixture, at, local};
use nfs3_types::nfs3::{
    GETATTR3args, GETATTR3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, Nfs3Option, Nfs3Result,
    nfsstat3, sattr3,
};

fn mkdir<'a>(root: &nfs3_types::nfs3::nfs_fh3) -> MKDIR3args<'a> {
    MKDIR3args { where_: at(root, "made"), attributes: sattr3::default() }
}

#[test]
fn a_change_is_answered_when_it_is_durable_and_not_before() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.data.gate().close();
    let mut sent = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(&root));
    assert_eq!(fixture.data.executed(), 1);
    assert!(!sent.is_answered());
    fixture.data.gate().open();
    fixture.poll(&mut sent);
    sent.reply::<MKDIR3res>().unwrap();
}

#[test]
fn a_lost_volume_answers_with_an_error_and_tells_nothing() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.data.gate().close();
    let mut change = fixture.send(&local(), 9, NFS_PROGRAM::NFSPROC3_MKDIR, &mkdir(&root));
    let args = GETATTR3args { object: root.clone() };
    let mut look = fixture.send(&local(), 10, NFS_PROGRAM::NFSPROC3_GETATTR, &args);
    fixture.data.gate().lose();
    fixture.poll(&mut change);
    fixture.poll(&mut look);
    match change.reply::<MKDIR3res>() {
        Nfs3Result::Err((nfsstat3::NFS3ERR_IO, failure)) => {
            assert!(matches!(failure.dir_wcc.before, Nfs3Option::None));
            assert!(matches!(failure.dir_wcc.after, Nfs3Option::None));
        }
        other => panic!("{other:?}"),
    }
    let Nfs3Result::Err((nfsstat3::NFS3ERR_IO, _)) = look.reply::<GETATTR3res>() else {
        panic!("an error")
    };
}
