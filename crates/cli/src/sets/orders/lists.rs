//! The lists of a set's disks in `volume.toml`, which orders update for the next start.
//!
//! The file may have been changed since the set was opened. So it is read again just before it is
//! written, and its lists lose and gain only the disks that an order changes. It is found in the
//! folder that the set was opened with, even if that was renamed, and a file of another set is
//! left alone.
//!
//! Invariants:
//! 1. The lists are read, changed and written by one task at a time, which has the token of
//!    [`OpenSet::list_turn`](crate::stack::OpenSet): a write waits for the folder's disk, and none
//!    takes back what another has changed meanwhile.
//!
//! Not asserted: 1, which each function that changes them keeps.

use std::path::{Path, PathBuf};

use block::file::{Access, DiskFile};
use duramen_settings::{RaidSettings, Settings};
use raid::label::{Id, Label, Standing, have_in_sync};
use serde::{Deserialize, Serialize};
use server::control::Refused;
use server::reactor::elsewhere;

use super::{Orders, refusal};
use crate::failure::Failure;
use crate::folder::real_place;
use crate::held_folder::HeldFolder;
use crate::members::{Member, is_spare, real};
use crate::volume::{SETTINGS_NAME, change_settings};
use crate::words;

/// The disk to remove from the lists: by its slot, or by its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::sets) enum Removed {
    Slot(usize),
    Path(PathBuf),
}

impl Orders {
    /// Removes a path from the lists: of a spare, of a member that is out, or of a disk that no
    /// longer exists.
    pub(in crate::sets) async fn remove(&self, removed: Removed) -> Result<(), Refused> {
        let turn = self.open.list_turn.acquire(1).await;
        if self.is_busy.get() {
            return Err(refusal("a member is being made: wait for its end"));
        }
        let path = match removed {
            Removed::Slot(slot) => self.path_of(slot)?,
            Removed::Path(path) => real_place(&path),
        };
        let is_it = |one: &PathBuf| real_place(one) == path;
        let [mut listed, mut spares] =
            [&self.open.listed, &self.open.spares].map(|list| list.borrow().clone());
        if !listed.iter().chain(&spares).any(is_it) {
            return Err(refusal(format_args!("{} is on no list of the set", path.display())));
        }
        let Label { slots, set, .. } = self.open.set.label();
        let is_its = |one: &Member| real_place(&one.path) == path;
        let is_in = |one: &&Member| is_its(one) && have_in_sync(&slots, &one.label.member());
        if let Some(member) = self.open.members.borrow().iter().find(is_in) {
            let (path, slot) = (path.display(), member.label.slot);
            let why =
                format!("{path} is the member of slot {slot}: 'duramen raid fail' comes first");
            return Err(refusal(why));
        }
        let was_spare = spares.iter().any(is_it);
        listed.retain(|one| !is_it(one));
        spares.retain(|one| !is_it(one));
        self.write(&listed, &spares).await.map_err(refusal)?;
        *self.open.listed.borrow_mut() = listed;
        *self.open.spares.borrow_mut() = spares;
        drop(turn);
        self.open.members.borrow_mut().retain(|one| !is_its(one));
        self.open.forget_returned(&path);
        if was_spare {
            self.unmark(path, set).await;
        }
        Ok(())
    }

    /// Last known path of the member of a slot that is out.
    fn path_of(&self, slot: usize) -> Result<PathBuf, Refused> {
        let slots = self.open.set.label().slots;
        let Some(known) = slots.get(slot) else {
            let why = format!("there is no slot {slot}: there are 0 to {}", slots.len() - 1);
            return Err(Refused::Senseless(why + "; a spare is named by its path"));
        };
        if known.standing == Standing::InSync {
            let why = format!("slot {slot} has a good member: 'duramen raid fail' comes first");
            return Err(refusal(why));
        }
        let members = self.open.members.borrow();
        let its = members.iter().find(|one| one.label.member() == known.member);
        let unknown = format!("where the disk of slot {slot} was is not known: name its path");
        its.map(|its| real_place(&its.path)).ok_or_else(|| refusal(unknown))
    }

    /// Removes the spare label from a disk, if the disk is present. Otherwise the next start would
    /// take it for a spare that was moved.
    async fn unmark(&self, path: PathBuf, set: Id) {
        let place = path.clone();
        let opened = elsewhere(move || {
            is_spare(&place, &set).then(|| DiskFile::open(&place, Access::ReadWrite))
        });
        let unmarked = match opened.await {
            None => return,
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(disk)) => {
                let device = (self.device)(disk.large_past_cache());
                let forgot = raid::forget_spare(&*device).await.map_err(|error| error.to_string());
                let _ = device.close().await; // the change of its label is durable
                forgot
            }
        };
        if let Err(why) = unmarked {
            let path = path.display();
            words::say(format_args!("{path}: it still says that it is a spare: {why}"));
        }
    }

    /// Lists the path of a new member for the next start. The old member leaves the list now if it
    /// is `gone`, or else when the new one is complete.
    pub(super) async fn put_on_list(
        &self,
        new: Id,
        path: &Path,
        (slot, gone): (usize, Option<Id>),
    ) -> Result<(), Failure> {
        let _turn = self.open.list_turn.acquire(1).await;
        let mut listed = self.open.listed.borrow().clone();
        listed.retain(|one| real(one) != path);
        listed.push(path.to_owned());
        let spares = self.open.spares.borrow().clone();
        self.write(&listed, &spares).await?;
        *self.open.listed.borrow_mut() = listed;
        let mut label = Label { slot, ..self.open.set.label() };
        label.slots[slot].member = new;
        let mut members = self.open.members.borrow_mut();
        members.retain(|member| real(&member.path) != path);
        members.push(Member {
            path: path.to_owned(),
            label,
            is_listed: true,
            is_overwritten: false,
        });
        drop(members);
        gone.into_iter().for_each(|old| self.unlist(old));
        Ok(())
    }

    /// Removes a member from the spares.
    pub(super) async fn is_no_spare(&self, member: Id) {
        let _turn = self.open.list_turn.acquire(1).await;
        self.unlist_spare(member);
    }

    fn unlist_spare(&self, member: Id) {
        let members = self.open.members.borrow();
        let its = members.iter().find(|known| known.label.member() == member);
        let Some(path) = its.map(|its| real(&its.path)) else { return };
        self.open.spares.borrow_mut().retain(|spare| real(spare) != path);
    }

    /// Records that a member is complete.
    pub(in crate::sets) async fn is_made(&self, member: Id, replaced: Option<Id>) {
        let _turn = self.open.list_turn.acquire(1).await;
        self.unlist_spare(member);
        replaced.into_iter().for_each(|old| self.unlist(old));
        self.note().await;
    }

    /// Removes a member from the list, and forgets its disk.
    fn unlist(&self, member: Id) {
        let mut members = self.open.members.borrow_mut();
        let its = members.extract_if(.., |known| known.label.member() == member);
        let its: Vec<PathBuf> = its.map(|known| real(&known.path)).collect();
        self.open.listed.borrow_mut().retain(|path| {
            !its.contains(&real(path))
                || members.iter().any(|known| real(&known.path) == real(path))
        });
    }

    /// Writes the present lists. A failure is only reported: the disks are searched for anyway.
    pub(super) async fn note_list(&self) {
        let _turn = self.open.list_turn.acquire(1).await;
        self.note().await;
    }

    pub(super) async fn note(&self) {
        let [listed, spares] =
            [&self.open.listed, &self.open.spares].map(|list| list.borrow().clone());
        if let Err(failure) = self.write(&listed, &spares).await {
            words::say(format_args!("{failure}; it says where the disks were before"));
        }
    }

    /// Writes these lists. Other settings in the file, and paths that a user has added to its lists
    /// since they were read, are kept.
    pub(super) async fn write(
        &self,
        members: &[PathBuf],
        spares: &[PathBuf],
    ) -> Result<(), Failure> {
        let Some(folder) = self.open.folder.clone() else { return Ok(()) };
        let (set, noted) = (self.open.set.label().set, self.open.noted.borrow().clone());
        let new = [members.to_vec(), spares.to_vec()];
        let lists = new.clone();
        let work = move || {
            change_settings(&folder, |now| with_lists(now, &set, (&noted, &lists), &folder))
        };
        elsewhere(work).await?;
        self.open.noted.replace(new);
        Ok(())
    }
}

/// The settings with the lists of a set that were `noted` before and are `new` now.
///
/// # Errors
/// [`Failure::NotDone`] if the settings are those of another set.
fn with_lists(
    settings: Settings,
    set: &Id,
    (noted, new): (&[Vec<PathBuf>; 2], &[Vec<PathBuf>; 2]),
    folder: &HeldFolder,
) -> Result<Settings, Failure> {
    let Some(there) = settings.raid.filter(|there| there.set == *set) else {
        let path = folder.path_of(SETTINGS_NAME.as_ref());
        let why = "it names another set of disks by now, or none, and stays as it is".to_owned();
        return Err(Failure::NotDone { path, why });
    };
    let raid = RaidSettings {
        members: merged(there.members, &noted[0], &new[0]),
        spares: merged(there.spares, &noted[1], &new[1]),
        ..there
    };
    Ok(Settings { raid: Some(raid), ..settings })
}

/// Merges a list: the paths now in the file, without those that were noted before and are gone, and
/// with the new ones.
fn merged(there: Vec<PathBuf>, noted: &[PathBuf], new: &[PathBuf]) -> Vec<PathBuf> {
    let has_gone = |path: &PathBuf| noted.contains(path) && !new.contains(path);
    let mut list: Vec<PathBuf> = there.into_iter().filter(|path| !has_gone(path)).collect();
    for path in new {
        if !list.iter().any(|one| real(one) == real(path)) {
            list.push(path.clone());
        }
    }
    list
}
