//! Updates that nothing has followed for a while: damage of their blocks then loses no acknowledged
//! change.

use std::time::Duration;

use sim::{Disk, Executor};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, made, opened};
use crate::scrub::{UNIT, unit_of};

/// A server is killed a minute after its last reply; then any one block of metadata is lost.
pub(crate) fn quiet_updates_stay() -> Result<(), String> {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let file = volume.create(volume.files.root(), "file").await.expect("there is room");
        let written = volume.write(file, 0, vec![7; 30_000], Stability::FileSync).await;
        written.expect("there is room");
        executor.runtime().clock.sleep(Duration::from_secs(60)).await;
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
            Ok(Ok(data)) if data != [7; 30_000] => {
                return Err(format!("unit {unit}: the file has other bytes"));
            }
            Ok(Err(FsError::NoEntry)) => return Err(format!("unit {unit}: there is no file")),
            Ok(_) | Err(_) => {} // an error is not a wrong reply
        }
    }
    Ok(())
}

#[test]
fn no_damaged_block_gives_up_an_update_that_has_stood_for_a_while() {
    assert_eq!(quiet_updates_stay(), Ok(()));
}
