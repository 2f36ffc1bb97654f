//! Runs the program that measures, and reads its report.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::While;
use crate::{Failure, Repository, Result, command};

/// Builds it; returns its path.
pub(super) fn build(repository: &Repository) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "member-bench"]);
    command::run(cargo.current_dir(repository.root()))?;
    Ok(repository.target().join("release/member-bench"))
}

/// Makes one run with these arguments, on these devices or files. The kernel's caches are dropped
/// before.
pub(super) fn measure(binary: &Path, words: &str, disks: &[&Path]) -> Result<Value> {
    let forget = "sync; echo 3 > /proc/sys/vm/drop_caches";
    command::capture(Command::new("sh").args(["-c", forget]))?;
    let mut run = Command::new(binary);
    let report = command::capture(run.args(words.split(' ')).args(disks))?;
    let report: Value = serde_json::from_str(&report).while_doing(words)?;
    match report["of"]["wrong"].as_u64() {
        None | Some(0) => Ok(report),
        Some(wrong) => Err(Failure::new(format!("{words}: {wrong} errors of members"))),
    }
}

/// A figure of its report.
pub(super) fn figure(report: &Value, name: &str) -> Result<f64> {
    let figure = report[name].as_f64().filter(|figure| *figure > 0.0);
    figure.ok_or_else(|| Failure::new(format!("a report without {name}: {report}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_without_a_figure_is_a_failure() {
        let report = json!({"mib_per_s": 3.5, "seconds": 0.0});
        assert_eq!(figure(&report, "mib_per_s"), Ok(3.5));
        assert!(figure(&report, "seconds").is_err(), "nothing takes no time");
        assert!(figure(&report, "requests_per_s").is_err());
    }
}
