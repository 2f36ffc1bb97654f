//! Truncations of many files at once on a full volume.

use std::rc::Rc;
use std::time::Duration;

use enginekit::Volume;
use enginekit::snapshots::pin;
use futures::future::join_all;
use shadow::{OpenOptions, Shadow, open};
use sim::{Disk, Executor, Image, Latency, Options, Prng, Timing};
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::bench::{Setting, findings, made};

/// Files, each of this many blocks, which a snapshot holds, on a volume of this many bytes.
#[derive(Clone, Copy, Debug)]
struct Many {
    block_kib: u64,
    files: usize,
    blocks: usize,
    bytes: u64,
}

async fn opened(executor: &Executor, disk: &Rc<Disk>, cache_bytes: usize) -> Volume<Shadow> {
    let options = OpenOptions { cache_bytes, ..OpenOptions::default() };
    let opened = open(disk.clone(), executor.runtime(), &options).await;
    Volume::new(opened.expect("it is well"))
}

/// Writes to a new file until there is no room.
async fn fill(volume: &Volume<Shadow>) {
    let file = volume.create(volume.files.root(), "filler").await.expect("there is room");
    let (mut at, mut length) = (0, 256 << 10);
    while length >= 4096 {
        match volume.write(file, at, vec![3; length as usize], Stability::FileSync).await {
            Ok(()) => at += length,
            Err(_) => length /= 2,
        }
    }
}

impl Many {
    /// The files, on a full volume.
    fn full(self) -> (Image, Vec<ObjectId>) {
        let executor = Executor::new(1);
        let setting = Setting::of(self.block_kib, 4 * self.block_kib.max(16), self.bytes);
        let disk = executor.block_on(made(&executor, &setting));
        let files = executor.block_on(async {
            let volume = opened(&executor, &disk, 4 << 20).await;
            let mut files = Vec::new();
            for number in 0..self.files {
                let made = volume.create(volume.files.root(), &format!("f{number}")).await;
                let file = made.expect("there is room");
                let data = vec![1; self.size()];
                let written = volume.write(file, 0, data, Stability::FileSync).await;
                written.expect("there is room");
                files.push(file);
            }
            pin(&volume, "s").await.expect("there is room");
            fill(&volume).await;
            volume.files.shutdown().await.expect("nothing fails");
            files
        });
        (disk.contents(), files)
    }

    fn size(self) -> usize {
        self.blocks * (self.block_kib << 10) as usize
    }
}

/// Truncates all at once; the last block of each then gets another place, since the snapshot holds
/// it. Truncations that find no room find none when all is at rest again, either. Returns their
/// number.
fn without_room(many: Many, (image, files): &(Image, Vec<ObjectId>), seed: u64) -> usize {
    let executor = Executor::new(seed);
    let some = [(1_000, 5_000), (100_000, 500_000), (10_000, 2_000_000)][seed as usize % 3];
    let latency = Latency { read_ns: some, write_ns: some, flush_ns: some, ..Latency::default() };
    let options = Options { timing: Timing::Random(latency), ..Options::default() };
    let disk = Disk::with_options(&executor, image.clone(), options);
    let refused = executor.block_on(async {
        let cache_bytes = [16 << 10, 64 << 10, 4 << 20][seed as usize / 3 % 3];
        let volume = opened(&executor, &disk, cache_bytes).await;
        let (mut prng, clock) = (Prng::new(seed), executor.runtime().clock);
        let mut draw = |below: usize| prng.index(below) as u64;
        let all: Vec<(ObjectId, u64, u64)> =
            files.iter().map(|&file| (file, draw(many.size()), draw(3000))).collect();
        let shorter = all.iter().map(async |&(file, size, pause)| {
            clock.sleep(Duration::from_micros(pause)).await;
            (file, size, volume.resize(file, size).await)
        });
        let mut refused = 0;
        for (file, size, done) in join_all(shorter).await {
            if done.is_err() {
                assert_eq!(done, Err(FsError::NoSpace), "{many:?}, {seed}");
                let again = volume.resize(file, size).await;
                assert_eq!(again, done, "{many:?}, {seed}: it has room after all");
                refused += 1;
            }
        }
        volume.files.shutdown().await.expect("nothing fails");
        refused
    });
    assert_eq!(findings(&disk.contents()), Ok(()), "{many:?}, {seed}");
    refused
}

#[test]
fn none_of_many_files_that_become_shorter_at_once_is_refused_for_another() {
    let of = |block_kib, files, blocks, bytes| Many { block_kib, files, blocks, bytes };
    for many in [of(4, 30, 5, 4 << 20), of(16, 5, 300, 40 << 20), of(64, 10, 3, 13 << 20)] {
        let full = many.full();
        let refused: usize = (1..=9).map(|seed| without_room(many, &full, seed)).sum();
        assert_eq!(refused, 0, "{many:?}");
    }
    // There is not room for all of these.
    for many in [of(64, 16, 8, 16 << 20), of(16, 50, 4, 8 << 20)] {
        let full = many.full();
        let refused: usize = (1..=18).map(|seed| without_room(many, &full, seed)).sum();
        assert!((1..18 * many.files / 2).contains(&refused), "{refused} of {many:?}");
    }
}
