//! The results as Markdown.

use std::fmt::Write;

use super::contestants::Who;
use super::results::{Found, Goal, Results};
use crate::track::statistics::{Series, Summary};
use crate::track::table::{NOTHING, Table, short, spread};

/// Renders all measurements.
pub(super) fn render(results: &Results) -> String {
    let mut text = String::new();
    let mut section = |title: &str, table: Table| {
        let _ = write!(text, "## {title}\n\n{}\n", table.text());
    };
    section("The device", device(results));
    section("The race", race(results));
    section("Answers before the disk has them", delayed(results));
    section("What a server that only moves bytes comes to", bare(results));
    section("The server's processor time", processors(results));
    section("Ours on devices and in a plain file", file(results));
    if !results.troubles.is_empty() {
        text.push_str("## What could not be measured\n\n");
        results.troubles.iter().for_each(|trouble| {
            let _ = writeln!(text, "* {}", trouble.replace('\n', " "));
        });
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn device(results: &Results) -> Table {
    let mut table = Table::new(&["the device by itself", "median", "spread"]);
    let raw = &results.raw;
    let mut row = |name: &str, series: &Series, unit: &str| {
        let summary = series.summary();
        let median = summary.map(|summary| summary.median);
        table.row([name.to_owned(), rate(median, unit), spread(summary)]);
    };
    row("4 KiB written and flushed, again and again", &raw.flushes_per_s, "/s");
    row("sequential write of 1 MiB, 4 at once", &raw.write_mib_per_s, " MiB/s");
    row("sequential read of 1 MiB, 4 at once", &raw.read_mib_per_s, " MiB/s");
    table
}

fn race(results: &Results) -> Table {
    let mut table = Table::new(&[
        "what",
        "connections",
        "duramen",
        "ganesha, XFS wsync",
        "ratio",
        "spread",
        "wanted",
        "reached",
        "ganesha, volatile: answers before the data is on the disk",
    ]);
    for found in results.found() {
        let ratio = found.ratio(Who::Ours, Who::Theirs);
        let goals = [("", found.rate_goal()), (" of the device", found.share_goal())];
        let goals: Vec<_> =
            goals.iter().filter_map(|(of, goal)| goal.map(|goal| (*of, goal))).collect();
        let wanted = goals.iter().map(|(of, goal)| format!("{}{of}", short(goal.wanted)));
        table.row([
            found.row.name.to_owned(),
            found.load.connections().to_string(),
            of(&found, Who::Ours),
            of(&found, Who::Theirs),
            median(ratio),
            spread(ratio),
            wanted.collect::<Vec<_>>().join("; "),
            goals.iter().map(|(of, goal)| verdict(*goal, of)).collect::<Vec<_>>().join("; "),
            of(&found, Who::Volatile),
        ]);
    }
    table
}

/// Table of the contestants that do not wait for the disk.
fn delayed(results: &Results) -> Table {
    let mut table = Table::new(&[
        "what",
        "connections",
        "duramen, soft updates, declared delayed",
        "ganesha, volatile",
        "ratio",
        "spread",
        "duramen, policy `log`",
        "ratio",
    ]);
    for found in results.found() {
        let ratio = found.ratio(Who::Delayed, Who::Volatile);
        table.row([
            found.row.name.to_owned(),
            found.load.connections().to_string(),
            of(&found, Who::Delayed),
            of(&found, Who::Volatile),
            median(ratio),
            spread(ratio),
            of(&found, Who::Ours),
            median(found.ratio(Who::Delayed, Who::Ours)),
        ]);
    }
    table
}

/// Table of the limits that client, sockets and device set for any server.
fn bare(results: &Results) -> Table {
    let mut table = Table::new(&[
        "what",
        "connections",
        "the limit: a server that only moves bytes",
        "duramen",
        "of the limit",
        "ratio to ganesha at the limit",
        "wanted",
        "of the device at the limit",
        "wanted",
    ]);
    let optional = |value: Option<f64>| value.map_or(String::new(), short);
    for found in results.found() {
        table.row([
            found.row.name.to_owned(),
            found.load.connections().to_string(),
            of(&found, Who::Bare),
            of(&found, Who::Ours),
            median(found.ratio(Who::Ours, Who::Bare)),
            median(found.ratio(Who::Bare, Who::Theirs)),
            optional(found.rate_goal().map(|goal| goal.wanted)),
            optional(found.share(Who::Bare)),
            optional(found.share_goal().map(|goal| goal.wanted)),
        ]);
    }
    table
}

fn processors(results: &Results) -> Table {
    let mut table = Table::new(&[
        "µs of the server for one",
        "connections",
        "duramen",
        "ganesha, XFS wsync",
        "ratio",
        "wanted at most",
        "reached",
        "a server that only moves bytes",
    ]);
    for found in results.found() {
        let [ours, theirs] = [Who::Ours, Who::Theirs].map(|who| found.cpu_us(who));
        let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
        let goal = found.cpu_goal();
        table.row([
            found.row.name.replace(", MiB/s", ", a MiB"),
            found.load.connections().to_string(),
            ours.map_or(NOTHING.to_owned(), short),
            theirs.map_or(NOTHING.to_owned(), short),
            ratio.filter(|ratio| ratio.is_finite()).map_or(NOTHING.to_owned(), short),
            goal.map_or(String::new(), |goal| short(goal.wanted)),
            goal.map_or(String::new(), |goal| verdict(goal, "")),
            found.cpu_us(Who::Bare).map_or(String::new(), short),
        ]);
    }
    table
}

fn file(results: &Results) -> Table {
    let mut table = Table::new(&["what", "connections", "on devices", "a plain file", "ratio"]);
    for found in results.found() {
        let ratio = found.ratio(Who::File, Who::Ours);
        table.row([
            found.row.name.to_owned(),
            found.load.connections().to_string(),
            of(&found, Who::Ours),
            of(&found, Who::File),
            median(ratio),
        ]);
    }
    table
}

fn of(found: &Found<'_>, who: Who) -> String {
    rate(found.rate(who), found.unit())
}

fn rate(rate: Option<f64>, unit: &str) -> String {
    rate.map_or(NOTHING.to_owned(), |rate| format!("{}{unit}", short(rate)))
}

fn median(ratio: Option<Summary>) -> String {
    rate(ratio.map(|ratio| ratio.median), "")
}

fn verdict(goal: Goal, of: &str) -> String {
    match (goal.is_reached(), of) {
        (true, "") => "yes".to_owned(),
        (false, "") => "**no**".to_owned(),
        (true, of) => format!("yes ({}{of})", short(goal.found)),
        (false, of) => format!("**no** ({}{of})", short(goal.found)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::some;
    use super::*;

    fn row<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.starts_with(start)).expect("it is there");
        line.trim_matches('|').split('|').map(str::trim).collect()
    }

    #[test]
    fn a_row_says_what_was_wanted_and_whether_it_is_reached() {
        let results = some();
        let text = render(&results);
        let expected = [
            "CREATE, one directory",
            "1",
            "100/s",
            "50.0/s",
            "2.00",
            "1.00..3.00",
            "2.00",
            "yes",
            "5000/s",
        ];
        assert_eq!(row(&text, "| CREATE, one directory | 1 |"), expected);
        let nothing = row(&text, "| CREATE, one directory | 32 |");
        assert_eq!(nothing[2..6], ["?", "?", "?", "?"]);
        let missed = row(&text, "| UNSTABLE 64 KiB + COMMIT, MiB/s | 1 |");
        assert_eq!(missed[6..8], ["0.70 of the device", "**no** (0.69 of the device)"]);
    }

    #[test]
    fn a_limit_stands_beside_what_is_wanted() {
        let text = render(&some());
        let section = text.split("only moves bytes comes to\n").nth(1).expect("it is there");
        let expected =
            ["1", "92.0 MiB/s", "69.0 MiB/s", "0.75", "?", "", "0.92", "0.70"].map(str::to_owned);
        assert_eq!(row(section, "| UNSTABLE 64 KiB + COMMIT, MiB/s | 1 |")[1..], expected);
        let processors = text.split("processor time\n").nth(1).expect("it is there");
        assert_eq!(row(processors, "| UNSTABLE 64 KiB + COMMIT, a MiB | 1 |")[7], "500");
        let expected = ["1", "400/s", "100/s", "0.25", "8.00", "2.00", "", ""].map(str::to_owned);
        assert_eq!(row(section, "| CREATE, one directory | 1 |")[1..], expected);
    }

    #[test]
    fn every_table_has_as_many_cells_as_its_head_says() {
        let text = render(&some());
        let mut width = 0;
        for line in text.lines() {
            let cells = line.matches('|').count();
            assert!(cells == 0 || width == 0 || cells == width, "{line}");
            width = cells;
        }
        let rows = text.lines().filter(|line| line.starts_with("| RMDIR")).count();
        assert_eq!(rows, 10, "two loads in each of five tables");
    }

    #[test]
    fn what_went_wrong_is_part_of_the_page() {
        let mut results = some();
        assert!(!render(&results).contains("could not"));
        results.troubles.push("RMDIR:\nno answer".to_owned());
        assert!(render(&results).contains("* RMDIR: no answer\n"));
    }
}
