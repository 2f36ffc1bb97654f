//! Zeros in small logs: any number of them fits into an entry, with a record each. And no Update
//! asks a log for more room than it ever has, whatever is written.

use std::time::Duration;

use block::Verb;
use futures::future::{Either, select};
use proptest::prelude::*;
use sim::{Effect, Fault};
use std::pin::pin;
use vfs::{FileSystem, Stability};

use crate::common::quiet::Quiet;

const MEBIBYTE: u64 = 1 << 20;

/// Data to write.
#[derive(Clone, Debug)]
struct Data {
    length: u64,
    /// Length of a stretch of equal bytes, and whether all stretches are zeros, some, or none.
    stretch: u64,
    kind: u8,
    stability: Stability,
    /// Gap between the end of a piece and the next one.
    gap: u64,
}

/// Writes the data to a new file, in pieces of 1 MiB, and commits; then cuts the file short.
/// Returns an error if any of that never ends.
fn is_written(log: u64, (block, fragment): (u64, u64), data: &Data) -> Result<(), String> {
    let quiet = Quiet::new(128 << 20, Some(log));
    let clock = quiet.executor.runtime().clock;
    quiet.executor.block_on(async {
        let volume = quiet.make((block, fragment)).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let work = async {
            let (mut at, mut left) = (0, data.length);
            while left > 0 {
                let length = left.min(MEBIBYTE);
                let byte = |at: u64| match data.kind {
                    0 => 0,
                    1 => (at / data.stretch % 2) as u8,
                    _ => 7,
                };
                let piece = (at..at + length).map(byte).collect();
                volume.write(id, at, piece, data.stability).await.expect("room");
                at += length + data.gap;
                left -= length;
            }
            volume.commit(id).await.expect("it can be written");
            volume.resize(id, data.length / 3).await.expect("shorter");
            volume.files.shutdown().await.expect("it stops");
        };
        match select(pin!(work), clock.sleep(Duration::from_secs(600))).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err("nothing moves any more".to_owned()),
        }
    })
}

fn zeros_in_the_smallest_log() -> Result<(), String> {
    let zeros =
        |length| Data { length, stretch: 1, kind: 0, stability: Stability::Unstable, gap: 0 };
    is_written(2 * MEBIBYTE, (32_768, 4096), &zeros(2 * MEBIBYTE))?;
    is_written(4 * MEBIBYTE, (32_768, 4096), &zeros(4 * MEBIBYTE))?;
    is_written(journal::format::SMALLEST, (65_536, 8192), &zeros(24 * MEBIBYTE))
}

#[test]
fn zeros_that_exceed_a_small_log_are_written() {
    assert_eq!(zeros_in_the_smallest_log(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn room_that_is_set_aside_for_zeros_as_for_data_is_found() {
    use crate::common::quiet::finds;
    assert!(finds(ffs::planted::Bug::HeavyZeros, zeros_in_the_smallest_log));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn no_room_is_asked_for_that_an_empty_log_has_not(
        log in prop::sample::select(vec![journal::format::SMALLEST, 2 << 20, 3 << 20, 8 << 20]),
        sizes in prop::sample::select(vec![
            (4096, 512), (4096, 4096), (8192, 1024), (16_384, 2048), (32_768, 4096), (65_536, 8192),
        ]),
        length in 1..6 * MEBIBYTE,
        stretch in prop::sample::select(vec![1, 33, 512, 4096, 5000, 65_536]),
        kind in 0..3_u8,
        stability in prop::sample::select(vec![Stability::Unstable, Stability::FileSync]),
        gap in prop::sample::select(vec![0, 100, 5000, 70_000, 40 << 20]),
    ) {
        let data = Data { length, stretch, kind, stability, gap };
        prop_assert_eq!(is_written(log, sizes, &data), Ok(()));
    }
}

/// Blocks as far apart as possible: each needs indirect blocks of its own.
#[test]
fn the_scattered_blocks_of_a_landing_fit_into_an_entry() {
    let quiet = Quiet::new(64 << 20, Some(journal::format::SMALLEST));
    quiet.executor.block_on(async {
        let volume = quiet.make((4096, 512)).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let distance = 512 * 512 * 4096;
        for number in 0..300 {
            let mut data = vec![0; 200];
            data[..100].fill(9);
            let at = number * distance + 5;
            volume.write(id, at, data, Stability::Unstable).await.expect("room");
        }
        volume.commit(id).await.expect("it can be written");
        volume.resize(id, 5).await.expect("shorter");
        volume.files.shutdown().await.expect("it stops");
    });
}

/// Blocks of 64 KiB have enough pointers to fill an entry: a file ends in a hole just before the
/// pointers that are cleared.
#[test]
fn pointers_that_are_cleared_beside_one_that_is_set_fit_into_an_entry() {
    let quiet = Quiet::new(64 << 20, Some(2 << 20));
    quiet.executor.block_on(async {
        let block = 65_536;
        let volume = quiet.make((block, 8192)).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        for lbn in [0, 13, 12 + 8191] {
            let written = volume.write(id, lbn * block, vec![1; 100], Stability::FileSync).await;
            written.expect("room");
        }
        volume.resize(id, 12 * block + 10).await.expect("shorter");
        assert_eq!(volume.attributes(id).await.size, 12 * block + 10);
        volume.files.shutdown().await.expect("it stops");
    });
}

#[test]
fn who_waits_long_for_room_is_counted() {
    let quiet = Quiet::new(64 << 20, Some(journal::format::SMALLEST));
    let clock = quiet.executor.runtime().clock;
    quiet.executor.block_on(async {
        let volume = quiet.make((4096, 512)).await;
        let waits =
            || volume.files.store().engine().log_statistics().expect("there is a log").long_waits;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let slow = Effect::Slow(Duration::from_secs(25));
        quiet.disks.home.inject(Fault::on(Verb::Flush, slow).forever());
        let start = clock.now();
        for number in 0..200 {
            let data = vec![number as u8 + 1; 8192];
            volume.write(id, number * 8192, data, Stability::FileSync).await.expect("room");
        }
        assert!(clock.now().since(start) > Duration::from_secs(20), "nobody waited");
        assert!(waits() > 0, "and nobody says so");
        quiet.disks.home.heal();
        volume.settle().await;
        let before = waits();
        for number in 0..200 {
            let data = vec![number as u8 + 2; 8192];
            volume.write(id, number * 8192, data, Stability::FileSync).await.expect("room");
        }
        assert_eq!(waits(), before, "room that comes at once is nothing to tell");
    });
}
