//! RENAME: one Update that moves a name and may end the file that the new name named.
//!
//! The order of the items: the file's count and a new parent's count rise; the new name appears;
//! ".." follows; the old name goes; the counts fall; the replaced file is freed. A policy that
//! writes in this order may leave both names after a crash, never none.
//!
//! Invariants:
//! 1. Whichever moves of directories are lost, ".." leads from each directory to the root: the
//!    Update of a move rests on all changes that it has seen on the way up from the new parent.
//! 2. The way up has not changed when a directory moves. A climb may be long, so it yields to all
//!    other tasks and delays no move: it holds no lock. Then one move at a time checks whether a
//!    directory on its way has moved since ([`Moved`]), and if so climbs again: the result of the
//!    first climb, even an error, may never have been true.
//!
//! Not asserted: 1, which the engine keeps.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use runtime::sync::Permit;
use vfs::{Credentials, FileKind, FsError, Ino, Name, ObjectId};

use crate::access::{self, EXECUTE, WRITE};
use crate::call::{Call, FIRST, SECOND};
use crate::planted::{Bug, is_planted};
use crate::{Namespace, Object, Store};

/// Moves that are remembered for climbs in progress. A climb that more of them overtake is
/// repeated.
const MOVES_KEPT: usize = 64;

/// Climbs of one rename without a lock. If each was overtaken, no directory moves during the next
/// one.
const FREE_CLIMBS: u32 = 3;

/// The directories that got another parent last.
#[derive(Default)]
pub(crate) struct Moved {
    /// Number of moves so far.
    count: Cell<u64>,
    /// The inodes of the most recent moves.
    last: RefCell<VecDeque<Ino>>,
}

impl Moved {
    fn note(&self, ino: Ino) {
        let mut last = self.last.borrow_mut();
        last.push_back(ino);
        if last.len() > MOVES_KEPT {
            last.pop_front();
        }
        self.count.set(self.count.get() + 1);
    }

    /// Whether one of these directories may have moved since there were `count` moves.
    fn has_any_since(&self, count: u64, of: &BTreeSet<Ino>) -> bool {
        let (last, since) = (self.last.borrow(), self.count.get() - count);
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        since > last.len() || last.iter().rev().take(since).any(|ino| of.contains(ino))
    }
}

/// The files of a rename, locked.
struct Move<'a, N> {
    from: &'a N,
    from_name: &'a Name,
    to: &'a N,
    to_name: &'a Name,
    node: &'a N,
    /// The file that has the new name now.
    target: Option<&'a N>,
}

/// The result of one attempt.
enum Attempt {
    Done,
    /// A name that was looked up was replaced meanwhile.
    Overtaken,
    /// The replaced file must be freed in steps, and has no place for that.
    Placeless,
}

impl<N: Object> Move<'_, N> {
    /// Whether a directory gets another parent.
    fn reparents(&self) -> bool {
        self.node.kind() == FileKind::Directory && self.from.id() != self.to.id()
    }

    fn replaces_directory(&self) -> bool {
        self.target.is_some_and(|target| target.kind() == FileKind::Directory)
    }
}

impl<S: Store> Namespace<S> {
    pub(crate) async fn do_rename(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        (from, from_name): (ObjectId, &Name),
        (to, to_name): (ObjectId, &Name),
    ) -> Result<(), FsError> {
        let from = self.open_directory_to_change(call, FIRST, from).await?;
        let to = self.open_directory_to_change(call, SECOND, to).await?;
        self.check_writable(&[&from, &to])?;
        if from_name.is_dot_or_dot_dot() || to_name.is_dot_or_dot_dot() {
            return Err(FsError::Invalid);
        }
        if self.is_snapshots_name(from_name.as_bytes()) {
            return Err(FsError::ReadOnly);
        }
        if self.is_reserved_name(to_name.as_bytes()) {
            return Err(FsError::Exists);
        }
        access::check(who, &from.attributes(), EXECUTE)?;
        access::check(who, &to.attributes(), EXECUTE)?;
        let mut place = None;
        loop {
            let names = [(&from, from_name), (&to, to_name)];
            match self.rename_once(call, who, names, &mut place).await? {
                Attempt::Done => return Ok(()),
                Attempt::Overtaken => {}
                Attempt::Placeless => place = Some(self.store.place_for_steps().await?),
            }
        }
    }

    /// Whether a directory changes its parent is known only after the lookup, and then one more
    /// lock is needed: so look up, lock, and look up again.
    async fn rename_once(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        [(from, from_name), (to, to_name)]: [(&S::Node, &Name); 2],
        place: &mut Option<Permit>,
    ) -> Result<Attempt, FsError> {
        self.settle_names(call, from, from_name).await?;
        self.settle_names(call, to, to_name).await?;
        let Some(moving) = self.peek(call, from, from_name).await? else {
            if !is_planted(Bug::ForgottenGoals) {
                self.see_alive(call, to)?; // it may be gone since `from` was locked
            }
            return Err(FsError::NoEntry);
        };
        let alone = if moving.kind() == FileKind::Directory && from.id() != to.id() {
            Some(self.alone_and_not_below(call, to, &moving).await?)
        } else {
            None
        };
        let names = [(from, from_name), (to, to_name)];
        let ([node, target], _held) = self.lock_names(call, names).await?;
        let node = node.ok_or(FsError::NoEntry)?;
        let plan = Move { from, from_name, to, to_name, node: &node, target: target.as_ref() };
        if plan.reparents() && (alone.is_none() || node.id() != moving.id()) {
            return Ok(Attempt::Overtaken);
        }
        self.check_rename(who, &plan).await?;
        if target.as_ref().is_some_and(|target| target.id() == node.id()) {
            return Ok(Attempt::Done); // two names of one file: both stay
        }
        let attempt = async || self.try_rename(call, who, &plan, place.take()).await;
        let is_done = self.as_space_comes(attempt).await?;
        Ok(if is_done { Attempt::Done } else { Attempt::Placeless })
    }

    /// The right to give a directory another parent, held while `directory` is neither `node` nor
    /// below it (invariant 2).
    ///
    /// # Errors
    /// As [`Namespace::check_not_below`].
    async fn alone_and_not_below(
        &self,
        call: &mut Call<S::Node>,
        directory: &S::Node,
        node: &S::Node,
    ) -> Result<Permit, FsError> {
        for _ in 0..FREE_CLIMBS {
            let (count, mut passed) = (self.moved.count.get(), BTreeSet::new());
            let climbed = self.check_not_below(call, directory, node, &mut passed).await;
            let alone = self.reparenting.exclusive().await;
            let is_overtaken = self.moved.has_any_since(count, &passed);
            if !is_overtaken || is_planted(Bug::OvertakenClimbs) {
                return climbed.map(|()| alone);
            }
        }
        let alone = self.reparenting.exclusive().await;
        self.check_not_below(call, directory, node, &mut BTreeSet::new()).await?;
        Ok(alone)
    }

    /// [`FsError::Invalid`] when `directory` is `node` or lies below it. `passed` gets all
    /// directories on the way up, except the root. On a damaged disk '..' entries may form a cycle:
    /// a directory that is passed twice is [`FsError::Corrupt`], so no way up is longer than there
    /// are inodes.
    async fn check_not_below(
        &self,
        call: &mut Call<S::Node>,
        directory: &S::Node,
        node: &S::Node,
        passed: &mut BTreeSet<Ino>,
    ) -> Result<(), FsError> {
        let root = self.store.root();
        let (mut here, mut steps) = (directory.clone(), self.store.walks().begin());
        for level in 0_usize.. {
            if here.id() == node.id() {
                break;
            }
            if here.id() == root || (level > 2 && is_planted(Bug::ShortSighted)) {
                return Ok(());
            }
            let again = !passed.insert(here.id().ino);
            if again && !is_planted(Bug::EndlessClimb) {
                return Err(FsError::Corrupt);
            }
            assert!(level < 10_000 || !is_planted(Bug::EndlessClimb), "the climb has no end");
            here = self.parent_of(call, &here).await?;
            steps.step().await;
        }
        Err(FsError::Invalid)
    }

    /// The directory that '..' leads to.
    async fn parent_of(
        &self,
        call: &mut Call<S::Node>,
        directory: &S::Node,
    ) -> Result<S::Node, FsError> {
        let parent = self.peek(call, directory, &Name::parse(b"..")?).await?;
        let parent = parent.ok_or(FsError::Corrupt)?;
        let is_directory = parent.kind() == FileKind::Directory || is_planted(Bug::AnyParent);
        if is_directory { Ok(parent) } else { Err(FsError::Corrupt) }
    }

    async fn check_rename(
        &self,
        who: &Credentials,
        plan: &Move<'_, S::Node>,
    ) -> Result<(), FsError> {
        self.check_removal(who, plan.from, plan.node)?;
        plan.to.protection().check_entry_added()?;
        access::check(who, &plan.to.attributes(), WRITE | EXECUTE)?;
        let is_directory = plan.node.kind() == FileKind::Directory;
        if let Some(target) = plan.target {
            plan.to.protection().check_entry_taken()?;
            target.protection().check_name_taken()?;
            access::check_sticky(who, &plan.to.attributes(), &target.attributes())?;
            match (is_directory, target.kind() == FileKind::Directory) {
                (true, false) => return Err(FsError::NotDirectory),
                (false, true) => return Err(FsError::IsDirectory),
                _ => {}
            }
            let other = is_directory && target.id() != plan.node.id();
            if other && !self.store.is_empty(target).await? {
                return Err(FsError::NotEmpty);
            }
        }
        if plan.reparents() {
            access::check(who, &plan.node.attributes(), WRITE)?; // its ".." changes
        }
        Ok(())
    }

    async fn try_rename(
        &self,
        call: &mut Call<S::Node>,
        who: &Credentials,
        plan: &Move<'_, S::Node>,
        place: Option<Permit>,
    ) -> Result<bool, FsError> {
        let store = &self.store;
        let is_alone = !plan.reparents() || !self.reparenting.is_free();
        assert!(is_alone, "invariant 2: one directory at a time gets another parent");
        let mut update = store.begin(who);
        store.give_place(&mut update, place);
        if plan.reparents() && !is_planted(Bug::LooseMoves) {
            store.rest_on(&mut update, call.seen());
        }
        store.add_link(&mut update, plan.node)?;
        // A directory that replaces another leaves the count of the new parent as it is.
        if plan.reparents() && !plan.replaces_directory() {
            store.add_link(&mut update, plan.to)?;
        }
        match plan.target {
            Some(_) => {
                store.retarget_entry(&mut update, plan.to, plan.to_name, plan.node).await?;
            }
            None => store.add_entry(&mut update, plan.to, plan.to_name, plan.node).await?,
        }
        if plan.reparents() {
            store.retarget_parent(&mut update, plan.node, plan.to).await?;
        }
        store.drop_entry(&mut update, plan.from, plan.from_name).await?;
        store.drop_link(&mut update, plan.node);
        self.links_changed(&mut update, plan.node);
        if plan.reparents() || (plan.replaces_directory() && plan.from.id() == plan.to.id()) {
            store.drop_link(&mut update, plan.from);
        }
        if let Some(target) = plan.target {
            let has_place = match target.kind() {
                FileKind::Directory => store.destroy(&mut update, target).await?,
                _ => self.drop_name(&mut update, target).await?,
            };
            if !has_place {
                return Ok(false);
            }
        }
        self.entries_changed(&mut update, plan.from);
        self.entries_changed(&mut update, plan.to);
        self.apply(call, update).await?;
        if plan.reparents() {
            self.moved.note(plan.node.id().ino);
        }
        if plan.node.kind() == FileKind::Directory {
            self.note_move(plan.node);
        }
        Ok(true)
    }
}
