//! The judges that read the disk afterwards, and the findings required of each.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::manifest::{self, Names};
use super::mounted;
use super::report::Report;
use crate::failure::While;
use crate::guest::{self, Guest};
use crate::servers::duramen::Server;
use crate::{Failure, Repository, Result, command, setup};

/// The tree as seen over NFS, and by each reader of the disk: files of the shared folder.
const MOUNT: &str = "mount";
const DRIVER: &str = "driver";
const DISSECT: &str = "dissect";
const SLEUTH_KIT: &str = "sleuthkit";
/// The time limit for a guest that reads everything.
const TIME_LIMIT: Duration = Duration::from_secs(1800);

/// A disk, and the folder where the testimonies about it are collected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    pub(super) repository: &'a Repository,
    pub(super) image: &'a Path,
    pub(super) share: &'a Path,
}

impl Evidence<'_> {
    /// Lists the tree as a client sees it.
    pub(super) fn list_mount(&self, server: &Server) -> Result<String> {
        let mut guest = mounted::guest(self.repository, server, "manifest.py");
        guest.arguments = vec!["/mnt".to_owned(), format!("/run/share/{MOUNT}")];
        guest.share = Some(self.share.to_owned());
        guest.time_limit = TIME_LIMIT;
        list(&guest)
    }

    /// Ends the service of a volume on a set: lists it, stops it, checks it, makes one plain image
    /// of it, and shows that to the first judges.
    pub(super) fn end_set(&self, name: &str, server: &mut Server, report: &mut Report) {
        report.step(&format!("{name}: manifest"), || self.list_mount(server));
        report.step(&format!("{name}: stop"), || server.stop());
        report.step(&format!("{name}: duramen fsck"), || server.check());
        report.step(&format!("{name}: dump"), || {
            server.raid("dump", &[&self.image.to_string_lossy()])?;
            Ok("the volume is one plain image".to_owned())
        });
        self.show_to_checker(&format!("{name}: every invariant"), report);
        self.show_to_driver(&format!("{name}: the kernel's UFS driver"), report);
    }

    /// Lists the tree as the kernel's UFS driver sees it on the disk.
    pub(super) fn list_disk(&self) -> Result<String> {
        list(&Guest {
            script: self.repository.guest_scripts().join("manifest.py"),
            arguments: vec!["/run/ufs".to_owned(), format!("/run/share/{DRIVER}")],
            mount: None,
            disk: Some(self.image.to_owned()),
            share: Some(self.share.to_owned()),
            time_limit: TIME_LIMIT,
        })
    }

    /// Compares the driver's list with that of the mount.
    pub(super) fn compare_with_driver(&self) -> Result<String> {
        self.compare(DRIVER, Names::Any)
    }

    /// The kernel's UFS driver reads everything.
    pub(super) fn show_to_driver(&self, name: &str, report: &mut Report) {
        report.step(name, || {
            self.list_disk()?;
            self.compare_with_driver()
        });
    }

    /// The library dissect.ffs reads everything.
    pub(super) fn show_to_dissect(&self, name: &str, report: &mut Report) {
        report.step(name, || {
            let mut reader = Command::new(setup::python(self.repository)?);
            reader.arg("-B").arg(self.repository.judges().join("dissect_manifest.py"));
            command::capture(reader.arg(self.image).arg(self.share.join(DISSECT)))?;
            self.compare(DISSECT, Names::Any)
        });
    }

    /// The Sleuth Kit lists everything, and reads one file in `every`.
    pub(super) fn show_to_sleuth_kit(&self, name: &str, every: u32, report: &mut Report) {
        report.step(name, || {
            let mut reader = Command::new("/usr/bin/python3");
            reader.arg("-B").arg(self.repository.judges().join("sleuthkit_manifest.py"));
            reader.arg(self.image).arg(self.share.join(SLEUTH_KIT)).arg(every.to_string());
            command::capture(&mut reader)?;
            self.compare(SLEUTH_KIT, Names::Plain)
        });
    }

    /// The checker of every invariant must find nothing. It is reference material, which a
    /// stranger's clone does not have.
    pub(super) fn show_to_checker(&self, name: &str, report: &mut Report) {
        let checker = self.repository.shared().map(|shared| shared.join("oracles/ufs2_verify.py"));
        let Some(checker) = checker.filter(|checker| checker.is_file()) else {
            println!("client test: {name}: SKIPPED, the checker ufs2_verify.py is not here");
            return;
        };
        report.step(name, || {
            let mut python = Command::new("/usr/bin/python3");
            python.arg("-B").arg(checker).arg("--clean").arg(self.image);
            let verdict = command::capture(&mut python)?;
            Ok(verdict.lines().last().unwrap_or("no finding").to_owned())
        });
    }

    /// Compares a reader's testimony with that of the mount.
    fn compare(&self, reader: &str, names: Names) -> Result<String> {
        let read = |name: &str| fs::read_to_string(self.share.join(name)).while_doing(name);
        let (differences, count) = manifest::differences(&read(MOUNT)?, &read(reader)?, names);
        if differences.is_empty() {
            return Ok(format!("sees the same {count} files as the client"));
        }
        Err(Failure::new(format!("it sees otherwise:\n    {}", differences.join("\n    "))))
    }
}

fn list(guest: &Guest) -> Result<String> {
    let outcome = guest::run(guest)?;
    match outcome.output.lines().find_map(|line| line.strip_prefix("did: ")) {
        Some(did) if outcome.status == 0 => Ok(did.to_owned()),
        _ => Err(Failure::new(outcome.output)),
    }
}
