//! Particular disks, and the sources of their numbers.
//!
//! A figure from a paper about its hardware is marked *paper*. Where a figure is marked *maker*, it
//! is from a manual. All others are *chosen*: typical of the time and the class, or fitted so that
//! the paper's measurements come out. `tests/it/presets.rs` measures every one of them in virtual
//! time.

use super::{Flash, Mechanical, Nvram, Scheduler, Timing, Zone};

const fn zone(cylinders: u32, sectors_per_track: u32) -> Zone {
    Zone { cylinders, sectors_per_track }
}

/// DEC's RZ-26, of which Calaveras used eleven: 1.05 GB, 5400 rpm.
///
/// *Paper*: the model. *Maker*: the size and the rate of turning, 9.5 ms average seek, 2.2 to 3.3
/// MB/s, 14 heads, fast SCSI at 10 MB/s. *Chosen*: eight zones of equal width whose sequential
/// rates span the two figures; seeks of 1.5 and 20 ms at the ends; 1 ms to change heads; 0.7 ms
/// for a command; a buffer of 64 KiB; no write cache, for the paper counts on synchronous writes;
/// the host sorts its queue.
pub const RZ_26: Timing = Timing::Mechanical(Mechanical {
    zones: &[
        zone(282, 78),
        zone(282, 74),
        zone(282, 71),
        zone(282, 67),
        zone(282, 63),
        zone(282, 59),
        zone(282, 56),
        zone(282, 52),
    ],
    heads: 14,
    rpm: 5400,
    seek_single_ns: 1_500_000,
    seek_average_ns: 9_500_000,
    seek_full_ns: 20_000_000,
    head_switch_ns: 1_000_000,
    command_ns: 700_000,
    bus_bytes_per_second: 10_000_000,
    pipelined: true,
    scheduler: Scheduler::Elevator,
    queue_depth: usize::MAX,
    read_ahead_bytes: 64 << 10,
    write_cache_bytes: 0,
});

/// The disks of the Netra NFS server, twelve to a box: 4.2 GB, 7200 rpm.
///
/// *Paper*: the size. *Chosen*, after the SCSI disks of 1997 of that size: 7200 rpm, 10 heads,
/// eight zones of 7.3 to 10.6 MB/s, seeks of 1, 8.8 and 18 ms, 0.8 ms to change heads, 0.4 ms for a
/// command, wide SCSI at 20 MB/s, a buffer of 512 KiB, a tagged queue of 32 in which the shortest
/// way goes first. No write cache: the server answers only for what is on stable storage.
pub const NETRA_4_2_GB: Timing = Timing::Mechanical(Mechanical {
    zones: &[
        zone(644, 190),
        zone(644, 182),
        zone(644, 173),
        zone(644, 164),
        zone(644, 155),
        zone(644, 147),
        zone(644, 138),
        zone(644, 130),
    ],
    heads: 10,
    rpm: 7200,
    seek_single_ns: 1_000_000,
    seek_average_ns: 8_800_000,
    seek_full_ns: 18_000_000,
    head_switch_ns: 800_000,
    command_ns: 400_000,
    bus_bytes_per_second: 20_000_000,
    pipelined: true,
    scheduler: Scheduler::ShortestFirst,
    queue_depth: 32,
    read_ahead_bytes: 512 << 10,
    write_cache_bytes: 0,
});

/// Acacia's "typical SCSI disk profile": 3600 rpm.
///
/// *Paper*: 17 ms average seek, 4 ms minimum, 8.3 ms rotational latency; 8 KiB take 2 ms to the
/// controller and 3.7 ms to the disk, one after the other, from which follow 72 sectors a track,
/// a bus of 4.1 MB/s and the ceiling of 1.4 MB/s; what a command costs is in the 2 ms. About a
/// hundred blocks of 4 KiB a cylinder (a block in each is "about one percent" of the space), so 11
/// heads. *Chosen*: 700 MB, 35 ms across the disk, 1 ms to change heads, a host that sorts its
/// queue, and no buffers.
pub const ACACIA: Timing = Timing::Mechanical(Mechanical {
    zones: &[zone(1730, 72)],
    heads: 11,
    rpm: 3600,
    seek_single_ns: 4_000_000,
    seek_average_ns: 17_000_000,
    seek_full_ns: 35_000_000,
    head_switch_ns: 1_000_000,
    command_ns: 0,
    bus_bytes_per_second: 4_096_000,
    pipelined: false,
    scheduler: Scheduler::Elevator,
    queue_depth: usize::MAX,
    read_ahead_bytes: 0,
    write_cache_bytes: 0,
});

/// IBM's 0661, sixteen of which were Sawmill's array: 320 MB, 4318 rpm.
///
/// *Paper*: 12 ms average seek, 7 ms rotational latency, about 1.6 MB/s, a track buffer for
/// reads, none for writes; a request takes about 20 ms and its size at 1.57 MB/s. *Maker*: 949
/// cylinders, 14 heads, 48 sectors a track, 13.9 ms a turn, seeks of 2 and 25 ms at the ends, a
/// skew of 4 sectors. *Chosen*: 1.05 ms for a command, which makes the 20 ms; the 3.14 MB/s of the
/// paper's SCSI strings as the bus; a buffer of one track.
pub const IBM_0661: Timing = Timing::Mechanical(Mechanical {
    zones: &[zone(949, 48)],
    heads: 14,
    rpm: 4318,
    seek_single_ns: 2_000_000,
    seek_average_ns: 12_000_000,
    seek_full_ns: 25_000_000,
    head_switch_ns: 1_150_000,
    command_ns: 1_050_000,
    bus_bytes_per_second: 3_140_000,
    pipelined: true,
    scheduler: Scheduler::Elevator,
    queue_depth: usize::MAX,
    read_ahead_bytes: 48 * 512,
    write_cache_bytes: 0,
});

/// A SCSI disk of the middle of the nineties, as soft updates were measured on: 2.1 GB, 5400 rpm.
///
/// *Paper*: nothing beyond the time it was written. *Chosen*, after the disks of workstations of
/// 1995: 10 ms average seek, 3.6 to 5 MB/s, 0.5 ms for a command, fast SCSI, a buffer of 256 KiB,
/// a host that sorts its queue, no write cache.
pub const SOFT_UPDATES_SCSI: Timing = Timing::Mechanical(Mechanical {
    zones: &[zone(900, 116), zone(900, 107), zone(900, 98), zone(900, 89), zone(900, 82)],
    heads: 9,
    rpm: 5400,
    seek_single_ns: 1_500_000,
    seek_average_ns: 10_000_000,
    seek_full_ns: 21_000_000,
    head_switch_ns: 900_000,
    command_ns: 500_000,
    bus_bytes_per_second: 10_000_000,
    pipelined: true,
    scheduler: Scheduler::Elevator,
    queue_depth: usize::MAX,
    read_ahead_bytes: 256 << 10,
    write_cache_bytes: 0,
});

/// A SATA disk of today: 1 TB, 7200 rpm, a volatile write cache that is on.
///
/// *Chosen*, after what makers print of one-platter desktop disks: 210 MB/s outside and 100 MB/s
/// inside, seeks of 0.8, 8.5 and 18 ms, 6 Gbit/s, a queue of 32, a cache of 64 MiB of which a
/// quarter is read ahead into.
pub const SATA_7200: Timing = Timing::Mechanical(Mechanical {
    zones: &[
        zone(46_000, 3660),
        zone(46_000, 3400),
        zone(46_000, 3130),
        zone(46_000, 2860),
        zone(46_000, 2590),
        zone(46_000, 2320),
        zone(46_000, 2050),
        zone(46_000, 1780),
    ],
    heads: 2,
    rpm: 7200,
    seek_single_ns: 800_000,
    seek_average_ns: 8_500_000,
    seek_full_ns: 18_000_000,
    head_switch_ns: 700_000,
    command_ns: 50_000,
    bus_bytes_per_second: 560_000_000,
    pipelined: true,
    scheduler: Scheduler::ShortestFirst,
    queue_depth: 32,
    read_ahead_bytes: 16 << 20,
    write_cache_bytes: 48 << 20,
});

/// A consumer's SATA SSD: no capacitors, so that a flush waits for the flash.
///
/// *Chosen*, after what makers print and tests find: 550 MB/s, a random read of 4 KiB in about
/// 95 us, a cached write in about 35 us, 400 MB/s into flash, a flush of at least 1 ms.
pub const SATA_SSD: Timing = Timing::Flash(Flash {
    command_ns: 28_000,
    bus_bytes_per_second: 550_000_000,
    channels: 32,
    page_bytes: 4096,
    read_ns: 60_000,
    program_ns: 320_000,
    cache_bytes: 4 << 20,
    protected: false,
    flush_ns: 1_000_000,
});

/// A data centre's NVMe disk, its cache protected by capacitors.
///
/// *Chosen*, after what makers print: 6.5 GB/s, a random read of 4 KiB in about 80 us, a write in
/// about 12 us whether plain or through, 1.3 GB/s into flash, a flush that does nothing.
pub const NVME: Timing = Timing::Flash(Flash {
    command_ns: 11_000,
    bus_bytes_per_second: 6_500_000_000,
    channels: 128,
    page_bytes: 4096,
    read_ns: 68_000,
    program_ns: 400_000,
    cache_bytes: 64 << 20,
    protected: true,
    flush_ns: 5_000,
});

/// The battery-backed memory of a server of the nineties, such as Netra's 32 MB.
///
/// *Paper*: nothing but its size. *Chosen*: 20 us of a driver's work for a call, and 100 MB/s,
/// what a processor of the time copies.
pub const NVRAM: Timing =
    Timing::Nvram(Nvram { command_ns: 20_000, bytes_per_second: 100_000_000 });
