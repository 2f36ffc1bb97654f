//! The rows to measure, their loads, and our goals.

/// Number of calls under way: one, or one on each of 32 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Alone,
    Many,
}

/// Both loads, in order.
pub(super) const LOADS: [Load; 2] = [Load::Alone, Load::Many];

impl Load {
    /// Connections, with a call under way on each.
    pub(super) fn connections(self) -> u64 {
        match self {
            Load::Alone => 1,
            Load::Many => 32,
        }
    }
}

/// Unit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Steps a second.
    Steps,
    /// MiB a second.
    Payload,
}

/// The rate of the device that a row is compared with, beside that of the other server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Sequential write of the device.
    Write,
    /// Sequential read of the device.
    Read,
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Name of the workload in `duramen bench`.
    pub(super) workload: &'static str,
    pub(super) directories: u64,
    pub(super) unit: Unit,
    /// Whether caches are dropped before.
    pub(super) is_cold: bool,
    /// Goals for our rate, as a multiple of the other server's, under each load.
    pub(super) wanted: [Option<f64>; 2],
    /// Goal for our share of the device's own rate.
    pub(super) wanted_share: Option<(Limit, f64)>,
    /// Maximum of our processor time for a step or a MiB, as a fraction of the other server's.
    pub(super) wanted_cpu: Option<f64>,
}

const fn steps(name: &'static str, workload: &'static str, wanted: [f64; 2]) -> Row {
    let wanted = [Some(wanted[0]), Some(wanted[1])];
    let (directories, unit) = (1, Unit::Steps);
    let (is_cold, wanted_share, wanted_cpu) = (false, None, None);
    Row { name, workload, directories, unit, is_cold, wanted, wanted_share, wanted_cpu }
}

const fn payload(name: &'static str, workload: &'static str, wanted: [f64; 2]) -> Row {
    Row { unit: Unit::Payload, ..steps(name, workload, wanted) }
}

const fn spread(name: &'static str, workload: &'static str, wanted: [f64; 2]) -> Row {
    Row { directories: 16, ..steps(name, workload, wanted) }
}

const fn written(name: &'static str, workload: &'static str) -> Row {
    let (wanted_share, wanted_cpu) = (Some((Limit::Write, 0.7)), Some(0.5));
    Row { wanted_share, wanted_cpu, ..payload(name, workload, [1.5, 1.5]) }
}

const fn cold(name: &'static str, workload: &'static str) -> Row {
    let wanted_share = Some((Limit::Read, 0.8));
    Row { is_cold: true, wanted: [None; 2], wanted_share, ..payload(name, workload, [0.0; 2]) }
}

/// All rows, in the order of measurement and display.
pub(super) const ROWS: [Row; 17] = [
    Row { wanted_cpu: Some(0.5), ..steps("GETATTR", "getattr", [1.2, 1.5]) },
    steps("LOOKUP", "lookup", [1.2, 2.0]),
    Row { wanted_cpu: Some(0.5), ..steps("CREATE, one directory", "create", [2.0, 10.0]) },
    Row { wanted_cpu: Some(0.5), ..spread("CREATE, 16 directories", "create", [2.0, 2.0]) },
    steps("REMOVE, one directory", "remove", [2.0, 10.0]),
    spread("REMOVE, 16 directories", "remove", [2.0, 2.0]),
    steps("MKDIR, one directory", "mkdir", [2.0, 8.0]),
    steps("RMDIR, one directory", "rmdir", [2.0, 8.0]),
    steps("CREATE + 1 KiB FILE_SYNC, one directory", "create-write", [2.5, 5.0]),
    spread("CREATE + 1 KiB FILE_SYNC, 16 directories", "create-write", [2.5, 2.0]),
    steps("overwrite 8 KiB FILE_SYNC", "overwrite-8k", [1.5, 1.5]),
    written("UNSTABLE 64 KiB + COMMIT, MiB/s", "write-64k"),
    written("UNSTABLE 1 MiB + COMMIT, MiB/s", "write-1m"),
    payload("sequential READ 64 KiB, cached, MiB/s", "read-cold-64k", [1.0, 1.2]),
    payload("sequential READ 1 MiB, cached, MiB/s", "read-cold-1m", [1.0, 1.2]),
    cold("sequential READ 64 KiB, cold, MiB/s", "read-cold-64k"),
    cold("sequential READ 1 MiB, cold, MiB/s", "read-cold-1m"),
];

/// Duration, and number of objects made before REMOVE and RMDIR under each load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) seconds: f64,
    pub(super) removed: [u64; 2],
    /// MiB of files that are written or read, over all connections.
    pub(super) file_mib: u64,
}

impl Amount {
    /// MiB of files written before a round: the measurements take no more memory than these.
    pub(super) fn warmed_mib(&self) -> u64 {
        2 * self.file_mib
    }

    /// Arguments of `duramen bench` that write them.
    pub(super) fn warming(&self) -> Vec<String> {
        let connections = Load::Many.connections();
        let file_mib = self.warmed_mib() / connections;
        let words = format!(
            "read-cold-1m --connections {connections} --depth 1 --seconds 1 --count 1 \
             --file-size {file_mib}M"
        );
        words.split(' ').map(str::to_owned).collect()
    }
}

/// Shell command that drops the kernel's caches.
const FORGET: &str = "sync; echo 3 > /proc/sys/vm/drop_caches";

impl Row {
    /// Whether the row reads bytes.
    pub(super) fn is_read(&self) -> bool {
        self.workload.starts_with("read")
    }

    /// The faster way for the bare server: one thread for many connections with small calls, which
    /// wait for nothing or for a log; otherwise one thread for each connection (measured).
    pub(super) fn bare_manner(&self, load: Load) -> &'static str {
        let is_small = load == Load::Many && !self.workload.ends_with("1m") && !self.is_cold;
        if is_small { "together" } else { "apart" }
    }

    /// Arguments of `duramen bench`.
    pub(super) fn arguments(&self, load: Load, amount: &Amount) -> Vec<String> {
        let connections = load.connections();
        // A COMMIT is sent every 16 MiB of a file.
        let file_mib = (amount.file_mib / connections).max(16);
        let count = match self.workload {
            "remove" | "rmdir" => amount.removed[load as usize],
            "mkdir" => 30_000, // more would take a second directory
            // Each part is read once: a second read would not be cold.
            "read-cold-64k" if self.is_cold => file_mib * 16 * connections,
            "read-cold-1m" if self.is_cold => file_mib * connections,
            _ => 10_000_000,
        };
        let prepared = if self.is_cold { FORGET } else { "sync" };
        let seconds = amount.seconds;
        let words = format!(
            "{} --connections {connections} --depth 1 --directories {} --seconds {seconds} \
             --count {count} --file-size {file_mib}M --prepared",
            self.workload, self.directories
        );
        words.split(' ').chain([prepared]).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_cold_is_read_once() {
        let amount = Amount { seconds: 1.0, removed: [10, 20], file_mib: 512 };
        for row in ROWS.iter().filter(|row| row.is_cold) {
            for load in LOADS {
                let words = row.arguments(load, &amount);
                let after = |option: &str| {
                    let at = words.iter().position(|word| word == option);
                    words[at.expect("it is there") + 1].clone()
                };
                let piece = if row.workload.ends_with("64k") { 64 << 10 } else { 1 << 20 };
                let count: u64 = after("--count").parse().expect("a number");
                assert_eq!(count * piece, 512 << 20, "{row:?} {load:?}");
                assert!(after("--prepared").contains("drop_caches"));
            }
        }
    }
}
