//! Looking at a file without keeping it: what LOOKUP and READDIRPLUS tell of it.
//!
//! Whoever names a file tells its attributes, and most files that are named are never used: a
//! listing names a thousand of them. A [`Node`](crate::inode::Node) for each would cost more than
//! the answer, and push out what is in use. When memory is short, a whole block of inodes for one
//! file is as bad; so the first who looks into a block that is not in memory reads a piece of it
//! and keeps nothing. Whoever comes back to the block soon, as a listing does, has it read.
//!
//! Invariants:
//! 1. While a file has a node, the node tells: it alone knows of UNSTABLE writes, and what a reply
//!    must wait for. It is looked for last, after everything that waits.
//! 2. Without a node, the inode in its block is the file as everybody sees it, and durable: a node
//!    goes only when that is so (`nodes`). Without a buffer, the disk has it.

use namespace::Glimpse;
use ufs2::layout::{Dinode, SECTOR_SIZE};
use vfs::{FsError, Ino, ObjectId, Sequence};

use crate::engine::Ffs;
use crate::inode::attributes_of;
use crate::planted::{Bug, is_planted};

/// Bytes that are read for one inode: two of them, since what the page cache has is copied.
const PIECE: usize = SECTOR_SIZE as usize;

impl Ffs {
    /// What is to be told of the file that has this number now.
    ///
    /// # Errors
    /// As [`Ffs::node_of`].
    pub(crate) async fn glimpse(&self, ino: u64) -> Result<Glimpse, FsError> {
        if let Some(glimpse) = self.ask_node(ino) {
            return Ok(glimpse);
        }
        if self.home.budget().is_crowded()
            && let Some(glimpse) = self.glimpse_past_buffers(ino).await?
        {
            return Ok(glimpse);
        }
        let (buffer, offset) = self.inode_place(ino).await?;
        if let Some(glimpse) = self.ask_node(ino) {
            return Ok(glimpse); // invariant 1
        }
        buffer.read(|image| self.glimpse_at(ino, Dinode::at(image, offset)))
    }

    fn ask_node(&self, ino: u64) -> Option<Glimpse> {
        let node = self.nodes.find(ino).filter(|_| !is_planted(Bug::UnaskedNodes));
        node.map(|node| Glimpse::from(&node))
    }

    /// The same, if the block of inodes has no buffer and nobody has looked into it lately.
    async fn glimpse_past_buffers(&self, ino: u64) -> Result<Option<Glimpse>, FsError> {
        self.check_initialised(ino).await?;
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        if self.home.has_buffer(position.fragment) || self.passing.comes_back(position.fragment) {
            return Ok(None);
        }
        let start = position.offset - position.offset % PIECE;
        let piece = self.home.read_uncached(position.fragment, start, PIECE).await?;
        let Some(piece) = piece else { return Ok(None) };
        if let Some(glimpse) = self.ask_node(ino) {
            return Ok(Some(glimpse)); // invariant 1
        }
        self.glimpse_at(ino, Dinode::at(&piece, position.offset - start)).map(Some)
    }

    fn glimpse_at(&self, ino: u64, dinode: &Dinode) -> Result<Glimpse, FsError> {
        let kind = self.kind_of(ino, dinode)?;
        let id = ObjectId { ino: Ino(ino), generation: dinode.generation.get() };
        let attributes = attributes_of((ino, kind), dinode, None);
        Ok(Glimpse { id, attributes, sequence: Sequence(0) })
    }
}
