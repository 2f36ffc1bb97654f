//! UNSTABLE data that is lost while the server runs: the disk fails, and the write verifier reports
//! it.

use nfs3_types::nfs3::{Nfs3Result, nfsstat3, stable_how};
use sim::Persistence;
use torture::calls;
use torture::client::ClientOptions;
use torture::world::{Status, VOLUME, World, WorldOptions};

/// Data may be lost at a COMMIT, which fails; a second COMMIT succeeds. Returns whether its
/// verifier is that of the write, so that the client takes its data for durable.
fn believes_after_a_failed_commit() -> bool {
    let world = World::new(3, WorldOptions::default());
    world.start();
    assert_eq!(world.run(world.serving()), Status::Serving);
    let client = world.client(1, ClientOptions::default());
    world.run(async {
        let root = client.mount(VOLUME).await.expect("the volume is exported");
        let made = client.call(&calls::create(&root, "file")).await.expect("a call");
        let file = made.unwrap().obj.unwrap();
        let old = calls::write(&file, 0, vec![1; 8192], stable_how::FILE_SYNC);
        client.call(&old).await.expect("a call").unwrap();
        let new = calls::write(&file, 0, vec![2; 8192], stable_how::UNSTABLE);
        let written = client.call(&new).await.expect("a call").unwrap();
        assert_eq!(written.committed, stable_how::UNSTABLE);
        world.disk().fail(block::Verb::Write, 1, Persistence::Once);
        let Nfs3Result::Err((status, _)) =
            client.call(&calls::commit(&file)).await.expect("a call")
        else {
            panic!("the write that it needs has failed");
        };
        assert_eq!(status, nfsstat3::NFS3ERR_IO);
        let again = client.call(&calls::commit(&file)).await.expect("a call").unwrap();
        again.verf.0 == written.verf.0
    })
}

#[test]
fn a_lost_write_changes_the_verifier() {
    assert!(!believes_after_a_failed_commit(), "it has to write again");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_verifier_that_stays_is_found() {
    vnode::planted::plant(Some(vnode::planted::Bug::KeptVerifier));
    let believes = believes_after_a_failed_commit();
    vnode::planted::plant(None);
    assert!(believes, "and so the other test fails");
}
