//! A story as a line: the fault during it, the one behind its cuts, and the seed of all else.

use std::fmt;

use sim::Prng;

use super::super::super::line;
use super::rot::Part;
use crate::explore::device::Device;

/// What goes wrong in one life of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Nothing,
    /// Writes of the memory fail, once or from then on.
    MemoryWrite,
    /// Flushes of it.
    MemoryFlush,
    /// Reads of it.
    MemoryRead,
    /// Some reads of it take long.
    MemorySlow,
    /// Writes of a disk below fail.
    BelowWrite,
    /// Flushes of it.
    BelowFlush,
    /// Reads of it.
    BelowRead,
    /// The disk below is full for a while.
    Full,
    /// A part of the memory rots.
    Rot(Part),
    /// A member of the set is away.
    Away,
    /// The battery is bad for some time, once or more often.
    Battery,
}

/// What goes wrong behind a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    Nothing,
    /// A part of the memory has rotted.
    Rot(Part),
    /// The memory cannot be read at first.
    Unread,
    /// A member of the set is lost.
    Lost,
}

/// A story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) device: Device,
    pub(super) fault: Fault,
    pub(super) late: Late,
    pub(super) seed: u64,
    /// There are two memories.
    pub(super) is_two: bool,
    /// Every event is cut.
    pub(super) is_full: bool,
}

const PARTS: [Part; 4] = [Part::Data, Part::Header, Part::Label, Part::Map];

impl Fault {
    /// All that this device can meet.
    fn all(device: Device) -> Vec<Self> {
        let all = [
            Self::Nothing,
            Self::MemoryWrite,
            Self::MemoryFlush,
            Self::MemoryRead,
            Self::MemorySlow,
            Self::BelowWrite,
            Self::BelowFlush,
            Self::BelowRead,
            Self::Full,
        ];
        let away = (device.level().is_some()).then_some(Self::Away);
        let all = all.into_iter().chain(PARTS.map(Self::Rot)).chain(away);
        all.chain([Self::Battery]).collect()
    }

    /// Whether bytes of calls may be left where no later flush promises them, and where no start
    /// writes them again: it does so with those of the memory.
    pub(super) fn strands(self) -> bool {
        matches!(self, Self::BelowWrite | Self::BelowFlush)
    }
}

impl Late {
    fn all(device: Device) -> Vec<Self> {
        let lost = (device.level().is_some()).then_some(Self::Lost);
        let all = [Self::Nothing, Self::Unread].into_iter();
        all.chain(PARTS.map(Self::Rot)).chain(lost).collect()
    }

    /// Whether it may come behind a fault. Of what there is twice, one copy alone is damaged.
    fn fits(self, fault: Fault) -> bool {
        !matches!(self, Self::Rot(Part::Header | Part::Label | Part::Map))
            || !matches!(fault, Fault::Rot(Part::Header | Part::Label | Part::Map))
    }
}

impl Case {
    /// The story with this number: faults take turns, alone and two together.
    pub(super) fn draw(device: Device, seed: u64, number: u64, is_full: bool) -> Self {
        let mut prng = Prng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let (faults, lates) = (Fault::all(device), Late::all(device));
        let round = number / 4;
        let of = |all: usize, round: u64| (round % all as u64) as usize;
        let fault = faults[of(faults.len(), round)];
        let late = lates[of(lates.len(), round + round / faults.len() as u64)];
        let (fault, late) = match number % 4 {
            0 => (fault, Late::Nothing),
            1 => (Fault::Nothing, late),
            2 => (fault, if late.fits(fault) { late } else { Late::Nothing }),
            _ => (Fault::Nothing, Late::Nothing),
        };
        let is_two = number % 3 == 2;
        Self { device, fault, late, seed: prng.next_u64() >> 24, is_two, is_full }
    }

    /// Whether a start uses the log device, drawn by chance.
    pub(super) fn uses_lower(&self, prng: &mut Prng) -> bool {
        self.device.level().is_some() && prng.chance(1, 2)
    }

    /// The line without the device.
    pub(super) fn details(&self) -> String {
        let two = if self.is_two { " two" } else { "" };
        let full = if self.is_full { " full" } else { "" };
        format!("{} {} {}{two}{full}", self.fault, self.late, self.seed)
    }

    /// The story of a line.
    ///
    /// # Errors
    /// The line names none.
    pub(super) fn of(device: Device, details: &str) -> Result<Self, String> {
        let wants = || format!("'{details}' is no FAULT LATE SEED");
        let cut = |details: &'_ str, word| match details.strip_suffix(word) {
            Some(rest) => (rest.to_owned(), true),
            None => (details.to_owned(), false),
        };
        let (rest, is_full) = cut(details, " full");
        let (rest, is_two) = cut(&rest, " two");
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [fault, late, seed] = words[..] else { return Err(wants()) };
        let fault = Fault::all(device).into_iter().find(|it| it.to_string() == fault);
        let late = Late::all(device).into_iter().find(|it| it.to_string() == late);
        let (fault, late) = fault.zip(late).ok_or_else(wants)?;
        Ok(Self { device, fault, late, seed: line::number(seed)?, is_two, is_full })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Header => "header",
            Self::Label => "label",
            Self::Map => "map",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "none",
            Self::MemoryWrite => "memory-write",
            Self::MemoryFlush => "memory-flush",
            Self::MemoryRead => "memory-read",
            Self::MemorySlow => "memory-slow",
            Self::BelowWrite => "below-write",
            Self::BelowFlush => "below-flush",
            Self::BelowRead => "below-read",
            Self::Full => "full",
            Self::Rot(part) => return write!(f, "rot-{part}"),
            Self::Away => "away",
            Self::Battery => "battery",
        })
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "none",
            Self::Rot(part) => return write!(f, "rot-{part}"),
            Self::Unread => "unread",
            Self::Lost => "lost",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_read_as_it_was_written() {
        for device in [Device::Nvram, Device::Raid5Nvram] {
            for number in 0..400 {
                let case = Case::draw(device, 7, number, number % 2 == 0);
                assert_eq!(Case::of(device, &case.details()), Ok(case));
            }
            assert!(Case::of(device, "none 1").is_err());
            assert!(Case::of(device, "none none x").is_err());
        }
    }
}
