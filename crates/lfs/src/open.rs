//! Opening a volume, and recovering it after a cut.
//!
//! 1. The root: the newest region that is whole, and the table as that checkpoint has it.
//! 2. The chain: each batch names its rows and its blocks, frees blocks, and has edits, which are
//!    applied to the blocks of metadata in memory.
//! 3. The region and the last batch, which perhaps no flush has covered, are written again, and
//!    flushed. So are copies of blocks of the
//!    table that are not as the checkpoint has them.
//! 4. A checkpoint with all of that, in segments in which nothing was: it has a new epoch, so
//!    nothing that a torn tail has left is ever taken for a part of the chain. Then the volume is
//!    served.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use block::scratch::ScratchDevice;
use block::{BlockDevice, Buffer, Durability};
use bytes::Bytes;
use cache::{Budget, DataPath};
use cow::floor::{Floor, limits};
use cow::format::answers;
use cow::format::inode::Record;
use cow::format::snapshot::Snapshots;
use cow::found_pins::{LostLines, read_pins};
use cow::live::Live;
use cow::{Head, ROOT, Run, Stem, Tree, UNIT, sum};
use runtime::Runtime;
use vfs::{FsError, LoggedReply};
use vnode::{Files, FilesOptions};

use crate::checkpoint::ring;
use crate::engine::{Lfs, RolledForward};
use crate::error::OpenError;
use crate::format::head::VolumeHead;
use crate::format::region::Region;
use crate::format::table::Line;
use crate::found::{Root, root, table};
use crate::log::{Found, Log};
use crate::logical::{Logical, Names, Nodes};
use crate::planted::{Bug, is_planted};
use crate::recover::{Chain, chain};
use crate::room;
use crate::rows::Rows;

/// Options for opening a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Changes nothing. The volume must have been stopped.
    pub read_only: bool,
    /// Bytes of memory for metadata, files and names, for UNSTABLE data, which may take half, and
    /// for cached data.
    pub cache_bytes: usize,
    /// Whether data is cached.
    pub keeps_data: bool,
    /// Whether a stop leaves the device open, for further use.
    pub keeps_device: bool,
    /// Interval at which access times and old UNSTABLE data go to the disk.
    pub housekeeping_interval: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            cache_bytes: 256 << 20,
            keeps_data: true,
            keeps_device: false,
            housekeeping_interval: Duration::from_secs(5),
        }
    }
}

/// UNSTABLE data in memory, at most, in bytes.
const DIRTY_MOST: u64 = 256 << 20;
/// Blocks of replies that are read at once.
const AT_ONCE: usize = 256;

/// The purpose for which a volume is recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is served: nothing that was acknowledged is given up.
    Serving,
    /// It is checked: damage is passed over.
    Checking,
    /// It is repaired: dead lists are made anew.
    Repairing,
}

/// The parts of a volume with this root: its head, its region, and which of the two that is; its
/// table; the number of its next checkpoint; and bytes for caches, and whether data is cached.
pub(crate) async fn assemble(
    device: Rc<dyn BlockDevice>,
    runtime: &Runtime,
    (head, region, turn): (&VolumeHead, &Region, u64),
    lines: &[Line],
    (number, cache_bytes, keeps_data): (u64, usize, bool),
    purpose: Purpose,
) -> Result<(Rc<Log>, Rc<Budget>, LostLines), OpenError> {
    let shape = head.shape;
    let rows = Rc::new(Rows::new(shape, lines, number).map_err(OpenError::Damaged)?);
    let block_size = shape.block * UNIT as u64;
    let budget = Budget::new(cache_bytes, block_size, keeps_data);
    let logical: Rc<dyn BlockDevice> = Rc::new(Logical::new(device.clone(), rows.clone()));
    let path = DataPath::new(logical, budget.clone(), (block_size, block_size)).with_sums(sum);
    let path = Rc::new(path);
    let names = Names(rows.clone());
    let (mut trees, mut said) = (region.trees, region.snapshots);
    if purpose == Purpose::Repairing {
        (trees[4], trees[5]) = (Tree::default(), Tree::default());
        (said.list_slots, said.died_slots) = (0, 0);
    }
    let [_, _, _, lines, lists, died, _] = trees;
    let said = Snapshots { lines, lists, died, ..said };
    let nodes = Nodes::new(names, path.clone(), budget.clone(), trees, head.secret);
    let nodes = Rc::new(nodes);
    let (newest, gives_up) = ((shape.units, region.number), purpose != Purpose::Serving);
    let found = read_pins(&nodes, &said, newest, gives_up).await?;
    let damaged = OpenError::Damaged("the records of snapshots make no sense");
    let (pins, lost) = found.ok_or(damaged)?;
    for &leaf in &lost.lists {
        nodes.renew(&Stem::Lists, leaf).await?;
    }
    nodes.held_trees.begin(pins.holding().into_iter().map(|told| told.inodes));
    let counts = &region.counts;
    let totals = [counts.files, counts.directories, counts.units];
    let live = Live::found(&region.chains, counts.next_ino, totals);
    let found = Found {
        secret: head.secret,
        epoch: new_epoch(runtime.random.next_u64(), number),
        answers: Vec::new(),
        answers_begun: region.answers_begun,
        answers_from: region.answers_from,
        durable: region.number,
        turn: 1 - turn,
    };
    let parts = ((nodes, rows, path), (Rc::new(pins), Rc::new(live)));
    Ok((Log::new(runtime.clone(), device, parts.0, parts.1, found), budget, lost))
}

/// The epoch of an opening: no other one has it, not even if a source of random numbers repeats
/// itself, because a later opening begins with a later checkpoint.
fn new_epoch(random: u64, number: u64) -> u64 {
    (random ^ number.wrapping_mul(0xff51_afd7_ed55_8ccd)).max(1)
}

/// A volume as a start finds it, before its first checkpoint: all changes are in memory.
pub(crate) struct Recovered {
    pub(crate) log: Rc<Log>,
    budget: Rc<Budget>,
    /// Whether it was stopped.
    pub(crate) is_at_rest: bool,
    pub(crate) chains: Vec<vnode::chain::Chain>,
    remembered: Vec<LoggedReply>,
    rolled_forward: RolledForward,
    /// Blocks of lines that could not be read.
    pub(crate) lost: LostLines,
    /// The first batch that is given up, and the files that later ones change.
    pub(crate) given_up: Option<(u64, BTreeSet<u64>)>,
    /// A part of the table is lost.
    pub(crate) has_lost_table: bool,
}

/// Recovers a volume in memory. The last batch, which perhaps no flush has covered, is written
/// again.
///
/// # Errors
/// [`OpenError`].
pub(crate) async fn recovered(
    device: Rc<dyn BlockDevice>,
    runtime: &Runtime,
    (cache_bytes, keeps_data): (usize, bool),
    purpose: Purpose,
) -> Result<Recovered, OpenError> {
    let began = runtime.clock.now();
    let root = root(&*device).await?;
    let gives_up = purpose != Purpose::Serving;
    let table = table(&*device, &root, gives_up).await?;
    let Root { head, region, turn, .. } = &root;
    let is_at_rest = region.is_at_rest;
    let chain = if is_at_rest {
        Chain::default()
    } else {
        chain(&*device, &head.shape, (region, &head.secret), &table.lines, gives_up).await?
    };
    let region = of_chain(region, &chain);
    // A checkpoint that is not durable may have been sealed before the last changes of the chain.
    let number = region.number.max(table.highest) + 2;
    let memory = (number, cache_bytes, keeps_data);
    let of_root = (head, &region, *turn);
    let (log, budget, lost) =
        assemble(device.clone(), runtime, of_root, &table.lines, memory, purpose).await?;
    log.nodes.mend_copies(&Stem::Inodes).await;
    let mut remembered = replies(&log).await?;
    replay(&log, &chain, &mut remembered).await?;
    let bytes = Buffer::copied(&root.region.write(*turn, &head.secret)).freeze();
    let places = head.shape.regions(*turn);
    write_again(&*device, &places.map(|place| (place, bytes.clone()))).await?;
    write_again(&*device, &chain.again).await?;
    write_again(&*device, &table.stale).await?;
    let rolled_forward = RolledForward {
        commits: chain.batches.len() as u64,
        read_bytes: chain.read_bytes,
        duration_ms: runtime.clock.now().since(began).as_millis() as u64,
    };
    let chains = region.chains;
    Ok(Recovered {
        log,
        budget,
        is_at_rest,
        chains,
        remembered,
        rolled_forward,
        lost,
        given_up: chain.given_up.map(|first| (first, chain.lost)),
        has_lost_table: table.is_lost,
    })
}

/// Opens a volume, after recovery if it was cut off.
///
/// # Errors
/// [`OpenError`].
pub async fn open(
    device: Rc<dyn BlockDevice>,
    runtime: Runtime,
    options: &OpenOptions,
) -> Result<Rc<Files<Lfs>>, OpenError> {
    if options.read_only && !root(&*device).await?.region.is_at_rest {
        return Err(OpenError::NotAtRest);
    }
    // A read-only opening keeps its writes in memory.
    let device: Rc<dyn BlockDevice> =
        if options.read_only { Rc::new(ScratchDevice::new(device)) } else { device };
    let memory = (options.cache_bytes, options.keeps_data);
    let found = recovered(device, &runtime, memory, Purpose::Serving).await?;
    let Recovered { log, budget, chains, remembered, rolled_forward, .. } = found;
    let generation = root_generation(&log).await?;
    log.begin_chain().map_err(OpenError::of_checkpoint)?;
    log.checkpoint().await.map_err(OpenError::of_checkpoint)?;
    let (units, block_size) = (room::size(&log.shape), log.shape.block * UNIT as u64);
    let limits = limits(generation, (units, block_size), options.read_only);
    let (nodes, pins, live) = (log.nodes.clone(), log.pins.clone(), log.live.clone());
    let floor = Floor::new(runtime.clone(), limits, budget, nodes, pins, log.clone(), live);
    let keeps_device = options.keeps_device;
    let engine = Lfs { floor, runtime: runtime.clone(), log, keeps_device, rolled_forward };
    let dirty_limit = (options.cache_bytes as u64 / 2).min(DIRTY_MOST);
    let files = Files::new(Rc::new(engine), runtime, FilesOptions { dirty_limit, remembered });
    files.start_housekeeping(options.housekeeping_interval);
    files.finish_chains(chains).await?;
    Ok(files)
}

/// The root of a volume, with the counts and the chains of updates of the last batch.
fn of_chain(region: &Region, chain: &Chain) -> Region {
    let mut region = region.clone();
    if let Some(last) = chain.batches.last() {
        region.counts = last.contents.counts;
        region.chains = last.contents.chains.clone();
    }
    region
}

/// The replies of the checkpoint, the oldest first. A block that cannot be read has none.
async fn replies(log: &Log) -> Result<Vec<LoggedReply>, OpenError> {
    let (begun, ring) = (log.answers_begun.get(), ring(&log.shape));
    let first = begun.saturating_sub(ring).max(log.answers_from.get());
    let places: Vec<u64> = (first..begun).map(|at| at % ring).collect();
    let mut remembered = Vec::new();
    for some in places.chunks(AT_ONCE) {
        // Most are side by side; one that is not whole must not take the others with it.
        let read = match log.nodes.pieces(&Stem::Answers, some).await {
            Ok(read) => read,
            Err(_) => {
                let mut read = std::collections::BTreeMap::new();
                for &place in some {
                    read.extend(
                        log.nodes.pieces(&Stem::Answers, &[place]).await.unwrap_or_default(),
                    );
                }
                read
            }
        };
        for place in some {
            let Some(bytes) = read.get(place) else { continue };
            let of_block =
                answers_in(bytes).ok_or(OpenError::Damaged("an answer makes no sense"))?;
            remembered.extend(of_block);
        }
    }
    Ok(remembered)
}

fn answers_in(bytes: &[u8]) -> Option<Vec<LoggedReply>> {
    let mut end = size_of::<Head>();
    while let Some(length) = bytes.get(end..end + 2) {
        match u16::from_le_bytes([length[0], length[1]]) {
            0 => break,
            length => end += 2 + usize::from(length),
        }
    }
    let all = answers::split(bytes.get(size_of::<Head>()..end)?)?;
    all.iter().map(|answer| vnode::answer::read(answer)).collect()
}

/// Applies the batches of the log.
async fn replay(
    log: &Log,
    chain: &Chain,
    remembered: &mut Vec<LoggedReply>,
) -> Result<(), OpenError> {
    let damaged = OpenError::Damaged;
    for batch in &chain.batches {
        for &segment in &batch.segments {
            log.rows.note_log(segment);
        }
        let contents = &batch.contents;
        for row in &contents.rows {
            log.rows.replay_row(row).map_err(damaged)?;
        }
        for &(start, _) in &contents.blocks {
            log.rows.replay_take(Run { start, length: log.shape.block }).map_err(damaged)?;
        }
        for &run in contents.freed.iter().filter(|_| !is_planted(Bug::UnreadFrees)) {
            let born = log.rows.line(run.start).map_or(0, |line| line.born);
            log.note_lost(run, log.pins.span_of(born).filter(|_| born > 0));
        }
        if !is_planted(Bug::UnreadEdits) {
            for gone in log.nodes.replay(&contents.edits).await? {
                log.pins.uncount_node(gone.birth.get(), false);
                log.note_lost(Run::of(gone.address.get()), log.pins.span_of(gone.birth.get()));
            }
        }
        for answer in &contents.answers {
            let read = vnode::answer::read(answer);
            remembered.push(read.ok_or(damaged("an answer of the log makes no sense"))?);
            log.answers.borrow_mut().push(answer.clone().into());
        }
    }
    Ok(())
}

/// Writes again what no flush may have covered, or one copy alone has. The next checkpoint writes
/// over one copy of the table: so the other one has to be whole before.
async fn write_again(device: &dyn BlockDevice, units: &[(u64, Bytes)]) -> Result<(), OpenError> {
    if units.is_empty() {
        return Ok(());
    }
    for (place, bytes) in units {
        device.write(place * UNIT as u64, vec![bytes.clone()], Durability::Plain).await?;
    }
    Ok(device.flush().await?)
}

/// The generation of the root directory.
async fn root_generation(log: &Log) -> Result<u32, OpenError> {
    let home = log.nodes.get(&Stem::Inodes, 0, 0).await?;
    let facts = home.and_then(|home| home.inode(ROOT, Record::facts));
    Ok(facts.ok_or(OpenError::Failed(FsError::Corrupt))?.generation)
}
