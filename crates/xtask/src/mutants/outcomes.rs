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
    /// The tests did not come to an end in time, which whoever runs them notices.
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

/// Reads what became of each mutant. Fails if the tests fail without any.
pub(super) fn read(text: &str) -> Result<Vec<(Mutant, Fate)>> {
    let json: Value = serde_json::from_str(text).while_doing("what became of the mutants")?;
    let unknown = || Failure::new("an outcome that is not understood");
    let mut fates = Vec::new();
    for outcome in json["outcomes"].as_array().ok_or_else(unknown)? {
        let summary = outcome["summary"].as_str().ok_or_else(unknown)?;
        match &outcome["scenario"] {
            Value::String(_) if summary == "Success" => {}
            Value::String(_) => {
                let log = outcome["log_path"].as_str().unwrap_or_default();
                let sentence = format!("the tests fail without a mutant ({summary}): see {log}");
                return Err(Failure::new(sentence));
            }
            scenario => {
                let mutant = Mutant::from_json(&scenario["Mutant"]).ok_or_else(unknown)?;
                fates.push((mutant, Fate::named(summary).ok_or_else(unknown)?));
            }
        }
    }
    Ok(fates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(baseline: &str, summaries: &[&str]) -> String {
        let mutants = summaries.iter().enumerate().map(|(line, summary)| {
            format!(
                r#", {{"summary": "{summary}", "scenario": {{"Mutant": {{"file": "a.rs",
                "name": "a.rs:{line}:1: replace f", "span": {{"start": {{"line": {line}}}}}}}}}}}"#
            )
        });
        let mutants = mutants.collect::<String>();
        format!(
            r#"{{"outcomes": [{{"scenario": "Baseline", "summary": "{baseline}",
            "log_path": "log/baseline.log"}}{mutants}]}}"#
        )
    }

    #[test]
    fn every_mutant_has_a_fate() {
        let text = outcomes("Success", &["CaughtMutant", "MissedMutant", "Unviable", "Timeout"]);
        let fates = read(&text).expect("it is understood");
        let found = fates.iter().map(|(mutant, fate)| (mutant.line, *fate)).collect::<Vec<_>>();
        let expected = [Fate::Caught, Fate::Missed, Fate::Unviable, Fate::Timeout];
        assert_eq!(found, expected.into_iter().enumerate().collect::<Vec<_>>());
    }

    #[test]
    fn tests_that_fail_without_a_mutant_say_nothing_about_mutants() {
        let failure = read(&outcomes("Failure", &["CaughtMutant"])).expect_err("a bad baseline");
        assert!(failure.to_string().ends_with("see log/baseline.log"), "{failure}");
        assert!(read(&outcomes("Success", &["Failure"])).is_err(), "nobody knows what that means");
    }
}
