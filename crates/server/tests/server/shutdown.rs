//! A clean end of the server.

use std::time::Duration;

use nfs3_types::nfs3::{
    GETATTR3args, GETATTR3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, READ3args, sattr3,
};

use crate::fixture::{Fixture, at, record, with_default};
use crate::large_payload;

#[test]
fn what_was_read_is_answered_and_the_volume_is_shut_down() {
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        fixture.data.gate().close();
        let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
        let mut raw = fixture.raw().await;
        raw.send(&record(1, NFS_PROGRAM::NFSPROC3_MKDIR, &args)).await;
        while fixture.data.executed() == 0 {
            tokio::task::yield_now().await;
        }
        fixture.handle.stop();
        tokio::task::yield_now().await;
        assert!(!fixture.data.stopped());
        fixture.data.gate().open();
        raw.results::<MKDIR3res>(1).await.unwrap();
        assert!(raw.reply().await.is_none());
        fixture.running.await.expect("no panic").expect("a good end");
        assert!(fixture.data.stopped());
    });
}

#[test]
fn an_idle_connection_is_closed_at_the_stop() {
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        let call = record(1, NFS_PROGRAM::NFSPROC3_GETATTR, &GETATTR3args { object: root });
        let mut raw = fixture.raw().await;
        raw.send(&call).await;
        raw.results::<GETATTR3res>(1).await.unwrap();
        fixture.handle.stop();
        fixture.running.await.expect("no panic").expect("a good end");
        assert!(raw.reply().await.is_none());
    });
}

#[test]
fn replies_that_a_peer_is_slow_to_take_are_still_delivered() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let file = large_payload::make(&mut client, &root, 1 << 20).await;
        let args = READ3args { file, offset: 0, count: 1 << 20 };
        let mut raw = fixture.raw().await;
        for xid in 0..20 {
            raw.send(&record(xid, NFS_PROGRAM::NFSPROC3_READ, &args)).await;
        }
        raw.reply().await.expect("the first");
        fixture.handle.stop();
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert!(!fixture.running.is_finished(), "replies are on their way");
        while raw.reply().await.is_some() {}
        fixture.running.await.expect("no panic").expect("a good end");
    });
}

#[test]
fn a_change_whose_client_is_gone_ends_before_its_volume_does() {
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        fixture.data.gate().close();
        let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
        let mut raw = fixture.raw().await;
        raw.send(&record(1, NFS_PROGRAM::NFSPROC3_MKDIR, &args)).await;
        while fixture.data.executed() == 0 {
            tokio::task::yield_now().await;
        }
        raw.stream.set_zero_linger().expect("a socket");
        drop(raw); // with a reset: the server's side ends too, if it has the time to notice
        tokio::time::sleep(Duration::from_millis(100)).await;
        fixture.handle.stop();
        tokio::time::sleep(Duration::from_millis(700)).await; // longer than connections linger
        assert!(!fixture.data.stopped() && !fixture.running.is_finished());
        fixture.data.gate().open();
        fixture.running.await.expect("no panic").expect("a good end");
        assert!(fixture.data.stopped());
    });
}

#[test]
fn clients_that_only_stay_connected_do_not_hold_up_the_end() {
    with_default(async |fixture: Fixture| {
        let mut idle = Vec::new();
        for _ in 0..20 {
            idle.push(fixture.connect().await);
        }
        fixture.handle.stop();
        fixture.running.await.expect("no panic").expect("a good end");
    });
}
