//! Bugs planted in this thread, of the engine and of the crates below it.

use ffs::planted::Bug as FfsBug;
use vnode::planted::Bug as VnodeBug;

/// A planted bug, with the crate that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Planted {
    Ffs(FfsBug),
    Vnode(VnodeBug),
    Cache(cache::planted::Bug),
    Journal(journal::Bug),
}

impl From<FfsBug> for Planted {
    fn from(bug: FfsBug) -> Self {
        Self::Ffs(bug)
    }
}

impl From<VnodeBug> for Planted {
    fn from(bug: VnodeBug) -> Self {
        Self::Vnode(bug)
    }
}

/// Plants a bug, which replaces any other.
pub(crate) fn plant(bug: impl Into<Planted>) {
    unplant();
    match bug.into() {
        Planted::Ffs(bug) => ffs::planted::plant(Some(bug)),
        Planted::Vnode(bug) => vnode::planted::plant(Some(bug)),
        Planted::Cache(bug) => cache::planted::plant(Some(bug)),
        Planted::Journal(bug) => journal::plant(Some(bug)),
    }
}

/// Removes whatever is planted.
pub(crate) fn unplant() {
    ffs::planted::plant(None);
    vnode::planted::plant(None);
    cache::planted::plant(None);
    journal::plant(None);
}
