//! The server of a crowd: a volume of a design, the dispatcher and the door of production, behind
//! pipes.

use std::cell::Cell;
use std::rc::Rc;

use block::BlockDevice;
use designs::OpenOptions;
use dispatch::{Dispatcher, Exports, Limits, Window};
use door::{Bounds, Door, Switch};
use futures::FutureExt;
use futures::future::select;
use journal::format::SMALLEST;
use namespace::Namespace;
use ram::RamOptions;
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use vfs::FileSystem;

use super::ledger::{CountedEntrance, Ledger};
use crate::explore::design::Design;
use crate::volume::{exports, volumes};
use crate::world::small_blocks;

/// Bytes of the volume.
const SIZE: u64 = 16 << 20;
/// Bytes of its cache.
pub(super) const CACHE_BYTES: usize = 4 << 20;
const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };

/// A running server and its world.
pub(super) struct Stage {
    // The executor drops first: its tasks use the other fields.
    pub(super) executor: Executor,
    pub(super) ledger: Rc<Ledger>,
    pub(super) dispatcher: Rc<Dispatcher>,
    pub(super) door: Rc<Door>,
    pub(super) stop: Switch,
    /// The result of its shutdown.
    pub(super) end: Rc<Cell<Option<Result<(), String>>>>,
}

impl Stage {
    /// A server whose tasks run in their order.
    pub(super) fn new(
        design: Design,
        seed: u64,
        (limits, bounds): (Limits, Bounds),
    ) -> Result<Self, String> {
        let executor = Executor::in_order(seed);
        let (files, disks) = open(&executor, design)?;
        let runtime = executor.runtime();
        let exports: Exports = exports(design.is_delayed());
        let (volumes, window) = (volumes(files.clone()), Window::default());
        let dispatcher = Dispatcher::new(runtime.clone(), volumes, exports, window, limits);
        let counted = move || {
            let counters = disks.iter().map(|disk| disk.counters());
            counters.map(|counters| counters.bytes_read + counters.bytes_written).sum()
        };
        let ledger = Ledger::new(runtime.clock.clone(), Box::new(counted));
        dispatcher.set_observer(ledger.clone());
        let stop = Switch::default();
        let door = Door::new(runtime.clone(), dispatcher.clone(), bounds, stop.clone());
        let stage = Self { executor, ledger, dispatcher, door, stop, end: Rc::default() };
        runtime.tasks.spawn(stage.serve(files).boxed_local());
        Ok(stage)
    }

    /// Serves until the stop signal, and then shuts down as the program does.
    fn serve(&self, files: Rc<dyn FileSystem>) -> impl Future<Output = ()> + 'static {
        let (door, stop, end) = (self.door.clone(), self.stop.clone(), self.end.clone());
        let (dispatcher, entrance) =
            (self.dispatcher.clone(), CountedEntrance(self.ledger.clone()));
        async move {
            let accept = door.accept(&entrance).boxed_local();
            select(accept, stop.wait().boxed_local()).await;
            door.drain().await;
            let quiet = dispatcher.quiesce().await;
            let shut = files.shutdown().await.map_err(|error| format!("no clean stop: {error}"));
            drop(quiet);
            end.set(Some(shut));
        }
    }
}

/// An open, empty volume and its disks.
type Opened = (Rc<dyn FileSystem>, Vec<Rc<Disk>>);

fn open(executor: &Executor, design: Design) -> Result<Opened, String> {
    let runtime = executor.runtime();
    if !design.has_disks() {
        let (disk, options) = (ram::Disk::new(SIZE, NOW), RamOptions::default());
        let opened = executor.block_on(ram::open(disk, runtime, options));
        let files = opened.map_err(|error| format!("it does not open: {error}"))?;
        return Ok((Rc::new(Namespace::new(files)), Vec::new()));
    }
    let new = |size: u64| Disk::new(executor, Image::zeroed(size));
    let disks: Vec<Rc<Disk>> = design.sizes(SIZE, SMALLEST).into_iter().map(new).collect();
    let devices = || disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>);
    let homes = devices().take(design.device().disks()).collect();
    executor.block_on(design.make_on(homes, &small_blocks(), &runtime, NOW));
    let options = OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() };
    let opened = executor.block_on(design.open_by(devices().collect(), runtime, &options));
    let opened = opened.map_err(|error| format!("it does not open: {error}"))?;
    Ok((opened.files, disks))
}
