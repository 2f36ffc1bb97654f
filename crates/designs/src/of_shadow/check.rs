//! A check of a volume of engine `shadow`, as every check is told.

use std::rc::Rc;

use block::BlockDevice;
use runtime::Runtime;
use shadow::format::UNIT;
use shadow::{Law, Wrong};

use super::bring_to_rest;
use crate::errors::CheckError;
use crate::options::CheckOptions;
use crate::report::{DataPlace, Finding, Findings, Place, Progress, Report, Rule, Severity};

impl From<Law> for Rule {
    fn from(law: Law) -> Self {
        Self { name: law.name(), sentence: law.sentence() }
    }
}

/// How bad it is when a law does not hold.
fn severity(law: Law) -> Severity {
    match law {
        Law::Rest => Severity::Note,
        Law::Counts | Law::Map | Law::Listed | Law::Links => Severity::Repairable,
        Law::Block
        | Law::Birth
        | Law::Once
        | Law::Inode
        | Law::Size
        | Law::Entry
        | Law::Target
        | Law::Way
        | Law::Data => Severity::Loss,
    }
}

/// The part of a volume of which a law is, if it is not that of a file.
fn part(law: Law) -> &'static str {
    match law {
        Law::Rest => "volume",
        Law::Counts => "superblock",
        Law::Map => "map",
        _ => "metadata",
    }
}

/// As it is told of a volume with blocks of so many bytes.
fn finding(wrong: Wrong, block_size: u64) -> Finding {
    let Wrong { law, ino, path, block, found, expected } = wrong;
    let data = block.map(|(lbn, unit)| DataPlace {
        offset: lbn * block_size,
        at: unit * UNIT as u64,
        length: block_size,
    });
    let name = ino.is_none().then(|| part(law).to_owned());
    let place = Place { ino, block: block.map(|(lbn, _)| lbn), name, ..Place::default() };
    let severity = severity(law);
    Finding { rule: law.into(), severity, place, data, path, found, expected, repair: None }
}

/// That a volume was cut off.
fn cut_off() -> Finding {
    Finding {
        rule: Law::Rest.into(),
        severity: severity(Law::Rest),
        place: Place { name: Some(part(Law::Rest).to_owned()), ..Place::default() },
        data: None,
        path: None,
        found: "that it was cut off".to_owned(),
        expected: "a stop".to_owned(),
        repair: Some("bring it back, and stop it"),
    }
}

/// Looks at all of a volume. If a repair is wanted, one that was only cut off is brought back.
pub(super) async fn check(
    device: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let seen = shadow::look(&**device).await.map_err(CheckError::new)?;
    let mut tell = |done, total| progress(Progress { phase: "files", round: 1, done, total });
    let found = shadow::check(device.clone(), options.full, &mut tell).await;
    let found = found.map_err(CheckError::new)?;
    let is_damaged = !found.wrong.is_empty();
    let mut counts: Vec<(Rule, u64)> =
        found.counts.iter().map(|(&law, &count)| (law.into(), count)).collect();
    let mut list: Vec<Finding> =
        found.wrong.into_iter().map(|wrong| finding(wrong, seen.block_size)).collect();
    if !found.is_at_rest {
        counts.insert(0, (Law::Rest.into(), 1));
        list.insert(0, cut_off());
    }
    let worst = list.iter().map(|finding| finding.severity).max();
    let findings = Findings { list, counts, worst, unrepairable: is_damaged, damaged: is_damaged };
    let repaired = options.repair && !found.is_at_rest && !is_damaged;
    if repaired {
        bring_to_rest(device, runtime).await.map_err(CheckError::new)?;
    }
    Ok(Report {
        findings,
        was_unclean: !found.is_at_rest,
        files: found.files,
        directories: found.directories,
        held_bytes: found.held_bytes,
        repaired,
        ..Report::default()
    })
}
