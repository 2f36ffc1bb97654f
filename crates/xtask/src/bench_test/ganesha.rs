//! nfs-ganesha, a server that we did not write, on a port of this machine.
//!
//! It gives files through the handles of a real file system, which not every kind has: it is tried
//! on each of some folders until one will do. It wants a port mapper; one is started unless there
//! is one. None of that is skipped: a machine where it cannot be done fails the test.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::all;
use crate::client_test::server::free_port;
use crate::failure::While;
use crate::temporary::TemporaryFolder;
use crate::{Failure, Repository, Result, clock, command};

/// How long it may take to start. It forgets its clients first, and looks at every file system.
const READY: Duration = Duration::from_secs(30);

/// How long it may take to end when it is asked to.
const END: Duration = Duration::from_secs(10);

/// The port mapper's port.
const MAPPER: u16 = 111;

/// A process that ends with this value.
struct Process(Child);

impl Process {
    fn start(name: &str, program: &mut Command) -> Result<Process> {
        let quiet = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().map(Process).while_doing(name)
    }

    /// Waits until somebody listens on the port.
    fn listens(&mut self, name: &str, port: u16) -> Result<()> {
        let deadline = clock::now() + READY;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.0.try_wait().while_doing(name)? {
                return Err(Failure::new(format!("{name} has ended: {status}")));
            }
            if clock::now() > deadline {
                return Err(Failure::new(format!("{name} does not listen after {READY:?}")));
            }
            clock::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = command::run(Command::new("kill").args(["-TERM", &self.0.id().to_string()]));
        let deadline = clock::now() + END;
        while matches!(self.0.try_wait(), Ok(None)) && clock::now() < deadline {
            clock::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures it, with all workloads, on the first file system that will do.
pub(super) fn measure(repository: &Repository, binary: &Path, folder: &Path) -> Result<String> {
    let _mapper = mapper()?;
    let mut failures = Vec::new();
    for place in places(repository) {
        let export = place.path().join("export");
        fs::create_dir(&export).while_doing(export.display())?;
        match measure_there(binary, folder, &export) {
            Ok(note) => return Ok(format!("{note} (files in {})", export.display())),
            Err(failure) => failures.push(format!("{}: {failure}", export.display())),
        }
    }
    let log = fs::read_to_string(folder.join("ganesha.log")).unwrap_or_default();
    let last: Vec<_> = log.lines().rev().take(20).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    Err(Failure::new(format!("{}\nits log:\n{}", failures.join("\n"), last.join("\n"))))
}

/// Folders of file systems that may differ.
fn places(repository: &Repository) -> Vec<TemporaryFolder> {
    let parents = [std::env::temp_dir(), repository.target(), PathBuf::from("/dev/shm")];
    parents.iter().filter_map(|parent| TemporaryFolder::within(parent, "ganesha").ok()).collect()
}

/// A port mapper of our own, unless there is one.
fn mapper() -> Result<Option<Process>> {
    if TcpStream::connect(("127.0.0.1", MAPPER)).is_ok() {
        return Ok(None);
    }
    // It takes 127.0.0.1 in any case, and Debian 12's crashes when it is told to; told of another
    // address of this machine, it leaves the others alone as far as it can.
    let mut mapper = Process::start(
        "rpcbind",
        Command::new("/usr/sbin/rpcbind").args(["-f", "-h", "127.0.0.2"]),
    )?;
    mapper.listens("rpcbind", MAPPER)?;
    Ok(Some(mapper))
}

fn measure_there(binary: &Path, folder: &Path, export: &Path) -> Result<String> {
    let port = free_port()?;
    let configuration = folder.join("ganesha.conf");
    fs::write(&configuration, text(port, export)).while_doing(configuration.display())?;
    let mut ganesha = Command::new("/usr/bin/ganesha.nfsd");
    ganesha.arg("-F").arg("-f").arg(&configuration);
    ganesha.arg("-L").arg(folder.join("ganesha.log")).arg("-p").arg(folder.join("ganesha.pid"));
    let mut process = Process::start("nfs-ganesha", &mut ganesha)?;
    process.listens("nfs-ganesha", port)?;
    let note = all(binary, &format!("nfs://127.0.0.1:{port}{}", export.display()))?;
    drop(process);
    match fs::read_dir(export).while_doing(export.display())?.next() {
        None => Ok(note),
        Some(_) => Err(Failure::new("something was left behind in the export")),
    }
}

/// Version 3 over TCP on this machine alone; the ports besides that of NFS are of its choice.
fn text(port: u16, export: &Path) -> String {
    let export = export.display();
    format!(
        "NFS_CORE_PARAM {{
            Protocols = 3;
            NFS_Port = {port};
            Bind_addr = 127.0.0.1;
            Enable_NLM = false;
            Enable_RQUOTA = false;
            Enable_UDP = false;
            mount_path_pseudo = false;
        }}
        EXPORT {{
            Export_Id = 1;
            Path = {export};
            Pseudo = /export;
            Protocols = 3;
            Transports = TCP;
            Access_Type = RW;
            Squash = No_Root_Squash;
            SecType = sys;
            FSAL {{ Name = VFS; }}
        }}
        LOG {{ Default_Log_Level = EVENT; }}
        "
    )
}
