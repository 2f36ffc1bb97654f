//! A check of a volume of engine `lfs`, reported in the table's types.

use std::rc::Rc;

use block::BlockDevice;
use cow::UNIT;
use lfs::{Law, Wrong};
use runtime::Runtime;

use super::{bring_to_rest, unchecked};
use crate::errors::{CheckError, OpenError};
use crate::options::CheckOptions;
use crate::report::{DataPlace, Finding, Findings, Place, Progress, Report, Rule, Severity};

impl From<Law> for Rule {
    fn from(law: Law) -> Self {
        Self { name: law.name(), sentence: law.sentence() }
    }
}

/// Severity of a violation of a law.
fn severity(law: Law) -> Severity {
    match law {
        Law::Rest => Severity::Note,
        Law::Counts | Law::Table | Law::Links | Law::Twice | Law::Lists | Law::Dead => {
            Severity::Repairable
        }
        Law::Log
        | Law::Lines
        | Law::Block
        | Law::Once
        | Law::Inode
        | Law::Size
        | Law::Entry
        | Law::Target
        | Law::Data => Severity::Loss,
    }
}

/// The repair of a violation, if there is one. The trees of snapshots are not repaired.
fn repair_of(wrong: &Wrong) -> Option<&'static str> {
    match wrong.law {
        Law::Log => Some("give up the log from there on"),
        Law::Lines => Some("forget the snapshots on it"),
        Law::Counts => Some("count what is there"),
        Law::Table => Some("make the table anew from what is held"),
        Law::Lists | Law::Dead => Some("make the lists anew from what is held"),
        Law::Twice => Some("write it again from the other copy"),
        _ if wrong.snapshot.is_some() => None,
        Law::Links => Some("count the names, or give it one in /lost+found"),
        Law::Target => Some("remove the name"),
        Law::Inode => Some("clear it"),
        Law::Block if wrong.ino.is_none() => Some("take it out of its tree"),
        Law::Size if wrong.block.is_none() => Some("count its blocks"),
        _ => None,
    }
}

/// Converts a violation to a finding. `block_size` is that of the volume, in bytes.
fn finding(wrong: Wrong, block_size: u64) -> Finding {
    let Wrong { law, ino, path, snapshot, block, found, expected } = wrong;
    let data = block.filter(|_| law == Law::Data).map(|(lbn, address)| DataPlace {
        offset: lbn * block_size,
        at: address * UNIT as u64,
        length: block_size,
    });
    let name = ino.is_none().then(|| "metadata".to_owned());
    let place = Place { ino, block: block.map(|(lbn, _)| lbn), name, ..Place::default() };
    let (rule, severity) = (law.into(), severity(law));
    let repair = None;
    Finding { rule, severity, place, data, snapshot, path, found, expected, repair }
}

/// Finding that a volume was cut off.
fn cut_off() -> Finding {
    Finding {
        rule: Law::Rest.into(),
        severity: severity(Law::Rest),
        place: Place { name: Some("volume".to_owned()), ..Place::default() },
        data: None,
        snapshot: None,
        path: None,
        found: "that it was cut off".to_owned(),
        expected: "a stop".to_owned(),
        repair: Some("bring it back, and stop it"),
    }
}

/// Checks a whole volume. On request a cut-off volume is recovered, and violations with a repair
/// are repaired.
pub(super) async fn check(
    device: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let seen = lfs::look(&**device).await.map_err(unchecked)?;
    let mut look = async |round| {
        let mut tell = |done, total| progress(Progress { phase: "files", round, done, total });
        lfs::check(device.clone(), runtime, options.full, &mut tell).await.map_err(unchecked)
    };
    let found = look(1).await?;
    let is_damaged = !found.wrong.is_empty();
    let mut left: Vec<Wrong> =
        found.wrong.iter().filter(|wrong| repair_of(wrong).is_none()).cloned().collect();
    let can_repair = left.len() < found.wrong.len();
    let (mut repaired, mut unrepaired) = (false, None);
    if options.repair && can_repair {
        match lfs::repair(device.clone(), runtime.clone()).await {
            Ok(()) => (left, repaired) = (look(2).await?.wrong, true),
            Err(error) => {
                (left, unrepaired) =
                    (found.wrong.clone(), Some(OpenError::from(error).to_string()));
            }
        }
    } else if options.repair && !found.is_at_rest && !is_damaged {
        bring_to_rest(device, runtime).await.map_err(CheckError::new)?;
        repaired = true;
    }
    let mut counts: Vec<(Rule, u64)> =
        found.counts.iter().map(|(&law, &count)| (law.into(), count)).collect();
    let is_left = |wrong: &Wrong| {
        let is_it = |it: &Wrong| {
            let is_place = (it.ino, it.block) == (wrong.ino, wrong.block);
            is_place && it.law == wrong.law && it.snapshot == wrong.snapshot
        };
        left.iter().any(is_it)
    };
    let told = |wrong: Wrong| {
        let repair = repair_of(&wrong).filter(|_| !is_left(&wrong));
        Finding { repair, ..finding(wrong, seen.block_size) }
    };
    let mut list: Vec<Finding> = found.wrong.into_iter().map(told).collect();
    if !found.is_at_rest {
        counts.insert(0, (Law::Rest.into(), 1));
        list.insert(0, cut_off());
    }
    let worst = list.iter().map(|finding| finding.severity).max();
    let unrepairable = !left.is_empty();
    let findings = Findings { list, counts, worst, unrepairable, damaged: is_damaged };
    Ok(Report {
        findings,
        was_unclean: !found.is_at_rest,
        files: found.files,
        directories: found.directories,
        held_bytes: found.held_bytes,
        repaired,
        unrepaired,
        ..Report::default()
    })
}
