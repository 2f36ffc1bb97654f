//! Sets of disks: one of them may die, and nothing that was answered dies with it.
//!
//! A [`Set`] is a device of `block` over others, its *members*, and keeps the contract of that
//! crate also when any one of them is lost at the moment of a cut, and when one of them gives what
//! was never written there. docs/formats/raid.md has what stands on the members.
//!
//! Layers, from the bottom: [`layout`] is where a set keeps what, [`parity`] how what is lost is
//! made again. [`label`] is what each member says of itself, `labels` how that is read and written,
//! `spare` what a disk says that waits to become one, `wipe` how a disk forgets what stood there
//! before, [`record`] what the log has, byte by byte. [`assembly`] judges the labels that were
//! found, and `idle` finds a member that they call out and that lacks nothing. `members` is who is
//! in, and how a member leaves, `watch` which of them do not answer, `health` which of them fail,
//! `room` which of them find no room below, [`Status`] what they have met, and `missed` what those
//! have missed that are out; `table` has checksums of what they hold, `sums` all of these, and
//! `recall` makes the map again of them; `prelog` is the log in front of every write, `logs` how
//! members have it, `written` which stripes were ever written; `blocks` what is known of members in
//! memory; `stripe` what of a stripe is there, `sources` which disks are asked for that,
//! `outsiders` among them that are no members, and `plan` what a write changes on which member.
//! `array` reads and writes, `rebuild` is how it makes a member again, with the `pace` that leaves
//! the others to clients, and the `interrupts` of a person, `unread` has the blocks that it had to
//! leave out, `refill` tries them again, `replace` how another disk takes the place of a member
//! that is in, and `scrub` how it looks at everything; `set` is that as a device, and `opening` how
//! it is made and comes back; `void` stands for a member that is not there, where too few are.
//!
//! Invariants:
//! 1. Every byte of a set has one place, and each byte of the members' data area is that of one
//!    byte of the set, or parity ([`layout`]).
//! 2. A set is opened by itself only on members of which one has seen every write that was ever
//!    acknowledged ([`assembly`]), as long as none was opened against that advice.
//! 3. A stripe of which a write is under way or was cut has its changes in the log, on more than
//!    one member, until they are at home on all, durably (`prelog`).
//!
//! Not asserted: 1, which is about all bytes; 2, which is about all that ever happened; 3, which
//! is about what a cut leaves. Tests go through them: for the last, torture's campaign `contract`.
//!
//! Commit points: a write has happened when its record is durable (`prelog`); a member is out of
//! the set when the labels of all others that say so are durable, which is before any write that it
//! missed is acknowledged.
//!
//! Architecture invariant: nothing of file systems, and no sockets: it runs under the simulator.

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
mod logs;
mod members;
mod missed;
mod opening;
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
mod refill;
mod replace;
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

pub use health::READ_ERRORS_PER_HOUR;
pub use interrupts::Work;
pub use labels::Read;
pub use members::Witnessed;
pub use opening::{MakeOptions, OpenError, OpenOptions, label_of, labels_of, make, open};
pub use rebuild::RebuildError;
pub use scrub::{ScrubError, Scrubbed};
pub use set::{FailError, Set};
pub use spare::{MAGIC as SPARE_MAGIC, forget_spare, make_spare, spare_of};
pub use status::{Done, Met, Status};
pub use watch::ReportSilence;
pub use wipe::forget_member;
