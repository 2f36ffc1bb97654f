//! Offset and width of a format's field are defined once: in the layout of that format.
//!
//! Elsewhere a field has a name, and code gets its bytes by that name. A number of bytes in an
//! index is a field without a name: `header[4]`, `block[at..at + 4]`, or a width beside
//! `offset_of!`.

use super::tree::Tree;
use super::{Findings, rust};

/// Crates that handle a disk format, with the path of its layout.
const FORMATS: &[(&str, &str)] = &[
    ("crates/directory/src/", "crates/directory/src/entry.rs"),
    ("crates/ffs/src/", "crates/ufs2/src/layout/"),
    ("crates/fsck/src/", "crates/ufs2/src/layout/"),
    ("crates/journal/src/", "crates/journal/src/format.rs"),
    ("crates/ufs2/src/", "crates/ufs2/src/layout/"),
];

/// Numbers from this one on are byte counts in the bounds of a range,
const BOUND: u64 = 2;
/// and numbers from this one on are byte offsets as an index: arrays of a format have names for
/// their items.
const INDEX: u64 = 4;

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, code) in tree.codes() {
        let format = FORMATS.iter().find(|(knows, _)| path.starts_with(knows));
        let Some((_, layout)) = format.filter(|(_, layout)| !path.starts_with(layout)) else {
            continue;
        };
        if rust::is_test(path) {
            continue;
        }
        for line in numbers(rust::without_tests(code)) {
            let what = format!("a place or a width of a format: name the field, as {layout} does");
            findings.add(path, line, what);
        }
    }
}

/// The lines in which a number is an offset or a width.
fn numbers(code: &str) -> Vec<usize> {
    let tokens = rust::tokens(code);
    let mut lines = Vec::new();
    for at in 1..tokens.len() {
        let (line, token) = tokens[at];
        let is_bad = match token {
            "[" if is_value(tokens[at - 1].1) => is_place(&inside(&tokens[at + 1..], "[", "]")),
            "(" if at > 1 && tokens[at - 2].1 == "offset_of" => {
                let length = inside(&tokens[at + 1..], "(", ")").len();
                let behind: Vec<&str> =
                    tokens[at + 2 + length..].iter().take(2).map(|(_, token)| *token).collect();
                matches!(&behind[..], ["," | "+", number] if value(number).is_some())
            }
            _ => false,
        };
        if is_bad {
            lines.push(line);
        }
    }
    lines
}

/// Whether the token before a bracket is indexed by it.
fn is_value(token: &str) -> bool {
    let is_word = token.chars().next().is_some_and(|first| first.is_alphanumeric() || first == '_');
    let is_keyword = matches!(token, "in" | "return" | "match" | "mut" | "let" | "else" | "if");
    is_word && !is_keyword || matches!(token, ")" | "]")
}

/// The tokens up to the closing bracket.
fn inside<'a>(tokens: &[(usize, &'a str)], opens: &str, closes: &str) -> Vec<&'a str> {
    let mut depth = 1;
    let of = tokens.iter().map(|(_, token)| *token);
    of.take_while(|token| {
        depth += i32::from(*token == opens) - i32::from(*token == closes);
        depth > 0
    })
    .collect()
}

fn is_place(index: &[&str]) -> bool {
    let is_range = index.windows(2).any(|two| two == [".", "."]);
    match index {
        [number] => value(number).is_some_and(|number| number >= INDEX),
        // Without the arguments of a call in it.
        _ => {
            let is_call = index.contains(&"(");
            is_range
                && !is_call
                && index.iter().filter_map(|token| value(token)).any(|number| number >= BOUND)
        }
    }
}

fn value(token: &str) -> Option<u64> {
    let digits: String = token.chars().filter(|&c| c != '_').collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_or_a_width_that_has_no_name_is_found() {
        for bad in [
            "let x = header[4];",
            "block[at..at + 4].fill(0);",
            "let length = &header[..4];",
            "at(offset_of!(Group, counts), 16)",
            "let end = offset_of!(Group, counts) + 4;",
        ] {
            assert_eq!(numbers(&format!("fn f() {{\n{bad}\n}}")), [2], "{bad}");
        }
    }

    #[test]
    fn a_name_a_first_item_and_an_array_are_none() {
        for good in [
            "let x = pairs[1..].iter();",
            "let x = indirect[2];",
            "let x = [0; 512];",
            "block[at..at + HEADER].fill(0);",
            "for bytes in [4, 8] {}",
            "until(offset_of!(Group, counts), offset_of!(Group, rotor))",
            "let x = &area[..size.min(10)];",
        ] {
            assert_eq!(numbers(&format!("fn f() {{\n{good}\n}}")), [0; 0], "{good}");
        }
    }
}
