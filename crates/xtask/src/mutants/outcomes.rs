//! What became of mutants: the file `outcomes.json` of cargo-mutants.

use serde_json::Value;

use super::choose::Mutant;
use crate::failure::While;
use crate::{Failure, Result};

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// A test failed.
    Caught,
    /// No test failed.
    Missed,
    /// It does not compile.
    Unviable,
    /// The tests did not come to an end in time, which their runner notices.
    Timeout,
}

impl Fate {
    fn named(name: &str) -> Option<Fate> {
        match name {
            "CaughtMutant" => Some(Fate::Caught),
            "MissedMutant" => Some(Fate::Missed),
            "Unviable" => Some(Fate::Unviable),
            "Timeout" => Some(Fate::Timeout),
            _ => None,
        }
    }
}

/// Reads what became of each mutant.
pub(super) fn read(text: &str) -> Result<Vec<(Mutant, Fate)>> {
    let json: Value = serde_json::from_str(text).while_doing("what became of the mutants")?;
    let unknown = || Failure::new("an outcome that is not understood");
    let mut fates = Vec::new();
    for outcome in json["outcomes"].as_array().ok_or_else(unknown)? {
        let summary = outcome["summary"].as_str().ok_or_else(unknown)?;
        let mutant = Mutant::from_json(&outcome["scenario"]["Mutant"]).ok_or_else(unknown)?;
        fates.push((mutant, Fate::named(summary).ok_or_else(unknown)?));
    }
    Ok(fates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(summaries: &[&str]) -> String {
        let mutants = summaries.iter().enumerate().map(|(line, summary)| {
            format!(
                r#"{{"summary": "{summary}", "scenario": {{"Mutant": {{"file": "a.rs",
                "name": "a.rs:{line}:1: replace f", "span": {{"start": {{"line": {line}}}}}}}}}}}"#
            )
        });
        format!(r#"{{"outcomes": [{}]}}"#, mutants.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn every_mutant_has_a_fate() {
        let text = outcomes(&["CaughtMutant", "MissedMutant", "Unviable", "Timeout"]);
        let fates = read(&text).expect("it is understood");
        let found = fates.iter().map(|(mutant, fate)| (mutant.line, *fate)).collect::<Vec<_>>();
        let expected = [Fate::Caught, Fate::Missed, Fate::Unviable, Fate::Timeout];
        assert_eq!(found, expected.into_iter().enumerate().collect::<Vec<_>>());
    }

    #[test]
    fn a_fate_that_nobody_knows_is_an_error() {
        assert!(read(&outcomes(&["CaughtMutant", "Failure"])).is_err());
    }
}
