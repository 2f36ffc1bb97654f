//! Volumes on simulated disks, for the kit and for tests of the engine's own.

use std::rc::Rc;
use std::time::Duration;

use enginekit::{Bench, Volume};
use lfs::{Lfs, MkfsOptions, OpenOptions, mkfs, open};
use runtime::{Runtime, Timestamp};
use sim::{Choice, Disk, Executor, Image, Mark, Platter, Prng, Trace};

/// Sizes of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Bytes of a block of a file.
    pub(crate) block: u64,
    /// Bytes of a segment.
    pub(crate) segment: u64,
    /// Bytes of the disk.
    pub(crate) disk: u64,
}

/// Volumes of several shapes.
pub(crate) fn settings() -> [Setting; 3] {
    [
        Setting { block: 8 << 10, segment: 64 << 10, disk: 16 << 20 },
        Setting { block: 4 << 10, segment: 16 << 10, disk: 12 << 20 },
        Setting { block: 16 << 10, segment: 240 << 10, disk: 24 << 20 },
    ]
}

/// A disk with a new volume.
pub(crate) async fn made(executor: &Executor, setting: &Setting) -> Rc<Disk> {
    let disk = Disk::new(executor, Image::zeroed(setting.disk));
    let options = MkfsOptions {
        block_size: setting.block,
        segment_size: Some(setting.segment),
        ..MkfsOptions::default()
    };
    let (runtime, now) = (executor.runtime(), Timestamp { seconds: 1_800_000_000, nanoseconds: 0 });
    mkfs(&*disk, &options, &*runtime.random, now).await.expect("there is room");
    disk
}

/// An open volume.
pub(crate) async fn opened(runtime: Runtime, disk: &Rc<Disk>) -> Result<Volume<Lfs>, String> {
    opened_with(runtime, disk, Duration::from_millis(200)).await
}

/// An open volume with this interval between rounds of housekeeping.
pub(crate) async fn opened_with(
    runtime: Runtime,
    disk: &Rc<Disk>,
    housekeeping_interval: Duration,
) -> Result<Volume<Lfs>, String> {
    let options = OpenOptions {
        cache_bytes: 8 << 20,
        housekeeping_interval,
        keeps_device: true,
        ..OpenOptions::default()
    };
    let files = open(disk.clone(), runtime, &options).await.map_err(|error| error.to_string())?;
    Ok(Volume::new(files))
}

/// Violations that a check finds.
pub(crate) fn findings(image: &Image) -> Result<(), String> {
    let executor = Executor::new(7);
    let disk = Disk::new(&executor, image.clone());
    let checked = executor
        .block_on(async { lfs::check(disk, &executor.runtime(), true, &mut |_, _| {}).await });
    let checked = checked.map_err(|error| error.to_string())?;
    let wrong: Vec<String> = checked.wrong.iter().map(ToString::to_string).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

pub(crate) struct Cut {
    position: usize,
    seed: u64,
    platter: Platter,
}

impl Bench for Setting {
    type Engine = Lfs;
    type Disks = Rc<Disk>;
    type Recording = Trace;
    type Cut = Cut;

    fn block_size(&self) -> u64 {
        self.block
    }

    async fn make(&self, executor: &Executor) -> Rc<Disk> {
        made(executor, self).await
    }

    async fn open(&self, runtime: Runtime, disk: &Rc<Disk>) -> Result<Volume<Lfs>, String> {
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
        let mut at: Vec<usize> = (0..count).map(|_| prng.index(trace.events().len() + 1)).collect();
        at.sort_unstable();
        let mut cut = |position| {
            let platter = trace.platter_at(position);
            let seed = prng.next_u64();
            Cut { position, seed, platter }
        };
        at.into_iter().map(&mut cut).collect()
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

    fn left(&self, cut: &Cut) -> Result<(Executor, Rc<Disk>), String> {
        let image = cut.platter.image(&Choice::random(&cut.platter, &mut Prng::new(cut.seed)));
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
