//! Sets with a log device: cuts at any moment, failures, and the loss of the device.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::{join, join_all};
use raid::layout::Level;
use raid::record::{decode, size_at};
use raid::{OpenError, OpenOptions, Scrubbed, Set, make, open};
use sim::{Disk, Effect, Executor, Fault, Image, Persistence, Prng};

use crate::losses::{devices, latest_record, lose, new_disks, opened, options};

const BLOCK: u64 = 4096;
/// Bytes of a log device.
const SIZE: u64 = 160 << 10;
const LEVELS: [(Level, usize); 3] =
    [(Level::Parity, 4), (Level::Mirrored, 2), (Level::Mirrored, 3)];

/// Disks of a set, and its log device.
struct World {
    executor: Executor,
    disks: Vec<Rc<Disk>>,
    log: Rc<Disk>,
}

/// What each block may read as: the first is durable.
struct Model(RefCell<Vec<Vec<u8>>>);

impl Model {
    fn new(blocks: u64) -> Self {
        Self(RefCell::new(vec![vec![0]; blocks as usize]))
    }

    fn begin(&self, block: u64, byte: u8) {
        self.0.borrow_mut()[block as usize].push(byte);
    }

    /// A write through is done: nothing older may be read.
    fn is_durable(&self, block: u64, byte: u8) {
        let mut all = self.0.borrow_mut();
        let versions = &mut all[block as usize];
        let place = versions.iter().rposition(|&it| it == byte).expect("it was begun");
        versions.drain(..place);
    }

    /// Fails unless a set reads as it may. What is read holds from now on.
    async fn judge(&self, set: &Set) -> Result<(), String> {
        let blocks = self.0.borrow().len() as u64;
        let room = Buffer::zeroed((blocks * BLOCK) as usize);
        let read = set.read(0, room).await.map_err(|error| error.to_string())?;
        for (block, bytes) in read.chunks(BLOCK as usize).enumerate() {
            let versions = &self.0.borrow()[block];
            let is_one = versions.iter().any(|&it| bytes.iter().all(|&byte| byte == it));
            if !is_one {
                return Err(format!("block {block} has {}, and not one of {versions:?}", bytes[0]));
            }
        }
        Ok(())
    }

    /// Versions that a return has not shown are gone.
    async fn settle(&self, set: &Set) {
        let blocks = self.0.borrow().len() as u64;
        let room = Buffer::zeroed((blocks * BLOCK) as usize);
        let read = set.read(0, room).await.expect("it was judged");
        for (block, bytes) in read.chunks(BLOCK as usize).enumerate() {
            self.0.borrow_mut()[block] = vec![bytes[0]];
        }
    }
}

impl World {
    fn new(seed: u64, disks: &[Image], log: &Image) -> Self {
        let executor = Executor::new(seed);
        let disk = |image: &Image| Disk::new(&executor, image.clone());
        let (disks, log) = (disks.iter().map(disk).collect(), disk(log));
        Self { executor, disks, log }
    }

    /// A new set, which has no log device yet.
    fn made(seed: u64, level: Level, count: usize) -> Self {
        let executor = Executor::new(seed);
        let disks = new_disks(&executor, count);
        let log = Disk::new(&executor, Image::from_bytes(&vec![0xcc; SIZE as usize]));
        executor.block_on(async {
            let (devices, runtime) = (devices(&disks), executor.runtime());
            make(&devices, &options(level), &runtime).await.expect("there is room");
        });
        Self { executor, disks, log }
    }

    fn device(&self) -> Rc<dyn BlockDevice> {
        self.log.clone()
    }

    async fn open(&self) -> Result<Set, OpenError> {
        let options = OpenOptions { log_devices: vec![self.device()], ..OpenOptions::default() };
        open(devices(&self.disks), &self.executor.runtime(), options).await
    }

    /// The same with its log device in use.
    async fn open_logged(&self) -> Result<Set, OpenError> {
        let set = self.open().await?;
        set.log_to(self.device()).await.expect("nothing fails");
        Ok(set)
    }

    /// The disks after a cut.
    fn cut(&self, seed: u64, prng: &mut Prng) -> Self {
        let disks: Vec<Image> = self.disks.iter().map(|disk| disk.crash(prng)).collect();
        let log = self.log.crash(prng);
        self.executor.crash();
        Self::new(seed, &disks, &log)
    }

    /// The same disks for another look.
    fn copy(&self) -> Self {
        let disks: Vec<Image> = self.disks.iter().map(|disk| disk.contents()).collect();
        Self::new(3, &disks, &self.log.contents())
    }
}

/// Callers that overwrite blocks of their own, one after the other.
async fn scribble(set: &Set, model: &Model, seed: u64, writes: u64) {
    const CALLERS: u64 = 3;
    let blocks = model.0.borrow().len() as u64 / CALLERS;
    join_all((0..CALLERS).map(|caller| async move {
        let mut prng = Prng::new(seed * CALLERS + caller);
        let mut plain = Vec::new();
        for _ in 0..writes {
            let (block, byte) = (caller * blocks + prng.below(blocks), prng.below(256) as u8);
            model.begin(block, byte);
            let is_through = prng.chance(1, 2);
            let how = if is_through { Durability::Through } else { Durability::Plain };
            let data = vec![vec![byte; BLOCK as usize].into()];
            if set.write(block * BLOCK, data, how).await.is_err() {
                return;
            }
            plain.retain(|(it, _)| *it != block);
            if is_through {
                model.is_durable(block, byte);
            } else {
                plain.push((block, byte));
            }
            if prng.chance(1, 8) {
                if set.flush().await.is_err() {
                    return;
                }
                plain.drain(..).for_each(|(block, byte)| model.is_durable(block, byte));
            }
        }
    }))
    .await;
}

/// What happens to a set with a log device beside its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Nothing,
    /// A write to the log device fails, and all later ones.
    LogFails,
    /// A member fails.
    MemberFails,
    /// The log device is left, and used again.
    LeftAndBack,
}

const EVENTS: [Event; 4] =
    [Event::Nothing, Event::LogFails, Event::MemberFails, Event::LeftAndBack];

/// Some lives of a set, each cut off somewhere.
fn live(level: Level, count: usize, event: Event, seed: u64) -> Result<(), String> {
    let mut world = World::made(seed, level, count);
    let mut prng = Prng::new(seed);
    let set = world.executor.block_on(world.open()).expect("it is new");
    let model = Rc::new(Model::new((set.geometry().size / BLOCK).min(48)));
    drop(set);
    for life in 0..3 {
        let set = world.executor.block_on(world.open_logged()).map_err(|it| it.to_string())?;
        world.executor.block_on(model.judge(&set))?;
        world.executor.block_on(model.settle(&set));
        match event {
            Event::LogFails => {
                world.log.fail(Verb::Write, prng.between(1, 40), Persistence::Forever);
            }
            Event::MemberFails => {
                world.disks[0].fail(Verb::Write, prng.between(1, 60), Persistence::Forever);
            }
            Event::Nothing | Event::LeftAndBack => {}
        }
        let (writes, seed_of_life) = (prng.between(5, 60), prng.next_u64() >> 8);
        let work = async {
            let beside = async {
                if event == Event::LeftAndBack {
                    let _ = set.log_to_members().await;
                    let _ = set.log_to(world.device()).await;
                }
            };
            let scribbled = scribble(&set, &model, seed_of_life, writes);
            futures::future::join(scribbled, beside).await;
        };
        let length = Duration::from_micros(prng.between(1, 20_000));
        let is_done = world.executor.block_on_for(length, Box::pin(work)).is_some();
        if is_done && prng.chance(1, 3) {
            world.executor.block_on(set.close()).expect("a set closes");
        }
        let next = world.cut(seed * 8 + life, &mut prng);
        world = next;
        is_as_it_may(&world, &model, event != Event::MemberFails)?;
    }
    Ok(())
}

/// Judges what a cut has left: with all disks, without each member, and without the log device.
/// With `is_meant`, any members that are enough are opened.
fn is_as_it_may(world: &World, model: &Model, is_meant: bool) -> Result<(), String> {
    let refused = |error: OpenError| error.to_string();
    for lost in (0..world.disks.len()).map(Some).chain([None]) {
        let mut copy = world.copy();
        if let Some(lost) = lost {
            copy.disks.remove(lost);
        }
        copy.executor.block_on(async {
            let log_device = Some(copy.device());
            let log_devices = log_device.into_iter().collect();
            let options = OpenOptions { log_devices, is_meant, ..OpenOptions::default() };
            let set = open(devices(&copy.disks), &copy.executor.runtime(), options).await;
            match set {
                // The only one that has everything is away.
                Err(OpenError::Refused(_)) if lost.is_some() => Ok(()),
                set => model.judge(&set.map_err(refused)?).await,
            }
            .map_err(|wrong| format!("without {lost:?}: {wrong}"))
        })?;
    }
    let copy = world.copy();
    copy.executor.block_on(async {
        match opened(&copy.executor, &copy.disks).await {
            Err(OpenError::NoLogDevice) => Ok(()),
            set => {
                let judged = model.judge(&set.map_err(refused)?).await;
                judged.map_err(|wrong| format!("without its log device: {wrong}"))
            }
        }
    })
}

fn all_live(seeds: std::ops::Range<u64>) -> Result<(), String> {
    for seed in seeds {
        for (level, count) in LEVELS {
            for event in EVENTS {
                let lived = live(level, count, event, seed);
                lived.map_err(|wrong| format!("{level} of {count}, {event:?}, {seed}: {wrong}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn what_was_durable_is_there_after_any_cut() {
    assert_eq!(all_live(0..12), Ok(()));
}

/// A set on which some blocks were overwritten with its log device, and was then cut off.
fn cut_off(level: Level, count: usize, seed: u64) -> (World, Model) {
    let world = World::made(seed, level, count);
    let model = Model::new(48);
    world.executor.block_on(async {
        let set = world.open_logged().await.expect("it is new");
        assert!(set.label().has_log_apart);
        for block in 0..48 {
            let data = vec![vec![1; BLOCK as usize].into()];
            set.write(block * BLOCK, data, Durability::Plain).await.expect("nothing fails");
        }
        set.flush().await.expect("nothing fails");
        model.0.borrow_mut().iter_mut().for_each(|versions| *versions = vec![1]);
        scribble(&set, &model, seed, 12).await;
    });
    let next = world.cut(seed, &mut Prng::new(seed));
    (next, model)
}

/// Offsets of the whole records on a log device, by their numbers.
fn records_on(world: &World, set: &raid::label::Label) -> Vec<(u64, u64)> {
    let mut ring = vec![0; SIZE as usize];
    world.log.contents().read(0, &mut ring);
    let records = (0..SIZE).step_by(BLOCK as usize).filter_map(|start| {
        let rest = &ring[start as usize..];
        let length = size_at(rest, set.set).filter(|&it| it <= rest.len() as u64)?;
        Some((decode(&rest[..length as usize], &set.layout)?.place.sequence, start))
    });
    let mut records: Vec<(u64, u64)> = records.collect();
    records.sort_unstable();
    records
}

async fn label_of(world: &World) -> raid::label::Label {
    raid::label_of(&*world.disks[0]).await.expect("it has one")
}

#[test]
fn a_set_that_needs_its_log_device_is_refused_without_it_until_it_is_stopped() {
    for (level, count) in LEVELS {
        let (world, model) = cut_off(level, count, 4);
        world.executor.block_on(async {
            let refused = opened(&world.executor, &world.disks).await.err();
            assert_eq!(refused, Some(OpenError::NoLogDevice), "{level}");
            let set = world.open_logged().await.expect("it is there");
            model.judge(&set).await.expect("it has everything");
            set.close().await.expect("nothing fails");
        });
        let world = world.copy();
        world.executor.block_on(async {
            let bare = opened(&world.executor, &world.disks);
            let set = bare.await.expect("it needs nothing of it");
            model.judge(&set).await.expect("it has everything");
        });
    }
}

#[test]
fn a_set_that_has_left_its_log_device_needs_it_no_more() {
    let world = World::made(5, Level::Parity, 4);
    let model = Model::new(48);
    world.executor.block_on(async {
        let set = world.open_logged().await.expect("it is new");
        scribble(&set, &model, 1, 10).await;
        assert!(set.log_device().is_some_and(|it| it.records > 10 && !it.is_left));
        set.log_to_members().await.expect("nothing fails");
        assert!(set.log_device().is_none() && !set.label().has_log_apart);
        scribble(&set, &model, 2, 10).await;
    });
    let world = world.cut(6, &mut Prng::new(6));
    world.executor.block_on(async {
        let bare = opened(&world.executor, &world.disks);
        let set = bare.await.expect("it needs nothing of it");
        model.judge(&set).await.expect("it has everything");
    });
}

/// A write to the log device fails: the set goes on, and soon needs it no more.
#[test]
fn a_log_device_that_fails_is_left() {
    let world = World::made(7, Level::Parity, 4);
    let model = Model::new(48);
    world.executor.block_on(async {
        let set = world.open_logged().await.expect("it is new");
        scribble(&set, &model, 1, 10).await;
        world.log.fail(Verb::Write, 5, Persistence::Forever);
        scribble(&set, &model, 2, 10).await;
        world.executor.runtime().clock.sleep(Duration::from_secs(1)).await;
        assert!(set.log_device().is_none() && !set.label().has_log_apart);
        model.judge(&set).await.expect("nothing is lost");
    });
}

#[test]
fn a_rotten_record_is_not_passed_over() {
    for (level, count) in LEVELS {
        let (world, model) = cut_off(level, count, 8);
        let label = world.executor.block_on(label_of(&world));
        let records = records_on(&world, &label);
        let (rotten, at) = records[records.len() - 2];
        world.log.rot(at + 100, 3);
        world.executor.block_on(async {
            assert_eq!(world.open().await.err(), Some(OpenError::LogDevice(rotten)), "{level}");
            let scrubbed = renewed(&world).await.expect("a person gives it up");
            assert_eq!(scrubbed.lost, [], "everything is in place, or nothing of it");
        });
        let world = world.copy();
        world.executor.block_on(async {
            let bare = opened(&world.executor, &world.disks);
            let set = bare.await.expect("it needs nothing of it any more");
            let _ = model.judge(&set).await; // what was given up may be gone
        });
    }
}

#[test]
fn of_two_log_devices_either_may_have_a_record() {
    let (world, model) = cut_off(Level::Parity, 4, 8);
    let label = world.executor.block_on(label_of(&world));
    let second = Disk::new(&world.executor, world.log.contents());
    // The records have rotted in turns, in one or the other.
    for (turn, (_, at)) in records_on(&world, &label).into_iter().enumerate() {
        let rotten = if turn % 2 == 0 { &world.log } else { &second };
        rotten.rot(at + 100, 3);
    }
    world.executor.block_on(async {
        assert!(matches!(world.open().await.err(), Some(OpenError::LogDevice(_))));
        world.log.fail(Verb::Read, 1, Persistence::Forever);
        second.fail(Verb::Read, 1, Persistence::Forever);
        let both: Vec<Rc<dyn BlockDevice>> = vec![world.device(), second.clone()];
        let runtime = world.executor.runtime();
        let open = async || {
            let log_devices = both.clone();
            let options = OpenOptions { log_devices, ..OpenOptions::default() };
            open(devices(&world.disks), &runtime, options).await
        };
        let refused = open().await.err();
        assert!(matches!(refused, Some(OpenError::LogDevice(_))), "neither can be read");
        world.log.heal();
        second.heal();
        let set = open().await.expect("each record is in one of them");
        model.judge(&set).await.expect("it has everything");
    });
}

/// A cut has left the record of a write on one of two log devices alone. A start with both is cut
/// off, and the next one has the other device alone.
fn with_the_other_alone((level, count): (Level, usize), seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let world = World::made(seed, level, count);
    let [disks, log, later] = world.executor.block_on(async {
        let set = world.open_logged().await.expect("it is new");
        let data = vec![vec![1; 48 * BLOCK as usize].into()];
        set.write(0, data, Durability::Plain).await.expect("nothing fails");
        set.flush().await.expect("nothing fails");
        let disks: Vec<Image> = world.disks.iter().map(|disk| disk.contents()).collect();
        let log = world.log.contents();
        let data = vec![vec![9; BLOCK as usize].into()]; // one record
        set.write(5 * BLOCK, data, Durability::Through).await.expect("nothing fails");
        [disks, vec![log], vec![world.log.contents()]]
    });
    let world = World::new(seed, &disks, &later[0]);
    let second = Disk::new(&world.executor, log[0].clone());
    let log_devices: Vec<Rc<dyn BlockDevice>> = vec![world.device(), second];
    let options = OpenOptions { log_devices, ..OpenOptions::default() };
    let runtime = world.executor.runtime();
    let start = open(devices(&world.disks), &runtime, options);
    let length = Duration::from_micros(prng.below(30_000));
    let is_done = world.executor.block_on_for(length, start).is_some();
    let disks: Vec<Image> = world.disks.iter().map(|disk| disk.crash(&mut prng)).collect();
    let world = World::new(seed, &disks, &log[0]);
    world.executor.block_on(async {
        let set = world.open().await.map_err(|error| error.to_string())?;
        let read = set.read(0, Buffer::zeroed(48 * BLOCK as usize)).await;
        let read = read.map_err(|error| format!("{error}, with a start that ended: {is_done}"))?;
        let is_right = |(block, bytes): (usize, &[u8])| {
            let may_be_new = (5..8).contains(&block);
            bytes.iter().all(|&byte| byte == 1) || may_be_new && bytes.iter().all(|&byte| byte == 9)
        };
        let wrong = read.chunks(BLOCK as usize).enumerate().find(|it| !is_right(*it));
        wrong.map_or(Ok(()), |(block, _)| Err(format!("block {block} has other bytes")))
    })
}

fn others_alone() -> Result<(), String> {
    for seed in 0..40 {
        for level in LEVELS {
            with_the_other_alone(level, seed)
                .map_err(|wrong| format!("{level:?} {seed}: {wrong}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_record_that_one_of_two_log_devices_has_alone_is_on_the_members_before_it_is_in_place() {
    assert_eq!(others_alone(), Ok(()));
    #[cfg(feature = "planted-bugs")]
    {
        let found = crate::with(raid::planted::Bug::LonelyReturns, others_alone);
        assert!(found.is_err());
    }
}

/// A log device becomes untrusted at a moment of a write. Gives whether the labels still say that
/// it is needed when the write is answered.
fn needs_it_after_an_answer(microseconds: u64) -> bool {
    let (world, _) = cut_off(Level::Parity, 4, 11);
    world.executor.block_on(async {
        let set = world.open_logged().await.expect("it is there");
        let data = vec![vec![9; 3 * BLOCK as usize].into()];
        let write = set.write(5 * BLOCK, data, Durability::Through);
        let distrust = async {
            world.executor.runtime().clock.sleep(Duration::from_micros(microseconds)).await;
            set.distrust_log_device();
            set.log_device().is_some()
        };
        let (was_there, written) = join(distrust, async {
            write.await.expect("nothing fails");
            let state = set.log_device();
            state.is_some_and(|state| state.is_distrusted || state.is_left)
                && set.label().has_log_apart
        })
        .await;
        was_there && written
    })
}

#[test]
fn no_write_is_answered_whose_record_is_on_an_untrusted_log_device_alone() {
    let needs_it = || (0..40).any(|turn| needs_it_after_an_answer(turn * 500));
    assert!(!needs_it());
    #[cfg(feature = "planted-bugs")]
    assert!(crate::with(raid::planted::Bug::HastyDistrust, needs_it));
}

#[test]
fn a_log_device_that_cannot_be_read_is_waited_for_and_then_refused() {
    let (world, model) = cut_off(Level::Parity, 4, 9);
    world.executor.block_on(async {
        world.log.fail(Verb::Read, 1, Persistence::Forever);
        let refused = world.open().await.err();
        assert!(matches!(refused, Some(OpenError::LogDevice(_))), "{refused:?}");
        world.log.heal();
        let set = world.open().await.expect("it is there");
        model.judge(&set).await.expect("it has everything");
    });
}

/// Gives up the log device and makes the checksums anew.
async fn renewed(world: &World) -> Result<Scrubbed, String> {
    let options = OpenOptions { gives_up_log: true, ..OpenOptions::default() };
    let set = open(devices(&world.disks), &world.executor.runtime(), options).await;
    let set = set.map_err(|error| error.to_string())?;
    assert!(set.label().has_log_apart, "until the checksums are made anew");
    let scrubbed = set.renew_sums(|_, _, _| ()).await.map_err(|error| error.to_string())?;
    assert!(!set.label().has_log_apart);
    assert_eq!(set.scrub(|_, _, _| ()).await.expect("nothing fails").lost, scrubbed.lost);
    set.close().await.expect("nothing fails");
    Ok(scrubbed)
}

/// Everything is in place, only the log device knows the checksums, and it is lost. A disk has
/// other bytes in the last stripe. Returns the ranges that are lost.
fn given_up(level: Level, count: usize) -> Result<Vec<(u64, u64)>, String> {
    let width = if level == Level::Parity { count as u64 - 1 } else { 1 };
    let mut world = World::made(10, level, count);
    let model = Model::new(48);
    for byte in [1, 2] {
        world = world.copy();
        world.executor.block_on(async {
            let set = world.open_logged().await.expect("all is there");
            for block in 0..48 {
                let data = vec![vec![byte; BLOCK as usize].into()];
                set.write(block * BLOCK, data, Durability::Through).await.expect("nothing fails");
                model.0.borrow_mut()[block as usize] = vec![byte];
            }
            set.flush().await.expect("nothing fails");
            if byte == 1 {
                set.close().await.expect("nothing fails");
            }
        });
    }
    let world = world.copy();
    let label = world.executor.block_on(label_of(&world));
    world.disks[0].rot(label.data_start + 47 / width * BLOCK + 5, 1);
    let scrubbed = world.executor.block_on(renewed(&world))?;
    assert!(scrubbed.renewed >= 8, "{scrubbed:?}");
    let world = world.copy();
    world.executor.block_on(async {
        let bare = opened(&world.executor, &world.disks);
        let set = bare.await.expect("it needs nothing of it");
        let lost: u64 = scrubbed.lost.iter().map(|(_, length)| length).sum();
        let data = vec![vec![2; lost as usize].into()];
        set.write(48 * BLOCK - lost, data, Durability::Through).await.expect("nothing fails");
        model.judge(&set).await
    })?;
    Ok(scrubbed.lost)
}

#[test]
fn what_agrees_is_right_without_the_log_device_and_nothing_else() {
    for (level, count) in LEVELS {
        let width = if level == Level::Parity { count as u64 - 1 } else { 1 };
        assert_eq!(
            given_up(level, count),
            Ok(vec![((48 - width) * BLOCK, width * BLOCK)]),
            "{level}"
        );
    }
}

/// A set that went on without its log device finds it again.
fn old_records_stay_old() -> Result<(), String> {
    let (world, model) = cut_off(Level::Parity, 4, 12);
    world.executor.block_on(async {
        renewed(&world).await?;
        Ok::<_, String>(())
    })?;
    let world = world.copy();
    world.executor.block_on(async {
        let bare = opened(&world.executor, &world.disks);
        let set = bare.await.map_err(|error| error.to_string())?;
        // In few records: the old ones have later numbers.
        let data = vec![vec![9; 48 * BLOCK as usize].into()];
        set.write(0, data, Durability::Through).await.expect("nothing fails");
        model.0.borrow_mut().iter_mut().for_each(|versions| *versions = vec![9]);
        set.close().await.expect("nothing fails");
        Ok::<_, String>(())
    })?;
    let world = world.copy();
    world.executor.block_on(async {
        let set = world.open_logged().await.map_err(|error| error.to_string())?;
        model.judge(&set).await?;
        // One record: the rest of the device is as the set has left it.
        let data = vec![vec![9; BLOCK as usize].into()];
        set.write(0, data, Durability::Through).await.expect("nothing fails");
        Ok::<_, String>(())
    })?;
    is_as_it_may(&world.cut(13, &mut Prng::new(13)), &model, true)
}

#[test]
fn a_log_device_that_was_left_behind_is_not_believed() {
    assert_eq!(old_records_stay_old(), Ok(()));
}

/// The members that have the latest record of all members' logs are replaced while the log device
/// gets the records. The others have old ones that change something.
#[test]
fn old_records_of_members_do_not_come_back_without_the_log_device() {
    let mut world = World::made(14, Level::Parity, 4);
    let model = Model::new(48);
    let disks = world.executor.block_on(async {
        let set = world.open().await.expect("it is new");
        let mut disks = world.disks.clone();
        for byte in [1, 2] {
            for block in 0..48 {
                let data = vec![vec![byte; BLOCK as usize].into()];
                set.write(block * BLOCK, data, Durability::Through).await.expect("nothing fails");
                model.0.borrow_mut()[block as usize] = vec![byte];
            }
            if byte == 1 {
                set.log_to(world.device()).await.expect("it is large enough");
            }
        }
        set.flush().await.expect("nothing fails");
        let mut found = Vec::new();
        for (slot, disk) in disks.iter().enumerate() {
            let (record, _) = latest_record(disk, &set.label()).await.expect("there is one");
            found.push((record.place.sequence, slot));
        }
        let last = found.iter().map(|it| it.0).max();
        for (_, slot) in found.into_iter().filter(|it| Some(it.0) == last) {
            lose(&set, &disks, slot).await;
            disks[slot] = new_disks(&world.executor, 1).remove(0);
            let member = [slot as u8 + 30; 16];
            let filled = set.rebuild(slot, disks[slot].clone(), member, |_, _| ());
            filled.await.expect("the others are enough");
        }
        disks
    });
    world.disks = disks;
    let world = world.copy();
    world.executor.block_on(renewed(&world)).expect("a person gives it up");
    let world = world.copy();
    world.executor.block_on(async {
        let set = opened(&world.executor, &world.disks).await.expect("it needs nothing of it");
        model.judge(&set).await.expect("everything was in place");
    });
}

#[cfg(feature = "planted-bugs")]
#[test]
fn bugs_of_log_devices_are_found() {
    use raid::planted::Bug;

    let bugs = [Bug::UnsaidLogDevices, Bug::HastyLeaves, Bug::MembersFirst, Bug::HastyRecords];
    for bug in bugs.into_iter().chain([Bug::DataFirst]) {
        let found = crate::with(bug, || all_live(0..60));
        assert!(found.is_err(), "{bug:?}");
        println!("{bug:?}: {found:?}");
    }
    for bug in [Bug::BelievedLogDevices, Bug::OldLogDevices] {
        let found = crate::with(bug, old_records_stay_old);
        assert!(found.is_err(), "{bug:?}");
        println!("{bug:?}: {found:?}");
    }
    let found = crate::with(Bug::RenewedUnasked, || given_up(Level::Parity, 4));
    assert!(found != Ok(vec![(45 * BLOCK, 3 * BLOCK)]));
}

/// A cut soon after a log device has failed a write, which then cannot read the place of it either.
fn left_and_unread(level: Level, count: usize) -> Result<(), String> {
    let world = World::made(1, level, count);
    world.executor.block_on(async {
        let set = world.open_logged().await.expect("all are there");
        for block in 0..3 {
            if block == 2 {
                world.log.fail(Verb::Write, 1, Persistence::Forever);
            }
            let data = vec![vec![block as u8 + 1; BLOCK as usize].into()];
            set.write(block * BLOCK, data, Durability::Through)
                .await
                .expect("the members are there");
        }
    });
    let world = world.cut(2, &mut Prng::new(2));
    let label = world.executor.block_on(label_of(&world));
    assert!(label.has_log_apart, "it is not left yet");
    let (_, start) = *records_on(&world, &label).last().expect("there is one");
    let mut last = vec![0; (SIZE - start) as usize];
    world.log.contents().read(start, &mut last);
    let end = start + size_at(&last, label.set).expect("it is whole");
    world.log.inject(Fault::on(Verb::Read, Effect::Eio).within(end..end + BLOCK).forever());
    world.executor.block_on(async {
        let set = world.open().await.map_err(|error| error.to_string())?;
        for block in 0..3 {
            let read = set.read(block * BLOCK, Buffer::zeroed(BLOCK as usize)).await;
            let is_right = read.is_ok_and(|read| read[..] == [block as u8 + 1; BLOCK as usize]);
            if !is_right {
                return Err(format!("block {block} is another"));
            }
        }
        Ok(())
    })
}

#[test]
fn a_log_device_that_failed_may_not_read_what_it_could_not_write() {
    assert_eq!(LEVELS.map(|(level, count)| left_and_unread(level, count)), [const { Ok(()) }; 3]);
    #[cfg(feature = "planted-bugs")]
    {
        let bug = raid::planted::Bug::SoughtInVain;
        assert!(crate::with(bug, || left_and_unread(Level::Parity, 4)).is_err());
    }
}
