//! A check of a volume of engine `shadow`, reported in the table's types.

use std::rc::Rc;

use block::BlockDevice;
use cow::UNIT;
use runtime::Runtime;
use shadow::check::NAMELESS;
use shadow::{Law, Wrong};

use super::{bring_to_rest, unrepaired as why};
use crate::errors::CheckError;
use crate::options::CheckOptions;
use crate::report::{DataPlace, Finding, Findings, Place, Progress, Report, Rule, Severity};

impl From<Law> for Rule {
    fn from(law: Law) -> Self {
        Self { name: law.name(), sentence: law.sentence() }
    }
}

/// Severity of a violation. A file is lost with its last name, even if its bytes remain; and the
/// tree of a snapshot is not repaired.
fn severity_of(wrong: &Wrong) -> Severity {
    let stays = wrong.found == NAMELESS || wrong.snapshot.is_some();
    if wrong.law == Law::Links && stays { Severity::Loss } else { severity(wrong.law) }
}

/// Severity of a violation of a law.
fn severity(law: Law) -> Severity {
    match law {
        Law::Rest => Severity::Note,
        Law::Anchor | Law::Counts | Law::Map | Law::Listed | Law::Links | Law::Twice => {
            Severity::Repairable
        }
        Law::Block
        | Law::Birth
        | Law::Once
        | Law::Line
        | Law::Root
        | Law::Inode
        | Law::Size
        | Law::Entry
        | Law::Target
        | Law::Way
        | Law::Data => Severity::Loss,
    }
}

/// Name of the part of a volume that a law concerns, if it is not a file.
fn part(law: Law) -> &'static str {
    match law {
        Law::Rest => "volume",
        Law::Anchor => "anchor",
        Law::Counts => "superblock",
        Law::Map => "map",
        _ => "metadata",
    }
}

/// Converts a violation to a finding. `block_size` is that of the volume, in bytes.
fn finding(wrong: Wrong, block_size: u64) -> Finding {
    let severity = severity_of(&wrong);
    let Wrong { law, snapshot, ino, path, block, found, expected } = wrong;
    let data = block.map(|(lbn, unit)| DataPlace {
        offset: lbn * block_size,
        at: unit * UNIT as u64,
        length: block_size,
    });
    let name = ino.is_none().then(|| part(law).to_owned());
    let place = Place { ino, block: block.map(|(lbn, _)| lbn), name, ..Place::default() };
    let (rule, repair) = (law.into(), None);
    Finding { rule, severity, place, data, snapshot, path, found, expected, repair }
}

/// Finding that a volume was cut off.
fn cut_off() -> Finding {
    Finding {
        rule: Law::Rest.into(),
        severity: severity(Law::Rest),
        place: Place { name: Some(part(Law::Rest).to_owned()), ..Place::default() },
        data: None,
        snapshot: None,
        path: None,
        found: "that it was cut off".to_owned(),
        expected: "a stop".to_owned(),
        repair: Some("bring it back, and stop it"),
    }
}

/// The repair of a violation, if there is one. The trees of snapshots are not repaired.
fn repair_of(wrong: &Wrong) -> Option<&'static str> {
    match wrong.law {
        Law::Anchor => Some("write them anew"),
        Law::Counts => Some("count what there is"),
        Law::Map => Some("make the map anew of what is held"),
        Law::Listed => Some("make the lists anew of what is held"),
        Law::Line => Some("forget the snapshot"),
        Law::Root if wrong.snapshot.is_some() => Some("delete the snapshot, since no way leads in"),
        Law::Twice => Some("write it again of the other copy"),
        _ if wrong.snapshot.is_some() => None,
        Law::Root => Some("begin a new one"),
        Law::Links if wrong.found == NAMELESS => Some("give it a name in /lost+found"),
        Law::Links => Some("count the names"),
        Law::Once if wrong.ino.is_some() => Some("give it a block of its own, or none"),
        Law::Target => Some("take the name away"),
        Law::Inode => Some("clear it"),
        Law::Block if wrong.ino.is_none() => Some("take it out of its tree"),
        _ => None,
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
    let seen = shadow::look(&**device).await.map_err(CheckError::new)?;
    let mut look = async |round| {
        let mut tell = |done, total| progress(Progress { phase: "files", round, done, total });
        shadow::check(device.clone(), options.full, &mut tell).await.map_err(CheckError::new)
    };
    let found = look(1).await?;
    let is_damaged = !found.wrong.is_empty();
    let mut left: Vec<Wrong> =
        found.wrong.iter().filter(|wrong| repair_of(wrong).is_none()).cloned().collect();
    let can_repair = left.len() < found.wrong.len();
    let (mut repaired, mut unrepaired) = (false, None);
    if options.repair && can_repair {
        match shadow::repair(device.clone(), runtime.clone()).await {
            Ok(()) => {
                // The remaining violations may prevent an opening.
                let _rests = bring_to_rest(device, runtime).await;
                (left, repaired) = (look(2).await?.wrong, true);
            }
            Err(error) => (left, unrepaired) = (found.wrong.clone(), Some(why(error))),
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
