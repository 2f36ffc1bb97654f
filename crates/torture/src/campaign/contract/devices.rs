//! The devices under test: one disk, or a set.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use block::{BlockDevice, Durability};
use raid::assembly::Witness;
use raid::label::{Standing, behind_data};
use raid::{MakeOptions, OpenOptions, Set};
use runtime::Runtime;
use sim::{Disk, Event, Executor, Image, Mark, Trace};

use super::model::Contents;
use super::workload::UNIT;
use crate::explore::device::Device;

/// The initial bytes of new disks.
const RUBBISH: u8 = 0xee;
/// Stripes of a tested set.
const ROWS: u64 = 3;
/// Mark of the first witness handed out; each later one has the next number.
const TOLD: u64 = 1000;

/// The initial state of a device: its content is that of version 0.
pub(super) struct Base {
    pub(super) device: Device,
    pub(super) images: Vec<Image>,
    pub(super) size: u64,
    /// Byte ranges of members that have checksums: the data, and the tables behind it.
    pub(super) summed: Vec<Range<u64>>,
    /// The bytes of each version.
    pub(super) contents: Contents,
    /// The witness, kept outside of the set.
    pub(super) witness: Option<Witness>,
}

impl Base {
    /// A new device that holds `content` from its beginning; or a set that was never written.
    pub(super) fn new(
        device: Device,
        disks: usize,
        is_fresh: bool,
        content: impl Fn(u64) -> Vec<u8>,
    ) -> Self {
        let executor = Executor::new(1);
        let runtime = executor.runtime();
        let Some(level) = device.level() else {
            let size = 4 * UNIT;
            return Self {
                device,
                images: vec![Image::from_bytes(&content(size))],
                size,
                summed: Vec::new(),
                contents: Contents::new(size, is_fresh),
                witness: None,
            };
        };
        let options = MakeOptions { level, unit: UNIT, log: 0 };
        let member = options.member_size(disks, ROWS);
        let rubbish = Image::from_bytes(&vec![RUBBISH; member as usize]);
        let new = |_| Disk::new(&executor, rubbish.clone());
        let members: Vec<Rc<Disk>> = (0..disks).map(new).collect();
        let devices = || members.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>);
        let (size, label) = executor.block_on(async {
            let devices: Vec<_> = devices().collect();
            raid::make(&devices, &options, &runtime).await.expect("there is room");
            let set =
                raid::open(devices, &runtime, OpenOptions::default()).await.expect("it is new");
            let size = set.geometry().size;
            if !is_fresh {
                let content = vec![content(size).into()];
                set.write(0, content, Durability::Plain).await.expect("it is whole");
                set.flush().await.expect("it is whole");
            }
            (size, set.label())
        });
        let images = members.iter().map(|disk| disk.contents()).collect();
        let data_end = label.data_start + ROWS * UNIT;
        let behind = data_end..data_end + behind_data(ROWS, UNIT);
        let summed = vec![label.data_start..data_end, behind];
        let (contents, witness) = (Contents::new(size, is_fresh), Some(Witness::of(&label)));
        Self { device, images, size, summed, contents, witness }
    }

    /// The same after the loss of a member, with a blank disk in its place.
    pub(super) fn without(&self, slot: usize) -> Self {
        let executor = Executor::new(2);
        let mut left: Vec<Option<Image>> = self.images.iter().cloned().map(Some).collect();
        left[slot] = None;
        let disks = Self::disks(&executor, &left);
        let runtime = executor.runtime();
        let opened = executor.block_on(async {
            open(self, &disks, self.witness.clone(), &runtime).await.expect("enough are left")
        });
        let image = |(disk, old): (&Option<Rc<Disk>>, &Image)| {
            let rubbish = || Image::from_bytes(&vec![RUBBISH; old.size() as usize]);
            disk.as_ref().map_or_else(rubbish, |disk| disk.contents())
        };
        let images = disks.iter().zip(&self.images).map(image).collect();
        let witness = opened.told.borrow().last().cloned();
        let Self { device, size, summed, contents, .. } = self;
        let (summed, contents) = (summed.clone(), contents.clone());
        Self { device: *device, images, size: *size, summed, contents, witness }
    }

    /// Checks that the units of each stripe add up to zeros, or are the same on each member.
    ///
    /// # Errors
    /// The first stripe that is inconsistent.
    pub(super) fn fits_together(
        &self,
        set: &Set,
        disks: &[Option<Rc<Disk>>],
    ) -> Result<(), String> {
        let start = set.label().data_start;
        let images: Vec<Image> = disks.iter().flatten().map(|disk| disk.contents()).collect();
        for stripe in (0..ROWS).filter(|&stripe| set.was_written(stripe)) {
            let unit = |image: &Image| {
                let mut unit = vec![0; UNIT as usize];
                image.read(start + stripe * UNIT, &mut unit);
                unit
            };
            let units: Vec<Vec<u8>> = images.iter().map(unit).collect();
            let fits = match self.device {
                Device::Raid5 => {
                    let sum = raid::parity::missing(UNIT as usize, units.iter().map(Vec::as_slice));
                    sum.iter().all(|&byte| byte == 0)
                }
                _ => units.iter().all(|unit| *unit == units[0]),
            };
            if !fits {
                return Err(format!(
                    "what the members have of stripe {stripe} does not fit together"
                ));
            }
        }
        Ok(())
    }

    /// The disks of a world with these images; a lost disk has none.
    pub(super) fn disks(executor: &Executor, images: &[Option<Image>]) -> Vec<Option<Rc<Disk>>> {
        let new = |image: &Option<Image>| image.clone().map(|image| Disk::new(executor, image));
        images.iter().map(new).collect()
    }
}

/// An opened device.
pub(super) struct Opened {
    pub(super) device: Rc<dyn BlockDevice>,
    /// The device as a set, if it is one.
    pub(super) set: Option<Rc<Set>>,
    /// The witnesses handed out since it was opened.
    told: Rc<RefCell<Vec<Witness>>>,
    /// It is a set, and all members were in when it was opened.
    pub(super) is_whole: bool,
}

impl Opened {
    /// The witnesses handed out, with the serial numbers of these events, by the trace of the first
    /// disk that was there.
    pub(super) fn told_in(&self, trace: &Trace) -> Vec<(u64, Witness)> {
        let told = self.told.borrow();
        let events = trace.events().iter();
        events
            .filter_map(|event| match event.event {
                Event::Mark(Mark::Number(number)) => {
                    let story = told.get(number.checked_sub(TOLD)? as usize)?;
                    Some((event.serial, story.clone()))
                }
                _ => None,
            })
            .collect()
    }
}

/// Opens the device on these disks.
pub(super) async fn open(
    base: &Base,
    disks: &[Option<Rc<Disk>>],
    witness: Option<Witness>,
    runtime: &Runtime,
) -> Result<Opened, String> {
    let told: Rc<RefCell<Vec<Witness>>> = Rc::default();
    let mut present = disks.iter().flatten();
    if base.device == Device::Plain {
        let device = present.next().expect("it has a disk").clone();
        return Ok(Opened { device, set: None, told, is_whole: false });
    }
    let mut devices: Vec<Rc<dyn BlockDevice>> = Vec::new();
    for disk in present.clone() {
        // A disk without a label was to become a member.
        if raid::label_of(&**disk).await.is_ok() {
            devices.push(disk.clone());
        }
    }
    let (first, kept) = (present.next().expect("one is left").clone(), told.clone());
    let witnessed = move |story: Witness| {
        let (first, kept) = (first.clone(), kept.clone());
        let note = async move {
            let number = kept.borrow().len() as u64;
            kept.borrow_mut().push(story);
            first.mark(Mark::Number(TOLD + number));
        };
        Box::pin(note) as futures::future::LocalBoxFuture<'static, ()>
    };
    let witnessed = Rc::new(witnessed);
    let options = OpenOptions { witness, witnessed, ..OpenOptions::default() };
    let set = raid::open(devices, runtime, options).await.map_err(|error| error.to_string())?;
    let is_whole = set.label().slots.iter().all(|slot| slot.standing == Standing::InSync);
    let set = Rc::new(set);
    Ok(Opened { device: set.clone(), set: Some(set), told, is_whole })
}
