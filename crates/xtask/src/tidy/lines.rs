//! Lines of at most 100 columns, without trailing blanks.

use super::Findings;
use super::tree::Tree;

const WIDTH: usize = 100;
const MEASURED: &[&str] = &[".rs", ".md", ".toml"];
const TRIMMED: &[&str] = &[".rs", ".md", ".toml", ".sh", ".py", ".c", ".ci/run", ".gitignore"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts(MEASURED) {
        for (index, line) in text.lines().enumerate() {
            let width = line.chars().count();
            if width > WIDTH && !(path.ends_with(".md") && cannot_break(line)) {
                let what = format!("{width} columns: break the line at {WIDTH}");
                findings.add(path, index + 1, what);
            }
        }
    }
    for (path, text) in tree.texts(TRIMMED) {
        for (index, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t']) {
                findings.add(path, index + 1, "trailing blanks: remove them");
            }
        }
    }
}

/// Whether a line of Markdown is a row of a table, or contains a URL.
fn cannot_break(line: &str) -> bool {
    line.trim_start().starts_with('|') || line.contains("https://") || line.contains("http://")
}
