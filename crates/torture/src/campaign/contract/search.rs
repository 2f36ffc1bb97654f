//! Runs a workload, and tries the states that its cuts leave.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::join;
use raid::Set;
use raid::assembly::Witness;
use raid::label::Standing;
use sim::{
    Choice, Disk, Executor, Fate, Image, Mark, Persistence, Platter, Prng, Remains, Sectors, Trace,
};

use super::devices::{Base, open};
use super::model::{Call, SECTOR, Timeline, bytes, judge};
use super::workload::{COMING, Pattern, Workload};
use crate::campaign::Outcome;
use crate::campaign::budget::End;
use crate::explore::Counts;
use crate::explore::device::Device;

/// Most pending writes that are lost and kept in every subset, in the full form and in the short
/// one.
const SUBSETS: (usize, usize) = (6, 4);
/// Random choices at a cut with more, in the full form and in the short one.
const BY_CHANCE: (usize, usize) = (24, 6);
/// One image in this many has its recovery cut.
const CUT_RETURNS: (u128, u128) = (48, 40);
/// The same of a workload that is tried alone.
const THOROUGH: u128 = 8;

/// One image in this many is recovered once more after a member has rotted, in the full form and in
/// the short one.
const ROTTEN: (u128, u128) = (8, 3);
/// After one recovery in this many, a member that is present but out catches up.
const CATCH_UP: u64 = 20;
/// Bytes of a block that rots.
const BLOCK: u64 = 4096;

/// A recorded run.
struct Run {
    timeline: Timeline,
    traces: Vec<Trace>,
    /// The witnesses handed out, and when.
    told: Vec<(u64, Witness)>,
}

/// The versions that a recovered device shows.
type Returned = Result<Rc<Vec<u8>>, String>;

/// The search: see the module.
pub(super) struct Search {
    is_full: bool,
    /// One image in this many has its recovery cut.
    cut_returns: u128,
    seed: u64,
    end: End,
    bases: Vec<((Device, usize, bool), Rc<Base>)>,
}

impl Search {
    pub(super) fn new(is_full: bool, seed: u64) -> Self {
        let cut_returns = if is_full { CUT_RETURNS.0 } else { CUT_RETURNS.1 };
        Self { is_full, cut_returns, seed, end: End::default(), bases: Vec::new() }
    }

    /// Stops inside a workload when the time is spent.
    pub(super) fn until(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// A search in the full form, with more of the recoveries cut.
    pub(super) fn thorough(seed: u64) -> Self {
        Self { cut_returns: THOROUGH, ..Self::new(true, seed) }
    }

    fn base(&mut self, workload: &Workload) -> Rc<Base> {
        let Workload { device, disks, is_fresh, .. } = *workload;
        let kind = (device, disks, is_fresh);
        if let Some((_, base)) = self.bases.iter().find(|(known, _)| *known == kind) {
            return base.clone();
        }
        let base = Rc::new(Base::new(device, disks, is_fresh, |size| bytes(0, 0, size)));
        self.bases.push((kind, base.clone()));
        base
    }

    /// Tries a workload at all cuts, or at as many as the time allows: a remark says so.
    pub(super) fn try_one(&mut self, workload: &Workload) -> Outcome {
        let mut base = self.base(workload);
        if workload.pattern == Pattern::Rebuilt {
            base = Rc::new(base.without(COMING));
        }
        let mut outcome = Outcome::default();
        let mut counts = Counts { workloads: 1, ..Counts::default() };
        match self.cut_all(&base, workload, &mut counts) {
            Ok(true) => {}
            Ok(false) => outcome.remarks.push(format!("no time for all cuts of {workload}")),
            Err(wrong) => {
                counts.violations = 1;
                outcome.violations.push(wrong);
            }
        }
        outcome.counts = counts;
        outcome
    }

    /// Tries the cuts of a run. Returns whether there was time for all.
    fn cut_all(
        &self,
        base: &Base,
        workload: &Workload,
        counts: &mut Counts,
    ) -> Result<bool, String> {
        let run = play(base, workload)?;
        let mut prng = Prng::new(self.seed);
        let mut known: HashMap<Vec<Option<u128>>, Returned> = HashMap::new();
        let returns = Cell::new(0);
        let serials = serials_of(&run.traces);
        let last = serials.last().map_or(0, |last| last + 1);
        let platters: Vec<Vec<Platter>> = run
            .traces
            .iter()
            .map(|trace| trace.cuts().map(|(_, platter)| platter).collect())
            .collect();
        for serial in serials.into_iter().chain([last]) {
            let at = |disk: usize| &platters[disk][run.traces[disk].position_of(serial)];
            let cut: Vec<&Platter> = (0..run.traces.len()).map(at).collect();
            let allowed = run.timeline.allowed(serial, base.size / SECTOR);
            let witness = witness_at(serial, &run.told).or_else(|| base.witness.clone());
            // If the set has lost a member, no other one may be missing.
            let losable = match workload.failure {
                _ if base.device == Device::Plain => Vec::new(),
                Some(failure) => vec![failure.member],
                None if workload.pattern.has_rebuild() && serial < last => vec![COMING],
                None => (0..cut.len()).collect(),
            };
            let returns = &returns;
            let moment = Moment { base, cut: &cut, allowed: &allowed, witness, losable, returns };
            moment
                .try_all(self, &mut known, &mut prng, counts)
                .map_err(|wrong| format!("{wrong}, cut before event {serial}"))?;
            if self.end.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A cut of a run.
struct Moment<'m> {
    base: &'m Base,
    cut: &'m [&'m Platter],
    allowed: &'m [u8],
    witness: Option<Witness>,
    /// Disks of which any one may be lost with the power.
    losable: Vec<usize>,
    /// The number of recoveries so far.
    returns: &'m Cell<u64>,
}

impl Moment<'_> {
    fn try_all(
        &self,
        search: &Search,
        known: &mut HashMap<Vec<Option<u128>>, Returned>,
        prng: &mut Prng,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let mut remains: Vec<Remains<'_>> =
            self.cut.iter().map(|platter| Remains::new(platter)).collect();
        let mut tried = HashSet::new();
        let choices = self.choices(search.is_full, prng).into_iter();
        for choices in choices.take_while(|_| !search.end.is_over()) {
            let prints: Vec<u128> = remains
                .iter_mut()
                .zip(&choices)
                .map(|(remains, choice)| remains.fingerprint(choice))
                .collect();
            if !tried.insert(prints.clone()) {
                continue;
            }
            // The short form tries one of them in turn.
            let turn = tried.len() % self.losable.len().max(1);
            let is_tried = |(place, _): &(usize, &usize)| search.is_full || *place == turn;
            let lost =
                self.losable.iter().enumerate().filter(is_tried).map(|(_, &disk)| Some(disk));
            let losses = std::iter::once(None).chain(lost);
            for lost in losses {
                let witnessed = self.witness.as_ref().map(|story| u128::from(story.generation));
                let key: Vec<Option<u128>> = (0..prints.len())
                    .map(|disk| (Some(disk) != lost).then_some(prints[disk]))
                    .chain([witnessed])
                    .collect();
                counts.states += 1;
                let images = |remains: &mut Vec<Remains<'_>>| -> Vec<Option<Image>> {
                    let disks = remains.iter_mut().zip(&choices).enumerate();
                    disks
                        .map(|(disk, (remains, choice))| {
                            (Some(disk) != lost).then(|| remains.image(choice))
                        })
                        .collect()
                };
                let told = || {
                    let fates: Vec<String> =
                        choices.iter().map(|choice| format!("'{choice}'")).collect();
                    let lost = lost.map_or("none".to_owned(), |lost| lost.to_string());
                    format!("{}, lost: {lost}", fates.join(" "))
                };
                let returned = known.entry(key.clone()).or_insert_with(|| {
                    counts.images += 1;
                    let images = images(&mut remains);
                    let mix = key.iter().flatten().fold(0, |mix, print| mix ^ print);
                    let is_cut = mix % search.cut_returns == 0;
                    let shown = self.returns(&images, lost, is_cut, prng, counts)?;
                    let one_of = if search.is_full { ROTTEN.0 } else { ROTTEN.1 };
                    if lost.is_none() && mix % one_of == 0 {
                        self.returns_rotten(images, &shown, prng, counts)?;
                    }
                    Ok(shown)
                });
                let shown = returned.clone().map_err(|wrong| format!("{wrong}: {}", told()))?;
                judge(&shown, self.allowed).map_err(|wrong| format!("{wrong}: {}", told()))?;
            }
        }
        Ok(())
    }

    /// Fates of the pending writes on each disk.
    fn choices(&self, is_full: bool, prng: &mut Prng) -> Vec<Vec<Choice>> {
        let sectors: Vec<Vec<usize>> = self
            .cut
            .iter()
            .map(|platter| {
                platter.pending().map(|written| written.data.len() / SECTOR as usize).collect()
            })
            .collect();
        let flat: Vec<usize> = sectors.iter().flatten().copied().collect();
        let mut fates: Vec<Vec<Fate>> = Vec::new();
        let all = |fate: Fate| vec![fate; flat.len()];
        let kept = |is_kept: bool| if is_kept { Fate::Whole } else { Fate::Lost };
        let most = if is_full { SUBSETS.0 } else { SUBSETS.1 };
        if flat.len() <= most {
            for subset in 0..1_usize << flat.len() {
                fates.push((0..flat.len()).map(|place| kept(subset >> place & 1 == 1)).collect());
            }
        } else {
            fates.extend([all(Fate::Lost), all(Fate::Whole)]);
            for place in 0..flat.len() {
                for is_kept in [false, true] {
                    let mut one = all(kept(!is_kept));
                    one[place] = kept(is_kept);
                    fates.push(one);
                }
            }
            let (full, short) = BY_CHANCE;
            for _ in 0..if is_full { full } else { short } {
                fates.push(flat.iter().map(|&sectors| Fate::random(sectors, prng)).collect());
            }
        }
        for (place, &sectors) in flat.iter().enumerate().filter(|(_, sectors)| **sectors > 1) {
            let half = prng.between(1, sectors as u64 - 1) as usize;
            for torn in [Sectors::first(half, sectors), Sectors::but_first(half, sectors)] {
                for is_kept in [false, true].into_iter().skip(usize::from(!is_full)) {
                    let mut one = all(kept(is_kept));
                    one[place] = Fate::Torn(torn.clone());
                    fates.push(one);
                }
            }
        }
        let apart = |fates: Vec<Fate>| {
            let mut fates = fates.into_iter();
            let of_disk = |of: &Vec<usize>| Choice::new(fates.by_ref().take(of.len()).collect());
            sectors.iter().map(of_disk).collect()
        };
        fates.into_iter().map(apart).collect()
    }

    /// Recovers images; if `is_cut`, cuts the recovery at each of its events and recovers once
    /// more.
    fn returns(
        &self,
        images: &[Option<Image>],
        lost: Option<usize>,
        is_cut: bool,
        prng: &mut Prng,
        counts: &mut Counts,
    ) -> Returned {
        let Back { shown, traces, told, .. } = self.come_back(images, is_cut)?;
        if !is_cut {
            return Ok(shown);
        }
        let serials = serials_of(traces.iter().flatten());
        let last = serials.last().map_or(0, |last| last + 1);
        for serial in serials.into_iter().chain([last]) {
            let mut cut = |trace: &Trace| {
                let platter = trace.platter_at(trace.position_of(serial));
                platter.image(&Choice::random(&platter, prng))
            };
            let mut left: Vec<Option<Image>> =
                traces.iter().map(|trace| trace.as_ref().map(&mut cut)).collect();
            if lost.is_none() && !self.losable.is_empty() && prng.chance(1, 2) {
                left[self.losable[prng.index(self.losable.len())]] = None;
            }
            counts.states += 1;
            let witness = witness_at(serial, &told).or_else(|| self.witness.clone());
            let losable = Vec::new();
            let again = Moment { witness, losable, ..*self };
            let returned = again.come_back(&left, false).map(|back| back.shown);
            let judged = returned.and_then(|shown| {
                judge(&shown, self.allowed)?;
                Ok(shown)
            });
            let shown_again = judged
                .map_err(|wrong| format!("{wrong}, after a return that was cut before {serial}"))?;
            if serial == last && shown_again != shown {
                return Err("what a return has shown is another after the next".to_owned());
            }
        }
        Ok(shown)
    }

    /// Recovers once more after one member has rotted: the content is the same, and all is
    /// repaired.
    fn returns_rotten(
        &self,
        mut images: Vec<Option<Image>>,
        shown: &[u8],
        prng: &mut Prng,
        counts: &mut Counts,
    ) -> Result<(), String> {
        if self.base.summed.is_empty() || !self.come_back(&images, false)?.is_whole {
            return Ok(());
        }
        let place = &self.base.summed[usize::from(prng.chance(1, 4))];
        let at = place.start + prng.below((place.end - place.start) / BLOCK) * BLOCK;
        let disk = prng.index(images.len());
        let image = images[disk].as_mut().expect("none is lost");
        let mut block = vec![0; BLOCK as usize];
        image.read(at, &mut block);
        match prng.below(3) {
            0 => block[prng.index(BLOCK as usize)] ^= 1 << prng.below(8),
            1 => prng.fill(&mut block),
            _ => image
                .read(if at == place.start { place.end - BLOCK } else { at - BLOCK }, &mut block),
        }
        image.write(at, &block);
        counts.states += 1;
        let told = || format!("after block {at} of disk {disk} has rotted");
        let back = self.return_of(&images, false, true);
        let back = back.map_err(|wrong| format!("{wrong}, {}", told()))?;
        if *back.shown != shown {
            return Err(format!("something else is shown {}", told()));
        }
        Ok(())
    }

    fn come_back(&self, images: &[Option<Image>], is_recorded: bool) -> Result<Back, String> {
        self.return_of(images, is_recorded, false)
    }

    /// Opens the device, reads all of it, and checks that its members are consistent and its
    /// checksums match.
    fn return_of(
        &self,
        images: &[Option<Image>],
        is_recorded: bool,
        is_rotten: bool,
    ) -> Result<Back, String> {
        let executor = Executor::new(7);
        let disks = Base::disks(&executor, images);
        if is_recorded {
            disks.iter().flatten().for_each(|disk| disk.start_trace());
        }
        let runtime = executor.runtime();
        let (shown, opened) = executor.block_on(async {
            let opened = open(self.base, &disks, self.witness.clone(), &runtime).await?;
            let room = Buffer::zeroed(self.base.size as usize);
            let read = opened.device.read(0, room).await.map_err(|error| error.to_string())?;
            // A recorded recovery does only what every start does.
            if let Some(set) = opened.set.as_ref().filter(|_| !is_recorded) {
                scrub(set, is_rotten).await?;
                let turn = self.returns.replace(self.returns.get() + 1);
                if turn.is_multiple_of(CATCH_UP) && catch_up(set, &disks).await? {
                    self.base.fits_together(set, &disks)?;
                    let room = Buffer::zeroed(self.base.size as usize);
                    let again = set.read(0, room).await.map_err(|error| error.to_string())?;
                    if again[..] != read[..] {
                        return Err("a member that comes back changes what is shown".to_owned());
                    }
                    scrub(set, false).await?;
                }
            }
            Ok::<_, String>((self.base.contents.shown(&read), opened))
        })?;
        if let Some(set) = opened.set.as_ref().filter(|_| opened.is_whole) {
            self.base.fits_together(set, &disks)?;
        }
        let trace =
            |disk: &Option<Rc<Disk>>| disk.as_ref().filter(|_| is_recorded).map(|it| it.trace());
        let traces: Vec<Option<Trace>> = disks.iter().map(trace).collect();
        let told = traces.iter().flatten().next().map(|first| opened.told_in(first));
        let (is_whole, told) = (opened.is_whole, told.unwrap_or_default());
        Ok(Back { shown: Rc::new(shown), traces, told, is_whole })
    }
}

/// Result of a recovery.
struct Back {
    /// The versions that each sector shows.
    shown: Rc<Vec<u8>>,
    /// The trace of each disk, if it was recorded.
    traces: Vec<Option<Trace>>,
    told: Vec<(u64, Witness)>,
    /// All members are in.
    is_whole: bool,
}

/// Scrubs a set: there is something to repair only if a block has rotted, and then only once; and
/// all checksums are known.
async fn scrub(set: &Set, is_rotten: bool) -> Result<(), String> {
    if is_rotten {
        set.scrub(|_, _, _| ()).await.map_err(|error| error.to_string())?;
    }
    let found = set.scrub(|_, _, _| ()).await.map_err(|error| error.to_string())?;
    let is_known = found.unknown == 0 || is_rotten;
    if found.mended == 0 && found.lost.is_empty() && is_known {
        Ok(())
    } else {
        Err(format!("the checksums: {found:?}"))
    }
}

/// Brings a member that is present but out up to date. Returns whether there was one, and all are
/// in now.
async fn catch_up(set: &Set, disks: &[Option<Rc<Disk>>]) -> Result<bool, String> {
    let slots = set.label().slots;
    let is_out = |slot: usize| slots[slot].standing != Standing::InSync;
    let out: Vec<usize> = (0..slots.len()).filter(|&slot| is_out(slot)).collect();
    let [slot] = out[..] else { return Ok(false) };
    let Some(disk) = disks[slot].clone() else { return Ok(false) };
    let rebuilt = set.rebuild(slot, disk, slots[slot].member, |_, _| ()).await;
    rebuilt.map(|()| true).map_err(|error| format!("slot {slot} is not made again: {error}"))
}

/// The last witness handed out before an event.
fn witness_at(serial: u64, told: &[(u64, Witness)]) -> Option<Witness> {
    let latest = told.iter().rev().find(|(when, _)| *when < serial);
    latest.map(|(_, story)| story.clone())
}

/// The serial numbers of all events, each once.
fn serials_of<'t>(traces: impl IntoIterator<Item = &'t Trace>) -> BTreeSet<u64> {
    traces.into_iter().flat_map(Trace::events).map(|event| event.serial).collect()
}

/// Makes calls one after the other.
async fn in_turn(
    call: &impl AsyncFn(usize) -> Result<(), String>,
    count: usize,
) -> Result<(), String> {
    for number in 0..count {
        call(number).await?;
    }
    Ok(())
}

/// Makes two calls at once.
async fn both(
    one: impl Future<Output = Result<(), String>>,
    other: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    let (one, other) = join(one, other).await;
    one.and(other)
}

/// Makes a call of a workload.
async fn make(
    device: &dyn BlockDevice,
    workload: &Workload,
    call: Call,
) -> Result<(), block::IoError> {
    let write = match call {
        Call::Flush => return device.flush().await,
        Call::Discard(write) => {
            let (at, length) = workload.writes[write];
            return device.discard(at, length).await;
        }
        Call::Write(write) => write,
    };
    let (at, length) = workload.writes[write];
    let data = vec![bytes(write as u8 + 1, at, length).into()];
    let is_through = workload.pattern.is_through();
    let durability = if is_through { Durability::Through } else { Durability::Plain };
    device.write(at, data, durability).await
}

fn calls_of(pattern: Pattern) -> Vec<Call> {
    match pattern {
        Pattern::Flushed | Pattern::Together | Pattern::Crossed | Pattern::Rebuilt => {
            vec![Call::Write(0), Call::Write(1), Call::Flush]
        }
        Pattern::Vacated => {
            vec![Call::Write(0), Call::Discard(1), Call::Write(1), Call::Flush]
        }
        Pattern::Apart => vec![Call::Write(0), Call::Flush, Call::Write(1), Call::Flush],
        Pattern::Through | Pattern::Returned | Pattern::CaughtUp => {
            vec![Call::Write(0), Call::Write(1)]
        }
    }
}

/// Runs a workload, and records it.
fn play(base: &Base, workload: &Workload) -> Result<Run, String> {
    let executor = Executor::new(11);
    let images: Vec<Option<Image>> = base.images.iter().cloned().map(Some).collect();
    let disks = Base::disks(&executor, &images);
    let disks_there = || disks.iter().flatten();
    let (first, runtime) =
        (disks_there().next().expect("there is one").clone(), executor.runtime());
    let is_through = workload.pattern.is_through();
    let calls = calls_of(workload.pattern);
    let opened = executor.block_on(async {
        let opened = open(base, &disks, base.witness.clone(), &runtime).await?;
        disks_there().for_each(|disk| disk.start_trace());
        if let Some(failure) = workload.failure {
            let disk = disks[failure.member].as_ref().expect("all are there");
            let verb = if failure.is_flush { Verb::Flush } else { Verb::Write };
            disk.fail(verb, failure.nth, Persistence::Forever);
        }
        let call = async |number: usize| -> Result<(), String> {
            first.mark(Mark::Number(2 * number as u64));
            let done = make(&*opened.device, workload, calls[number]).await;
            first.mark(Mark::Number(2 * number as u64 + 1));
            done.map_err(|error| format!("a call failed: {error}"))
        };
        let set = || opened.set.as_ref().expect("a set has members");
        let coming = || disks[COMING].clone().expect("all are there");
        match workload.pattern {
            Pattern::Together => {
                both(call(0), call(1)).await?;
                call(2).await?;
            }
            Pattern::Crossed => {
                call(0).await?;
                both(call(1), call(2)).await?;
            }
            Pattern::Returned | Pattern::CaughtUp => {
                call(0).await?;
                let disk = coming();
                disk.fail(Verb::Write, 1, Persistence::Forever);
                call(1).await?;
                disk.heal();
                let set = set();
                if set.label().slots[COMING].standing != Standing::InSync {
                    let is_back = workload.pattern == Pattern::CaughtUp;
                    let as_before = set.label().slots[COMING].member;
                    let member = if is_back { as_before } else { [77; 16] };
                    let rebuilt = set.rebuild(COMING, disk, member, |_, _| ()).await;
                    rebuilt.map_err(|error| error.to_string())?;
                }
            }
            Pattern::Rebuilt => {
                let set = set();
                let fresh = coming();
                let rebuild = set.rebuild(COMING, fresh, [77; 16], |_, _| ());
                let (rebuilt, called) = join(rebuild, in_turn(&call, calls.len())).await;
                rebuilt.map_err(|error| error.to_string())?;
                called?;
            }
            _ => in_turn(&call, calls.len()).await?,
        }
        Ok::<_, String>(opened)
    })?;
    let traces: Vec<Trace> = disks_there().map(|disk| disk.trace()).collect();
    let timeline = Timeline::new(workload, &calls, is_through, &traces[0]);
    let told = opened.told_in(&traces[0]);
    Ok(Run { timeline, traces, told })
}
