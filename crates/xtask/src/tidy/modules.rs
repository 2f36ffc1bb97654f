//! Source files that no crate builds. They rot unseen, and mislead their readers.

use std::collections::BTreeSet;

use super::tree::Tree;
use super::{Findings, rust};

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    let mut reached = BTreeSet::new();
    let mut waiting = Vec::new();
    for (path, _) in tree.codes() {
        if is_root(path) {
            waiting.push(path.to_owned());
        }
    }
    for (path, text) in tree.texts(&["Cargo.toml"]) {
        waiting.extend(named_roots(path, text));
    }
    while let Some(path) = waiting.pop() {
        let Some(file) = tree.file(&path) else { continue };
        if let (true, Some(code)) = (reached.insert(path.clone()), &file.code) {
            let text = file.text.as_deref().unwrap_or_default();
            waiting.extend(children(&path, text, code, is_root(&path)));
        }
    }
    for (path, _) in tree.codes().filter(|(path, _)| !reached.contains(*path)) {
        findings.add(path, 1, "no crate reaches this file: declare it as a module or remove it");
    }
}

/// Whether cargo finds the file by its place in a crate.
fn is_root(path: &str) -> bool {
    let Some(path) = path.strip_prefix("crates/").and_then(|path| path.split_once('/')) else {
        return false;
    };
    let parts = path.1.split('/').collect::<Vec<_>>();
    matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// Roots that a manifest names itself, as `path = "....rs"`.
fn named_roots(manifest: &str, text: &str) -> Vec<String> {
    let folder = manifest.strip_suffix("Cargo.toml").unwrap_or_default();
    let paths = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "path").then(|| value.trim().trim_matches('"'))
    });
    paths.filter(|path| path.ends_with(".rs")).map(|path| format!("{folder}{path}")).collect()
}

/// The files that may contain the modules declared by `code`.
fn children(path: &str, text: &str, code: &str, is_root: bool) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let within =
        if is_root || name == "mod" { folder.to_owned() } else { format!("{folder}/{name}") };
    let mut files = Vec::new();
    for triple in rust::tokens(code).windows(3) {
        let [(line, "mod"), (_, module), (_, ";")] = *triple else { continue };
        let above = line.checked_sub(2).and_then(|index| text.lines().nth(index));
        if let Some(named) = above.and_then(|line| line.trim().strip_prefix("#[path = \"")) {
            files.push(format!("{folder}/{}", named.trim_end_matches("\"]")));
        }
        files.push(format!("{within}/{module}.rs"));
        files.push(format!("{within}/{module}/mod.rs"));
    }
    files
}
