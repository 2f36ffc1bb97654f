//! Doors through which a fuzzer reaches decoders that are nobody else's business. They take bytes
//! and numbers of any content, as they come from a disk.

pub use crate::dir::{BadChunk, Entry, Place, entries, place, slack};
pub use ufs2::map::{block_count, pointer, run_length};

use ufs2::layout::Geometry;

/// The way to block `lbn` of a file, which is not a direct one: which tree of indirect blocks, and
/// the slot to take at each level.
///
/// # Errors
/// [`vfs::FsError::FileTooLarge`] where no tree reaches.
pub fn path(geometry: &Geometry, lbn: u64) -> Result<(usize, Vec<usize>), vfs::FsError> {
    ufs2::map::path(geometry, lbn).map(|path| (path.tree, path.slots))
}
