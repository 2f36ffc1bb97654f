//! The paper's figures, each with the measured value.

use super::inputs::PROTOTYPE;
use super::{All, FastTimes, KINDS, Run, SIZES, Told};
use crate::figure::{self, Figure};
use crate::picture::Picture;

const FAST: &str = "the paper's FFS";
const SEEN: &str = "the prototype, as its clients see it";
const RAW: &str = "the prototype, while it writes";
const OTHERWISE: &str = "the same, otherwise: user data";
const FASTER: &str = "faster disks: speed over that of the disk";
const READS: &str = "updates of 40 KB between reads";
const OURS: &str = "ours: appends on an empty disk";
const AGED: &str = "ours: 40 KB written over, aged, user data";

/// The reasons why our engine does not reach the paper's maximum.
const HEADS: &str = "not the 1330 and 1260 that 95 % of the paper's maximum would be: in that no \
    head is changed. Here it takes 1 ms for each track, so that whole tracks in a row come to \
    95.8 %. An update ends at a slot, which comes by once in a turn: half a turn for each, 2 %. A \
    cylinder is left for the next, 1 %, and anchors are written at both ends of the disk, 1 %";

/// The figures that have to be as published, by experiment and name.
const HEADLINES: [(&str, &str); 5] = [
    (SEEN, "requests of 70 KB, 1 client"),
    (SEEN, "requests of 100 KB, 1 client"),
    (RAW, "user data, requests of 40 KB"),
    (RAW, "user data, requests of 100 KB"),
    (RAW, CEILING),
];
const CEILING: &str = "the disk's maximum";

/// Violations among figures and claims.
pub(super) fn failures(figures: &[Figure], claims: &[(&str, bool)]) -> Vec<String> {
    let mut failures = figure::failures(figures, &HEADLINES);
    let broken = claims.iter().filter(|(_, holds)| !holds);
    failures.extend(broken.map(|(claim, _)| format!("the claim that {claim}")));
    failures
}

/// Claims of the paper without a number, and whether they hold.
pub(super) fn claims(all: &All) -> Vec<(&'static str, bool)> {
    let [_, _, nfs] = all.fast.speeds();
    let seen = || all.runs.iter().flatten().map(|run| run.seen() / nfs);
    let [small, large] = [40, 100].map(|kb| &of(all, kb)[0]);
    let growth = large.seen() / small.seen();
    let clients = |runs: &[Run; 3]| (runs[2].seen() / runs[0].seen() - 1.0).abs() < 0.1;
    let follows = KINDS.iter().enumerate().all(|(index, kind)| {
        let [_, grown, block, eight] = gains(all, index);
        let least = 0.67 * kind.times as f64;
        grown > least.max(eight) && block < 1.2
    });
    let [near, log] = &all.between;
    vec![
        ("clients see two to three times NFS", seen().all(|times| (2.0..3.0).contains(&times))),
        ("larger requests are marginally faster for clients", (1.0..1.5).contains(&growth)),
        ("the number of clients does not matter", all.runs.iter().all(clients)),
        ("larger requests are written faster", large.user() > small.user()),
        ("the share of metadata falls", large.metadata() < small.metadata()),
        ("all data differs less by size", large.all() / small.all() < large.user() / small.user()),
        ("speed follows the disks, and that of FFS does not", follows),
        ("updates seek less than to a log's end", near.crossed * 10.0 < log.crossed),
        ("updates take less than at a log's end", near.update_ms < log.update_ms),
    ]
}

/// Every number in the paper, with related figures.
pub(super) fn figures(all: &All) -> Vec<Figure> {
    let mut figures = fast(all);
    figures.extend(seen(all));
    figures.extend(raw(all));
    figures.extend(otherwise(all));
    figures.extend(faster(all));
    figures.extend(between(all));
    figures.extend(ours(all));
    figures
}

fn ours(all: &All) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (told, appended) in &all.ours {
        let mut add = |what: &str, ours, note: Option<&'static str>| {
            let figure = Figure::new(OURS, format!("{}: {what}", told.name()), "KB/s").ours(ours);
            figures.push(Figure { note, ..figure });
        };
        let note = (*told == Told::Turns).then_some(HEADS);
        add("8 daemons, 40 to 100 KB, all data", appended.eight.all(), note);
        add("8 daemons, 40 to 100 KB, user data", appended.eight.user(), note);
        add("a lone daemon, 40 KB, user data", appended.forty.user(), None);
        add("a lone daemon, 100 KB, user data", appended.hundred.user(), None);
    }
    for (told, aged) in &all.aged {
        for one in aged {
            let mut add = |what: &str, ours| {
                let name = format!("{}, {} % full: {what}", told.name(), one.percent);
                figures.push(Figure::new(AGED, name, "KB/s").ours(ours));
            };
            add("a lone daemon", one.lone.user());
            add("8 daemons", one.eight.user());
        }
    }
    figures
}

/// Results of our engine that knows the rotation.
fn by_turns(all: &All) -> &super::Appended {
    let found = all.ours.iter().find(|(told, _)| *told == Told::Turns);
    &found.expect("it was measured").1
}

fn fast(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(FAST, figure, unit);
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let [append, eight, nfs] = all.fast.speeds();
    vec![
        new("8 KB appended", "ms").published(56.8).measured(ms(all.fast.append)),
        new("8 KB appended, speed", "KB/s").published(140.0).measured(append),
        new("8 daemons append 8 KB each", "ms").published(96.7).measured(ms(all.fast.eight)),
        new("8 daemons append 8 KB each, speed", "KB/s").published(660.0).measured(eight),
        new("over NFS, speed", "KB/s").published(80.0).measured(nfs),
    ]
}

/// Results for a request size.
fn of(all: &All, kb: u64) -> &[Run; 3] {
    let index = SIZES.iter().position(|&size| size == kb).expect("a size that was measured");
    &all.runs[index]
}

fn seen(all: &All) -> Vec<Figure> {
    let [_, _, nfs] = all.fast.speeds();
    let mut figures = Vec::new();
    for kb in [40, 70, 100] {
        for (index, run) in of(all, kb).iter().enumerate() {
            let plural = if index == 0 { "" } else { "s" };
            let name = format!("requests of {kb} KB, {} client{plural}", index + 1);
            let figure = Figure::new(SEEN, name, "times NFS").measured(run.seen() / nfs);
            // The first value is calibrated, so it is not compared.
            let is_row = (kb, index) != (40, 0);
            figures.push(if is_row { figure.published(2.5) } else { figure });
        }
    }
    for (writers, run) in &all.others {
        let plural = if writers.clients == 1 { " with" } else { "s with" };
        let (clients, daemons) = (writers.clients, writers.daemons);
        let name = format!("requests of 70 KB, {clients} client{plural} {daemons} daemons");
        let figure = Figure::new(SEEN, name, "times NFS").published(2.5);
        figures.push(figure.measured(run.seen() / nfs));
    }
    for kb in [40, 70, 100] {
        let [one, _, three] = of(all, kb);
        let name = format!("requests of {kb} KB, 3 clients over 1");
        let figure = Figure::new(SEEN, name, "times").published(1.0);
        figures.push(figure.measured(three.seen() / one.seen()));
    }
    figures
}

fn raw(all: &All) -> Vec<Figure> {
    let new = |figure: &str, unit| Figure::new(RAW, figure, unit);
    let [forty, seventy, hundred] = [40, 70, 100].map(|kb| &of(all, kb)[0]);
    let [tenth, median, ninetieth] = quantiles(all, [10, 50, 90]);
    let ours = by_turns(all);
    let place_ms = |looked: f64| looked * PROTOTYPE.place_ns as f64 / 1e6;
    vec![
        new("user data, requests of 40 KB", "KB/s")
            .published(550.0)
            .measured(forty.user())
            .ours(ours.forty.user()),
        new("user data, requests of 70 KB", "KB/s").measured(seventy.user()),
        new("user data, requests of 100 KB", "KB/s")
            .published(850.0)
            .measured(hundred.user())
            .ours(ours.hundred.user()),
        new("all data, requests of 40 KB", "KB/s").measured(forty.all()).ours(ours.forty.all()),
        new("all data, requests of 100 KB", "KB/s")
            .measured(hundred.all())
            .ours(ours.hundred.all()),
        new("share of metadata, requests of 40 KB", "%")
            .measured(forty.metadata())
            .ours(ours.forty.metadata()),
        new("share of metadata, requests of 100 KB", "%")
            .measured(hundred.metadata())
            .ours(ours.hundred.metadata()),
        new("single requests, all data, at the tenth of 100", "KB/s").measured(tenth),
        new("single requests, all data, at the median", "KB/s").measured(median),
        new("single requests, all data, at the ninetieth", "KB/s").measured(ninetieth),
        new("no sequence found, requests of 40 KB", "%").measured(forty.simplest()),
        new("no sequence found, requests of 100 KB", "%").measured(hundred.simplest()),
        new("places looked at for a block, 40 KB", "")
            .measured(forty.looked())
            .ours(ours.forty.looked()),
        new("processor for that, 10 us a place", "ms")
            .measured(place_ms(forty.looked()))
            .ours(place_ms(ours.forty.looked())),
        new(CEILING, "MB/s").published(1.4).measured(all.ceiling),
        new("space of superblocks", "%").measured(all.superblocks),
    ]
}

/// Speeds of single requests of all sizes, in ascending order.
fn speeds(all: &All) -> Vec<f64> {
    let updates = all.runs.iter().flatten().flat_map(|run| &run.updates);
    let mut speeds: Vec<f64> = updates.map(super::prototype::Update::all_speed).collect();
    speeds.sort_by(f64::total_cmp);
    speeds
}

fn quantiles<const N: usize>(all: &All, percents: [usize; N]) -> [f64; N] {
    let speeds = speeds(all);
    percents.map(|percent| speeds[speeds.len() * percent / 100])
}

fn otherwise(all: &All) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (name, runs) in &all.variants {
        for (run, kb) in runs.iter().zip([40, 100]) {
            let name = format!("{name}, requests of {kb} KB");
            figures.push(Figure::new(OTHERWISE, name, "KB/s").measured(run.user()));
        }
    }
    figures
}

fn faster(all: &All) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        let new = |what: &str, measured| {
            Figure::new(FASTER, format!("{}: {what}", kind.name), "times").measured(measured)
        };
        let gains = gains(all, index);
        let kb = 100 * kind.times;
        figures.push(new("requests of 100 KB", gains[0]));
        // "The file system's performance will scale as disk transfer speeds increase."
        let grown = new(&format!("requests of {kb} KB"), gains[1]);
        figures.push(grown.published(kind.times as f64));
        figures.push(new("FFS, 8 KB", gains[2]));
        figures.push(new("FFS, 8 daemons", gains[3]));
    }
    figures
}

/// Speed of a kind of disks relative to the paper's disk: with the prototype and requests of 100
/// KB, with requests that grow, with FFS and one block, and with eight.
fn gains(all: &All, kind: usize) -> [f64; 4] {
    let speeds = |[same, grown]: [&Run; 2], fast: &FastTimes| {
        let [append, eight, _] = fast.speeds();
        [same.user(), grown.user(), append, eight]
    };
    let ([same, grown], fast) = &all.kinds[kind];
    let (slow, quick) = (speeds([&of(all, 100)[0]; 2], &all.fast), speeds([same, grown], fast));
    std::array::from_fn(|index| quick[index] / slow[index])
}

fn between(all: &All) -> Vec<Figure> {
    let names = ["where the arm is", "at a log's end"];
    let mut figures = Vec::new();
    for (name, one) in names.into_iter().zip(&all.between) {
        let new = |what: &str, unit| Figure::new(READS, format!("{name}: {what}"), unit);
        figures.push(new("cylinders on the way", "").measured(one.crossed));
        figures.push(new("an update", "ms").measured(one.update_ms));
        figures.push(new("a read and an update", "ms").measured(one.both_ms));
    }
    figures
}

/// Figures 3 to 6.
pub(super) fn pictures(all: &All) -> Vec<Picture> {
    let curve = |clients: usize, what: &dyn Fn(&Run) -> f64| {
        let point = |(size, runs): (&u64, &[Run; 3])| (*size as f64, what(&runs[clients]));
        SIZES.iter().zip(&all.runs).map(point).collect::<Vec<_>>()
    };
    let curves = |what: &dyn Fn(&Run) -> f64| {
        let names = ["1 client", "2 clients", "3 clients"];
        names.into_iter().enumerate().map(|(index, name)| (name, curve(index, what))).collect()
    };
    let speed = |name, caption, height, what: &dyn Fn(&Run) -> f64| {
        let axes = ["KB a request", "KB/s"];
        Picture { name, caption, axes, height, curves: curves(what) }
    };
    vec![
        speed("acacia-figure-3", "Write speed as clients see it", 350.0, &Run::seen),
        speed("acacia-figure-4", "Speed of writing, user data", 1400.0, &Run::user),
        speed("acacia-figure-5", "Speed of writing, all data", 1400.0, &Run::all),
        histogram(all),
    ]
}

/// Figure 6: classes of 50 KB/s.
fn histogram(all: &All) -> Picture {
    const CLASS: f64 = 50.0;
    let speeds = speeds(all);
    let mut shares = [0.0; 28];
    for speed in &speeds {
        let class = ((speed / CLASS) as usize).min(shares.len() - 1);
        shares[class] += 100.0 / speeds.len() as f64;
    }
    let point = |(class, share): (usize, &f64)| ((class as f64 + 0.5) * CLASS, *share);
    Picture {
        name: "acacia-figure-6",
        caption: "Single requests by speed of writing, all data",
        axes: ["KB/s", "% of requests"],
        height: 25.0,
        curves: vec![("40 to 100 KB", shares.iter().enumerate().map(point).collect())],
    }
}
