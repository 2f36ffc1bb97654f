//! Large volumes compared with small ones: start time, memory of the server, and processor time of
//! a call.
//!
//! Two shapes of the workload `population` of `duramen bench` run on a sparse volume of 1 TiB, many
//! files and one directory with many entries, and are compared with 20 directories of 1,000 on a
//! separate volume. Every figure has a bound, and the chore fails when one is exceeded.
//! [`openings`] has the measurements of engines with snapshots.

pub mod openings;
mod row;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::row::{Row, print};
use crate::failure::While;
use crate::servers::duramen::{self, Server};
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result, clock};

/// Sizes, and folders.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Files on the large volume.
    pub files: u64,
    /// Entries of the large directory.
    pub entries: u64,
    /// Seconds for which each procedure is measured.
    pub seconds: f64,
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

/// Bounds: a start in ms, MiB of memory beyond the setting, and a call in multiples of the small
/// volume's.
const START_MS: f64 = 1000.0;
const BEYOND_CACHE_MIB: u32 = 64;
const AMONG_MANY_FILES: [(&str, f64); 2] = [("CREATE", 1.5), ("LOOKUP", 1.5)];
const AMONG_MANY_ENTRIES: [(&str, f64); 4] =
    [("CREATE", 2.0), ("LOOKUP", 2.0), ("READDIRPLUS", 2.0), ("REMOVE", 2.0)];

/// Bytes of a name of the workload, used to compute the entries of listings.
const NAME: f64 = 10.0;

/// Measures everything, prints the table, and returns whether every bound was met.
///
/// # Errors
/// When a measurement fails.
pub fn run(repository: &Repository, plan: &Plan) -> Result<bool> {
    let binary = match &plan.program {
        Some(program) => program.clone(),
        None => duramen::build(repository)?,
    };
    let (folder, seconds) = (folder(plan)?, plan.seconds.to_string());
    let scale = Scale { binary, folder, seconds, cache: plan.cache };
    let rows = scale.measure(plan)?;
    Ok(print(&rows))
}

fn folder(plan: &Plan) -> Result<TemporaryFolder> {
    match &plan.folder {
        Some(parent) => TemporaryFolder::within(parent, "scale"),
        None => TemporaryFolder::new("scale"),
    }
}

struct Scale {
    binary: PathBuf,
    folder: TemporaryFolder,
    seconds: String,
    cache: u32,
}

impl Scale {
    fn measure(&self, plan: &Plan) -> Result<Vec<Row>> {
        let small = self.create("small", "10G")?;
        let base = self.populate(&small, SMALL, SMALL / IN_DIRECTORY)?;
        drop(small);
        let mut rows = Vec::new();
        let files = plan.files;
        let mut large = self.create("large", "1T")?;
        let many = self.populate(&large, files, files.div_ceil(IN_DIRECTORY))?;
        rows.extend(compare(&format!("of {files} files"), &base, &many, &AMONG_MANY_FILES)?);
        rows.push(self.memory(&large, &format!("{files} files"))?);
        large.stop()?;
        let volume = large.folder().join("volume");
        let (large, clean_ms) = self.open(&volume)?;
        rows.push(start("a clean stop", clean_ms));
        self.bench(&large, 1_000, 1, false)?; // so that there is something to replay
        drop(large);
        let (mut large, cut_ms) = self.open(&volume)?;
        rows.push(start("a kill", cut_ms));
        let entries = plan.entries;
        let wide = self.populate(&large, entries, 1)?;
        let title = format!("in a directory of {entries}");
        rows.extend(compare(&title, &base, &wide, &AMONG_MANY_ENTRIES)?);
        rows.push(self.memory(&large, &format!("a directory of {entries}"))?);
        large.stop()?;
        Ok(rows)
    }

    fn create(&self, name: &str, size: &str) -> Result<Server> {
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder).while_doing(folder.display())?;
        self.serve(&folder.join("volume"), Some(size))
    }

    fn serve(&self, volume: &Path, size: Option<&str>) -> Result<Server> {
        Server::with_memory(&self.binary, volume, &format!("{} MiB", self.cache), size)
    }

    /// Serves an existing volume; returns the time until it was ready, in ms.
    fn open(&self, volume: &Path) -> Result<(Server, f64)> {
        let begun = clock::now();
        let server = self.serve(volume, None)?;
        Ok((server, begun.elapsed().as_secs_f64() * 1e3))
    }

    /// Plays the workload and keeps its files.
    fn populate(&self, server: &Server, count: u64, directories: u64) -> Result<Value> {
        eprintln!("scale: {count} files in {directories} directories");
        self.bench(server, count, directories, true)
    }

    fn bench(&self, server: &Server, count: u64, directories: u64, keep: bool) -> Result<Value> {
        let (count, directories) = (count.to_string(), directories.to_string());
        let mut words = vec!["population", "--connections", "8", "--depth", "16"];
        words.extend(["--seconds", &self.seconds, "--count", &count]);
        words.extend(["--directories", &directories]);
        words.extend(keep.then_some("--keep"));
        duramen::bench(&self.binary, &server.target(), &words)
    }

    fn memory(&self, server: &Server, when: &str) -> Result<Row> {
        let (what, large) = (format!("most memory (RSS), {when}"), peak_memory(server)?);
        let most = Some(f64::from(self.cache + BEYOND_CACHE_MIB));
        Ok(Row { what, small: None, large, unit: "MiB", most })
    }
}

/// Peak memory of the server, in MiB.
fn peak_memory(server: &Server) -> Result<f64> {
    let path = format!("/proc/{}/status", server.id());
    let status = fs::read_to_string(&path).while_doing(&path)?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    let kib = kib.ok_or_else(|| Failure::new(format!("{path} says nothing of memory")))?;
    Ok(kib / 1024.0)
}

/// Cost of each procedure, in us of the server's processor time for each call or entry.
fn costs(report: &Value) -> Result<Vec<(String, f64)>> {
    let missing = || Failure::new(format!("a report without figures: {report}"));
    let phases = report["workloads"].as_array().ok_or_else(missing)?;
    let cost = |phase: &Value| {
        let name = phase["name"].as_str()?.rsplit(' ').next()?;
        let calls = phase["steps"].as_f64()?;
        let listed = phase["bytes"].as_f64()? / NAME;
        let units = if name == "READDIRPLUS" { listed } else { calls };
        Some((name.to_owned(), phase["server_cpu_s"].as_f64()? * 1e6 / units))
    };
    phases.iter().map(|phase| cost(phase).ok_or_else(missing)).collect()
}

/// Compares the costs on both volumes; `bounds` are multiples of the small volume's.
fn compare(title: &str, small: &Value, large: &Value, bounds: &[(&str, f64)]) -> Result<Vec<Row>> {
    let pairs = costs(small)?.into_iter().zip(costs(large)?);
    let row = |((name, small), (_, large)): ((String, f64), (String, f64))| {
        let bound = bounds.iter().find(|(bounded, _)| *bounded == name);
        let each = if name == "READDIRPLUS" { ", an entry" } else { "" };
        let most = bound.map(|(_, times)| small * times);
        Row { what: format!("{name} {title}{each}"), small: Some(small), large, unit: "us", most }
    };
    Ok(pairs.map(row).collect())
}

fn start(after: &str, large: f64) -> Row {
    let what = format!("start after {after}");
    Row { what, small: None, large, unit: "ms", most: Some(START_MS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(create_s: f64, listing_s: f64) -> Value {
        let phase = |name: &str, bytes: u64, cpu: f64| {
            json!({"name": format!("population {name}"), "steps": 100_000, "bytes": bytes,
                   "server_cpu_s": cpu})
        };
        json!({"workloads": [phase("CREATE", 0, create_s),
                             phase("READDIRPLUS", 10_000_000, listing_s)]})
    }

    #[test]
    fn what_costs_more_than_is_allowed_is_told() {
        let bounds = [("CREATE", 1.5), ("READDIRPLUS", 2.0)];
        let compared = |large| compare("", &report(2.0, 0.4), &large, &bounds).expect("figures");
        assert!(compared(report(2.9, 0.7)).iter().all(Row::holds));
        assert_eq!(compared(report(2.9, 0.9)).iter().filter(|row| row.holds()).count(), 1);
        let dear = compared(report(3.1, 0.7));
        assert!(
            !dear[0].holds() && dear[0].line().ends_with("| 20.00 | 31.00 | 30.00 | us | NO |")
        );
        assert!((dear[1].large - 0.7).abs() < 1e-9, "an entry, not a call: {:?}", dear[1]);
    }

    #[test]
    fn a_report_without_figures_is_a_failure() {
        assert!(costs(&json!({"workloads": [{"name": "x CREATE", "steps": 1}]})).is_err());
    }
}
