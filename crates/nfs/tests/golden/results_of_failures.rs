//! The failure arm of each procedure: a status, and the attributes that go along with it.

use nfs::nfs3::results::{
    AccessResult, BareFailure, CommitResult, CreateResult, FsinfoResult, FsstatResult,
    GetattrResult, LinkResult, LinkWcc, LookupResult, MkdirResult, MknodResult, PathconfResult,
    ReadResult, ReaddirResult, ReaddirplusResult, ReadlinkResult, RemoveResult, RenameResult,
    RenameWcc, RmdirResult, SetattrResult, SymlinkResult, WriteResult,
};
use nfs::nfs3::{Failure, Procedure, Status, Wcc};

use crate::{NO_WCC, assert_encodes, attributes, encoded, some_attributes, some_wcc, wcc};

const IO: &str = "00000005";

#[test]
fn getattr_has_nothing_but_a_status() {
    let result: GetattrResult = Err(Status::Stale.into());
    assert_encodes(&result, "00000046");
}

#[test]
fn procedures_that_change_nothing_give_attributes() {
    let text = format!("{IO} {}", some_attributes());
    macro_rules! check {
        ($($result:ty),*) => {$(
            let failure = Failure { status: Status::Io, about: Some(attributes()) };
            let result: $result = Err(failure);
            assert_encodes(&result, &text);
            let result: $result = Err(Status::Io.into());
            assert_encodes(&result, &format!("{IO} 00000000"));
        )*};
    }
    check!(LookupResult, AccessResult, ReadlinkResult, ReadResult);
    check!(ReaddirResult, ReaddirplusResult, FsstatResult, FsinfoResult, PathconfResult);
}

#[test]
fn procedures_that_change_one_object_give_its_change() {
    let text = format!("{IO} {}", some_wcc());
    macro_rules! check {
        ($($result:ty),*) => {$(
            let result: $result = Err(Failure { status: Status::Io, about: wcc() });
            assert_encodes(&result, &text);
            let result: $result = Err(Status::Io.into());
            assert_encodes(&result, &format!("{IO} {NO_WCC}"));
        )*};
    }
    check!(SetattrResult, WriteResult, CreateResult, MkdirResult, SymlinkResult, MknodResult);
    check!(RemoveResult, RmdirResult, CommitResult);
}

#[test]
fn rename_gives_the_change_of_both_directories() {
    let about = RenameWcc { from: Wcc::default(), to: wcc() };
    let result: RenameResult = Err(Failure { status: Status::CrossDevice, about });
    assert_encodes(&result, &format!("00000012 {NO_WCC} {}", some_wcc()));
}

#[test]
fn link_gives_the_file_and_the_change_of_the_directory() {
    let about = LinkWcc { file: Some(attributes()), directory: wcc() };
    let result: LinkResult = Err(Failure { status: Status::Exists, about });
    assert_encodes(&result, &format!("00000011 {} {}", some_attributes(), some_wcc()));
}

#[test]
fn the_number_of_each_status() {
    let statuses = [
        (Status::NotOwner, 1),
        (Status::NoEntry, 2),
        (Status::Io, 5),
        (Status::NoSuchAddress, 6),
        (Status::Access, 13),
        (Status::Exists, 17),
        (Status::CrossDevice, 18),
        (Status::NoDevice, 19),
        (Status::NotDirectory, 20),
        (Status::IsDirectory, 21),
        (Status::Invalid, 22),
        (Status::FileTooLarge, 27),
        (Status::NoSpace, 28),
        (Status::ReadOnly, 30),
        (Status::TooManyLinks, 31),
        (Status::NameTooLong, 63),
        (Status::NotEmpty, 66),
        (Status::Quota, 69),
        (Status::Stale, 70),
        (Status::Remote, 71),
        (Status::BadHandle, 10001),
        (Status::NotSync, 10002),
        (Status::BadCookie, 10003),
        (Status::NotSupported, 10004),
        (Status::TooSmall, 10005),
        (Status::ServerFault, 10006),
        (Status::BadType, 10007),
        (Status::Jukebox, 10008),
    ];
    for (status, number) in statuses {
        assert_encodes(&status, &format!("{number:08x}"));
    }
}

#[test]
fn a_bare_failure_is_the_failure_arm_without_attributes() {
    macro_rules! check {
        ($($procedure:ident $result:ty),*) => {$(
            let result: $result = Err(Status::Stale.into());
            let bare =
                BareFailure { procedure: Procedure::$procedure, status: Status::Stale };
            assert_eq!(encoded(&bare), encoded(&result), "{}", bare.procedure.name());
        )*};
    }
    check!(Getattr GetattrResult, Setattr SetattrResult, Lookup LookupResult);
    check!(Access AccessResult, Readlink ReadlinkResult, Read ReadResult, Write WriteResult);
    check!(Create CreateResult, Mkdir MkdirResult, Symlink SymlinkResult, Mknod MknodResult);
    check!(Remove RemoveResult, Rmdir RmdirResult, Rename RenameResult, Link LinkResult);
    check!(Readdir ReaddirResult, Readdirplus ReaddirplusResult, Fsstat FsstatResult);
    check!(Fsinfo FsinfoResult, Pathconf PathconfResult, Commit CommitResult);
    let null = BareFailure { procedure: Procedure::Null, status: Status::Stale };
    assert!(encoded(&null).is_empty());
}
