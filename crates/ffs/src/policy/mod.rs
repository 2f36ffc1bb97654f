//! Policies: the rules for when a change may reach the platter.
//!
//! | policy | a delta may land when | at commit | after a crash |
//! |---|---|---|---|
//! | `sync` | its rank is reached | rank by rank, a flush between | check, then serve |
//! | `log` | its entry is durable | one log write and flush for all that wait | replay |
//! | `softdep` | what it depends on is durable | push the chain of dependencies | serve, reclaim |
//! | `fastfsck` | its marks are durable and its rank is reached | as `sync` | check what was busy |
//!
//! `fastfsck` is still to be built. All policies get the same input: the items of an Update with
//! their intents, already applied to the buffers, in the order in which the Updates were staged.
//! Before that a policy may add items of its own ([`Policy::plan`]). An Update may rest on others
//! ([`Manner::rests_on`]): nothing of it lands before these are durable.
//!
//! State that a policy keeps besides the volume, such as a log, is [`Beside`] it.

mod in_place;
pub mod log;
pub mod softdep;
pub mod sync;

use std::rc::Rc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::{CallReply, FsError, Lost, Sequence};
use vnode::Manner;
use vnode::horizon::Horizon;

use crate::buffer::Buffer;
use crate::edit::Extent;
use crate::intents::Evidence;
use crate::item::{Carried, Intent, Item, Subject};
use crate::update::Update;

/// A policy's view of an applied item.
pub struct Staged {
    /// Meaning of the item.
    pub intent: Intent,
    /// Inode or entry that it is about.
    pub subject: Subject,
    /// For an entry, its offset in the buffer, and the inode that it named before; 0 for none.
    pub entry: Option<(usize, u64)>,
    /// The buffer that holds the delta, and the part that was changed, unless the item was payload.
    pub change: Option<(Rc<Buffer>, Extent)>,
    /// Tag from [`Policy::tags`].
    pub tag: u32,
}

impl Staged {
    /// The buffer of an entry, and the offset there.
    fn entry_place(&self) -> Option<(&Rc<Buffer>, usize)> {
        let ((offset, _), (buffer, _)) = (self.entry?, self.change.as_ref()?);
        Some((buffer, offset))
    }

    /// The inode that an entry named before; 0 for none.
    fn named_before(&self) -> u64 {
        self.entry.map_or(0, |(_, before)| before)
    }
}

#[cfg(test)]
impl Staged {
    fn unnamed(intent: Intent, change: Option<(Rc<Buffer>, Extent)>, tag: u32) -> Self {
        Self { intent, subject: Subject::Unnamed, entry: None, change, tag }
    }
}

/// An Update whose items have been applied.
pub struct StagedUpdate {
    /// Items in their order.
    pub items: Vec<Staged>,
    /// Payload by its first fragment.
    pub payload: Vec<(u64, Vec<Bytes>)>,
    /// How the policy handles the payload ([`Beside::carries`]). If it is not delayed, it was
    /// written to the device but not flushed.
    pub carried: Carried,
    /// Freed runs: first fragment and number of fragments.
    pub freed: Vec<(u64, u64)>,
    /// Directory runs that move to another address, with all changes in them. Where Updates become
    /// durable out of order, the Update waits for those that made these changes.
    pub moved: Vec<Rc<Buffer>>,
    /// How the Update is to be carried out.
    pub manner: Manner,
    /// The traces that the Update leaves on the disk, where the policy keeps intents.
    pub evidence: Evidence,
    /// The call answered with the Update, to be remembered where the policy can.
    pub answered: Option<CallReply>,
    /// Bytes that [`Policy::plan`] reserved for the Update.
    pub room: u64,
}

/// Counters and backlog of soft updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftUpdatesCounts {
    /// Writes that a caller waited for.
    pub sync_writes: u64,
    /// Writes that no caller waited for.
    pub async_writes: u64,
    /// Flushes of the disk.
    pub flushes: u64,
    /// Blocks written with some changes undone in the copy.
    pub rollbacks: u64,
    /// Changes that were never written because a later one reversed them.
    pub cancelled: u64,
    /// Updates that are not durable yet.
    pub pending: u64,
    /// Bytes of memory of their undo records.
    pub pending_bytes: u64,
    /// Age of the oldest of them in milliseconds; 0 if there is none.
    pub oldest_ms: u64,
    /// Replies that had to wait for durability.
    pub waits: u64,
}

/// A way to make Updates durable in an order that survives a crash.
pub trait Policy {
    /// The policy's horizon.
    fn horizon(&self) -> &Horizon;

    /// The sequence that the next Update will get.
    fn next_sequence(&self) -> Sequence;

    /// State beside the volume, if any.
    fn beside(&self) -> Option<&dyn Beside> {
        None
    }

    /// The last step of planning an Update. The policy adds its own items, waits until there is
    /// room for the Update, and reserves it; returns the number of bytes. Nothing may be awaited
    /// between this and [`Policy::stage`].
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if no room comes, unless the Update goes on with something that has
    /// begun; [`FsError::Io`] if the volume has stopped.
    fn plan<'a>(&'a self, update: &'a mut Update) -> LocalBoxFuture<'a, Result<u64, FsError>>;

    /// Completes when Updates get no more room until the device below has room.
    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        std::future::pending().boxed_local()
    }

    /// A tag for each item of an Update, in their order, by which the policy knows the delta later.
    /// Called before the items are applied. If `lands_whole`, attributes show together with the
    /// rest of their inode.
    fn tags(&self, items: &[Item], lands_whole: bool) -> Vec<u32>;

    /// Whether the parts of an inode land independently: links as a sum, the extent in order,
    /// attributes at any time. Else the inode lands as a whole, in order.
    fn parts_inodes(&self) -> bool {
        false
    }

    /// Whether the policy needs the on-disk evidence of Updates.
    fn keeps_intents(&self) -> bool {
        false
    }

    /// Whether an intent is judged by this inode. If so, no part of a later change of it may show
    /// before all of it may.
    fn is_evidence(&self, _ino: u64) -> bool {
        false
    }

    /// Takes an Update whose items have been applied. Cannot fail and does not wait. Returns
    /// whether the file that it ends was never on its way to the disk: then the space that it frees
    /// is free.
    fn stage(&self, sequence: Sequence, update: StagedUpdate) -> bool;

    /// Everything up to this sequence is durable.
    fn durable_through(&self) -> Sequence {
        self.horizon().through()
    }

    /// The Update that freed `count` fragments from `address` on is durable. Completes when no
    /// write to them is in flight any more; then they may be reused.
    fn drain_block(&self, address: u64, count: u64) -> LocalBoxFuture<'static, ()>;

    /// Whether a write failed: nothing becomes durable any more.
    fn has_stopped(&self) -> bool {
        self.horizon().has_stopped()
    }

    /// Counters, if the policy is soft updates.
    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        None
    }

    /// Writes buffers that were changed without a delta in place. A failure stops the volume.
    fn write_times(&self) -> LocalBoxFuture<'static, ()> {
        self.settle().map(|_| ()).boxed_local()
    }

    /// Waits until everything staged so far is written in place, and so is everything changed
    /// without a delta so far. Does not wait for later changes.
    fn settle(&self) -> LocalBoxFuture<'static, Result<(), Lost>>;
}

/// State that a policy keeps beside the volume.
pub trait Beside {
    /// Decides how the policy handles this payload of an Update; called once. The policy brings
    /// delayed payload to its place instead of the engine: readers see it there as soon as it is
    /// staged.
    fn carries(&self, _payload: &[(u64, Vec<Bytes>)]) -> Carried {
        Carried::default()
    }

    /// A call was answered from memory; `over_a_start` if it was carried out before the last start.
    fn count_repetition(&self, _over_a_start: bool) {}

    /// Statistics, if it is a log.
    fn log_statistics(&self) -> Option<log::LogStatistics> {
        None
    }

    /// Everything is written in place and flushed: records that nothing beside the volume is needed
    /// any more.
    ///
    /// # Errors
    /// [`Lost`] if that fails.
    fn close(&self) -> LocalBoxFuture<'static, Result<(), Lost>>;
}

/// Whether a change adds or replaces something, and removes nothing by itself.
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
