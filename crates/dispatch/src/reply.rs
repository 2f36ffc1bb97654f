//! A reply to be sent.

use bytes::Bytes;
use nfs::{mount, nfs3};
use runtime::pool::{Line, Tokens};

use crate::counts::{CallKind, Verdict};

/// Offsets in a reply: whether the RPC layer denied it, whether it accepted it, and the status of
/// the procedure. Before them are the record mark, the number of the call, its direction, and an
/// empty verifier.
const REPLY_STATE: usize = 12;
const ACCEPT_STATE: usize = 24;
const STATUS: usize = 28;

/// The bytes to send, in pieces one after the other, record mark included.
pub struct Reply {
    segments: Vec<Bytes>,
    /// Whether no file system has answered this.
    is_bare: bool,
    memory: Option<ReplyMemory>,
}

/// Memory that a reply holds, of its connection and of all; freed when the reply was sent, or will
/// never be.
pub struct ReplyMemory {
    of_session: Tokens,
    of_all: Tokens,
}

impl ReplyMemory {
    /// Memory that was taken for a reply.
    pub fn new(of_session: Tokens, of_all: Tokens) -> Self {
        Self { of_session, of_all }
    }

    /// Changes the memory that it holds to `bytes`.
    pub(crate) fn resize(&mut self, bytes: u64) {
        self.of_session.resize(bytes);
        self.of_all.resize(bytes);
    }

    /// The requests that may wait for this memory.
    pub fn line(&self) -> Option<Line> {
        self.of_all.line()
    }
}

impl Reply {
    pub(crate) fn new(segments: Vec<Bytes>) -> Self {
        Self { segments, is_bare: false, memory: None }
    }

    /// The same reply, marked as not answered by a file system: none was called, or its answer was
    /// lost.
    pub(crate) fn bare(self) -> Self {
        Self { is_bare: true, ..self }
    }

    /// Whether no file system has answered this: a NULL, or a call that was refused before.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    pub(crate) fn holding(self, memory: ReplyMemory) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// Whether it is a refusal. For [`crate::planted`] alone.
    pub(crate) fn is_refusal(&self) -> bool {
        self.word(STATUS).is_some_and(|status| status != 0)
    }

    /// The outcome of the call, which was of this kind. NULL and most procedures of MOUNT have no
    /// status.
    pub(crate) fn verdict(&self, kind: CallKind) -> Verdict {
        if [REPLY_STATE, ACCEPT_STATE].iter().any(|&at| self.word(at) != Some(0)) {
            return Verdict::Rejected;
        }
        let has_status = match kind {
            CallKind::Nfs(procedure) => procedure != nfs3::Procedure::Null,
            CallKind::Mount(procedure) => procedure == mount::Procedure::Mnt,
            CallKind::Unknown => false,
        };
        Verdict::Status(if has_status { self.word(STATUS).unwrap_or_default() } else { 0 })
    }

    /// A word of the header, by its offset. All of the header is in the first piece.
    fn word(&self, at: usize) -> Option<u32> {
        let word = self.segments.first()?.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*word))
    }

    /// The pieces.
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// Total bytes of the reply.
    pub fn length(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    /// The pieces, and the memory that must be held as long as they are.
    pub fn into_parts(self) -> (Vec<Bytes>, Option<ReplyMemory>) {
        (self.segments, self.memory)
    }
}
