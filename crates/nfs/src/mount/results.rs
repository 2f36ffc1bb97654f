//! Results of the procedures, owned. NULL, UMNT and UMNTALL have none: their reply is a bare
//! [`success`](crate::rpc::success).

use bytes::Bytes;

use crate::nfs3::Handle;
use crate::xdr::{Encode, Encoder};

/// MNTNAMLEN: the longest name of a client or a group of clients, in bytes.
pub const MAX_NAME: usize = 255;

/// `mountstat3` without MNT3_OK, which only an `Ok` [`MntResult`] can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// MNT3ERR_PERM: not the owner.
    NotOwner = 1,
    /// MNT3ERR_NOENT: no such path.
    NoEntry = 2,
    /// MNT3ERR_IO: a hard error.
    Io = 5,
    /// MNT3ERR_ACCES: this client is not admitted.
    Access = 13,
    /// MNT3ERR_NOTDIR: not a directory.
    NotDirectory = 20,
    /// MNT3ERR_INVAL: the arguments make no sense.
    Invalid = 22,
    /// MNT3ERR_NAMETOOLONG: a path too long.
    NameTooLong = 63,
    /// MNT3ERR_NOTSUPP: not supported.
    NotSupported = 10004,
    /// MNT3ERR_SERVERFAULT: an error that has no other name.
    ServerFault = 10006,
}

/// Results of MNT.
pub type MntResult = Result<MntOk, Status>;

/// `mountres3_ok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MntOk {
    /// The directory.
    pub handle: Handle,
    /// The flavors of authentication that it accepts, best first.
    pub flavors: Vec<u32>,
}

/// Results of DUMP: the mounts that the server remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountList(pub Vec<Mount>);

/// `mountbody`: a client has mounted a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The client's name or address, at most [`MAX_NAME`] bytes.
    pub client: Bytes,
    /// The path, at most [`MAX_PATH`](super::MAX_PATH) bytes.
    pub path: Bytes,
}

/// Results of EXPORT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportList(pub Vec<Export>);

/// `exportnode`: a path, and the clients that may mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The path, at most [`MAX_PATH`](super::MAX_PATH) bytes.
    pub path: Bytes,
    /// Names of clients or groups of clients, at most [`MAX_NAME`] bytes each; none means all.
    pub groups: Vec<Bytes>,
}

/// MNT3_OK.
const OK: u32 = 0;

impl Encode for MntResult {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Ok(results) => {
                to.u32(OK);
                to.value(results);
            }
            Err(status) => to.u32(*status as u32),
        }
    }
}

impl Encode for MntOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.handle);
        to.u32(u32::try_from(self.flavors.len()).expect("a server knows a few flavors"));
        for &flavor in &self.flavors {
            to.u32(flavor);
        }
    }
}

impl Encode for MountList {
    fn encode(&self, to: &mut Encoder) {
        for mount in &self.0 {
            to.bool(true);
            to.opaque(&mount.client);
            to.opaque(&mount.path);
        }
        to.bool(false);
    }
}

impl Encode for ExportList {
    fn encode(&self, to: &mut Encoder) {
        for export in &self.0 {
            to.bool(true);
            to.opaque(&export.path);
            for group in &export.groups {
                to.bool(true);
                to.opaque(group);
            }
            to.bool(false);
        }
        to.bool(false);
    }
}
