//! What cuts did to an engine over memory.

/// Cuts that had something to cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// That took something.
    pub taking: u64,
    /// That left something of which no client had been told.
    pub keeping: u64,
}

impl Cuts {
    /// With one more cut.
    pub fn and(self, cut: ram::Cut) -> Self {
        Self {
            taking: self.taking + u64::from(cut.taken > 0),
            keeping: self.keeping + u64::from(cut.kept > 0),
        }
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { taking: self.taking + other.taking, keeping: self.keeping + other.keeping }
    }
}
