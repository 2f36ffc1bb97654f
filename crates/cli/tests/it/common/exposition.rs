//! A strict reader of Prometheus' text format 0.0.4: what `promtool check metrics` would object to
//! is an error here.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of a page, by name and labels as they are printed.
pub(crate) struct Samples {
    values: BTreeMap<String, f64>,
    /// Names of the metrics.
    pub(crate) families: BTreeSet<String>,
}

impl Samples {
    /// Reads a page.
    ///
    /// # Panics
    /// If anything about it is wrong.
    pub(crate) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line ends");
        let (mut values, mut families) = (BTreeMap::new(), BTreeSet::new());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let help = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("no HELP: {line}"));
            let (name, help) = help.split_once(' ').expect("a name and a sentence");
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(families.insert(name.to_owned()), "{name} comes twice");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            let (typed, kind) = kind.and_then(|kind| kind.split_once(' ')).expect("a TYPE");
            assert_eq!(typed, name);
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            let mut buckets = BTreeMap::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let (sample, value) = sample(line);
                let its = sample.split('{').next().expect("a name");
                match kind {
                    "histogram" => note_bucket(name, &sample, value, &mut buckets),
                    "counter" | "gauge" => assert_eq!(its, name, "{line}"),
                    _ => panic!("{kind}"),
                }
                assert!(value >= 0.0, "{line}");
                assert!(values.insert(sample, value).is_none(), "twice: {line}");
            }
            buckets.iter().for_each(|(series, bucket)| bucket.check(series));
        }
        Self { values, families }
    }

    /// The value of a sample.
    #[track_caller]
    pub(crate) fn of(&self, sample: &str) -> f64 {
        *self.values.get(sample).unwrap_or_else(|| panic!("there is no {sample}"))
    }

    /// The samples that differ from an earlier page's, with the difference.
    pub(crate) fn since(&self, before: &Self) -> BTreeMap<&str, f64> {
        let grown = self.values.iter().map(|(name, value)| {
            (name.as_str(), value - before.values.get(name).copied().unwrap_or_default())
        });
        grown.filter(|&(_, grown)| grown != 0.0).collect()
    }
}

/// A series of a histogram.
#[derive(Default)]
struct Buckets {
    bounds: Vec<(f64, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

impl Buckets {
    fn check(&self, series: &str) {
        assert!(self.bounds.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{series}");
        let &(last, all) = self.bounds.last().expect("buckets");
        assert!(last.is_infinite() && self.count == Some(all), "{series}: +Inf is the count");
        assert!(self.sum.is_some(), "{series}");
    }
}

fn note_bucket(name: &str, sample: &str, value: f64, buckets: &mut BTreeMap<String, Buckets>) {
    let rest = sample.strip_prefix(name).unwrap_or_else(|| panic!("{sample} is none of {name}"));
    let (suffix, labels) = rest.split_once('{').expect("labels");
    let series = labels.trim_end_matches('}');
    match suffix {
        "_bucket" => {
            let (series, bound) = series.rsplit_once(",le=\"").expect("a bound");
            let bound = bound.trim_end_matches('"').replace("+Inf", "inf");
            let bound = bound.parse().expect("a number");
            buckets.entry(series.to_owned()).or_default().bounds.push((bound, value));
        }
        "_sum" => buckets.entry(series.to_owned()).or_default().sum = Some(value),
        "_count" => buckets.entry(series.to_owned()).or_default().count = Some(value),
        _ => panic!("{sample}"),
    }
}

/// Name with labels, and value.
fn sample(line: &str) -> (String, f64) {
    let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, labels) = match sample.split_once('{') {
        Some((name, labels)) => {
            (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))
        }
        None => (sample, ""),
    };
    assert!(is_name(name), "{line}");
    let mut rest = labels;
    while !rest.is_empty() {
        let (label, behind) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(label) && !label.starts_with("__"), "{line}");
        let mut is_escape = false;
        let end = behind.find(|character| {
            let ends = character == '"' && !is_escape;
            is_escape = character == '\\' && !is_escape;
            ends
        });
        rest = &behind[end.unwrap_or_else(|| panic!("{line}")) + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (sample.to_owned(), value)
}

fn is_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_good)
}
