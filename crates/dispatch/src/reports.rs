//! What the log of the server says of calls that are refused: of clients that no rule admits, and
//! of damage and of failures of the disk that a call has met. It is enough to mend either, and
//! never so much that it fills the log or the memory.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Clock, Instant};
use vfs::{FsError, Name, ObjectId};

use crate::handle::Fsid;
use crate::volume::Served;

/// For so long nothing is said again of the same client and volume, or of the same file.
const PERIOD: Duration = Duration::from_secs(60);
/// Lines of either kind in this time, at most.
const MAX_LINES: usize = 10;

/// What was said lately.
pub(crate) struct Reports {
    clock: Rc<dyn Clock>,
    refusals: RefCell<Period<(IpAddr, String)>>,
    damage: RefCell<Period<(Fsid, ObjectId)>>,
    failures: RefCell<Period<(Fsid, ObjectId)>>,
}

/// The part of a file that a call asks for.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// All of it, or what is known of it.
    Whole,
    /// These bytes.
    Bytes { offset: u64, count: u32 },
    /// A name in a directory.
    Named(&'a Name),
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("the file"),
            Self::Bytes { offset, count: 0 } => write!(f, "all from byte {offset} on"),
            Self::Bytes { offset, count } => write!(f, "{count} bytes from byte {offset} on"),
            Self::Named(name) => write!(f, "the name {name:?} in the directory"),
        }
    }
}

/// The lines of a kind since the period has begun, by what they are about.
struct Period<K> {
    begun: Instant,
    reported: Vec<K>,
    /// Lines that were not written, for want of room.
    unreported: u64,
}

impl<K> Default for Period<K> {
    fn default() -> Self {
        Self { begun: Instant::default(), reported: Vec::new(), unreported: 0 }
    }
}

impl<K: PartialEq> Period<K> {
    /// Whether a line about this is to be written. `more` hears how many lines the last period
    /// lacks, if it is over.
    fn admits(&mut self, now: Instant, key: K, more: impl FnOnce(u64)) -> bool {
        if now.since(self.begun) >= PERIOD {
            let unreported = std::mem::take(self).unreported;
            self.begun = now;
            if unreported > 0 {
                more(unreported);
            }
        }
        if self.reported.contains(&key) {
            return false;
        }
        if self.reported.len() >= MAX_LINES {
            self.unreported += 1;
            return false;
        }
        self.reported.push(key);
        true
    }
}

impl Reports {
    /// Nothing was said yet.
    pub(crate) fn new(clock: Rc<dyn Clock>) -> Self {
        let (refusals, damage, failures) = Default::default();
        Self { clock, refusals, damage, failures }
    }

    /// A `what` of a client was refused, since no rule of the volume's export admits it.
    pub(crate) fn refused(&self, what: &str, client: IpAddr, volume: &str) {
        let more = |unreported| {
            tracing::warn!(unreported, "more was refused to clients that no rule admits");
        };
        let key = (client, volume.to_owned());
        if !self.refusals.borrow_mut().admits(self.clock.now(), key, more) {
            return;
        }
        let rule = format!("{{ network = \"{client}\", access = \"ro\" }}");
        tracing::warn!(
            %client,
            volume,
            "refused a {what}, since no rule admits the client; {rule} among the clients of \
             [exports.{volume}] would"
        );
    }

    /// A call that looked for a part of a file is answered with an error. Damage, and what the disk
    /// does not give, as a set that has lost it, is said: the protocol cannot say it.
    pub(crate) fn refused_with(
        &self,
        error: FsError,
        volume: &Served,
        id: ObjectId,
        part: Part<'_>,
    ) {
        match error {
            FsError::Corrupt => self.damaged(volume, id, part),
            FsError::Io if !volume.has_lost() => self.failed(volume, id, part),
            _ => {}
        }
    }

    fn failed(&self, volume: &Served, id: ObjectId, part: Part<'_>) {
        let more = |unreported| tracing::warn!(unreported, "the disk failed more calls");
        if !self.failures.borrow_mut().admits(self.clock.now(), (volume.fsid, id), more) {
            return;
        }
        let (volume, inode, snapshot) = (&*volume.name, id.ino.0, id.snapshot.0);
        if id.is_live() {
            tracing::warn!(volume, inode, "the disk failed a call: it asked for {part}");
        } else {
            let held = "as a snapshot holds it";
            tracing::warn!(
                volume,
                inode,
                snapshot,
                "the disk failed a call: it asked for {part}, {held}"
            );
        }
    }

    fn damaged(&self, volume: &Served, id: ObjectId, part: Part<'_>) {
        volume.note_damage();
        let more = |unreported| tracing::warn!(unreported, "more calls met damage on the disk");
        if !self.damage.borrow_mut().admits(self.clock.now(), (volume.fsid, id), more) {
            return;
        }
        let (volume, inode, snapshot) = (&*volume.name, id.ino.0, id.snapshot.0);
        if id.is_live() {
            tracing::warn!(volume, inode, "a call met damage on the disk: it asked for {part}");
        } else {
            tracing::warn!(
                volume,
                inode,
                snapshot,
                "a call met damage on the disk: it asked for {part}, as a snapshot holds it"
            );
        }
    }
}
