//! `duramen fsck --repair` of a volume whose log holds an interrupted truncation: the repair is cut
//! at every event, and followed by a start, or by another repair.

use std::rc::Rc;

use block::BlockDevice;
use block::scratch::ScratchDevice;
use ffs::check_log::{LogUse, prepare};
use fsck::{CheckError, CheckOptions, Invariant, Report, check};
use runtime::Runtime;
use sim::{Disk, Image};
use vfs::{CallOutcome, FileSystem};

use super::calls::{SHORT, cut_short, size_and_answer};
use super::cutting::{Pair, after_cut, every_cut, random_cuts};
use super::own_findings;
use super::volume::try_open_pair;

fn devices(disks: &Pair<Rc<Disk>>) -> (Rc<dyn BlockDevice>, Rc<dyn BlockDevice>) {
    (disks.home.clone(), disks.log.clone().expect("it has one"))
}

/// The disks of a volume whose log holds an interrupted truncation.
pub(crate) fn with_a_chain(seed: u64) -> (Pair<Image>, CallOutcome) {
    let (traces, answer) = cut_short(seed);
    let is_open = |images: &Pair<Image>| {
        let (executor, disks) = after_cut(seed, images.clone());
        let (home, log) = devices(&disks);
        let home: Rc<dyn BlockDevice> = Rc::new(ScratchDevice::new(home));
        let runtime = executor.runtime();
        let prepared = executor.block_on(prepare(&home, Some(&log), &runtime, LogUse::Look));
        prepared.expect("it is whole").replayed.is_some_and(|replayed| replayed.chains > 0)
    };
    let cuts = random_cuts(&traces, seed, 40);
    let mut left = cuts.iter().map(|cut| cut.image().expect("it comes back"));
    (left.find(is_open).expect("some cut meets it"), answer)
}

/// The effect of `duramen fsck --repair`.
pub(crate) async fn fsck(disks: &Pair<Rc<Disk>>, runtime: &Runtime) -> Result<Report, String> {
    let home: Rc<dyn BlockDevice> = disks.home.clone();
    let log = disks.log.clone().map(|log| log as Rc<dyn BlockDevice>);
    let prepared = prepare(&home, log.as_ref(), runtime, LogUse::Replay).await;
    let state = prepared.map_err(|error| error.to_string())?.state;
    let options = CheckOptions { repair: true, log: state, ..CheckOptions::default() };
    let report = check(&*home, runtime, &options, &mut |_| ()).await;
    report.map_err(|error| error.to_string())
}

/// Whether the file and its remembered answer agree, after a start and after the next one.
fn agreeing(images: Pair<Image>, answer: &CallOutcome, seed: u64) -> Result<(), String> {
    let mut images = images;
    for boot in 1..=2 {
        let (executor, disks) = after_cut(seed, images);
        let seen = executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.map_err(|error| error.to_string())?.0;
            let (size, held) = size_and_answer(&volume).await?;
            volume.files.shutdown().await.map_err(|error| error.to_string())?;
            Ok::<_, String>((size, held.first().map(|remembered| remembered.answered.outcome)))
        });
        match seen.map_err(|error| format!("boot {boot}: {error}"))? {
            (SHORT, Some(done)) if done == *answer || done == CallOutcome::default() => {}
            seen => return Err(format!("boot {boot}: {seen:?}")),
        }
        let (executor, stopped) = after_cut(seed, disks.home.contents());
        let found = executor.block_on(own_findings(&*stopped.home, &executor.runtime()));
        if !found.is_empty() {
            return Err(found);
        }
        images = disks.map(|disk| disk.contents());
    }
    Ok(())
}

/// A repair finishes the truncation, and is cut at every event: afterwards the file has its final
/// size, and the caller its answer.
pub(crate) fn repairs_that_are_cut(seed: u64) -> Result<(), String> {
    let (images, answer) = with_a_chain(seed);
    let (executor, disks) = after_cut(seed, images);
    disks.map(|disk| disk.start_trace());
    executor.block_on(fsck(&disks, &executor.runtime()))?;
    let traces = disks.map(|disk| disk.trace());
    agreeing(disks.map(|disk| disk.contents()), &answer, seed)?;
    for cut in every_cut(&traces, seed) {
        let wrong = |wrong| format!("{}: {wrong}", cut.label());
        agreeing(cut.left(), &answer, cut.seed).map_err(wrong)?;
        let (executor, disks) = after_cut(cut.seed, cut.left());
        executor.block_on(fsck(&disks, &executor.runtime())).map_err(wrong)?;
        agreeing(disks.map(|disk| disk.contents()), &answer, cut.seed).map_err(wrong)?;
    }
    Ok(())
}

/// A start continues the truncation, and is asked at once to stop.
pub(crate) fn stop_in_the_middle(seed: u64) -> Result<(), String> {
    let (images, answer) = with_a_chain(seed);
    let (executor, disks) = after_cut(seed, images);
    executor.block_on(async {
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.map_err(|error| error.to_string())?.0;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    agreeing(disks.map(|disk| disk.contents()), &answer, seed)
}

/// A check of a volume whose log is missing reports that, and does not repair the volume.
pub(crate) fn repair_without_a_log(seed: u64) -> Result<(), String> {
    let (images, _) = with_a_chain(seed);
    let before = images.home.fingerprint();
    let (executor, disks) = after_cut(seed, images);
    let (runtime, home) = (executor.runtime(), disks.home.clone());
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    match executor.block_on(check(&*home, &runtime, &options, &mut |_| ())) {
        Err(CheckError::LogMissing) => {}
        other => return Err(format!("it was repaired: {other:?}")),
    }
    let look = CheckOptions::default();
    let report = executor.block_on(check(&*home, &runtime, &look, &mut |_| ()));
    let report = report.map_err(|error| error.to_string())?;
    let is_told = report.findings.count(Invariant::LogHome) == 1;
    if is_told && report.findings.unrepairable && home.contents().fingerprint() == before {
        Ok(())
    } else {
        Err(format!("{:?}", report.findings))
    }
}
