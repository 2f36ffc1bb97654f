//! Unreadable sectors, and the facts about each: see `unreadable`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;

use block::{IoError, Verb};

/// The most sectors that may fail.
const LIMIT: usize = 10_000;
/// Linux error numbers of a bad medium: EIO, ENODATA, EILSEQ, ETIMEDOUT, EREMOTEIO.
const MEDIUM: [i32; 5] = [5, 61, 84, 110, 121];

/// An unreadable sector.
struct Sector {
    error: IoError,
    /// It is part of the file system's own structures.
    wanted: bool,
    /// A finding reports it.
    told: bool,
}

/// All unreadable sectors, by first byte.
#[derive(Default)]
pub(super) struct Unreadable {
    sectors: BTreeMap<u64, Sector>,
}

impl Unreadable {
    /// Whether any lies in a range.
    pub(super) fn any(&self, range: Range<u64>, unit: u64) -> bool {
        self.sectors.range(range.start.saturating_sub(unit - 1)..range.end).next().is_some()
    }

    /// Notes a sector that could not be read.
    ///
    /// # Errors
    /// The given error, when it means more than a bad sector, or there are too many.
    pub(super) fn add(&mut self, sector: u64, error: IoError) -> Result<(), IoError> {
        if !is_of_the_medium(&error) || self.sectors.len() >= LIMIT {
            return Err(error);
        }
        self.sectors.insert(sector, Sector { error, wanted: false, told: false });
        Ok(())
    }

    /// Marks a range as part of the file system's own structures.
    pub(super) fn want(&mut self, range: Range<u64>, unit: u64) {
        let range = range.start.saturating_sub(unit - 1)..range.end;
        self.sectors.range_mut(range).for_each(|(_, sector)| sector.wanted = true);
    }

    /// The first error of the disk.
    pub(super) fn first(&self) -> Option<IoError> {
        self.sectors.values().next().map(|sector| sector.error.clone())
    }

    /// The wanted sectors in a range without a finding; marks them as reported.
    pub(super) fn take(&mut self, range: Range<u64>) -> Vec<(u64, IoError)> {
        let new = self.sectors.range_mut(range).filter(|(_, sector)| sector.wanted && !sector.told);
        new.map(|(&byte, sector)| {
            sector.told = true;
            (byte, sector.error.clone())
        })
        .collect()
    }
}

/// Whether a read failed because of the sectors, and not of the whole disk.
pub(super) fn is_of_the_medium(error: &IoError) -> bool {
    error.verb == Verb::Read
        && match error.code {
            Some(code) => MEDIUM.contains(&code),
            None => error.kind == ErrorKind::Other,
        }
}
