//! What goes into the models, and nothing else does.

use std::time::Duration;

use sim::{Mechanical, Timing, Zone, presets};

/// What the prototype is told, beside its disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    /// Chosen: so much later than it could does the next write of a sequence begin, for "some
    /// leeway has been built in".
    pub(super) leeway: Duration,
    /// Chosen: and so much later still may it begin.
    pub(super) slack: Duration,
    /// Chosen: a write has so many blocks at most. The paper's are below 64 KB.
    pub(super) write_blocks: u64,
    /// Chosen: the search for a sequence gives up when it has looked at so many places.
    pub(super) patience: u64,
    /// Chosen: until a server of user mode is scheduled and has issued a write, at most.
    pub(super) delay: Duration,
    /// Chosen: one write in so many is held up by other processes.
    pub(super) stray_one_in: u64,
    /// Chosen: for so long at most.
    pub(super) stray: Duration,
    /// The Ethernet of 10 Mbit/s, with its headers.
    pub(super) wire_ns_per_byte: u64,
    /// Calibrated: the processor's time for a byte of a request, such that a client with requests
    /// of 40 KB has between two and three times the speed of NFS.
    pub(super) processor_ns_per_byte: u64,
    /// Chosen: the processor's time for a place that the search looks at.
    pub(super) place_ns: u64,
    /// Chosen: from a reply to the next request of a client, at most.
    pub(super) pause: Duration,
    /// Chosen: a client writes files of so many blocks, one after the other.
    pub(super) file_blocks: u64,
    /// Of the paper's file system: pointers in an inode itself.
    pub(super) direct_blocks: u64,
    /// Chosen: the processor's time for a call of NFS, in the kernel.
    pub(super) nfs_call: Duration,
}

/// The prototype as it was measured.
pub(super) const PROTOTYPE: Inputs = Inputs {
    leeway: Duration::from_micros(1850),
    slack: Duration::from_micros(1850),
    write_blocks: 4,
    patience: 5000,
    delay: Duration::from_micros(1500),
    stray_one_in: 50,
    stray: Duration::from_millis(20),
    wire_ns_per_byte: 840,
    processor_ns_per_byte: 2100,
    place_ns: 10_000,
    pause: Duration::from_micros(16_667),
    file_blocks: 256,
    direct_blocks: 12,
    nfs_call: Duration::from_millis(4),
};

/// The paper's disk.
pub(super) const DISK: Mechanical = mechanical(presets::ACACIA);

/// The paper's disk with twice its rates of transfer, to the controller and to the platters.
pub(super) const TWICE: Mechanical = faster(&[Zone { cylinders: 1730, sectors_per_track: 144 }], 2);

/// The same with four times the rates.
pub(super) const FOUR_TIMES: Mechanical =
    faster(&[Zone { cylinders: 1730, sectors_per_track: 288 }], 4);

const fn faster(zones: &'static [Zone], times: u64) -> Mechanical {
    let bus_bytes_per_second = DISK.bus_bytes_per_second * times;
    Mechanical { zones, bus_bytes_per_second, ..DISK }
}

const fn mechanical(timing: Timing) -> Mechanical {
    match timing {
        Timing::Mechanical(spec) => spec,
        _ => panic!("the paper's disk has an arm"),
    }
}
