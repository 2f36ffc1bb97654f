//! What every file holds: blocks claimed, counts set, what nothing names freed.

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{Phase, Rebuild, damaged};
use crate::OpenError;
use crate::layout::{DIRECT_POINTERS, Dinode, INDIRECT_POINTERS, ROOT_INODE};
use crate::map::{block_count, run_length, sectors};
use crate::size::has_blocks;

const POINTER: usize = 8;

/// The blocks of a file, and what has to be corrected.
#[derive(Default)]
struct Blocks {
    /// Data blocks: block of the file, address.
    data: Vec<(u64, u64)>,
    /// Indirect blocks.
    indirect: Vec<u64>,
    /// Pointers behind the end of the file, by byte of the disk.
    stray: Vec<u64>,
}

impl Rebuild<'_> {
    pub(super) async fn settle_files(&mut self) -> Result<(), OpenError> {
        let numbers: Vec<u64> = self.inodes.keys().copied().collect();
        let total = numbers.len() as u64;
        for (done, ino) in numbers.into_iter().enumerate() {
            if self.inodes[&ino].reached {
                self.settle_file(ino).await?;
                self.report.files += 1;
            } else {
                self.free_inode(ino).await?;
            }
            self.tell(Phase::Files, done as u64 + 1, total);
        }
        Ok(())
    }

    async fn free_inode(&mut self, ino: u64) -> Result<(), OpenError> {
        let generation = self.dinode(ino).await?.generation;
        let mut dinode = Dinode::zeroed();
        dinode.generation = generation;
        self.put_dinode(ino, dinode).await?;
        self.inodes.remove(&ino);
        self.report.freed_inodes += 1;
        Ok(())
    }

    async fn settle_file(&mut self, ino: u64) -> Result<(), OpenError> {
        let old = self.dinode(ino).await?;
        let mut new = old;
        let found = &self.inodes[&ino];
        let (kind, names) = (found.kind, found.names);
        let mut held = 0;
        if has_blocks(kind, &old) {
            held += self.settle_blocks(ino, &mut new).await?;
        }
        let attributes = u64::from(old.attribute_size.get());
        for (index, address) in old.attribute_blocks.iter().enumerate() {
            let address = address.get() as u64;
            if address != 0 {
                let run = run_length(self.geometry, attributes, index as u64);
                self.hold(ino, address, run)?;
                held += run;
            }
        }
        new.sectors.set(sectors(self.geometry, held));
        if u32::try_from(old.links.get()) != Ok(names) {
            let links = i16::try_from(names);
            new.links.set(links.map_err(|_| damaged(format!("inode {ino} has too many names")))?);
            self.report.link_counts += 1;
        }
        let pointers = new.direct != old.direct || new.indirect != old.indirect;
        if new.sectors != old.sectors || new.size != old.size || pointers {
            self.report.block_counts += 1;
        }
        if new.links != old.links || new.sectors != old.sectors || new.size != old.size || pointers
        {
            self.put_dinode(ino, new).await?;
        }
        Ok(())
    }

    /// Claims the blocks of a file and clears pointers behind its end. Returns its fragments.
    async fn settle_blocks(&mut self, ino: u64, dinode: &mut Dinode) -> Result<u64, OpenError> {
        let size = dinode.size.get();
        if size > self.geometry.max_file_size {
            return Err(damaged(format!("inode {ino} is too long")));
        }
        let blocks = self.collect(ino, dinode, true).await?;
        let mut held = 0;
        for &(lbn, address) in &blocks.data {
            let run = run_length(self.geometry, size, lbn);
            self.hold(ino, address, run)?;
            held += run;
        }
        for &address in &blocks.indirect {
            self.hold(ino, address, self.geometry.fragments_per_block)?;
            held += self.geometry.fragments_per_block;
        }
        for &byte in &blocks.stray {
            self.repairs.put(self.device, byte, &[0; POINTER]).await?;
            self.report.block_counts += 1;
        }
        let count = block_count(self.geometry, size);
        if count > DIRECT_POINTERS as u64
            && blocks.data.last().is_none_or(|&(last, _)| last + 1 < count)
        {
            return Err(damaged(format!("inode {ino} ends in a hole")));
        }
        Ok(held)
    }

    /// The blocks of a directory, in order and without holes.
    pub(super) async fn file_blocks(
        &self,
        ino: u64,
        dinode: &Dinode,
    ) -> Result<Vec<(u64, u64)>, OpenError> {
        let blocks = self.collect(ino, &mut dinode.clone(), false).await?.data;
        let count = block_count(self.geometry, dinode.size.get());
        let whole = blocks.iter().map(|&(lbn, _)| lbn).eq(0..count);
        if whole { Ok(blocks) } else { Err(damaged(format!("directory {ino} has a hole"))) }
    }

    /// Follows all pointers of a file. With `mend`, the inode's own strays are cleared.
    async fn collect(
        &self,
        ino: u64,
        dinode: &mut Dinode,
        mend: bool,
    ) -> Result<Blocks, OpenError> {
        let count = block_count(self.geometry, dinode.size.get());
        let mut blocks = Blocks::default();
        for lbn in 0..DIRECT_POINTERS {
            match dinode.direct[lbn].get() as u64 {
                0 => {}
                _ if lbn as u64 >= count => dinode.direct[lbn].set(0),
                address => blocks.data.push((lbn as u64, self.check(ino, address)?)),
            }
        }
        let fan = self.geometry.pointers_per_indirect;
        let mut first = DIRECT_POINTERS as u64;
        for tree in 0..INDIRECT_POINTERS {
            let span = fan.pow(tree as u32);
            match dinode.indirect[tree].get() as u64 {
                0 => {}
                _ if first >= count => dinode.indirect[tree].set(0),
                address => {
                    let place = Tree { ino, address, span, first, count };
                    self.collect_tree(place, mend, &mut blocks).await?;
                }
            }
            first += span * fan;
        }
        Ok(blocks)
    }

    fn collect_tree<'a>(
        &'a self,
        tree: Tree,
        mend: bool,
        blocks: &'a mut Blocks,
    ) -> LocalBoxFuture<'a, Result<(), OpenError>> {
        async move {
            let address = self.check(tree.ino, tree.address)?;
            blocks.indirect.push(address);
            let image = self.read(address, self.geometry.block_size as usize).await?;
            for (slot, bytes) in image.chunks_exact(POINTER).enumerate() {
                let pointer = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                let lbn = tree.first + slot as u64 * tree.span;
                if pointer == 0 {
                    continue;
                }
                if lbn >= tree.count {
                    let byte = self.geometry.byte_address(address) + (slot * POINTER) as u64;
                    blocks.stray.extend(mend.then_some(byte));
                } else if tree.span == 1 {
                    blocks.data.push((lbn, self.check(tree.ino, pointer)?));
                } else {
                    let span = tree.span / self.geometry.pointers_per_indirect;
                    let below = Tree { address: pointer, span, first: lbn, ..tree };
                    self.collect_tree(below, mend, blocks).await?;
                }
            }
            Ok(())
        }
        .boxed_local()
    }

    fn check(&self, ino: u64, address: u64) -> Result<u64, OpenError> {
        if self.geometry.is_data_fragment(address) {
            Ok(address)
        } else {
            Err(damaged(format!("inode {ino} points at fragment {address}, which is no data")))
        }
    }
}

/// An indirect block and the part of the file that it covers.
#[derive(Clone, Copy)]
struct Tree {
    ino: u64,
    address: u64,
    /// Blocks of the file that one slot covers.
    span: u64,
    /// The first block of the file that it covers.
    first: u64,
    /// Blocks of the file.
    count: u64,
}

/// Inodes that count as used without being files.
pub(super) fn reserved_inodes(group: u64) -> std::ops::Range<u64> {
    if group == 0 { 0..ROOT_INODE } else { 0..0 }
}
