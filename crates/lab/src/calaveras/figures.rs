//! The paper's figures, each with the measured value.

use super::laddis::{Point, maximum};
use super::{Measured, recovery};
use crate::figure::Figure;
use crate::picture::Picture;
use crate::server::Back;

const LADDIS: &str = "LADDIS";
const RECOVERY: &str = "crash at peak load";
const SMALL: &str = "small files, elapsed";
const LATENCY: &str = "small files, at the server";
const HOT: &str = "one directory, 16 processes";

/// Bytes of a megabyte of log.
const MIB: f64 = (1 << 20) as f64;

const ROUNDS: &str = "without a log the paper's FFS makes a mkdir of some six writes, each waited \
                      for before the next. Our policy `sync` makes five, and writes those of one \
                      rank together";
const RANKS: &str = "not a little higher: in place, a WRITE that makes a file longer waits here \
                     for one rank after the other, bits included, and in the paper's FFS for two \
                     writes: that leaves its bits to fsck";
const RESTART: &str = "the replay alone, in which the log is read once and ten disks are written \
                       at the same time; the paper's times hold all that its server did besides, \
                       and its log was longer at worst";
const INODES: &str = "UFS2 makes inodes when they are first used, and a check reads those. The \
                      check of the paper reads every inode for which newfs made room, which with \
                      one for 4 KiB are 32 MiB more on each disk";
const TYPICAL: &str = "what is merged grows with the live log: just after the sync there is hardly \
                       anything. Ours is brought home every 5 s, and so there is less to merge";
const BOTH: &str = "both times are within the limits, and lean opposite ways: a log write takes a \
                    turn of the disk here, 12 ms, and somewhat less in the paper's 17 ms";

/// Every number in the paper, with related figures.
pub(super) fn figures(measured: &Measured) -> Vec<Figure> {
    let mut all = laddis(measured);
    all.extend(recovery(measured));
    all.extend(small_files(measured));
    all.extend(latencies(measured));
    all.extend(hot_directory(measured));
    all
}

fn hot_directory(measured: &Measured) -> Vec<Figure> {
    let [in_place, log, ours] = measured.hot;
    let new = |figure: &str, unit| Figure::new(HOT, figure, unit);
    vec![
        new("creates, no logging", "creates/s").measured(in_place),
        new("creates, logging", "creates/s").measured(log).ours(ours),
        new("creates, gain", "times").measured(log / in_place).ours(ours / in_place),
    ]
}

fn laddis(measured: &Measured) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(LADDIS, figure, unit);
    let Measured { in_place, log, unbatched, slow_log, ours, .. } = measured;
    let batching = |points: &[Point], at: usize| points[at].batching;
    let peak = |points: &[Point]| points.iter().map(|point| point.batching).fold(0.0, f64::max);
    let live = |points: &[Point]| {
        points.iter().map(|point| point.peak_log).max().unwrap_or(0) as f64 / MIB
    };
    let over = |points: &[Point], at: usize| points[at].mean_ms / in_place[at].mean_ms;
    let high = log.len() - 2;
    vec![
        new("most calls answered, logging", "calls/s")
            .published(650.0)
            .measured(maximum(log))
            .ours(maximum(ours)),
        new("most calls answered, no logging", "calls/s")
            .published(650.0)
            .measured(maximum(in_place)),
        new("most calls answered, logging without batching", "calls/s")
            .published(400.0)
            .measured(maximum(unbatched)),
        new("most calls answered, log on a slow disk", "calls/s")
            .published(650.0)
            .measured(maximum(slow_log)),
        new("response time, logging over none, light load", "")
            .measured(over(log, 0))
            .ours(over(ours, 0))
            .note(RANKS),
        new("response time, logging over none, high load", "")
            .measured(over(log, high))
            .ours(over(ours, high)),
        new("entries for each log write, light load", "")
            .published(1.0)
            .measured(batching(log, 0))
            .ours(batching(ours, 0)),
        new("entries for each log write, at most", "")
            .published(1.6)
            .measured(peak(log))
            .ours(peak(ours)),
        new("entries for each log write, at most, slow log disk", "").measured(peak(slow_log)),
        new("most live log", "MiB").published(10.0).measured(live(log)).ours(live(ours)),
    ]
}

fn recovery(measured: &Measured) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(RECOVERY, figure, unit);
    let Measured { in_place_back, log_back, ours_back, .. } = measured;
    let seconds = |back: &Back| back.took.as_secs_f64();
    let reads = |back: &Back| back.replayed.search_reads as f64;
    let least =
        |all: &[Back], of: &dyn Fn(&Back) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |all: &[Back], of: &dyn Fn(&Back) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let median = |all: &[Back], of: &dyn Fn(&Back) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let reduction = recovery::reduction;
    vec![
        new("until the volumes serve, with a log, at best", "s")
            .published(3.0)
            .measured(least(log_back, &seconds))
            .ours(least(ours_back, &seconds))
            .note(RESTART),
        new("until the volumes serve, with a log, at worst", "s")
            .published(14.0)
            .measured(most(log_back, &seconds))
            .ours(most(ours_back, &seconds))
            .note(RESTART),
        new("until the volumes serve, by a check of all disks", "s")
            .published(450.0)
            .measured(most(in_place_back, &seconds))
            .note(INODES),
        new("reads to find the tail among 512 segments", "")
            .published(9.0)
            .measured(most(log_back, &reads))
            .ours(most(ours_back, &reads)),
        new("changes for each write of the replay, at the median", "")
            .published(8.0)
            .measured(median(log_back, &reduction))
            .ours(median(ours_back, &reduction))
            .note(TYPICAL),
        new("changes for each write of the replay, at most", "")
            .published(10.0)
            .measured(most(log_back, &reduction))
            .ours(most(ours_back, &reduction))
            .note(TYPICAL),
    ]
}

/// For each phase: its name, and the published values without and with a log.
const CD: &str = "CD: 16000 directories made";
const RD: &str = "RD: and removed";
const ELAPSED_S: [(&str, f64, f64); 4] = [
    (CD, 370.0, 123.0),
    (RD, 151.0, 66.0),
    ("CF: 16000 files copied", 339.0, 264.0),
    ("RF: and removed", 121.0, 89.0),
];
const LATENCY_MS: [(&str, f64, f64); 4] =
    [("mkdir", 106.4, 16.9), ("rmdir", 50.1, 17.3), ("create", 30.4, 17.1), ("remove", 36.5, 24.4)];

/// Figures of a phase without and with a log, and the gain.
fn pair(
    experiment: &'static str,
    unit: &'static str,
    (name, without, with): (&str, f64, f64),
    [in_place, log, ours]: [f64; 3],
) -> [Figure; 3] {
    let new = |figure: &str, unit| Figure::new(experiment, format!("{name}{figure}"), unit);
    let note = |figure: Figure| match name {
        "mkdir" | CD => figure.note(ROUNDS),
        "rmdir" | RD => figure.note(BOTH),
        _ => figure,
    };
    let without_log = new(", no logging", unit).published(without).measured(in_place);
    let gain = new(", gain", "times").published(without / with).measured(in_place / log);
    [
        if matches!(name, "mkdir" | CD) { note(without_log) } else { without_log },
        new(", logging", unit).published(with).measured(log).ours(ours),
        note(gain).ours(in_place / ours),
    ]
}

fn small_files(measured: &Measured) -> Vec<Figure> {
    let Measured { in_place_small, log_small, ours_small, .. } = measured;
    let phases = ELAPSED_S.iter().enumerate().flat_map(|(index, &published)| {
        let taken = [in_place_small, log_small, ours_small].map(|all| all[index].elapsed_s);
        pair(SMALL, "s", published, taken)
    });
    let total = [in_place_small, log_small, ours_small]
        .map(|all| all.iter().map(|taken| taken.elapsed_s).sum());
    phases.chain(pair(SMALL, "s", ("all four", 981.0, 542.0), total)).collect()
}

fn latencies(measured: &Measured) -> Vec<Figure> {
    let Measured { in_place_small, log_small, ours_small, .. } = measured;
    let phases = LATENCY_MS.iter().enumerate().flat_map(|(index, &published)| {
        let taken = [in_place_small, log_small, ours_small].map(|all| all[index].latency_ms);
        let writes = [in_place_small, log_small, ours_small].map(|all| all[index].writes);
        let new = |figure: &str| Figure::new(LATENCY, format!("{}{figure}", published.0), "");
        let in_place = new(", writes in place for each, no logging").measured(writes[0]);
        let with_log = new(", writes in place for each, logging").measured(writes[1]);
        let all = pair(LATENCY, "ms", published, taken).into_iter();
        all.chain([in_place, with_log.ours(writes[2])])
    });
    phases.collect()
}

/// Figures 4 and 5.
pub(super) fn pictures(measured: &Measured) -> Vec<Picture> {
    let Measured { in_place, log, unbatched, slow_log, ours, .. } = measured;
    let response = |points: &[Point]| {
        points.iter().map(|point| (point.achieved, point.mean_ms)).collect::<Vec<_>>()
    };
    let batching = |points: &[Point]| {
        points.iter().map(|point| (point.achieved, point.batching)).collect::<Vec<_>>()
    };
    vec![
        Picture {
            name: "calaveras-figure-4",
            caption: "LADDIS: response time against throughput (figure 4)",
            axes: ["calls/s answered", "mean ms"],
            height: 100.0,
            curves: vec![
                ("no logging", response(in_place)),
                ("logging", response(log)),
                ("without batching", response(unbatched)),
                ("ours", response(ours)),
            ],
        },
        Picture {
            name: "calaveras-figure-5",
            caption: "Entries for each log write against throughput (figure 5)",
            axes: ["calls/s answered", "entries for each write"],
            height: 4.0,
            curves: vec![
                ("logging", batching(log)),
                ("log on a slow disk", batching(slow_log)),
                ("ours", batching(ours)),
            ],
        },
    ]
}
