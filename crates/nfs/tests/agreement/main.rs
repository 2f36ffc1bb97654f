//! An independent implementation writes arguments that we read, and reads results that we write:
//! the golden bytes and the codec could share a misreading of the RFC, these two do not.

mod arguments;
mod results;

use nfs3_types::nfs3 as peer;

/// The peer's handle with these bytes.
fn peer_handle(bytes: &[u8]) -> peer::nfs_fh3 {
    peer::nfs_fh3 { data: bytes.to_vec().into() }
}

fn peer_time(seconds: u32, nseconds: u32) -> peer::nfstime3 {
    peer::nfstime3 { seconds, nseconds }
}
