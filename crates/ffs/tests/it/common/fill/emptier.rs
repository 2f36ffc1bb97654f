//! Removes everything, in random order.

use sim::Prng;
use vfs::{FileKind, FileSystem, ObjectId};

use super::filler::Tally;
use crate::common::volume::Volume;

/// A name somewhere below the root.
struct Found {
    parent: ObjectId,
    text: String,
    id: ObjectId,
    kind: FileKind,
    size: u64,
}

/// Everything below a directory; deeper names come later.
async fn walk(volume: &Volume, top: ObjectId) -> Vec<Found> {
    let (mut found, mut directories) = (Vec::new(), vec![top]);
    while let Some(parent) = directories.pop() {
        for text in volume.list(parent).await.expect("it can be listed") {
            if text == "." || text == ".." {
                continue;
            }
            let id = volume.lookup(parent, &text).await.expect("it was listed");
            let attributes = volume.attributes(id).await;
            if attributes.kind == FileKind::Directory {
                directories.push(id);
            }
            let (kind, size) = (attributes.kind, attributes.size);
            found.push(Found { parent, text, id, kind, size });
        }
    }
    found
}

/// Empties a volume; some files are truncated first, partly or to zero.
pub(crate) async fn empty(volume: &Volume, prng: &mut Prng, tally: &mut Tally) {
    let found = walk(volume, volume.files.root()).await;
    let (directories, mut files): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| found.kind == FileKind::Directory);
    for last in (1..files.len()).rev() {
        files.swap(last, prng.index(last + 1));
    }
    for file in files {
        let text = &file.text;
        if file.kind == FileKind::Regular && file.size > 0 && prng.chance(1, 4) {
            let size = prng.below(file.size);
            for size in [size, 0].into_iter().skip(prng.index(2)) {
                let done = volume.resize(file.id, size).await;
                assert_eq!(done, Ok(()), "{text} to {size} bytes");
                tally.operations += 1;
            }
        }
        volume.remove(file.parent, text).await.unwrap_or_else(|why| panic!("{text}: {why}"));
        tally.operations += 1;
    }
    for directory in directories.iter().rev() {
        let removed = volume.rmdir(directory.parent, &directory.text).await;
        removed.unwrap_or_else(|why| panic!("{}: {why}", directory.text));
        tally.operations += 1;
    }
}
