//! A volume and its NVRAM over many starts: cut, killed and stopped, without the NVRAM, with an old
//! copy of it, and with disks that were brought back.
//!
//! The volume keeps its pairing in a sector of a disk of its own.

use std::cell::Cell;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError, Verb};
use futures::FutureExt;
use nvram::pairing::{Meeting, Pairing, Record, Unpaired};
use nvram::{Nvram, OpenError, open_paired};
use sim::{Choice, Disk, Effect, Fault, Honesty, Image, Platter, Prng};

use crate::world::{ID, MEMORY, Model, Platters, VOLUME, World, made, play};

const SECTOR: u64 = 512;

/// A volume behind its NVRAM.
#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) platters: Platters,
    book: Platter,
}

/// The same while it is in use.
pub(crate) struct Running {
    pub(crate) world: World,
    book: Rc<Disk>,
    /// Whether a record fails when it is already on the disk.
    pub(crate) fails_late: Rc<Cell<bool>>,
}

fn encoded(pairing: &Pairing) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR as usize];
    bytes[..8].copy_from_slice(&pairing.generation.to_le_bytes());
    bytes[8] = pairing.is_dirty.into();
    bytes
}

fn decoded(bytes: &[u8]) -> Pairing {
    let generation = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    Pairing { id: ID, generation, is_dirty: bytes[8] == 1, out: None }
}

pub(crate) fn new_volume() -> Volume {
    let mut image = Image::zeroed(SECTOR);
    image.write(0, &encoded(&Pairing { id: ID, generation: 1, is_dirty: false, out: None }));
    Volume { platters: made(), book: Platter::new(image, Honesty::Honest) }
}

impl Running {
    pub(crate) fn of(seed: u64, volume: &Volume) -> Self {
        let world = World::new(seed, &volume.platters);
        let book = Disk::resumed(&world.executor, volume.book.clone());
        Self { world, book, fails_late: Rc::default() }
    }

    pub(crate) fn pairing(&self) -> Pairing {
        let read = self.book.read(0, Buffer::unfilled(SECTOR as usize));
        decoded(&self.world.executor.block_on(read).expect("nothing fails"))
    }

    fn record(&self) -> Record {
        let (book, fails_late) = (self.book.clone(), self.fails_late.clone());
        Record::new(move |pairing| {
            let bytes = vec![encoded(&pairing).into()];
            let (written, fails_late) =
                (book.write(0, bytes, Durability::Through), fails_late.clone());
            async move {
                written.await?;
                let late = || IoError::new(Verb::Write, 0, SECTOR, ErrorKind::TimedOut);
                if fails_late.get() { Err(late()) } else { Ok(()) }
            }
            .boxed_local()
        })
    }

    pub(crate) fn open(&self) -> Result<Nvram, OpenError> {
        let (below, memory) = (self.world.below.clone(), self.world.memory.clone());
        let runtime = self.world.executor.runtime();
        let opening = open_paired(below, memory, runtime, self.pairing(), self.record());
        self.world.executor.block_on(opening).map(|(nvram, _)| nvram)
    }

    /// A start without the NVRAM.
    pub(crate) fn open_alone(&self) -> Result<Rc<Disk>, Unpaired> {
        let alone = self.pairing().alone(false)?;
        self.world.executor.block_on(self.record().write(alone)).expect("nothing fails");
        Ok(self.world.below.clone())
    }

    pub(crate) fn cut(&self, prng: &mut Prng) -> Volume {
        let platters = self.world.cut(prng);
        let book = self.book.platter();
        let choice = Choice::random(&book, prng);
        Volume { platters, book: Platter::new(book.image(&choice), Honesty::Honest) }
    }

    pub(crate) fn kill(&self) -> Volume {
        Volume { platters: self.world.kill(), book: self.book.platter().killed() }
    }
}

/// Lives of one volume. Gives how many starts went without the NVRAM, were refused without it, and
/// were refused with an older copy.
fn live(seed: u64) -> [u32; 3] {
    let model = Model::new();
    let mut volume = new_volume();
    let mut prng = Prng::new(seed);
    let (mut copy, mut met) = ((0, volume.platters.memory.clone()), [0; 3]);
    for life in 0..8 {
        let mut running = Running::of(seed * 16 + life, &volume);
        let way = prng.below(4);
        if way == 0 {
            match running.open_alone() {
                Ok(below) => {
                    met[0] += 1;
                    let work = model.judge(&*below);
                    running.world.executor.block_on(work);
                    running.world.executor.block_on(play(&model, &*below, prng.next_u64(), 5));
                    volume = running.cut(&mut prng);
                    continue;
                }
                Err(unpaired) => {
                    met[1] += 1;
                    assert_eq!(unpaired, Unpaired::Missing);
                }
            }
        }
        // A copy of the last start itself looks like the NVRAM as a cut leaves it.
        let mut opened = None;
        if way == 1 && copy.0 < running.pairing().generation {
            let mut older = volume.clone();
            older.platters.memory = copy.1.clone();
            let with_copy = Running::of(seed * 16 + life, &older);
            match with_copy.open() {
                Ok(device) => (opened, running) = (Some(device), with_copy),
                Err(OpenError::Unpaired(Unpaired::Older { .. })) => met[2] += 1,
                Err(other) => panic!("{other}"),
            }
        }
        let executor = &running.world.executor;
        let device = opened.unwrap_or_else(|| running.open().expect("it is its own"));
        executor.block_on(model.judge(&device));
        if prng.below(2) == 0 {
            copy = (running.pairing().generation, running.kill().platters.memory);
        }
        let length = Duration::from_micros(200 * (1 + prng.below(1_500)));
        let mut work = Box::pin(play(&model, &device, prng.next_u64(), 40));
        let is_done = executor.block_on_for(length, &mut work).is_some();
        if is_done && prng.below(2) == 0 {
            let is_down = prng.below(2) == 0;
            executor.block_on(device.settle(is_down)).expect("nothing fails");
            executor.block_on(play(&model, &device, prng.next_u64(), 10));
            if is_down && prng.below(2) == 0 {
                executor.block_on(device.up()).expect("nothing fails");
                executor.block_on(play(&model, &device, prng.next_u64(), 10));
            }
        }
        if is_done && prng.below(2) == 0 {
            if prng.below(2) == 0 {
                running.world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
            }
            executor.block_on(device.close()).expect("nothing fails");
        }
        volume = if prng.below(3) == 0 { running.kill() } else { running.cut(&mut prng) };
        executor.crash();
    }
    met
}

#[test]
fn no_start_shows_less_than_was_durable_whichever_nvram_is_there() {
    let met = (0..25).map(live).fold([0; 3], |all, met| {
        let sums = all.iter().zip(met).map(|(one, other)| one + other);
        sums.collect::<Vec<u32>>().try_into().expect("three of three")
    });
    assert!(met.iter().all(|&count| count > 3), "{met:?}");
}

/// Lives of a volume whose memory fails writes or flushes, once or for good, and is well again at
/// the next start. Gives how many went on without the memory.
fn live_on(seed: u64) -> u32 {
    let model = Model::new();
    let mut volume = new_volume();
    let mut prng = Prng::new(seed);
    let mut retired = 0;
    for life in 0..5 {
        let running = Running::of(seed * 16 + life, &volume);
        let executor = &running.world.executor;
        let device = running.open().expect("it is its own, or void");
        executor.block_on(model.judge(&device));
        let verb = if prng.below(2) == 0 { Verb::Write } else { Verb::Flush };
        let fault = Fault::on(verb, Effect::Eio).nth(1 + prng.below(60));
        let fault = if prng.below(2) == 0 { fault.forever() } else { fault };
        running.world.memory.inject(fault);
        executor.block_on(play(&model, &device, prng.next_u64(), 30));
        let is_retired = device.status().is_retired;
        if is_retired {
            retired += 1;
            assert!(device.status().is_down && !device.status().has_failed);
            assert!(!running.pairing().is_dirty);
            assert!(executor.block_on(device.up()).is_err(), "only a start finds out");
            executor.block_on(play(&model, &device, prng.next_u64(), 10));
        }
        if is_retired && prng.below(3) == 0 {
            executor.block_on(device.close()).expect("nothing below fails");
        }
        volume = if prng.below(3) == 0 { running.kill() } else { running.cut(&mut prng) };
        executor.crash();
    }
    retired
}

#[test]
fn a_volume_goes_on_without_a_memory_that_fails() {
    let retired: u32 = (0..40).map(live_on).sum();
    assert!(retired > 100, "{retired}");
}

#[test]
fn a_volume_whose_memory_fails_and_whose_host_is_full_stops_in_the_end() {
    let volume = new_volume();
    let running = Running::of(1, &volume);
    let device = running.open().expect("it is its own");
    let block = || vec![vec![7; 4096].into()];
    let executor = &running.world.executor;
    let write = |at| executor.block_on(device.write(at, block(), Durability::Through));
    write(0).expect("nothing fails");
    running.world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
    running.world.memory.inject(Fault::on(Verb::Write, Effect::Eio).forever());
    assert!(write(4096).is_err());
    assert!(device.status().has_failed && running.pairing().is_dirty);
    let volume = running.kill();
    let running = Running::of(2, &volume);
    let device = running.open().expect("it is its own");
    let read = device.read(0, Buffer::unfilled(4096));
    assert_eq!(running.world.executor.block_on(read).expect("it is there")[0], 7);
}

/// What a volume with this pairing makes of the NVRAM of a generation.
fn met(is_dirty: bool, found: u64, is_begun: bool) -> Result<Meeting, Unpaired> {
    let pairing = Pairing { id: ID, generation: 7, is_dirty, out: None };
    let volume = new_volume();
    let running = Running::of(1, &volume);
    let memory: Rc<dyn BlockDevice> = running.world.memory.clone();
    let label = running.world.executor.block_on(nvram::look(&memory)).expect("it was made");
    pairing.meet(&nvram::Label { generation: found, is_begun, ..label })
}

#[test]
fn only_the_nvram_of_this_start_or_of_one_that_was_cut_off_is_its_own() {
    let known = 7;
    for is_dirty in [false, true] {
        assert_eq!(met(is_dirty, 7, true), Ok(Meeting::Own));
        assert_eq!(met(is_dirty, 7, false), Ok(Meeting::Own));
        assert_eq!(met(is_dirty, 8, false), Ok(Meeting::Own));
        let older = |found| Err(Unpaired::OlderVolume { found, known });
        assert_eq!(met(is_dirty, 8, true), older(8));
        assert_eq!(met(is_dirty, 9, false), older(9));
    }
    assert_eq!(met(false, 6, true), Ok(Meeting::Void));
    assert_eq!(met(true, 6, true), Err(Unpaired::Older { found: 6, known }));
}

/// A block that only the NVRAM has rots, and the volume is stopped. Gives what the next start reads
/// there, and whether that start had the NVRAM's word for it.
fn rots_before_a_stop(is_met_at_start: bool) -> Result<u8, block::IoError> {
    let volume = new_volume();
    let running = Running::of(1, &volume);
    let device = running.open().expect("it is its own");
    let executor = &running.world.executor;
    // What comes after it says that it was durable.
    for at in [0, 8192, 16384] {
        let write = device.write(at, vec![vec![7; 4096].into()], Durability::Through);
        executor.block_on(write).expect("nothing fails");
        executor.block_on(device.flush()).expect("nothing fails");
    }
    let layout = nvram::format::Layout::of(MEMORY).expect("it is large enough");
    let at = layout.slot(0) + SECTOR + 100;
    let mut volume = if is_met_at_start {
        running.kill()
    } else {
        running.world.memory.rot(at, 3);
        let _ = executor.block_on(device.close());
        running.kill()
    };
    if is_met_at_start {
        let running = Running::of(2, &volume);
        running.world.memory.rot(at, 3);
        let device = running.open().expect("it is its own");
        assert!(running.world.executor.block_on(device.settle(true)).is_err());
        let _ = running.world.executor.block_on(device.close());
        volume = running.kill();
    }
    let running = Running::of(3, &volume);
    let device = running.open().expect("it is its own");
    let read = device.read(0, Buffer::unfilled(4096));
    running.world.executor.block_on(read).map(|bytes| bytes[0])
}

#[test]
fn a_stop_forgets_nothing_that_is_lost() {
    for is_met_at_start in [false, true] {
        assert!(rots_before_a_stop(is_met_at_start).is_err(), "{is_met_at_start}");
    }
    #[cfg(feature = "planted-bugs")]
    {
        use nvram::planted::Bug;
        let shown = crate::with(Bug::SettledLoss, || rots_before_a_stop(false));
        assert_eq!(shown.ok(), Some(0), "older bytes stand in for it");
    }
}

#[test]
fn a_loss_is_given_up_on_request() {
    let volume = new_volume();
    let running = Running::of(1, &volume);
    let executor = &running.world.executor;
    let device = running.open().expect("it is its own");
    let write = device.write(0, vec![vec![7; 4096].into()], Durability::Through);
    executor.block_on(write).expect("nothing fails");
    let layout = nvram::format::Layout::of(MEMORY).expect("it is large enough");
    running.world.memory.rot(layout.slot(0) + SECTOR + 100, 3);
    executor.block_on(device.give_up_lost()).expect("that is meant");
    let read = device.read(0, Buffer::unfilled(4096));
    assert_eq!(executor.block_on(read).expect("the disk has zeros")[0], 0);
}

#[test]
fn an_nvram_that_has_gone_on_never_comes_back_over_disks_of_a_copy() {
    let copy = {
        let running = Running::of(1, &new_volume());
        let device = running.open().expect("it is its own");
        running.world.executor.block_on(device.close()).expect("nothing fails");
        running.kill()
    };
    let mut volume = copy.clone();
    for start in 2..8 {
        let running = Running::of(start, &volume);
        let device = running.open().expect("it is its own");
        let write = device.write(0, vec![vec![7; 4096].into()], Durability::Through);
        running.world.executor.block_on(write).expect("nothing fails");
        volume = running.kill();
        // The disks come back from the copy, and the NVRAM stays as it is.
        let mut mixed = copy.clone();
        mixed.platters.memory = volume.platters.memory.clone();
        let running = Running::of(20 + start, &mixed);
        let refused = running.open().err();
        let is_older = matches!(refused, Some(OpenError::Unpaired(Unpaired::OlderVolume { .. })));
        assert!(is_older, "start {start}: {refused:?}");
        let given_up = running.pairing().alone(true).expect("that is meant");
        let executor = &running.world.executor;
        executor.block_on(running.record().write(given_up)).expect("nothing fails");
        let device = running.open().expect("its content is void");
        let read = device.read(0, Buffer::unfilled(4096));
        assert_eq!(executor.block_on(read).expect("the disk has zeros")[0], 0, "start {start}");
    }
}

#[test]
fn what_is_given_up_never_comes_back() {
    let model = Model::new();
    let volume = new_volume();
    let running = Running::of(1, &volume);
    let device = running.open().expect("it is its own");
    let written = model.write(&device, 0, 8, Durability::Through);
    assert!(running.world.executor.block_on(written));
    let volume = running.kill();
    let running = Running::of(2, &volume);
    assert_eq!(running.open_alone().err(), Some(Unpaired::Missing));
    let given_up = running.pairing().alone(true).expect("that is meant");
    running.world.executor.block_on(running.record().write(given_up)).expect("nothing fails");
    let device = running.open().expect("its content is void");
    assert_eq!(device.status().dirty_bytes, 0);
    let read = device.read(0, Buffer::unfilled(4096));
    let read = running.world.executor.block_on(read).expect("the disk has zeros");
    assert!(read.iter().all(|&byte| byte == 0));
    assert!(running.pairing().is_dirty && VOLUME == running.world.below.geometry().size);
}
