//! The power goes at any moment, again and again.

use sim::Prng;

use crate::pins;
use crate::world::{Model, World, made, made_with, play};

/// Lives of one pair of disks, each cut off somewhere.
fn live(seed: u64) {
    let model = Model::new();
    // Every third one pins a part of its volume.
    let is_pinned = seed.is_multiple_of(3);
    let mut platters = if is_pinned { made_with(pins::MEMORY) } else { made() };
    let mut prng = Prng::new(seed);
    for life in 0..4 {
        let world = World::new(seed * 16 + life, &platters);
        let (device, _) = world.executor.block_on(world.open());
        if is_pinned {
            device.pin(pins::RANGE).expect("there is room");
        }
        world.executor.block_on(model.judge(&device));
        if prng.below(4) == 0 {
            // What a return has shown stays, whatever was flushed.
            platters = world.cut(&mut prng);
            continue;
        }
        let steps = 1 + prng.below(1_500);
        let mut work = Box::pin(play(&model, &device, prng.next_u64(), 60));
        let length = std::time::Duration::from_micros(steps * 200);
        let is_done = world.executor.block_on_for(length, &mut work).is_some();
        if is_done && prng.below(3) == 0 {
            world.executor.block_on(device.settle(prng.below(2) == 0)).expect("nothing fails");
            model.judge_below(&world.below.contents());
            if prng.below(2) == 0 {
                world.executor.block_on(play(&model, &device, prng.next_u64(), 10));
            }
        }
        platters = if prng.below(3) == 0 { world.kill() } else { world.cut(&mut prng) };
        world.executor.crash();
    }
}

fn seeds(count: u64) {
    (0..count).for_each(live);
}

#[test]
fn what_was_durable_is_there_after_any_cut() {
    seeds(150);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn each_rule_that_is_broken_is_seen() {
    use nvram::planted::Bug;

    // Found by other tests of this crate.
    let elsewhere = [
        Bug::RotIsTorn,
        Bug::AnyVolume,
        Bug::ForgottenLoss,
        Bug::YoungestFirst,
        Bug::AnyGeneration,
        Bug::UnsaidDirt,
        Bug::HastyWord,
        Bug::UnsaidRetirement,
        Bug::SettledLoss,
        Bug::LoosePins,
        Bug::IgnoredBattery,
        Bug::HastyPass,
        Bug::TrustingFlush,
        Bug::UnsaidReturn,
    ];
    let mut missed = Vec::new();
    for &bug in Bug::ALL.iter().filter(|bug| !elsewhere.contains(bug)) {
        let found = crate::with(bug, || {
            (0..600).find(|&seed| std::panic::catch_unwind(|| live(seed)).is_err())
        });
        println!("{bug:?}: {found:?}");
        missed.extend(found.is_none().then_some(bug));
    }
    assert!(missed.is_empty(), "{missed:?}");
}
