//! Readmission of a member that is out and has missed nothing.
//!
//! A start without a member calls it out before anything is written that it would miss. If nothing
//! is then written, the member is as good as before. Where the others are too few without it, for
//! example after another member died, it is readmitted at once: the labels are judged as if the
//! story had never called it out. Its label is written before those of the others. A member that a
//! person took out is readmitted only if a person opens the set against advice.
//!
//! The member has missed nothing if all of this holds:
//! 1. Its label is the one under which all members were last in; or an earlier readmission was
//!    interrupted after writing it, and then nothing was written either.
//! 2. The block of missed regions is there and lists no region since then. That block is written
//!    before the log forgets the records behind it.
//! 3. The log needs no record that changes anything. The member's own log counts: the last record
//!    may be on it alone among the disks found, and may show that the earlier records are in place.
//!
//! Not asserted: 1 to 3, which are the conditions themselves.

use std::rc::Rc;

use block::BlockDevice;
use futures::FutureExt;
use runtime::Runtime;

use crate::assembly::{Refused, Seats, Witness};
use crate::health::READ_ERRORS_PER_HOUR;
use crate::label::{Label, Standing};
use crate::labels::Read;
use crate::logs::{needed_of, read_logs, ring_of};
use crate::members::Members;
use crate::missed;
use crate::planted::{Bug, is_planted};

/// The labels as if a member had never been called out, and its slot.
pub(crate) struct Pardoned {
    pub(crate) found: Vec<(usize, Read)>,
    pub(crate) witness: Option<Witness>,
    pub(crate) slot: usize,
}

/// Looks for a member that is out and has missed nothing, when a set is refused without it.
pub(crate) async fn pardoned(
    devices: &[Rc<dyn BlockDevice>],
    found: &[(usize, Read)],
    (refused, witness, is_meant): (&Refused, Option<&Witness>, bool),
    apart: &[Rc<dyn BlockDevice>],
    runtime: &Runtime,
) -> Option<Pardoned> {
    if !matches!(refused, Refused::TooFew { .. }) || found.iter().any(|it| it.1.is_overwritten) {
        return None;
    }
    let labels: Vec<Label> = found.iter().map(|(_, read)| read.label.clone()).collect();
    let (story, seats) = Seats::by(&labels, witness).ok()?;
    let story = &labels[story];
    let lacks_nothing = |&&(slot, place): &&(usize, usize)| {
        let is_offline = story.slots[slot].standing == Standing::Offline;
        went_with_all(&labels[place], story) && (!is_offline || is_meant)
    };
    let (slot, place) = *seats.stale.iter().find(lacks_nothing)?;
    let is_told = !story.has_log_apart || !apart.is_empty();
    let apart = if story.has_log_apart { apart } else { &[] };
    let of_story = (story, &seats, apart);
    let is_idle = is_told && is_idle(devices, found, of_story, (slot, place), runtime).await;
    if !is_idle && !is_planted(Bug::EarlyPardons) {
        return None;
    }
    let mut found = found.to_vec();
    let own = &mut found[place].1.label;
    *own = Label { number: own.number, slot, ..story.clone() };
    for (_, Read { label, .. }) in found.iter_mut().filter(|it| it.1.label.tells_as(story)) {
        label.slots[slot].standing = Standing::InSync;
    }
    let mut witness = witness.cloned();
    for witness in witness.iter_mut().filter(|witness| **witness == Witness::of(story)) {
        witness.slots[slot].standing = Standing::InSync;
    }
    Some(Pardoned { found, witness, slot })
}

/// Whether a label dates from when all members were last in, by the story, or from a readmission
/// that was interrupted before any other label mentioned it.
fn went_with_all(label: &Label, story: &Label) -> bool {
    let is_of_then = label.whole == story.whole && story.whole > 0;
    let is_in = label.slots[label.slot].standing == Standing::InSync;
    is_of_then && (label.is_whole() || is_in && label.generation > story.generation)
}

/// Whether nothing was written since this member was called out, judged by the disks of a story.
async fn is_idle(
    devices: &[Rc<dyn BlockDevice>],
    found: &[(usize, Read)],
    (story, seats, apart): (&Label, &Seats, &[Rc<dyn BlockDevice>]),
    (slot, place): (usize, usize),
    runtime: &Runtime,
) -> bool {
    let members = |places: &[Option<usize>], story: Label| {
        let of_place = |place: usize| devices[found[place].0].clone();
        let in_slots = places.iter().map(|place| (place.map(of_place), 0)).collect();
        let nobody = Rc::new(|_| std::future::ready(()).boxed_local());
        Members::new(in_slots, story, nobody, runtime.clock.clone(), READ_ERRORS_PER_HOUR)
    };
    if !missed::is_nothing(&members(&seats.members, story.clone())).await {
        return false;
    }
    let (mut places, mut all_in) = (seats.members.clone(), story.clone());
    if !is_planted(Bug::UnaskedLogs) {
        places[slot] = Some(place);
        all_in.slots[slot].standing = Standing::InSync;
    }
    let (all, size) = (members(&places, all_in), ring_of(story));
    let logs = read_logs(&all, size, apart).await;
    if logs.may_hide_the_last(&all, size) || logs.may_hide_apart {
        return false;
    }
    let records = logs.records;
    let mut needed = needed_of(&records).into_iter().flatten();
    needed.all(|sequence| records.get(&sequence).is_some_and(|it| it.record.changes.is_empty()))
}
