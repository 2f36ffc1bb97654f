//! A disk with an NVRAM before it, and a model of what it may hold.
//!
//! The model knows of each sector what was written, in which order, and how far each write has
//! come. After a cut a sector has its last durable version, or one that came after.

use std::cell::RefCell;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use futures::future::join_all;
use nvram::{Nvram, Recovered};
use sim::{Choice, Disk, Executor, Honesty, Image, Platter, Prng};

pub(crate) const SECTOR: u64 = 512;
pub(crate) const ID: [u8; 16] = [5; 16];
/// Bytes of the volume, and of an NVRAM with few buffers.
pub(crate) const VOLUME: u64 = 1 << 20;
pub(crate) const MEMORY: u64 = 360 << 10;

/// Both disks.
#[derive(Clone)]
pub(crate) struct Platters {
    pub(crate) below: Platter,
    pub(crate) memory: Platter,
}

pub(crate) struct World {
    pub(crate) executor: Executor,
    pub(crate) below: Rc<Disk>,
    pub(crate) memory: Rc<Disk>,
}

impl World {
    pub(crate) fn new(seed: u64, platters: &Platters) -> Self {
        let executor = Executor::new(seed);
        let below = Disk::resumed(&executor, platters.below.clone());
        let memory = Disk::resumed(&executor, platters.memory.clone());
        Self { executor, below, memory }
    }

    pub(crate) async fn open(&self) -> (Nvram, Recovered) {
        self.try_open().await.expect("it opens")
    }

    pub(crate) async fn try_open(&self) -> Result<(Nvram, Recovered), nvram::OpenError> {
        let (below, memory) = (self.below.clone(), self.memory.clone());
        nvram::open(below, memory, self.executor.runtime(), ID).await
    }

    /// What is left after a cut now, by chance.
    pub(crate) fn cut(&self, prng: &mut Prng) -> Platters {
        let left = |disk: &Rc<Disk>, prng: &mut Prng| {
            let platter: Platter = disk.platter();
            let choice = match prng.below(3) {
                0 => Choice::mixture(&platter, prng),
                _ => Choice::random(&platter, prng),
            };
            platter.image(&choice)
        };
        let below = left(&self.below, prng);
        let mut memory = left(&self.memory, prng);
        if prng.below(2) == 0 {
            memory = memory.torn(&left(&self.memory, prng), prng);
        }
        let [below, memory] = [below, memory].map(|it| Platter::new(it, Honesty::Honest));
        Platters { below, memory }
    }

    /// The process is killed, and the power stays on.
    pub(crate) fn kill(&self) -> Platters {
        let killed = |disk: &Rc<Disk>| disk.platter().killed();
        Platters { below: killed(&self.below), memory: killed(&self.memory) }
    }

    pub(crate) fn contents(&self) -> Platters {
        let kept = |disk: &Rc<Disk>| Platter::new(disk.contents(), Honesty::Honest);
        Platters { below: kept(&self.below), memory: kept(&self.memory) }
    }
}

/// Disks with an empty NVRAM.
pub(crate) fn made() -> Platters {
    made_with(MEMORY)
}

/// The same, with so many bytes of memory.
pub(crate) fn made_with(memory: u64) -> Platters {
    let blank = |size| Platter::new(Image::zeroed(size), Honesty::Honest);
    let world = World::new(1, &Platters { below: blank(VOLUME), memory: blank(memory) });
    world.executor.block_on(async {
        let memory: Rc<dyn BlockDevice> = world.memory.clone();
        nvram::make(&memory, ID, VOLUME).await.expect("it is large enough");
    });
    world.contents()
}

/// The number of a version: 0 are zeros.
pub(crate) type Version = u64;

/// What a sector may hold.
#[derive(Clone, Debug, Default)]
struct Sector {
    /// The version that no cut takes back; none where anything may be.
    durable: Option<Version>,
    /// Later ones in their order, each with whether it is completed.
    later: Vec<(Version, bool)>,
    /// Nothing is known of it before its next write.
    is_anything: bool,
}

impl Sector {
    /// What a read gives now, if that is certain.
    fn now(&self) -> Option<Version> {
        match self.later.last() {
            Some(&(version, true)) => Some(version),
            Some(_) => None,
            None => self.durable.filter(|_| !self.is_anything),
        }
    }

    fn may_be(&self, version: Version) -> bool {
        self.is_anything
            || self.durable == Some(version)
            || self.later.iter().any(|(later, _)| *later == version)
    }
}

pub(crate) struct Model {
    sectors: RefCell<Vec<Sector>>,
    next: RefCell<Version>,
}

/// The bytes of a version of a sector.
fn bytes_of(version: Version, sector: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    if version != 0 {
        for (at, chunk) in bytes.chunks_exact_mut(16).enumerate() {
            chunk[..8].copy_from_slice(&version.to_le_bytes());
            chunk[8..].copy_from_slice(&(sector ^ (at as u64) << 32).to_le_bytes());
        }
    }
    bytes
}

/// The version that a sector shows. None if it is none.
fn version_in(bytes: &[u8], sector: u64) -> Option<Version> {
    let version = Version::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    (bytes == bytes_of(version, sector)).then_some(version)
}

impl Model {
    pub(crate) fn new() -> Self {
        let fresh = Sector { durable: Some(0), ..Sector::default() };
        let sectors = vec![fresh; (VOLUME / SECTOR) as usize];
        Self { sectors: RefCell::new(sectors), next: RefCell::new(1) }
    }

    pub(crate) async fn write(
        &self,
        device: &dyn BlockDevice,
        first: u64,
        count: u64,
        durability: Durability,
    ) -> bool {
        let version = *self.next.borrow();
        *self.next.borrow_mut() += 1;
        let all = first..first + count;
        for sector in all.clone() {
            self.sectors.borrow_mut()[sector as usize].later.push((version, false));
        }
        let data: Vec<u8> = all.clone().flat_map(|sector| bytes_of(version, sector)).collect();
        let done = device.write(first * SECTOR, vec![data.into()], durability).await.is_ok();
        for sector in all.filter(|_| done) {
            let sector = &mut self.sectors.borrow_mut()[sector as usize];
            sector.later.iter_mut().filter(|it| it.0 == version).for_each(|it| it.1 = true);
            if durability == Durability::Through {
                settle(sector, version);
            }
        }
        done
    }

    pub(crate) async fn flush(&self, device: &dyn BlockDevice) -> bool {
        let completed = |sector: &Sector| sector.later.iter().rev().find(|it| it.1).map(|it| it.0);
        let covered: Vec<Option<Version>> = self.sectors.borrow().iter().map(completed).collect();
        let is_done = device.flush().await.is_ok();
        for (sector, version) in self.sectors.borrow_mut().iter_mut().zip(covered) {
            if let Some(version) = version.filter(|_| is_done) {
                settle(sector, version);
            }
        }
        is_done
    }

    pub(crate) async fn discard(&self, device: &dyn BlockDevice, first: u64, count: u64) {
        for sector in first..first + count {
            let sector = &mut self.sectors.borrow_mut()[sector as usize];
            *sector = Sector { is_anything: true, ..Sector::default() };
        }
        let _ = device.discard(first * SECTOR, count * SECTOR).await;
    }

    /// Compares what is read now with the latest completed writes.
    pub(crate) async fn compare(&self, device: &dyn BlockDevice, first: u64, count: u64) {
        let wanted: Vec<Option<Version>> = {
            let sectors = self.sectors.borrow();
            (first..first + count).map(|sector| sectors[sector as usize].now()).collect()
        };
        let room = Buffer::unfilled((count * SECTOR) as usize);
        let Ok(read) = device.read(first * SECTOR, room).await else { return };
        for ((sector, bytes), wanted) in (first..).zip(read.chunks(SECTOR as usize)).zip(wanted) {
            // A write that began since may show.
            let is_same = self.sectors.borrow()[sector as usize].now() == wanted;
            if let Some(wanted) = wanted.filter(|_| is_same) {
                assert_eq!(version_in(bytes, sector), Some(wanted), "sector {sector} is read");
            }
        }
    }

    /// Judges all that is there after a cut or a kill, and makes it durable.
    pub(crate) async fn judge(&self, device: &dyn BlockDevice) {
        for (first, chunk) in (0..VOLUME / SECTOR).step_by(64).zip(0..) {
            let room = Buffer::unfilled(64 * SECTOR as usize);
            let read = device.read(first * SECTOR, room).await.expect("nothing is lost");
            for (sector, bytes) in (first..).zip(read.chunks(SECTOR as usize)) {
                let found = version_in(bytes, sector);
                let state = &mut self.sectors.borrow_mut()[sector as usize];
                let is_good = state.is_anything || found.is_some_and(|it| state.may_be(it));
                assert!(is_good, "sector {sector} of chunk {chunk} has {found:?} of {state:?}");
                *state =
                    Sector { durable: found, is_anything: state.is_anything, later: Vec::new() };
            }
        }
        device.flush().await.expect("nothing fails");
    }

    /// What no cut takes back of each sector.
    pub(crate) fn durable(&self) -> Vec<Option<Version>> {
        self.sectors.borrow().iter().map(|sector| sector.durable).collect()
    }

    /// Compares the disk below, which has all that was answered as durable since the sectors had
    /// these versions.
    pub(crate) fn judge_below_since(&self, image: &Image, before: &[Option<Version>]) {
        let sectors = self.sectors.borrow();
        for ((sector, state), before) in (0..).zip(sectors.iter()).zip(before) {
            let mut bytes = [0; SECTOR as usize];
            image.read(sector * SECTOR, &mut bytes);
            if state.durable != *before && !state.is_anything {
                let found = version_in(&bytes, sector);
                let is_good = found.is_some_and(|it| state.may_be(it));
                assert!(is_good, "sector {sector} has {found:?} of {state:?} below");
            }
        }
    }

    /// Compares the disk below, which has everything.
    pub(crate) fn judge_below(&self, image: &Image) {
        for (sector, state) in (0..).zip(self.sectors.borrow().iter()) {
            let mut bytes = [0; SECTOR as usize];
            image.read(sector * SECTOR, &mut bytes);
            if let Some(wanted) = state.now() {
                assert_eq!(version_in(&bytes, sector), Some(wanted), "sector {sector} below");
            }
        }
    }
}

fn settle(sector: &mut Sector, version: Version) {
    if let Some(at) = sector.later.iter().position(|it| it.0 == version) {
        sector.later.drain(..=at);
        sector.durable = Some(version);
        sector.is_anything = false;
    }
}

/// What callers do, each with sectors of its own so that no two writes overlap at a time.
pub(crate) async fn play(model: &Model, device: &dyn BlockDevice, seed: u64, rounds: u64) {
    const CALLERS: u64 = 3;
    let callers = (0..CALLERS).map(async |caller| {
        let mut prng = Prng::new(seed.wrapping_mul(CALLERS) ^ caller);
        // Hot blocks, so that buffers are written over, and cold ones, so that they are used up.
        let all = VOLUME / SECTOR / CALLERS;
        let first = caller * all;
        for _ in 0..rounds {
            let (area, most) = if prng.below(2) == 0 { (64, 12) } else { (all, 24) };
            let count = match prng.below(20) {
                0 => 300.min(all),
                _ => 1 + prng.below(most),
            };
            let at = first + prng.below((area.max(count + 1)) - count);
            let through = prng.below(3) == 0;
            let durability = if through { Durability::Through } else { Durability::Plain };
            match prng.below(12) {
                0 => drop(model.flush(device).await),
                1 => model.discard(device, at, count).await,
                2 | 3 => model.compare(device, at, count).await,
                _ => drop(model.write(device, at, count, durability).await),
            }
        }
    });
    join_all(callers).await;
}
