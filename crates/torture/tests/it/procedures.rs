//! Every procedure, made by a client without network trouble.

use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{Nfs3Option, cookieverf3, nfs_fh3, post_op_fh3, sattr3, stable_how};
use nfs3_types::xdr_codec::Opaque;
use torture::calls;
use torture::client::ClientOptions;
use torture::protocol::{Dump, Export, Mnt, MountNull, Null, Procedure, Umnt, Umntall};
use torture::world::{Status, VOLUME, World, WorldOptions};

fn handle(object: post_op_fh3) -> nfs_fh3 {
    match object {
        Nfs3Option::Some(handle) => handle,
        Nfs3Option::None => panic!("our server gives handles"),
    }
}

#[test]
fn every_procedure_of_both_programs_is_answered() {
    let world = World::new(1, WorldOptions::default());
    world.start();
    assert_eq!(world.run(world.serving()), Status::Serving, "{:?}", world.failure());
    let client = world.client(1, ClientOptions::default());
    let everything = async {
        macro_rules! ok {
            ($arguments:expr) => {
                client.call(&$arguments).await.expect("it is not refused").unwrap()
            };
        }
        client.call(&Null).await.expect("NULL");
        client.call(&MountNull).await.expect("NULL");
        let root = client.mount(VOLUME).await.expect("the volume is exported");
        assert_eq!(client.call(&Export).await.expect("EXPORT").0.len(), 1);
        assert_eq!(client.call(&Dump).await.expect("DUMP").0.len(), 1);
        let path = || dirpath(Opaque::owned(VOLUME.as_bytes().to_vec()));
        assert_eq!(Mnt(path()).0.0, Umnt(path()).0.0);
        client.call(&Umnt(path())).await.expect("UMNT");
        client.call(&Umntall).await.expect("UMNTALL");

        let file = handle(ok!(calls::create(&root, "file")).obj);
        let directory = handle(ok!(calls::mkdir(&root, "directory")).obj);
        let link = handle(ok!(calls::symlink(&root, "link", "file")).obj);
        ok!(calls::mkfifo(&root, "fifo"));
        assert_eq!(ok!(calls::lookup(&root, "file")).object, file);
        ok!(calls::access(&file, 0x3f));
        assert_eq!(ok!(calls::readlink(&link)).data.0.to_vec(), b"file");
        let verifier = ok!(calls::write(&file, 0, vec![7; 5000], stable_how::UNSTABLE)).verf;
        assert_eq!(ok!(calls::commit(&file)).verf, verifier);
        assert_eq!(ok!(calls::read(&file, 4990, 100)).data.to_vec(), [7; 10]);
        ok!(calls::setattr(&file, calls::size(3)));
        ok!(calls::setattr(
            &directory,
            sattr3 { mode: Nfs3Option::Some(0o700), ..sattr3::default() }
        ));
        assert_eq!(ok!(calls::getattr(&file)).obj_attributes.size, 3);
        ok!(calls::link(&file, &directory, "other"));
        ok!(calls::rename((&directory, "other"), (&root, "renamed")));
        ok!(calls::remove(&root, "renamed"));
        ok!(calls::rmdir(&root, "directory"));
        let names = ok!(calls::readdir(&root, 0, cookieverf3::default())).reply.entries.0.len();
        assert_eq!(names, 2 + 3, "dot, dot-dot, file, link, fifo");
        let entries = ok!(calls::readdirplus(&root, 0, cookieverf3::default())).reply.entries.0;
        assert_eq!(entries.len(), names);
        assert!(ok!(calls::fsstat(&root)).tbytes > 0);
        assert!(ok!(calls::fsinfo(&root)).rtmax > 0);
        assert_eq!(ok!(calls::pathconf(&root)).name_max, 255);
        world.stop().await;
    };
    world.run(everything);

    let calls = world.history().calls();
    assert!(calls.iter().all(|call| call.answered.is_some() && call.sent.len() == 1));
    let mut targets: Vec<_> = calls.iter().map(|call| call.target).collect();
    targets.sort_unstable();
    targets.dedup();
    assert_eq!(targets.len(), 22 + 6, "every procedure was called");
    assert!(targets.contains(&Umnt::<'static>::TARGET));
    for call in calls {
        let _ = (call.request(), call.response()); // both decode
        assert!(!call.crossed_a_crash());
    }
}
