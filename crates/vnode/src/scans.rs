//! Directories whose names are being read: one task reads them, and the others wait for it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use runtime::sync::Signal;

/// See the module's prose.
#[derive(Default)]
pub(crate) struct Scans {
    under_way: RefCell<BTreeSet<u64>>,
    pub(crate) ended: Signal,
}

impl Scans {
    /// Takes the right to read the names of a directory, unless another task reads them.
    pub(crate) fn begin(&self, ino: u64) -> Option<Scanning<'_>> {
        let first = self.under_way.borrow_mut().insert(ino);
        // Made only by the first: dropped, it would end the scan of another.
        first.then(|| Scanning { scans: self, ino })
    }
}

/// The right to read the names of a directory; dropped, it lets the next task begin.
pub(crate) struct Scanning<'a> {
    scans: &'a Scans,
    ino: u64,
}

impl Drop for Scanning<'_> {
    fn drop(&mut self) {
        self.scans.under_way.borrow_mut().remove(&self.ino);
        self.scans.ended.notify();
    }
}
