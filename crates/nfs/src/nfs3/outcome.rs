//! The shape that the results of all procedures share: a status, and one of two arms.

use super::Status;
use crate::xdr::{Encode, Encoder};

/// The reply of a procedure: `T` with NFS3_OK, or a refusal with `W` about the objects involved.
pub type Outcome<T, W> = Result<T, Failure<W>>;

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<W> {
    /// The reason.
    pub status: Status,
    /// The attributes of the procedure's failure arm.
    pub about: W,
}

impl<W: Default> From<Status> for Failure<W> {
    /// A refusal without attributes.
    fn from(status: Status) -> Self {
        Self { status, about: W::default() }
    }
}

/// NFS3_OK.
const OK: u32 = 0;

impl<T: Encode, W: Encode> Encode for Outcome<T, W> {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Ok(results) => {
                to.u32(OK);
                results.encode(to);
            }
            Err(Failure { status, about }) => {
                status.encode(to);
                about.encode(to);
            }
        }
    }
}
