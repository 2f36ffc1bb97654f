//! What kind of disk it is.

use block::Stripe;

use crate::image::SECTOR_SIZE;
use crate::platter::Honesty;
use crate::timing::Timing;

/// What kind of disk it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long everything takes.
    pub timing: Timing,
    /// Whether it does what it reports.
    pub honesty: Honesty,
    /// The unit of addressing, in bytes.
    pub logical_sector_size: u32,
    /// The unit that it claims to write at once, in bytes. Writes are torn at 512 all the same.
    pub physical_sector_size: u32,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// How it says that it is cut. It is one disk all the same; what is discarded may be anything.
    pub stripe: Option<Stripe>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            honesty: Honesty::Honest,
            logical_sector_size: SECTOR_SIZE as u32,
            physical_sector_size: 4096,
            read_only: false,
            stripe: None,
        }
    }
}
