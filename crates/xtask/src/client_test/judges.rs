//! Who reads the disk afterwards, and what each must find there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::manifest::{self, Names};
use super::report::Report;
use super::server::Server;
use super::{Plan, scenarios};
use crate::failure::While;
use crate::guest::{self, Guest};
use crate::{Failure, Repository, Result, command, setup};

/// The file of the shared folder that holds the tree as NFS shows it.
const MOUNT: &str = "mount";
/// The time limit for a guest that reads everything.
const TIME_LIMIT: Duration = Duration::from_secs(1800);

/// Lists the whole mount into the folder `share`.
pub(super) fn list_mount(repository: &Repository, server: &Server, share: &Path) -> Result<String> {
    let mut guest = scenarios::guest(repository, server, "manifest.py");
    guest.arguments = vec!["/mnt".to_owned(), format!("/run/share/{MOUNT}")];
    guest.share = Some(share.to_owned());
    guest.time_limit = TIME_LIMIT;
    list(&guest)
}

/// Shows the disk to every judge.
pub(super) fn judge(
    repository: &Repository,
    image: &Path,
    share: &Path,
    plan: &Plan,
    report: &mut Report,
) {
    check_every_invariant(repository, image, report);
    report.step("the kernel's UFS driver", || {
        let guest = Guest {
            script: repository.guest_scripts().join("manifest.py"),
            arguments: vec!["/run/ufs".to_owned(), "/run/share/driver".to_owned()],
            mount: None,
            disk: Some(image.to_owned()),
            share: Some(share.to_owned()),
            time_limit: TIME_LIMIT,
        };
        list(&guest)?;
        compare(share, "driver", Names::Any)
    });
    report.step("dissect.ffs", || {
        let mut reader = Command::new(setup::python(repository)?);
        reader.arg("-B").arg(repository.judges().join("dissect_manifest.py"));
        command::capture(reader.arg(image).arg(share.join("dissect")))?;
        compare(share, "dissect", Names::Any)
    });
    report.step("the Sleuth Kit", || {
        let mut reader = Command::new("/usr/bin/python3");
        reader.arg("-B").arg(repository.judges().join("sleuthkit_manifest.py"));
        reader.arg(image).arg(share.join("sleuthkit")).arg(if plan.full { "1" } else { "10" });
        command::capture(&mut reader)?;
        compare(share, "sleuthkit", Names::Plain)
    });
}

/// The checker is reference material, which a stranger's clone does not have.
fn check_every_invariant(repository: &Repository, image: &Path, report: &mut Report) {
    let folder = repository.shared().map(|folder| folder.join("oracles/ufs2_verify.py"));
    let Some(checker) = folder.filter(|checker| checker.is_file()) else {
        println!("client test: every invariant: SKIPPED, the checker ufs2_verify.py is not here");
        return;
    };
    report.step("every invariant", || {
        let mut python = Command::new("/usr/bin/python3");
        let verdict = command::capture(python.arg("-B").arg(checker).arg("--clean").arg(image))?;
        Ok(verdict.lines().last().unwrap_or("no finding").to_owned())
    });
}

fn list(guest: &Guest) -> Result<String> {
    let outcome = guest::run(guest)?;
    match outcome.output.lines().find_map(|line| line.strip_prefix("did: ")) {
        Some(did) if outcome.status == 0 => Ok(did.to_owned()),
        _ => Err(Failure::new(outcome.output)),
    }
}

/// Compares a manifest of the disk with that of the mount.
fn compare(share: &Path, reader: &str, names: Names) -> Result<String> {
    let read = |name: &str| fs::read_to_string(share.join(name)).while_doing(name);
    let (differences, count) = manifest::differences(&read(MOUNT)?, &read(reader)?, names);
    if differences.is_empty() {
        return Ok(format!("sees the same {count} files as the client"));
    }
    Err(Failure::new(format!("it sees otherwise:\n    {}", differences.join("\n    "))))
}
