//! A disk, or a set, behind an NVRAM: stories of several lives.
//!
//! The memory is as small as it can be, so that buffers are used up and used again. In a
//! [life](life) three [callers](calls) write in all durabilities, flush, discard, read and mend,
//! while everything is brought below, the NVRAM goes down and up, and at most one fault happens: of
//! the memory, of what is below, or rot. The life is recorded, and [cut](cuts) at its events: the
//! disks and the memory lose their power at one moment. Its end is a cut, a kill or a clean stop,
//! and the next life begins there, also without the NVRAM where that is allowed. In some stories
//! there are two memories. Faults are those of the first, which cost nothing while the second has
//! everything, and some lives go with one of the two: the other one is filled in the next.
//!
//! The [model] knows the calls and their times, and no NVRAM: each sector shows what was durable
//! last, or a write that came after; an error only where the only copy was damaged ([rot]), and
//! then the NVRAM counts the sector as lost. A call fails only where a fault explains it.

mod calls;
mod case;
mod cuts;
mod life;
mod model;
mod rot;
mod stage;

use sim::{Choice, Image, Platter, Prng};

use super::super::budget::{End, spend};
use super::super::{Options, Outcome, line};
use super::trial;
use crate::explore::design::Design;
use case::{Case, Fault, Late};
use cuts::Cuts;
use life::{Life, Start};
use rot::{Entries, Part};
use stage::{Base, Stage, Way, memory, platter};

/// Stories of the full form and of the short one, behind one disk and behind a set.
const STORIES: [(u64, u64); 2] = [(1_600, 100), (400, 20)];
/// In the full form, one story in this many is cut at every event.
const CUT_EVERYWHERE: u64 = 16;
/// Most lives of a story.
const LIVES: u64 = 4;

/// The campaign.
pub(super) fn stories(options: &Options) -> Outcome {
    let device = options.design.device();
    let end = End::of(options);
    spend(
        options,
        options.count(STORIES[usize::from(device.level().is_some())]),
        || Base::new(device),
        |base, number| {
            let is_full = options.full && number.is_multiple_of(CUT_EVERYWHERE);
            let case = Case::draw(device, options.seed, number, is_full);
            try_one(options.design, base, &case, end)
        },
    )
}

fn try_one(design: Design, base: &Base, case: &Case, end: End) -> Outcome {
    trial::try_one(design, (super::WORD, &case.details()), || try_case(base, case, end))
}

/// Replays a story.
///
/// # Errors
/// Why the line names none.
pub(super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    let case = Case::of(design.device(), details)?;
    Ok(try_one(design, &Base::new(case.device), &case, End::default()))
}

/// The first story within this many seconds that shows a bug, if there is one.
#[cfg(feature = "planted-bugs")]
pub(super) fn first(options: &Options, seconds: u64, plant: impl Fn(bool)) -> Option<String> {
    let (design, base) = (options.design, Base::new(options.design.device()));
    let draw = |number| Case::draw(design.device(), options.seed, number, false);
    let try_case = |case: &Case| try_one(design, &base, case, End::default());
    let case = trial::first(seconds, plant, draw, try_case)?;
    Some(line::command(super::WORD, design, &case.details()))
}

/// Tells a story, and judges cuts of its lives. Returns how many images were judged.
fn try_case(base: &Base, case: &Case, end: End) -> Result<u64, String> {
    let mut prng = Prng::new(case.seed);
    let allowed = vec![vec![0]; base.sectors as usize];
    let mut start = Start {
        platters: if case.is_two { base.two.clone() } else { base.platters.clone() },
        visible: allowed.clone(),
        durable: allowed,
        missing: None,
        is_clean: true,
        has_loss: false,
        rotten: Vec::new(),
        hot: 0,
        version: 1,
    };
    let lives = 1 + prng.below(LIVES);
    let struck = prng.below(lives);
    let mut copy: Option<Vec<Platter>> = None;
    let mut images = 0;
    for number in 0..lives {
        let told = |wrong| format!("{wrong}, in life {number} of {lives}, struck {struck}");
        let is_struck = number == struck;
        let mut way = if prng.chance(1, 4) { Way::Alone } else { Way::Own };
        if case.is_two && way == Way::Own {
            // Apart, so that a story with one memory is as it ever was.
            way = match Prng::new(case.seed ^ number << 40).below(4) {
                0 => Way::One(0),
                1 => Way::One(1),
                _ => Way::Own,
            };
        }
        let mut played = None;
        if way != Way::Own && !is_struck {
            let without = (way == Way::One(0)).then(|| start.without_the_second());
            let start = without.as_ref().unwrap_or(&start);
            played = Life::play(case, start, (way, is_struck), &mut prng).map_err(told)?;
        }
        if played.is_none() {
            way = Way::Own;
            played = Life::play(case, &start, (way, is_struck), &mut prng).map_err(told)?;
        }
        let life = played.ok_or("it is refused")?;
        let cuts = Cuts { case, life: &life, copy: copy.as_deref(), end };
        images += cuts.all(&mut prng).map_err(told)?;
        let away = life.missing.filter(|_| is_struck && case.fault == Fault::Away);
        let before = away.map(|away| (away, start.platters[away].clone()));
        if copy.is_none() || prng.chance(1, 3) {
            copy = Some(start.platters);
        }
        start = next(case, life, &mut prng);
        // A member that was away comes back as it left.
        if let Some((away, before)) = before {
            start.platters[away] = before;
        }
    }
    Ok(images)
}

/// Whether each of two memories has everything on these images.
fn has_twice(case: &Case, images: &[Image]) -> bool {
    let platters: Vec<Platter> = images.iter().cloned().map(platter).collect();
    Stage::new(case.device, 1, &platters).has_twice()
}

/// What a life leaves to the next one.
fn next(case: &Case, life: Life, prng: &mut Prng) -> Start {
    let serials = life.serials();
    let last = *serials.last().expect("there is an end");
    let serial = if prng.chance(1, 2) { last } else { serials[prng.index(serials.len())] };
    let there = if serial == last { life.end.clone() } else { life.platters(serial) };
    let (killed, mut durable) = life.allowed(case.device, serial);
    let (mut has_loss, mut hot) = (life.has_loss, prng.below(durable.len() as u64));
    let mut rotten = Vec::new();
    let (platters, visible) = if prng.chance(1, 2) {
        (there.iter().map(Platter::killed).collect(), killed)
    } else {
        let cut = |there: &Platter| there.image(&Choice::random(there, prng));
        let mut images: Vec<Image> = there.iter().map(cut).collect();
        let has_twice = case.is_two && has_twice(case, &images);
        let memory = &mut images[memory(case.device)];
        // Sectors that are lost are written over in the next life.
        if case.late == Late::Rot(Part::Data)
            && life.way == Way::Own
            && let Some(damage) = Entries::of(memory).and_then(|it| it.damage(Part::Data, prng))
        {
            damage.strike(memory, prng);
            if !has_twice {
                damage.allow(&mut durable);
                has_loss = true;
            }
            hot = damage.costs.first().map_or(hot, |costs| costs.start);
            rotten.push(damage);
        }
        (images.into_iter().map(platter).collect(), durable.clone())
    };
    Start {
        platters,
        visible,
        durable,
        missing: life.missing,
        is_clean: life.is_clean && serial == last && !has_loss,
        has_loss,
        rotten,
        hot,
        version: life.version,
    }
}
