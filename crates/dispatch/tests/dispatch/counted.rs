//! Counters of calls against a client that makes known ones.

use dispatch::counts::{CallCounts, CallKind};
use dispatch::{Exports, Limits, Refusals};
use nfs::nfs3::{Procedure, Status};
use nfs3_types::mount::MOUNT_PROGRAM;
use nfs3_types::nfs3::{GETATTR3args, MKDIR3args, NFS_PROGRAM, RMDIR3args, RMDIR3res, sattr3};
use nfs3_types::rpc::opaque_auth;
use nfs3_types::xdr_codec::Void;

use crate::fixture::{Client, Fixture, at, local};

/// Bytes of a record mark.
const MARK: u64 = 4;

/// Number of calls of each procedure that was called.
fn calls(counts: &CallCounts) -> Vec<(Procedure, u64)> {
    let all = counts.latencies().map(|(procedure, latencies)| (procedure, latencies.calls()));
    all.filter(|&(_, calls)| calls > 0).collect()
}

fn errors(counts: &CallCounts) -> Vec<(Status, u64)> {
    counts.errors().filter(|&(_, count)| count > 0).collect()
}

#[test]
fn calls_are_counted_for_their_volume_by_procedure_and_status() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let other = fixture.mount(&local(), "/other").expect("a mount");
    fixture.mkdir(&local(), &root, "made");
    fixture.getattr(&local(), &root).unwrap();
    fixture.getattr(&local(), &root).unwrap();
    let stale = fixture.mkdir(&local(), &root, "stale");
    let args = RMDIR3args { object: at(&root, "stale") };
    let _: RMDIR3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_RMDIR, &args);
    let refused = fixture.getattr(&local(), &stale);
    assert!(matches!(refused, nfs3_types::nfs3::Nfs3Result::Err(_)));
    fixture.getattr(&Client::root("10.0.0.1"), &other);
    let counts = fixture.dispatcher.counts();
    let [data, quiet] = &counts.volumes[..] else { panic!("two volumes") };
    assert_eq!(
        calls(data),
        [(Procedure::Getattr, 3), (Procedure::Mkdir, 2), (Procedure::Rmdir, 1)]
    );
    assert_eq!(errors(data), [(Status::Stale, 1)]);
    assert_eq!((calls(quiet), errors(quiet)), (vec![], vec![]), "a stranger is none of its own");
    assert_eq!(calls(&counts.no_volume), [(Procedure::Getattr, 1)]);
    assert_eq!(errors(&counts.no_volume), [(Status::Access, 1)]);
    assert_eq!(counts.mount[MOUNT_PROGRAM::MOUNTPROC3_MNT as usize], 2);
}

#[test]
fn bytes_are_those_of_the_calls_and_replies() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let target = (nfs3_types::nfs3::PROGRAM, nfs3_types::nfs3::VERSION, 1);
    let record = local().record(7, target, &GETATTR3args { object: root });
    let sent = fixture.send_record(&local(), record.clone());
    let counts = fixture.dispatcher.counts();
    let data = &counts.volumes[0];
    let bytes = (data.received_bytes(), data.sent_bytes());
    assert_eq!(bytes, (record.len() as u64, sent.bytes().len() as u64 + MARK));
}

#[test]
fn a_call_takes_from_its_arrival_to_its_reply() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.data.gate().close();
    let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
    let mut sent = fixture.send(&local(), 7, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    assert_eq!(calls(&fixture.dispatcher.counts().volumes[0]), [], "it is not answered");
    fixture.clock.0.set(3_000_000);
    fixture.data.gate().open();
    fixture.poll(&mut sent);
    let counts = fixture.dispatcher.counts();
    let mut latencies = counts.volumes[0].latencies();
    let (_, mkdir) = latencies.nth(Procedure::Mkdir as usize).expect("it is there");
    assert_eq!((mkdir.calls(), mkdir.sum().as_millis()), (1, 3));
    assert_eq!(mkdir.buckets()[6], 1, "above 2.5 ms and within 5 ms");
}

#[test]
fn a_call_of_another_version_is_rejected_and_refusals_are_counted() {
    let mut fixture = Fixture::new();
    let record = local().record(7, (nfs3_types::nfs3::PROGRAM, 4, 1), &Void);
    fixture.send_record(&local(), record);
    let weak = Client::with_credential(
        "127.0.0.1",
        opaque_auth { flavor: nfs3_types::rpc::auth_flavor::AUTH_SHORT, ..opaque_auth::default() },
    );
    let record = weak.record(8, (nfs3_types::nfs3::PROGRAM, 3, 1), &Void);
    fixture.send_record(&weak, record);
    assert!(fixture.mount(&Client::root("10.0.0.1"), "/data").is_err());
    assert!(fixture.mount(&local(), "/nothing").is_err());
    let counts = fixture.dispatcher.counts();
    assert_eq!(counts.rejected, 2);
    assert_eq!(calls(&counts.no_volume), [], "nor is it a GETATTR");
    let refusals = Refusals { rule: 1, path: 1, protocol: 1 };
    assert_eq!(fixture.dispatcher.refusals(), refusals);
}

#[test]
fn calls_that_wait_for_a_turn_are_counted_with_their_time() {
    let limits = Limits { calls: 1, ..Limits::default() };
    let mut fixture = Fixture::with(Exports::default(), limits);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    fixture.data.gate().close();
    let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
    let mut first = fixture.send(&local(), 7, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
    let args = GETATTR3args { object: root };
    let mut second = fixture.send(&local(), 8, NFS_PROGRAM::NFSPROC3_GETATTR, &args);
    let counts = fixture.dispatcher.counts();
    assert_eq!((counts.waiting, counts.turn_waits), (1, 1));
    fixture.clock.0.set(5_000);
    fixture.data.gate().open();
    fixture.poll(&mut first);
    fixture.poll(&mut second);
    let counts = fixture.dispatcher.counts();
    assert_eq!((counts.waiting, counts.turn_waits, counts.turn_wait.as_nanos()), (0, 1, 5_000));
}

#[test]
fn a_connection_is_listed_until_it_ends() {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/other").expect("a mount");
    let session = fixture.dispatcher.connect(local().address);
    let target = (nfs3_types::nfs3::PROGRAM, nfs3_types::nfs3::VERSION, 1);
    let record = local().record(7, target, &GETATTR3args { object: root });
    fixture.clock.0.set(1_000);
    fixture.call_on(&session, record).expect("a reply");
    let connected = fixture.dispatcher.connected();
    assert_eq!((connected.total, connected.listed.len()), (1, 1), "single calls are over");
    let one = &connected.listed[0];
    assert_eq!((one.client, one.calls, one.errors), (local().address, 1, 0));
    assert_eq!((&one.volumes[..], one.last), (&[1][..], CallKind::Nfs(Procedure::Getattr)));
    assert_eq!((one.age.as_nanos(), one.idle.map(|idle| idle.as_nanos())), (1_000, Some(0)));
    drop(session);
    assert_eq!(fixture.dispatcher.connected().total, 0);
}
