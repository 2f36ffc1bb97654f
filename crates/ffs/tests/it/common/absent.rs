//! Volumes that share a log, one of which is absent or has stopped.

use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use futures::future::join_all;
use sim::{Executor, Persistence, Prng};
use vfs::{CallKey, FileSystem, Requester, SetAttributes};

use super::sharing::{Estate, all, make};
use super::volume::{Volume, name};

/// Makes a call that must be remembered for as long as the key is held.
async fn remembered(volume: &Volume, number: u8) -> Rc<CallKey> {
    let key = Rc::new(CallKey::new(&[1, number]).expect("two bytes"));
    let requester = Requester { call: Some(key.clone()), ..Requester::root() };
    let mode = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let (root, name) = (volume.files.root(), name(&format!("directory-{number}")));
    let _ = volume.files.mkdir(&requester, root, &name, mode).await.open().await;
    key
}

/// A volume is recovered from its saved log while the other one is absent, and power fails at any
/// moment: the other one has everything that was acknowledged.
///
/// # Errors
/// The first state that differs from the acknowledged one.
pub(crate) fn saved_and_absent(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let mut estate = Estate::new();
    let executor = Executor::new(seed);
    let disks = estate.disks(&executor);
    let _keys = executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1]).await?;
        Ok::<_, String>(join_all((0..3).map(|number| remembered(&volumes[1], number))).await)
    })?;
    estate.cut(&executor, &disks, &mut prng);
    let executor = Executor::new(seed + 100);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let volumes = all(&executor, &disks, &[0]).await?;
        join_all((0..5).map(|number| make(&volumes[0], number))).await;
        Ok::<_, String>(())
    })?;
    estate.cut(&executor, &disks, &mut prng);
    let executor = Executor::new(seed + 200);
    let disks = estate.disks(&executor);
    executor.block_on(all(&executor, &disks, &[1]))?;
    let time = executor.now().0;
    for _ in 0..150 {
        let mut again = estate.clone();
        let executor = Executor::new(seed + 200);
        let disks = again.disks(&executor);
        let until = Duration::from_nanos(prng.between(1, time));
        executor.block_on_for(until, all(&executor, &disks, &[1]));
        again.cut(&executor, &disks, &mut prng);
        let executor = Executor::new(seed + 300);
        let disks = again.disks(&executor);
        let whole = executor.block_on(async {
            let volumes = all(&executor, &disks, &[0, 1]).await?;
            let root = volumes[0].files.root();
            for number in 0..5 {
                let found = volumes[0].lookup(root, &format!("file-{number}")).await;
                found.map_err(|error| format!("file-{number}: {error}"))?;
            }
            Ok::<_, String>(())
        });
        whole.map_err(|wrong| format!("seed {seed}, cut after {until:?}: {wrong}"))?;
    }
    Ok(())
}

/// A volume stops, and its part of the log cannot be saved anywhere, so that the other volume fills
/// the log and waits. Both come back, with their remembered answers.
///
/// # Errors
/// The first state that differs from the acknowledged one.
pub(crate) fn full_and_nowhere_to_save(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let mut estate = Estate::new();
    let executor = Executor::new(seed);
    let disks = estate.disks(&executor);
    disks.spare.borrow_mut().clear();
    let ended = executor.block_on_for(Duration::from_secs(20), async {
        let volumes = all(&executor, &disks, &[0, 1]).await.expect("they are new");
        join_all((900..903).map(|number| make(&volumes[0], number))).await;
        disks.volumes[1].fail(Verb::Flush, 1, Persistence::Forever);
        let _keys = join_all((0..3).map(|number| remembered(&volumes[1], number))).await;
        for number in 0..800 {
            make(&volumes[0], number).await;
        }
    });
    assert!(ended.is_none(), "it waits for room");
    estate.cut(&executor, &disks, &mut prng);
    let executor = Executor::new(seed + 100);
    let disks = estate.disks(&executor);
    let opened = executor.block_on_for(Duration::from_secs(600), all(&executor, &disks, &[0, 1]));
    let volumes = opened.ok_or("they do not come back")??;
    let found = volumes[0].lookup(volumes[0].files.root(), "file-902");
    executor.block_on(found).map_err(|error| format!("file-902: {error}"))?;
    Ok(())
}
