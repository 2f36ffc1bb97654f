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

use namespace::Stat;
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
    pub(crate) async fn peek(&self, ino: u64) -> Result<Stat, FsError> {
        if let Some(peek) = self.ask_node(ino) {
            return Ok(peek);
        }
        if self.home.budget().is_under_pressure()
            && let Some(peek) = self.peek_past_buffers(ino).await?
        {
            return Ok(peek);
        }
        let (buffer, offset) = self.inode_place(ino).await?;
        if let Some(peek) = self.ask_node(ino) {
            return Ok(peek); // invariant 1
        }
        buffer.read(|image| self.stat_at(ino, Dinode::at(image, offset)))
    }

    fn ask_node(&self, ino: u64) -> Option<Stat> {
        let node = self.nodes.find(ino).filter(|_| !is_planted(Bug::UnaskedNodes));
        node.map(|node| Stat::from(&node))
    }

    /// The same, if the block of inodes has no buffer and nobody has looked into it lately.
    async fn peek_past_buffers(&self, ino: u64) -> Result<Option<Stat>, FsError> {
        self.check_initialised(ino).await?;
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        if self.home.has_buffer(position.fragment) || self.recent_blocks.seen(position.fragment) {
            return Ok(None);
        }
        let start = position.offset - position.offset % PIECE;
        let piece = self.home.read_uncached(position.fragment, start, PIECE).await?;
        let Some(piece) = piece else { return Ok(None) };
        if let Some(peek) = self.ask_node(ino) {
            return Ok(Some(peek)); // invariant 1
        }
        self.stat_at(ino, Dinode::at(&piece, position.offset - start)).map(Some)
    }

    fn stat_at(&self, ino: u64, dinode: &Dinode) -> Result<Stat, FsError> {
        let kind = self.kind_of(ino, dinode)?;
        let id = ObjectId { ino: Ino(ino), generation: dinode.generation.get() };
        let attributes = attributes_of((ino, kind), dinode, None);
        Ok(Stat { id, attributes, sequence: Sequence(0) })
    }
}
