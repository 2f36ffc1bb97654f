//! Every meaningful byte is damaged, in several ways, and the checker detects it.
//!
//! For each of some disks: every byte of the superblock, of copies, group blocks, the summary area,
//! of inodes and directory chunks, pointers, and whole blocks of metadata, each *raw* and *sealed*,
//! that is with a matching check hash. The checker's result for each is judged (see
//! `damage::judge`), and counted: *detected*; *harmless*, if the bytes are never read;
//! *undetectable*, if any value of them is legal; and *missed*. There must be no missed ones.
//!
//! An ordinary run takes a sample. For all damages, with every repaired disk checked by the
//! independent checker: `DURAMEN_RUNS=1 cargo test --release -p ffs --test it mutations`; another
//! number N takes every Nth damage. `DURAMEN_CASE=BASE/NUMBER` takes one alone, in both forms.

use std::collections::BTreeSet;

use fsck::{CheckError, CheckOptions, Invariant, check};
use ufs2::layout::{Dinode, ROOT_INODE};

use crate::common::edit::inode_byte;
use crate::common::{MemoryDisk, World};
use crate::damage::base::Base;
use crate::damage::cases;
use crate::damage::invariants::PROOFS;
use crate::damage::judge::{Outcome, compare, examine, judge, lines};
use crate::damage::map::Owner;
use crate::damage::mutation::{Mutation, Structure, Touched};
use crate::damage::oracle::Oracle;
use crate::damage::table::Table;

/// An ordinary run takes one damage in `STRIDE`, and shows about one repaired disk in `SHOWN`.
const STRIDE: usize = 401;
/// A check without one of its invariants gets one damage in `SPREAD`.
const SPREAD: usize = 33_331;
const SHOWN: usize = 10;
/// Maximum number of failures that are described, and of lines for each.
const DESCRIBED: usize = 2000;
const LINES: usize = 12;

/// The damages of a base to take.
struct Choice {
    stride: usize,
    only: Option<usize>,
}

impl Choice {
    fn of(base: &str) -> Option<Self> {
        let stride = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok());
        let stride = stride.unwrap_or(STRIDE).max(1);
        let Ok(only) = std::env::var("DURAMEN_CASE") else {
            return Some(Self { stride, only: None });
        };
        let (name, number) = only.split_once('/').expect("DURAMEN_CASE=BASE/NUMBER");
        let number = number.parse().expect("a number");
        (name == base).then_some(Self { stride: 1, only: Some(number) })
    }

    /// Damages composed by hand are always taken.
    fn takes(&self, index: usize, case: &Mutation) -> bool {
        let sampled = index.is_multiple_of(self.stride) || case.structure == Structure::Composed;
        self.only.map_or(sampled, |only| only == index)
    }
}

fn run(base: &Base) {
    let Some(choice) = Choice::of(base.name) else { return };
    let overwrites = if choice.stride < STRIDE { 10_000 } else { 30_000 };
    let cases = cases::all(base, overwrites);
    let mut oracle = Oracle::new(base);
    let mut table = Table::default();
    let mut failures = Vec::new();
    let (mut judged, mut repaired) = (0, 0);
    for (index, case) in cases.iter().enumerate() {
        if !choice.takes(index, case) {
            continue;
        }
        for sealed in [false, true] {
            judged += 1;
            let form = if sealed { "sealed" } else { "raw" };
            let mut fail = |wrong: String| {
                let wrong = wrong.lines().take(LINES).collect::<Vec<_>>().join("\n");
                failures
                    .push(format!("DURAMEN_CASE={}/{index} {form} {case}\n  {wrong}", base.name));
            };
            let result = match judge(base, case, sealed) {
                Ok(result) => result,
                Err(wrong) => {
                    fail(wrong);
                    continue;
                }
            };
            table.add(case.structure, sealed, &result.outcome);
            if result.outcome == Outcome::Missed {
                fail(format!("it was missed: {:?}", case.owners(base)));
            }
            let Some(disk) = result.repaired else { continue };
            repaired += 1;
            if choice.stride < STRIDE || repaired % SHOWN == 0 {
                let wrong = oracle.as_mut().map_or(String::new(), |it| it.ask(base, &disk));
                if !wrong.is_empty() {
                    fail(format!("the independent checker: {wrong}"));
                }
            }
        }
    }
    println!("{}: {judged} of {} damages\n{table}", base.name, 2 * cases.len());
    let count = failures.len();
    let shown: Vec<String> = failures.into_iter().take(DESCRIBED).collect();
    assert!(count == 0, "{count} failures:\n{}", shown.join("\n"));
}

#[test]
fn damage_to_small_blocks_is_seen_and_repaired() {
    run(&Base::small_blocks());
}

#[test]
fn damage_to_large_blocks_is_seen_and_repaired() {
    run(&Base::large_blocks());
}

#[test]
fn damage_to_a_disk_of_freebsd_is_seen_and_repaired() {
    if let Some(base) = Base::freebsd() {
        run(&base);
    }
}

/// Findings of a check without one invariant; if there is no file system, there are none.
fn found_without(disk: &MemoryDisk, without: Option<Invariant>) -> BTreeSet<Invariant> {
    match examine(disk, false, without) {
        Ok(report) => report.findings.counts.keys().copied().collect(),
        Err(CheckError::Superblock(_)) => BTreeSet::new(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_invariant_sees_what_no_other_sees() {
    let base = Base::small_blocks();
    let cases = cases::all(&base, 0);
    // These have tests of their own: they need an unreadable disk, or a log.
    let mut proven = BTreeSet::from([Invariant::Data, Invariant::Readable, Invariant::LogHome]);
    for proof in PROOFS {
        let label = proof.label;
        let case = cases.iter().find(|case| case.label == label);
        let disk = case.unwrap_or_else(|| panic!("no case {label}")).apply(&base, proof.sealed);
        let invariant = proof.invariant;
        let found = found_without(&disk, None);
        assert!(found.contains(&invariant), "{label}: {invariant:?} is not in {found:?}");
        let without = found_without(&disk, Some(invariant));
        assert!(without.is_empty(), "{label}: without {invariant:?} there is {without:?}");
        proven.insert(invariant);
    }
    assert!(Invariant::ALL.iter().all(|invariant| proven.contains(invariant)));
}

#[test]
fn only_a_full_check_sees_data_that_cannot_be_read() {
    let base = Base::small_blocks();
    let data = base.map.fragments(|owner| matches!(owner, Owner::Data(..)));
    let last = *data.last().expect("there are files");
    let disk = base.disk.fork();
    let byte = base.geometry.byte_address(last);
    disk.spoil(byte..byte + base.geometry.fragment_size);
    let found = |full, without| {
        let world = World::new(1);
        let options = CheckOptions { full, without, ..CheckOptions::default() };
        let report = world.run(check(&disk, &world.runtime(), &options, &mut |_| ()));
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        report.findings.counts.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(found(true, None), [Invariant::Data]);
    assert_eq!(found(true, Some(Invariant::Data)), []);
    assert_eq!(found(false, None), []);
}

#[test]
fn no_invariant_is_needed_for_a_check_to_end() {
    let base = Base::small_blocks();
    let cases = cases::all(&base, 3000);
    for (index, &without) in Invariant::ALL.iter().enumerate() {
        // A prime step, with a new start for each, so that each gets different damages.
        for case in cases.iter().skip(index).step_by(SPREAD) {
            for sealed in [false, true] {
                let _ = examine(&case.apply(&base, sealed), true, Some(without));
            }
        }
    }
}

/// A field that can be derived from the rest of the disk is not lost.
#[test]
fn what_follows_from_the_rest_comes_back() {
    let base = Base::large_blocks();
    let size = std::mem::offset_of!(Dinode, size) as u64;
    let link = base.files.iter().find(|(_, file)| file.paths[0] == "/long-link").expect("planted");
    for (ino, wrong) in [(ROOT_INODE, 1 << 55), (ROOT_INODE, 0), (*link.0, 309)] {
        let at = inode_byte(&base.geometry, ino) + size;
        let label = format!("inode {ino} size becomes {wrong}");
        let bytes = u64::to_le_bytes(wrong).to_vec();
        let disk = Mutation::new(Structure::InodeDirectory, label, at, bytes).apply(&base, true);
        let report = examine(&disk, true, None).expect("it is repaired");
        assert!(report.findings.total() > 0);
        compare(&base, &disk, &Touched::default())
            .unwrap_or_else(|wrong| panic!("inode {ino}: {wrong}{}", lines(&report)));
    }
}

/// Without one of its rules the checker is judged wrong: the judge detects it.
#[test]
fn a_checker_that_overlooks_something_is_found_out() {
    let base = Base::small_blocks();
    let cases = cases::all(&base, 0);
    for without in [Invariant::Duplicate, Invariant::BlockCount, Invariant::FragmentMap] {
        let proof = PROOFS.iter().find(|proof| proof.invariant == without).expect("all have one");
        let case = cases.iter().find(|case| case.label == proof.label).expect("proven above");
        let disk = case.apply(&base, true);
        examine(&disk, true, Some(without)).expect("it ends");
        let again = examine(&disk, false, None).expect("it ends");
        assert!(again.findings.total() > 0, "{without:?}");
        let mut oracle = Oracle::new(&base);
        if let Some(oracle) = &mut oracle {
            assert_ne!(oracle.ask(&base, &disk), "", "{without:?}");
        }
    }
}

/// A repair that harms a file is detected by comparing all files.
#[test]
fn a_repair_that_harms_a_file_is_found_out() {
    let base = Base::small_blocks();
    let ino = base.files.iter().find(|(_, file)| file.paths[0] == "/tail").expect("planted").0;
    for (what, owner) in [("its content", Owner::Data(*ino, 0)), ("its inode", Owner::Nothing)] {
        let at = match base.map.fragments(|one| one == owner && owner != Owner::Nothing).first() {
            Some(&fragment) => base.geometry.byte_address(fragment),
            None => inode_byte(&base.geometry, *ino) + 4, // the owner
        };
        let harm = Mutation::new(Structure::InodeRegular, what.into(), at, vec![0x55]);
        let disk = harm.apply(&base, true);
        let wrong = compare(&base, &disk, &Touched::default());
        assert!(wrong.is_err(), "{what}");
    }
}
