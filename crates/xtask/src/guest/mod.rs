//! A Linux guest that runs one script: the real NFS client, in about two seconds.
//!
//! The guest is user-mode-linux, a kernel that is an ordinary process, so neither virtualisation
//! nor modules of the host are needed. The script sees:
//!
//! ```text
//!   /            the host's files, read-only (so all the host's programs)
//!   /mnt         the mount of the server at the host's 127.0.0.1:PORT; the script starts here
//!   /run/ufs     a disk image, mounted read-only by the kernel's own UFS driver
//!   /run/share   a folder of the host, writable
//!   /run/script  the script's own folder
//!   /tmp         empty memory
//! ```
//!
//! Layers, from the outside in: [`Guest`] is the request; [`kernel`] turns it into a command line;
//! [`settings`] passes the rest to `init.sh`, the guest's first process, as shell variables;
//! [`Running`] is the booted guest, whose script's output arrives line by line while it runs.
//!
//! Three things that are not obvious:
//!
//! * The guest's network is slirp, an IP stack in user space that turns the guest's connections to
//!   10.0.2.2 into the host's connections to 127.0.0.1. The server needs no other address.
//! * The script writes to the guest's second console, which is our standard output, while the
//!   kernel logs to the first. So the two never mix, and no reader waits for a file to be closed.
//! * Processes are slow to create here (about 15 ms for a fork and exec): a script with much work
//!   is one long-running program.

mod kernel;
mod running;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use running::Heard;
pub use running::{Outcome, Running};

use crate::Result;

/// A script to run in a guest, with its resources.
#[derive(Clone, Debug)]
pub struct Guest {
    /// A program of the host, in any language that the host can run.
    pub script: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The server to mount at `/mnt`, if any.
    pub mount: Option<Mount>,
    /// A disk image to mount read-only at `/run/ufs`.
    pub disk: Option<PathBuf>,
    /// A folder to give to the guest at `/run/share`.
    pub share: Option<PathBuf>,
    /// Time after which the guest is killed and counts as failed.
    pub time_limit: Duration,
}

/// A server of this machine.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The TCP port of both its services, on 127.0.0.1.
    pub port: u16,
    /// The path that it exports.
    pub export: String,
    /// Mount options beyond those that every mount here needs.
    pub options: Vec<String>,
}

/// Boots a guest and returns it running.
pub fn start(guest: &Guest) -> Result<Running> {
    kernel::boot(guest)
}

/// Boots a guest, and waits until its script has ended.
pub fn run(guest: &Guest) -> Result<Outcome> {
    let mut running = start(guest)?;
    let mut output = String::new();
    while let Some(line) = running.next_line()? {
        output.push_str(&line);
        output.push('\n');
    }
    Ok(Outcome { status: running.finish()?, output })
}
