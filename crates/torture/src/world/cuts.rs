//! Effects of cuts on an engine over memory.

/// Counts of cuts with an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Cuts that took something.
    pub taking: u64,
    /// Cuts that left something not acknowledged to any client.
    pub keeping: u64,
}

impl Cuts {
    /// Adds one more cut.
    pub fn and(self, cut: ram::Cut) -> Self {
        Self {
            taking: self.taking + u64::from(cut.taken > 0),
            keeping: self.keeping + u64::from(cut.kept > 0),
        }
    }

    /// The sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self { taking: self.taking + other.taking, keeping: self.keeping + other.keeping }
    }
}
