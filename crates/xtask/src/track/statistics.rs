//! Statistics of several measurements of one thing.

/// Measurements, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series(Vec<f64>);

/// Their median and extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Series {
    /// Adds a measurement. A value that is not finite, such as a ratio to zero, is dropped.
    pub(crate) fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.0.push(value);
        }
    }

    /// The median, which for an even number is the mean of the middle two, and the extremes. `None`
    /// without measurements.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Summary { median, least, most })
    }

    /// The median.
    pub(crate) fn median(&self) -> Option<f64> {
        self.summary().map(|summary| summary.median)
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Series {
        let mut series = Series::default();
        values.into_iter().for_each(|value| series.add(value));
        series
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: &[f64]) -> Option<Summary> {
        values.iter().copied().collect::<Series>().summary()
    }

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        let odd = summary(&[9.0, 1.0, 100.0, 2.0, 3.0]);
        assert_eq!(odd, Some(Summary { median: 3.0, least: 1.0, most: 100.0 }));
        let even = summary(&[4.0, 1.0, 2.0, 100.0]);
        assert_eq!(even, Some(Summary { median: 3.0, least: 1.0, most: 100.0 }));
        assert_eq!(summary(&[7.0]).map(|summary| summary.median), Some(7.0));
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        let found = summary(&[f64::NAN, 2.0, f64::INFINITY]);
        assert_eq!(found, Some(Summary { median: 2.0, least: 2.0, most: 2.0 }));
    }
}
