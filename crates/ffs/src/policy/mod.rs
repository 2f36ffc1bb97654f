//! When a change may reach the platter, which is how the policies differ.
//!
//! | policy | a delta may land when | at commit | after a crash |
//! |---|---|---|---|
//! | `sync` | its rank is reached | rank by rank, a flush between | check, then serve |
//! | `log` | its entry is durable | one log write and flush for all that wait | replay |
//! | `softdep` | what it depends on is durable | push the chain of dependencies | serve, reclaim |
//! | `fastfsck` | its marks are durable and its rank is reached | as `sync` | check what was busy |
//!
//! `fastfsck` is still to be built. All of them get the same: the items of an Update with their
//! intents, already applied to the buffers, in the order in which the Updates were staged. Before
//! that a policy may add items of its own ([`Policy::plan`]). An Update may rest on others
//! ([`Manner::rests_on`]): nothing of it lands before these are durable.
//!
//! What a policy has besides the volume, a log for example, is [`Beside`] it.

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

/// What the policy keeps of an item.
pub struct Staged {
    /// What it means.
    pub intent: Intent,
    /// What it is about.
    pub subject: Subject,
    /// Of an entry, where in its buffer it begins, and the inode that it named before; 0 for none.
    pub entry: Option<(usize, u64)>,
    /// The buffer that holds the delta, and what of it was changed, unless the item was payload.
    pub change: Option<(Rc<Buffer>, Extent)>,
    /// What [`Policy::tags`] gave it.
    pub tag: u32,
}

impl Staged {
    /// The buffer of an entry, and where it begins there.
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
    /// In their order.
    pub items: Vec<Staged>,
    /// Payload by its first fragment.
    pub payload: Vec<(u64, Vec<Bytes>)>,
    /// What the policy does with it ([`Beside::carries`]). If it is not delayed, it was written to
    /// the device, and not flushed.
    pub carried: Carried,
    /// Fragments that are given back: first and how many.
    pub freed: Vec<(u64, u64)>,
    /// Runs of directories that stand elsewhere from then on, with all that was changed in them:
    /// where Updates do not become durable in their order, it waits for those that did.
    pub moved: Vec<Rc<Buffer>>,
    /// How it is to be carried out.
    pub manner: Manner,
    /// What the disk shows of it, where the policy keeps intents.
    pub evidence: Evidence,
    /// The call that is answered with it, to be remembered where there is a place for that.
    pub answered: Option<CallReply>,
    /// What [`Policy::plan`] set aside for it, in bytes.
    pub room: u64,
}

/// What soft updates have done, and have to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftUpdatesCounts {
    /// Writes that somebody waited for.
    pub sync_writes: u64,
    /// Writes that nobody waited for.
    pub async_writes: u64,
    /// Flushes of the disk.
    pub flushes: u64,
    /// Blocks that were written with something undone in the copy.
    pub rollbacks: u64,
    /// Changes that were not made, because a later one took them back.
    pub cancelled: u64,
    /// Updates that are not durable now.
    pub pending: u64,
    /// Bytes of memory that what undoes their changes takes.
    pub pending_bytes: u64,
    /// How long the oldest of them has waited, in milliseconds; 0 if there is none.
    pub oldest_ms: u64,
    /// Replies that had to wait until something was durable.
    pub waits: u64,
}

/// A way to make Updates durable in an order that survives a crash.
pub trait Policy {
    /// How far it has come.
    fn horizon(&self) -> &Horizon;

    /// The sequence that the next Update will get.
    fn next_sequence(&self) -> Sequence;

    /// What stands beside the volume, if anything does.
    fn beside(&self) -> Option<&dyn Beside> {
        None
    }

    /// The last step of planning an Update. The policy adds what items of its own it needs, waits
    /// until there is room for all of it, and sets that aside; it gives how many bytes. Nothing may
    /// be awaited between this and [`Policy::stage`].
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if no room comes, unless the Update goes on with something that has
    /// begun; [`FsError::Io`] if the volume has stopped.
    fn plan<'a>(&'a self, update: &'a mut Update) -> LocalBoxFuture<'a, Result<u64, FsError>>;

    /// Completes when no room comes for Updates before there is more room below the disk.
    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        std::future::pending().boxed_local()
    }

    /// A tag for each item of an Update, in their order, by which the policy knows the delta later;
    /// called before they are applied. Where `lands_whole`, attributes are seen with all else of
    /// their inode.
    fn tags(&self, items: &[Item], lands_whole: bool) -> Vec<u32>;

    /// Whether the parts of an inode land by themselves: links by their sum, its extent in order,
    /// attributes whenever. Else it lands as a whole, in order.
    fn parts_inodes(&self) -> bool {
        false
    }

    /// Whether it wants to know what the disk shows of an Update.
    fn keeps_intents(&self) -> bool {
        false
    }

    /// Whether an intent is judged by this inode: nothing of a later change of it may be seen
    /// before all of it may.
    fn is_evidence(&self, _ino: u64) -> bool {
        false
    }

    /// Takes an Update whose items have been applied. Cannot fail and does not wait. Says whether
    /// the file that it ends never was on its way to the disk: then what it gives back is free.
    fn stage(&self, sequence: Sequence, update: StagedUpdate) -> bool;

    /// Everything up to this sequence is durable.
    fn durable_through(&self) -> Sequence {
        self.horizon().through()
    }

    /// The Update that gave `count` fragments from `address` on back is durable. Completes when
    /// nothing is on its way to them any more; then they may be used again.
    fn drain_block(&self, address: u64, count: u64) -> LocalBoxFuture<'static, ()>;

    /// Whether a write failed: nothing becomes durable any more.
    fn has_stopped(&self) -> bool {
        self.horizon().has_stopped()
    }

    /// What it has done, if it is soft updates.
    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        None
    }

    /// Brings home what was changed without a delta. A failure stops the volume.
    fn write_times(&self) -> LocalBoxFuture<'static, ()> {
        self.settle().map(|_| ()).boxed_local()
    }

    /// Waits until all that is staged now is home, and what was changed without a delta until now
    /// too. What changes meanwhile is not waited for.
    fn settle(&self) -> LocalBoxFuture<'static, Result<(), Lost>>;
}

/// What a policy keeps beside the volume.
pub trait Beside {
    /// What it will do with this payload of an Update, which is asked once. Delayed payload it
    /// brings to its place, and the engine need not: readers see it there as soon as it is staged.
    fn carries(&self, _payload: &[(u64, Vec<Bytes>)]) -> Carried {
        Carried::default()
    }

    /// A call was answered from memory; `over_a_start` if it was carried out before the last start.
    fn count_repetition(&self, _over_a_start: bool) {}

    /// What it is doing, if it is a log.
    fn log_statistics(&self) -> Option<log::LogStatistics> {
        None
    }

    /// Everything is home and flushed: nothing of this is needed any more, and it says so from now
    /// on.
    ///
    /// # Errors
    /// [`Lost`] when it cannot.
    fn close(&self) -> LocalBoxFuture<'static, Result<(), Lost>>;
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
