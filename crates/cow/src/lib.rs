//! The common part of engines that never overwrite a block in use.
//!
//! A volume is trees of blocks below a root. A change is new blocks, from the leaves up, and the
//! old ones stay until the change is durable. A pointer has the checksum of its block, and the
//! update that wrote it: so each block is known for the right one, and two numbers say which
//! snapshots hold a block that the live tree has lost. Where a block goes, and when an update is
//! durable, is up to the engine.
//!
//! Layers, from the bottom:
//!
//! * [`format`]: the bytes of blocks. [`bits`]: finding a flipped bit. [`mend`]: other versions of
//!   a block. [`layout`]: the verbs of an engine.
//! * [`node`], [`nodes`], [`sealing`]: blocks of metadata in memory, as trees. [`pieces`],
//!   [`copies`], [`dropped`]: reading many at once, second copies, and removing what is wrong.
//!   [`held_trees`]: whether a snapshot still holds a block.
//! * [`inode`]: a file in memory. [`chains`]: changes that take several updates.
//! * [`waiting`], [`live`]: plans that wait for room, and what files share with commits.
//!   [`update`]: the changes of one operation. [`floor`], [`content`], [`files`], [`apply`]: room,
//!   planning and applying. [`edits`]: the changes of blocks of metadata, for logs. [`verbs!`]: the
//!   interface of engines.
//! * [`pins`], [`found_pins`]: the snapshots, and the blocks that they hold; [`lists`]: changes of
//!   their lines and lists; [`numbers`]: the slots of these. [`orphans`]: files without a name.
//!   [`balance`]: units that an update takes and loses. [`seen`]: visited blocks.
//!
//! Invariants:
//! 1. A block that is in use, by the live tree or by a snapshot, is not changed on the device,
//!    except that a rotten copy of it becomes what it was.
//! 2. A block that does not match its pointer, with its checksum, its place in a tree and its
//!    birth, is never taken for it.
//!
//! Not asserted: 2, which a comparison decides.
//!
//! Architecture invariant: no engine, and nothing that one engine alone has: the block of the root,
//! the free space, and the order in which blocks reach the device.

#![expect(async_fn_in_trait, reason = "engines live on one thread; no future here is sent")]

pub mod apply;
pub mod balance;
pub mod bits;
pub mod chains;
pub mod content;
pub mod copies;
pub mod dropped;
pub mod edits;
pub mod files;
pub mod floor;
pub mod format;
pub mod found_pins;
pub mod held_trees;
pub mod homeless;
pub mod inode;
pub mod layout;
pub mod lists;
pub mod live;
pub mod mend;
pub mod node;
pub mod nodes;
pub mod numbers;
pub mod orphans;
pub mod pieces;
pub mod pins;
#[doc(hidden)]
pub mod planted;
pub mod sealing;
pub mod seen;
pub mod update;
pub mod verbs;
pub mod waiting;

pub use balance::{Balance, coalesced};
pub use format::head::{Head, Kind, Place, Secret};
pub use format::pointer::{HIGHEST, Pointer, Root, Tree, WIDTH, below, capacity, reach};
pub use format::run::{Run, Span};
pub use format::{
    BODY, CHUNKS, END, FAN, FIRST, INODES, NUMBERS, ROOT, UNIT, VERSION, sum, sum_of_sums, view,
    view_mut,
};
pub use inode::{Inode, is_still};
pub use node::{Node, Own, Parent, Stem};
pub use nodes::{Anew, TREES, Which};
pub use numbers::Occupied;
pub use pins::{Listing, Pins};
