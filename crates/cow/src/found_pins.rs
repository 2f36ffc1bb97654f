//! The snapshots of a volume, as an opening finds them.

use std::collections::BTreeMap;

use bytes::Bytes;
use vfs::FsError;

use crate::format::run::Span;
use crate::format::snapshot::{LINES, LISTS, Line, List, Snapshots, Told};
use crate::layout::Disk;
use crate::node::Stem;
use crate::nodes::Nodes;
use crate::numbers::Occupied;
use crate::pins::{Listing, Pins};

/// Blocks that are read at once.
const AT_ONCE: usize = 1024;

/// The leaves of a tree that can be read, and the lost ones.
///
/// # Errors
/// For a leaf that the tree cannot go without.
pub async fn pieces_left<D: Disk>(
    nodes: &Nodes<D>,
    stem: &Stem,
    leaves: &[u64],
) -> Result<(Vec<(u64, Bytes)>, Vec<u64>), FsError> {
    match nodes.pieces(stem, leaves).await {
        Ok(read) => return Ok((read.into_iter().collect(), Vec::new())),
        Err(error) if stem.goes_without(error) => {}
        Err(error) => return Err(error),
    }
    let (mut left, mut lost) = (Vec::new(), Vec::new());
    for &leaf in leaves {
        match nodes.pieces(stem, &[leaf]).await {
            Ok(read) => left.extend(read),
            Err(error) if stem.goes_without(error) => lost.push(leaf),
            Err(error) => return Err(error),
        }
    }
    Ok((left, lost))
}

/// Blocks of lines that are lost.
#[derive(Clone, Debug, Default)]
pub struct LostLines {
    /// Those of snapshots.
    pub snapshots: Vec<u64>,
    /// Those of lists.
    pub lists: Vec<u64>,
}

/// The snapshots, and the lists of the blocks that they hold, without the lists in lost blocks of
/// lines: their loss costs only the space of the blocks on those lists, until a repair. A snapshot
/// whose line is lost would be lost itself: no opening gives one up, and `gives_up` is for checks
/// and repairs. None if the fields make no sense on a volume of so many units whose last update is
/// `newest`.
///
/// # Errors
/// If a block cannot be read.
pub async fn read_pins<D: Disk>(
    nodes: &Nodes<D>,
    said: &Snapshots,
    (units, newest): (u64, u64),
    gives_up: bool,
) -> Result<Option<(Pins, LostLines)>, FsError> {
    if !said.makes_sense(units) {
        return Ok(None);
    }
    let (all, of_snapshots) = read_lines(nodes, said).await?;
    if !of_snapshots.is_empty() && !gives_up {
        return Err(FsError::Corrupt);
    }
    let Some(all) = all else { return Ok(None) };
    let Some((lists, lost)) = read_lists(nodes, said, units).await? else { return Ok(None) };
    let updates = || all.values().map(|(told, _): &(Told, u64)| told.update);
    let do_rise = updates().zip(updates().skip(1)).all(|(one, next)| one < next);
    let is_last = all.last_key_value().is_none_or(|(&number, _)| number <= said.last);
    let are_there = updates().all(|update| update <= newest);
    if !(do_rise && is_last && are_there) {
        return Ok(None);
    }
    let mut died = Occupied::default();
    nodes.note_leaves(&Stem::Died, None, said.died_slots, &mut died).await;
    let lost = LostLines { snapshots: of_snapshots, lists: lost };
    Ok(Some((Pins::new(said, all, lists, died), lost)))
}

async fn read_lines<D: Disk>(
    nodes: &Nodes<D>,
    said: &Snapshots,
) -> Result<(Option<BTreeMap<u64, (Told, u64)>>, Vec<u64>), FsError> {
    let (mut all, mut lost) = (BTreeMap::new(), Vec::new());
    let blocks: Vec<u64> = (0..said.line_slots.div_ceil(LINES)).collect();
    for some in blocks.chunks(AT_ONCE) {
        let (read, of_these) = pieces_left(nodes, &Stem::Snapshots, some).await?;
        lost.extend(of_these);
        for (block, bytes) in read {
            for slot in block * LINES..(block + 1) * LINES {
                let Ok(told) = Line::read(&bytes, slot) else { return Ok((None, lost)) };
                let is_new = told.is_none_or(|told| {
                    let is_there = slot < said.line_slots;
                    let sizes = [told.files, told.directories, told.units, told.nodes];
                    let are_small = sizes.iter().all(|&size| size >> 48 == 0);
                    is_there && are_small && all.insert(told.number, (told, slot)).is_none()
                });
                if !is_new {
                    return Ok((None, lost));
                }
            }
        }
    }
    Ok((Some(all), lost))
}

async fn read_lists<D: Disk>(
    nodes: &Nodes<D>,
    said: &Snapshots,
    units: u64,
) -> Result<Option<(BTreeMap<Span, Listing>, Vec<u64>)>, FsError> {
    let (mut lists, mut lost) = (BTreeMap::new(), Vec::new());
    let blocks: Vec<u64> = (0..said.list_slots.div_ceil(LISTS)).collect();
    for some in blocks.chunks(AT_ONCE) {
        let (read, of_these) = pieces_left(nodes, &Stem::Lists, some).await?;
        lost.extend(of_these);
        for (block, bytes) in read {
            for slot in block * LISTS..(block + 1) * LISTS {
                let list = List::read(&bytes, slot);
                let is_new = list.is_none_or(|list| {
                    let Span { first, end } = list.span;
                    let is_span = 0 < first && first < end && end <= said.last + 1;
                    let is_small = list.units <= units
                        && list.last < said.died_slots
                        && slot < said.list_slots;
                    let listing = Listing { slot, list };
                    is_span && is_small && lists.insert(list.span, listing).is_none()
                });
                if !is_new {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some((lists, lost)))
}
