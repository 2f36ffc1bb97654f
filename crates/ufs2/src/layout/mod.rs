//! The only code that knows the bytes of UFS2.
//!
//! UFS2 is FreeBSD's disk format. A disk is cut into *groups* of equal size; only the last may be
//! shorter. Group `g` starts at fragment `g * fragments_per_group`:
//!
//! ```text
//!            0             backup        group block   inode table      data
//! group 0    | boot area, superblock | backup | header, maps | inodes | summary area, data ...
//! group g    | data                  | backup | header, maps | inodes | data ...
//! ```
//!
//! The unit of every address is the *fragment*; a *block* is 1, 2, 4 or 8 of them. Inodes are
//! numbered through all groups, so that the number alone gives the position of the 256 bytes.
//!
//! This module has the structures as they are on disk, little-endian and without alignment, and
//! [`Geometry`], the checked layout of a disk. Structures of a machine with the other byte order
//! are converted right after the read, and are never written. Nothing here does I/O, and nothing
//! here knows the consequences of a change for other structures: counts that follow from maps are
//! in [`crate::derive`].
//!
//! Invariants:
//! 1. Every structure has the size and the offsets of the format; the compiler checks them.
//! 2. A [`Geometry`] exists only for a superblock that passed every check: no method of it can
//!    divide by zero, overflow or point outside the disk.
//!
//! Not asserted: 2, which is about every method: a fuzz target asks them all.

/// Refuses to compile a structure whose size or offsets are not those of the format.
macro_rules! offsets {
    ($structure:ident, $size:literal, { $($field:ident : $offset:literal),+ $(,)? }) => {
        const _: () = {
            assert!(size_of::<$structure>() == $size, "invariant 1: another size");
            $(assert!(
                std::mem::offset_of!($structure, $field) == $offset,
                "invariant 1: another offset"
            );)+
        };
    };
}

/// The byte range of a field of a disk structure.
#[macro_export]
macro_rules! bytes_of {
    ($structure:ty, $field:ident) => {{
        let start = ::std::mem::offset_of!($structure, $field);
        start..start + $crate::layout::width(|it: &$structure| &it.$field)
    }};
}

mod attribute;
mod geometry;
mod group;
mod hash;
mod inode;
mod parse;
mod single_bit;
mod superblock;
mod swap;

pub use attribute::*;
pub use directory::entry::{kind_bits, kind_of_bits};
pub use geometry::*;
pub use group::*;
pub use hash::*;
pub use inode::*;
pub use parse::*;
pub use single_bit::*;
pub use superblock::*;
pub use swap::*;

/// Bytes that a field of a structure takes; see [`bytes_of`](crate::bytes_of).
pub const fn width<Structure, Field>(_: fn(&Structure) -> &Field) -> usize {
    size_of::<Field>()
}
