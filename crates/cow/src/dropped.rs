//! Pointers that lead to other blocks than they say: a repair removes them from their trees.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::FsError;

use crate::format::FAN;
use crate::format::pointer::WIDTH;
use crate::layout::Disk;
use crate::node::Stem;
use crate::nodes::Nodes;

/// Removes such pointers from these trees.
///
/// # Errors
/// [`FsError::Io`] for a block that cannot be read, and may come back.
pub async fn drop_all_wrong<D: Disk>(nodes: &Nodes<D>, stems: &[Stem]) -> Result<(), FsError> {
    for stem in stems {
        drop_wrong(nodes, stem, nodes.height(stem), 0, WIDTH as u64).await?;
    }
    Ok(())
}

/// Removes such pointers from a tree; returns whether there were any.
///
/// # Errors
/// As [`drop_all_wrong`].
pub fn drop_wrong<'s, D: Disk>(
    nodes: &'s Nodes<D>,
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
