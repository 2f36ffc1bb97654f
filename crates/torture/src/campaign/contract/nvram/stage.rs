//! The disks of a volume behind an NVRAM, and the ways to open it.
//!
//! Below is one disk, or a set of them; the memory comes next. A set keeps its pairing on its
//! labels. One disk has a third beside it, the *book*, for the pairing alone. If there are two
//! memories, the second one comes last.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use futures::FutureExt;
use nvram::pairing::{Pairing, Record};
use nvram::{Nvram, OpenError};
use sim::{Disk, Executor, Honesty, Image, Platter};

use super::model::{self, SECTOR, Version};
use crate::explore::device::{self, Device, NVRAM_ID};

/// Bytes of the volume, of one disk.
const VOLUME: u64 = 768 << 10;
/// Bytes of the memory: it has the fewest buffers.
pub(super) const MEMORY: u64 = 330 << 10;
/// The number of another volume.
const OTHER: nvram::Id = [9; 16];
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
    /// With its NVRAM, as that of another volume.
    Foreign,
}

/// An open volume.
pub(super) struct Opened {
    pub(super) device: Rc<dyn BlockDevice>,
    pub(super) nvram: Option<Rc<Nvram>>,
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

/// A disk with this content, all of it durable.
pub(super) fn platter(image: Image) -> Platter {
    Platter::new(image, Honesty::Honest)
}

impl Base {
    pub(super) fn new(device: Device) -> Self {
        let blank = |size| platter(Image::zeroed(size));
        let size =
            if device.level().is_some() { device::member_size(device, VOLUME) } else { VOLUME };
        let mut platters = vec![blank(size); device.members()];
        platters.push(blank(MEMORY));
        if device.level().is_none() {
            platters.push(blank(SECTOR));
        }
        let made = |platters: &[Platter]| {
            let stage = Stage::new(device, 1, platters);
            let sectors = stage.executor.block_on(stage.make());
            (stage.contents(), sectors)
        };
        // The second one is larger, which helps nothing.
        let two = [&platters[..], &[blank(MEMORY + 7 * SECTOR)]].concat();
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
        let book = usize::from(self.device.level().is_none());
        self.disks.get(self.device.members() + 1 + book)
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

    fn members(&self) -> Vec<Rc<dyn BlockDevice>> {
        let members = self.disks[..self.device.members()].iter();
        members.map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect()
    }

    /// Makes the volume: all of it is version 0. Returns its sectors.
    async fn make(&self) -> u64 {
        let runtime = self.executor.runtime();
        let memories: Vec<Rc<dyn BlockDevice>> = [Some(self.memory()), self.second()]
            .into_iter()
            .flatten()
            .map(|it| it.clone() as _)
            .collect();
        if let Some(level) = self.device.level() {
            device::make(level, &self.members(), &runtime).await;
            device::put_in_front(self.members(), &memories, &runtime).await;
        } else {
            let (generation, out) = device::make_memories(&memories, VOLUME).await;
            let pairing = Pairing { id: NVRAM_ID, generation, is_dirty: false, out };
            self.book()(pairing).await.expect("nothing fails");
        }
        let (below, ..) = self.below().await.expect("it is new");
        let sectors = below.geometry().size / SECTOR;
        let content = vec![model::bytes(0, 0..sectors).into()];
        below.write(0, content, Durability::Plain).await.expect("nothing fails");
        below.close().await.expect("nothing fails");
        sectors
    }

    /// How the pairing of one disk is recorded.
    fn book(&self) -> Record {
        let book = self.book_disk();
        Rc::new(move |pairing: Pairing| {
            let mut bytes = vec![0; SECTOR as usize];
            bytes[..8].copy_from_slice(&pairing.generation.to_le_bytes());
            let [first, second] = pairing.out.unwrap_or_default();
            let flags = [pairing.is_dirty, pairing.out.is_some(), first, second];
            bytes[8..12].copy_from_slice(&flags.map(u8::from));
            book.write(0, vec![bytes.into()], Durability::Through).boxed_local()
        })
    }

    /// The device below, and what it knows of its NVRAM.
    async fn below(&self) -> Result<(Rc<dyn BlockDevice>, Pairing, Record), String> {
        if self.device.level().is_some() {
            let set = Rc::new(device::open(self.members(), &self.executor.runtime()).await?);
            let (pairing, record) = device::paired(&set)?;
            return Ok((set, pairing, record));
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
        Ok((self.disks[0].clone(), pairing, self.book()))
    }

    /// The generation that the volume knows.
    pub(super) fn generation(&self) -> Result<u64, String> {
        self.executor.block_on(self.below()).map(|(_, pairing, _)| pairing.generation)
    }

    /// Whether each of two memories has everything.
    pub(super) fn has_twice(&self) -> bool {
        let below = self.executor.block_on(self.below());
        below.is_ok_and(|(_, pairing, _)| pairing.out == Some([false; 2]))
    }

    /// Opens the volume.
    ///
    /// # Errors
    /// It is refused: why.
    pub(super) async fn open(&self, way: Way) -> Result<Opened, String> {
        let (below, pairing, record) = self.below().await?;
        let (memory, runtime) = (self.memory().clone(), self.executor.runtime());
        let opened = match way {
            Way::Alone => {
                let alone = pairing.alone(false).map_err(|unpaired| unpaired.to_string())?;
                record(alone).await.map_err(|error| error.to_string())?;
                return Ok(Opened { device: below, nvram: None });
            }
            Way::Own | Way::One(_) if pairing.out.is_some() => {
                let both = [Some(memory), self.second().cloned()];
                let mut memories = both.map(|it| it.map(|it| it as Rc<dyn BlockDevice>));
                if let Way::One(one) = way {
                    memories[1 - one] = None;
                }
                nvram::open_two(below, memories, runtime, pairing, Some(record)).await
            }
            Way::Own | Way::One(_) => {
                nvram::open_paired(below, memory, runtime, pairing, record).await
            }
            Way::Foreign => nvram::open(below, memory, runtime, OTHER).await,
        };
        let opened = opened.map(|(nvram, _)| Rc::new(nvram));
        let nvram = opened.map_err(|error: OpenError| error.to_string())?;
        Ok(Opened { device: nvram.clone(), nvram: Some(nvram) })
    }
}

impl Opened {
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
