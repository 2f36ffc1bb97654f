//! Extended attributes: records in one or two blocks of an inode's own.
//!
//! Each record is a multiple of 8 bytes: its length in 4, the namespace, the bytes of padding
//! behind the content, the bytes of the name, the name; zeros up to a multiple of 8; content;
//! padding.

use super::CheckError;
use super::overlay::Overlay;
use crate::layout::{Dinode, Geometry};
use crate::map::{block_count, run_length};

const HEADER: usize = 7;
const UNIT: usize = 8;

/// Whether the attributes of an inode are whole; else, what is wrong.
///
/// # Errors
/// [`CheckError::Device`].
pub(super) async fn check(
    disk: &Overlay<'_>,
    geometry: &Geometry,
    dinode: &Dinode,
) -> Result<Result<(), String>, CheckError> {
    let size = u64::from(dinode.attribute_size.get());
    let count = block_count(geometry, size);
    if count > dinode.attribute_blocks.len() as u64 {
        return Ok(Err(format!("{size} bytes")));
    }
    let mut area = Vec::new();
    for (index, address) in dinode.attribute_blocks.iter().enumerate() {
        let address = address.get() as u64;
        let run = run_length(geometry, size, index as u64);
        if index as u64 >= count {
            if address != 0 {
                return Ok(Err(format!("block {index} behind {size} bytes")));
            }
        } else if !geometry.is_data_run(address, run) {
            return Ok(Err(format!("block {index} at fragment {}", address as i64)));
        } else {
            let bytes = (run * geometry.fragment_size) as usize;
            let read = disk.read(geometry.byte_address(address), bytes).await?;
            area.extend_from_slice(&read);
        }
    }
    area.truncate(size as usize);
    let big = geometry.byte_order == crate::layout::ByteOrder::Big;
    Ok(records(&area, big))
}

/// Whether records fill an area, in namespaces that exist and under different names.
fn records(area: &[u8], big_endian: bool) -> Result<(), String> {
    let mut names = std::collections::BTreeSet::new();
    let mut at = 0;
    while at < area.len() {
        let rest = &area[at..];
        let wrong = || format!("no record at byte {at}");
        let header = rest.get(..HEADER).ok_or_else(wrong)?;
        let length: [u8; 4] = header[..4].try_into().expect("four bytes");
        let length =
            if big_endian { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
        let (length, space, pad) = (length as usize, header[4], usize::from(header[5]));
        let name_length = usize::from(header[6]);
        let content = (HEADER + name_length).next_multiple_of(UNIT);
        let whole = length.is_multiple_of(UNIT)
            && length >= content + pad
            && length <= rest.len()
            && pad < UNIT
            && name_length > 0
            && (1..=2).contains(&space);
        if !whole {
            return Err(wrong());
        }
        let name = &rest[HEADER..HEADER + name_length];
        if name.contains(&0) || !names.insert((space, name)) {
            return Err(wrong());
        }
        at += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(space: u8, name: &[u8], content: &[u8]) -> Vec<u8> {
        let start = (HEADER + name.len()).next_multiple_of(UNIT);
        let length = (start + content.len()).next_multiple_of(UNIT);
        let mut bytes = vec![0; length];
        bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[4] = space;
        bytes[5] = (length - start - content.len()) as u8;
        bytes[6] = name.len() as u8;
        bytes[HEADER..HEADER + name.len()].copy_from_slice(name);
        bytes[start..start + content.len()].copy_from_slice(content);
        bytes
    }

    #[test]
    fn records_fill_their_area() {
        let area = [record(1, b"test", b"testvalue"), record(2, b"posix1e.acl", &[7; 40])].concat();
        assert_eq!(area.len() % UNIT, 0);
        assert_eq!(area[..4], 32_u32.to_le_bytes());
        assert_eq!(records(&area, false), Ok(()));
        for at in [0, 1, 4, 5, 6, 32, 36] {
            let mut broken = area.clone();
            broken[at] ^= 0x84;
            assert!(records(&broken, false).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_name_stands_once_in_a_namespace() {
        let one = record(1, b"a", b"");
        assert!(records(&[one.clone(), one.clone()].concat(), false).is_err());
        assert!(records(&[one, record(2, b"a", b"")].concat(), false).is_ok());
    }
}
