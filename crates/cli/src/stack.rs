//! What a volume stands on, and how that is opened: one place for all commands.
//!
//! A volume stands on one disk, or on a set of disks ([`raid`]). Of a set the settings say where
//! its members were last; their labels say which they are. A member that is not where it was is
//! looked for in the folders where the others lie. What is no member, or of another set, is passed
//! over, and told of.
//!
//! A set whose members may not be written is opened with what would be written kept in memory: so a
//! reader sees what a return would come to. It is so with a set that is in use, too.
//!
//! At the end of a set there is room for a log, `log_size` bytes of it, whatever the policy.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::file::{Access, DiskFile, FileDevice};
use block::scratch::ScratchDevice;
use block::slice::split;
use block::{BlockDevice, IoError};
use designs::DiskRole;
use duramen_settings::RaidSettings;
use raid::label::{Id, Label, Standing};
use raid::{OpenOptions, Set};
use runtime::Runtime;
use server::reactor;

use crate::failure::Failure;
use crate::folder::parent;
use crate::set_state;
use crate::volume::{FileSystem, Volume, file_system_on};
use crate::words;

/// The least that a member can have, in bytes: a smaller file is none.
const LEAST_MEMBER: u64 = 2 << 20;
/// So many entries of a folder are looked at when members are missing.
const LOOKED_AT: usize = 4096;

/// What is open of a volume.
pub(crate) struct Stack {
    /// What its file system stands on.
    pub(crate) disk: Rc<dyn BlockDevice>,
    /// The room for its log in the set on which it stands, if its design has one.
    pub(crate) log: Option<Rc<dyn BlockDevice>>,
    /// That set.
    pub(crate) set: Option<OpenSet>,
}

/// A set that is open. A clone is the same one.
#[derive(Clone)]
pub(crate) struct OpenSet {
    pub(crate) set: Rc<Set>,
    /// Where its members are, and what they are, in no order.
    pub(crate) members: Rc<RefCell<Vec<Member>>>,
    /// Members that are there, and out.
    returned: Rc<RefCell<Vec<Returned>>>,
}

/// A member that was found where it is looked for, and is out: it can be made again.
pub(crate) struct Returned {
    pub(crate) slot: usize,
    pub(crate) path: PathBuf,
    pub(crate) device: Rc<dyn BlockDevice>,
}

impl OpenSet {
    /// One that is out.
    pub(crate) fn next_returned(&self) -> Option<Returned> {
        self.returned.borrow_mut().pop()
    }

    /// That of a slot, if it has this path.
    pub(crate) fn take_returned(&self, slot: usize, path: &Path) -> Option<Rc<dyn BlockDevice>> {
        let mut returned = self.returned.borrow_mut();
        let is_it = |one: &Returned| one.slot == slot && real(&one.path) == path;
        let place = returned.iter().position(is_it)?;
        Some(returned.swap_remove(place).device)
    }
}

/// A disk with a label of the set.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) path: PathBuf,
    pub(crate) label: Label,
    /// Whether the settings name its path.
    pub(crate) is_listed: bool,
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
        let Some(raid) = &self.settings.raid else {
            let disk = device(DiskFile::open(&self.disk_path, access)?.large_past_cache());
            return Ok(Stack { disk, log: None, set: None });
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
        let sector = u64::from(open.set.geometry().logical_sector_size);
        let [disk, log] = split(open.set.clone(), end - end % sector);
        let mut stack = Stack { disk: Rc::new(disk), log: None, set: Some(open) };
        if self.design().has(DiskRole::Log) && !self.is_log_named {
            stack.log = Some(Rc::new(log));
        } else {
            self.told(log.close().await)?; // else the set would wait for it at its end
        }
        Ok(stack)
    }

    async fn open_set(
        &self,
        raid: &RaidSettings,
        access: Access,
        device: &impl Fn(DiskFile) -> Rc<dyn BlockDevice>,
        runtime: &Runtime,
    ) -> Result<OpenSet, Failure> {
        let members = find_members(raid, access == Access::ReadWrite).await;
        let mut devices: Vec<Rc<dyn BlockDevice>> = Vec::new();
        for member in &members {
            let member = device(DiskFile::open(&member.path, access)?.large_past_cache());
            devices.push(match access {
                Access::ReadWrite => member,
                Access::ReadOnly | Access::Glance => Rc::new(ScratchDevice::new(member)),
            });
        }
        let mut options =
            OpenOptions { is_meant: self.is_degraded_meant, ..OpenOptions::default() };
        if let Some(folder) = &self.folder {
            options.witness = set_state::read(folder)?;
            if access == Access::ReadWrite {
                options.witnessed = set_state::keep(folder.clone(), runtime.clock.clone());
            }
        }
        let set = raid::open(devices.clone(), runtime, options).await.map_err(|source| {
            let disks = members.iter().map(|member| member.path.clone()).collect();
            Failure::Set { path: self.path.clone(), source, disks }
        })?;
        let slots = set.label().slots;
        let mut returned = Vec::new();
        for (member, device) in members.iter().zip(devices).filter(|(it, _)| it.is_listed) {
            let slot = member.label.slot;
            let is_its = slots.get(slot).is_some_and(|slot| slot.member == member.label.member());
            if is_its && slots[slot].standing != Standing::InSync {
                returned.push(Returned { slot, path: member.path.clone(), device });
            }
        }
        let (members, returned) = (Rc::new(RefCell::new(members)), Rc::new(RefCell::new(returned)));
        Ok(OpenSet { set: Rc::new(set), members, returned })
    }

    fn told(&self, done: Result<(), IoError>) -> Result<(), Failure> {
        done.map_err(|source| Failure::Device { path: self.disk_path.clone(), source })
    }
}

impl Stack {
    /// Closes it, for a caller that has used it alone.
    ///
    /// # Errors
    /// [`Failure::Device`].
    pub(crate) async fn close(self, volume: &Volume) -> Result<(), Failure> {
        volume.told(self.disk.close().await)?;
        if let Some(log) = self.log {
            volume.told(log.close().await)?;
        }
        Ok(())
    }
}

/// The superblock of a volume that nothing else is asked of.
///
/// # Errors
/// [`Failure`].
pub(crate) fn look(volume: &Volume, access: Access) -> Result<FileSystem, Failure> {
    let looked = reactor::block_on(|runtime| async move {
        let stack = volume.open(access, &at_once, &runtime).await?;
        file_system_on(&*stack.disk, &volume.disk_path).await
    });
    looked.map_err(Failure::Start)?
}

/// A device whose calls are made by who makes them.
pub(crate) fn at_once(disk: DiskFile) -> Rc<dyn BlockDevice> {
    Rc::new(FileDevice::new(disk))
}

/// The members of a set that there are: where they were last, or else beside the others.
pub(crate) async fn find_members(raid: &RaidSettings, tells: bool) -> Vec<Member> {
    let mut found: Vec<Member> = Vec::new();
    let mut seen = BTreeSet::new();
    for path in &raid.members {
        match label_at(path).await {
            Ok(label) if label.set == raid.set && seen.insert(real(path)) => {
                found.push(Member { path: path.clone(), label, is_listed: true });
            }
            Ok(label) if label.set == raid.set => {} // the same disk once more
            Ok(_) if tells => {
                words::say(format_args!("{}: it is of another set of disks", path.display()));
            }
            Err(why) if tells => {
                words::say(format_args!("{}: it is no member of the set: {why}", path.display()));
            }
            _ => {}
        }
    }
    let known =
        |found: &[Member]| found.iter().map(|it| it.label.member()).collect::<BTreeSet<Id>>();
    let all = found.first().map_or(raid.members.len(), |member| member.label.slots.len());
    if known(&found).len() >= all {
        return found;
    }
    let told = found.iter().max_by_key(|member| member.label.generation);
    let told = told.map(|member| member.label.slots.clone()).unwrap_or_default();
    let is_in = |label: &Label| {
        let known = told.iter().find(|slot| slot.member == label.member());
        known.is_some_and(|slot| slot.standing == Standing::InSync)
    };
    let folders: BTreeSet<PathBuf> = raid.members.iter().map(|it| parent(it).to_owned()).collect();
    for path in folders.iter().flat_map(|folder| disks_in(folder)) {
        if !seen.insert(real(&path)) {
            continue;
        }
        if let Ok(label) = label_at(&path).await
            && label.set == raid.set
            && !known(&found).contains(&label.member())
        {
            if tells && is_in(&label) {
                words::say(format_args!("a member of the set is now {}", path.display()));
            }
            found.push(Member { path, label, is_listed: false });
        }
    }
    found
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Files and devices of a folder that may be members.
fn disks_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(LOOKED_AT);
    let may_be = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|it| {
            it.file_type().is_block_device() || it.is_file() && it.len() >= LEAST_MEMBER
        })
    };
    entries.map(|entry| entry.path()).filter(may_be).collect()
}

/// The label that stands on a disk, whoever has it.
async fn label_at(path: &Path) -> Result<Label, String> {
    let disk = DiskFile::open(path, Access::Glance).map_err(|error| error.to_string())?;
    let label = raid::label_of(&FileDevice::new(disk)).await;
    label.map_err(|error| match error {
        raid::OpenError::NoMember(_, bad) => bad.to_string(),
        raid::OpenError::Disk(_, error) => error.to_string(),
        other => other.to_string(),
    })
}
