//! A violation as a line that `duramen-torture replay CASE` reproduces, whatever the campaign.
//!
//! ```text
//! WORD DESIGN: DETAILS
//! cut sync: together: create bar guarded, remove foo; 12 0 1 [1100]
//! data softdep raid5: 4711 0,3,7
//! ```
//!
//! The word selects the parser of the details, the design is what the workload is played on, as
//! [`Design::named`] has it, and the details are the campaign's own.

use super::contract::two_faults;
use super::{
    Outcome, concurrent, conformance, contract, crowd, data, faults, retry, rot, sequences, space,
    ways,
};
use crate::explore::design::Design;

/// Replays the details of a line on a design.
type Replay = fn(Design, &str) -> Result<Outcome, String>;

/// The first word of every kind of line.
const WORDS: &[(&str, Replay)] = &[
    (sequences::WORD, sequences::replay),
    (ways::WORD, ways::replay),
    (concurrent::WORD, concurrent::replay),
    (data::WORD, data::replay),
    (space::WORD, space::replay),
    (retry::WORD, retry::replay),
    (faults::WORD, faults::replay),
    (rot::WORD, rot::replay),
    (contract::WORD, contract::replay),
    (two_faults::WORD, two_faults::replay),
    (conformance::WORD, conformance::replay),
    (crowd::WORD, crowd::replay),
];

/// Reproduces a violation.
///
/// # Errors
/// Why the line is not a case.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_case_is_refused_with_the_reason() {
        let refused = |line: &str| replay(line).expect_err(line);
        assert!(refused("luck sync: 1").ends_with("two-faults, conformance, crowd"));
        assert!(refused("data 4711").contains("'4711' has no design"));
        assert_eq!(refused("data swift: 4711"), "'swift' is no design");
        for (word, _) in WORDS {
            assert!(replay(&format!("{word} log: nonsense")).is_err(), "{word}");
        }
    }
}
