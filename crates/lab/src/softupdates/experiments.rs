//! The experiments, each on its own simulated machine.

use std::rc::Rc;
use std::time::Duration;

use futures::future::join3;
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Machine, Prng, presets};
use ufs2::mkfs::{MkfsOptions, mkfs};

use super::files::{LocalFiles, Writes};
use super::model::{Model, Style};
use super::ours::Ours;
use super::program::{Processor, Program, Script};
use super::workloads::{self, Shape};

/// A machine with a file system.
pub(super) struct World<F> {
    // Declared first, so that tasks are dropped before the data that they use.
    executor: Executor,
    _machine: Machine,
    pub(super) files: Rc<F>,
    processor: Processor,
}

/// An empty file system on the paper's disk.
fn disk(executor: &Executor, machine: &Machine) -> Rc<Disk> {
    let timing = presets::SOFT_UPDATES_SCSI;
    let size = timing.capacity().expect("it is mechanical") / (1 << 20) * (1 << 20);
    let fast = Disk::new(executor, Image::zeroed(size));
    let options = MkfsOptions {
        block_size: 8192,
        fragment_size: 1024,
        bytes_per_inode: Some(4096),
        ..MkfsOptions::default()
    };
    let now = Timestamp { seconds: 900_000_000, nanoseconds: 0 };
    let made = executor.block_on(mkfs(&*fast, &options, &*executor.runtime().random, now));
    made.unwrap_or_else(|error| panic!("the disk holds a file system: {error}"));
    let options = sim::Options { timing, ..sim::Options::default() };
    Disk::in_machine(machine, fast.contents(), options)
}

impl World<Model> {
    /// One of the paper's file systems.
    pub(super) fn of_paper(style: Style, seed: u64) -> Self {
        let executor = Executor::new(seed);
        let machine = Machine::new(&executor);
        let files = Model::start(style, disk(&executor, &machine), machine.runtime());
        Self { executor, _machine: machine, files, processor: Processor::new() }
    }
}

impl World<Ours> {
    /// Our own file system.
    pub(super) fn ours(seed: u64) -> Self {
        let executor = Executor::new(seed);
        let machine = Machine::new(&executor);
        let starting = Ours::start(disk(&executor, &machine), machine.runtime());
        let files = executor.block_on(starting);
        Self { executor, _machine: machine, files, processor: Processor::new() }
    }
}

/// Result of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Taken {
    /// Duration of the program, in seconds.
    pub(super) elapsed_s: f64,
    /// Writes by the end of the program.
    pub(super) at_end: Writes,
    /// Writes by the time everything was on the disk.
    pub(super) at_rest: Writes,
}

impl<F: LocalFiles> World<F> {
    fn program(&self) -> Program<'_, F> {
        Program::new(&self.files, &self.processor, self.files.root())
    }

    /// Waits until no more writes happen.
    fn rest(&self) {
        loop {
            let before = self.files.written();
            self.executor.run_for(Duration::from_secs(95));
            if self.files.written() == before {
                return;
            }
        }
    }

    fn play(&self, program: &mut Program<'_, F>, script: &Script) -> Taken {
        let before = self.files.written();
        let elapsed = self.executor.block_on(program.play(script));
        let at_end = self.files.written().since(before);
        self.rest();
        let at_rest = self.files.written().since(before);
        Taken { elapsed_s: elapsed.as_secs_f64(), at_end, at_rest }
    }

    /// "A tar of zero-sized files and an rm -rf", each with this processor time.
    pub(super) fn tar(&self, processor: [Duration; 2]) -> [Taken; 2] {
        let shape = Shape::of_tar();
        let mut program = self.program();
        let make = Script { calls: shape.make(), processor: processor[0] };
        let made = self.play(&mut program, &make);
        let remove = Script { calls: shape.remove(), processor: processor[1] };
        [made, self.play(&mut program, &remove)]
    }

    /// The Andrew benchmark: seconds of each phase, and the total.
    pub(super) fn andrew(&self, processor: Duration) -> ([f64; 5], Taken) {
        let before = self.files.written();
        let mut program = self.program();
        let phases = workloads::andrew(processor)
            .map(|script| self.executor.block_on(program.play(&script)).as_secs_f64());
        let at_end = self.files.written().since(before);
        self.rest();
        let at_rest = self.files.written().since(before);
        (phases, Taken { elapsed_s: phases.iter().sum(), at_end, at_rest })
    }

    /// Plays a script from the root.
    pub(super) fn script(&self, script: &Script) -> Taken {
        self.play(&mut self.program(), script)
    }

    /// This many runs of Andrew, as many of copy and remove, and half as many of find, all at once.
    pub(super) fn torture(&self, runs: u32, costs: &Costs, seed: u64) -> Taken {
        let mut root = self.program();
        let still = Duration::from_millis(1);
        let standing = workloads::standing_shape();
        self.play(&mut root, &Script { calls: standing.make_in_turn(), processor: still });
        let mut prng = Prng::new(seed);
        let (first, second) = (prng.fork(), prng.fork());
        let (before, begun) = (self.files.written(), self.executor.now());
        let find = Script { calls: standing.find(), processor: costs.find };
        let played = join3(
            self.andrews(runs, costs),
            self.copies(runs, costs, first),
            self.finds(&mut root, &find, runs.div_ceil(2), second),
        );
        self.executor.block_on(played);
        let elapsed_s = self.executor.now().since(begun).as_secs_f64();
        let at_end = self.files.written().since(before);
        self.rest();
        Taken { elapsed_s, at_end, at_rest: self.files.written().since(before) }
    }

    async fn own_directory(&self, name: &str) -> F::Directory {
        self.files.make_directory(self.files.root(), name).await
    }

    async fn andrews(&self, runs: u32, costs: &Costs) {
        let own = self.own_directory("andrew").await;
        let phases = workloads::andrew(costs.andrew);
        let remove = Script { calls: workloads::remove_andrew(), processor: costs.remove_andrew };
        for _ in 0..runs {
            let mut program = Program::new(&*self.files, &self.processor, own);
            for script in phases.iter().chain([&remove]) {
                program.play(script).await;
            }
        }
    }

    async fn copies(&self, runs: u32, costs: &Costs, mut prng: Prng) {
        let own = self.own_directory("copies").await;
        let shape = workloads::etc_shape();
        let copy = Script { calls: shape.make(), processor: costs.copy };
        let remove = Script { calls: shape.remove(), processor: costs.remove };
        for _ in 0..runs {
            let mut program = Program::new(&*self.files, &self.processor, own);
            for script in [&copy, &remove] {
                program.play(script).await;
                self.pause(&mut prng, 60).await;
            }
        }
    }

    async fn finds(&self, program: &mut Program<'_, F>, find: &Script, runs: u32, mut prng: Prng) {
        for _ in 0..runs {
            program.play(find).await;
            self.pause(&mut prng, 100).await;
        }
    }

    /// Pauses for a random time of up to this many seconds.
    async fn pause(&self, prng: &mut Prng, most_s: u64) {
        let pause = Duration::from_millis(prng.below(most_s * 1000));
        self.files.clock().sleep(pause).await;
    }
}

/// *Inputs.* Processor time of the parts of the torture test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) andrew: Duration,
    pub(super) remove_andrew: Duration,
    pub(super) copy: Duration,
    pub(super) remove: Duration,
    pub(super) find: Duration,
}
