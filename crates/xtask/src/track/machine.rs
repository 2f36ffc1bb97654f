//! Description of a race's machine, for readers of its figures.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Repository, Result, command};

/// Lines of a list. `other` is the package that ours is compared with.
pub(crate) fn describe(repository: &Repository, folder: &Path, other: &str) -> Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = field(&memory, "MemTotal").and_then(|text| text.split(' ').next());
    let memory = memory.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() >> 20;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut date = Command::new("date");
    let date = command::capture(date.args(["-u", "+%F %H:%M UTC"]))?;
    let mut find = Command::new("findmnt");
    find.args(["-no", "FSTYPE,OPTIONS", "-T"]).arg(folder);
    let underneath = command::capture(&mut find).unwrap_or_else(|_| "unknown".to_owned());
    let underneath = underneath.split_whitespace().collect::<Vec<_>>().join(", ");
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(repository.root());
    let version = command::capture(&mut git).unwrap_or_default();
    let other_version = package(other);
    Ok(format!(
        "* {}, of {}\n* {cores} cores of {}, {memory} GiB of memory\n* Linux {}, {other} \
         {other_version}\n* the file system underneath: {underneath}\n",
        date.trim(),
        version.trim(),
        field(&cpus, "model name").unwrap_or("an unknown processor"),
        kernel.trim(),
    ))
}

/// Processes that are running or waiting for a disk, on average over the last minute.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}

/// The version of a Debian package.
fn package(name: &str) -> String {
    let mut query = Command::new("dpkg-query");
    let version = command::capture(query.args(["-W", "-f", "${Version}", name]));
    version.unwrap_or_else(|_| "of an unknown version".to_owned())
}

/// A line of a `/proc` file, by its name.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 17\nmodel name\t: AMD EPYC\nMemTotal:   100 kB\n";
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(field(text, "MemTotal"), Some("100 kB"));
        assert_eq!(field(text, "name"), None);
    }
}
