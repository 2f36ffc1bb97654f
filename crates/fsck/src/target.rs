//! Targets of symbolic links that are too long for their inode: they are in a block, without NUL
//! bytes up to the size, and with zeros behind. A NUL marks the end of a target whose size is too
//! large or too small.

use ufs2::layout::INLINE_SYMLINK_SIZE;
use ufs2::map::has_blocks;
use ufs2::map::run_length;
use vfs::FileKind;

use super::Severity::{Loss, Repairable};
use super::blocks::Walk;
use super::{CheckError, Checker, Invariant, Place};

impl Checker<'_> {
    /// Checks the target of a link in its block. A text that fits the inode moves there, over the
    /// pointer: then no file claims the block in the next round.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn check_target(&mut self, walk: &mut Walk) -> Result<(), CheckError> {
        let dinode = &mut walk.dinode;
        let (size, address) = (dinode.size.get(), dinode.direct[0].get() as u64);
        let run = run_length(&self.geometry, size, 0);
        if dinode.kind() != Some(FileKind::Symlink)
            || !has_blocks(FileKind::Symlink, dinode)
            || size > self.geometry.block_size
            || !self.geometry.is_data_run(address, run)
        {
            return Ok(());
        }
        let bytes = (run * self.geometry.fragment_size) as usize;
        let content = self.disk.read(self.geometry.byte_address(address), bytes).await?;
        self.note_unreadable((address, bytes), Loss, |_| Place::inode(walk.ino));
        let Some(end) = content.iter().position(|&byte| byte == 0) else {
            return Ok(()); // it fills its fragments: only its size marks its end
        };
        if end == size as usize {
            return Ok(());
        }
        let place = Place::inode(walk.ino);
        let found = format!("{size} bytes, and the first NUL at byte {end}");
        let expected = "as many as its size";
        let repair = if end == 0 { "made a link to '?'" } else { "its size set to its text" };
        let severity = if end < size as usize { Loss } else { Repairable };
        if !self.log.find(Invariant::SymlinkTarget, severity, place, found, expected, repair) {
            return Ok(());
        }
        let text = if end == 0 { b"?" } else { &content[..end] };
        dinode.size.set(text.len() as u64);
        if text.len() < INLINE_SYMLINK_SIZE {
            let area = dinode.inline_symlink_area_mut();
            area.fill(0);
            area[..text.len()].copy_from_slice(text);
        }
        Ok(())
    }
}
