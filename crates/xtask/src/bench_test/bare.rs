//! The cost of measuring: load on a server that only moves bytes, as fast as possible. The
//! workloads of the race also have to run on it without errors.

use std::fs::File;
use std::path::Path;

use crate::failure::While;
use crate::servers::bare::{self, Bare};
use crate::servers::duramen::bench;
use crate::{Failure, Repository, Result};

/// Minimum rate of calls that the program must be able to make and measure, with 32 connections on
/// a machine of two processors: above any server's rate there, so that the server limits the
/// figures.
const NEEDED: f64 = 250_000.0;

/// Attempts, since another program may be running.
const TRIES: usize = 5;

const HARD: [&str; 9] =
    ["null", "--connections", "32", "--depth", "16", "--seconds", "1", "--count", "1000000000"];

/// Measures until one attempt is fast enough.
pub(super) fn measure(repository: &Repository, binary: &Path) -> Result<String> {
    let server = Bare::start(&bare::build(repository)?, &["together"])?;
    let mut best = 0.0_f64;
    for _ in 0..TRIES {
        let report = bench(binary, &server.target(), &HARD)?;
        let rate = report["workloads"][0]["rate_per_s"].as_f64();
        best = best.max(rate.ok_or_else(|| Failure::new(format!("no rate: {report}")))?);
        if best >= NEEDED {
            return Ok(format!("{best:.0} calls/s, of {NEEDED} that are needed"));
        }
    }
    Err(Failure::new(format!("{best:.0} calls/s at best, and {NEEDED} are needed")))
}

/// The race's workloads that the bare server runs, in short.
const MOVES: [&str; 18] = [
    "getattr",
    "lookup",
    "create",
    "remove",
    "mkdir",
    "rmdir",
    "create-write",
    "overwrite-8k",
    "write-64k",
    "write-1m",
    "read-cold-64k",
    "read-cold-1m",
    "--seconds",
    "0.2",
    "--count",
    "500",
    "--file-size",
    "16M",
];

/// Runs these workloads in all ways that the race uses.
pub(super) fn moves(repository: &Repository, binary: &Path, folder: &Path) -> Result<String> {
    let (program, path) = (bare::build(repository)?, folder.join("bare"));
    let file = File::create(&path).while_doing(path.display())?;
    file.set_len(256 << 20).while_doing(path.display())?;
    let path = path.to_string_lossy();
    let ways = [("apart", ""), ("apart", "keep"), ("together", ""), ("together", "keep")];
    for (manner, keeps) in ways {
        let server = Bare::start(&program, &[manner, &path, keeps])?;
        bench(binary, &server.target(), &MOVES)?;
    }
    Ok("all workloads".to_owned())
}
