//! An extended attribute, one of the records in the blocks that an inode has for them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ByteOrder;

/// The parts of a record begin and end at multiples of this many bytes.
pub const ATTRIBUTE_ALIGNMENT: usize = 8;

/// The head of a record. The name follows; zeros up to a multiple of [`ATTRIBUTE_ALIGNMENT`]; the
/// content; the padding.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AttributeHeader {
    length: [u8; 4],
    /// 1 for user, 2 for system.
    pub namespace: u8,
    /// Bytes behind the content.
    pub padding: u8,
    /// Bytes of the name, which has no NUL.
    pub name_length: u8,
}

offsets!(AttributeHeader, 7, { length: 0, namespace: 4, padding: 5, name_length: 6 });

impl AttributeHeader {
    /// Bytes of the whole record. Attribute blocks are not turned when those of a big-endian disk
    /// are.
    pub fn length(&self, order: ByteOrder) -> u32 {
        match order {
            ByteOrder::Little => u32::from_le_bytes(self.length),
            ByteOrder::Big => u32::from_be_bytes(self.length),
        }
    }
}
