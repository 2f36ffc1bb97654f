//! READDIR, READDIRPLUS. The [budgets](crate::nfs3::ReaddirBudget) limit the entries of a reply
//! while they are gathered.

use bytes::Bytes;

use crate::nfs3::{Handle, Outcome, PostOp, Verifier};
use crate::xdr::{Encode, Encoder};

/// Results of READDIR (RFC 1813, section 3.3.16).
pub type ReaddirResult = Outcome<ReaddirOk, PostOp>;

/// Results of READDIRPLUS (section 3.3.17).
pub type ReaddirplusResult = Outcome<ReaddirplusOk, PostOp>;

/// `READDIR3resok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaddirOk {
    /// The directory.
    pub directory: PostOp,
    /// The verifier that must be sent back along with a cookie.
    pub cookie_verifier: Verifier,
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Whether the last one is the directory's last.
    pub eof: bool,
}

/// `entry3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's inode number.
    pub fileid: u64,
    /// Its name.
    pub name: Bytes,
    /// Cookie to resume after it.
    pub cookie: u64,
}

/// `READDIRPLUS3resok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaddirplusOk {
    /// The directory.
    pub directory: PostOp,
    /// The verifier that must be sent back along with a cookie.
    pub cookie_verifier: Verifier,
    /// The entries, in order.
    pub entries: Vec<EntryPlus>,
    /// Whether the last one is the directory's last.
    pub eof: bool,
}

/// `entryplus3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPlus {
    /// Number, name and cookie.
    pub entry: Entry,
    /// The file's attributes.
    pub attributes: PostOp,
    /// Its handle.
    pub handle: Option<Handle>,
}

impl Encode for Entry {
    fn encode(&self, to: &mut Encoder) {
        to.u64(self.fileid);
        to.opaque(&self.name);
        to.u64(self.cookie);
    }
}

impl Encode for EntryPlus {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.entry);
        to.value(&self.attributes);
        to.value(&self.handle);
    }
}

impl Encode for ReaddirOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.directory);
        to.value(&self.cookie_verifier);
        encode_list(&self.entries, self.eof, to);
    }
}

impl Encode for ReaddirplusOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.directory);
        to.value(&self.cookie_verifier);
        encode_list(&self.entries, self.eof, to);
    }
}

/// Encodes `dirlist3` or `dirlistplus3`: each entry points at the next, the last at nothing.
fn encode_list(entries: &[impl Encode], eof: bool, to: &mut Encoder) {
    for entry in entries {
        to.bool(true);
        to.value(entry);
    }
    to.bool(false);
    to.bool(eof);
}
