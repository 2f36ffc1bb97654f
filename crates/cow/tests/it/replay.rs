//! Edits that are applied again, to the trees as they were before them.

use std::collections::BTreeMap;

use cow::edits::Edits;
use cow::{ROOT, UNIT};
use enginekit::random::Seeded;
use enginekit::volume::Actor;
use enginekit::{Bench, Volume};
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::counter::{ROOTS, Smallest, open};
use crate::kit::Smallests;

/// Bytes of the largest file of an actor.
const LARGEST: u64 = 1 << 20;
/// A place in a file whose tree has two levels of pointers.
const FAR: u64 = 9 << 20;

fn actor(volume: &Volume<Smallest>, directory: ObjectId, seed: u64) -> Actor<'_, Smallest> {
    let (chance, files) = (Seeded::new(seed), BTreeMap::new());
    Actor { volume, directory, chance, files, stable: true }
}

/// Changes that need each kind of edit: files and directories that begin, grow and end.
async fn change(volume: &Volume<Smallest>, actor: &mut Actor<'_, Smallest>, round: u64) {
    let root = volume.files.root();
    for number in 0..40 {
        let inner = volume.mkdir(root, &format!("directory {round} {number}")).await;
        let inner = inner.expect("there is room");
        volume.symlink(inner, "link", b"target").await.expect("there is room");
    }
    for number in (0..40).filter(|number| round > 0 && number % 3 > 0) {
        let text = format!("directory {} {number}", round - 1);
        let inner = volume.lookup(root, &text).await.expect("it is there");
        volume.remove(inner, "link").await.expect("it is there");
        volume.rmdir(root, &text).await.expect("it is empty");
    }
    for number in 0..200 {
        actor.step(LARGEST).await;
        if number == 100
            && let Some(text) = actor.some_file()
        {
            let id = volume.lookup(actor.directory, &text).await.expect("it is there");
            let data = vec![7; 3];
            volume.write(id, FAR, data, Stability::FileSync).await.expect("there is room");
            let content = actor.files.get_mut(&text).expect("chosen from it");
            content.resize(content.len().max(FAR as usize + 3), 0);
            content[FAR as usize..FAR as usize + 3].fill(7);
        }
    }
}

/// Names of the directory at the top, and of those in it.
async fn names(volume: &Volume<Smallest>) -> Vec<(String, Vec<String>)> {
    let root = volume.files.root();
    let mut all = Vec::new();
    let listed = volume.list(root).await.expect("it can be listed");
    for text in listed.into_iter().filter(|text| !text.starts_with('.')) {
        let inner = volume.lookup(root, &text).await.expect("it is there");
        all.push((text, volume.list(inner).await.expect("it can be listed")));
    }
    all
}

/// Opens a volume that was stopped.
async fn again(executor: &Executor, image: Image) -> (std::rc::Rc<Disk>, Volume<Smallest>) {
    let disk = Disk::new(executor, image);
    let volume = open(disk.clone(), executor.runtime()).await.expect("it has a root");
    (disk, volume)
}

fn edits_make_the_same_files(seed: u64) {
    let mut roots = vec![0; ROOTS as usize * UNIT];
    let executor = Executor::new(seed);
    let (mut image, edits, next, files, listed) = executor.block_on(async {
        let disk = Smallests.make(&executor).await;
        let volume = open(disk.clone(), executor.runtime()).await.expect("it is new");
        let directory = volume.mkdir(volume.files.root(), "actor").await.expect("there is room");
        let mut actor = actor(&volume, directory, seed);
        change(&volume, &mut actor, 0).await;
        volume.settle().await;
        let engine = volume.files.store().engine();
        disk.contents().read(0, &mut roots);
        engine.take_edits();
        change(&volume, &mut actor, 1).await;
        volume.settle().await;
        let (edits, next) = (engine.take_edits(), engine.next());
        (disk.contents(), edits, next, actor.files.clone(), names(&volume).await)
    });
    image.write(0, &roots);
    let executor = Executor::new(seed);
    let image = executor.block_on(async {
        let (disk, volume) = again(&executor, image).await;
        assert_ne!(names(&volume).await, listed, "the old root has the old trees");
        let (disk, volume) = {
            drop(volume);
            again(&executor, disk.contents()).await
        };
        let engine = volume.files.store().engine();
        engine.replay(&edits, next).await.expect("it can be read");
        disk.contents()
    });
    let executor = Executor::new(seed);
    executor.block_on(async {
        let (_, volume) = again(&executor, image).await;
        assert_eq!(names(&volume).await, listed);
        let directory = volume.lookup(volume.files.root(), "actor").await.expect("it is there");
        let actor = Actor { files, ..actor(&volume, directory, seed) };
        actor.check_all().await;
    });
}

#[test]
fn edits_applied_again_make_the_same_files() {
    (1..=3).for_each(edits_make_the_same_files);
}

#[test]
fn an_edit_of_a_block_that_no_file_has_is_refused() {
    let executor = Executor::new(1);
    executor.block_on(async {
        let disk = Smallests.make(&executor).await;
        let volume = open(disk, executor.runtime()).await.expect("it is new");
        let engine = volume.files.store().engine();
        for block in [(1, 0, 0), (1 << 32, 0, 0), (ROOT, 5, 0), (ROOT, 0, 1 << 29)] {
            let [mut bytes, mut gone] = [Edits::default(), Edits::default()];
            bytes.add_bytes(block, 64, &[1]);
            gone.add_gone(block);
            for edits in [bytes, gone] {
                let replayed = engine.replay(&[edits], engine.next()).await;
                assert_eq!(replayed, Err(FsError::Corrupt), "{block:?}");
            }
        }
    });
}
