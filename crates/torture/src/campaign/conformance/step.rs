//! One step of a run: a call, or a restart of the server.
//!
//! A file is named by the step that made it, so that a run still makes sense after steps were left
//! out: a step with no file to name is skipped.

use nfs3_types::nfs3::{ftype3, stable_how};

use super::stamp::Time;

/// A file, as a call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    /// The file that this step made; 0 is the root.
    Of(usize),
    /// A handle that no server made.
    Nonsense,
    /// A valid handle of a volume that does not exist.
    Elsewhere,
}

/// A name or a target; prints readably.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Text(pub Vec<u8>);

impl std::ops::Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.first() {
            Some(first) if self.0.len() > 40 && self.0.iter().all(|byte| byte == first) => {
                write!(f, "{} times '{}'", self.0.len(), [*first].escape_ascii())
            }
            _ => write!(f, "'{}'", self.0.escape_ascii()),
        }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Leave,
    Now,
    At(Time),
}

/// Attributes to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: When,
    pub mtime: When,
}

/// The guard of a SETATTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    None,
    /// The change time that the client has seen; no guard if it has seen none.
    Right,
    Wrong,
}

/// How a file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Unchecked(Changes),
    Guarded(Changes),
    Exclusive([u8; 8]),
}

/// Where a listing begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Start,
    /// At the end of the last listing of this directory and kind.
    Last,
    /// At an invented cookie.
    Anywhere(u64),
    /// With an invented verifier.
    OtherVerifier,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Null,
    Getattr(Object),
    Setattr(Object, Changes, Guard),
    Lookup(Object, Text),
    Access(Object, u32),
    Readlink(Object),
    Read(Object, u64, u32),
    /// Offset, length, and the excess of the count over the length.
    Write(Object, u64, u32, u32, stable_how),
    Create(Object, Text, How),
    Mkdir(Object, Text, Changes),
    Symlink(Object, Text, Text, Changes),
    Mknod(Object, Text, ftype3, (u32, u32), Changes),
    Remove(Object, Text),
    Rmdir(Object, Text),
    Rename(Object, Text, Object, Text),
    Link(Object, Object, Text),
    Readdir(Object, From, u32),
    /// With `dircount` and `maxcount`.
    Readdirplus(Object, From, u32, u32),
    Fsstat(Object),
    Fsinfo(Object),
    Pathconf(Object),
    Commit(Object, u64, u32),
    /// A clean stop, and a start.
    Restart,
}

/// A numbered step of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Number of the step in the run, from 1.
    pub number: usize,
    pub user: usize,
    pub act: Act,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: user {} {:?}", self.number, self.user, self.act)
    }
}

/// The data of a WRITE: bytes that identify the step.
pub(crate) fn payload(number: usize, length: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    sim::Prng::new(number as u64).fill(&mut bytes);
    bytes
}
