//! nfs-ganesha, a server that we did not write, on a port of this machine.
//!
//! It serves files through the handles of a real file system, which not every kind has. It needs a
//! port mapper; one is started if none is running. Several servers may run at once: each also has
//! its own port for MOUNT, since the port mapper knows only one of them.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::duramen::free_ports;
use super::process::Process;
use crate::Result;
use crate::failure::While;

/// The port mapper's port.
const MAPPER: u16 = 111;

/// Number of lines of its log to show when something failed.
const LAST_WORDS: usize = 20;

/// A server of one folder. It ends with this value.
pub(crate) struct Ganesha {
    process: Process,
    port: u16,
    mount_port: u16,
    export: PathBuf,
}

impl Ganesha {
    /// Serves the folder `export`. The server's own files are in `folder`.
    pub(crate) fn start(folder: &Path, export: &Path) -> Result<Ganesha> {
        let [port, mount_port] = free_ports()?;
        let configuration = folder.join("ganesha.conf");
        let text = text(port, mount_port, export);
        fs::write(&configuration, text).while_doing(configuration.display())?;
        let mut ganesha = Command::new("/usr/bin/ganesha.nfsd");
        ganesha.arg("-F").arg("-f").arg(&configuration);
        ganesha.arg("-L").arg(log(folder)).arg("-p").arg(folder.join("ganesha.pid"));
        let mut process = Process::start("nfs-ganesha", &mut ganesha)?;
        process.listens("nfs-ganesha", port)?;
        Ok(Ganesha { process, port, mount_port, export: export.to_owned() })
    }

    /// Its target for `duramen bench`.
    pub(crate) fn target(&self) -> String {
        format!("nfs://127.0.0.1:{}{}", self.port, self.export.display())
    }

    /// The port of its MOUNT service.
    pub(crate) fn mount_port(&self) -> u16 {
        self.mount_port
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("ganesha.log")
}

/// The last lines of the log of the servers that had this folder.
pub(crate) fn last_words(folder: &Path) -> String {
    let log = fs::read_to_string(log(folder)).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
}

/// Starts a port mapper, unless one is running.
pub(crate) fn mapper() -> Result<Option<Process>> {
    if TcpStream::connect(("127.0.0.1", MAPPER)).is_ok() {
        return Ok(None);
    }
    // It listens on 127.0.0.1 in any case, and Debian 12's crashes if that is an argument; with
    // another address of this machine as argument, it does not listen on further ones if it can
    // avoid that.
    let mut mapper = Process::start(
        "rpcbind",
        Command::new("/usr/sbin/rpcbind").args(["-f", "-h", "127.0.0.2"]),
    )?;
    mapper.listens("rpcbind", MAPPER)?;
    Ok(Some(mapper))
}

/// Version 3 over TCP on this machine alone; it chooses the ports other than those of NFS and
/// MOUNT.
fn text(port: u16, mount_port: u16, export: &Path) -> String {
    let export = export.display();
    format!(
        "NFS_CORE_PARAM {{
            Protocols = 3;
            NFS_Port = {port};
            MNT_Port = {mount_port};
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
