//! Finds a table of checksums on disks that are not members, when no member gives it.
//!
//! *A table that a present disk can give is never replaced.* But an old version has checksums that
//! older bytes fit, so only a *current* copy counts, one whose disk lacks no version of the table:
//!
//! - that of a member that is in;
//! - that on the new disk of a replacement, once it has got all tables: it gets every write of its
//!   slot, also after the old disk has failed;
//! - that on a disk that is being filled and has all stripes of the table;
//! - that on a disk that was in when all were in last, if it has missed no stripe of the table. A
//!   table that is written in place without a disk counts as missed as well ([`crate::missed`]).
//!
//! Such a copy is *lent*: it becomes the table, and all members get it. A copy that may be older is
//! left alone, unless its disk is being filled.

use std::ops::Range;
use std::rc::Rc;

use block::{BlockDevice, Buffer};

use crate::blocks::BLOCK;
use crate::label::TABLE_PLACES;
use crate::planted::{Bug, is_planted};
use crate::sums::Sums;
use crate::table::{Version, stripes_of};

impl Sums {
    /// Whether the disk that a slot uses has the current version of a table, if there is one.
    pub(crate) fn is_current(&self, slot: usize, number: u64) -> bool {
        let members = &self.members;
        if members.has(slot) {
            return true;
        }
        if members.coming() != Some(slot) || is_planted(Bug::UnlentTables) {
            return false;
        }
        let is_back = members.is_catching_up(slot) && self.missed.is_summed();
        let has = |stripe| members.takes(slot, stripe) || is_back && !self.missed.has(stripe);
        self.copied_to.get() == Some(slot) || self.stripes(number).all(has)
    }

    /// The latest of the current versions of a table that disks have which are not members.
    pub(crate) async fn lent(&self, of: usize, number: u64) -> Option<Version> {
        let mut versions = Vec::new();
        for copy in 0..2 {
            let (slot, at) = self.place(of, number, copy);
            for device in self.lenders(slot, number).await {
                for at in (0..TABLE_PLACES).map(|place| at + place * BLOCK) {
                    let room = Buffer::unfilled(BLOCK as usize);
                    if let Some(Ok(bytes)) = self.members.ask(&device, at, room).await {
                        versions.extend(Version::decode(&bytes, &self.set, of, number));
                    }
                }
            }
        }
        versions.into_iter().max_by_key(|version| version.number)
    }

    /// The disks of a slot that are not members and have the current version of a table.
    async fn lenders(&self, slot: usize, number: u64) -> Vec<Rc<dyn BlockDevice>> {
        let members = &self.members;
        if is_planted(Bug::UnlentTables) {
            return Vec::new();
        }
        let incoming = members.incoming(slot).filter(|_| self.copied_to.get() == Some(slot));
        let mut lenders: Vec<_> = incoming.into_iter().collect();
        let is_known = self.missed.is_known() && self.missed.is_summed();
        let has_missed = self.stripes(number).any(|stripe| self.missed.has(stripe));
        if !is_known || has_missed && !is_planted(Bug::OldTables) {
            return lenders;
        }
        let is_used = members.has(slot) || members.coming() == Some(slot);
        let own = members.present(slot).filter(|_| !is_used);
        for device in own.into_iter().chain(members.bystanders(slot)) {
            let label = members.ask_label(&device).await;
            if label.is_some_and(|label| self.missed.names_all_that_lacks(&label, slot)) {
                lenders.push(device);
            }
        }
        lenders
    }

    /// The stripes whose checksums are in a table.
    fn stripes(&self, number: u64) -> Range<u64> {
        let all = stripes_of(number, self.layout.unit);
        all.start..all.end.min(self.layout.rows)
    }
}
