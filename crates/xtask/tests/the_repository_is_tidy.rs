//! This repository has no findings.

use xtask::{Repository, tidy};

#[test]
fn the_repository_is_tidy() {
    let findings = tidy::check(Repository::here().unwrap().root()).unwrap();
    let list = findings.iter().map(|finding| format!("{finding}\n")).collect::<String>();
    assert!(findings.is_empty(), "\n{list}");
}
