//! How a violation is written as a line, and the words of one read: see [`super::case`].

use super::Outcome;
use crate::explore::design::Design;

/// A line of a violation, behind its reason.
pub(super) fn told(reason: &str, word: &str, design: Design, details: &str) -> String {
    format!("{reason}\n  {}", command(word, design, details))
}

/// The command that shows a violation again.
pub(super) fn command(word: &str, design: Design, details: &str) -> String {
    format!("cargo xtask torture replay '{word} {}: {details}'", design.case_name())
}

/// The outcome of a case that was played again: its violation, if it is one still.
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

/// Numbers with commas between them; a dash stands for none.
pub(super) fn list(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    if numbers.is_empty() { "-".to_owned() } else { numbers.join(",") }
}

/// What [`list`] has written.
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
