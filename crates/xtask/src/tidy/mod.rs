//! Checks of the repository itself, cheap enough to run at every test.
//!
//! A rule that a machine can check is a rule that no author has to remember, explain, or defend in
//! a review. Each check is one file here and one function `(tree, findings)`; each finding gives
//! the place, the fault, and the remedy:
//!
//! | check | what it forbids |
//! |---|---|
//! | [`lines`] | lines over 100 columns, trailing blanks |
//! | [`lengths`] | files over 800 lines, functions over 70: a ratchet, its exceptions only shrink |
//! | [`edges`] | a crate that depends on what it must not know |
//! | [`engines`] | an engine that is missing from a file that has to name it |
//! | [`circles`] | modules that need each other: a ratchet, too |
//! | [`invariants`] | an invariant that nothing asserts, without a reason: a ratchet, too |
//! | [`modules`] | a source file that no crate reaches |
//! | [`offsets`] | an offset or a width of a format outside of its layout |
//! | [`prose`] | a crate that does not open with a page about itself |
//! | [`plain`] | prose that reads like a translation: a ratchet, too |
//! | [`words`] | reminders to oneself, skipped tests, names of one's own machine |
//! | [`unsafety`] | `unsafe` outside of the crate that may use it |
//! | [`blobs`] | files over 1 MiB |
//! | [`links`] | a link to a file that does not exist |
//! | `budgets` | a run of all tests that may take longer than it should |
//!
//! Absent: style that rustfmt and clippy check, and anything that needs a build.

mod blobs;
mod circles;
mod edges;
mod engines;
mod invariants;
mod lengths;
mod lines;
mod links;
mod modules;
mod offsets;
mod plain;
mod prose;
mod rust;
mod tree;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;

use tree::Tree;

use crate::{Repository, Result, budgets};

/// A fault to repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the top of the repository.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault, and the remedy.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Findings so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, path: &str, line: usize, what: impl Into<String>) {
        self.0.push(Finding { path: path.to_owned(), line, what: what.into() });
    }
}

/// All findings of the tree at `root`.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::load(root)?;
    let mut findings = Findings::default();
    lines::check(&tree, &mut findings);
    lengths::check(&tree, &mut findings);
    edges::check(&tree, &mut findings);
    engines::check(&tree, &mut findings);
    circles::check(&tree, &mut findings);
    invariants::check(&tree, &mut findings);
    modules::check(&tree, &mut findings);
    offsets::check(&tree, &mut findings);
    prose::check(&tree, &mut findings);
    plain::check(&tree, &mut findings);
    words::check(&tree, &mut findings);
    unsafety::check(&tree, &mut findings);
    blobs::check(&tree, &mut findings);
    links::check(&tree, &mut findings);
    budgets(&mut findings);
    Ok(findings.0)
}

/// Checks the budgets of all tests, which are a table of this crate.
fn budgets(findings: &mut Findings) {
    for excess in budgets::excesses(&budgets::STEPS, budgets::ROWS) {
        findings.add("crates/xtask/src/budgets.rs", 1, format!("a budget is exceeded: {excess}"));
    }
}

/// Prints the findings of the repository; returns whether there are none.
pub fn run(repository: &Repository) -> Result<bool> {
    let findings = check(repository.root())?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    Ok(findings.is_empty())
}
