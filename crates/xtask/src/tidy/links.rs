//! Links in documents, to each other and to code, must lead to an existing file.

use super::Findings;
use super::tree::Tree;

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts(&[".md"]) {
        for (index, line) in text.lines().enumerate() {
            for target in targets(line) {
                if !exists(tree, path, target) {
                    let what = format!("the link to {target} leads nowhere: mend it or remove it");
                    findings.add(path, index + 1, what);
                }
            }
        }
    }
}

/// The files that `line` links to, as `[text](file#section)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = links.filter_map(|link| link.split('#').next());
    files.filter(|file| !file.is_empty() && !file.contains("://"))
}

/// Whether `target`, relative to the document `path`, is a file or a folder of the repository.
fn exists(tree: &Tree, path: &str, target: &str) -> bool {
    let mut parts = path.split('/').collect::<Vec<_>>();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let file = parts.join("/");
    let folder = format!("{file}/");
    tree.files.iter().any(|other| other.path == file || other.path.starts_with(&folder))
}
