//! The calls of one connection: its share of the memory, and their end.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::LocalBoxFuture;
use nfs::nfs3::{Arguments, Procedure};
use nfs::record::Record;
use nfs::{mount, rpc};
use runtime::Instant;
use runtime::pool::{Line, Pool, Tokens};
use trace::Begun;

use crate::accounts::Holdings;
use crate::counts::{CallKind, ConnectionCells, EndedCall, add};
use crate::dispatcher::{Dispatcher, Execution, is_remembered};
use crate::nfs3::listing_size;
use crate::parties::{Known, STRANGERS};
use crate::planted::{Bug, is_planted};
use crate::slow::CallTimes;
use crate::{CALL_MEMORY, CallObserver, MAX_TRANSFER, Reply, ReplyMemory, parties, planted};

/// Bytes of data that may wait for one connection's peer. They keep a peer that does not take its
/// replies from holding the memory of all.
const SESSION_REPLY_MEMORY: u64 = 8 << 20;

/// The longest target of a symbolic link, in bytes, about.
const LONGEST_TARGET: u32 = 4096;

/// The least that the short reply of a stranger counts for until it is sent, in bytes: so replies
/// that the stranger does not take are bounded.
const STRANGERS_REPLY: u32 = 512;

/// A connection with a client. When the connection ends, drop it along with the futures of its
/// calls.
pub struct Session {
    dispatcher: Rc<Dispatcher>,
    client: IpAddr,
    /// What all connections of the client hold.
    holdings: Holdings,
    reply_memory: Rc<Pool>,
    /// The number of the connection.
    number: u64,
    cells: Rc<ConnectionCells>,
    known: Cell<Option<Known>>,
    /// See [`crate::planted::connection_key`].
    planted_key: u64,
}

/// Memory of a call that is still arriving.
pub struct Arriving {
    memory: Tokens,
    arriving: Tokens,
}

impl Arriving {
    /// The call has arrived: returns its memory.
    pub fn arrived(self) -> Tokens {
        self.memory
    }

    /// The requests that may wait for memory until the rest of the call arrives.
    pub fn line(&self) -> Option<Line> {
        self.arriving.line()
    }
}

impl Dispatcher {
    /// A connection from `client`.
    pub fn connect(self: &Rc<Self>, client: IpAddr) -> Rc<Session> {
        if is_planted(Bug::ForgottenConnections) {
            self.replies.forget_all();
        }
        Session::new(self.clone(), client)
    }

    /// Answers a single call, as the only one of its connection. See [`Session::call`].
    pub async fn call(self: &Rc<Self>, client: IpAddr, record: Record) -> Option<Reply> {
        let session = self.connect(client);
        let party = session.party(&record.head);
        let memory = session.request_memory(party, record.memory()).await;
        session.call(record, memory).await
    }
}

impl Session {
    fn new(dispatcher: Rc<Dispatcher>, client: IpAddr) -> Rc<Self> {
        let client = client.to_canonical();
        let shares = parties::shares(SESSION_REPLY_MEMORY, dispatcher.volumes().iter().count());
        let reply_memory = Pool::new(SESSION_REPLY_MEMORY, &shares, u64::MAX);
        let planted_key = planted::connection_key();
        let number = dispatcher.next_connection();
        let holdings = dispatcher.accounts.of(client, shares.len());
        let cells = ConnectionCells::new(client, dispatcher.runtime.clock.now());
        dispatcher.cells.connect(number, cells.clone());
        let known = Cell::new(None);
        Rc::new(Self {
            dispatcher,
            client,
            holdings,
            reply_memory,
            number,
            cells,
            known,
            planted_key,
        })
    }

    /// The party that must get memory for a call with this beginning of its record: the first
    /// argument of [`Session::request_memory`] and [`Session::arriving_memory`].
    pub fn party(&self, start: &[u8]) -> usize {
        self.dispatcher.party(self.client, start, &self.known)
    }

    /// Memory for a call of `bytes` that has arrived, to be taken before it is copied, including
    /// that of its execution. Among the waiters the client that holds the least comes first, unless
    /// a party would keep others from their share; for one client, the first.
    pub async fn request_memory(&self, party: usize, bytes: usize) -> Tokens {
        let (memory, account) = (&self.dispatcher.request_memory, &self.holdings.requests);
        let bytes = bytes as u64 + CALL_MEMORY;
        if let Some(taken) = memory.try_acquire_for(party, account, bytes) {
            return taken;
        }
        add(&self.dispatcher.cells.memory_waits, 1);
        memory.acquire_for(party, account, bytes).await
    }

    /// Memory for a call of `bytes` that is still arriving, to be taken before the rest is read.
    /// Others wait for it as long as the peer likes, so the owner of the connection must have a
    /// timeout: see [`Arriving::line`].
    pub async fn arriving_memory(&self, party: usize, bytes: usize) -> Arriving {
        let (pool, memory) = (&self.dispatcher.arriving_memory, bytes as u64 + CALL_MEMORY);
        let arriving = pool.acquire_for(party, &self.holdings.arriving, memory).await;
        Arriving { memory: self.request_memory(party, bytes).await, arriving }
    }

    /// The requests that may wait for memory that calls of this connection hold, if it had any: by
    /// the party of the last one.
    pub fn line(&self) -> Option<Line> {
        let (memory, account) = (&self.dispatcher.request_memory, &self.holdings.requests);
        self.known.get().map(|known| memory.line(known.party, Some(account.clone())))
    }

    /// Answers a call: `None` where there is no reply.
    ///
    /// A call that may change something, once it has its turn, runs in a task of its own: the
    /// connection may go away, and the call still runs to its end. A call that waits for its turn,
    /// or only reads, ends when the future is dropped.
    ///
    /// Its resources are taken at once if they are there. A call that has to wait for them does so
    /// in a small future, and its execution is created once it has them.
    pub fn call(
        self: &Rc<Self>,
        record: Record,
        memory: Tokens,
    ) -> LocalBoxFuture<'static, Option<Reply>> {
        let party = memory.party().unwrap_or(STRANGERS);
        let list_length = |procedure| self.dispatcher.list_length(procedure);
        let plan = Plan::of(&record, party, list_length);
        let start = self.dispatcher.runtime.clock.now();
        let times = self.dispatcher.slow.times(&self.dispatcher.runtime.clock, start);
        let watched = self.watch(&record);
        let call = WaitingCall { watched, start, record, memory, times };
        if let Some(granted) = self.try_grant(party, &plan) {
            return self.execute(call, plan, granted);
        }
        let session = self.clone();
        let waiting = async move {
            let wait = session.dispatcher.cells.wait();
            let granted = session.grant(party, &plan).await;
            wait.end(session.dispatcher.runtime.clock.now().0.saturating_sub(start.0));
            session.execute(call, plan, granted).await
        };
        waiting.boxed_local()
    }

    /// The record for an observer of a call that begins now, if there is one.
    fn watch(&self, record: &Record) -> Option<Box<Watched>> {
        let observer = self.dispatcher.observer()?;
        let begun = Begun::seen(record)?;
        Some(Box::new(Watched { observer, begun }))
    }

    /// The resources of a call besides the memory of its record. As for that, among the waiters the
    /// client that holds the least comes first.
    async fn grant(&self, party: usize, plan: &Plan) -> Granted {
        // The order matters: a call that waits for memory of a slow peer must not hold a turn.
        let (of_session, of_all) = (&self.reply_memory, &self.dispatcher.reply_memory);
        let bytes = plan.reply_bytes.into();
        let reply_memory = ReplyMemory::new(
            of_session.acquire(party, bytes).await,
            of_all.acquire_for(party, &self.holdings.replies, bytes).await,
        );
        let turn = self.dispatcher.turns.acquire_for(party, &self.holdings.turns, 1).await;
        Granted { reply_memory, turn }
    }

    /// As [`Session::grant`], if all of it is available now.
    fn try_grant(&self, party: usize, plan: &Plan) -> Option<Granted> {
        let (of_session, of_all) = (&self.reply_memory, &self.dispatcher.reply_memory);
        let bytes = plan.reply_bytes.into();
        let reply_memory = ReplyMemory::new(
            of_session.try_acquire(party, bytes)?,
            of_all.try_acquire_for(party, &self.holdings.replies, bytes)?,
        );
        let turn = self.dispatcher.turns.try_acquire_for(party, &self.holdings.turns, 1)?;
        Some(Granted { reply_memory, turn })
    }

    /// Executes a call that has all its resources.
    fn execute(
        &self,
        call: WaitingCall,
        plan: Plan,
        granted: Granted,
    ) -> LocalBoxFuture<'static, Option<Reply>> {
        let WaitingCall { record, memory, start, watched, times } = call;
        times.iter().for_each(|times| times.begin());
        let Granted { reply_memory, turn } = granted;
        let (dispatcher, client) = (self.dispatcher.clone(), self.client);
        let party = memory.party().unwrap_or(STRANGERS);
        let received = record.memory() as u64;
        let (planted_key, _held) = (self.planted_key, [memory, turn]);
        let execution =
            Execution { dispatcher, client, record, planted_key, times: times.clone(), _held };
        let end = CallEnd {
            dispatcher: self.dispatcher.clone(),
            connection: self.number,
            cells: self.cells.clone(),
            kind: plan.kind,
            party,
            start,
            received,
            reply_memory,
            least: plan.least_reply,
            watched,
            times: times.map(|times| (client, times)),
        };
        if !plan.may_change {
            return async move { end.reply(execution.run().await) }.boxed_local();
        }
        let apart = async move {
            let (to_waiter, reply) = oneshot::channel();
            end.dispatcher.runtime.tasks.spawn(Box::pin(async move {
                // If this fails the caller waits no more; the call was executed all the same.
                let _ = to_waiter.send(execution.run().await);
            }));
            end.reply(reply.await.ok().flatten())
        };
        apart.boxed_local()
    }
}

/// A call that waits for its resources.
struct WaitingCall {
    record: Record,
    memory: Tokens,
    /// Time of its arrival.
    start: Instant,
    watched: Option<Box<Watched>>,
    times: Option<Rc<CallTimes>>,
}

/// A call for an observer.
struct Watched {
    observer: Rc<dyn CallObserver>,
    begun: Begun,
}

/// Memory for a reply, and a turn.
struct Granted {
    reply_memory: ReplyMemory,
    turn: Tokens,
}

/// The work left when a call was executed.
struct CallEnd {
    dispatcher: Rc<Dispatcher>,
    /// The number of the connection, and its counters.
    connection: u64,
    cells: Rc<ConnectionCells>,
    kind: CallKind,
    party: usize,
    /// Time of the call's arrival.
    start: Instant,
    /// Bytes of the call.
    received: u64,
    reply_memory: ReplyMemory,
    /// The least that the reply counts for.
    least: u32,
    watched: Option<Box<Watched>>,
    /// The client and the times, if slow calls are logged.
    times: Option<(IpAddr, Rc<CallTimes>)>,
}

impl CallEnd {
    fn reply(mut self, reply: Option<Reply>) -> Option<Reply> {
        let reply = reply?;
        let length = reply.length() as u64;
        if !is_planted(Bug::WholeReservations) {
            self.reply_memory.resize(length.max(self.least.into()));
        }
        let now = self.dispatcher.runtime.clock.now();
        self.count(&reply, length, now);
        if let Some((client, times)) = &self.times {
            let volume = self.dispatcher.volume_name(self.party);
            self.dispatcher.slow.answered(times, now, self.kind, *client, volume);
        }
        let reply = reply.holding(self.reply_memory);
        if let Some(watched) = self.watched {
            let times = (self.start, now);
            watched.observer.answered(watched.begun, times, self.connection, reply.segments());
        }
        Some(reply)
    }

    /// Counts the answered call, for its volume and its connection.
    fn count(&self, reply: &Reply, length: u64, now: Instant) {
        let ended = EndedCall {
            party: self.party,
            kind: self.kind,
            verdict: reply.verdict(self.kind),
            ns: now.0.saturating_sub(self.start.0),
            received: self.received,
            sent: length,
        };
        self.dispatcher.cells.note(&ended);
        self.cells.note(&ended, now);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.dispatcher.cells.disconnect(self.number);
    }
}

/// The resources that a call will need, known before it has its turn.
struct Plan {
    kind: CallKind,
    /// Whether it must run to its end.
    may_change: bool,
    /// The data of its reply, if it may be large, in bytes.
    reply_bytes: u32,
    /// The least that its reply counts for.
    least_reply: u32,
}

impl Plan {
    /// The plan for a record of a party. A refusal needs no room for data: the handle of a call
    /// whose party is no volume yields none. The replies of strangers have a bound, short ones too.
    /// `list_length` returns the length of the reply to a procedure that lists something.
    fn of(
        record: &Record,
        party: usize,
        list_length: impl FnOnce(mount::Procedure) -> u32,
    ) -> Self {
        let plan = Self::of_admitted(record, parties::is_volume(party), list_length);
        if party != STRANGERS {
            return plan;
        }
        let reply_bytes = plan.reply_bytes.max(STRANGERS_REPLY);
        Self { reply_bytes, least_reply: STRANGERS_REPLY, ..plan }
    }

    fn of_admitted(
        record: &Record,
        is_admitted: bool,
        list_length: impl FnOnce(mount::Procedure) -> u32,
    ) -> Self {
        let target = rpc::Call::target(record);
        let kind = CallKind::of(target);
        let short = Self { kind, may_change: false, reply_bytes: 0, least_reply: 0 };
        let Some((program, procedure)) = target else { return short };
        if program == rpc::PROGRAM_MOUNT {
            let lists = [mount::Procedure::Dump, mount::Procedure::Export];
            let list = lists.into_iter().find(|&list| procedure == list as u32);
            return Self { reply_bytes: list.map_or(0, list_length), ..short };
        }
        let Some(procedure) = Procedure::from_number(procedure) else { return short };
        if procedure == Procedure::Commit || is_remembered(procedure) {
            return Self { may_change: true, ..short };
        }
        let is_long = matches!(
            procedure,
            Procedure::Read | Procedure::Readlink | Procedure::Readdir | Procedure::Readdirplus
        );
        if !is_long || !is_admitted {
            return short;
        }
        let Ok(call) = rpc::Call::decode(record) else { return short };
        let reply_bytes = match Arguments::decode(procedure, call.arguments) {
            Ok(Arguments::Read(args)) => args.count.min(MAX_TRANSFER),
            Ok(Arguments::Readlink(_)) => LONGEST_TARGET,
            Ok(Arguments::Readdir(args)) => listing_size(args.count),
            Ok(Arguments::Readdirplus(args)) => listing_size(args.maxcount),
            _ => return short,
        };
        Self { reply_bytes, ..short }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call with these arguments, by no user in particular.
    fn record(program: u32, procedure: u32, arguments: &[u32]) -> Record {
        const XID: u32 = 7;
        let mut words = vec![XID, 0, 2, program, 3, procedure, 0, 0, 0, 0];
        words.extend(arguments);
        Record::whole(words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>())
    }

    fn nfs(procedure: Procedure, arguments: &[u32]) -> Record {
        record(rpc::PROGRAM_NFS, procedure as u32, arguments)
    }

    /// A handle of four bytes, and what follows it.
    fn with_handle(rest: &[u32]) -> Vec<u32> {
        [&[4, 0x1234_5678], rest].concat()
    }

    fn plan_of(record: &Record, is_admitted: bool) -> Plan {
        Plan::of_admitted(record, is_admitted, |procedure| procedure as u32 * 1_000)
    }

    #[test]
    fn what_reads_reserves_what_it_asks_for_up_to_a_bound() {
        let read = |count| nfs(Procedure::Read, &with_handle(&[0, 0, count]));
        let readdir = |count| nfs(Procedure::Readdir, &with_handle(&[0, 0, 0, 0, count]));
        let plus = |count| nfs(Procedure::Readdirplus, &with_handle(&[0, 0, 0, 0, 77, count]));
        let readlink = nfs(Procedure::Readlink, &with_handle(&[]));
        for (record, expected) in [
            (read(1_000), 1_000),
            (read(MAX_TRANSFER + 1), MAX_TRANSFER),
            (readdir(2_000), 2_000),
            (readdir(1 << 30), 256 << 10),
            (plus(3_000), 3_000),
            (plus(1 << 30), 256 << 10),
            (readlink, LONGEST_TARGET),
        ] {
            let plan = plan_of(&record, true);
            assert_eq!((plan.reply_bytes, plan.may_change), (expected, false));
            let refused = plan_of(&record, false);
            assert_eq!(refused.reply_bytes, 0, "a refusal needs no room");
            let stranger = Plan::of(&record, STRANGERS, |_| panic!("it lists nothing"));
            let short = (STRANGERS_REPLY, STRANGERS_REPLY);
            assert_eq!((stranger.reply_bytes, stranger.least_reply), short, "a bound for all");
        }
        for garbage in [&[][..], &[4], &with_handle(&[0])] {
            assert_eq!(plan_of(&nfs(Procedure::Read, garbage), true).reply_bytes, 0);
        }
    }

    #[test]
    fn what_may_change_something_or_makes_sure_of_it_runs_to_its_end() {
        let changing = [2, 7, 8, 9, 10, 11, 12, 13, 14, 15, 21];
        for number in 0..=21 {
            let plan = plan_of(&record(rpc::PROGRAM_NFS, number, &[]), true);
            assert_eq!(plan.may_change, changing.contains(&number), "procedure {number}");
            assert_eq!(plan.reply_bytes, 0, "procedure {number}");
        }
    }

    #[test]
    fn the_lists_of_mounts_and_exports_may_be_long_and_all_else_is_short() {
        for (number, expected) in [(0, 0), (1, 0), (2, 2_000), (3, 0), (4, 0), (5, 5_000), (6, 0)] {
            for is_admitted in [false, true] {
                let plan = plan_of(&record(rpc::PROGRAM_MOUNT, number, &[]), is_admitted);
                assert_eq!((plan.reply_bytes, plan.may_change), (expected, false), "{number}");
            }
        }
        let unknown = nfs(Procedure::Commit, &[]).head.slice(..20);
        for record in [Record::whole(unknown), record(rpc::PROGRAM_NFS, 22, &[])] {
            let plan = plan_of(&record, true);
            assert_eq!((plan.reply_bytes, plan.may_change), (0, false));
        }
    }
}
