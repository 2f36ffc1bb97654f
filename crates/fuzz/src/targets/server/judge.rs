//! Whether a cleanly stopped disk is consistent.

use fsck::{CheckOptions, Severity, check};
use sim::{Disk, Executor, Image};

use super::host::open;

/// Checks that the disk opens as clean, and that a full check finds nothing.
pub(super) fn is_whole(executor: &Executor, image: Image) {
    let opened = executor.block_on(open(executor, Disk::new(executor, image.clone()), true));
    let opened = opened.unwrap_or_else(|error| panic!("a disk that was stopped cleanly: {error}"));
    assert!(opened.rebuilt.is_none(), "what was stopped cleanly is clean");

    let disk = Disk::new(executor, image);
    let options = CheckOptions { full: true, ..CheckOptions::default() };
    let runtime = executor.runtime();
    let report = executor.block_on(check(&*disk, &runtime, &options, &mut |_| ()));
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let wrong = report.findings.list.iter().filter(|finding| finding.severity > Severity::Note);
    let wrong: Vec<_> = wrong.map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "a disk that was stopped cleanly: {wrong:?}");
}
