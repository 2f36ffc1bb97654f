//! A part of the volume that stays in the NVRAM, as a log does.

use std::ops::Range;

use block::Durability;
use nvram::PinsTooMuch;
use nvram::format::SLOT;

use crate::world::{Model, SECTOR, VOLUME, World, made, made_with};

/// Bytes of an NVRAM that can pin [`RANGE`], and hardly more.
pub(crate) const MEMORY: u64 = 655 << 10;
/// Half of a block short of 64 blocks: the last one is pinned as a whole.
pub(crate) const RANGE: Range<u64> = (512 << 10)..(766 << 10);

/// Writes to a range of sectors again and again, and elsewhere more than the memory holds. Gives
/// the blocks of the range that were pinned at the end, and those that the disk had, then and after
/// everything went there.
fn blocks() -> [u64; 3] {
    let (model, world) = (Model::new(), World::new(1, &made_with(MEMORY)));
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.pin(RANGE).expect("there is room");
        let pinned = RANGE.start / SECTOR..RANGE.end / SECTOR;
        let count_below = || {
            let (contents, mut block) = (world.below.contents(), [0; 4096]);
            let starts = RANGE.step_by(4096).filter(|&start| {
                contents.read(start, &mut block);
                block.iter().any(|&byte| byte != 0)
            });
            starts.count() as u64
        };
        for round in 0..4 {
            for first in pinned.clone().step_by(20) {
                let count = 20.min(pinned.end - first);
                assert!(model.write(&device, first, count, Durability::Through).await);
                assert!(model.write(&device, first - 1_000 + round, 9, Durability::Plain).await);
            }
        }
        // A large write passes by, but for this range.
        assert!(model.write(&device, pinned.start + 8, 300, Durability::Through).await);
        let status = device.status();
        assert!(status.counts.passes == 0 && status.counts.write_backs > 0, "others went below");
        let before = count_below();
        model.compare(&device, 0, VOLUME / SECTOR).await;
        device.settle(false).await.expect("nothing fails");
        [status.pinned_bytes / 4096, before, count_below()]
    })
}

#[test]
fn pinned_blocks_go_below_with_all_others_and_not_before() {
    assert_eq!(blocks(), [64, 0, 64]);
    #[cfg(feature = "planted-bugs")]
    {
        use nvram::planted::Bug;
        assert_ne!(crate::with(Bug::LoosePins, blocks)[1], 0);
        assert_eq!(crate::with(Bug::ForgottenPins, blocks)[2], 0);
    }
}

#[test]
fn what_does_not_fit_is_not_pinned_and_the_size_that_does_is_named() {
    let world = World::new(1, &made());
    let refused = world.executor.block_on(async { world.open().await.0.pin(RANGE) });
    let PinsTooMuch { needed } = refused.expect_err("it is too small");
    let pins = |size| {
        let world = World::new(1, &made_with(size));
        world.executor.block_on(async { world.open().await.0.pin(RANGE).is_ok() })
    };
    assert!(pins(needed) && !pins(needed - SLOT));
    assert!((needed..needed + SLOT).contains(&MEMORY));
}
