//! One run of the trace with one fault in it, and its judgement.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Verb};
use designs::{CheckOptions, LogOptions, LogUse, OpenOptions, Work};
use nfs3_types::nfs3::{Nfs3Result, nfsstat3};
use sim::{Counters, Disk, Effect, Executor, Persistence};

use super::super::conformance::judge::Verdict;
use super::super::conformance::session::{Reply, Session, is_well, users};
use super::super::conformance::stamp::Stamp;
use super::super::conformance::step::{Act, Object, Step};
use super::witness::{Fault, Looked, Witness, is_refusal};
use super::workload;
use crate::explore::design::Design;
use crate::explore::disks::Images;
use crate::protocol::Response;
use crate::world::{Status, World, WorldOptions, small_blocks};

/// Longest virtual time of any step.
const PATIENCE: Duration = Duration::from_secs(3600);
/// After this time, with room below again, a refused write has been retried and everything is as
/// before.
const TRIED_AGAIN: Duration = Duration::from_secs(10);
/// Bytes, more than any file of the trace has.
const LONGEST: u32 = 1 << 20;
const ROOT: Object = Object::Of(0);

/// The phase in which a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// While the trace runs.
    Trace,
    /// While the server recovers from a power cut at the end of the trace.
    Return,
}

/// The disk of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The volume's disk.
    Home,
    /// The log's disk.
    Log,
}

/// A fault and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strike {
    pub(super) place: Place,
    pub(super) phase: Phase,
    pub(super) verb: Verb,
    /// The number of the call of the verb, from 1.
    pub(super) nth: u64,
    pub(super) effect: Effect,
    pub(super) persistence: Persistence,
}

/// The checks that are possible with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The disk reports it: the server must report it too, or hide it with success.
    Told,
    /// The call is late, and nothing else.
    Late,
    /// The disk does not report it.
    Untold,
    /// The call is never answered.
    Silent,
}

impl Strike {
    pub(super) fn kind(&self) -> Kind {
        match self.effect {
            Effect::Eio
            | Effect::NoSpace
            | Effect::Denied
            | Effect::Short { .. }
            | Effect::Dead => Kind::Told,
            Effect::Slow(_) => Kind::Late,
            Effect::Lost | Effect::Misdirected { .. } | Effect::Rot { .. } => Kind::Untold,
            Effect::Silent => Kind::Silent,
        }
    }

    /// Whether it is a write that finds no room below.
    fn is_refusal(self) -> bool {
        self.verb == Verb::Write && self.effect == Effect::NoSpace
    }

    fn fault(&self) -> sim::Fault {
        sim::Fault::on(self.verb, self.effect).nth(self.nth).lasting(self.persistence)
    }
}

/// How often each verb was called.
pub(super) fn count(counters: &Counters, verb: Verb) -> u64 {
    match verb {
        Verb::Read => counters.reads,
        Verb::Write => counters.writes,
        Verb::Flush => counters.flushes,
        Verb::Discard => counters.discards,
    }
}

fn options(design: Design) -> WorldOptions {
    let mkfs = small_blocks();
    // Little memory for the metadata, so that the server reads it again and again.
    // And a log that is synced while the trace runs.
    let log = LogOptions {
        sync_interval: Duration::from_millis(10),
        sync_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let open = OpenOptions { cache_bytes: 96 << 10, log, ..OpenOptions::default() };
    WorldOptions { design, size: 16 << 20, mkfs, open, ..WorldOptions::default() }
}

/// A server before the trace.
pub(super) fn begin(design: Design, seed: u64) -> Result<Session, String> {
    let superuser = users().into_iter().take(1).collect();
    let mut session = Session::new(seed, options(design), superuser)?;
    for step in workload::before() {
        session.perform(&step).map_err(|reason| format!("{step}: {reason}"))?;
    }
    if design.has_log() {
        // The bystanders must not depend on a log in which a fault is injected.
        let restart = Step { number: usize::MAX, user: 0, act: Act::Restart };
        session.perform(&restart).map_err(|reason| format!("{restart}: {reason}"))?;
    }
    Ok(session)
}

/// Number of calls to a disk: by the trace, and by the recovery after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseCalls {
    pub(super) trace: Counters,
    pub(super) back: Counters,
}

/// Number of calls to each disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    pub(super) home: PhaseCalls,
    pub(super) log: Option<PhaseCalls>,
}

/// A disk, if it exists.
fn disk_at(world: &World, place: Place) -> Option<Rc<Disk>> {
    match place {
        Place::Home => Some(world.disk()),
        Place::Log => world.log(),
    }
}

/// Runs the trace without a fault.
pub(super) fn healthy(design: Design, seed: u64) -> Result<Calls, String> {
    let mut trial = Trial::new(design, seed, None)?;
    trial.trace()?;
    let trace = [Place::Home, Place::Log].map(|place| trial.calls(place));
    trial.session.world.crash();
    trial.witness.lose_power();
    trial.start()?;
    let back = [Place::Home, Place::Log].map(|place| counters(&trial.session.world, place));
    trial.come_back()?;
    let home = PhaseCalls { trace: trace[0], back: back[0] };
    let log = PhaseCalls { trace: trace[1], back: back[1] };
    Ok(Calls { home, log: design.has_log().then_some(log) })
}

/// Counters of a disk; zeros if it does not exist.
fn counters(world: &World, place: Place) -> Counters {
    disk_at(world, place).map_or_else(Counters::default, |disk| disk.counters())
}

/// Runs the trace with a fault.
pub(super) fn run(design: Design, seed: u64, strike: &Strike) -> Verdict {
    let mut trial = Trial::new(design, seed, Some(*strike))?;
    match (strike.phase, strike.kind()) {
        (Phase::Return, _) => trial.troubled_return(strike),
        (Phase::Trace, Kind::Told | Kind::Late) => trial.judged(),
        (Phase::Trace, Kind::Silent) => trial.silent(),
        (Phase::Trace, Kind::Untold) => trial.unjudged(),
    }
}

struct Trial {
    design: Design,
    session: Session,
    witness: Witness,
    /// Counters of the volume's disk and of the log's before the trace.
    before: [Counters; 2],
    /// The fault of the trace, if there is one.
    strike: Option<Strike>,
    /// The fault struck during a write of data that may not be lost silently, and the caller got an
    /// error.
    lost_data: bool,
    /// The fault struck during a truncation that succeeded. It may have hit the write of zeros
    /// behind the new end, which no reader sees, so that no client gets an error.
    struck_behind_end: bool,
}

impl Trial {
    fn new(design: Design, seed: u64, strike: Option<Strike>) -> Result<Self, String> {
        let session = begin(design, seed)?;
        let before = [Place::Home, Place::Log].map(|place| counters(&session.world, place));
        let strike = strike.filter(|strike| strike.phase == Phase::Trace);
        let mut witness = Witness::new(session.reference.clone());
        witness.may_refuse = strike.is_some_and(Strike::is_refusal);
        let (lost_data, struck_behind_end) = (false, false);
        let trial = Self { design, session, witness, before, strike, lost_data, struck_behind_end };
        if let Some(strike) = &trial.strike {
            trial.inject(strike);
        }
        Ok(trial)
    }

    fn inject(&self, strike: &Strike) {
        let disk = disk_at(&self.session.world, strike.place).expect("it was called before");
        disk.inject(strike.fault());
    }

    fn heal(&self) {
        let disks = [Place::Home, Place::Log].map(|place| disk_at(&self.session.world, place));
        disks.into_iter().flatten().for_each(|disk| disk.heal());
    }

    /// Number of calls of the trace to a disk.
    fn calls(&self, place: Place) -> Counters {
        counters(&self.session.world, place).since(&self.before[place as usize])
    }

    /// The fault, once it has struck and may show.
    fn fault(&self) -> Fault {
        let calls = |strike: &Strike| count(&self.calls(strike.place), strike.verb);
        let struck = |strike: &&Strike| calls(strike) >= strike.nth;
        match self.strike.as_ref().filter(|one| one.kind() != Kind::Late).filter(struck) {
            None => Fault::None,
            Some(Strike { verb: Verb::Read, .. }) => Fault::Read,
            Some(_) => Fault::Write,
        }
    }

    /// Runs the trace.
    fn trace(&mut self) -> Verdict {
        for step in workload::operations() {
            self.step(&step).map_err(|reason| format!("{step}: {reason}"))?;
        }
        Ok(())
    }

    /// Injects a fault into the recovery: it fails or not, and after another power cut the next
    /// recovery is as if the fault had never been.
    fn troubled_return(&mut self, strike: &Strike) -> Verdict {
        self.trace()?;
        self.session.world.crash();
        self.witness.lose_power();
        self.inject(strike);
        self.session.world.start();
        let status = self.session.world.run_for(PATIENCE, self.session.world.serving());
        status.ok_or("a return with a fault never ends")?;
        self.heal();
        self.session.world.crash();
        self.start()?;
        self.come_back()
    }

    fn start(&mut self) -> Verdict {
        self.session.world.start();
        let world = &self.session.world;
        match world.run_for(PATIENCE, world.serving()) {
            Some(Status::Serving) => Ok(()),
            _ => Err(format!("it does not come back: {:?}", world.failure())),
        }
    }

    /// Makes a call; `None` if there is nothing to call it with.
    fn ask(&mut self, step: &Step) -> Result<Option<Reply>, String> {
        let request = self.witness.states[0].reference.request(step);
        self.session.ask_for(step, request)
    }

    fn ask_about(&mut self, act: Act) -> Result<Option<Reply>, String> {
        self.ask(&Step { number: usize::MAX, user: 0, act })
    }

    /// A reported fault: the server must not give a false answer.
    fn judged(&mut self) -> Verdict {
        self.trace()?;
        self.check_signal()?;
        self.heal();
        self.session.world.crash();
        self.witness.lose_power();
        self.start()?;
        self.come_back()
    }

    fn step(&mut self, step: &Step) -> Verdict {
        let was_struck = self.fault() != Fault::None;
        let Some(reply) = self.ask(step)? else { return Ok(()) };
        let fault = self.fault();
        if !matches!(step.act, Act::Write(..) | Act::Commit(..)) {
            self.learn_verifier(fault)?;
        }
        self.witness.hear(step, &reply, fault)?;
        let failed = self.witness.is_failure(&reply, fault);
        let may_stop = fault == Fault::Write && !self.may_be_tried_again();
        if may_stop && !self.witness.stopped && (failed || !was_struck) {
            self.witness.stopped = self.has_stopped()?;
        }
        let writes = matches!(step.act, Act::Write(..) | Act::Commit(..));
        // A change that may still come into effect loses no data.
        let is_lost = failed && (is_refusal(&reply) || !self.may_be_tried_again());
        self.lost_data |= !was_struck && is_lost && fault == Fault::Write && writes;
        let cuts = matches!(&step.act, Act::Setattr(_, changes, _) if changes.size.is_some());
        self.struck_behind_end |= !was_struck && !failed && fault == Fault::Write && cuts;
        self.look_at_unsure()
    }

    /// Data can be lost in the background, and only a verifier shows it: if a reply has none and
    /// may show a loss, a COMMIT right after it gets one. Returns whether the verifier is new.
    fn learn_verifier(&mut self, fault: Fault) -> Result<bool, String> {
        if fault == Fault::None || self.witness.stopped {
            return Ok(false);
        }
        let before = self.witness.verifier();
        let (step, reply) = self.commit_bystander()?;
        if reply.status() == Some(nfsstat3::NFS3_OK) {
            self.witness.hear(&step, &reply, fault)?;
        }
        Ok(before.is_some() && self.witness.verifier() != before)
    }

    /// A COMMIT that changes nothing, and returns a verifier.
    fn commit_bystander(&mut self) -> Result<(Step, Reply), String> {
        let file = workload::bystanders().next().expect("there are some");
        let step = Step { number: usize::MAX, user: 0, act: Act::Commit(Object::Of(file), 0, 0) };
        let reply = self.ask(&step)?.ok_or("a bystander has a handle")?;
        Ok((step, reply))
    }

    /// Whether the volume refuses everything. The root directory is always in memory.
    fn has_stopped(&mut self) -> Result<bool, String> {
        let reply = self.ask_about(Act::Getattr(ROOT))?.ok_or("the root has a handle")?;
        Ok(reply.status() == Some(nfsstat3::NFS3ERR_IO))
    }

    fn look_at_unsure(&mut self) -> Verdict {
        if self.witness.stopped {
            return Ok(());
        }
        for slot in self.witness.unsure() {
            let Some(attributes) = self.ask_about(Act::Getattr(Object::Of(slot)))? else {
                continue;
            };
            let data = self.ask_about(Act::Read(Object::Of(slot), 0, LONGEST))?;
            let data = data.ok_or("it had a handle")?;
            let gone = attributes.status() == Some(nfsstat3::NFS3ERR_STALE);
            // The attributes are from after the read, which changes the access time.
            let seen = match (attributes.response, data.response) {
                (Response::Getattr(Nfs3Result::Ok(one)), Response::Read(Nfs3Result::Ok(two))) => {
                    Some((one.obj_attributes, two.data.to_vec()))
                }
                _ if gone => None,
                _ => continue, // it cannot be read now
            };
            if self.learn_verifier(self.fault())? {
                continue; // the loss before which it was seen is unknown
            }
            self.witness.look(&Looked { slot, seen })?;
            for state in &mut self.witness.states {
                if let Some(node) = state.reference.node(slot) {
                    state.reference.tree.nodes[node].atime = ANY_TIME;
                }
            }
        }
        Ok(())
    }

    /// All clients concerned must learn of a loss: by the stop of the volume, by another write
    /// verifier, or, where no data was lost, by an error. After a failed flush only the first will
    /// do.
    fn check_signal(&mut self) -> Verdict {
        if self.fault() != Fault::Write {
            return Ok(());
        }
        if self.may_be_tried_again() {
            self.heal();
            let executor = self.session.world.runtime();
            self.session.world.run(executor.clock.sleep(TRIED_AGAIN));
            if self.has_stopped()? {
                return Err("there is room again, and the volume stays stopped".into());
            }
        } else if self.has_stopped()? {
            return Ok(());
        }
        if self.strike.is_some_and(|strike| strike.verb == Verb::Flush) {
            return Err("a flush failed, and the volume goes on".into());
        }
        if self.strike.is_some_and(|strike| strike.place == Place::Log) {
            return Err("a write of the log failed, and the volume goes on".into());
        }
        let (step, reply) = self.commit_bystander()?;
        self.witness.hear(&step, &reply, Fault::Write)?;
        self.look_at_unsure()?;
        if self.witness.rotated {
            return Ok(());
        }
        if self.lost_data {
            return Err("data was lost, and the verifier stays".into());
        }
        let is_told = self.witness.told || self.may_be_tried_again() || self.struck_behind_end;
        if is_told { Ok(()) } else { Err("a write failed, and nobody was told".into()) }
    }

    /// Whether the fault is a write that finds no room below, and is retried.
    fn may_be_tried_again(&self) -> bool {
        self.witness.may_refuse && self.strike.is_some_and(|strike| strike.place == Place::Home)
    }

    /// After recovery everything is as in one of the states, and the disk is consistent.
    fn come_back(&mut self) -> Verdict {
        self.strike = None; // the fault is over, and the disks' counters start anew
        self.look_at_unsure()?;
        if !self.witness.unsure().is_empty() {
            return Err("a file cannot be looked at".into());
        }
        let mut last = String::new();
        for state in std::mem::take(&mut self.witness.states) {
            self.session.reference = state.reference;
            match self.session.look() {
                Ok(_) => return self.session.finish(),
                Err(reason) => last = reason,
            }
        }
        Err(format!("after the return: {last}"))
    }

    /// A disk never answers a call: the server may do the same. The answers that it did give must
    /// hold.
    fn silent(&mut self) -> Verdict {
        for step in workload::operations() {
            match self.ask(&step) {
                Ok(Some(reply)) => self.witness.hear(&step, &reply, Fault::None)?,
                Ok(None) => {}
                Err(_) => {
                    let now = self.session.now();
                    self.witness.fail_unanswered(&step, (now, now))?;
                    break;
                }
            }
        }
        self.session.world.crash();
        self.witness.lose_power();
        self.start()?;
        self.come_back()
    }

    /// An unreported fault: whatever it answers, the server survives, the disk can be repaired, and
    /// files that no call touched are as they were. Damage that no check can repair shows as an
    /// error, and never as other bytes.
    fn unjudged(&mut self) -> Verdict {
        for step in workload::operations() {
            let Some(reply) = self.ask(&step)? else { continue };
            let state = &mut self.witness.states[0];
            let _ = state.reference.judge(&step, &reply.response, reply.window);
            state.reference.tree.settle(reply.window.0, reply.window.1);
        }
        self.heal();
        self.session.world.crash();
        let left = self.session.world.contents();
        self.session.world.start();
        let status = self.session.world.run_for(PATIENCE, self.session.world.serving());
        let status = status.ok_or("it never comes back")?;
        if !self.design.repairs() {
            return if status == Status::Serving { self.damaged() } else { Ok(()) };
        }
        if status != Status::Serving || !self.design.checks_first() {
            let repaired = repair(self.design, &left)?;
            self.session.world.crash_with(&repaired);
            self.start()?;
        }
        for slot in workload::bystanders() {
            let step = self.look_at_bystander(slot);
            self.session.perform(&step).map_err(|reason| format!("bystander: {reason}"))?;
        }
        self.session.finish()
    }

    /// Files that no call touched are as they were, or return an error.
    fn damaged(&mut self) -> Verdict {
        for slot in workload::bystanders() {
            let step = self.look_at_bystander(slot);
            let reply = self.ask(&step)?.ok_or("a bystander has a handle")?;
            if reply.status() == Some(nfsstat3::NFS3ERR_IO) {
                continue;
            }
            let verdict = self.session.reference.judge(&step, &reply.response, reply.window);
            verdict.map_err(|reason| format!("bystander: {reason}"))?;
        }
        Ok(())
    }

    /// Reads a file that no call touched.
    fn look_at_bystander(&mut self, slot: usize) -> Step {
        let node = self.session.reference.node(slot).expect("it was made");
        self.session.reference.tree.nodes[node].atime = ANY_TIME;
        Step { number: usize::MAX, user: 0, act: Act::Read(Object::Of(slot), 0, LONGEST) }
    }
}

const ANY_TIME: Stamp = Stamp::Within((0, 0), (u32::MAX, u32::MAX));

/// The disks after `duramen fsck --repair`, which leaves nothing to find; a log that cannot be
/// replayed is discarded.
fn repair(design: Design, left: &Images) -> Result<Images, String> {
    let Work { prepare, check, .. } = *design.work();
    let executor = Executor::new(0);
    let disks: Vec<Rc<Disk>> =
        left.0.iter().map(|image| Disk::new(&executor, image.clone())).collect();
    let runtime = executor.runtime();
    let devices = disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect::<Vec<_>>();
    let (home, beside) = (&devices[0], devices.get(1));
    let (ring, log) = if design.has_ring() { (beside, None) } else { (None, beside) };
    let prepared = executor.block_on(async {
        match prepare(home, log, &runtime, LogUse::Replay).await {
            Ok(prepared) => Ok(prepared),
            Err(_) => prepare(home, log, &runtime, LogUse::GiveUp).await,
        }
    });
    let prepared = prepared.map_err(|error| format!("its log cannot be given up: {error}"))?;
    let options = CheckOptions { repair: true, full: true, log: prepared.state };
    let report = executor.block_on(check(home, ring, &runtime, &options, &mut |_| ()));
    report.map_err(|error| format!("it cannot be repaired: {error}"))?;
    is_well(design, disks[0].contents()).map_err(|reason| format!("after a repair {reason}"))?;
    Ok(Images(disks.iter().map(|disk| disk.contents()).collect()))
}
