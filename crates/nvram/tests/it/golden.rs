//! An NVRAM and its disk as this version of the format leaves them at a power failure: every later
//! version must be able to bring them back.
//!
//! `golden/v1.disks` has both in a sparse text (see [`sim::sparse`]), and `golden/v1.volume` what
//! is read through the NVRAM afterwards, in the same form. They are never made again for a version
//! that has been released: a new one gets files of its own beside these, made with
//!
//! ```console
//! $ DURAMEN_GOLDEN=1 cargo test -p nvram --test it golden
//! ```

use std::path::PathBuf;

use block::{BlockDevice, Buffer, Durability};
use futures::future::join_all;
use nvram::{Nvram, Recovered};
use sim::{Choice, Honesty, Image, Platter, sparse};

use crate::world::{Platters, SECTOR, VOLUME, World, made};

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).join(name)
}

/// Writes some sectors of one byte.
async fn fill(device: &Nvram, byte: u8, first: u64, count: u64, durability: Durability) {
    let data = vec![byte; (count * SECTOR) as usize].into();
    device.write(first * SECTOR, vec![data], durability).await.expect("there is room");
}

/// Entries of every kind: of whole blocks and of sectors, superseded and void, durable and not,
/// one that is lost, one that a cut has torn.
fn make() -> [Image; 2] {
    use Durability::{Plain, Through};

    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        for block in 0..40 {
            fill(&device, 0x11, block * 8, 8, Through).await;
        }
        fill(&device, 0x22, 0, 16, Through).await;
        fill(&device, 0x33, 35, 3, Through).await;
        fill(&device, 0x44, 3, 7, Plain).await;
        device.flush().await.expect("nothing fails");
        device.discard(64 * SECTOR, 16 * SECTOR).await.expect("nothing fails");
        let writes = (0..6).map(|block| fill(&device, 0x55, 800 + block * 8, 5, Through));
        join_all(writes).await;
        // Nobody has heard of these.
        fill(&device, 0x66, 808, 8, Plain).await;
        fill(&device, 0x77, 1600, 8, Plain).await;
    });
    let memory = world.memory.platter();
    // The sequence of the last entries is above all that is durable: their second halves are lost.
    let torn = (1..100).find_map(|seed| {
        let image = memory.image(&Choice::mixture(&memory, &mut sim::Prng::new(seed)));
        let below = world.below.platter().durable_image();
        (recovered(&[below.clone(), image.clone()]).1.torn > 0).then_some([below, image])
    });
    let [below, mut memory] = torn.expect("a cut tears one");
    // A rotten entry that was durable: that of the first block of the six.
    let layout = nvram::format::Layout::of(memory.size()).expect("it was made");
    let id = crate::world::ID;
    let header = |buffer| {
        let mut sector = [0; SECTOR as usize];
        memory.read(layout.slot(buffer), &mut sector);
        nvram::format::Header::decode(&sector, &id)
    };
    let rotten = (0..layout.buffers).find(|&it| header(it).is_some_and(|it| it.place == 100));
    memory.write(layout.slot(rotten.expect("it is there")) + SECTOR, &[0x99; 8]);
    [below, memory]
}

/// The volume as it is read through the NVRAM, lost sectors full of 0xee, and what was found.
fn recovered(images: &[Image]) -> (Image, Recovered) {
    let [below, memory] = images else { panic!("there are two") };
    let [below, memory] = [below, memory].map(|it| Platter::new(it.clone(), Honesty::Honest));
    let world = World::new(2, &Platters { below, memory });
    world.executor.block_on(async {
        let (device, recovered) = world.open().await;
        let mut volume = Image::zeroed(VOLUME);
        for at in (0..VOLUME).step_by(SECTOR as usize) {
            match device.read(at, Buffer::unfilled(SECTOR as usize)).await {
                Ok(bytes) => volume.write(at, &bytes),
                Err(_) => volume.write(at, &[0xee; SECTOR as usize]),
            }
        }
        (volume, recovered)
    })
}

#[test]
fn version_1_is_recovered() {
    let [disks, told] = ["v1.disks", "v1.volume"].map(path);
    if std::env::var_os("DURAMEN_GOLDEN").is_some() {
        let images = make();
        let text = sparse::write(["below", "memory"].into_iter().zip(&images));
        std::fs::write(&disks, text).expect("the folder is there");
        let text = sparse::write([("volume", &recovered(&images).0)]);
        std::fs::write(&told, text).expect("the folder is there");
    }
    let text = std::fs::read_to_string(&disks).expect("it was made");
    assert!(text.len() < 100 << 10, "{} bytes", text.len());
    let (volume, recovered) = recovered(&sparse::read(&text));
    assert!(recovered.dirty > 0 && recovered.torn > 0 && recovered.rotten == 1, "{recovered:?}");
    let told = std::fs::read_to_string(&told).expect("it was made");
    assert_eq!(sparse::write([("volume", &volume)]), told);
}
