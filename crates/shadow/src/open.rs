//! Opening a volume, and bringing it back after a cut.
//!
//! Anchors say in which zones superblocks may stand. Where several volumes have some, those count
//! under which there are superblocks. If there is none at all, the slots of all zones are read, and
//! the volume counts as one that was killed. The highest superblock that is whole, with all that it
//! lists, is the one; if it is not, the one that it names as durable. What that lists is written
//! again, with the superblock itself, before anything rests on it: a flush that failed may have
//! dropped it. The anchor, which a cut may have left at one end, or a failure in a cache alone,
//! gets a successor at both. Then a superblock of a higher number than all that were seen becomes
//! durable, and only then is the volume served.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::scratch::ScratchDevice;
use block::{BlockDevice, Buffer, Durability, IoError, Verb};
use cache::{Budget, DataPath};
use futures::future::try_join;
use runtime::Runtime;
use vfs::{FsInfo, LoggedReply, MAX_NAME, ObjectId, PathConf, Timestamp};
use vnode::{Files, FilesOptions, Limits};

use crate::anchors::{find_anchor, read_unit, superblocks};
use crate::callers::Callers;
use crate::commit::{Commits, Found};
use crate::compact::start_compaction;
use crate::engine::{MOST_LINKS, Shadow};
use crate::error::OpenError;
use crate::fold::answers_in;
use crate::format::anchor::{Anchor, Shape};
use crate::format::head::{Head, Kind, Place, Secret, is};
use crate::format::inode::Record;
use crate::format::record::{self, Change, Run, Span};
use crate::format::snapshot::{LINES, LISTS, Line, List, Told};
use crate::format::superblock::{Listed, Superblock};
use crate::format::{INODES, MAPPED, ROOT, UNIT, sum};
use crate::in_order::InOrder;
use crate::mend::mend;
use crate::nodes::{Nodes, Stem};
use crate::pins::{Listing, Pins};
use crate::placement::Placement;
use crate::planted::{Bug, is_planted};
use crate::room::ring;
use crate::runs::{Unfolded, sum_of_sums};
use crate::space::Space;
use crate::space_log::{self, Log};

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Change nothing. The volume must have been stopped.
    pub read_only: bool,
    /// Bytes of memory for metadata, files and names, for UNSTABLE data, which may take half, and
    /// for data that is kept because it may be read again.
    pub cache_bytes: usize,
    /// Whether data is kept that may be read again.
    pub keeps_data: bool,
    /// Whether a stop leaves the device open, for whoever goes on with it.
    pub keeps_device: bool,
    /// Percent of the space that only root may fill from the first update on: at most
    /// [`MOST_RESERVE`](crate::format::superblock::MOST_RESERVE). None leaves it as it is.
    pub reserve: Option<u8>,
    /// How often access times and old UNSTABLE data go to the disk.
    pub housekeeping_interval: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            cache_bytes: 256 << 20,
            keeps_data: true,
            keeps_device: false,
            reserve: None,
            housekeeping_interval: Duration::from_secs(5),
        }
    }
}

/// Blocks of the map, or of answers, that are read at once.
const AT_ONCE: usize = 4096;
/// Bytes of UNSTABLE data that wait in memory at most.
const DIRTY_MOST: u64 = 256 << 20;

/// Opens a volume, which is brought back first if it was cut off.
///
/// # Errors
/// [`OpenError`].
pub async fn open(
    device: Rc<dyn BlockDevice>,
    runtime: Runtime,
    options: &OpenOptions,
) -> Result<Rc<Files<Shadow>>, OpenError> {
    let (anchor, (superblock, at, highest)) = chosen(&*device, options.read_only).await?;
    let shape = anchor.shape;
    let (device, placement) = followed(device, &runtime, options.read_only);
    let callers = Rc::new(Callers::new(device));
    let device: Rc<dyn BlockDevice> = callers.clone();
    if !is_planted(Bug::UnwrittenBelief) {
        believe(&*device, &superblock, at, &anchor.secret).await?;
    }
    let block_size = shape.block * UNIT as u64;
    let budget = Budget::new(options.cache_bytes, block_size, options.keeps_data);
    let path = DataPath::new(device.clone(), budget.clone(), (block_size, block_size));
    let path = Rc::new(path.with_sums(sum));
    let (trees, secret) = (superblock.trees(), anchor.secret);
    let nodes = Rc::new(Nodes::new(path.clone(), budget.clone(), trees, secret));
    let space = Rc::new(Space::empty(shape).placed_by(placement));
    let pins = read_pins(&nodes, &superblock, shape.units);
    let records = read_records(&*device, &shape, &superblock, &anchor.secret);
    let (pins, unfolded) = try_join(pins, records).await?;
    let map = read_map(&nodes, &space, &superblock, &unfolded);
    let answers = read_answers(&nodes, &shape, &superblock, &unfolded);
    let (log, remembered) = try_join(map, answers).await?;
    let chains = superblock.chains.clone();
    let reserve = options.reserve.unwrap_or(superblock.reserve);
    let superblock = Superblock { reserve, ..superblock };
    let found = Found { anchor, superblock, at, unfolded, log, pins };
    let commits = Commits::new(runtime.clone(), nodes.clone(), space.clone(), path.clone(), found);
    commits.pass_number(highest);
    let root = nodes.get(&Stem::Inodes, 0, ROOT / INODES).await?;
    let generation = root.and_then(|root| root.inode(ROOT, Record::facts));
    let generation = generation.ok_or(OpenError::Damaged("it has no root"))?;
    let has_room = space.has_blocks(0, commits.needs_now(), false);
    has_room.then_some(()).ok_or(OpenError::Damaged("nothing of it is free"))?;
    let root_id = ObjectId::live(vfs::Ino(ROOT), generation.generation);
    if !is_planted(Bug::LoneAnchors) {
        commits.renew_anchor().await?; // what was believed of anchors may be lost as well
    }
    commits.commit(false).await.map_err(OpenError::of_commit)?;
    let engine = Shadow {
        limits: limits(&shape, options.read_only, root_id),
        runtime: runtime.clone(),
        budget,
        path,
        callers,
        nodes,
        space,
        pins: commits.pins.clone(),
        commits,
        promised: Rc::default(),
        next: std::cell::Cell::new(1),
        leaving: Default::default(),
        leaving_units: Default::default(),
        touched: Default::default(),
        late_answer: Default::default(),
        hint: Default::default(),
        vacant: Default::default(),
        keeps_device: options.keeps_device,
        scrubbing: Default::default(),
        compaction: Default::default(),
    };
    let files = Files::new(Rc::new(engine), runtime, files_options(options, remembered));
    start_background(&files, options.housekeeping_interval);
    files.finish_chains(chains).await?;
    Ok(files)
}

/// The anchor that counts, and the superblock that does, with its slot and the highest number that
/// any has.
async fn chosen(
    device: &dyn BlockDevice,
    is_only_read: bool,
) -> Result<(Anchor, (Superblock, u64, u64)), OpenError> {
    let anchor = find_anchor(device).await?;
    let chosen = choose(device, &anchor).await?;
    let (superblock, _, highest) = &chosen;
    if !superblock.counts_make_sense(anchor.shape.units) {
        return Err(OpenError::Damaged("what it counts makes no sense"));
    }
    if is_only_read && *highest != anchor.rest {
        return Err(OpenError::NotAtRest);
    }
    Ok((anchor, chosen))
}

fn files_options(options: &OpenOptions, remembered: Vec<LoggedReply>) -> FilesOptions {
    let dirty_limit = (options.cache_bytes as u64 / 2).min(DIRTY_MOST);
    FilesOptions { dirty_limit, remembered }
}

/// What is done while the volume is used.
fn start_background(files: &Rc<Files<Shadow>>, interval: Duration) {
    files.start_housekeeping(interval);
    start_compaction(files, interval);
}

/// The device, written in order if it tells how its arm moves; then also where that is. If it is
/// only read, it stays as it is.
fn followed(
    device: Rc<dyn BlockDevice>,
    runtime: &Runtime,
    read_only: bool,
) -> (Rc<dyn BlockDevice>, Option<Rc<Placement>>) {
    // What the opening of a volume that stays as it is writes, stays in memory.
    let scratch = |device| -> Rc<dyn BlockDevice> { Rc::new(ScratchDevice::new(device)) };
    let device = if read_only { scratch(device) } else { device };
    let Some(platters) = device.geometry().platters.filter(|_| !read_only) else {
        return (device, None);
    };
    let placement = Rc::new(Placement::new(platters, runtime.clock.clone()));
    let device = InOrder::new(device, runtime.tasks.clone(), placement.clone());
    (Rc::new(device), Some(placement))
}

fn limits(shape: &Shape, read_only: bool, root: ObjectId) -> Limits {
    let block_size = shape.block * UNIT as u64;
    Limits {
        root,
        block_size,
        capacity: shape.units * UNIT as u64,
        max_target: 4095.min(block_size as usize - 1),
        fsinfo: FsInfo {
            max_file_size: crate::format::pointer::capacity(4).saturating_mul(block_size),
            block_size: block_size as u32,
            time_delta: Timestamp { seconds: 0, nanoseconds: 1 },
            read_only,
        },
        pathconf: PathConf { link_max: MOST_LINKS, name_max: MAX_NAME as u32 },
    }
}

/// The superblock to go on from, where it is, and the highest number that was seen.
pub(crate) async fn choose(
    device: &dyn BlockDevice,
    anchor: &Anchor,
) -> Result<(Superblock, u64, u64), OpenError> {
    let found = superblocks(device, anchor).await?;
    let highest = found.last_key_value().map_or(0, |(&(number, _), _)| number);
    if highest < anchor.rest && !is_planted(Bug::ForgottenRest) {
        return Err(OpenError::NoSuperblock { highest });
    }
    // There are two of a volume that was stopped.
    let highest_ones = || found.range((highest, 0)..);
    for (&(_, at), superblock) in highest_ones() {
        if is_whole(device, superblock).await? || is_planted(Bug::BelievedHighest) {
            return Ok((superblock.clone(), at, highest));
        }
    }
    for (_, superblock) in highest_ones() {
        let at = superblock.durable_at;
        if let Some(durable) = found.get(&(superblock.durable, at))
            && is_whole(device, durable).await?
        {
            return Ok((durable.clone(), at, highest));
        }
    }
    Err(OpenError::NoSuperblock { highest })
}

/// Whether all that a superblock lists is there. What cannot be read may be.
async fn is_whole(device: &dyn BlockDevice, superblock: &Superblock) -> Result<bool, IoError> {
    for listed in &superblock.listed {
        match read_listed(device, listed).await {
            Ok(bytes) if fits(listed, &bytes) => {}
            Err(error) if !is_planted(Bug::PassedReads) => return Err(error),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

async fn read_listed(device: &dyn BlockDevice, listed: &Listed) -> Result<Buffer, IoError> {
    let length = listed.run.length as usize * UNIT;
    device.read(listed.offset(), Buffer::unfilled(length)).await
}

fn fits(listed: &Listed, bytes: &[u8]) -> bool {
    let sums: Vec<u64> = bytes.chunks(usize::from(listed.grain) * UNIT).map(sum).collect();
    sum_of_sums(&sums) == listed.sum
}

/// Writes again what is believed and no flush covers, and where that is said.
pub(crate) async fn believe(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    at: u64,
    secret: &Secret,
) -> Result<(), IoError> {
    if !is_planted(Bug::HalfBelief) {
        let block = vec![Buffer::copied(&*superblock.write(at, secret)).freeze()];
        device.write(at * UNIT as u64, block, Durability::Plain).await?;
    }
    for listed in &superblock.listed {
        // A mirror may give its other copy this time.
        let bytes = read_listed(device, listed).await?;
        if !fits(listed, &bytes) {
            let length = bytes.len() as u64;
            return Err(IoError::new(Verb::Read, listed.offset(), length, ErrorKind::InvalidData));
        }
        device.write(listed.offset(), vec![bytes.freeze()], Durability::Plain).await?;
    }
    device.flush().await
}

/// What records tell since the last fold, in their order.
pub(crate) async fn read_records(
    device: &dyn BlockDevice,
    shape: &Shape,
    superblock: &Superblock,
    secret: &Secret,
) -> Result<Unfolded, OpenError> {
    let damaged = || OpenError::Damaged("a record is not what its pointer says");
    let mut blocks = Vec::new();
    let mut next = superblock.record;
    while !next.is_null() {
        let unit = next.address.get();
        if blocks.len() as u32 >= superblock.records || !shape.may_hold(&Run::of(unit)) {
            return Err(damaged());
        }
        let mut block = read_unit(device, unit).await?;
        if sum(&block) != next.sum.get() {
            block = mend(device, next, 1).await.ok_or_else(damaged)?;
        }
        let index = crate::format::head::index(&block);
        let place = Place { kind: Kind::Record, owner: 0, level: 0, index };
        let is_it = is(&block, place, next.birth.get(), secret);
        let Some(read) = record::read(&block).filter(|_| is_it) else { return Err(damaged()) };
        next = read.previous;
        blocks.push((unit, read));
    }
    let mut unfolded = Unfolded::default();
    for (unit, read) in blocks.into_iter().rev() {
        let answers = read.answers.into_iter().map(Into::into);
        unfolded.extend(read.changes, answers.collect());
        unfolded.units.push(unit);
    }
    Ok(unfolded)
}

/// Which units are in use: those of the map, then what the log says, which is given, and then what
/// records tell.
pub(crate) async fn read_map(
    nodes: &Nodes,
    space: &Space,
    superblock: &Superblock,
    unfolded: &Unfolded,
) -> Result<Log, OpenError> {
    let damaged = |is_right: bool| {
        let wrong = OpenError::Damaged("the map of space does not fit the records");
        if is_right { Ok(()) } else { Err(wrong) }
    };
    let leaves: Vec<u64> = (0..space.shape().units.div_ceil(MAPPED)).collect();
    for some in leaves.chunks(AT_ONCE) {
        for (leaf, bytes) in nodes.pieces(&Stem::Map, some).await? {
            damaged(space.take_mapped(leaf * MAPPED, &bytes[size_of::<Head>()..]))?;
        }
    }
    let log = read_log(nodes, space.shape(), superblock.log_blocks.clone()).await?;
    for (run, is_used) in log.lines().filter(|_| !is_planted(Bug::UnreadLog)) {
        damaged(space.take_logged(run, is_used))?;
    }
    space.count();
    for change in &unfolded.changes {
        damaged(match *change {
            Change::Taken(run) => space.take(run),
            Change::Freed(run) => space.try_free(run),
            Change::Died(run, _) => space.shape().may_hold(&run) && space.has_all(run),
        })?;
    }
    Ok(log)
}

/// What the map does not tell yet.
async fn read_log(nodes: &Nodes, shape: &Shape, blocks: Range<u64>) -> Result<Log, OpenError> {
    let damaged = || OpenError::Damaged("the space log makes no sense");
    let ring = space_log::ring(shape);
    let count = blocks.end.checked_sub(blocks.start);
    let count = count.filter(|&count| count <= ring && blocks.end >> 48 == 0);
    let mut log = Log::from(shape, blocks.start);
    let mut places = Vec::new();
    places.extend((0..count.ok_or_else(damaged)?).map(|at| (blocks.start % ring + at) % ring));
    for some in places.chunks(AT_ONCE) {
        let read = nodes.pieces(&Stem::Log, some).await?;
        for place in some {
            let lines = read.get(place).and_then(|bytes| crate::format::log::read(bytes));
            log.push(&lines.ok_or_else(damaged)?);
        }
    }
    Ok(log)
}

/// The snapshots that there are, and the lists of what they hold.
pub(crate) async fn read_pins(
    nodes: &Nodes,
    superblock: &Superblock,
    units: u64,
) -> Result<Pins, OpenError> {
    let said = &superblock.snapshots;
    let damaged = || OpenError::Damaged("what is told of snapshots makes no sense");
    said.makes_sense(units).then_some(()).ok_or_else(damaged)?;
    let (mut all, mut lists) = (BTreeMap::new(), BTreeMap::new());
    let blocks: Vec<u64> = (0..said.line_slots.div_ceil(LINES)).collect();
    for some in blocks.chunks(AT_ONCE) {
        let read = nodes.pieces(&Stem::Snapshots, some).await?;
        for (block, bytes) in read {
            for slot in block * LINES..(block + 1) * LINES {
                let told = Line::read(&bytes, slot).map_err(|()| damaged())?;
                let is_new = told.is_none_or(|told| {
                    let is_there = slot < said.line_slots;
                    let sizes = [told.files, told.directories, told.units, told.nodes];
                    let are_small = sizes.iter().all(|&size| size >> 48 == 0);
                    is_there && are_small && all.insert(told.number, (told, slot)).is_none()
                });
                is_new.then_some(()).ok_or_else(damaged)?;
            }
        }
    }
    let blocks: Vec<u64> = (0..said.list_slots.div_ceil(LISTS)).collect();
    for some in blocks.chunks(AT_ONCE) {
        let read = nodes.pieces(&Stem::Lists, some).await?;
        for (block, bytes) in read {
            for slot in block * LISTS..(block + 1) * LISTS {
                let list = List::read(&bytes, slot);
                let is_new = list.is_none_or(|list| {
                    let Span { first, end } = list.span;
                    let is_span = 0 < first && first < end && end <= said.last + 1;
                    let is_small = list.units <= units
                        && list.last < said.died_slots
                        && slot < said.list_slots;
                    let listing = Listing { slot, list };
                    is_span && is_small && lists.insert(list.span, listing).is_none()
                });
                is_new.then_some(()).ok_or_else(damaged)?;
            }
        }
    }
    let updates = || all.values().map(|(told, _): &(Told, u64)| told.update);
    let do_rise = updates().zip(updates().skip(1)).all(|(one, next)| one < next);
    let is_last = all.last_key_value().is_none_or(|(&number, _)| number <= said.last);
    let are_there = updates().all(|update| update <= superblock.number);
    if do_rise && is_last && are_there { Ok(Pins::new(said, all, lists)) } else { Err(damaged()) }
}

/// What callers were answered, the oldest first.
pub(crate) async fn read_answers(
    nodes: &Nodes,
    shape: &Shape,
    superblock: &Superblock,
    unfolded: &Unfolded,
) -> Result<Vec<LoggedReply>, OpenError> {
    let ring = ring(shape);
    let begun = superblock.answers_begun;
    let damaged = OpenError::Damaged("an answer makes no sense");
    if begun >> 48 != 0 || superblock.answers_from > begun {
        return Err(damaged);
    }
    let first = begun.saturating_sub(ring).max(superblock.answers_from);
    let mut answers: Vec<Vec<u8>> = Vec::new();
    let places: Vec<u64> = (first..begun).map(|index| index % ring).collect();
    for some in places.chunks(AT_ONCE) {
        let read = nodes.pieces(&Stem::Answers, some).await?;
        for at in some {
            let of_node = read.get(at).and_then(|bytes| answers_in(bytes));
            let Some(of_node) = of_node else { return Err(damaged) };
            answers.extend(of_node);
        }
    }
    answers.extend(unfolded.answers.iter().map(|answer| answer.to_vec()));
    let read: Option<Vec<LoggedReply>> =
        answers.iter().map(|answer| vnode::answer::read(answer)).collect();
    read.ok_or(damaged)
}
