//! Text of metrics, in Prometheus' exposition format 0.0.4.
//!
//! Counting is done in plain cells of the thread that serves, and this is made of a copy of them on
//! another thread. The library `prometheus-client` is not used: its metrics are atomics, and it
//! writes OpenMetrics alone, where a counter is declared without its `_total`, so that `promtool
//! check metrics` and older scrapers take each counter for an untyped metric without help.
//!
//! Invariants:
//! 1. The samples of a metric are consecutive, after its one HELP and its one TYPE.
//! 2. The name of a counter ends with `_total`, and no other does.
//! 3. A label value cannot end its line or its quotes.
//!
//! Not asserted: 1, which the map of families keeps; 3, since every value goes through `escaped`.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric. Each is a constant, so that name and meaning are the same for all volumes.
#[derive(Debug)]
pub struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

impl Metric {
    /// A counter: it grows from 0 since the start of the server.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, help }
    }

    /// A value that goes up and down.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, help }
    }

    /// A distribution.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, help }
    }
}

/// Labels of a sample: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of metrics.
#[derive(Default)]
pub struct Page {
    families: BTreeMap<&'static str, Family>,
}

struct Family {
    head: String,
    samples: String,
}

impl Page {
    /// Adds a sample of a counter or a gauge.
    pub fn add(&mut self, metric: &'static Metric, labels: Labels<'_>, value: impl Display) {
        assert!(metric.kind != Kind::Histogram, "a distribution has more than one value");
        let family = self.family(metric);
        sample(&mut family.samples, metric.name, labels, None, value);
    }

    /// Adds a distribution: the number of values within each bound and above the one before, and
    /// above the last; and their sum.
    pub fn add_histogram(
        &mut self,
        metric: &'static Metric,
        labels: Labels<'_>,
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        assert!(metric.kind == Kind::Histogram, "it has a single value");
        assert_eq!(counts.len(), bounds.len() + 1, "one bucket is for all larger values");
        let samples = &mut self.family(metric).samples;
        let (name, mut total) = (metric.name, 0);
        for (index, count) in counts.iter().enumerate() {
            total += count;
            let bound = bounds.get(index).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            sample(samples, &format!("{name}_bucket"), labels, Some(("le", &bound)), total);
        }
        sample(samples, &format!("{name}_sum"), labels, None, sum);
        sample(samples, &format!("{name}_count"), labels, None, total);
    }

    fn family(&mut self, metric: &'static Metric) -> &mut Family {
        let Metric { name, kind, help } = metric;
        let is_counter = name.ends_with("_total");
        assert_eq!(is_counter, *kind == Kind::Counter, "invariant 2: the name of {name}");
        self.families.entry(name).or_insert_with(|| {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            Family { head, samples: String::new() }
        })
    }

    /// The text.
    pub fn finish(self) -> String {
        self.families.into_values().map(|Family { head, samples }| head + &samples).collect()
    }
}

fn sample(
    to: &mut String,
    name: &str,
    labels: Labels<'_>,
    last: Option<(&str, &str)>,
    value: impl Display,
) {
    to.push_str(name);
    let mut before = '{';
    for (name, value) in labels.iter().copied().chain(last) {
        write!(to, "{before}{name}=\"{}\"", escaped(value)).expect("memory takes everything");
        before = ',';
    }
    if before == ',' {
        to.push('}');
    }
    writeln!(to, " {value}").expect("memory takes everything");
}

/// A label value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    static CALLS: Metric = Metric::counter("calls_total", "Calls.");
    static HELD: Metric = Metric::gauge("held_bytes", "Bytes held.");
    static TIME: Metric = Metric::histogram("time_seconds", "Time.");

    #[test]
    fn samples_of_a_metric_are_together_whatever_the_order_of_adding() {
        let mut page = Page::default();
        page.add(&HELD, &[], 7);
        page.add(&CALLS, &[("volume", "a")], 1);
        page.add(&HELD, &[("volume", "b"), ("use", "x")], 0.5);
        page.add(&CALLS, &[("volume", "b")], 2);
        let expected = "# HELP calls_total Calls.\n# TYPE calls_total counter\n\
                        calls_total{volume=\"a\"} 1\ncalls_total{volume=\"b\"} 2\n\
                        # HELP held_bytes Bytes held.\n# TYPE held_bytes gauge\n\
                        held_bytes 7\nheld_bytes{volume=\"b\",use=\"x\"} 0.5\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn buckets_of_a_distribution_add_up() {
        let mut page = Page::default();
        page.add_histogram(&TIME, &[("volume", "a")], &[0.001, 0.5], &[3, 0, 2], 1.25);
        let text = page.finish();
        let samples: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            samples,
            [
                "time_seconds_bucket{volume=\"a\",le=\"0.001\"} 3",
                "time_seconds_bucket{volume=\"a\",le=\"0.5\"} 3",
                "time_seconds_bucket{volume=\"a\",le=\"+Inf\"} 5",
                "time_seconds_sum{volume=\"a\"} 1.25",
                "time_seconds_count{volume=\"a\"} 5",
            ]
        );
    }

    #[test]
    fn a_label_cannot_forge_a_line() {
        let mut page = Page::default();
        page.add(&HELD, &[("volume", "a\"} 1\nforged{b=\"\\")], 7);
        let text = page.finish();
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.ends_with("held_bytes{volume=\"a\\\"} 1\\nforged{b=\\\"\\\\\"} 7\n"),
            "{text}"
        );
    }

    #[test]
    #[should_panic(expected = "invariant 2: the name of calls")]
    fn a_counter_is_named_like_one() {
        static WRONG: Metric = Metric::counter("calls", "Calls.");
        Page::default().add(&WRONG, &[], 1);
    }
}
