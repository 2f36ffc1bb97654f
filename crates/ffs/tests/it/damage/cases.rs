//! All damages of the table, in a fixed order.

use std::mem::offset_of;

use directory::entry::{CHUNK_SIZE, ENTRY_HEADER_SIZE, EntryHeader};
use sim::Prng;
use ufs2::layout::{
    DIRECT_POINTERS, Dinode, GROUP_HEADER_SIZE, INODE_SIZE, RECOVERY_RECORD_ADDRESS,
    SUPERBLOCK_ADDRESS, Superblock,
};
use zerocopy::FromBytes;

use super::base::Base;
use super::composed::composed;
use super::map::Owner;
use super::mutation::{Mutation, Structure, structure_of};
use crate::common::edit::{group_byte, inode_at, inode_byte};

/// Every damage.
pub(crate) fn all(base: &Base, overwrites: u64) -> Vec<Mutation> {
    let mut cases = Vec::new();
    superblocks(base, &mut cases);
    groups(base, &mut cases);
    summary(base, &mut cases);
    inodes(base, &mut cases);
    directories(base, &mut cases);
    indirect(base, &mut cases);
    attributes(base, &mut cases);
    if base.name != "freebsd" {
        cases.extend(composed(base));
    }
    blocks(base, overwrites, &mut cases);
    cases.retain(|case| {
        case.changes.iter().any(|(at, bytes)| base.disk.bytes(*at, bytes.len()) != *bytes)
    });
    cases
}

/// Four other values for each byte.
fn every_byte(
    base: &Base,
    cases: &mut Vec<Mutation>,
    structure: Structure,
    (start, what): (u64, &str),
    offsets: impl Iterator<Item = usize>,
) {
    for offset in offsets {
        let at = start + offset as u64;
        let old = base.disk.bytes(at, 1)[0];
        for new in [old ^ 0x01, old ^ 0x80, old ^ 0xff, 0] {
            let label = format!("{what} byte {offset}: {old:#04x} becomes {new:#04x}");
            cases.push(Mutation::new(structure, label, at, vec![new]));
        }
    }
}

/// Replacements for a number.
fn numbers(
    cases: &mut Vec<Mutation>,
    structure: Structure,
    (at, what): (u64, &str),
    width: usize,
    values: &[u64],
) {
    for &value in values {
        let label = format!("{what} becomes {value:#x}");
        cases.push(Mutation::new(structure, label, at, value.to_le_bytes()[..width].to_vec()));
    }
}

fn superblocks(base: &Base, cases: &mut Vec<Mutation>) {
    let size = base.geometry.superblock_size as usize;
    let used = size_of::<Superblock>();
    let offsets = || (0..used).chain((used..size).step_by(61));
    every_byte(base, cases, Structure::Superblock, (SUPERBLOCK_ADDRESS, "primary"), offsets());
    for group in [0, base.geometry.group_count - 1] {
        let fragment = base.geometry.backup_superblock_fragment(group);
        let start = base.geometry.byte_address(fragment);
        let what = format!("copy of group {group}");
        every_byte(base, cases, Structure::Backup, (start, &what), offsets());
    }
    let place = (RECOVERY_RECORD_ADDRESS, "record");
    every_byte(base, cases, Structure::Recovery, place, 0..20);
}

fn groups(base: &Base, cases: &mut Vec<Mutation>) {
    let geometry = &base.geometry;
    for group in [0, geometry.group_count - 1] {
        let start = group_byte(geometry, group);
        let what = format!("group {group}");
        let header = 0..GROUP_HEADER_SIZE;
        every_byte(base, cases, Structure::GroupHeader, (start, &what), header);
        let field = offset_of!(ufs2::layout::GroupHeader, initialized_inodes) as u64;
        let limit = geometry.inodes_per_group;
        let step = geometry.inodes_per_block;
        let values = [step, 2 * step, limit, limit - step, limit + step, 1];
        let what_limit = format!("{what} initialised inodes");
        let place = (start + field, &*what_limit);
        numbers(cases, Structure::GroupHeader, place, 4, &values);
        let maps = &geometry.maps;
        let ends = [maps.inodes.end, maps.fragments.end, maps.cluster_sums.end, maps.clusters.end];
        let borders = ends.into_iter().flat_map(|end| end - 1..(end + 2));
        let sums = maps.fragments.end..maps.clusters.start;
        let sample = (GROUP_HEADER_SIZE..maps.end).step_by(7);
        let tail = (maps.end..geometry.group_block_size as usize).step_by(101);
        let mut offsets: Vec<usize> = borders.chain(sums).chain(sample).chain(tail).collect();
        offsets.retain(|&offset| offset < geometry.group_block_size as usize);
        offsets.sort_unstable();
        offsets.dedup();
        let offsets = offsets.into_iter();
        every_byte(base, cases, Structure::GroupMaps, (start, &what), offsets);
    }
}

fn summary(base: &Base, cases: &mut Vec<Mutation>) {
    let start = base.geometry.byte_address(base.geometry.summary_address);
    let rows = base.geometry.group_count as usize * 16;
    let size = (base.geometry.summary_fragments * base.geometry.fragment_size) as usize;
    let offsets = (0..rows).chain((rows..size).step_by(37));
    every_byte(base, cases, Structure::Summary, (start, "area"), offsets);
}

/// Impossible values for a pointer, and some plausible ones.
fn addresses(base: &Base, ino: u64) -> Vec<u64> {
    let geometry = &base.geometry;
    let foreign = base.map.fragments(
        |owner| matches!(owner, Owner::Data(other, 0) | Owner::Indirect(other, _) if other != ino),
    );
    let own = base.map.fragments(|owner| matches!(owner, Owner::Data(other, _) if other == ino));
    let directory = base.map.fragments(|owner| matches!(owner, Owner::Directory(..)));
    let free = base.map.fragments(|owner| owner == Owner::Nothing);
    let mut values = vec![
        0,
        1,
        geometry.summary_address,
        geometry.group_header_fragment(0),
        geometry.inode_table_fragment(geometry.group_count - 1),
        geometry.size - 1,
        geometry.size,
        u64::MAX,
        1 << 63,
        free[free.len() / 2],
        free[free.len() - 1] + 1,
    ];
    let middle = |list: &[u64]| list.get(list.len() / 2).copied();
    values.extend([foreign.first(), own.first(), directory.first()].into_iter().flatten());
    values.extend(
        [middle(&foreign), middle(&directory), foreign.last().copied()].into_iter().flatten(),
    );
    values
}

fn inodes(base: &Base, cases: &mut Vec<Mutation>) {
    let geometry = &base.geometry;
    for (&ino, file) in &base.files {
        let dinode = base.map.inodes.get(&ino);
        let what = format!("inode {ino} ({})", file.paths[0]);
        inode(base, cases, ino, dinode, &what);
    }
    let unused = (0..base.map.initialised[0]).find(|ino| !base.map.inodes.contains_key(ino));
    let used = |ino: &u64| {
        let generation = inode_at(&base.disk, geometry, *ino).generation.get();
        generation != 0 && !base.map.inodes.contains_key(ino)
    };
    let former = (ufs2::layout::ROOT_INODE..base.map.initialised[0]).find(used);
    for ino in [Some(0), Some(1), unused, former].into_iter().flatten() {
        inode(base, cases, ino, None, &format!("free inode {ino}"));
    }
    // Bytes behind the limit have no meaning.
    let group = geometry.group_count - 1;
    let limit = base.map.initialised[group as usize];
    if limit < geometry.inodes_per_group {
        let ino = group * geometry.inodes_per_group + limit;
        let at = inode_byte(geometry, ino);
        let label = format!("inode {ino} behind the limit");
        let noise = vec![0x81; INODE_SIZE as usize];
        cases.push(Mutation::new(Structure::InodeFree, label, at, noise));
    }
}

fn inode(base: &Base, cases: &mut Vec<Mutation>, ino: u64, dinode: Option<&Dinode>, what: &str) {
    let start = inode_byte(&base.geometry, ino);
    let structure = structure_of(dinode);
    every_byte(base, cases, structure, (start, what), 0..INODE_SIZE as usize);
    for kind in 0..16_u64 {
        let mode = dinode.map_or(0o644, |dinode| u64::from(dinode.permissions()));
        numbers(cases, structure, (start, &format!("{what} mode")), 2, &[kind << 12 | mode]);
    }
    let size = dinode.map_or(0, |dinode| dinode.size.get());
    let block = base.geometry.block_size;
    let sizes = [
        0,
        1,
        511,
        512,
        513,
        119,
        120,
        121,
        block - 1,
        block,
        block + 1,
        12 * block,
        12 * block + 1,
        size.wrapping_sub(1),
        size + 1,
        size + 512,
        size + block,
        base.geometry.max_file_size,
        base.geometry.max_file_size + 1,
        u64::MAX,
        1 << 63,
        1 << 40,
    ];
    let at = |field: usize| start + field as u64;
    let place = (at(offset_of!(Dinode, size)), &*format!("{what} size"));
    numbers(cases, structure, place, 8, &sizes);
    let links = dinode.map_or(0, |dinode| dinode.links.get() as u64);
    let counts = [0, 1, 2, 3, links + 1, links.wrapping_sub(1), 32_767, 0x8000, 65_500, 0xffff];
    let place = (at(offset_of!(Dinode, links)), &*format!("{what} links"));
    numbers(cases, structure, place, 2, &counts);
    let addresses = addresses(base, ino);
    let extended = offset_of!(Dinode, attribute_size);
    let sizes = [1, 8, 32, 512, block, 2 * block, 2 * block + 1, u64::from(u32::MAX)];
    numbers(cases, structure, (at(extended), &format!("{what} attribute size")), 4, &sizes);
    for index in [0, 1, 2, 3, 7, 12, 13, 14, 15, 16] {
        let field = offset_of!(Dinode, attribute_blocks) + 8 * index;
        debug_assert!(field < offset_of!(Dinode, change), "{DIRECT_POINTERS} and three");
        let place = (at(field), &*format!("{what} pointer {index}"));
        numbers(cases, structure, place, 8, &addresses);
    }
}

fn directories(base: &Base, cases: &mut Vec<Mutation>) {
    for (&ino, file) in &base.files {
        if file.attributes.kind != vfs::FileKind::Directory {
            continue;
        }
        let fragments =
            base.map.fragments(|owner| matches!(owner, Owner::Directory(own, _) if own == ino));
        let mut chunks = Vec::new();
        for fragment in fragments {
            let Owner::Directory(_, offset) = base.map.owner(base.geometry.byte_address(fragment))
            else {
                unreachable!("they were chosen")
            };
            for inside in (0..base.geometry.fragment_size).step_by(CHUNK_SIZE) {
                if offset + inside < file.attributes.size {
                    chunks.push(base.geometry.byte_address(fragment) + inside);
                }
            }
        }
        let count = chunks.len();
        for (index, at) in chunks.into_iter().enumerate() {
            if index < 2 || index == count / 2 || index + 1 == count {
                let what = format!("{} chunk {index}", file.paths[0]);
                chunk(base, cases, ino, at, &what);
            }
        }
    }
}

fn chunk(base: &Base, cases: &mut Vec<Mutation>, ino: u64, start: u64, what: &str) {
    let bytes = base.disk.bytes(start, CHUNK_SIZE);
    let structure = Structure::Directory;
    let free = base.map.initialised[0] - 1;
    let files: Vec<u64> = base.files.keys().copied().collect();
    let mut targets = vec![0, 1, 2, ino, free, base.geometry.inode_count(), 0xffff_ffff];
    targets.extend([files[files.len() / 2], files[files.len() / 3], files[files.len() - 1]]);
    let mut at = 0;
    while at < CHUNK_SIZE {
        let (header, _) = EntryHeader::read_from_prefix(&bytes[at..]).expect("a sound chunk");
        let length = u64::from(header.record_length.get());
        let name = u64::from(header.name_length);
        let place = |field: usize| start + (at + field) as u64;
        let what = format!("{what} entry at {at}");
        let lengths = [
            0,
            3,
            4,
            8,
            12,
            16,
            length - 4,
            length + 4,
            length * 2,
            length / 2,
            511,
            512,
            0xffff,
            CHUNK_SIZE as u64 - at as u64,
        ];
        numbers(cases, structure, (place(0), &format!("{what} inode")), 4, &targets);
        numbers(cases, structure, (place(4), &format!("{what} length")), 2, &lengths);
        let kinds: Vec<u64> = (0..16).chain([255]).collect();
        numbers(cases, structure, (place(6), &format!("{what} type")), 1, &kinds);
        let names = [0, 1, name.saturating_sub(1), name + 1, length, 255];
        numbers(cases, structure, (place(7), &format!("{what} name length")), 1, &names);
        let end = (name as usize + 2).min(length as usize - ENTRY_HEADER_SIZE);
        for index in (0..end).filter(|index| *index < 5 || index + 4 > end) {
            let old = bytes[at + ENTRY_HEADER_SIZE + index];
            let others = [0, b'/', old ^ 1, old ^ 0x80].map(u64::from);
            let place = place(ENTRY_HEADER_SIZE + index);
            numbers(cases, structure, (place, &format!("{what} name byte {index}")), 1, &others);
        }
        at += length as usize;
    }
}

fn indirect(base: &Base, cases: &mut Vec<Mutation>) {
    let blocks = base.map.fragments(|owner| matches!(owner, Owner::Indirect(..)));
    let starts = blocks.into_iter().filter(|at| at % base.geometry.fragments_per_block == 0);
    for fragment in starts {
        let start = base.geometry.byte_address(fragment);
        let Owner::Indirect(ino, first) = base.map.owner(start) else { unreachable!("chosen") };
        let image = base.disk.bytes(start, base.geometry.block_size as usize);
        let mut empty = 0;
        for (index, pointer) in image.chunks_exact(8).enumerate() {
            if pointer.iter().all(|&byte| byte == 0) {
                empty += 1;
                if empty > 3 {
                    continue;
                }
            }
            let at = start + index as u64 * 8;
            let what = format!("inode {ino} blocks from {first}, pointer {index}");
            let mut values = addresses(base, ino);
            values.push(fragment);
            numbers(cases, Structure::Indirect, (at, &what), 8, &values);
            every_byte(base, cases, Structure::Indirect, (at, &what), 0..8);
        }
    }
}

fn attributes(base: &Base, cases: &mut Vec<Mutation>) {
    for fragment in base.map.fragments(|owner| matches!(owner, Owner::Attribute(..))) {
        let start = base.geometry.byte_address(fragment);
        let what = format!("attributes in fragment {fragment}");
        every_byte(base, cases, Structure::Attribute, (start, &what), 0..8);
    }
}

/// Blocks of metadata, sometimes of data, that are overwritten with something else.
fn blocks(base: &Base, count: u64, cases: &mut Vec<Mutation>) {
    let mut prng = Prng::new(0xb10c);
    let metadata = base.metadata();
    let used = base.map.fragments(|owner| owner != Owner::Nothing);
    let size = base.geometry.fragment_size;
    for index in 0..count {
        let pool = if prng.chance(1, 8) { &used } else { &metadata };
        let at = pool[prng.index(pool.len())] * size;
        // Unused inodes are most of the metadata: they shall not be most of the cases.
        let inodes = matches!(base.map.owner(at), Owner::Inodes(_));
        if inodes && prng.chance(7, 8) {
            continue;
        }
        let run = 1 + prng.below(base.geometry.fragments_per_block);
        let length = (run * size) as usize;
        let (bytes, how) = overwrite(base, &mut prng, at, length, &metadata);
        let label = format!("overwrite {index}: {length} bytes at byte {at} with {how}");
        cases.push(Mutation::new(Structure::Blocks, label, at, bytes));
    }
}

fn overwrite(
    base: &Base,
    prng: &mut Prng,
    at: u64,
    length: usize,
    metadata: &[u64],
) -> (Vec<u8>, &'static str) {
    let mut bytes = vec![0; length];
    match prng.below(5) {
        0 => (bytes, "zeros"),
        1 => {
            prng.fill(&mut bytes);
            (bytes, "noise")
        }
        2 => {
            let from = metadata[prng.index(metadata.len())] * base.geometry.fragment_size;
            let room = base.geometry.size * base.geometry.fragment_size - length as u64;
            (base.disk.bytes(from.min(room), length), "other metadata")
        }
        3 => {
            let shift = [1, 4, 8, 256, 512][prng.index(5)];
            (base.disk.bytes(at - shift, length), "itself, shifted")
        }
        _ => {
            let mut bytes = base.disk.bytes(at, length);
            for _ in 0..1 + prng.below(8) {
                let index = prng.index(length);
                bytes[index] ^= 1 << prng.below(8);
            }
            (bytes, "bits turned over")
        }
    }
}
