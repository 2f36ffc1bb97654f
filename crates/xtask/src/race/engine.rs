//! An engine against ours with policy `log`, in turn on devices of the same kind, and both against
//! nfs-ganesha on btrfs, which also writes out of place: `cargo xtask race --engine NAME`.

use super::contestants::{Contestant, Ground, Who};
use super::results::Results;
use super::rows::{Limit, Load, Row};
use super::{LOG_MIB, Plan};
use crate::Result;
use crate::track::janitor::Janitor;
use crate::track::statistics::Summary;
use crate::track::table::{Table, short, spread};

/// Size of a data device, in MiB: enough for the writes of a round.
pub(super) const DISK_MIB: u64 = 2 << 10;

/// Goals of the engine in a row: against policy `log` under each load, and against the other server
/// with 32 connections.
struct Wanted {
    row: &'static str,
    of_log: [f64; 2],
    of_btrfs: Option<f64>,
}

const fn wanted(row: &'static str, of_log: [f64; 2]) -> Wanted {
    Wanted { row, of_log, of_btrfs: None }
}

const WANTED: [Wanted; 8] = [
    wanted("GETATTR", [0.98, 0.98]),
    wanted("CREATE, one directory", [0.8, 0.9]),
    wanted("REMOVE, one directory", [0.8, 0.9]),
    wanted("MKDIR, one directory", [0.8, 0.9]),
    Wanted { of_btrfs: Some(2.0), ..wanted("overwrite 8 KiB FILE_SYNC", [0.8, 1.2]) },
    wanted("UNSTABLE 1 MiB + COMMIT, MiB/s", [1.0, 1.0]),
    wanted("sequential READ 64 KiB, cold, MiB/s", [0.9, 0.9]),
    wanted("sequential READ 1 MiB, cold, MiB/s", [0.9, 0.9]),
];

/// Goals of a row, if the engine is measured there.
fn of(row: &Row) -> Option<&'static Wanted> {
    WANTED.iter().find(|wanted| wanted.row == row.name)
}

/// Whether the engine is measured in a row.
pub(super) fn is_measured(row: &Row) -> bool {
    of(row).is_some()
}

/// Whether a contestant is measured in a row.
pub(super) fn takes_part(who: Who, row: &Row) -> bool {
    who != Who::Btrfs || of(row).is_some_and(|wanted| wanted.of_btrfs.is_some())
}

/// Starts all contestants.
pub(super) fn start(
    ground: &Ground<'_>,
    janitor: &mut Janitor,
    engine: &str,
) -> Result<Vec<Contestant>> {
    Ok(vec![
        ground.ours(janitor)?,
        ground.engine(janitor, engine)?,
        ground.ganesha(janitor, Who::Btrfs, &["mkfs.btrfs", "-q", "-K"], "defaults")?,
    ])
}

/// Renders the part of the page.
pub(super) fn part(
    ground: &Ground<'_>,
    (plan, engine): (&Plan, &str),
    (place, load): (&str, &str),
    results: &Results,
) -> String {
    let cache = if ground.is_direct { "past" } else { "through" };
    format!(
        "# Engine `{engine}`

`cargo xtask race --engine {engine} --rounds {rounds} --seconds {seconds}`

{place}
Duramen with engine `{engine}` on a device of {disk} MiB, against Duramen with engine `ffs` and
policy `log` on one of {disk} MiB and one of {log} MiB for the log, and nfs-ganesha on btrfs. The
devices are files of one file system, written from end to end before; they go {cache} its cache. All
has the settings that it has by itself. What is measured, and how, is told with the first race.
Ratios are of the same round, by turns: the median, and the least and the most. The machine was not
idle otherwise: its load was {load} when the race began, which counts who computes or waits for a
disk.

{table}",
        rounds = plan.rounds,
        seconds = plan.seconds,
        disk = DISK_MIB,
        log = LOG_MIB,
        table = table(results).text(),
    )
}

fn table(results: &Results) -> Table {
    let mut table = Table::new(&[
        "what",
        "connections",
        "this engine",
        "policy `log`",
        "ratio",
        "spread",
        "wanted",
        "reached",
        "further",
    ]);
    for found in results.found() {
        let Some(wanted) = of(found.row) else { continue };
        let ratio = found.ratio(Who::Engine, Who::Ours);
        let Some(Summary { median, .. }) = ratio else { continue };
        let rate = |who| {
            let rate = found.rate(who).map(short);
            rate.map_or_else(String::new, |rate| format!("{rate}{}", found.unit()))
        };
        let least = wanted.of_log[usize::from(found.load == Load::Many)];
        let verdict = |is_reached: bool| if is_reached { "yes" } else { "**no**" };
        let mut further = Vec::new();
        if let (Some(least), Load::Many) = (wanted.of_btrfs, found.load)
            && let Some(ratio) = found.ratio(Who::Engine, Who::Btrfs)
        {
            let is_reached = verdict(ratio.median >= least);
            further.push(format!(
                "{} of ganesha on btrfs, wanted {}: {is_reached}",
                short(ratio.median),
                short(least)
            ));
        }
        if let (Some((Limit::Write, least)), Some(share)) =
            (found.row.wanted_share, found.share(Who::Engine))
        {
            let is_reached = verdict(share >= least);
            further.push(format!(
                "{} of the device, wanted {}: {is_reached}",
                short(share),
                short(least)
            ));
        }
        table.row([
            found.row.name.to_owned(),
            found.load.connections().to_string(),
            rate(Who::Engine),
            rate(Who::Ours),
            short(median),
            spread(ratio),
            short(least),
            verdict(median >= least).to_owned(),
            further.join("; "),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::contestants::Sample;
    use super::super::rows::ROWS;
    use super::*;

    #[test]
    fn every_row_that_is_wanted_is_one_that_is_measured() {
        assert!(WANTED.iter().all(|wanted| ROWS.iter().any(|row| row.name == wanted.row)));
        assert_eq!(ROWS.iter().filter(|row| is_measured(row)).count(), WANTED.len());
    }

    #[test]
    fn what_is_reached_is_told_of_each_goal() {
        let mut results = Results::default();
        let row = ROWS.iter().position(|row| row.workload == "overwrite-8k").expect("it is there");
        for (who, rate) in [(Who::Engine, 130.0), (Who::Ours, 100.0), (Who::Btrfs, 70.0)] {
            results.add((row, 1), who, 0, Sample { units: 1.0, rate, cpu_s: None });
        }
        let table = table(&results);
        let text = table.text();
        let line = text.lines().find(|line| line.starts_with("| overwrite")).expect("it is there");
        assert!(line.contains("| 1.30 | 1.30..1.30 | 1.20 | yes |"), "{line}");
        assert!(line.contains("1.86 of ganesha on btrfs, wanted 2.00: **no**"), "{line}");
    }
}
