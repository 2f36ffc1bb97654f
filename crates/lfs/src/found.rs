//! Reading the root of a volume: its head, its newest region, and the table.

use block::{BlockDevice, Buffer};
use bytes::Bytes;
use cow::{Secret, UNIT, sum};
use futures::future::join_all;

use crate::error::OpenError;
use crate::format::VERSION;
use crate::format::head::VolumeHead;
use crate::format::region::Region;
use crate::format::shape::Shape;
use crate::format::table::{self, Line, ROWS};
use crate::planted::{Bug, is_planted};

/// Units of the table that are read at once.
const PIECE: u64 = 64;

/// The root of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) head: VolumeHead,
    pub(crate) region: Region,
    /// Which of the two regions it is.
    pub(crate) turn: u64,
}

/// A unit of the disk; none if it cannot be read.
pub(crate) async fn unit(device: &dyn BlockDevice, place: u64) -> Option<Buffer> {
    device.read(place * UNIT as u64, Buffer::unfilled(UNIT)).await.ok()
}

/// The head of a volume, from either end of its disk.
pub(crate) async fn head(device: &dyn BlockDevice) -> Result<VolumeHead, OpenError> {
    let size = device.geometry().size;
    let units = size / UNIT as u64;
    if units < 2 {
        return Err(OpenError::NoVolume);
    }
    let read = device.read(0, Buffer::unfilled(UNIT)).await;
    let first = match &read {
        Ok(block) => VolumeHead::read(block),
        Err(_) => None,
    };
    let head = match first {
        Some(head) => head,
        None => match unit(device, units - 1).await.and_then(|block| VolumeHead::read(&block)) {
            Some(head) if head.shape.units == units => head,
            _ => return Err(read.err().map_or(OpenError::NoVolume, OpenError::Io)),
        },
    };
    if !head.is_whole {
        return Err(OpenError::Unfinished);
    }
    if head.version != VERSION {
        return Err(OpenError::Version(head.version));
    }
    if !head.shape.is_legal() {
        return Err(OpenError::Damaged("its sizes make no sense"));
    }
    if units < head.shape.units {
        let volume = head.shape.units * UNIT as u64;
        return Err(OpenError::CutOff { volume, disk: size });
    }
    Ok(head)
}

/// The root of a volume.
pub(crate) async fn root(device: &dyn BlockDevice) -> Result<Root, OpenError> {
    let head = head(device).await?;
    let mut found: Vec<(u64, Region)> = Vec::new();
    for turn in [0, 1] {
        for place in head.shape.regions(turn) {
            let block = unit(device, place).await;
            let region = block.and_then(|block| Region::read(&block, turn, &head.secret));
            found.extend(region.map(|region| (turn, region)));
        }
    }
    let newest = found.iter().max_by_key(|(_, region)| region.number).cloned();
    let (turn, region) = newest.ok_or(OpenError::NoRegion)?;
    if region.rows > head.shape.rows() {
        return Err(OpenError::Damaged("its root has more rows than there may be"));
    }
    Ok(Root { head, region, turn })
}

/// The table of a checkpoint.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) lines: Vec<Line>,
    /// Copies of blocks that are not as this checkpoint has them, or that no flush may have
    /// covered: their places, and right bytes.
    pub(crate) stale: Vec<(u64, Bytes)>,
    /// The highest checkpoint that wrote a block.
    pub(crate) highest: u64,
    /// A part of it is lost.
    pub(crate) is_lost: bool,
}

/// Reads the table. The later of the two copies of a block counts, unless it is of a later
/// checkpoint.
///
/// # Errors
/// [`OpenError::Damaged`] if a part is lost, unless `gives_up`.
pub(crate) async fn table(
    device: &dyn BlockDevice,
    root: &Root,
    gives_up: bool,
) -> Result<Table, OpenError> {
    let Root { head, region, .. } = root;
    let blocks = region.rows.div_ceil(ROWS as u64);
    let mut table = Table::default();
    let mut sums = 0_u64;
    for first in (0..blocks).step_by(PIECE as usize) {
        let end = (first + PIECE).min(blocks);
        let copies = read_copies(device, &head.shape, first..end).await;
        for block in first..end {
            let at = (block - first) as usize * UNIT;
            let units = copies.each_ref().map(|copy| copy.as_ref().map(|it| &it[at..at + UNIT]));
            let both = units.map(|unit| {
                let bytes = unit?;
                decoded(bytes, block, &head.secret).map(|(number, lines)| (number, lines, bytes))
            });
            let numbers = both.iter().flatten().map(|(number, ..)| *number);
            table.highest = table.highest.max(numbers.max().unwrap_or(0));
            let counts = both.iter().flatten().filter(|(at, ..)| *at <= region.number);
            let newest = counts.max_by_key(|(number, ..)| *number);
            let Some((number, lines, right)) = newest else {
                table.is_lost = true;
                table.lines.extend([Line::default(); ROWS]);
                continue;
            };
            table.lines.extend(lines);
            sums = sums.wrapping_add(if *number == region.number { sum(right) } else { 0 });
            // The second copy of a block of the newest checkpoint may be in a cache alone.
            let is_doubted = *number == region.number;
            for (copy, unit) in units.into_iter().enumerate() {
                if unit != Some(*right) || copy == 1 && is_doubted {
                    let place = head.shape.tables()[copy] + block;
                    table.stale.push((place, Buffer::copied(right).freeze()));
                }
            }
        }
    }
    table.lines.truncate(region.rows as usize);
    // An earlier version of a block is no version.
    table.is_lost |= sums != region.table && !is_planted(Bug::EarlierLines);
    if table.is_lost && !gives_up {
        return Err(OpenError::Damaged("a part of the table is lost"));
    }
    Ok(table)
}

/// Decodes a block of the table. One of zeros was never written: nothing in it is in use.
fn decoded(bytes: &[u8], block: u64, secret: &Secret) -> Option<(u64, Vec<Line>)> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Some((0, vec![Line::default(); ROWS]));
    }
    table::read(bytes, block, secret)
}

async fn read_copies(
    device: &dyn BlockDevice,
    shape: &Shape,
    blocks: std::ops::Range<u64>,
) -> [Option<Buffer>; 2] {
    let length = (blocks.end - blocks.start) as usize * UNIT;
    let read = shape
        .tables()
        .map(|first| device.read((first + blocks.start) * UNIT as u64, Buffer::unfilled(length)));
    let mut all = join_all(read).await.into_iter().map(Result::ok);
    [all.next().flatten(), all.next().flatten()]
}
