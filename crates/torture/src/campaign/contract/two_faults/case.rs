//! A workload of two faults as a line: the set, the occasion, and the fault during it.

use std::fmt;

use sim::Prng;

use crate::explore::device::Device;

/// Fate of one member, the *absent* one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Occasion {
    /// No member is absent: the set is written and scrubbed.
    Whole,
    /// The member is unplugged, and the set is written without it.
    Away,
    /// It was unplugged, and catches up.
    Back,
    /// It fails under the running server, and catches up under the same.
    Dropout,
    /// It is healthy, and another disk replaces it.
    Replaced,
    /// It was unplugged, and a spare is filled in its place.
    Spare,
    /// The set is started once before the disk comes.
    Late,
    /// The set is started once before the disk comes, after the other fault.
    FailedStart,
}

/// Kind of block that rots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Area {
    /// A unit of data.
    Data,
    /// A unit of parity.
    Parity,
    /// The map of written stripes.
    Map,
    /// A table of checksums.
    Table,
    /// A label.
    Label,
    /// Any block of the ring of the log.
    Log,
    /// A block of the latest records.
    Record,
    /// The block of missed regions.
    Missed,
}

/// Fault of another member, or of all copies of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// One block rots on one member.
    Rot(Area),
    /// The same block rots on every copy.
    RotAll(Area),
    /// Reads fail for a while.
    Unread,
    /// No member can read its tables of checksums for a while; then a block of data rots.
    Tables,
    /// Writes find no room for a while.
    Full,
}

/// A workload of two faults. The seed decides everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// Kind of set.
    pub(super) device: Device,
    /// Members of the set.
    pub(super) disks: usize,
    /// Bytes of a unit.
    pub(super) unit: u64,
    /// Fate of the absent member.
    pub(super) occasion: Occasion,
    /// The other fault.
    pub(super) fault: Fault,
    /// Source of all other choices.
    pub(super) seed: u64,
}

impl Area {
    /// Whether it is in the log, which each part of a story begins anew.
    pub(super) fn is_of_log(self) -> bool {
        matches!(self, Self::Log | Self::Record)
    }
}

impl Occasion {
    /// All of them.
    pub(super) const ALL: [Self; 8] = [
        Self::Whole,
        Self::Away,
        Self::Back,
        Self::Dropout,
        Self::Replaced,
        Self::Spare,
        Self::Late,
        Self::FailedStart,
    ];

    /// Whether the set is ever open without the member.
    pub(super) fn is_apart(self) -> bool {
        !matches!(self, Self::Whole | Self::Replaced)
    }

    /// Whether the set was open without the member before the recorded part.
    pub(super) fn begins_without(self) -> bool {
        matches!(self, Self::Back | Self::Spare | Self::Late | Self::FailedStart)
    }
}

impl Fault {
    /// All faults that a set of this kind can meet.
    pub(super) fn all(device: Device) -> Vec<Self> {
        use Area::{Data, Label, Log, Map, Missed, Parity, Record, Table};
        let areas = [Data, Parity, Map, Table, Label, Log, Record, Missed];
        let has = |area: &Area| *area != Parity || device == Device::Raid5;
        let one = areas.into_iter().filter(has).map(Self::Rot);
        let all = [Data, Map, Table, Label, Log, Record, Missed].map(Self::RotAll);
        one.chain(all).chain([Self::Unread, Self::Tables, Self::Full]).collect()
    }
}

impl Case {
    /// Every pair of a fault and an occasion of this kind of set.
    pub(super) fn cells(device: Device) -> Vec<(Fault, Occasion)> {
        let of = |fault| Occasion::ALL.map(|occasion| (fault, occasion));
        Fault::all(device).into_iter().flat_map(of).collect()
    }

    /// The workload with this number: all cells take turns.
    pub(super) fn draw(device: Device, seed: u64, number: u64) -> Self {
        let cells = Self::cells(device);
        let (fault, occasion) = cells[(number % cells.len() as u64) as usize];
        let mut prng = Prng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let fewest = if device == Device::Raid5 { 3 } else { 2 };
        let disks = prng.between(fewest, if fewest == 3 { 5 } else { 3 }) as usize;
        let unit = 4096 << prng.below(3);
        Self { device, disks, unit, occasion, fault, seed: prng.next_u64() >> 16 }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Parity => "parity",
            Self::Map => "map",
            Self::Table => "table",
            Self::Label => "label",
            Self::Log => "log",
            Self::Record => "record",
            Self::Missed => "missed",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rot(area) => write!(f, "rot-{area}"),
            Self::RotAll(area) => write!(f, "all-{area}"),
            Self::Unread => f.write_str("unread"),
            Self::Tables => f.write_str("tables"),
            Self::Full => f.write_str("full"),
        }
    }
}

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "whole",
            Self::Away => "away",
            Self::Back => "back",
            Self::Dropout => "dropout",
            Self::Replaced => "replaced",
            Self::Spare => "spare",
            Self::Late => "late",
            Self::FailedStart => "failed-start",
        })
    }
}

impl Case {
    /// The line without the kind of set.
    pub(super) fn details(&self) -> String {
        let Self { disks, unit, occasion, fault, seed, .. } = self;
        format!("{disks} {unit} {occasion} {fault} {seed}")
    }

    /// The case of a kind of set and a line without it.
    ///
    /// # Errors
    /// The line is not a case.
    pub(super) fn of(device: Device, details: &str) -> Result<Self, String> {
        let wants = || format!("'{details}' is no DISKS UNIT OCCASION FAULT SEED");
        let words: Vec<&str> = details.split_whitespace().collect();
        let [disks, unit, occasion, fault, seed] = words[..] else { return Err(wants()) };
        let occasion = Occasion::ALL.into_iter().find(|it| it.to_string() == occasion);
        let fault = Fault::all(device).into_iter().find(|it| it.to_string() == fault);
        let number = |text: &str| text.parse::<u64>().map_err(|_| wants());
        let (disks, unit, seed) = (number(disks)? as usize, number(unit)?, number(seed)?);
        let fewest = if device == Device::Raid5 { 3 } else { 2 };
        let is_fit = device != Device::Plain && (fewest..=8).contains(&disks);
        if !is_fit || ![4096, 8192, 16384].contains(&unit) {
            return Err(wants());
        }
        let (occasion, fault) = (occasion.ok_or_else(wants)?, fault.ok_or_else(wants)?);
        Ok(Self { device, disks, unit, occasion, fault, seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_reads_back_as_it_was_printed() {
        for device in [Device::Raid1, Device::Raid5] {
            for number in 0..400 {
                let case = Case::draw(device, 7, number);
                assert_eq!(Case::of(device, &case.details()), Ok(case));
            }
        }
        for wrong in ["", "2 4096 back full 1", "3 9 back full 1", "3 4096 back luck 1"] {
            assert!(Case::of(Device::Raid5, wrong).is_err(), "{wrong}");
        }
    }
}
