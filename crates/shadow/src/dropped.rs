//! Pointers that lead to other blocks than they say: a repair removes them from their trees.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::FsError;

use crate::format::FAN;
use crate::format::pointer::WIDTH;
use crate::nodes::{Nodes, Stem};

/// Removes such pointers from the trees of a superblock.
///
/// # Errors
/// [`FsError::Io`] for a block that cannot be read, and may come back.
pub(crate) async fn drop_all_wrong(nodes: &Nodes) -> Result<(), FsError> {
    for stem in [Stem::Map, Stem::Answers, Stem::Inodes, Stem::Snapshots] {
        drop_wrong(nodes, &stem, nodes.height(&stem), 0, WIDTH as u64).await?;
    }
    Ok(())
}

/// Removes such pointers from a tree; returns whether there were any.
///
/// # Errors
/// As [`drop_all_wrong`].
pub(crate) fn drop_wrong<'s>(
    nodes: &'s Nodes,
    stem: &'s Stem,
    level: u8,
    first: u64,
    count: u64,
) -> LocalBoxFuture<'s, Result<bool, FsError>> {
    async move {
        let mut has_dropped = false;
        for index in first..first + count {
            let Some(parent) = nodes.parent(stem, level, index).await? else { continue };
            match nodes.get(stem, level, index).await {
                Ok(Some(_)) if level > 0 => {
                    has_dropped |= drop_wrong(nodes, stem, level - 1, index * FAN, FAN).await?;
                }
                Ok(_) => {}
                Err(error) if !stem.goes_without(error) => return Err(error),
                Err(_) => {
                    nodes.drop_child(&parent, index);
                    nodes.mark_parent(&parent);
                    has_dropped = true;
                }
            }
        }
        Ok(has_dropped)
    }
    .boxed_local()
}
