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
//! 2. While a disk leaves the lists, no disk begins to become a member: it might be the same.
//!
//! Not asserted: 1, which each function that changes them keeps; 2, which a type reserves
//! ([`Reserved`]).

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

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

/// The right to make a disk a member, held by a task that makes none: until it is dropped, nobody
/// makes one.
struct Reserved(Rc<Cell<bool>>);

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Orders {
    /// Removes a path from the lists: of a spare, of a member that is out, or of a disk that no
    /// longer exists.
    pub(in crate::sets) async fn remove(&self, removed: Removed) -> Result<(), Refused> {
        let turn = self.open.list_turn.acquire(1).await;
        if self.is_busy.replace(true) {
            return Err(refusal("a member is being made: wait for its end"));
        }
        let reserved = Reserved(self.is_busy.clone());
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
        self.open.members.borrow_mut().retain(|one| !is_its(one));
        self.open.forget_returned(&path);
        drop((turn, reserved)); // the disk may hang
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
    /// take it for a spare that was moved. A disk that is on a list again by now has its label for
    /// another reason.
    async fn unmark(&self, path: PathBuf, set: Id) {
        let place = path.clone();
        let opened = elsewhere(move || {
            is_spare(&place, &set).then(|| DiskFile::open(&place, Access::ReadWrite))
        });
        let unmarked = match opened.await {
            None => return,
            Some(Err(_)) if self.is_on_a_list(&path) => return,
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(disk)) => {
                let device = (self.device)(disk.large_past_cache());
                // It is open for this task alone: what it is now, it stays.
                let is_spare = raid::spare_of(&*device).await == Ok(Some(set));
                let forgot = if is_spare && !self.is_on_a_list(&path) {
                    raid::forget_spare(&*device).await.map_err(|error| error.to_string())
                } else {
                    Ok(())
                };
                let _ = device.close().await; // the change of its label is durable
                forgot
            }
        };
        if let Err(why) = unmarked {
            let path = path.display();
            words::say(format_args!("{path}: it still says that it is a spare: {why}"));
        }
    }

    /// Whether a path is on a list of the set.
    fn is_on_a_list(&self, path: &Path) -> bool {
        let has = |list: &RefCell<Vec<PathBuf>>| list.borrow().iter().any(|one| real(one) == path);
        has(&self.open.listed) || has(&self.open.spares)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use block::Durability;
    use clap::Parser;
    use futures::future::join;

    use super::*;
    use crate::mkfs;
    use crate::mkfs_arguments::MkfsArguments;
    use crate::sets::change;
    use crate::stack::Stack;
    use crate::volume::Volume;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: MkfsArguments,
    }

    /// A folder of a test, which goes with it.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("it is ours");
        }
    }

    /// A mirror whose second member has missed a write and is back, and the path of that.
    fn with_one_out(scratch: &Scratch) -> (Volume, PathBuf) {
        fs::create_dir_all(scratch.0.join("drawer")).expect("there is room");
        let names = ["volume", "one", "other", "drawer/away"];
        let [volume, one, other, away] = names.map(|name| scratch.0.join(name));
        for disk in [&one, &other] {
            let file = fs::File::create(disk).expect("there is room");
            file.set_len(64 << 20).expect("it is sparse");
        }
        let words = ["mkfs".as_ref(), &*volume, "--raid1".as_ref(), &*one, &*other];
        let Line { arguments } = Line::parse_from(words.into_iter().chain(["--sparse".as_ref()]));
        mkfs::run(&arguments, &mut Vec::new()).expect("the disks are empty");
        let volume = Volume::find(&volume).expect("it was made");
        fs::rename(&other, &away).expect("it is there");
        let write = async |_: &Orders, stack: &Stack| {
            let written = stack.disk.write(0, vec![vec![0; 4096].into()], Durability::Through);
            written.await.map_err(refusal)
        };
        change(&volume, write).expect("the other one is in");
        fs::rename(&away, &other).expect("it is there");
        (volume, real(&other))
    }

    #[test]
    fn a_disk_that_leaves_the_lists_does_not_become_a_member_meanwhile() {
        for is_removed_first in [true, false] {
            let name = format!("duramen-lists-{is_removed_first}-{}", std::process::id());
            let scratch = Scratch(std::env::temp_dir().join(name));
            let (volume, disk) = with_one_out(&scratch);
            let both = async |orders: &Orders, _: &Stack| {
                let remove = orders.remove(Removed::Path(disk.clone()));
                let begin = orders.begin(1, &disk, false);
                let (removed, begun) = if is_removed_first {
                    join(remove, begin).await
                } else {
                    let (begun, removed) = join(begin, remove).await;
                    (removed, begun)
                };
                let why = [removed.clone().err(), begun.as_ref().err().cloned()];
                let done = (removed.is_ok(), begun.is_ok());
                assert_eq!(done, (is_removed_first, !is_removed_first), "{why:?}");
                if let Ok(replacing) = begun {
                    let (member, replaced) = (replacing.member, replacing.replaced);
                    let made = replacing.carry_out(&orders.open.set, |_, _| ()).await;
                    made.expect("nothing fails");
                    orders.is_made(member, replaced).await;
                }
                let slot = orders.open.set.label().slots[1];
                Ok(slot.standing == Standing::InSync)
            };
            let is_in = change(&volume, both).expect("nothing fails");
            let settings = fs::read_to_string(volume.path.join(SETTINGS_NAME));
            let is_listed =
                settings.expect("it is a volume").contains(disk.to_str().expect("text"));
            assert_eq!((is_in, is_listed), (!is_removed_first, !is_removed_first));
        }
    }
}
