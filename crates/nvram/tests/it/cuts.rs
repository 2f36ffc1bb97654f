//! The power goes at any moment, again and again. Campaign `contract` of crate `torture` goes
//! further, and shows that each broken rule is seen.

use block::{Durability, Verb};
use sim::{Effect, Fault, Prng};

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

#[test]
fn what_was_durable_is_there_after_any_cut() {
    (0..60).for_each(live);
}

/// Torture's campaign finds the others by sectors that are torn as a whole.
#[cfg(feature = "planted-bugs")]
#[test]
fn marks_that_are_torn_twice_are_seen() {
    let is_seen = |seed| std::panic::catch_unwind(|| live(seed)).is_err();
    let found =
        crate::with(nvram::planted::Bug::TwinMarks, || (200..300).find(|&seed| is_seen(seed)));
    assert!(found.is_some());
}

/// A call of the memory fails, and what it leaves is in a cache of which no later flush promises
/// anything. The process is killed; a start shows the bytes; then the power goes.
fn live_after_a_failure(verb: Verb, seed: u64) {
    let model = Model::new();
    let world = World::new(seed, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        for first in (0..160).step_by(8) {
            assert!(model.write(&device, first, 8, Durability::Through).await);
        }
        world.memory.inject(Fault::on(verb, Effect::Eio));
        for first in (0..160).step_by(24) {
            model.write(&device, first, 4, Durability::Plain).await;
        }
        assert!(!model.flush(&device).await);
    });
    let mut prng = Prng::new(seed);
    let mut platters = world.kill();
    for life in 0..3 {
        let world = World::new(seed * 16 + life, &platters);
        let (device, _) = world.executor.block_on(world.open());
        world.executor.block_on(model.judge(&device));
        platters = world.cut(&mut prng);
        world.executor.crash();
    }
}

#[test]
fn what_a_start_shows_is_durable_whatever_failed_before() {
    let seeds = || {
        [Verb::Write, Verb::Flush]
            .into_iter()
            .flat_map(|verb| (0..20).map(move |seed| (verb, seed)))
    };
    seeds().for_each(|(verb, seed)| live_after_a_failure(verb, seed));
    #[cfg(feature = "planted-bugs")]
    {
        let is_seen =
            |(verb, seed)| std::panic::catch_unwind(|| live_after_a_failure(verb, seed)).is_err();
        let bug = nvram::planted::Bug::StrandedEntries;
        assert!(crate::with(bug, || seeds().any(is_seen)));
    }
}
