//! A change that a client has seen survives a cut, even if its author's call was not answered yet.

use nfs3_types::nfs3::{nfs_fh3, stable_how};
use sim::Platter;
use torture::calls;
use torture::client::{Client, ClientOptions};
use torture::world::{Status, VOLUME, World, WorldOptions};

const LENGTH: usize = 5_000;

async fn size(client: &Client, file: &nfs_fh3) -> u64 {
    let told = client.call(&calls::getattr(file)).await.expect("a call").unwrap();
    told.obj_attributes.size
}

/// One client writes, another polls the length of the file, and as soon as a reply shows the new
/// length the power is cut. Returns the length afterwards.
fn length_after_a_cut(seed: u64) -> u64 {
    let world = World::new(seed, WorldOptions::default());
    world.start();
    assert_eq!(world.run(world.serving()), Status::Serving);
    let writer = world.client(1, ClientOptions::default());
    let reader = world.client(2, ClientOptions::default());
    let file = world.run(async {
        let root = writer.mount(VOLUME).await.expect("the volume is exported");
        let made = writer.call(&calls::create(&root, "file")).await.expect("a call");
        size(&reader, &root).await; // makes the connection
        made.unwrap().obj.unwrap()
    });
    let write = calls::write(&file, 0, vec![7; LENGTH], stable_how::FILE_SYNC);
    world.run(async {
        let seen = async { while size(&reader, &file).await == 0 {} };
        let written = async {
            writer.call(&write).await.expect("a call").unwrap();
            std::future::pending::<()>().await; // the other client has to see it
        };
        futures::future::select(std::pin::pin!(seen), std::pin::pin!(written)).await;
    });
    world.crash_to(Platter::durable_image);
    world.start();
    world.run(size(&reader, &file))
}

#[test]
fn the_size_that_a_write_gives_is_shown_when_it_is_there_for_good() {
    for seed in 0..20 {
        assert_eq!(length_after_a_cut(seed), LENGTH as u64, "seed {seed}");
    }
}
