//! A mechanical disk at work: the queues for the arm, the bus and the cache.
//!
//! Invariants:
//! 1. The arm does one job at a time. It never rests while a call that it can begin is waiting.
//! 2. Destaging the write cache comes after the calls of the host, unless a flush or a write waits
//!    for it: then the scheduler treats it like them.
//! 3. A flush that was requested after a write was answered is answered after that write has
//!    reached the platters.
//!
//! Not asserted: 2, which is how the next job is chosen; 3, which the write cache ensures.

use std::collections::VecDeque;

use block::platters::Arm;

use super::agenda::Agenda;
use super::mechanical::Mechanical;
use super::queue::Job;
use super::read_ahead::ReadAhead;
use super::write_cache::WriteCache;
use super::{Kind, Machine, Request, duration_ns};
use crate::image::SECTOR_SIZE;
use crate::prng::Prng;

pub(super) struct Drive {
    spec: Mechanical,
    end: u64,
    arm: Arm,
    busy: Option<Busy>,
    waiting: Vec<Job>,
    cache: WriteCache,
    /// Writes that wait for room in the cache.
    outside: VecDeque<Job>,
    /// Waiting flushes: the ticket, the last extent that it covers, and its earliest answer.
    flushes: Vec<(u64, u64, u64)>,
    read_ahead: ReadAhead,
    agenda: Agenda,
    bus_free_ns: u64,
    /// The end of the last job: the position of the elevator.
    swept_to: u64,
}

/// The queue of a job, and its index there.
#[derive(Clone, Copy)]
enum Source {
    Host(usize),
    Cache(usize),
}

/// The current job of the arm.
struct Busy {
    until_ns: u64,
    is_destage: bool,
}

impl Drive {
    /// A drive with this specification, at a random angle.
    pub(super) fn new(spec: Mechanical, prng: &mut Prng) -> Self {
        let platters = spec.platters();
        let arm = Arm::new(platters, prng.below(platters.rotation_ns));
        Self {
            end: spec.capacity() / SECTOR_SIZE as u64,
            arm,
            busy: None,
            waiting: Vec::new(),
            cache: WriteCache::new(spec.write_cache_bytes),
            outside: VecDeque::new(),
            flushes: Vec::new(),
            read_ahead: ReadAhead::new(spec.read_ahead_bytes),
            agenda: Agenda::default(),
            bus_free_ns: 0,
            swept_to: 0,
            spec,
        }
    }

    fn job(&self, now_ns: u64, request: Request) -> Job {
        let first = request.offset / SECTOR_SIZE as u64;
        let ready_ns = now_ns + if self.spec.pipelined { self.spec.command_ns } else { 0 };
        Job {
            ticket: Some(request.ticket),
            is_read: request.kind == Kind::Read,
            first,
            end: first + request.length / SECTOR_SIZE as u64,
            since_ns: now_ns,
            ready_ns,
            data_ns: ready_ns,
        }
    }

    /// The time when this many sectors have crossed the bus, if they can start at `from_ns`.
    fn bus(&mut self, from_ns: u64, sectors: u64) -> u64 {
        let start_ns = from_ns.max(self.bus_free_ns);
        let bytes = sectors * SECTOR_SIZE as u64;
        self.bus_free_ns = start_ns + duration_ns(bytes, self.spec.bus_bytes_per_second);
        self.bus_free_ns
    }

    fn submit_read(&mut self, job: Job) {
        match (self.cache.holds(job.first, job.end), job.ticket) {
            (true, Some(ticket)) => {
                let from_ns = job.since_ns + self.spec.command_ns;
                let answer_ns = self.bus(from_ns, job.end - job.first);
                self.agenda.add(answer_ns, ticket);
            }
            _ => self.waiting.push(job),
        }
    }

    fn submit_write(&mut self, mut job: Job, plain: bool) {
        let sectors = job.end - job.first;
        if plain && self.cache.suits(sectors * SECTOR_SIZE as u64) {
            self.outside.push_back(job);
            self.admit(job.since_ns);
        } else {
            if self.spec.pipelined {
                job.data_ns = self.bus(job.ready_ns, sectors);
            }
            self.waiting.push(job);
        }
    }

    /// Admits writes to the cache while there is room, in the order of their arrival.
    fn admit(&mut self, now_ns: u64) {
        while let Some(job) = self.outside.front().copied() {
            if !self.cache.take(Job { ticket: None, ..job }) {
                break;
            }
            self.outside.pop_front();
            let from_ns = now_ns.max(job.since_ns + self.spec.command_ns);
            let answer_ns = self.bus(from_ns, job.end - job.first);
            self.agenda.add(answer_ns, job.ticket.expect("only calls wait outside"));
        }
    }

    fn submit_flush(&mut self, now_ns: u64, ticket: u64) {
        self.flushes.push((ticket, self.cache.taken(), now_ns + self.spec.command_ns));
        self.answer_flushes(now_ns);
    }

    fn answer_flushes(&mut self, now_ns: u64) {
        let (cache, agenda) = (&self.cache, &mut self.agenda);
        self.flushes.retain(|&(ticket, covered, earliest_ns)| {
            let done = cache.is_clean_up_to(covered); // invariant 3
            if done {
                agenda.add(now_ns.max(earliest_ns), ticket);
            }
            !done
        });
    }

    fn end_job(&mut self, busy: Busy) {
        if busy.is_destage {
            self.cache.written();
            self.admit(busy.until_ns);
            self.answer_flushes(busy.until_ns);
        }
    }

    /// Gives the arm the next job that it can begin (invariant 1).
    fn start_job(&mut self, now_ns: u64) {
        let depth = self.spec.queue_depth;
        let calls = self.waiting.iter().enumerate().filter(|(_, job)| job.ready_ns <= now_ns);
        let mut jobs: Vec<(Source, &Job)> =
            calls.take(depth).map(|(index, job)| (Source::Host(index), job)).collect();
        let pressed = !self.flushes.is_empty() || !self.outside.is_empty();
        if pressed || self.waiting.is_empty() {
            let dirty = self.cache.dirty().take(depth).enumerate(); // invariant 2
            jobs.extend(dirty.map(|(index, job)| (Source::Cache(index), job)));
            jobs.sort_by_key(|(_, job)| job.since_ns);
        }
        if jobs.is_empty() {
            return;
        }
        self.read_ahead.catch_up(now_ns, &mut self.arm);
        let (sources, jobs): (Vec<Source>, Vec<&Job>) = jobs.into_iter().unzip();
        let job = match sources[self.spec.scheduler.pick(now_ns, &jobs, &self.arm, self.swept_to)] {
            Source::Host(index) => self.waiting.remove(index),
            Source::Cache(index) => self.cache.start(index),
        };
        self.begin(now_ns, job);
    }

    fn begin(&mut self, now_ns: u64, job: Job) {
        let sectors = job.end - job.first;
        let mut start_ns = now_ns;
        if !self.spec.pipelined {
            start_ns += self.spec.command_ns;
            if !job.is_read {
                start_ns = self.bus(start_ns, sectors);
            }
        }
        let passed_ns = self.pass(start_ns, &job);
        self.swept_to = job.end;
        let answer_ns = match (job.is_read, self.spec.pipelined) {
            (false, _) => passed_ns.max(job.data_ns),
            (true, false) => self.bus(passed_ns, sectors),
            // The bus runs in parallel with the heads. It is reserved from the start on: otherwise
            // a call that arrives while the arm is moving would wait for an idle bus.
            (true, true) => self.bus(job.ready_ns, sectors).max(passed_ns),
        };
        let until_ns = if self.spec.pipelined { passed_ns } else { answer_ns };
        assert!(self.busy.is_none(), "invariant 1: the arm does one job at a time");
        self.busy = Some(Busy { until_ns, is_destage: job.ticket.is_none() });
        if let Some(ticket) = job.ticket {
            self.agenda.add(answer_ns, ticket);
        }
    }

    /// The time when the heads finish a job.
    fn pass(&mut self, start_ns: u64, job: &Job) -> u64 {
        if job.is_read {
            let range = (job.first, job.end);
            return self.read_ahead.read(start_ns, range, self.end, &mut self.arm);
        }
        self.read_ahead.forget();
        self.arm.transfer(start_ns, job.first, job.end)
    }
}

impl Machine for Drive {
    fn submit(&mut self, now_ns: u64, request: Request) {
        let job = self.job(now_ns, request);
        match request.kind {
            _ if job.first == job.end && request.kind != Kind::Flush => {
                self.agenda.add(now_ns + self.spec.command_ns, request.ticket);
            }
            Kind::Read => self.submit_read(job),
            Kind::Write => self.submit_write(job, true),
            Kind::Through => self.submit_write(job, false),
            Kind::Flush => self.submit_flush(now_ns, request.ticket),
            Kind::Discard => self.agenda.add(now_ns + self.spec.command_ns, request.ticket),
        }
    }

    fn advance(&mut self, now_ns: u64) -> Vec<u64> {
        loop {
            match self.busy.take_if(|busy| busy.until_ns <= now_ns) {
                Some(busy) => self.end_job(busy),
                None if self.busy.is_none() => {
                    self.start_job(now_ns);
                    if self.busy.is_none() {
                        break;
                    }
                }
                None => break,
            }
        }
        self.agenda.due(now_ns)
    }

    fn next_at(&self) -> Option<u64> {
        let arm_at = match &self.busy {
            Some(busy) => Some(busy.until_ns),
            None => self.waiting.iter().map(|job| job.ready_ns).min(),
        };
        [arm_at, self.agenda.next_at()].into_iter().flatten().min()
    }

    fn seeks(&self) -> u64 {
        self.arm.seeks()
    }
}
