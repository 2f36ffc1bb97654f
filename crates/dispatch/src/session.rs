//! One connection's calls: its share of the memory, and what becomes of them when it ends.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use futures::channel::oneshot;
use nfs::nfs3::{Arguments, Procedure};
use nfs::record::Record;
use nfs::{mount, rpc};
use runtime::pool::{Line, Pool, Tokens};
use trace::Begun;

use crate::dispatcher::{Dispatcher, Execution, is_remembered};
use crate::nfs3::listing_size;
use crate::parties::{Known, STRANGERS};
use crate::planted::{Bug, is_planted};
use crate::{MAX_TRANSFER, Reply, ReplyMemory, parties, planted};

/// The data that may wait for one connection's peer, in bytes. It keeps a peer that does not take
/// its replies from holding the memory of all.
const SESSION_REPLY_MEMORY: u64 = 8 << 20;

/// The longest target of a symbolic link, in bytes, about.
const LONGEST_TARGET: u32 = 4096;

/// A connection with a client. Its end is to be dropped, along with the futures of its calls.
pub struct Session {
    dispatcher: Rc<Dispatcher>,
    client: IpAddr,
    reply_memory: Rc<Pool>,
    /// Tells connections apart, for an observer that looks on.
    number: u64,
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
    /// The call is there: what is left is its memory.
    pub fn arrived(self) -> Tokens {
        self.memory
    }

    /// The requests that may wait for memory until the rest of the call is there.
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
        let reply_memory = Pool::new(SESSION_REPLY_MEMORY, &shares);
        let planted_key = planted::connection_key();
        let number = dispatcher.next_connection();
        let known = Cell::new(None);
        Rc::new(Self { dispatcher, client, reply_memory, number, known, planted_key })
    }

    /// The party that is to have memory for a call whose record begins so: what
    /// [`Session::request_memory`] and [`Session::arriving_memory`] take first.
    pub fn party(&self, start: &[u8]) -> usize {
        self.dispatcher.party(self.client, start, &self.known)
    }

    /// Memory for a call of `bytes` that has arrived, to be taken before it is copied. First come,
    /// first served among all connections, as far as they do not keep others from their share.
    pub async fn request_memory(&self, party: usize, bytes: usize) -> Tokens {
        self.dispatcher.request_memory.acquire(party, bytes as u64).await
    }

    /// Memory for a call of `bytes` that is still arriving, to be taken before the rest is read.
    /// Others wait for it as long as the peer likes, so the owner of the connection must have an
    /// end to its patience: see [`Arriving::line`].
    pub async fn arriving_memory(&self, party: usize, bytes: usize) -> Arriving {
        let arriving = self.dispatcher.arriving_memory.acquire(party, bytes as u64).await;
        Arriving { memory: self.request_memory(party, bytes).await, arriving }
    }

    /// Answers a call: `None` where there is nothing to answer.
    ///
    /// A call that may change something, once it has its turn, runs in a task of its own: the
    /// connection may go away, and the call still runs to its end. A call that waits for its
    /// turn, or only reads, ends when the future is dropped.
    pub async fn call(&self, record: Record, memory: Tokens) -> Option<Reply> {
        let Some(observer) = self.dispatcher.observer() else {
            return self.answer(record, memory).await;
        };
        let (clock, begun) = (&self.dispatcher.runtime.clock, Begun::seen(&record));
        let start = clock.now();
        let reply = self.answer(record, memory).await?;
        if let Some(begun) = begun {
            observer.answered(begun, (start, clock.now()), self.number, reply.segments());
        }
        Some(reply)
    }

    async fn answer(&self, record: Record, memory: Tokens) -> Option<Reply> {
        let party = memory.party().unwrap_or(STRANGERS);
        let plan = Plan::of(&record, parties::is_volume(party));
        // The order matters: a call that waits for memory of a slow peer must not hold a turn.
        let (of_session, of_all) = (&self.reply_memory, &self.dispatcher.reply_memory);
        let mut reply_memory = match plan.reply_bytes {
            0 => ReplyMemory::new(of_session.take_now(party, 0), of_all.take_now(party, 0)),
            bytes => ReplyMemory::new(
                of_session.acquire(party, bytes.into()).await,
                of_all.acquire(party, bytes.into()).await,
            ),
        };
        let turn = self.dispatcher.turns.acquire(party, 1).await;
        let (dispatcher, client) = (self.dispatcher.clone(), self.client);
        let (planted_key, _held) = (self.planted_key, [memory, turn]);
        let execution = Execution { dispatcher, client, record, planted_key, _held };
        let reply = if plan.may_change {
            let (to_waiter, reply) = oneshot::channel();
            self.dispatcher.runtime.tasks.spawn(Box::pin(async move {
                // The caller waits no more when this fails; the call was carried out all the same.
                let _ = to_waiter.send(execution.run().await);
            }));
            reply.await.ok().flatten()
        } else {
            execution.run().await
        };
        let reply = reply?;
        if !is_planted(Bug::WholeReservations) {
            reply_memory.resize(reply.length() as u64);
        }
        Some(reply.holding(reply_memory))
    }
}

/// What a call will need, seen before it has its turn.
struct Plan {
    /// Whether it must run to its end.
    may_change: bool,
    /// The data of its reply, if it may be much, in bytes.
    reply_bytes: u32,
}

impl Plan {
    /// That of a record. `is_admitted` says whether its sender may use the volume of its handle:
    /// what is refused needs no room for data.
    fn of(record: &Record, is_admitted: bool) -> Self {
        let short = Self { may_change: false, reply_bytes: 0 };
        let Some((program, procedure)) = rpc::Call::target(record) else { return short };
        if program == rpc::PROGRAM_MOUNT {
            let long = [mount::Procedure::Dump, mount::Procedure::Export];
            let is_long = long.iter().any(|&long| procedure == long as u32);
            return Self { reply_bytes: if is_long { MAX_TRANSFER } else { 0 }, ..short };
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
            let plan = Plan::of(&record, true);
            assert_eq!((plan.reply_bytes, plan.may_change), (expected, false));
            let refused = Plan::of(&record, false);
            assert_eq!(refused.reply_bytes, 0, "a refusal needs no room");
        }
        for garbage in [&[][..], &[4], &with_handle(&[0])] {
            assert_eq!(Plan::of(&nfs(Procedure::Read, garbage), true).reply_bytes, 0);
        }
    }

    #[test]
    fn what_may_change_something_or_makes_sure_of_it_runs_to_its_end() {
        let changing = [2, 7, 8, 9, 10, 11, 12, 13, 14, 15, 21];
        for number in 0..=21 {
            let plan = Plan::of(&record(rpc::PROGRAM_NFS, number, &[]), true);
            assert_eq!(plan.may_change, changing.contains(&number), "procedure {number}");
            assert_eq!(plan.reply_bytes, 0, "procedure {number}");
        }
    }

    #[test]
    fn the_lists_of_mounts_and_exports_may_be_long_and_all_else_is_short() {
        for (number, expected) in
            [(0, 0), (1, 0), (2, MAX_TRANSFER), (3, 0), (4, 0), (5, MAX_TRANSFER), (6, 0)]
        {
            for is_admitted in [false, true] {
                let plan = Plan::of(&record(rpc::PROGRAM_MOUNT, number, &[]), is_admitted);
                assert_eq!((plan.reply_bytes, plan.may_change), (expected, false), "{number}");
            }
        }
        let unknown = nfs(Procedure::Commit, &[]).head.slice(..20);
        for record in [Record::whole(unknown), record(rpc::PROGRAM_NFS, 22, &[])] {
            let plan = Plan::of(&record, true);
            assert_eq!((plan.reply_bytes, plan.may_change), (0, false));
        }
    }
}
