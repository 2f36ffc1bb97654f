//! The rows, their goals, and the results of all measurements.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::track::statistics::{Series, Summary};
use crate::track::table::{NOTHING, Table, short, spread};

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    Write,
    Read,
    Degraded,
    Rebuild,
    Overwrite,
}

/// A side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// The set.
    Ours,
    /// The bare disks, or the set with all members.
    Limit,
    /// The competitor.
    Peer,
}

/// Name of the competitor.
pub(super) const PEER: &str = "btrfs RAID-5";

/// Name of a row, its unit, and its goal.
struct Told {
    name: &'static str,
    unit: &'static str,
    /// Description of the limit.
    limit: &'static str,
    /// Required ratio, and the side that it refers to.
    wanted: (f64, Who),
}

/// All rows, in the order of display.
pub(super) const ROWS: [Row; 5] =
    [Row::Write, Row::Read, Row::Degraded, Row::Rebuild, Row::Overwrite];

impl Row {
    fn told(self) -> Told {
        let (name, unit, limit, wanted) = match self {
            Row::Write => (
                "sequential write into new space",
                "MiB/s",
                "3/4 of four raw writers at once",
                (0.8, Who::Limit),
            ),
            Row::Read => {
                ("sequential read", "MiB/s", "four raw readers at once", (0.85, Who::Limit))
            }
            Row::Degraded => (
                "sequential read, one member out",
                "MiB/s",
                "the set with all members",
                (0.4, Who::Limit),
            ),
            Row::Rebuild => (
                "rebuild of a member",
                "MiB/s",
                "a raw copy: three read at once, one written",
                (0.6, Who::Limit),
            ),
            Row::Overwrite => (
                "8 KiB durable random overwrites, 32 at once",
                "/s",
                "the four raw devices, without parity",
                (2.0, Who::Peer),
            ),
        };
        Told { name, unit, limit, wanted }
    }

    /// Name of the row.
    pub(super) fn name(self) -> &'static str {
        self.told().name
    }
}

/// All measurements.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    /// Rates by row and side, and then by round.
    samples: BTreeMap<(Row, Who), BTreeMap<u32, f64>>,
    /// Failed measurements, with reasons.
    pub(super) troubles: Vec<String>,
}

impl Results {
    pub(super) fn add(&mut self, row: Row, who: Who, round: u32, rate: f64) {
        self.samples.entry((row, who)).or_default().insert(round, rate);
    }

    fn rates(&self, row: Row, who: Who) -> impl Iterator<Item = (u32, f64)> {
        let rates = self.samples.get(&(row, who));
        rates.into_iter().flatten().map(|(round, rate)| (*round, *rate))
    }

    /// The median rate.
    fn median(&self, row: Row, who: Who) -> Option<f64> {
        self.rates(row, who).map(|(_, rate)| rate).collect::<Series>().median()
    }

    /// Our rate relative to the rate that counts, each two from the same round.
    fn ratio(&self, row: Row) -> Option<Summary> {
        let others: BTreeMap<_, _> = self.rates(row, row.told().wanted.1).collect();
        let both = self
            .rates(row, Who::Ours)
            .filter_map(|(round, rate)| others.get(&round).map(|other| rate / other));
        both.collect::<Series>().summary()
    }

    /// Whether a row meets its goal; `None` where a measurement is missing.
    fn is_met(&self, row: Row) -> Option<bool> {
        self.ratio(row).map(|ratio| ratio.median >= row.told().wanted.0)
    }

    /// Whether every row has a verdict.
    pub(super) fn are_whole(&self) -> bool {
        self.troubles.is_empty() && ROWS.iter().all(|&row| self.is_met(row).is_some())
    }

    /// All rows, as JSON.
    pub(super) fn json(&self) -> Value {
        let row = |&row: &Row| {
            let Told { name, unit, limit, wanted: (wanted, whose) } = row.told();
            let ratio = self.ratio(row);
            let peer = self.median(row, Who::Peer);
            json!({
                "row": name,
                "unit": unit,
                "ours": self.median(row, Who::Ours),
                "limit": self.median(row, Who::Limit),
                "limit_name": limit,
                "peer": peer,
                "peer_name": (row == Row::Overwrite).then_some(PEER),
                "goal": wanted,
                "goal_of": if whose == Who::Peer { "peer" } else { "limit" },
                "ratio": ratio.map(|ratio| ratio.median),
                "ratio_least": ratio.map(|ratio| ratio.least),
                "ratio_most": ratio.map(|ratio| ratio.most),
                "met": self.is_met(row),
            })
        };
        ROWS.iter().map(row).collect()
    }

    /// All rows as text for people, followed by the errors.
    pub(super) fn text(&self) -> String {
        let head = ["RAID-5 of 4", "ours", "limit", "which is", PEER, "ratio", "spread", "goal"];
        let mut table = Table::new(&[&head[..], &["met"]].concat());
        for row in ROWS {
            let Told { name, unit, limit, wanted: (wanted, whose) } = row.told();
            let rate = |who| match self.median(row, who) {
                Some(rate) => format!("{} {unit}", short(rate)),
                None if who == Who::Peer && row != Row::Overwrite => String::new(),
                None => NOTHING.to_owned(),
            };
            let of = if whose == Who::Peer { PEER } else { "the limit" };
            let ratio = self.ratio(row);
            let verdict = match self.is_met(row) {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => NOTHING,
            };
            table.row([
                name.to_owned(),
                rate(Who::Ours),
                rate(Who::Limit),
                limit.to_owned(),
                rate(Who::Peer),
                ratio.map_or(NOTHING.to_owned(), |ratio| short(ratio.median)),
                spread(ratio),
                format!("{} of {of}", short(wanted)),
                verdict.to_owned(),
            ]);
        }
        let troubles = self.troubles.iter().map(|trouble| {
            let trouble = trouble.replace('\n', " ");
            format!("* {trouble}\n")
        });
        let troubles: String = troubles.collect();
        if troubles.is_empty() {
            table.text().to_owned()
        } else {
            format!("{}\nWhat could not be measured:\n\n{troubles}", table.text())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results that meet all goals in both rounds.
    fn good() -> Results {
        let mut results = Results::default();
        for (round, limit) in [(0, 1000.0), (1, 2000.0)] {
            for row in ROWS {
                let (wanted, whose) = row.told().wanted;
                results.add(row, Who::Ours, round, limit * wanted);
                results.add(row, Who::Limit, round, limit);
                if whose == Who::Peer {
                    results.add(row, Who::Peer, round, limit);
                }
            }
        }
        results
    }

    fn verdicts(results: &Results) -> Vec<Option<bool>> {
        ROWS.iter().map(|&row| results.is_met(row)).collect()
    }

    #[test]
    fn a_goal_that_is_just_reached_is_met() {
        let results = good();
        assert_eq!(verdicts(&results), [Some(true); 5]);
        assert!(results.are_whole());
        assert!(!results.text().contains("**no**"));
    }

    #[test]
    fn a_planted_miss_is_told_as_missed() {
        for (place, row) in ROWS.into_iter().enumerate() {
            let mut results = good();
            let (wanted, _) = row.told().wanted;
            results.add(row, Who::Ours, 0, 1000.0 * wanted * 0.99);
            results.add(row, Who::Ours, 1, 2000.0 * wanted * 0.99);
            let mut expected = [Some(true); 5];
            expected[place] = Some(false);
            assert_eq!(verdicts(&results), expected, "{row:?}");
            let lines: Vec<_> = results.json().as_array().expect("a list").clone();
            let met: Vec<_> = lines.iter().map(|line| line["met"].as_bool()).collect();
            assert_eq!(met, expected, "{row:?}");
            let text = results.text();
            let line = text.lines().find(|line| line.ends_with("| **no** |")).expect("it is told");
            assert!(line.starts_with(&format!("| {} |", row.name())), "{line}");
            assert!(results.are_whole(), "a miss is measured");
        }
    }

    #[test]
    fn a_ratio_is_that_of_one_round() {
        let mut results = Results::default();
        for (round, ours, limit) in [(0, 90.0, 100.0), (1, 30.0, 30.0), (2, 400.0, 1000.0)] {
            results.add(Row::Read, Who::Ours, round, ours);
            results.add(Row::Read, Who::Limit, round, limit);
        }
        results.add(Row::Read, Who::Ours, 3, 1.0); // nothing to compare it with
        let expected = Summary { median: 0.9, least: 0.4, most: 1.0 };
        assert_eq!(results.ratio(Row::Read), Some(expected));
    }

    #[test]
    fn what_is_missing_has_no_verdict_and_is_told() {
        let mut results = good();
        results.samples.remove(&(Row::Overwrite, Who::Peer));
        results.troubles.push("btrfs:\nno such file system".to_owned());
        assert_eq!(results.is_met(Row::Overwrite), None);
        assert!(!results.are_whole());
        assert!(results.text().contains("* btrfs: no such file system\n"));
        let row = &results.json()[4];
        assert!(row["met"].is_null() && row["peer"].is_null(), "{row}");
        assert_eq!(row["peer_name"], PEER);
        results.samples.remove(&(Row::Read, Who::Limit));
        results.troubles.clear();
        assert!(!results.are_whole(), "also if nobody has said why");
    }
}
