//! Options of a disk.

use block::Stripe;
use block::platters::Platters;

use crate::image::SECTOR_SIZE;
use crate::platter::Honesty;
use crate::timing::Timing;

/// Options of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The latencies.
    pub timing: Timing,
    /// Whether it does what it reports.
    pub honesty: Honesty,
    /// The unit of addressing, in bytes.
    pub logical_sector_size: u32,
    /// The reported atomic write unit, in bytes. Writes are torn at 512 all the same.
    pub physical_sector_size: u32,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// The stripes that it reports. It is one disk all the same; discarded ranges may hold
    /// anything.
    pub stripe: Option<Stripe>,
    /// The reported geometry of its platters, if it has any.
    pub tells: Tells,
}

/// The geometry that a disk reports. Those of today report none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tells {
    /// None.
    #[default]
    Nothing,
    /// The positions of cylinders, but not their rotation.
    Cylinders,
    /// The rotation too, if a host can follow it.
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
