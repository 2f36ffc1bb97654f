//! What kind of disk it is.

use block::Stripe;
use block::platters::Platters;

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
    /// What it tells of its platters, if it has some.
    pub tells: Tells,
}

/// What a disk tells of its platters. Those of today tell nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tells {
    /// Nothing.
    #[default]
    Nothing,
    /// Where its cylinders are, and not how they turn.
    Cylinders,
    /// How they turn, too, if a host can follow that.
    Turns,
}

impl Options {
    pub(crate) fn platters(&self) -> Option<Platters> {
        let Timing::Mechanical(spec) = self.timing else { return None };
        let platters = spec.platters();
        match self.tells {
            Tells::Nothing => None,
            Tells::Cylinders => Some(Platters { are_turns_known: false, ..platters }),
            Tells::Turns => Some(platters),
        }
    }
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
            tells: Tells::Nothing,
        }
    }
}
