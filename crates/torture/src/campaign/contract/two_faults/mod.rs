//! Two faults at once: a block rots, reads fail or writes find no room on one member of a set,
//! while another is away, comes back, is replaced, or a spare is filled.
//!
//! A [`Case`] is carried out once and recorded ([`schedule`]), with calls of its own
//! ([`workload`]); the recording is cut at some events, before or after a block has [rotted](rot).
//! Each cut is recovered, repaired to the end, and [judged](judge) by a [`solver`] that shares no
//! code with sets. Cases are drawn by their numbers, so that each fault meets each occasion in
//! turn.

mod case;
mod judge;
mod rot;
mod schedule;
mod solver;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use sim::{Choice, Prng};

use super::super::budget::spend;
use super::super::{Options, Outcome, line};
use super::trial;
use crate::explore::Counts;
use crate::explore::design::Design;
use case::{Case, Fault, Occasion};
use judge::CutStory;
use schedule::{Moment, Story};
use solver::Disks;

/// Cuts of a story, its end among them.
const CUTS: u64 = 6;

/// At most this many marks follow the last event of a disk.
const LAST: u64 = 1 << 20;

/// The word of a case.
pub(in super::super) const WORD: &str = "two-faults";
/// Workloads of the full form, which come to more than 300,000 images, and of the short one.
const WORKLOADS: (u64, u64) = (52_000, 400);

/// How often each fault met each occasion, and how often it did harm.
type Table = BTreeMap<(Fault, Occasion), Counts>;

/// The campaign. Its remark is a list of objects, one for each fault and occasion.
pub fn two_faults(options: &Options) -> Outcome {
    let device = options.design.device();
    let table = Mutex::new(Table::new());
    let mut outcome = spend(
        options,
        options.count(WORKLOADS),
        || (),
        |(), number| {
            let case = Case::draw(device, options.seed, number);
            let outcome = try_one(options.design, &case);
            let mut table = table.lock().expect("nothing panics while it holds this");
            let cell = table.entry((case.fault, case.occasion)).or_default();
            *cell = cell.plus(outcome.counts);
            outcome
        },
    );
    let table = table.into_inner().expect("nothing panics while it holds this");
    if options.full {
        outcome.remarks.push(as_json(&table));
    }
    outcome
}

fn try_one(design: Design, case: &Case) -> Outcome {
    trial::try_one(design, (WORD, &case.details()), || try_case(case))
}

/// Replays a case.
///
/// # Errors
/// Why the line names none.
pub(in super::super) fn replay(design: Design, details: &str) -> Result<Outcome, String> {
    Ok(try_one(design, &Case::of(design.device(), details)?))
}

/// The first case within this many seconds that shows a bug, if there is one.
#[cfg(feature = "planted-bugs")]
pub(in super::super) fn first(
    options: &Options,
    seconds: u64,
    plant: impl Fn(bool),
) -> Option<String> {
    let design = options.design;
    let draw = |number| Case::draw(design.device(), options.seed, number);
    let case = trial::first(seconds, plant, draw, |case| try_one(design, case))?;
    Some(line::command(WORD, design, &case.details()))
}

fn as_json(table: &Table) -> String {
    let cell = |((fault, occasion), counts): (&(Fault, Occasion), &Counts)| {
        let Counts { workloads, images, violations, .. } = counts;
        format!(
            "{{\"fault\":\"{fault}\",\"occasion\":\"{occasion}\",\"workloads\":{workloads},\
             \"images\":{images},\"violations\":{violations}}}"
        )
    };
    format!("[{}]", table.iter().map(cell).collect::<Vec<_>>().join(","))
}

/// Carries a case out, and judges some of its cuts. Returns how many.
fn try_case(case: &Case) -> Result<u64, String> {
    let story = Story::of(case)?;
    let mut prng = Prng::new(case.seed ^ 0x5eed);
    let serials: BTreeSet<u64> = story
        .traces
        .iter()
        .flatten()
        .flat_map(|trace| trace.events())
        .map(|it| it.serial)
        .collect();
    let serials: Vec<u64> = serials.into_iter().collect();
    // Behind all marks that follow the last event of a disk.
    let end = serials.last().map_or(0, |last| last + 1) + LAST;
    let mut images = 0;
    for number in 0..CUTS {
        let is_last = number == 0 || serials.is_empty();
        let serial = if is_last { end } else { serials[prng.index(serials.len())] };
        let cut = cut(&story, serial, &mut prng);
        let told = format!(
            "{}cut before event {serial} of {end}, hot stripe {}, absent {}, faulty {}, rot {:?}",
            cut.rotten.told, story.hot, story.absent, story.faulty, story.moment
        );
        cut.judge(&mut prng).map_err(|wrong| format!("{wrong}: {told}"))?;
        images += 1;
    }
    Ok(images)
}

/// The state of a story at a cut before an event.
fn cut<'s>(story: &'s Story, serial: u64, prng: &mut Prng) -> CutStory<'s> {
    let mut disks: Disks = Vec::new();
    for (trace, unplugged) in story.traces.iter().zip(&story.unplugged) {
        let image = trace.as_ref().map(|trace| {
            let platter = trace.platter_at(trace.position_of(serial));
            platter.image(&Choice::random(&platter, prng))
        });
        disks.push(image.or_else(|| unplugged.clone()));
    }
    let rotten = match story.moment {
        Moment::Cut => story.target().strike(&mut disks, prng),
        _ => story.rotten.clone(),
    };
    let is_end = serial >= LAST;
    CutStory { story, serial, is_end, disks, rotten }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::device::Device;

    /// Cases that have shown a loss, or an error of the judge.
    const FIXED: [(Device, &str); 17] = [
        (Device::Raid1, "2 8192 spare rot-data 207794513145189"),
        (Device::Raid1, "2 8192 replaced all-data 118942696187413"),
        (Device::Raid5, "3 8192 spare unread 97049330586190"),
        (Device::Raid5, "3 8192 spare unread 50814496935952"),
        (Device::Raid5, "3 16384 late unread 135216725859287"),
        (Device::Raid5, "4 4096 late unread 67546070396195"),
        (Device::Raid5, "5 16384 spare rot-data 234857406676897"),
        (Device::Raid1, "2 8192 whole all-map 183155565691527"),
        (Device::Raid1, "3 8192 back all-map 49800862649920"),
        (Device::Raid1, "2 16384 away all-map 179975927281775"),
        (Device::Raid5, "5 16384 whole all-map 280496282693646"),
        (Device::Raid5, "3 16384 back all-data 207539269339553"),
        (Device::Raid5, "4 4096 back all-data 127772787150824"),
        (Device::Raid5, "5 4096 away all-label 51534071429155"),
        (Device::Raid5, "5 8192 away all-label 127600914578720"),
        (Device::Raid5, "3 16384 replaced rot-data 265049947977652"),
        (Device::Raid5, "5 16384 late all-data 208597395328830"),
    ];

    #[test]
    fn cases_that_have_shown_a_loss_show_none() {
        for (device, details) in FIXED {
            let case = Case::of(device, details).expect("it is a case");
            assert_eq!(try_case(&case), Ok(CUTS), "{details}");
        }
    }
}
