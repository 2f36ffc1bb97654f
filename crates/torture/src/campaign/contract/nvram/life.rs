//! A life of a volume: it is opened, looked at, used by callers, and recorded until its end.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{Durability, IoError, Verb};
use futures::future::join_all;
use nvram::health::Health;
use sim::{Effect as Harm, Event, Fault as Struck, Mark, Platter, Prng, Trace};

use super::calls::{Call, draw};
use super::case::{Case, Fault};
use super::model::{
    ANYTHING, Allowed, Certain, Effect, SECTOR, STRANDED, Span, Timeline, UNKNOWN, Version, bytes,
    judge, settled, unless_stranded, versions_in,
};
use super::rot::{Damage, Entries};
use super::stage::{Opened, Stage, Way};
use crate::explore::device::Device;

/// Virtual time after which a life counts as stuck.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// The mark behind the first look, when it is durable, and those of the battery.
const SHOWN: u64 = 1 << 40;
const BAD: u64 = SHOWN + 1;
const GOOD: u64 = SHOWN + 2;

/// Words of the refusal of one of two memories that is called out.
const CALLED_OUT: &str = "it lacks the latest data, and the other NVRAM";

/// What a life begins with.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) platters: Vec<Platter>,
    /// What a look must show.
    pub(super) visible: Allowed,
    /// What a cut may leave before such a look is durable.
    pub(super) durable: Allowed,
    /// The member that has missed writes, or may have: no other one may be lost.
    pub(super) missing: Option<usize>,
    /// The volume was stopped, and nothing had failed.
    pub(super) is_clean: bool,
    /// A part of the volume may be lost.
    pub(super) has_loss: bool,
    /// Damage to the first of two memories, of which the second has everything.
    pub(super) rotten: Vec<Damage>,
    /// The sector about which many calls are.
    pub(super) hot: u64,
    /// The version of the next write.
    pub(super) version: Version,
}

/// A life that was recorded.
pub(super) struct Life {
    pub(super) way: Way,
    pub(super) traces: Vec<Trace>,
    pub(super) timeline: Timeline,
    /// The disks at its end.
    pub(super) end: Vec<Platter>,
    pub(super) missing: Option<usize>,
    pub(super) has_loss: bool,
    /// The memory may have the log of the set.
    pub(super) has_log: bool,
    /// Writes or flushes of a disk may have failed.
    has_stranded: bool,
    /// It was stopped.
    pub(super) is_stopped: bool,
    /// It was stopped, and nothing has failed.
    pub(super) is_clean: bool,
    pub(super) version: Version,
}

/// What is noted while a life goes on.
#[derive(Default)]
struct Notes {
    looks: Vec<(usize, u64, Vec<Version>)>,
    errors: Vec<(usize, IoError)>,
    costs: Vec<(usize, Vec<Range<u64>>)>,
}

/// A life while it goes on.
struct Run<'r> {
    case: &'r Case,
    stage: &'r Stage,
    opened: Opened,
    version: Version,
    notes: RefCell<Notes>,
    prng: RefCell<Prng>,
    missing: Cell<Option<usize>>,
}

impl Start {
    /// The same where the second of two memories is missing.
    pub(super) fn without_the_second(&self) -> Self {
        let mut start = self.clone();
        for damage in &self.rotten {
            damage.allow(&mut start.visible);
            damage.allow(&mut start.durable);
            start.has_loss = true;
        }
        start
    }

    /// The disks, without a member if one is away, and the member that has missed writes.
    fn without_a_member(
        &self,
        case: &Case,
        is_away: bool,
        prng: &mut Prng,
    ) -> (Vec<Platter>, Option<usize>) {
        let mut platters = self.platters.clone();
        if !is_away {
            return (platters, self.missing);
        }
        let away = self.missing.unwrap_or_else(|| prng.index(case.device.members()));
        platters[away] = Platter::new(sim::Image::zeroed(0), sim::Honesty::Honest);
        (platters, Some(away))
    }

    /// The calls of a life that showed this first.
    fn timeline(&self, shown: &[Version], spans: Vec<Span>, recorded: &Trace) -> Timeline {
        let when = marks(recorded).find(|(_, mark)| *mark == SHOWN).map(|(serial, _)| serial);
        let shown = settled(&self.visible, shown);
        let shown = unless_stranded(shown, &self.visible, &self.durable);
        let timeline = Timeline::new(self.durable.clone(), when.map(|when| (when, shown)), spans);
        timeline.with_battery(bad_times(recorded))
    }
}

impl Life {
    /// Opens the volume in a way, and has it used.
    ///
    /// # Errors
    /// The violation; `None` if the volume was refused.
    pub(super) fn play(
        case: &Case,
        start: &Start,
        (way, is_struck): (Way, bool),
        prng: &mut Prng,
    ) -> Result<Option<Self>, String> {
        let is_away = is_struck && case.fault == Fault::Away;
        let (platters, missing) = start.without_a_member(case, is_away, prng);
        let stage = Stage::new(case.device, prng.next_u64(), &platters);
        let sectors = start.visible.len() as u64;
        let mut callers = draw((sectors, start.hot), is_struck && case.fault != Fault::Away, prng);
        if prng.chance(1, 3) {
            callers.push(vec![Call::Stop]);
        }
        let uses_lower = case.uses_lower(prng);
        let calls: Vec<Call> = callers.iter().flatten().cloned().collect();
        stage.disks.iter().for_each(|disk| disk.start_trace());
        let inner = prng.fork();
        let life = async {
            let opened = stage.open(way, uses_lower).await?;
            let shown = opened.look().await;
            let counted = opened.counts(&shown);
            let flushed = opened.device.flush().await;
            stage.memory().mark(Mark::Number(SHOWN));
            let version = start.version;
            let (notes, prng) = (RefCell::default(), RefCell::new(inner));
            let missing = Cell::new(missing);
            let run = Run { case, stage: &stage, opened, version, notes, prng, missing };
            run.all(&callers).await;
            Ok::<_, String>((shown, counted, flushed, run))
        };
        let lived = stage.executor.block_on_for(PATIENCE, life);
        let recorded = stage.memory().trace();
        let lived = lived.ok_or_else(|| unanswered(&calls, &recorded))?;
        let (shown, counted, flushed, run) = match lived {
            Ok(lived) => lived,
            Err(refused) if may_refuse(way, start.is_clean, &refused) => return Ok(None),
            Err(refused) => return Err(format!("it is refused: {refused}")),
        };
        judge(&shown, &start.visible, 0).map_err(|wrong| format!("at the start {wrong}"))?;
        counted?;
        flushed.map_err(|error| format!("the first flush: {error}"))?;
        let (notes, missing) = (run.notes.take(), run.missing.get());
        let traces: Vec<Trace> = stage.disks.iter().map(|disk| disk.trace()).collect();
        let has_loss =
            start.has_loss || is_struck && case.fault == Fault::Rot(super::rot::Part::Data);
        let is_whole = way != Way::Alone && !is_struck;
        let spans = spans(&calls, &notes, (start.version, is_whole), &recorded);
        let timeline = start.timeline(&shown, spans, &recorded);
        let is_stopped = calls.last() == Some(&Call::Stop);
        let is_visible =
            is_struck && !matches!(case.fault, Fault::Nothing | Fault::MemorySlow | Fault::Battery);
        let is_clean = is_stopped && !is_visible && !has_loss;
        let (version, end) = (start.version + calls.len() as Version, stage.platters());
        let has_log = case.device.level().is_some() && uses_lower;
        let life = Self {
            way,
            traces,
            timeline,
            end,
            missing,
            has_loss,
            has_log,
            has_stranded: is_struck && case.fault.strands(),
            is_stopped,
            is_clean,
            version,
        };
        life.judge_calls(case, &calls, &notes, is_struck).map(|()| Some(life))
    }

    /// Judges the answers of the calls.
    fn judge_calls(
        &self,
        case: &Case,
        calls: &[Call],
        notes: &Notes,
        is_struck: bool,
    ) -> Result<(), String> {
        let fault = if is_struck { case.fault } else { Fault::Nothing };
        for (number, error) in &notes.errors {
            let call = &calls[*number];
            if !is_excused(case.device, fault, self.has_loss, call) {
                return Err(format!("call {number}, {call:?}, failed: {error}"));
            }
        }
        for (number, first, shown) in &notes.looks {
            let span = &self.timeline.spans[*number];
            let (Some(issued), Some(answered)) = (span.issued, span.answered) else { continue };
            let allowed = self.timeline.allowed(issued, answered, Certain::Answered);
            let allowed = &allowed[*first as usize..*first as usize + shown.len()];
            judge(shown, allowed, *first)
                .map_err(|wrong| format!("call {number}, {:?}: {wrong}", calls[*number]))?;
        }
        Ok(())
    }

    /// What each sector may show after a kill before an event, and after a cut then. A set may
    /// leave anything where it was discarded, until a flush covers what was written there. Calls of
    /// disks that have failed leave bytes that no later flush promises.
    pub(super) fn allowed(&self, device: Device, serial: u64) -> (Allowed, Allowed) {
        let of = |certain| self.timeline.allowed(serial, serial, certain);
        let (mut killed, cut) = (of(Certain::Answered), of(Certain::Durable));
        if device.level().is_some() {
            let both = killed.iter_mut().zip(&cut);
            both.for_each(|(killed, cut)| killed.extend(cut.iter().filter(|it| **it == ANYTHING)));
        }
        if self.has_stranded {
            let all = killed.iter_mut().zip(self.timeline.not_durable(serial));
            all.filter(|(_, is_not)| *is_not).for_each(|(killed, _)| killed.push(STRANDED));
        }
        (killed, cut)
    }

    /// The versions that each sector may show after a cut before an event in which the memory is
    /// lost. `None` if nothing is known of that.
    pub(super) fn allowed_below(&self, case: &Case, serial: u64) -> Option<Allowed> {
        let is_judged = case.fault == Fault::Battery && !self.has_log && self.missing.is_none();
        is_judged.then(|| self.timeline.allowed_below(serial))
    }

    /// The serial numbers of all events.
    pub(super) fn serials(&self) -> Vec<u64> {
        let events = self.traces.iter().flat_map(Trace::events);
        let mut serials: Vec<u64> = events.map(|event| event.serial).collect();
        serials.sort_unstable();
        serials.dedup();
        let end = serials.last().map_or(0, |last| last + 1);
        serials.push(end);
        serials
    }

    /// The disks before an event.
    pub(super) fn platters(&self, serial: u64) -> Vec<Platter> {
        self.traces.iter().map(|trace| trace.platter_at(trace.position_of(serial))).collect()
    }
}

/// Whether a volume may be refused for this reason.
fn may_refuse(way: Way, is_clean: bool, refused: &str) -> bool {
    match way {
        Way::Alone => !is_clean,
        // The other one has gone on without it.
        Way::One(_) => refused.contains(CALLED_OUT),
        Way::Own | Way::GivenUp | Way::Foreign => false,
    }
}

/// The violation of a life whose calls are not all answered.
fn unanswered(calls: &[Call], recorded: &Trace) -> String {
    let (made, answered): (Vec<u64>, Vec<u64>) =
        marks(recorded).map(|(_, mark)| mark).partition(|mark| mark % 4 == 0);
    let is_open = |mark: &&u64| !answered.iter().any(|it| it / 4 == **mark / 4);
    let open = made.iter().filter(is_open).filter_map(|mark| calls.get(*mark as usize / 4));
    format!("a life has no end: {:?} are not answered", open.collect::<Vec<_>>())
}

/// Whether a call may fail.
fn is_excused(device: Device, fault: Fault, has_loss: bool, call: &Call) -> bool {
    let changes = matches!(call, Call::Write { .. } | Call::Discard(_) | Call::Flush);
    let of_loss = has_loss && !changes;
    let is_set = device.level().is_some();
    match fault {
        // The volume goes on without its memory, if it has lost nothing.
        Fault::MemoryWrite | Fault::MemoryFlush => {
            has_loss || matches!(call, Call::Settle(_) | Call::Up)
        }
        Fault::MemoryRead => true,
        // A set does without the disk.
        Fault::BelowWrite | Fault::BelowFlush | Fault::BelowRead | Fault::Full => {
            !is_set || fault == Fault::Full || of_loss
        }
        Fault::Nothing | Fault::MemorySlow | Fault::Rot(_) | Fault::Away | Fault::Battery => {
            of_loss
        }
    }
}

/// When the battery was bad.
fn bad_times(trace: &Trace) -> Vec<Range<u64>> {
    let (mut times, mut since) = (Vec::new(), None);
    for (serial, mark) in marks(trace) {
        match mark {
            BAD => since = since.or(Some(serial)),
            GOOD => times.extend(since.take().map(|since| since..serial)),
            _ => {}
        }
    }
    times.extend(since.map(|since| since..u64::MAX));
    times
}

fn marks(trace: &Trace) -> impl Iterator<Item = (u64, u64)> {
    trace.events().iter().filter_map(|event| match event.event {
        Event::Mark(Mark::Number(mark)) => Some((event.serial, mark)),
        _ => None,
    })
}

/// The calls with their times: call `n` is issued at mark `4 n`, and answered at `4 n + 1`, or with
/// an error at `4 n + 2`.
fn spans(
    calls: &[Call],
    notes: &Notes,
    (version, is_whole): (Version, bool),
    trace: &Trace,
) -> Vec<Span> {
    let effect = |(number, call): (usize, &Call)| match call {
        Call::Write { is_through, .. } => {
            Effect::Write { version: version + number as Version, is_through: *is_through }
        }
        Call::Discard(_) => Effect::Discard,
        Call::Flush => Effect::Flush,
        // One that has failed, or has no NVRAM, is not flushed.
        Call::Stop if is_whole => Effect::Flush,
        _ => Effect::None,
    };
    let mut spans: Vec<Span> = calls
        .iter()
        .enumerate()
        .map(|(number, call)| Span {
            effect: effect((number, call)),
            sectors: call.sectors(),
            issued: None,
            answered: None,
            is_good: false,
        })
        .collect();
    for (serial, mark) in marks(trace).filter(|(_, mark)| *mark < SHOWN) {
        let span = &mut spans[(mark / 4) as usize];
        match mark % 4 {
            0 => span.issued = Some(serial),
            end => (span.answered, span.is_good) = (Some(serial), end == 1),
        }
    }
    for (number, costs) in &notes.costs {
        let Span { issued, .. } = spans[*number];
        let damage = |sectors: &Range<u64>| Span {
            effect: Effect::Damage,
            sectors: sectors.clone(),
            issued,
            answered: issued,
            is_good: true,
        };
        spans.extend(costs.iter().map(damage));
    }
    spans
}

impl Run<'_> {
    /// Makes the calls of all callers; a stop comes behind them.
    async fn all(&self, callers: &[Vec<Call>]) {
        let mut first = 0;
        let mut together = Vec::new();
        let mut stop = None;
        for calls in callers {
            if calls[..] == [Call::Stop] {
                stop = Some(first);
            } else {
                together.push(self.in_turn(first, calls));
            }
            first += calls.len();
        }
        join_all(together).await;
        if let Some(number) = stop {
            self.make(number, &Call::Stop).await;
        }
    }

    async fn in_turn(&self, first: usize, calls: &[Call]) {
        for (number, call) in (first..).zip(calls) {
            self.make(number, call).await;
        }
    }

    async fn make(&self, number: usize, call: &Call) {
        let mark = |end: u64| self.stage.memory().mark(Mark::Number(4 * number as u64 + end));
        mark(0);
        let done = self.call(number, call).await;
        mark(if done.is_ok() { 1 } else { 2 });
        if let Err(error) = done {
            self.notes.borrow_mut().errors.push((number, error));
        }
    }

    async fn call(&self, number: usize, call: &Call) -> Result<(), IoError> {
        let device = &self.opened.device;
        let nvram = self.opened.nvram.as_ref();
        let sectors = call.sectors();
        let (at, length) = (sectors.start * SECTOR, (sectors.end - sectors.start) * SECTOR);
        let look = |read: &[u8]| {
            let shown = versions_in(read, sectors.start);
            self.notes.borrow_mut().looks.push((number, sectors.start, shown));
        };
        match call {
            Call::Write { is_through, .. } => {
                let version = self.version + number as Version;
                let data = vec![bytes(version, sectors.clone()).into()];
                let how = if *is_through { Durability::Through } else { Durability::Plain };
                device.write(at, data, how).await
            }
            Call::Discard(_) => device.discard(at, length).await,
            Call::Read(_) => {
                let room = block::Buffer::unfilled(length as usize);
                device.read(at, room).await.map(|read| look(&read))
            }
            Call::Mend(_) => {
                let first = sectors.start;
                let is_right: block::IsRight =
                    Rc::new(move |read| !versions_in(read, first).contains(&UNKNOWN));
                let mended = device.mend(at, length, is_right).await?;
                mended.iter().for_each(|read| look(read));
                Ok(())
            }
            Call::Flush => device.flush().await,
            Call::Settle(is_down) => match nvram {
                Some(nvram) => {
                    nvram.settle(*is_down).await?;
                    self.opened.follow().await
                }
                None => Ok(()),
            },
            Call::Up => match nvram {
                Some(nvram) => {
                    nvram.up().await?;
                    self.opened.follow().await
                }
                None => Ok(()),
            },
            Call::Hurry(is_hurried) => {
                nvram.iter().for_each(|nvram| nvram.hurry(*is_hurried));
                Ok(())
            }
            Call::Pause(time) => {
                self.stage.executor.runtime().clock.sleep(*time).await;
                Ok(())
            }
            Call::Strike if self.case.fault == Fault::Battery => {
                self.battery().await;
                Ok(())
            }
            Call::Strike => {
                self.strike(number);
                Ok(())
            }
            Call::Stop => device.close().await,
        }
    }

    /// The battery becomes bad, and good again.
    async fn battery(&self) {
        let Some(nvram) = &self.opened.nvram else { return };
        let clock = self.stage.executor.runtime().clock;
        let mark = |mark: u64| self.stage.memory().mark(Mark::Number(mark));
        let draw = |most: u64| self.prng.borrow_mut().between(1, most);
        for turn in 0..draw(4) {
            self.opened.distrust();
            nvram.heed(Health::Low);
            // Answers on their way count as heard.
            clock.sleep(Duration::from_nanos(100)).await;
            mark(BAD);
            for _ in 0..draw(4) {
                clock.sleep(Duration::from_micros(draw(20_000))).await;
                nvram.heed(Health::Low);
                let _ = self.opened.follow().await; // a set that has stopped says so
            }
            if turn > 0 && draw(4) == 1 {
                return; // it stays bad
            }
            mark(GOOD);
            nvram.heed(Health::Good);
            let _ = self.opened.follow().await;
            clock.sleep(Duration::from_micros(draw(5_000))).await;
        }
    }

    /// The fault begins.
    fn strike(&self, number: usize) {
        let prng = &mut *self.prng.borrow_mut();
        let memory = self.stage.memory();
        let is_set = self.case.device.level().is_some();
        let below = match self.case.device.level() {
            Some(_) => self.missing.get().unwrap_or_else(|| prng.index(self.case.device.members())),
            None => 0,
        };
        let (disk, verb) = match self.case.fault {
            Fault::MemoryWrite => (memory, Verb::Write),
            Fault::MemoryFlush => (memory, Verb::Flush),
            Fault::MemoryRead | Fault::MemorySlow => (memory, Verb::Read),
            Fault::BelowWrite | Fault::Full => (&self.stage.disks[below], Verb::Write),
            Fault::BelowFlush => (&self.stage.disks[below], Verb::Flush),
            Fault::BelowRead => (&self.stage.disks[below], Verb::Read),
            Fault::Rot(part) => {
                let Some(entries) = Entries::of(&memory.platter().durable_image()) else { return };
                let Some(damage) = entries.damage(part, prng) else { return };
                memory.rot(damage.at + prng.below(damage.length), prng.below(8) as u8);
                return self.notes.borrow_mut().costs.push((number, damage.costs));
            }
            Fault::Nothing | Fault::Away | Fault::Battery => return,
        };
        if !Rc::ptr_eq(disk, memory) && is_set {
            self.missing.set(Some(below));
        }
        let effect = match self.case.fault {
            Fault::Full => Harm::NoSpace,
            Fault::MemorySlow => Harm::Slow(Duration::from_millis(prng.between(1, 40))),
            _ => Harm::Eio,
        };
        let first = prng.between(1, 12);
        let fault = Struck::on(verb, effect);
        if self.case.fault == Fault::MemorySlow {
            let some = (0..20).map(|turn| first + 4 * turn);
            some.for_each(|nth| disk.inject(fault.clone().nth(nth)));
        } else if self.case.fault == Fault::Full && is_set {
            // A set waits until there is room.
            (first..first + prng.between(1, 12))
                .for_each(|nth| disk.inject(fault.clone().nth(nth)));
        } else if prng.chance(1, 2) {
            disk.inject(fault.nth(first).forever());
        } else {
            let some = first..first + prng.between(1, 4);
            some.for_each(|nth| disk.inject(fault.clone().nth(nth)));
        }
    }
}
