//! A server that only moves bytes: an example of crate `bench`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::failure::While;
use crate::{Failure, Repository, Result, command};

/// The server. It ends with this value, and with its standard input, even if we are killed.
pub(crate) struct Bare {
    process: Child,
    address: String,
}

/// Builds it; returns its path.
pub(crate) fn build(repository: &Repository) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "bench", "--example", "bare_server"]);
    command::run(cargo.current_dir(repository.root()))?;
    Ok(repository.target().join("release/examples/bare_server"))
}

impl Bare {
    /// Starts it with these arguments after its port, and waits until it is ready.
    pub(crate) fn start(binary: &Path, words: &[&str]) -> Result<Bare> {
        let mut bare = Command::new(binary);
        bare.arg("0").args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = bare.spawn().while_doing("the bare server")?;
        let output = process.stdout.take().expect("it was asked for");
        let mut bare = Bare { process, address: String::new() };
        let mut ready = String::new();
        BufReader::new(output).read_line(&mut ready).while_doing("the bare server")?;
        let address = ready.strip_prefix("ready: ").map(str::trim);
        bare.address = address.ok_or_else(|| Failure::new("the bare server ended"))?.to_owned();
        Ok(bare)
    }

    /// Its target for `duramen bench`.
    pub(crate) fn target(&self) -> String {
        format!("nfs://{}/bare", self.address)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
