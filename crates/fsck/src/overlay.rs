//! The disk as it will be: its contents, with all decided repairs over them.
//!
//! A check reads through the overlay and puts its repairs into it, so that a later pass, or the
//! whole next round, sees the disk as if it were repaired. Nothing reaches the disk before
//! [`Overlay::write`]; a check without repair never calls it.
//!
//! There are three ways to read, which differ in how they treat an unreadable sector: for `read` it
//! is zeros that will be written, for `probe` zeros that will not, for `read_data` an error. See
//! `unreadable`.
//!
//! # Stages
//! Repairs are written in stages with a flush between: first blocks that nothing on the disk points
//! at, then all else, and last the superblock, which marks the disk as sound. So a crash never
//! leaves a pointer to a block that was not filled. No other order is needed, because no repair
//! needs two sectors to change together: each stage may be cut anywhere, and a new check of the
//! result comes to the same disk.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::ops::Range;

use block::{BlockDevice, Buffer, Durability, IoError};
use futures::stream::{self, StreamExt, TryStreamExt};
use ufs2::layout::{SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM};

use super::sectors::{Unreadable, is_of_the_medium};
use crate::planted::{Bug, is_planted};

/// The unit that the disk writes atomically, in bytes.
const SECTOR: u64 = 512;
/// Writes in flight at once.
const WRITES_IN_FLIGHT: usize = 64;
/// The most bytes in one write.
const LONGEST_WRITE: usize = 1 << 20;

/// The point at which a sector is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It is in a block that nothing on the disk points at.
    Fresh,
    /// It is in use.
    InPlace,
    /// It is part of the superblock.
    Superblock,
}

/// The stage of a sector on the disk.
fn stage_of(sector: u64) -> Stage {
    let superblock = SUPERBLOCK_ADDRESS..SUPERBLOCK_ADDRESS + SUPERBLOCK_ROOM;
    if superblock.contains(&sector) { Stage::Superblock } else { Stage::InPlace }
}

struct Sector {
    stage: Stage,
    content: Box<[u8]>,
}

/// The disk with repairs over it.
pub(super) struct Overlay<'a> {
    device: &'a dyn BlockDevice,
    sectors: BTreeMap<u64, Sector>,
    unreadable: RefCell<Unreadable>,
    /// Every unreadable sector is an error.
    strict: bool,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(device: &'a dyn BlockDevice) -> Self {
        Self { device, sectors: BTreeMap::new(), unreadable: RefCell::default(), strict: false }
    }

    /// For a caller that cannot use a disk with a missing sector.
    pub(super) fn strict(device: &'a dyn BlockDevice) -> Self {
        Self { strict: true, ..Self::new(device) }
    }

    /// Bytes of the disk.
    pub(super) fn size(&self) -> u64 {
        self.device.geometry().size
    }

    /// Whether there is anything to write.
    pub(super) fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// Reads whole sectors of the file system's own structures.
    pub(super) async fn read(&self, address: u64, length: usize) -> Result<Buffer, IoError> {
        let buffer = self.probe(address, length).await?;
        self.want(address..address + length as u64);
        Ok(buffer)
    }

    /// Reads whole sectors that may hold anything.
    pub(super) async fn probe(&self, address: u64, length: usize) -> Result<Buffer, IoError> {
        let mut buffer = self.salvage(address, length).await?;
        self.show(address, &mut buffer);
        Ok(buffer)
    }

    /// Reads whole sectors whose contents have no substitute.
    pub(super) async fn read_data(&self, address: u64, length: usize) -> Result<Buffer, IoError> {
        let mut buffer = self.device.read(address, Buffer::zeroed(length)).await?;
        self.show(address, &mut buffer);
        Ok(buffer)
    }

    /// The contents of the disk, with zeros where it cannot be read.
    async fn salvage(&self, address: u64, length: usize) -> Result<Buffer, IoError> {
        if !self.misses(address..address + length as u64) {
            match self.device.read(address, Buffer::zeroed(length)).await {
                Err(error) if !self.strict && is_of_the_medium(&error) => {}
                other => return other,
            }
        }
        let mut whole = Buffer::zeroed(length);
        let unit = self.unit() as usize;
        for (index, part) in whole.chunks_mut(unit).enumerate() {
            let sector = address + (index * unit) as u64;
            if self.misses(sector..sector + unit as u64) {
                continue;
            }
            match self.device.read(sector, Buffer::zeroed(part.len())).await {
                Ok(read) => part.copy_from_slice(&read),
                Err(error) => self.unreadable().add(sector, error)?,
            }
        }
        Ok(whole)
    }

    pub(super) fn unreadable(&self) -> RefMut<'_, Unreadable> {
        self.unreadable.borrow_mut()
    }

    /// Whether any byte of a range could not be read.
    pub(super) fn misses(&self, range: Range<u64>) -> bool {
        self.unreadable().any(range, self.unit())
    }

    /// The same, unless its contents have been decided.
    pub(super) fn lacks(&self, range: Range<u64>) -> bool {
        let first = range.start - range.start % SECTOR;
        let mut sectors = (first..range.end).step_by(SECTOR as usize);
        self.misses(range) && !sectors.all(|sector| self.sectors.contains_key(&sector))
    }

    /// Marks a range as part of the file system's own structures.
    pub(super) fn want(&self, range: Range<u64>) {
        self.unreadable().want(range, self.unit());
    }

    /// Sets an unreadable sector of the device to zeros, except the bytes that were decided before.
    pub(super) fn put_zeros(&mut self, address: u64) {
        for sector in (address..address + self.unit()).step_by(SECTOR as usize) {
            let (stage, content) = (stage_of(sector), vec![0; SECTOR as usize].into());
            self.sectors.entry(sector).or_insert(Sector { stage, content });
        }
    }

    /// Applies the decided repairs to `bytes`, read from byte `address`.
    fn show(&self, address: u64, bytes: &mut [u8]) {
        let end = address + bytes.len() as u64;
        let first = address - address % SECTOR;
        for (&start, sector) in self.sectors.range(first..end) {
            let from = start.max(address);
            let to = (start + SECTOR).min(end);
            bytes[(from - address) as usize..(to - address) as usize]
                .copy_from_slice(&sector.content[(from - start) as usize..(to - start) as usize]);
        }
    }

    /// Sets the contents at byte `address` to `bytes`.
    pub(super) async fn put(&mut self, address: u64, bytes: &[u8]) -> Result<(), IoError> {
        let start = address - address % SECTOR;
        let end = (address + bytes.len() as u64).next_multiple_of(SECTOR);
        let mut whole = self.read_sectors(start, end).await?;
        let offset = (address - start) as usize;
        whole[offset..offset + bytes.len()].copy_from_slice(bytes);
        for (index, content) in whole.chunks_exact(SECTOR as usize).enumerate() {
            let sector = start + index as u64 * SECTOR;
            let stage = self.sectors.get(&sector).map_or(stage_of(sector), |known| known.stage);
            self.sectors.insert(sector, Sector { stage, content: content.into() });
        }
        Ok(())
    }

    /// Fills a block that nothing on the disk points at.
    pub(super) fn put_fresh(&mut self, address: u64, bytes: &[u8]) {
        assert!(address.is_multiple_of(SECTOR), "blocks are whole sectors");
        for (index, content) in bytes.chunks_exact(SECTOR as usize).enumerate() {
            let sector = Sector { stage: Stage::Fresh, content: content.into() };
            self.sectors.insert(address + index as u64 * SECTOR, sector);
        }
    }

    /// Reads from one 512-byte boundary to another, whatever the device's sectors are.
    async fn read_sectors(&self, start: u64, end: u64) -> Result<Vec<u8>, IoError> {
        let unit = self.unit();
        let first = start - start % unit;
        let length = (end.next_multiple_of(unit) - first) as usize;
        let bytes = self.read(first, length).await?;
        let offset = (start - first) as usize;
        Ok(bytes[offset..offset + (end - start) as usize].to_vec())
    }

    fn unit(&self) -> u64 {
        u64::from(self.device.geometry().logical_sector_size).max(SECTOR)
    }

    /// Writes everything, durably: the stages, with a flush after each.
    pub(super) async fn write(&mut self) -> Result<(), IoError> {
        for stage in [Stage::Fresh, Stage::InPlace, Stage::Superblock] {
            let starts = self.runs(stage);
            if starts.is_empty() {
                continue;
            }
            stream::iter(starts)
                .map(|(start, length)| self.write_run(stage, start, length))
                .buffer_unordered(WRITES_IN_FLIGHT)
                .try_collect::<()>()
                .await?;
            if stage != Stage::Superblock && is_planted(Bug::HastyRepairs) {
                continue;
            }
            self.device.flush().await?;
        }
        self.sectors.clear();
        Ok(())
    }

    /// The runs of adjacent sectors of a stage, widened to whole sectors of the device.
    fn runs(&self, stage: Stage) -> Vec<(u64, usize)> {
        let unit = self.unit();
        let mut runs: Vec<(u64, usize)> = Vec::new();
        for (&sector, _) in self.sectors.iter().filter(|(_, known)| known.stage == stage) {
            let start = sector - sector % unit;
            match runs.last_mut() {
                Some((first, length)) if start < *first + *length as u64 => {}
                Some((first, length))
                    if start == *first + *length as u64 && *length < LONGEST_WRITE =>
                {
                    *length += unit as usize;
                }
                _ => runs.push((start, unit as usize)),
            }
        }
        runs
    }

    async fn write_run(&self, stage: Stage, start: u64, length: usize) -> Result<(), IoError> {
        let mut bytes = if self.unit() == SECTOR {
            Buffer::zeroed(length) // all of it is known
        } else if self.misses(start..start + length as u64) {
            self.salvage(start, length).await?
        } else {
            self.device.read(start, Buffer::zeroed(length)).await?
        };
        let range = start..start + length as u64;
        for (&sector, known) in self.sectors.range(range) {
            // A wider sector of the device may hold one of a later stage: that one waits.
            if known.stage <= stage {
                let at = (sector - start) as usize;
                bytes[at..at + SECTOR as usize].copy_from_slice(&known.content);
            }
        }
        self.device.write(start, vec![bytes.freeze()], Durability::Plain).await
    }
}
