//! Making files longer, shorter, and gone.
//!
//! Shortening goes from the end in steps of bounded size, each an Update that leaves a smaller file
//! with nothing behind its end. A file that has lost its last name is freed in the same Update if
//! it is small; a larger one stays behind as an orphan, without a name and with link count 0, and
//! is freed in steps. A crash in between leaves an inode that nothing names: recovery frees it.
//! Several steps are a [chain](crate::chain::Chain), and the request has happened with the first of
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use namespace::{AttributeChange, Witness};
use runtime::sync::Permit;
use vfs::{CallReply, Depends, FsError, Sequence};

use crate::chain::{Chain, ChainLink};
use crate::change::{Change, Ready};
use crate::engine::{Engine, File, Plan, Space};
use crate::files::Files;
use crate::planted::{Bug, is_planted};

/// Time between attempts of a step that found no room below.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Time until a large file is freed again after its disk failed, the first time and at most.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// The witness of the first of several steps: the request is certain to happen from then on, but
/// the file does not have its final attributes yet. The reply can do without.
struct Beginning<'a>(&'a mut dyn Witness);

impl Witness for Beginning<'_> {
    fn before(&mut self) {
        self.0.before();
    }

    fn after(&mut self, depends: Depends) -> Option<(CallReply, Depends)> {
        let mut answered = self.0.after(depends)?;
        answered.0.outcome.attributes = None;
        answered.0.outcome.about = Default::default();
        Some(answered)
    }
}

/// The witness of a truncation that goes on after a crash: the reply that its call has had is
/// remembered with its first step, and again with its last, which says that nothing goes on.
struct Resumed(Option<CallReply>);

impl Witness for Resumed {
    fn before(&mut self) {}

    fn after(&mut self, depends: Depends) -> Option<(CallReply, Depends)> {
        Some((self.0.clone()?, depends))
    }
}

/// The witness of a later step that records a failure: the reply remembered for the first step says
/// that all of it happens.
struct Failing<'a>(&'a mut dyn Witness);

impl Witness for Failing<'_> {
    fn before(&mut self) {
        self.0.before();
    }

    fn after(&mut self, depends: Depends) -> Option<(CallReply, Depends)> {
        let mut answered = self.0.after(depends)?;
        answered.0.outcome.has_failed = true;
        Some(answered).filter(|_| !is_planted(Bug::UntoldFailures))
    }
}

impl<E: Engine> Files<E> {
    /// Makes a regular file `size` bytes long; `also` changes other attributes along with it, and
    /// `witness` sees it. Under the exclusive lock, with no dirty pages.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn set_size(
        &self,
        node: &File<E>,
        (size, space): (u64, Space),
        also: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        if size < node.stored_size() {
            return self.shorten(node, size, also, witness).await;
        }
        let mut set = BTreeMap::new();
        let (also, mut change) = (self.stamped(also), self.plan(space));
        change.update.manner().lands_whole = true;
        self.write_blocks(change, node, &mut set, size, &also, witness).await
    }

    /// The same changes, with the times of a file that changes now.
    fn stamped(&self, also: &AttributeChange) -> AttributeChange {
        let now = Some(self.now());
        AttributeChange { mtime: also.mtime.or(now), ctime: also.ctime.or(now), ..*also }
    }

    async fn shorten(
        &self,
        node: &File<E>,
        size: u64,
        also: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        let shortened = self.shorten_in_steps(node, size, also, witness).await;
        if shortened.is_ok() || !self.is_unfinished(node.ino) {
            return shortened;
        }
        let is_damaged = shortened == Err(FsError::Corrupt) && !is_planted(Bug::EndlessChains);
        if is_damaged && self.fail_chain(node, true, witness).await.is_ok() {
            return shortened;
        }
        // If the failure cannot be recorded either, the volume has stopped, or soon will.
        let _ = self.fail_chain(node, false, witness).await;
        self.stick(node.ino);
        // The change is in its middle: no attempt begins it again.
        shortened.map_err(|error| match error {
            FsError::NoSpace => FsError::Io,
            other => other,
        })
    }

    /// Records that a step of a chain has failed, which `witness` sees: this reply takes the place
    /// of that of the first step. The chain ends where it is, or else waits for the next start; the
    /// file has the size that it has by now.
    async fn fail_chain(
        &self,
        node: &File<E>,
        ends: bool,
        witness: &mut dyn Witness,
    ) -> Result<(), FsError> {
        let mut change = self.plan(Space::Superuser);
        change.update.manner().goes_on = true;
        let also = self.stamped(&AttributeChange::default());
        self.engine.set_attributes(&mut change.update, node, &also);
        if ends {
            change.link(ChainLink::Ends(node.ino));
        }
        let sequence = self.apply(self.reserve(change).await?, &mut Failing(witness));
        if ends {
            self.engine.shortened(node, node.stored_size(), sequence).await;
        }
        self.reached(sequence).await
    }

    async fn shorten_in_steps(
        &self,
        node: &File<E>,
        size: u64,
        also: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Sequence, FsError> {
        let mut places = None;
        let mut first = true;
        loop {
            let (is_begun, refusals) = (self.is_unfinished(node.ino), self.refusals());
            let asked = first.then_some(also);
            let planned = self.plan_shorter(node, size, asked, &mut places).await;
            if is_begun && matches!(planned, Err(FsError::NoSpace)) {
                if self.refusals() > refusals {
                    self.runtime.clock.sleep(REFUSED_PAUSE).await; // there is no room below
                    continue;
                }
                // The space that the step before it freed is on its way, and kept for this step
                // first.
                if !self.more_space().await {
                    return Err(FsError::NoSpace);
                }
                continue;
            }
            let (ready, done) = planned?;
            let sequence = match (first, done) {
                (false, true) if is_planted(Bug::FirstStepTold) => self.apply(ready, &mut ()),
                (_, true) => self.apply(ready, witness),
                (true, false) => self.apply(ready, &mut Beginning(witness)),
                (false, false) => self.apply(ready, &mut ()),
            };
            first = false;
            if done {
                drop(places);
                self.engine.shortened(node, size, sequence).await;
                return Ok(sequence);
            }
            self.reached(sequence).await?;
        }
    }

    /// Plans the next step, which also changes attributes if they are `asked` for; returns whether
    /// it is the last.
    async fn plan_shorter(
        &self,
        node: &File<E>,
        size: u64,
        asked: Option<&AttributeChange>,
        places: &mut Option<[Permit; 2]>,
    ) -> Result<(Ready<E>, bool), FsError> {
        let mut change = self.plan(Space::Superuser);
        let is_begun = self.is_unfinished(node.ino);
        let done = self.engine.shrink_step(&mut change.update, node, size).await? == size;
        change.update.manner().goes_on = is_begun;
        change.update.manner().lands_whole = true;
        if let Some(also) = asked {
            self.engine.set_attributes(&mut change.update, node, &self.stamped(also));
        }
        if asked.is_some() && !done {
            // The request has happened with the first step: an interrupted chain goes on.
            if !is_begun {
                self.check_few_stuck()?;
                *places = Some(self.places_for_truncation().await?);
            }
            change.link(ChainLink::Begins(node.chain(Some(size))));
        } else if done && is_begun {
            change.link(ChainLink::Ends(node.ino));
        }
        Ok((self.reserve(change).await?, done))
    }

    /// Removes a file that loses its last link: it ends with this change if it is small. Otherwise
    /// it is an orphan from then on, if there is a place for it among the chains. Returns false if
    /// there is none: the caller drops the change and all locks, waits for a place, and begins
    /// again with that. The wait may last as long as another file takes to be freed.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`].
    pub(crate) async fn destroy(
        &self,
        change: &mut Change<E>,
        node: &File<E>,
    ) -> Result<bool, FsError> {
        change.follows.discards.push(node.clone());
        if self.engine.free(&mut change.update, node).await? {
            self.ends(change, node);
            return Ok(true);
        }
        self.check_few_stuck()?;
        let mut place = change.follows.place.take();
        if place.is_none() && is_planted(Bug::LockedWaits) {
            place = Some(self.place_among_chains().await?);
        }
        let place = place.or_else(|| self.chains.acquire(1).now_or_never());
        let Some(place) = place else { return Ok(false) };
        change.follows.orphans.push((node.clone(), place));
        change.link(ChainLink::Begins(node.chain(None)));
        Ok(true)
    }

    /// Notes that a file is freed completely with this change.
    fn ends(&self, change: &mut Change<E>, node: &File<E>) {
        change.follows.lives.push((node.clone(), false));
        if self.is_unfinished(node.ino) {
            change.link(ChainLink::Ends(node.ino));
        }
    }

    /// Continues interrupted chains whose calls need not be remembered anew.
    ///
    /// # Errors
    /// As for [`Files::resume_chains`].
    pub async fn finish_chains(&self, chains: Vec<Chain>) -> Result<(), FsError> {
        self.resume_chains(chains.into_iter().map(|chain| (chain, None)).collect()).await
    }

    /// Continues interrupted chains in the background, each with the reply of its call if that has
    /// to be remembered anew. No caller reads or changes the files before they are done; their
    /// attributes may show a truncation in its middle.
    ///
    /// # Errors
    /// [`FsError::Corrupt`], [`FsError::Io`].
    pub async fn resume_chains(
        &self,
        chains: Vec<(Chain, Option<CallReply>)>,
    ) -> Result<(), FsError> {
        let mut found = Vec::new();
        for (chain, reply) in chains.into_iter().filter(|_| !is_planted(Bug::ForgottenChains)) {
            match self.node_of(chain.ino).await {
                Ok(node) if node.generation == chain.generation => {
                    found.push((chain, node, reply));
                }
                Ok(_) | Err(FsError::Stale) => self.end_lost_chain(chain.ino),
                Err(_) => {
                    self.note_chain(Some(ChainLink::Begins(chain)));
                    self.stick(chain.ino); // its inode cannot be read
                }
            }
        }
        for (chain, node, reply) in found {
            self.note_chain(Some(ChainLink::Begins(chain)));
            if self.is_read_only() {
                self.leave_chain(chain, node);
                continue;
            }
            let place = self.chains.acquire(1).await;
            let Some(size) = chain.size else {
                self.retire(&node, Sequence(0));
                self.free_orphan(node, place);
                continue;
            };
            let places = (self.truncations.acquire(1).await, place);
            let alone = node.lock.exclusive().await;
            let this = self.handle();
            let task = async move {
                let _held = (alone, places);
                // Every caller that wants the file gets the error.
                let mut witness = Resumed(reply);
                let _ = this.shorten(&node, size, &AttributeChange::default(), &mut witness).await;
            };
            self.runtime.tasks.spawn(task.boxed_local());
        }
        Ok(())
    }

    /// Ends a chain whose file is gone, in the background. The end of a file ends its chain, so
    /// damage or a repair has taken this one: its blocks stay in use until a check finds them.
    fn end_lost_chain(&self, ino: u64) {
        if self.is_read_only() {
            return;
        }
        let this = self.handle();
        let task = async move {
            let Ok(root) = this.node_of(this.engine.limits().root.ino.0).await else { return };
            let mut change = this.plan(Space::Superuser);
            // A change that changes nothing else.
            this.engine.set_attributes(&mut change.update, &root, &AttributeChange::default());
            change.link(ChainLink::Ends(ino));
            if let Ok(ready) = this.reserve(change).await {
                this.apply(ready, &mut ());
            }
        };
        self.runtime.tasks.spawn(task.boxed_local());
    }

    /// Keeps a chain of a volume that may not be changed: the file is gone, or cannot be used.
    fn leave_chain(&self, chain: Chain, node: File<E>) {
        if chain.size.is_some() {
            return self.stick(chain.ino);
        }
        self.retire(&node, Sequence(0));
        self.paused.borrow_mut().insert(chain.ino, node.clone());
        self.orphans.borrow_mut().insert(chain.ino, node);
    }

    /// Frees an orphan in the background, step by step.
    pub(crate) fn free_orphan(&self, node: File<E>, chain: Permit) {
        let this = self.handle();
        self.orphans.borrow_mut().insert(node.ino, node.clone());
        let task = async move {
            let (mut place, mut pause) = (Some(chain), FIRST_RETRY);
            loop {
                match this.free_in_steps(&node).await {
                    Ok(true) => break,
                    Ok(false) => {
                        drop(place);
                        this.paused.borrow_mut().insert(node.ino, node);
                        this.engine.released().notify();
                        return;
                    }
                    Err(_) => this.stick(node.ino),
                }
                drop(place.take()); // no caller waits for it meanwhile
                this.engine.released().notify();
                this.runtime.clock.sleep(pause).await;
                pause = (2 * pause).min(LAST_RETRY);
                place = Some(this.chains.acquire(1).await);
                let is_left = !this.orphans.borrow().contains_key(&node.ino);
                if is_left || this.has_stopped() || this.stop.get().has_begun {
                    return; // a roll-back discarded it, or the next start goes on with it
                }
                this.unstick(node.ino);
            }
            this.orphans.borrow_mut().remove(&node.ino);
            drop(place);
            this.engine.released().notify();
        };
        self.runtime.tasks.spawn(task.boxed_local());
    }

    /// Continues freeing large files after a stop paused them and then did not come to its end.
    pub(crate) async fn resume_orphans(&self) {
        for node in self.paused.take().into_values() {
            let place = self.chains.acquire(1).await;
            self.free_orphan(node, place);
        }
    }

    /// Frees an orphan. False if a stop leaves the rest to the next start.
    async fn free_in_steps(&self, node: &File<E>) -> Result<bool, FsError> {
        let _alone = node.lock.exclusive().await;
        while !self.leaves_orphans() {
            let mut change = self.plan(Space::Superuser);
            change.update.manner().goes_on = true;
            let done = self.engine.free_step(&mut change.update, node).await?;
            if done {
                self.ends(&mut change, node);
            }
            let sequence = self.apply(self.reserve(change).await?, &mut ());
            if done {
                return Ok(true);
            }
            self.reached(sequence).await?;
        }
        Ok(false)
    }
}
