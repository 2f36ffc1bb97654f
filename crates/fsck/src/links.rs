//! Link counts: a file has as many links as names.

use ufs2::layout::MAX_LINKS;

use super::Severity::{Loss, Repairable};
use super::{CheckError, Checker, Invariant, Place};

impl Checker<'_> {
    pub(super) async fn settle_links(&mut self) -> Result<(), CheckError> {
        let wrong = |slot: &super::table::Slot| u32::from(slot.links) != slot.names;
        // Files without a name here could not be given one.
        let files = self.table.iter().filter(|(_, slot)| slot.names > 0 && wrong(slot));
        let files: Vec<_> = files.map(|(ino, slot)| (ino, *slot)).collect();
        for (ino, slot) in files {
            let place = Place::inode(ino);
            let invariant = Invariant::LinkCount;
            let (found, expected) = (slot.links, slot.names);
            if slot.names > MAX_LINKS {
                self.log.leave(invariant, Loss, place, found, expected);
            } else if self.log.find(invariant, Repairable, place, found, expected, "set") {
                let mut dinode = self.read_inode(ino).await?;
                dinode.links.set(slot.names as u16);
                self.put_inode(ino, &mut dinode).await?;
            }
        }
        Ok(())
    }
}
