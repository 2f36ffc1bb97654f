//! Programs of this repository that a chore builds, optimised, and runs.

use std::ffi::OsString;

use std::path::{Path, PathBuf};

use crate::{Repository, Result, command};

/// Feeds damaged bytes to the decoders. Built with all checks of a debug build.
pub fn fuzz(repository: &Repository, arguments: &[OsString]) -> Result<()> {
    run(repository, &["--profile", "fuzz", "--package", "duramen-fuzz"], arguments)
}

/// Injects faults of the disk, the power and the network under a server: all campaigns, or the
/// named one. See docs/simulation.md.
pub fn torture(repository: &Repository, arguments: &[OsString]) -> Result<()> {
    run(repository, &["--release", "--package", "duramen-torture"], arguments)
}

/// Builds an optimised program; returns its path.
pub(crate) fn built(repository: &Repository, name: &str) -> Result<PathBuf> {
    built_in(repository, name, &repository.target(), None)
}

/// Does so in another target folder, with flags for the compiler.
pub(crate) fn built_in(
    repository: &Repository,
    name: &str,
    target: &Path,
    flags: Option<&str>,
) -> Result<PathBuf> {
    let mut cargo = std::process::Command::new("cargo");
    cargo.args(["build", "--release", "--bin", name, "--target-dir"]).arg(target);
    cargo.envs(flags.map(|flags| ("RUSTFLAGS", flags))).current_dir(repository.root());
    command::run(&mut cargo)?;
    Ok(target.join("release").join(name))
}

fn run(repository: &Repository, which: &[&str], arguments: &[OsString]) -> Result<()> {
    let mut cargo = std::process::Command::new("cargo");
    cargo.args(["run", "--quiet"]).args(which).arg("--").args(arguments);
    command::run(cargo.current_dir(repository.root()))
}
