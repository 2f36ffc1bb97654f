//! Limits on the part of a directory that fits into one reply.
//!
//! READDIR bounds `READDIR3resok` with `count` (RFC 1813, section 3.3.16). READDIRPLUS bounds
//! `READDIRPLUS3resok` with `maxcount`, and with `dircount` the part of it that is names: ids,
//! names and cookies without attributes and handles (section 3.3.17). Sizes are those on the wire,
//! with all lengths and padding; the status in front of the structure is not a part of it.
//!
//! The attributes of the directory itself are always counted, whether they will be there or not,
//! since that is known only after the listing.

use super::{Attributes, MAX_HANDLE};
use crate::xdr::{UNIT, opaque_size};

/// The length of a listing without entries, in bytes. A smaller count than this is
/// [`Status::TooSmall`](super::Status::TooSmall), even where there is nothing to list.
pub const EMPTY_LISTING: u32 = FRAME as u32;

/// The length of `bool` and an optional value after it.
const POST_OP: usize = UNIT + Attributes::SIZE;

/// The length of directory attributes, cookie verifier, the end of the list and `eof`.
const FRAME: usize = POST_OP + 8 + UNIT + UNIT;

/// The length of id, name and cookie of an entry.
const fn name_size(name_length: usize) -> usize {
    8 + opaque_size(name_length) + 8
}

/// The room left in a READDIR reply.
#[derive(Clone, Copy, Debug)]
pub struct ReaddirBudget {
    left: usize,
}

impl ReaddirBudget {
    /// The budget of a call with this `count`. A count that is too small even for an empty list
    /// admits nothing.
    pub fn new(count: u32) -> Self {
        Self { left: (count as usize).saturating_sub(FRAME) }
    }

    /// Adds an entry to the reply, if it fits. If the very first does not, the call fails with
    /// [`Status::TooSmall`](super::Status::TooSmall).
    #[must_use]
    pub fn admit(&mut self, name_length: usize) -> bool {
        take(&mut self.left, UNIT + name_size(name_length))
    }
}

/// The room left in a READDIRPLUS reply.
#[derive(Clone, Copy, Debug)]
pub struct ReaddirplusBudget {
    left: usize,
    /// The part of `dircount` that is left.
    names_left: usize,
    any: bool,
}

impl ReaddirplusBudget {
    /// The budget of a call with these counts. `dircount` never keeps the first entry out: it is a
    /// hint for clients' buffers, and a listing must make progress.
    pub fn new(dircount: u32, maxcount: u32) -> Self {
        let left = (maxcount as usize).saturating_sub(FRAME);
        Self { left, names_left: dircount as usize, any: false }
    }

    /// Adds an entry to the reply, if it fits with its attributes and a handle of `handle_length`
    /// bytes. If the very first does not, the call fails with
    /// [`Status::TooSmall`](super::Status::TooSmall).
    #[must_use]
    pub fn admit(&mut self, name_length: usize, handle_length: usize) -> bool {
        assert!(handle_length <= MAX_HANDLE, "the server makes no such handles");
        let names = name_size(name_length);
        if self.any && names > self.names_left {
            return false;
        }
        let handle = UNIT + opaque_size(handle_length);
        if !take(&mut self.left, UNIT + names + POST_OP + handle) {
            return false;
        }
        self.names_left = self.names_left.saturating_sub(names);
        self.any = true;
        true
    }
}

fn take(left: &mut usize, size: usize) -> bool {
    let rest = left.checked_sub(size);
    *left = rest.unwrap_or(*left);
    rest.is_some()
}
