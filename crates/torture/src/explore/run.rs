//! Runs a workload once, through the protocol, and records the events of the disks.
//!
//! Each call comes over a connection of its own, and once more over another, as from a client that
//! has lost the first: with the same number it must get the same answer, to the byte, and must not
//! be carried out again; not while the first one runs, not just after, and not after other calls in
//! between. Beside the calls other clients read their effects: once a reply shows an effect, it
//! must stay.
//!
//! Clients hold handles from before, and the server starts with empty caches: concurrent calls wait
//! for the disk in the middle of their work, and others pass them.

use std::rc::Rc;

use bytes::Bytes;
use designs::{OpenEngine, Opened};
use futures::channel::oneshot;
use futures::future::{FutureExt, LocalBoxFuture, Shared, select};
use nfs3_types::nfs3::nfs_fh3;
use runtime::Runtime;
use sim::Executor;
use vfs::{FileSystem, FsError, SnapshotNumber};

use super::caller::{Answer, Call, Handles, call, last_name};
use super::control;
use super::design::Design;
use super::device::Device;
use super::disks::{Disks, Images, Recording};
use super::judge::History;
use super::loose::touches;
use super::model::{Act, Model, ROOT};
use super::op::{HELD, NEW, Op, Stable};
use super::server::{self, Server};
use super::{Before, Style};
use crate::calls;
use crate::protocol::Procedure;

/// The seed of the world of every workload: those that begin alike run alike.
pub const SEED: u64 = 7;

/// A workload that has run.
pub struct Run {
    /// The events of the disks.
    pub recording: Recording,
    /// The calls and their answers.
    pub history: History,
}

/// A reply in progress.
type Running = Shared<LocalBoxFuture<'static, Result<Bytes, String>>>;

/// A client that runs a workload.
pub(super) struct Client {
    design: Design,
    runtime: Runtime,
    pub(super) disks: Rc<Disks>,
    pub(super) server: Rc<Server>,
    pub(super) engine: Rc<dyn OpenEngine>,
    pub(super) handles: Handles,
    pub(super) model: Model,
    pub(super) history: History,
    /// Every call that must not be carried out twice, with its reply.
    pub(super) answered: Vec<(Call, Bytes)>,
    /// Number of verbs that the calls so far should have carried out.
    pub(super) verbs: u64,
}

/// Runs a workload, if it exists in this style. Every answer must be the model's.
///
/// # Errors
/// A wrong answer.
pub fn run(
    design: Design,
    (base, before): (&Images, &Before),
    ops: &[Op],
    style: Style,
) -> Result<Option<Run>, String> {
    let goes_back = style == Style::RolledBack;
    // It takes long on a set: there only workloads with snapshot operations use this style.
    let is_short = design.device() == Device::Plain || ops.iter().any(Op::is_of_snapshots);
    if goes_back && !(design.has_snapshots() && !design.is_delayed() && is_short) {
        return Ok(None);
    }
    let executor = Executor::new(SEED);
    let disks = Rc::new(Disks::new(&executor, base));
    executor.block_on(async {
        let runtime = executor.runtime();
        let opened = design.open(disks.devices(), runtime.clone()).await;
        let opened = opened.map_err(|error| error.to_string())?;
        let mut client = Client::new(design, (runtime, disks.clone()), opened, (before, style));
        if goes_back {
            return client.roll_back(&executor, ops).await;
        }
        disks.start_recording();
        let there_is_one = match style {
            Style::OneByOne => client.one_by_one(ops).await?,
            Style::Together => client.together(ops).await?,
            Style::AtOnce => client.at_once(ops).await?,
            // The client of a delayed volume may have been answered before.
            Style::Failing if design.is_delayed() => false,
            // One failing disk is no failure of a set.
            Style::Failing if design.device() != Device::Plain => false,
            Style::Failing => client.failing(ops).await.map(|()| false)?,
            Style::RolledBack => unreachable!("that is another run"),
        };
        if !there_is_one {
            return Ok(None);
        }
        client.look_back().await?;
        control::end_deletions(&*client.server.witness).await?;
        client.engine.quiesce().await.map_err(|error| error.to_string())?;
        if style == Style::OneByOne {
            client.stop().await?;
            (0..client.history.acts.len())
                .for_each(|index| disks.volume().mark(acknowledged(index)));
        }
        Ok(Some(Run { recording: disks.recording(), history: client.history }))
    })
}

impl Client {
    fn new(
        design: Design,
        (runtime, disks): (Runtime, Rc<Disks>),
        opened: Opened,
        (before, style): (&Before, Style),
    ) -> Self {
        let Opened { files, engine, .. } = opened;
        let root = files.root();
        let server = Server::serving(runtime.clone(), files, design.is_delayed());
        let server = Rc::new(server);
        let model = Model::before(design);
        let mut handles = Handles::from([(ROOT, server::handle(root))]);
        let mut history = History::new(design, style);
        history.handles.insert(ROOT, root);
        for (path, seen) in model.view() {
            handles.insert(seen.file, server::handle(before[&path]));
            history.handles.insert(seen.file, before[&path]);
        }
        let (answered, verbs) = (Vec::new(), server.witness.done());
        Self { design, runtime, disks, server, engine, handles, model, history, answered, verbs }
    }

    /// The next operation as a call; `None` when the client does not get so far.
    pub(super) fn begin(
        &mut self,
        number: usize,
        op: &Op,
        seen: &Model,
    ) -> Option<(usize, Act, Call)> {
        let act = Act::new(seen, number, op).ok()?;
        let known = [Some(act.subject), act.destination].into_iter().flatten();
        if !known.into_iter().all(|node| self.handles.contains_key(&node)) {
            return None;
        }
        let call = call(&self.server, &act, &self.handles);
        let index = self.history.acts.len();
        self.disks.volume().mark(begun(index));
        self.history.acts.push((act.clone(), Ok(())));
        self.history.given.push(None);
        self.verbs += 1;
        Some((index, act, call))
    }

    pub(super) async fn one_by_one(&mut self, ops: &[Op]) -> Result<bool, String> {
        for (number, op) in ops.iter().enumerate() {
            let seen = self.model.clone();
            if Act::new(&seen, number, op).is_err() {
                continue;
            }
            let Some((index, act, call)) = self.begin(number, op, &seen) else {
                return Ok(false);
            };
            let reply = call.send(&self.server).await?;
            let answer = (call.read)(&reply)?;
            if matches!(op, Op::Write(_, _, Stable::Commit)) {
                self.commit(act.subject, answer).await?;
            }
            self.promised(index).into_iter().for_each(|mark| self.disks.volume().mark(mark));
            self.repeat(&call, &reply).await?;
            if op.is_of_snapshots() {
                control::end_deletions(&*self.server.witness).await?;
            }
            self.answered.push((call, reply));
            let expected = self.model.apply(&act);
            self.expect(index, answer, expected)?;
        }
        Ok(true)
    }

    /// A COMMIT after a WRITE in the same boot returns the same verifier.
    async fn commit(&mut self, node: usize, written: Answer) -> Result<(), String> {
        let done = self.server.ask(&calls::commit(&self.handles[&node])).await?.unwrap();
        self.verbs += 1;
        match written.written {
            Some((_, verifier)) if verifier != done.verf.0 => {
                Err("COMMIT says that what was just written may be lost".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The operations follow each other without waiting for answers.
    async fn together(&mut self, ops: &[Op]) -> Result<bool, String> {
        let mut under_way = Vec::new();
        for (number, op) in ops.iter().enumerate() {
            // A COMMIT is a second call, whose order after the others is unknown.
            if matches!(op, Op::Write(_, _, Stable::Commit)) {
                return Ok(false);
            }
            let seen = self.model.clone();
            let Some((index, act, call)) = self.begin(number, op, &seen) else {
                return Ok(false);
            };
            let running = self.send_until_done(&call, self.promised(index)).await;
            let again = self.send_again(&call, &running);
            let expected = self.model.apply(&act);
            if expected.is_ok() {
                for look in self.looks_at(&act, &seen) {
                    self.verbs += 1;
                    let shown =
                        if self.design.is_delayed() { vec![] } else { vec![acknowledged(index)] };
                    // It goes on by itself, and its mark shows when it was answered.
                    drop(self.send_until_done(&look, shown).await);
                }
            }
            under_way.push((index, call, running, again, expected));
        }
        for (index, call, running, again, expected) in under_way {
            self.settle(index, call, running, again, Some(expected)).await?;
        }
        Ok(true)
    }

    /// The operations come concurrently, and are done in any order.
    async fn at_once(&mut self, ops: &[Op]) -> Result<bool, String> {
        let commits = |op: &Op| matches!(op, Op::Write(_, _, Stable::Commit));
        if ops.len() < 2 || ops.iter().any(commits) {
            return Ok(false);
        }
        let seen = self.model.clone();
        let mut under_way = Vec::new();
        for (number, op) in ops.iter().enumerate() {
            let Some((index, _, call)) = self.begin(number, op, &seen) else {
                return Ok(false);
            };
            let running = self.send(&call, self.promised(index));
            let again = self.send_again(&call, &running);
            under_way.push((index, call, running, again));
        }
        for (index, call, running, again) in under_way {
            self.settle(index, call, running, again, None).await?;
        }
        Ok(true)
    }

    /// Waits for a reply and for the reply to its repetition.
    async fn settle(
        &mut self,
        index: usize,
        call: Call,
        running: Running,
        again: Running,
        expected: Option<Result<(), FsError>>,
    ) -> Result<(), String> {
        let (reply, repeated) = (running.await?, again.await?);
        if reply != repeated {
            let op = &self.history.acts[index].0.op;
            return Err(format!("{op}: a repetition was answered in another way"));
        }
        let answer = (call.read)(&reply)?;
        self.answered.push((call, reply));
        self.expect(index, answer, expected.unwrap_or(answer.result))
    }

    /// Notes an answer, which must be the expected one.
    fn expect(
        &mut self,
        index: usize,
        answer: Answer,
        expected: Result<(), FsError>,
    ) -> Result<(), String> {
        let (act, told) = &mut self.history.acts[index];
        if answer.result != expected {
            let found = answer.result;
            return Err(format!("{} was answered with {found:?}, not {expected:?}", act.op));
        }
        *told = expected;
        self.history.given[index] = answer.file;
        if let (Some((stable, verifier)), Op::Write(_, _, asked)) = (answer.written, &mut act.op) {
            self.history.verifiers.push(verifier);
            match (*asked, stable) {
                (Stable::Commit, _) | (Stable::Unstable, Stable::Unstable) => {}
                (Stable::Unstable, more) => *asked = more, // it was promised
                (Stable::DataSync, Stable::DataSync | Stable::FileSync) => {}
                (Stable::FileSync, Stable::FileSync) => {}
                (_, less) => return Err(format!("{} was made {less:?} only", act.op)),
            }
        }
        Ok(())
    }

    /// The marks of the operations that are durable once this one has been answered.
    fn promised(&self, index: usize) -> Vec<u64> {
        let style = self.history.style;
        let is_stable = match self.history.acts[index].0.op {
            Op::Write(_, _, stable) => stable != Stable::Unstable,
            _ => false,
        };
        match (self.design.is_delayed(), is_stable) {
            (false, _) => vec![acknowledged(index)],
            (true, false) => Vec::new(),
            // The order before it is unknown.
            (true, true) if style == Style::AtOnce => vec![acknowledged(index)],
            (true, true) if self.design.keeps_order() => (0..=index).map(acknowledged).collect(),
            (true, true) => self.below(index).map(acknowledged).collect(),
        }
    }

    /// An operation on a file with its dependencies: earlier operations on the file, on its names,
    /// and on those of the directories above.
    fn below(&self, index: usize) -> impl Iterator<Item = usize> {
        let acts = &self.history.acts;
        let file = acts[index].0.subject;
        let names = self.model.names_above(file);
        (0..=index).filter(move |&other| {
            let act = &acts[other].0;
            act.subject == file || names.iter().any(|name| touches(act, name))
        })
    }

    /// The repetition of a call in progress. A snapshot operation has none.
    fn send_again(&self, call: &Call, running: &Running) -> Running {
        if call.change.is_some() { running.clone() } else { self.send(call, Vec::new()) }
    }

    /// Sends a call over a connection of its own, and leaves marks when its reply arrives.
    fn send(&self, call: &Call, marks: Vec<u64>) -> Running {
        let (server, disks) = (self.server.clone(), self.disks.clone());
        let (call, (sender, reply)) = (call.clone(), oneshot::channel());
        let task = async move {
            let reply = call.send(&server).await;
            marks.into_iter().for_each(|mark| disks.volume().mark(mark));
            let _ = sender.send(reply); // the waiter may have found a violation by now
        };
        self.runtime.tasks.spawn(task.boxed_local());
        let reply = async move { reply.await.map_err(|_| "there was no reply".to_owned())? };
        reply.boxed_local().shared()
    }

    /// The same, and waits until the call has been done, though not answered.
    async fn send_until_done(&self, call: &Call, marks: Vec<u64>) -> Running {
        let witness = self.server.witness.clone();
        let before = witness.done();
        let running = self.send(call, marks);
        let done = async move { witness.more_than(before).await }.boxed_local();
        select(done, running.clone()).await;
        running
    }

    /// Calls whose replies show the effect of an operation, once it has been done, and no effect of
    /// earlier ones, starting from the state `before`.
    fn looks_at(&self, act: &Act, before: &Model) -> Vec<Call> {
        let directory = &self.handles[&act.subject];
        let name = |handle: &nfs_fh3, name: &str| self.look(&calls::lookup(handle, name));
        let attributes = |handle: &nfs_fh3| self.look(&calls::getattr(handle));
        let last = act.op.last_name();
        let into = || &self.handles[&act.destination.expect("LINK and RENAME have one")];
        match act.op {
            Op::Create(..) | Op::Mkdir(_) | Op::Symlink(..) => vec![name(directory, last)],
            Op::Rmdir(_) | Op::Remove(_) => {
                let is_gone = |node: usize| self.model.is_gone(node) && !before.is_gone(node);
                let gone = self.handles.iter().filter(|(node, _)| is_gone(**node));
                let stale = gone.map(|(_, handle)| attributes(handle));
                stale.chain([name(directory, last)]).collect()
            }
            Op::Rename(_, to) => vec![name(into(), last_name(to)), name(directory, last)],
            Op::Link(_, to) => vec![attributes(directory), name(into(), last_name(to))],
            // UNSTABLE bytes may be lost even if a client saw them.
            Op::Write(..) | Op::Resize(..) | Op::Chmod(..) => vec![attributes(directory)],
            Op::Pin(_) | Op::Unpin(_) => {
                let root = self.server.witness.root();
                vec![name(&server::handle(root.within(SnapshotNumber::LISTING)), last)]
            }
            Op::RollBack(_) => Vec::new(),
        }
    }

    /// A call whose reply is ignored.
    fn look<P: Procedure>(&self, arguments: &P) -> Call {
        let record = self.server.record(arguments);
        let read = |_: &[u8]| Ok(Answer { result: Ok(()), file: None, written: None });
        Call { record, read, change: None }
    }

    /// One by one; then the volume is stopped, and rolled back to its newest snapshot, as by
    /// `duramen snapshot rollback`.
    async fn roll_back(mut self, executor: &Executor, ops: &[Op]) -> Result<Option<Run>, String> {
        if !self.one_by_one(ops).await? {
            return Ok(None);
        }
        self.stop().await?;
        self.disks = Rc::new(Disks::new(executor, &self.disks.contents()));
        let (devices, runtime) = (self.disks.devices(), self.runtime.clone());
        self.disks.start_recording();
        self.history.all_acknowledged();
        let opened = self.design.open(devices, runtime).await.map_err(|error| error.to_string())?;
        let files = opened.files;
        let Some(name) = control::newest(&*files).await? else { return Ok(None) };
        let to = |op: &Op| op.last_name().as_bytes() == name.as_bytes();
        let op = [HELD, NEW].map(Op::RollBack).into_iter().find(to).ok_or("an unknown snapshot")?;
        let index = self.history.acts.len();
        let act = Act::new(&self.model, index, &op).map_err(|error| error.to_string())?;
        self.disks.volume().mark(begun(index));
        let gone = control::carry_out(&*files, &op, || ()).await?;
        gone.map_err(|error| format!("it does not go back: {error}"))?;
        self.disks.volume().mark(acknowledged(index));
        self.history.acts.push((act, Ok(())));
        self.history.given.push(None);
        files.shutdown().await.map_err(|error| format!("it does not stop: {error}"))?;
        Ok(Some(Run { recording: self.disks.recording(), history: self.history }))
    }

    async fn stop(&self) -> Result<(), String> {
        let stopped = self.server.witness.shutdown().await;
        stopped.map_err(|error| format!("it does not stop: {error}"))
    }
}

/// The mark of an operation of the history.
fn begun(index: usize) -> u64 {
    index as u64 * 2
}

fn acknowledged(index: usize) -> u64 {
    index as u64 * 2 + 1
}
