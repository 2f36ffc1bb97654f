//! Data whose write failed but which readers may still see.
//!
//! A failed write leaves its blocks old, new or torn. Readers see the new data, though no flush
//! covers it; and an older log entry may hold other data for those blocks, and bring it back. The
//! caller of the write got an error, and the verifier changed. But a COMMIT promises that all data
//! that earlier READs have shown is durable. So it rewrites such blocks, as readers see them, by
//! the same rules as all payload, or fails.

use std::collections::BTreeMap;
use std::ops::Range;

use namespace::AttributeChange;
use vfs::FsError;

use super::write_back::PAGES_PER_UPDATE;
use crate::engine::{Engine, File, Space};
use crate::files::Files;
use crate::pages::{Content, Place};
use crate::planted::{Bug, is_planted};

impl<E: Engine> Files<E> {
    /// Rewrites the suspect blocks among these, none of which has a page. Under the exclusive lock.
    ///
    /// # Errors
    /// [`FsError::Io`], and those of reading the blocks; then they stay suspect.
    pub(crate) async fn settle_doubts(
        &self,
        node: &File<E>,
        range: Range<u64>,
    ) -> Result<(), FsError> {
        if is_planted(Bug::ForgottenDoubts) {
            return Ok(());
        }
        loop {
            let some = self.doubts.borrow().some(node, range.clone(), PAGES_PER_UPDATE)?;
            if some.is_empty() {
                return Ok(());
            }
            let has_page = |lbn: &u64| node.pages.borrow().get(*lbn).is_some();
            debug_assert!(
                !some.iter().any(has_page),
                "invariant 5: no page hides what is in doubt"
            );
            let mut set = BTreeMap::new();
            let size = node.stored_size();
            for &lbn in &some {
                if lbn >= size.div_ceil(self.block_size()) {
                    continue;
                }
                let place = self.engine.place(node, lbn).await?;
                if !matches!(place, Place::Hole) {
                    let data = self.block_data(node, lbn).await?;
                    let changed = 0..data.len();
                    set.insert(
                        lbn,
                        Content { from: 0, data, changed, is_part: false, place: Some(place) },
                    );
                }
            }
            if !set.is_empty() {
                let change = self.plan(Space::Reserved);
                let none = AttributeChange::default();
                self.write_blocks(change, node, &mut set, size, &none, &mut ()).await?;
            }
            self.doubts.borrow_mut().remove(node, &some);
        }
    }
}
