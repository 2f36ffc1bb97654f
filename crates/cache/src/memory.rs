//! Counts memory that several owners take from one budget.

use std::cell::Cell;
use std::rc::Rc;

/// A byte count of held memory. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Meter(Rc<Cell<usize>>);

impl Meter {
    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.0.get()
    }

    /// Adds bytes.
    pub fn add(&self, bytes: usize) {
        self.0.set(self.0.get() + bytes);
    }

    /// Subtracts bytes.
    ///
    /// # Panics
    /// When more is subtracted than was added.
    pub fn subtract(&self, bytes: usize) {
        self.0.set(self.0.get().checked_sub(bytes).expect("only what was added is subtracted"));
    }
}
