//! Calls that are remembered together with what they change, so that a call which is repeated after
//! a crash is answered once more and not executed once more.
//!
//! A caller that recognises repetitions gives a call a [`CallKey`]. An engine that has a place for
//! it puts the key and the answer on stable storage in the same step as the change itself; so after
//! a crash either both are there or neither is. It keeps them there for as long as a caller holds
//! the key: to forget an answer is to drop its key.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::{Credentials, ObjectId, PostOp, Timestamp, Wcc};

/// The most bytes of a key.
pub const MAX_KEY: usize = 64;

/// Names a call among all that are remembered. Its maker knows what its bytes mean.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// Zeros behind the end.
    bytes: [u8; MAX_KEY],
    length: u8,
}

impl CallKey {
    /// A key of these bytes; none if they are too many.
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

/// The user in whose name something is changed, and the call that does it.
#[derive(Clone, Debug)]
pub struct Requester {
    /// The user.
    pub who: Credentials,
    /// The call to be remembered with what it changes; `None` for none.
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

/// What a call that changed something is answered. A refusal changes nothing, and is not
/// remembered here; a failure behind the first of several steps is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOutcome {
    /// The file that was made, or found in place of making one.
    pub found: Option<ObjectId>,
    /// Its attributes, where they are known.
    pub attributes: PostOp,
    /// The files that the call named, in order.
    pub about: [Wcc; 2],
    /// A step behind the first has failed: the answer is an error of the disk.
    pub has_failed: bool,
}

/// A call that was answered, or is about to be.
#[derive(Clone, Debug)]
pub struct CallReply {
    /// Which.
    pub key: Rc<CallKey>,
    /// How.
    pub outcome: CallOutcome,
}

/// How often a call was a repetition that was answered from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repetitions {
    /// In all.
    pub answered: u64,
    /// Of these, calls that were carried out before the last start.
    pub over_a_start: u64,
}

/// An answer that has survived: its change has, too.
#[derive(Clone, Debug)]
pub struct LoggedReply {
    /// When the call was carried out.
    pub at: Timestamp,
    /// What was answered.
    pub answered: CallReply,
}
