//! A second client: libnfs, an implementation of the protocol in user space.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::While;
use crate::servers::duramen::Server;
use crate::{Failure, Result, command};

/// Copies a file to the server with libnfs, and back.
pub(super) fn copy_there_and_back(server: &Server, folder: &Path) -> Result<String> {
    let port = server.port();
    let address = |path: &str| {
        format!("nfs://127.0.0.1/volume/{path}?version=3&nfsport={port}&mountport={port}")
    };
    let (there, back) = (folder.join("there"), folder.join("back"));
    let bytes = fs::read("/proc/self/exe").while_doing("our own program")?;
    fs::write(&there, &bytes).while_doing(there.display())?;
    command::capture(Command::new("nfs-cp").arg(&there).arg(address("libnfs")))?;
    command::capture(Command::new("nfs-cp").arg(address("libnfs")).arg(&back))?;
    let listing = command::capture(Command::new("nfs-ls").arg(address("")))?;
    if !listing.lines().any(|line| line.split_whitespace().any(|word| word == "libnfs")) {
        return Err(Failure::new(format!("nfs-ls does not show the file:\n{listing}")));
    }
    if fs::read(&back).while_doing(back.display())? != bytes {
        return Err(Failure::new("what came back is not what was put there"));
    }
    Ok(format!("copied {} MiB there and back", bytes.len() >> 20))
}
