//! Opening a volume, and recovering it after a cut.
//!
//! Anchors name the zones in which superblocks may be. If several volumes have anchors, only those
//! under which there are superblocks count. If there is no anchor at all, the slots of all zones
//! are read, and the volume counts as one that was killed. The superblock to continue from is the
//! highest one that is whole, with all that it lists; if that is not whole, the one that it names
//! as durable. The listed runs are rewritten, with the superblock itself, before anything rests on
//! them: a flush that failed may have dropped them. The anchor, which a cut may have left at one
//! end, or a failure only in a cache, gets a successor at both ends. Then a superblock with a
//! higher number than any that was seen becomes durable, and only then is the volume served.

use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use block::scratch::ScratchDevice;
use cache::{Budget, DataPath};
use cow::format::inode::{Facts, Record};
use cow::{Pins, ROOT, Stem, UNIT, found_pins, sum};
use futures::future::{join, try_join};
use runtime::Runtime;
use vfs::LoggedReply;
use vnode::{Files, FilesOptions};

use crate::anchors::find_anchor;
use crate::belief::{Chosen, believe, choose};
use crate::callers::Callers;
use crate::commit::{Commits, Found};
use crate::compact::start_compaction;
use crate::engine::Shadow;
use crate::error::OpenError;
use crate::format::anchor::Anchor;
use crate::format::superblock::Superblock;
use crate::in_order::InOrder;
use crate::placement::Placement;
use crate::planted::{Bug, is_planted};
use crate::renew::{Books, read_books};
use crate::space::Space;
use crate::units::{Nodes, Units};
use cow::floor::{Floor, limits};

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
    /// Percent of the space that only root may fill from the first update on: at most
    /// [`MOST_RESERVE`](crate::format::superblock::MOST_RESERVE). `None` keeps the present value.
    pub reserve: Option<u8>,
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
            reserve: None,
            housekeeping_interval: Duration::from_secs(5),
        }
    }
}

/// UNSTABLE data in memory, at most, in bytes.
const DIRTY_MOST: u64 = 256 << 20;

/// Opens a volume, after recovery if it was cut off.
///
/// # Errors
/// [`OpenError`].
pub async fn open(
    device: Rc<dyn BlockDevice>,
    runtime: Runtime,
    options: &OpenOptions,
) -> Result<Rc<Files<Shadow>>, OpenError> {
    let (anchor, Chosen { superblock, at, highest, mended }) =
        chosen(&*device, options.read_only).await?;
    let shape = anchor.shape;
    let (device, placement) = followed(device, &runtime, options.read_only);
    let callers = Rc::new(Callers::new(device));
    let device: Rc<dyn BlockDevice> = callers.clone();
    if highest != anchor.rest && !is_planted(Bug::UnwrittenBelief) {
        believe(&*device, (&superblock, at), &mended, &anchor.secret).await?;
    }
    let block_size = shape.block * UNIT as u64;
    let budget = Budget::new(options.cache_bytes, block_size, options.keeps_data);
    let path = DataPath::new(device.clone(), budget.clone(), (block_size, block_size));
    let path = Rc::new(path.with_sums(sum));
    let (trees, secret) = (superblock.trees(), anchor.secret);
    let nodes = Rc::new(Nodes::new(Units::of(&path), path.clone(), budget.clone(), trees, secret));
    let space = Rc::new(Space::empty(shape).placed_by(placement));
    let pins = read_pins_left(&nodes, &superblock, shape.units);
    let books = read_books(&nodes, &space, &superblock);
    let (read, ()) = join(try_join(pins, books), nodes.mend_copies(&Stem::Inodes)).await;
    let ((pins, lost_lists), books) = read?;
    let Books { unfolded, log, remembered, lost } = books;
    let chains = superblock.chains.clone();
    let reserve = options.reserve.unwrap_or(superblock.reserve);
    let superblock = Superblock { reserve, ..superblock };
    let found = Found { anchor, superblock, at, unfolded, log, pins };
    let commits = Commits::new(runtime.clone(), nodes.clone(), space.clone(), path.clone(), found);
    commits.pass_number(highest);
    commits.renew_all(mended.len() as u64, &lost_lists, lost).await?;
    let generation = root_of(&commits).await?.generation;
    let has_room = space.has_blocks(0, commits.needs_now(), false);
    has_room.then_some(()).ok_or(OpenError::Damaged("nothing of it is free"))?;
    if !is_planted(Bug::LoneAnchors) {
        commits.renew_anchor().await?; // believed anchors may be lost as well
    }
    commits.commit(false).await.map_err(OpenError::of_commit)?;
    nodes.held_trees.begin(commits.pins.holding().into_iter().map(|told| told.inodes));
    let (pins, live) = (commits.pins.clone(), commits.live.clone());
    let limits = limits(generation, (shape.units, block_size), options.read_only);
    let (held, layout) = (pins.clone(), commits.clone());
    let floor = Floor::new(runtime.clone(), limits, budget, nodes.clone(), held, layout, live);
    let engine = Shadow {
        floor,
        runtime: runtime.clone(),
        path,
        callers,
        nodes,
        space,
        pins,
        followed: Default::default(),
        commits,
        late_answer: Default::default(),
        keeps_device: options.keeps_device,
        scrubbing: Default::default(),
        compaction: Default::default(),
    };
    let files = Files::new(Rc::new(engine), runtime, files_options(options, remembered));
    start_background(&files, options.housekeeping_interval);
    files.finish_chains(chains).await?;
    Ok(files)
}

/// The root directory's attributes. Its inode has two copies from now on.
async fn root_of(commits: &Commits) -> Result<Facts, OpenError> {
    let root = commits.root_twice().await?;
    let facts = root.and_then(|root| root.inode(ROOT, Record::facts));
    facts.ok_or(OpenError::Damaged("it has no root"))
}

/// The anchor and the superblock that count.
async fn chosen(
    device: &dyn BlockDevice,
    is_only_read: bool,
) -> Result<(Anchor, Chosen), OpenError> {
    let anchor = find_anchor(device).await?;
    let chosen = choose(device, &anchor).await?;
    let Chosen { superblock, highest, .. } = &chosen;
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

/// Starts the background tasks of an open volume.
fn start_background(files: &Rc<Files<Shadow>>, interval: Duration) {
    files.start_housekeeping(interval);
    start_compaction(files, interval);
}

/// The device, with ordered writes if the position of its arm is known; then also a placement by
/// that. If the volume is opened read-only, the device stays as it is.
fn followed(
    device: Rc<dyn BlockDevice>,
    runtime: &Runtime,
    read_only: bool,
) -> (Rc<dyn BlockDevice>, Option<Rc<Placement>>) {
    // A read-only opening keeps its writes in memory.
    let scratch = |device| -> Rc<dyn BlockDevice> { Rc::new(ScratchDevice::new(device)) };
    let device = if read_only { scratch(device) } else { device };
    let Some(platters) = device.geometry().platters.filter(|_| !read_only) else {
        return (device, None);
    };
    let placement = Rc::new(Placement::new(platters, runtime.clock.clone()));
    let device = InOrder::new(device, runtime.tasks.clone(), placement.clone());
    (Rc::new(device), Some(placement))
}

/// The snapshots of the volume: see [`found_pins::read_pins`].
///
/// # Errors
/// [`OpenError`] if a block cannot be read, or makes no sense.
pub(crate) async fn read_pins_left(
    nodes: &Nodes,
    superblock: &Superblock,
    units: u64,
) -> Result<(Pins, Vec<u64>), OpenError> {
    let newest = (units, superblock.number);
    let found = found_pins::read_pins(nodes, &superblock.snapshots, newest, false).await?;
    let found = found.map(|(pins, lost)| (pins, lost.lists));
    found.ok_or(OpenError::Damaged("what is told of snapshots makes no sense"))
}
