//! The seek time of an arm.
//!
//! Short seeks are spent accelerating and braking and grow with the square root of the distance,
//! long ones coasting and grow with the distance itself; settling takes its time on each: `a + b *
//! sqrt(d) + c * d`. Manuals give three figures, for one cylinder, on average, and across the whole
//! disk, and three figures fix the three coefficients.

/// The mean of the square root of the distance of two random points on a line of length 1.
const MEAN_ROOT: f64 = 8.0 / 15.0;
/// The mean of that distance.
const MEAN_DISTANCE: f64 = 1.0 / 3.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct SeekCurve {
    constant_ns: f64,
    root_ns: f64,
    linear_ns: f64,
}

impl SeekCurve {
    /// The curve through three figures of a manual, in nanoseconds.
    pub(super) fn fit(figures_ns: [u64; 3], cylinders: u64) -> Self {
        assert!(cylinders > 2, "a disk has cylinders to seek between");
        let [single, average, full] = figures_ns.map(|figure| figure as f64);
        let longest = (cylinders - 1) as f64;
        let root = longest.sqrt();
        // Two equations in b and c are left once a = single - b - c is put into the other two.
        let (full_b, full_c) = (root - 1.0, longest - 1.0);
        let (mean_b, mean_c) = (MEAN_ROOT * root - 1.0, MEAN_DISTANCE * longest - 1.0);
        let determinant = full_b * mean_c - full_c * mean_b;
        let (to_full, to_mean) = (full - single, average - single);
        let root_ns = (to_full * mean_c - full_c * to_mean) / determinant;
        let linear_ns = (full_b * to_mean - to_full * mean_b) / determinant;
        let curve = Self { constant_ns: single - root_ns - linear_ns, root_ns, linear_ns };
        let end_slope = root_ns / (2.0 * root) + linear_ns;
        assert!(
            root_ns / 2.0 + linear_ns >= 0.0 && end_slope >= 0.0,
            "a longer way takes longer: {curve:?}"
        );
        curve
    }

    /// The seek time over this many cylinders.
    pub(super) fn time_ns(&self, distance: u64) -> u64 {
        if distance == 0 {
            return 0;
        }
        let distance = distance as f64;
        let time_ns = self.constant_ns + self.root_ns * distance.sqrt() + self.linear_ns * distance;
        time_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_goes_through_the_three_figures() {
        let curve = SeekCurve::fit([2_000_000, 12_000_000, 25_000_000], 949);
        assert!(curve.time_ns(1).abs_diff(2_000_000) <= 1);
        assert!(curve.time_ns(948).abs_diff(25_000_000) <= 1);
        let pairs = (0..949_u64).flat_map(|from| (0..949_u64).map(move |to| from.abs_diff(to)));
        let total: u64 = pairs.map(|distance| curve.time_ns(distance)).sum();
        let average_ns = total / (949 * 949);
        assert!(average_ns.abs_diff(12_000_000) < 24_000, "0.2 % of the figure: {average_ns}");
    }

    #[test]
    #[should_panic(expected = "a longer way takes longer")]
    fn figures_that_no_arm_can_have_are_refused() {
        SeekCurve::fit([5_000_000, 9_000_000, 6_000_000], 1000);
    }
}
