//! Edits of a metadata block, and their undo records.

use std::ops::Range;

use crate::span::Span;
use directory::entry::{CHUNK_SIZE, ENTRY_HEADER_SIZE, EntryHeader};
use ufs2::derive::bits;
use ufs2::layout::{Dinode, EXTENT_FIELD, KIND_FIELD, LINKS_FIELD};
use zerocopy::IntoBytes;

/// An edit of the image of a block.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Bytes replaced by the same number of new bytes.
    Bytes {
        /// Offset in bytes from the buffer's start.
        offset: usize,
        /// The new bytes.
        new: Box<[u8]>,
    },
    /// A run of map bits: all clear before and set after, or the reverse.
    Bits {
        /// Offset of the map in bytes.
        map: usize,
        /// The first bit.
        first: usize,
        /// Number of bits.
        count: usize,
        /// Their new value.
        value: bool,
    },
    /// The target of a directory entry: its inode number and type.
    Entry {
        /// Offset of the entry in bytes.
        offset: usize,
        /// The new inode number; 0 for none.
        ino: u32,
        /// The new type byte.
        kind: u8,
        /// Record lengths and the name that the entry needs: never undone (invariant 4 of
        /// `buffer`).
        layout: Vec<(usize, Box<[u8]>)>,
    },
    /// A 32-bit counter that goes up or down. Each change of it stands alone, so that one can be
    /// undone without the others.
    Count {
        /// Offset in bytes from the buffer's start.
        offset: usize,
        /// Difference to the old value.
        change: i32,
    },
    /// An inode whose parts land independently: its kind, its link count, and its extent.
    Inode {
        /// Offset in bytes from the buffer's start.
        offset: usize,
        /// The new inode.
        new: Box<Dinode>,
    },
    /// The whole block is new; nothing points at it yet, so undoing means not writing.
    Whole,
}

/// The part of a buffer that an [`Edit`] changes, for policies that log it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A range of bytes.
    Bytes(Range<usize>),
    /// Bits of a map.
    Bits {
        /// Offset of the map in bytes.
        map: usize,
        /// The first bit.
        first: usize,
        /// Number of bits.
        count: usize,
        /// Their new value.
        value: bool,
    },
    /// The whole block.
    Whole,
}

impl Edit {
    /// The part of the buffer that the edit changes. For a directory entry that is the whole chunk:
    /// names and lengths are not undone, so that one entry means nothing without the others.
    pub fn extent(&self) -> Extent {
        match self {
            Edit::Bytes { offset, new } => Extent::Bytes(*offset..offset + new.len()),
            Edit::Bits { map, first, count, value } => {
                Extent::Bits { map: *map, first: *first, count: *count, value: *value }
            }
            Edit::Entry { offset, .. } => {
                let chunk = offset - offset % CHUNK_SIZE;
                Extent::Bytes(chunk..chunk + CHUNK_SIZE)
            }
            Edit::Count { offset, .. } => Extent::Bytes(*offset..offset + size_of::<i32>()),
            Edit::Inode { offset, .. } => Extent::Bytes(*offset..offset + size_of::<Dinode>()),
            Edit::Whole => Extent::Whole,
        }
    }

    /// Offset of the directory entry that the edit changes.
    pub(crate) fn entry(&self) -> Option<usize> {
        match self {
            Edit::Entry { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// The inode number and type of the entry before the edit, read from an image without it. Inode
    /// 0 for an entry that the edit lays out: its bytes in the image are the remains of other
    /// names.
    pub(crate) fn names_before(&self, image: &[u8]) -> Option<(u32, u8)> {
        match self {
            Edit::Entry { offset, layout, .. } if layout.iter().any(|(at, _)| at == offset) => {
                Some((0, 0))
            }
            Edit::Entry { offset, .. } => Some(entry_at(image, *offset)),
            _ => None,
        }
    }

    /// Applies the edit to the image and returns its undo record.
    pub(crate) fn apply(self, image: &mut [u8]) -> Undo {
        match self {
            Edit::Bytes { offset, new } => {
                let field = &mut image[offset..offset + new.len()];
                let old = Box::from(&*field);
                field.copy_from_slice(&new);
                Undo::Bytes { offset, old }
            }
            Edit::Bits { map, first, count, value } => {
                for bit in first..first + count {
                    assert_ne!(bits::is_set(&image[map..], bit as u64), value, "bit {bit} changes");
                    bits::put(&mut image[map..], bit as u64, value);
                }
                Undo::Bits { map, first, count, old: !value }
            }
            Edit::Entry { offset, ino, kind, layout } => {
                for (at, bytes) in layout {
                    image[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                let (old_ino, old_kind) = entry_at(image, offset);
                set_entry(image, offset, ino, kind);
                Undo::Entry { offset, ino: old_ino, kind: old_kind }
            }
            Edit::Count { offset, change } => {
                add(image, offset, change);
                Undo::Count { offset, change }
            }
            Edit::Inode { offset, new } => {
                let inode = Dinode::at_mut(image, offset);
                let old = std::mem::replace(inode, *new);
                Undo::of_inode(offset, old, inode)
            }
            Edit::Whole => Undo::Whole,
        }
    }

    /// The edit of an inode as one whose parts land independently.
    pub(crate) fn by_parts(self) -> Self {
        match self {
            Edit::Bytes { offset, new } => {
                Edit::Inode { offset, new: Box::new(*Dinode::at(&new, 0)) }
            }
            other => other,
        }
    }
}

impl Extent {
    /// The bytes that it covers, in a block of `length` bytes.
    pub(crate) fn span(&self, length: usize) -> Span {
        match self {
            Extent::Bytes(bytes) => bytes.clone().into(),
            Extent::Bits { map, first, count, .. } => {
                Span::from(map + first / 8..map + (first + count).div_ceil(8))
            }
            Extent::Whole => Span::from(0..length),
        }
    }
}

/// Undo record of a delta, applied to a copy of the image.
#[derive(Debug)]
pub(crate) enum Undo {
    Bytes {
        offset: usize,
        old: Box<[u8]>,
    },
    Bits {
        map: usize,
        first: usize,
        count: usize,
        old: bool,
    },
    Entry {
        offset: usize,
        ino: u32,
        kind: u8,
    },
    Count {
        offset: usize,
        change: i32,
    },
    /// The change of the link count, and the old extent if it changed. Attributes are never undone.
    Inode {
        offset: usize,
        links: i32,
        old: Option<Box<Dinode>>,
    },
    Whole,
}

impl Undo {
    /// Undo record of an inode that was `old` and is `new`.
    fn of_inode(offset: usize, old: Dinode, new: &Dinode) -> Self {
        if old.kind() != new.kind() || old.is_free() != new.is_free() {
            return Undo::Bytes { offset, old: Box::from(old.as_bytes()) };
        }
        let links = i32::from(new.links.get()) - i32::from(old.links.get());
        let old = if old.has_extent_of(new) { None } else { Some(Box::new(old)) };
        Undo::Inode { offset, links, old }
    }

    /// Bit ranges of the buffer that this change requires: it lands only if no change in them is
    /// undone.
    pub(crate) fn stands_on(&self) -> [Range<usize>; 2] {
        match self {
            Undo::Inode { offset, old, .. } => {
                let extent = old.as_ref().map_or(0..0, |_| bits_of(*offset, EXTENT_FIELD));
                [bits_of(*offset, KIND_FIELD), extent]
            }
            _ => [self.field(), 0..0],
        }
    }

    /// Bit ranges of the buffer that this change blocks for later ones while it is undone.
    pub(crate) fn holds_up(&self) -> [Range<usize>; 2] {
        match self {
            Undo::Inode { offset, links, old } => {
                let extent = old.as_ref().map_or(0..0, |_| bits_of(*offset, EXTENT_FIELD));
                let links = if *links == 0 { 0..0 } else { bits_of(*offset, LINKS_FIELD) };
                [links, extent]
            }
            _ => [self.field(), 0..0],
        }
    }

    /// Offset of the inode whose seal is wrong after this undo.
    pub(crate) fn unseals(&self) -> Option<usize> {
        match self {
            Undo::Inode { offset, links, old } if *links != 0 || old.is_some() => Some(*offset),
            _ => None,
        }
    }

    /// The field, as a range of bits of the buffer.
    pub(crate) fn field(&self) -> Range<usize> {
        match self {
            Undo::Bytes { offset, old } => offset * 8..(offset + old.len()) * 8,
            Undo::Bits { map, first, count, .. } => map * 8 + first..map * 8 + first + count,
            Undo::Entry { offset, .. } => offset * 8..(offset + ENTRY_HEADER_SIZE) * 8,
            Undo::Count { .. } => 0..0, // in any order
            Undo::Inode { offset, .. } => bits_of(*offset, 0..size_of::<Dinode>()),
            Undo::Whole => 0..usize::MAX,
        }
    }

    /// The bytes that it covers.
    pub(crate) fn span(&self) -> Span {
        let Range { start, end } = match self {
            Undo::Count { offset, .. } => offset * 8..(offset + size_of::<i32>()) * 8,
            _ => self.field(),
        };
        Span::from(start / 8..end.div_ceil(8))
    }

    /// Applies the undo to a copy that begins with byte `from` of the image.
    pub(crate) fn apply(&self, copy: &mut [u8], from: usize) {
        match self {
            Undo::Bytes { offset, old } => copy[offset - from..][..old.len()].copy_from_slice(old),
            Undo::Bits { map, first, count, old } => {
                for bit in map * 8 + first..map * 8 + first + count {
                    bits::put(copy, (bit - from * 8) as u64, *old);
                }
            }
            Undo::Entry { offset, ino, kind } => set_entry(copy, offset - from, *ino, *kind),
            Undo::Count { offset, change } => add(copy, offset - from, -change),
            Undo::Inode { offset, links, old } => {
                let inode = Dinode::at_mut(copy, offset - from);
                inode.links.set((i32::from(inode.links.get()) - links) as u16);
                if let Some(old) = old {
                    inode.take_extent_of(old);
                }
            }
            Undo::Whole => unreachable!("a block whose making is undone is not written"),
        }
    }

    /// Whether this undoes a change of the entry at `at`.
    pub(crate) fn is_of_entry(&self, at: usize) -> bool {
        matches!(self, Undo::Entry { offset, .. } if *offset == at)
    }

    /// Whether this undo would change nothing: the entry already has its old value.
    pub(crate) fn is_undone_in(&self, image: &[u8]) -> bool {
        match self {
            Undo::Entry { offset, ino, kind } => entry_at(image, *offset) == (*ino, *kind),
            _ => false,
        }
    }

    /// Whether this undoes the beginning of an inode.
    pub(crate) fn begins_inode(&self) -> bool {
        match self {
            Undo::Bytes { old, .. } => {
                old.len() == size_of::<Dinode>() && Dinode::at(old, 0).is_free()
            }
            _ => false,
        }
    }

    /// Approximate bytes of memory that it takes besides its own size.
    pub(crate) fn bytes_beside(&self) -> usize {
        match self {
            Undo::Bytes { old, .. } => old.len() + 16,
            Undo::Inode { old: Some(old), .. } => size_of_val(&**old) + 16,
            _ => 0,
        }
    }
}

fn bits_of(offset: usize, field: Range<usize>) -> Range<usize> {
    (offset + field.start) * 8..(offset + field.end) * 8
}

pub(crate) fn entry_at(image: &[u8], offset: usize) -> (u32, u8) {
    let header = EntryHeader::at(image, offset);
    (header.inode.get(), header.kind)
}

fn set_entry(image: &mut [u8], offset: usize, ino: u32, kind: u8) {
    let header = EntryHeader::at_mut(image, offset);
    header.inode.set(ino);
    header.kind = kind;
}

fn add(image: &mut [u8], offset: usize, change: i32) {
    let field = &mut image[offset..offset + size_of::<i32>()];
    let old = i32::from_le_bytes((&*field).try_into().expect("four bytes"));
    field.copy_from_slice(&old.wrapping_add(change).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_other_names_names_nothing() {
        let mut image = vec![b'g'; CHUNK_SIZE];
        set_entry(&mut image, 0, 7, 8);
        let entry = |offset, layout| Edit::Entry { offset, ino: 9, kind: 4, layout };
        assert_eq!(entry(0, Vec::new()).names_before(&image), Some((7, 8)));
        // A name in the free space behind another name, whose record is shortened.
        let header = vec![0; ENTRY_HEADER_SIZE].into_boxed_slice();
        let shorter = Box::from(12_u16.to_le_bytes());
        let layout = vec![(12, header), (EntryHeader::RECORD_LENGTH_OFFSET, shorter)];
        let edit = entry(12, layout);
        let told = edit.names_before(&image);
        let Undo::Entry { ino, kind, .. } = edit.apply(&mut image) else { unreachable!() };
        assert_eq!(told, Some((ino, kind)));
        assert_eq!(told, Some((0, 0)));
    }
}
