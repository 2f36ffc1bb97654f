//! Writing a violation as a line, and reading its words: see [`super::case`].

use super::Outcome;
use crate::explore::design::Design;

/// Reason and replay line of a violation.
pub(super) fn told(reason: &str, word: &str, design: Design, details: &str) -> String {
    format!("{reason}\n  {}", command(word, design, details))
}

/// The command that reproduces a violation.
pub(super) fn command(word: &str, design: Design, details: &str) -> String {
    format!("cargo xtask torture replay '{word} {}: {details}'", design.case_name())
}

/// The outcome of a replayed case: its violation, if it still fails.
pub(super) fn replayed(
    found: Result<(), String>,
    word: &str,
    design: Design,
    details: &str,
) -> Outcome {
    let told = |reason: String| told(&reason, word, design, details);
    Outcome { violations: found.err().map(told).into_iter().collect(), ..Outcome::default() }
}

/// A number in the details of a line.
pub(super) fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is no number"))
}

/// Numbers separated by commas; a dash for none.
pub(super) fn list(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    if numbers.is_empty() { "-".to_owned() } else { numbers.join(",") }
}

/// Parses the output of [`list`].
pub(super) fn numbers(text: &str) -> Result<Vec<usize>, String> {
    if text == "-" { Ok(Vec::new()) } else { text.split(',').map(number).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for some in [vec![], vec![3], vec![0, 12, 5]] {
            assert_eq!(numbers(&list(&some)), Ok(some));
        }
        assert!(numbers("").is_err() && numbers("1,").is_err());
    }
}
