//! The cuts of a life, and the returns from them.
//!
//! The power goes before an event, on all disks at one moment, and each keeps or loses what it had
//! not flushed. Then a part of the memory rots, or cannot be read at first, or a member is lost.
//! The volume returns with its NVRAM, and shows what [`super::model`] allows; the return is cut as
//! well. On some images it is opened without its NVRAM, with an older copy of it, or with older
//! disks: it is refused, or shows the same.

use std::collections::HashSet;

use sim::{Choice, Fate, Fault as Struck, Image, Platter, Prng};

use super::case::{Case, Late};
use super::life::Life;
use super::model::{Allowed, ERROR, Version, judge, settled, unless_stranded};
use super::rot::{self, Entries};
use super::stage::{Opened, Stage, Way, left, memory, platter};
use crate::campaign::budget::End;

/// Events of a life at which it is cut, in the short form.
const CUTS: usize = 8;
/// Choices at a cut beside the corners, in the full form and in the short one.
const BY_CHANCE: (usize, usize) = (4, 2);
/// Most pending writes that are lost and kept in every subset, in the full form and in the short
/// one.
const SUBSETS: (usize, usize) = (4, 2);
/// Cuts of a return, in the full form and in the short one.
const OF_RETURN: (usize, usize) = (2, 1);
/// One image in this many is opened in another way, and at one event in this many the process is
/// killed.
const OTHERWISE: u64 = 4;
const KILLED: u64 = 4;

/// A return that was judged.
struct Back {
    /// What it showed, and the serial number of when that was durable.
    shown: Vec<Version>,
    when: u64,
    traces: Vec<sim::Trace>,
}

/// An image of the disks, and what it may show.
struct Left<'c> {
    cuts: &'c Cuts<'c>,
    platters: Vec<Platter>,
    /// What the first look may show.
    visible: Allowed,
    /// What a cut may leave until such a look is durable.
    durable: Allowed,
}

/// The cuts of a life.
pub(super) struct Cuts<'c> {
    pub(super) case: &'c Case,
    pub(super) life: &'c Life,
    /// The disks at an earlier start.
    pub(super) copy: Option<&'c [Platter]>,
    pub(super) end: End,
}

impl Cuts<'_> {
    /// Tries them. Returns how many images were judged.
    ///
    /// # Errors
    /// The violation.
    pub(super) fn all(&self, prng: &mut Prng) -> Result<u64, String> {
        let mut serials = self.life.serials();
        let last = *serials.last().expect("there is an end");
        if !self.case.is_full {
            let mut drawn: Vec<u64> =
                (0..CUTS).map(|_| serials[prng.index(serials.len())]).collect();
            drawn.push(last);
            serials = drawn;
        }
        let mut tried = 0;
        for serial in serials {
            if self.end.is_over() {
                break;
            }
            let told = |wrong| format!("{wrong}, cut before event {serial} of {last}");
            tried += self.at(serial, serial == last, prng).map_err(told)?;
        }
        Ok(tried)
    }

    fn at(&self, serial: u64, is_last: bool, prng: &mut Prng) -> Result<u64, String> {
        let platters = self.life.platters(serial);
        let (visible, allowed) = self.life.allowed(self.case.device, serial);
        let mut known = HashSet::new();
        let mut tried = 0;
        for choices in self.choices(&platters, prng) {
            let images: Vec<Image> = (platters.iter().zip(&choices).enumerate())
                .map(|(disk, (platter, choice))| {
                    left(self.case.device, disk, platter, choice, prng)
                })
                .collect();
            if !known.insert(images.iter().map(Image::fingerprint).collect::<Vec<_>>()) {
                continue;
            }
            let told = |wrong: String| {
                let fates: Vec<String> = choices.iter().map(|it| format!("'{it}'")).collect();
                format!("{wrong}: {}", fates.join(" "))
            };
            if let Some(below) = self.life.allowed_below(self.case, serial) {
                self.without_memory(&images, &below).map_err(told)?;
                tried += 1;
            }
            tried += self.image(images, &allowed, is_last, prng).map_err(told)?;
        }
        if prng.chance(1, KILLED) {
            let platters: Vec<Platter> = platters.iter().map(Platter::killed).collect();
            let left = Left { cuts: self, platters, visible, durable: allowed };
            tried += left.returns(prng).map_err(|wrong| format!("{wrong}, killed"))?;
        }
        Ok(tried)
    }

    /// Fates of the pending writes.
    fn choices(&self, platters: &[Platter], prng: &mut Prng) -> Vec<Vec<Choice>> {
        let counts: Vec<usize> = platters.iter().map(|it| it.pending().count()).collect();
        let pending: usize = counts.iter().sum();
        let mut choices: Vec<Vec<Choice>> = Vec::new();
        let fate = |is_kept: bool| if is_kept { Fate::Whole } else { Fate::Lost };
        let (full, short) = SUBSETS;
        if pending <= if self.case.is_full { full } else { short } {
            for subset in 0..1_usize << pending {
                let mut fates = (0..pending).map(|write| fate(subset >> write & 1 == 1));
                let of = |&count: &usize| Choice::new(fates.by_ref().take(count).collect());
                choices.push(counts.iter().map(of).collect());
            }
        } else {
            // Each side keeps all or nothing.
            let memory = memory(self.case.device);
            for (below, above) in [(false, false), (false, true), (true, false), (true, true)] {
                let of = |(disk, &count): (usize, &usize)| {
                    Choice::new(vec![fate(if disk == memory { above } else { below }); count])
                };
                choices.push(counts.iter().enumerate().map(of).collect());
            }
        }
        let (full, short) = BY_CHANCE;
        for _ in 0..if self.case.is_full { full } else { short } {
            let is_mixed = prng.chance(1, 3);
            let of = |platter: &Platter| {
                let choose = if is_mixed { Choice::mixture } else { Choice::random };
                choose(platter, prng)
            };
            choices.push(platters.iter().map(of).collect());
        }
        choices
    }

    /// Judges an image.
    fn image(
        &self,
        mut images: Vec<Image>,
        allowed: &Allowed,
        is_last: bool,
        prng: &mut Prng,
    ) -> Result<u64, String> {
        let mut tried = 1;
        let is_stopped = is_last && self.life.is_stopped;
        if prng.chance(1, OTHERWISE) || is_stopped {
            self.otherwise(&images, allowed, is_stopped, prng)?;
            tried += 1;
        }
        let mut visible = allowed.clone();
        let memory = memory(self.case.device);
        let (late, mut told) = (self.case.late, String::new());
        let has_twice = self.case.is_two && super::has_twice(self.case, &images);
        if let Late::Rot(part) = late
            && self.life.way == Way::Own
            && let Some(entries) = Entries::of(&images[memory])
            && let Some(damage) = entries.damage(part, prng)
        {
            damage.strike(&mut images[memory], prng);
            if !has_twice {
                damage.allow(&mut visible);
            }
            told =
                format!(", rot at {} of the memory, which may cost {:?}", damage.at, damage.costs);
        }
        let lost = match late {
            Late::Lost => self.life.missing.or(Some(prng.index(self.case.device.members()))),
            _ => None,
        };
        if let Some(lost) = lost {
            images[lost] = Image::zeroed(0);
            told = format!(", member {lost} lost");
        }
        let platters: Vec<Platter> = images.into_iter().map(platter).collect();
        let durable = visible.clone();
        let left = Left { cuts: self, platters, visible, durable };
        if late == Late::Unread {
            tried += left.unread(prng)?;
        } else {
            tried += left.returns(prng).map_err(|wrong| format!("{wrong}{told}"))?;
        }
        Ok(tried)
    }

    /// The memory is lost with its battery, and a person accepts that.
    fn without_memory(&self, images: &[Image], allowed: &Allowed) -> Result<(), String> {
        let platters: Vec<Platter> = images.iter().cloned().map(platter).collect();
        let stage = Stage::new(self.case.device, 1, &platters);
        let look = async { Ok::<_, String>(stage.open(Way::GivenUp, false).await?.look().await) };
        let told = |wrong| format!("without the memory {wrong}");
        let shown = match stage.executor.block_on(look) {
            // An earlier life has used it, and this one has just begun.
            Err(refused) if refused.contains("its log device is missing") => return Ok(()),
            shown => shown.map_err(told)?,
        };
        judge(&shown, allowed, 0).map_err(told)
    }

    /// Opens an image as it is not meant to be opened.
    fn otherwise(
        &self,
        images: &[Image],
        allowed: &Allowed,
        is_stopped: bool,
        prng: &mut Prng,
    ) -> Result<(), String> {
        let needs_no_nvram = is_stopped && self.life.is_clean;
        let case = self.case;
        let memory = memory(case.device);
        let mut platters: Vec<Platter> = images.iter().cloned().map(platter).collect();
        let known = |platters: &[Platter]| Stage::new(case.device, 1, platters).generation();
        let mut way = Way::Own;
        let word = match prng.below(4) {
            1 if let Some(copy) = self.copy
                && !is_stopped
                && rot::generation(&copy[memory].durable_image()) < Some(known(&platters)?) =>
            {
                platters[memory] = copy[memory].clone();
                "with an older copy of the NVRAM"
            }
            // If only the disks have gone on since, nobody can know.
            2 if let Some(copy) = self.copy
                && !is_stopped
                && rot::begun(&images[memory]) > Some(known(copy)?) =>
            {
                let above = platters[memory].clone();
                platters = copy.to_vec();
                platters[memory] = above;
                "with an older copy of the disks"
            }
            3 if !is_stopped => {
                way = Way::Foreign;
                "as the NVRAM of another volume"
            }
            _ => {
                way = Way::Alone;
                "without the NVRAM"
            }
        };
        let uses_lower = case.uses_lower(prng);
        let stage = Stage::new(case.device, prng.next_u64(), &platters);
        let look = async { Ok::<_, String>(stage.open(way, uses_lower).await?.look().await) };
        match stage.executor.block_on(look) {
            Err(refused) if needs_no_nvram => {
                Err(format!("after a clean stop it is refused {word}: {refused}"))
            }
            Err(_) => Ok(()),
            Ok(_) if way == Way::Foreign => Err(format!("it opens {word}")),
            Ok(shown) => judge(&shown, allowed, 0).map_err(|wrong| format!("{word} {wrong}")),
        }
    }
}

impl Left<'_> {
    /// Returns, judges, and cuts the return. Gives how many images were judged.
    fn returns(&self, prng: &mut Prng) -> Result<u64, String> {
        let back = self.back(&self.platters, &self.visible, prng)?;
        let mut tried = 1;
        let serials: Vec<u64> =
            back.traces.iter().flat_map(sim::Trace::events).map(|it| it.serial).collect();
        let (full, short) = OF_RETURN;
        for _ in 0..if self.cuts.case.is_full { full } else { short } {
            let serial = serials[prng.index(serials.len())];
            let at = |trace: &sim::Trace| trace.platter_at(trace.position_of(serial));
            let device = self.cuts.case.device;
            let of = |(disk, trace): (usize, &sim::Trace)| {
                let (there, choice) = (at(trace), Choice::random(&at(trace), prng));
                platter(left(device, disk, &there, &choice, prng))
            };
            let platters: Vec<Platter> = back.traces.iter().enumerate().map(of).collect();
            let is_shown = serial > back.when;
            let settled = if is_shown { settled(&self.durable, &back.shown) } else { Vec::new() };
            let settled = unless_stranded(settled, &self.visible, &self.durable);
            let allowed = if is_shown { &settled } else { &self.durable };
            let told = |wrong| format!("{wrong}, return cut before event {serial}");
            self.back(&platters, allowed, prng).map_err(told)?;
            tried += 1;
        }
        Ok(tried)
    }

    /// Opens the volume, and judges what it shows.
    fn back(
        &self,
        platters: &[Platter],
        allowed: &Allowed,
        prng: &mut Prng,
    ) -> Result<Back, String> {
        let uses_lower = self.cuts.case.uses_lower(prng);
        let stage = Stage::new(self.cuts.case.device, prng.next_u64(), platters);
        stage.disks.iter().for_each(|disk| disk.start_trace());
        let returned = async {
            let opened = stage.open(Way::Own, uses_lower).await;
            let opened = opened.map_err(|it| format!("it is refused: {it}"))?;
            let shown = opened.look().await;
            opened.counts(&shown)?;
            opened.device.flush().await.map_err(|error| format!("the flush: {error}"))?;
            stage.memory().mark(sim::Mark::Number(0));
            Ok::<_, String>(shown)
        };
        let shown = stage.executor.block_on(returned)?;
        judge(&shown, allowed, 0)?;
        let traces: Vec<sim::Trace> = stage.disks.iter().map(|disk| disk.trace()).collect();
        let is_mark = |it: &&sim::Traced| matches!(it.event, sim::Event::Mark(_));
        let marked = traces.iter().flat_map(sim::Trace::events).filter(is_mark);
        let when = marked.map(|it| it.serial).max().expect("it was marked");
        Ok(Back { shown, when, traces })
    }

    /// The memory cannot be read at first. The volume is refused, or returns an error in place of
    /// anything older; afterwards it has everything.
    fn unread(&self, prng: &mut Prng) -> Result<u64, String> {
        let uses_lower = self.cuts.case.uses_lower(prng);
        let stage = Stage::new(self.cuts.case.device, prng.next_u64(), &self.platters);
        let range = rot::unread(prng);
        let fault = Struck::on(block::Verb::Read, sim::Effect::Eio).within(range.clone());
        let first = prng.between(1, 6);
        if prng.chance(1, 2) {
            stage.memory().inject(fault.forever());
        } else {
            (first..first + 4).for_each(|nth| stage.memory().inject(fault.clone().nth(nth)));
        }
        let look = async |opened: &Opened| {
            let shown = opened.look().await;
            let _ = opened.device.flush().await; // it may fail
            shown
        };
        let shown = stage.executor.block_on(async {
            let opened = stage.open(Way::Own, uses_lower).await.ok()?;
            Some(look(&opened).await)
        });
        let told = |wrong| format!("{wrong}, bytes {range:?} of the memory cannot be read");
        if let Some(shown) = &shown {
            let allowed = self.visible.iter().map(|of_it| [&of_it[..], &[ERROR]].concat());
            judge(shown, &allowed.collect::<Allowed>(), 0).map_err(told)?;
        }
        let platters: Vec<Platter> = stage.platters().iter().map(Platter::killed).collect();
        stage.executor.crash();
        let told =
            |wrong| format!("{wrong}, after bytes {range:?} of the memory could not be read");
        self.back(&platters, &self.visible, prng).map_err(told)?;
        Ok(2)
    }
}
