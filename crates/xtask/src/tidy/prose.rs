//! Every crate opens with a page about itself: what it is, its layers, its contract.

use super::Findings;
use super::tree::Tree;

const LINES: usize = 8;

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for name in tree.crates() {
        let roots = ["lib.rs", "main.rs"].map(|file| format!("crates/{name}/src/{file}"));
        let Some(root) = roots.iter().find_map(|path| tree.file(path)) else { continue };
        let text = root.text.as_deref().unwrap_or_default();
        let lines = text.lines().take_while(|line| line.starts_with("//!")).count();
        if lines < LINES {
            let what = format!(
                "opens with {lines} lines of prose: say in at least {LINES} what the crate is, \
                 its layers and its contract"
            );
            findings.add(&root.path, 1, what);
        }
    }
}
