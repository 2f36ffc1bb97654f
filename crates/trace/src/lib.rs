//! Traces: files of the calls of clients, with times and answers.
//!
//! A server writes a trace ([`Entry::seen`], [`Entry::encode`]), a load replays it ([`read`]).
//! docs/bench.md describes the format: a line of text, and then records as on a connection, each a
//! call with its answer, in the order in which they were answered.
//!
//! # Contents
//! Arguments are kept as they were, but only the length of a WRITE's data. The status of the
//! results is kept, and all results where later calls use them: handles, cookies. So a trace has
//! names, and no file contents.
//!
//! # Contract
//! Reading trusts nothing: a file that is truncated, damaged or not a trace is an error with the
//! place where it stops making sense, and takes no more memory than its length.

mod reader;

use bytes::Bytes;
use nfs::nfs3::{self, Procedure};
use nfs::record::Record;
use nfs::rpc::{Call, PROGRAM_MOUNT, PROGRAM_NFS, Reply};
use nfs::xdr::{Decoder, Encoder, UNIT};
use nfs::{mount, rpc};

pub use reader::{BadTrace, read};

/// The first line of a trace.
pub const MAGIC: &[u8; 16] = b"duramen trace 1\n";

/// A call and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Arrival time of the call, in nanoseconds since the trace began.
    pub begun_ns: u64,
    /// Time at which the answer was ready.
    pub ended_ns: u64,
    /// Number of the connection.
    pub connection: u64,
    /// The procedure called.
    pub target: Target,
    /// The arguments; those of a WRITE end before the length of the data.
    pub arguments: Bytes,
    /// The length of the data of a WRITE.
    pub payload: u32,
    /// The status and, where they are kept, the other results. Empty if the call was refused.
    pub results: Bytes,
}

/// A procedure that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A procedure of NFS.
    Nfs(Procedure),
    /// MNT, which returns the first handle.
    Mnt,
}

impl Target {
    /// The target of these numbers, if it is traced.
    pub fn of(program: u32, procedure: u32) -> Option<Self> {
        match program {
            PROGRAM_NFS => Procedure::from_number(procedure).map(Self::Nfs),
            PROGRAM_MOUNT if procedure == mount::Procedure::Mnt as u32 => Some(Self::Mnt),
            _ => None,
        }
    }

    /// Program, version and procedure numbers.
    pub fn numbers(self) -> (u32, u32, u32) {
        match self {
            Self::Nfs(procedure) => (PROGRAM_NFS, nfs3::VERSION, procedure as u32),
            Self::Mnt => (PROGRAM_MOUNT, mount::VERSION, mount::Procedure::Mnt as u32),
        }
    }

    /// Whether later calls use its results.
    fn gives(self) -> bool {
        match self {
            Self::Mnt => true,
            Self::Nfs(procedure) => matches!(
                procedure,
                Procedure::Lookup
                    | Procedure::Create
                    | Procedure::Mkdir
                    | Procedure::Symlink
                    | Procedure::Mknod
                    | Procedure::Readdir
                    | Procedure::Readdirplus
            ),
        }
    }
}

/// The half of an entry that is known when a call begins.
#[derive(Clone, Debug)]
pub struct Begun {
    target: Target,
    arguments: Bytes,
    payload: u32,
}

impl Begun {
    /// The parts of a call to keep; `None` if its procedure is not traced.
    pub fn seen(record: &Record) -> Option<Self> {
        let call = Call::decode(record).ok()?;
        let target = Target::of(call.program, call.procedure)?;
        let (_, version, _) = target.numbers();
        if call.version != version {
            return None;
        }
        let (head, _) = call.arguments.remaining();
        if target != Target::Nfs(Procedure::Write) {
            return Some(Self { target, arguments: Bytes::copy_from_slice(head), payload: 0 });
        }
        let mut rest = Decoder::new(head);
        rest.opaque(nfs3::MAX_HANDLE).ok()?;
        rest.array::<16>().ok()?; // offset, count, stability
        let kept = head.len() - rest.remaining().0.len();
        let payload = rest.u32().ok()?;
        Some(Self { target, arguments: Bytes::copy_from_slice(&head[..kept]), payload })
    }
}

impl Entry {
    /// Completes the entry with this reply (its record mark in front).
    pub fn seen(begun: Begun, times_ns: (u64, u64), connection: u64, reply: &[Bytes]) -> Self {
        let Begun { target, arguments, payload } = begun;
        let results = kept_results(target, reply);
        let (begun_ns, ended_ns) = times_ns;
        Self { begun_ns, ended_ns, connection, target, arguments, payload, results }
    }

    /// Encodes the entry as in the file.
    pub fn encode(&self) -> Vec<u8> {
        let (program, _, procedure) = self.target.numbers();
        let mut to = Encoder::with_capacity(64 + self.arguments.len() + self.results.len());
        to.u64(self.begun_ns);
        to.u64(self.ended_ns);
        to.u64(self.connection);
        to.u32(program);
        to.u32(procedure);
        to.u32(self.payload);
        to.opaque(&self.arguments);
        to.opaque(&self.results);
        to.finish().concat()
    }

    /// The status of the results; `None` if the call was refused. NULL has none, which is 0 here.
    pub fn status(&self) -> Option<u32> {
        if self.target == Target::Nfs(Procedure::Null) {
            return Some(0);
        }
        self.results.first_chunk().map(|status| u32::from_be_bytes(*status))
    }
}

/// The status of a reply, or all of its results.
fn kept_results(target: Target, reply: &[Bytes]) -> Bytes {
    let first = reply.first().cloned().unwrap_or_default();
    // The first piece has the status, unless all results are kept.
    let head = if target.gives() { Bytes::from(reply.concat()) } else { first };
    let Some(head) = head.get(UNIT..) else { return Bytes::new() };
    let decoded: Result<rpc::Reply<'_>, _> = Reply::decode(Decoder::new(head));
    let Ok(Ok(results)) = decoded.map(|reply| reply.results) else { return Bytes::new() };
    let (results, _) = results.remaining();
    let kept = if target.gives() { results.len() } else { results.len().min(UNIT) };
    Bytes::copy_from_slice(&results[..kept])
}
