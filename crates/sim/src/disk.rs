//! A simulated disk with a volatile write cache.
//!
//! Latencies are random, so that calls that overlap complete in any order. Nothing queues: it is a
//! disk for finding mistakes, not for predicting speed.
//!
//! Invariants:
//! 1. A call that was accepted takes effect and is answered once, at a time of its own, whether
//!    or not anybody waits for the answer. Only a crash prevents that.
//! 2. `visible` is what every read sees: all completed writes in the order of completion.
//! 3. The platter, the trace and the digest are fed by [`Inner::happen`] and by nothing else, so
//!    a trace that is played back gives the platters that there were.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Geometry, Io, IoError, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{pending, ready};
use runtime::Clock;

use crate::faults::Faults;
use crate::platter::SECTOR_SIZE;
use crate::world::World;
use crate::{
    Choice, Counters, Event, Executor, Fate, Image, Latency, Mark, Options, Persistence, Platter,
    Prng, Trace, Traced,
};

/// Longer discards change nothing, so that nobody has to hold a terabyte of rubbish.
const DISCARD_MAX: u64 = 1 << 20;

/// A disk of one world. It dies with a crash of the [`Executor`]; what was on it is then asked
/// for with [`Disk::crash`] or [`Disk::platter`] and opened as a new disk.
pub struct Disk(Rc<Inner>);

struct Inner {
    world: Rc<World>,
    epoch: u64,
    geometry: Geometry,
    latency: Latency,
    state: RefCell<State>,
}

struct State {
    platter: Platter,
    visible: Image,
    trace: Option<Trace>,
    counters: Counters,
    faults: Faults,
    prng: Prng,
    /// The number of the next write or flush.
    next: u64,
    in_flight: u64,
    closed: bool,
    /// Those who wait for the last call in flight.
    closing: Vec<oneshot::Sender<()>>,
}

impl Disk {
    /// A disk that holds `image`.
    pub fn new(executor: &Executor, image: Image) -> Rc<Self> {
        Self::with_options(executor, image, Options::default())
    }

    /// A disk of a certain kind that holds `image`, whose size is whole logical sectors.
    pub fn with_options(executor: &Executor, image: Image, options: Options) -> Rc<Self> {
        let sector = options.logical_sector_size;
        assert!(image.size().is_multiple_of(u64::from(sector)), "a disk has whole sectors");
        assert!(sector.is_multiple_of(SECTOR_SIZE as u32), "sectors are of 512 bytes or more");
        let world = executor.world().clone();
        Rc::new(Self(Rc::new(Inner {
            epoch: world.epoch(),
            geometry: Geometry {
                size: image.size(),
                logical_sector_size: sector,
                physical_sector_size: options.physical_sector_size,
                read_only: options.read_only,
            },
            latency: options.latency,
            state: RefCell::new(State {
                platter: Platter::new(image.clone(), options.honesty),
                visible: image,
                trace: None,
                counters: Counters::default(),
                faults: Faults::default(),
                prng: world.fork_for_device(),
                next: 0,
                in_flight: 0,
                closed: false,
                closing: Vec::new(),
            }),
            world,
        })))
    }

    /// Records from now on, forgetting what was recorded.
    pub fn start_trace(&self) {
        let state = &mut *self.0.state.borrow_mut();
        state.trace = Some(Trace::new(state.platter.clone()));
    }

    /// What has been recorded.
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

    /// What is surely there and what may be lost, now.
    pub fn platter(&self) -> Platter {
        self.0.state.borrow().platter.clone()
    }

    /// What is left if the power goes now, one possibility at random. Tasks know nothing of it:
    /// crash the executor first, or cut behind its back to look at what would be.
    pub fn crash(&self, prng: &mut Prng) -> Image {
        let platter = self.platter();
        platter.image(&Choice::random(&platter, prng))
    }

    /// What reads see now: what a process that is killed leaves behind while the power stays on.
    pub fn contents(&self) -> Image {
        self.0.state.borrow().visible.clone()
    }

    /// How often it was asked for what.
    pub fn counters(&self) -> Counters {
        self.0.state.borrow().counters
    }

    /// Makes the `nth` call of a verb from now fail; 1 is the next one. Writes of either
    /// durability count together. A failed read gives nothing; a failed write leaves any mixture
    /// of old and new; a failed flush strands what it should have covered.
    pub fn fail(&self, verb: Verb, nth: u64, persistence: Persistence) {
        self.0.state.borrow_mut().faults.plan(verb, nth, persistence);
    }

    /// Takes back every fault that is planned or lasting.
    pub fn heal(&self) {
        self.0.state.borrow_mut().faults.clear();
    }
}

impl BlockDevice for Disk {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn read(&self, offset: u64, mut buffer: Buffer) -> Io<Buffer> {
        let length = buffer.len() as u64;
        let latency = self.0.latency.read_ns;
        self.0.clone().accept(Verb::Read, offset, length, latency, |inner| {
            inner.count(|counters| {
                counters.reads += 1;
                counters.bytes_read += length;
            });
            move |inner: &Inner, struck| {
                if !struck {
                    inner.state.borrow().visible.read(offset, &mut buffer);
                }
                buffer
            }
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let data = joined(data);
        let length = data.len() as u64;
        let through = durability == Durability::Through;
        let latency = if through { self.0.latency.through_ns } else { self.0.latency.write_ns };
        self.0.clone().accept(Verb::Write, offset, length, latency, |inner| {
            inner.count(|counters| {
                counters.writes += 1;
                counters.through_writes += u64::from(through);
                counters.bytes_written += length;
            });
            inner.start_write(offset, data, durability)
        })
    }

    fn flush(&self) -> Io<()> {
        self.0.clone().accept(Verb::Flush, 0, 0, self.0.latency.flush_ns, |inner| {
            inner.count(|counters| counters.flushes += 1);
            let flush = inner.next_number();
            inner.happen(Event::FlushIssued { flush });
            move |inner: &Inner, struck| {
                inner.happen(match struck {
                    false => Event::FlushCompleted { flush },
                    true => Event::FlushFailed { flush },
                });
            }
        })
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        let latency = self.0.latency.write_ns;
        self.0.clone().accept(Verb::Discard, offset, length, latency, |inner| {
            inner.count(|counters| counters.discards += 1);
            let data = inner.rubbish(offset, length);
            inner.start_write(offset, data, Durability::Plain)
        })
    }

    fn close(&self) -> Io<()> {
        let mut state = self.0.state.borrow_mut();
        state.closed = true;
        if state.in_flight == 0 {
            return ready(Ok(())).boxed_local();
        }
        let (sender, receiver) = oneshot::channel();
        state.closing.push(sender);
        answer(receiver.map(|result| result.map(Ok)))
    }
}

impl Inner {
    /// Checks a call, starts it, and finishes it when its time has come (invariant 1). `start`
    /// returns what finishes it, which is told whether the call is to fail.
    fn accept<T: 'static, Finish: FnOnce(&Inner, bool) -> T + 'static>(
        self: Rc<Self>,
        verb: Verb,
        offset: u64,
        length: u64,
        (low_ns, high_ns): (u64, u64),
        start: impl FnOnce(&Inner) -> Finish,
    ) -> Io<T> {
        if !self.world.has_power(self.epoch) {
            return pending().boxed_local();
        }
        if let Err(error) = self.check(verb, offset, length) {
            return ready(Err(error)).boxed_local();
        }
        let finish = start(&self);
        let (delay_ns, struck) = {
            let state = &mut *self.state.borrow_mut();
            state.in_flight += 1;
            let transfer_ns = length.saturating_mul(self.latency.byte_ps) / 1000;
            let delay_ns = state.prng.between(low_ns, high_ns).saturating_add(transfer_ns);
            (delay_ns, state.faults.strike(verb))
        };
        let (sender, receiver) = oneshot::channel();
        self.world.clone().after(delay_ns, move || {
            let value = finish(&self, struck);
            self.finished();
            let error = IoError::new(verb, offset, length, ErrorKind::Other);
            // Nobody may be waiting any more, which is their business.
            let _ = sender.send(if struck { Err(error) } else { Ok(value) });
        });
        answer(receiver)
    }

    fn check(&self, verb: Verb, offset: u64, length: u64) -> Result<(), IoError> {
        if self.state.borrow().closed {
            return Err(IoError::closed(verb));
        }
        self.geometry.check(verb, offset, length)
    }

    fn start_write(
        &self,
        offset: u64,
        data: Bytes,
        durability: Durability,
    ) -> impl FnOnce(&Inner, bool) + use<> {
        let write = self.next_number();
        self.happen(Event::WriteIssued { write, offset, data: data.clone(), durability });
        move |inner, struck| {
            let left = match struck {
                false => Fate::Whole,
                true => inner.random_fate(data.len() / SECTOR_SIZE),
            };
            left.apply(&mut inner.state.borrow_mut().visible, offset, &data); // invariant 2
            inner.happen(match struck {
                false => Event::WriteCompleted { write },
                true => Event::WriteFailed { write, left },
            });
        }
    }

    fn random_fate(&self, sectors: usize) -> Fate {
        Fate::random(sectors, &mut self.state.borrow_mut().prng)
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

    /// Invariant 3.
    fn happen(&self, event: Event) {
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
        state.in_flight -= 1;
        if state.in_flight == 0 {
            let closing = std::mem::take(&mut state.closing);
            drop(state);
            for waiting in closing {
                let _ = waiting.send(()); // the one who closed may have gone
            }
        }
    }

    fn count(&self, action: impl FnOnce(&mut Counters)) {
        action(&mut self.state.borrow_mut().counters);
    }

    fn next_number(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next += 1;
        state.next
    }
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

fn joined(mut data: Vec<Bytes>) -> Bytes {
    match data.len() {
        1 => data.remove(0),
        _ => data.concat().into(),
    }
}
