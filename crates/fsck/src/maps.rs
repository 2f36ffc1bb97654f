//! Every group block and the summary area, compared with the files.

use std::mem::offset_of;
use std::ops::Range;

use futures::stream::{self, StreamExt};
use ufs2::bytes_of;
use ufs2::derive::{self, bits};
use ufs2::layout::{GROUP_MAGIC, Geometry, GroupHeader, ROOT_INODE, Summary, Superblock, Totals};
use vfs::FileKind;
use zerocopy::IntoBytes;

use super::Severity::Repairable;
use super::blocks::READS_IN_FLIGHT;
use super::{CheckError, Checker, Invariant, Phase, Place, fields};

/// A part of a group block, and its invariant.
struct Section {
    invariant: Invariant,
    name: &'static str,
    place: Range<usize>,
}

const fn section(invariant: Invariant, name: &'static str, place: Range<usize>) -> Section {
    Section { invariant, name, place }
}

/// All bytes of a group block but its times and its hash.
fn sections(geometry: &Geometry) -> Vec<Section> {
    use Invariant as I;
    let maps = &geometry.maps;
    let until = |field: usize, end: usize| field..end;
    let mut sections = vec![
        section(I::GroupHeader, "cg_magic", until(0, offset_of!(GroupHeader, old_time))),
        section(
            I::GroupHeader,
            "cg_cgx to cg_ndblk",
            until(offset_of!(GroupHeader, index), offset_of!(GroupHeader, counts)),
        ),
        section(I::GroupCounts, "cg_cs", bytes_of!(GroupHeader, counts)),
        section(
            I::GroupHints,
            "cg_rotor",
            until(offset_of!(GroupHeader, block_rotor), offset_of!(GroupHeader, fragment_runs)),
        ),
        section(I::GroupRuns, "cg_frsum", bytes_of!(GroupHeader, fragment_runs)),
        section(
            I::GroupHeader,
            "cg_iusedoff to cg_niblk",
            until(
                offset_of!(GroupHeader, reserved_84),
                offset_of!(GroupHeader, initialized_inodes),
            ),
        ),
        section(I::GroupInitialized, "cg_initediblk", bytes_of!(GroupHeader, initialized_inodes)),
        section(I::GroupUnreferenced, "cg_unrefs", bytes_of!(GroupHeader, unreferenced_inodes)),
        section(I::GroupHeader, "spare", bytes_of!(GroupHeader, reserved_128)),
        section(I::GroupHeader, "spare", bytes_of!(GroupHeader, reserved_144)),
        section(I::InodeMap, "inode map", maps.inodes.clone()),
        section(I::FragmentMap, "fragment map", maps.fragments.clone()),
        section(I::GroupTail, "cluster sum 0", maps.fragments.end..maps.cluster_sums.start),
        section(I::ClusterSums, "cluster sums", maps.cluster_sums.clone()),
        section(I::ClusterMap, "cluster map", maps.clusters.clone()),
        section(I::GroupTail, "tail", maps.end..geometry.group_block_size as usize),
    ];
    sections.retain(|section| !section.place.is_empty());
    sections
}

impl Checker<'_> {
    pub(super) async fn check_maps(&mut self) -> Result<(), CheckError> {
        let count = self.geometry.group_count;
        let sections = sections(&self.geometry);
        let mut rows = Vec::with_capacity(count as usize);
        for first in (0..count).step_by(READS_IN_FLIGHT) {
            let groups = first..(first + READS_IN_FLIGHT as u64).min(count);
            let reads = stream::iter(groups.clone()).map(|group| self.read_group(group));
            let blocks: Vec<_> = reads.buffered(READS_IN_FLIGHT).collect().await;
            for (group, block) in groups.zip(blocks) {
                let block = block?;
                self.note_unreadable_group(group);
                rows.push(self.check_group(group, &block, &sections).await?);
                self.tell(Phase::Maps, group + 1, count);
            }
        }
        self.check_summary(&rows).await?;
        if self.thorough {
            self.check_totals(&rows);
        }
        Ok(())
    }

    /// Checks one group; returns its counts.
    async fn check_group(
        &mut self,
        group: u64,
        old: &[u8],
        sections: &[Section],
    ) -> Result<Summary, CheckError> {
        let (mut new, counts) = self.true_group(group, old);
        for section in sections {
            let place = section.place.clone();
            if old[place.clone()] == new[place.clone()] {
                continue;
            }
            let where_ = Place::group(group).named(section.name);
            let (found, expected) = describe(section, old, &new, where_.clone(), &self.geometry);
            let invariant = section.invariant;
            let (found_text, place_found) = found;
            let repair = "written anew";
            if !self.log.find(invariant, Repairable, place_found, found_text, expected, repair) {
                new[place.clone()].copy_from_slice(&old[place]);
            }
        }
        let fits = self.group_hash_fits(group, old);
        if !fits || old != &new[..] {
            if old != &new[..] {
                GroupHeader::of_mut(&mut new).time.set(self.now.seconds);
                let header = GroupHeader::of_mut(&mut new);
                if header.old_time.get() != 0 {
                    header.old_time.set(self.now.seconds as i32);
                }
            }
            if !self.geometry.group_hashes && !fits {
                GroupHeader::of_mut(&mut new).check_hash.set(0);
            }
            self.geometry.seal_group(&mut new);
            let byte = self.geometry.byte_address(self.geometry.group_header_fragment(group));
            self.disk.put(byte, &new).await?;
        }
        Ok(counts)
    }

    /// Where no hashes are kept, the field is zero.
    fn group_hash_fits(&mut self, group: u64, block: &[u8]) -> bool {
        let (found, expected) = match self.geometry.verify_group(block) {
            Err(bad) => (bad.found, bad.expected),
            Ok(()) if self.geometry.group_hashes => return true,
            Ok(()) => (GroupHeader::of(block).check_hash.get(), 0),
        };
        if found == expected {
            return true;
        }
        let (found, expected) = (fields::hex(found), fields::hex(expected));
        let place = Place::group(group);
        let repair = "sealed anew";
        !self.log.find(Invariant::GroupHash, Repairable, place, found, expected, repair)
    }

    /// The group block as it follows from the files, and its counts. Times, hash and sensible hints
    /// are kept.
    fn true_group(&self, group: u64, old: &[u8]) -> (Vec<u8>, Summary) {
        let geometry = &self.geometry;
        let mut new = vec![0; geometry.group_block_size as usize];
        derive::initialize_group(geometry, group, &mut new);
        self.fill_maps(group, &mut new);
        let counts = derive::recompute_group(geometry, group, &mut new);
        let fragments = geometry.group_size_fragments(group);
        let (was, is) = (GroupHeader::of(old), GroupHeader::of_mut(&mut new));
        is.initialized_inodes.set(self.initialised[group as usize] as u32);
        if u64::from(was.block_rotor.get()) < fragments {
            is.block_rotor = was.block_rotor;
        }
        if u64::from(was.fragment_rotor.get()) < fragments {
            is.fragment_rotor = was.fragment_rotor;
        }
        if u64::from(was.inode_rotor.get()) < geometry.inodes_per_group {
            is.inode_rotor = was.inode_rotor;
        }
        if was.magic.get() == GROUP_MAGIC {
            (is.time, is.old_time) = (was.time, was.old_time);
        } else {
            is.time.set(self.now.seconds);
        }
        is.check_hash = was.check_hash;
        (new, counts)
    }

    fn fill_maps(&self, group: u64, block: &mut [u8]) {
        let geometry = &self.geometry;
        let first = group * geometry.inodes_per_group;
        let map = geometry.maps.inodes_in_mut(block);
        if group == 0 {
            bits::set_range(map, 0..ROOT_INODE); // never files, and never free
        }
        let mut directories = 0;
        for (ino, slot) in self.table.range(first..first + geometry.inodes_per_group) {
            bits::set(map, ino - first);
            directories += i32::from(slot.kind == FileKind::Directory);
        }
        let base = geometry.group_base(group);
        let map = geometry.maps.fragments_in_mut(block);
        bits::clear_all(map, &self.held, base, geometry.group_size_fragments(group));
        GroupHeader::of_mut(block).counts.directories.set(directories);
    }

    async fn check_summary(&mut self, rows: &[Summary]) -> Result<(), CheckError> {
        let geometry = self.geometry.clone();
        let size = (geometry.summary_fragments * geometry.fragment_size) as usize;
        let byte = geometry.byte_address(geometry.summary_address);
        let mut area = self.disk.read(byte, size).await?;
        let place = |_| Place::field("summary area");
        self.note_unreadable((geometry.summary_address, size), Repairable, place);
        geometry.turn_summary(&mut area);
        let mut changed = false;
        for (group, row) in rows.iter().enumerate() {
            let old = Summary::rows(&area)[group];
            if old == *row {
                continue;
            }
            let place = Place::group(group as u64);
            let (found, expected) = (text(&old), text(row));
            let invariant = Invariant::SummaryRow;
            if self.log.find(invariant, Repairable, place, found, expected, "copied") {
                Summary::rows_mut(&mut area)[group] = *row;
                changed = true;
            }
        }
        let behind = std::mem::size_of_val(rows);
        if area[behind..].iter().any(|&byte| byte != 0) {
            let place = Place::field("the end of the summary area");
            let invariant = Invariant::SummaryRow;
            let repair = "cleared";
            if self.log.find(invariant, Repairable, place, "bytes", "zeros", repair) {
                area[behind..].fill(0);
                changed = true;
            }
        }
        if changed {
            self.disk.put(byte, &area).await?;
        }
        Ok(())
    }

    fn check_totals(&mut self, rows: &[Summary]) {
        let totals = Totals::of(rows);
        let superblock = Superblock::of_mut(&mut self.superblock);
        if superblock.totals.as_bytes() == totals.as_bytes() {
            return;
        }
        let found = totals_text(&superblock.totals);
        let expected = totals_text(&totals);
        let place = Place::field("fs_cstotal");
        let invariant = Invariant::Totals;
        if self.log.find(invariant, Repairable, place, found, expected, "set") {
            superblock.totals = totals;
        }
    }
}

/// The found and the expected contents of a section, and the exact place.
fn describe(
    section: &Section,
    old: &[u8],
    new: &[u8],
    place: Place,
    geometry: &Geometry,
) -> ((String, Place), String) {
    let range = section.place.clone();
    let different = range.clone().filter(|&at| old[at] != new[at]);
    let at = different.clone().next().expect("they differ");
    let bits: u32 = different.map(|at| (old[at] ^ new[at]).count_ones()).sum();
    let bit = (at - range.start) as u64 * 8 + u64::from((old[at] ^ new[at]).trailing_zeros());
    let group = place.group.expect("a group's place");
    match section.invariant {
        Invariant::InodeMap => {
            let ino = group * geometry.inodes_per_group + bit;
            let found = format!("{bits} bits that are wrong");
            ((found, Place { ino: Some(ino), ..place }), "those of the files".into())
        }
        Invariant::FragmentMap => {
            let fragment = geometry.group_base(group) + bit;
            let found = format!("{bits} bits that are wrong");
            ((found, place.fragment(fragment)), "those of the files' fragments".into())
        }
        _ => {
            let end = range.end.min(at + 8);
            let show = |bytes: &[u8]| format!("{:02x?}", &bytes[at..end]);
            ((show(old), place.offset(at as u64)), show(new))
        }
    }
}

fn text(row: &Summary) -> String {
    format!(
        "{} directories, {} blocks, {} inodes, {} fragments",
        row.directories, row.free_blocks, row.free_inodes, row.free_fragments
    )
}

fn totals_text(totals: &Totals) -> String {
    format!(
        "{} directories, {} blocks, {} inodes, {} fragments, {} clusters",
        totals.directories,
        totals.free_blocks,
        totals.free_inodes,
        totals.free_fragments,
        totals.free_clusters
    )
}
