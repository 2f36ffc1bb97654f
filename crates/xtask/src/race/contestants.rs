//! The contestants: two servers that keep their promises, on devices of the same kind; and for
//! comparison the other server as most people run it, and ours as most people will.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Plan, rows::Load, rows::ROWS, rows::Row};
use crate::failure::While;
use crate::servers::bare::Bare;
use crate::servers::duramen::{self, Server};
use crate::servers::ganesha::Ganesha;
use crate::track::disk::Disk;
use crate::track::janitor::{Janitor, quoted};
use crate::{Failure, Result, command};

/// Identifies a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// Ours, with a device each for its disk and its log.
    Ours,
    /// nfs-ganesha on XFS, mounted `wsync`.
    Theirs,
    /// nfs-ganesha on XFS with default mount options: it answers before the data is on the disk.
    Volatile,
    /// Ours with soft updates, on one device, as a volume that is declared delayed: it also answers
    /// before the data is on the disk.
    Delayed,
    /// Ours, in a folder of the file system that is underneath all devices.
    File,
    /// Ours with another engine, on a device.
    Engine,
    /// nfs-ganesha on btrfs.
    Btrfs,
    /// A server that only moves bytes, which are durable when it answers: the upper bound for any
    /// server.
    Bare,
}

enum Process {
    Duramen(Server),
    Ganesha(Ganesha),
    /// The program, and the server while it runs for a row.
    Bare(PathBuf, Option<Bare>),
}

/// A running server.
pub(super) struct Contestant {
    pub(super) who: Who,
    process: Process,
    /// Its data device, if it has one.
    disk: Option<Disk>,
}

/// Memory setting of ours for cold reads: sequential reads of more data come from the disk.
pub(super) const LITTLE_MEMORY: &str = "256 MiB";

/// Command that makes an XFS. -K: discarding would free the space that the file underneath has
/// allocated.
const XFS: &[&str] = &["mkfs.xfs", "-q", "-K"];

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Steps or MiB.
    pub(super) units: f64,
    /// Steps or MiB a second.
    pub(super) rate: f64,
    /// The server's processor time, in seconds.
    pub(super) cpu_s: Option<f64>,
}

/// Resources for starting the contestants.
pub(super) struct Ground<'a> {
    pub(super) binary: &'a Path,
    pub(super) bare: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) is_direct: bool,
    pub(super) disk_mib: u64,
    pub(super) log_mib: u64,
}

impl Ground<'_> {
    /// Starts all of them. The bare one gets a device that is otherwise only measured by itself.
    pub(super) fn start(&self, janitor: &mut Janitor, raw: &Disk) -> Result<Vec<Contestant>> {
        let bare = Process::Bare(self.bare.to_owned(), None);
        Ok(vec![
            self.ours(janitor)?,
            self.ganesha(janitor, Who::Theirs, XFS, "wsync")?,
            self.ganesha(janitor, Who::Volatile, XFS, "defaults")?,
            self.delayed(janitor)?,
            self.file(janitor)?,
            Contestant { who: Who::Bare, process: bare, disk: Some(raw.clone()) },
        ])
    }

    pub(super) fn disk(&self, janitor: &mut Janitor, name: &str, mib: u64) -> Result<Disk> {
        Disk::make(janitor, self.folder, name, mib, self.is_direct)
    }

    pub(super) fn ours(&self, janitor: &mut Janitor) -> Result<Contestant> {
        let disk = self.disk(janitor, "duramen-disk", self.disk_mib)?;
        let log = self.disk(janitor, "duramen-log", self.log_mib)?;
        let folder = self.own_folder("duramen")?;
        let server = Server::on_devices(self.binary, disk.path(), log.path(), &folder)?;
        janitor.end(server.id(), &self.folder.to_string_lossy())?;
        Ok(Contestant { who: Who::Ours, process: Process::Duramen(server), disk: Some(disk) })
    }

    pub(super) fn engine(&self, janitor: &mut Janitor, engine: &str) -> Result<Contestant> {
        let disk = self.disk(janitor, "duramen-engine", self.disk_mib)?;
        let folder = self.own_folder("engine")?;
        let server = Server::with_engine_on_device(self.binary, disk.path(), &folder, engine)?;
        janitor.end(server.id(), &self.folder.to_string_lossy())?;
        Ok(Contestant { who: Who::Engine, process: Process::Duramen(server), disk: Some(disk) })
    }

    fn delayed(&self, janitor: &mut Janitor) -> Result<Contestant> {
        let disk = self.disk(janitor, "duramen-delayed", self.disk_mib)?;
        let folder = self.own_folder("delayed")?;
        let server = Server::delayed_on_device(self.binary, disk.path(), &folder)?;
        janitor.end(server.id(), &self.folder.to_string_lossy())?;
        let process = Process::Duramen(server);
        Ok(Contestant { who: Who::Delayed, process, disk: Some(disk) })
    }

    fn file(&self, janitor: &mut Janitor) -> Result<Contestant> {
        let server = Server::create(self.binary, &self.folder.join("volume"))?;
        janitor.end(server.id(), &self.folder.to_string_lossy())?;
        Ok(Contestant { who: Who::File, process: Process::Duramen(server), disk: None })
    }

    pub(super) fn ganesha(
        &self,
        janitor: &mut Janitor,
        who: Who,
        mkfs: &[&str],
        option: &str,
    ) -> Result<Contestant> {
        let name = format!("ganesha-{option}");
        let disk = self.disk(janitor, &format!("{name}-disk"), self.disk_mib)?;
        let folder = self.own_folder(&name)?;
        command::capture(Command::new(mkfs[0]).args(&mkfs[1..]).arg(disk.path()))?;
        let export = folder.join("export");
        fs::create_dir(&export).while_doing(export.display())?;
        let mut mount = Command::new("mount");
        command::capture(mount.args(["-o", option]).arg(disk.path()).arg(&export))?;
        let unmount = format!("umount {}", quoted(&export));
        janitor.promise(&format!("{unmount} || {{ sleep 2; {unmount}; }}"))?;
        let ganesha = Ganesha::start(&folder, &export)?;
        janitor.end(ganesha.id(), &self.folder.to_string_lossy())?;
        Ok(Contestant { who, process: Process::Ganesha(ganesha), disk: Some(disk) })
    }

    fn own_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).while_doing(folder.display())?;
        Ok(folder)
    }
}

impl Contestant {
    /// Prepares the contestant for a row. The kernel drops its caches on command; our own cache has
    /// to be small, and the bare one caches everything or nothing.
    pub(super) fn suit(
        &mut self,
        row: &Row,
        load: Load,
        folder: &Path,
        janitor: &mut Janitor,
    ) -> Result<()> {
        match &mut self.process {
            Process::Duramen(server) => {
                let memory = row.is_cold.then_some(LITTLE_MEMORY);
                if server.memory() != memory {
                    server.restart_with_memory(memory)?;
                    janitor.end(server.id(), &folder.to_string_lossy())?;
                }
            }
            Process::Bare(binary, server) => {
                *server = None; // it holds the device until it has ended
                let disk = self.disk.as_ref().map(|disk| disk.path().to_string_lossy());
                let mut words = vec![row.bare_manner(load), disk.as_deref().unwrap_or_default()];
                words.extend((!row.is_cold && row.is_read()).then_some("keep"));
                *server = Some(Bare::start(binary, &words)?);
            }
            Process::Ganesha(_) => {}
        }
        Ok(())
    }

    /// Makes the contestant take the memory that it needs in a round. The bare one is started for
    /// each row.
    pub(super) fn warm(
        &mut self,
        ground: &Ground<'_>,
        janitor: &mut Janitor,
        plan: &Plan,
    ) -> Result<()> {
        if matches!(self.process, Process::Bare(..)) {
            return Ok(());
        }
        self.suit(&ROWS[0], Load::Many, ground.folder, janitor)?;
        self.bench(ground.binary, plan.amount().warming()).map(drop)
    }

    /// Measures a row.
    pub(super) fn measure(
        &self,
        binary: &Path,
        row: &Row,
        load: Load,
        plan: &Plan,
    ) -> Result<Sample> {
        let read = |disk: &Option<Disk>| disk.as_ref().map_or(Ok(0), Disk::read_bytes);
        let before = read(&self.disk)?;
        let report = self.bench(binary, row.arguments(load, &plan.amount()))?;
        let result = &report["workloads"][0];
        let number = |field: &str| {
            result[field].as_f64().ok_or_else(|| Failure::new(format!("no {field}: {report}")))
        };
        let mib = number("bytes")? / f64::from(1 << 20);
        let read_mib = (read(&self.disk)? - before) as f64 / f64::from(1 << 20);
        if row.is_cold && self.disk.is_some() && read_mib < 0.9 * mib {
            let sentence = format!("{mib} MiB were read, but only {read_mib} from the device");
            return Err(Failure::new(sentence));
        }
        let (units, rate) = match row.unit {
            super::rows::Unit::Steps => (number("steps")?, number("rate_per_s")?),
            super::rows::Unit::Payload => (mib, number("mib_per_s")?),
        };
        Ok(Sample { units, rate, cpu_s: result["server_cpu_s"].as_f64() })
    }

    /// Report of `duramen bench` for the contestant, with these arguments.
    fn bench(&self, binary: &Path, mut words: Vec<String>) -> Result<serde_json::Value> {
        let target = match &self.process {
            Process::Duramen(server) => server.target(),
            Process::Ganesha(ganesha) => {
                words.extend(["--mount-port".to_owned(), ganesha.mount_port().to_string()]);
                ganesha.target()
            }
            Process::Bare(_, server) => {
                let server = server.as_ref();
                server.ok_or_else(|| Failure::new("the bare server is not ready"))?.target()
            }
        };
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        duramen::bench(binary, &target, &words)
    }

    /// Stops the contestant. Ours must stop cleanly.
    pub(super) fn stop(self) -> Result<()> {
        match self.process {
            Process::Duramen(mut server) => {
                server.stop()?;
                server.check().map(drop)
            }
            Process::Ganesha(ganesha) => {
                drop(ganesha);
                Ok(())
            }
            Process::Bare(_, server) => {
                drop(server);
                Ok(())
            }
        }
    }
}
