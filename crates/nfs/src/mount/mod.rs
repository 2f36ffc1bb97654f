//! MOUNT version 3 (RFC 1813, appendix I): from the path of an export to its first handle.

mod arguments;
mod client;
mod procedure;
mod results;

pub use arguments::{Arguments, MAX_PATH, MntArgs, UmntArgs};
pub use procedure::Procedure;
pub use results::{Export, ExportList, MAX_NAME, MntOk, MntResult, Mount, MountList, Status};

/// The version of the protocol.
pub const VERSION: u32 = 3;
