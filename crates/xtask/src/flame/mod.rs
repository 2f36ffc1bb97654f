//! Profiles of the server's processor time, as flame graphs: `cargo xtask flame`.
//!
//! For each of a few kinds of calls, `duramen bench` loads a server with a new volume, and `perf`
//! samples it from the moment at which the load has prepared its files. The server is built with
//! frame pointers, separately from other builds: without them samples end in its first own
//! function.

mod draw;
mod stacks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::While;
use crate::servers::duramen::{self, Server};
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result, command, program};

/// Duration, and output.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seconds for which each kind of call is sampled.
    pub seconds: f64,
    /// Folder of the pictures.
    pub output: PathBuf,
}

/// Kinds of calls: the name of the picture, its title, and the workload.
const PICTURES: [(&str, &str, &str); 4] = [
    ("getattr", "GETATTR", "getattr"),
    ("create", "CREATE", "create"),
    ("write", "WRITE of 8 KiB, FILE_SYNC, over what is there", "overwrite-8k"),
    ("read", "READ of 1 MiB of what is kept", "read-cold-1m"),
];

/// Samples a second, not a round number.
const FREQUENCY: &str = "1999";

/// Samples all kinds of calls and draws the pictures.
///
/// # Errors
/// When perf is missing, or anything fails.
pub fn run(repository: &Repository, plan: &Plan) -> Result<()> {
    command::capture(Command::new("perf").arg("--version"))
        .while_doing("this needs perf (on Debian: apt-get install linux-perf)")?;
    let target = repository.target().join("flame");
    let flags = Some("-C force-frame-pointers=yes");
    let binary = program::built_in(repository, duramen::NAME, &target, flags)?;
    fs::create_dir_all(&plan.output).while_doing(plan.output.display())?;
    for (name, what, workload) in PICTURES {
        let samples = sample(&binary, workload, plan.seconds)?;
        let root = stacks::parse(&samples);
        if root.samples() == 0 {
            return Err(Failure::new(format!("{what}: perf has seen nothing")));
        }
        let title = format!("{what}, 32 connections: the server's processor time");
        let picture = plan.output.join(format!("{name}.svg"));
        fs::write(&picture, draw::picture(&title, &root)).while_doing(picture.display())?;
        println!("{}: {} samples", picture.display(), root.samples());
    }
    Ok(())
}

/// Output of perf for a server under a load.
fn sample(binary: &Path, workload: &str, seconds: f64) -> Result<String> {
    let folder = TemporaryFolder::new("flame")?;
    let mut server = Server::create(binary, &folder.path().join("volume"))?;
    let ready = folder.path().join("ready");
    command::capture(Command::new("mkfifo").arg(&ready))?;
    let mut bench = Command::new(binary);
    bench.args(["bench", &server.target(), workload, "--connections", "32", "--depth", "1"]);
    bench.args(["--seconds", &format!("{}", seconds + 1.0), "--file-size", "16M"]);
    bench.args(["--prepared", &format!("echo > '{}'", ready.display())]);
    bench.stdin(Stdio::null()).stdout(Stdio::null());
    let mut bench = bench.spawn().while_doing("starting duramen bench")?;
    fs::read(&ready).while_doing("waiting for duramen bench")?; // until it says so
    let data = folder.path().join("perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-e", "cpu-clock", "-F", FREQUENCY, "-g"]);
    record.args(["-p", &server.id().to_string(), "-o"]).arg(&data);
    command::capture(record.args(["--", "sleep", &format!("{seconds}")]))?;
    let status = bench.wait().while_doing("waiting for duramen bench")?;
    if !status.success() {
        return Err(Failure::new(format!("duramen bench {workload} ended with {status}")));
    }
    server.stop()?;
    command::capture(Command::new("perf").args(["script", "-F", "comm,ip,sym", "-i"]).arg(&data))
}
