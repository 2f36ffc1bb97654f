//! Makes and deletes snapshots of a full volume, and checks their contents.
//!
//! Some are made while no client works: their contents are known. Others are made, and all are
//! deleted, beside the clients: such a snapshot must always show what it shows first. No client
//! asks for snapshots, and no answer about them survives a cut. So after a cut the keeper checks
//! which exist.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use sim::Prng;
use vfs::{FileSystem, FsError, Name, Snapshot, SnapshotState, Snapshots};

use super::hand::{Hand, Shared, Verdict};
use super::shown::{Shown, Tree};
use crate::explore::control;
use crate::world::World;

/// Most snapshots at once.
const MOST: usize = 3;
/// Most operations beside the clients in a stretch, and longest pause between two of them.
const ACTS: u64 = 4;
const PAUSE_MICROS: u64 = 20_000;
/// Most steps of deletions at once.
const STEPS: u64 = 6;
/// About this many files and directories of a snapshot are checked each time.
const SAMPLE: u64 = 10;

struct Kept {
    name: String,
    /// The contents; `None` until they are read, if they were not known.
    tree: Option<Tree>,
}

/// The keeper: see the module.
pub(super) struct Keeper {
    /// A client that reads the snapshots.
    eyes: Hand,
    shared: Rc<Shared>,
    prng: Prng,
    kept: Vec<Kept>,
    /// Number of snapshots requested.
    serial: u64,
    /// The snapshot that is being made or deleted.
    under_way: Option<String>,
}

fn of(files: &dyn FileSystem) -> &dyn Snapshots {
    files.snapshots().expect("the design has them")
}

async fn all(files: &dyn FileSystem) -> Verdict<Vec<Snapshot>> {
    let all = of(files).list().open().await.map_err(|lost| lost.to_string())?.into_inner();
    Ok(all.into_iter().map(|(snapshot, _)| snapshot).collect())
}

fn legal(name: &str) -> Name {
    Name::parse(name.as_bytes()).expect("a legal name")
}

impl Keeper {
    pub(super) fn new(eyes: Hand, shared: Rc<Shared>, prng: Prng) -> Self {
        Self { eyes, shared, prng, kept: Vec::new(), serial: 0, under_way: None }
    }

    fn files(world: &World) -> Rc<dyn FileSystem> {
        world.file_system().expect("it is served")
    }

    /// Makes and deletes some beside the clients. May be dropped when the server ends.
    pub(super) async fn work(&mut self, world: &World) -> Verdict {
        let (files, clock) = (Self::files(world), world.runtime().clock);
        for _ in 0..self.prng.below(ACTS) {
            clock.sleep(Duration::from_micros(self.prng.below(PAUSE_MICROS))).await;
            match self.prng.below(4) {
                0 | 1 => self.pin(&*files, None).await?,
                2 => self.delete(&*files).await?,
                _ => self.go_on(&*files).await?,
            }
        }
        Ok(())
    }

    /// Called while no client works: `tree` is the current state, which a snapshot may capture.
    pub(super) async fn rest(&mut self, world: &World, tree: impl FnOnce() -> Tree) -> Verdict {
        let files = Self::files(world);
        if self.prng.chance(1, 2) {
            control::end_deletions(&*files).await?;
        }
        if self.prng.chance(1, 2) { self.pin(&*files, Some(tree())).await } else { Ok(()) }
    }

    /// Makes one, with these contents if they are known. There may be no room for it.
    async fn pin(&mut self, files: &dyn FileSystem, tree: Option<Tree>) -> Verdict {
        if all(files).await?.len() >= MOST {
            return self.delete(files).await;
        }
        self.serial += 1;
        let name = format!("s{}", self.serial);
        let may_be_refused = self.shared.is_full(2);
        self.shared.pins.set(self.serial);
        self.shared.is_held.set(true);
        self.under_way = Some(name.clone());
        let made = of(files).pin(&legal(&name)).await.open().await;
        self.under_way = None;
        match made.map_err(|lost| lost.to_string())?.into_inner() {
            Ok(_) => self.kept.push(Kept { name, tree }),
            Err(FsError::NoSpace) if may_be_refused => {}
            Err(error) => return Err(format!("snapshot {name} is not made: {error}")),
        }
        Ok(())
    }

    /// Deletes one; its space becomes free later.
    async fn delete(&mut self, files: &dyn FileSystem) -> Verdict {
        if self.kept.is_empty() {
            return Ok(());
        }
        let index = self.prng.index(self.kept.len());
        let name = self.kept[index].name.clone();
        self.under_way = Some(name.clone());
        let gone = of(files).delete(&legal(&name)).await.open().await;
        self.under_way = None;
        let gone = gone.map_err(|lost| lost.to_string())?.into_inner();
        gone.map_err(|error| format!("snapshot {name} is not deleted: {error}"))?;
        self.kept.remove(index);
        self.go_on(files).await
    }

    /// Continues deletions.
    async fn go_on(&mut self, files: &dyn FileSystem) -> Verdict {
        let snapshots = all(files).await?.into_iter();
        for snapshot in snapshots.filter(|one| one.state == SnapshotState::Deleting) {
            for _ in 0..self.prng.below(STEPS) {
                if control::step(files, snapshot.number).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Completes all deletions; the keeper checks no more afterwards.
    pub(super) async fn leave(&mut self, world: &World) -> Verdict {
        self.kept.clear();
        control::delete_all(&*Self::files(world)).await
    }

    /// After a restart or at any other time, checks that exactly the expected snapshots exist.
    pub(super) async fn count(&mut self, world: &World) -> Verdict {
        let all = all(&*Self::files(world)).await?;
        self.shared.is_held.set(!all.is_empty());
        let ready = all.iter().filter(|one| one.state == SnapshotState::Ready);
        let ready = ready.map(|one| String::from_utf8_lossy(one.name.as_bytes()).into_owned());
        let ready: BTreeSet<String> = ready.collect();
        if let Some(name) = self.under_way.take() {
            let is_kept = self.kept.iter().any(|kept| kept.name == name);
            if !ready.contains(&name) {
                self.kept.retain(|kept| kept.name != name);
            } else if !is_kept {
                self.kept.push(Kept { name, tree: None });
            }
        }
        let right: BTreeSet<String> = self.kept.iter().map(|kept| kept.name.clone()).collect();
        if ready == right {
            Ok(())
        } else {
            Err(format!("there are snapshots {ready:?}, and not {right:?}"))
        }
    }

    /// Checks some of each snapshot's files, or all of them: they are as before.
    pub(super) async fn look(&mut self, whole: bool) -> Verdict {
        for kept in &mut self.kept {
            let top = [".snapshot".to_owned(), kept.name.clone()];
            let at = |way: &[String]| [&top[..], way].concat();
            let Some(tree) = &kept.tree else {
                kept.tree = Some(walk(&self.eyes, at).await?);
                continue;
            };
            let most = if whole { u64::MAX } else { SAMPLE };
            for (index, (way, right)) in tree.iter().enumerate() {
                if !self.prng.chance(most.min(tree.len() as u64), tree.len() as u64) {
                    continue;
                }
                let shown = self.eyes.show(&at(way)).await?;
                if shown != *right {
                    let (name, way) = (&kept.name, way.join("/"));
                    let reason = format!("snapshot {name}, {index}, '{way}': {shown:?}");
                    return Err(format!("{reason:.400}, and not {right:?}"));
                }
            }
        }
        Ok(())
    }
}

/// The whole tree of a snapshot.
async fn walk(eyes: &Hand, at: impl Fn(&[String]) -> Vec<String>) -> Verdict<Tree> {
    let (mut tree, mut ways) = (Tree::new(), vec![Vec::new()]);
    while let Some(way) = ways.pop() {
        let shown = eyes.show(&at(&way)).await?;
        if let Shown::Directory(names) = &shown {
            ways.extend(names.iter().map(|name| [&way[..], std::slice::from_ref(name)].concat()));
        }
        tree.insert(way, shown);
    }
    Ok(tree)
}
