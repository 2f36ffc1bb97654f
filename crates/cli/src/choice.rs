//! Command-line words that choose a design.
//!
//! The command line accepts any word, and the lookup runs once all words are known. So the table
//! itself lists the alternatives to an unknown word. `--help` lists them as well.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use designs::{DESIGNS, Design};

use crate::failure::Failure;

/// Width of the help text that we wrap ourselves, in columns.
const COLUMNS: usize = 96;

/// Option whose value names a part of a design.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// The name of an engine.
    Engine,
    /// The name of a policy.
    Policy,
}

impl TypedValueParser for Word {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        match self {
            Self::Engine => Some(Box::new(DESIGNS.engines().into_iter().map(|engine| {
                let about = DESIGNS.of_engine(engine).find(|one| one.policy.is_none());
                let value = PossibleValue::new(engine);
                about.map_or(value.clone(), |design| value.help(design.about))
            }))),
            Self::Policy => Some(Box::new(DESIGNS.all().iter().filter_map(|design| {
                let policy = design.policy?;
                Some(PossibleValue::new(policy).help(design.about))
            }))),
        }
    }
}

/// Finds the design that these words choose.
///
/// # Errors
/// [`Failure::Usage`], which lists the alternatives.
pub(crate) fn chosen(
    engine: Option<&str>,
    policy: Option<&str>,
) -> Result<&'static Design, Failure> {
    DESIGNS.find(engine, policy).map_err(|unknown| Failure::Usage(unknown.to_string()))
}

/// Columns in front of a policy's promises, which hold its name.
const INDENT: usize = 11;

/// Promises of each policy, and of each engine that has none, to help a person choose.
pub(crate) fn promises() -> String {
    let mut text = String::from("What each policy or engine promises:\n");
    for design in DESIGNS.all() {
        let crash = format!("After a crash, {}.", design.after_crash);
        let retry = format!("When a client repeats a call after the crash, {}.", design.retry);
        let lines = [crash, retry].map(|sentence| broken(&sentence, INDENT)).concat();
        let name = format!("  {:<1$}", design.name(), INDENT - 2);
        text += &lines.replacen(&" ".repeat(INDENT), &name, 1);
    }
    text
}

/// Wraps a sentence into lines of limited length, each indented by `indent`.
fn broken(sentence: &str, indent: usize) -> String {
    let mut lines = vec![" ".repeat(indent)];
    for word in sentence.split(' ') {
        let line = lines.last_mut().expect("there is one always");
        if line.len() + 1 + word.len() > COLUMNS {
            lines.push(format!("{}{word}", " ".repeat(indent)));
            continue;
        }
        if line.len() > indent {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_broken_between_words() {
        let sentence = ["word"; 40].join(" ");
        let told = broken(&sentence, 8);
        assert!(told.lines().count() > 1 && told.ends_with("word\n"), "{told}");
        for line in told.lines() {
            assert!(line.starts_with("        word") && line.len() <= COLUMNS, "{line:?}");
        }
        assert_eq!(told.split_whitespace().count(), 40);
    }

    #[test]
    fn every_policy_is_promised_something() {
        let told = promises();
        for design in DESIGNS.all() {
            let line = told.lines().find(|line| line.trim_start().starts_with(design.name()));
            let promise = line.and_then(|line| line.split_once(" After a crash, "));
            assert!(promise.is_some(), "{told}");
        }
    }
}
