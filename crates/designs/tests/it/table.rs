//! Lookup of an entry by its words, its disks and its mark.

use designs::{DESIGNS, Design, DiskRole, FFS_LOG, FFS_SYNC, Table};
use ufs2::mark::PolicyKind;

use crate::PLAIN;

static ALONE: Design = Design { engine: "alone", ..PLAIN };
static WIDER: Table = Table::new(&[&FFS_SYNC, &FFS_LOG, &ALONE]);

#[test]
fn a_design_is_found_by_its_words() {
    for table in [DESIGNS, WIDER] {
        for design in table.all() {
            let found = table.find(Some(design.engine), design.policy);
            assert_eq!(found, Ok(*design));
        }
    }
}

#[test]
fn words_that_are_missing_leave_the_choice_to_the_order() {
    assert_eq!(DESIGNS.find(None, None), Ok(&FFS_LOG));
    assert_eq!(DESIGNS.find(None, Some("sync")), Ok(&FFS_SYNC));
    assert_eq!(WIDER.find(None, None), Ok(&FFS_SYNC));
    assert_eq!(WIDER.find(Some("alone"), None), Ok(&ALONE));
}

#[test]
fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
    let told = |engine, policy| WIDER.find(engine, policy).expect_err("unknown").to_string();
    let expected = "there is no engine 'mirror'; there are these: ffs, alone";
    assert_eq!(told(Some("mirror"), Some("log")), expected);
    let expected = "engine ffs has no policy 'luck'; it has these: sync, log";
    assert_eq!(told(None, Some("luck")), expected);
    let expected = "engine alone has no policies, so it has no policy 'log' either";
    assert_eq!(told(Some("alone"), Some("log")), expected);
}

#[test]
fn a_design_is_found_by_the_disks_that_there_are() {
    let with = |disks: &[DiskRole]| DESIGNS.with_disks("ffs", disks);
    assert_eq!(with(&[DiskRole::Volume]), Some(&FFS_SYNC));
    assert_eq!(with(&[DiskRole::Volume, DiskRole::Log]), Some(&FFS_LOG));
    assert_eq!(with(&[]), None);
}

#[test]
fn a_design_is_found_by_the_mark_of_its_volumes() {
    for &mark in PolicyKind::ALL {
        let found = DESIGNS.marked(mark).expect("every mark has a design");
        assert_eq!(found.policy, Some(mark.name()));
    }
}
