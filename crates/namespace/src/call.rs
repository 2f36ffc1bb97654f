//! One call on its way: what it has looked at, and the attributes that go along with its answer.

use vfs::{Answer, FsError, PostOp, Receipt, Sealed, Sequence, Wcc, WccBefore};

use crate::planted::{Bug, is_planted};
use crate::{Namespace, Object, Store};

/// The files that an answer tells about, by their part in the call.
pub(crate) const FIRST: usize = 0;
pub(crate) const SECOND: usize = 1;

/// What one call has seen so far.
pub(crate) struct Call<N> {
    /// The newest change of anything that it looked at.
    sequence: Sequence,
    subjects: [Option<Subject<N>>; 2],
}

struct Subject<N> {
    node: N,
    before: Option<WccBefore>,
    after: PostOp,
}

impl<N: Object + Clone> Call<N> {
    pub(crate) fn new() -> Self {
        Self { sequence: Sequence(0), subjects: [None, None] }
    }

    /// The answer depends on this file.
    pub(crate) fn saw(&mut self, node: &N) {
        self.sequence = self.sequence.max(node.sequence());
    }

    /// The answer depends on this change.
    pub(crate) fn saw_sequence(&mut self, sequence: Sequence) {
        self.sequence = self.sequence.max(sequence);
    }

    /// The answer tells the attributes of this file.
    pub(crate) fn about(&mut self, which: usize, node: &N) {
        self.saw(node);
        self.subjects[which] = Some(Subject { node: node.clone(), before: None, after: None });
    }

    /// A change is about to be made, with nothing in between.
    pub(crate) fn before(&mut self) {
        for subject in self.subjects.iter_mut().flatten() {
            subject.before = Some(WccBefore::from(&subject.node.attributes()));
        }
    }

    /// The change was made.
    pub(crate) fn after(&mut self) {
        for subject in self.subjects.iter_mut().flatten() {
            self.sequence = self.sequence.max(subject.node.sequence());
            subject.after = Some(subject.node.attributes());
        }
    }

    /// The file's attributes for the answer: of its own change, or, without one, of now.
    fn wcc(&mut self, which: usize) -> Wcc {
        let Some(subject) = &self.subjects[which] else { return Wcc::default() };
        self.sequence = self.sequence.max(subject.node.sequence());
        if let Some(after) = subject.after {
            return Wcc { before: subject.before, after: Some(after) };
        }
        if subject.node.is_dead() {
            return Wcc::default();
        }
        let now = subject.node.attributes();
        Wcc { before: Some(WccBefore::from(&now)), after: Some(now) }
    }
}

impl<S: Store> Namespace<S> {
    /// Applies an Update and keeps what the answer needs of it.
    ///
    /// # Errors
    /// [`FsError::Io`] when the volume has stopped; then nothing changed.
    pub(crate) async fn commit(
        &self,
        call: &mut Call<S::Node>,
        update: S::Update,
    ) -> Result<(), FsError> {
        let ready = self.store.reserve(update).await?;
        call.before();
        let sequence = self.store.commit(ready);
        call.saw_sequence(sequence);
        call.after();
        Ok(())
    }

    /// A receipt for all that a call has seen, unless `bug` makes it one for nothing.
    fn receipt(&self, call: &Call<S::Node>, bug: Bug) -> Receipt {
        let only_looks = matches!(bug, Bug::UnreceiptedNames | Bug::UnreceiptedAttributes);
        let nothing = is_planted(bug) || only_looks && is_planted(Bug::UnwaitedLooks);
        let seen = if nothing { Sequence(0) } else { call.sequence };
        self.store.receipt(seen)
    }

    pub(crate) fn seal<T>(
        &self,
        mut call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Answer<T, PostOp>> {
        let about = call.wcc(FIRST).after;
        let receipt = self.receipt(&call, Bug::UnreceiptedNames);
        Sealed::new(Answer { result, about }, receipt)
    }

    pub(crate) fn seal_wcc<T>(
        &self,
        mut call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Answer<T, Wcc>> {
        let about = call.wcc(FIRST);
        let receipt = self.receipt(&call, Bug::UnreceiptedReplies);
        Sealed::new(Answer { result, about }, receipt)
    }

    pub(crate) fn seal_both<T>(
        &self,
        mut call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Answer<T, (Wcc, Wcc)>> {
        let about = (call.wcc(FIRST), call.wcc(SECOND));
        Sealed::new(Answer { result, about }, self.store.receipt(call.sequence))
    }

    pub(crate) fn seal_bare<T>(
        &self,
        call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Result<T, FsError>> {
        Sealed::new(result, self.receipt(&call, Bug::UnreceiptedAttributes))
    }
}
