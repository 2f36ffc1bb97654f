//! READDIR and READDIRPLUS by rule: the server chooses the order of entries and the cookies.
//!
//! * An entry exists at that moment, under that number, and with READDIRPLUS with those attributes
//!   and that handle.
//! * Over a listing of several calls a name appears at most once, unless it was removed and came
//!   back, and every name that existed from the first call to the end appears, whatever happened
//!   beside it.
//! * A reply is not larger than its client allowed, and has at least one entry or the end.

use std::collections::BTreeMap;

use nfs3_types::nfs3::cookieverf3;

use super::tree::{Name, Tree};

/// Bytes of a READDIR's results with no entry, without the status: attributes, verifier, the two
/// words at the end of the list.
const FRAME: usize = 4 + 84 + 8 + 4 + 4;
/// Bytes of an entry but for its name: the word before it, number, length, cookie.
const ENTRY: usize = 4 + 8 + 4 + 8;
/// Bytes that READDIRPLUS adds to an entry: attributes, and a handle of up to 64 bytes.
const PLUS: usize = 4 + 84 + 4 + 4 + 64;

/// A listing in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    pub directory: usize,
    pub cookie: u64,
    pub verifier: [u8; 8],
    /// Names that have existed since the start, and their files.
    due: BTreeMap<Name, usize>,
    /// Names that were listed and have not changed since.
    listed: BTreeMap<Name, usize>,
}

/// An entry of a reply.
pub(crate) struct Listed<'a> {
    pub fileid: u64,
    pub name: &'a [u8],
    pub cookie: u64,
}

/// The room in a client's reply, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub bytes: usize,
    pub plus: bool,
}

impl Room {
    /// Whether even the largest entry of a directory would fit, or the end of the list.
    pub(crate) fn is_enough(self, tree: &Tree, directory: usize) -> bool {
        let longest = tree.listing(directory).keys().map(Vec::len).max().unwrap_or(0);
        let plus = if self.plus { PLUS } else { 0 };
        self.bytes >= FRAME + ENTRY + longest.next_multiple_of(4) + plus
    }
}

impl Scan {
    /// A listing from the start.
    pub(crate) fn new(tree: &Tree, directory: usize) -> Self {
        Self { directory, due: tree.listing(directory), ..Self::default() }
    }

    /// Follows a change of the tree: a name that is gone is no longer due, and may appear again.
    pub(crate) fn follow(&mut self, tree: &Tree) {
        let now = tree.listing(self.directory);
        self.due.retain(|name, node| now.get(name) == Some(node));
        self.listed.retain(|name, node| now.get(name) == Some(node));
    }

    /// Takes one entry of a reply.
    pub(crate) fn take(&mut self, tree: &mut Tree, entry: &Listed<'_>) -> Result<usize, String> {
        let name = entry.name.escape_ascii();
        let Some(node) = tree.child(self.directory, entry.name) else {
            return Err(format!("'{name}' is listed and not there"));
        };
        let told = tree.nodes[node].told.fileid.get_or_insert(entry.fileid);
        if *told != entry.fileid {
            return Err(format!("'{name}' is listed as number {}, not {told}", entry.fileid));
        }
        if self.listed.insert(entry.name.to_vec(), node).is_some() {
            return Err(format!("'{name}' is listed twice"));
        }
        self.due.remove(entry.name);
        self.cookie = entry.cookie;
        Ok(node)
    }

    /// Checks the end of a reply.
    pub(crate) fn end(
        &mut self,
        (entries, eof): (usize, bool),
        verifier: &cookieverf3,
    ) -> Result<(), String> {
        self.verifier = verifier.0;
        if eof && !self.due.is_empty() {
            let names: Vec<String> =
                self.due.keys().map(|name| name.escape_ascii().to_string()).collect();
            return Err(format!("the listing ends without {names:?}"));
        }
        if entries == 0 && !eof { Err("a listing that does not get on".into()) } else { Ok(()) }
    }
}
