//! A bug that tests plant, to show that it would be found.
//!
//! Without the feature `planted-bugs` it cannot be planted, and nothing of this remains.

use std::cell::Cell;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What only looks is answered without waiting for what it has seen.
    UnwaitedLooks,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants the bug in all namespaces of this thread, or removes it.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    cfg!(feature = "planted-bugs") && PLANTED.get() == Some(bug)
}
