//! The campaign of repeated calls.

use torture::campaign::Options;
use torture::campaign::retry::{Expectation, retry};
use torture::explore::design::Design;

const OPTIONS: Options = Options::short(Design::SYNC, 2);

#[test]
fn a_cache_in_memory_does_not_give_the_original_answer_across_a_cut() {
    let outcome = retry(&OPTIONS, Expectation::Original);
    let fails = |name: &str| outcome.violations.iter().any(|line| line.contains(name));
    for name in ["CREATE GUARDED: ", "MKDIR: ", "SYMLINK: ", "MKNOD: ", "REMOVE: ", "RMDIR: "] {
        assert!(fails(name), "{name}{:?}", outcome.violations);
    }
    assert!(fails("RENAME: ") && fails("LINK: ") && fails("SETATTR with a guard: "));
}
