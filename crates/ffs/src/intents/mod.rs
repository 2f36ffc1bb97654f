//! A ring of intents: how policies that write in place recognise a call that is repeated after a
//! crash.
//!
//! Such a policy has no single write that commits an Update, so the answer cannot go with that
//! write. Instead an *intent* is durable in a ring beside the volume before any part of the Update
//! is visible on the disk: the call's key, its answer, and the *evidence*, which is the state of
//! the disk when the Update has happened. The next start compares evidence and disk before it
//! serves any client: an Update that has begun is finished and its answer remembered, and any other
//! intent is dropped. The ring is a [`journal::Journal`] whose epoch is the number of the volume's
//! mark, so changes of the disk by another system in between make all intents void.
//!
//! One write of the ring takes all waiting intents. It goes out with the round that writes changes
//! which are not visible yet (ranks below [`FIRST_SEEN`]), and is durable by itself; a round that
//! has nothing else to write does not flush the volume.
//!
//! Evidence stays true because Updates that change the same name, or an inode that is evidence, do
//! not overlap: the later one is not visible on the disk before the ring says that the earlier one
//! is *done*. Of an Update that changes such an inode, ranks below [`FIRST_SEEN`] wait, too: a
//! count of links or an overwrite in place lands as a whole inode, with all its times. Such a mark
//! goes with any later batch, so a client that makes one call after the other waits for none.
//!
//! * `evidence`: the traces of an Update on the disk.
//! * `record`: the bytes of an intent, and of its outcome.
//! * `chains`: intents of truncations in steps, which stay.
//! * `ring`: intents of this boot, the Updates that they hold up, and the batches.
//! * `forgiving`: the ring's device, of which unreadable sectors are damage and no failure.
//! * `left`: the ring of an earlier boot. `crate::judge` compares it with the disk.
//!
//! Invariants:
//! 1. Nothing of an Update that has a key is visible on the disk before its intent is durable.
//! 2. Nothing of an Update is visible on the disk before each earlier one with which it shares
//!    evidence is done, and the ring says so. If the evidence is an inode, nothing of it lands at
//!    all. All these waits are for earlier Updates, which wait for none that is later: `sync` makes
//!    Updates durable in order, and `softdep` counts these waits among its own (its invariant 2).
//! 3. The ring says that an Update is done only when that is durable.
//! 4. The intent of an Update that is not done stays in the ring, and so does that of a truncation
//!    in steps whose last step is not done.
//! 5. Live entries take at most a third of the ring, so that the next epoch has room beside them
//!    for everything that it takes over.
//!
//! Not asserted: 1 and 2, which are the condition itself; 4 and 5, which are what the writer keeps
//! and gives up.

mod chains;
mod evidence;
mod forgiving;
mod left;
mod record;
mod ring;

pub use evidence::{Evidence, InodeEvidence, NameEvidence};
pub(crate) use forgiving::Forgiving;
pub(crate) use left::{Left, look};
pub(crate) use record::Survivor;
pub(crate) use ring::{Hold, Intents};

/// The first rank of a visible change on the disk.
pub(crate) const FIRST_SEEN: u32 = 2;

/// Size in bytes of a ring that is made beside a volume.
pub const RING_SIZE: u64 = 32 << 20;
