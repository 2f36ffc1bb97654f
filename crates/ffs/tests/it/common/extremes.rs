//! A log at its extremes, and recovery from it: at its fullest, with large removals, with a chain
//! that begins anew in a torn batch.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use bytes::Bytes;
use ffs::policy::log::record::{Record, read_records};
use ffs::replay::Replayed;
use futures::future::join_all;
use journal::format::{AREA, HEADER_SIZE, Header, SMALLEST};
use sim::{Disk, Effect, Event, Executor, Fate, Fault, Image, Sectors, Trace};
use vfs::{FileSystem, ObjectId, Requester, SetAttributes, Stability};

use super::cutting::{Pair, after_cut, judge, random_cuts};
use super::returns::{caller, fresh, open_pair};
use super::volume::Volume;

const LONG: u64 = 24 << 20;
const SHORT: u64 = 1_000;

/// A file of many pieces, all written in place.
async fn long_file(volume: &Volume, length: u64) -> ObjectId {
    let file = volume.create(volume.files.root(), "file").await.expect("new");
    for piece in 0..length >> 20 {
        let data = vec![1; 1 << 20];
        volume.write(file, piece << 20, data, Stability::Unstable).await.expect("room");
    }
    volume.settle().await;
    file
}

/// Whether an entry records the beginning of a chain.
fn begins_chain(header: &Header, body: Bytes) -> bool {
    let records = read_records(header.records.get(), &body).expect("an entry");
    records.iter().any(|record| matches!(record, Record::ChainBegins(_)))
}

/// Sectors before the first entry of a batch that records the beginning of a chain; `None` if that
/// is the first entry of all, or there is none.
fn sectors_before_a_chain(batch: &Bytes) -> Option<usize> {
    let mut at = 0;
    while let Some(header) = batch.get(at..).and_then(Header::read) {
        let body = batch.slice(at + HEADER_SIZE..at + header.length.get() as usize);
        if begins_chain(&header, body) {
            return Some(at / 512).filter(|&sectors| sectors > 0);
        }
        at += header.size.get() as usize;
    }
    None
}

/// The disks after a batch in flight was torn before the entry that begins a chain.
fn torn_before_chains(traces: &Pair<Trace>) -> Vec<Pair<Image>> {
    let log = traces.log.as_ref().expect("it has one");
    let mut left = Vec::new();
    for (index, traced) in log.events().iter().enumerate() {
        let Event::WriteIssued { write, offset, data, .. } = &traced.event else { continue };
        let Some(before) = sectors_before_a_chain(data).filter(|_| *offset >= AREA) else {
            continue;
        };
        let fate = Fate::Torn(Sectors::first(before, data.len() / 512));
        let log = log.image_after(index + 1, |written| {
            if written.id == *write { fate.clone() } else { Fate::Lost }
        });
        let home = traces.home.position_of(traced.serial);
        let home = traces.home.platter_at(home).durable_image();
        left.push(Pair { home, log: Some(log) });
    }
    left
}

/// A file is truncated in steps; power fails; recovery goes on while others work, and the batch in
/// which the chain begins anew is torn: the chain has not been forgotten. Returns the number of
/// such batches.
pub(crate) fn chain_that_begins_anew(seeds: u64) -> Result<usize, String> {
    let (executor, disks) = fresh(48 << 20, 4 << 20);
    let traces = executor.block_on(async {
        let (volume, _) = open_pair(&executor, &disks).await.expect("new");
        let file = long_file(&volume, LONG).await;
        disks.map(|disk| disk.start_trace());
        volume.resize(file, SHORT).await.expect("it is there");
        disks.map(|disk| disk.trace())
    });
    let mut tried = 0;
    for cut in random_cuts(&traces, 1, seeds) {
        let images = cut.platters.map(|platter| platter.durable_image());
        let (executor, disks) = after_cut(cut.seed, images);
        disks.map(|disk| disk.start_trace());
        let is_cut = executor.block_on(async {
            let (volume, replayed) = open_pair(&executor, &disks).await?;
            let work = (0..8).map(|actor| {
                let volume = &volume;
                async move {
                    for step in 0..12 {
                        let text = format!("directory-{actor}-{step}");
                        volume.mkdir(volume.files.root(), &text).await.expect("new");
                    }
                }
            });
            join_all(work).await;
            Ok::<_, String>(replayed.is_some_and(|replayed| replayed.chains == 1))
        })?;
        if !is_cut {
            continue;
        }
        for images in torn_before_chains(&disks.map(|disk| disk.trace())) {
            tried += 1;
            let (executor, disks) = after_cut(cut.seed, images);
            let length = executor.block_on(async {
                let (volume, _) = open_pair(&executor, &disks).await?;
                let file = volume.lookup(volume.files.root(), "file").await;
                let data = volume.read(file.map_err(|error| error.to_string())?).await;
                Ok::<_, String>(data.map_err(|error| error.to_string())?.len() as u64)
            })?;
            if length != SHORT {
                return Err(format!("{}: {length} bytes are left", cut.label()));
            }
        }
    }
    Ok(tried)
}

/// Operations acknowledged while a log was filled.
#[derive(Default)]
struct Filled {
    directories: Cell<usize>,
    live: Cell<u64>,
}

/// Works while nothing is written in place, until no operation completes any more.
async fn fill(executor: &Executor, disks: &Pair<Rc<Disk>>, round: usize, filled: &Filled) {
    let (volume, _) = open_pair(executor, disks).await.unwrap_or_else(|wrong| panic!("{wrong}"));
    let root = volume.files.root();
    let file = match round {
        0 => long_file(&volume, LONG).await,
        _ => volume.lookup(root, "file").await.expect("it is there"),
    };
    let slow = Effect::Slow(Duration::from_secs(3600));
    disks.home.inject(Fault::on(Verb::Write, slow).forever());
    let callers: Vec<Requester> = (0..100_000).map(caller).collect();
    let (volume, callers) = (&volume, &callers);
    let work = (0..6).map(|actor| async move {
        if actor == 0 {
            let size = LONG >> (round + 1);
            let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
            let sealed = volume.files.setattr(&callers[round], file, changes, None).await;
            sealed.open().await.expect("running").into_inner().result.expect("it is there");
        }
        loop {
            let number = filled.directories.get();
            filled.directories.set(number + 1);
            let who = &callers[1000 + number];
            let text = super::volume::name(&format!("directory-{number}"));
            let made = volume.files.mkdir(who, root, &text, SetAttributes::default()).await;
            made.open().await.expect("running").into_inner().result.expect("new");
            let statistics = volume.files.store().engine().log_statistics().expect("a log");
            filled.live.set(filled.live.get().max(statistics.live_bytes));
        }
    });
    join_all(work).await;
}

/// The log is filled until no task gets room any more, and power fails; repeatedly. The volume
/// comes back each time with everything acknowledged. Returns how full the log was.
pub(crate) fn filled_again_and_again(rounds: usize) -> Result<u64, String> {
    let (executor, disks) = fresh(64 << 20, SMALLEST);
    let mut images = disks.map(|disk| disk.platter().durable_image());
    drop(executor);
    let filled = Filled::default();
    for round in 0..rounds {
        let (executor, disks) = after_cut(round as u64, images);
        let work = fill(&executor, &disks, round, &filled);
        let ended = executor.block_on_for(Duration::from_secs(60), work);
        assert!(ended.is_none(), "it goes on until there is no room");
        executor.crash();
        images = disks.map(|disk| disk.platter().durable_image());
    }
    let (executor, disks) = after_cut(99, images);
    executor.block_on(async {
        let (volume, _) = open_pair(&executor, &disks).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    judge(&disks.home, "filled")?;
    Ok(filled.live.get())
}

/// Statistics of the replay of a removal of a file of `length` bytes.
pub(crate) fn large_removal(length: u64) -> Result<Replayed, String> {
    let (executor, disks) = fresh(length / 2 * 3, 16 << 20);
    let left = executor.block_on(async {
        let (volume, _) = open_pair(&executor, &disks).await.expect("new");
        long_file(&volume, length).await;
        volume.remove(volume.files.root(), "file").await.expect("it is there");
        executor.runtime().clock.sleep(Duration::from_secs(2)).await; // all steps of it
        disks.map(|disk| disk.platter().durable_image())
    });
    let (executor, disks) = after_cut(1, left);
    let replayed = executor.block_on(async {
        let (volume, replayed) = open_pair(&executor, &disks).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        replayed.ok_or("it was cut".to_string())
    })?;
    judge(&disks.home, "large-removal")?;
    Ok(replayed)
}
