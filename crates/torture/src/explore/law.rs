//! States that no cut may leave, even if a recovery would repair them: the three laws of ordered
//! writes.
//!
//! Never point at an uninitialised structure, never reuse a structure that is still pointed at,
//! never remove the old pointer before the new one is there. So at any moment the disk shows leaks
//! only: a *used* bit too many, a link count that is too high. A *free* bit for space of a file, or
//! a count below the number of names, is damage that another system's check refuses to repair by
//! itself (section 10 of the format's reference), and that a second cut makes fatal.

use block::Buffer;
use designs::Report;
use fsck::Invariant;
use sim::Image;
use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};

use super::design::Design;

/// Compares a volume before and after its recovery, which derives the maps from the files.
///
/// # Errors
/// Damage worse than a leak.
pub fn only_leaks(
    design: Design,
    before: &Image,
    after: &Image,
    report: &Report,
) -> Result<(), String> {
    if !design.is_ufs2() {
        return Ok(()); // another format has other laws
    }
    let geometry = &geometry_of(after)?;
    for group in 0..geometry.group_count {
        let [old, new] = [before, after].map(|image| group_block(geometry, image, group));
        let maps = [geometry.maps.fragments_in(&old), geometry.maps.fragments_in(&new)];
        if maps[0].iter().zip(maps[1]).any(|(old, new)| old & !new != 0) {
            return Err(format!("group {group} calls fragments free that files hold"));
        }
        let maps = [geometry.maps.inodes_in(&old), geometry.maps.inodes_in(&new)];
        if maps[0].iter().zip(maps[1]).any(|(old, new)| new & !old != 0) {
            return Err(format!("group {group} calls inodes free that are files"));
        }
    }
    for finding in &report.findings.list {
        let count = |text: &str| text.parse::<i64>().expect("a link count is a number");
        if finding.rule == Invariant::LinkCount.into()
            && count(&finding.found) < count(&finding.expected)
        {
            return Err(format!("a link count is too low: {finding}"));
        }
    }
    Ok(())
}

fn geometry_of(volume: &Image) -> Result<Geometry, String> {
    let mut room = Buffer::zeroed(SUPERBLOCK_ROOM as usize);
    volume.read(SUPERBLOCK_ADDRESS, &mut room);
    Geometry::parse(Superblock::of(&room)).map_err(|bad| bad.to_string())
}

fn group_block(geometry: &Geometry, image: &Image, group: u64) -> Vec<u8> {
    let mut block = vec![0; geometry.group_block_size as usize];
    let address = geometry.byte_address(geometry.group_header_fragment(group));
    image.read(address, &mut block);
    block
}
