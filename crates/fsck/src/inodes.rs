//! Every inode, in the order of the disk, and every pointer below it.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use ufs2::layout::{Dinode, FLAG_SNAPSHOT, INODE_SIZE, Superblock};
use vfs::FileKind;
use zerocopy::IntoBytes;

use super::Severity::{Loss, Repairable};
use super::attributes::Verdict;
use super::blocks::{Purpose, Walk};
use super::directories::Directory;
use super::{CheckError, Checker, Invariant, Phase, Place, attributes, bit, fields};

/// Bytes of inodes per read, and the number of reads in flight.
const PIECE: u64 = 128 << 10;
const PIECES_IN_FLIGHT: usize = 8;

/// Adjacent inodes.
#[derive(Clone, Copy)]
struct Piece {
    first: u64,
    count: u64,
}

impl Checker<'_> {
    pub(super) async fn read_inodes(&mut self) -> Result<(), CheckError> {
        self.check_snapshot_list();
        self.take_inodes(Purpose::Claim, Phase::Inodes).await?;
        self.check_snapshot_files();
        self.clear_bad_slots().await
    }

    /// Walks all files again, to gather the claims on contested fragments.
    pub(super) async fn gather_claims(&mut self) -> Result<(), CheckError> {
        self.take_inodes(Purpose::Contest, Phase::Inodes).await
    }

    /// Processes every initialised inode, for a purpose.
    pub(super) async fn take_inodes(
        &mut self,
        purpose: Purpose,
        phase: Phase,
    ) -> Result<(), CheckError> {
        let groups = self.geometry.group_count;
        for group in 0..groups {
            for pieces in self.pieces(group).chunks(PIECES_IN_FLIGHT) {
                for (piece, table) in self.read_pieces(pieces).await? {
                    self.take_piece(piece, &table, purpose).await?;
                }
            }
            self.tell(phase, group + 1, groups);
        }
        Ok(())
    }

    fn pieces(&self, group: u64) -> Vec<Piece> {
        let base = group * self.geometry.inodes_per_group;
        let initialised = self.initialised[group as usize];
        let step = (PIECE / INODE_SIZE).max(self.geometry.inodes_per_block);
        let firsts = (0..initialised).step_by(step as usize);
        firsts
            .map(|first| Piece { first: base + first, count: step.min(initialised - first) })
            .collect()
    }

    async fn read_pieces(
        &self,
        pieces: &[Piece],
    ) -> Result<Vec<(Piece, block::Buffer)>, CheckError> {
        let reads = stream::iter(pieces.to_vec()).map(|piece| async move {
            let fragment = self.geometry.inode_position(piece.first).fragment;
            let byte = self.geometry.byte_address(fragment);
            let mut table = self.disk.read(byte, (piece.count * INODE_SIZE) as usize).await?;
            self.geometry.turn_inodes(&mut table);
            Ok((piece, table))
        });
        let read: Vec<Result<_, block::IoError>> = reads.buffered(PIECES_IN_FLIGHT).collect().await;
        Ok(read.into_iter().collect::<Result<_, _>>()?)
    }

    async fn take_piece(
        &mut self,
        piece: Piece,
        table: &[u8],
        purpose: Purpose,
    ) -> Result<(), CheckError> {
        let start = self.geometry.inode_position(piece.first).fragment;
        let byte = self.geometry.byte_address(start);
        self.note_unreadable((start, (piece.count * INODE_SIZE) as usize), Loss, |at| {
            Place::inode(piece.first + (at.saturating_sub(byte)) / INODE_SIZE)
        });
        let mut batch = Vec::new();
        let mut before = BTreeMap::new();
        for index in 0..piece.count {
            let old = Dinode::at(table, (index * INODE_SIZE) as usize);
            if untouched(old) {
                continue;
            }
            let ino = piece.first + index;
            let mut dinode = *old;
            if purpose == Purpose::Claim {
                // With its one wrong bit put back an inode is as it was: it is not doubted then.
                let is_put_back = bit::mend_inode(&self.geometry, ino, &mut dinode, &mut self.log);
                if !is_put_back && self.geometry.verify_inode(&dinode).is_err() {
                    self.unsealed.insert(ino);
                }
                let stated = dinode.size.get();
                let found = self.log.findings.total();
                fields::mend(&self.geometry, ino, &mut dinode, &mut self.log);
                self.check_snapshot_flag(ino, &mut dinode);
                self.check_attributes(ino, &mut dinode).await?;
                if dinode.size.get() != stated && !dinode.is_free() {
                    self.stated_sizes.entry(ino).or_insert(stated);
                }
                if self.log.findings.total() > found {
                    self.doubted.insert(ino);
                }
                before.insert(ino, *old);
            }
            batch.push(Walk::new(ino, dinode));
        }
        // Free inodes that were repaired are written back without a walk.
        self.walk(&mut batch, purpose).await?;
        if purpose == Purpose::Claim {
            for walk in batch {
                let old = before.remove(&walk.ino).expect("it was noted above");
                self.take_walk(walk, &old).await?;
            }
        }
        Ok(())
    }

    async fn take_walk(&mut self, mut walk: Walk, old: &Dinode) -> Result<(), CheckError> {
        let kind = if walk.dinode.is_free() { None } else { walk.dinode.kind() };
        if kind.is_some() && self.is_suspect(&walk) {
            self.suspects.push(walk.ino);
        } else if kind.is_some() && walk.complete {
            self.settle_walk(&mut walk);
            self.check_target(&mut walk).await?;
        }
        if kind == Some(FileKind::Directory) && self.suspects.last() != Some(&walk.ino) {
            self.settle_directory_blocks(&mut walk);
        }
        let resealed = !walk.dinode.is_free()
            && self.geometry.verify_inode(&walk.dinode).is_err()
            && self.log.without != Some(Invariant::InodeHash);
        if walk.dinode.as_bytes() != old.as_bytes() || resealed {
            let mut dinode = walk.dinode;
            self.put_inode(walk.ino, &mut dinode).await?;
        }
        if let Some(kind) = kind {
            self.table.insert(walk.ino, kind, walk.dinode.links.get());
            if kind == FileKind::Directory {
                let blocks = walk.blocks.iter().map(|&(_, address)| address).collect();
                let size = walk.dinode.size.get();
                let depth = walk.dinode.free_link.get();
                self.directories.insert(walk.ino, Directory::new(size, depth, blocks));
            }
        }
        Ok(())
    }

    /// Checks that extended attributes are in their blocks, and are whole records. Bad ones are
    /// dropped together.
    async fn check_attributes(&mut self, ino: u64, dinode: &mut Dinode) -> Result<(), CheckError> {
        let size = u64::from(dinode.attribute_size.get());
        if dinode.is_free() || size == 0 && dinode.attribute_blocks.iter().all(|a| a.get() == 0) {
            return Ok(());
        }
        let verdict = attributes::check(&self.disk, &self.geometry, dinode).await?;
        self.note_unreadable_of(ino);
        let place = Place::inode(ino).named("extended attributes");
        let wrong = match verdict {
            Verdict::Whole => return Ok(()),
            Verdict::Longer(all) => {
                let (found, expected) = (format!("{size} bytes"), format!("{all}: records go on"));
                let (invariant, repair) = (Invariant::Attributes, "set");
                if self.log.find(invariant, Repairable, place, found, expected, repair) {
                    dinode.attribute_size.set(all as u32);
                }
                return Ok(());
            }
            Verdict::Broken(wrong) => wrong,
        };
        let repair = "dropped";
        if self.log.find(Invariant::Attributes, Loss, place, wrong, "whole records", repair) {
            dinode.attribute_size.set(0);
            dinode.attribute_blocks.iter_mut().for_each(|address| address.set(0));
        }
        Ok(())
    }

    fn snapshots(&self) -> Vec<u64> {
        let superblock = Superblock::of(&self.superblock);
        superblock.snapshots.iter().map(|ino| u64::from(ino.get())).collect()
    }

    fn check_snapshot_list(&mut self) {
        let list = self.snapshots();
        let used = list.iter().take_while(|&&ino| ino != 0).count();
        let packed = list[used..].iter().all(|&ino| ino == 0);
        let legal = list[..used].iter().all(|&ino| self.geometry.is_inode(ino));
        if packed && legal {
            return;
        }
        let (place, expected) = (Place::field("fs_snapinum"), "inodes, one behind the other");
        let found = format!("{list:?}");
        let repair = "those that are none dropped";
        if self.log.find(Invariant::Snapshots, Repairable, place, found, expected, repair) {
            let kept = list.into_iter().filter(|&ino| self.geometry.is_inode(ino)).collect();
            self.set_snapshots(kept);
        }
    }

    /// Listed snapshots are files. Those that are were compared with the list one by one.
    fn check_snapshot_files(&mut self) {
        for ino in self.snapshots() {
            if ino == 0 || self.table.get(ino).is_some() {
                continue;
            }
            let place = Place::inode(ino);
            let repair = "taken off the list";
            let (found, expected) = ("a free inode in the list", "a snapshot file");
            if self.log.find(Invariant::Snapshots, Repairable, place, found, expected, repair) {
                let kept = self.snapshots().into_iter();
                self.set_snapshots(kept.filter(|&one| one != ino && one != 0).collect());
            }
        }
    }

    fn set_snapshots(&mut self, list: Vec<u64>) {
        let superblock = Superblock::of_mut(&mut self.superblock);
        for (index, field) in superblock.snapshots.iter_mut().enumerate() {
            field.set(list.get(index).copied().unwrap_or(0) as u32);
        }
    }

    /// A file has the flag of a snapshot if, and only if, the superblock lists it.
    fn check_snapshot_flag(&mut self, ino: u64, dinode: &mut Dinode) {
        let flagged = !dinode.is_free() && dinode.flags.get() & FLAG_SNAPSHOT != 0;
        let list = self.snapshots();
        let listed = ino != 0 && list.contains(&ino); // 0 stands for none
        let regular = dinode.kind() == Some(FileKind::Regular);
        if flagged == listed && (regular || !flagged) {
            return;
        }
        let place = Place::inode(ino);
        let (found, expected) = ((flagged, listed), "both or neither, of a regular file");
        let found = format!("flag {}, listed {}", found.0, found.1);
        let repair = "taken for no snapshot";
        if !self.log.find(Invariant::Snapshots, Repairable, place, found, expected, repair) {
            return;
        }
        dinode.flags.set(dinode.flags.get() & !FLAG_SNAPSHOT);
        if listed {
            self.set_snapshots(list.into_iter().filter(|&one| one != ino && one != 0).collect());
        }
    }
}

/// Whether every byte is zero: the inode was never used.
fn untouched(dinode: &Dinode) -> bool {
    dinode.is_free() && {
        let mut rest = *dinode;
        rest.generation.set(0);
        rest.as_bytes().iter().all(|&byte| byte == 0)
    }
}
