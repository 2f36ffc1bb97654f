//! All inputs of the models.

use std::time::Duration;

use sim::{Mechanical, Timing, Zone, presets};

/// Inputs of the prototype, beside its disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    /// Chosen: delay of the next write of a sequence beyond its earliest possible begin, for "some
    /// leeway has been built in".
    pub(super) leeway: Duration,
    /// Chosen: further delay that is tolerated.
    pub(super) slack: Duration,
    /// Chosen: maximum blocks of a write. The paper's are below 64 KB.
    pub(super) write_blocks: u64,
    /// Chosen: number of places after which the search for a sequence gives up.
    pub(super) patience: u64,
    /// Chosen: maximum time until a user-mode server is scheduled and has issued a write.
    pub(super) delay: Duration,
    /// Chosen: one in this many writes is delayed by other processes.
    pub(super) stray_one_in: u64,
    /// Chosen: maximum of that delay.
    pub(super) stray: Duration,
    /// Time of a byte on an Ethernet of 10 Mbit/s, headers included.
    pub(super) wire_ns_per_byte: u64,
    /// Calibrated: processor time for a byte of a request, such that a client with requests of 40
    /// KB has between two and three times the speed of NFS.
    pub(super) processor_ns_per_byte: u64,
    /// Chosen: processor time for a place that the search examines.
    pub(super) place_ns: u64,
    /// Chosen: maximum time from a reply to the client's next request.
    pub(super) pause: Duration,
    /// Chosen: blocks of each file that a client writes; it writes one file after the other.
    pub(super) file_blocks: u64,
    /// From the paper's file system: pointers in an inode itself.
    pub(super) direct_blocks: u64,
    /// Chosen: processor time for an NFS call, in the kernel.
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

/// The paper's disk with twice its transfer rates, to the controller and to the platters.
pub(super) const TWICE: Mechanical = faster(&[Zone { cylinders: 1730, sectors_per_track: 144 }], 2);

/// The paper's disk with four times its transfer rates.
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
