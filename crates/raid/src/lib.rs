//! Sets of disks: any one disk of a redundant set may die without loss of acknowledged data.
//!
//! A [`Set`] is a `block` device over other devices, its *members*. It keeps the contract of that
//! crate even when one member is lost at the moment of a power cut, or when one member returns
//! bytes that were never written there. docs/formats/raid.md describes the on-disk format.
//!
//! Layers, from the bottom:
//!
//! - [`layout`] maps the set's bytes to members; [`parity`] reconstructs a lost unit.
//! - [`label`] is a member's on-disk label, `labels` reads and writes it, `spare` is the label of a
//!   disk that waits to become a member, and `wipe` clears a disk's earlier contents.
//! - [`record`] is the byte format of the log.
//! - [`assembly`] judges the labels that were found; `idle` finds a member that they call out and
//!   that has missed nothing.
//! - `members` holds the active members and takes a failed one out; `watch` detects members that do
//!   not answer, `health` failing disks, `room` members whose host is out of space; [`Status`]
//!   holds the counters, and `missed` the regions that members missed while out.
//! - `table` is a table of checksums, `sums` all of these, `lent` finds one that no member gives on
//!   other disks, and `recall` rebuilds the map from them.
//! - `prelog` is the write-ahead log, `ring` says where its records go, `apart` is a device that
//!   gets them instead of the members, `logs` reads all of them, and `written` tracks which stripes
//!   were ever written.
//! - `blocks` caches members' blocks; `stripe` reads and verifies a stripe, `sources` selects the
//!   disks to ask for a missing block, `outsiders` the disks among them that are not members, and
//!   `plan` computes what a write changes on which member.
//! - `array` reads and writes. `rebuild` rebuilds a member, throttled by `pace` and paused or
//!   cancelled through `interrupts`; `unread` lists the blocks that a rebuild left out, and
//!   `refill` retries them. `replace` replaces an active member, `scrub` verifies the whole set,
//!   and `renew` makes checksums anew after a log device was lost.
//! - `set` is the block device; `opening` creates and opens it, as `options` say, and `recovery`
//!   replays its log; `void` stands in for a missing member when too few are present.
//!
//! Invariants:
//! 1. Every byte of a set has one place, and each byte of the members' data area is that of one
//!    byte of the set, or parity ([`layout`]).
//! 2. Without a person's override, a set opens only on members of which at least one has seen every
//!    acknowledged write ([`assembly`]), unless it was opened before against that advice.
//! 3. While a write to a stripe is under way, or after a cut interrupted it, its changes are in the
//!    log, on more than one member or on the log device, until they are durable in place on all
//!    members (`prelog`).
//!
//! Not asserted: 1, which is about all bytes; 2, which is about the whole history of a set; 3,
//! which is about the state after a cut. Tests exercise them: for the last, torture's campaign
//! `contract`.
//!
//! Commit points: a write has happened when its record is durable (`prelog`). A member is out of
//! the set when the labels of all other members that say so are durable, which is before any write
//! that it missed is acknowledged.
//!
//! Architecture invariant: no file systems and no sockets, so the crate runs under the simulator.

mod apart;
mod array;
pub mod assembly;
mod blocks;
mod health;
mod idle;
mod incoming;
mod interrupts;
pub mod label;
mod labels;
pub mod layout;
mod lent;
mod logs;
mod members;
mod missed;
mod opening;
mod options;
mod outsiders;
mod pace;
pub mod parity;
mod plan;
#[doc(hidden)]
pub mod planted;
mod prelog;
mod rebuild;
mod recall;
pub mod record;
mod recovery;
mod refill;
mod renew;
mod replace;
mod ring;
mod room;
mod scrub;
mod set;
mod sources;
mod spare;
mod status;
mod stripe;
mod sums;
mod table;
mod turns;
mod unread;
mod versions;
mod void;
mod watch;
mod wipe;
mod written;

pub use apart::{LogDevice, least_log_device};
pub use health::READ_ERRORS_PER_HOUR;
pub use interrupts::Work;
pub use labels::Read;
pub use members::Witnessed;
pub use opening::{MakeOptions, label_of, labels_of, make, open};
pub use options::{OpenError, OpenOptions};
pub use rebuild::RebuildError;
pub use scrub::{ScrubError, Scrubbed};
pub use set::{FailError, Set};
pub use spare::{MAGIC as SPARE_MAGIC, forget_spare, make_spare, spare_of};
pub use status::{Done, Met, Status};
pub use watch::ReportSilence;
pub use wipe::forget_member;
