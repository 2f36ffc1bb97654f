//! A paper's figure, with the values that it is compared with.

use serde::Serialize;

/// A figure. One without a published value is there to explain others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Experiment that it belongs to.
    pub experiment: &'static str,
    /// Name of the figure.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// Value in the paper.
    pub published: Option<f64>,
    /// Value from the model of the paper's system.
    pub measured: Option<f64>,
    /// Value from our own system on the same hardware.
    pub ours: Option<f64>,
    /// Reason why the value is not as published.
    pub note: Option<&'static str>,
}

/// Ratio of measured to published value that counts as reproduced.
pub const REPRODUCED: std::ops::RangeInclusive<f64> = 0.67..=1.5;

impl Figure {
    /// A figure without values.
    pub fn new(experiment: &'static str, figure: impl Into<String>, unit: &'static str) -> Self {
        let (figure, published, measured, ours, note) = (figure.into(), None, None, None, None);
        Self { experiment, figure, unit, published, measured, ours, note }
    }

    /// Sets the published value.
    pub fn published(self, published: f64) -> Self {
        Self { published: Some(published), ..self }
    }

    /// Sets the measured value.
    pub fn measured(self, measured: f64) -> Self {
        Self { measured: Some(measured), ..self }
    }

    /// Sets the value of our own system.
    pub fn ours(self, ours: f64) -> Self {
        Self { ours: Some(ours), ..self }
    }

    /// Sets the reason why the value is not as published.
    pub fn note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }

    /// Measured over published value; 1 if both are equal, even if both are 0.
    pub fn ratio(&self) -> Option<f64> {
        let (measured, published) = (self.measured?, self.published?);
        Some(if measured == published { 1.0 } else { measured / published })
    }

    /// Whether the value is as published, or a note explains it, or none is published.
    pub fn is_accounted_for(&self) -> bool {
        self.is_reproduced() != Some(false) || self.note.is_some()
    }

    /// Whether the value is as published, if the paper has one.
    pub fn is_reproduced(&self) -> Option<bool> {
        self.ratio().map(|ratio| REPRODUCED.contains(&ratio))
    }
}

/// At most one published figure in this many may have a note.
const NOTES: usize = 6;

/// Violations: a figure that is neither as published nor explained, a headline (by experiment and
/// figure) that is not as published, more notes than one in six.
pub fn failures(figures: &[Figure], headlines: &[(&str, &str)]) -> Vec<String> {
    let rows = figures.iter().filter(|figure| figure.is_reproduced().is_some());
    let noted = rows.clone().filter(|figure| figure.note.is_some()).count();
    let published = rows.clone().count();
    let is_headline =
        |figure: &&Figure| headlines.contains(&(figure.experiment, figure.figure.as_str()));
    let found = rows.clone().filter(is_headline);
    let missed = found.clone().filter(|figure| figure.is_reproduced() != Some(true));
    let named = |figure: &Figure| format!("{}: {}", figure.experiment, figure.figure);
    let mut failures: Vec<String> = missed.map(|figure| named(figure) + " (a headline)").collect();
    if found.count() != headlines.len() {
        failures.push("a headline is missing".into());
    }
    failures.extend(rows.filter(|figure| !figure.is_accounted_for()).map(named));
    if noted * NOTES > published {
        failures.push(format!("notes explain {noted} of {published} figures"));
    }
    failures
}

/// The longest line of a note, in characters.
const WIDTH: usize = 98;

/// The figures as a table for people, followed by the notes.
pub fn table(figures: &[Figure]) -> String {
    let mut text = format!(
        "{:<54}{:>9}{:>10}{:>7}{:>9}  {}\n",
        "", "published", "measured", "ratio", "ours", "unit"
    );
    let (mut experiment, mut notes) = ("", Vec::new());
    for figure in figures {
        if figure.experiment != experiment {
            experiment = figure.experiment;
            text.push_str(&format!("{experiment}\n"));
        }
        let mark = match (figure.is_reproduced(), figure.note) {
            (_, None) => String::new(),
            (_, Some(note)) => {
                let known = notes.iter().position(|&other| other == note);
                let number = known.unwrap_or_else(|| {
                    notes.push(note);
                    notes.len() - 1
                });
                format!(" ({})", number + 1)
            }
        };
        let ratio = figure.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let line = format!(
            "  {:<52}{:>9}{:>10}{:>7}{:>9}  {}{}",
            figure.figure,
            digits(figure.published),
            digits(figure.measured),
            ratio,
            digits(figure.ours),
            figure.unit,
            mark
        );
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    for (number, note) in notes.iter().enumerate() {
        text.push_str(&wrapped(&format!("({}) {note}", number + 1)));
    }
    text
}

/// Text wrapped to the width of a page.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        if width + word.len() + 1 > WIDTH {
            lines.push_str("\n   ");
            width = 3;
        }
        if width > 0 {
            lines.push(' ');
        }
        lines.push_str(word);
        width += word.len() + 1;
    }
    lines + "\n"
}

/// Three significant digits, or all digits of a larger number.
fn digits(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_reproduced_between_two_thirds_and_one_and_a_half() {
        let figure = |measured| Figure::new("e", "f", "s").published(100.0).measured(measured);
        assert_eq!(figure(66.0).is_reproduced(), Some(false));
        assert_eq!(figure(67.0).is_reproduced(), Some(true));
        assert_eq!(figure(150.0).is_reproduced(), Some(true));
        assert_eq!(figure(151.0).is_reproduced(), Some(false));
        assert_eq!(Figure::new("e", "f", "s").measured(1.0).is_reproduced(), None);
        assert!(figure(99.0).is_accounted_for() && !figure(60.0).is_accounted_for());
        assert!(figure(60.0).note("because").is_accounted_for());
    }

    #[test]
    fn a_headline_that_is_missed_and_notes_for_all_are_failures() {
        let row = |measured| Figure::new("e", "f", "s").published(10.0).measured(measured);
        let headlines = [("e", "f")];
        assert_eq!(failures(&[row(10.0)], &headlines), [""; 0]);
        assert!(failures(&[row(20.0)], &headlines)[0].contains("headline"));
        assert_eq!(failures(&[row(20.0)], &[]), ["e: f"]);
        assert_eq!(failures(&[row(10.0)], &[("e", "g")]), ["a headline is missing"]);
        let noted = || row(20.0).note("because");
        assert_eq!(failures(&[noted()], &[]), ["notes explain 1 of 1 figures"]);
        let mut many = vec![row(10.0); 5];
        many.push(noted());
        assert_eq!(failures(&many, &[]), [""; 0]);
    }

    #[test]
    fn notes_stand_once_below_the_table() {
        let figure = Figure::new("an experiment", "a figure", "ms").published(2.0).measured(4.0);
        let text = table(&[figure.clone().note("because"), figure.note("because")]);
        assert_eq!(text.matches("because").count(), 1);
        assert_eq!(text.matches("(1)").count(), 3);
        assert_eq!(text.matches("an experiment").count(), 1);
    }
}
