//! The execution of a call between its acceptance and its answer.
//!
//! A machine, or a random latency, decides when it is answered; its effect on the medium is the
//! same for all disks, and defined in [`crate::verbs`].
//!
//! Invariants:
//! 1. A call that was accepted takes effect and is answered once, at a time of its own, whether or
//!    not a caller waits for the answer. Only a crash prevents that, or a fault that says so.
//! 2. `visible` is what every read sees: all completed writes in the order of completion.
//! 3. [`Controller::happen`] alone feeds the platter, the trace and the digest, so that a trace
//!    that is played back gives the original platters.
//! 4. A disk of random latencies draws its random numbers in a fixed order: the seeds of all tests
//!    depend on it (`tests/it/pinned.rs`).
//!
//! Not asserted: 1, which the type of the end of a call guarantees; 2, since comparing it with the
//! platter reads a whole disk; 3, which is about other feeders; 4, which tests pin.

use std::cell::RefCell;
use std::rc::Rc;

use block::{Geometry, Io, IoError, Verb};
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{pending, ready};
use runtime::Clock;

use crate::counters::Meter;
use crate::engine::Engine;
use crate::faults::{Effect, Faults, Struck};
use crate::image::SECTOR_SIZE;
use crate::timing::Kind;
use crate::world::{Power, World};
use crate::{Counters, Event, Image, Options, Platter, Prng, Timing, Trace, Traced};

pub(crate) struct Controller {
    world: Rc<World>,
    power: RefCell<Power>,
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) state: RefCell<State>,
}

pub(crate) struct State {
    pub(crate) platter: Platter,
    pub(crate) visible: Image,
    pub(crate) trace: Option<Trace>,
    pub(crate) meter: Meter,
    pub(crate) faults: Faults,
    pub(crate) prng: Prng,
    /// The number of the next write or flush.
    pub(crate) next: u64,
    engine: Option<Engine<End>>,
    closed: bool,
    /// The callers that wait for the last call in flight.
    closing: Vec<oneshot::Sender<()>>,
}

/// Ends a call. The controller is passed in, because a closure that owns it would keep it alive for
/// ever.
type End = Box<dyn FnOnce(&Rc<Controller>)>;

/// A call with its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Controller {
    pub(crate) fn new(world: Rc<World>, power: Power, image: Image, options: Options) -> Rc<Self> {
        let sector = options.logical_sector_size;
        assert!(image.size().is_multiple_of(u64::from(sector)), "a disk has whole sectors");
        assert!(sector.is_multiple_of(SECTOR_SIZE as u32), "sectors are of 512 bytes or more");
        let fits = options.timing.capacity().is_none_or(|capacity| image.size() <= capacity);
        assert!(fits, "an image fits on its disk");
        let mut prng = world.fork_for_device();
        let engine = options.timing.machine(&mut prng).map(Engine::new);
        Rc::new(Self {
            power: RefCell::new(power),
            geometry: Geometry {
                size: image.size(),
                logical_sector_size: sector,
                physical_sector_size: options.physical_sector_size,
                read_only: options.read_only,
                stripe: options.stripe,
                platters: options.platters(),
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

    /// Checks a call, starts it, and finishes it at its time (invariant 1). `start` returns the
    /// closure that finishes it.
    pub(crate) fn accept<T: 'static, Finish: FnOnce(&Controller) -> T + 'static>(
        self: Rc<Self>,
        call: Call,
        start: impl FnOnce(&Controller, Struck) -> Finish,
    ) -> Io<T> {
        let Call { verb, offset, length, .. } = call;
        if !self.world.has_power(&self.power.borrow()) {
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
            // The caller may have gone; it needs no answer then.
            let _ = sender.send(struck.error(verb, offset, length).map_or(Ok(value), Err));
        };
        if struck.is(Effect::Silent) {
            return pending().boxed_local();
        }
        self.run(call, struck.delay_ns, Box::new(end));
        answer(receiver)
    }

    /// Runs `end` after the call's time, plus `extra_ns`.
    fn run(self: Rc<Self>, call: Call, extra_ns: u64, end: End) {
        if let Timing::Random(latency) = &self.timing {
            let delay_ns = latency.draw(call.kind, call.length, &mut self.state.borrow_mut().prng);
            let world = self.world.clone();
            world.after(delay_ns.saturating_add(extra_ns), move || self.end(end));
            return;
        }
        let end = if extra_ns > 0 { later(extra_ns, end) } else { end };
        self.with_engine(|engine, now_ns| {
            engine.submit(now_ns, call.kind, call.offset, call.length, end);
        });
        self.advance();
    }

    /// Ends a call, if there is still power.
    fn end(self: &Rc<Self>, end: End) {
        if self.goes_on() {
            end(self);
        }
    }

    /// Whether calls in flight continue, perhaps without their process.
    fn goes_on(&self) -> bool {
        self.world.has_kernel(&self.power.borrow())
    }

    /// Whether its process was killed, so that its writes become durable by a flush alone.
    pub(crate) fn is_orphaned(&self) -> bool {
        !self.world.has_power(&self.power.borrow()) && !self.timing.is_stable()
    }

    /// Opens the disk for another process.
    pub(crate) fn reopen(&self, power: Power) {
        self.power.replace(power);
        self.state.borrow_mut().closed = false;
    }

    /// Lets the machine do its due work, ends the calls that it answers, and schedules itself for
    /// the machine's next event.
    fn advance(self: Rc<Self>) {
        let ended = self.with_engine(Engine::advance);
        ended.into_iter().for_each(|end| end(&self));
        if let Some(delay_ns) = self.with_engine(Engine::set_alarm) {
            let world = self.world.clone();
            world.after(delay_ns, move || {
                if !self.goes_on() {
                    return;
                }
                self.with_engine(Engine::alarm_rings);
                self.advance();
            });
        }
    }

    fn with_engine<T>(&self, action: impl FnOnce(&mut Engine<End>, u64) -> T) -> T {
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
                let _ = waiting.send(()); // the caller that closed may have gone
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
        let seeks = state.engine.as_ref().map_or(0, Engine::seeks);
        Counters { seeks, ..state.meter.counters(self.world.now().0) }
    }
}

/// Delays the end of a call.
fn later(extra_ns: u64, end: End) -> End {
    Box::new(move |controller| {
        let late = controller.clone();
        controller.world.after(extra_ns, move || late.end(end));
    })
}

/// Waits for an answer, for ever if the power is cut first.
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
