//! A file system that notes the user of each verb call, and keeps the replies of calls that are to
//! be remembered over a restart of its server.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use async_trait::async_trait;
use bytes::Bytes;
use vfs::{
    Access, Answer, Attributes, CallKey, CallOutcome, CallReply, CreateHow, Credentials, Device,
    DirectoryEntry, Entries, FileKind, FileSystem, Found, FsError, FsInfo, FsStat, LoggedReply,
    Name, ObjectId, PathConf, PostOp, ReadData, Receipt, Requester, Sealed, SetAttributes,
    Stability, Timestamp, Verifier, Wcc, Written,
};

use crate::memory::MemoryFileSystem;

/// See the module.
pub(crate) struct Watched {
    files: Rc<MemoryFileSystem>,
    seen: RefCell<Vec<Credentials>>,
    kept: RefCell<Vec<LoggedReply>>,
    repetitions: RefCell<Vec<bool>>,
    /// Time at which calls are executed, in seconds since 1970.
    pub(crate) time: Cell<i64>,
    /// The error of every GETATTR and READ.
    pub(crate) broken: Cell<Option<FsError>>,
    /// The error with which the next change of names or attributes is refused without being
    /// executed, or the next question whether a file has a name.
    pub(crate) refusal: Cell<Option<FsError>>,
}

impl Watched {
    pub(crate) fn new(files: Rc<MemoryFileSystem>) -> Rc<Self> {
        let (seen, kept, repetitions, time, broken, refusal) = Default::default();
        Rc::new(Self { files, seen, kept, repetitions, time, broken, refusal })
    }

    /// The file system behind it.
    pub(crate) fn files(&self) -> Rc<MemoryFileSystem> {
        self.files.clone()
    }

    /// The users who called since the last call of this.
    pub(crate) fn take_seen(&self) -> Vec<Credentials> {
        self.seen.take()
    }

    /// The repetitions counted since the last call of this: for each, whether a start lay between.
    pub(crate) fn take_repetitions(&self) -> Vec<bool> {
        self.repetitions.take()
    }

    /// Turns the last reply that was kept into a failure of the call's second step.
    pub(crate) fn fail_last(&self) {
        let mut kept = self.kept.borrow_mut();
        kept.last_mut().expect("one was kept").answered.outcome.has_failed = true;
    }

    /// Keeps a reply.
    pub(crate) fn keep(&self, key: &CallKey, done: CallOutcome) {
        let at = Timestamp { seconds: self.time.get(), nanoseconds: 0 };
        let answered = CallReply { key: Rc::new(key.clone()), outcome: done };
        self.kept.borrow_mut().push(LoggedReply { at, answered });
    }

    fn refuse<T, W: Default>(&self, error: FsError) -> Sealed<Answer<T, W>> {
        let answer = Answer { result: Err(error), about: W::default() };
        Sealed::new(answer, self.files.changes_so_far())
    }

    fn see(&self, who: &Credentials) {
        self.seen.borrow_mut().push(who.clone());
    }
}

/// The kept part of the results of a call that succeeded.
fn done<T: Made, W: Told>(answer: &Answer<T, W>) -> Option<CallOutcome> {
    let (found, attributes) = answer.result.as_ref().ok()?.made();
    Some(CallOutcome { found, attributes, about: answer.about.told(), has_failed: false })
}

trait Made {
    fn made(&self) -> (Option<ObjectId>, PostOp);
}

impl Made for () {
    fn made(&self) -> (Option<ObjectId>, PostOp) {
        (None, None)
    }
}

impl Made for Found {
    fn made(&self) -> (Option<ObjectId>, PostOp) {
        (Some(self.id), Some(self.attributes))
    }
}

trait Told {
    fn told(&self) -> [Wcc; 2];
}

impl Told for Wcc {
    fn told(&self) -> [Wcc; 2] {
        [*self, Wcc::default()]
    }
}

impl Told for (Wcc, Wcc) {
    fn told(&self) -> [Wcc; 2] {
        [self.0, self.1]
    }
}

impl Told for (PostOp, Wcc) {
    fn told(&self) -> [Wcc; 2] {
        [Wcc { before: None, after: self.0 }, self.1]
    }
}

/// Forwards verbs, and notes the caller of each; keeps the replies of those that change names or
/// attributes.
macro_rules! watched {
    (
        $(async fn $verb:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+
        keeping
        $(async fn $change:ident($($given:ident: $of:ty),*) -> $changed:ty;)+
    ) => {
        #[async_trait(?Send)]
        impl FileSystem for Watched {
            $(async fn $verb(&self, who: &Credentials $(, $argument: $type)*) -> Sealed<$answer> {
                self.see(who);
                self.files.$verb(who $(, $argument)*).await
            })+

            $(async fn $change(&self, who: &Requester $(, $given: $of)*) -> Sealed<$changed> {
                self.see(who);
                if let Some(error) = self.refusal.take() {
                    return self.refuse(error);
                }
                self.files.$change(who $(, $given)*).await.map(|answer| {
                    if let (Some(key), Some(done)) = (&who.call, done(&answer)) {
                        self.keep(key, done);
                    }
                    answer
                })
            })+

            fn root(&self) -> ObjectId {
                self.files.root()
            }

            fn verifier(&self) -> Verifier {
                self.files.verifier()
            }

            async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>> {
                let broken = self.broken.get();
                self.files.getattr(id).await.map(|result| broken.map_or(result, Err))
            }

            async fn read(
                &self,
                who: &Credentials,
                id: ObjectId,
                offset: u64,
                count: u32,
            ) -> Sealed<Answer<ReadData>> {
                self.see(who);
                let broken = self.broken.get();
                self.files.read(who, id, offset, count).await.map(|answer| Answer {
                    result: broken.map_or(answer.result, Err),
                    ..answer
                })
            }

            async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>> {
                self.files.fsinfo(id).await
            }

            async fn ensure_named(&self, _: ObjectId) -> Result<(), FsError> {
                self.refusal.take().map_or(Ok(()), Err)
            }

            async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>> {
                self.files.pathconf(id).await
            }

            async fn readdir(
                &self,
                who: &Credentials,
                directory: ObjectId,
                cookie: u64,
                attributes: bool,
                accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
            ) -> Sealed<Answer<Entries>> {
                self.see(who);
                self.files.readdir(who, directory, cookie, attributes, accept).await
            }

            fn changes_so_far(&self) -> Receipt {
                self.files.changes_so_far()
            }

            fn take_remembered(&self) -> Sealed<Vec<LoggedReply>> {
                self.files.take_remembered().map(|_| self.kept.take())
            }

            fn count_repetition(&self, over_a_start: bool) {
                self.repetitions.borrow_mut().push(over_a_start);
            }

            async fn shutdown(&self) -> Result<(), FsError> {
                self.files.shutdown().await
            }
        }
    };
}

watched! {
    async fn lookup(directory: ObjectId, name: &Name) -> Answer<Found>;
    async fn access(id: ObjectId, asked: Access) -> Answer<Access>;
    async fn readlink(id: ObjectId) -> Answer<Bytes>;
    async fn write(
        id: ObjectId, offset: u64, data: Vec<Bytes>, stability: Stability
    ) -> Answer<Written, Wcc>;
    async fn fsstat(id: ObjectId) -> Answer<FsStat>;
    async fn commit(id: ObjectId, offset: u64, count: u32) -> Answer<Verifier, Wcc>;
    keeping
    async fn setattr(
        id: ObjectId, changes: SetAttributes, guard: Option<Timestamp>
    ) -> Answer<(), Wcc>;
    async fn create(directory: ObjectId, name: &Name, how: CreateHow) -> Answer<Found, Wcc>;
    async fn mkdir(
        directory: ObjectId, name: &Name, attributes: SetAttributes
    ) -> Answer<Found, Wcc>;
    async fn symlink(
        directory: ObjectId, name: &Name, target: &[u8], attributes: SetAttributes
    ) -> Answer<Found, Wcc>;
    async fn mknod(
        directory: ObjectId, name: &Name, kind: FileKind, device: Device,
        attributes: SetAttributes
    ) -> Answer<Found, Wcc>;
    async fn remove(directory: ObjectId, name: &Name) -> Answer<(), Wcc>;
    async fn rmdir(directory: ObjectId, name: &Name) -> Answer<(), Wcc>;
    async fn rename(
        from: ObjectId, from_name: &Name, to: ObjectId, to_name: &Name
    ) -> Answer<(), (Wcc, Wcc)>;
    async fn link(id: ObjectId, directory: ObjectId, name: &Name) -> Answer<(), (PostOp, Wcc)>;
}
