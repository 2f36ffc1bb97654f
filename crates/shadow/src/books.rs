//! Reading the engine's own books: the records since the last fold, the map of space with its log,
//! and the replies.
//!
//! Memory, or the trees, have everything that is in the map, its log and the records. So a rotten
//! block of these does not keep a volume from being opened: see [`crate::renew`]. A check and a
//! repair accept no such block.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use block::{BlockDevice, IoError};
use bytes::Bytes;
use cow::format::head::is;
use cow::found_pins::pieces_left;
use cow::mend::mend;
use cow::{Head, Place, Run, Secret, Stem, sum};
use vfs::{FsError, LoggedReply};

use crate::anchors::read_unit;
use crate::error::OpenError;
use crate::fold::answers_in;
use crate::format::MAPPED;
use crate::format::anchor::Shape;
use crate::format::kind;
use crate::format::record::{self, Change};
use crate::format::superblock::Superblock;
use crate::planted::{Bug, is_planted};
use crate::room::ring;
use crate::runs::Unfolded;
use crate::space::Space;
use crate::space_log::{self, Log};
use crate::units::{LOG, MAP, Nodes};

/// Blocks of the map, or of replies, that are read at once.
pub(crate) const AT_ONCE: usize = 4096;

/// The contents of the records since the last fold, in order.
///
/// # Errors
/// [`OpenError::Damaged`] if one of them is another block.
pub(crate) async fn read_records(
    device: &dyn BlockDevice,
    shape: &Shape,
    superblock: &Superblock,
    secret: &Secret,
) -> Result<Unfolded, OpenError> {
    match read_records_left(device, shape, superblock, secret).await? {
        (unfolded, true) => Ok(unfolded),
        _ => Err(OpenError::Damaged("a record is not what its pointer says")),
    }
}

/// The same for the newest records, as far as they can be read; and whether these are all.
///
/// # Errors
/// Those of the device.
pub(crate) async fn read_records_left(
    device: &dyn BlockDevice,
    shape: &Shape,
    superblock: &Superblock,
    secret: &Secret,
) -> Result<(Unfolded, bool), IoError> {
    let (mut blocks, mut is_all) = (Vec::new(), true);
    let mut next = superblock.record;
    while !next.is_null() {
        let unit = next.address.get();
        let may_be = (blocks.len() as u32) < superblock.records && shape.may_hold(&Run::of(unit));
        let mut block = if may_be { Some(read_unit(device, unit).await?) } else { None };
        if block.as_ref().is_some_and(|block| sum(block) != next.sum.get()) {
            block = mend(device, next.offset(), next.sum.get(), 1).await;
        }
        let is_it = |block: &[u8]| {
            let index = cow::format::head::index(block);
            let place = Place { kind: kind::RECORD, owner: 0, level: 0, index };
            is(block, place, next.birth.get(), secret)
        };
        let read = block.filter(|block| is_it(block)).and_then(|block| record::read(&block));
        let Some(read) = read else {
            is_all = false;
            break;
        };
        next = read.previous;
        blocks.push((unit, read));
    }
    let mut unfolded = Unfolded::default();
    for (unit, read) in blocks.into_iter().rev() {
        let answers = read.answers.into_iter().map(Into::into);
        unfolded.extend(read.changes, answers.collect());
        unfolded.units.push(unit);
    }
    Ok((unfolded, is_all))
}

/// Reads the units in use into `space`: those of the map, then of the log, which is returned, and
/// then of the records.
///
/// # Errors
/// [`OpenError`] if a block cannot be read, or makes no sense.
pub(crate) async fn read_map(
    nodes: &Nodes,
    space: &Space,
    superblock: &Superblock,
    unfolded: &Unfolded,
) -> Result<Log, OpenError> {
    let (log, lost) = read_map_left(nodes, space, superblock, unfolded).await?;
    if lost.is_empty() { Ok(log) } else { Err(OpenError::Failed(FsError::Corrupt)) }
}

/// The same as far as blocks can be read, and the lost leaves of the map: none of their units is in
/// use yet. If a block of the log is lost, all leaves are.
///
/// # Errors
/// [`OpenError`] if something makes no sense, or the disk fails.
pub(crate) async fn read_map_left(
    nodes: &Nodes,
    space: &Space,
    superblock: &Superblock,
    unfolded: &Unfolded,
) -> Result<(Log, BTreeSet<u64>), OpenError> {
    let damaged = |is_right: bool| {
        let wrong = OpenError::Damaged("the map of space does not fit the records");
        if is_right { Ok(()) } else { Err(wrong) }
    };
    let leaves: Vec<u64> = (0..space.shape().units.div_ceil(MAPPED)).collect();
    let blocks = superblock.log_blocks.clone();
    let log = match read_log(nodes, space.shape(), blocks.clone()).await {
        Err(OpenError::Failed(error)) if LOG.goes_without(error) => {
            return Ok((Log::from(space.shape(), blocks.end), leaves.into_iter().collect()));
        }
        log => log?,
    };
    let mut lost = BTreeSet::new();
    for some in leaves.chunks(AT_ONCE) {
        let (read, of_these) = pieces_left(nodes, &MAP, some).await?;
        lost.extend(of_these);
        for (leaf, bytes) in read {
            damaged(space.take_mapped(leaf * MAPPED, &bytes[size_of::<Head>()..]))?;
        }
    }
    let known = |run: Run| {
        let whole =
            |leaf: u64| (leaf * MAPPED).max(run.start)..((leaf + 1) * MAPPED).min(run.end());
        let leaves = run.start / MAPPED..=run.end().saturating_sub(1) / MAPPED;
        if lost.is_empty() || !space.shape().may_hold(&run) {
            return vec![run]; // an impossible run is reported as it is
        }
        let known = leaves.filter(|leaf| !lost.contains(leaf)).map(whole);
        let run = |units: Range<u64>| Run { start: units.start, length: units.end - units.start };
        known.map(run).collect()
    };
    for (run, is_used) in log.lines().filter(|_| !is_planted(Bug::UnreadLog)) {
        let mut runs = known(run).into_iter();
        damaged(runs.all(|run| space.take_logged(run, is_used)))?;
    }
    space.count();
    for change in &unfolded.changes {
        let mut runs = known(change.run()).into_iter();
        damaged(runs.all(|run| match *change {
            Change::Taken(_) => space.take(run),
            Change::Freed(_) => space.try_free(run),
            Change::Died(..) => space.shape().may_hold(&run) && space.has_all(run),
        }))?;
    }
    Ok((log, lost))
}

/// Reads the space log.
async fn read_log(nodes: &Nodes, shape: &Shape, blocks: Range<u64>) -> Result<Log, OpenError> {
    let damaged = || OpenError::Damaged("the space log makes no sense");
    let ring = space_log::ring(shape);
    let count = blocks.end.checked_sub(blocks.start);
    let count = count.filter(|&count| count <= ring && blocks.end >> 48 == 0);
    let mut log = Log::from(shape, blocks.start);
    let mut places = Vec::new();
    places.extend((0..count.ok_or_else(damaged)?).map(|at| (blocks.start % ring + at) % ring));
    for some in places.chunks(AT_ONCE) {
        let read = nodes.pieces(&LOG, some).await?;
        for place in some {
            let lines = read.get(place).and_then(|bytes| crate::format::log::read(bytes));
            log.push(&lines.ok_or_else(damaged)?);
        }
    }
    Ok(log)
}

/// The remembered replies, the oldest first.
///
/// # Errors
/// [`OpenError`] if a block cannot be read, or makes no sense.
pub(crate) async fn read_answers(
    nodes: &Nodes,
    shape: &Shape,
    superblock: &Superblock,
    unfolded: &Unfolded,
) -> Result<Vec<LoggedReply>, OpenError> {
    let (answers, lost) = read_answers_left(nodes, shape, superblock, unfolded).await?;
    if lost.is_empty() { Ok(answers) } else { Err(OpenError::Failed(FsError::Corrupt)) }
}

/// The same as far as blocks can be read, and the places in the ring of lost blocks. A hole has no
/// replies: it was below a block of pointers that was lost.
///
/// # Errors
/// [`OpenError`] if a reply makes no sense, or the disk fails.
pub(crate) async fn read_answers_left(
    nodes: &Nodes,
    shape: &Shape,
    superblock: &Superblock,
    unfolded: &Unfolded,
) -> Result<(Vec<LoggedReply>, Vec<u64>), OpenError> {
    let ring = ring(shape);
    let begun = superblock.answers_begun;
    let damaged = OpenError::Damaged("an answer makes no sense");
    if begun >> 48 != 0 || superblock.answers_from > begun {
        return Err(damaged);
    }
    let first = begun.saturating_sub(ring).max(superblock.answers_from);
    let (mut answers, mut lost): (Vec<Vec<u8>>, Vec<u64>) = (Vec::new(), Vec::new());
    let places: Vec<u64> = (first..begun).map(|index| index % ring).collect();
    for some in places.chunks(AT_ONCE) {
        let (read, of_these) = pieces_left(nodes, &Stem::Answers, some).await?;
        let read: BTreeMap<u64, Bytes> = read.into_iter().collect();
        for at in some.iter().filter(|at| !of_these.contains(at)) {
            match read.get(at).map(|bytes| answers_in(bytes)) {
                Some(Some(of_block)) => answers.extend(of_block),
                None if !is_planted(Bug::RefusedHoles) => {}
                _ => return Err(damaged),
            }
        }
        lost.extend(of_these);
    }
    answers.extend(unfolded.answers.iter().map(|answer| answer.to_vec()));
    let read: Option<Vec<LoggedReply>> =
        answers.iter().map(|answer| vnode::answer::read(answer)).collect();
    Ok((read.ok_or(damaged)?, lost))
}
