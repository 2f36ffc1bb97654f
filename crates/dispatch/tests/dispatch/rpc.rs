//! Calls that are refused before any file system is called.

use crate::fixture::{Client, Fixture, Sent, at, local};
use bytes::Bytes;
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{self, GETATTR3args, MKDIR3args, NFS_PROGRAM, nfs_fh3, sattr3};
use nfs3_types::rpc::{accept_stat_data, auth_flavor, auth_stat, opaque_auth, rejected_reply};
use nfs3_types::xdr_codec::{Opaque, Void};

const MOUNT: u32 = nfs3_types::mount::PROGRAM;

fn send(fixture: &mut Fixture, client: &Client, target: (u32, u32, u32)) -> Sent {
    let record = client.record(client.next_xid(), target, &Void);
    fixture.send_record(client, record)
}

#[test]
fn null_of_both_programs_needs_no_credentials() {
    let mut fixture = Fixture::new();
    let short = opaque_auth { flavor: auth_flavor::AUTH_SHORT, body: Opaque::borrowed(b"1234") };
    for client in [
        local(),
        Client::with_credential("127.0.0.1", opaque_auth::default()),
        Client::with_credential("203.0.113.9", short),
    ] {
        for program in [nfs3::PROGRAM, MOUNT] {
            let Void = send(&mut fixture, &client, (program, 3, 0)).reply();
        }
    }
}

#[test]
fn another_version_is_told_which_one_there_is() {
    let mut fixture = Fixture::new();
    for target in [(nfs3::PROGRAM, 2, 0), (nfs3::PROGRAM, 4, 0), (MOUNT, 1, 1), (MOUNT, 4, 0)] {
        let status = send(&mut fixture, &local(), target).accept_status();
        let expected = matches!(status, accept_stat_data::PROG_MISMATCH { low: 3, high: 3 });
        assert!(expected, "{target:?}: {status:?}");
    }
}

#[test]
fn unknown_programs_and_procedures_are_told_apart() {
    let mut fixture = Fixture::new();
    let status = send(&mut fixture, &local(), (100_021, 4, 0)).accept_status();
    assert!(matches!(status, accept_stat_data::PROG_UNAVAIL));
    for target in [(nfs3::PROGRAM, 3, 22), (MOUNT, 3, 6)] {
        let status = send(&mut fixture, &local(), target).accept_status();
        assert!(matches!(status, accept_stat_data::PROC_UNAVAIL), "{target:?}");
    }
}

#[test]
fn arguments_that_end_early_or_go_on_are_garbage() {
    let mut fixture = Fixture::new();
    let status = send(&mut fixture, &local(), (nfs3::PROGRAM, 3, 1)).accept_status();
    assert!(matches!(status, accept_stat_data::GARBAGE_ARGS));
    let target = (nfs3::PROGRAM, 3, NFS_PROGRAM::NFSPROC3_GETATTR as u32);
    let args = GETATTR3args { object: nfs_fh3 { data: Opaque::borrowed(&[0; 28]) } };
    let mut record = local().record(9, target, &args).to_vec();
    record.extend([0; 4]);
    let status = fixture.send_record(&local(), record.into()).accept_status();
    assert!(matches!(status, accept_stat_data::GARBAGE_ARGS));
}

#[test]
fn flavors_that_are_not_served_are_refused_as_their_case_demands() {
    let mut fixture = Fixture::new();
    for (flavor, expected) in [
        (auth_flavor::AUTH_SHORT, auth_stat::AUTH_REJECTEDCRED),
        (auth_flavor::AUTH_DES, auth_stat::AUTH_TOOWEAK),
    ] {
        let credential = opaque_auth { flavor, body: Opaque::borrowed(b"12345678") };
        let client = Client::with_credential("127.0.0.1", credential);
        for target in [(nfs3::PROGRAM, 3, 1), (MOUNT, 3, 1)] {
            match send(&mut fixture, &client, target).rejection() {
                rejected_reply::AUTH_ERROR(status) => assert_eq!(status, expected),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A NULL with RPCSEC_GSS begins a context, and there are none.
#[test]
fn a_null_that_begins_a_context_is_refused() {
    let mut fixture = Fixture::new();
    let credential = opaque_auth { flavor: auth_flavor::AUTH_DES, body: Opaque::borrowed(b"1234") };
    let client = Client::with_credential("127.0.0.1", credential);
    for program in [nfs3::PROGRAM, MOUNT] {
        let mut record = client.record(9, (program, 3, 0), &Void).to_vec();
        assert!(fixture.send_record(&client, record.clone().into()).is_answered());
        assert_eq!(std::mem::replace(&mut record[27], 6), 3, "where the flavor stands");
        match fixture.send_record(&client, record.into()).rejection() {
            rejected_reply::AUTH_ERROR(status) => assert_eq!(status, auth_stat::AUTH_TOOWEAK),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn another_version_of_rpc_itself_is_refused() {
    let mut fixture = Fixture::new();
    let mut record = local().record(9, (nfs3::PROGRAM, 3, 0), &Void).to_vec();
    record[11] = 3;
    match fixture.send_record(&local(), record.into()).rejection() {
        rejected_reply::RPC_MISMATCH { low: 2, high: 2 } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_call_is_dropped_silently() {
    let mut fixture = Fixture::new();
    for record in [Bytes::new(), Bytes::from_static(&[0; 7]), Bytes::from_static(&[1; 40])] {
        assert!(fixture.send_record(&local(), record).is_dropped_silently());
    }
}

/// A connection that gets only bare replies has not worked.
#[test]
fn what_no_file_system_has_answered_is_told_from_what_one_has() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let stranger = Client::root("203.0.113.9");
    let path = dirpath(Opaque::borrowed(b"/data"));
    let mnt = (MOUNT, 3, 1);
    let nfs = |procedure: NFS_PROGRAM| (nfs3::PROGRAM, nfs3::VERSION, procedure as u32);
    let getattr = GETATTR3args { object: root.clone() };
    let mkdir = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
    for (client, is_bare) in [(&local(), false), (&stranger, true)] {
        for record in [
            client.record(1, nfs(NFS_PROGRAM::NFSPROC3_GETATTR), &getattr),
            client.record(2, nfs(NFS_PROGRAM::NFSPROC3_MKDIR), &mkdir),
            client.record(3, nfs(NFS_PROGRAM::NFSPROC3_MKDIR), &mkdir),
            client.record(4, mnt, &path),
        ] {
            assert_eq!(fixture.send_record(client, record).is_bare(), is_bare);
        }
    }
    for target in
        [(nfs3::PROGRAM, 3, 0), (nfs3::PROGRAM, 3, 22), (nfs3::PROGRAM, 3, 1), (MOUNT, 3, 2)]
    {
        assert!(send(&mut fixture, &local(), target).is_bare(), "{target:?}");
    }
    fixture.data.gate().lose();
    let lost = local().record(5, nfs(NFS_PROGRAM::NFSPROC3_GETATTR), &getattr);
    assert!(!fixture.send_record(&local(), lost).is_bare(), "it was asked");
}
