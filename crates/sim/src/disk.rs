//! A simulated disk with a volatile write cache.
//!
//! This file is its interface: the operations and queries for tests, and the verbs of a block
//! device. [`crate::controller`] executes the calls.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, Verb};
use bytes::Bytes;

use crate::controller::{Call, Controller};
use crate::faults::{Effect, Fault, Persistence};
use crate::timing::Kind;
use crate::{
    Choice, Counters, Event, Executor, Fate, Image, Machine, Mark, Options, Platter, Prng, Trace,
};

/// A disk of one world. It dies with a crash of the [`Executor`]; [`Disk::crash`] or
/// [`Disk::platter`] then returns the surviving contents, which can be opened as a new disk.
pub struct Disk(Rc<Controller>);

impl Disk {
    /// A disk that holds `image`.
    pub fn new(executor: &Executor, image: Image) -> Rc<Self> {
        Self::with_options(executor, image, Options::default())
    }

    /// A disk with these options that holds `image`, whose size is whole logical sectors.
    ///
    /// # Panics
    /// When the image is larger than such a disk.
    pub fn with_options(executor: &Executor, image: Image, options: Options) -> Rc<Self> {
        let world = executor.world();
        Rc::new(Self(Controller::new(world.clone(), world.new_power(), image, options)))
    }

    /// The same, in a machine: it dies with that machine's power.
    ///
    /// # Panics
    /// When the image is larger than such a disk.
    pub fn in_machine(machine: &Machine, image: Image, options: Options) -> Rc<Self> {
        let (world, power) = (machine.world().clone(), machine.power());
        Rc::new(Self(Controller::new(world, power, image, options)))
    }

    /// A disk with the state of a platter, pending writes included: reads see those, and a power
    /// cut may still take them. For a test that kills a process at a moment of a trace
    /// ([`Platter::killed`]) and starts another one.
    pub fn resumed(executor: &Executor, platter: Platter) -> Rc<Self> {
        let disk = Self::new(executor, platter.image_with(|_| Fate::Whole));
        disk.0.state.borrow_mut().platter = platter;
        disk
    }

    /// Goes on in a machine whose processes were killed ([`Machine::kill`]), for the next one.
    /// Calls in flight take effect first, as a process is not gone before its calls have returned.
    /// Writes that no flush covers may still be lost in a power cut; a through write in flight is
    /// not durable either, for the process that would have waited for it is gone.
    pub async fn reopen(&self, machine: &Machine) {
        self.close().await.expect("to close is to wait");
        self.0.reopen(machine.power());
    }

    /// Starts recording, and drops any earlier recording.
    pub fn start_trace(&self) {
        let state = &mut *self.0.state.borrow_mut();
        state.trace = Some(Trace::new(state.platter.clone()));
    }

    /// The recording.
    ///
    /// # Panics
    /// When [`Disk::start_trace`] was not called.
    pub fn trace(&self) -> Trace {
        self.0.state.borrow().trace.clone().expect("start_trace comes first")
    }

    /// Leaves a mark in the trace and in the digest, for instance that a reply has gone out.
    pub fn mark(&self, mark: impl Into<Mark>) {
        self.0.happen(Event::Mark(mark.into()));
    }

    /// The current durable contents and pending writes.
    pub fn platter(&self) -> Platter {
        self.0.state.borrow().platter.clone()
    }

    /// The surviving contents of a power cut now, chosen at random. Tasks do not notice it: crash
    /// the executor first, or use this to inspect a possible state while they run on.
    pub fn crash(&self, prng: &mut Prng) -> Image {
        let platter = self.platter();
        platter.image(&Choice::random(&platter, prng))
    }

    /// The contents that reads see now: what a killed process leaves while the power stays on.
    pub fn contents(&self) -> Image {
        self.0.state.borrow().visible.clone()
    }

    /// The counters of calls so far.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }

    /// Sets whether a caller waits for the writes that become durable from now on, which is the
    /// default: whether settled writes count as synchronous or as asynchronous. See [`Counters`].
    pub fn set_waited_for(&self, waited_for: bool) {
        self.0.state.borrow_mut().meter.set_waited_for(waited_for);
    }

    /// Makes the `nth` call of a verb from now fail with EIO; 1 is the next one. A shorthand for
    /// the commonest [`Fault`].
    pub fn fail(&self, verb: Verb, nth: u64, persistence: Persistence) {
        self.inject(Fault::on(verb, Effect::Eio).nth(nth).lasting(persistence));
    }

    /// Injects a fault.
    pub fn inject(&self, fault: Fault) {
        self.0.state.borrow_mut().faults.plan(fault);
    }

    /// Cancels every planned or lasting fault. Past effects remain.
    pub fn heal(&self) {
        self.0.state.borrow_mut().faults.clear();
    }

    /// Flips a bit on the medium now. Cached data is not affected: until it is lost, or for good if
    /// it is not, readers see it as written.
    pub fn rot(&self, offset: u64, bit: u8) {
        assert!(offset < self.geometry().size && bit < 8, "a bit of this disk");
        self.0.rot(offset, 1 << bit);
    }
}

impl BlockDevice for Disk {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let length = buffer.len() as u64;
        let call = Call { verb: Verb::Read, kind: Kind::Read, offset, length };
        self.0.clone().accept(call, |controller, struck| {
            controller.state.borrow_mut().meter.read(length);
            controller.start_read(offset, buffer, struck)
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let data = joined(data);
        let length = data.len() as u64;
        let through = durability == Durability::Through;
        let kind = if through { Kind::Through } else { Kind::Write };
        let call = Call { verb: Verb::Write, kind, offset, length };
        self.0.clone().accept(call, |controller, struck| {
            controller.state.borrow_mut().meter.write(length, through);
            controller.start_write(offset, data, durability, struck)
        })
    }

    fn flush(&self) -> Io<()> {
        let call = Call { verb: Verb::Flush, kind: Kind::Flush, offset: 0, length: 0 };
        self.0.clone().accept(call, |controller, struck| {
            controller.state.borrow_mut().meter.flush();
            controller.start_flush(struck)
        })
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        let call = Call { verb: Verb::Discard, kind: Kind::Discard, offset, length };
        self.0.clone().accept(call, |controller, struck| {
            controller.state.borrow_mut().meter.discard();
            controller.start_discard(offset, length, struck)
        })
    }

    fn close(&self) -> Io<()> {
        self.0.close()
    }
}

fn joined(mut data: Vec<Bytes>) -> Bytes {
    match data.len() {
        1 => data.remove(0),
        _ => data.concat().into(),
    }
}
