//! A repeated call is answered again and not executed again.

use crate::fixture::{Client, Fixture, at, local, refusal};
use nfs3_types::nfs3::{
    COMMIT3args, COMMIT3res, NFS_PROGRAM, REMOVE3args, REMOVE3res, SETATTR3args, SETATTR3res,
    WRITE3args, WRITE3res, nfs_fh3, nfsstat3, sattr3, stable_how,
};
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;

fn write<'a>(file: &nfs_fh3, data: &'a [u8]) -> WRITE3args<'a> {
    WRITE3args {
        file: file.clone(),
        offset: 0,
        count: data.len() as u32,
        stable: stable_how::FILE_SYNC,
        data: Opaque::borrowed(data),
    }
}

#[test]
fn a_repeated_remove_is_answered_with_success_again() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.create(&local(), &root, "file");
    let args = REMOVE3args { object: at(&root, "file") };
    let first = fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    let executed = fixture.data.executed();
    let second = fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    assert_eq!(refusal(second.reply::<REMOVE3res>()), nfsstat3::NFS3_OK);
    assert_eq!(first.bytes(), second.bytes());
    assert_eq!(fixture.data.executed(), executed);
    let third: REMOVE3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    assert_eq!(refusal(third), nfsstat3::NFS3ERR_NOENT);
}

#[test]
fn a_late_repetition_of_a_write_does_not_destroy_what_came_after_it() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    fixture.send(&local(), 1_000, NFS_PROGRAM::NFSPROC3_WRITE, &write(&file, b"old!"));
    fixture.send(&local(), 1_001, NFS_PROGRAM::NFSPROC3_WRITE, &write(&file, b"new!"));
    let late = fixture.send(&local(), 1_000, NFS_PROGRAM::NFSPROC3_WRITE, &write(&file, b"old!"));
    assert_eq!(refusal(late.reply::<WRITE3res>()), nfsstat3::NFS3_OK);
    let args = nfs3_types::nfs3::READ3args { file, offset: 0, count: 10 };
    let read: nfs3_types::nfs3::READ3res<'_> =
        fixture.call(&local(), NFS_PROGRAM::NFSPROC3_READ, &args);
    assert_eq!(*read.unwrap().data, *b"new!");
}

#[test]
fn a_call_with_an_old_number_and_other_arguments_is_a_new_call() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let before = fixture.data.executed();
    for data in [b"1111", b"2222"] {
        fixture.send(&local(), 7, NFS_PROGRAM::NFSPROC3_WRITE, &write(&file, data));
    }
    assert_eq!(fixture.data.executed(), before + 2);
}

#[test]
fn a_new_stamp_does_not_make_a_new_call_but_another_user_or_client_does() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let client = |address: &str, stamp, uid| {
        let machinename = Opaque::borrowed(b"machine");
        let user = auth_unix { stamp, machinename, uid, gid: 0, gids: vec![] };
        Client::with_credential(address, opaque_auth::auth_unix(&user))
    };
    let set = |mode| sattr3 { mode: nfs3_types::nfs3::Nfs3Option::Some(mode), ..sattr3::default() };
    let args = SETATTR3args {
        object: file,
        new_attributes: set(0o666),
        guard: nfs3_types::nfs3::Nfs3Option::None,
    };
    let mut executed = Vec::new();
    for client in [
        client("127.0.0.1", 1, 0),
        client("127.0.0.1", 2, 0),
        client("127.0.0.1", 1, 5),
        client("127.0.0.2", 1, 0),
    ] {
        let before = fixture.data.executed();
        let sent = fixture.send(&client, 50, NFS_PROGRAM::NFSPROC3_SETATTR, &args);
        let _: SETATTR3res = sent.reply();
        executed.push(fixture.data.executed() - before);
    }
    assert_eq!(executed, [1, 0, 1, 1]);
}

/// Number of calls of one user with these groups, which differ in nothing else, that are executed,
/// and the number when all of them are repeated.
fn executed_with_groups(groups: &[(u32, &[u32])]) -> [u64; 2] {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let args = SETATTR3args {
        object: file,
        new_attributes: sattr3::default(),
        guard: nfs3_types::nfs3::Nfs3Option::None,
    };
    [(); 2].map(|()| {
        let before = fixture.data.executed();
        for &(gid, gids) in groups {
            let client = Client::user("127.0.0.1", 0, gid, gids);
            let sent = fixture.send(&client, 50, NFS_PROGRAM::NFSPROC3_SETATTR, &args);
            let _: SETATTR3res = sent.reply();
        }
        fixture.data.executed() - before
    })
}

/// Each differs from the one before in one group.
const GROUPS: [(u32, &[u32]); 6] =
    [(0, &[]), (9, &[]), (9, &[9]), (9, &[10]), (9, &[10, 9]), (9, &[9, 10])];

#[test]
fn a_user_with_another_group_or_other_groups_is_another_caller() {
    assert_eq!(executed_with_groups(&GROUPS), [GROUPS.len() as u64, 0]);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn callers_that_are_known_without_their_groups_are_noticed() {
    use dispatch::planted::{Bug, plant};

    for (bug, callers) in [(Bug::UserAlone, 1), (Bug::FirstGroupAlone, 2)] {
        plant(Some(bug));
        let executed = executed_with_groups(&GROUPS);
        plant(None);
        assert_eq!(executed, [callers, 0], "{bug:?}");
    }
}

#[test]
fn a_client_is_the_same_over_ipv4_and_over_an_ipv6_socket() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.create(&local(), &root, "file");
    let args = REMOVE3args { object: at(&root, "file") };
    for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
        let sent = fixture.send(&Client::root(address), 9, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
        assert_eq!(refusal(sent.reply::<REMOVE3res>()), nfsstat3::NFS3_OK, "{address}");
    }
}

#[test]
fn a_repetition_of_a_running_call_gets_the_same_answer_and_runs_nothing() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.create(&local(), &root, "file");
    let before = fixture.data.executed();
    fixture.data.gate().close();
    let args = REMOVE3args { object: at(&root, "file") };
    let mut first = fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    let mut second = fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    assert!(!first.is_answered() && !second.is_answered());
    fixture.data.gate().open();
    fixture.poll(&mut first);
    fixture.poll(&mut second);
    assert_eq!(first.bytes(), second.bytes());
    assert_eq!(refusal(first.reply::<REMOVE3res>()), nfsstat3::NFS3_OK);
    assert_eq!(fixture.data.executed(), before + 1);
    assert_eq!(fixture.dispatcher.reply_cache_counters().in_progress_hits, 1);
}

#[test]
fn a_repetition_after_the_client_hung_up_gets_the_answer_of_the_first() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.create(&local(), &root, "file");
    fixture.data.gate().close();
    let args = REMOVE3args { object: at(&root, "file") };
    drop(fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args));
    let mut second = fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    fixture.data.gate().open();
    fixture.poll(&mut second);
    assert_eq!(refusal(second.reply::<REMOVE3res>()), nfsstat3::NFS3_OK);
}

#[test]
fn a_commit_is_executed_each_time() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let file = fixture.create(&local(), &root, "file");
    let before = fixture.data.executed();
    for _ in 0..2 {
        let args = COMMIT3args { file: file.clone(), offset: 0, count: 0 };
        let sent = fixture.send(&local(), 3, NFS_PROGRAM::NFSPROC3_COMMIT, &args);
        sent.reply::<COMMIT3res>().unwrap();
    }
    assert_eq!(fixture.data.executed(), before + 2);
}

#[test]
fn outside_of_the_window_a_repetition_is_a_new_call() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.create(&local(), &root, "file");
    let args = REMOVE3args { object: at(&root, "file") };
    fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    fixture.clock.0.set(601_000_000_000);
    let late = fixture.send(&local(), 99, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    assert_eq!(refusal(late.reply::<REMOVE3res>()), nfsstat3::NFS3ERR_NOENT);
}
