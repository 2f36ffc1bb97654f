//! Damage to a chosen structure, with or without a matching hash.

use std::mem::offset_of;

use sim::{Image, Prng};
use ufs2::layout::{Dinode, Geometry, INODE_SIZE, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};

use super::garden::{Garden, inode_address};
use crate::input::Input;
use crate::targets::volume;

/// Makes the disk look as if it was in use and not stopped.
pub(super) fn make_unclean(image: &mut Image) {
    let superblock = |field: usize| SUPERBLOCK_ADDRESS + field as u64;
    image.write(superblock(offset_of!(Superblock, clean)), &[0]);
    image.write(superblock(offset_of!(Superblock, last_mount)), b"duramen:sync:0\0");
}

/// A structure: its address, its length, and its hash.
struct Place {
    address: u64,
    length: u64,
    seal: fn(&Geometry, &mut [u8]),
}

fn place(garden: &Garden, kind: u8, which: u8) -> Place {
    let geometry = &garden.geometry;
    let no_seal: fn(&Geometry, &mut [u8]) = |_, _| ();
    let pick = |list: &[u64]| list[usize::from(which) % list.len()];
    match kind % 6 {
        0 => Place {
            address: SUPERBLOCK_ADDRESS,
            length: SUPERBLOCK_ROOM,
            seal: |geometry, block| geometry.seal_superblock(block),
        },
        1 => {
            let group = u64::from(which) % geometry.group_count;
            Place {
                address: geometry.byte_address(geometry.group_header_fragment(group)),
                length: geometry.group_block_size,
                seal: |geometry, block| geometry.seal_group(block),
            }
        }
        2 | 3 => Place {
            address: inode_address(geometry, pick(&garden.inodes)),
            length: INODE_SIZE,
            seal: |geometry, block| geometry.seal_inode(Dinode::at_mut(block, 0)),
        },
        4 => Place { address: pick(&garden.blocks), length: geometry.fragment_size, seal: no_seal },
        _ => Place {
            address: geometry.byte_address(geometry.summary_address),
            length: geometry.summary_fragments * geometry.fragment_size,
            seal: no_seal,
        },
    }
}

/// Takes the next patch of an input.
pub(super) fn apply(garden: &Garden, image: &mut Image, input: &mut Input<'_>) {
    let (kind, which) = (input.u8(), input.u8());
    let Place { address, length, seal } = place(garden, kind, which);
    let offset = usize::from(input.u16()) % length as usize;
    let form = input.u8();
    let piece = input.bytes(1 + usize::from(form % 16));
    let mut block = vec![0; length as usize];
    image.read(address, &mut block);
    let end = (offset + piece.len()).min(block.len());
    block[offset..end].copy_from_slice(&piece[..end - offset]);
    if form >= 64 {
        seal(&garden.geometry, &mut block);
    }
    image.write(address, &block);
}

/// Adds a patch to an input, mostly of a whole field and sealed.
pub(super) fn generate(prng: &mut Prng, input: &mut Vec<u8>) {
    let width = volume::width(prng);
    let most = [1400, 300, 256, 256, 512, 64];
    let kind = prng.index(most.len());
    let offset = volume::offset(prng, most[kind], width);
    input.extend([kind as u8, prng.next_u64() as u8]);
    input.extend(offset.to_le_bytes());
    input.push((width - 1) as u8 + 16 * prng.below(16) as u8);
    input.extend(&volume::value(prng).to_le_bytes()[..width]);
}
