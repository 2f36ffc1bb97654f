//! The end in good order.

use nfs3_types::nfs3::{GETATTR3args, GETATTR3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, sattr3};

use crate::house::{House, at, record, with_default};

#[test]
fn what_was_read_is_answered_and_the_volume_is_shut_down() {
    with_default(async |house: House| {
        let (_client, root) = house.mounted().await;
        house.data.gate().close();
        let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
        let mut raw = house.raw().await;
        raw.send(&record(1, NFS_PROGRAM::NFSPROC3_MKDIR, &args)).await;
        while house.data.executed() == 0 {
            tokio::task::yield_now().await;
        }
        house.handle.stop();
        tokio::task::yield_now().await;
        assert!(!house.data.stopped());
        house.data.gate().open();
        raw.results::<MKDIR3res>(1).await.unwrap();
        assert!(raw.reply().await.is_none());
        house.running.await.expect("no panic").expect("a good end");
        assert!(house.data.stopped());
    });
}

#[test]
fn an_idle_connection_is_closed_at_the_stop() {
    with_default(async |house: House| {
        let (_client, root) = house.mounted().await;
        let call = record(1, NFS_PROGRAM::NFSPROC3_GETATTR, &GETATTR3args { object: root });
        let mut raw = house.raw().await;
        raw.send(&call).await;
        raw.results::<GETATTR3res>(1).await.unwrap();
        house.handle.stop();
        house.running.await.expect("no panic").expect("a good end");
        assert!(raw.reply().await.is_none());
    });
}

#[test]
fn clients_that_only_stay_connected_do_not_hold_up_the_end() {
    with_default(async |house: House| {
        let mut idle = Vec::new();
        for _ in 0..20 {
            idle.push(house.connect().await);
        }
        house.handle.stop();
        house.running.await.expect("no panic").expect("a good end");
    });
}
