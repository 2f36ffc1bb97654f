//! A battery that becomes bad and good again, while the volume is in use, cut, killed and stopped.
//! Campaign `contract` of crate `torture` shows that each broken rule is seen.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join, pending, ready};
use nvram::Nvram;
use nvram::health::{Health, HealthSource, Monitor};
use sim::{Effect, Fault, Image, Prng};

use crate::pairs::{Running, new_volume};
use crate::world::{Model, play};

/// The disk below after a power cut that takes everything it may.
fn durable_below(running: &Running) -> Image {
    running.world.below.platter().image_with(|_| sim::Fate::Lost)
}

fn bad(prng: &mut Prng) -> Health {
    match prng.below(2) {
        0 => Health::Low,
        _ => Health::Bad("the driver hangs".to_owned()),
    }
}

/// A life with a battery: plays beside its readings, and compares the disk below with what was
/// answered while it was bad. Gives whether the volume ever needed nothing of a trusted memory.
fn beside_a_battery(running: &Running, device: &Nvram, model: &Model, prng: &mut Prng) -> bool {
    let executor = &running.world.executor;
    let mut work = play(model, device, prng.next_u64(), 60).boxed_local();
    // More follows when the work ends.
    let mut go_on = |length, prng: &mut Prng| {
        if executor.block_on_for(length, &mut work).is_some() {
            work = play(model, device, prng.next_u64(), 10).boxed_local();
        }
    };
    let (mut is_good, mut before) = (true, None);
    let mut has_settled = false;
    if prng.below(4) == 0 {
        let verb = if prng.below(2) == 0 { Verb::Write } else { Verb::Flush };
        let failing = Fault::on(verb, Effect::Eio).nth(1 + prng.below(200)).forever();
        running.world.memory.inject(failing);
    }
    for _ in 0..prng.below(60) {
        if prng.below(8) == 0 {
            is_good = !is_good;
            device.heed(if is_good { Health::Good } else { bad(prng) });
            // Answers that are on their way count as heard.
            go_on(Duration::from_micros(1), prng);
            before = (!is_good).then(|| model.durable());
        }
        running.fails_late.set(prng.below(8) == 0);
        let length = Duration::from_micros(100 * (1 + prng.below(200)));
        go_on(length, prng);
        if let Some(before) = before.as_ref().filter(|_| prng.below(4) == 0) {
            model.judge_below_since(&durable_below(running), before);
        }
        // A reading like the last.
        device.heed(if is_good { Health::Good } else { bad(prng) });
        has_settled |= !running.pairing().is_dirty;
    }
    if prng.below(4) == 0 {
        executor.block_on(work);
        executor.block_on(device.close()).expect("nothing fails");
    }
    has_settled
}

/// Lives of a volume. Gives in how many its record said that it needs nothing of the memory, and
/// how many starts went without that.
fn live(seed: u64) -> [u32; 2] {
    let model = Model::new();
    let mut volume = new_volume();
    let mut prng = Prng::new(seed);
    let mut met = [0; 2];
    for life in 0..6 {
        let running = Running::of(seed * 16 + life, &volume);
        if prng.below(3) == 0
            && let Ok(below) = running.open_alone()
        {
            met[1] += 1;
            running.world.executor.block_on(model.judge(&*below));
            volume = running.cut(&mut prng);
            continue;
        }
        let device = running.open().expect("it is its own, or void");
        running.world.executor.block_on(model.judge(&device));
        let has_settled = beside_a_battery(&running, &device, &model, &mut prng);
        met[0] += u32::from(has_settled);
        volume = if prng.below(3) == 0 { running.kill() } else { running.cut(&mut prng) };
        running.world.executor.crash();
    }
    met
}

#[test]
fn nothing_is_answered_with_a_bad_battery_that_is_not_below() {
    let met = (0..24).map(live).fold([0; 2], |all, met| [all[0] + met[0], all[1] + met[1]]);
    assert!(met.iter().all(|&count| count > 20), "{met:?}");
}

fn block(byte: u8) -> Vec<bytes::Bytes> {
    vec![vec![byte; 4096].into()]
}

/// The disks get the record that nothing is needed of the memory, which is reported as failed.
/// Gives whether a start without the memory refuses after a write was answered.
fn is_needed_after_a_late_failure() -> bool {
    let running = Running::of(1, &new_volume());
    let device = running.open().expect("it is its own");
    running.fails_late.set(true);
    device.heed(Health::Low);
    running.world.executor.run_for(Duration::from_secs(1));
    assert!(!running.pairing().is_dirty);
    running.fails_late.set(false);
    device.heed(Health::Good);
    running.world.executor.run_for(Duration::from_secs(1));
    let write = device.write(0, block(1), Durability::Through);
    running.world.executor.block_on(write).expect("nothing fails");
    Running::of(2, &running.kill()).open_alone().is_err()
}

#[test]
fn after_a_record_that_failed_nothing_is_held_before_another_one() {
    assert!(is_needed_after_a_late_failure());
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::SureAfterFailure;
        assert!(!crate::with(bug, is_needed_after_a_late_failure));
    }
}

/// A battery becomes bad while 40 blocks cannot go below. Gives what the disk below has of a block
/// when it is flushed, and of another when it is written through.
fn own_data_below() -> [u8; 2] {
    let running = Running::of(1, &new_volume());
    let executor = &running.world.executor;
    let device = running.open().expect("it is its own");
    executor.block_on(async {
        for place in 0..40 {
            let write = device.write(place * 4096, block(1), Durability::Through);
            write.await.expect("nothing fails");
        }
        device.write(41 * 4096, block(1), Durability::Plain).await.expect("nothing fails");
    });
    // Of the first blocks none can go below.
    let first = 0..40 * 4096;
    let full = Fault::on(Verb::Write, Effect::NoSpace).within(first).forever();
    running.world.below.inject(full);
    device.heed(Health::Low);
    let below = |place: u64| {
        let mut bytes = [0];
        durable_below(&running).read(place * 4096, &mut bytes);
        bytes[0]
    };
    executor.block_on(device.flush()).expect("what was answered before can wait");
    let flushed = below(41);
    executor.block_on(device.write(50 * 4096, block(2), Durability::Through)).expect("it passes");
    let written = below(50);
    executor.run_for(Duration::from_secs(1));
    assert_eq!(device.status().dirty_bytes, 40 * 4096);
    let refused = executor.block_on(device.write(0, block(3), Durability::Plain));
    assert!(refused.expect_err("the older data are in the way").is_full());
    let read = executor.block_on(device.read(0, Buffer::unfilled(4096)));
    assert_eq!(read.expect("it is in the memory")[0], 1);
    [flushed, written]
}

#[test]
fn a_call_waits_for_its_own_data_and_not_for_all() {
    assert_eq!(own_data_below(), [1, 2]);
    #[cfg(feature = "planted-bugs")]
    {
        let found = crate::with(nvram::planted::Bug::TrustingFlush, own_data_below);
        assert_eq!(found, [0, 2]);
        let fails = || std::panic::catch_unwind(own_data_below).is_err();
        assert!(crate::with(nvram::planted::Bug::AnyRefusal, fails));
    }
}

/// A flush is asked for while a write is under way. Gives what the disk below has of the block when
/// it is flushed after the battery became bad.
fn below_after_an_early_flush() -> u8 {
    let running = Running::of(1, &new_volume());
    let executor = &running.world.executor;
    let device = running.open().expect("it is its own");
    let (write, flush) = (device.write(0, block(1), Durability::Plain), device.flush());
    let (written, flushed) = executor.block_on(join(write, flush));
    written.and(flushed).expect("nothing fails");
    device.heed(Health::Low);
    executor.block_on(device.flush()).expect("nothing fails");
    let mut byte = [0];
    durable_below(&running).read(0, &mut byte);
    byte[0]
}

#[test]
fn a_flush_counts_only_for_writes_that_were_heard_of() {
    assert_eq!(below_after_an_early_flush(), 1);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = nvram::planted::Bug::PaidAhead;
        assert_eq!(crate::with(bug, below_after_an_early_flush), 0);
    }
}

#[test]
fn a_lost_sector_stays_lost_until_it_is_written_below() {
    let running = Running::of(1, &new_volume());
    let executor = &running.world.executor;
    let device = running.open().expect("it is its own");
    executor.block_on(device.write(0, block(1), Durability::Through)).expect("nothing fails");
    let layout = nvram::format::Layout::of(crate::world::MEMORY).expect("it is large enough");
    running.world.memory.rot(layout.slot(0) + 512 + 100, 3);
    device.heed(Health::Low);
    let read = |at: u64| {
        let read = executor.block_on(device.read(at, Buffer::unfilled(2048)));
        read.ok().map(|bytes| bytes[0])
    };
    let half = || vec![vec![5; 2048].into()];
    executor.block_on(device.write(0, half(), Durability::Through)).expect("there is room");
    assert_eq!([read(0), read(2048)], [Some(5), None]);
    let mut byte = [0];
    durable_below(&running).read(0, &mut byte);
    assert_eq!(byte, [5]);
    executor.block_on(device.write(2048, half(), Durability::Through)).expect("there is room");
    executor.block_on(device.write(0, block(6), Durability::Through)).expect("there is room");
    assert_eq!([read(0), read(2048)], [Some(6), Some(6)]);
    device.heed(Health::Low);
    executor.run_for(Duration::from_secs(1));
    assert!(!running.pairing().is_dirty);
}

/// A source that a test drives: it may hang, and it counts its readings.
struct Driven {
    health: RefCell<Option<Health>>,
    begun: Cell<u32>,
}

impl HealthSource for Driven {
    fn read(&self) -> LocalBoxFuture<'static, Health> {
        self.begun.set(self.begun.get() + 1);
        match self.health.borrow().clone() {
            Some(health) => ready(health).boxed_local(),
            None => pending().boxed_local(),
        }
    }
}

#[test]
fn a_reading_that_hangs_is_a_bad_one_and_no_other_begins() {
    let running = Running::of(1, &new_volume());
    let executor = &running.world.executor;
    let device = Rc::new(running.open().expect("it is its own"));
    let source = Driven { health: RefCell::new(Some(Health::Good)), begun: Cell::new(0) };
    let source = Rc::new(source);
    let mut monitor = Monitor::new(source.clone(), executor.runtime());
    device.heed(executor.block_on(monitor.next()));
    monitor.watch(&device);
    executor.run_for(Duration::from_millis(3_500));
    assert_eq!((device.status().health, source.begun.get()), (Some(Health::Good), 4));
    *source.health.borrow_mut() = Some(Health::Low);
    executor.run_for(Duration::from_secs(1));
    assert_eq!(device.status().health, Some(Health::Low));
    *source.health.borrow_mut() = Some(Health::Good);
    executor.run_for(Duration::from_secs(1));
    assert_eq!(device.status().health, Some(Health::Good));
    *source.health.borrow_mut() = None;
    executor.run_for(Duration::from_secs(5));
    assert_eq!(device.status().health, Some(Health::Good), "it may still answer");
    executor.run_for(Duration::from_secs(1));
    let told = Health::Bad("it has not answered for 5 s".to_owned());
    assert_eq!(device.status().health, Some(told));
    let begun = source.begun.get();
    executor.run_for(Duration::from_secs(60));
    assert_eq!(source.begun.get(), begun);
    executor.block_on(device.close()).expect("a stop waits for no reading");
}

#[test]
fn a_write_past_a_bad_battery_tries_a_block_again_that_had_no_room() {
    let running = Running::of(1, &new_volume());
    let executor = &running.world.executor;
    let device = running.open().expect("it is its own");
    let write = |byte| device.write(0, block(byte), Durability::Through);
    executor.block_on(write(1)).expect("nothing fails");
    running.world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
    assert!(executor.block_on(device.settle(false)).is_err());
    running.world.below.heal();
    device.heed(Health::Low);
    executor.block_on(write(2)).expect("there is room again");
    let mut bytes = [0];
    durable_below(&running).read(0, &mut bytes);
    assert_eq!(bytes, [2]);
}
