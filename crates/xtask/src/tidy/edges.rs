//! Allowed dependencies between crates: the cheapest wall there is.
//!
//! The rules apply to a crate's build dependencies, directly or through other crates of ours.
//! Dependencies of its tests are free, except on `server`, which no crate below it may need even
//! then.

use std::collections::BTreeMap;

use super::Findings;
use super::tree::Tree;

/// Crates that run the same under the simulator as in production.
const PURE: &[&str] = &[
    "block",
    "cache",
    "client",
    "cow",
    "designs",
    "directory",
    "dispatch",
    "door",
    "ffs",
    "fsck",
    "journal",
    "lfs",
    "load",
    "namespace",
    "nfs",
    "nvram",
    "planted",
    "raid",
    "ram",
    "runtime",
    "shadow",
    "sim",
    "trace",
    "ufs2",
    "vfs",
    "vnode",
];

/// Forbidden dependencies, with reasons.
const NEVER: &[(&[&str], &[&str], &str)] = &[
    (PURE, &["tokio", "server"], "it must run without sockets and a reactor, under the simulator"),
    (
        &["nfs"],
        &["designs", "cow", "ffs", "lfs", "shadow", "namespace"],
        "a protocol knows no engine",
    ),
    (
        &["designs", "cow", "ffs", "lfs", "ram", "shadow", "namespace", "vnode"],
        &["nfs", "dispatch"],
        "an engine knows no protocol",
    ),
    (
        &["ffs", "lfs", "ram", "shadow"],
        &["designs"],
        "an engine does not know which others there are",
    ),
    (&["duramen", "designs", "server"], &["ram"], "no volume is kept in memory"),
    (
        &["client", "load"],
        &["designs", "dispatch", "ffs", "lfs", "shadow", "namespace"],
        "its server may be any",
    ),
    (&["duramen-torture", "duramen-lab"], &["tokio", "server"], "all of it runs in virtual time"),
    (
        &["xtask"],
        &["designs", "duramen", "server", "ffs", "raid", "member-bench"],
        "it meets the product as a stranger would",
    ),
];

/// Outside crates that only some crates may use.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("tokio", &["server", "bench"], "sockets and the reactor are theirs alone"),
    ("hyper", &["server"], "it lends the others its client of the control channel"),
];

/// Crates that may depend, among our own, only on these.
const ONLY: &[(&str, &[&str])] = &[
    ("planted", &[]),
    ("runtime", &[]),
    ("block", &[]),
    ("journal", &["block", "planted"]),
    ("nvram", &["block", "planted", "runtime"]),
    ("raid", &["block", "planted", "runtime"]),
    ("sim", &["block", "runtime"]),
    ("trace", &["nfs"]),
    ("cache", &["block", "planted", "runtime"]),
    ("client", &["nfs", "planted", "runtime"]),
    ("cow", &["block", "cache", "directory", "namespace", "planted", "runtime", "vfs", "vnode"]),
    ("directory", &["cache", "vfs"]),
    ("door", &["dispatch", "nfs", "planted", "runtime"]),
    ("enginekit", &["namespace", "runtime", "sim", "vfs", "vnode"]),
    ("fsck", &["block", "directory", "planted", "runtime", "ufs2", "vfs"]),
    ("ram", &["cache", "directory", "namespace", "planted", "runtime", "vfs", "vnode"]),
    (
        "lfs",
        &["block", "cache", "cow", "directory", "namespace", "planted", "runtime", "vfs", "vnode"],
    ),
    (
        "shadow",
        &["block", "cache", "cow", "directory", "namespace", "planted", "runtime", "vfs", "vnode"],
    ),
    ("ufs2", &["block", "directory", "runtime", "vfs"]),
    ("vnode", &["block", "cache", "directory", "namespace", "planted", "runtime", "vfs"]),
];

/// Words of one engine, which sources of a crate below it do not use.
const WORDS: &[(&str, &[&str])] = &[("cow", &["anchor", "anchors", "superblock", "zone", "zones"])];

/// Dependencies in a crate's manifest.
#[derive(Debug, Default)]
struct Needs {
    /// Path of the manifest.
    path: String,
    /// Dependencies of the crate itself and of its build script, each with its line.
    built: Vec<(String, usize)>,
    /// Dependencies of its tests.
    tested: Vec<(String, usize)>,
}

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    check_words(tree, findings);
    let mut crates = BTreeMap::new();
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = tree.file(&path).and_then(|file| file.text.as_deref()).unwrap_or_default();
        crates.insert(package_name(manifest).unwrap_or(name), Needs { path, ..needs(manifest) });
    }
    for (name, needs) in &crates {
        let path = &needs.path;
        for (need, line) in &needs.built {
            for (who, never, why) in NEVER.iter().filter(|(who, _, _)| who.contains(name)) {
                let reached = never.iter().find(|never| reaches(&crates, need, never));
                if let Some(never) = reached.filter(|_| !who.contains(&need.as_str())) {
                    findings.add(path, *line, edge(name, need, never, why));
                }
            }
            for (reserved, may, why) in RESERVED.iter().filter(|(reserved, ..)| need == reserved) {
                if !may.contains(name) {
                    findings.add(path, *line, edge(name, need, reserved, why));
                }
            }
            let only =
                ONLY.iter().find(|(who, only)| who == name && !only.contains(&need.as_str()));
            if only.is_some() && crates.contains_key(need.as_str()) {
                findings.add(path, *line, edge(name, need, need, "it sits at the bottom"));
            }
        }
        let server = needs.tested.iter().find(|(need, _)| need == "server");
        if let Some((_, line)) = server.filter(|_| PURE.contains(name)) {
            findings.add(path, *line, edge(name, "server", "server", "not even in its tests"));
        }
    }
}

/// Checks that a crate below engines does not know words of one of them.
fn check_words(tree: &Tree, findings: &mut Findings) {
    for (name, never) in WORDS {
        let folder = format!("crates/{name}/src/");
        for (path, text) in tree.texts(&[".rs"]).filter(|(path, _)| path.starts_with(&folder)) {
            for (index, line) in text.lines().enumerate() {
                let mut words = line.split(|c: char| !c.is_alphanumeric());
                let found = words.find(|word| never.iter().any(|it| word.eq_ignore_ascii_case(it)));
                if let Some(word) = found {
                    let what = format!("{name} must not know {word:?}: one engine alone has it");
                    findings.add(path, index + 1, what);
                }
            }
        }
    }
}

fn edge(name: &str, need: &str, never: &str, why: &str) -> String {
    let through = if need == never { String::new() } else { format!(" through {need}") };
    format!("{name} must not depend on {never}{through}: {why}")
}

/// Whether building `from` needs `to`.
fn reaches(crates: &BTreeMap<&str, Needs>, from: &str, to: &str) -> bool {
    let built = crates.get(from).map(|needs| needs.built.as_slice()).unwrap_or_default();
    from == to || built.iter().any(|(need, _)| reaches(crates, need, to))
}

/// Name of the crate for its dependents: its folder may have another name.
fn package_name(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines().skip_while(|line| line.trim() != "[package]");
    lines.find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// The dependencies in a manifest, in any of its notations.
fn needs(manifest: &str) -> Needs {
    let mut needs = Needs::default();
    let mut section = String::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = header.to_owned();
            if let Some((table, name)) = header.rsplit_once("dependencies.") {
                needs.add(&format!("{table}dependencies"), name, index + 1);
            }
            continue;
        }
        if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let key = key.trim().trim_end_matches(".workspace").trim_matches('"');
            let renamed = value.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
            needs.add(&section, renamed.unwrap_or(key), index + 1);
        }
    }
    needs
}

impl Needs {
    /// Notes the key `name` of `section`, if that is a section of dependencies.
    fn add(&mut self, section: &str, name: &str, line: usize) {
        if section.ends_with("dev-dependencies") {
            self.tested.push((name.to_owned(), line));
        } else if section.ends_with("dependencies") {
            self.built.push((name.to_owned(), line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_one_engine_is_found_below_it() {
        let tree = Tree::of(&[
            ("crates/cow/Cargo.toml", ""),
            ("crates/cow/src/one.rs", "//! Blocks.\nfn of(superblock: u64) {}\n// superblocks"),
            ("crates/shadow/src/one.rs", "//! A superblock."),
        ]);
        let mut findings = Findings::default();
        check(&tree, &mut findings);
        let found: Vec<_> = findings.0.into_iter().map(|it| (it.path, it.line)).collect();
        assert_eq!(found, [("crates/cow/src/one.rs".to_owned(), 2)]);
    }

    #[test]
    fn every_way_to_name_a_dependency_is_read() {
        let manifest = "[dependencies]\na.workspace = true\nb = { package = \"c\" }\n# d = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\ne = \"1\"\n[dependencies.f]\n\
                        path = \"x\"\n[dev-dependencies]\ng = \"1\"\n[features]\nh = []\n";
        let needs = needs(manifest);
        let names = |needs: &[(String, usize)]| {
            needs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&needs.built), ["a", "c", "e", "f"]);
        assert_eq!(names(&needs.tested), ["g"]);
    }
}
