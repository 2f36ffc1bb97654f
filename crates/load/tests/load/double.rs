//! A server double: it answers a stage's calls at once, unless a test makes it lie or wait. It
//! stores nothing, and its network is a pair of queues.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use client::stream::{ByteStream, Dial, Service};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use load::stage::{Plan, Stage, Trouble, Unwatched};
use nfs::mount::{MntOk, MntResult};
use nfs::nfs3::results::{CommitOk, CreateOk, FsinfoOk, Properties, ReaddirplusOk, WriteOk};
use nfs::nfs3::{
    Attributes, Device, Failure, FileKind, Handle, Outcome, Procedure, Stability, Status, Time,
    Verifier, Wcc,
};
use nfs::record::Record;
use nfs::rpc::{self, Call, Caller, PROGRAM_MOUNT, Refusal};
use nfs::xdr::Encode;
use runtime::{Instant, Runtime};
use sim::Executor;

/// The treatment of a call that is not answered correctly.
#[derive(Clone, Debug)]
pub(crate) enum Lie {
    /// The procedure refuses.
    Status(Status),
    /// The call is refused.
    Refusal(Refusal),
    /// Results that are not of the procedure.
    Garbage,
    /// Attributes of something else.
    Directory,
    /// A reply to another call.
    OtherCall,
    /// No reply.
    Silence,
    /// The connection ends.
    HangUp,
    /// The reply comes at this time.
    Late(Instant),
}

/// The count in each WRITE's answer.
pub(crate) const WRITTEN: u32 = 64 << 10;

/// Decides the treatment of a call of a procedure.
type Judge = dyn Fn(Procedure, Instant) -> Option<Lie>;

pub(crate) struct Double {
    pub(crate) runtime: Runtime,
    judge: Rc<Judge>,
    /// Number of NFS calls received.
    pub(crate) asked: Rc<Cell<u64>>,
}

/// One connection.
struct Pair {
    runtime: Runtime,
    judge: Rc<Judge>,
    asked: Rc<Cell<u64>>,
    calls: RefCell<Vec<u8>>,
    replies: Rc<Replies>,
}

#[derive(Default)]
struct Replies {
    bytes: RefCell<VecDeque<u8>>,
    has_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Double {
    pub(crate) fn new(
        executor: &Executor,
        judge: impl Fn(Procedure, Instant) -> Option<Lie> + 'static,
    ) -> Self {
        Self { runtime: executor.runtime(), judge: Rc::new(judge), asked: Rc::default() }
    }

    /// A stage that uses it.
    pub(crate) async fn stage(&self, plan: Plan) -> Result<Stage, Trouble> {
        Stage::set(&self.runtime, self, Caller::none(), "/data", plan, Rc::new(Unwatched)).await
    }
}

impl Dial for Double {
    fn dial(&self, _: Service) -> LocalBoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        let pair = Pair {
            runtime: self.runtime.clone(),
            judge: self.judge.clone(),
            asked: self.asked.clone(),
            calls: RefCell::default(),
            replies: Rc::default(),
        };
        async move { Ok(Box::new(pair) as Box<dyn ByteStream>) }.boxed_local()
    }
}

impl ByteStream for Pair {
    fn poll_read(&self, context: &mut Context<'_>, target: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut bytes = self.replies.bytes.borrow_mut();
        if bytes.is_empty() && !self.replies.has_ended.get() {
            self.replies.waker.replace(Some(context.waker().clone()));
            return Poll::Pending;
        }
        let length = bytes.len().min(target.len());
        bytes.drain(..length).zip(target).for_each(|(byte, place)| *place = byte);
        Poll::Ready(Ok(length))
    }

    fn poll_write(&self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut calls = self.calls.borrow_mut();
        calls.extend_from_slice(bytes);
        while let Some(mark) = calls.first_chunk() {
            let length = 4 + (u32::from_be_bytes(*mark) & !(1 << 31)) as usize;
            if calls.len() < length {
                break;
            }
            let head = Bytes::from(calls.drain(..length).skip(4).collect::<Vec<_>>());
            self.heard(&Record::whole(head));
        }
        Poll::Ready(Ok(bytes.len()))
    }
}

impl Pair {
    fn heard(&self, record: &Record) {
        let call = Call::decode(record).expect("a load makes good calls");
        if call.program == PROGRAM_MOUNT {
            let ok = MntOk { handle: handle(), flavors: vec![0] };
            return self.say(reply(call.xid, &MntResult::Ok(ok)));
        }
        self.asked.set(self.asked.get() + 1);
        let procedure = Procedure::from_number(call.procedure).expect("one of 22");
        let now = self.runtime.clock.now();
        match (self.judge)(procedure, now) {
            None => self.say(honest(call.xid, procedure)),
            Some(Lie::Status(status)) => {
                self.say(reply(call.xid, &rpc_failure(procedure, status)));
            }
            Some(Lie::Refusal(refusal)) => self.say(rpc::refuse(call.xid, refusal).concat()),
            Some(Lie::Garbage) => self.say(reply(call.xid, &7_u32)),
            Some(Lie::Directory) => {
                let other = Attributes { kind: FileKind::Directory, ..attributes() };
                self.say(reply(call.xid, &Outcome::<_, ()>::Ok(other)));
            }
            Some(Lie::OtherCall) => self.say(honest(call.xid ^ 1 << 31, procedure)),
            Some(Lie::Silence) => {}
            Some(Lie::HangUp) => self.replies.end(),
            Some(Lie::Late(when)) => {
                let (clock, replies) = (self.runtime.clock.clone(), self.replies.clone());
                let answer = honest(call.xid, procedure);
                let later = async move {
                    clock.sleep(when.since(now)).await;
                    replies.add(answer);
                };
                self.runtime.tasks.spawn(later.boxed_local());
            }
        }
    }

    fn say(&self, reply: Vec<u8>) {
        self.replies.add(reply);
    }
}

impl Replies {
    fn add(&self, reply: Vec<u8>) {
        self.bytes.borrow_mut().extend(reply);
        self.wake();
    }

    fn end(&self) {
        self.has_ended.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn rpc_failure(procedure: Procedure, status: Status) -> impl Encode {
    nfs::nfs3::results::BareFailure { procedure, status }
}

fn reply(xid: u32, results: &impl Encode) -> Vec<u8> {
    let mut to = rpc::success(xid);
    to.value(results);
    to.finish().concat()
}

fn handle() -> Handle {
    Handle::new(b"any file").expect("eight bytes are a handle")
}

fn attributes() -> Attributes {
    let time = Time::default();
    Attributes {
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 0,
        used: 0,
        device: Device::default(),
        fsid: 0,
        fileid: 7,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

/// The reply of a server with every requested object.
fn honest(xid: u32, procedure: Procedure) -> Vec<u8> {
    let good = |results: &dyn Fn(&mut nfs::xdr::Encoder)| {
        let mut to = rpc::success(xid);
        results(&mut to);
        to.finish().concat()
    };
    match procedure {
        Procedure::Null => good(&|_| {}),
        Procedure::Getattr => good(&|to| to.value(&Outcome::<_, ()>::Ok(attributes()))),
        Procedure::Fsinfo => good(&|to| to.value(&Outcome::<_, ()>::Ok(information()))),
        Procedure::Create | Procedure::Mkdir => good(&|to| {
            let (object, directory) = (Some(handle()), Wcc::default());
            let made = CreateOk { object, attributes: None, directory };
            to.value(&Outcome::<_, Wcc>::Ok(made));
        }),
        Procedure::Readdirplus => good(&|to| {
            let list = ReaddirplusOk {
                directory: None,
                cookie_verifier: Verifier::default(),
                entries: Vec::new(),
                eof: true,
            };
            to.value(&Outcome::<_, ()>::Ok(list));
        }),
        Procedure::Write => good(&|to| {
            let (wcc, committed) = (Wcc::default(), Stability::Unstable);
            let verifier = Verifier::default();
            let written = WriteOk { wcc, count: WRITTEN, committed, verifier };
            to.value(&Outcome::<_, Wcc>::Ok(written));
        }),
        Procedure::Commit => good(&|to| {
            let committed = CommitOk { wcc: Wcc::default(), verifier: Verifier::default() };
            to.value(&Outcome::<_, Wcc>::Ok(committed));
        }),
        Procedure::Remove | Procedure::Rmdir => {
            good(&|to| to.value(&Outcome::<_, Wcc>::Ok(Wcc::default())))
        }
        _ => good(&|to| {
            let about = ();
            to.value(&Outcome::<Wcc, ()>::Err(Failure { status: Status::NotSupported, about }));
        }),
    }
}

fn information() -> FsinfoOk {
    FsinfoOk {
        attributes: None,
        read_max: 1 << 20,
        read_preferred: 1 << 20,
        read_multiple: 1,
        write_max: 1 << 20,
        write_preferred: 1 << 20,
        write_multiple: 1,
        readdir_preferred: 1 << 16,
        max_file_size: 1 << 40,
        time_delta: Time::default(),
        properties: Properties::default(),
    }
}

/// A plan of one connection and one call at a time.
pub(crate) fn one_by_one(duration: Duration) -> Plan {
    let duration = Some(duration);
    Plan { connections: 1, depth: 1, duration, count: u64::MAX, ..Plan::default() }
}
