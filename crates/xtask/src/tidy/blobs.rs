//! A clone stays small: tests create the large files that they need.

use super::Findings;
use super::tree::Tree;

const BYTES: u64 = 1 << 20;

pub(super) fn check(tree: &Tree, findings: &mut Findings) {
    for file in tree.files.iter().filter(|file| file.size > BYTES) {
        let what =
            format!("{} bytes: a file may have {BYTES}; make it when it is needed", file.size);
        findings.add(&file.path, 1, what);
    }
}
