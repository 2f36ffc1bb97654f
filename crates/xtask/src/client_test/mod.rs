//! The acceptance test: the real Linux client works on a volume, and judges read the disk
//! afterwards.
//!
//! 1. The program creates a new volume and serves it, on a port of 127.0.0.1.
//! 2. Guests mount it and run the [`scenarios`], one after the other, each in a fresh kernel. In
//!    two of them the server is killed repeatedly; its clients must notice nothing.
//! 3. A last guest lists the whole tree as seen over NFS: the *manifest*.
//! 4. The server is asked to stop, and must stop cleanly.
//! 5. The program's own checker finds nothing, and the [`judges`] read the disk: the UFS driver of
//!    the kernel, the Sleuth Kit, dissect.ffs and, where available, a checker of all invariants of
//!    the format. Each must find the manifest there, byte by byte.
//! 6. In parallel, a second *lane* runs the scenarios that have their own volumes: one also kills
//!    their repair ([`zeros`]), one fills their host ([`full_host`]), one removes their disks
//!    ([`raid`]), one changes their [`nvram`], one looks at their [`snapshots`]. A smaller form
//!    runs on a [`foreign`] disk, made by a FreeBSD kernel.
//!
//! A guest has one processor, and it and its server mostly wait for each other: two lanes fill a
//! small machine. Each lane has its own folder, ports and [`Report`].
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
mod nvram;
mod raid;
mod relay;
mod report;
mod scenarios;
mod snapshots;
mod zeros;

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use judges::Evidence;
use report::Report;
pub(crate) use scenarios::sample;
use scenarios::{Apart, Together};

use crate::failure::While;
use crate::servers::duramen::{self, Server};
use crate::temporary::TemporaryFolder;
use crate::{Repository, Result, Totals, setup};

/// The amount to test.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Ten times as much of everything.
    pub full: bool,
    /// Show what the guests print.
    pub verbose: bool,
    /// Keep the volumes, and say where they are.
    pub keep: bool,
    /// A sample: of a scenario on several kinds of volumes, the kind that this number draws.
    pub drawn: Option<u64>,
    /// The scenarios to run; all of them if this is empty.
    pub scenarios: Vec<String>,
    /// The program to test, instead of a release that is built.
    pub program: Option<PathBuf>,
}

/// The place of a part of the test, and its program.
#[derive(Clone, Copy, Debug)]
struct Site<'a> {
    repository: &'a Repository,
    /// The program whose server is tested.
    binary: &'a Path,
    /// A folder with no other contents.
    folder: &'a Path,
}

/// Carries out the plan, and counts.
pub fn run(repository: &Repository, plan: &Plan) -> Result<Totals> {
    setup::all(repository)?;
    let (together, apart) = scenarios::chosen(plan)?;
    let folder = TemporaryFolder::new("client-test")?;
    let folder = if plan.keep { folder.keep() } else { folder };
    let binary = match &plan.program {
        Some(program) => program.clone(),
        None => duramen::build(repository)?,
    };
    let site = Site { repository, binary: &binary, folder: folder.path() };
    let totals = thread::scope(|scope| {
        let second = scope.spawn(|| own_volumes(site, &apart, plan));
        let mut totals = part(site, "shared", plan, |site, report| {
            if let Err(failure) = shared_volume(site, &together, plan, report) {
                report.step("the rest", || Err(failure));
            }
        });
        totals += second.join().unwrap_or_else(|panic| resume_unwind(panic));
        totals
    });
    if plan.keep {
        println!("client test: the volumes are in {}", folder.path().display());
    }
    Ok(totals)
}

/// All tests of scenarios with their own volumes, and of foreign disks.
fn own_volumes(site: Site<'_>, scenarios: &[Apart], plan: &Plan) -> Totals {
    let mut totals = Totals::default();
    for Apart { name, test } in scenarios {
        totals += part(site, name, plan, |site, report| test(site, plan, report));
    }
    if plan.scenarios.is_empty() {
        totals += part(site, foreign::NAME, plan, foreign::test);
    }
    totals
}

/// Runs a part of the test in a new folder inside that of `site`, and counts. If something failed,
/// the last lines of its servers' logs are shown.
fn part(
    site: Site<'_>,
    name: &str,
    plan: &Plan,
    test: impl FnOnce(Site<'_>, &mut Report),
) -> Totals {
    let folder = site.folder.join(name);
    let mut report = Report::new(plan.verbose);
    match fs::create_dir(&folder).while_doing(folder.display()) {
        Ok(()) => test(Site { folder: &folder, ..site }, &mut report),
        Err(failure) => report.step(name, || Err(failure)),
    }
    if report.totals().failed > 0 {
        let words = duramen::last_words(&folder);
        println!("client test: {name}: the last words of its servers:\n{words}");
    }
    report.totals()
}

/// All tests of the volume that most scenarios share.
fn shared_volume(
    site: Site<'_>,
    scenarios: &[Together],
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    let Site { repository, binary, folder } = site;
    let share = folder.join("share");
    fs::create_dir(&share).while_doing(share.display())?;
    let mut server = Server::create(binary, &folder.join("volume"))?;
    for scenario in scenarios {
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
