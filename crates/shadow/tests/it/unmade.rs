//! Making snapshots of a volume under constant load, of one without room below, and of one with a
//! rotten list.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use block::Verb;
use cow::format::head::index;
use cow::{Kind, UNIT};
use enginekit::Volume;
use enginekit::random::Seeded;
use enginekit::snapshots::{delete, pin as make};
use futures::future::{Either, join, join_all, select};
use runtime::Random;
use shadow::Shadow;
use sim::{Disk, Effect, Executor, Fault, Image};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, findings, made, opened, told};
use crate::repair::repaired;
use crate::scrub::unit_of;

/// A snapshot is refused if nothing can become durable, whatever has to be folded.
pub(crate) fn snapshots_wait_for_no_room_below() -> Result<(), String> {
    for count in 1..=20 {
        let executor = Executor::new(count);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 2 << 20)));
        let told = executor.block_on_for(Duration::from_secs(60), async {
            let volume = opened(executor.runtime(), &disk).await?;
            for number in 0..count {
                let name = format!("f{number}");
                volume.create(volume.files.root(), &name).await.map_err(told)?;
            }
            disk.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
            let refused = volume.create(volume.files.root(), "refused").await;
            let made = make(&volume, "one").await;
            if refused.is_err() && made.is_err() { Ok(()) } else { Err(format!("{made:?}")) }
        });
        told.ok_or_else(|| format!("after {count} it waits"))??;
    }
    Ok(())
}

#[test]
fn snapshots_are_refused_where_there_is_no_room_below() {
    assert_eq!(snapshots_wait_for_no_room_below(), Ok(()));
}

/// Number of snapshots made, some of which need a fold.
const SNAPSHOTS: u64 = 80;
/// Longest time to make a snapshot.
const LONGEST: Duration = Duration::from_secs(1);

/// Writers write as fast as they can, while snapshots are made and deleted.
fn made_beside(writers: usize, bytes: u64) -> Result<(), String> {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, bytes)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let clock = executor.runtime().clock;
        let has_ended = Cell::new(false);
        let write = async |number: usize| {
            let file = volume.create(volume.files.root(), &format!("w{number}")).await?;
            for at in 0.. {
                if has_ended.get() {
                    break;
                }
                let data = vec![at as u8; 4096];
                volume.write(file, at % 4 * 4096, data, Stability::FileSync).await?;
            }
            Ok::<_, FsError>(())
        };
        let snapshots = async {
            let chance = Seeded::new(9);
            for number in 0..SNAPSHOTS {
                clock.sleep(Duration::from_micros(chance.next_u64() % 20_000)).await;
                let name = format!("s{number}");
                let snapshot = pin!(make(&volume, &name));
                match select(snapshot, clock.sleep(LONGEST)).await {
                    Either::Left((made, _)) => made.map_err(|error| error.to_string())?,
                    Either::Right(_) => return Err(format!("{name} waits")),
                };
                delete(&volume, &name, true).await.map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        let snapshots = async {
            let made = snapshots.await;
            has_ended.set(true);
            made
        };
        // Writers come first: they hear of the end of an update before a snapshot does.
        let (written, made) = join(join_all((0..writers).map(write)), snapshots).await;
        written.into_iter().collect::<Result<Vec<()>, _>>().map_err(|error| error.to_string())?;
        made
    })
}

/// Busy clients do not keep a snapshot from being made.
#[test]
fn snapshots_are_made_beside_busy_callers() {
    assert_eq!(made_beside(1, 24 << 20), Ok(()));
    assert_eq!(made_beside(4, 2 << 20), Ok(()));
}

/// Uses a volume, and stops it.
fn used(image: &Image, work: impl AsyncFnOnce(&Volume<Shadow>) -> Result<(), String>) -> Image {
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it opens");
        work(&volume).await.expect("there is room");
        volume.files.shutdown().await.expect("a clean stop");
    });
    disk.contents()
}

/// Overwrites every other block of a file, one by one.
async fn riddle(volume: &Volume<Shadow>, name: &str, value: u8) -> Result<(), String> {
    let file = volume.lookup(volume.files.root(), name).await.map_err(told)?;
    for block in (0..900).step_by(2) {
        let data = vec![value; 4096];
        volume.write(file, block * 4096, data, Stability::FileSync).await.map_err(told)?;
    }
    Ok(())
}

/// Makes three files of 900 blocks.
async fn three_files(volume: &Volume<Shadow>) -> Result<(), String> {
    for name in ["f0", "f1", "f2"] {
        let file = volume.create(volume.files.root(), name).await.map_err(told)?;
        let data = vec![1; 900 * 4096];
        volume.write(file, 0, data, Stability::FileSync).await.map_err(told)?;
    }
    Ok(())
}

/// The unit of the last block of the only list.
fn last_of_list(image: &Image) -> u64 {
    let is_of_list = |unit: &u64| {
        let bytes = unit_of(image, *unit);
        bytes.starts_with(b"DuSh") && bytes[6] == Kind::DIED.byte()
    };
    let of_lists = (32..image.size() / UNIT as u64 - 2).filter(is_of_list);
    of_lists.max_by_key(|&unit| index(&unit_of(image, unit))).expect("there are some")
}

/// A volume with a snapshot, and a list of several blocks of its runs, of which the last has
/// rotted; and then more blocks have died.
fn rotten() -> Image {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 32 << 20)));
    let image = used(&disk.contents(), async |volume| {
        three_files(volume).await?;
        make(volume, "one").await?;
        riddle(volume, "f0", 2).await?;
        riddle(volume, "f1", 2).await
    });
    let last = last_of_list(&image);
    assert!(index(&unit_of(&image, last)) > 0, "a list has several blocks");
    let mut rotten = image.clone();
    rotten.write(last * UNIT as u64 + 300, &[unit_of(&image, last)[300] ^ 4]);
    assert!(findings(&rotten).is_err());
    used(&rotten, async |volume| riddle(volume, "f2", 3).await)
}

/// The remains of a rotten list do not get in the way of other lists.
pub(crate) fn lists_grow_after_one_has_rotted() -> Result<(), String> {
    let image = used(&rotten(), async |volume| {
        delete(volume, "one", true).await?;
        make(volume, "two").await?;
        for (name, value) in [("f0", 4), ("f1", 5), ("f2", 6), ("f0", 7)] {
            riddle(volume, name, value).await?;
        }
        delete(volume, "two", true).await.map(drop)
    });
    findings(&repaired(&image)?.0)
}

#[test]
fn a_list_that_has_rotted_is_in_nobodys_way() {
    assert_eq!(lists_grow_after_one_has_rotted(), Ok(()));
}

/// The device cannot read the last block of a list that grows: the volume goes on, over a stop and
/// a start, and when the block can be read again nothing is lost.
pub(crate) fn lists_grow_behind_a_block_that_is_not_read() -> Result<(), String> {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 32 << 20)));
    let image = used(&disk.contents(), async |volume| {
        three_files(volume).await?;
        make(volume, "one").await?;
        riddle(volume, "f0", 2).await
    });
    let last = last_of_list(&image);
    let mut image = image;
    for (name, value) in [("f1", 3), ("f2", 4)] {
        let executor = Executor::new(4);
        let disk = Disk::new(&executor, image);
        let at = last * UNIT as u64;
        let unread = Fault::on(Verb::Read, Effect::Eio).within(at..at + UNIT as u64);
        disk.inject(unread.forever());
        let used = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            riddle(&volume, name, value).await?;
            volume.files.shutdown().await.map_err(told)
        });
        used?;
        image = disk.contents();
    }
    findings(&image)?;
    let image = used(&image, async |volume| delete(volume, "one", true).await.map(drop));
    findings(&image)
}

#[test]
fn a_block_of_a_list_that_is_not_read_ends_no_volume() {
    assert_eq!(lists_grow_behind_a_block_that_is_not_read(), Ok(()));
}

/// A block of pointers to the blocks of lists has rotted: new runs go to places elsewhere, and the
/// volume goes on.
pub(crate) fn lists_grow_without_a_block_of_pointers() -> Result<(), String> {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 64 << 20)));
    let image = used(&disk.contents(), async |volume| {
        three_files(volume).await?;
        for (name, value) in [("one", 2), ("two", 3), ("three", 4)] {
            make(volume, name).await?;
            for file in ["f0", "f1", "f2"] {
                riddle(volume, file, value).await?;
            }
        }
        Ok(())
    });
    let is_above_lists = |unit: &u64| {
        let bytes = unit_of(&image, *unit);
        bytes.starts_with(b"DuSh") && bytes[6] == Kind::POINTERS.byte() && bytes[8] == 6
    };
    let above: Vec<u64> = (32..image.size() / UNIT as u64 - 2).filter(is_above_lists).collect();
    assert!(!above.is_empty(), "a list has many blocks");
    let mut rotten = image.clone();
    above.iter().for_each(|unit| rotten.write(unit * UNIT as u64 + 1077, &[0x5a]));
    let image = used(&rotten, async |volume| {
        for (name, value) in [("four", 5), ("five", 6)] {
            make(volume, name).await?;
            riddle(volume, "f0", value).await?;
        }
        Ok(())
    });
    let image = used(&image, async |volume| {
        for name in ["two", "four", "one", "five", "three"] {
            delete(volume, name, true).await?;
        }
        riddle(volume, "f1", 7).await
    });
    findings(&repaired(&image)?.0)
}

#[test]
fn a_block_above_the_lists_may_rot() {
    assert_eq!(lists_grow_without_a_block_of_pointers(), Ok(()));
}
