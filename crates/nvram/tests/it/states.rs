//! Rot, other volumes, and going down and up.

use block::{BlockDevice, Buffer, Durability};
use nvram::OpenError;
use nvram::format::{Layout, SECTOR as HEADER};

use crate::world::{ID, MEMORY, Model, World, made};

/// A block that only the NVRAM has rots there. Gives what is read of its two halves, of which one
/// was written over afterwards.
fn halves_of_a_rotten_block() -> [Option<u8>; 2] {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        let block = |byte: u8, length: usize| vec![vec![byte; length].into()];
        device.write(0, block(1, 4096), Durability::Through).await.expect("nothing fails");
        device.write(8192, block(2, 4096), Durability::Through).await.expect("nothing fails");
        device.flush().await.expect("nothing fails");
        device.write(4096, block(3, 4096), Durability::Through).await.expect("nothing fails");
    });
    let platters = world.contents();
    let layout = Layout::of(MEMORY).expect("it is large enough");
    let world = World::new(2, &platters);
    // The first buffer has the first block.
    world.memory.rot(layout.slot(0) + HEADER + 100, 3);
    world.executor.block_on(async {
        let (device, recovered) = world.open().await;
        assert!(recovered.rotten <= 1);
        let half = vec![vec![9; 2048].into()];
        device.write(2048, half, Durability::Through).await.expect("there is room");
        let mut halves = [None; 2];
        for (half, found) in halves.iter_mut().enumerate() {
            let read = device.read(half as u64 * 2048, Buffer::unfilled(2048)).await;
            *found = read.ok().map(|bytes| bytes[0]);
        }
        let other = device.read(8192, Buffer::unfilled(4096)).await.expect("it is whole");
        assert_eq!(other[0], 2);
        halves
    })
}

#[test]
fn a_rotten_block_is_an_error_until_it_is_written() {
    assert_eq!(halves_of_a_rotten_block(), [None, Some(9)]);
    #[cfg(feature = "planted-bugs")]
    for bug in [nvram::planted::Bug::RotIsTorn, nvram::planted::Bug::ForgottenLoss] {
        assert_ne!(crate::with(bug, halves_of_a_rotten_block), [None, Some(9)], "{bug:?}");
    }
}

fn opens_with_another_id() -> Result<(), OpenError> {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (below, memory) = (world.below.clone(), world.memory.clone());
        nvram::open(below, memory, world.executor.runtime(), [6; 16]).await.map(drop)
    })
}

#[test]
fn the_nvram_of_another_volume_is_refused() {
    assert_eq!(opens_with_another_id(), Err(OpenError::Foreign));
    #[cfg(feature = "planted-bugs")]
    assert_eq!(crate::with(nvram::planted::Bug::AnyVolume, opens_with_another_id), Ok(()));
}

#[test]
fn what_is_down_stays_down_and_holds_nothing() {
    let model = Model::new();
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        assert!(model.write(&device, 3, 20, Durability::Through).await);
        assert!(device.status().dirty_bytes > 0);
        device.settle(true).await.expect("nothing fails");
        assert!(device.status().is_down && device.status().dirty_bytes == 0);
        assert!(model.write(&device, 8, 20, Durability::Through).await);
        assert_eq!(device.status().dirty_bytes, 0, "it passes by");
    });
    let world = World::new(2, &world.contents());
    world.executor.block_on(async {
        let (device, recovered) = world.open().await;
        assert!(device.status().is_down && recovered.dirty == 0);
        model.judge(&device).await;
        device.up().await.expect("nothing fails");
        assert!(model.write(&device, 10, 20, Durability::Through).await);
        assert!(device.status().dirty_bytes > 0);
        assert_eq!(device.label().id, ID);
        device.close().await.expect("nothing fails");
        assert!(device.flush().await.is_err(), "it is closed");
    });
}

#[test]
fn one_label_of_two_is_enough() {
    let platters = made();
    for label in Layout::of(MEMORY).expect("it is large enough").labels() {
        let world = World::new(1, &platters);
        world.memory.rot(label + 40, 1);
        world.executor.block_on(world.open());
    }
    let world = World::new(1, &platters);
    for label in Layout::of(MEMORY).expect("it is large enough").labels() {
        world.memory.rot(label + 40, 1);
    }
    assert!(world.executor.block_on(world.try_open()).is_err());
}
