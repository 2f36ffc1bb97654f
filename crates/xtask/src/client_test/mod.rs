//! The acceptance test: the real Linux client at work on a volume, and what is on the disk then.
//!
//! 1. A new volume is made and served, by the release binary, on a port of 127.0.0.1.
//! 2. Guests mount it and run the [`scenarios`], one after the other, each in a fresh kernel. In
//!    two of them the server is killed again and again; its clients must notice nothing. Three have
//!    volumes of their own: one kills their repair as well ([`zeros`]), one fills what holds them
//!    ([`full_host`]), one takes their disks away ([`raid`]).
//! 3. A last guest lists the whole tree as NFS shows it: the *manifest*.
//! 4. The server is asked to end, and must end well.
//! 5. The program's own checker finds nothing, and the [`judges`] read the disk: the UFS driver of
//!    the kernel, the Sleuth Kit, dissect.ffs and, where it is at hand, a checker of all invariants
//!    of the format. Each must find the manifest there, byte by byte.
//! 6. The same in small for a [`foreign`] disk, made by a FreeBSD kernel.
//!
//! One test is one check of a script, or one judge. A scenario that cannot be carried out is a
//! failed test.

mod exactly_once;
mod foreign;
mod full_host;
mod judges;
mod libnfs;
mod manifest;
mod mounted;
mod raid;
mod relay;
mod report;
mod scenarios;
mod zeros;

use std::fs;
use std::path::Path;

use judges::Evidence;
use report::Report;

use crate::failure::While;
use crate::servers::duramen::{self, Server};
use crate::temporary::TemporaryFolder;
use crate::{Repository, Result, Totals, setup};

/// How much to test.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Ten times as much of everything.
    pub full: bool,
    /// Show what the guests print.
    pub verbose: bool,
    /// Keep the volume, and say where it is.
    pub keep: bool,
    /// The scenarios to run; all of them if this is empty.
    pub scenarios: Vec<String>,
}

/// Carries out the plan, and counts.
pub fn run(repository: &Repository, plan: &Plan) -> Result<Totals> {
    setup::all(repository)?;
    let folder = TemporaryFolder::new("client-test")?;
    let folder = if plan.keep { folder.keep() } else { folder };
    let mut report = Report::new(plan.verbose);
    let binary = duramen::build(repository)?;
    if let Err(failure) = own_volume(repository, &binary, folder.path(), plan, &mut report) {
        report.step("the rest", || Err(failure));
    }
    if plan.scenarios.is_empty() {
        foreign::test(repository, &binary, folder.path(), &mut report);
    }
    if report.totals().failed > 0 {
        println!("client test: the server's last words:\n{}", duramen::last_words(folder.path()));
    }
    if plan.keep {
        println!("client test: the volume is in {}", folder.path().display());
    }
    Ok(report.totals())
}

/// Everything about a volume that we made.
fn own_volume(
    repository: &Repository,
    binary: &Path,
    folder: &Path,
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    let share = folder.join("share");
    fs::create_dir(&share).while_doing(share.display())?;
    let mut server = Server::create(binary, &folder.join("volume"))?;
    for scenario in scenarios::chosen(plan)? {
        scenario.run(repository, &mut server, plan, report);
        server.must_be_alive()?;
    }
    report.step("libnfs", || libnfs::copy_there_and_back(&server, folder));
    let image = server.image();
    let evidence = Evidence { repository, image: &image, share: &share };
    report.step("manifest", || evidence.list_mount(&server));
    report.step("stop", || server.stop());
    report.step("duramen fsck", || server.check());
    evidence.show_to_checker("every invariant", report);
    evidence.show_to_driver("the kernel's UFS driver", report);
    evidence.show_to_dissect("dissect.ffs", report);
    evidence.show_to_sleuth_kit("the Sleuth Kit", if plan.full { 1 } else { 10 }, report);
    Ok(())
}
