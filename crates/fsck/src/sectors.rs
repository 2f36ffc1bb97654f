//! Which sectors the disk does not give back, and what is known of each: see `unreadable`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;

use block::{IoError, Verb};

/// So many sectors may fail.
const LIMIT: usize = 10_000;
/// What Linux says of a medium: EIO, ENODATA, EILSEQ, ETIMEDOUT, EREMOTEIO.
const MEDIUM: [i32; 5] = [5, 61, 84, 110, 121];

/// A sector that cannot be read.
struct Sector {
    error: IoError,
    /// It belongs to the file system's own structures.
    wanted: bool,
    /// There is a finding about it.
    told: bool,
}

/// All of them, by first byte.
#[derive(Default)]
pub(super) struct Unreadable {
    sectors: BTreeMap<u64, Sector>,
}

impl Unreadable {
    /// Whether any lies in a range.
    pub(super) fn any(&self, range: Range<u64>, unit: u64) -> bool {
        self.sectors.range(range.start.saturating_sub(unit - 1)..range.end).next().is_some()
    }

    /// Takes note of a sector that could not be read.
    ///
    /// # Errors
    /// The same again, when it tells of more than a bad sector, or there are too many.
    pub(super) fn add(&mut self, sector: u64, error: IoError) -> Result<(), IoError> {
        if !is_of_the_medium(&error) || self.sectors.len() >= LIMIT {
            return Err(error);
        }
        self.sectors.insert(sector, Sector { error, wanted: false, told: false });
        Ok(())
    }

    /// What lies in a range belongs to the file system's own structures.
    pub(super) fn want(&mut self, range: Range<u64>, unit: u64) {
        let range = range.start.saturating_sub(unit - 1)..range.end;
        self.sectors.range_mut(range).for_each(|(_, sector)| sector.wanted = true);
    }

    /// What the disk said first.
    pub(super) fn first(&self) -> Option<IoError> {
        self.sectors.values().next().map(|sector| sector.error.clone())
    }

    /// What is wanted in a range, and there is no finding about yet.
    pub(super) fn take(&mut self, range: Range<u64>) -> Vec<(u64, IoError)> {
        let new = self.sectors.range_mut(range).filter(|(_, sector)| sector.wanted && !sector.told);
        new.map(|(&byte, sector)| {
            sector.told = true;
            (byte, sector.error.clone())
        })
        .collect()
    }
}

/// Whether a read failed because of what was to be read, and not of the whole disk.
pub(super) fn is_of_the_medium(error: &IoError) -> bool {
    error.verb == Verb::Read
        && match error.code {
            Some(code) => MEDIUM.contains(&code),
            None => error.kind == ErrorKind::Other,
        }
}
