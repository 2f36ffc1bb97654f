//! A violation as a line: what `duramen-torture replay CASE` shows again, whatever the campaign.
//!
//! ```text
//! WORD DESIGN: DETAILS
//! cut sync: together: create bar guarded, remove foo; 12 0 1 [1100]
//! data softdep raid5: 4711 0,3,7
//! ```
//!
//! The word names how the details are read, the design says on what the workload is played, as
//! [`Design::named`] has it, and the details are the campaign's own.

use super::{
    Outcome, concurrent, conformance, contract, data, faults, retry, sequences, space, ways,
};
use crate::explore::design::Design;

/// Plays the details of a line on a design.
type Replay = fn(Design, &str) -> Result<Outcome, String>;

/// Every word with which a line begins.
const WORDS: &[(&str, Replay)] = &[
    (sequences::WORD, sequences::replay),
    (ways::WORD, ways::replay),
    (concurrent::WORD, concurrent::replay),
    (data::WORD, data::replay),
    (space::WORD, space::replay),
    (retry::WORD, retry::replay),
    (faults::WORD, faults::replay),
    (contract::WORD, contract::replay),
    (conformance::WORD, conformance::replay),
];

/// A line of a violation, behind its reason.
pub(super) fn told(reason: &str, word: &str, design: Design, details: &str) -> String {
    format!("{reason}\n  {}", command(word, design, details))
}

/// The command that shows a violation again.
pub(super) fn command(word: &str, design: Design, details: &str) -> String {
    format!("cargo xtask torture replay '{word} {}: {details}'", design.case_name())
}

/// Shows a violation again.
///
/// # Errors
/// Why the line is no case.
pub fn replay(line: &str) -> Result<Outcome, String> {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let known = WORDS.iter().find(|(known, _)| *known == word);
    let Some((_, play)) = known else {
        let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
        return Err(format!("no case begins with '{word}': there are {}", words.join(", ")));
    };
    let (design, details) =
        rest.split_once(':').ok_or_else(|| format!("'{rest}' has no design before a colon"))?;
    let known = Design::named(design).ok_or_else(|| format!("'{design}' is no design"))?;
    play(known, details.trim())
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
    fn a_line_that_is_no_case_is_refused_with_the_reason() {
        let refused = |line: &str| replay(line).expect_err(line);
        assert!(refused("luck sync: 1").ends_with("retry, faults, contract, conformance"));
        assert!(refused("data 4711").contains("'4711' has no design"));
        assert_eq!(refused("data swift: 4711"), "'swift' is no design");
        for (word, _) in WORDS {
            assert!(replay(&format!("{word} log: nonsense")).is_err(), "{word}");
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for some in [vec![], vec![3], vec![0, 12, 5]] {
            assert_eq!(numbers(&list(&some)), Ok(some));
        }
        assert!(numbers("").is_err() && numbers("1,").is_err());
    }
}
