//! What a volume stands on, and how that is opened: one place for all commands.
//!
//! A volume stands on one disk, or on a set of disks ([`raid`]), whose members are found by
//! [`crate::members`]. Each start of a set that may be written begins a new generation: what was
//! copied of a member before is known as a copy by that, and not read.
//!
//! A set whose members may not be written is opened with what would be written kept in memory: so a
//! reader sees what a return would come to. It is so with a set that is in use, too.
//!
//! At the end of a set there is room for a log, `log_size` bytes of it, whatever the policy.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use block::file::{Access, DiskFile, FileDevice, OpenError};
use block::scratch::ScratchDevice;
use block::slice::split;
use block::{BlockDevice, IoError, clear};
use designs::{DiskRole, Found};
use duramen_settings::RaidSettings;
use raid::assembly::Witness;
use raid::label::{Id, Label, Slot, Standing};
use raid::{OpenOptions, READ_ERRORS_PER_HOUR, Set};
use runtime::Runtime;
use serde::{Deserialize, Serialize};
use server::reactor;

use crate::error_counts::ErrorBook;
use crate::failure::Failure;
use crate::found::found_on;
use crate::losses::Loss;
use crate::members::{Member, Story, absent, find_members, find_spares, real};
use crate::set_state;
use crate::volume::Volume;
use crate::words;

/// Disks that are open.
type Devices = Vec<Rc<dyn BlockDevice>>;

/// What is open of a volume.
pub(crate) struct Stack {
    /// What its file system stands on.
    pub(crate) disk: Rc<dyn BlockDevice>,
    /// The room for its log in the set on which it stands, if its design has one.
    pub(crate) log: Option<Rc<dyn BlockDevice>>,
    /// The same room for its ring of intents, if that is what its design has.
    pub(crate) intents: Option<Rc<dyn BlockDevice>>,
    /// That set.
    pub(crate) set: Option<OpenSet>,
}

/// A disk, and where it is.
type Placed = (PathBuf, Rc<dyn BlockDevice>);

/// A set that is open. A clone is the same one.
#[derive(Clone)]
pub(crate) struct OpenSet {
    pub(crate) set: Rc<Set>,
    /// Where its members are, and what they are, in no order.
    pub(crate) members: Rc<RefCell<Vec<Member>>>,
    /// Where members are looked for at the next start.
    pub(crate) listed: Rc<RefCell<Vec<PathBuf>>>,
    /// Where disks are that wait to become members.
    pub(crate) spares: Rc<RefCell<Vec<PathBuf>>>,
    /// Members and spares as the settings had them when this program read or wrote them last.
    pub(crate) noted: Rc<RefCell<[Vec<PathBuf>; 2]>>,
    /// How far the last look at all of it is, or was.
    pub(crate) scrub: Rc<RefCell<Option<Scrub>>>,
    /// Errors that the members have met, over all starts.
    pub(crate) errors: Rc<ErrorBook>,
    /// Slots whose members were missing when the set was opened.
    pub(crate) late: Rc<RefCell<BTreeSet<usize>>>,
    /// Members that are there, and out.
    returned: Rc<RefCell<Vec<Returned>>>,
    /// Disks of the set that are no members, and stay out: the set asks them for what it lacks.
    strangers: Rc<RefCell<Vec<Placed>>>,
}

/// How far a look at all of a set is. The names are those of JSON objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Scrub {
    pub(crate) done_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) mended: u64,
    pub(crate) lost: Vec<Lost>,
    /// Bytes that no disk gave, and that one may give later: they are not lost.
    #[serde(default)]
    pub(crate) unread_bytes: u64,
}

impl Scrub {
    /// What is lost, as the folder of the volume keeps it.
    pub(crate) fn losses(&self, found_at: i64) -> Vec<Loss> {
        let loss = |lost: &Lost| {
            let Lost { path, other_paths, offset, length } = lost.clone();
            Loss { path, other_paths, snapshot: None, offset, length: Some(length), found_at }
        };
        self.lost.iter().map(loss).collect()
    }

    /// How many bytes are lost.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost.iter().map(|lost| lost.length).sum()
    }
}

/// What members cannot tell any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    /// The file whose it is, if that is known.
    pub(crate) path: Option<String>,
    /// Its other names: hard links.
    #[serde(default)]
    pub(crate) other_paths: Vec<String>,
    /// Where in the file, in bytes; in the volume, if that is not known.
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Lost {
    /// Bytes of the volume, whoever has them.
    pub(crate) fn somewhere(offset: u64, length: u64) -> Self {
        Self { path: None, other_paths: Vec::new(), offset, length }
    }
}

/// A member that was found and is out: it can be made again.
pub(crate) struct Returned {
    pub(crate) slot: usize,
    pub(crate) member: Id,
    pub(crate) path: PathBuf,
    pub(crate) device: Rc<dyn BlockDevice>,
}

impl OpenSet {
    /// A disk is to have another use: the set asks it for nothing any more, and closes it.
    pub(crate) async fn release(&self, path: &Path) {
        let is_it = |(of, _): &Placed| real(of) == path;
        let released: Vec<_> = self.strangers.borrow_mut().extract_if(.., |it| is_it(it)).collect();
        for (_, device) in released {
            self.set.release(&device).await;
        }
    }

    /// One that is out, and whose slot has no other member since; or the new disk of a
    /// replacement that was interrupted.
    pub(crate) fn next_returned(&self) -> Option<Returned> {
        let label = self.set.label();
        let (incoming, slots) = (label.incoming(), label.slots);
        let is_incoming = |one: &Returned| incoming.is_some_and(|it| it.other == one.member);
        let is_in = |one: &Returned| slots[one.slot].standing == Standing::InSync;
        let is_out = |one: &Returned| slots[one.slot].member == one.member && !is_in(one);
        let is_offline = |one: &Returned| slots[one.slot].standing == Standing::Offline;
        let mut returned = self.returned.borrow_mut();
        returned.retain(|one| is_incoming(one) || is_out(one));
        // A replacement goes on when the old disk is in. What a person took out waits for a person.
        let next =
            returned.iter().rposition(|one| !is_offline(one) && is_out(one) || is_in(one))?;
        Some(returned.remove(next))
    }

    /// A member that is out is there.
    pub(crate) fn has_returned(&self, returned: Returned) {
        self.returned.borrow_mut().push(returned);
    }

    /// That of a slot, if it has this path.
    pub(crate) fn take_returned(&self, slot: usize, path: &Path) -> Option<Returned> {
        let mut returned = self.returned.borrow_mut();
        let is_it = |one: &Returned| one.slot == slot && real(&one.path) == path;
        let place = returned.iter().position(is_it)?;
        Some(returned.swap_remove(place))
    }

    /// What lies here does not come back.
    pub(crate) fn forget_returned(&self, path: &Path) {
        self.returned.borrow_mut().retain(|one| real(&one.path) != path);
    }

    /// Paths where members are looked for and none is.
    pub(crate) fn absent(&self) -> Vec<PathBuf> {
        absent(&self.listed.borrow(), &self.members.borrow(), &self.set.label())
    }
}

impl Volume {
    /// Opens what it stands on, with a device of `device` for each disk.
    ///
    /// # Errors
    /// [`Failure`] when that cannot be had, or not with this access.
    pub(crate) async fn open(
        &self,
        access: Access,
        device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
        runtime: &Runtime,
    ) -> Result<Stack, Failure> {
        let mut stack = self.open_to_serve(access, device, runtime).await?;
        if let Some(intents) = stack.intents.take() {
            self.told(intents.close().await)?; // else the set would wait for it at its end
        }
        Ok(stack)
    }

    /// The same, with the room for intents.
    ///
    /// # Errors
    /// As [`Volume::open`].
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
        let [disk, log] = split(open.set.clone(), end);
        let set = Some(open);
        let mut stack = Stack { disk: Rc::new(disk), log: None, intents: None, set };
        if self.design().has(DiskRole::Log) && !self.is_log_named {
            stack.log = Some(Rc::new(log));
        } else if self.design().keeps_intents && access == Access::ReadWrite {
            stack.intents = Some(Rc::new(log));
        } else {
            self.told(log.close().await)?; // else the set would wait for it at its end
        }
        Ok(stack)
    }

    /// Whether it stands on a set of which a member that is up to date is missing.
    ///
    /// # Errors
    /// [`Failure`] when that cannot be said.
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
        let folder = self.folder.as_deref();
        let witness =
            folder.map(|folder| set_state::read(folder, &raid.set)).transpose()?.flatten();
        let last = folder.map(|folder| set_state::last_in_sync(folder, &raid.set));
        let last = last.unwrap_or_default();
        let found = find_members(raid, witness.as_ref(), &self.silent, is_written)?;
        let (members, devices) = self.open_members(found, access, device)?;
        let mut options = self.set_options(raid, witness, &members);
        if let Some(folder) = folder.filter(|_| is_written) {
            set_state::probe(folder)?;
            let clock = runtime.clock.clone();
            options.witnessed = set_state::keep(folder.to_owned(), raid.set, clock);
        }
        let set = raid::open(devices.clone(), runtime, options).await.map_err(|source| {
            let disks = members.iter().map(|member| member.path.clone()).collect();
            Failure::Set { path: self.path.clone(), source, disks }
        })?;
        let label = set.label();
        let sorted = Sorted::of(&label, &members, devices, &last);
        let Sorted { moved, returned, strangers } = sorted;
        let listed = raid.members.iter().cloned().chain(moved).collect();
        let late = Rc::new(RefCell::new(late_of(&label.slots, &members)));
        let (members, listed) = (Rc::new(RefCell::new(members)), Rc::new(RefCell::new(listed)));
        let returned = Rc::new(RefCell::new(returned));
        let strangers = Rc::new(RefCell::new(strangers));
        let spares = Rc::new(RefCell::new(find_spares(raid, &self.silent)));
        let noted = Rc::new(RefCell::new([raid.members.clone(), raid.spares.clone()]));
        let (set, scrub) = (Rc::new(set), Rc::default());
        let errors = Rc::new(ErrorBook::open(folder));
        Ok(OpenSet {
            set,
            members,
            listed,
            spares,
            noted,
            scrub,
            errors,
            late,
            returned,
            strangers,
        })
    }

    /// How a set is opened on these members.
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
            read_errors_per_hour: raid.read_errors_per_hour.unwrap_or(READ_ERRORS_PER_HOUR),
            report_silence,
            ..OpenOptions::default()
        }
    }

    /// Opens the disks of those that were found, without those that cannot be had if that does no
    /// harm.
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
                // Else it would be out, and be made again, for want of a right.
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

/// The disks of a set that is open, by what becomes of them.
struct Sorted {
    /// Where members are that the settings do not name.
    moved: Vec<PathBuf>,
    returned: Vec<Returned>,
    strangers: Vec<Placed>,
}

impl Sorted {
    /// What becomes of disks by the label that holds. `last` has the last generation in which each
    /// member was up to date.
    fn of(label: &Label, members: &[Member], devices: Devices, last: &BTreeMap<Id, u64>) -> Self {
        let mut sorted = Self { moved: Vec::new(), returned: Vec::new(), strangers: Vec::new() };
        let Self { moved, returned, strangers } = &mut sorted;
        for (one, device) in members.iter().zip(devices) {
            let (slot, member) = (one.label.slot, one.label.member());
            if label.incoming().is_some_and(|it| it.other == member) {
                if !one.is_listed {
                    moved.push(one.path.clone());
                }
                // A replacement that was interrupted goes on.
                returned.push(Returned { slot, member, path: one.path.clone(), device });
                continue;
            }
            let Some(its) = label.slots.get(slot).filter(|slot| slot.member == member) else {
                strangers.push((one.path.clone(), device));
                continue;
            };
            let is_in = its.standing == Standing::InSync;
            // What lies elsewhere and is older than the member is somebody's copy; not so one that
            // was never made to its end.
            let is_begun = one.label.slots[slot].standing.is_coming();
            let last = last.get(&member);
            let is_late = is_begun || last.is_some_and(|&last| one.label.generation >= last);
            if !one.is_listed && (is_in || is_late) {
                moved.push(one.path.clone());
            }
            // A member that a person has taken out is not made again unasked.
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
    /// Closes all of it, for a caller that has used it alone.
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

/// What is found of a volume that nothing else is asked of, and what `look_more` sees there.
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

/// Fills the room for a log with zeros: what was there means nothing for the one that comes, and a
/// log never finds that there is no space for it.
pub(crate) async fn fill(log: &dyn BlockDevice) -> Result<(), IoError> {
    clear(log, 0..log.geometry().size).await?;
    log.flush().await
}

/// A device whose calls are made by who makes them.
pub(crate) fn at_once(disk: DiskFile) -> Rc<dyn BlockDevice> {
    Rc::new(FileDevice::new(disk))
}

/// The slots whose members are out and were not found.
fn late_of(slots: &[Slot], members: &[Member]) -> BTreeSet<usize> {
    let is_found = |slot: &Slot| members.iter().any(|one| one.label.member() == slot.member);
    let is_late =
        |&slot: &usize| slots[slot].standing == Standing::Stale && !is_found(&slots[slot]);
    (0..slots.len()).filter(is_late).collect()
}
