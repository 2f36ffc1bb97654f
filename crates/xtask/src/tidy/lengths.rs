//! Length limits of files and functions. A ratchet: the lists below have those that were longer
//! when measured, and may only lose entries or lower their figures.

use super::tree::Tree;
use super::{Findings, rust};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;

/// Longer files, with their lengths.
const LONG_FILES: &[(&str, usize)] = &[];
/// Longer functions, with their lengths.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts(&[".rs", ".py", ".sh", ".c"]) {
        let allowed = LONG_FILES.iter().find(|(file, _)| *file == path).map(|(_, lines)| *lines);
        judge(findings, path, 1, text.lines().count(), allowed, FILE_LINES, "the file");
    }
    for (path, code) in tree.codes() {
        for function in rust::functions(code) {
            let exception =
                |(file, name, _): &&(&str, &str, usize)| (*file, *name) == (path, function.name);
            let allowed = LONG_FUNCTIONS.iter().find(exception).map(|(_, _, lines)| *lines);
            let name = format!("the function {}", function.name);
            judge(findings, path, function.line, function.length, allowed, FUNCTION_LINES, &name);
        }
    }
}

/// Checks one length. An exception that is larger than necessary is a finding too: once lowered, it
/// cannot grow again.
fn judge(
    findings: &mut Findings,
    path: &str,
    line: usize,
    length: usize,
    allowed: Option<usize>,
    limit: usize,
    name: &str,
) {
    if length > allowed.unwrap_or(limit) {
        let what = format!("{name} has {length} lines: make of it parts of at most {limit}");
        findings.add(path, line, what);
    } else if let Some(allowed) = allowed.filter(|allowed| length < *allowed) {
        let what = format!("{name} has only {length} lines now: lower its exception of {allowed}");
        findings.add(path, line, what);
    }
}
