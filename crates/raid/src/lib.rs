//! Sets of disks: one of them may die, and nothing that was answered dies with it.
//!
//! What is here so far is what a set has to know before it moves a byte: where each byte lies, what
//! its members say of themselves, and on which of them it may be opened. The device itself, with
//! its log, its checksums and its rebuild, is still to come; docs/formats/raid.md says what of the
//! disks is fixed.
//!
//! Layers, from the bottom: `layout` is where a set keeps what, `parity` how what is lost is made
//! again. `label` is what each member says of itself, byte by byte. `assembly` judges the labels
//! that were found.
//!
//! Invariants:
//! 1. Every byte of a set has one place, and each byte of the members' data area is that of one
//!    byte of the set, or parity ([`layout`]).
//! 2. A set is opened by itself only on members of which one has seen every write that was ever
//!    acknowledged ([`assembly`]), as long as none was opened against that advice.
//!
//! Not asserted: 1, which is about all bytes; 2, which is about all that ever happened. Tests go
//! through both.
//!
//! Commit point: a member is out of the set when the labels of all others that say so are durable,
//! which is before any write that it missed is acknowledged.
//!
//! Architecture invariant: nothing of file systems, and no sockets: it runs under the simulator.

pub mod assembly;
pub mod label;
pub mod layout;
pub mod parity;
#[doc(hidden)]
pub mod planted;
