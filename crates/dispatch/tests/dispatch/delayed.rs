//! A volume that is declared delayed: calls that are answered at once, and calls that still wait.

use dispatch::{Export, Exports, Limits};
use nfs3_types::nfs3::{
    COMMIT3args, COMMIT3res, GETATTR3args, GETATTR3res, MKDIR3args, MKDIR3res, NFS_PROGRAM,
    Nfs3Result, READDIRPLUS3args, WRITE3args, WRITE3res, cookieverf3, nfs_fh3, nfsstat3, sattr3,
    stable_how,
};
use nfs3_types::xdr_codec::Opaque;

use crate::fixture::{Fixture, Sent, at, local};

/// The rules of a volume that is delayed, among others that are not.
pub(crate) fn delayed() -> Exports {
    let mut exports = Exports::default();
    exports.insert("data", Export::loopback().declared_delayed());
    exports
}

/// A volume with a file, on which nothing becomes durable from now on.
pub(crate) fn held_up(exports: Exports) -> (Fixture, nfs_fh3, nfs_fh3) {
    let mut fixture = Fixture::with(exports, Limits::default());
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    fixture.data.gate().close();
    (fixture, root, file)
}

pub(crate) fn mkdir(fixture: &mut Fixture, root: &nfs_fh3, xid: u32) -> Sent {
    let args = MKDIR3args { where_: at(root, "made"), attributes: sattr3::default() };
    fixture.send(&local(), xid, NFS_PROGRAM::NFSPROC3_MKDIR, &args)
}

fn write(fixture: &mut Fixture, file: &nfs_fh3, stable: stable_how) -> Sent {
    let data = Opaque::borrowed(b"dear friend");
    let args = WRITE3args { file: file.clone(), offset: 0, count: 11, stable, data };
    let xid = local().next_xid() + stable as u32;
    fixture.send(&local(), 70 + xid, NFS_PROGRAM::NFSPROC3_WRITE, &args)
}

fn commit(fixture: &mut Fixture, file: &nfs_fh3) -> Sent {
    let args = COMMIT3args { file: file.clone(), offset: 0, count: 0 };
    fixture.send(&local(), 90, NFS_PROGRAM::NFSPROC3_COMMIT, &args)
}

#[test]
fn what_is_answered_of_a_delayed_volume_does_not_wait() {
    let (mut fixture, root, file) = held_up(delayed());
    mkdir(&mut fixture, &root, 9).reply::<MKDIR3res>().unwrap();
    fixture.getattr(&local(), &file).unwrap();
    let listing = READDIRPLUS3args {
        dir: root.clone(),
        cookie: 0,
        cookieverf: cookieverf3::default(),
        dircount: 1000,
        maxcount: 8000,
    };
    assert!(fixture.send(&local(), 11, NFS_PROGRAM::NFSPROC3_READDIRPLUS, &listing).is_answered());
}

#[test]
fn only_the_volume_of_the_declaration_is_delayed() {
    let mut exports = Exports::default();
    exports.insert("other", Export::loopback().declared_delayed());
    let (mut fixture, root, _) = held_up(exports);
    assert!(!mkdir(&mut fixture, &root, 9).is_answered());
}

/// Whether each of the calls that ask for durability waits for the disk.
pub(crate) fn stable_calls() -> [bool; 3] {
    let (mut fixture, _, file) = held_up(delayed());
    let mut calls = [
        write(&mut fixture, &file, stable_how::DATA_SYNC),
        write(&mut fixture, &file, stable_how::FILE_SYNC),
        commit(&mut fixture, &file),
    ];
    let waits = [0, 1, 2].map(|call| !calls[call].is_answered());
    fixture.data.gate().open();
    calls.iter_mut().for_each(|call| fixture.poll(call));
    let levels = [0, 1].map(|call| calls[call].reply::<WRITE3res>().unwrap().committed);
    assert_eq!(levels, [stable_how::DATA_SYNC, stable_how::FILE_SYNC]);
    calls[2].reply::<COMMIT3res>().unwrap();
    waits
}

#[test]
fn what_a_client_asks_to_be_made_durable_waits() {
    assert_eq!(stable_calls(), [true; 3]);
}

#[test]
fn an_unstable_write_is_told_to_be_no_more_than_that() {
    let (mut fixture, _, file) = held_up(delayed());
    fixture.data.overstate(true);
    let written = write(&mut fixture, &file, stable_how::UNSTABLE).reply::<WRITE3res>().unwrap();
    assert_eq!((written.committed, written.count), (stable_how::UNSTABLE, 11));
    // Where all replies wait, durable data may be reported as such.
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    fixture.data.overstate(true);
    let written = write(&mut fixture, &file, stable_how::UNSTABLE).reply::<WRITE3res>().unwrap();
    assert_eq!(written.committed, stable_how::FILE_SYNC);
}

/// Withdraws the declaration after a call was answered; returns whether its repetition waits.
pub(crate) fn withdrawn() -> bool {
    let (mut fixture, root, _) = held_up(delayed());
    let first = mkdir(&mut fixture, &root, 9).bytes();
    fixture.dispatcher.set_exports(Exports::default());
    let mut again = mkdir(&mut fixture, &root, 9);
    let waits = !again.is_answered();
    fixture.data.gate().open();
    fixture.poll(&mut again);
    assert_eq!(again.bytes(), first);
    waits
}

#[test]
fn since_a_declaration_was_withdrawn_no_reply_comes_before_what_was_told() {
    assert!(withdrawn());
}

#[test]
fn a_reply_that_is_due_when_the_declaration_is_withdrawn_waits() {
    let (mut fixture, root, file) = held_up(delayed());
    let mut waiting = commit(&mut fixture, &file);
    fixture.dispatcher.set_exports(Exports::default());
    let args = GETATTR3args { object: root };
    let mut look = fixture.send(&local(), 12, NFS_PROGRAM::NFSPROC3_GETATTR, &args);
    assert!(!waiting.is_answered() && !look.is_answered());
    fixture.dispatcher.set_exports(delayed());
    fixture.getattr(&local(), &file).unwrap();
    fixture.data.gate().open();
    fixture.poll(&mut waiting);
    fixture.poll(&mut look);
    assert!(waiting.is_answered() && look.is_answered());
}

#[test]
fn a_volume_that_was_lost_tells_nothing_delayed_or_not() {
    let (mut fixture, root, file) = held_up(delayed());
    assert!(mkdir(&mut fixture, &root, 9).is_answered());
    fixture.data.gate().lose();
    let args = GETATTR3args { object: file };
    let look = fixture.send(&local(), 10, NFS_PROGRAM::NFSPROC3_GETATTR, &args);
    let Nfs3Result::Err((nfsstat3::NFS3ERR_IO, _)) = look.reply::<GETATTR3res>() else {
        panic!("an error")
    };
    // Remembered replies are sent again at once while the volume is delayed.
    mkdir(&mut fixture, &root, 9).reply::<MKDIR3res>().unwrap();
    fixture.dispatcher.set_exports(Exports::default());
    let again = mkdir(&mut fixture, &root, 9);
    let Nfs3Result::Err((nfsstat3::NFS3ERR_IO, _)) = again.reply::<MKDIR3res>() else {
        panic!("it is lost")
    };
}
