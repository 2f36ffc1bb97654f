//! Bringing a volume back after a cut, from its inodes and directories.
//!
//! Policy `sync` writes so that at every moment inodes and directories tell the truth about every
//! operation that was acknowledged; maps, counts and link counts may be behind. So a rebuild
//! believes the tree that hangs from the root, and derives the rest:
//!
//! 1. `inodes`: read every initialised inode.
//! 2. `tree`: walk the directories from the root; count the names of every file. A directory that a
//!    cut rename left under two names keeps the one that its ".." points to.
//! 3. `files`: free what nothing names; set link counts and block counts; clear pointers behind the
//!    end of a file; note who holds which fragment.
//! 4. `maps`: write anew every group whose maps or header differ, and the summary area.
//!
//! # Cuts
//! A rebuild may be cut anywhere and begun again: until the volume is stopped cleanly its mark
//! stays, and no step changes what hangs from the root, except that it completes or takes back an
//! operation that was never acknowledged. All repairs are gathered first and written sector by
//! sector, in any order, then flushed.
//!
//! # What it refuses
//! Damage that no cut can leave: a broken directory chunk, a name without a file, a fragment with
//! two owners, an inode that does not fit its hash. That is for a checker, not for a rebuild.

mod files;
mod inodes;
mod maps;
mod repairs;
mod tree;

use std::collections::BTreeMap;

use block::BlockDevice;
use runtime::Runtime;
use vfs::FileKind;

use crate::OpenError;
use crate::derive::bits;
use crate::layout::{Dinode, Geometry};
use repairs::Repairs;

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Groups or directories done.
    pub done: u64,
    /// Groups or directories in all.
    pub total: u64,
}

/// The passes of a rebuild, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading the inodes of every group.
    Inodes,
    /// Walking the directories.
    Tree,
    /// Looking at the blocks of every file.
    Files,
    /// Writing maps.
    Maps,
}

/// What a rebuild found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that were found and kept.
    pub files: u64,
    /// Files that nothing named: freed.
    pub freed_inodes: u64,
    /// Link counts that were set.
    pub link_counts: u64,
    /// Second names of directories that were taken away.
    pub second_names: u64,
    /// ".." entries that were set.
    pub parents: u64,
    /// Files whose block count or pointers behind the end were corrected.
    pub block_counts: u64,
    /// Groups whose maps, counts or hash were written anew.
    pub groups: u64,
}

/// What is known of an allocated inode.
struct Found {
    kind: FileKind,
    /// Names that point at it, "." and ".." among them.
    names: u32,
    /// Whether it hangs from the root.
    reached: bool,
}

/// A rebuild under way.
struct Rebuild<'a> {
    device: &'a dyn BlockDevice,
    geometry: &'a Geometry,
    progress: &'a mut dyn FnMut(Progress),
    report: Report,
    repairs: Repairs,
    /// Every allocated inode.
    inodes: BTreeMap<u64, Found>,
    /// Initialised inodes of each group.
    initialised: Vec<u64>,
    /// A bit for each fragment that a file holds.
    held: Vec<u8>,
    /// The block of inodes that was read last, by its fragment: files are visited in order.
    inode_block: Option<(u64, Vec<u8>)>,
}

/// Rebuilds the volume on `device`. Afterwards its maps, summary area and link counts are true; its
/// superblock is as it was.
///
/// # Errors
/// [`OpenError::Damaged`] for what no cut can leave, before anything was written;
/// [`OpenError::Device`].
pub async fn rebuild(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    runtime: &Runtime,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, OpenError> {
    let mut rebuild = Rebuild {
        device,
        geometry,
        progress,
        report: Report::default(),
        repairs: Repairs::default(),
        inodes: BTreeMap::new(),
        initialised: Vec::new(),
        held: vec![0; geometry.size.div_ceil(8) as usize],
        inode_block: None,
    };
    rebuild.read_inodes().await?;
    rebuild.walk_tree().await?;
    rebuild.settle_files().await?;
    rebuild.write_repairs().await?;
    rebuild.write_maps(runtime.clock.wall()).await?;
    device.flush().await?;
    Ok(rebuild.report)
}

impl Rebuild<'_> {
    async fn read(&self, fragment: u64, size: usize) -> Result<Vec<u8>, OpenError> {
        let buffer = block::Buffer::zeroed(size);
        let mut bytes = self.device.read(self.geometry.byte_address(fragment), buffer).await?;
        self.repairs.overlay(self.geometry.byte_address(fragment), &mut bytes);
        Ok(bytes.to_vec())
    }

    async fn dinode(&mut self, ino: u64) -> Result<Dinode, OpenError> {
        let position = self.geometry.inode_position(ino);
        let block = match self.inode_block.take() {
            Some((fragment, block)) if fragment == position.fragment => block,
            _ => self.read(position.fragment, self.geometry.block_size as usize).await?,
        };
        let dinode = *Dinode::at(&block, position.offset);
        self.inode_block = Some((position.fragment, block));
        Ok(dinode)
    }

    /// Puts an inode back, sealed.
    async fn put_dinode(&mut self, ino: u64, mut dinode: Dinode) -> Result<(), OpenError> {
        use zerocopy::IntoBytes;
        self.geometry.seal_inode(&mut dinode);
        let position = self.geometry.inode_position(ino);
        let byte = self.geometry.byte_address(position.fragment) + position.offset as u64;
        self.inode_block = None; // it shows the old one
        self.repairs.put(self.device, byte, dinode.as_bytes()).await
    }

    /// Claims a run for a file.
    fn hold(&mut self, ino: u64, first: u64, count: u64) -> Result<(), OpenError> {
        let range = first..first + count;
        if !self.geometry.is_data_run(first, count) {
            return Err(damaged(format!(
                "inode {ino} points at fragment {first}, which is no data"
            )));
        }
        if !bits::none_set(&self.held, range.clone()) {
            return Err(damaged(format!(
                "fragment {first} of inode {ino} belongs to another file"
            )));
        }
        bits::set_range(&mut self.held, range);
        Ok(())
    }

    /// Writes what was gathered, all of it, and waits until it is durable.
    async fn write_repairs(&mut self) -> Result<(), OpenError> {
        self.repairs.write(self.device).await
    }

    fn tell(&mut self, phase: Phase, done: u64, total: u64) {
        (self.progress)(Progress { phase, done, total });
    }
}

fn damaged(what: String) -> OpenError {
    OpenError::Damaged(what)
}
