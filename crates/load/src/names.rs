//! Names of the files of workloads, and their lookup.

use nfs::nfs3::arguments::{DirectoryName, LookupArgs};
use nfs::nfs3::{Handle, SetAttributes};

use client::{CallError, Client};

/// The requested size of a READDIRPLUS, in bytes.
pub(crate) const LISTING: u32 = 32 << 10;

/// A name in a directory, in the form for arguments.
pub(crate) fn at<'a>(directory: &'a Handle, name: &'a [u8]) -> DirectoryName<'a> {
    DirectoryName { directory: directory.as_bytes(), name }
}

/// The handle of a name.
pub(crate) async fn look_up(
    client: &Client,
    directory: &Handle,
    name: &[u8],
) -> Result<Handle, CallError> {
    let what = at(directory, name);
    Ok(client.call(&LookupArgs { what }).await?.object)
}

/// The initial attributes of files of workloads.
pub(crate) fn open_to_owner() -> SetAttributes {
    SetAttributes { mode: Some(0o755), ..SetAttributes::default() }
}
