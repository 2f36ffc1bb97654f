//! Every call that a client can make, on every object that is found on a file system.
//!
//! Answers and errors are all the same here: there must be one.

use std::collections::BTreeSet;

use bytes::Bytes;
use vfs::{
    Access, Answer, CreateHow, DirectoryEntry, Entries, FileSystem, Name, ObjectId, Requester,
    Sealed, SetAttributes, Stability,
};

use crate::targets::volume::name;

/// Most objects that are visited.
const MOST: usize = 60;
/// Most listings of one directory.
const MOST_LISTINGS: usize = 40;

async fn answer<T, A>(sealed: Sealed<Answer<T, A>>) -> Option<T> {
    sealed.open().await.ok()?.into_inner().result.ok()
}

/// Walks the tree and reads everything; returns all objects found.
pub(in crate::targets) async fn look_at_all(files: &impl FileSystem) -> Vec<ObjectId> {
    let mut waiting = vec![files.root()];
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop().filter(|_| seen.len() < MOST) {
        if !seen.insert((id.ino.0, id.generation)) {
            continue;
        }
        look(files, id).await;
        waiting.extend(list(files, id).await);
    }
    let seen = seen.into_iter();
    seen.map(|(ino, generation)| ObjectId::live(vfs::Ino(ino), generation)).collect()
}

/// Walks the tree, reads and changes everything, and stops.
pub(in crate::targets) async fn all(files: &impl FileSystem) {
    use_all(files).await;
    let _ = files.shutdown().await;
}

/// Walks the tree, reads and changes everything.
pub(in crate::targets) async fn use_all(files: &impl FileSystem) {
    let seen = look_at_all(files).await;
    for (place, &id) in seen.iter().enumerate() {
        // Each with a near and a far one, in both directions.
        for distance in [1, seen.len() / 2] {
            let other = seen[(place + distance) % seen.len()];
            move_about(files, id, other).await;
            move_about(files, other, id).await;
        }
    }
    for &id in &seen {
        change(files, id).await;
    }
}

/// Renames and links objects from one directory to another, and back.
async fn move_about(files: &impl FileSystem, from: ObjectId, to: ObjectId) {
    let who = Requester::root();
    for text in ["one", "two", "three", "file-1", "file-3"] {
        let (old, new) = (name(text), name("moved-here"));
        let _ = answer(files.rename(&who, from, &old, to, &new).await).await;
        let _ = answer(files.rename(&who, to, &new, from, &old).await).await;
    }
    let _ = answer(files.link(&who, from, to, &name("linked-here")).await).await;
    let _: Option<()> = answer(files.remove(&who, to, &name("linked-here")).await).await;
}

async fn look(files: &impl FileSystem, id: ObjectId) {
    let who = Requester::root();
    let _ = files.getattr(id).await.open().await;
    let _ = answer(files.access(&who, id, Access::default()).await).await;
    if let Some(target) = answer(files.readlink(&who, id).await).await {
        assert!(target.len() <= 65_536, "the target of a link has {} bytes", target.len());
    }
    for offset in [0, 4000, 49_000, 3 << 20, u64::MAX - 5] {
        let read = answer(files.read(&who, id, offset, 70_000).await).await;
        let length: usize = read.iter().flat_map(|read| &read.data).map(Bytes::len).sum();
        assert!(length <= 70_000, "{length} bytes were read");
    }
    let _ = answer(files.fsstat(&who, id).await).await;
    let _ = answer(files.pathconf(id).await).await;
}

/// Lists a directory in pieces; returns all entries.
async fn list(files: &impl FileSystem, id: ObjectId) -> Vec<ObjectId> {
    let who = Requester::root();
    let mut found = Vec::new();
    let mut cookie = 0;
    for _ in 0..MOST_LISTINGS {
        let mut left = 20;
        let mut accept = |_: &DirectoryEntry| {
            left -= 1;
            left > 0
        };
        let listed = files.readdir(&who, id, cookie, true, &mut accept).await;
        let Some(Entries { entries, eof, .. }) = answer(listed).await else { break };
        let Some(last) = entries.last().filter(|_| !eof) else {
            found.extend(entries.into_iter().map(|entry| entry.id));
            break;
        };
        assert!(last.cookie > cookie, "a listing gets on");
        cookie = last.cookie;
        found.extend(entries.into_iter().map(|entry| entry.id));
    }
    for text in [".", "..", "one", "file-3", "missing"] {
        let looked = files.lookup(&who, id, &name(text)).await;
        found.extend(answer(looked).await.map(|looked| looked.id));
    }
    found
}

async fn change(files: &impl FileSystem, id: ObjectId) {
    let who = Requester::root();
    let how = CreateHow::Unchecked(SetAttributes::default());
    let made = answer(files.create(&who, id, &name("new"), how).await).await;
    let mode = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
    let _ = answer(files.mkdir(&who, id, &name("new-directory"), mode).await).await;
    for target in made.map(|made| made.id).into_iter().chain([id]) {
        for (offset, stability) in [(5, Stability::Unstable), (100_000, Stability::FileSync)] {
            let data = vec![Bytes::from_static(&[7; 9000])];
            let _ = answer(files.write(&who, target, offset, data, stability).await).await;
        }
        let _ = answer(files.commit(&who, target, 0, 0).await).await;
        for size in [70_000, 3] {
            let size = SetAttributes { size: Some(size), ..SetAttributes::default() };
            let _ = answer(files.setattr(&who, target, size, None).await).await;
        }
    }
    let rename = |from: &str, to: &str| (name(from), name(to));
    for (from, to) in [rename("new", "file-0"), rename("one", "moved"), rename("file-3", "new")] {
        let _ = answer(files.rename(&who, id, &from, id, &to).await).await;
    }
    let _ = answer(files.link(&who, id, files.root(), &name("link")).await).await;
    for text in ["file-0", "file-1", "far", "long-link", "new", "link"] {
        let _: Option<()> = answer(files.remove(&who, id, &name(text)).await).await;
    }
    for text in ["new-directory", "moved", "three"] {
        let _: Option<()> = answer(files.rmdir(&who, id, &Name::clone(&name(text))).await).await;
    }
}
