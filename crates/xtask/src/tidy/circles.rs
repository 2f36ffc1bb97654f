//! Modules import downwards: no two neighbours need each other, directly or through others.
//!
//! Neighbours are the modules of one parent. A module includes everything below it, and imports of
//! children from their parent are free: these are shared items. A name that a parent re-exports
//! counts as imported from its origin. Tests may import anything.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;
use super::{Findings, rust};

/// A module by its names, from the root of its crate on.
type Module<'a> = Vec<&'a str>;

/// The modules of a crate.
struct Modules<'a> {
    /// File of each module.
    files: BTreeMap<Module<'a>, &'a str>,
    /// Imports of each module.
    imports: BTreeMap<Module<'a>, Vec<Import<'a>>>,
}

/// A path that a module names.
struct Import<'a> {
    line: usize,
    path: Vec<&'a str>,
    /// Name of the imported item in the module.
    name: &'a str,
}

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for name in tree.crates() {
        let modules = Modules::of(tree, name);
        let needs = modules.needs();
        for parent in modules.files.keys() {
            modules.judge(parent, &needs, findings);
        }
    }
}

impl<'a> Modules<'a> {
    fn of(tree: &'a Tree, name: &str) -> Self {
        let folder = format!("crates/{name}/src/");
        let (mut files, mut imports) = (BTreeMap::new(), BTreeMap::new());
        for (path, code) in tree.codes() {
            let Some(module) = path.strip_prefix(&folder).and_then(module_of) else { continue };
            files.insert(module.clone(), path);
            imports
                .entry(module)
                .or_insert_with(Vec::new)
                .extend(imports_of(rust::without_tests(code)));
        }
        Self { files, imports }
    }

    /// The needs between modules, each with its line.
    fn needs(&self) -> Vec<(&Module<'a>, Module<'a>, usize)> {
        let mut needs = Vec::new();
        for (module, imports) in &self.imports {
            for import in imports {
                if let Some(target) = self.target(module, &import.path, 0) {
                    needs.push((module, target, import.line));
                }
            }
        }
        needs
    }

    /// Checks for circles among the children of a module.
    fn judge(
        &self,
        parent: &[&'a str],
        all: &[(&Module<'a>, Module<'a>, usize)],
        findings: &mut Findings,
    ) {
        let mut needs: BTreeMap<&str, BTreeMap<&str, (&str, usize)>> = BTreeMap::new();
        for (module, target, line) in all {
            if let (Some(&child), Some(&other)) =
                (child_of(parent, module), child_of(parent, target))
                && child != other
            {
                let place = (self.files[*module], *line);
                needs.entry(child).or_default().entry(other).or_insert(place);
            }
        }
        for (&from, targets) in &needs {
            for (&to, (path, line)) in targets.iter().filter(|(to, _)| reaches(&needs, to, from)) {
                let what = format!(
                    "{from} imports {to}, which needs {from}: let what both need be below both"
                );
                findings.add(path, *line, what);
            }
        }
    }

    /// The module that a path in `from` leads to; `None` where it leads out of the crate.
    fn target(&self, from: &[&'a str], path: &[&'a str], depth: usize) -> Option<Module<'a>> {
        let mut rest = path;
        let mut module = match rest.first()? {
            &"crate" => Vec::new(),
            &("self" | "super") => from.to_vec(),
            first if self.files.contains_key(&[from, &[first]].concat()) => from.to_vec(),
            _ => return None,
        };
        while let Some((&first, behind)) = rest.split_first() {
            match first {
                "crate" | "self" => {}
                "super" => _ = module.pop()?,
                first if self.files.contains_key(&[&module[..], &[first]].concat()) => {
                    module.push(first);
                }
                item => {
                    // The parent may re-export it from elsewhere.
                    let handed = self.imports[&module].iter().find(|import| import.name == item);
                    let Some(handed) = handed.filter(|_| depth < 8) else { return Some(module) };
                    let target = self.target(&module, &handed.path, depth + 1);
                    return target.or(Some(module));
                }
            }
            rest = behind;
        }
        Some(module)
    }
}

/// Whether `from` needs `to`, directly or through others.
fn reaches<T>(needs: &BTreeMap<&str, BTreeMap<&str, T>>, from: &str, to: &str) -> bool {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(module) = waiting.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            waiting.extend(needs.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    false
}

/// The child of `parent` that contains a module.
fn child_of<'m, 'a>(parent: &[&'a str], module: &'m [&'a str]) -> Option<&'m &'a str> {
    module.strip_prefix(parent).and_then(<[_]>::first)
}

/// The module of a file, from the folder of sources on; `None` for tests.
fn module_of(path: &str) -> Option<Module<'_>> {
    let mut names = path.strip_suffix(".rs")?.split('/').collect::<Vec<_>>();
    if matches!(names.as_slice(), ["lib" | "main"]) || names.last() == Some(&"mod") {
        names.pop();
    }
    (names.last() != Some(&"tests") && names.first() != Some(&"bin")).then_some(names)
}

/// The paths in code: its imports, and those that begin at the root of the crate or at the parent.
fn imports_of(code: &str) -> Vec<Import<'_>> {
    let tokens = rust::tokens(code);
    let mut imports = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].1 {
            "use" if tokens.get(at + 1).is_some_and(|(_, next)| *next != "<") => {
                at = tree(&tokens, at + 1, &[], &mut imports);
            }
            "crate" | "super" if is_path(&tokens, at) => {
                let (line, start) = (tokens[at].0, at);
                let mut path = vec![tokens[at].1];
                while is_path(&tokens, at) && at + 3 < tokens.len() {
                    at += 3;
                    path.push(tokens[at].1);
                }
                imports.push(Import { line, path, name: "" }); // it is re-exported to no module
                at = at.max(start + 1);
            }
            _ => at += 1,
        }
    }
    imports
}

/// Whether `::` follows.
fn is_path(tokens: &[(usize, &str)], at: usize) -> bool {
    matches!(tokens.get(at + 1..at + 3), Some([(_, ":"), (_, ":")]))
}

/// Reads a tree of imports, which begins at `at` after `prefix`. Returns its end.
fn tree<'a>(
    tokens: &[(usize, &'a str)],
    mut at: usize,
    prefix: &[&'a str],
    imports: &mut Vec<Import<'a>>,
) -> usize {
    let mut path = prefix.to_vec();
    let mut name = None;
    while let Some(&(line, token)) = tokens.get(at) {
        match token {
            ":" => at += 1,
            "as" => {
                name = tokens.get(at + 1).map(|(_, name)| *name);
                at += 2;
            }
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|(_, token)| !matches!(*token, "}" | ";")) {
                    at = tree(tokens, at, &path, imports);
                    at += usize::from(tokens.get(at).is_some_and(|(_, token)| *token == ","));
                }
                return at + 1;
            }
            ";" | "," | "}" => {
                if path.last() == Some(&"self") && path.len() > 1 {
                    path.pop();
                }
                let name = name.or(path.last().copied()).unwrap_or_default();
                imports.push(Import { line, path, name });
                return at;
            }
            word => {
                path.push(word);
                at += 1;
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read_whatever_their_form() {
        let code = "use crate::a::{self, b::C, d as e};\npub use f::*;\nlet x = super::g::h();\n\
                    use super::{I, j::{K, L}};\n";
        let read = imports_of(code);
        let paths: Vec<_> = read.iter().map(|import| import.path.join("::")).collect();
        let all = [
            "crate::a",
            "crate::a::b::C",
            "crate::a::d",
            "f::*",
            "super::g::h",
            "super::I",
            "super::j::K",
            "super::j::L",
        ];
        assert_eq!(paths, all);
        assert_eq!(read[2].name, "e");
        assert_eq!(read[5].line, 4);
    }

    #[test]
    fn a_file_is_a_module_of_its_folder() {
        assert_eq!(module_of("policy/log/mod.rs"), Some(vec!["policy", "log"]));
        assert_eq!(module_of("lib.rs"), Some(vec![]));
        assert_eq!(module_of("a/tests.rs"), None);
    }
}
