//! A count of the damaged blocks of metadata that the engine has renewed.

/// Damaged blocks of metadata that the engine got around since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Blocks of the map of space that were written anew.
    pub map_blocks: u64,
    /// Blocks of remembered replies that were forgotten.
    pub answer_blocks: u64,
    /// Blocks of metadata that were other blocks, and to which no pointer leads any more: their
    /// files were removed or cut short, or a roll-back discarded them. Blocks below them stay
    /// allocated until a repair. Also wrong pointers: to units that were not in use.
    pub given_up: u64,
    /// Runs that the newest superblock lists in which a flipped bit was mended.
    pub mended_runs: u64,
    /// Whether a part of the space log or of the records was lost: the whole map was rebuilt, and
    /// the replies of these records are forgotten.
    pub has_lost_records: bool,
}
