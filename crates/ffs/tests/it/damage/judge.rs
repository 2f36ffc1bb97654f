//! Judges the checker's treatment of a damage.
//!
//! 1. A look finds something, or there is a [`Reason`] why it cannot be detected. It writes
//!    nothing.
//! 2. A repair of a copy finds the same, and a second check of it finds nothing.
//! 3. The volume opens, and every undamaged file is as it was: with its attributes, under its
//!    paths, or, if a directory on a path was damaged, under any.
//! 4. The work is bounded: no check reads more than [`READS`] times the size of the disk.

use std::collections::BTreeSet;

use fsck::{CheckError, CheckOptions, Invariant, Report, Severity, check};
use vfs::FileKind;

use super::base::{Base, Files, Known, files_of};
use super::mutation::{Mutation, Touched};
use super::reason::{Reason, reason};
use crate::common::{MemoryDisk, World};

/// Outcome of a damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Detected(BTreeSet<Invariant>),
    Excused(Reason),
    Missed,
}

/// A damage that was judged.
pub(crate) struct Judged {
    pub(crate) outcome: Outcome,
    /// The repaired disk, if a repair was needed.
    pub(crate) repaired: Option<MemoryDisk>,
}

/// Maximum bytes that a check reads, as a multiple of the disk's size.
const READS: u64 = 60;

/// Checks a disk; `without` leaves one invariant out.
pub(crate) fn examine(
    disk: &MemoryDisk,
    repair: bool,
    without: Option<Invariant>,
) -> Result<Report, CheckError> {
    let world = World::new(1);
    let options = CheckOptions { repair, without, ..CheckOptions::default() };
    world.run(check(disk, &world.runtime(), &options, &mut |_| ()))
}

/// All findings, a line each.
pub(crate) fn lines(report: &Report) -> String {
    report.findings.list.iter().map(|finding| format!("\n    {finding}")).collect()
}

/// Judges one damage.
///
/// # Errors
/// The checker's error, other than missing the damage.
pub(crate) fn judge(base: &Base, mutation: &Mutation, sealed: bool) -> Result<Judged, String> {
    let disk = mutation.apply(base, sealed);
    let look = examine(&disk, false, None).map_err(|error| format!("the look: {error}"))?;
    if !disk.events().is_empty() {
        return Err("the look wrote something".into());
    }
    if look.findings.total() == 0 {
        let excuse = reason(base, mutation, &disk);
        let outcome = excuse.map_or(Outcome::Missed, Outcome::Excused);
        return Ok(Judged { outcome, repaired: None });
    }
    let found = look.findings.counts.keys().copied().collect();
    repair(&disk, Some(&look))?;
    let read = disk.bytes_read();
    if read > READS * size(base) {
        return Err(format!("{read} bytes were read of a disk of {}", size(base)));
    }
    let touched = mutation.touched(base);
    compare(base, &disk, &touched).map_err(|wrong| format!("{wrong}{}", lines(&look)))?;
    Ok(Judged { outcome: Outcome::Detected(found), repaired: Some(disk) })
}

fn size(base: &Base) -> u64 {
    base.geometry.size * base.geometry.fragment_size
}

/// Repairs a disk and checks that nothing is left to find.
///
/// # Errors
/// The defect of the repair.
pub(crate) fn repair(disk: &MemoryDisk, look: Option<&Report>) -> Result<(), String> {
    let report = examine(disk, true, None).map_err(|error| format!("the repair: {error}"))?;
    if let Some(look) = look
        && look.findings != report.findings
    {
        return Err(format!("the look found{}\n  the repair{}", lines(look), lines(&report)));
    }
    let again = examine(disk, false, None).map_err(|error| format!("the second look: {error}"))?;
    if again.findings.list.iter().any(|finding| finding.severity > Severity::Note) {
        return Err(format!("after a repair of{}\n  there is{}", lines(&report), lines(&again)));
    }
    Ok(())
}

/// Compares the files of a repaired disk with their known state.
///
/// # Errors
/// The first undamaged file that differs.
pub(crate) fn compare(base: &Base, disk: &MemoryDisk, touched: &Touched) -> Result<(), String> {
    let files = files_of(disk, &base.map)?;
    for (ino, known) in &base.files {
        if !touched.files.contains(ino) {
            compare_file(base, &files, touched, *ino, known)?;
        }
    }
    Ok(())
}

fn compare_file(
    base: &Base,
    files: &Files,
    touched: &Touched,
    ino: u64,
    known: &Known,
) -> Result<(), String> {
    let label = &known.paths[0];
    let Some(found) = files.get(&ino) else { return Err(format!("{label} is gone")) };
    let hit: BTreeSet<&str> = touched
        .files
        .iter()
        .chain(&touched.directories)
        .filter_map(|ino| base.files.get(ino))
        .flat_map(|file| file.paths.iter().map(String::as_str))
        .collect();
    let safe = |path: &&String| {
        let mut above = std::path::Path::new(path.as_str()).ancestors().skip(1);
        !above.any(|above| hit.contains(above.to_str().expect("text").trim_end_matches('/')))
    };
    for path in known.paths.iter().filter(safe) {
        if !found.paths.contains(path) {
            return Err(format!("{path} is no longer there, but {:?}", found.paths));
        }
    }
    let mut attributes = found.attributes;
    let directory = attributes.kind == FileKind::Directory;
    if !directory && attributes.nlink as usize != found.paths.len() {
        return Err(format!("{label} counts {} links: {:?}", attributes.nlink, found.paths));
    }
    // Link counts change with names, and a directory grows when names are added.
    if directory || !touched.directories.is_empty() {
        attributes.nlink = known.attributes.nlink;
    }
    if ino == 2 || touched.directories.contains(&ino) {
        (attributes.size, attributes.used) = (known.attributes.size, known.attributes.used);
    }
    if attributes != known.attributes {
        return Err(format!("{label} is {:?}\n  and was {:?}", attributes, known.attributes));
    }
    if found.pieces != known.pieces || found.target != known.target {
        return Err(format!("{label} has another content"));
    }
    if !touched.directories.contains(&ino) {
        compare_names(files, touched, label, (known, found))?;
    }
    Ok(())
}

/// Names of an undamaged directory stay, unless the files that they named were damaged.
fn compare_names(
    files: &Files,
    touched: &Touched,
    label: &str,
    (known, found): (&Known, &Known),
) -> Result<(), String> {
    for (name, ino) in &known.names {
        let excused = touched.files.contains(ino) || touched.directories.contains(ino);
        if found.names.get(name) != Some(ino) && !excused {
            return Err(format!("{label}/{name} is {:?}", found.names.get(name)));
        }
    }
    let made = |name: &str| label.is_empty() && name.starts_with("lost+found");
    for (name, ino) in &found.names {
        if !known.names.contains_key(name) && !made(name) {
            let what = files.get(ino).map(|file| &file.paths);
            return Err(format!("{label}/{name} is new: {what:?}"));
        }
    }
    Ok(())
}
