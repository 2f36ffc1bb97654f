//! The kit's tree of actors on one of our volumes: recording, cutting, judging.

use std::rc::Rc;

use enginekit::Bench;
use enginekit::tree::{self, Run};
use ffs::Ffs;
use runtime::{Runtime, Timestamp};
use sim::{Disk, Executor, Honesty, Image, Options, Trace};
use ufs2::mkfs::{MkfsOptions, mkfs};

use super::cutting::{Cut, Pair, acknowledged, acknowledgement, after_cut, judge, random_cuts};
use super::volume::{Volume, try_open_pair};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// The volume, and the amount of work on it. Its disks have a volatile cache, and their writes take
/// time and overtake each other.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) options: MkfsOptions,
    pub(crate) size: u64,
    pub(crate) steps: usize,
    pub(crate) honesty: Honesty,
    /// Bytes of log; 0 is policy `sync`.
    pub(crate) log: u64,
}

impl Bench for Setting {
    type Engine = Ffs;
    type Disks = Pair<Rc<Disk>>;
    type Recording = Pair<Trace>;
    type Cut = Cut;

    fn block_size(&self) -> u64 {
        self.options.block_size
    }

    async fn make(&self, executor: &Executor) -> Self::Disks {
        let options = Options { honesty: self.honesty, ..Options::default() };
        let disks = Pair { home: self.size, log: Some(self.log).filter(|&size| size > 0) };
        let disks = disks.map(|&size| Disk::with_options(executor, Image::zeroed(size), options));
        let random = executor.runtime().random;
        mkfs(&*disks.home, &self.options, &*random, NOW).await.expect("the disk holds it");
        disks
    }

    async fn open(&self, runtime: Runtime, disks: &Self::Disks) -> Result<Volume, String> {
        let opened = try_open_pair(runtime, disks).await;
        opened.map(|(volume, _)| volume).map_err(|error| error.to_string())
    }

    fn record(&self, disks: &Self::Disks) {
        disks.map(|disk| disk.start_trace());
    }

    fn acknowledge(&self, disks: &Self::Disks, actor: u64, step: usize) {
        disks.home.mark(acknowledgement(actor, step));
    }

    fn recording(&self, disks: &Self::Disks) -> Pair<Trace> {
        disks.map(|disk| disk.trace())
    }

    fn cuts(&self, traces: &Pair<Trace>, seed: u64, count: u64) -> Vec<Cut> {
        random_cuts(traces, seed, count)
    }

    fn label(&self, cut: &Cut) -> String {
        cut.label()
    }

    fn acknowledged(&self, traces: &Pair<Trace>, cut: &Cut, actor: u64) -> usize {
        acknowledged(&traces.home, cut.position, actor)
    }

    fn left(&self, cut: &Cut) -> Result<(Executor, Self::Disks), String> {
        Ok(after_cut(cut.seed, cut.image()?))
    }

    fn stopped(&self, disks: &Self::Disks) -> (Executor, Self::Disks) {
        after_cut(1, disks.map(|disk| disk.contents()))
    }

    fn judge(&self, disks: &Self::Disks, name: &str) -> Result<(), String> {
        judge(&disks.home, name)
    }
}

/// Records a run.
pub(crate) fn record(seed: u64, setting: &Setting) -> Run<'_, Setting> {
    tree::record(setting, seed, setting.steps)
}

/// Records runs, cuts each at random, and judges the recovered volume. `DURAMEN_RUNS` gives the
/// number of runs, each with its own seed.
pub(crate) fn cut_at_random(seed: u64, setting: &Setting) {
    let runs = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    for seed in (seed..).step_by(1000).take(runs) {
        let run = record(seed, setting);
        if let Some(wrong) = run.first_wrong(seed, 25, true) {
            panic!("run {seed} with a log of {} bytes: {wrong}", setting.log);
        }
    }
}
