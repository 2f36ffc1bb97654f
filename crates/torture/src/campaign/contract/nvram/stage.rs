//! The disks of a volume behind an NVRAM, and the ways to open it.
//!
//! Below is one disk, or a set of them; the memory comes next. A set keeps its pairing on its
//! labels. One disk has a third beside it, the *book*, for the pairing alone. If there are two
//! memories, the second one comes last. Behind each memory of a set is room for its log device,
//! which a life uses or not.

use std::cell::Cell;
use std::rc::Rc;

use block::slice::split;
use block::{BlockDevice, Buffer, Durability, IoError};
use futures::FutureExt;
use nvram::pairing::{Pairing, Record};
use nvram::{Found, Memories, Nvram, OpenError};
use raid::Set;
use sim::{Choice, Disk, Executor, Honesty, Image, Platter, Prng};

use super::model::{self, SECTOR, Version};
use crate::explore::device::{self, Device, NVRAM_ID};

/// Bytes of the volume, of one disk.
const VOLUME: u64 = 768 << 10;
/// Bytes of the memory: it has the fewest buffers.
pub(super) const MEMORY: u64 = 330 << 10;
/// Bytes of the log device behind the memory of a set: the fewest.
const LOWER: u64 = 256 << 10;
/// The number of another volume.
const OTHER: nvram::Id = [9; 16];
/// One memory in this many is torn between words by a cut.
const TORN: u64 = 3;
/// Bytes of one look.
const LOOK: u64 = 32 << 10;

/// The initial state of a volume.
#[derive(Clone)]
pub(super) struct Base {
    pub(super) platters: Vec<Platter>,
    /// The same with two memories.
    pub(super) two: Vec<Platter>,
    /// Sectors of the volume.
    pub(super) sectors: u64,
}

/// How a volume is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With its NVRAM.
    Own,
    /// With one of two.
    One(usize),
    /// Without it.
    Alone,
    /// Without it, whatever it alone has.
    GivenUp,
    /// With its NVRAM, as that of another volume.
    Foreign,
}

/// An open volume.
pub(super) struct Opened {
    pub(super) device: Rc<dyn BlockDevice>,
    pub(super) nvram: Option<Rc<Nvram>>,
    lower: Option<Lower>,
}

/// A set that has a log device, and whether it is to be used.
struct Lower {
    set: Rc<Set>,
    device: Option<Rc<dyn BlockDevice>>,
    is_wanted: bool,
    /// Whether the labels say that the set may need its NVRAM.
    may_be_used: Rc<Cell<bool>>,
}

/// The device below an NVRAM.
struct Below {
    device: Rc<dyn BlockDevice>,
    pairing: Pairing,
    record: Record,
    memories: Memories,
    lower: Option<Lower>,
}

/// Disks in a world of their own.
pub(super) struct Stage {
    device: Device,
    pub(super) executor: Executor,
    pub(super) disks: Vec<Rc<Disk>>,
}

/// The number of the disk that is the memory.
pub(super) fn memory(device: Device) -> usize {
    device.members()
}

/// The number of the second memory, if there are two: behind the disk of the pairing, which a
/// volume on one disk has.
pub(super) fn second(device: Device) -> usize {
    device.members() + 1 + usize::from(device.level().is_none())
}

/// A disk after a cut: by one choice, or for memory, which tears between words of 8 bytes, at times
/// by a mixture with another one.
pub(super) fn left(
    device: Device,
    disk: usize,
    platter: &Platter,
    choice: &Choice,
    prng: &mut Prng,
) -> Image {
    let image = platter.image(choice);
    let is_memory = disk == memory(device) || disk == second(device);
    if !is_memory || !prng.chance(1, TORN) {
        return image;
    }
    let other = platter.image(&Choice::random(platter, prng));
    image.torn(&other, prng)
}

/// A disk with this content, all of it durable.
pub(super) fn platter(image: Image) -> Platter {
    Platter::new(image, Honesty::Honest)
}

/// A set that needs nothing of its NVRAM needs nothing of the log device in it either.
fn record_with(set: &Rc<Set>, record: Record, may_be_used: Rc<Cell<bool>>) -> Record {
    let (set, left) = (set.clone(), may_be_used.clone());
    let write = move |pairing: Pairing| {
        may_be_used.set(pairing.is_dirty);
        record.write(pairing)
    };
    Record::new(write).leaving(move || {
        left.set(false);
        let set = set.clone();
        async move { set.log_to_members().await }.boxed_local()
    })
}

impl Base {
    pub(super) fn new(device: Device) -> Self {
        let blank = |size| platter(Image::zeroed(size));
        let size =
            if device.level().is_some() { device::member_size(device, VOLUME) } else { VOLUME };
        let mut platters = vec![blank(size); device.members()];
        platters.push(blank(MEMORY + if device.level().is_some() { LOWER } else { 0 }));
        if device.level().is_none() {
            platters.push(blank(SECTOR));
        }
        let made = |platters: &[Platter]| {
            let stage = Stage::new(device, 1, platters);
            let sectors = stage.executor.block_on(stage.make());
            (stage.contents(), sectors)
        };
        // The second one is larger, which helps nothing. With a log device they are of one size.
        let more = if device.level().is_some() { LOWER } else { 7 * SECTOR };
        let two = [&platters[..], &[blank(MEMORY + more)]].concat();
        let ((platters, sectors), (two, _)) = (made(&platters), made(&two));
        Self { platters, two, sectors }
    }
}

impl Stage {
    /// Disks as these platters are.
    pub(super) fn new(device: Device, seed: u64, platters: &[Platter]) -> Self {
        let executor = Executor::new(seed);
        let disk = |platter: &Platter| Disk::resumed(&executor, platter.clone());
        let disks = platters.iter().map(disk).collect();
        Self { device, executor, disks }
    }

    pub(super) fn memory(&self) -> &Rc<Disk> {
        &self.disks[memory(self.device)]
    }

    /// The second memory, if there are two.
    fn second(&self) -> Option<&Rc<Disk>> {
        self.disks.get(second(self.device))
    }

    /// The disk of the pairing.
    fn book_disk(&self) -> Rc<Disk> {
        self.disks[self.device.members() + 1].clone()
    }

    /// What reads find now, all of it durable.
    fn contents(&self) -> Vec<Platter> {
        self.disks.iter().map(|disk| platter(disk.contents())).collect()
    }

    pub(super) fn platters(&self) -> Vec<Platter> {
        self.disks.iter().map(|disk| disk.platter()).collect()
    }

    /// The parts of a memory.
    fn parts(&self, memory: &Rc<Disk>) -> Found {
        let memory: Rc<dyn BlockDevice> = memory.clone();
        if self.device.level().is_none() || memory.geometry().size <= MEMORY {
            return memory.into();
        }
        let [upper, lower] = split(memory, MEMORY);
        Found { memory: Rc::new(upper), log: Some(Rc::new(lower)) }
    }

    /// Those memories that are there, in this way.
    fn found(&self, way: Way) -> Memories {
        let first = Some(self.parts(self.memory())).filter(|_| way != Way::One(1));
        let second = self.second().filter(|_| way != Way::One(0));
        [first, second.map(|second| self.parts(second))]
    }

    fn members(&self) -> Vec<Rc<dyn BlockDevice>> {
        let members = self.disks[..self.device.members()].iter();
        members.map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect()
    }

    /// Makes the volume: all of it is version 0. Returns its sectors.
    async fn make(&self) -> u64 {
        let runtime = self.executor.runtime();
        let found = self.found(Way::Own).into_iter().flatten();
        let memories: Vec<Rc<dyn BlockDevice>> = found.map(|found| found.memory).collect();
        if let Some(level) = self.device.level() {
            device::make(level, &self.members(), &runtime).await;
            device::put_in_front(self.members(), &memories, &runtime).await;
        } else {
            let (generation, out) = device::make_memories(&memories, VOLUME).await;
            let pairing = Pairing { id: NVRAM_ID, generation, is_dirty: false, out };
            self.book().write(pairing).await.expect("nothing fails");
        }
        let below = self.below(Way::Own, false).await.expect("it is new").device;
        let sectors = below.geometry().size / SECTOR;
        let content = vec![model::bytes(0, 0..sectors).into()];
        below.write(0, content, Durability::Plain).await.expect("nothing fails");
        below.close().await.expect("nothing fails");
        sectors
    }

    /// How the pairing of one disk is recorded.
    fn book(&self) -> Record {
        let book = self.book_disk();
        Record::new(move |pairing: Pairing| {
            let mut bytes = vec![0; SECTOR as usize];
            bytes[..8].copy_from_slice(&pairing.generation.to_le_bytes());
            let [first, second] = pairing.out.unwrap_or_default();
            let flags = [pairing.is_dirty, pairing.out.is_some(), first, second];
            bytes[8..12].copy_from_slice(&flags.map(u8::from));
            book.write(0, vec![bytes.into()], Durability::Through).boxed_local()
        })
    }

    /// The log devices of a set, in those memories that are believed. Refuses one that does not go
    /// with the set.
    async fn logs(&self, found: &Memories) -> Result<Vec<Rc<dyn BlockDevice>>, String> {
        let mut latest: Option<raid::label::Label> = None;
        for member in self.members().iter().filter(|member| member.geometry().size > 0) {
            let label = raid::label_of(&**member).await.map_err(|error| error.to_string())?;
            if latest.as_ref().is_none_or(|latest| latest.generation < label.generation) {
                latest = Some(label);
            }
        }
        let pairing = device::pairing_of(&latest.ok_or("no member is there")?)?;
        if pairing.out.is_some() {
            let judged = nvram::judge_two(found, &pairing, &self.executor.runtime()).await;
            let (assembly, _) = judged.map_err(|error| error.to_string())?;
            return Ok(assembly.logs(found, &self.executor.runtime()));
        }
        let [Some(Found { memory, log }), _] = found else { return Ok(Vec::new()) };
        let label = nvram::look(memory).await.map_err(|error| error.to_string())?;
        pairing.meet(&label).map_err(|unpaired| unpaired.to_string())?;
        Ok(log.iter().cloned().collect())
    }

    /// The device below, and what it knows of its NVRAM.
    async fn below(&self, way: Way, uses_lower: bool) -> Result<Below, String> {
        let memories = self.found(way);
        if self.device.level().is_some() {
            let runtime = self.executor.runtime();
            let is_without = matches!(way, Way::Alone | Way::GivenUp);
            let logs = if is_without { Vec::new() } else { self.logs(&memories).await? };
            let set = device::open_logged(self.members(), logs, &runtime).await?;
            let set = Rc::new(set);
            let (pairing, record) = device::paired(&set)?;
            let may_be_used = Rc::new(Cell::new(false));
            let record = record_with(&set, record, may_be_used.clone());
            let device = memories[0].as_ref().and_then(|found| found.log.clone());
            let lower = Lower { set: set.clone(), device, is_wanted: uses_lower, may_be_used };
            return Ok(Below { device: set, pairing, record, memories, lower: Some(lower) });
        }
        let book = self.book_disk();
        // As a set does with what a process that was killed has left.
        book.flush().await.map_err(|error| error.to_string())?;
        let read = book.read(0, Buffer::unfilled(SECTOR as usize)).await;
        let read = read.map_err(|error| error.to_string())?;
        let generation = u64::from_le_bytes(read[..8].try_into().expect("eight bytes"));
        let [is_dirty, is_two, first, second] = [8, 9, 10, 11].map(|at| read[at] != 0);
        let out = is_two.then_some([first, second]);
        let pairing = Pairing { id: NVRAM_ID, generation, is_dirty, out };
        let device = self.disks[0].clone();
        Ok(Below { device, pairing, record: self.book(), memories, lower: None })
    }

    /// The generation that the volume knows.
    pub(super) fn generation(&self) -> Result<u64, String> {
        self.executor.block_on(async {
            if self.device.level().is_none() {
                return Ok(self.below(Way::Own, false).await?.pairing.generation);
            }
            let mut latest = 0;
            for member in self.members().iter().filter(|member| member.geometry().size > 0) {
                let label = raid::label_of(&**member).await.map_err(|error| error.to_string())?;
                latest = latest.max(device::pairing_of(&label)?.generation);
            }
            Ok(latest)
        })
    }

    /// Whether each of two memories has everything, and counts: where a start on one alone was cut
    /// off, the other one may be as it was before.
    pub(super) fn has_twice(&self) -> bool {
        self.executor.block_on(async {
            let below = self.below(Way::Own, false).await;
            let are_in = below.is_ok_and(|below| below.pairing.out == Some([false; 2]));
            let [Some(one), Some(other)] = self.found(Way::Own) else { return false };
            if !are_in {
                return false;
            }
            let [one, other] = [nvram::look(&one.memory).await, nvram::look(&other.memory).await];
            one.is_ok_and(|one| other.is_ok_and(|other| one.generation == other.generation))
        })
    }

    /// Opens the volume, and uses its log device or not.
    ///
    /// # Errors
    /// It is refused: why.
    pub(super) async fn open(&self, way: Way, uses_lower: bool) -> Result<Opened, String> {
        let Below { device: below, pairing, record, memories, mut lower } =
            self.below(way, uses_lower).await?;
        let runtime = self.executor.runtime();
        let opened = match way {
            Way::Alone | Way::GivenUp => {
                let alone = pairing.alone(way == Way::GivenUp);
                let alone = alone.map_err(|unpaired| unpaired.to_string())?;
                record.write(alone).await.map_err(|error| error.to_string())?;
                return Ok(Opened { device: below, nvram: None, lower: None });
            }
            Way::Own | Way::One(_) if pairing.out.is_some() => {
                nvram::open_two(below, memories, runtime, pairing, Some(record)).await
            }
            Way::Own | Way::One(_) => {
                let [Some(Found { memory, .. }), _] = memories else { panic!("it is there") };
                nvram::open_paired(below, memory, runtime, pairing, record).await
            }
            Way::Foreign => {
                let [Some(Found { memory, .. }), _] = memories else { panic!("it is there") };
                nvram::open(below, memory, runtime, OTHER).await
            }
        };
        let opened = opened.map(|(nvram, _)| Rc::new(nvram));
        let nvram = opened.map_err(|error: OpenError| error.to_string())?;
        if let Some(lower) = lower.as_mut().filter(|_| pairing.out.is_some()) {
            lower.device = nvram.log_device();
        }
        let opened = Opened { device: nvram.clone(), nvram: Some(nvram), lower };
        opened.follow().await.map_err(|error| error.to_string())?;
        Ok(opened)
    }
}

impl Opened {
    /// Uses the log device while the NVRAM is in use.
    ///
    /// # Errors
    /// The set has stopped.
    pub(super) async fn follow(&self) -> Result<(), IoError> {
        let (Some(lower), Some(nvram)) = (&self.lower, &self.nvram) else { return Ok(()) };
        if !nvram.status().is_in_use() || !lower.is_wanted || !lower.may_be_used.get() {
            return lower.set.log_to_members().await;
        }
        let is_begun = lower.set.label().has_log_apart && lower.set.log_device().is_some();
        if let Some(device) = lower.device.as_ref().filter(|_| !is_begun) {
            let _ = lower.set.log_to(device.clone()).await; // or the members get the records
        }
        Ok(())
    }

    /// Nothing is to rest on the log device any more.
    pub(super) fn distrust(&self) {
        self.lower.iter().for_each(|lower| lower.set.distrust_log_device());
    }

    /// The versions of all sectors.
    pub(super) async fn look(&self) -> Vec<Version> {
        let size = self.device.geometry().size;
        let mut shown = Vec::with_capacity((size / SECTOR) as usize);
        for at in (0..size).step_by(LOOK as usize) {
            shown.extend(self.read(at, LOOK.min(size - at)).await);
        }
        shown
    }

    /// The versions of sectors: where all cannot be read at once, those of each.
    pub(super) async fn read(&self, at: u64, length: u64) -> Vec<Version> {
        if let Ok(read) = self.device.read(at, Buffer::unfilled(length as usize)).await {
            return model::versions_in(&read, at / SECTOR);
        }
        let mut shown = Vec::new();
        for at in (at..at + length).step_by(SECTOR as usize) {
            let read = self.device.read(at, Buffer::unfilled(SECTOR as usize)).await;
            shown.push(read.map_or(model::ERROR, |it| model::versions_in(&it, at / SECTOR)[0]));
        }
        shown
    }

    /// Whether the NVRAM calls just those sectors lost that cannot be read.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn counts(&self, shown: &[Version]) -> Result<(), String> {
        let Some(nvram) = &self.nvram else { return Ok(()) };
        let lost: Vec<u64> =
            nvram.lost().into_iter().flat_map(|it| it.start / SECTOR..it.end / SECTOR).collect();
        let unread: Vec<u64> =
            (0..).zip(shown).filter(|it| *it.1 == model::ERROR).map(|it| it.0).collect();
        let counted = nvram.status().lost_bytes / SECTOR;
        if lost == unread && counted == lost.len() as u64 {
            return Ok(());
        }
        Err(format!(
            "sectors {unread:?} cannot be read, {lost:?} are called lost, {counted} counted"
        ))
    }
}
