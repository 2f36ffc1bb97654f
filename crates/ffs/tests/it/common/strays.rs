//! Volumes of a shared log that are used apart for a while: one is repaired alone, one has a copy,
//! and one had the log alone.

use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;

use ffs::check_log::{LogUse, Prepared, prepare};
use ffs::{OpenError, OpenOptions};
use namespace::Namespace;
use sim::{Executor, Prng};
use vfs::{FileSystem, Requester};

use super::sharing::{Disks, Estate, all, make, open, with_a_chain};
use super::volume::{Volume, open_with_log};

/// Two volumes of a log after a crash, with a file on the second.
fn cut_off(prng: &mut Prng) -> Estate {
    let mut estate = Estate::new();
    let executor = Executor::new(3);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1]).await.expect("new");
        make(&volumes[1], 1).await;
    });
    estate.cut(&executor, &disks, prng);
    estate
}

/// One is replayed by itself, which is cut before its mark is cleared; then the other is served
/// without it, and then both.
pub(crate) fn repaired_alone() -> Result<(), String> {
    let mut prng = Prng::new(3);
    let mut estate = cut_off(&mut prng);
    let executor = Executor::new(4);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let home = prepared_alone(&executor, &disks, LogUse::Replay).await;
        home.expect("it was cut off");
    });
    estate.cut(&executor, &disks, &mut prng);
    for present in [vec![0], vec![0, 1]] {
        let executor = Executor::new(5);
        let disks = estate.disks(&executor);
        executor.block_on(async {
            let volumes = all(&executor, &disks, &present).await?;
            if let Some(volume) = volumes.get(1) {
                let found = volume.lookup(volume.files.root(), "file-1").await;
                found.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        })?;
        estate.cut(&executor, &disks, &mut prng);
    }
    Ok(())
}

/// A replay of one volume by itself is tried while a large file is being freed: this is refused,
/// and nothing is written, however often it is tried. Once all were served, the file is gone, and
/// the replay is possible.
pub(crate) fn large_file_repaired_alone(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let (mut estate, before, _) = with_a_chain(seed, &mut prng)?;
    let executor = Executor::new(seed);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let bytes = || [&disks.volumes[1], &disks.log].map(|disk| disk.contents().fingerprint());
        let as_cut = bytes();
        for _ in 0..2 {
            match prepared_alone(&executor, &disks, LogUse::Replay).await {
                Err(OpenError::LogChains) if bytes() == as_cut => {}
                other => return Err(format!("it was brought home alone: {other:?}")),
            }
        }
        let look = prepared_alone(&executor, &disks, LogUse::Look).await;
        match look.map_err(|error| format!("a look: {error}"))?.replayed {
            Some(replayed) if replayed.chains == 1 => {}
            other => return Err(format!("a look finds {other:?}")),
        }
        for volume in all(&executor, &disks, &[0, 1, 2]).await? {
            volume.settle().await;
            volume.files.shutdown().await.map_err(|error| format!("a stop: {error}"))?;
        }
        Ok(())
    })?;
    estate.cut(&executor, &disks, &mut prng);
    let executor = Executor::new(seed);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let prepared = prepared_alone(&executor, &disks, LogUse::Replay).await;
        let prepared = prepared.map_err(|error| format!("at rest: {error}"))?;
        if prepared.replayed.is_some() {
            return Err(format!("after a stop there is something to replay: {prepared:?}"));
        }
        let volume = all(&executor, &disks, &[0, 1, 2]).await?.swap_remove(1);
        let after = volume.space().await;
        if (after.free_bytes, after.free_files) == (before.free_bytes, before.free_files) {
            Ok(())
        } else {
            Err(format!("{after:?} is not {before:?}"))
        }
    })
}

/// The second volume, and its part of the log, as `duramen fsck` prepares it.
async fn prepared_alone(
    executor: &Executor,
    disks: &Disks,
    log_use: LogUse,
) -> Result<Prepared, OpenError> {
    let device: Rc<dyn BlockDevice> = disks.volumes[1].clone();
    let log: Rc<dyn BlockDevice> = disks.log.clone();
    prepare(&device, Some(&log), &executor.runtime(), log_use).await
}

/// A volume has the log alone, and power fails at any moment of a start; then the other one is
/// served with the log, and then both.
pub(crate) fn alone_before(seed: u64) -> Result<(), String> {
    let mut prng = Prng::new(seed);
    let mut estate = Estate::new();
    for (boot, made) in [false, true, false].into_iter().enumerate() {
        let executor = Executor::new(seed + boot as u64);
        let disks = estate.disks(&executor);
        executor.block_on(async {
            let volume = alone(&executor, &disks).await?;
            if made {
                make(&volume, 1).await;
            }
            Ok::<_, String>(())
        })?;
        let time = executor.now().0;
        for _ in 0..60 {
            let mut again = estate.clone();
            let executor = Executor::new(seed + boot as u64);
            let disks = again.disks(&executor);
            let until = Duration::from_nanos(prng.between(1, time));
            executor.block_on_for(until, alone(&executor, &disks));
            again.cut(&executor, &disks, &mut prng);
            both_after_one(&mut again, &mut prng, boot == 2)
                .map_err(|wrong| format!("boot {boot}, cut after {until:?}: {wrong}"))?;
        }
        estate.cut(&executor, &disks, &mut prng);
        both_after_one(&mut estate.clone(), &mut prng, boot >= 1)
            .map_err(|wrong| format!("boot {boot}, cut at its end: {wrong}"))?;
    }
    Ok(())
}

/// The second volume, with the log for itself.
async fn alone(executor: &Executor, disks: &Disks) -> Result<Volume, String> {
    let (device, log) = (disks.volumes[1].clone(), Some(disks.log.clone() as Rc<dyn BlockDevice>));
    let options = OpenOptions::default();
    let opened = open_with_log(device, log, executor.runtime(), &options, &mut |_| ()).await;
    let engine = opened.map_err(|error| error.to_string())?.files;
    Ok(Volume { files: Namespace::new(engine), root: Requester::root() })
}

/// The first is served without the second, and then with it, which still has its file.
fn both_after_one(estate: &mut Estate, prng: &mut Prng, has_file: bool) -> Result<(), String> {
    for present in [vec![0], vec![0, 1]] {
        let executor = Executor::new(9);
        let disks = estate.disks(&executor);
        executor.block_on(async {
            let volumes = all(&executor, &disks, &present).await?;
            if let (Some(volume), true) = (volumes.get(1), has_file) {
                let found = volume.lookup(volume.files.root(), "file-1").await;
                found.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(())
        })?;
        estate.cut(&executor, &disks, prng);
    }
    Ok(())
}

/// A volume is named together with its copy: neither is served, and the volume gets its changes
/// from the log when it is named alone.
pub(crate) fn named_with_its_copy() -> Result<(), String> {
    let mut prng = Prng::new(3);
    let mut estate = cut_off(&mut prng);
    estate.volumes[2] = estate.volumes[1].clone();
    let executor = Executor::new(4);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let opened = open(&executor, &disks, &[0, 2, 1]).await.expect("the log is fine");
        let is_twin = |index: usize| matches!(opened[index], Err(OpenError::LogTwin));
        assert!(opened[0].is_ok() && is_twin(1) && is_twin(2), "nobody can tell them apart");
    });
    estate.cut(&executor, &disks, &mut prng);
    let executor = Executor::new(5);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1]).await?;
        let volume = &volumes[1];
        let file = volume.lookup(volume.files.root(), "file-1").await;
        let file = file.map_err(|error| error.to_string())?;
        let data = volume.read(file).await.map_err(|error| error.to_string())?;
        assert_eq!(data, vec![7; 700]);
        volumes[0].files.shutdown().await.expect("stops");
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })
}

/// A volume was served twice since a copy of its disk was made, and crashed both times. The copy is
/// put in its place: the changes that it lacks are in no log any more, so it is refused; the disk
/// itself, put back, has everything.
pub(crate) fn replaced_by_a_copy() -> Result<(), String> {
    let mut prng = Prng::new(3);
    let mut estate = cut_off(&mut prng);
    let copy = estate.volumes[1].clone();
    let executor = Executor::new(4);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        all(&executor, &disks, &[0, 1]).await.expect("both come back");
    });
    estate.cut(&executor, &disks, &mut prng);
    let last = std::mem::replace(&mut estate.volumes[1], copy);
    let executor = Executor::new(5);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let opened = open(&executor, &disks, &[0, 1]).await.expect("the log is fine");
        assert!(opened[0].is_ok());
        match &opened[1] {
            Err(OpenError::LogForeign | OpenError::LogLeft) => Ok(()),
            Err(error) => Err(format!("the copy is refused otherwise: {error}")),
            Ok(_) => Err("a copy is served that lacks what was answered".to_owned()),
        }
    })?;
    estate.cut(&executor, &disks, &mut prng);
    estate.volumes[1] = last;
    let executor = Executor::new(6);
    let disks = estate.disks(&executor);
    executor.block_on(async {
        let volumes = all(&executor, &disks, &[0, 1]).await?;
        let file = volumes[1].lookup(volumes[1].files.root(), "file-1").await;
        file.map(drop).map_err(|error| error.to_string())
    })
}
