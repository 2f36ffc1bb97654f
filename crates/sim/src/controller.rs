//! What happens to a call between its acceptance and its answer.
//!
//! When it is answered is up to a [`Machine`], or to chance; what it does to the medium is the
//! same for all disks, and decided here.
//!
//! Invariants:
//! 1. A call that was accepted takes effect and is answered once, at a time of its own, whether
//!    or not anybody waits for the answer. Only a crash prevents that, or a fault that says so.
//! 2. `visible` is what every read sees: all completed writes in the order of completion.
//! 3. The platter, the trace and the digest are fed by [`Controller::happen`] and by nothing
//!    else, so that a trace that is played back gives the platters that there were.
//! 4. A disk of random latencies draws its chance in the order in which it always did: the seeds
//!    of all tests depend on it (`tests/pinned.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use block::{Buffer, Durability, Geometry, Io, IoError, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{pending, ready};
use runtime::Clock;

use crate::counters::Meter;
use crate::faults::{Effect, Faults, Struck};
use crate::platter::SECTOR_SIZE;
use crate::timing::{Kind, Machine, Request};
use crate::world::World;
use crate::{Counters, Event, Fate, Image, Options, Platter, Prng, Timing, Trace, Traced};

/// Longer discards change nothing, so that nobody has to hold a terabyte of rubbish.
const DISCARD_MAX: u64 = 1 << 20;

pub(crate) struct Controller {
    world: Rc<World>,
    epoch: u64,
    pub(crate) geometry: Geometry,
    timing: Timing,
    pub(crate) state: RefCell<State>,
}

pub(crate) struct State {
    pub(crate) platter: Platter,
    pub(crate) visible: Image,
    pub(crate) trace: Option<Trace>,
    pub(crate) meter: Meter,
    pub(crate) faults: Faults,
    prng: Prng,
    /// The number of the next write or flush.
    next: u64,
    engine: Option<Engine>,
    closed: bool,
    /// Those who wait for the last call in flight.
    closing: Vec<oneshot::Sender<()>>,
}

/// A machine, and what ends the calls that it has.
struct Engine {
    machine: Box<dyn Machine>,
    last_ticket: u64,
    calls: BTreeMap<u64, End>,
    /// The next time at which it is asked.
    alarm_ns: Option<u64>,
}

/// Ends a call. It is given the controller, for whatever held one would live as long as it.
type End = Box<dyn FnOnce(&Rc<Controller>)>;

/// A call, as its caller put it.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Controller {
    pub(crate) fn new(world: Rc<World>, image: Image, options: Options) -> Rc<Self> {
        let sector = options.logical_sector_size;
        assert!(image.size().is_multiple_of(u64::from(sector)), "a disk has whole sectors");
        assert!(sector.is_multiple_of(SECTOR_SIZE as u32), "sectors are of 512 bytes or more");
        let fits = options.timing.capacity().is_none_or(|capacity| image.size() <= capacity);
        assert!(fits, "an image fits on its disk");
        let mut prng = world.fork_for_device();
        let start = |machine| {
            let (last_ticket, calls) = (0, BTreeMap::new());
            Engine { machine, last_ticket, calls, alarm_ns: None }
        };
        let engine = options.timing.machine(&mut prng).map(start);
        Rc::new(Self {
            epoch: world.epoch(),
            geometry: Geometry {
                size: image.size(),
                logical_sector_size: sector,
                physical_sector_size: options.physical_sector_size,
                read_only: options.read_only,
            },
            timing: options.timing,
            state: RefCell::new(State {
                platter: Platter::new(image.clone(), options.honesty),
                visible: image,
                trace: None,
                meter: Meter::new(),
                faults: Faults::default(),
                prng,
                next: 0,
                engine,
                closed: false,
                closing: Vec::new(),
            }),
            world,
        })
    }

    /// Checks a call, starts it, and finishes it when its time has come (invariant 1). `start`
    /// returns what finishes it.
    pub(crate) fn accept<T: 'static, Finish: FnOnce(&Controller) -> T + 'static>(
        self: Rc<Self>,
        call: Call,
        start: impl FnOnce(&Controller, Struck) -> Finish,
    ) -> Io<T> {
        let Call { verb, offset, length, .. } = call;
        if !self.world.has_power(self.epoch) {
            return pending().boxed_local();
        }
        if let Err(error) = self.check(verb, offset, length) {
            return ready(Err(error)).boxed_local();
        }
        let struck = {
            let state = &mut *self.state.borrow_mut();
            state.meter.begin(self.world.now().0);
            state.faults.strike(verb, offset, length)
        };
        let finish = start(&self, struck);
        let (sender, receiver) = oneshot::channel();
        let end = move |controller: &Rc<Self>| {
            let value = finish(controller);
            controller.finished();
            // Nobody may be waiting any more, which is their business.
            let _ = sender.send(struck.error(verb, offset, length).map_or(Ok(value), Err));
        };
        if struck.is(Effect::Silent) {
            return pending().boxed_local();
        }
        self.run(call, struck.delay_ns, Box::new(end));
        answer(receiver)
    }

    /// Does `end` when the call has taken its time, and `extra_ns` more.
    fn run(self: Rc<Self>, call: Call, extra_ns: u64, end: End) {
        if let Timing::Random(latency) = &self.timing {
            let delay_ns = latency.draw(call.kind, call.length, &mut self.state.borrow_mut().prng);
            let world = self.world.clone();
            world.after(delay_ns.saturating_add(extra_ns), move || end(&self));
            return;
        }
        let end = if extra_ns > 0 { later(extra_ns, end) } else { end };
        self.with_engine(|engine, now_ns| {
            engine.last_ticket += 1;
            let Call { kind, offset, length, .. } = call;
            let request = Request { ticket: engine.last_ticket, kind, offset, length };
            engine.calls.insert(engine.last_ticket, end);
            engine.machine.submit(now_ns, request);
        });
        self.advance();
    }

    /// Lets the machine do what is due, ends the calls that are answered by it, and comes back
    /// when the machine next has something to do.
    fn advance(self: Rc<Self>) {
        let ended = self.with_engine(|engine, now_ns| {
            let tickets = engine.machine.advance(now_ns);
            let end = |ticket| engine.calls.remove(&ticket).expect("a call is answered once");
            tickets.into_iter().map(end).collect::<Vec<_>>()
        });
        ended.into_iter().for_each(|end| end(&self));
        let next = self.with_engine(|engine, now_ns| {
            let next_ns = engine.machine.next_at()?;
            assert!(next_ns > now_ns, "a machine does at once what is due");
            let is_sooner = engine.alarm_ns.is_none_or(|alarm_ns| next_ns < alarm_ns);
            is_sooner.then(|| {
                engine.alarm_ns = Some(next_ns);
                (next_ns, next_ns - now_ns)
            })
        });
        if let Some((at_ns, delay_ns)) = next {
            let controller = self.clone();
            self.world.after(delay_ns, move || {
                controller.with_engine(|engine, _| {
                    engine.alarm_ns = engine.alarm_ns.filter(|&alarm_ns| alarm_ns != at_ns);
                });
                controller.advance();
            });
        }
    }

    fn with_engine<T>(&self, action: impl FnOnce(&mut Engine, u64) -> T) -> T {
        let now_ns = self.world.now().0;
        let mut state = self.state.borrow_mut();
        action(state.engine.as_mut().expect("only a disk with a machine comes here"), now_ns)
    }

    fn check(&self, verb: Verb, offset: u64, length: u64) -> Result<(), IoError> {
        if self.state.borrow().closed {
            return Err(IoError::closed(verb));
        }
        self.geometry.check(verb, offset, length)
    }

    pub(crate) fn start_read(
        &self,
        offset: u64,
        mut buffer: Buffer,
        struck: Struck,
    ) -> impl FnOnce(&Self) -> Buffer + use<> {
        let from = struck.place(offset, buffer.len() as u64, self.geometry.size);
        move |controller| {
            if !struck.is(Effect::Lost) {
                controller.state.borrow().visible.read(from, &mut buffer);
                struck.spoil(&mut buffer);
            }
            buffer
        }
    }

    pub(crate) fn start_write(
        &self,
        offset: u64,
        data: Bytes,
        durability: Durability,
        struck: Struck,
    ) -> impl FnOnce(&Self) + use<> {
        let change = self.start_change(offset, data, durability, struck);
        move |controller| {
            let done = change(controller);
            if done && durability == Durability::Plain {
                controller.state.borrow_mut().meter.plain_write_completed();
            }
        }
    }

    /// Begins to change the medium; what ends it says whether it was a success. A write that is
    /// lost is one of nothing, and one that goes astray one of another place: in the trace and on
    /// the platter it is what it does, not what was asked for.
    fn start_change(
        &self,
        offset: u64,
        data: Bytes,
        durability: Durability,
        struck: Struck,
    ) -> impl FnOnce(&Self) -> bool + use<> {
        let durability = if self.timing.is_stable() { Durability::Through } else { durability };
        let offset = struck.place(offset, data.len() as u64, self.geometry.size);
        let data = match struck.effect {
            Some(Effect::Lost) => Bytes::new(),
            Some(Effect::Rot { .. }) => {
                let mut bytes = data.to_vec();
                struck.spoil(&mut bytes);
                bytes.into()
            }
            _ => data,
        };
        let write = self.next_number();
        self.happen(Event::WriteIssued { write, offset, data: data.clone(), durability });
        move |controller| {
            let left = struck.failed_write(data.len(), || controller.random_fate(data.len()));
            let fate = left.as_ref().unwrap_or(&Fate::Whole);
            fate.apply(&mut controller.state.borrow_mut().visible, offset, &data); // invariant 2
            let done = left.is_none();
            controller.happen(match left {
                None => Event::WriteCompleted { write },
                Some(left) => Event::WriteFailed { write, left },
            });
            done
        }
    }

    pub(crate) fn start_flush(&self, struck: Struck) -> impl FnOnce(&Self) + use<> {
        let flush = self.next_number();
        let lost = struck.is(Effect::Lost);
        if !lost {
            self.happen(Event::FlushIssued { flush });
        }
        let failed = struck.error(Verb::Flush, 0, 0).is_some();
        move |controller| match (lost, failed) {
            (true, _) => {}
            (_, true) => controller.happen(Event::FlushFailed { flush }),
            (_, false) => controller.happen(Event::FlushCompleted { flush }),
        }
    }

    pub(crate) fn start_discard(
        &self,
        offset: u64,
        length: u64,
        struck: Struck,
    ) -> impl FnOnce(&Self) + use<> {
        let data = self.rubbish(offset, length);
        let change = self.start_change(offset, data, Durability::Plain, struck);
        move |controller| {
            change(controller);
        }
    }

    fn random_fate(&self, length: usize) -> Fate {
        Fate::random(length / SECTOR_SIZE, &mut self.state.borrow_mut().prng)
    }

    /// What a discarded range reads as: zeros, anything, or what it was.
    fn rubbish(&self, offset: u64, length: u64) -> Bytes {
        let state = &mut *self.state.borrow_mut();
        if length > DISCARD_MAX {
            return Bytes::new();
        }
        let mut bytes = vec![0; length as usize];
        match state.prng.below(3) {
            0 => {}
            1 => state.prng.fill(&mut bytes),
            _ => state.visible.read(offset, &mut bytes),
        }
        bytes.into()
    }

    pub(crate) fn rot(&self, offset: u64, mask: u8) {
        {
            let state = &mut *self.state.borrow_mut();
            if !state.platter.is_cached(offset) {
                let mut byte = [0];
                state.visible.read(offset, &mut byte);
                state.visible.write(offset, &[byte[0] ^ mask]);
            }
        }
        self.happen(Event::Rotted { offset, mask });
    }

    /// Invariant 3.
    pub(crate) fn happen(&self, event: Event) {
        self.world.record(|digest| event.add_to(digest));
        let (serial, at) = (self.world.next_serial(), self.world.now());
        let state = &mut *self.state.borrow_mut();
        state.platter.apply(&event);
        if let Some(trace) = &mut state.trace {
            trace.push(Traced { serial, at, event });
        }
    }

    fn finished(&self) {
        let mut state = self.state.borrow_mut();
        state.meter.end(self.world.now().0);
        if state.meter.in_flight() == 0 {
            let closing = std::mem::take(&mut state.closing);
            drop(state);
            for waiting in closing {
                let _ = waiting.send(()); // the one who closed may have gone
            }
        }
    }

    pub(crate) fn close(&self) -> Io<()> {
        let mut state = self.state.borrow_mut();
        state.closed = true;
        if state.meter.in_flight() == 0 {
            return ready(Ok(())).boxed_local();
        }
        let (sender, receiver) = oneshot::channel();
        state.closing.push(sender);
        answer(receiver.map(|result| result.map(Ok)))
    }

    pub(crate) fn counters(&self) -> Counters {
        let state = self.state.borrow();
        let seeks = state.engine.as_ref().map_or(0, |engine| engine.machine.seeks());
        Counters { seeks, ..state.meter.counters(self.world.now().0) }
    }

    fn next_number(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        state.next
    }
}

/// Ends a call so much later.
fn later(extra_ns: u64, end: End) -> End {
    Box::new(move |controller| {
        let late = controller.clone();
        controller.world.after(extra_ns, move || end(&late));
    })
}

/// Waits for an answer, for ever if the power went first.
fn answer<T: 'static>(
    receiver: impl Future<Output = Result<Result<T, IoError>, oneshot::Canceled>> + 'static,
) -> Io<T> {
    let answer = async {
        match receiver.await {
            Ok(result) => result,
            Err(oneshot::Canceled) => pending().await,
        }
    };
    answer.boxed_local()
}
