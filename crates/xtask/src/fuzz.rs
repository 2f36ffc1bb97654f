//! Damaged bytes for the decoders, by a program of the crate `duramen-fuzz`.

use std::ffi::OsString;

use crate::{Repository, Result, command};

/// Builds the program, fast and with all its checks, and runs it with these arguments.
pub fn run(repository: &Repository, arguments: &[OsString]) -> Result<()> {
    let mut cargo = std::process::Command::new("cargo");
    cargo.args(["run", "--quiet", "--profile", "fuzz", "--package", "duramen-fuzz", "--"]);
    command::run(cargo.args(arguments).current_dir(repository.root()))
}
