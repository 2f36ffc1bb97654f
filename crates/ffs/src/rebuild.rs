//! Bringing a volume back after a cut, from its inodes and directories.

use block::BlockDevice;
use runtime::Runtime;

use crate::OpenError;
use crate::layout::Geometry;

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
}

/// What a rebuild found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files that nothing named and that were freed.
    pub freed_inodes: u64,
}

/// Rebuilds.
pub async fn rebuild(
    _device: &dyn BlockDevice,
    _geometry: &Geometry,
    _runtime: &Runtime,
    _progress: &mut dyn FnMut(Progress),
) -> Result<Report, OpenError> {
    Err(OpenError::UncleanForeign)
}
