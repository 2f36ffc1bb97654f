//! The smallest engine on the floor: places by a counter, each once, and a root that is written
//! when an update is complete.
//!
//! ```text
//!  [root][root][ blocks, in the order in which they were made .....
//! ```
//!
//! A root has lines of the live tree and of snapshots, and open chains. It is written to the two
//! places by turns.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use bytes::Bytes;
use cache::{Budget, DataPath};
use cow::apply::first_chunk;
use cow::edits::Edits;
use cow::files::Freed;
use cow::floor::{File, Floor, limits};
use cow::format::head::{alone, seal, seal_alone};
use cow::format::inode::{Facts, Record};
use cow::format::snapshot::{LINES, Line, Snapshots, State, Told};
use cow::layout::{Disk, Layout, Room};
use cow::live::Live;
use cow::nodes::Nodes;
use cow::{
    Head, Kind, Node, Occupied, Pins, Place, Pointer, ROOT, Run, Stem, TREES, Tree, UNIT, sum,
};
use enginekit::Volume;
use futures::FutureExt;
use futures::future::join_all;
use namespace::NewFile;
use runtime::{Runtime, Timestamp};
use vfs::{
    CallReply, Credentials, Depends, Device, FileKind, FsError, FsStat, Name, Sequence, Snapshot,
    SnapshotNumber,
};
use vnode::chain::Chain;
use vnode::{Engine, Files, FilesOptions, SnapshotChange, Space};

/// Kind of the units of a root.
const OF_ROOT: Kind = Kind(100);
/// Units of a root: lines, and the rest.
const OF_ONE: usize = 8;
/// Units for roots.
pub(crate) const ROOTS: u64 = 2 * OF_ONE as u64;
/// Bytes of a block of a file.
pub(crate) const BLOCK: u64 = 8192;
const SECRET: [u8; 16] = [9; 16];

/// An address is the number of a unit.
pub(crate) struct Units(u64);

impl Disk for Units {
    fn locate(&self, pointer: Pointer) -> Option<u64> {
        (pointer.address.get() < self.0).then(|| pointer.offset())
    }
}

/// The work of an Update on snapshots.
pub(crate) enum Work {
    Pin(Snapshot),
    Delete(SnapshotNumber, Timestamp),
    LetGo(SnapshotNumber),
    End(SnapshotNumber),
    Back(SnapshotNumber),
}

/// A complete update, on its way.
struct Sealed {
    through: u64,
    number: u64,
    writes: Vec<(u64, Bytes)>,
    riding: Vec<(u64, Bytes)>,
    root: Bytes,
    /// Stay in memory until the device has them.
    _nodes: Vec<Rc<Node>>,
}

/// Places, and updates.
pub(crate) struct Counter {
    runtime: Runtime,
    nodes: Rc<Nodes<Units>>,
    pins: Rc<Pins>,
    live: Rc<Live>,
    path: Rc<DataPath>,
    units: u64,
    /// The next unit.
    next: Cell<u64>,
    number: Cell<u64>,
    through: Cell<u64>,
    riding: RefCell<Vec<(u64, Bytes)>>,
    sealed: RefCell<Vec<Sealed>>,
    /// Edits that were staged.
    edits: RefCell<Vec<Edits>>,
    is_running: Cell<bool>,
}

impl Layout for Counter {
    type Disk = Units;
    type Work = Work;

    fn number(&self) -> u64 {
        self.number.get()
    }

    fn has_room(&self, room: Room) -> bool {
        let blocks = room.blocks * BLOCK / UNIT as u64;
        self.next.get() + blocks + room.units + self.nodes.dirty_count() + 64 < self.units
    }

    async fn place(&self, blocks: u64) -> Option<Vec<Run>> {
        let step = BLOCK / UNIT as u64;
        self.next.set(self.next.get().next_multiple_of(step)); // as caches want it
        Some(vec![Run { start: self.take(blocks * step), length: blocks * step }])
    }

    fn free(&self, _runs: &[Run]) {}

    async fn prepare(&self, _places: impl Iterator<Item = Run> + Clone) {}

    fn makes_room(self: &Rc<Self>) -> bool {
        self.is_running.get()
    }
}

impl Counter {
    fn take(&self, units: u64) -> u64 {
        self.next.replace(self.next.get() + units)
    }

    /// Completes the open update: nothing waits.
    fn seal(&self, pin: Option<Snapshot>) {
        let number = self.number.replace(self.number.get() + 1);
        let (mut writes, nodes) = (Vec::new(), self.nodes.take_dirty());
        for node in &nodes {
            let (at, is_twice) = (self.take(1), node.place.is_twice());
            let twin = if is_twice { self.take(1) } else { 0 };
            let (block, _, old) = self.nodes.seal(node, (at, twin), number);
            let block = block.freeze();
            for (place, old) in [at, twin].into_iter().zip(old).filter(|(place, _)| *place > 0) {
                writes.push((place * UNIT as u64, block.clone()));
                if old.is_null() {
                    self.pins.count_node();
                }
            }
        }
        if let Some(snapshot) = pin {
            let Snapshot { number: of, name, created, .. } = snapshot;
            let of_it = (of.0, name, created);
            let told = self.live.told(&self.nodes, &self.pins, of_it, number);
            self.nodes.held_trees.add(told.inodes);
            self.pins.pin(told, self.pins.next_line());
        }
        let riding = self.riding.take();
        let bytes = |(at, data): &(u64, Bytes)| (at * UNIT as u64, data.clone());
        writes.extend(riding.iter().map(bytes));
        let (through, root) = (self.through.get(), self.root(number));
        let sealed = Sealed { through, number, writes, riding, root, _nodes: nodes };
        self.sealed.borrow_mut().push(sealed);
    }

    /// The live tree, as a snapshot of it would be.
    fn told(&self, number: u64) -> Told {
        let created = Timestamp { seconds: self.live.next_ino.get() as i64, nanoseconds: 0 };
        let of_it = (1, Name::parse(b"live").expect("it is one"), created);
        let told = self.live.told(&self.nodes, &self.pins, of_it, number);
        Told { freed: self.next.get(), ..told }
    }

    fn root(&self, number: u64) -> Bytes {
        let mut blocks = vec![vec![0; UNIT]; OF_ONE];
        Line::write(&mut blocks[0], 0, Some(&self.told(number)));
        for (told, slot) in self.pins.lines().values() {
            let slot = slot + 1;
            Line::write(&mut blocks[(slot / LINES) as usize], slot, Some(told));
        }
        let Snapshots { last, changed, .. } = self.pins.said();
        let mut words = vec![last, changed.seconds as u64, changed.nanoseconds.into()];
        for chain in self.live.chains.all() {
            let size = chain.size.map_or(0, |size| size + 1);
            words.extend([chain.ino, chain.generation.into(), size]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let rest = blocks.last_mut().expect("it has several");
        rest[size_of::<Head>()..size_of::<Head>() + bytes.len()].copy_from_slice(&bytes);
        for (index, block) in (0..).zip(&mut blocks) {
            let place = Place { kind: OF_ROOT, owner: 0, level: 0, index };
            seal(block, place, number, &SECRET);
            seal_alone(block);
        }
        Buffer::copied(&blocks.concat()).freeze()
    }

    fn commit_soon(self: &Rc<Self>) {
        if self.is_running.replace(true) {
            return;
        }
        let this = self.clone();
        let run = async move {
            while this.is_due() && !this.live.horizon.has_failed() {
                if this.sealed.borrow().is_empty() {
                    this.seal(None);
                }
                let sealed = this.sealed.borrow_mut().remove(0);
                if this.write(sealed).await.is_err() {
                    this.live.horizon.fail();
                }
            }
            this.is_running.set(false);
            this.live.released.notify();
        };
        self.runtime.tasks.spawn(run.boxed_local());
    }

    fn is_due(&self) -> bool {
        let is_open = self.nodes.dirty_count() > 0 || !self.riding.borrow().is_empty();
        let is_staged = self.through.get() > self.live.horizon.through().0;
        is_open || is_staged || !self.sealed.borrow().is_empty()
    }

    async fn write(&self, sealed: Sealed) -> Result<(), block::IoError> {
        let writes =
            sealed.writes.iter().map(|(at, data)| self.path.write(*at, vec![data.clone()]));
        join_all(writes.collect::<Vec<_>>()).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        self.path.flush().await?;
        let at = sealed.number % 2 * (OF_ONE * UNIT) as u64;
        self.path.write(at, vec![sealed.root]).await?;
        self.path.flush().await?;
        for (at, data) in &sealed.riding {
            self.path.let_go(at * UNIT as u64, data);
        }
        if sealed.through > self.live.horizon.through().0 {
            self.live.horizon.advance(sealed.through);
        }
        self.live.released.notify();
        Ok(())
    }

    async fn idle(self: &Rc<Self>) -> Result<(), FsError> {
        while self.is_due() || self.is_running.get() {
            if self.live.horizon.has_stopped() {
                return Err(FsError::Io);
            }
            self.commit_soon();
            self.live.released.wait().await;
        }
        Ok(())
    }
}

/// The engine.
pub(crate) struct Smallest {
    floor: Floor<Counter>,
    counter: Rc<Counter>,
}

impl Smallest {
    /// Edits that were staged since the last call.
    pub(crate) fn take_edits(&self) -> Vec<Edits> {
        self.counter.edits.take()
    }

    /// The next unit.
    pub(crate) fn next(&self) -> u64 {
        self.counter.next.get()
    }

    /// Applies edits to the trees, and makes that durable. New blocks are behind those of the
    /// Updates.
    pub(crate) async fn replay(&self, edits: &[Edits], next: u64) -> Result<(), FsError> {
        self.counter.next.set(next);
        for edits in edits {
            for gone in self.floor.nodes.replay(edits).await? {
                self.floor.pins.uncount_node(gone.birth.get(), false);
            }
        }
        self.counter.idle().await
    }

    fn work(&self, work: Work) -> Option<Snapshot> {
        let Floor { pins, nodes, live, .. } = &self.floor;
        match work {
            Work::Pin(snapshot) => return Some(snapshot),
            Work::Delete(number, at) => pins.delete(number, at),
            Work::LetGo(number) => {
                pins.told(number).iter().for_each(|(told, _)| nodes.held_trees.remove(told.inodes));
                pins.let_go(number);
            }
            Work::End(number) => pins.end(number),
            Work::Back(number) => {
                let (told, _) = pins.told(number).expect("it was planned");
                self.counter.seal(None);
                self.floor.touched.borrow_mut().clear();
                nodes.set_inodes(told.inodes);
                pins.roll_back(&told);
                live.chains.replace(Vec::new(), 0);
                let counts = [&live.files, &live.directories, &live.units];
                let told = [told.files, told.directories, told.units];
                counts.into_iter().zip(told).for_each(|(count, told)| count.set(told));
            }
        }
        None
    }
}

impl Engine for Smallest {
    cow::verbs!(Counter);
    cow::snapshot_verbs!();

    type Applied = (cow::apply::Applied<Counter>, Option<Snapshot>);

    fn space(&self, _who: &Credentials, orphans: (u64, u64)) -> FsStat {
        let all = self.counter.units * UNIT as u64;
        let (live, total_files) = (&self.floor.live, 1 << 20);
        let free = all - live.units.get() * UNIT as u64 + orphans.1;
        let free_files = total_files - live.files.get() + orphans.0;
        let (total_bytes, free_bytes, available_bytes) = (all, free, free);
        let available_files = free_files;
        FsStat {
            total_bytes,
            free_bytes,
            available_bytes,
            total_files,
            free_files,
            available_files,
        }
    }

    fn claim(&self, blocks: u64, kind: Space) -> Result<(), FsError> {
        let has_room = self.floor.has_room(blocks, 0, kind, true);
        if has_room { Ok(()) } else { Err(FsError::NoSpace) }
    }

    fn release(&self, _blocks: u64) {}

    async fn delete_held(
        &self,
        update: &mut Self::Update,
        tree: SnapshotNumber,
    ) -> Result<bool, FsError> {
        let (told, _) = self.floor.pins.told(tree).ok_or(FsError::NoEntry)?;
        let is_gone = told.state == State::Gone;
        update.work = Some(if is_gone { Work::End(tree) } else { Work::LetGo(tree) });
        Ok(is_gone)
    }

    async fn reserve(&self, mut update: Self::Update) -> Result<Self::Update, FsError> {
        if let Some(change) = update.asked.take() {
            update.work = Some(match change {
                SnapshotChange::Pinned(snapshot) => Work::Pin(snapshot),
                SnapshotChange::Deleted(number, at) => Work::Delete(number, at),
                SnapshotChange::RolledBack(number) => Work::Back(number),
            });
        }
        self.floor.reserve(update, true).await
    }

    fn apply(
        &self,
        ready: Self::Update,
        see: impl FnMut(&File, Sequence),
    ) -> (Sequence, Self::Applied) {
        let mut applied = self.floor.apply_all(ready, see);
        let pin = applied.work.take().and_then(|work| self.work(work));
        (Sequence(applied.sequence), (applied, pin))
    }

    fn stage(
        &self,
        (applied, pin): Self::Applied,
        _answered: Option<(CallReply, Depends)>,
    ) -> Option<Freed> {
        self.counter.through.set(applied.sequence);
        self.counter.riding.borrow_mut().extend(applied.riding);
        self.counter.edits.borrow_mut().push(applied.edits);
        if pin.is_some() {
            self.counter.seal(pin);
        }
        self.counter.commit_soon();
        (!applied.ended.is_empty()).then_some(Freed { units: 0, inos: applied.ended })
    }

    async fn come_to_rest(&self) -> Result<(), FsError> {
        let touched = self.floor.touched.take().into_values();
        touched.filter(|home| !home.is_gone()).for_each(|home| self.floor.nodes.mark(&home));
        self.counter.idle().await
    }

    async fn close(&self) -> Result<(), FsError> {
        self.counter.idle().await
    }
}

/// The contents of a root.
struct Found {
    live: Told,
    all: BTreeMap<u64, (Told, u64)>,
    last: u64,
    changed: Timestamp,
    chains: Vec<Chain>,
}

async fn root_at(device: &dyn BlockDevice, at: u64) -> Option<Found> {
    let bytes = device.read(at, Buffer::unfilled(OF_ONE * UNIT)).await.ok()?;
    let blocks: Vec<&[u8]> = bytes.chunks(UNIT).collect();
    let births: Option<Vec<_>> = blocks.iter().map(|block| alone(block, OF_ROOT)).collect();
    births.filter(|all| all.windows(2).all(|two| two[0] == two[1]))?;
    let (rest, lines) = blocks.split_last()?;
    let line = |slot: u64| Line::read(lines[(slot / LINES) as usize], slot).ok().flatten();
    let slots = 0..LINES * lines.len() as u64;
    let mut all = slots.filter_map(|slot| Some((line(slot)?, slot)));
    let (live, _) = all.next()?;
    let all = all.map(|(told, slot)| (told.number, (told, slot - 1))).collect();
    let words: Vec<u64> = rest[size_of::<Head>()..]
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
        .collect();
    let chain =
        |it: &[u64]| Chain { ino: it[0], generation: it[1] as u32, size: it[2].checked_sub(1) };
    let chains = words[3..].chunks_exact(3).take_while(|it| it[0] > 0).map(chain).collect();
    let changed = Timestamp { seconds: words[1] as i64, nanoseconds: words[2] as u32 };
    Some(Found { live, all, last: words[0], changed, chains })
}

/// The parts of a volume, on this device.
fn counter(device: Rc<dyn BlockDevice>, runtime: &Runtime, found: Option<&Found>) -> Rc<Counter> {
    let units = device.geometry().size / UNIT as u64;
    let budget = Budget::new(4 << 20, BLOCK, false);
    let path = Rc::new(DataPath::new(device, budget.clone(), (BLOCK, BLOCK)).with_sums(sum));
    let mut trees = [Tree::default(); TREES];
    found.iter().for_each(|found| trees[0] = found.live.inodes);
    let nodes = Rc::new(Nodes::new(Units(units), path.clone(), budget, trees, SECRET));
    let (last, changed) = found.map_or_else(Default::default, |it| (it.last, it.changed));
    let of_nodes = found.map_or(0, |found| found.live.nodes);
    let said = Snapshots { last, changed, nodes: of_nodes, ..Snapshots::default() };
    let all = found.map(|found| found.all.clone()).unwrap_or_default();
    let pins = Rc::new(Pins::new(&said, all, BTreeMap::new(), Occupied::default()));
    nodes.held_trees.begin(pins.holding().into_iter().map(|told| told.inodes));
    let live = match found {
        Some(Found { live, chains, .. }) => {
            let counts = [live.files, live.directories, live.units];
            Live::found(chains, live.created.seconds as u64, counts)
        }
        None => Live::found(&[], cow::FIRST, [1, 1, 1]),
    };
    Rc::new(Counter {
        runtime: runtime.clone(),
        nodes,
        pins,
        live: Rc::new(live),
        path,
        units,
        next: Cell::new(found.map_or(ROOTS, |found| found.live.freed)),
        number: Cell::new(found.map_or(1, |found| found.live.update + 1)),
        through: Cell::new(0),
        riding: RefCell::default(),
        sealed: RefCell::default(),
        edits: RefCell::default(),
        is_running: Cell::new(false),
    })
}

/// Makes an empty volume.
pub(crate) async fn mkfs(device: Rc<dyn BlockDevice>, runtime: &Runtime) {
    let counter = counter(device, runtime, None);
    let (nodes, mut made) = (&counter.nodes, Vec::new());
    let home = nodes.make(&Stem::Inodes, 0, 0, &mut made).await.expect("it is new");
    let (kind, device, verifier) = (FileKind::Directory, Device::default(), None);
    let new = NewFile { kind, mode: 0o755, uid: 0, gid: 0, device, target: &[], verifier };
    let mut facts = Facts::new(&new, 7, Timestamp { seconds: 1_800_000_000, nanoseconds: 5 });
    let chunk = first_chunk(ROOT, ROOT);
    (facts.size, facts.units) = (chunk.len() as u64, 1);
    home.change(|bytes| Record::of_mut(bytes, ROOT).set(&facts));
    let stem = Stem::File(ROOT, home.clone(), ROOT);
    let names = nodes.make(&stem, 0, 0, &mut made).await.expect("it is new");
    let at = size_of::<Head>();
    names.change(|bytes| bytes[at..at + chunk.len()].copy_from_slice(&chunk));
    nodes.mark(&names);
    counter.idle().await.expect("it can be written");
}

/// Opens a volume.
pub(crate) async fn open(
    device: Rc<dyn BlockDevice>,
    runtime: Runtime,
) -> Result<Volume<Smallest>, String> {
    let roots = [root_at(&*device, 0).await, root_at(&*device, (OF_ONE * UNIT) as u64).await];
    let found = roots.into_iter().flatten().max_by_key(|found| found.live.update);
    let found = found.ok_or("it has no root")?;
    let counter = counter(device, &runtime, Some(&found));
    counter.nodes.mend_copies(&Stem::Inodes).await;
    let home = counter.nodes.get(&Stem::Inodes, 0, 0).await.map_err(|error| error.to_string())?;
    let facts = home.and_then(|home| home.inode(ROOT, Record::facts)).ok_or("it has no top")?;
    let limits = limits(facts.generation, (counter.units, BLOCK), false);
    let floor = Floor::new(
        runtime.clone(),
        limits,
        Budget::new(4 << 20, BLOCK, false),
        counter.nodes.clone(),
        counter.pins.clone(),
        counter.clone(),
        counter.live.clone(),
    );
    let options = FilesOptions { dirty_limit: 2 << 20, remembered: Vec::new() };
    let files = Files::new(Rc::new(Smallest { floor, counter }), runtime, options);
    files.start_housekeeping(std::time::Duration::from_millis(200));
    files.finish_chains(found.chains).await.map_err(|error| error.to_string())?;
    Ok(Volume::new(files))
}
