//! Clients that disconnect and return.

use nfs3_types::nfs3::{MKDIR3args, MKDIR3res, NFS_PROGRAM, REMOVE3args, REMOVE3res, sattr3};

use crate::fixture::{Fixture, at, record, with_default};
use crate::large_payload;

async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn a_call_repeated_on_a_new_connection_gets_the_first_answer() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        large_payload::make(&mut client, &root, 10).await;
        let args = REMOVE3args { object: at(&root, "large") };
        let call = record(77, NFS_PROGRAM::NFSPROC3_REMOVE, &args);
        for _ in 0..3 {
            let mut raw = fixture.raw().await;
            raw.send(&call).await;
            raw.results::<REMOVE3res>(77).await.unwrap();
        }
        assert_eq!(fixture.handle.reply_cache_counters().hits, 2);
    });
}

#[test]
fn a_change_goes_on_when_its_client_hangs_up_and_is_answered_when_he_is_back() {
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        fixture.data.gate().close();
        let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
        let call = record(78, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
        let mut raw = fixture.raw().await;
        raw.send(&call).await;
        until(|| fixture.data.executed() == 1).await;
        drop(raw);
        let mut raw = fixture.raw().await;
        raw.send(&call).await;
        until(|| fixture.handle.reply_cache_counters().in_progress_hits == 1).await;
        fixture.data.gate().open();
        raw.results::<MKDIR3res>(78).await.unwrap();
        assert_eq!(fixture.data.executed(), 1);
    });
}

#[test]
fn a_client_that_says_that_it_is_done_still_gets_its_answers() {
    use tokio::io::AsyncWriteExt;
    with_default(async |fixture: Fixture| {
        let (_client, root) = fixture.mounted().await;
        fixture.data.gate().close();
        let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
        let mut raw = fixture.raw().await;
        raw.send(&record(1, NFS_PROGRAM::NFSPROC3_MKDIR, &args)).await;
        raw.stream.shutdown().await.expect("our side is closed");
        until(|| fixture.data.executed() == 1).await;
        fixture.data.gate().open();
        raw.results::<MKDIR3res>(1).await.unwrap();
        assert!(raw.reply().await.is_none(), "then the server closes too");
    });
}

#[test]
fn a_client_that_leaves_within_a_record_harms_nobody() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        for length in [1, 4, 30, 100] {
            let args = MKDIR3args { where_: at(&root, "made"), attributes: sattr3::default() };
            let mut raw = fixture.raw().await;
            raw.send(&record(1, NFS_PROGRAM::NFSPROC3_MKDIR, &args)[..length]).await;
        }
        large_payload::make(&mut client, &root, 10).await;
        assert_eq!(fixture.data.executed(), 2, "a create and a write");
    });
}
