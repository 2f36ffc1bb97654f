//! All measurements of a race, and the results for each row.

use std::collections::BTreeMap;

use super::contestants::{Sample, Who};
use super::raw::Raw;
use super::rows::{LOADS, Limit, Load, ROWS, Row, Unit};
use crate::track::statistics::{Series, Summary};

/// Indices of a row and a load.
type Place = (usize, usize);

/// All measurements.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) raw: Raw,
    /// Samples by row, load and contestant, and then by round.
    samples: BTreeMap<(Place, Who), BTreeMap<u32, Sample>>,
    /// Failed measurements, with reasons.
    pub(super) troubles: Vec<String>,
}

/// Result of a row under a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    results: &'a Results,
    place: Place,
    pub(super) row: &'static Row,
    pub(super) load: Load,
}

/// A goal, and the measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    pub(super) wanted: f64,
    pub(super) found: f64,
    /// Whether less is better.
    pub(super) is_ceiling: bool,
}

impl Goal {
    pub(super) fn is_reached(self) -> bool {
        if self.is_ceiling { self.found <= self.wanted } else { self.found >= self.wanted }
    }
}

impl Results {
    pub(super) fn add(&mut self, place: Place, who: Who, round: u32, sample: Sample) {
        self.samples.entry((place, who)).or_default().insert(round, sample);
    }

    /// Results of all rows under all loads.
    pub(super) fn found(&self) -> impl Iterator<Item = Found<'_>> {
        let places = (0..ROWS.len()).flat_map(|row| (0..LOADS.len()).map(move |load| (row, load)));
        places.map(|place| {
            let (row, load) = (&ROWS[place.0], LOADS[place.1]);
            Found { results: self, place, row, load }
        })
    }
}

impl Found<'_> {
    fn samples(&self, who: Who) -> impl Iterator<Item = (u32, Sample)> {
        let samples = self.results.samples.get(&(self.place, who));
        samples.into_iter().flatten().map(|(round, sample)| (*round, *sample))
    }

    /// The median rate.
    pub(super) fn rate(&self, who: Who) -> Option<f64> {
        self.samples(who).map(|(_, sample)| sample.rate).collect::<Series>().median()
    }

    /// Ratio of two contestants' rates in the same rounds.
    pub(super) fn ratio(&self, one: Who, other: Who) -> Option<Summary> {
        let others: BTreeMap<_, _> = self.samples(other).collect();
        let both = self
            .samples(one)
            .filter_map(|(round, sample)| others.get(&round).map(|other| sample.rate / other.rate));
        both.collect::<Series>().summary()
    }

    /// Server's processor time in microseconds for a step or a MiB, over all rounds: the kernel's
    /// figures are too coarse for one round.
    pub(super) fn cpu_us(&self, who: Who) -> Option<f64> {
        let (mut seconds, mut units) = (0.0, 0.0);
        for (_, sample) in self.samples(who) {
            seconds += sample.cpu_s?;
            units += sample.units;
        }
        (units > 0.0).then_some(seconds * 1e6 / units)
    }

    /// The ratio of the rates, and its goal.
    pub(super) fn rate_goal(&self) -> Option<Goal> {
        let found = self.ratio(Who::Ours, Who::Theirs)?.median;
        let wanted = self.row.wanted[self.place.1]?;
        Some(Goal { wanted, found, is_ceiling: false })
    }

    /// The share of the device's own rate, and its goal.
    pub(super) fn share_goal(&self) -> Option<Goal> {
        let (_, wanted) = self.row.wanted_share?;
        Some(Goal { wanted, found: self.share(Who::Ours)?, is_ceiling: false })
    }

    /// The share of the device's own rate, if the row has a goal for it.
    pub(super) fn share(&self, who: Who) -> Option<f64> {
        let (limit, _) = self.row.wanted_share?;
        let raw = match limit {
            Limit::Write => &self.results.raw.write_mib_per_s,
            Limit::Read => &self.results.raw.read_mib_per_s,
        };
        Some(self.rate(who)? / raw.median()?)
    }

    /// The ratio of processor time to the other server's, and its maximum.
    pub(super) fn cpu_goal(&self) -> Option<Goal> {
        let wanted = self.row.wanted_cpu?;
        let found = self.cpu_us(Who::Ours)? / self.cpu_us(Who::Theirs)?;
        Some(Goal { wanted, found, is_ceiling: true })
    }

    /// Unit of the rate, in a word.
    pub(super) fn unit(&self) -> &'static str {
        match self.row.unit {
            Unit::Steps => "/s",
            Unit::Payload => " MiB/s",
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Samples of CREATE, alone, in three rounds; the device writes 100 MiB/s.
    pub(in crate::race) fn some() -> Results {
        let mut results = Results::default();
        let mut add = |row, who, round, rate, cpu_s| {
            results.add((row, 0), who, round, Sample { units: 100.0, rate, cpu_s: Some(cpu_s) });
        };
        for (round, (ours, theirs)) in
            [(100.0, 50.0), (900.0, 300.0), (40.0, 40.0)].iter().enumerate()
        {
            add(2, Who::Ours, round as u32, *ours, 0.1);
            add(2, Who::Theirs, round as u32, *theirs, 0.4);
        }
        add(2, Who::Volatile, 1, 5000.0, 0.1);
        add(2, Who::Bare, 0, 400.0, 0.05);
        add(11, Who::Ours, 0, 69.0, 0.1);
        add(11, Who::Bare, 0, 92.0, 0.05);
        results.raw.write_mib_per_s.add(100.0);
        results
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let results = some();
        let found = results.found().find(|found| found.place == (2, 0)).expect("all are there");
        assert_eq!(found.row.workload, "create");
        assert_eq!(found.rate(Who::Ours), Some(100.0));
        let ratio = found.ratio(Who::Ours, Who::Theirs);
        assert_eq!(ratio, Some(Summary { median: 2.0, least: 1.0, most: 3.0 }));
        assert_eq!(
            found.ratio(Who::Volatile, Who::Theirs).map(|ratio| ratio.median),
            Some(5000.0 / 300.0)
        );
        assert_eq!(found.ratio(Who::File, Who::Theirs), None);
        assert!(found.rate_goal().is_some_and(Goal::is_reached), "2 is wanted, and is");
        let cpu = found.cpu_us(Who::Ours).expect("it is known");
        assert!((cpu - 1000.0).abs() < 1e-6, "{cpu}");
        assert!(found.cpu_goal().is_some_and(Goal::is_reached), "a quarter is less than a half");
    }

    #[test]
    fn a_goal_that_is_missed_by_little_is_missed() {
        let results = some();
        let found = results.found().find(|found| found.place == (11, 0)).expect("all are there");
        let share = found.share_goal().expect("it is known");
        assert!(!share.is_reached(), "{share:?}");
        assert_eq!(found.rate_goal(), None, "there is nothing to compare with");
        assert_eq!(found.share(Who::Bare), Some(0.92), "it could have been reached");
        let ceiling = Goal { wanted: 0.5, found: 0.51, is_ceiling: true };
        assert!(!ceiling.is_reached());
        assert!(Goal { found: 0.5, ..ceiling }.is_reached());
    }
}
