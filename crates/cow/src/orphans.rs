//! Files without a name in the tree of a snapshot: they were being freed when it was made.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::FsError;
use vnode::chain::Chain;

use crate::chains::CHAINS;
use crate::format::INODES;
use crate::layout::Disk;
use crate::node::{Node, Stem};
use crate::nodes::Nodes;

/// The files without a name in a tree, in blocks of inodes that this update or a later one wrote:
/// the update in which a file lost its name wrote its block.
///
/// # Errors
/// [`FsError::Io`] for a block that cannot be read, and may come back.
pub async fn orphans_since<D: Disk>(
    nodes: &Nodes<D>,
    stem: &Stem,
    update: u64,
) -> Result<Vec<Chain>, FsError> {
    let mut found = Vec::new();
    below(nodes, stem, None, update, &mut found).await?;
    found.truncate(CHAINS); // on a damaged volume a repair handles the others
    Ok(found)
}

fn below<'a, D: Disk>(
    nodes: &'a Nodes<D>,
    stem: &'a Stem,
    above: Option<Rc<Node>>,
    update: u64,
    found: &'a mut Vec<Chain>,
) -> LocalBoxFuture<'a, Result<(), FsError>> {
    async move {
        let (parent, level, places) = nodes.below(stem, above.as_ref());
        for index in places {
            let pointer = nodes.child_of(&parent, index);
            if pointer.is_null() || pointer.birth.get() < update {
                continue; // nothing below it is younger
            }
            let node = match nodes.get(stem, level, index).await {
                Err(FsError::Corrupt) => continue, // its files are lost
                node => node?.ok_or(FsError::Corrupt)?,
            };
            if level > 0 {
                below(nodes, stem, Some(node), update, found).await?;
            } else {
                found.extend(nameless_of(&node));
            }
            nodes.relieve();
        }
        Ok(())
    }
    .boxed_local()
}

/// The files without a name whose inodes are in a block.
fn nameless_of(home: &Rc<Node>) -> impl Iterator<Item = Chain> {
    let of = |slot| {
        let facts = home.inode(slot, |record| record.facts().filter(|_| !record.is_free()))?;
        let ino = home.place.index * INODES + slot;
        (facts.links == 0).then_some(Chain { ino, generation: facts.generation, size: None })
    };
    (0..INODES).filter_map(of)
}
