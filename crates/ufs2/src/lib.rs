//! The disk format UFS2 of FreeBSD: which bytes stand where, and what they say together.
//!
//! The format itself is told in `docs/formats/ufs2.md`.
//!
//! Layers, from the bottom:
//!
//! * [`layout`] alone knows bytes: the structures as they lie on the disk, and the geometry, which
//!   was checked.
//! * [`map`]: which pointer leads to a block of a file, and how long the last one is.
//! * [`mod@derive`]: what of a group follows from its maps.
//! * [`mark`] and [`label`]: what of the superblock is ours to say.
//! * [`mod@mkfs`] makes disks. Its commit point is the write of the primary superblock.
//!
//! Invariant: what is written here, FreeBSD reads, and its checker finds nothing wrong with it.
//!
//! Architecture invariant: outside of [`layout`] there is no offset and no field width. **Absent:**
//! memory of what was read, the order of writes to a disk that is in use, and any engine.

pub mod derive;
pub mod label;
pub mod layout;
pub mod map;
pub mod mark;
pub mod mkfs;
