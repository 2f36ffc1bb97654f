//! Comparison of one tree as seen by two readers. `guest/manifest.py` describes the format.

use std::collections::BTreeMap;

/// The fields of a line after its path.
const FIELDS: [&str; 8] = ["type", "mode", "links", "uid", "gid", "size", "mtime", "content"];
/// Value that a reader writes for a field that it cannot know.
const UNKNOWN: &str = "?";
/// Maximum number of differences reported.
const TOLD: usize = 20;

/// The paths that a reader can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// All of them.
    Any,
    /// Those without odd bytes, that is without a percent sign in the manifest.
    Plain,
}

/// The differences between the manifests `found` and `expected`, a line for each; and the number of
/// files compared.
pub(super) fn differences(expected: &str, found: &str, names: Names) -> (Vec<String>, usize) {
    let expected = parse(expected, names);
    let mut found = parse(found, names);
    let mut differences = Vec::new();
    for (path, fields) in &expected {
        match found.remove(path) {
            None => differences.push(format!("{path}: missing")),
            Some(others) => differences.extend(different_field(path, fields, &others)),
        }
    }
    differences.extend(found.keys().map(|path| format!("{path}: there should be none")));
    let more = differences.len().saturating_sub(TOLD);
    if more > 0 {
        differences.truncate(TOLD);
        differences.push(format!("and {more} more"));
    }
    (differences, expected.len())
}

fn different_field(path: &str, expected: &[&str], found: &[&str]) -> Option<String> {
    let fields = FIELDS.iter().zip(expected.iter().zip(found));
    let mut wrong = fields.filter(|(_, (expected, found))| {
        expected != found && **expected != UNKNOWN && **found != UNKNOWN
    });
    let (field, (expected, found)) = wrong.next()?;
    Some(format!("{path}: {field} {found} instead of {expected}"))
}

fn parse(manifest: &str, names: Names) -> BTreeMap<&str, Vec<&str>> {
    let lines = manifest.lines().filter_map(|line| line.split_once('\t'));
    let lines = lines.filter(|(path, _)| names == Names::Any || !path.contains('%'));
    lines.map(|(path, fields)| (path, fields.split('\t').collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = ".\tfolder\t0o755\t2\t0\t0\t512\t7\t-\n\
                        a\tfile\t0o644\t1\t0\t0\t3\t8\tabc\n\
                        b%0A\tlink\t0o777\t1\t0\t0\t1\t9\ta\n";

    #[test]
    fn equal_trees_do_not_differ() {
        assert_eq!(differences(TREE, TREE, Names::Any), (vec![], 3));
    }

    #[test]
    fn what_a_reader_cannot_know_is_no_difference() {
        let found = TREE.replace("\tabc\n", "\t?\n").replace("b%0A\tlink", "b^\tlink");
        let found = found.lines().take(2).collect::<Vec<_>>().join("\n");
        assert_eq!(differences(TREE, &found, Names::Plain), (vec![], 2));
    }

    #[test]
    fn one_wrong_byte_is_told() {
        let found = TREE.replace("\tabc\n", "\tabd\n");
        let (told, _) = differences(TREE, &found, Names::Any);
        assert_eq!(told, ["a: content abd instead of abc"]);
    }

    #[test]
    fn files_too_few_and_too_many_are_told() {
        let found = TREE.replace("\na\t", "\nc\t");
        let (told, _) = differences(TREE, &found, Names::Any);
        assert_eq!(told, ["a: missing", "c: there should be none"]);
    }

    #[test]
    fn of_many_differences_the_first_are_told() {
        let many = (0..50).map(|number| format!("{number}\tfile\n")).collect::<String>();
        let (told, _) = differences(&many, "", Names::Any);
        assert_eq!((told.len(), told[20].as_str()), (21, "and 30 more"));
    }
}
