//! Time until a server answers again that was killed at work.
//!
//! 1. A small volume and a large, sparse one of an engine with snapshots are created and filled;
//!    while files are made on the large one, so are its snapshots, each after the same number of
//!    files.
//! 2. In turn, each is served while files are made on it. Meanwhile its server is killed, the
//!    kernel's caches are dropped, and another server is started. The result is the time until it
//!    has answered a call, and the reads of the disk below.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::row::{Row, print};
use crate::failure::While;
use crate::servers::duramen::{self, Server};
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result, clock, command};

/// Sizes, and folders.
#[derive(Clone, Debug)]
pub struct Plan {
    /// An engine with snapshots.
    pub engine: String,
    /// Files on the large volume.
    pub files: u64,
    /// Snapshots of the large volume.
    pub snapshots: u64,
    /// Number of kills of each server.
    pub starts: usize,
    /// Value of the server's setting `cache`, in MiB.
    pub cache: u32,
    /// Folder of the volumes.
    pub folder: Option<PathBuf>,
    /// A program to measure, instead of one that is built.
    pub program: Option<PathBuf>,
}

/// Files of the small volume, and files in each directory of any volume.
const SMALL: u64 = 20_000;
const IN_DIRECTORY: u64 = 1_000;
/// Duration of the load before a server is killed.
const LOAD: Duration = Duration::from_secs(3);
/// Interval of checks whether a snapshot is due.
const LOOK: Duration = Duration::from_millis(20);
/// Bounds: ms, the ratio of the large volume's time to the small one's, and reads.
const READY_MS: f64 = 1000.0;
const TIMES: f64 = 1.5;
const READS: f64 = 200.0;

/// Costs of one start.
#[derive(Clone, Copy, Debug)]
struct Start {
    ms: f64,
    /// Reads by any process from the disk of the volume's file; `None` if it has no counter.
    reads: Option<f64>,
}

/// Measures everything, prints the table, and returns whether every bound was met.
///
/// # Errors
/// When a measurement fails.
pub fn run(repository: &Repository, plan: &Plan) -> Result<bool> {
    let binary = match &plan.program {
        Some(program) => program.clone(),
        None => duramen::build(repository)?,
    };
    let folder = match &plan.folder {
        Some(parent) => TemporaryFolder::within(parent, "openings")?,
        None => TemporaryFolder::new("openings")?,
    };
    let make = |name, size, files, snapshots| -> Result<Server> {
        eprintln!("scale: {files} files and {snapshots} snapshots on {size}");
        let folder = folder.path().join(name);
        fs::create_dir(&folder).while_doing(folder.display())?;
        let volume = folder.join("volume");
        let memory = format!("{} MiB", plan.cache);
        let mut server = Server::create_sized(&binary, &volume, &plan.engine, size, &memory)?;
        populate(&binary, &server, files, snapshots)?;
        server.stop()?;
        Ok(server)
    };
    let mut small = make("small", "1G", SMALL, 0)?;
    let mut large = make("large", "1T", plan.files, plan.snapshots)?;
    let mut turns = Vec::new();
    for turn in 1..=plan.starts {
        let pair = [start(&binary, &mut small)?, start(&binary, &mut large)?];
        eprintln!("scale: {turn}: {pair:?}");
        turns.push(pair);
    }
    Ok(print(&rows(&turns)))
}

/// Makes files, and a snapshot each time that its share of the files is there.
fn populate(binary: &Path, server: &Server, files: u64, snapshots: u64) -> Result<()> {
    let (count, directories) = (files.to_string(), files.div_ceil(IN_DIRECTORY).to_string());
    let words = ["population", "--keep", "--connections", "8", "--depth", "16"];
    let more = ["--seconds", "0.2", "--count", &count, "--directories", &directories];
    let mut making = duramen::begin_bench(binary, &server.target(), &[&words[..], &more].concat())?;
    let mut made = 0;
    let status = loop {
        let status = making.try_wait().while_doing("waiting for duramen bench")?;
        let there = server.info()?["files"].as_u64().unwrap_or(0);
        while made < snapshots && (status.is_some() || made * files <= there * snapshots) {
            server.snapshot("create", &[&format!("s{made}")])?;
            made += 1;
        }
        match status {
            Some(status) => break status,
            None => clock::sleep(LOOK),
        }
    };
    if status.success() { Ok(()) } else { Err(Failure::new(format!("duramen bench: {status}"))) }
}

/// Serves a volume, kills its server under load, and starts another.
fn start(binary: &Path, server: &mut Server) -> Result<Start> {
    server.come_back()?;
    let words = ["create", "--connections", "8", "--depth", "16", "--seconds", "60"];
    let mut load = duramen::begin_bench(binary, &server.target(), &words)?;
    clock::sleep(LOAD);
    server.must_be_alive()?;
    server.die()?;
    load.kill().while_doing("ending the load")?;
    load.wait().while_doing("ending the load")?;
    forget_caches()?;
    fs::read(binary).while_doing(binary.display())?; // only reads of the volume count
    let (before, begun) = (disk_reads(server.folder()), clock::now());
    server.come_back()?;
    ask(server.port()).while_doing("asking the server")?;
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    let reads = before.zip(disk_reads(server.folder())).map(|(one, other)| other - one);
    server.stop()?;
    Ok(Start { ms, reads })
}

/// Drops the kernel's file caches.
fn forget_caches() -> Result<()> {
    const CONTROL: &str = "/proc/sys/vm/drop_caches";
    command::run(&mut Command::new("sync"))?;
    fs::write(CONTROL, "3").while_doing(CONTROL)
}

/// Number of reads so far of the disk with this folder.
fn disk_reads(folder: &Path) -> Option<f64> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Calls NULL of NFS, and waits for the answer.
fn ask(port: u16) -> std::io::Result<()> {
    const LENGTH: u32 = 1 << 31 | 40;
    const CALL: [u32; 10] = [1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    let words = [LENGTH].into_iter().chain(CALL);
    connection.write_all(&words.flat_map(u32::to_be_bytes).collect::<Vec<_>>())?;
    connection.read_exact(&mut [0; 28])
}

fn rows(turns: &[[Start; 2]]) -> Vec<Row> {
    let sorted = |figure: &dyn Fn(&[Start; 2]) -> Option<f64>| {
        let mut all: Vec<f64> = turns.iter().filter_map(figure).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let row = |what: &str, middle: bool, figure: fn(&Start) -> Option<f64>, unit, most| {
        let [small, large] = [0, 1].map(|which: usize| {
            let all = sorted(&|turn| figure(&turn[which]));
            all.get(if middle { all.len() / 2 } else { 0 }).copied()
        });
        Some(Row { what: what.to_owned(), small, large: large?, unit, most })
    };
    let ratios = sorted(&|[small, large]| Some(large.ms / small.ms));
    let ratio = ratios.get(ratios.len() / 2).map(|&large| Row {
        what: "the same, large to small, median of turns".to_owned(),
        small: None,
        large,
        unit: "times",
        most: Some(TIMES),
    });
    let (ms, reads) = (|start: &Start| Some(start.ms), |start: &Start| start.reads);
    let rows = [
        row("first answer after a kill, median", true, ms, "ms", Some(READY_MS)),
        row("the same, least", false, ms, "ms", None),
        ratio,
        row("reads of the disk for it, least", false, reads, "", Some(READS)),
    ];
    rows.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ratios_and_bounds_are_those_of_the_turns() {
        let turn = |small: f64, large: f64, reads| {
            [Start { ms: small, reads }, Start { ms: large, reads }]
        };
        let turns = [turn(100.0, 160.0, Some(9.0)), turn(50.0, 60.0, None), turn(10.0, 20.0, None)];
        let rows = rows(&turns);
        let figures: Vec<_> = rows.iter().map(|row| (row.small, row.large)).collect();
        let expected = [(Some(50.0), 60.0), (Some(10.0), 20.0), (None, 1.6), (Some(9.0), 9.0)];
        assert_eq!(figures, expected);
        let holds: Vec<_> = rows.iter().map(Row::holds).collect();
        assert_eq!(holds, [true, true, false, true]);
    }
}
