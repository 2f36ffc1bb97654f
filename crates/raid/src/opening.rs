//! Creating a set, and opening it after whatever happened to it.
//!
//! Opening judges the labels ([`crate::assembly`]). If a member is missing, everything that follows
//! is rehearsed on devices in memory: damage that makes the rest of the set unusable must not cost
//! the missing member, which may be the one that repairs it. Then that member is called out,
//! durably, before anything is written that it would miss. Then the log is read from all members
//! that are in: the latest record that is whole on any of them names the oldest that may be needed,
//! and all records between are there. The latest one may rest on the word of a single member, so it
//! is written to all members anew, with a flush of all, before any of its changes is written in
//! place. Then all records are replayed in their order, everything is flushed, and an empty record
//! says that nothing is needed. After a cut anywhere, all of this is done again.
//!
//! **Commit point**: that empty record.
//!
//! The last resort is to open the remains of a set with too few members
//! ([`OpenOptions::accepts_loss`]). Then everything happens in memory, and no disk is written. A
//! [`Void`] stands in for each missing member that the set needs, the records that are there are
//! replayed, and what the disks cannot give is lost, block by block.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use block::scratch::ScratchDevice;
use block::{BlockDevice, Durability, Verb};
use futures::future::join_all;
use runtime::Runtime;

use crate::array::Array;
use crate::assembly::{Assembly, Refused, Witness, assemble_remains, assemble_without};
use crate::idle::{Pardoned, pardoned};
use crate::label::{
    DATA_START, LOG_LEAST, Label, MISSED_START, Slot, Standing, TAIL, behind_data, new_id, rows_of,
};
use crate::labels::{NoLabel, Read, read_labels, write_label};
use crate::layout::{Layout, Level, MEMBERS};
use crate::members::{Members, watched};
use crate::missed::{self, Missed};
use crate::options::{OpenError, OpenOptions};
use crate::planted::{Bug, is_planted};
use crate::record::Slots;
use crate::recovery::{Returned, recover};
use crate::set::Set;
use crate::sums::Sums;
use crate::void::Void;
use crate::watch::{ReportSilence, reporting};
use crate::wipe::wipe;
use crate::written;

/// Parameters of a new set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakeOptions {
    /// Redundancy scheme.
    pub level: Level,
    /// Bytes of a unit.
    pub unit: u64,
    /// Minimum bytes of the log on each member.
    pub log: u64,
}

impl MakeOptions {
    /// Options for this level, with the default unit of 64 KiB and a log of 16 MiB.
    pub fn new(level: Level) -> Self {
        Self { level, unit: 64 << 10, log: 16 << 20 }
    }

    /// Minimum bytes of each of this many members, in a set with this many units on each.
    pub fn member_size(&self, members: usize, rows: u64) -> u64 {
        self.data_start(members) + rows * self.unit + behind_data(rows, self.unit) + TAIL
    }

    /// Geometry of a set on disks of these sizes.
    ///
    /// # Errors
    /// [`OpenError`] if no set can be made on them.
    pub fn layout(&self, sizes: &[u64]) -> Result<Layout, OpenError> {
        let (level, members) = (self.level, sizes.len());
        if !MEMBERS.contains(&members) || members < level.fewest() {
            return Err(OpenError::Members(level, level.fewest(), *MEMBERS.end(), members));
        }
        let rows = |(disk, &size): (usize, &u64)| match self.rows(members, size) {
            0 => Err(OpenError::TooSmall(disk, size, self.data_start(members))),
            rows => Ok(rows),
        };
        let rows = sizes.iter().enumerate().map(rows).collect::<Result<Vec<u64>, OpenError>>()?;
        let rows = rows.into_iter().min().unwrap_or_default();
        Ok(Layout { level, members, unit: self.unit, rows })
    }

    /// Number of stripes that fit on a disk of this size, in a set with this many members.
    pub fn rows(&self, members: usize, size: u64) -> u64 {
        rows_of(size, self.data_start(members), self.unit)
    }

    /// Byte offset of the data area.
    fn data_start(&self, members: usize) -> u64 {
        let stripe = self.unit * members as u64;
        let log = match self.level {
            Level::Striped => 0,
            _ => self.log.max(LOG_LEAST.0).max(LOG_LEAST.1 * stripe),
        };
        (DATA_START + log).next_multiple_of(self.unit)
    }
}

/// Makes a set of these disks. Their contents are lost; the set reads as zeros. The log is filled
/// with zeros, so that it has its space on a host that may be full later.
///
/// # Errors
/// [`OpenError`]; some of the disks may have a label then.
pub async fn make(
    devices: &[Rc<dyn BlockDevice>],
    options: &MakeOptions,
    runtime: &Runtime,
) -> Result<(), OpenError> {
    let sizes: Vec<u64> = devices.iter().map(|device| device.geometry().size).collect();
    let layout = options.layout(&sizes)?;
    let data_start = options.data_start(layout.members);
    let id = || new_id(&*runtime.random);
    let set = id();
    let slots = devices.iter().map(|_| Slot { member: id(), standing: Standing::InSync });
    let slots: Vec<Slot> = slots.collect();
    for (slot, device) in devices.iter().enumerate() {
        let emptied = async {
            wipe(&**device, data_start).await?;
            let (start, _) = written::place(&layout);
            let nothing = vec![written::empty(&layout, &set)];
            device.write(data_start + start, nothing, Durability::Through).await?;
            // Allocates it on a host that may be full later.
            let nothing = vec![missed::empty(&set)];
            device.write(MISSED_START, nothing, Durability::Through).await
        };
        emptied.await.map_err(|error| OpenError::Disk(slot, error))?;
        let slots = slots.clone();
        let label = Label {
            set,
            slot,
            generation: 1,
            number: 1,
            whole: 1,
            forced: 0,
            layout,
            data_start,
            slots,
            replacement: None,
            is_incoming: false,
            nvram: None,
            has_log_apart: false,
        };
        for copy in 0..2 {
            let written = write_label(&**device, &label, copy).await;
            written.map_err(|error| OpenError::Disk(slot, error))?;
        }
    }
    Ok(())
}

/// The label of a disk.
///
/// # Errors
/// The reason why the disk has no label, or why it cannot be read, as [`OpenError`] of disk 0.
pub async fn label_of(device: &dyn BlockDevice) -> Result<Label, OpenError> {
    labels_of(device).await.map(|read| read.label)
}

/// The label of a disk, and whether the other copy was overwritten.
///
/// # Errors
/// As [`label_of`].
pub async fn labels_of(device: &dyn BlockDevice) -> Result<Read, OpenError> {
    read_labels(device).await.map_err(|none| OpenError::of(0, none))
}

/// Opens the set of which these disks are members, in any order. It begins a new generation: from
/// now on the witness identifies older copies of members. A disk that cannot be read counts as
/// absent. A caller that gives up waiting closes the devices before another attempt.
///
/// If a member is missing, the whole recovery is rehearsed in memory first: a start that is refused
/// has called no member out, and the next one may have all members again.
///
/// # Errors
/// [`OpenError`] gives the reason why not; then nothing that is needed has changed.
pub async fn open(
    devices: Vec<Rc<dyn BlockDevice>>,
    runtime: &Runtime,
    options: OpenOptions,
) -> Result<Set, OpenError> {
    // Judging, a rehearsal and the opening itself may all wait for one disk: report it once.
    let (reported, report) = (RefCell::new(BTreeSet::new()), options.report_silence.clone());
    let report_silence: ReportSilence = Rc::new(move |disk| {
        if reported.borrow_mut().insert(disk) {
            report(disk);
        }
    });
    let options = OpenOptions { report_silence, ..options };
    let read = devices.iter().map(|device| watched(Some(device.clone()), &runtime.clock));
    let (read, calls): (Vec<_>, Vec<_>) = read.unzip();
    let read: Vec<Rc<dyn BlockDevice>> = read.into_iter().flatten().collect();
    let calls = calls.into_iter().enumerate().collect();
    let judging = async {
        let found = read_all(&read).await?;
        if options.accepts_loss {
            return Ok((found, None));
        }
        let assembly = choose_or_pardon(&read, &found, &options, runtime).await?;
        Ok::<_, OpenError>((found, Some(assembly)))
    };
    let (found, assembly) =
        reporting(calls, &runtime.clock, &options.report_silence, judging).await?;
    let Some(assembly) = assembly else {
        return open_remains(devices, found, runtime, options).await;
    };
    if condemns(&assembly) && !is_planted(Bug::HastyVerdicts) {
        let scratch = devices.iter().map(in_memory).collect();
        let (witness, report_silence) = (options.witness.clone(), options.report_silence.clone());
        let (is_meant, gives_up_log) = (options.is_meant, options.gives_up_log);
        let log_devices = options.log_devices.clone();
        let rehearsal = OpenOptions {
            witness,
            is_meant,
            report_silence,
            log_devices,
            gives_up_log,
            ..OpenOptions::default()
        };
        open_chosen(scratch, &found, assembly.clone(), runtime, rehearsal).await?;
    }
    open_chosen(devices, &found, assembly, runtime, options).await
}

/// A device in memory over another one, which is not written.
fn in_memory(device: &Rc<dyn BlockDevice>) -> Rc<dyn BlockDevice> {
    Rc::new(ScratchDevice::new(device.clone()))
}

/// Opens the remains of a set in memory. If they are enough, they are opened as on a person's word.
async fn open_remains(
    devices: Vec<Rc<dyn BlockDevice>>,
    mut found: Vec<(usize, Read)>,
    runtime: &Runtime,
    options: OpenOptions,
) -> Result<Set, OpenError> {
    let mut devices: Vec<Rc<dyn BlockDevice>> = devices.iter().map(in_memory).collect();
    let witnessed = OpenOptions::default().witnessed; // this story has no consequences
    let options = OpenOptions { is_meant: true, witnessed, ..options };
    let mut assembly = match choose_or_pardon(&devices, &found, &options, runtime).await {
        Err(Refused::TooFew { .. }) => {
            let labels: Vec<Label> = found.iter().map(|(_, read)| read.label.clone()).collect();
            let disks: Vec<usize> = found.iter().map(|(disk, _)| *disk).collect();
            let assembled = assemble_remains(&labels, options.witness.as_ref());
            assembled.map_err(|refused| refused.of(&disks))?
        }
        // A disk that was being filled has a story of its own, and never had everything.
        Err(Refused::Apart(..)) if found.iter().any(|(_, read)| was_filled(&read.label)) => {
            found.retain(|(_, read)| !was_filled(&read.label));
            return Box::pin(open_remains(devices, found, runtime, options)).await;
        }
        chosen => return open_chosen(devices, &found, chosen?, runtime, options).await,
    };
    if assembly.members.iter().all(Option::is_none) {
        seat_those_out(&mut assembly, &found);
    }
    let Label { slots, data_start, layout, .. } = assembly.label.clone();
    let like = found.iter().map(|(disk, _)| devices[*disk].geometry()).max_by_key(|it| it.size);
    let like = like.expect("a label was found");
    let needed = layout.needed().saturating_sub(assembly.members.iter().flatten().count());
    let is_missing = |slot: &usize| {
        slots[*slot].standing == Standing::InSync && assembly.members[*slot].is_none()
    };
    let missing: Vec<usize> = (0..slots.len()).filter(is_missing).take(needed).collect();
    for slot in missing {
        assembly.members[slot] = Some(found.len());
        let label = Label { slot, ..assembly.label.clone() };
        found.push((devices.len(), Read { label, copy: 0, is_overwritten: false, is_void: true }));
        devices.push(Rc::new(Void::new(like, data_start)));
    }
    open_chosen(devices, &found, assembly, runtime, options).await
}

/// Seats disks that are out, if no member is left: their data may be outdated, and the caller gets
/// a warning. For each slot, the disk counts that was a member last. A disk that was being filled
/// never had everything, and its earlier contents must not be used.
fn seat_those_out(assembly: &mut Assembly, found: &[(usize, Read)]) {
    for slot in 0..assembly.members.len() {
        let was_member = |label: &Label| label.slot == slot && !was_filled(label);
        let of_slot = found.iter().enumerate().filter(|(_, (_, read))| was_member(&read.label));
        let last = of_slot.max_by_key(|(_, (_, read))| read.label.generation);
        if let Some((place, (_, read))) = last {
            assembly.members[slot] = Some(place);
            let member = read.label.member();
            assembly.label.slots[slot] = Slot { member, standing: Standing::InSync };
        }
    }
    assembly.is_against_advice = true;
}

/// Whether the disk of a label was being filled when the label was written.
fn was_filled(label: &Label) -> bool {
    label.is_incoming || label.slots[label.slot].standing == Standing::Rebuilding
}

/// Whether opening for writing would call out a missing member that has missed nothing so far.
fn condemns(assembly: &Assembly) -> bool {
    let Assembly { label, members, .. } = assembly;
    let mut slots = label.slots.iter().zip(members);
    let lacks = |(slot, found): (&Slot, &Option<usize>)| {
        slot.standing == Standing::InSync && found.is_none()
    };
    label.layout.level != Level::Striped && slots.any(lacks)
}

/// The slots of members that are missing and that the story has in.
fn gone_of(Assembly { label, members, .. }: &Assembly, found: &[(usize, Read)]) -> Slots {
    let is_gone = |slot: &usize| members[*slot].is_none_or(|place| found[place].1.is_void);
    let are_in = (0..members.len()).filter(|&it| label.slots[it].standing == Standing::InSync);
    are_in.filter(is_gone).collect()
}

/// The labels of the disks that can be read, each with its index in `devices`.
async fn read_all(devices: &[Rc<dyn BlockDevice>]) -> Result<Vec<(usize, Read)>, OpenError> {
    let read = join_all(devices.iter().map(|device| read_labels(&**device))).await;
    let mut found = Vec::new();
    for (disk, read) in read.into_iter().enumerate() {
        match read {
            Ok(read) => {
                let label = &read.label;
                let Label { layout, data_start, .. } = *label;
                let has = rows_of(devices[disk].geometry().size, data_start, layout.unit);
                if has < layout.rows {
                    continue; // a copy on a disk that is too small
                }
                found.push((disk, read));
            }
            Err(NoLabel::Unread(_)) => {}
            Err(none) => return Err(OpenError::of(disk, none)),
        }
    }
    Ok(found)
}

/// Opens a set on the chosen members.
async fn open_chosen(
    devices: Vec<Rc<dyn BlockDevice>>,
    found: &[(usize, Read)],
    assembly: Assembly,
    runtime: &Runtime,
    options: OpenOptions,
) -> Result<Set, OpenError> {
    // A number later than all, so that the next label supersedes every existing copy. The
    // generation of an interrupted story must not be used again for another; nor must that of a
    // story which only the witness knows, and which a person has given up.
    let number = found.iter().map(|(_, read)| read.label.number).max().unwrap_or_default();
    let witnessed = options.witness.as_ref().map(|witness| witness.generation);
    let latest = found.iter().map(|(_, read)| read.label.generation).chain(witnessed).max();
    let latest = latest.unwrap_or_default();
    let gone = gone_of(&assembly, found);
    let is_lacking = assembly.label.has_log_apart && options.log_devices.is_empty();
    if is_lacking && !options.gives_up_log && !options.accepts_loss {
        return Err(OpenError::NoLogDevice);
    }
    let Assembly { mut label, members, incoming, pardoned, is_against_advice, .. } = assembly;
    // A replacement is resumed if both disks are there. Until then the new one is a source.
    label.replacement = label.incoming().filter(|_| incoming.is_some());
    let bystander = label.replacement.zip(incoming);
    let bystander = bystander.map(|(it, place)| (it.slot, devices[found[place].0].clone()));
    if is_against_advice {
        label.forced = latest;
    }
    label.number = number;
    // By the story not all were in, if a member is pardoned.
    let were_all_in = label.is_whole() && pardoned.is_none();
    if were_all_in {
        label.whole = label.generation;
    }
    label.generation = latest;
    let strangers: Vec<(usize, Rc<dyn BlockDevice>)> = (0..found.len())
        .filter(|&place| !members.contains(&Some(place)) && incoming != Some(place))
        .map(|place| (found[place].1.label.slot, devices[found[place].0].clone()))
        .collect();
    let in_use: Vec<Option<usize>> =
        members.iter().map(|place| place.map(|place| found[place].0)).collect();
    let in_slots = in_use.iter().map(|disk| disk.map(|disk| devices[disk].clone()));
    let holding = members.iter().map(|place| place.map_or(0, |place| found[place].1.copy));
    let (in_slots, clock) = (in_slots.zip(holding).collect(), runtime.clock.clone());
    let limit = options.read_errors_per_hour;
    let witnessed = options.witnessed.clone();
    let members = Members::new(in_slots, label, witnessed, clock, limit);
    let members = Rc::new(members);
    members.takes_losses.set(options.accepts_loss);
    members.gone.set(gone);
    pardoned.into_iter().for_each(|slot| members.returns(slot));
    bystander.into_iter().for_each(|(slot, device)| members.has_bystander(slot, device));
    if !is_planted(Bug::UnaskedStrangers) {
        strangers.into_iter().for_each(|(slot, device)| members.has_stranger(slot, device));
    }
    let calls = members.calls.borrow().clone();
    let disks = in_use.into_iter().zip(calls);
    let disks = disks.filter_map(|(disk, calls)| Some((disk?, calls))).collect();
    let returning = return_to(members, runtime, &options, were_all_in);
    reporting(disks, &runtime.clock, &options.report_silence, returning).await
}

/// Brings members to the last state of the set.
async fn return_to(
    members: Rc<Members>,
    runtime: &Runtime,
    options: &OpenOptions,
    were_all_in: bool,
) -> Result<Set, OpenError> {
    if members.label().layout.level != Level::Striped {
        members.call_out_missing();
    }
    let failed = |_| if members.gave_up() { OpenError::Full } else { OpenError::Failed };
    // A process that was killed may have left unflushed writes. The label in force may be one of
    // them: it is durable before the other copy is written.
    members.flush().await;
    members.settled(Verb::Write).await.map_err(failed)?;
    let missed = Rc::new(Missed::read(members.clone(), were_all_in).await);
    let accepts_unread = options.is_meant || options.accepts_loss;
    let sums = Rc::new(Sums::new(members.clone(), missed.clone(), accepts_unread));
    let Returned { log, map } = recover((&members, &sums, &missed), options, runtime).await?;
    log.given.replace(options.log_devices.clone());
    members.are_open();
    let array = Array::new(members, Rc::new(log), map, (sums, missed), options.cache);
    Ok(Set::new(array, runtime.tasks.clone()))
}

/// Judges the labels, and once more with a readmitted member that is out and lacks nothing.
async fn choose_or_pardon(
    devices: &[Rc<dyn BlockDevice>],
    found: &[(usize, Read)],
    options: &OpenOptions,
    runtime: &Runtime,
) -> Result<Assembly, Refused> {
    let chosen = choose(found, options.witness.as_ref(), options.is_meant);
    let Err(refused) = chosen else { return chosen };
    let known = (&refused, options.witness.as_ref(), options.is_meant);
    let apart = &options.log_devices[..];
    let Some(Pardoned { found, witness, slot }) =
        pardoned(devices, found, known, apart, runtime).await
    else {
        return Err(refused);
    };
    let again = choose(&found, witness.as_ref(), options.is_meant);
    again.map(|assembly| Assembly { pardoned: Some(slot), ..assembly }).map_err(|_| refused)
}

/// Judges the labels, each given with its disk.
fn choose(
    found: &[(usize, Read)],
    witness: Option<&Witness>,
    is_meant: bool,
) -> Result<Assembly, Refused> {
    let (disks, reads): (Vec<usize>, Vec<&Read>) =
        found.iter().map(|(disk, read)| (*disk, read)).unzip();
    let labels: Vec<Label> = reads.iter().map(|read| read.label.clone()).collect();
    let is_left = |place: &usize| reads[*place].is_overwritten && !is_planted(Bug::Remains);
    let left: Vec<usize> = (0..reads.len()).filter(is_left).collect();
    let assembled = assemble_without(&left, &labels, witness, is_meant);
    assembled.map_err(|refused| refused.of(&disks))
}
