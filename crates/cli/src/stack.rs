//! The disks of a volume and how they are opened: one place for all commands.
//!
//! A volume is on one disk, or on a set of disks ([`raid`]), whose members [`crate::members`]
//! finds. Each start of a set for writing begins a new generation: by its older generation an
//! earlier copy of a member is recognised, and not read.
//!
//! If the members of a set may not be written, the set is opened with all writes kept in memory: so
//! a reader sees the result of a recovery. The same is done with a set that is in use.
//!
//! An NVRAM stands in front of the whole set ([`crate::front`]), so that it has the writes of the
//! file system and of its log.
//!
//! The end of a set is room for a log of `log_size` bytes, whatever the policy.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::file::{Access, DiskFile, FileDevice, OpenError};
use block::scratch::ScratchDevice;
use block::slice::split;
use block::{BlockDevice, IoError, clear};
use designs::{DiskRole, Found};
use duramen_settings::RaidSettings;
use nvram::PinsTooMuch;
use raid::assembly::Witness;
use raid::label::{Id, Label, Slot, Standing};
use raid::{OpenOptions, READ_ERRORS_PER_HOUR, Set};
use runtime::Runtime;
use runtime::sync::Semaphore;
use serde::{Deserialize, Serialize};
use server::reactor;

use crate::error_counts::ErrorBook;
use crate::failure::Failure;
use crate::found::found_on;
use crate::front::{Candidate, Front};
use crate::held_folder::HeldFolder;
use crate::losses::{Loss, LossBook};
use crate::members::{Member, Story, absent, find_members, find_spares, real};
use crate::set_state;
use crate::size::show_size;
use crate::volume::Volume;
use crate::words;

/// Open disks.
type Devices = Vec<Rc<dyn BlockDevice>>;

/// The open disks of a volume.
pub(crate) struct Stack {
    /// Device of the file system.
    pub(crate) disk: Rc<dyn BlockDevice>,
    /// Room for the log at the end of the set, if the design has a log.
    pub(crate) log: Option<Rc<dyn BlockDevice>>,
    /// The same room for the intent ring, if the design has that.
    pub(crate) intents: Option<Rc<dyn BlockDevice>>,
    /// The underlying set.
    pub(crate) set: Option<OpenSet>,
}

/// A disk and its path.
type Placed = (PathBuf, Rc<dyn BlockDevice>);

/// An open set. A clone shares the same set.
#[derive(Clone)]
pub(crate) struct OpenSet {
    pub(crate) set: Rc<Set>,
    /// The volume's folder, wherever it is moved to.
    pub(crate) folder: Option<Arc<HeldFolder>>,
    /// Token of the task that changes the lists and writes them.
    pub(crate) list_turn: Rc<Semaphore>,
    /// Members and their paths, in no particular order.
    pub(crate) members: Rc<RefCell<Vec<Member>>>,
    /// Paths at which the next start looks for members.
    pub(crate) listed: Rc<RefCell<Vec<PathBuf>>>,
    /// Paths of the spares.
    pub(crate) spares: Rc<RefCell<Vec<PathBuf>>>,
    /// Members and spares as the settings had them when this program last read or wrote them.
    pub(crate) noted: Rc<RefCell<[Vec<PathBuf>; 2]>>,
    /// Progress and result of the last scrub.
    pub(crate) scrub: Rc<RefCell<Option<Scrub>>>,
    /// The known losses of the volume.
    pub(crate) losses: Rc<LossBook>,
    /// Errors of the members, over all starts.
    pub(crate) errors: Rc<ErrorBook>,
    /// Slots whose members were missing when the set was opened.
    pub(crate) late: Rc<RefCell<BTreeSet<usize>>>,
    /// The NVRAM in front of it.
    pub(crate) front: Option<Rc<Front>>,
    /// Members that are present but out.
    returned: Rc<RefCell<Vec<Returned>>>,
    /// Disks of the set that are no members, and stay out: the set reads from them what it lacks.
    strangers: Rc<RefCell<Vec<Placed>>>,
}

/// Progress and findings of a scrub of a set. The names are those of JSON objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scrub {
    pub(crate) done_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) mended: u64,
    pub(crate) lost: Vec<Lost>,
    /// Bytes that no disk could provide but one may provide later: they are not lost.
    #[serde(default)]
    pub(crate) unread_bytes: u64,
}

impl Scrub {
    /// The lost places in the form that the volume's folder keeps.
    pub(crate) fn losses(&self, found_at: i64) -> Vec<Loss> {
        let loss = |lost: &Lost| {
            let Lost { path, other_paths, offset, length } = lost.clone();
            Loss { path, other_paths, snapshot: None, offset, length: Some(length), found_at }
        };
        self.lost.iter().map(loss).collect()
    }

    /// Number of lost bytes.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost.iter().map(|lost| lost.length).sum()
    }
}

/// A range of data that no member has any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    /// Path of the file with the data, if it is known.
    pub(crate) path: Option<String>,
    /// Other paths of the file: hard links.
    #[serde(default)]
    pub(crate) other_paths: Vec<String>,
    /// Offset in the file, in bytes; in the volume, if the file is unknown.
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Lost {
    /// A lost range of the volume whose file is unknown.
    pub(crate) fn somewhere(offset: u64, length: u64) -> Self {
        Self { path: None, other_paths: Vec::new(), offset, length }
    }
}

/// A member that was found and is out: it can be rebuilt.
pub(crate) struct Returned {
    pub(crate) slot: usize,
    pub(crate) member: Id,
    pub(crate) path: PathBuf,
    pub(crate) device: Rc<dyn BlockDevice>,
}

impl OpenSet {
    /// Releases a disk for another use: the set no longer reads it, and closes it.
    pub(crate) async fn release(&self, path: &Path) {
        let is_it = |(of, _): &Placed| real(of) == path;
        let released: Vec<_> = self.strangers.borrow_mut().extract_if(.., |it| is_it(it)).collect();
        for (_, device) in released {
            self.set.release(&device).await;
        }
    }

    /// Takes the next returned member whose slot has no other member by now; or the new disk of an
    /// interrupted replacement.
    pub(crate) fn next_returned(&self) -> Option<Returned> {
        let label = self.set.label();
        let (incoming, slots) = (label.incoming(), label.slots);
        let is_incoming = |one: &Returned| incoming.is_some_and(|it| it.other == one.member);
        let is_in = |one: &Returned| slots[one.slot].standing == Standing::InSync;
        let is_out = |one: &Returned| slots[one.slot].member == one.member && !is_in(one);
        let is_offline = |one: &Returned| slots[one.slot].standing == Standing::Offline;
        let mut returned = self.returned.borrow_mut();
        returned.retain(|one| is_incoming(one) || is_out(one));
        // A replacement continues when the old disk is in. A member that a user took out waits for
        // the user.
        let next =
            returned.iter().rposition(|one| !is_offline(one) && is_out(one) || is_in(one))?;
        Some(returned.remove(next))
    }

    /// Adds a returned member that is out.
    pub(crate) fn has_returned(&self, returned: Returned) {
        self.returned.borrow_mut().push(returned);
    }

    /// Takes the returned member of a slot, if it has this path.
    pub(crate) fn take_returned(&self, slot: usize, path: &Path) -> Option<Returned> {
        let mut returned = self.returned.borrow_mut();
        let is_it = |one: &Returned| one.slot == slot && real(&one.path) == path;
        let place = returned.iter().position(is_it)?;
        Some(returned.swap_remove(place))
    }

    /// Forgets the returned member at this path.
    pub(crate) fn forget_returned(&self, path: &Path) {
        self.returned.borrow_mut().retain(|one| real(&one.path) != path);
    }

    /// Listed paths that hold no member.
    pub(crate) fn absent(&self) -> Vec<PathBuf> {
        absent(&self.listed.borrow(), &self.members.borrow(), &self.set.label())
    }
}

impl Volume {
    /// Opens the disks of the volume. `device` makes the device of each disk.
    ///
    /// # Errors
    /// [`Failure`] if they cannot be opened, or not with this access.
    pub(crate) async fn open(
        &self,
        access: Access,
        device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
        runtime: &Runtime,
    ) -> Result<Stack, Failure> {
        let mut stack = self.open_to_serve(access, device, runtime).await?;
        if let Some(intents) = stack.intents.take() {
            self.told(intents.close().await)?; // otherwise the set would never close
        }
        Ok(stack)
    }

    /// Opens the disks of the volume, and the room for its intents.
    ///
    /// # Errors
    /// As for [`Volume::open`].
    pub(crate) async fn open_to_serve(
        &self,
        access: Access,
        device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
        runtime: &Runtime,
    ) -> Result<Stack, Failure> {
        let Some(raid) = &self.settings.raid else {
            let disk = device(DiskFile::open(&self.disk_path, access)?.large_past_cache());
            return Ok(Stack { disk, log: None, intents: None, set: None });
        };
        let open = self.open_set(raid, access, device, runtime).await?;
        let size = open.set.layout().size();
        let end =
            self.settings.log_size.and_then(|log| size.checked_sub(log)).ok_or_else(|| {
                let why =
                    "log_size, the room for a log at the end of the set, is missing or too large";
                let (path, why) = (self.path.clone(), why.to_owned());
                Failure::Settings { path, why, advice: String::new() }
            })?;
        if !end.is_multiple_of(open.set.geometry().logical_sector_size.into()) {
            let (path, advice) = (self.path.clone(), String::new());
            let why = "log_size is no whole number of the disks' sectors".to_owned();
            return Err(Failure::Settings { path, why, advice });
        }
        let front = open.front.as_ref().and_then(|front| front.nvram().cloned());
        let whole: Rc<dyn BlockDevice> = match front {
            Some(nvram) => nvram,
            None => open.set.clone(),
        };
        let [disk, log] = split(whole, end);
        let set = Some(open);
        let mut stack = Stack { disk: Rc::new(disk), log: None, intents: None, set };
        let pins_log = self.settings.nvram.as_ref().is_some_and(|nvram| nvram.pin_log);
        if pins_log && self.is_log_named {
            let path = self.path.clone();
            let why = "pin_log keeps the log of the set in the NVRAM, and --log names another one";
            let advice = "; leave out --log, or remove pin_log from volume.toml".to_owned();
            return Err(Failure::Settings { path, why: why.to_owned(), advice });
        }
        if self.design().has(DiskRole::Log) && !self.is_log_named {
            stack.log = Some(Rc::new(log));
            self.pin_log(stack.front().as_deref(), end..size)?;
        } else if self.design().keeps_intents && access == Access::ReadWrite {
            stack.intents = Some(Rc::new(log));
        } else {
            self.told(log.close().await)?; // otherwise the set would never close
        }
        Ok(stack)
    }

    /// Keeps the log in the NVRAM, if the settings say so.
    fn pin_log(&self, front: Option<&Front>, log: Range<u64>) -> Result<(), Failure> {
        let is_wanted = self.settings.nvram.as_ref().is_some_and(|nvram| nvram.pin_log);
        let nvram = front.and_then(Front::nvram).filter(|_| is_wanted);
        let pinned = nvram.map_or(Ok(()), |nvram| nvram.pin(log));
        pinned.map_err(|PinsTooMuch { needed }| Failure::Settings {
            path: self.path.clone(),
            why: format!(
                "pin_log takes an NVRAM of {}, and this one is smaller",
                show_size(needed)
            ),
            advice: "; without pin_log in volume.toml, the log goes to the disks".to_owned(),
        })
    }

    /// Whether the volume's set lacks an in-sync member.
    ///
    /// # Errors
    /// [`Failure`] if that cannot be determined.
    pub(crate) fn lacks_a_member(&self) -> Result<bool, Failure> {
        let Some(raid) = &self.settings.raid else { return Ok(false) };
        let witness = self.folder.as_deref().map(|folder| set_state::read(folder, &raid.set));
        let found =
            find_members(raid, witness.transpose()?.flatten().as_ref(), &self.silent, false)?;
        Ok(Story::of(&found).lacks_one(&found))
    }

    async fn open_set(
        &self,
        raid: &RaidSettings,
        access: Access,
        device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
        runtime: &Runtime,
    ) -> Result<OpenSet, Failure> {
        let is_written = access == Access::ReadWrite;
        let folder = self.folder.as_deref().map(HeldFolder::open).transpose()?.map(Arc::new);
        let held = folder.as_deref();
        let witness =
            held.map(|folder| set_state::read_held(folder, &raid.set)).transpose()?.flatten();
        let last = held.map(|folder| set_state::last_in_sync(folder, &raid.set));
        let last = last.unwrap_or_default();
        let found = find_members(raid, witness.as_ref(), &self.silent, is_written)?;
        let latest = found.iter().map(|member| &member.label).max_by_key(|it| it.generation);
        let candidate = Candidate::find(self, latest, access, device, runtime).await?;
        let (members, devices) = self.open_members(found, access, device)?;
        let mut options = self.set_options(raid, witness, &members);
        options.log_devices = candidate.as_ref().map_or(Vec::new(), |it| it.log_devices(access));
        if let Some(folder) = folder.clone().filter(|_| is_written) {
            set_state::probe(&folder)?;
            let clock = runtime.clock.clone();
            options.witnessed = set_state::keep(folder, raid.set, clock);
        }
        let set = raid::open(devices.clone(), runtime, options).await.map_err(|source| {
            let disks = members.iter().map(|member| member.path.clone()).collect();
            Failure::Set { path: self.path.clone(), source, disks }
        })?;
        if is_written {
            tell_damaged_record(&self.path, &set);
        }
        let label = set.label();
        let sorted = Sorted::of(&label, &members, devices, &last);
        let Sorted { moved, returned, strangers } = sorted;
        let listed = raid.members.iter().cloned().chain(moved).collect();
        let late = Rc::new(RefCell::new(late_of(&label.slots, &members)));
        let spares = find_spares(raid, &self.silent, (&members, &label.slots));
        let spares = Rc::new(RefCell::new(spares));
        let (members, listed) = (Rc::new(RefCell::new(members)), Rc::new(RefCell::new(listed)));
        let returned = Rc::new(RefCell::new(returned));
        let strangers = Rc::new(RefCell::new(strangers));
        let noted = Rc::new(RefCell::new([raid.members.clone(), raid.spares.clone()]));
        let (set, scrub) = (Rc::new(set), Rc::default());
        let front = match candidate {
            Some(candidate) => candidate.open(self, &set, access, runtime).await?.map(Rc::new),
            None => None,
        };
        let errors = Rc::new(ErrorBook::open(folder.clone()));
        Ok(OpenSet {
            set,
            folder,
            list_turn: Semaphore::new(1),
            members,
            listed,
            spares,
            noted,
            scrub,
            losses: LossBook::open(self.folder.clone()),
            errors,
            late,
            front,
            returned,
            strangers,
        })
    }

    /// Options to open a set with these members.
    fn set_options(
        &self,
        raid: &RaidSettings,
        witness: Option<Witness>,
        members: &[Member],
    ) -> OpenOptions {
        let disks: Vec<PathBuf> = members.iter().map(|member| member.path.clone()).collect();
        let (path, is_waiting) = (self.path.clone(), self.is_waiting.clone());
        let report_silence = Rc::new(move |disk: usize| {
            is_waiting.store(true, Ordering::Relaxed);
            let (path, disk) = (path.display(), disks[disk].display());
            words::say(format_args!(
                "{path}: {disk} has not answered for 5 s; the start waits for it"
            ));
        });
        OpenOptions {
            witness,
            is_meant: self.is_degraded_meant,
            accepts_loss: self.is_loss_accepted,
            gives_up_log: self.is_nvram_given_up,
            read_errors_per_hour: raid.read_errors_per_hour.unwrap_or(READ_ERRORS_PER_HOUR),
            report_silence,
            ..OpenOptions::default()
        }
    }

    /// Opens the disks of the members found. A disk that cannot be opened is skipped if that does
    /// no harm.
    fn open_members(
        &self,
        found: Vec<Member>,
        access: Access,
        device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
    ) -> Result<(Vec<Member>, Devices), Failure> {
        let story = Story::of(&found);
        let (mut members, mut devices) = (Vec::new(), Devices::new());
        for member in found {
            let disk = match DiskFile::open(&member.path, access) {
                Ok(disk) => disk,
                Err(error @ (OpenError::Locked(_) | OpenError::Busy(_)))
                    if story.has_in(&member.label.member()) =>
                {
                    return Err(error.into());
                }
                // Otherwise a missing permission would take the member out and cause a rebuild.
                Err(error @ OpenError::PermissionDenied(..))
                    if story.has_in(&member.label.member()) && !self.is_degraded_meant =>
                {
                    return Err(error.into());
                }
                Err(error) => {
                    words::say(format_args!("{error}; the set goes on without it, if it can"));
                    continue;
                }
            };
            let device = device(disk.large_past_cache());
            devices.push(if access == Access::ReadWrite {
                device
            } else {
                Rc::new(ScratchDevice::new(device))
            });
            members.push(member);
        }
        Ok((members, devices))
    }

    fn told(&self, done: Result<(), IoError>) -> Result<(), Failure> {
        done.map_err(|source| Failure::Device { path: self.disk_path.clone(), source })
    }
}

/// The disks of an open set, sorted by their further use.
struct Sorted {
    /// Paths of members that the settings do not name.
    moved: Vec<PathBuf>,
    returned: Vec<Returned>,
    strangers: Vec<Placed>,
}

impl Sorted {
    /// Sorts the disks by the label that holds. `last` has the last generation in which each member
    /// was in sync.
    fn of(label: &Label, members: &[Member], devices: Devices, last: &BTreeMap<Id, u64>) -> Self {
        let mut sorted = Self { moved: Vec::new(), returned: Vec::new(), strangers: Vec::new() };
        let Self { moved, returned, strangers } = &mut sorted;
        for (one, device) in members.iter().zip(devices) {
            let (slot, member) = (one.label.slot, one.label.member());
            if label.incoming().is_some_and(|it| it.other == member) {
                if !one.is_listed {
                    moved.push(one.path.clone());
                }
                // An interrupted replacement continues.
                returned.push(Returned { slot, member, path: one.path.clone(), device });
                continue;
            }
            let Some(its) = label.slots.get(slot).filter(|slot| slot.member == member) else {
                strangers.push((one.path.clone(), device));
                continue;
            };
            let is_in = its.standing == Standing::InSync;
            // An unlisted disk that is older than the member is a copy, unless its rebuild was
            // never completed.
            let is_begun = one.label.slots[slot].standing.is_coming();
            let last = last.get(&member);
            let is_late = is_begun || last.is_some_and(|&last| one.label.generation >= last);
            if !one.is_listed && (is_in || is_late) {
                moved.push(one.path.clone());
            }
            // A member that a user has taken out is rebuilt only on an order.
            if its.standing != Standing::Offline && !is_in && (one.is_listed || is_late) {
                returned.push(Returned { slot, member, path: one.path.clone(), device });
            } else if !is_in {
                strangers.push((one.path.clone(), device));
            }
        }
        sorted
    }
}

impl Stack {
    /// The NVRAM in front of the set.
    pub(crate) fn front(&self) -> Option<Rc<Front>> {
        self.set.as_ref().and_then(|set| set.front.clone())
    }

    /// Closes the disks, for a caller that was their only user.
    ///
    /// # Errors
    /// [`Failure::Device`].
    pub(crate) async fn close(self, volume: &Volume) -> Result<(), Failure> {
        let mut closed = self.disk.close().await;
        if let Some(log) = self.log {
            closed = closed.and(log.close().await);
        }
        volume.told(closed)
    }
}

/// Inspects a volume for which no server was asked, and returns the result of `look_more` as well.
///
/// # Errors
/// [`Failure`].
pub(crate) fn look<T>(
    volume: &Volume,
    access: Access,
    look_more: impl AsyncFnOnce(&Stack) -> Result<T, Failure>,
) -> Result<(Found, T), Failure> {
    let looked = reactor::block_on(|runtime| async move {
        let stack = volume.open(access, &at_once, &runtime).await?;
        let found = found_on(volume.design(), &*stack.disk, &volume.disk_path).await?;
        Ok((found, look_more(&stack).await?))
    });
    looked.map_err(Failure::Start)?
}

/// Fills the room for a log with zeros: old contents are meaningless to a new log, and a log must
/// never find its host full.
pub(crate) async fn fill(log: &dyn BlockDevice) -> Result<(), IoError> {
    clear(log, 0..log.geometry().size).await?;
    log.flush().await
}

/// A device whose calls run synchronously in the caller.
pub(crate) fn at_once(disk: DiskFile) -> Rc<dyn BlockDevice> {
    Rc::new(FileDevice::new(disk))
}

/// Slots whose members are out and were not found.
fn late_of(slots: &[Slot], members: &[Member]) -> BTreeSet<usize> {
    let is_found = |slot: &Slot| members.iter().any(|one| one.label.member() == slot.member);
    let is_late =
        |&slot: &usize| slots[slot].standing == Standing::Stale && !is_found(&slots[slot]);
    (0..slots.len()).filter(is_late).collect()
}

/// Reports a damaged record behind the last good one of a set's log. It may be on missing members.
pub(crate) fn tell_damaged_record(path: &Path, set: &Set) {
    if let Some(record) = set.status().done.damaged_record {
        words::say(format_args!(
            "{}: record {record} of the set, the last of the log, is damaged: a cut did that \
             before anything was answered, or it has rotted, and what was written last is lost \
             unless a disk that is away has it",
            path.display()
        ));
    }
}
