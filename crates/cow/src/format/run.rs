//! Runs of units, and the snapshots that hold dead ones.

/// Adjacent units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The first unit.
    pub start: u64,
    /// Number of units.
    pub length: u64,
}

impl Run {
    /// A single unit.
    pub fn of(start: u64) -> Self {
        Self { start, length: 1 }
    }

    /// Each of its units.
    pub fn units(self) -> impl Iterator<Item = Self> {
        (self.start..self.end()).map(Self::of)
    }

    /// The unit behind the last one, saturating.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

/// The snapshots that hold dead blocks: those that exist with numbers from `first` on and below
/// `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first snapshot that was made after the block was written.
    pub first: u64,
    /// The first snapshot that was made after the block died.
    pub end: u64,
}
