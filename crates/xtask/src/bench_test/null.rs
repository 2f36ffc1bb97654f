//! What measuring costs: a server that does nothing is asked as fast as we can.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::failure::While;
use crate::servers::duramen::bench;
use crate::{Failure, Repository, Result, command};

/// Calls a second that the program must be able to make and measure, with 32 connections on a
/// machine of two processors: more than any server gives there, so that figures are the server's.
const NEEDED: f64 = 250_000.0;

/// Another program may be at work just now: so often it may be tried.
const TRIES: usize = 5;

const HARD: [&str; 9] =
    ["null", "--connections", "32", "--depth", "16", "--seconds", "1", "--count", "1000000000"];

/// The server, which ends with this value.
struct Responder(Child);

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures, until it is fast enough once.
pub(super) fn measure(repository: &Repository, binary: &Path) -> Result<String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "bench", "--example", "null_responder"]);
    command::run(cargo.current_dir(repository.root()))?;
    let example = repository.target().join("release/examples/null_responder");
    let mut responder = Command::new(example);
    responder.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut responder = Responder(responder.spawn().while_doing("the null responder")?);
    let output = responder.0.stdout.take().expect("it was asked for");
    let mut ready = String::new();
    BufReader::new(output).read_line(&mut ready).while_doing("the null responder")?;
    let address = ready.strip_prefix("ready: ").map(str::trim);
    let address = address.ok_or_else(|| Failure::new("the null responder is not ready"))?;
    let mut best = 0.0_f64;
    for _ in 0..TRIES {
        let report = bench(binary, &format!("nfs://{address}/null"), &HARD)?;
        let rate = report["workloads"][0]["rate_per_s"].as_f64();
        best = best.max(rate.ok_or_else(|| Failure::new(format!("no rate: {report}")))?);
        if best >= NEEDED {
            return Ok(format!("{best:.0} calls/s, of {NEEDED} that are needed"));
        }
    }
    Err(Failure::new(format!("{best:.0} calls/s at best, and {NEEDED} are needed")))
}
