//! Many calls on a connection before the first reply is read; calls in pieces.

use std::collections::BTreeSet;

use nfs3_types::nfs3::{
    GETATTR3args, GETATTR3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, READ3args, READ3res, sattr3,
};
use nfs3_types::xdr_codec::Unpack;

use crate::fixture::{
    Fixture, Raw, at, call, ephemeral, fragments, record, with_default, with_server,
};
use crate::large_payload;

async fn all_replies(raw: &mut Raw, count: u32) -> Vec<(u32, Vec<u8>)> {
    let mut replies = Vec::new();
    for _ in 0..count {
        replies.push(raw.reply().await.expect("a reply to each call"));
    }
    let numbers: BTreeSet<u32> = replies.iter().map(|(xid, _)| *xid).collect();
    assert_eq!(numbers, (0..count).collect());
    replies
}

#[test]
fn a_thousand_calls_in_one_go_are_all_answered_once() {
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        let args = GETATTR3args { object: root };
        let calls: Vec<u8> =
            (0..1_000).flat_map(|xid| record(xid, NFS_PROGRAM::NFSPROC3_GETATTR, &args)).collect();
        let mut raw = fixture.raw().await;
        raw.send(&calls).await;
        for (_, results) in all_replies(&mut raw, 1_000).await {
            let (result, _) = GETATTR3res::unpack(&mut &results[..]).expect("results");
            assert_eq!(result.unwrap().obj_attributes.fileid, 2);
        }
    });
}

#[test]
fn one_call_at_a_time_is_a_limit_that_slows_and_does_not_refuse() {
    let mut config = ephemeral();
    config.limits.calls_per_connection = 1;
    let settings = server::Settings { config, ..server::Settings::default() };
    with_server(settings, async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        let names: Vec<String> = (0..50).map(|number| format!("dir{number}")).collect();
        let mut raw = fixture.raw().await;
        for (xid, name) in names.iter().enumerate() {
            let args = MKDIR3args { where_: at(&root, name), attributes: sattr3::default() };
            raw.send(&record(xid as u32, NFS_PROGRAM::NFSPROC3_MKDIR, &args)).await;
        }
        for xid in 0..50 {
            raw.results::<MKDIR3res>(xid).await.unwrap();
        }
    });
}

#[test]
fn a_call_in_many_fragments_is_the_same_call() {
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        let mut raw = fixture.raw().await;
        let args = GETATTR3args { object: root };
        for (xid, size) in [1, 3, 7, 64, 100].into_iter().enumerate() {
            let call = call(xid as u32, NFS_PROGRAM::NFSPROC3_GETATTR, &args);
            raw.send(&fragments(&call, size)).await;
            raw.results::<GETATTR3res>(xid as u32).await.unwrap();
        }
    });
}

#[test]
fn a_call_that_arrives_byte_by_byte_is_the_same_call() {
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        let mut raw = fixture.raw().await;
        raw.stream.set_nodelay(true).expect("a socket");
        let args = GETATTR3args { object: root };
        for byte in record(9, NFS_PROGRAM::NFSPROC3_GETATTR, &args) {
            raw.send(&[byte]).await;
            tokio::task::yield_now().await;
        }
        raw.results::<GETATTR3res>(9).await.unwrap();
    });
}

#[test]
fn a_client_that_does_not_take_its_replies_does_not_keep_others_from_theirs() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let file = large_payload::make(&mut client, &root, 1 << 20).await;
        let args = READ3args { file, offset: 0, count: 1 << 20 };
        let mut lazy = fixture.raw().await;
        for xid in 0..200 {
            lazy.send(&record(xid, NFS_PROGRAM::NFSPROC3_READ, &args)).await;
        }
        for _ in 0..100 {
            assert_eq!(client.read(&args).await.expect("a reply").unwrap().count, 1 << 20);
        }
        for (_, results) in all_replies(&mut lazy, 200).await {
            let (result, _) = READ3res::unpack(&mut &results[..]).expect("results");
            assert_eq!(result.unwrap().data.len(), 1 << 20);
        }
    });
}
