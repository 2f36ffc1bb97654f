//! Wrong parts of trees that a repair removes: pointers that lead to other blocks than they say,
//! impossible inodes, and names of missing files.

use std::collections::BTreeSet;

use directory::chunk;
use directory::entry::{CHUNK_SIZE, EntryHeader};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::FsError;

use crate::format::head::Head;
use crate::format::inode::Record;
use crate::format::pointer::WIDTH;
use crate::format::{CHUNKS, FAN, INODES, is_number};
use crate::layout::Disk;
use crate::node::{Node, Stem};
use crate::nodes::{Nodes, Which};

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

/// Clears inodes that make no sense.
pub async fn clear_senseless<D: Disk>(nodes: &Nodes<D>) {
    let mut next = 0;
    while let Some(block) = nodes.leaf_from(&Stem::Inodes, None, next, Which::First).await {
        next = block + 1;
        let Ok(Some(home)) = nodes.get(&Stem::Inodes, 0, block).await else { continue };
        for slot in 0..INODES {
            let has_number = is_number(block * INODES + slot);
            let makes_sense =
                |record: &Record| record.is_free() || has_number && record.facts().is_some();
            if !home.inode(slot, makes_sense) {
                home.change(|bytes| Record::of_mut(bytes, slot).clear());
                nodes.mark(&home);
            }
        }
    }
}

/// Removes the names of missing files from directories.
pub async fn drop_names<D: Disk>(nodes: &Nodes<D>, directories: &[u64], gone: &BTreeSet<u64>) {
    for &ino in directories {
        let home = nodes.get(&Stem::Inodes, 0, ino / INODES).await;
        let Ok(Some(home)) = home else { continue };
        let stem = Stem::File(ino, home, ino % INODES);
        let mut next = 0;
        while let Some(leaf) = nodes.leaf_from(&stem, None, next, Which::First).await {
            next = leaf + 1;
            let Ok(Some(node)) = nodes.get(&stem, 0, leaf).await else { continue };
            let places = names_in(&node, gone);
            if !places.is_empty() {
                node.change(|bytes| {
                    places.iter().for_each(|&at| EntryHeader::at_mut(bytes, at).inode.set(0));
                });
                nodes.mark(&node);
            }
        }
    }
}

/// Positions of names of these files in a block of names.
fn names_in(node: &Node, gone: &BTreeSet<u64>) -> Vec<usize> {
    node.read(|bytes| {
        let starts = (size_of::<Head>()..).step_by(CHUNK_SIZE).take(CHUNKS as usize);
        let of_chunk = |start: usize| {
            let entries = chunk::entries(&bytes[start..start + CHUNK_SIZE]).filter_map(Result::ok);
            let is_one = |it: &chunk::Entry<'_>| {
                it.is_live() && gone.contains(&it.ino.into()) && !matches!(it.name, b"." | b"..")
            };
            entries.filter(is_one).map(|it| start + it.offset).collect::<Vec<_>>()
        };
        starts.flat_map(of_chunk).collect()
    })
}
