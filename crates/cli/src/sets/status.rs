//! State of a set, as `duramen raid status` prints it, and as `raid` in `duramen info`.

mod inside;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use duramen_settings::text_of;
use raid::assembly::{Refused, assemble_without};
use raid::label::{Label, Standing};
use raid::{Done, Met};
use serde::{Deserialize, Serialize};

use crate::error_counts::{self, ByMember, ErrorCounts};
use crate::failure::Failure;
use crate::front;
use crate::losses;
use crate::members::{Member, absent, find_members, find_spares, is_in};
use crate::membership::word_for;
use crate::nvram_command;
use crate::set_state;
use crate::size::show_size;
use crate::stack::{OpenSet, Scrub};
use crate::volume::Volume;
use crate::words;

/// State of a set. The names are those of the JSON object. Sizes are in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    uuid: String,
    level: String,
    state: State,
    generation: u64,
    stripe_unit_bytes: u64,
    slots: Vec<SlotStatus>,
    /// Spares, which wait to become members.
    spares: Vec<PathBuf>,
    /// Listed paths of members that hold no member.
    absent: Vec<PathBuf>,
    rebuild: Option<Rebuild>,
    /// Whether a user has paused rebuilds and scrubs.
    #[serde(default)]
    paused: bool,
    pub(super) scrub: Option<Scrub>,
    io: Io,
    /// The NVRAM in front of the set.
    #[serde(default)]
    nvram: Option<front::Status>,
    /// Errors of the members, over all starts.
    errors: Option<ErrorCounts>,
    losses: Option<Losses>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// All members are present and up to date.
    Clean,
    /// The set works with fewer members.
    Degraded,
    /// A member is being rebuilt.
    Rebuilding,
    /// All members are in, but some blocks of them could not be read or rebuilt yet: they are not
    /// lost.
    Incomplete,
    /// All members are in, and one has had too many read errors.
    Failing,
    /// All members are in, and writes of one wait until its host has room.
    WaitsForRoom,
    /// Too few members are left.
    Failed,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Degraded => "degraded",
            Self::Rebuilding => "rebuilding",
            Self::Incomplete => "incomplete",
            Self::Failing => "failing",
            Self::WaitsForRoom => "waits for room",
            Self::Failed => "failed",
        }
    }
}

/// A slot and its member's statistics: errors over all starts, everything else since the set was
/// opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SlotStatus {
    slot: usize,
    path: Option<PathBuf>,
    uuid: String,
    /// `in_sync`, `missing`, `stale`, `rebuilding` or `empty`.
    state: String,
    /// For a slot that is out: the last generation in which it was up to date, if the labels have
    /// it.
    since: Option<u64>,
    read_errors: u64,
    write_errors: u64,
    checksum_errors: u64,
    mended: u64,
    /// Seconds for which it has not answered, if they are many.
    silent_seconds: u64,
    /// Missing blocks of 4 KiB that other disks may have but could not read.
    #[serde(default)]
    unread: u64,
    /// Whether it had too many read errors within an hour.
    #[serde(default)]
    failing: bool,
    /// Whether its writes wait until its host has room.
    #[serde(default)]
    waits_for_room: bool,
}

impl SlotStatus {
    fn new(slot: usize, path: Option<PathBuf>, uuid: String, state: &str, met: Met) -> Self {
        let Met { mended, unread, .. } = met;
        Self {
            slot,
            path,
            uuid,
            state: state.to_owned(),
            since: None,
            read_errors: 0, // errors are counted over all starts elsewhere
            write_errors: 0,
            checksum_errors: 0,
            mended,
            silent_seconds: met.silent_for.unwrap_or_default().as_secs(),
            unread,
            failing: met.is_failing,
            waits_for_room: met.waits_for_room,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Rebuild {
    slot: usize,
    done_bytes: u64,
    total_bytes: u64,
}

/// Data lost by all members, as far as it has been noticed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Losses {
    /// Reads that failed because of lost data.
    reads: u64,
    /// Blocks of 4 KiB that a new member lacks because no disk could provide them.
    #[serde(default)]
    blocks: u64,
    /// Lost bytes that scrubs have found, if there was one.
    bytes: Option<u64>,
}

/// Blocks that a new member lacks, in a sentence, if there are any.
pub(super) fn lacking(lost: u64, unread: u64) -> Option<String> {
    let of_lost = || format!("{lost} blocks of 4 KiB are on no disk: restore their files");
    let of_unread = || format!("{unread} blocks could not be read, and are not lost");
    match (lost, unread) {
        (0, 0) => None,
        (_, 0) => Some(of_lost()),
        (0, _) => Some(of_unread()),
        _ => Some(format!("{}; {}", of_lost(), of_unread())),
    }
}

impl Losses {
    /// The losses that the folder of a volume has from scrubs, if there are any.
    fn kept(folder: &Path) -> Option<Self> {
        let bytes = losses::bytes_of(&losses::read(folder));
        (bytes > 0).then(|| Self { bytes: Some(bytes), ..Self::default() })
    }
}

/// I/O counters since the set was opened.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Io {
    reads: u64,
    writes: u64,
    log_writes: u64,
    full_stripes: u64,
    partial_stripes: u64,
}

impl Status {
    /// State of an open set.
    pub(crate) fn of(open: &OpenSet) -> Self {
        let status = open.set.status();
        let counts = open.errors.note(&status);
        let raid::Status { label, rebuild, met, is_paused: paused, done } = status;
        let unit = label.layout.unit;
        let rebuild = rebuild.map(|(slot, stripes)| Rebuild {
            slot,
            done_bytes: stripes * unit,
            total_bytes: label.layout.rows * unit,
        });
        let status = Self::from_label(&label, &open.members.borrow(), rebuild, &met, done);
        let scrub = open.scrub.borrow().clone();
        // A new scrub has not met again yet what an earlier one has found.
        let known = Some(open.losses.bytes()).filter(|&bytes| bytes > 0);
        let bytes = scrub.as_ref().map(Scrub::lost_bytes).max(known);
        let (reads, blocks) = (done.lost_reads, done.lost_blocks);
        let losses = Some(Losses { reads, blocks, bytes });
        let (mut spares, absent) = (open.spares.borrow().clone(), open.absent());
        // A disk leaves the list of spares a moment after it has become a member.
        spares.retain(|path| !is_in(path, &open.members.borrow(), &label.slots));
        let is_incomplete = done.unread > 0 || met.iter().any(|met| met.unread > 0);
        let state = match status.state {
            State::Clean if met.iter().any(|met| met.waits_for_room) => State::WaitsForRoom,
            State::Clean if met.iter().any(|met| met.is_failing) => State::Failing,
            State::Clean if is_incomplete => State::Incomplete,
            state => state,
        };
        let nvram = open.front.as_deref().map(front::Status::of);
        let status = Self { state, paused, scrub, losses, spares, absent, nvram, ..status };
        status.with_errors(&label, &counts)
    }

    /// Adds the NVRAM of a set without a server, if it can be read.
    pub(super) fn with_nvram_of(self, volume: &Volume) -> Self {
        let nvram = volume.settings.nvram.as_ref().map(|_| nvram_command::at_rest(volume));
        Self { nvram: nvram.and_then(Result::ok), ..self }
    }

    /// Adds the error counts of the members.
    fn with_errors(mut self, label: &Label, counts: &ByMember) -> Self {
        let mut all = ErrorCounts::default();
        for (slot, known) in self.slots.iter_mut().zip(&label.slots) {
            let errors = counts.get(&known.member).copied().unwrap_or_default();
            slot.read_errors = errors.read;
            slot.write_errors = errors.write;
            slot.checksum_errors = errors.checksum;
            all = all.plus(errors);
        }
        Self { errors: Some(all), ..self }
    }

    /// Exit code of `duramen raid status`: 0 if all is well, 1 if the set has lost its redundancy,
    /// lacks blocks that may be read later, or has a member that is failing or waits for room; 2 if
    /// it has too few members or has lost data.
    pub(super) fn exit_code(&self) -> u8 {
        let has_lost =
            |it: &Losses| it.reads + it.blocks > 0 || it.bytes.is_some_and(|bytes| bytes > 0);
        match self.state {
            State::Failed => 2,
            _ if self.losses.as_ref().is_some_and(has_lost) => 2,
            State::Clean => 0,
            _ => 1,
        }
    }

    /// State of a set without a server, as its labels describe it.
    ///
    /// # Errors
    /// [`Failure`] if no member is found.
    pub(crate) fn look(volume: &Volume) -> Result<Self, Failure> {
        let raid = volume.settings.raid.as_ref().expect("it stands on a set");
        let witness = volume.folder.as_deref().map(|folder| set_state::read(folder, &raid.set));
        let witness = witness.transpose()?.flatten();
        let members = find_members(raid, witness.as_ref(), &volume.silent, false)?;
        let labels: Vec<Label> = members.iter().map(|member| member.label.clone()).collect();
        let remains: Vec<usize> =
            (0..members.len()).filter(|&place| members[place].is_overwritten).collect();
        let is_meant = volume.is_degraded_meant;
        let assembled = assemble_without(&remains, &labels, witness.as_ref(), is_meant);
        let failure = |refused: Refused, disks| {
            let path = volume.path.clone();
            Failure::Set { path, source: refused.into(), disks }
        };
        let paths = || members.iter().map(|member| member.path.clone()).collect();
        let (mut label, used, refused) = match assembled {
            Ok(assembly) => (assembly.label, Some(assembly.members), None),
            Err(refused) => {
                let latest = labels.into_iter().max_by_key(|label| label.generation);
                let latest = latest.ok_or_else(|| failure(refused.clone(), Vec::new()))?;
                (latest, None, Some(failure(refused, paths())))
            }
        };
        // An old copy has missed writes, whatever its label says; and an overwritten disk is not
        // read if the others are enough.
        let is_old =
            |member: &Member| witness.as_ref().is_some_and(|it| it.is_before(&member.label));
        for (slot, known) in label.slots.iter_mut().enumerate() {
            let its = members.iter().find(|one| one.label.member() == known.member);
            let is_passed_over = || used.as_ref().is_some_and(|used| used[slot].is_none());
            let is_in = known.standing == Standing::InSync;
            if its.is_some_and(|its| is_old(its) || is_in && is_passed_over()) {
                known.standing = Standing::Stale;
            }
        }
        let status = Self::from_label(&label, &members, None, &[], Done::default());
        let spares = find_spares(raid, &volume.silent, (&members, &label.slots));
        let absent = absent(&raid.members, &members, &label);
        let counts = volume.folder.as_deref().map(error_counts::read).unwrap_or_default();
        let losses = volume.folder.as_deref().and_then(Losses::kept);
        let status = Self { spares, absent, losses, ..status };
        let mut status = status.with_errors(&label, &counts);
        if let Some(refused) = refused {
            words::say(refused);
            status.state = State::Failed;
        }
        Ok(status)
    }

    fn from_label(
        label: &Label,
        members: &[Member],
        rebuild: Option<Rebuild>,
        met: &[Met],
        done: Done,
    ) -> Self {
        let Label { layout, generation, .. } = label;
        let slots = label.slots.iter().enumerate().map(|(slot, known)| {
            let member = members.iter().find(|member| member.label.member() == known.member);
            let state = match (known.standing, member) {
                (Standing::InSync, None) => "missing",
                // Its own label says in sync, those of the others do not yet. A member that is
                // being replaced is in.
                (Standing::InSync, _)
                    if label.replacement.is_none() && rebuild.is_some_and(|it| it.slot == slot) =>
                {
                    word_for(Standing::Rebuilding)
                }
                // If a cut has interrupted the rebuild, it has to start again.
                (coming, _) if coming.is_coming() => {
                    let is_under_way = rebuild.is_some_and(|it| it.slot == slot);
                    word_for(if is_under_way { Standing::Rebuilding } else { Standing::Stale })
                }
                (standing, _) => word_for(standing),
            };
            let met = met.get(slot).copied().unwrap_or_default();
            let path = member.map(|member| member.path.clone());
            let since = label.out_since(slot);
            SlotStatus { since, ..SlotStatus::new(slot, path, text_of(&known.member), state, met) }
        });
        let slots: Vec<SlotStatus> = slots.collect();
        let good = slots.iter().filter(|slot| slot.state == "in_sync").count();
        let state = if good < layout.needed() {
            State::Failed
        } else if rebuild.is_some() {
            State::Rebuilding
        } else if good < slots.len() {
            State::Degraded
        } else {
            State::Clean
        };
        let Done { reads, writes, log_writes, full_stripes, partial_stripes, .. } = done;
        Self {
            uuid: text_of(&label.set),
            level: layout.level.to_string(),
            state,
            generation: *generation,
            stripe_unit_bytes: layout.unit,
            slots,
            spares: Vec::new(),
            absent: Vec::new(),
            rebuild,
            paused: false,
            scrub: None,
            io: Io { reads, writes, log_writes, full_stripes, partial_stripes },
            nvram: None,
            errors: None,
            losses: None,
        }
    }

    /// Summary in one line.
    pub(crate) fn summary(&self) -> String {
        let state = self.state.word();
        match self.slots.len() {
            1 => format!("one disk, {state}"),
            disks => format!("{} of {disks} disks, {state}", self.level),
        }
    }

    /// The last scrub and the losses, in lines for people.
    pub(crate) fn findings(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let Some(scrub) = &self.scrub {
            let (done, total) = (show_size(scrub.done_bytes), show_size(scrub.total_bytes));
            let (mended, lost) = (scrub.mended, scrub.lost_bytes());
            let lost = if lost > 0 { format!(", {} lost", show_size(lost)) } else { String::new() };
            lines.push(("scrub", format!("{done} of {total}, {mended} mended{lost}")));
        }
        let advice = "'duramen raid scrub' names the files";
        if let Some(Losses { reads: reads @ 1.., .. }) = self.losses {
            lines.push(("losses", format!("{reads} reads failed for lost data; {advice}")));
        }
        if let Some(Losses { blocks: blocks @ 1.., .. }) = self.losses {
            lines.push((
                "losses",
                format!("{blocks} blocks are on no disk that is there; {advice}"),
            ));
        }
        let bytes = self.losses.and_then(|it| it.bytes).unwrap_or_default();
        if bytes > self.scrub.as_ref().map_or(0, Scrub::lost_bytes) {
            let size = show_size(bytes);
            lines.push(("losses", format!("{size} lost, as an earlier scrub found; {advice}")));
        }
        lines
    }

    /// Blocks that the member of a slot lacks after it was filled, in a sentence, if there are any.
    /// Losses that were met since the set was opened count as well.
    pub(super) fn lacking(&self, slot: usize) -> Option<String> {
        let lost = self.losses.map_or(0, |losses| losses.blocks);
        let unread = self.slots.get(slot).map_or(0, |slot| slot.unread);
        lacking(lost, unread)
    }

    /// Description in lines for people.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<16}{value}"); // writing to a string cannot fail
        };
        line("set", self.uuid.clone());
        line("state", self.summary());
        line("generation", self.generation.to_string());
        line("stripe unit", show_size(self.stripe_unit_bytes));
        for slot in &self.slots {
            let path = slot
                .path
                .as_ref()
                .map_or("not found".to_owned(), |path| path.display().to_string());
            let met = [
                (slot.read_errors, "read errors"),
                (slot.write_errors, "write errors"),
                (slot.checksum_errors, "checksum errors"),
                (slot.mended, "mended"),
                (slot.silent_seconds, "seconds without an answer"),
                (slot.unread, "blocks unread, not lost"),
            ];
            let met = met.iter().filter(|(count, _)| *count > 0);
            let met: String = met.map(|(count, what)| format!(", {count} {what}")).collect();
            let flags = [(slot.failing, "failing"), (slot.waits_for_room, "waits for room")];
            let flags = flags.iter().filter(|(is_set, _)| *is_set);
            let flags: String = flags.map(|(_, what)| format!(", {what}")).collect();
            let since = slot.since.map(|it| format!(" since generation {it}")).unwrap_or_default();
            line(
                &format!("slot {}", slot.slot),
                format!("{}{flags}{since}, {path}{met}", slot.state),
            );
        }
        for spare in &self.spares {
            line("spare", spare.display().to_string());
        }
        for path in &self.absent {
            let path = path.display();
            // With too few members, no path is to be forgotten.
            let advice = match self.state {
                State::Failed => "connect its disk",
                _ => "if it is gone for good, 'duramen raid remove' forgets the path",
            };
            line("absent", format!("{path}: no member is there; {advice}"));
        }
        if let Some(Rebuild { slot, done_bytes, total_bytes }) = self.rebuild {
            let (done, total) = (show_size(done_bytes), show_size(total_bytes));
            line("rebuild", format!("of slot {slot}: {done} of {total}"));
        }
        if let Some(nvram) = &self.nvram {
            line("nvram", nvram.summary());
        }
        if self.paused {
            line("paused", "'duramen raid resume' has rebuilds and scrubs go on".to_owned());
        }
        self.findings().into_iter().for_each(|(name, value)| line(name, value));
        text
    }
}
