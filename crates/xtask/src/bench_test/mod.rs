//! Short runs of `duramen bench`: against our own server, against nfs-ganesha, which we did not
//! write, and against a server that does nothing.
//!
//! The test checks that measuring works, not the speed of a server: no call fails, all workloads
//! are there, the figures are consistent, and the export is empty afterwards. Only against the
//! server that does nothing is a rate required: the limit of the measurement itself. The same
//! server also moves bytes, as in the race.

mod bare;
mod ganesha;
mod judge;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::While;
use crate::servers::duramen::{self, Server};
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result, Totals, command, setup};

/// Amount of each workload.
const SHORT: [&str; 8] =
    ["--seconds", "0.3", "--count", "1600", "--file-size", "4M", "--file-set-max", "8M"];

/// Workloads of many procedures.
const COMPOUND: [&str; 8] =
    ["smallfile", "copy-remove", "laddis", "laddis3", "--ramp-to", "600", "--ramp-points", "2"];

/// Measures all three servers, and counts.
pub fn run(repository: &Repository) -> Result<Totals> {
    setup::bench()?;
    let binary = duramen::build(repository)?;
    let folder = TemporaryFolder::new("bench-test")?;
    let mut totals = Totals::default();
    let mut step = |name: &str, outcome: Result<String>| {
        match &outcome {
            Ok(note) => println!("bench test: {name}: {note}"),
            Err(failure) => println!("bench test: {name}: FAILED: {failure}"),
        }
        totals += Totals::one(outcome.is_ok());
    };
    step("our own server", own(&binary, folder.path()));
    step("nfs-ganesha", ganesha::measure(repository, &binary, folder.path()));
    step("a server that does nothing", bare::measure(repository, &binary));
    step("a server that moves bytes", bare::moves(repository, &binary, folder.path()));
    Ok(totals)
}

/// Measures our own server alone, and counts.
pub(crate) fn sample(binary: &Path) -> Result<Totals> {
    let folder = TemporaryFolder::new("bench-test")?;
    let note = own(binary, folder.path())?;
    println!("bench test: our own server: {note}");
    Ok(Totals::one(true))
}

/// Measures our own server, with all workloads.
fn own(binary: &Path, folder: &Path) -> Result<String> {
    let mut server = Server::create(binary, &folder.join("volume"))?;
    let note = all(binary, &server.target())?;
    server.stop()?;
    let list = command::capture(Command::new(binary).arg("ls").arg(folder.join("volume")))?;
    if !list.trim().is_empty() {
        return Err(Failure::new(format!("it has left behind: {}", list.trim())));
    }
    Ok(note)
}

/// Runs all workloads against a server, and draws a picture.
fn all(binary: &Path, target: &str) -> Result<String> {
    let simple = judge::simple(&duramen::bench(binary, target, &SHORT)?)?;
    let picture = std::env::temp_dir().join(format!("duramen-bench-{}.svg", std::process::id()));
    let path = picture.to_string_lossy().into_owned();
    let more = [&SHORT[..], &COMPOUND, &["--svg", &path]].concat();
    let compound = judge::compound(&duramen::bench(binary, target, &more)?)?;
    let drawn = fs::read_to_string(&picture).while_doing(picture.display())?;
    let _ = fs::remove_file(&picture);
    if !drawn.starts_with("<svg") || !drawn.contains("laddis3") {
        return Err(Failure::new("the picture shows no curve"));
    }
    Ok(format!("{simple}; {compound}"))
}
