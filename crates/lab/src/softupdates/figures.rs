//! The paper's figures, each with the measured value.

use super::All;
use super::files::Writes;
use crate::figure::{self, Figure};
use crate::picture::Picture;

const TAR: &str = "tar of 28 directories with 202 empty files";
const REMOVE: &str = "rm -rf of them";
const TORTURE: &str = "torture test: 1000 Andrew, 1000 copy and remove, 500 find";
const ANDREW: &str = "Andrew benchmark";
const MAKEDEV: &str = "MAKEDEV of 522 nodes";
const DEPENDENCIES: &str = "dependencies";

const WINDOW: &str = "what is the same again after a while is written once here. In the paper's \
                      FFS directories lie in groups of their own, and each has its map and its \
                      block of inodes there";
const SHELL: &str = "the shells that run for each node, and the times of their files, are not in \
                     the model";
const RECORDS: &str = "the model's own records, which hold what a change waits for and nothing of \
                       what it rolls back";

/// The figures that have to be as published, by experiment and name.
const HEADLINES: [(&str, &str); 5] =
    [(TAR, SYNC_NORMAL), (TAR, SYNC_SOFT), (TAR, GAIN), (REMOVE, GAIN), (TORTURE, SAVED)];
const SYNC_NORMAL: &str = "writes waited for, normal";
const SYNC_SOFT: &str = "writes waited for, soft updates";
const GAIN: &str = "gain";
const SAVED: &str = "writes saved";

/// Violations among these figures.
pub(super) fn failures(figures: &[Figure]) -> Vec<String> {
    figure::failures(figures, &HEADLINES)
}

/// Every number in the paper, with related figures.
pub(super) fn figures(all: &All) -> Vec<Figure> {
    let mut figures = tar(all);
    figures.extend(remove(all));
    figures.extend(torture(all));
    figures.extend(andrew(all));
    figures.extend(makedev(all));
    figures.extend(dependencies(all));
    figures
}

fn tar(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(TAR, figure, unit);
    let [normal, soft, ours] = [&all.normal, &all.soft, &all.ours].map(|one| &one.tar[0]);
    vec![
        new("time, normal", "s").published(7.27).measured(normal.elapsed_s),
        new("time, soft updates", "s")
            .published(0.65)
            .measured(soft.elapsed_s)
            .ours(ours.elapsed_s),
        new(GAIN, "times")
            .published(7.27 / 0.65)
            .measured(normal.elapsed_s / soft.elapsed_s)
            .ours(normal.elapsed_s / ours.elapsed_s),
        new(SYNC_NORMAL, "").published(523.0).measured(normal.at_end.sync as f64),
        new(SYNC_SOFT, "")
            .published(0.0)
            .measured(soft.at_end.sync as f64)
            .ours(ours.at_rest.sync as f64),
        new("other writes, soft updates", "")
            .published(33.0)
            .measured(soft.at_rest.async_ as f64)
            .ours(ours.at_rest.async_ as f64),
    ]
}

fn remove(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(REMOVE, figure, unit);
    let [normal, soft, ours] = [&all.normal, &all.soft, &all.ours].map(|one| &one.tar[1]);
    vec![
        new("time, normal", "s").published(1.84).measured(normal.elapsed_s),
        new("time, soft updates", "s")
            .published(0.20)
            .measured(soft.elapsed_s)
            .ours(ours.elapsed_s),
        new(GAIN, "times")
            .published(1.84 / 0.20)
            .measured(normal.elapsed_s / soft.elapsed_s)
            .ours(normal.elapsed_s / ours.elapsed_s),
        new(SYNC_NORMAL, "").published(258.0).measured(normal.at_rest.sync as f64),
        new("other writes, normal", "")
            .published(65.0)
            .measured(normal.at_rest.async_ as f64)
            .note(WINDOW),
        new(SYNC_SOFT, "")
            .published(0.0)
            .measured(soft.at_rest.sync as f64)
            .ours(ours.at_rest.sync as f64),
        new("other writes, soft updates", "")
            .published(72.0)
            .measured(soft.at_rest.async_ as f64)
            .ours(ours.at_rest.async_ as f64)
            .note(WINDOW),
    ]
}

fn torture(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(TORTURE, figure, unit);
    let [normal, soft, ours] = [&all.normal, &all.soft, &all.ours].map(|one| one.torture);
    let times = all.shortened;
    let sync = |writes: Writes| writes.sync as f64 * times;
    let others = |writes: Writes| writes.async_ as f64 * times;
    let hours = |seconds: f64| seconds * times / 3600.0;
    let saved = |less: f64, more: f64| 100.0 * (1.0 - less / more);
    let written = |one: super::Taken| one.at_rest.all();
    vec![
        new(SYNC_NORMAL, "").measured(sync(normal.at_rest)),
        new("other writes, normal", "").published(487_031.0).measured(others(normal.at_rest)),
        new(SYNC_SOFT, "").measured(sync(soft.at_rest)).ours(sync(ours.at_rest)),
        new("writes, soft updates", "")
            .published(1_113_692.0)
            .measured(written(soft) * times)
            .ours(written(ours) * times),
        new(SAVED, "%")
            .published(42.8)
            .measured(saved(written(soft), written(normal)))
            .ours(saved(written(ours), written(normal))),
        new("time, normal", "h").published(27.25).measured(hours(normal.elapsed_s)),
        new("time, soft updates", "h").measured(hours(soft.elapsed_s)).ours(hours(ours.elapsed_s)),
        new("time saved", "%")
            .published(27.2)
            .measured(saved(soft.elapsed_s, normal.elapsed_s))
            .ours(saved(ours.elapsed_s, normal.elapsed_s)),
    ]
}

fn andrew(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(ANDREW, figure, unit);
    let [normal, soft, ours] = [&all.normal, &all.soft, &all.ours];
    let phases = [
        ("phase 1, directories, normal", 3.0),
        ("phase 2, copies, normal", 8.0),
        ("phase 3, attributes, normal", 6.0),
        ("phase 4, reading, normal", 8.0),
        ("phase 5, compilation, normal", 25.0),
    ];
    let phase = |(index, (name, published)): (usize, (&str, f64))| {
        let figure = new(name, "s").measured(normal.phases_s[index]);
        figure.published(published).ours(ours.phases_s[index])
    };
    let mut figures: Vec<Figure> = phases.into_iter().enumerate().map(phase).collect();
    figures.extend([
        new("all, normal", "s").published(52.8).measured(normal.andrew.elapsed_s),
        new("all, soft updates", "s")
            .published(47.8)
            .measured(soft.andrew.elapsed_s)
            .ours(ours.andrew.elapsed_s),
        new("writes, normal", "").published(630.0).measured(normal.andrew.at_rest.all()),
        new("writes, soft updates", "")
            .published(363.0)
            .measured(soft.andrew.at_rest.all())
            .ours(ours.andrew.at_rest.all()),
    ]);
    figures
}

fn makedev(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(MAKEDEV, figure, unit);
    let [normal, soft, ours] = [&all.normal, &all.soft, &all.ours].map(|one| &one.makedev);
    vec![
        new("time, normal", "s").published(42.53).measured(normal.elapsed_s),
        new("time, soft updates", "s")
            .published(34.82)
            .measured(soft.elapsed_s)
            .ours(ours.elapsed_s),
        new("writes, normal", "").published(1221.0).measured(normal.at_rest.all()),
        new("writes, soft updates", "")
            .published(36.0)
            .measured(soft.at_rest.all())
            .ours(ours.at_rest.all())
            .note(SHELL),
    ]
}

fn dependencies(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(DEPENDENCIES, figure, unit);
    let [paper, thirty] = all.rollbacks;
    vec![
        new("memory for 1000 files", "KB")
            .published(300.0)
            .measured(all.thousand_bytes / 1000.0)
            .note(RECORDS),
        new("names rolled back, ages 10, 15 and 30 s", "").measured(paper[0]),
        new("names rolled back, 30 s for all", "").measured(thirty[0]),
        new("others rolled back, ages 10, 15 and 30 s", "").measured(paper[1]),
        new("others rolled back, 30 s for all", "").measured(thirty[1]),
    ]
}

/// The Andrew benchmark.
pub(super) fn pictures(all: &All) -> Vec<Picture> {
    let seconds = |one: &super::Measured| {
        let mut sum = 0.0;
        let phase = |(index, s): (usize, &f64)| {
            sum += s;
            (index as f64 + 1.0, sum)
        };
        one.phases_s.iter().enumerate().map(phase).collect()
    };
    vec![Picture {
        name: "softupdates-andrew",
        caption: "Andrew benchmark: seconds until the end of each phase",
        axes: ["phase", "s"],
        height: 60.0,
        curves: vec![
            ("normal", seconds(&all.normal)),
            ("soft updates", seconds(&all.soft)),
            ("ours", seconds(&all.ours)),
        ],
    }]
}
