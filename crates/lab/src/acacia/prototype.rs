//! The paper's prototype: a server of one thread that updates its disk request by request.
//!
//! An update is the new data blocks, the block of pointers to them, the inode block, the inode
//! indirect block, and last the superblock of the cylinder that has them all. Once the superblock
//! is on the disk the replaced blocks are free (paper, section 4.1).
//!
//! On several disks each takes its share of the blocks, cylinder by cylinder, and the superblock
//! goes to the disk that finishes last: its heads are just before it.
//!
//! Invariants:
//! 1. Blocks are free when they are written, and blocks that an update replaces are free only after
//!    its superblock.
//! 2. The superblock goes out when everything before it has arrived.
//!
//! Not asserted: 2, which is the order of statements in one function.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use runtime::sync::Semaphore;
use sim::Prng;

use super::disks::{BLOCK, Disks};
use super::inputs::Inputs;
use super::placement::{Run, SUPERBLOCK, Search};

/// Variants of the prototype, for comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Design {
    /// Whether writes are placed by where the heads will be, or one after the other.
    pub(super) by_turn: bool,
    /// Whether every cylinder has a superblock, or only the first of the disk.
    pub(super) in_cylinder: bool,
    /// Whether updates go where the arm is, or to the end of a log.
    pub(super) near: bool,
}

/// The design that the paper describes.
pub(super) const PAPER: Design = Design { by_turn: true, in_cylinder: true, near: true };

/// A block on one of the disks.
#[derive(Clone, Copy, Debug)]
struct Place {
    disk: usize,
    block: u64,
}

/// The server.
pub(super) struct Prototype {
    pub(super) disks: Disks,
    inputs: Inputs,
    design: Design,
    thread: Rc<Semaphore>,
    state: RefCell<State>,
}

struct State {
    /// Free blocks, by disk.
    free: Vec<Vec<bool>>,
    /// Position of the arms.
    arm: u64,
    /// Cylinder of the last update.
    end: u64,
    inode_block: Option<Place>,
    inode_indirect: Option<Place>,
    prng: Prng,
}

/// A file being written by a client.
#[derive(Default)]
pub(super) struct File {
    blocks: u64,
    pointers: Option<Place>,
}

/// Result of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    /// Bytes of user data.
    pub(super) user_bytes: u64,
    /// Bytes written.
    pub(super) all_bytes: u64,
    /// "The time immediately before and after each disk write sequence".
    pub(super) raw: Duration,
    /// Cylinders that the arm crossed before the first write.
    pub(super) crossed: u64,
    /// Whether no sequence was found.
    pub(super) is_simplest: bool,
    /// Places that the search examined.
    pub(super) examined: u64,
}

impl Update {
    /// KB of all data a second, by writing time.
    pub(super) fn all_speed(&self) -> f64 {
        self.all_bytes as f64 / 1024.0 / self.raw.as_secs_f64()
    }
}

/// Placement of an update.
struct Plan {
    cylinder: u64,
    /// By disk.
    runs: Vec<Vec<Run>>,
    examined: u64,
    is_simplest: bool,
}

impl Prototype {
    /// A server with empty disks, and the arms in the middle.
    pub(super) fn new(seed: u64, disks: Disks, inputs: Inputs, design: Design) -> Self {
        let blocks = disks.layout.cylinders() * disks.layout.cylinder_blocks();
        let middle = disks.layout.cylinders() / 2;
        for disk in 0..disks.count() {
            disks.run(disks.read(disk, middle * disks.layout.cylinder_blocks(), 1));
        }
        let state = State {
            free: vec![vec![true; blocks as usize]; disks.count()],
            arm: middle,
            end: middle,
            inode_block: None,
            inode_indirect: None,
            prng: Prng::new(seed),
        };
        Self { disks, inputs, design, thread: Semaphore::new(1), state: RefCell::new(state) }
    }

    /// Number of blocks in use, without superblocks.
    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        let state = self.state.borrow();
        state.free.iter().flatten().filter(|&&free| !free).count() as u64
    }

    /// Fills half of the disk, in runs of up to 16 blocks.
    pub(super) fn fill_half(&self) {
        let state = &mut *self.state.borrow_mut();
        for disk in &mut state.free {
            let mut at = 0;
            while at < disk.len() {
                let is_free = state.prng.chance(1, 2);
                let end = disk.len().min(at + state.prng.between(1, 16) as usize);
                disk[at..end].fill(is_free);
                at = end;
            }
        }
    }

    /// Reads two blocks at a random place of the disk, and leaves the arm there.
    pub(super) async fn read_somewhere(&self) {
        let first = {
            let state = &mut *self.state.borrow_mut();
            let first = state.prng.below(state.free[0].len() as u64 - 1);
            state.arm = first / self.disks.layout.cylinder_blocks();
            first
        };
        self.disks.read(0, first, 2).await;
    }

    /// A client's daemon: sends requests of a size, one after the other.
    pub(super) async fn daemon(&self, file: &RefCell<File>, kb: u64, requests: u64) -> Vec<Update> {
        let mut updates = Vec::new();
        for _ in 0..requests {
            self.disks.sleep(self.chance(self.inputs.pause)).await;
            let _turn = self.thread.acquire(1).await;
            updates.push(self.request(file, kb).await);
        }
        updates
    }

    /// "The server reads an input request, computes the necessary disk writes, and then does those
    /// disk writes."
    async fn request(&self, file: &RefCell<File>, kb: u64) -> Update {
        let bytes = kb * 1024;
        let byte_ns = self.inputs.wire_ns_per_byte + self.inputs.processor_ns_per_byte;
        self.disks.sleep(Duration::from_nanos(bytes * byte_ns)).await;
        self.update(file, bytes / BLOCK).await
    }

    /// Appends to a file.
    pub(super) async fn update(&self, file: &RefCell<File>, data: u64) -> Update {
        if file.borrow().blocks + data > self.inputs.file_blocks.max(data) {
            file.replace(File::default());
        }
        let needs_pointers = file.borrow().blocks + data > self.inputs.direct_blocks;
        let blocks = data + u64::from(needs_pointers) + 2;
        let plan = self.plan(blocks);
        self.disks.sleep(Duration::from_nanos(plan.examined * self.inputs.place_ns)).await;
        let begun_ns = self.disks.now_ns();
        self.write(&plan).await;
        let raw = Duration::from_nanos(self.disks.now_ns() - begun_ns);
        let crossed = plan.cylinder.abs_diff(self.state.borrow().arm);
        self.committed(&mut file.borrow_mut(), &plan, data, needs_pointers);
        Update {
            user_bytes: data * BLOCK,
            all_bytes: (blocks + 1) * BLOCK,
            raw,
            crossed,
            is_simplest: plan.is_simplest,
            examined: plan.examined,
        }
    }

    /// Chooses a cylinder, and places in it.
    fn plan(&self, blocks: u64) -> Plan {
        let (state, layout) = (&*self.state.borrow(), &self.disks.layout);
        let disks = self.disks.count() as u64;
        let share = |disk: u64| blocks / disks + u64::from(disk < blocks % disks);
        let cylinder = self.cylinder(state, blocks.div_ceil(disks));
        let mut plan = Plan { cylinder, runs: Vec::new(), examined: 0, is_simplest: false };
        for (disk, free) in state.free.iter().enumerate() {
            let first = (cylinder * layout.cylinder_blocks()) as usize;
            let free = &free[first..first + layout.cylinder_blocks() as usize];
            let mut search = Search::new(layout, &self.inputs, cylinder, free);
            let share = share(disk as u64);
            let found = if self.design.by_turn { search.sequence(share) } else { None };
            plan.examined += search.examined();
            plan.is_simplest |= found.is_none();
            plan.runs.push(found.unwrap_or_else(|| search.simplest(share)));
        }
        plan
    }

    /// The nearest cylinder with room for this many blocks on each disk; for a log, the next one.
    fn cylinder(&self, state: &State, blocks: u64) -> u64 {
        let cylinders = self.disks.layout.cylinders();
        let has_room = |&cylinder: &u64| {
            let first = cylinder * self.disks.layout.cylinder_blocks();
            let inside = first + SUPERBLOCK + 1..first + self.disks.layout.cylinder_blocks();
            let count = |disk: &Vec<bool>| {
                inside.clone().filter(|&block| disk[block as usize]).count() as u64
            };
            state.free.iter().all(|disk| count(disk) >= blocks)
        };
        let mut candidates: Box<dyn Iterator<Item = u64>> = if self.design.near {
            // Without superblocks everywhere the arm comes from the single one.
            let from = if self.design.in_cylinder { state.arm } else { state.end };
            let either = move |way: u64| [from.checked_add(way), from.checked_sub(way)];
            Box::new((0..cylinders).flat_map(either).flatten().filter(move |&at| at < cylinders))
        } else {
            Box::new((0..cylinders).map(move |way| (state.end + way) % cylinders))
        };
        candidates.find(has_room).expect("an experiment does not fill its disks")
    }

    /// A random time of up to `most`.
    fn chance(&self, most: Duration) -> Duration {
        Duration::from_nanos(self.state.borrow_mut().prng.below(most.as_nanos() as u64 + 1))
    }

    /// Waits until the server is scheduled, and writes.
    async fn issue(&self, disk: usize, first: u64, blocks: u64) {
        let mut delay = self.chance(self.inputs.delay);
        let is_held_up = self.state.borrow_mut().prng.chance(1, self.inputs.stray_one_in);
        if is_held_up {
            delay += self.chance(self.inputs.stray);
        }
        self.disks.sleep(delay).await;
        self.disks.write(disk, first, blocks).await;
    }

    /// Writes the blocks of a plan, the superblock last (invariant 2).
    async fn write(&self, plan: &Plan) {
        let first = plan.cylinder * self.disks.layout.cylinder_blocks();
        let sequences = plan.runs.iter().enumerate().map(async |(disk, runs)| {
            for run in runs {
                self.issue(disk, first + run.first, run.blocks).await;
            }
            (self.disks.now_ns(), disk)
        });
        let ended = join_all(sequences).await;
        let (_, last) = ended.into_iter().max().expect("there is a disk");
        let superblock = if self.design.in_cylinder { first + SUPERBLOCK } else { SUPERBLOCK };
        self.issue(last, superblock, 1).await;
    }

    /// Frees replaced blocks once the superblock is on the disk (invariant 1).
    fn committed(&self, file: &mut File, plan: &Plan, data: u64, needs_pointers: bool) {
        let state = &mut *self.state.borrow_mut();
        let first = plan.cylinder * self.disks.layout.cylinder_blocks();
        let mut places = Vec::new();
        for (disk, runs) in plan.runs.iter().enumerate() {
            for block in runs.iter().flat_map(|run| run.first..run.first + run.blocks) {
                let block = first + block;
                let free = &mut state.free[disk][block as usize];
                assert!(*free, "invariant 1: what was written to was free");
                *free = false;
                places.push(Place { disk, block });
            }
        }
        file.blocks += data;
        let mut metadata = places.split_off(data as usize).into_iter();
        let mut replaced = Vec::new();
        if needs_pointers {
            replaced.extend(std::mem::replace(&mut file.pointers, metadata.next()));
        }
        replaced.extend(std::mem::replace(&mut state.inode_block, metadata.next()));
        replaced.extend(std::mem::replace(&mut state.inode_indirect, metadata.next()));
        for Place { disk, block } in replaced {
            state.free[disk][block as usize] = true;
        }
        state.end = plan.cylinder;
        state.arm = if self.design.in_cylinder { plan.cylinder } else { 0 };
    }
}
