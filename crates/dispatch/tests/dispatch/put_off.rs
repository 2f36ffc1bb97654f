//! Replies to calls that were not executed, and late duplicates of these calls: *try again later*,
//! after which a client makes its call anew under another number, and *an error of the disk*.

use std::rc::Rc;

use dispatch::{Exports, Limits, Window};
use nfs3_types::nfs3::{
    MKDIR3args, MKDIR3res, NFS_PROGRAM, Nfs3Option, SETATTR3args, SETATTR3res, WRITE3args,
    WRITE3res, nfs_fh3, nfsstat3, sattr3, stable_how,
};
use nfs3_types::xdr_codec::Opaque;
use vfs::FsError;

use crate::fixture::{Fixture, Sent, at, local, refusal};
use crate::memory::MemoryFileSystem;
use crate::watched::Watched;

/// A fixture over a volume that refuses as configured, with a directory.
fn refusing() -> (Fixture, Rc<Watched>, nfs_fh3) {
    let volumes = [(); 2].map(|()| Watched::new(MemoryFileSystem::new()));
    let mut fixture = Fixture::over(&volumes, Window::default());
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let directory = fixture.mkdir(&local(), &root, "directory");
    let [data, _] = volumes;
    (fixture, data, directory)
}

fn set_mode(object: &nfs_fh3, mode: u32) -> SETATTR3args {
    let new_attributes = sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() };
    SETATTR3args { object: object.clone(), new_attributes, guard: Nfs3Option::None }
}

/// The status of a SETATTR with this number.
fn chmod(fixture: &mut Fixture, xid: u32, object: &nfs_fh3, mode: u32) -> nfsstat3 {
    let args = set_mode(object, mode);
    let sent = fixture.send(&local(), xid, NFS_PROGRAM::NFSPROC3_SETATTR, &args);
    refusal(sent.reply::<SETATTR3res>())
}

/// A call is refused with `error`, made anew as another one, and followed by a third, which changes
/// the same; then a duplicate of the first arrives. Returns the status of the duplicate, and the
/// mode at the end.
fn late_duplicate(error: FsError) -> (nfsstat3, u32) {
    let (mut fixture, data, directory) = refusing();
    data.refusal.set(Some(error));
    let first = chmod(&mut fixture, 1, &directory, 0o700);
    assert_eq!(chmod(&mut fixture, 2, &directory, 0o700), nfsstat3::NFS3_OK);
    assert_eq!(chmod(&mut fixture, 3, &directory, 0o755), nfsstat3::NFS3_OK);
    let executed = fixture.data.executed();
    let late = chmod(&mut fixture, 1, &directory, 0o700);
    let mode = fixture.getattr(&local(), &directory).unwrap().obj_attributes.mode;
    if late == first {
        assert_eq!(fixture.data.executed(), executed, "a duplicate carries nothing out");
    }
    (late, mode)
}

#[test]
fn a_late_duplicate_of_a_call_that_was_put_off_hears_so_again_and_changes_nothing() {
    assert_eq!(late_duplicate(FsError::Jukebox), (nfsstat3::NFS3ERR_JUKEBOX, 0o755));
}

#[test]
fn a_late_duplicate_of_a_call_that_failed_hears_so_again_and_changes_nothing() {
    assert_eq!(late_duplicate(FsError::Io), (nfsstat3::NFS3ERR_IO, 0o755));
}

/// On a volume that is declared delayed a stable WRITE waits until its file has a name. That fails,
/// the data is written by another call and overwritten by a third; then a duplicate of the first
/// arrives.
#[test]
fn a_late_duplicate_of_a_write_whose_file_may_have_no_name_writes_nothing() {
    for (error, status) in
        [(FsError::Jukebox, nfsstat3::NFS3ERR_JUKEBOX), (FsError::Io, nfsstat3::NFS3ERR_IO)]
    {
        let (mut fixture, data, directory) = refusing();
        fixture.dispatcher.set_exports(crate::delayed::delayed());
        let file = fixture.create(&local(), &directory, "file");
        let mut write = |xid, text: &'static [u8]| {
            let (count, data) = (text.len() as u32, Opaque::borrowed(text));
            let stable = stable_how::FILE_SYNC;
            let args = WRITE3args { file: file.clone(), offset: 0, count, stable, data };
            let sent = fixture.send(&local(), xid, NFS_PROGRAM::NFSPROC3_WRITE, &args);
            refusal(sent.reply::<WRITE3res>())
        };
        data.refusal.set(Some(error));
        let all = [(1, &b"old"[..]), (2, b"old"), (3, b"new"), (1, b"old")];
        let statuses = all.map(|(xid, text)| write(xid, text));
        assert_eq!(statuses, [status, nfsstat3::NFS3_OK, nfsstat3::NFS3_OK, status], "{error:?}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn duplicates_of_refused_calls_that_are_carried_out_are_found() {
    use dispatch::planted::{Bug, plant};

    for error in [FsError::Jukebox, FsError::Io] {
        plant(Some(Bug::ForgottenRefusals));
        let outcome = late_duplicate(error);
        plant(None);
        assert_eq!(outcome, (nfsstat3::NFS3_OK, 0o700), "{error:?}");
    }
}

#[test]
fn a_call_that_is_put_off_is_a_new_one_under_its_next_number() {
    let (mut fixture, data, directory) = refusing();
    let args = MKDIR3args { where_: at(&directory, "made"), attributes: sattr3::default() };
    let executed = fixture.data.executed();
    let mut statuses = Vec::new();
    for xid in [1, 2, 1, 2] {
        if statuses.is_empty() {
            data.refusal.set(Some(FsError::Jukebox));
        }
        let sent = fixture.send(&local(), xid, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
        statuses.push(refusal(sent.reply::<MKDIR3res>()));
    }
    let [later, done] = [nfsstat3::NFS3ERR_JUKEBOX, nfsstat3::NFS3_OK];
    assert_eq!(statuses, [later, done, later, done]);
    assert_eq!(fixture.data.executed(), executed + 1);
}

#[test]
fn duplicates_that_wait_for_a_call_are_told_what_it_is_told() {
    for error in [FsError::Jukebox, FsError::Io] {
        let (mut fixture, data, directory) = refusing();
        data.refusal.set(Some(error));
        fixture.data.gate().close();
        let args = set_mode(&directory, 0o700);
        let mut sent: Vec<_> = (0..3)
            .map(|_| fixture.send(&local(), 1, NFS_PROGRAM::NFSPROC3_SETATTR, &args))
            .collect();
        assert!(sent.iter().all(|sent| !sent.is_answered()), "the disk has not answered");
        fixture.data.gate().open();
        sent.iter_mut().for_each(|sent| fixture.poll(sent));
        let all: Vec<_> = sent.iter().map(Sent::bytes).collect();
        assert!(all.iter().all(|bytes| *bytes == all[0]), "{error:?}");
        assert_eq!(
            chmod(&mut fixture, 1, &directory, 0o700),
            refusal(sent[0].reply::<SETATTR3res>())
        );
    }
}

#[test]
fn duplicates_of_a_call_that_was_lost_with_its_volume_hear_of_the_disk() {
    let mut fixture = Fixture::with(Exports::default(), Limits::default());
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.data.gate().close();
    let args = set_mode(&root, 0o700);
    let send =
        |fixture: &mut Fixture| fixture.send(&local(), 1, NFS_PROGRAM::NFSPROC3_SETATTR, &args);
    let mut sent = [(); 2].map(|()| send(&mut fixture));
    let executed = fixture.data.executed();
    fixture.data.gate().lose();
    sent.iter_mut().for_each(|sent| fixture.poll(sent));
    let late = send(&mut fixture);
    for sent in sent.iter().chain([&late]) {
        assert_eq!(refusal(sent.reply::<SETATTR3res>()), nfsstat3::NFS3ERR_IO);
    }
    assert_eq!(fixture.data.executed(), executed, "it is not carried out once more");
}
