//! LADDIS on the paper's server, at a series of rates: figures 4 and 5.

use std::time::Duration;

use futures::future::join_all;
use load::stage::Stage;
use load::tally::Series;
use load::workload::laddis::rules::LADDIS;
use load::workload::laddis::{FileSet, at_rate};
use nfs::nfs3::Procedure;

use super::clients::stages;
use super::hardware;
use crate::server::{Design, Hardware, Images, Server};

/// The rate that determines the size of the file set, in calls a second: "about 3 Gbytes of data".
const PEAK: f64 = 650.0;

/// *Input.* Processes of each client. SPEC only requires that there are enough of them.
const PROCESSES: usize = 6;

/// The rates at which the mix is played, in calls a second.
const RATES: [f64; 8] = [50.0, 150.0, 250.0, 350.0, 450.0, 550.0, 600.0, 650.0];

/// Time for which each rate is measured, and the time to settle before it.
const MEASURED: Duration = Duration::from_secs(40);
const SETTLING: Duration = Duration::from_secs(5);

/// Time for which the server runs first, to warm its caches.
const WARMING: Duration = Duration::from_secs(60);

/// Rate of that warm-up.
const WARM_RATE: f64 = 500.0;

/// The calls of the mix that change something: each writes an entry to a log.
const INTRUSIVE: [Procedure; 4] =
    [Procedure::Write, Procedure::Create, Procedure::Remove, Procedure::Setattr];

/// Disks with the benchmark's files, and the clients' knowledge of these.
pub(super) struct Population {
    images: Images,
    files: Vec<FileSet>,
}

/// Measured behavior of the server at a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    /// Answered calls a second.
    pub(super) achieved: f64,
    /// Mean response time, in milliseconds.
    pub(super) mean_ms: f64,
    /// Changing calls for each write to the log.
    pub(super) batching: f64,
    /// Maximum of live log so far, in bytes.
    pub(super) peak_log: u64,
}

impl Population {
    /// Makes the files on this many disks, one disk after the other: a simulated disk keeps its
    /// durable and its volatile contents, and so takes twice the memory while it is in use.
    pub(super) fn make(disks: usize, seed: u64) -> Self {
        let seed = !seed; // its files must not have the names of later ones
        let Images { volumes, log, .. } = hardware::empty(disks, seed);
        let bytes = (PEAK * LADDIS.bytes_per_rate as f64) as u64 / disks as u64;
        let (mut full, mut files) = (Vec::new(), Vec::new());
        for (first, volume) in volumes.into_iter().enumerate() {
            let empty = Images { volumes: vec![volume], first, log: None };
            let server = Server::start(seed, &hardware::workshop(), Design::InPlace, &empty);
            let stages = stages(&server, PROCESSES, seed.wrapping_add(first as u64));
            let [stage] = &stages[..] else { panic!("one disk has one stage") };
            let made = server.run(FileSet::make(stage, &LADDIS, bytes));
            files.push(made.unwrap_or_else(|trouble| panic!("disk {first}: {trouble}")));
            drop(stages);
            full.extend(server.stop().volumes);
        }
        Self { images: Images { volumes: full, first: 0, log }, files }
    }
}

/// A server under load.
pub(super) struct Loaded {
    pub(super) server: Server,
    stages: Vec<Stage>,
    files: Vec<FileSet>,
    pub(super) hardware: Hardware,
    pub(super) design: Design,
}

impl Loaded {
    /// Starts a server, and warms its caches.
    pub(super) fn start(
        population: &Population,
        hardware: Hardware,
        design: Design,
        seed: u64,
    ) -> Self {
        let server = Server::start(seed, &hardware, design, &population.images);
        let stages = stages(&server, PROCESSES, seed);
        let files = population.files.clone();
        let loaded = Self { server, stages, files, hardware, design };
        loaded.play(WARM_RATE, WARMING);
        loaded
    }

    /// Plays the mix at a rate for a time.
    pub(super) fn play(&self, rate: f64, duration: Duration) -> Point {
        let (before, start) = (self.log(), self.server.now());
        let each = (rate / self.stages.len() as f64, duration);
        let clients = self.stages.iter().zip(&self.files);
        let playing = clients.map(|(stage, files)| at_rate(stage, "mix", &LADDIS, files, each));
        let measured = self.server.run(join_all(playing));
        let seconds = self.server.now().since(start).as_secs_f64();
        let (mut calls, mut answered, mut intrusive) = (Series::default(), 0, 0);
        for one in &measured {
            assert_eq!(one.tally.failed(), 0, "{:?}", one.tally.errors);
            answered += one.tally.succeeded();
            intrusive += INTRUSIVE.iter().map(|&of| one.tally.of(of)).sum::<u64>();
            calls.add(&one.tally.headline());
        }
        let log = self.log();
        let batches = log.batches - before.batches;
        Point {
            achieved: answered as f64 / seconds,
            mean_ms: calls.mean().as_secs_f64() * 1e3,
            batching: if batches == 0 { 0.0 } else { intrusive as f64 / batches as f64 },
            peak_log: log.peak_bytes,
        }
    }

    fn log(&self) -> journal::Counters {
        let statistics = self.server.engines()[0].engine().log_statistics();
        statistics.map_or_else(Default::default, |statistics| statistics.writes)
    }

    /// Plays all rates.
    pub(super) fn climb(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for rate in RATES {
            self.play(rate, SETTLING);
            points.push(self.play(rate, MEASURED));
        }
        points
    }
}

/// The highest rate of answered calls a second.
pub(super) fn maximum(points: &[Point]) -> f64 {
    points.iter().map(|point| point.achieved).fold(0.0, f64::max)
}
