//! A call in progress: the changes that it has seen, and the attributes that go along with its
//! reply.
//!
//! A call that changes something witnesses its change ([`Witness`]): its reply is fixed in the very
//! step in which the change is applied, so that it can be remembered with it. A call that takes two
//! steps is remembered with the last, without which it is not done.

use std::rc::Rc;

use vfs::{
    Answer, CallKey, CallOutcome, CallReply, Depends, Found, FsError, PostOp, Receipt, Requester,
    Sealed, Wcc, WccBefore,
};

use crate::planted::{Bug, is_planted};
use crate::{Namespace, Object, Stat, Store, Witness};

/// Indexes of the files whose attributes a reply returns, by their part in the call.
pub(crate) const FIRST: usize = 0;
pub(crate) const SECOND: usize = 1;

/// The state of a call: everything that it has seen so far.
pub(crate) struct Call<N> {
    /// The changes of all files that it looked at.
    depends: Depends,
    subjects: [Option<Subject<N>>; 2],
    /// The key under which it is remembered.
    key: Option<Rc<CallKey>>,
    /// Whether a step is still to come, and whether that is one which leaves the subjects alone.
    has_more: bool,
    is_apart: bool,
    /// The file that it makes or finds, and its attributes at that time.
    made: Option<(N, PostOp)>,
}

struct Subject<N> {
    node: N,
    before: Option<WccBefore>,
    after: PostOp,
}

impl<N: Object + Clone> Call<N> {
    pub(crate) fn new() -> Self {
        Self {
            depends: Depends::NOTHING,
            subjects: [None, None],
            key: None,
            has_more: false,
            is_apart: false,
            made: None,
        }
    }

    pub(crate) fn of(requester: &Requester) -> Self {
        Self { key: requester.call.clone(), ..Self::new() }
    }

    /// Makes the reply depend on this file.
    pub(crate) fn saw(&mut self, node: &N) {
        self.depends.join(&node.depends());
    }

    /// Makes the reply depend on these attributes.
    pub(crate) fn peeked(&mut self, peek: &Stat) {
        self.saw_changes(&peek.depends);
    }

    /// Makes the reply depend on these changes.
    pub(crate) fn saw_changes(&mut self, depends: &Depends) {
        self.depends.join(depends);
    }

    /// The changes of all files that it has looked at so far.
    pub(crate) fn seen(&self) -> &Depends {
        &self.depends
    }

    /// Adds this file's attributes to the reply.
    pub(crate) fn about(&mut self, which: usize, node: &N) {
        self.saw(node);
        self.subjects[which] = Some(Subject { node: node.clone(), before: None, after: None });
    }

    /// Sets the file that the call makes or has found, for the reply.
    pub(crate) fn makes(&mut self, node: &N) {
        self.made = Some((node.clone(), None));
    }

    /// Notes that the next step is not the last.
    pub(crate) fn takes_another_step(&mut self) {
        self.has_more = true;
    }

    /// Notes that the last step comes, and leaves the subjects alone: their attributes in the reply
    /// are those of the earlier step, or else those at the time of this one.
    pub(crate) fn goes_on_apart(&mut self) {
        (self.has_more, self.is_apart) = (false, true);
    }

    /// The change was undone: the call is not remembered, and the attributes are taken anew.
    pub(crate) fn take_back(&mut self) {
        self.key = None;
        self.begin_again();
    }

    /// Forgets all that was done or found so far.
    pub(crate) fn begin_again(&mut self) {
        (self.has_more, self.is_apart, self.made) = (false, false, None);
        for subject in self.subjects.iter_mut().flatten() {
            (subject.before, subject.after) = (None, None);
        }
    }

    /// The file that it has made or found, with its attributes at that time; or those of now, if
    /// nothing had to be done.
    pub(crate) fn found(&mut self) -> Option<Found> {
        let (node, then) = self.made.clone()?;
        self.saw(&node);
        let attributes = then.unwrap_or_else(|| node.attributes());
        Some(Found { id: node.id(), attributes })
    }

    /// Whether the reply depends on all changes that its subjects show.
    fn covers_subjects(&self) -> bool {
        let mut nodes = self.subjects.iter().flatten().map(|subject| &subject.node);
        nodes.all(|node| node.depends().newest() <= self.depends.newest())
    }

    /// The file's attributes for the reply: around its own change, or, without one, those of now.
    fn wcc(&mut self, which: usize) -> Wcc {
        let Some(subject) = &self.subjects[which] else { return Wcc::default() };
        self.depends.join(&subject.node.depends());
        if let Some(after) = subject.after {
            return Wcc { before: subject.before, after: Some(after) };
        }
        if subject.node.is_dead() {
            return Wcc::default();
        }
        let now = subject.node.attributes();
        Wcc { before: Some(WccBefore::from(&now)), after: Some(now) }
    }

    fn done(&mut self) -> CallOutcome {
        let found = self.found();
        CallOutcome {
            found: found.map(|found| found.id),
            attributes: found.map(|found| found.attributes),
            about: [self.wcc(FIRST), self.wcc(SECOND)],
            has_failed: false,
        }
    }
}

impl<N: Object + Clone> Witness for Call<N> {
    fn before(&mut self) {
        for subject in self.subjects.iter_mut().flatten().filter(|_| !self.is_apart) {
            let now = || WccBefore::from(&subject.node.attributes());
            let before = subject.before.filter(|_| !is_planted(Bug::LateBefore));
            subject.before = Some(before.unwrap_or_else(now));
        }
    }

    fn after(&mut self, depends: Depends) -> Option<(CallReply, Depends)> {
        self.saw_changes(&depends);
        for subject in self.subjects.iter_mut().flatten() {
            if self.is_apart && subject.after.is_some() {
                continue;
            }
            self.depends.join(&subject.node.depends());
            let now = subject.node.attributes();
            subject.before = Some(subject.before.unwrap_or_else(|| WccBefore::from(&now)));
            subject.after = Some(now);
        }
        if let Some((node, attributes)) = &mut self.made {
            *attributes = Some(node.attributes());
        }
        let key = self.key.clone().filter(|_| !self.has_more)?;
        let done = self.done();
        Some((CallReply { key, outcome: done }, self.depends))
    }
}

impl<S: Store> Namespace<S> {
    /// Applies an Update and keeps the attributes that the reply needs.
    ///
    /// # Errors
    /// [`FsError::Io`] when the volume has stopped; then nothing changed.
    pub(crate) async fn apply(
        &self,
        call: &mut Call<S::Node>,
        update: S::Update,
    ) -> Result<(), FsError> {
        let ready = self.store.reserve(update).await?;
        self.store.apply(ready, call);
        Ok(())
    }

    /// A receipt for all changes that a call has seen, unless `bug` makes it one for nothing.
    fn receipt(&self, call: &Call<S::Node>, bug: Bug) -> Receipt {
        let only_looks = matches!(bug, Bug::UnreceiptedNames | Bug::UnreceiptedAttributes);
        let nothing = is_planted(bug) || only_looks && is_planted(Bug::UnwaitedLooks);
        let seen = if nothing { Depends::NOTHING } else { call.depends };
        self.store.receipt(seen)
    }

    pub(crate) fn seal<T>(
        &self,
        mut call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Answer<T, PostOp>> {
        let about = call.wcc(FIRST).after;
        debug_assert!(call.covers_subjects(), "invariant 4: an answer waits for what it shows");
        let receipt = self.receipt(&call, Bug::UnreceiptedNames);
        Sealed::new(Answer { result, about }, receipt)
    }

    pub(crate) fn seal_wcc<T>(
        &self,
        mut call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Answer<T, Wcc>> {
        let about = call.wcc(FIRST);
        debug_assert!(call.covers_subjects(), "invariant 4: an answer waits for what it shows");
        let receipt = self.receipt(&call, Bug::UnreceiptedReplies);
        Sealed::new(Answer { result, about }, receipt)
    }

    pub(crate) fn seal_both<T>(
        &self,
        mut call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Answer<T, (Wcc, Wcc)>> {
        let about = (call.wcc(FIRST), call.wcc(SECOND));
        debug_assert!(call.covers_subjects(), "invariant 4: an answer waits for what it shows");
        Sealed::new(Answer { result, about }, self.store.receipt(call.depends))
    }

    pub(crate) fn seal_bare<T>(
        &self,
        call: Call<S::Node>,
        result: Result<T, FsError>,
    ) -> Sealed<Result<T, FsError>> {
        Sealed::new(result, self.receipt(&call, Bug::UnreceiptedAttributes))
    }
}
