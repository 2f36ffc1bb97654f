//! The acceptance test: the real Linux client at work on a volume, and what is on the disk then.
//!
//! 1. A new volume is made and served, by the release binary, on a port of 127.0.0.1.
//! 2. Guests mount it and run the [`scenarios`], one after the other, each in a fresh kernel. In
//!    one of them the server is killed again and again; its clients must notice nothing.
//! 3. A last guest lists the whole tree as NFS shows it: the *manifest*.
//! 4. The server is asked to end, and must end well.
//! 5. The [`judges`] read the disk: the kernel's own UFS driver, the Sleuth Kit, dissect.ffs and,
//!    where it is at hand, a checker of every invariant of the format. Each must find the manifest
//!    there, byte by byte.
//!
//! One test is one check of a script, or one judge. A scenario that cannot be carried out is a
//! failed test.

mod judges;
mod libnfs;
mod manifest;
mod report;
mod scenarios;
mod server;

use std::fs;

use report::Report;
use server::Server;

use crate::temporary::TemporaryFolder;
use crate::{Repository, Result, Totals, setup};

/// How much to test.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Ten times as much of everything.
    pub full: bool,
    /// Show what the guests print.
    pub verbose: bool,
    /// The scenarios to run; all of them if this is empty.
    pub scenarios: Vec<String>,
}

/// Carries out the plan, and counts.
pub fn run(repository: &Repository, plan: &Plan) -> Result<Totals> {
    setup::all(repository)?;
    let folder = TemporaryFolder::new("client-test")?;
    let volume = folder.path().join("volume");
    let share = folder.path().join("share");
    fs::create_dir(&share).expect("the folder was just made, and is ours");

    let mut report = Report::new(plan.verbose);
    let binary = server::build(repository)?;
    let mut server = Server::create(&binary, &volume)?;
    for scenario in scenarios::chosen(plan)? {
        scenario.run(repository, &mut server, plan, &mut report);
    }
    report.step("libnfs", || libnfs::copy_there_and_back(&server, folder.path()));
    report.step("manifest", || judges::list_mount(repository, &server, &share));
    let image = server.image();
    report.step("stop", || server.stop());
    judges::judge(repository, &image, &share, plan, &mut report);
    Ok(report.totals())
}
