//! A member that is out comes back because a person says so.
//!
//! A member that was missing when the set was opened comes back by itself as soon as it is there.
//! One that an error or a person has put out does not: its disk may fail again, and only a person
//! knows whether it was mended. It comes back as any returned member does: the set knows what it
//! has missed, and gives it that ([`raid::Set::rebuild`]).
//!
//! The disk is opened anew: what the set had open of it may lead nowhere since.
//!
//! **A crash here means**: the label of the disk says that it catches up, and those of the others
//! may: then the next start goes on with it. Or none says so, and it is out as before.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, DiskFile};
use raid::label::{Id, Label, Standing};
use server::control::Refused;
use server::reactor::elsewhere;

use super::{BUSY, Orders, Replacing, refusal};
use crate::members::{Member, find_member, real};

impl Orders {
    /// Has the disk of the member of a slot ready to catch up, which is out by then. Without a path
    /// the disk is looked for where the settings have the members. No other is begun until that has
    /// ended.
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
        let found = found.into_iter().max_by_key(Member::age); // others are copies
        let found = found.ok_or_else(|| not_found(slot, &places))?;
        let device = self.open_returning(slot, &found).await?;
        if let Err(error) = self.open.set.fits(&*device) {
            return Err(refusal(format_args!("{}: {error}", found.path.display())));
        }
        self.put_back_on_list(found)?;
        self.open.late.borrow_mut().remove(&slot);
        Ok(Replacing { slot, device, member, replaced: None, offline: None })
    }

    /// Where a member may be: the paths on the list, and where it was seen last.
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

    /// Opens the disk that was found for a slot, and looks once more whether it is the member.
    async fn open_returning(
        &self,
        slot: usize,
        found: &Member,
    ) -> Result<Rc<dyn BlockDevice>, Refused> {
        let place = real(&found.path);
        if let Some(returned) = self.open.take_returned(slot, &place) {
            return Ok(returned.device); // it was opened since it is out
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

    /// Notes where a member is, if the list has it elsewhere.
    fn put_back_on_list(&self, found: Member) -> Result<(), Refused> {
        let (place, member) = (real(&found.path), found.label.member());
        let mut members = self.open.members.borrow().clone();
        members.retain(|one| one.label.member() != member && real(&one.path) != place);
        let mut listed = self.open.listed.borrow().clone();
        if !listed.iter().any(|one| real(one) == place) {
            let before = self.open.members.borrow();
            let its = before.iter().filter(|one| one.label.member() == member);
            let its: Vec<PathBuf> = its.map(|one| real(&one.path)).collect();
            let has_other = |at: &PathBuf| members.iter().any(|one| real(&one.path) == *at);
            listed.retain(|one| !its.contains(&real(one)) || has_other(&real(one)));
            listed.push(found.path.clone());
            self.write(&listed, &self.open.spares.borrow()).map_err(refusal)?;
        }
        members.push(found);
        *self.open.listed.borrow_mut() = listed;
        *self.open.members.borrow_mut() = members;
        Ok(())
    }
}

/// The member of a slot is on none of these disks.
fn not_found(slot: usize, places: &[PathBuf]) -> Refused {
    let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let places = places.join(", ");
    refusal(format_args!("no disk with the member of slot {slot} was found; looked at {places}"))
}
