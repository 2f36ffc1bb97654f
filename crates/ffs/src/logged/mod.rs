//! Transition of volumes and their logs from one epoch to the next.
//!
//! A volume that has a log alone decides by itself which epoch it is in: a new one begins behind
//! the live part of the old one, takes over chains and answers, and becomes the volume's epoch as
//! soon as the superblock bears its number. Until then the old one stays as it is.
//!
//! Several superblocks cannot be written atomically. So for a shared log the log decides: a slot
//! with a line for every volume is written when all of them have been recovered and the new epoch
//! has taken over what they need. From then on a volume that bears the previous epoch belongs to
//! the new one.
//!
//! ```text
//!  bring back each -> save what absent ones need -> take over -> slot -> mark each -> serve
//!  --------------- a cut: the old epoch ------------------------|----- a cut: the new one ----
//! ```
//!
//! **Commit point** of a shared log's beginning: its slot (`SharedLog::found`).
//!
//! A volume that is absent or refused does not delay the others: its part of the log is saved as a
//! log of its own before the slot is written, from which it can be recovered later. The same is
//! done for a volume that stops while the others go on.
//!
//! Layers, from the bottom:
//!
//! * `back`: replays, inspects, leaves alone or gives up a volume's part of a log.
//! * `alone`: the next epoch of a volume that has its log alone.
//! * `sharing`: the next epoch of volumes that share a log. Once they run, they meet only in
//!   `policy/log/shared`.
//!
//! Invariants:
//! 1. Nothing of an epoch is overwritten before everything in it is in place and flushed on every
//!    volume that is present, and saved for every other one.
//! 2. Chains and answers are in the new epoch before it counts.
//!
//! Not asserted: 1 and 2, which are about the order of whole steps on disks: the tests of returns
//! cut them everywhere.

mod alone;
mod back;
mod sharing;

pub(crate) use alone::open_alone;
pub use back::{LogUse, is_needed, replay_log};
pub(crate) use back::{
    changes_of, give_up, given_up, look_at_rest, make_certain, refuse_left, refuse_others,
    replay_back,
};
pub use sharing::{Sharer, is_idle_of_another, open_sharing, saved_under};
