//! The experiments, each in its own simulation.

use std::cell::RefCell;
use std::time::Duration;

use futures::future::join_all;
use sim::{Mechanical, Prng};

use super::disks::{BLOCK, Disks, Layout};
use super::fast::{BYTES, Fast};
use super::inputs::{DISK, FOUR_TIMES, Inputs, PROTOTYPE, TWICE};
use super::prototype::{Design, PAPER, Prototype, Update};

/// Speed in KB a second.
pub(super) fn speed(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1024.0 / time.as_secs_f64()
}

/// Updates of a server by clients.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) updates: Vec<Update>,
    /// Total time.
    pub(super) elapsed: Duration,
}

impl Run {
    fn sum(&self, what: impl Fn(&Update) -> u64) -> u64 {
        self.updates.iter().map(what).sum()
    }

    fn raw(&self) -> Duration {
        self.updates.iter().map(|update| update.raw).sum()
    }

    /// KB a second as seen by clients.
    pub(super) fn seen(&self) -> f64 {
        speed(self.sum(|update| update.user_bytes), self.elapsed)
    }

    /// KB of user data a second, by writing time.
    pub(super) fn user(&self) -> f64 {
        speed(self.sum(|update| update.user_bytes), self.raw())
    }

    /// KB of all data a second, by writing time.
    pub(super) fn all(&self) -> f64 {
        speed(self.sum(|update| update.all_bytes), self.raw())
    }

    /// Share of metadata, in percent.
    pub(super) fn metadata(&self) -> f64 {
        let (user, all) = (self.sum(|one| one.user_bytes), self.sum(|one| one.all_bytes));
        100.0 * (all - user) as f64 / all as f64
    }

    /// Share of updates for which no sequence was found, in percent.
    pub(super) fn simplest(&self) -> f64 {
        100.0 * self.sum(|update| u64::from(update.is_simplest)) as f64 / self.updates.len() as f64
    }

    /// Places that the search examined, for each block.
    pub(super) fn looked(&self) -> f64 {
        let blocks = self.sum(|update| update.all_bytes) / BLOCK;
        self.sum(|update| update.examined) as f64 / blocks as f64
    }

    fn mean(&self, what: impl Fn(&Update) -> f64) -> f64 {
        self.updates.iter().map(what).sum::<f64>() / self.updates.len() as f64
    }
}

/// Number of writers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writers {
    pub(super) clients: u64,
    /// Daemons of each client, all on one file.
    pub(super) daemons: u64,
}

/// A client with one daemon.
pub(super) const ONE: Writers = Writers { clients: 1, daemons: 1 };

/// Sends requests of a size to the paper's server.
pub(super) fn write(seed: u64, writers: Writers, kb: u64, requests: u64) -> Run {
    let server = Prototype::new(seed, Disks::new(seed, DISK, 1), PROTOTYPE, PAPER);
    write_to(&server, writers, kb, requests)
}

/// Sends one client's requests to a variant of the paper's server.
pub(super) fn variant(seed: u64, inputs: Inputs, design: Design, kb: u64, requests: u64) -> Run {
    let server = Prototype::new(seed, Disks::new(seed, DISK, 1), inputs, design);
    write_to(&server, ONE, kb, requests)
}

fn write_to(server: &Prototype, writers: Writers, kb: u64, requests: u64) -> Run {
    let files: Vec<RefCell<_>> = (0..writers.clients).map(|_| RefCell::default()).collect();
    let begun_ns = server.disks.now_ns();
    let each = requests / (writers.clients * writers.daemons);
    let of_client = |file| (0..writers.daemons).map(move |_| server.daemon(file, kb, each));
    let updates = server.disks.run(join_all(files.iter().flat_map(of_client))).concat();
    Run { updates, elapsed: Duration::from_nanos(server.disks.now_ns() - begun_ns) }
}

/// Times of the paper's FFS.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastTimes {
    pub(super) append: Duration,
    pub(super) eight: Duration,
    pub(super) nfs: Duration,
}

impl FastTimes {
    /// KB a second with one block, with eight, and over NFS.
    pub(super) fn speeds(&self) -> [f64; 3] {
        [speed(BYTES, self.append), speed(8 * BYTES, self.eight), speed(BYTES, self.nfs)]
    }
}

/// The paper's FFS, on disks of a kind.
pub(super) fn fast(seed: u64, spec: Mechanical, disks: usize, times: u32) -> FastTimes {
    let mut server = Fast::new(seed, Disks::new(seed, spec, disks));
    FastTimes {
        append: server.append(1, times),
        eight: server.append(8, times),
        nfs: server.nfs(&PROTOTYPE, times),
    }
}

/// A kind of disks, with its speed relative to one disk of the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) times: u64,
    spec: Mechanical,
    disks: usize,
}

/// Disks faster than the paper's.
pub(super) const KINDS: [Kind; 4] = [
    Kind { name: "transfer rates times 2", times: 2, spec: TWICE, disks: 1 },
    Kind { name: "transfer rates times 4", times: 4, spec: FOUR_TIMES, disks: 1 },
    Kind { name: "2 disks", times: 2, spec: DISK, disks: 2 },
    Kind { name: "4 disks", times: 4, spec: DISK, disks: 4 },
];

impl Kind {
    /// The prototype on these disks. A write has as many blocks as pass in the same time, and the
    /// search may examine more places in proportion to their number: of blocks, and of lengths of a
    /// run.
    pub(super) fn acacia(&self, seed: u64, kb: u64, requests: u64) -> Run {
        let disks = Disks::new(seed, self.spec, self.disks);
        let rate = disks.layout.track_blocks() / Layout(DISK.platters()).track_blocks();
        let inputs = Inputs {
            write_blocks: PROTOTYPE.write_blocks * rate,
            patience: PROTOTYPE.patience * rate * rate,
            ..PROTOTYPE
        };
        write_to(&Prototype::new(seed, disks, inputs, PAPER), ONE, kb, requests)
    }

    /// The paper's FFS on these disks.
    pub(super) fn fast(&self, seed: u64, times: u32) -> FastTimes {
        fast(seed, self.spec, self.disks, times)
    }
}

/// Costs of updates between reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    /// Mean number of cylinders that the arm crossed for an update.
    pub(super) crossed: f64,
    /// Milliseconds for an update.
    pub(super) update_ms: f64,
    /// Milliseconds for a read and an update.
    pub(super) both_ms: f64,
}

/// Updates of 40 KB, each after a read at a random place of a half-full disk.
pub(super) fn between_reads(seed: u64, near: bool, requests: u64) -> Between {
    let design = Design { near, ..PAPER };
    let server = Prototype::new(seed, Disks::new(seed, DISK, 1), PROTOTYPE, design);
    server.fill_half();
    let (file, mut updates, mut read_ns) = (RefCell::default(), Vec::new(), 0);
    for _ in 0..requests {
        let begun_ns = server.disks.now_ns();
        server.disks.run(server.read_somewhere());
        read_ns += server.disks.now_ns() - begun_ns;
        updates.push(server.disks.run(server.update(&file, 40 * 1024 / BLOCK)));
    }
    let run = Run { updates, elapsed: Duration::ZERO };
    let update_ms = run.mean(|update| update.raw.as_secs_f64() * 1e3);
    let read_ms = read_ns as f64 / 1e6 / requests as f64;
    Between {
        crossed: run.mean(|update| update.crossed as f64),
        update_ms,
        both_ms: read_ms + update_ms,
    }
}

/// Maximum speed of the disk: writes of 24 sectors, each of which begins once it is in the
/// controller. Thirteen sectors pass until then.
pub(super) fn ceiling(seed: u64, writes: u64) -> f64 {
    const SECTORS: u64 = 24;
    let disks = Disks::new(seed, DISK, 1);
    let first = Prng::new(seed).below(1 << 16);
    disks.run(disks.write_sectors(0, first, SECTORS));
    let begun_ns = disks.now_ns();
    for number in 1..=writes {
        disks.run(disks.write_sectors(0, first + number * (SECTORS + 13), SECTORS));
    }
    let bytes = writes * SECTORS * sim::SECTOR_SIZE as u64;
    speed(bytes, Duration::from_nanos(disks.now_ns() - begun_ns)) / 1024.0
}
