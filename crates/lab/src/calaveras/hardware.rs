//! The hardware of the paper (section 7), and the designs of the servers on it.

use std::time::Duration;

use ffs::policy::log::LogOptions;
use runtime::Timestamp;
use sim::{Delay, Disk, Executor, Image, NetworkOptions, Timing, presets};
use ufs2::mkfs::{MkfsOptions, mkfs};

use crate::processor::Costs;
use crate::server::{Design, Hardware, Images};

/// The size of the log: "32 Mbytes", section 3.
pub const LOG_BYTES: u64 = 32 << 20;

/// Disks with file systems, beside the one for the log. Without logging, the log's disk has one,
/// too.
pub const DISKS: usize = 10;

/// *Input.* Memory for caches, out of 192 MB.
const CACHE_BYTES: usize = 128 << 20;

/// *Input*, calibrated: "the maximum throughput we could achieve was about 650 NFS operations per
/// second [...] beyond that, the CPU became a bottleneck", which is 1.54 ms a call of the mix. A
/// byte costs the time to copy and to checksum it at 15 MB/s; the rest is the cost of the call.
const PENTIUM_60: Costs = Costs { call_ns: 1_330_000, byte_ns: 66 };

/// *Input.* FDDI, 100 Mbit/s, in one machine room.
const FDDI: NetworkOptions = NetworkOptions {
    delay: Delay { usual_ns: (100_000, 200_000), late_per_mille: 0, late_ns: (0, 0) },
    byte_ps: 80_000,
    segment_max: 4352,
    window: 64 << 10,
    loss_per_mille: 0,
    retransmit_ns: 200_000_000,
    give_up_ns: 120_000_000_000,
    death: None,
};

/// DECpc 560ST: a Pentium of 60 MHz, RZ-26 disks.
pub fn decpc() -> Hardware {
    Hardware {
        data: presets::RZ_26,
        log: presets::RZ_26,
        cache_bytes: CACHE_BYTES,
        processor: Some(PENTIUM_60),
        network: FDDI,
    }
}

/// The same disk sizes and server, taking almost no time: to create files before an experiment.
pub fn workshop() -> Hardware {
    let fast = Timing::default();
    let network = NetworkOptions { window: 1 << 20, ..NetworkOptions::default() };
    Hardware { data: fast, log: fast, processor: None, network, ..decpc() }
}

/// "The next sync operation, which happens every 30 seconds", section 3.
pub const SYNC: Duration = Duration::from_secs(30);

/// The paper's log: its changes are written in place every 30 seconds, and changed objects stay
/// locked until the log has the change.
pub fn calaveras(batches: bool) -> Design {
    let options = LogOptions {
        sync_interval: SYNC,
        sync_bytes: LOG_BYTES,
        payload_bytes: 0,
        ..LogOptions::default()
    };
    let batch_bytes = if batches { options.batch_bytes } else { 1 };
    let options = LogOptions { batch_bytes, ..options };
    Design::Log { options, holds_locks: true, keeps_answers: false }
}

/// Our log with its defaults.
pub fn ours() -> Design {
    Design::Log { options: LogOptions::default(), holds_locks: false, keeps_answers: true }
}

/// Empty file systems on this many disks, and an empty log.
///
/// # Panics
/// When a file system does not fit on an RZ-26.
pub fn empty(disks: usize, seed: u64) -> Images {
    let executor = Executor::new(seed);
    let size = presets::RZ_26.capacity().expect("it is mechanical") / (1 << 20) * (1 << 20);
    let options = MkfsOptions {
        block_size: 8192,
        fragment_size: 1024,
        bytes_per_inode: Some(4096),
        ..MkfsOptions::default()
    };
    let now = Timestamp { seconds: 800_000_000, nanoseconds: 0 };
    let volumes = (0..disks).map(|_| {
        let disk = Disk::new(&executor, Image::zeroed(size));
        let made = executor.block_on(mkfs(&*disk, &options, &*executor.runtime().random, now));
        made.unwrap_or_else(|error| panic!("an RZ-26 holds a file system: {error}"));
        disk.contents()
    });
    Images { volumes: volumes.collect(), first: 0, log: Some(Image::zeroed(LOG_BYTES)) }
}

/// An old, slow disk for the log: 3600 rpm, and no buffer.
pub fn slow_log() -> Hardware {
    Hardware { log: presets::ACACIA, ..decpc() }
}
