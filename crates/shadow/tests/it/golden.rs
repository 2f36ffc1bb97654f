//! Volumes as this version of the format leaves them: later programs have to open them, or have a
//! version of their own.
//!
//! `golden/rest.disk` has a volume that was stopped, and `golden/cut.disk` one that was cut off, in
//! a sparse text (see [`sim::sparse`]); `golden/told` has their contents. All follow from one
//! history, in simulated time and with seeded randomness, so each program of this version makes the
//! same bytes.
//! For a new version, or an intended change of the bytes written, they are made again with
//!
//! ```console
//! $ DURAMEN_GOLDEN=1 cargo test -p shadow --all-features --test it golden
//! ```

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

use enginekit::Volume;
use enginekit::snapshots::pin;
use shadow::{Shadow, look};
use sim::{Choice, Disk, Executor, Image, Prng, sparse};
use vfs::{FileKind, FileSystem, ObjectId, SnapshotNumber, Stability};

use crate::bench::{Setting, findings, made, opened};
use crate::mended::on;

const AGAIN: &str = "made anew by: DURAMEN_GOLDEN=1 cargo test -p shadow --all-features --test it \
                     golden";
/// File names of the images.
pub(crate) const NAMES: [&str; 2] = ["cut.disk", "rest.disk"];

/// The stored files: the images, and the text of their contents.
struct Kept {
    images: [String; 2],
    told: String,
}

/// The stored files, made again first if that is requested.
static KEPT: LazyLock<Kept> = LazyLock::new(|| {
    if std::env::var_os("DURAMEN_GOLDEN").is_some() {
        let images = make();
        let told = told(&images).expect("they open");
        for (name, image) in NAMES.into_iter().zip(&images) {
            std::fs::write(path(name), text(image)).expect("the folder is there");
        }
        std::fs::write(path("told"), told).expect("the folder is there");
    }
    let read = |name| std::fs::read_to_string(path(name)).expect(AGAIN);
    Kept { images: NAMES.map(read), told: read("told") }
});

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).join(name)
}

fn text(image: &Image) -> String {
    sparse::write([("home", image)])
}

async fn file(volume: &Volume<Shadow>, parent: ObjectId, text: &str, size: usize) -> ObjectId {
    let file = volume.create(parent, text).await.expect("there is room");
    let data = vec![text.as_bytes()[0]; size];
    volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
    file
}

/// Makes everything that a volume can have, and two snapshots; the last data is UNSTABLE, and some
/// of it is committed.
async fn work(volume: &Volume<Shadow>) {
    let root = volume.files.root();
    let d = volume.mkdir(root, "directory").await.expect("there is room");
    let small = file(volume, root, "small", 1500).await;
    let large = file(volume, d, "large", 60_000).await;
    let hole = volume.create(d, "hole").await.expect("there is room");
    let end = b"end".to_vec();
    volume.write(hole, 5 << 20, end, Stability::FileSync).await.expect("there is room");
    volume.link(small, d, "also-small").await.expect("there is room");
    volume.symlink(root, "link", b"directory/large").await.expect("there is room");
    volume.symlink(root, "long-link", &[b'l'; 300]).await.expect("there is room");
    pin(volume, "one").await.expect("there is room");
    volume.write(large, 4096, vec![b'2'; 4096], Stability::FileSync).await.expect("there is room");
    volume.resize(hole, 6 << 20).await.expect("there is room");
    volume.remove(root, "small").await.expect("it is there");
    pin(volume, "two").await.expect("there is room");
    volume.rename((root, "link"), (d, "moved")).await.expect("it is there");
    volume.resize(large, 50_000).await.expect("it becomes shorter");
    let fast = volume.create(root, "fast").await.expect("there is room");
    volume.write(fast, 0, vec![b'f'; 9000], Stability::Unstable).await.expect("there is room");
    volume.commit(fast).await.expect("the disk works");
    volume.write(fast, 9000, vec![b'g'; 5000], Stability::Unstable).await.expect("there is room");
}

/// The volumes: one cut off while the last update was under way, and one stopped.
fn make() -> [Image; 2] {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 1 << 20)));
    disk.start_trace();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        work(&volume).await;
        let last = volume.create(volume.files.root(), "last").await.expect("there is room");
        volume.write(last, 0, vec![b'l'; 6000], Stability::FileSync).await.expect("room");
        disk.mark(sim::Mark::Number(1));
        volume.files.shutdown().await.expect("nothing fails");
    });
    let trace = disk.trace();
    let has_all = |position: &usize| trace.marks_before(*position).next().is_some();
    let position = (0..=trace.events().len()).find(has_all).expect("it was reached");
    let platter = trace.platter_at(position - 1);
    let cut = platter.image(&Choice::random(&platter, &mut Prng::new(2)));
    [cut, disk.contents()]
}

/// The contents of the live tree and the snapshots of each volume.
pub(crate) fn told(images: &[Image; 2]) -> Result<String, String> {
    let mut text = String::new();
    for (name, image) in NAMES.into_iter().zip(images) {
        let (after, told) = on(image, async |volume| {
            let mut text = String::new();
            for tree in 0..=2 {
                let root = volume.files.root().within(SnapshotNumber(tree));
                list(volume, root, format!("{name} {tree} "), &mut text).await;
            }
            Ok(text)
        })?;
        findings(&after)?;
        text += &told;
    }
    Ok(text)
}

/// Adds a line for each name.
async fn list(volume: &Volume<Shadow>, directory: ObjectId, path: String, text: &mut String) {
    let mut names = volume.list(directory).await.expect("it can be listed");
    names.retain(|name| name != "." && name != "..");
    names.sort();
    for name in names {
        let id = volume.lookup(directory, &name).await.expect("it was listed");
        let attributes = volume.attributes(id).await;
        let path = format!("{path}/{name}");
        write!(text, "{path} {:?} {}", attributes.kind, attributes.nlink).expect("it grows");
        match attributes.kind {
            FileKind::Regular => {
                let data = volume.read(id).await.expect("it can be read");
                let runs = data.chunk_by(|one, next| one == next);
                for run in runs {
                    write!(text, " {}*{:02x}", run.len(), run[0]).expect("it grows");
                }
                text.push('\n');
            }
            FileKind::Directory => {
                text.push('\n');
                Box::pin(list(volume, id, path, text)).await;
            }
            _ => writeln!(text, " {}", attributes.size).expect("it grows"),
        }
    }
}

#[test]
fn the_same_history_makes_the_same_bytes() {
    for ((name, image), kept) in NAMES.into_iter().zip(make()).zip(&KEPT.images) {
        let text = text(&image);
        let other = text.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
        assert!(text == *kept, "{name} is another: {other:?}; {AGAIN}");
        assert!(text.len() < 100 << 10, "{name} has {} bytes", text.len());
    }
}

#[test]
fn what_is_kept_is_well_and_has_what_it_had() {
    let images = KEPT.images.each_ref().map(|text| sparse::read(text).remove(0));
    for (name, image) in NAMES.into_iter().zip(&images) {
        assert_eq!(findings(image), Ok(()), "{name}; {AGAIN}");
        let executor = Executor::new(1);
        let seen = executor.block_on(look(&*Disk::new(&executor, image.clone())));
        let is_at_rest = seen.expect("it is well").is_at_rest;
        assert_eq!(is_at_rest, name == "rest.disk", "{name}");
    }
    assert_eq!(told(&images).as_ref(), Ok(&KEPT.told), "{AGAIN}");
    for text in ["hole", "large", "moved", "long-link", "also-small", "fast"] {
        assert!(KEPT.told.contains(text), "{text}: {}", KEPT.told);
    }
}
