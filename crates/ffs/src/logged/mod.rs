//! Volumes and their logs, from one epoch to the next.
//!
//! A volume that has a log alone decides by itself in which epoch it is: a new one begins behind
//! what is live in the old one, takes over chains and answers, and is that of the volume as soon as
//! the superblock bears its number. Until then the old one stays as it is.
//!
//! Several superblocks cannot be written at once. So of a log that is shared the log decides: a
//! slot with a line for every volume is written when all of them have been brought back and the new
//! epoch has taken over what they need. A volume that bears the epoch before belongs to the new one
//! from then on.
//!
//! ```text
//!  bring back each -> save what absent ones need -> take over -> slot -> mark each -> serve
//!  --------------- a cut: the old epoch ------------------------|----- a cut: the new one ----
//! ```
//!
//! **Commit point** of a shared log's beginning: its slot (`SharedLog::found`).
//!
//! A volume that is not there, or that is refused, holds no other up: what the log has of it is
//! saved as a log of its own before the slot is written, and with that it comes back another day.
//! So does one that has stopped while the others go on.
//!
//! Layers, from the bottom:
//!
//! * `back`: what a log holds of a volume is brought home, looked at, left alone, or given up.
//! * `alone`: the next epoch of a volume that has its log alone.
//! * `sharing`: the next epoch of volumes that share a log. Where they run, they know of each other
//!   in `policy/log/shared` alone.
//!
//! Invariants:
//! 1. Nothing of an epoch is overwritten before everything in it is home and flushed on every
//!    volume that is there, and saved for every other one.
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
