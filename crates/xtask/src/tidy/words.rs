//! Words that must not be in a finished product, and words that are meaningful on one machine only.
//! They are written here in two halves, so that this file does not find itself.

use super::Findings;
use super::tree::Tree;

/// Whole words, in either case.
const REMINDERS: &[&str] =
    &[concat!("to", "do"), concat!("fix", "me"), concat!("x", "xx"), concat!("ha", "ck")];

/// Parts of a line, in this spelling, with the fault of each.
const PARTS: &[(&str, &str)] = &[
    (concat!("#[ig", "nore"), "a test that does not run: mend it or remove it"),
    (concat!("/wo", "rk/"), "a path of one machine: say it from the top of the repository"),
    (concat!("crates", ".io"), "a package host: name the package alone"),
    (concat!("pypi", ".org"), "a package host: name the package alone"),
    (concat!("pythonhosted", ".org"), "a package host: name the package alone"),
    (concat!("deb.debian", ".org"), "a package host: name the package alone"),
];

/// Texts by others.
const EXEMPT: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];
/// The name of a lint is not a reminder.
const LINT: &str = concat!("to", "do = \"deny\"");

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts(&[""]).filter(|(path, _)| !EXEMPT.contains(path)) {
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = reminder(line).filter(|_| !line.starts_with(LINT)) {
                let what = format!("the reminder {word:?}: do it now or write an issue");
                findings.add(path, index + 1, what);
            }
            for (part, what) in PARTS.iter().filter(|(part, _)| line.contains(part)) {
                findings.add(path, index + 1, format!("{part:?} is {what}"));
            }
        }
    }
}

fn reminder(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find(|word| REMINDERS.iter().any(|reminder| word.eq_ignore_ascii_case(reminder)))
}
