//! Data whose write failed, and which readers may see all the same.
//!
//! A write that fails leaves its place old, new or torn. What is new there readers see, though no
//! flush covers it; and an older entry of a log may hold something else of that place, and bring
//! that back. Whoever wrote was told so, and the verifier is another. But a COMMIT says of all that
//! a READ before it has shown that it is durable. So it writes such blocks anew, as readers see
//! them, by the same rules as all payload, or says that it cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use ufs2::map::block_count;
use vfs::FsError;

use super::write_back::PAGES_PER_UPDATE;
use crate::doubts::{Doubt, Doubts, MOST_BLOCKS, MOST_FILES};
use crate::engine::Ffs;
use crate::inode::Node;
use crate::item::Budget;
use crate::pages::Content;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

impl Ffs {
    /// A write of these blocks has failed.
    pub(super) fn doubt(&self, node: &Rc<Node>, blocks: impl Iterator<Item = u64>) {
        let mut blocks = blocks.peekable();
        if blocks.peek().is_none() {
            return;
        }
        let new = || Doubt { _node: node.clone(), blocks: BTreeSet::new(), are_many: false };
        let mut doubts = self.doubts.borrow_mut();
        let doubt = doubts.files.entry(node.ino).or_insert_with(new);
        doubt.blocks.extend(blocks);
        if doubt.blocks.len() > MOST_BLOCKS {
            doubt.blocks.clear();
            doubt.are_many = true;
        }
        if doubts.are_many || doubts.files.len() > MOST_FILES {
            *doubts = Doubts { are_many: true, ..Doubts::default() };
        }
    }

    /// Writes anew what is in doubt of these blocks, none of which has a page. Under the exclusive
    /// lock.
    ///
    /// # Errors
    /// [`FsError::Io`], and those of reading them; then they stay in doubt.
    pub(crate) async fn settle_doubts(
        &self,
        node: &Rc<Node>,
        range: Range<u64>,
    ) -> Result<(), FsError> {
        if is_planted(Bug::ForgottenDoubts) {
            return Ok(());
        }
        while let Some(some) = self.doubted(node, range.clone())? {
            let mut set = BTreeMap::new();
            let size = node.dinode().size.get();
            for &lbn in &some {
                let is_inside = lbn < block_count(self.geometry(), size);
                if !is_inside {
                    continue;
                }
                let place = self.map().find(node, None, lbn).await?;
                if place != 0 {
                    let data = self.block_data(node, lbn).await?;
                    let changed = 0..data.len();
                    set.insert(lbn, Content { from: 0, data, changed, place: Some(place) });
                }
            }
            if !set.is_empty() {
                let update = Update::new(Budget::Reserved);
                self.write_blocks(update, node, &mut set, size, |_| (), &mut ()).await?;
            }
            self.believe(node, &some);
        }
        Ok(())
    }

    /// Some of these blocks that are in doubt, if any are.
    fn doubted(&self, node: &Node, range: Range<u64>) -> Result<Option<Vec<u64>>, FsError> {
        let doubts = self.doubts.borrow();
        match doubts.files.get(&node.ino) {
            _ if doubts.are_many => Err(FsError::Io),
            Some(doubt) if doubt.are_many => Err(FsError::Io),
            Some(doubt) => {
                let some = doubt.blocks.range(range).take(PAGES_PER_UPDATE);
                Ok(Some(some.copied().collect()).filter(|some: &Vec<u64>| !some.is_empty()))
            }
            None => Ok(None),
        }
    }

    /// What readers see of these blocks will be durable with the file.
    fn believe(&self, node: &Node, blocks: &[u64]) {
        let mut doubts = self.doubts.borrow_mut();
        let Some(doubt) = doubts.files.get_mut(&node.ino) else { return };
        blocks.iter().for_each(|lbn| _ = doubt.blocks.remove(lbn));
        if doubt.blocks.is_empty() {
            doubts.files.remove(&node.ino);
        }
    }
}
