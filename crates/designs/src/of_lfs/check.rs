//! A check of a volume of engine `lfs`, reported in the table's types.

use std::rc::Rc;

use block::BlockDevice;
use cow::UNIT;
use lfs::{Law, Wrong};
use runtime::Runtime;

use super::{bring_to_rest, unchecked};
use crate::errors::CheckError;
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
        Law::Block | Law::Once | Law::Inode | Law::Size | Law::Entry | Law::Target | Law::Data => {
            Severity::Loss
        }
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

/// Checks a whole volume. On request a cut-off volume is recovered.
pub(super) async fn check(
    device: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
    options: &CheckOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    let seen = lfs::look(&**device).await.map_err(unchecked)?;
    let mut tell = |done, total| progress(Progress { phase: "files", round: 1, done, total });
    let checked = lfs::check(device.clone(), runtime, options.full, &mut tell).await;
    let found = checked.map_err(unchecked)?;
    let is_damaged = !found.wrong.is_empty();
    let repaired = options.repair && !found.is_at_rest && !is_damaged;
    if repaired {
        bring_to_rest(device, runtime).await.map_err(CheckError::new)?;
    }
    let mut counts: Vec<(Rule, u64)> =
        found.counts.iter().map(|(&law, &count)| (law.into(), count)).collect();
    let told = |wrong: Wrong| finding(wrong, seen.block_size);
    let mut list: Vec<Finding> = found.wrong.into_iter().map(told).collect();
    if !found.is_at_rest {
        counts.insert(0, (Law::Rest.into(), 1));
        list.insert(0, cut_off());
    }
    let worst = list.iter().map(|finding| finding.severity).max();
    let findings = Findings { list, counts, worst, unrepairable: is_damaged, damaged: is_damaged };
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
