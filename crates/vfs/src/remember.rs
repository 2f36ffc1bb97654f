//! Calls that are remembered together with their changes, so that a call repeated after a crash is
//! answered again and not executed again.
//!
//! A caller that recognises repetitions gives a call a [`CallKey`]. An engine with a place for it
//! puts the key and the reply on stable storage in the same step as the change itself; so after a
//! crash either both are there or neither is. It keeps them there for as long as a caller holds the
//! key: dropping the key forgets the reply.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::{Credentials, ObjectId, PostOp, Timestamp, Wcc};

/// The most bytes of a key.
pub const MAX_KEY: usize = 64;

/// Identifies a call among all that are remembered. Its maker knows the meaning of its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// Zeros behind the end.
    bytes: [u8; MAX_KEY],
    length: u8,
}

impl CallKey {
    /// A key of these bytes; none if there are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut key = Self { bytes: [0; MAX_KEY], length: bytes.len().try_into().ok()? };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

impl fmt::Debug for CallKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("CallKey").field(&self.as_bytes()).finish()
    }
}

/// The user on whose behalf something is changed, and the call that does it.
#[derive(Clone, Debug)]
pub struct Requester {
    /// The user.
    pub who: Credentials,
    /// The call to be remembered with its changes; `None` for none.
    pub call: Option<Rc<CallKey>>,
}

impl Requester {
    /// The superuser, with a call that is not remembered.
    pub fn root() -> Self {
        Credentials::root().into()
    }
}

impl From<Credentials> for Requester {
    fn from(who: Credentials) -> Self {
        Self { who, call: None }
    }
}

impl Deref for Requester {
    type Target = Credentials;

    fn deref(&self) -> &Credentials {
        &self.who
    }
}

/// The reply to a call that changed something. A refusal changes nothing, and is not remembered
/// here; a failure after the first of several steps is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOutcome {
    /// The file that was made, or found instead of being made.
    pub found: Option<ObjectId>,
    /// Its attributes, where they are known.
    pub attributes: PostOp,
    /// The files that the call named, in order.
    pub about: [Wcc; 2],
    /// A step after the first has failed: the reply is an error of the disk.
    pub has_failed: bool,
}

/// A call that was answered, or is about to be.
#[derive(Clone, Debug)]
pub struct CallReply {
    /// Its key.
    pub key: Rc<CallKey>,
    /// Its outcome.
    pub outcome: CallOutcome,
}

/// Repeated calls that were answered from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repetitions {
    /// In all.
    pub answered: u64,
    /// Those that were executed before the last start.
    pub over_a_start: u64,
}

/// A reply that has survived a crash or stop; its change has, too.
#[derive(Clone, Debug)]
pub struct LoggedReply {
    /// Time at which the call was executed.
    pub at: Timestamp,
    /// The reply.
    pub answered: CallReply,
}
