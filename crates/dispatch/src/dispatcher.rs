//! The path of one call: header, credentials, reply cache, procedure, reply.
//!
//! Invariants:
//! 1. A call holds its turn and its memory until it has ended, not until its caller stops waiting.
//! 2. A call of the set in [`is_remembered`] is executed only while it holds its slot in the reply
//!    cache.
//! 3. Calls that have not arrived in full hold at most three quarters of the memory for requests.
//!    That memory comes back when their senders like, or when they are given up; the rest comes
//!    back as fast as calls are answered. So a call that has arrived never waits for a peer that
//!    sends another one slowly.
//!
//! Not asserted: 1, which ownership keeps (`Execution`); 2, of which the reply cache asserts that a
//! call that is answered was running; 3, which the bound of its pool keeps.
//!
//! Bounds make callers wait and never fail. Each party has a share of them ([`parties`]), so that
//! no volume and no stranger can take everything. Of a party's clients the one that holds least is
//! served first, and none can hold everything ([`runtime::pool`]). Bounds cannot wait for each
//! other in a circle: memory for requests is taken first (the share of those that arrive before
//! all), then memory for replies, then the turn. A call that has a turn waits for the disk alone,
//! and memory for replies comes back from a socket that takes bytes or is given up.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use nfs::nfs3::{self, Arguments, Procedure};
use nfs::record::Record;
use nfs::rpc::{AuthStatus, Call, CallError, Credential, Refusal};
use nfs::{mount, rpc};
use runtime::pool::{Pool, Tokens};
use runtime::{Instant, Runtime};
use trace::Begun;
use vfs::{Credentials, Lost};

use crate::accounts::Accounts;
use crate::caller::Caller;
use crate::counts::{Cells, Connected, ServerCounts};
use crate::handle::fsid_of;
use crate::mount::Lists;
use crate::mount_lists::{self, Mounts};
use crate::nfs3::convert;
use crate::parties::{self, FIRST_VOLUME, Known};
use crate::planted::{Bug, is_planted};
use crate::reports::{Refusals, Reports};
use crate::slow::{CallTimes, SlowCalls};
use crate::volume::Served;
use crate::{
    Begin, Counters, Exports, Fsid, Handle, Key, Limits, MAX_TRANSFER, Reply, ReplyCache, Volumes,
    Window,
};

/// AUTH_SHORT: a short-hand that we never gave out.
const AUTH_SHORT: u32 = 2;
/// RPCSEC_GSS: a NULL with it is none, but begins a context.
const RPCSEC_GSS: u32 = 6;

/// Answers calls. One serves all connections of a reactor.
pub struct Dispatcher {
    pub(crate) runtime: Runtime,
    volumes: Rc<Volumes>,
    exports: RefCell<Rc<Exports>>,
    /// Number of replacements of the rules.
    exports_version: Cell<u64>,
    pub(crate) replies: Rc<ReplyCache<Vec<Bytes>>>,
    mounts: Mounts,
    /// The reply to EXPORT under these rules.
    export_list: RefCell<Bytes>,
    reports: Rc<Reports>,
    pub(crate) accounts: Accounts,
    pub(crate) turns: Rc<Pool>,
    pub(crate) request_memory: Rc<Pool>,
    /// The part of the request memory for calls that have not arrived in full (invariant 3).
    pub(crate) arriving_memory: Rc<Pool>,
    pub(crate) reply_memory: Rc<Pool>,
    observer: RefCell<Option<Rc<dyn CallObserver>>>,
    connections: Cell<u64>,
    pub(crate) cells: Cells,
    pub(crate) slow: SlowCalls,
}

/// An observer that gets every answered call of a traced kind.
pub trait CallObserver {
    /// Reports an answered call: the times of its arrival and its reply, the number of its
    /// connection, and the reply. All calls wait for this function.
    fn answered(&self, call: Begun, times: (Instant, Instant), connection: u64, reply: &[Bytes]);
}

impl Dispatcher {
    /// A dispatcher that serves `volumes` to the clients that `exports` admits.
    pub fn new(
        runtime: Runtime,
        volumes: Volumes,
        exports: Exports,
        window: Window,
        limits: Limits,
    ) -> Rc<Self> {
        volumes.declare(&exports);
        let shares = |bound| parties::shares(bound, volumes.iter().count());
        let pool = |bound, largest| Pool::new(bound, &shares(bound), largest);
        let cells = Cells::new(volumes.iter().count());
        let longest = 2 * u64::from(MAX_TRANSFER); // with all else that counts
        Rc::new(Self {
            turns: pool(limits.calls.into(), 1),
            request_memory: pool(limits.request_memory, longest),
            arriving_memory: pool(limits.request_memory / 4 * 3, longest),
            reply_memory: pool(limits.reply_memory, longest),
            export_list: RefCell::new(mount_lists::of_exports(&volumes, &exports)),
            volumes: Rc::new(volumes),
            exports: RefCell::new(Rc::new(exports)),
            exports_version: Cell::new(0),
            replies: ReplyCache::new(runtime.clock.clone(), window),
            mounts: Mounts::default(),
            reports: Rc::new(Reports::new(runtime.clock.clone())),
            accounts: Accounts::default(),
            observer: RefCell::default(),
            connections: Cell::new(0),
            cells,
            slow: SlowCalls::default(),
            runtime,
        })
    }

    /// Restores the calls that the volumes remember from before the start. Must be called once,
    /// before the first call: until then a repetition would be executed again.
    ///
    /// # Errors
    /// [`Lost`] when a volume has stopped.
    pub async fn restore(&self) -> Result<(), Lost> {
        let now = self.runtime.clock.wall();
        let mut all = Vec::new();
        for volume in self.volumes.iter() {
            let remembered = volume.file_system.take_remembered().open().await?;
            all.extend(remembered.each().map(|remembered| (volume, remembered)));
        }
        all.sort_by_key(|(_, remembered)| remembered.at);
        for (volume, remembered) in all {
            let (age, name) = (now.since(remembered.at), Rc::clone(&remembered.answered.key));
            let Some(key) = Key::named(&name) else { continue };
            let Some(procedure) = Procedure::from_number(key.procedure) else { continue };
            let done = remembered.map(|remembered| remembered.answered.outcome);
            let Some(reply) = crate::nfs3::again(key.xid, volume, procedure, done) else {
                continue;
            };
            self.replies.restore(name, key, reply.segments().to_vec(), reply.length(), age);
        }
        Ok(())
    }

    /// The volumes.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Replaces the rules. They apply to every call that begins from now on, and their durability
    /// to every reply.
    pub fn set_exports(&self, exports: Exports) {
        self.volumes.declare(&exports);
        self.export_list.replace(mount_lists::of_exports(&self.volumes, &exports));
        self.exports.replace(Rc::new(exports));
        self.exports_version.set(self.exports_version.get() + 1);
    }

    /// The current rules.
    pub fn exports(&self) -> Rc<Exports> {
        self.exports.borrow().clone()
    }

    /// Whether replies about this volume do not wait for the disk, as its export declares.
    pub fn is_delayed(&self, volume: &str) -> bool {
        self.exports.borrow().of(volume).delayed().is_some()
    }

    /// Length of the current reply to a procedure that lists something, in bytes.
    pub(crate) fn list_length(&self, procedure: mount::Procedure) -> u32 {
        let list = match procedure {
            mount::Procedure::Dump => self.mounts.list(),
            _ => self.export_list.borrow().clone(),
        };
        u32::try_from(list.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn exports_version(&self) -> u64 {
        self.exports_version.get()
    }

    /// Sets the observer from now on.
    pub fn set_observer(&self, observer: Rc<dyn CallObserver>) {
        self.observer.replace(Some(observer));
    }

    pub(crate) fn observer(&self) -> Option<Rc<dyn CallObserver>> {
        self.observer.borrow().clone()
    }

    /// Sets the time from which on a call is logged as slow; none if no call is.
    pub fn set_slow_limit(&self, limit: Option<Duration>) {
        self.slow.set_limit(limit);
    }

    /// Name of the volume of a party; empty if the party is none.
    pub(crate) fn volume_name(&self, party: usize) -> &str {
        let index = party.checked_sub(parties::FIRST_VOLUME);
        let volume = index.and_then(|index| self.volumes.iter().nth(index));
        volume.map_or("", |volume| &volume.name)
    }

    /// A number that no other connection has.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.set(self.connections.get() + 1);
        self.connections.get()
    }

    /// Bytes of calls that arrive or are being executed, and of replies that wait to be sent.
    pub fn under_way(&self) -> (u64, u64) {
        (self.request_memory.held(), self.reply_memory.held())
    }

    /// Calls that are being executed, or have all that they need for it.
    pub fn turns_taken(&self) -> u64 {
        self.turns.held()
    }

    /// Bytes of memory held for calls that have not arrived in full (invariant 3).
    pub fn arriving(&self) -> u64 {
        self.arriving_memory.held()
    }

    /// Remembered replies, and the bytes that they count for.
    pub fn remembered(&self) -> (usize, usize) {
        self.replies.held()
    }

    /// Counters of the reply cache.
    pub fn reply_cache_counters(&self) -> Counters {
        self.replies.counters()
    }

    /// A copy of the counters of calls.
    pub fn counts(&self) -> ServerCounts {
        self.cells.copy()
    }

    /// The connections of clients.
    pub fn connected(&self) -> Connected {
        self.cells.connected(self.runtime.clock.now())
    }

    /// Calls and mounts that were refused, by the reason.
    pub fn refusals(&self) -> Refusals {
        self.reports.refusals()
    }

    /// Calls that are being executed and may be about a volume, by its index in the order of the
    /// start: those of its party, and of the parties of no volume. The rules may have changed since
    /// a party was found for a call.
    pub fn executing(&self, volume: usize) -> u64 {
        let of_none = (0..FIRST_VOLUME).map(|party| self.turns.held_by(party)).sum::<u64>();
        of_none + self.turns.held_by(FIRST_VOLUME + volume)
    }

    /// Waits until no call is being executed. No other begins while the permit is held.
    pub async fn quiesce(&self) -> Tokens {
        self.turns.acquire_all().await
    }

    /// The volume of the handle with which the arguments of a call begin.
    fn volume_of(&self, call: &Call<'_>) -> Option<&Served> {
        let (head, _) = call.arguments.remaining();
        let (length, rest) = head.split_first_chunk()?;
        let handle = rest.get(..u32::from_be_bytes(*length) as usize)?;
        let fsid = Handle::decode(handle).ok()?.fsid;
        self.volumes.served().find(|volume| volume.fsid == fsid)
    }

    /// The index of a volume, by its number, if `client` may use it in any way.
    pub(crate) fn admitted(&self, client: IpAddr, fsid: Fsid) -> Option<usize> {
        let mut volumes = self.volumes.iter().enumerate();
        let (number, volume) = volumes.find(|(_, volume)| volume.fsid == fsid)?;
        self.exports.borrow().rule(&volume.name, client).map(|_| number)
    }

    /// Whether `client` may use any volume.
    pub fn knows(&self, client: IpAddr) -> bool {
        let (client, exports) = (client.to_canonical(), self.exports.borrow());
        self.volumes.iter().any(|volume| exports.rule(&volume.name, client).is_some())
    }

    /// The party of a call from `client` with this beginning of its record.
    pub(crate) fn party(&self, client: IpAddr, start: &[u8], last: &Cell<Option<Known>>) -> usize {
        let fsid = nfs3::handle_of(start).and_then(fsid_of);
        let exports_version = self.exports_version();
        let is_same =
            |known: &Known| known.fsid == fsid && known.exports_version == exports_version;
        if let Some(known) = last.get().filter(is_same) {
            return known.party;
        }
        let volume = fsid.and_then(|fsid| self.admitted(client, fsid));
        let party = parties::party_of(volume, || self.knows(client));
        last.set(Some(Known { fsid, exports_version, party }));
        party
    }

    fn caller(
        &self,
        client: IpAddr,
        claim: Option<Credentials>,
        times: Option<Rc<CallTimes>>,
    ) -> Caller {
        let (volumes, exports) = (self.volumes.clone(), self.exports());
        let reports = self.reports.clone();
        Caller { client, claim, call: None, volumes, exports, reports, times }
    }
}

/// A call that has its turn.
pub(crate) struct Execution {
    pub(crate) dispatcher: Rc<Dispatcher>,
    pub(crate) client: IpAddr,
    pub(crate) record: Record,
    /// See [`crate::planted::connection_key`].
    pub(crate) planted_key: u64,
    /// Times of the call, if slow ones are logged.
    pub(crate) times: Option<Rc<CallTimes>>,
    /// Memory and turn, until the end (invariant 1).
    pub(crate) _held: [Tokens; 2],
}

impl Execution {
    pub(crate) async fn run(self) -> Option<Reply> {
        let call = match Call::decode(&self.record) {
            Ok(call) => call,
            Err(CallError::Rejected(rejection)) => {
                return Some(Reply::new(rejection.reply()).bare());
            }
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
        answered.unwrap_or_else(|refusal| {
            self.dispatcher.reports.refused_protocol(self.client, call.version, &refusal);
            Some(Reply::new(rpc::refuse(call.xid, refusal)).bare())
        })
    }

    async fn nfs(&self, call: &Call<'_>) -> Result<Option<Reply>, Refusal> {
        let procedure =
            Procedure::from_number(call.procedure).ok_or(Refusal::ProcedureUnavailable)?;
        let claim = claim(call.credential, procedure == Procedure::Null)?;
        let arguments =
            Arguments::decode(procedure, call.arguments).map_err(|_| Refusal::GarbageArguments)?;
        let caller = self.dispatcher.caller(self.client, claim, self.times.clone());
        if is_remembered(procedure) {
            return Ok(self.once(call, procedure, caller, arguments).await);
        }
        Ok(Some(crate::nfs3::execute(call.xid, &caller, arguments).await))
    }

    /// Whether the volume of a call is declared delayed.
    fn is_delayed(&self, call: &Call<'_>) -> bool {
        self.dispatcher.volume_of(call).is_some_and(|volume| volume.delayed().is_some())
    }

    /// Executes a call, unless it is a repetition. `None` when its first execution ended without a
    /// reply, which happens only at the end of the reactor.
    async fn once(
        &self,
        call: &Call<'_>,
        procedure: Procedure,
        caller: Caller,
        arguments: Arguments<'_>,
    ) -> Option<Reply> {
        let mut key = Key::of(self.client, call);
        key.checksum ^= self.planted_key;
        let is_admitted = || {
            crate::nfs3::is_admitted(&caller, &arguments) || is_planted(Bug::RememberedStrangers)
        };
        if is_planted(Bug::AdmittedRepetitions) && !is_admitted() {
            return Some(crate::nfs3::execute(call.xid, &caller, arguments).await);
        }
        match self.dispatcher.replies.begin(key, is_admitted) {
            Begin::Execute(mut slot) => {
                // A WRITE that is executed again writes the same data again.
                // A volume that is declared delayed promises nothing over a crash. A call keeps to
                // what was declared when it began: a name costs the file system a write.
                let is_kept = procedure != Procedure::Write && !self.is_delayed(call);
                let caller = caller.calling(is_kept.then(|| slot.name()).flatten());
                let reply = crate::nfs3::execute(call.xid, &caller, arguments).await;
                let segments = reply.segments().to_vec();
                if reply.is_bare() && !is_planted(Bug::RememberedStrangers) {
                    slot.pass(segments);
                } else if !(is_planted(Bug::ForgottenRefusals) && reply.is_refusal()) {
                    slot.answer(segments, reply.length());
                }
                Some(reply)
            }
            // The rules that were checked are those that refuse it now.
            Begin::Refuse => Some(crate::nfs3::execute(call.xid, &caller, arguments).await),
            Begin::Wait(_) if is_planted(Bug::UnnotedRunning) => {
                Some(crate::nfs3::execute(call.xid, &caller, arguments).await)
            }
            Begin::Wait(repetition) => repetition.wait().await.map(Reply::new),
            Begin::Repeat(segments, over_a_start) => {
                if let Some(volume) = self.dispatcher.volume_of(call) {
                    volume.file_system.count_repetition(over_a_start);
                    if volume.settle().await.is_err() {
                        return Some(crate::nfs3::lost(call.xid, procedure));
                    }
                }
                Some(Reply::new(segments))
            }
        }
    }

    async fn mount(&self, call: &Call<'_>) -> Result<Reply, Refusal> {
        let procedure =
            mount::Procedure::from_number(call.procedure).ok_or(Refusal::ProcedureUnavailable)?;
        let claim = claim(call.credential, procedure == mount::Procedure::Null)?;
        let arguments = mount::Arguments::decode(procedure, call.arguments)
            .map_err(|_| Refusal::GarbageArguments)?;
        let caller = self.dispatcher.caller(self.client, claim, self.times.clone());
        let (mounts, exports) = (&self.dispatcher.mounts, &self.dispatcher.export_list);
        let lists = Lists { mounts, exports: exports.borrow().clone() };
        Ok(crate::mount::execute(call.xid, &caller, lists, arguments).await)
    }
}

/// The procedures that must not be executed twice. COMMIT may be: it changes nothing.
pub(crate) fn is_remembered(procedure: Procedure) -> bool {
    match procedure {
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Rename => true,
        Procedure::Link => !is_planted(Bug::ForgottenLinks),
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

/// The user that a caller claims to be. A client that used a short-hand is asked for full
/// credentials; a flavor that proves more than AUTH_SYS cannot be checked here. NULL needs no
/// credentials.
fn claim(credential: Credential<'_>, anybody: bool) -> Result<Option<Credentials>, Refusal> {
    match credential {
        Credential::Sys(user) => Ok(Some(convert::claim(&user))),
        Credential::None => Ok(None),
        // A client that wants to begin a context with a NULL must learn that there are none.
        Credential::Other { flavor } if anybody && flavor != RPCSEC_GSS => Ok(None),
        Credential::Other { flavor: AUTH_SHORT } => {
            Err(Refusal::Authentication(AuthStatus::RejectedCredential))
        }
        Credential::Other { .. } => Err(Refusal::Authentication(AuthStatus::TooWeak)),
    }
}

fn mismatch(version: u32) -> Refusal {
    Refusal::ProgramMismatch { low: version, high: version }
}
