//! A volume that is filled takes as much data as it reported free.

use std::time::Duration;

use enginekit::Volume;
use enginekit::snapshots::pin;
use shadow::{MkfsOptions, Shadow};
use sim::Options;
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::bench::undisturbed;

const MIB: u64 = 1 << 20;
/// Size of most of the files that fill it; as many have a quarter of it.
const LARGE: u64 = 8 * MIB;

/// Writes that find no room are retried in smaller calls, down to this.
const SMALLEST: u64 = 4 << 10;

/// The calls that fill a volume.
#[derive(Clone, Copy, Debug)]
enum Calls {
    /// 8 KiB, each of them durable.
    Small,
    /// 1 MiB, and a COMMIT after each file.
    Large,
}

impl Calls {
    fn bytes(self) -> u64 {
        match self {
            Self::Small => 8 << 10,
            Self::Large => MIB,
        }
    }

    fn stability(self) -> Stability {
        match self {
            Self::Small => Stability::FileSync,
            Self::Large => Stability::Unstable,
        }
    }
}

/// Writes a file of `bytes` bytes. Returns the bytes written; fewer if there is no room for the
/// smallest part.
async fn write(volume: &Volume<Shadow>, file: ObjectId, bytes: u64, calls: Calls) -> u64 {
    let (mut written, mut length) = (0, calls.bytes());
    while written < bytes && length >= SMALLEST {
        let data = vec![7; length as usize];
        match volume.write(file, written, data, calls.stability()).await {
            Ok(()) => written += length,
            Err(FsError::NoSpace) => length /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    volume.commit(file).await.expect("what was taken has room");
    written
}

/// Fills the volume with files. Returns the bytes written.
async fn fill(volume: &Volume<Shadow>, calls: Calls) -> u64 {
    let (root, mut all) = (volume.files.root(), 0);
    for number in 0.. {
        let bytes = [LARGE, LARGE / 4][number % 2];
        let file = match volume.create(root, &format!("f{number}")).await {
            Err(FsError::NoSpace) => break,
            made => made.expect("there is room"),
        };
        let written = write(volume, file, bytes, calls).await;
        all += written;
        if written < bytes {
            break;
        }
    }
    all
}

/// Bytes written beyond those that the volume reported free, negative if fewer; and its size.
fn error_of(block: u64, size: u64, calls: Calls, is_held: bool) -> (i64, u64) {
    let made = MkfsOptions { block_size: block, ..MkfsOptions::default() };
    let (executor, _, volume) = undisturbed(Options::default(), &made, size);
    executor.block_on(async {
        if is_held {
            let file = volume.create(volume.files.root(), "held").await.expect("there is room");
            assert_eq!(write(&volume, file, size / 4, calls).await, size / 4);
            pin(&volume, "one").await.expect("there is room");
            volume.remove(volume.files.root(), "held").await.expect("it is there");
            volume.settle().await;
            executor.runtime().clock.sleep(Duration::from_secs(1)).await;
        }
        let before = volume.space().await;
        let written = fill(&volume, calls).await;
        println!("{block}, {calls:?}, {is_held}: {} said, {written} in", before.available_bytes);
        (written as i64 - before.available_bytes as i64, before.total_bytes)
    })
}

#[test]
fn as_much_goes_in_as_was_free_within_a_hundredth() {
    let mut wrong = Vec::new();
    for (block, size) in [(4 << 10, 64 * MIB), (8 << 10, 64 * MIB), (16 << 10, 128 * MIB)] {
        for calls in [Calls::Small, Calls::Large] {
            for is_held in [false, true] {
                let (error, total) = error_of(block, size, calls, is_held);
                if error.unsigned_abs() * 100 > total {
                    let (setting, error) = (format!("{block}, {calls:?}, {is_held}"), error >> 10);
                    wrong.push(format!("{setting}: {error} KiB of {} KiB", total >> 10));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
