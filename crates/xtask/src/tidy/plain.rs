//! Prose that reads like a translation: a ratchet on two habits.
//!
//! A sentence that begins with a relative clause hides its subject, and one verb stood for report,
//! reply, record and show. Both are counted in comments and pages; the numbers only fall.

use super::Findings;
use super::tree::Tree;

/// Sentences that may begin with one of [`OPENERS`].
const MOST_OPENERS: usize = 180;
/// Uses of [`VERB`].
const MOST_VERBS: usize = 85;

const OPENERS: [&str; 5] = ["What", "Who", "Of", "Whoever", "Whatever"];
const VERB: [&str; 4] = ["tell", "tells", "told", "telling"];

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let mut counts = [0; 2];
    for (path, text) in tree.texts(&[".rs", ".md"]) {
        let prose: Vec<&str> = text
            .lines()
            .filter_map(|line| if path.ends_with(".md") { Some(line) } else { comment(line) })
            .collect();
        let found = count(&prose.join("\n"));
        counts = [counts[0] + found[0], counts[1] + found[1]];
    }
    let limits = [
        (MOST_OPENERS, "sentences begin with What, Who or Of: let the subject come first"),
        (MOST_VERBS, "uses of 'tell' and 'told': say report, reply, record, show"),
    ];
    for ((most, what), count) in limits.into_iter().zip(counts) {
        if count > most {
            findings.add("docs", 1, format!("{count} {what}; {most} were there"));
        }
    }
}

/// The text of a line that is a comment; an empty line ends a sentence.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("//");
    text.map_or(Some(""), |text| Some(text.trim_start_matches(['/', '!']).trim()))
}

/// Sentences with a bad beginning, and uses of the verb.
fn count(prose: &str) -> [usize; 2] {
    let mut counts = [0; 2];
    let mut begins = true;
    for line in prose.lines() {
        if line.trim().is_empty() {
            begins = true;
            continue;
        }
        for word in line.split_whitespace() {
            let is_mark = word.chars().all(|c| !c.is_alphanumeric());
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            counts[0] += usize::from(begins && OPENERS.contains(&bare));
            counts[1] += usize::from(VERB.iter().any(|verb| bare.eq_ignore_ascii_case(verb)));
            if !is_mark {
                begins = word.ends_with(['.', '!', '?', ':', ';']);
            } else if word == "|" || word == "*" {
                begins = true;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_comes_first_and_one_verb_is_not_all_verbs() {
        let prose = "Of these, one is told. The end: what is left.\nWho reads\n\nWhat it tells";
        assert_eq!(count(prose), [3, 2], "Of, Who and What begin a sentence");
        assert_eq!(comment("    let x = 1;"), Some(""));
        assert_eq!(comment("    /// Text"), Some("Text"));
    }

    #[test]
    fn more_than_there_were_are_too_many() {
        let found = |count: usize| {
            let text = "// Of two.\n\n".repeat(count);
            let mut findings = Findings::default();
            check(&Tree::of(&[("a.rs", &text)]), &mut findings);
            findings.0.len()
        };
        assert_eq!([found(MOST_OPENERS), found(MOST_OPENERS + 1)], [0, 1]);
    }
}
