//! The copy of the sources with the mutants in it, and its programs.
//!
//! 1. A mutant is in the copy as long as it may compile. One that an error of the compiler belongs
//!    to is taken out, for good, and all is built again.
//! 2. A mutant keeps its number.
//!
//! Not asserted: 2, since the list of mutants never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::areas::Stage;
use super::finder::Mutant;
use super::rewrite::{self, Rewritten};
use super::workshop::Workshop;
use crate::{Failure, Result, command};

/// How often mutants are taken out before something else must be wrong.
const ROUNDS: usize = 12;

/// The copy, as it is.
#[derive(Debug)]
pub(super) struct Broken<'a> {
    workshop: &'a Workshop,
    mutants: &'a [Mutant],
    /// What does not compile.
    unviable: BTreeSet<usize>,
    rewritten: BTreeMap<String, Rewritten>,
}

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// Where it runs: the folder of its package.
    pub(super) folder: PathBuf,
}

impl<'a> Broken<'a> {
    /// Puts all these mutants into the copy.
    pub(super) fn new(workshop: &'a Workshop, mutants: &'a [Mutant]) -> Result<Broken<'a>> {
        let (unviable, rewritten) = (BTreeSet::new(), BTreeMap::new());
        let mut broken = Broken { workshop, mutants, unviable, rewritten };
        broken.write()?;
        Ok(broken)
    }

    /// Whether this mutant compiles, as far as is known.
    pub(super) fn is_viable(&self, number: usize) -> bool {
        !self.unviable.contains(&number)
    }

    /// Brings the copy up to date.
    fn write(&mut self) -> Result<()> {
        let mut of_file = BTreeMap::<&str, Vec<(usize, &Mutant)>>::new();
        for (number, mutant) in self.mutants.iter().enumerate() {
            let all = of_file.entry(&mutant.file).or_default();
            all.extend(self.is_viable(number).then_some((number, mutant)));
        }
        let mut texts = BTreeMap::new();
        for (file, mutants) in of_file {
            let rewritten = rewrite::rewrite(&self.workshop.text(file)?, &mutants);
            texts.insert(file.to_owned(), rewritten.text.clone());
            let (package, _) =
                file.split_once("/src/").expect("only sources of packages are broken");
            let top = format!("{package}/src/lib.rs");
            if !texts.contains_key(&top) {
                texts.insert(top.clone(), self.workshop.text(&top)?);
            }
            self.rewritten.insert(file.to_owned(), rewritten);
        }
        let module = rewrite::module(self.mutants.len());
        let tops = texts.iter_mut().filter(|(file, _)| file.ends_with("/src/lib.rs"));
        tops.for_each(|(_, text)| text.push_str(&module));
        self.workshop.fill(&texts)
    }

    /// Builds the programs of a stage.
    pub(super) fn build(&mut self, stage: &Stage) -> Result<Vec<Program>> {
        for _ in 0..ROUNDS {
            let mut cargo = self.workshop.cargo();
            cargo.args(["test", "--no-run", "--quiet", "--message-format=json"]);
            cargo.args(["--package", stage.package, "--all-features"]).args(stage.programs());
            let (is_built, printed) = command::output(&mut cargo)?;
            let messages = printed.lines().filter_map(|line| serde_json::from_str(line).ok());
            let messages = messages.collect::<Vec<Value>>();
            if is_built {
                return Ok(messages.iter().filter_map(program).collect());
            }
            let blamed = messages.iter().flat_map(|message| self.blamed(message));
            let blamed = blamed.collect::<BTreeSet<_>>();
            if blamed.is_empty() {
                let told = messages.iter().filter_map(|all| all["message"]["rendered"].as_str());
                let told = told.collect::<String>();
                let told = if told.is_empty() { printed } else { told };
                return Err(Failure::new(format!("no mutant is to blame for this:\n{told}")));
            }
            println!("mutants: {} do not compile, and are taken out", blamed.len());
            self.unviable.extend(blamed);
            self.write()?;
        }
        Err(Failure::new(format!("{ROUNDS} times mutants were taken out, and it does not compile")))
    }

    /// The mutants to which an error belongs.
    fn blamed(&self, message: &Value) -> Vec<usize> {
        let message = &message["message"];
        if message["level"] != "error" {
            return Vec::new();
        }
        let found = places(message);
        let Some((file, _)) = found.iter().find(|(file, _)| self.rewritten.contains_key(file))
        else {
            return Vec::new();
        };
        let of_file = found.iter().filter(|(other, _)| other == file);
        let ranges = of_file.map(|(_, range)| range.clone()).collect::<Vec<_>>();
        self.rewritten[file].blamed(&ranges)
    }
}

/// The files and bytes that an error names, the most important ones first.
fn places(message: &Value) -> Vec<(String, Range<usize>)> {
    let spans = |message: &Value| message["spans"].as_array().cloned().unwrap_or_default();
    let mut all = spans(message);
    all.sort_by_key(|span| span["is_primary"] != true);
    let children = message["children"].as_array().into_iter().flatten();
    all.extend(children.flat_map(spans));
    let mut places = Vec::new();
    for span in &all {
        let mut span = span;
        while let Some(file) = span["file_name"].as_str() {
            let byte = |name: &str| span[name].as_u64().and_then(|byte| usize::try_from(byte).ok());
            if let (Some(start), Some(end)) = (byte("byte_start"), byte("byte_end")) {
                places.push((file.to_owned(), start..end));
            }
            span = &span["expansion"]["span"];
        }
    }
    places
}

/// A program of tests that cargo says it has built.
fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    Some(Program { path, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        serde_json::from_str(text).expect("it is JSON")
    }

    #[test]
    fn an_error_names_its_most_important_place_first() {
        let error = json(
            r#"{"level": "error", "spans": [
                {"file_name": "a.rs", "byte_start": 1, "byte_end": 2, "is_primary": false},
                {"file_name": "a.rs", "byte_start": 3, "byte_end": 4, "is_primary": true,
                    "expansion": {"span": {"file_name": "b.rs", "byte_start": 5, "byte_end": 6}}}],
                "children": [{"spans": [{"file_name": "c.rs", "byte_start": 7, "byte_end": 8}]}]}"#,
        );
        let places = places(&error);
        let places = places.iter().map(|(file, range)| (&file[..], range.clone()));
        let expected = [("a.rs", 3..4), ("b.rs", 5..6), ("a.rs", 1..2), ("c.rs", 7..8)];
        assert_eq!(places.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_programs_of_tests_are_taken() {
        let artifact = r#"{"reason": "compiler-artifact", "manifest_path": "/a/Cargo.toml",
            "profile": {"test": true}, "executable": "/t/a-1"}"#;
        let built = program(&json(artifact)).expect("it is one");
        assert_eq!((built.path, built.folder), ("/t/a-1".into(), "/a".into()));
        assert_eq!(program(&json(&artifact.replace("true", "false"))), None);
    }
}
