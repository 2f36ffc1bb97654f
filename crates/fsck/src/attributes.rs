//! Extended attributes: records in one or two blocks of an inode's own.
//!
//! Each record is an [`AttributeHeader`], the name, zeros, the content and padding. The fragments
//! after the last record are zeros: another record there shows that the size of the area is wrong.

use std::collections::BTreeSet;

use ufs2::layout::{ATTRIBUTE_ALIGNMENT, AttributeHeader, ByteOrder, Dinode, Geometry};
use ufs2::map::{block_count, run_length};
use zerocopy::FromBytes;

use super::CheckError;
use super::overlay::Overlay;

const HEADER: usize = size_of::<AttributeHeader>();

/// The verdict on the attributes of an inode.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Whole,
    /// There are more records than the size says: this many bytes in all.
    Longer(u64),
    /// They are broken, for this reason.
    Broken(String),
}

/// Judges the attributes of an inode.
///
/// # Errors
/// [`CheckError::Device`].
pub(super) async fn check(
    disk: &Overlay<'_>,
    geometry: &Geometry,
    dinode: &Dinode,
) -> Result<Verdict, CheckError> {
    let size = u64::from(dinode.attribute_size.get());
    let count = block_count(geometry, size);
    if count > dinode.attribute_blocks.len() as u64 {
        return Ok(Verdict::Broken(format!("{size} bytes")));
    }
    let mut area = Vec::new();
    for (index, address) in dinode.attribute_blocks.iter().enumerate() {
        let address = address.get() as u64;
        let run = run_length(geometry, size, index as u64);
        if index as u64 >= count {
            if address != 0 {
                return Ok(Verdict::Broken(format!("block {index} behind {size} bytes")));
            }
        } else if !geometry.is_data_run(address, run) {
            let wrong = format!("block {index} at fragment {}", address as i64);
            return Ok(Verdict::Broken(wrong));
        } else {
            let bytes = (run * geometry.fragment_size) as usize;
            let read = disk.read(geometry.byte_address(address), bytes).await?;
            area.extend_from_slice(&read);
        }
    }
    Ok(match records(&area, size as usize, geometry.byte_order) {
        Err(wrong) => Verdict::Broken(wrong),
        Ok(end) if end == size as usize => Verdict::Whole,
        Ok(end) => Verdict::Longer(end as u64),
    })
}

/// Checks that records fill the first `size` bytes of an area, in namespaces that exist and under
/// different names. Returns the end of the last record: there may be more of them.
fn records(area: &[u8], size: usize, order: ByteOrder) -> Result<usize, String> {
    let mut names = BTreeSet::new();
    let mut at = 0;
    while at < size {
        at = record(&area[..size], at, order, &mut names)
            .ok_or_else(|| format!("no record at byte {at}"))?;
    }
    while let Some(end) = record(area, at, order, &mut names) {
        at = end;
    }
    Ok(at)
}

/// The end of the record at a byte of an area, if there is one.
fn record<'a>(
    area: &'a [u8],
    at: usize,
    order: ByteOrder,
    names: &mut BTreeSet<(u8, &'a [u8])>,
) -> Option<usize> {
    let rest = &area[at..];
    let (header, _) = AttributeHeader::read_from_prefix(rest).ok()?;
    let AttributeHeader { namespace, padding, name_length, .. } = header;
    let (length, padding) = (header.length(order) as usize, usize::from(padding));
    let name_length = usize::from(name_length);
    let content = (HEADER + name_length).next_multiple_of(ATTRIBUTE_ALIGNMENT);
    let whole = length.is_multiple_of(ATTRIBUTE_ALIGNMENT)
        && length >= content + padding
        && length <= rest.len()
        && padding < ATTRIBUTE_ALIGNMENT
        && name_length > 0
        && (1..=2).contains(&namespace);
    if !whole {
        return None;
    }
    let name = &rest[HEADER..HEADER + name_length];
    let known = name.contains(&0) || !names.insert((namespace, name));
    (!known).then_some(at + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(space: u8, name: &[u8], content: &[u8]) -> Vec<u8> {
        let start = (HEADER + name.len()).next_multiple_of(ATTRIBUTE_ALIGNMENT);
        let length = (start + content.len()).next_multiple_of(ATTRIBUTE_ALIGNMENT);
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
        let area = [made(1, b"test", b"testvalue"), made(2, b"posix1e.acl", &[7; 40])].concat();
        assert_eq!(area.len() % ATTRIBUTE_ALIGNMENT, 0);
        assert_eq!(area[..4], 32_u32.to_le_bytes());
        assert_eq!(records(&area, area.len(), ByteOrder::Little), Ok(area.len()));
        for at in [0, 1, 4, 5, 6, 32, 36] {
            let mut broken = area.clone();
            broken[at] ^= 0x84;
            assert!(records(&broken, broken.len(), ByteOrder::Little).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_name_stands_once_in_a_namespace() {
        let one = made(1, b"a", b"");
        let twice = [one.clone(), one.clone()].concat();
        assert!(records(&twice, twice.len(), ByteOrder::Little).is_err());
        let both = [one, made(2, b"a", b"")].concat();
        assert!(records(&both, both.len(), ByteOrder::Little).is_ok());
    }

    #[test]
    fn a_record_behind_the_end_is_one_more() {
        let (one, two) = (made(1, b"a", b"x"), made(1, b"b", b"yy"));
        let area = [one.clone(), two, vec![0; 64]].concat();
        assert_eq!(records(&area, one.len(), ByteOrder::Little), Ok(area.len() - 64));
        assert_eq!(records(&area, area.len() - 64, ByteOrder::Little), Ok(area.len() - 64));
    }
}
