//! An engine that is missing from a file that has to name it.
//!
//! The page for authors of engines has a table of these files; this check reads it, so the page
//! cannot be wrong for long. An engine is a crate that implements `vnode::Engine`. The engine over
//! memory is no part of the program, and is free.

use super::Findings;
use super::tree::Tree;

/// The page with the table.
const PAGE: &str = "docs/add-an-engine.md";
/// The name of an engine in a path of the table.
const NAME: &str = "ENGINE";
/// The engine that no volume has.
const FREE: &str = "ram";

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let Some(page) = tree.file(PAGE).and_then(|file| file.text.as_deref()) else { return };
    let rows: Vec<(usize, &str)> = page
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, line.strip_prefix("| `")?.split_once('`')?.0)))
        .collect();
    for engine in engines(tree) {
        for &(line, path) in &rows {
            let path = path.replace(NAME, engine);
            let mut texts = tree
                .files
                .iter()
                .filter(|file| file.path == path || file.path.starts_with(&format!("{path}/")));
            let is_named =
                |text: &str| path.contains(&format!("/{engine}/")) || names(text, engine);
            if !texts.any(|file| file.text.as_deref().is_some_and(is_named)) {
                let what = format!("{path} does not name engine {engine}: add it there");
                findings.add(PAGE, line, what);
            }
        }
    }
}

/// The crates that implement the trait of engines.
fn engines(tree: &Tree) -> impl Iterator<Item = &str> {
    let is_engine = |name: &&str| {
        let sources = format!("crates/{name}/src/");
        let mut codes = tree.files.iter().filter(|file| file.path.starts_with(&sources));
        codes.any(|file| {
            let code = file.code.as_deref().unwrap_or_default();
            code.lines().any(|line| line.starts_with("impl Engine for "))
        })
    };
    tree.crates().filter(|name| *name != FREE).filter(is_engine)
}

/// Whether a text has this word.
fn names(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|it| it == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(entries: &str) -> Vec<String> {
        let page = "| file | what |\n|---|---|\n| `crates/ENGINE/src/lib.rs` | it |\n\
                    | `crates/designs/src/entries.rs` | its entry |\n| `docs/formats` | bytes |\n";
        let tree = Tree::of(&[
            ("crates/designs/src/entries.rs", entries),
            ("crates/one/Cargo.toml", ""),
            ("crates/one/src/lib.rs", "impl Engine for One {}"),
            ("crates/ram/Cargo.toml", ""),
            ("crates/ram/src/lib.rs", "impl Engine for Ram {}"),
            (PAGE, page),
            ("docs/formats/disk.md", "of engine `one`"),
        ]);
        let mut findings = Findings::default();
        check(&tree, &mut findings);
        findings.0.into_iter().map(|it| format!("{}: {}", it.line, it.what)).collect()
    }

    #[test]
    fn an_engine_is_in_every_file_of_the_table() {
        assert!(found("engine: \"one\"").is_empty());
        let what = "4: crates/designs/src/entries.rs does not name engine one: add it there";
        assert_eq!(found("engine: \"stone\", \"ones\""), [what]);
    }
}
