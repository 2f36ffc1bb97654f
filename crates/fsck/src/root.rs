//! The root directory, from which everything hangs.

use directory::chunk::first_chunk;
use directory::entry::CHUNK_SIZE;
use ufs2::layout::{ROOT_INODE, kind_bits};
use vfs::FileKind;

use super::Severity::{Loss, Repairable};
use super::chunk;
use super::{CheckError, Checker, Invariant, Place, fields};

impl Checker<'_> {
    /// Makes inode 2 a directory. Returns whether it changed.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn settle_root(&mut self) -> Result<bool, CheckError> {
        let kind = self.table.kind(ROOT_INODE);
        if kind == Some(FileKind::Directory) {
            return Ok(false);
        }
        let found = kind.map_or("a free inode".to_owned(), |kind| format!("{kind:?}"));
        let place = Place::inode(ROOT_INODE);
        let invariant = Invariant::Root;
        if kind.is_some() && self.is_directory_inside(ROOT_INODE).await? {
            let repair = "made a directory again";
            if self.log.find(invariant, Repairable, place, found, "a directory", repair) {
                let mut dinode = self.read_inode(ROOT_INODE).await?;
                fields::set_kind(&mut dinode, FileKind::Directory);
                self.put_inode(ROOT_INODE, &mut dinode).await?;
                return Ok(true);
            }
            return Ok(false);
        }
        let Some(fresh) = self.fresh(self.geometry.fragments_per_block) else {
            self.log.leave(invariant, Loss, place, found, "a directory, and room for one");
            return Ok(false);
        };
        let repair = "a new root made; what the old one named goes to lost+found";
        if !self.log.find(invariant, Loss, place, found, "a directory", repair) {
            return Ok(false);
        }
        let mut content = chunk::empty_chunks(self.geometry.block_size as usize);
        let root = ROOT_INODE as u32;
        let first = first_chunk(root, root, kind_bits(FileKind::Directory));
        content[..CHUNK_SIZE].copy_from_slice(&first);
        self.disk.put_fresh(self.geometry.byte_address(fresh), &content);
        let mut dinode = self.new_directory(ROOT_INODE, fresh).await?;
        dinode.mode.set(ufs2::layout::mode_of(FileKind::Directory, 0o755));
        self.put_inode(ROOT_INODE, &mut dinode).await?;
        Ok(true)
    }
}
