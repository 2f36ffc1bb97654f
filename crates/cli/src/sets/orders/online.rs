//! Returns of members that are out, on a user's order.
//!
//! A member that was missing when the set was opened returns by itself as soon as its disk appears.
//! A member that is out after an error or a user's order does not: its disk may fail again, and
//! only a person knows whether it was repaired. It returns like any other member: the set knows
//! which writes it has missed, and copies them ([`raid::Set::rebuild`]).
//!
//! The disk is opened anew: the set's own handle may be stale.
//!
//! **A crash here means**: the label of the disk says that it catches up, and those of the others
//! may: then the next start continues with it. Or no label says so, and the member is out as
//! before.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use raid::assembly::has_gone_on_without;
use raid::label::{Id, Label, Standing};
use server::control::Refused;
use server::reactor::elsewhere;

use super::{BUSY, Orders, Replacing, refusal};
use crate::members::{Member, find_member, open_member, real};
use crate::stack::Returned;
use crate::words;

impl Orders {
    /// Looks for members that were missing when the set was opened: one that has been plugged in
    /// since then returns like any other.
    pub(in crate::sets) async fn find_late(&self) {
        let Label { slots, set, .. } = self.open.set.label();
        let is_out = |&slot: &usize| slots[slot].standing == Standing::Stale;
        self.open.late.borrow_mut().retain(is_out);
        let late: Vec<usize> = self.open.late.borrow().iter().copied().collect();
        let known: Vec<PathBuf> =
            self.open.members.borrow().iter().map(|member| real(&member.path)).collect();
        let listed = self.open.listed.borrow().clone();
        for slot in late {
            let member = slots[slot].member;
            for path in listed.iter().filter(|path| !known.contains(&real(path))) {
                let place = path.clone();
                let look = move || open_member(&place, &set, &member);
                let Some(Some((found, disk))) = self.look_at(path, look).await else { continue };
                if !self.open.listed.borrow().contains(path) {
                    continue; // it was removed meanwhile
                }
                self.open.late.borrow_mut().remove(&slot);
                if has_gone_on_without(&found.label, &self.open.set.label()) {
                    words::say(format_args!(
                        "{}: {}",
                        self.volume.path.display(),
                        apart(&found.path, slot)
                    ));
                    break;
                }
                let device = (self.device)(disk.large_past_cache());
                let path = found.path.clone();
                self.open.members.borrow_mut().push(found);
                self.open.has_returned(Returned { slot, member, path, device });
                break;
            }
        }
    }

    /// Prepares the disk of the member of a slot, which is out by then, for its resync. Without a
    /// path the disk is searched for at the members' paths in the settings. No other rebuild begins
    /// until this one has ended.
    pub(in crate::sets) async fn begin_return(
        &self,
        slot: usize,
        path: Option<&Path>,
    ) -> Result<Replacing, Refused> {
        if self.is_busy.replace(true) {
            return Err(refusal(BUSY));
        }
        self.prepare_return(slot, path).await.inspect_err(|_| self.is_busy.set(false))
    }

    async fn prepare_return(&self, slot: usize, path: Option<&Path>) -> Result<Replacing, Refused> {
        let known = self.made_again(slot)?;
        if known.standing == Standing::InSync {
            return Err(refusal(format_args!("the member of slot {slot} is in already")));
        }
        let (set, member) = (self.open.set.label().set, known.member);
        let places = path.map_or_else(|| self.places_of(&member), |path| vec![path.to_owned()]);
        let mut found = Vec::new();
        for place in &places {
            let path = place.clone();
            let look = move || find_member(&path, &set, &member);
            found.extend(self.look_at(place, look).await.flatten());
        }
        let found = found.into_iter().max_by_key(Member::age); // the others are copies
        let found = found.ok_or_else(|| not_found(slot, &places))?;
        if has_gone_on_without(&found.label, &self.open.set.label()) {
            return Err(refusal(apart(&found.path, slot)));
        }
        // The list comes first: if it cannot be written, the disk stays open as a source.
        self.put_back_on_list(found.clone()).await?;
        let device = self.open_returning(slot, &found).await?;
        if let Err(error) = self.open.set.fits(&*device) {
            return Err(refusal(format_args!("{}: {error}", found.path.display())));
        }
        self.open.late.borrow_mut().remove(&slot);
        Ok(Replacing { slot, device, member, replaced: None, offline: None, is_new: false })
    }

    /// Possible paths of a member: the paths on the list, and its last known path.
    fn places_of(&self, member: &Id) -> Vec<PathBuf> {
        let mut places = self.open.listed.borrow().clone();
        let members = self.open.members.borrow();
        let its = members.iter().filter(|one| one.label.member() == *member);
        for place in its.map(|its| &its.path) {
            if !places.iter().any(|one| real(one) == real(place)) {
                places.push(place.clone());
            }
        }
        places
    }

    /// Opens the disk that was found for a slot, and checks again that it is the member.
    async fn open_returning(
        &self,
        slot: usize,
        found: &Member,
    ) -> Result<Rc<dyn BlockDevice>, Refused> {
        let place = real(&found.path);
        if let Some(returned) = self.open.take_returned(slot, &place) {
            return Ok(returned.device); // it has been opened since it went out
        }
        self.let_go(slot).await; // it may be the same disk
        self.open.release(&place).await;
        let opened = elsewhere(move || DiskFile::open(&place, Access::ReadWrite)).await;
        let device = (self.device)(opened.map_err(refusal)?.large_past_cache());
        let Label { set, .. } = found.label;
        let its = raid::labels_of(&*device).await;
        let is_it = its.is_ok_and(|its| {
            its.label.set == set
                && its.label.member() == found.label.member()
                && !its.is_overwritten
        });
        if !is_it {
            let _ = device.close().await; // nothing was written
            return Err(not_found(slot, std::slice::from_ref(&found.path)));
        }
        Ok(device)
    }

    /// Updates the list with the path of a member, if it is not on the list.
    async fn put_back_on_list(&self, found: Member) -> Result<(), Refused> {
        let _turn = self.open.list_turn.acquire(1).await;
        let (place, member) = (real(&found.path), found.label.member());
        let is_other = |one: &Member| one.label.member() != member && real(&one.path) != place;
        let mut listed = self.open.listed.borrow().clone();
        if !listed.iter().any(|one| real(one) == place) {
            let known = self.open.members.borrow().clone();
            let its = known.iter().filter(|one| one.label.member() == member);
            let its: Vec<PathBuf> = its.map(|one| real(&one.path)).collect();
            let has_other = |at: &PathBuf| {
                known.iter().filter(|one| is_other(one)).any(|one| real(&one.path) == *at)
            };
            listed.retain(|one| !its.contains(&real(one)) || has_other(&real(one)));
            listed.push(found.path.clone());
            let spares = self.open.spares.borrow().clone();
            self.write(&listed, &spares).await.map_err(refusal)?;
        }
        let mut members = self.open.members.borrow_mut();
        members.retain(is_other);
        members.push(found);
        drop(members);
        self.open.listed.replace(listed);
        Ok(())
    }
}

/// Refuses the order because none of these disks has the member of the slot.
fn not_found(slot: usize, places: &[PathBuf]) -> Refused {
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let places = places.join(", ");
    refusal(format_args!("no disk with the member of slot {slot} was found; looked at {places}"))
}

/// A disk was used apart from the set as it is served: a rebuild would overwrite what it alone has.
fn apart(disk: &Path, slot: usize) -> String {
    let disk = disk.display();
    format!(
        "{disk} was used apart from the other disks, and may have data that they lack: it stays \
         out. The next start offers the choice between the two. To give up the data of {disk} now, \
         use 'duramen raid replace VOLUME {slot} {disk} --force'"
    )
}
