//! Bugs that tests plant, to show that they would be found.
//!
//! Without the feature `planted-bugs` none can be planted, and nothing of this remains.

use std::cell::Cell;

/// Defines the bugs, and the list of them.
macro_rules! bugs {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// A rule of the namespace that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$about])* $name,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

bugs! {
    /// What only looks is answered without waiting for what it has seen.
    UnwaitedLooks,
    /// What changes something is answered without a receipt.
    UnreceiptedReplies,
    /// GETATTR is answered without a receipt.
    UnreceiptedAttributes,
    /// LOOKUP and READ are answered without a receipt.
    UnreceiptedNames,
    /// COMMIT is answered without a receipt.
    UnreceiptedCommits,
    /// SETATTR lets its file go before the new size is there.
    DroppedLock,
    /// WRITE does without the lock of its file.
    UnlockedWrites,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in all namespaces of this thread, or removes it.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    cfg!(feature = "planted-bugs") && PLANTED.get() == Some(bug)
}
