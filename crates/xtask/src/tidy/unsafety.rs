//! Only one crate talks to the machine in ways that the compiler cannot check.

use super::tree::Tree;
use super::{Findings, rust};

const ALLOWED: &str = "crates/block/";

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, code) in tree.codes().filter(|(path, _)| !path.starts_with(ALLOWED)) {
        for (line, _) in rust::tokens(code).into_iter().filter(|(_, token)| *token == "unsafe") {
            let what =
                format!("unsafe outside of {ALLOWED}: put it there, behind a safe interface");
            findings.add(path, line, what);
        }
    }
}
