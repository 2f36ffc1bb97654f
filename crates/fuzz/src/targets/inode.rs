//! Inodes: every field is valid or rejected, and a hash detects a flipped bit.
//!
//! The first byte chooses the disk, the second a bit to flip; the rest is the inode.

use runtime::Timestamp;
use sim::Prng;
use ufs2::layout::{Dinode, INODE_SIZE, kind_bits};
use vfs::{Device, FileKind};
use zerocopy::IntoBytes;

use super::Target;
use crate::input::Input;
use crate::templates::{self, Numbers, Template};

pub(super) const TARGET: Target =
    Target { name: "inode", check, generate, longest: 300, memory: 256 << 10 };

/// The numbers of an inode, but for its pointers.
const NUMBERS: [Numbers; 7] =
    [(2, 0, 4), (4, 4, 16), (8, 16, 64), (4, 64, 96), (8, 96, 112), (8, 232, 240), (4, 240, 248)];
const POINTERS: Numbers = (8, 112, 232);
const HASH: usize = 244;

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let template = input.pick(templates::all());
    let bit = input.u8();
    let mut block = input.rest().to_vec();
    block.resize(INODE_SIZE as usize, 0);
    check_fields(Dinode::at(&block, 0));
    check_hash(template, &mut block.clone(), bit);
    check_turning(template, &block);
}

fn check_fields(inode: &Dinode) {
    let kind = inode.kind();
    let bits = (inode.mode.get() >> 12) as u8;
    assert!(kind.is_none_or(|kind| kind_bits(kind) == bits), "{kind:?} has a form");
    assert!(!inode.is_free() || kind.is_none(), "what is free is no file");
    assert!(inode.permissions() <= 0o7777);
    assert_eq!(inode.inline_symlink_area()[..], inode.as_bytes()[112..232]);

    let mut copy = *inode;
    let times = |inode: &Dinode| {
        [inode.access_time(), inode.modify_time(), inode.change_time(), inode.birth_time()]
    };
    let [access, modify, change, birth] = times(inode);
    let legal = |time: &Timestamp| time.nanoseconds < 1_000_000_000;
    assert!([access, modify, change, birth].iter().all(legal), "a time can be shown");
    copy.set_access_time(access);
    copy.set_modify_time(modify);
    copy.set_change_time(change);
    copy.set_birth_time(birth);
    assert_eq!(times(&copy), [access, modify, change, birth]);
    let device = inode.device();
    copy.set_device(device);
    assert_eq!(copy.device(), device);
    assert_eq!(copy.direct[0], inode.direct[0], "a device has one number");
}

fn check_hash(template: &Template, block: &mut [u8], bit: u8) {
    let geometry = &template.geometry;
    let _ = geometry.verify_inode(Dinode::at(block, 0));
    geometry.seal_inode(Dinode::at_mut(block, 0));
    let inode = Dinode::at(block, 0);
    assert_eq!(geometry.verify_inode(inode), Ok(()), "what was sealed fits");
    let was_free = inode.is_free();
    let byte = usize::from(bit);
    block[byte] ^= 1 << (bit % 8);
    let inode = Dinode::at(block, 0);
    if geometry.inode_hashes && !was_free && !inode.is_free() {
        assert!(geometry.verify_inode(inode).is_err(), "a bit of byte {byte} is noticed");
    }
}

/// An inode of the other byte order is the same after conversion.
fn check_turning(template: &Template, block: &[u8]) {
    let mut little = block.to_vec();
    template.geometry.seal_inode(Dinode::at_mut(&mut little, 0));
    let inode = Dinode::at(&little, 0);
    let is_target = inode.kind() == Some(FileKind::Symlink) && inode.size.get() < 120;
    let mut big = little.clone();
    templates::turn(&mut big, &NUMBERS);
    if !is_target {
        templates::turn(&mut big, &[POINTERS]);
    }
    if template.big.inode_hashes && !inode.is_free() {
        templates::put_hash(&mut big, HASH);
    }
    template.big.turn_inodes(&mut big);
    assert_eq!(big, little, "an inode of the other byte order");
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut inode = Dinode::zeroed();
    inode.mode.set(prng.next_u64() as u16);
    inode.links.set(1);
    inode.size.set(prng.next_u64() >> prng.below(64));
    inode.sectors.set(prng.below(1 << 20));
    let seconds = prng.next_u64() as i64;
    let nanoseconds = prng.below(1_000_000_000) as u32;
    inode.set_access_time(Timestamp { seconds, nanoseconds });
    inode.set_modify_time(Timestamp { seconds, nanoseconds });
    inode.generation.set(prng.next_u64() as u32);
    inode.direct[0].set(prng.below(5000) as i64);
    inode.indirect[0].set(prng.below(5000) as i64);
    if prng.chance(1, 4) {
        inode.set_device(Device { major: prng.next_u64() as u32, minor: prng.next_u64() as u32 });
    }
    let mut input = vec![prng.next_u64() as u8, prng.next_u64() as u8];
    input.extend(inode.as_bytes());
    input
}
