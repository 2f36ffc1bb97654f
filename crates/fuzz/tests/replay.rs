//! Every kept input passes.

use fuzz::{TARGETS, corpus, harness};

#[test]
fn inputs_that_are_kept_pass() {
    for target in TARGETS {
        let kept = corpus::load(target).expect("the repository can be read");
        let inputs = kept.iter().map(|kept| kept.input.clone()).collect();
        if let Some(failure) = harness::replay(target, inputs).failure {
            let path = kept[failure.case as usize].path.display();
            panic!(
                "{} with {path} {}; again: cargo xtask fuzz {} --input {path}",
                target.name, failure.fault, target.name
            );
        }
    }
}

#[test]
fn every_target_has_inputs_to_start_from() {
    for target in TARGETS {
        let kept = corpus::load(target).expect("the repository can be read");
        assert!(kept.len() >= 5, "{} has {} inputs that are kept", target.name, kept.len());
        let longest = kept.iter().map(|kept| kept.input.len()).max();
        assert!(longest <= Some(16 << 10), "{}: small inputs alone are kept", target.name);
    }
}

/// The coverage-guided fuzzer runs the same functions: it has one file for each target, and no
/// others.
#[test]
fn every_target_has_its_file_for_coverage() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let mut found: Vec<_> = files
        .map(|file| file.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut expected: Vec<_> =
        TARGETS.iter().map(|target| format!("{}.rs", target.name.replace('-', "_"))).collect();
    expected.sort();
    assert_eq!(found, expected);
}
