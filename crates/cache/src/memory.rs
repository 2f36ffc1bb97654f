//! Counts memory that several things take from one budget.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes of memory for things that are kept. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Meter(Rc<Cell<usize>>);

impl Meter {
    /// How many there are.
    pub fn bytes(&self) -> usize {
        self.0.get()
    }

    /// More are kept.
    pub fn add(&self, bytes: usize) {
        self.0.set(self.0.get() + bytes);
    }

    /// Fewer are kept.
    ///
    /// # Panics
    /// When more is subtracted than was added.
    pub fn subtract(&self, bytes: usize) {
        self.0.set(self.0.get().checked_sub(bytes).expect("only what was added is subtracted"));
    }
}
