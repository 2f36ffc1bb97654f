//! When a change may reach the platter: the one thing in which the policies differ.
//!
//! | policy | a delta may land when | at commit | after a crash |
//! |---|---|---|---|
//! | `sync` | its rank is reached | rank by rank, a flush between | check, then serve |
//! | `log` | its entry is durable | one log write and flush for all that wait | replay |
//! | `softdep` | what it depends on is durable | push the chain of dependencies | serve, reclaim |
//! | `fastfsck` | its marks are durable and its rank is reached | as `sync` | check what was busy |
//!
//! `sync` is built; the others have their place in this trait. All of them get the same: the items
//! of an Update with their intents, already applied to the buffers, in the order in which the
//! Updates were staged.

pub mod sync;

use std::rc::Rc;

use futures::future::LocalBoxFuture;
use vfs::{Ledger, Lost, Sequence};

use crate::buffer::Buffer;
use crate::update::{Intent, Item};

/// What the policy keeps of an item: which buffer has its delta, and its meaning.
pub struct Staged {
    /// The buffer that holds the delta, unless the item was payload.
    pub buffer: Option<Rc<Buffer>>,
    /// The rank that [`Policy::rank`] gave it.
    pub rank: u8,
}

/// A way to make Updates durable in an order that survives a crash.
pub trait Policy: Ledger {
    /// The sequence that the next Update will get.
    fn next_sequence(&self) -> Sequence;

    /// Ranks the items of an Update, in their order; called before they are applied.
    fn rank(&self, items: &[Item]) -> Vec<u8>;

    /// Takes an Update whose items have been applied. Cannot fail and does not wait.
    fn stage(&self, sequence: Sequence, items: Vec<Staged>);

    /// Everything up to this sequence is durable.
    fn durable_through(&self) -> Sequence;

    /// Whether a write failed: nothing becomes durable any more.
    fn has_stopped(&self) -> bool;

    /// Waits until all that is staged is home, writing what was changed without a delta too.
    fn settle(&self) -> LocalBoxFuture<'static, Result<(), Lost>>;

    /// The rule by name, for people.
    fn name(&self) -> &'static str;
}

/// Whether a change makes things appear or replaces one by another, and takes nothing away by
/// itself.
pub fn is_constructive(intent: Intent) -> bool {
    !matches!(
        intent,
        Intent::EntryDropped
            | Intent::LinkDropped
            | Intent::SizeCleared
            | Intent::PointerCleared
            | Intent::MapGivenBack
    )
}
