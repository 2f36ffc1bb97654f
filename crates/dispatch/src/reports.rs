//! Log lines about refused calls: clients that are turned away, and damage and disk failures that a
//! call has met. They suffice to repair either, and are limited so that they fill neither the log
//! nor the memory.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use nfs::rpc::{AuthStatus, Refusal};
use runtime::{Clock, Instant};
use vfs::{FsError, Name, ObjectId};

use crate::exports::{Exports, admission};
use crate::handle::Fsid;
use crate::volume::Served;

/// Time for which no second line is logged for the same client and volume, or for the same file.
const PERIOD: Duration = Duration::from_secs(60);
/// The most lines of either kind in this time.
const MAX_LINES: usize = 10;

/// The lines that were logged recently.
pub(crate) struct Reports {
    clock: Rc<dyn Clock>,
    refusals: RefCell<Period<(IpAddr, Reason)>>,
    damage: RefCell<Period<(Fsid, ObjectId)>>,
    failures: RefCell<Period<(Fsid, ObjectId)>>,
    counts: Cell<Refusals>,
}

/// Number of refused mounts and calls, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// No rule admits the client.
    pub rule: u64,
    /// The path leads to no directory.
    pub path: u64,
    /// Another version of the protocol, or credentials that are not accepted.
    pub protocol: u64,
}

/// The reason why a client is turned away. Each is logged once in a period for the same client.
#[derive(PartialEq, Eq)]
enum Reason {
    /// No rule of this volume admits it.
    Rule(String),
    /// It mounts a path that leads to no directory.
    Path,
    /// It asks for another version of a program, or with credentials that are not accepted.
    Protocol,
}

/// The part of a file that a call is about.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// The whole file, or its attributes.
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

/// The lines of a kind since the period began, by subject.
pub(crate) struct Period<K> {
    begun: Instant,
    reported: Vec<K>,
    /// Lines that were dropped by the limit.
    unreported: u64,
}

impl<K> Default for Period<K> {
    fn default() -> Self {
        Self { begun: Instant::default(), reported: Vec::new(), unreported: 0 }
    }
}

impl<K: PartialEq> Period<K> {
    /// Whether a line with this subject may be logged. `more` gets the number of dropped lines of
    /// the last period, if it is over.
    pub(crate) fn admits(&mut self, now: Instant, key: K, more: impl FnOnce(u64)) -> bool {
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
    /// No lines yet.
    pub(crate) fn new(clock: Rc<dyn Clock>) -> Self {
        let (refusals, damage, failures, counts) = Default::default();
        Self { clock, refusals, damage, failures, counts }
    }

    /// Number of refusals.
    pub(crate) fn refusals(&self) -> Refusals {
        self.counts.get()
    }

    /// Counts a refusal. Returns whether a line about the client and this reason may be logged.
    fn admits_refusal(&self, client: IpAddr, reason: Reason) -> bool {
        let mut counts = self.counts.get();
        match reason {
            Reason::Rule(_) => counts.rule += 1,
            Reason::Path => counts.path += 1,
            Reason::Protocol => counts.protocol += 1,
        }
        self.counts.set(counts);
        let more = |unreported| {
            tracing::warn!(unreported, "more clients were refused in the minute before")
        };
        self.refusals.borrow_mut().admits(self.clock.now(), (client, reason), more)
    }

    /// Logs that a `what` of a client was refused, since no rule of the volume's export admits it,
    /// and the lines of the configuration that would.
    pub(crate) fn refused(&self, what: &str, client: IpAddr, volume: &str, exports: &Exports) {
        if self.admits_refusal(client, Reason::Rule(volume.to_owned())) {
            let admission = admission(exports.of(volume), volume, client);
            tracing::warn!(
                %client,
                volume,
                "refused a {what}, since no rule admits the client: {admission}"
            );
        }
    }

    /// Logs that a client mounts a path that leads to no directory. The path is the client's, and
    /// is printed with its control characters escaped.
    pub(crate) fn refused_path(&self, client: IpAddr, path: &[u8], why: impl fmt::Display) {
        if self.admits_refusal(client, Reason::Path) {
            let path = String::from_utf8_lossy(path);
            tracing::warn!(%client, ?path, "refused a mount: {why}");
        }
    }

    /// Logs that a call was refused, if the options of the client's mount are the reason.
    pub(crate) fn refused_protocol(&self, client: IpAddr, version: u32, refusal: &Refusal) {
        let why = match refusal {
            Refusal::ProgramMismatch { high, .. } => format!(
                "it asks for version {version} of a program that has version {high} here: mount \
                 with vers=3"
            ),
            Refusal::Authentication(AuthStatus::TooWeak) => {
                "its credentials are neither AUTH_SYS nor AUTH_NONE: mount with sec=sys".to_owned()
            }
            _ => return,
        };
        if self.admits_refusal(client, Reason::Protocol) {
            tracing::warn!(%client, "refused a call: {why}");
        }
    }

    /// Logs the error of a call for a part of a file. Damage, and data that the disk cannot return,
    /// as of a set that has lost it, are logged: the protocol cannot express them.
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
