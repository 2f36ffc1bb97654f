//! The scenes: each is made once, by a server that is abandoned or stopped. The state after its
//! recovery without a cut is the one that every later recovery must show.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use designs::LogOptions;
use futures::future::join_all;
use journal::format::SMALLEST;
use sim::Executor;
use vfs::{Requester, SetAttributes, Stability};

use super::super::design::Design;
use super::super::disks::{Disks, Images};
use super::super::driver::Driver;
use super::super::model::What;
use super::super::ram::Ram;
use super::known::{BEFORE, Known, LONG, Progress, SECTORS, WORK};
use super::look::Served;
use super::place::Place;
use super::way::{Way, caller, shorten};

/// A volume, and its expected state.
pub struct Scene {
    /// The design that serves it first.
    pub design: Design,
    /// The name of the scene in a line.
    pub name: &'static str,
    /// Its disks.
    pub place: Place,
    /// The state that must be found.
    pub known: Known,
}

/// A chain with no answer in the log.
pub const QUIET_CHAIN: &str = "quiet-chain";
/// Many answers, at the end of the circular log.
pub const ANSWERS: &str = "answers";
/// The names of all scenes.
pub const NAMES: &[&str] =
    &["clean", "used", "rest", "circle", "long", "chain", QUIET_CHAIN, ANSWERS];

/// A log with 8 segments of answers, more than the first step of its search reads.
const LARGE_LOG: u64 = 8 << 20;
/// Answers that almost fill them.
const MANY: usize = 1_900;
/// A file whose answers are kept, and one whose writes fill the log.
const KEPT: &str = "kept";
const TURN: &str = "turn";
/// The seed of the world in which scenes are made.
const SEED: u64 = 11;

/// Whether a scene exists under a policy.
pub fn is_of(name: &str, design: Design) -> bool {
    if design.has_log() {
        return name != "clean";
    }
    design.has_disks() && matches!(name, "clean" | "used")
}

/// The first ways of a scene.
pub fn ways_of(name: &str) -> &'static [Way] {
    match name {
        "clean" => &[Way::Work, Way::TuneLog],
        "rest" => &[Way::Serve, Way::Repair, Way::TuneSync, Way::Grow],
        "long" => &[Way::Shorten],
        QUIET_CHAIN => &[Way::Work, Way::Repair],
        ANSWERS => &[Way::Serve],
        _ => &[Way::Serve, Way::Work, Way::Stop, Way::Repair],
    }
}

fn sizes(design: Design, name: &str) -> Vec<u64> {
    let volume = match name {
        "long" | "chain" | QUIET_CHAIN => 8 << 20,
        _ => 1 << 20,
    };
    let log = if name == ANSWERS { LARGE_LOG } else { SMALLEST };
    design.sizes(volume, log)
}

/// A server that makes a scene.
struct Maker {
    design: Design,
    executor: Executor,
    disks: Disks,
    /// The users whose calls are remembered.
    callers: Vec<Requester>,
}

/// Options of a log that is not synced.
fn without_sync() -> LogOptions {
    let sync_interval = Duration::from_secs(3_600);
    LogOptions { sync_interval, sync_bytes: LARGE_LOG, ..LogOptions::default() }
}

impl Scene {
    /// Makes the scene with this name.
    ///
    /// # Errors
    /// When there is none, or its state is not what the scene is for.
    pub fn new(design: Design, name: &str) -> Result<Self, String> {
        let known_name = NAMES.iter().find(|one| **one == name && is_of(name, design));
        let name = *known_name.ok_or_else(|| format!("there is no scene '{name}'"))?;
        let executor = Executor::new(SEED);
        let disks = design.format_sized(&executor, &sizes(design, name));
        let mut maker = Maker { design, executor, disks, callers: Vec::new() };
        let images = maker.make(name)?;
        let known = maker.known(name, &images)?;
        Ok(Self { design, name, place: Place::new(design, &images), known })
    }
}

impl Maker {
    fn make(&mut self, name: &str) -> Result<Images, String> {
        let Self { design, executor, disks, callers } = self;
        let answers = match name {
            QUIET_CHAIN => 0,
            ANSWERS => MANY,
            _ => 12,
        };
        executor.block_on(async {
            let devices = disks.devices();
            let opened = design.open_with(devices, executor.runtime(), without_sync()).await;
            let opened = opened.map_err(|error| error.to_string())?;
            let served = Served::new(opened).await?;
            prepare(&served.driver).await?;
            if name == "circle" {
                fill_log(&served, SMALLEST + SMALLEST / 2).await?;
            } else if name == ANSWERS {
                fill_log(&served, LARGE_LOG / 2).await?;
            }
            if matches!(name, "long" | "chain" | QUIET_CHAIN) {
                lengthen(&served).await?;
            }
            settle(&served).await?;
            answer(&served, answers, callers).await?;
            if name == ANSWERS {
                fill_log(&served, LARGE_LOG - (4 << 16)).await?;
                return Ok(disks.durable());
            }
            let file = served.driver.find(WORK).await.map_err(|error| error.to_string())?;
            overwrite(&served, file, 8, 0x12).await?;
            overwrite(&served, file, 48, 0x13).await?;
            match name {
                "clean" | "rest" | "long" => {
                    served.stop().await?;
                    Ok(disks.contents())
                }
                "chain" | QUIET_CHAIN => {
                    settle(&served).await?;
                    cut_between(disks, &served, name == "chain").await
                }
                _ => Ok(disks.durable()),
            }
        })
    }

    /// The state that a recovery finds.
    fn known(&self, name: &str, images: &Images) -> Result<Known, String> {
        let executor = Executor::new(!SEED);
        let rams: Vec<Rc<Ram>> =
            images.0.iter().map(|image| Rc::new(Ram::new(image.clone()))).collect();
        executor.block_on(async {
            let devices = rams.iter().map(|ram| ram.clone() as _).collect();
            let opened = self.design.open(devices, executor.runtime()).await;
            let opened = opened.map_err(|error| error.to_string())?;
            let chains = opened.replayed.map_or(0, |replayed| replayed.chains);
            let served = Served::new(opened).await?;
            let long = served.long().await;
            let (view, _) = served.driver.view().await.map_err(|error| error.to_string())?;
            let is_chain = matches!(name, "chain" | QUIET_CHAIN);
            if chains != u64::from(is_chain) || view.is_empty() {
                return Err(format!("{name} has {chains} chains"));
            }
            let Some(What::Regular(bytes)) = view.get(WORK).map(|seen| &seen.what) else {
                return Err(format!("there is no {WORK}"));
            };
            let sectors = bytes.chunks(512).map(|sector| [sector[0]].into()).collect();
            let progress = Progress { begun: is_chain, acknowledged: false };
            let told = served.remembered.iter().map(|one| &one.answered);
            let told = told.filter(|one| *one.key != *super::known::key(LONG));
            Ok(Known {
                sectors,
                long: long.map(|_| progress),
                long_is_told: name != QUIET_CHAIN,
                told: Rc::new(told.map(|one| (one.key.clone(), one.outcome)).collect()),
                remembers: self.design.remembers(),
                base: Rc::new(view),
                ..Known::default()
            })
        })
    }
}

async fn prepare(driver: &Driver) -> Result<(), String> {
    let said = |error: vfs::FsError| error.to_string();
    driver.fill(WORK, vec![0x11; SECTORS * 512]).await.map_err(said)?;
    driver.fill(KEPT, vec![7; 3_000]).await.map_err(said)?;
    driver.fill(TURN, vec![1; 12 << 10]).await.map_err(said)?;
    driver.mkdir("there").await.map_err(said)
}

async fn settle(served: &Served) -> Result<(), String> {
    served.engine.quiesce().await.map_err(|error| error.to_string())
}

/// Writes until the log has grown by this many bytes.
async fn fill_log(served: &Served, bytes: u64) -> Result<(), String> {
    let written = || served.engine.log_statistics().map_or(u64::MAX, |log| log.writes.bytes);
    let file = served.driver.find(TURN).await.map_err(|error| error.to_string())?;
    let mut round = 0;
    while written() < bytes {
        overwrite(served, file, 24, 1).await?;
        round += 1;
        if round % 10 == 0 {
            settle(served).await?;
        }
    }
    Ok(())
}

async fn overwrite(
    served: &Served,
    file: vfs::ObjectId,
    sectors: usize,
    byte: u8,
) -> Result<(), String> {
    write(served, file, 0, vec![byte; sectors * 512], Stability::FileSync).await
}

async fn write(
    served: &Served,
    file: vfs::ObjectId,
    at: u64,
    data: Vec<u8>,
    stability: Stability,
) -> Result<(), String> {
    let data = vec![Bytes::from(data)];
    let written = served.files.write(&Requester::root(), file, at, data, stability).await;
    let written = written.open().await.map_err(|_| "it has stopped")?.into_inner().result;
    written.map(drop).map_err(|error| error.to_string())
}

/// Makes calls that are remembered, some concurrently.
async fn answer(served: &Served, count: usize, callers: &mut Vec<Requester>) -> Result<(), String> {
    let file = served.driver.find(KEPT).await.map_err(|error| error.to_string())?;
    // Keys as long as those of a client.
    callers.extend((0..count).map(|number| caller(&format!("call-{number:043}"))));
    for some in callers.chunks(60) {
        let calls = some.iter().enumerate().map(async |(index, who)| {
            let mode = Some(0o600 + (index % 2) as u16);
            let change = SetAttributes { mode, ..SetAttributes::default() };
            let done = served.files.setattr(who, file, change, None).await;
            let done = done.open().await.map_err(|_| "it has stopped")?.into_inner().result;
            done.map_err(|error| error.to_string())
        });
        for done in join_all(calls).await {
            done?;
        }
    }
    Ok(())
}

async fn lengthen(served: &Served) -> Result<(), String> {
    const PIECE: usize = 1 << 20;
    served.driver.fill(LONG, Vec::new()).await.map_err(|error| error.to_string())?;
    let file = served.driver.find(LONG).await.map_err(|error| error.to_string())?;
    for at in (0..BEFORE).step_by(PIECE) {
        write(served, file, at, vec![1; PIECE], Stability::Unstable).await?;
    }
    Ok(())
}

/// Truncates a file in steps, and cuts the power between the first and the second.
async fn cut_between(disks: &Disks, served: &Served, is_told: bool) -> Result<Images, String> {
    let steps = || served.engine.log_statistics().map_or(0, |log| log.writes.batches);
    let who = if is_told { caller(LONG) } else { Requester::root() };
    disks.start_recording();
    let before = steps();
    shorten(served, &who).await?;
    if steps() < before + 2 {
        return Err("it became shorter in one step".to_owned());
    }
    // The first batch is the first step; the volume is written in the background.
    let recording = disks.recording();
    let log = |images: &Images| images.0[1].fingerprint();
    let cuts: Vec<Images> = recording.cuts().map(|cut| cut.durable()).collect();
    let first = cuts.iter().position(|images| log(images) != log(&cuts[0]));
    first.map(|first| cuts[first].clone()).ok_or_else(|| "nothing was logged".to_owned())
}
