//! Updates that nothing has followed for a while: damage of their blocks then loses no acknowledged
//! change.

use std::time::Duration;

use sim::{Disk, Executor};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{LOOK, Setting, made, opened};
use crate::scrub::{UNIT, unit_of};

/// A server is killed a minute after its last reply; then any one block of metadata is lost.
pub(crate) fn quiet_updates_stay() -> Result<(), String> {
    stays_after(0)
}

/// The same where the last change comes with the look for quiet updates.
pub(crate) fn updates_beside_a_look_stay() -> Result<(), String> {
    (1..4).try_for_each(stays_after)
}

/// A file is made and written; or another one is made, and after so many looks for quiet updates
/// the file, empty.
fn stays_after(looks: u32) -> Result<(), String> {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let data = if looks == 0 { vec![7; 30_000] } else { Vec::new() };
    executor.block_on(async {
        let clock = executor.runtime().clock;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let begun = clock.now();
        if looks > 0 {
            volume.create(volume.files.root(), "other").await.expect("there is room");
            clock.sleep(looks * LOOK - clock.now().since(begun)).await;
        }
        let file = volume.create(volume.files.root(), "file").await.expect("there is room");
        if looks == 0 {
            let written = volume.write(file, 0, data.clone(), Stability::FileSync).await;
            written.expect("there is room");
        }
        clock.sleep(Duration::from_secs(60)).await;
    });
    let image = disk.contents();
    let is_metadata = |unit: &u64| unit_of(&image, *unit).starts_with(b"DuSh");
    for unit in (0..image.size() / UNIT).filter(is_metadata) {
        let mut wrong = image.clone();
        wrong.write(unit * UNIT, &[0; UNIT as usize]);
        let executor = Executor::new(2);
        let disk = Disk::new(&executor, wrong);
        let read = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            let found = volume.lookup(volume.files.root(), "file").await;
            Ok::<_, String>(match found {
                Ok(file) => volume.read(file).await,
                Err(error) => Err(error),
            })
        });
        match read {
            Ok(Ok(read)) if read != data => {
                return Err(format!("unit {unit}: the file has other bytes"));
            }
            Ok(Err(FsError::NoEntry)) => return Err(format!("unit {unit}: there is no file")),
            Ok(_) | Err(_) => {} // an error is not a wrong reply
        }
    }
    Ok(())
}

#[test]
fn no_change_beside_a_look_is_given_up() {
    assert_eq!(updates_beside_a_look_stay(), Ok(()));
}

#[test]
fn no_damaged_block_gives_up_an_update_that_has_stood_for_a_while() {
    assert_eq!(quiet_updates_stay(), Ok(()));
}
