//! A table in Markdown, and its number format.

use super::statistics::Summary;

/// A table: a head, and rows with the same number of cells.
pub(crate) struct Table(String);

impl Table {
    /// A table with this head.
    pub(crate) fn new(head: &[&str]) -> Table {
        let mut table = Table(String::new());
        table.row(head.iter().map(|&cell| cell.to_owned()));
        let rule = head.iter().enumerate().map(|(at, _)| if at == 0 { "---" } else { "---:" });
        table.row(rule.map(str::to_owned));
        table
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        self.0.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// Text of the table.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Text of an unknown value.
pub(crate) const NOTHING: &str = "?";

/// The least and the most.
pub(crate) fn spread(summary: Option<Summary>) -> String {
    let both = |summary: Summary| format!("{}..{}", short(summary.least), short(summary.most));
    summary.map_or(NOTHING.to_owned(), both)
}

/// A number with a useful number of digits.
pub(crate) fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
