//! The way of one call: admission, header, credentials, reply cache, procedure, reply.
//!
//! Invariants:
//! 1. A call that may change something, once it has its turn, runs in a task of its own: whoever
//!    waits for its reply may go away, and it still runs to its end. A call that waits for its
//!    turn, or only reads, ends with the one who waits.
//! 2. A call holds its turn and its memory until it has ended, not until somebody stops waiting.
//! 3. A call of the set in [`is_remembered`] is executed only while it holds its slot in the reply
//!    cache.
//!
//! Bounds make callers wait and never fail. They cannot wait for each other in a circle: a reply
//! waits for reply memory while it holds a turn and request memory, and what frees reply memory is
//! a socket that takes bytes, or is given up.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use futures::channel::oneshot;
use nfs::nfs3::{self, Arguments, Procedure};
use nfs::record::Record;
use nfs::rpc::{AuthStatus, Call, CallError, Credential, Refusal};
use nfs::{mount, rpc};
use runtime::Runtime;
use runtime::sync::{Permit, Semaphore};
use vfs::Credentials;

use crate::caller::Caller;
use crate::mount::Mounts;
use crate::nfs3::{convert, reply_size};
use crate::{
    Begin, Counters, Exports, Key, Limits, MAX_TRANSFER, Reply, ReplyCache, Volumes, Window,
    reply_cache,
};

/// AUTH_SHORT: a short-hand that we never gave out.
const AUTH_SHORT: u32 = 2;

/// Answers calls. One serves all connections of a reactor.
pub struct Dispatcher {
    runtime: Runtime,
    volumes: Rc<Volumes>,
    exports: RefCell<Rc<Exports>>,
    replies: Rc<ReplyCache<Vec<Bytes>>>,
    mounts: Mounts,
    limits: Limits,
    turns: Rc<Semaphore>,
    request_memory: Rc<Semaphore>,
    reply_memory: Rc<Semaphore>,
}

impl Dispatcher {
    /// A dispatcher that serves `volumes` to whom `exports` admits.
    pub fn new(
        runtime: Runtime,
        volumes: Volumes,
        exports: Exports,
        window: Window,
        limits: Limits,
    ) -> Rc<Self> {
        Rc::new(Self {
            volumes: Rc::new(volumes),
            exports: RefCell::new(Rc::new(exports)),
            replies: ReplyCache::new(runtime.clock.clone(), window),
            mounts: Mounts::default(),
            limits,
            turns: Semaphore::new(limits.calls.into()),
            request_memory: Semaphore::new(limits.request_memory),
            reply_memory: Semaphore::new(limits.reply_memory),
            runtime,
        })
    }

    /// The volumes.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Replaces the rules. They hold for every call that begins from now on.
    pub fn set_exports(&self, exports: Exports) {
        self.exports.replace(Rc::new(exports));
    }

    /// What the reply cache has seen.
    pub fn reply_cache_counters(&self) -> Counters {
        self.replies.counters()
    }

    /// Memory for a call of `bytes`, to be taken before it is read. First come, first served.
    pub async fn request_memory(&self, bytes: usize) -> Permit {
        self.request_memory.acquire(bytes as u64).await
    }

    /// Answers a call: `None` where there is nothing to answer. See invariant 1 for what happens
    /// when the future is dropped.
    pub async fn call(self: &Rc<Self>, client: IpAddr, record: Record) -> Option<Reply> {
        let memory = self.request_memory(record.memory()).await;
        self.call_with_memory(client, record, memory).await
    }

    /// The same with memory that was taken before the record was read.
    pub async fn call_with_memory(
        self: &Rc<Self>,
        client: IpAddr,
        record: Record,
        memory: Permit,
    ) -> Option<Reply> {
        let turn = self.turns.acquire(1).await;
        let dispatcher = self.clone();
        let client = client.to_canonical();
        let execution = Execution { dispatcher, client, record, _held: [memory, turn] };
        if !execution.may_change() {
            return execution.run().await;
        }
        let (to_waiter, reply) = oneshot::channel();
        self.runtime.tasks.spawn(Box::pin(async move {
            // Nobody waits any more when this fails; the call has been carried out all the same.
            let _ = to_waiter.send(execution.run().await);
        }));
        reply.await.ok().flatten()
    }

    /// Waits until no call is under way. No other begins for as long as the permit is held.
    pub async fn quiesce(&self) -> Permit {
        self.turns.acquire(self.limits.calls.into()).await
    }

    fn caller(&self, client: IpAddr, claim: Option<Credentials>) -> Caller {
        let (volumes, exports) = (self.volumes.clone(), self.exports.borrow().clone());
        Caller { client, claim, volumes, exports }
    }

    /// Memory for what a call reads, until its reply is sent.
    async fn reply_memory(&self, arguments: &Arguments<'_>) -> Option<Permit> {
        let bytes = match arguments {
            Arguments::Read(args) => args.count.min(MAX_TRANSFER),
            Arguments::Readdir(args) => reply_size(args.count),
            Arguments::Readdirplus(args) => reply_size(args.maxcount),
            _ => return None,
        };
        Some(self.reply_memory.acquire(bytes.into()).await)
    }
}

/// A call that has its turn.
struct Execution {
    dispatcher: Rc<Dispatcher>,
    client: IpAddr,
    record: Record,
    /// Memory and turn, until the end (invariant 2).
    _held: [Permit; 2],
}

impl Execution {
    /// Whether the call is one that must run to its end.
    fn may_change(&self) -> bool {
        let Ok(call) = Call::decode(&self.record) else { return false };
        let procedure = Procedure::from_number(call.procedure);
        let changing = |procedure| procedure == Procedure::Commit || is_remembered(procedure);
        call.program == rpc::PROGRAM_NFS && procedure.is_some_and(changing)
    }

    async fn run(self) -> Option<Reply> {
        let call = match Call::decode(&self.record) {
            Ok(call) => call,
            Err(CallError::Rejected(rejection)) => return Some(Reply::new(rejection.reply())),
            Err(CallError::Unanswerable(error)) => {
                tracing::debug!(client = %self.client, %error, "a record that is no call");
                return None;
            }
        };
        let answered = match (call.program, call.version) {
            (rpc::PROGRAM_NFS, nfs3::VERSION) => self.nfs(&call).await,
            (rpc::PROGRAM_MOUNT, mount::VERSION) => self.mount(&call).await.map(Some),
            (rpc::PROGRAM_NFS, _) => Err(mismatch(nfs3::VERSION)),
            (rpc::PROGRAM_MOUNT, _) => Err(mismatch(mount::VERSION)),
            _ => Err(Refusal::ProgramUnavailable),
        };
        answered.unwrap_or_else(|refusal| Some(Reply::new(rpc::refuse(call.xid, refusal))))
    }

    async fn nfs(&self, call: &Call<'_>) -> Result<Option<Reply>, Refusal> {
        let procedure =
            Procedure::from_number(call.procedure).ok_or(Refusal::ProcedureUnavailable)?;
        let claim = claim(call.credential, procedure == Procedure::Null)?;
        let arguments =
            Arguments::decode(procedure, call.arguments).map_err(|_| Refusal::GarbageArguments)?;
        let caller = self.dispatcher.caller(self.client, claim);
        if is_remembered(procedure) {
            return Ok(self.once(call, &caller, arguments).await);
        }
        let memory = self.dispatcher.reply_memory(&arguments).await;
        Ok(Some(crate::nfs3::execute(call.xid, &caller, arguments).await.holding(memory)))
    }

    /// Executes a call, unless it is a repetition. `None` when the first of its kind ended without
    /// an answer, which only the end of the reactor brings about.
    async fn once(
        &self,
        call: &Call<'_>,
        caller: &Caller,
        arguments: Arguments<'_>,
    ) -> Option<Reply> {
        match self.dispatcher.replies.begin(key(self.client, call)) {
            Begin::Execute(slot) => {
                let reply = crate::nfs3::execute(call.xid, caller, arguments).await;
                slot.answer(reply.segments().to_vec(), reply.length());
                Some(reply)
            }
            Begin::Wait(repetition) => repetition.wait().await.map(Reply::new),
            Begin::Repeat(segments) => Some(Reply::new(segments)),
        }
    }

    async fn mount(&self, call: &Call<'_>) -> Result<Reply, Refusal> {
        let procedure =
            mount::Procedure::from_number(call.procedure).ok_or(Refusal::ProcedureUnavailable)?;
        let claim = claim(call.credential, procedure == mount::Procedure::Null)?;
        let arguments = mount::Arguments::decode(procedure, call.arguments)
            .map_err(|_| Refusal::GarbageArguments)?;
        let caller = self.dispatcher.caller(self.client, claim);
        let mounts = &self.dispatcher.mounts;
        Ok(crate::mount::execute(call.xid, &caller, mounts, arguments).await)
    }
}

/// The procedures that must not be executed twice. COMMIT may be: it only makes sure.
fn is_remembered(procedure: Procedure) -> bool {
    match procedure {
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Rename
        | Procedure::Link => true,
        Procedure::Null
        | Procedure::Getattr
        | Procedure::Lookup
        | Procedure::Access
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Readdir
        | Procedure::Readdirplus
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf
        | Procedure::Commit => false,
    }
}

/// Who calls, as he says. A client that used a short-hand is asked to say it in full; a flavor
/// that proves more than AUTH_SYS is one that we cannot check. NULL asks nothing of anybody.
fn claim(credential: Credential<'_>, anybody: bool) -> Result<Option<Credentials>, Refusal> {
    match credential {
        Credential::Sys(user) => Ok(Some(convert::claim(&user))),
        Credential::None => Ok(None),
        Credential::Other { .. } if anybody => Ok(None),
        Credential::Other { flavor: AUTH_SHORT } => {
            Err(Refusal::Authentication(AuthStatus::RejectedCredential))
        }
        Credential::Other { .. } => Err(Refusal::Authentication(AuthStatus::TooWeak)),
    }
}

fn mismatch(version: u32) -> Refusal {
    Refusal::ProgramMismatch { low: version, high: version }
}

fn key(client: IpAddr, call: &Call<'_>) -> Key {
    let (head, payload) = call.arguments.remaining();
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(head);
    digest.update(payload);
    let caller = match call.credential {
        Credential::Sys(user) => Some(reply_cache::Caller {
            machine: user.machine_name.to_vec(),
            uid: user.uid,
            gid: user.gid,
            groups: user.gids.as_slice().to_vec(),
        }),
        Credential::None | Credential::Other { .. } => None,
    };
    Key {
        client,
        caller,
        xid: call.xid,
        procedure: call.procedure,
        length: (head.len() + payload.len()) as u64,
        checksum: digest.finalize(),
    }
}
