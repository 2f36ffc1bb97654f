//! Mutants that no test notices, and that is as it should be: `crates/xtask/mutants/accepted`.
//!
//! An entry has three lines: the file and what is changed, as the list of mutants says it but
//! without the place; the line of the source where it begins; and the reason, which may go on:
//!
//! ```text
//! crates/journal/src/writer.rs: replace < with <= in Writer::room
//!   | while start < end {
//!   = At the end there is nothing to take: one turn more does nothing.
//! ```
//!
//! Lines that begin with `#` are for people. The line of the source stands for the line's number,
//! which moves with everything above it. An entry that fits no mutant any more, or one that a test
//! notices, is told, and goes.

use std::fmt;

use super::finder::Mutant;
use crate::{Failure, Result};

/// Where the list is, from the top of the repository.
pub(super) const LIST: &str = "crates/xtask/mutants/accepted";

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) file: String,
    pub(super) what: String,
    /// The line of the source, without the blanks around it.
    pub(super) source: String,
    pub(super) reason: String,
}

impl Accepted {
    /// Reads the list.
    pub(super) fn list(text: &str) -> Result<Vec<Accepted>> {
        let mut list = Vec::<Accepted>::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |why: &str| Failure::new(format!("{LIST}:{}: {why}", index + 1));
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let last = list.last_mut().ok_or_else(|| wrong("an entry begins with its file"));
            if let Some(source) = line.strip_prefix("  | ") {
                source.trim().clone_into(&mut last?.source);
            } else if let Some(reason) = line.strip_prefix("  = ") {
                reason.clone_into(&mut last?.reason);
            } else if let Some(more) = line.strip_prefix("    ") {
                let last = last?;
                last.reason = format!("{} {more}", last.reason);
            } else {
                list.iter().try_for_each(|entry| entry.must_be_whole())?;
                let (file, what) =
                    line.split_once(": ").ok_or_else(|| wrong("this is no FILE: WHAT"))?;
                let (file, what) = (file.to_owned(), what.to_owned());
                list.push(Accepted { file, what, source: String::new(), reason: String::new() });
            }
        }
        list.iter().try_for_each(|entry| entry.must_be_whole())?;
        Ok(list)
    }

    fn must_be_whole(&self) -> Result<()> {
        if self.source.is_empty() || self.reason.is_empty() {
            Err(Failure::new(format!("{LIST}: {self}: it needs a source and a reason")))
        } else {
            Ok(())
        }
    }

    /// Whether it means this mutant.
    pub(super) fn fits(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file && self.what == mutant.what && self.source == mutant.source
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.file, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::finder::find;
    use super::*;

    const ENTRY: &str = concat!(
        "# about a\na.rs: replace < with <= in f\n",
        "  | if a < b {\n  = They never\n    are the same.\n"
    );

    #[test]
    fn the_list_of_the_repository_is_understood() {
        Accepted::list(include_str!("../../mutants/accepted")).expect("every entry is whole");
    }

    #[test]
    fn an_entry_fits_its_mutant_wherever_its_line_has_gone() {
        let list = Accepted::list(ENTRY).expect("it is whole");
        assert_eq!(list[0].reason, "They never are the same.");
        let found = |text| find("a.rs", text).expect("it is Rust").mutants;
        let at = |text| found(text).iter().filter(|mutant| list[0].fits(mutant)).count();
        assert_eq!(at("fn f() {\n\n    if a < b {\n    }\n}\n"), 1);
        assert_eq!(at("fn f() {\n    if b < a {\n    }\n}\n"), 0);
        assert_eq!(at("fn g() {\n    if a < b {\n    }\n}\n"), 0);
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        let failure = Accepted::list(&ENTRY[..ENTRY.find("  =").expect("a reason")]);
        let sentence = failure.expect_err("it has no reason").to_string();
        assert!(sentence.contains("a.rs: replace < with <= in f: it needs"), "{sentence}");
        assert!(Accepted::list("  | alone\n").is_err() && Accepted::list("no colon\n").is_err());
    }
}
