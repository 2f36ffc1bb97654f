//! Judges Updates that an earlier boot had in flight, by their intents and the disk.
//!
//! This comes before any client is served. Each intent is compared with the disk, in order. Nothing
//! of an Update can be there unless all changes that could hide it are absent (invariants 1 and 2
//! of [`crate::intents`]), so a name that names the inode in the intent, or an inode that matches
//! the intent, means that the Update has begun. An Update that has begun is finished by ordinary
//! changes:
//!
//! * a renamed file loses its old name, and a directory whose new name was taken back, though the
//!   entry that it replaced is gone, gets it again;
//! * a directory whose names have changed gets the times in the answer;
//! * a file that was truncated in steps is truncated to its final size.
//!
//! Other leftovers of a crash are not visible, and are repaired by the check before, or by reclaim.
//! The verdicts by inodes are durable before anything is finished, since that changes the times of
//! directories. A start that is interrupted judges the others again: a finished Update has
//! happened, and one that had not begun still has not.

use std::collections::HashMap;
use std::rc::Rc;

use namespace::Namespace;
use vfs::{
    Attributes, CallKey, CallReply, FileSystem, FsError, LoggedReply, Name, ObjectId, Requester,
    SetAttributes, SetTime,
};
use vnode::answer;
use vnode::chain::Chain;

use crate::engine::Ffs;
use crate::inode::OnDisk;
use crate::intents::{InodeEvidence, NameEvidence, Survivor};
use crate::planted::{Bug, is_planted};

type Files = vnode::Files<Ffs>;

/// Result of judging.
pub(crate) struct Judgement {
    /// For each intent, whether its Update has happened: the verdict.
    pub(crate) has_happened: Vec<Option<bool>>,
    /// The answers of the Updates that have, oldest first.
    pub(crate) remembered: Vec<LoggedReply>,
    /// Truncations that go on, each with the reply of its call.
    pub(crate) chains: Vec<(Chain, Option<CallReply>)>,
}

/// Compares the inodes that are evidence, without a change of the disk. The verdict of each intent
/// that is judged by its inode, which must be durable before any other is finished: that changes
/// the times of directories. Evidence that cannot be read gives the verdict that the intent is
/// dropped.
///
/// # Errors
/// As [`judge`].
pub(crate) async fn compare(
    files: &Rc<Files>,
    left: &[Survivor],
    unjudged: &mut usize,
) -> Result<Vec<Option<bool>>, FsError> {
    let judge = Judge { files, namespace: Namespace::new(files.clone()) };
    let mut by_inode = Vec::with_capacity(left.len());
    for survivor in left {
        let fits = judge.fits_its_inode(survivor).await;
        by_inode.push(judge.unless_unreadable(fits, Some(false), unjudged)?);
    }
    Ok(by_inode)
}

/// Judges all intents, and finishes Updates that have begun. The result is durable. Truncations in
/// steps are for the caller to continue, when the verdicts are durable.
///
/// Evidence that cannot be read costs its intent and no other.
///
/// # Errors
/// [`FsError::NoSpace`] if the host of the disk is full, [`FsError::Io`] if the volume has stopped:
/// the intents are judged by the next start.
pub(crate) async fn judge(
    files: &Rc<Files>,
    left: &[Survivor],
    by_inode: Vec<Option<bool>>,
    unjudged: &mut usize,
) -> Result<Judgement, FsError> {
    let judge = Judge { files, namespace: Namespace::new(files.clone()) };
    let mut has_happened = Vec::with_capacity(left.len());
    let mut remembered: HashMap<Rc<CallKey>, (LoggedReply, &Survivor)> = HashMap::new();
    for (survivor, by_inode) in left.iter().zip(by_inode) {
        let has = match by_inode {
            _ if survivor.is_done => true,
            Some(fits) => fits,
            None => {
                let has_happened = judge.has_happened(survivor).await;
                judge.unless_unreadable(has_happened, false, unjudged)?
            }
        };
        has_happened.push(Some(has));
        let Some(reply) = answer::read(&survivor.intent.answer).filter(|_| has) else { continue };
        if !survivor.is_done {
            judge.touch_directories(survivor, &reply).await;
        }
        remembered.insert(reply.answered.key.clone(), (reply, survivor));
    }
    let mut chains = Vec::new();
    for (reply, survivor) in remembered.values() {
        if let Some(chain) = judge.chain_of(survivor).await {
            let reply = Some(reply.answered.clone());
            chains.push((chain, reply.filter(|_| !is_planted(Bug::EndlessGoals))));
        }
    }
    chains.sort_by_key(|(chain, _)| chain.ino);
    chains.dedup_by_key(|(chain, _)| chain.ino);
    let mut remembered: Vec<LoggedReply> =
        remembered.into_values().map(|(reply, _)| reply).collect();
    remembered
        .sort_by(|one, other| (one.at, &one.answered.key).cmp(&(other.at, &other.answered.key)));
    Ok(Judgement { has_happened, remembered, chains })
}

struct Judge<'a> {
    files: &'a Rc<Files>,
    namespace: Namespace<Files>,
}

impl Judge<'_> {
    /// The finding, or `otherwise` if the disk cannot be read there.
    fn unless_unreadable<T>(
        &self,
        found: Result<T, FsError>,
        otherwise: T,
        unjudged: &mut usize,
    ) -> Result<T, FsError> {
        let is_unreadable = |error: &FsError| matches!(error, FsError::Io | FsError::Corrupt);
        match found {
            Err(error) if is_unreadable(&error) && !self.files.engine().policy.has_stopped() => {
                *unjudged += 1;
                Ok(otherwise)
            }
            found => found,
        }
    }

    /// Whether the inode of an Update is as that has left it; `None` if it has other evidence.
    async fn fits_its_inode(&self, survivor: &Survivor) -> Result<Option<bool>, FsError> {
        match (&*survivor.intent.names, survivor.intent.inode) {
            ([], Some(_)) if is_planted(Bug::BelievedIntents) => Ok(Some(true)),
            ([], Some(inode)) if !survivor.is_done => {
                Ok(Some(self.inode(inode.ino).await? == Some(inode)))
            }
            _ => Ok(None),
        }
    }

    /// Whether an Update has begun; if so, finishes it.
    async fn has_happened(&self, survivor: &Survivor) -> Result<bool, FsError> {
        if is_planted(Bug::BelievedIntents) {
            return Ok(true);
        }
        match (&*survivor.intent.names, survivor.intent.inode) {
            ([name], _) if name.after != 0 => Ok(self.find(name).await? == name.after),
            ([name], _) => Ok(self.find(name).await? != name.before),
            (names, _) => self.has_renamed(names).await,
        }
    }

    /// Whether a rename has begun: one name goes, and another one appears or is retargeted.
    async fn has_renamed(&self, names: &[NameEvidence]) -> Result<bool, FsError> {
        let new = names.iter().find(|name| name.after != 0);
        let old = names.iter().find(|name| name.after == 0);
        let (Some(new), Some(old)) = (new, old) else { return Ok(false) };
        let now = self.find(new).await?;
        if now != new.after {
            // A directory goes back to its old name if '..' still leads there. The entry that it
            // was to replace is gone by then, and nothing else takes that name away.
            let is_between = now == 0 && new.before != 0 && !is_planted(Bug::UnfinishedIntents);
            let goes_on = is_between && self.find(old).await? == new.after;
            return if goes_on { self.rename(old, new).await } else { Ok(false) };
        }
        if self.find(old).await? == new.after && !is_planted(Bug::UnfinishedIntents) {
            self.drop_name(old).await?;
        }
        Ok(true)
    }

    /// The inode that a name names now; 0 for none.
    async fn find(&self, name: &NameEvidence) -> Result<u64, FsError> {
        let Some(directory) = self.directory(name.directory).await? else { return Ok(0) };
        let Ok(name) = Name::parse(&name.name) else { return Ok(0) };
        let root = Requester::root();
        let found = self.namespace.lookup(&root, directory, &name).await.open().await?;
        match found.into_inner().result {
            Ok(found) => Ok(found.id.ino.0),
            Err(FsError::NoEntry | FsError::Stale | FsError::NotDirectory) => Ok(0),
            Err(error) => Err(error),
        }
    }

    async fn directory(&self, ino: u64) -> Result<Option<ObjectId>, FsError> {
        match self.files.node_of(ino).await {
            Ok(node) => Ok(Some(ObjectId::live(vfs::Ino(ino), node.generation))),
            Err(FsError::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn inode(&self, ino: u64) -> Result<Option<InodeEvidence>, FsError> {
        match self.files.node_of(ino).await {
            Ok(node) => Ok(Some(node.look_at(|dinode| InodeEvidence::of(ino, dinode)))),
            Err(FsError::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves a directory, durably; returns whether that was possible. While reclaim looks for
    /// second names it waits for that.
    async fn rename(&self, old: &NameEvidence, new: &NameEvidence) -> Result<bool, FsError> {
        let [Some(from), Some(to)] =
            [self.directory(old.directory).await?, self.directory(new.directory).await?]
        else {
            return Ok(false);
        };
        let (Ok(old), Ok(new)) = (Name::parse(&old.name), Name::parse(&new.name)) else {
            return Ok(false);
        };
        loop {
            let root = Requester::root();
            let renamed = self.namespace.rename(&root, from, &old, to, &new).await;
            match renamed.open().await?.into_inner().result {
                Err(FsError::Jukebox) => {}
                Err(FsError::Io) => return Err(FsError::Io),
                renamed => return Ok(renamed.is_ok()),
            }
        }
    }

    /// Removes a name, durably. A directory has at most one name for every reader.
    async fn drop_name(&self, name: &NameEvidence) -> Result<(), FsError> {
        let Some(directory) = self.directory(name.directory).await? else { return Ok(()) };
        let Ok(name) = Name::parse(&name.name) else { return Ok(()) };
        let removed = self.namespace.remove(&Requester::root(), directory, &name).await;
        removed.open().await?.into_inner().result
    }

    /// Gives directories whose names have changed the times in the answer: a client that knows the
    /// old times would consider its cached copy valid.
    async fn touch_directories(&self, survivor: &Survivor, reply: &LoggedReply) {
        let about = reply.answered.outcome.about.iter().filter_map(|about| about.after);
        for told in about {
            let ino = told.ino.0;
            if survivor.intent.names.iter().any(|name| name.directory == ino) {
                // These times are not promised.
                let _ = self.touch(&told).await;
            }
        }
    }

    async fn touch(&self, told: &Attributes) -> Result<(), FsError> {
        let node = self.files.node_of(told.ino.0).await?;
        if node.look_at(|dinode| dinode.change_time()) >= told.ctime {
            return Ok(());
        }
        let id = ObjectId::live(told.ino, told.generation);
        let changes =
            SetAttributes { mtime: Some(SetTime::To(told.mtime)), ..SetAttributes::default() };
        let set = self.namespace.setattr(&Requester::root(), id, changes, None).await;
        set.open().await?.into_inner().result
    }

    /// The truncation of an Update, if that goes on: the file is longer than its final size, and
    /// has the times of the remembered step. A file that was changed since has other times, and its
    /// truncation had come to its end.
    async fn chain_of(&self, survivor: &Survivor) -> Option<Chain> {
        let (evidence, goal) = survivor.intent.inode.zip(survivor.intent.goal)?;
        let InodeEvidence { ino, generation, mtime, ctime, .. } = evidence;
        let now = self.inode(ino).await.ok()??;
        let is_same = (now.generation, now.mtime, now.ctime) == (generation, mtime, ctime);
        let is_same = is_same || is_planted(Bug::EndlessGoals) && now.generation == generation;
        (is_same && now.size > goal).then_some(Chain { ino, generation, size: Some(goal) })
    }
}
