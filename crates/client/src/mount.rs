//! Mounting: from the path of an export to the handle of its root.

use std::rc::Rc;

use nfs::mount::{self, ExportList, MntArgs, MntResult, Procedure, Status};
use nfs::nfs3::Handle;
use nfs::rpc::{Caller, PROGRAM_MOUNT};
use runtime::Runtime;

use crate::call::{CallError, Client, results};
use crate::connection::{Connection, Numbers};
use crate::stream::{Dial, Service};

/// The reasons for which a mount failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// No server could be reached.
    #[error("cannot connect to the server's MOUNT service: {0}")]
    Unreachable(#[from] std::io::Error),
    /// The server has no such export.
    #[error("the server does not export '{path}'{}", others(.exports))]
    NoSuchExport {
        /// The requested path.
        path: String,
        /// The exports of the server.
        exports: Vec<String>,
    },
    /// The server refuses.
    #[error("the server does not let this client mount '{path}' ({status:?})")]
    Refused {
        /// The requested path.
        path: String,
        /// The status of the server.
        status: Status,
    },
    /// The server's replies are not those of a MOUNT service.
    #[error("the server's MOUNT service does not answer as one: {0}")]
    Call(#[from] CallError),
}

fn others(exports: &[String]) -> String {
    match exports {
        [] => String::new(),
        some => format!("; it exports: {}", some.join(" ")),
    }
}

/// Mounts `path`: returns the handle of its root.
///
/// # Errors
/// [`MountError`].
pub async fn mount(
    runtime: &Runtime,
    dial: &dyn Dial,
    caller: &Rc<Caller>,
    numbers: &Numbers,
    path: &str,
) -> Result<Handle, MountError> {
    let connection = Connection::start(runtime, dial.dial(Service::Mount).await?);
    let client = Client::new(connection, caller.clone(), numbers.clone());
    let target = |procedure| (PROGRAM_MOUNT, mount::VERSION, procedure as u32);
    let arguments = MntArgs { path: path.as_bytes() };
    let record = client.ask_with(target(Procedure::Mnt), &arguments).await?;
    let result: MntResult = results(&record)?.value().map_err(CallError::from)?;
    let status = match result {
        Ok(ok) => return Ok(ok.handle),
        Err(status) => status,
    };
    let path = path.to_owned();
    let record = client.ask_with(target(Procedure::Export), &()).await?;
    // Not every server shows its exports to every client.
    let list = results(&record).ok().and_then(|mut from| from.value().ok());
    let ExportList(exports) = list.unwrap_or_default();
    let name = |export: &mount::Export| String::from_utf8_lossy(&export.path).into_owned();
    let exports: Vec<_> = exports.iter().map(name).collect();
    // Some servers deny access to a path that does not exist.
    let is_unknown = !exports.is_empty() && !exports.contains(&path);
    if status == Status::NoEntry || (status == Status::Access && is_unknown) {
        Err(MountError::NoSuchExport { path, exports })
    } else {
        Err(MountError::Refused { path, status })
    }
}
