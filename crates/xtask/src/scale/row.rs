//! A line of the table: a figure for a small and for a large volume, and its bound.

/// A figure and its bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) small: Option<f64>,
    pub(super) large: f64,
    pub(super) unit: &'static str,
    /// Upper bound in the unit, if there is one.
    pub(super) most: Option<f64>,
}

impl Row {
    pub(super) fn holds(&self) -> bool {
        self.most.is_none_or(|most| self.large <= most)
    }

    pub(super) fn line(&self) -> String {
        let Row { what, small, large, unit, most } = self;
        let number =
            |value: &Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        let verdict = match most {
            None => "",
            Some(_) if self.holds() => "yes",
            Some(_) => "NO",
        };
        let (small, most) = (number(small), number(most));
        format!("| {what} | {small} | {large:.2} | {most} | {unit} | {verdict} |")
    }
}

/// Prints the table; returns whether every bound was met.
pub(super) fn print(rows: &[Row]) -> bool {
    println!("| what | small | large | allowed | unit | within |");
    println!("|---|---|---|---|---|---|");
    rows.iter().for_each(|row| println!("{}", row.line()));
    rows.iter().all(Row::holds)
}
