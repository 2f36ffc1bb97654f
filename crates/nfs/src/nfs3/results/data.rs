//! READLINK, READ, WRITE, COMMIT.

use bytes::Bytes;

use crate::nfs3::{Outcome, PostOp, Stability, Verifier, Wcc};
use crate::xdr::{Encode, Encoder};

/// Results of READLINK (RFC 1813, section 3.3.5).
pub type ReadlinkResult = Outcome<ReadlinkOk, PostOp>;

/// Results of READ (section 3.3.6).
pub type ReadResult = Outcome<ReadOk, PostOp>;

/// Results of WRITE (section 3.3.7).
pub type WriteResult = Outcome<WriteOk, Wcc>;

/// Results of COMMIT (section 3.3.21).
pub type CommitResult = Outcome<CommitOk, Wcc>;

/// `READLINK3resok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadlinkOk {
    /// The link itself.
    pub attributes: PostOp,
    /// The target path.
    pub target: Bytes,
}

/// `READ3resok`. Its `count` is the length of `data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOk {
    /// The file.
    pub attributes: PostOp,
    /// Whether the data ends at the end of the file.
    pub eof: bool,
    /// The bytes, in pieces that are sent by reference one after the other.
    pub data: Vec<Bytes>,
}

/// `WRITE3resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOk {
    /// The file.
    pub wcc: Wcc,
    /// Bytes written.
    pub count: u32,
    /// How durable they are.
    pub committed: Stability,
    /// For comparison with the verifier of a COMMIT.
    pub verifier: Verifier,
}

/// `COMMIT3resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitOk {
    /// The file.
    pub wcc: Wcc,
    /// For comparison with the verifiers of the WRITEs before.
    pub verifier: Verifier,
}

impl Encode for ReadlinkOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.attributes);
        to.opaque(&self.target);
    }
}

impl Encode for ReadOk {
    fn encode(&self, to: &mut Encoder) {
        let count: usize = self.data.iter().map(Bytes::len).sum();
        to.value(&self.attributes);
        to.u32(u32::try_from(count).expect("a READ asks for less than 4 GiB"));
        to.bool(self.eof);
        to.payload(&self.data);
    }
}

impl Encode for WriteOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.wcc);
        to.u32(self.count);
        to.value(&self.committed);
        to.value(&self.verifier);
    }
}

impl Encode for CommitOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.wcc);
        to.value(&self.verifier);
    }
}
