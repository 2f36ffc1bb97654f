//! Each numbered invariant of a file is asserted where it could break, or the file gives the
//! reason.
//!
//! The list is in the opening docs, after a line that says `Invariants`. An assertion of one has
//! `invariant N` in its message: `assert!` and its variants, `panic!`, `unreachable!` or `expect`.
//! It is in the file of the list or, for the list of a folder, in a file below that has no list of
//! its own; messages in tests do not count. The paragraph after the list names those that are not
//! asserted, in groups: numbers, a comma, a reason. A semicolon separates groups, and a full stop
//! ends the paragraph:
//!
//! ```text
//! Not asserted: 2 and 4, which are about time; 5, which the type of a borrow keeps.
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;
use super::{Findings, rust};

/// Files whose lists are not all asserted yet. A ratchet: it only loses entries.
const UNFINISHED: &[&str] =
    &["crates/bench/src/bare/store.rs", "crates/torture/src/world/connection.rs"];

/// The file with that list.
const HERE: &str = "crates/xtask/src/tidy/invariants.rs";

/// Words before brackets whose literals are the message of an assertion.
const ASSERTIONS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "unreachable",
];

/// Begin of the paragraph with the reasons.
const REASONS: &str = "Not asserted: ";

/// The invariants of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct List {
    /// Line of each invariant, by its number.
    lines: BTreeMap<u64, usize>,
    /// Invariants that are not asserted for a reason, each with its line.
    excused: BTreeMap<u64, usize>,
}

/// Violations in a file, each with its line.
type Wrongs = Vec<(usize, String)>;

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    check_but(tree, UNFINISHED, findings);
}

fn check_but(tree: &Tree, unfinished: &[&str], findings: &mut Findings) {
    let mut wrongs: BTreeMap<&str, Wrongs> = BTreeMap::new();
    let mut lists: BTreeMap<&str, List> = BTreeMap::new();
    let sources: Vec<_> = tree.texts(&[".rs"]).filter(|(path, _)| path.contains("/src/")).collect();
    for &(path, text) in &sources {
        match list(text) {
            Ok(list) if list.lines.is_empty() => {}
            Ok(list) => _ = lists.insert(path, list),
            Err(wrong) => wrongs.entry(path).or_default().push(wrong),
        }
    }
    let mut asserted: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for &(path, text) in sources.iter().filter(|(path, _)| !rust::is_test(path)) {
        let owner = lists_above(path).into_iter().find_map(|above| lists.get_key_value(&*above));
        for (line, number) in cited(text) {
            match owner {
                Some((owner, list)) if list.lines.contains_key(&number) => {
                    asserted.entry(owner).or_default().insert(number);
                }
                _ => {
                    let what = format!("cites invariant {number}, which no list here has");
                    wrongs.entry(path).or_default().push((line, what));
                }
            }
        }
    }
    for (path, list) in &lists {
        let asserted = asserted.remove(path).unwrap_or_default();
        wrongs.entry(path).or_default().extend(list.wrongs(&asserted));
    }
    // In a tree without this list, the exceptions belong to another tree.
    let is_meant = |path: &str| tree.file(path).or_else(|| tree.file(HERE)).is_some();
    let needless = |path: &&&str| wrongs.get(**path).is_none_or(Vec::is_empty) && is_meant(path);
    for path in unfinished.iter().filter(needless) {
        findings.add(path, 1, "its invariants need no exception any more: take it from the list");
    }
    for (path, wrongs) in wrongs.iter().filter(|(path, _)| !unfinished.contains(path)) {
        wrongs.iter().for_each(|(line, what)| findings.add(path, *line, what));
    }
}

impl List {
    /// Violations in a list, given the asserted numbers.
    fn wrongs(&self, asserted: &BTreeSet<u64>) -> Wrongs {
        let mut wrongs = Vec::new();
        for (number, line) in &self.lines {
            if !asserted.contains(number) && !self.excused.contains_key(number) {
                let what = format!(
                    "invariant {number} is not asserted: cite it in the message of an assertion, \
                     or say why not in a line `{REASONS}{number}, ...`"
                );
                wrongs.push((*line, what));
            }
        }
        for (number, line) in &self.excused {
            if asserted.contains(number) {
                wrongs.push((*line, format!("invariant {number} is asserted: drop the reason")));
            } else if !self.lines.contains_key(number) {
                wrongs.push((*line, format!("a reason for invariant {number}, which is none")));
            }
        }
        wrongs
    }
}

/// The files whose lists a file may cite, the nearest first: the file itself, and those of the
/// folders above.
fn lists_above(path: &str) -> Vec<String> {
    let mut above = vec![path.to_owned()];
    let mut folder = path;
    while let Some((parent, _)) = folder.rsplit_once('/') {
        folder = parent;
        if folder.ends_with("/src") {
            above.extend(["lib", "main"].map(|root| format!("{folder}/{root}.rs")));
            break;
        }
        above.extend([format!("{folder}/mod.rs"), format!("{folder}.rs")]);
    }
    above
}

/// The list in the opening docs of a file, empty if there is none.
fn list(text: &str) -> Result<List, (usize, String)> {
    let docs =
        text.lines().zip(1..).map_while(|(doc, line)| Some((line, doc.strip_prefix("//!")?)));
    let docs: Vec<_> = docs.map(|(line, doc)| (line, doc.trim_start_matches(' '))).collect();
    let heads = |doc: &str| {
        let head = doc.trim_start_matches(['#', '*', ' ']);
        let is_marked = head.contains(':') || head.len() < doc.len();
        head.starts_with("Invariants") && is_marked || doc.ends_with("invariants:")
    };
    let mut list = List::default();
    let Some(head) = docs.iter().position(|(_, doc)| heads(doc)) else { return Ok(list) };
    let mut rest = docs[head + 1..].iter().skip_while(|(_, doc)| doc.is_empty());
    for &(line, doc) in rest.by_ref().take_while(|(_, doc)| !doc.is_empty()) {
        let number = doc.split_once(". ").and_then(|(number, _)| number.parse::<u64>().ok());
        match number {
            Some(number) if number == list.lines.len() as u64 + 1 => {
                list.lines.insert(number, line);
            }
            Some(number) => return Err((line, format!("invariant {number} is out of its turn"))),
            None if list.lines.is_empty() => {
                let what = "invariants are a list that begins with `1. ` on a line of its own";
                return Err((line, what.to_owned()));
            }
            None => {}
        }
    }
    let paragraph: Vec<_> = rest.take_while(|(_, doc)| !doc.is_empty()).collect();
    if let Some((line, first)) = paragraph.first()
        && first.starts_with(REASONS)
    {
        let words: Vec<_> = paragraph.iter().map(|(_, doc)| *doc).collect();
        let numbers = excused(&words.join(" ")).ok_or_else(|| {
            let what = format!("reasons read `{REASONS}2 and 4, which ...; 5, which ...`");
            (*line, what)
        })?;
        list.excused.extend(numbers.into_iter().map(|number| (number, *line)));
    }
    Ok(list)
}

/// The numbers in a paragraph with reasons; `None` if it is malformed.
fn excused(paragraph: &str) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let groups = paragraph.strip_prefix(REASONS)?.strip_suffix('.')?;
    for group in groups.split("; ") {
        let mut rest = group;
        loop {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            numbers.push(rest[..end].parse().ok()?);
            rest = &rest[end..];
            let next = rest.strip_prefix(" and ").or(rest.strip_prefix(", "))?;
            let goes_on = next.starts_with(|c: char| c.is_ascii_digit());
            if !goes_on {
                break;
            }
            rest = next;
        }
        let reason = rest.strip_prefix(", ")?;
        if reason.split_whitespace().count() < 3 {
            return None;
        }
    }
    Some(numbers)
}

/// The invariants cited by messages of assertions, before the tests of a file; each with the line
/// of the message.
fn cited(text: &str) -> Vec<(usize, u64)> {
    let code: Vec<char> = rust::code(text).chars().collect();
    let mut cited = Vec::new();
    for (at, literal) in rust::literals(rust::without_tests(text)) {
        for (_, rest) in literal
            .match_indices("invariant ")
            .map(|(at, found)| literal.split_at(at + found.len()))
        {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if let Ok(number) = rest[..digits].parse()
                && is_message(&code, at)
            {
                let line = code[..at].iter().filter(|&&c| c == '\n').count() + 1;
                cited.push((line, number));
            }
        }
    }
    cited
}

/// Whether position `at` is within the brackets of an assertion.
fn is_message(code: &[char], at: usize) -> bool {
    let (mut depth, mut opening) = (0, None);
    for (index, &character) in code[..at].iter().enumerate().rev() {
        match character {
            ')' => depth += 1,
            '(' if depth > 0 => depth -= 1,
            '(' => {
                opening = Some(index);
                break;
            }
            _ => {}
        }
    }
    let Some(opening) = opening else { return false };
    let front: String = code[opening.saturating_sub(24)..opening].iter().collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let called = front.strip_suffix('!').and_then(|front| front.rsplit(|c| !is_word(c)).next());
    called.map_or(front.ends_with(".expect"), |name| ASSERTIONS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings in a tree of one file.
    fn findings(text: &str, unfinished: &[&str]) -> Vec<(usize, String)> {
        let tree = Tree::of(&[("crates/log/src/log.rs", text)]);
        let mut findings = Findings::default();
        check_but(&tree, unfinished, &mut findings);
        findings.0.into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    /// Asserts that there is one finding, at `line`, and that it mentions `subject`.
    #[track_caller]
    fn has_one(text: &str, line: usize, subject: &str) {
        let findings = findings(text, &[]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].0, line, "{findings:?}");
        assert!(findings[0].1.contains(subject), "{findings:?}");
    }

    const LIST: &str =
        "//! A log.\n//!\n//! # Invariants\n//! 1. One,\n//!    and on.\n//! 2. Two.\n";
    const CITED: &str = "fn f() {\n    assert!(\n        g(),\n        \"invariant 1\"\n    );\n\
                         x.expect(\"that of invariant 2\")\n}\n";

    #[test]
    fn an_invariant_that_nothing_cites() {
        let text = format!("{LIST}fn f() {{ assert_eq!(a, [0; 2], \"invariant 2\") }}\n");
        has_one(&text, 4, "invariant 1 is not asserted");
    }

    #[test]
    fn invariants_that_assertions_cite() {
        assert_eq!(findings(&format!("{LIST}{CITED}"), &[]), []);
    }

    #[test]
    fn a_comment_another_call_or_a_test_asserts_nothing() {
        for code in [
            "// assert!(x, \"invariant 1\")\n",
            "fn f() { log(\"invariant 1\") }\n",
            "#[cfg(test)]\nmod tests {\n    fn f() { panic!(\"invariant 1\") }\n}\n",
        ] {
            let text = format!("{LIST}fn g() {{ unreachable!(\"invariant 2\") }}\n{code}");
            has_one(&text, 4, "invariant 1 is not asserted");
        }
    }

    #[test]
    fn a_reason_stands_for_an_assertion() {
        let reason = "//!\n//! Not asserted: 1, which is about time, and\n\
                      //! chance; 2, which a type keeps.\n";
        assert_eq!(findings(&format!("{LIST}{reason}"), &[]), []);
        has_one(
            &format!("{LIST}{reason}fn f() {{ panic!(\"invariant 2\") }}"),
            8,
            "drop the reason",
        );
    }

    #[test]
    fn reasons_have_one_grammar() {
        assert_eq!(excused("Not asserted: 1, 2 and 4, which are not."), Some(vec![1, 2, 4]));
        for wrong in
            ["1.", "1, so.", "1 which is not so.", "1, which is not so", "all, but it is so."]
        {
            assert_eq!(excused(&format!("Not asserted: {wrong}")), None, "{wrong}");
        }
    }

    #[test]
    fn a_stale_number() {
        has_one(&format!("{LIST}{CITED}fn g() {{ panic!(\"invariant 3\") }}"), 14, "invariant 3");
        let reason = "//!\n//! Not asserted: 3, which was there before.\n";
        has_one(&format!("{LIST}{reason}{CITED}"), 8, "invariant 3");
    }

    #[test]
    fn a_list_begins_on_a_line_of_its_own_and_counts_on() {
        has_one("//! Invariants: 1. One,\n//! and on.\n", 2, "on a line of its own");
        has_one("//! Invariants:\n//! 1. One.\n//! 3. Three.\n", 3, "out of its turn");
    }

    #[test]
    fn a_list_holds_for_the_folder_below() {
        let list = "//! Invariants:\n//! 1. One.\n";
        let cites = "fn f() { panic!(\"invariant 1\") }\n";
        let files = [("crates/log/src/lib.rs", list), ("crates/log/src/a/b.rs", cites)];
        let mut findings = Findings::default();
        check_but(&Tree::of(&files), &[], &mut findings);
        assert_eq!(findings.0, []);
    }

    #[test]
    fn an_exception_only_as_long_as_it_is_needed() {
        let path = "crates/log/src/log.rs";
        assert_eq!(findings(LIST, &[path]), []);
        let stale = findings(&format!("{LIST}{CITED}"), &[path]);
        assert_eq!(stale.len(), 1, "{stale:?}");
    }
}
