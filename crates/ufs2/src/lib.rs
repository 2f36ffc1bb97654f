//! The disk format UFS2 of FreeBSD: the bytes, and their meaning.
//!
//! `docs/formats/ufs2.md` describes the format itself.
//!
//! Layers, from the bottom:
//!
//! * [`layout`] alone knows bytes: the structures as they are on the disk, and the checked
//!   geometry.
//! * [`map`]: the pointer that leads to a block of a file, and the length of the last block.
//! * [`mod@derive`]: the parts of a group that follow from its maps.
//! * [`mark`] and [`label`]: the parts of the superblock that are ours.
//! * [`mod@mkfs`] makes disks. Its commit point is the write of the primary superblock.
//!
//! Invariant: FreeBSD reads all that is written here, and its checker finds no error in it.
//!
//! Architecture invariant: outside of [`layout`] there is no offset and no field width. **Absent:**
//! caches, the order of writes to a disk that is in use, and any engine.

pub mod derive;
pub mod label;
pub mod layout;
pub mod map;
pub mod mark;
pub mod mkfs;
