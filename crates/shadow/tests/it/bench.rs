//! The bench of the engine: volumes on simulated disks, cut at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use enginekit::random::Seeded;
use enginekit::{Bench, Volume};
use runtime::{Runtime, Timestamp};
use shadow::{MkfsOptions, OpenOptions, Shadow, check, mkfs, open};
use sim::{Choice, Disk, Executor, Image, Mark, Options, Platter, Prng, Trace};
use vfs::FsError;

pub(crate) const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// Parameters of the test volumes.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) options: MkfsOptions,
    pub(crate) bytes: u64,
    /// Whether cuts leave no anchor.
    loses_anchors: bool,
}

impl Setting {
    pub(crate) fn of(block_kib: u64, zone_kib: u64, bytes: u64) -> Self {
        let (block_size, zone_size) = (block_kib << 10, Some(zone_kib << 10));
        let options = MkfsOptions { block_size, zone_size, ..MkfsOptions::default() };
        Self { options, bytes, loses_anchors: false }
    }

    /// The same, with cuts that leave no anchor.
    pub(crate) fn without_anchors(self) -> Self {
        Self { loses_anchors: true, ..self }
    }

    /// The disk after a cut that left this image.
    fn after_cut(&self, mut image: Image) -> Image {
        if self.loses_anchors {
            wipe_anchors(&mut image);
        }
        image
    }
}

/// Position of a power cut.
pub(crate) struct Cut {
    position: usize,
    seed: u64,
    platter: Platter,
}

/// Time between looks for what is to be done in the background.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

pub(crate) async fn opened(runtime: Runtime, disk: &Rc<Disk>) -> Result<Volume<Shadow>, String> {
    let options =
        OpenOptions { cache_bytes: 4 << 20, housekeeping_interval: LOOK, ..OpenOptions::default() };
    let opened = open(disk.clone(), runtime, &options).await;
    opened.map(Volume::new).map_err(|error| error.to_string())
}

/// Opens a volume with so little memory that blocks do not stay in it.
pub(crate) async fn opened_small(
    runtime: Runtime,
    disk: &Rc<Disk>,
) -> Result<Volume<Shadow>, String> {
    let options = OpenOptions { cache_bytes: 4096, ..OpenOptions::default() };
    let opened = open(disk.clone(), runtime, &options).await;
    opened.map(Volume::new).map_err(|error| error.to_string())
}

pub(crate) fn told(error: FsError) -> String {
    error.to_string()
}

/// A disk with a new volume.
pub(crate) async fn made(executor: &Executor, setting: &Setting) -> Rc<Disk> {
    let disk = Disk::new(executor, Image::zeroed(setting.bytes));
    mkfs(&*disk, &setting.options, &Seeded::new(7), NOW).await.expect("the disk holds it");
    disk
}

/// A new open volume on such a disk, without background work.
pub(crate) fn undisturbed(
    disk: Options,
    made: &MkfsOptions,
    bytes: u64,
) -> (Executor, Rc<Disk>, Volume<Shadow>) {
    let executor = Executor::new(1);
    let disk = Disk::with_options(&executor, Image::zeroed(bytes), disk);
    let volume = executor.block_on(async {
        mkfs(&*disk, made, &Seeded::new(7), NOW).await.expect("the disk holds it");
        let options = OpenOptions {
            cache_bytes: 64 << 20,
            housekeeping_interval: Duration::from_secs(100_000),
            ..OpenOptions::default()
        };
        Volume::new(open(disk.clone(), executor.runtime(), &options).await.expect("it is new"))
    });
    (executor, disk, volume)
}

/// Overwrites the anchors with zeros.
pub(crate) fn wipe_anchors(image: &mut Image) {
    for end in [0, image.size() - 8192] {
        image.write(end, &[0; 8192]);
    }
}

/// The findings of a check of an image.
pub(crate) fn findings(image: &Image) -> Result<(), String> {
    let executor = Executor::new(1);
    let disk: Rc<dyn BlockDevice> = Disk::new(&executor, image.clone());
    let found = executor.block_on(check(disk, true, &mut |_, _| ()));
    let found = found.map_err(|error| error.to_string())?;
    let wrong: Vec<String> = found.wrong.iter().map(ToString::to_string).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

impl Bench for Setting {
    type Engine = Shadow;
    type Disks = Rc<Disk>;
    type Recording = Trace;
    type Cut = Cut;

    fn block_size(&self) -> u64 {
        self.options.block_size
    }

    async fn make(&self, executor: &Executor) -> Rc<Disk> {
        made(executor, self).await
    }

    async fn open(&self, runtime: Runtime, disk: &Rc<Disk>) -> Result<Volume<Shadow>, String> {
        opened(runtime, disk).await
    }

    fn record(&self, disk: &Rc<Disk>) {
        disk.start_trace();
    }

    fn acknowledge(&self, disk: &Rc<Disk>, actor: u64, step: usize) {
        disk.mark(Mark::Number(actor << 32 | step as u64));
    }

    fn recording(&self, disk: &Rc<Disk>) -> Trace {
        disk.trace()
    }

    fn cuts(&self, trace: &Trace, seed: u64, count: u64) -> Vec<Cut> {
        let mut prng = Prng::new(seed);
        let moments = trace.events().len() + 1;
        let mut wanted: Vec<usize> = (0..count).map(|_| prng.index(moments)).collect();
        wanted.sort_unstable();
        let positions: BTreeSet<usize> = wanted.iter().copied().collect();
        let platters: BTreeMap<usize, Platter> =
            trace.cuts().filter(|(position, _)| positions.contains(position)).collect();
        let cut = |(index, &position): (usize, &usize)| {
            let (platter, seed) = (platters[&position].clone(), seed * 1_000_003 + index as u64);
            Cut { position, seed, platter }
        };
        wanted.iter().enumerate().map(cut).collect()
    }

    fn label(&self, cut: &Cut) -> String {
        format!("cut after {} events with seed {}", cut.position, cut.seed)
    }

    fn acknowledged(&self, trace: &Trace, cut: &Cut, actor: u64) -> usize {
        let steps = trace.marks_before(cut.position).filter_map(|mark| match mark {
            Mark::Number(number) if number >> 32 == actor => Some((number & 0xffff_ffff) as usize),
            _ => None,
        });
        steps.max().unwrap_or(0)
    }

    /// The disk after a cut; sometimes the power fails again during recovery.
    fn left(&self, cut: &Cut) -> Result<(Executor, Rc<Disk>), String> {
        let mut prng = Prng::new(cut.seed);
        let image = cut.platter.image(&Choice::random(&cut.platter, &mut prng));
        findings(&image)?;
        let mut image = self.after_cut(image);
        if prng.chance(1, 4) {
            let executor = Executor::new(prng.next_u64());
            let disk = Disk::new(&executor, image);
            disk.start_trace();
            let opened = executor.block_on(opened(executor.runtime(), &disk));
            opened.map_err(|error| format!("before the second cut: {error}"))?;
            let trace = disk.trace();
            let platter = trace.platter_at(prng.index(trace.events().len() + 1));
            image = self.after_cut(platter.image(&Choice::random(&platter, &mut prng)));
        }
        let executor = Executor::new(cut.seed);
        let disk = Disk::new(&executor, image);
        Ok((executor, disk))
    }

    fn stopped(&self, disk: &Rc<Disk>) -> (Executor, Rc<Disk>) {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, disk.contents());
        (executor, disk)
    }

    fn judge(&self, disk: &Rc<Disk>, _name: &str) -> Result<(), String> {
        findings(&disk.contents())
    }
}
