//! The designs to explore: entries of the table, with their disks, and how a volume is opened.
//!
//! Everything else here works on any engine, and asks a design for its properties. A design gets
//! all the disks that its entry names wherever a volume is opened.

use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use block::{BlockDevice, Buffer};
use designs::{
    CheckError, CheckOptions, DESIGNS, DiskRole, FFS_LOG, FFS_SOFTDEP, FFS_SYNC, LogOptions,
    MkfsOptions, OpenError, OpenOptions, Opened, Report, Table, Unknown, Work,
};
use journal::format::SMALLEST;
use runtime::{Runtime, Timestamp};
use sim::{Executor, Image};

use super::device::{self, Device};
use super::disks::{Disks, Images};

/// The initial bytes of disks: no file ever holds such a byte.
const RUBBISH: u8 = 0xff;
/// Bytes of a zone, for designs with zones.
const SMALL_ZONE: u64 = 64 << 10;
/// The same of a segment, for designs with segments.
const SMALL_SEGMENT: u64 = 16 << 10;
const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };
/// Bytes of memory for a volume.
const CACHE_BYTES: usize = 4 << 20;

/// The sizes of a volume. A design uses those that apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// Bytes in a block.
    pub block_size: u64,
    /// Bytes in a fragment.
    pub fragment_size: u64,
    /// Bytes of the disk beside the volume.
    pub log_bytes: u64,
    /// Bytes of memory.
    pub cache_bytes: usize,
    /// How long durable data may wait elsewhere for its place on the volume,
    pub sync_interval: Duration,
    /// and how many bytes of it may.
    pub sync_bytes: u64,
    /// Bytes of the stripes that the volume reports, if it does: it is then informed of whole
    /// stripes that are new.
    pub stripe: Option<u64>,
}

/// Blocks of 4 KiB and fragments of 512 bytes: the smallest volume, so that recovery reads little.
impl Default for Shape {
    fn default() -> Self {
        let LogOptions { sync_interval, sync_bytes, .. } = LogOptions::default();
        Self {
            volume_bytes: 1 << 20,
            block_size: 4096,
            fragment_size: 512,
            log_bytes: SMALLEST,
            cache_bytes: CACHE_BYTES,
            sync_interval,
            sync_bytes,
            stripe: None,
        }
    }
}

/// An engine and its policy, with all its properties in the table; and whether its volume is served
/// as a delayed one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Design {
    entry: &'static designs::Design,
    is_delayed: bool,
    has_ring: bool,
    device: Device,
}

/// The word of a command line, and of a case's line, for a delayed volume.
pub const DELAYED: &str = "delayed";
/// The same for a volume with a ring of intents beside it.
pub const INTENTS: &str = "intents";

/// The engine over memory: an entry of ours, since no stored volume can have it.
static ENGINE_RAM: designs::Design = designs::Design {
    engine: "ram",
    policy: None,
    about: "Keep files in memory, and lose what a cut takes: it judges who waits for what",
    mark: None,
    disks: &[],
    after_crash: "what was answered is there, and of what was on its way any part that rests on \
                  nothing else",
    retry: "a call that must not run twice gets the answer that it was given first",
    keeps_intents: false,
    remembers: true,
    may_stop_between: false,
    keeps_order: true,
    keeps_history: false,
    checks_first: false,
    repairs: true,
    counts_all: true,
    waits: false,
    has_snapshots: true,
    work: None,
};

/// All designs to explore: every design that a volume can have, and the engine over memory. The
/// first is the default of a command line. Random choices depend on the positions in this list, so
/// a new design comes last.
pub static TRIED: LazyLock<Table> = LazyLock::new(|| {
    let first = [&FFS_SYNC, &FFS_LOG, &FFS_SOFTDEP, &ENGINE_RAM];
    let others = DESIGNS.all().iter().copied().filter(|design| !first.contains(design));
    Table::new(first.into_iter().chain(others).collect::<Vec<_>>().leak())
});

impl Default for Design {
    fn default() -> Self {
        Self::of(TRIED.all()[0])
    }
}

impl fmt::Debug for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

impl Design {
    /// UFS2 with ordered synchronous writes.
    pub const SYNC: Self = Self::of(&FFS_SYNC);
    /// UFS2 with a log on a device of its own.
    pub const LOG: Self = Self::of(&FFS_LOG);
    /// UFS2 with soft updates.
    pub const SOFTDEP: Self = Self::of(&FFS_SOFTDEP);
    /// Shadow paging.
    pub const SHADOW: Self = Self::of(&designs::SHADOW);
    /// The disk as a log.
    pub const LFS: Self = Self::of(&designs::LFS);
    /// The engine over memory.
    pub const RAM: Self = Self::of(&ENGINE_RAM);

    /// The designs with disks; all campaigns play them.
    pub fn all() -> impl Iterator<Item = Self> {
        TRIED.all().iter().map(|entry| Self::of(entry)).filter(|design| design.has_disks())
    }

    /// The design of these words of a command line. A missing word leaves the choice to the order
    /// of [`TRIED`].
    ///
    /// # Errors
    /// The possible words.
    pub fn find(engine: Option<&str>, policy: Option<&str>) -> Result<Self, Unknown> {
        TRIED.find(engine, policy).map(Self::of)
    }

    /// The design of this name, in the line of a violation.
    pub fn named(name: &str) -> Option<Self> {
        let (name, is_delayed) = match name.strip_suffix(DELAYED) {
            Some(name) => (name.trim_end(), true),
            None => (name, false),
        };
        let (name, has_ring) = match name.strip_suffix(INTENTS) {
            Some(name) => (name.trim_end(), true),
            None => (name, false),
        };
        let (name, device) = match name.rsplit_once(' ') {
            Some((before, device)) => (before, device.parse().ok()?),
            None => (name, Device::Plain),
        };
        let all = TRIED.all().iter().map(|entry| Self::of(entry));
        let named = all.into_iter().find(|design| design.name() == name)?.on(device);
        let named = if has_ring { named.with_ring() } else { named };
        Some(if is_delayed { named.delayed() } else { named })
    }

    const fn of(entry: &'static designs::Design) -> Self {
        Self { entry, is_delayed: false, has_ring: false, device: Device::Plain }
    }

    /// The same with delayed answers, which need not be durable yet.
    pub const fn delayed(self) -> Self {
        Self { is_delayed: true, ..self }
    }

    /// The same, with a ring of intents beside the volume, if it keeps any.
    pub const fn with_ring(self) -> Self {
        Self { has_ring: self.entry.keeps_intents, ..self }
    }

    /// The same without a ring of intents.
    pub const fn without_ring(self) -> Self {
        Self { has_ring: false, ..self }
    }

    /// The same with the volume on this device.
    pub const fn on(self, device: Device) -> Self {
        Self { device, ..self }
    }

    /// The device of the volume.
    pub const fn device(self) -> Device {
        self.device
    }

    /// Whether answers need not be durable yet.
    pub fn is_delayed(self) -> bool {
        self.is_delayed
    }

    /// Whether a cut takes only the end of history, if it takes anything.
    pub fn keeps_history(self) -> bool {
        self.entry.keeps_history
    }

    /// Whether unanswered changes survive in their order.
    pub fn keeps_order(self) -> bool {
        self.entry.keeps_order
    }

    /// Whether its volume is UFS2, of which the explorer checks more than the engine reports.
    pub fn is_ufs2(self) -> bool {
        self.entry.mark.is_some()
    }

    /// Whether checksums cover every change as a whole, so that the engine detects a partial one
    /// and a disk may leave any sectors of it.
    pub fn is_summed(self) -> bool {
        self.has_disks() && !self.is_ufs2()
    }

    /// Its position among the explored designs.
    pub(crate) fn number(self) -> u64 {
        let place = TRIED.all().iter().position(|&one| one == self.entry);
        place.expect("a design that is explored is in the table") as u64
    }

    /// Whether its durable state is on disks.
    pub fn has_disks(self) -> bool {
        self.entry.has_disks()
    }

    /// Whether one of its disks is a redo log.
    pub fn has_log(self) -> bool {
        self.entry.has(DiskRole::Log)
    }

    /// Whether it has a ring of intents beside the volume.
    pub fn has_ring(self) -> bool {
        self.has_ring
    }

    /// Whether one of its disks is not the volume.
    pub fn has_beside(self) -> bool {
        self.has_log() || self.has_ring
    }

    /// Whether it can have a ring of intents.
    pub fn keeps_intents(self) -> bool {
        self.entry.keeps_intents
    }

    /// Whether a recovery after a cut checks and repairs all of the volume before it is served: a
    /// log is replayed without a check of what it changes, and soft updates look for their remains
    /// while the volume is served.
    pub fn checks_first(self) -> bool {
        self.entry.checks_first
    }

    /// Whether a check can repair damage that no cut leaves.
    pub fn repairs(self) -> bool {
        self.entry.repairs
    }

    /// Whether free space and file space always add up to the same sum.
    pub fn counts_all(self) -> bool {
        self.entry.counts_all
    }

    /// Whether its volume may have snapshots.
    pub fn has_snapshots(self) -> bool {
        self.entry.has_snapshots
    }

    /// The design of its engine with a redo log, if there is one.
    pub(crate) fn with_log(self) -> Option<Self> {
        let disks = [DiskRole::Volume, DiskRole::Log];
        DESIGNS.with_disks(self.engine(), &disks).map(Self::of)
    }

    /// The first design of its engine without a redo log.
    pub(crate) fn without_log(self) -> Option<Self> {
        DESIGNS.with_disks(self.engine(), &[DiskRole::Volume]).map(Self::of)
    }

    /// The engine.
    pub fn engine(self) -> &'static str {
        self.entry.engine
    }

    /// The policy, if its engine has several.
    pub fn policy(self) -> Option<&'static str> {
        self.entry.policy
    }

    /// Whether answers survive a cut, and the recovery completes begun operations.
    pub fn remembers(self) -> bool {
        self.entry.remembers || self.has_ring
    }

    /// The words of a command line that select it.
    pub fn words(self) -> String {
        let mut words = match self.policy() {
            Some(policy) if self.engine() == Self::default().engine() => {
                format!("--policy {policy}")
            }
            _ => self.entry.words(),
        };
        if self.is_delayed {
            words += " --durability delayed";
        }
        if self.has_ring {
            words += " --intents";
        }
        if self.device != Device::Plain {
            words += &format!(" --device {}", self.device);
        }
        words
    }

    /// Its name in the line of a case.
    pub fn case_name(self) -> String {
        let device = Some(self.device.to_string()).filter(|_| self.device != Device::Plain);
        let delayed = self.is_delayed.then(|| DELAYED.to_owned());
        let ring = self.has_ring.then(|| INTENTS.to_owned());
        let words = [Some(self.name().to_owned()), device, ring, delayed].into_iter().flatten();
        words.collect::<Vec<_>>().join(" ")
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.entry.name()
    }

    /// The functions for its disks.
    ///
    /// # Panics
    /// When it has no disks.
    pub(crate) fn work(self) -> &'static Work {
        self.entry.work()
    }

    /// Checks its volume.
    ///
    /// # Errors
    /// [`CheckError`].
    pub(crate) async fn check(
        self,
        volume: &Rc<dyn BlockDevice>,
        runtime: &Runtime,
        options: &CheckOptions,
    ) -> Result<Report, CheckError> {
        (self.work().check)(volume, None, runtime, options, &mut |_| ()).await
    }

    /// Bytes of each disk, the volume first.
    fn disk_sizes(self, shape: &Shape) -> Vec<u64> {
        self.sizes(shape.volume_bytes, shape.log_bytes)
    }

    /// Bytes of each disk, the volume first, from the size of each kind.
    pub(crate) fn sizes(self, volume_bytes: u64, log_bytes: u64) -> Vec<u64> {
        let sizes = self.entry.disks.iter().flat_map(|role| match role {
            DiskRole::Volume => self.home_sizes(volume_bytes),
            DiskRole::Log => vec![log_bytes],
        });
        sizes.chain(self.has_ring.then_some(log_bytes)).collect()
    }

    /// Bytes of each disk of a volume of this size.
    pub(crate) fn home_sizes(self, volume_bytes: u64) -> Vec<u64> {
        let volume_bytes = self.roomy(volume_bytes);
        match self.device {
            Device::Nvram => vec![volume_bytes, device::NVRAM_BYTES],
            set => {
                let members = vec![device::member_size(set, volume_bytes); set.members()];
                let nvram = set.has_nvram().then_some(device::NVRAM_BYTES);
                members.into_iter().chain(nvram).collect()
            }
        }
    }

    /// The same options with the smallest parts of a volume of this size: zones, or segments of
    /// whole stripes. None if there is no such volume.
    fn small_parts(self, options: &MkfsOptions, size: u64, stripe: u64) -> Option<MkfsOptions> {
        let small = |least: u64| least.max(4 * options.block_size.unwrap_or(0));
        let (zone, segment) = (small(SMALL_ZONE), small(SMALL_SEGMENT).next_multiple_of(stripe));
        let zoned = MkfsOptions { zone_size: Some(zone), ..options.clone() };
        let cut = MkfsOptions { segment_size: Some(segment), ..options.clone() };
        let fits = |one: &MkfsOptions| (self.work().plan)(size, 512, one).is_ok();
        [zoned, cut].into_iter().find(fits)
    }

    /// Bytes of a volume: so many, or the next power of two at which there is one.
    fn roomy(self, volume_bytes: u64) -> u64 {
        let block_size = Some(Shape::default().block_size);
        let options = MkfsOptions { block_size, ..MkfsOptions::default() };
        let has_room =
            |&size: &u64| self.is_ufs2() || self.small_parts(&options, size, 1).is_some();
        let sizes = std::iter::successors(Some(volume_bytes), |size| Some(2 * size));
        sizes.take(8).find(has_room).unwrap_or(volume_bytes)
    }

    /// Makes a volume on these disks, without its log.
    ///
    /// # Panics
    /// When they do not have room for it.
    pub(crate) async fn make_on(
        self,
        homes: Vec<Rc<dyn BlockDevice>>,
        options: &MkfsOptions,
        runtime: &Runtime,
        now: Timestamp,
    ) {
        if let Some(level) = self.device.level() {
            let (members, nvram) = homes.split_at(self.device.members());
            device::make(level, members, runtime).await;
            if !nvram.is_empty() {
                device::put_in_front(members.to_vec(), nvram, runtime).await;
            }
        }
        if self.device == Device::Nvram {
            device::make_nvram(&homes).await;
        }
        let volume = self.stack(homes, runtime).await.expect("it is new").volume;
        // Most sizes are those of UFS2, which another engine may refuse: it has small zones, or
        // small segments.
        let (label, block_size) = (options.label.clone(), options.block_size);
        let others = MkfsOptions { label, block_size, ..MkfsOptions::default() };
        let geometry = volume.geometry();
        let stripe = geometry.stripe.map_or(1, |stripe| stripe.length());
        let small = self.small_parts(&others, geometry.size, stripe).unwrap_or(others);
        let options = if self.is_ufs2() { options } else { &small };
        let made = (self.work().make)(&*volume, options, &*runtime.random, now).await;
        made.unwrap_or_else(|error| panic!("the disk does not hold a file system: {error}"));
        volume.flush().await.expect("nothing has failed");
    }

    /// The volume's contents as one image, from the contents of its disks.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn plain_image(self, images: &Images) -> Result<Image, String> {
        if self.device == Device::Plain {
            return Ok(images.volume().clone());
        }
        let executor = Executor::new(1);
        let devices = Disks::new(&executor, images).devices();
        let runtime = executor.runtime();
        executor.block_on(async {
            let stack = self.stack(devices, &runtime).await.map_err(|error| error.to_string())?;
            let room = Buffer::zeroed(stack.volume.geometry().size as usize);
            let all = stack.volume.read(0, room).await.map_err(|error| error.to_string())?;
            Ok(Image::from_bytes(&all))
        })
    }

    /// Whether a cut during the truncation of a large file may leave any length in between.
    pub fn may_stop_between(self) -> bool {
        self.entry.may_stop_between
    }

    /// Disks with an empty volume.
    pub(super) fn format(self, executor: &Executor) -> Disks {
        self.format_as(executor, &Shape::default())
    }

    /// Disks with an empty volume of a shape.
    pub(crate) fn format_as(self, executor: &Executor, shape: &Shape) -> Disks {
        format_on(self, executor, &self.disk_sizes(shape), shape)
    }

    /// Disks of these sizes, the volume first, with an empty volume.
    pub(super) fn format_sized(self, executor: &Executor, sizes: &[u64]) -> Disks {
        format_on(self, executor, sizes, &Shape::default())
    }

    /// Opens the volume.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) async fn open(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
    ) -> Result<Opened, OpenError> {
        self.open_as(disks, runtime, &Shape::default()).await
    }

    /// Opens a volume of a shape.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) async fn open_as(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
        shape: &Shape,
    ) -> Result<Opened, OpenError> {
        self.open_by(disks, runtime, &shape.to_open()).await
    }

    /// Opens a volume that is served while the remains of a cut are looked for.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) async fn open_stack(
        self,
        disks: designs::Disks,
        runtime: Runtime,
    ) -> Result<Opened, OpenError> {
        self.open_disks_at_once(disks, runtime, &Shape::default().to_open()).await
    }

    /// The engine's disks on top of these.
    pub(crate) async fn stack(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: &Runtime,
    ) -> Result<designs::Disks, OpenError> {
        let mut disks = disks.into_iter();
        let volume: Rc<dyn BlockDevice> = match self.device {
            Device::Plain => disks.next().expect("a design that is opened has disks"),
            Device::Nvram => {
                let both = disks.by_ref().take(self.device.disks()).collect();
                let nvram = device::open_nvram(both, runtime).await;
                Rc::new(nvram.map_err(|error| OpenError::Other(error.into()))?)
            }
            Device::Raid5Nvram => {
                let members = disks.by_ref().take(self.device.members()).collect();
                let memory = disks.next().expect("a design that is opened has disks");
                let nvram = device::open_set_behind(members, memory, runtime).await;
                Rc::new(nvram.map_err(|error| OpenError::Other(error.into()))?)
            }
            device => {
                let members = disks.by_ref().take(device.disks()).collect();
                let set = device::open(members, runtime).await;
                Rc::new(set.map_err(|error| OpenError::Other(error.into()))?)
            }
        };
        let beside = disks.next();
        let (log, intents) = if self.has_ring { (None, beside) } else { (beside, None) };
        Ok(designs::Disks { volume, log, intents })
    }

    /// Opens the volume with these limits, which keep a log small.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) async fn open_with(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
        log: LogOptions,
    ) -> Result<Opened, OpenError> {
        let options = OpenOptions { log, ..Shape::default().to_open() };
        self.open_by(disks, runtime, &options).await
    }

    /// Opens the volume on these disks.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) async fn open_by(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
        options: &OpenOptions,
    ) -> Result<Opened, OpenError> {
        let disks = self.stack(disks, &runtime).await?;
        self.open_disks(disks, runtime, options).await
    }

    /// Opens the volume on these disks.
    ///
    /// # Errors
    /// [`OpenError`].
    async fn open_disks(
        self,
        disks: designs::Disks,
        runtime: Runtime,
        options: &OpenOptions,
    ) -> Result<Opened, OpenError> {
        let opened = self.open_disks_at_once(disks, runtime, options).await?;
        if opened.engine.wait_for_reclaim().await {
            Ok(opened)
        } else {
            Err(OpenError::Other("reclaim cannot go on".into()))
        }
    }

    /// Opens the volume on these disks. The remains of a cut may be looked for while it is served;
    /// a stop waits for that, since the stopped volume is judged.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) async fn open_disks_at_once(
        self,
        disks: designs::Disks,
        runtime: Runtime,
        options: &OpenOptions,
    ) -> Result<Opened, OpenError> {
        let options = OpenOptions { finishes_reclaim: true, ..options.clone() };
        (self.work().open)(disks, runtime, &options, &mut |_| ()).await
    }
}

fn format_on(design: Design, executor: &Executor, sizes: &[u64], shape: &Shape) -> Disks {
    let full = |&size: &u64| Image::from_bytes(&vec![RUBBISH; size as usize]);
    let disks = Disks::new(executor, &Images(sizes.iter().map(full).collect()));
    let (runtime, options) = (executor.runtime(), shape.to_make());
    executor.block_on(async {
        let homes = disks.devices().into_iter().take(design.device.disks()).collect();
        design.make_on(homes, &options, &runtime, NOW).await;
    });
    disks
}

impl Shape {
    fn to_make(self) -> MkfsOptions {
        MkfsOptions {
            block_size: Some(self.block_size),
            fragment_size: Some(self.fragment_size),
            bytes_per_inode: Some(16_384),
            ..MkfsOptions::default()
        }
    }

    fn to_open(self) -> OpenOptions {
        let (cache_bytes, sync_interval, sync_bytes) =
            (self.cache_bytes, self.sync_interval, self.sync_bytes);
        // A call that waits for the device lets others run in between.
        let keeps_data = false;
        let log = LogOptions { sync_interval, sync_bytes, ..LogOptions::default() };
        OpenOptions { cache_bytes, keeps_data, log, ..OpenOptions::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_design_choose_it() {
        for design in [Design::SYNC, Design::LOG, Design::SOFTDEP, Design::RAM] {
            let words = design.words();
            let mut words = words.split(' ');
            let (mut engine, mut policy) = (None, None);
            while let (Some(option), value) = (words.next(), words.next()) {
                *(if option == "--engine" { &mut engine } else { &mut policy }) = value;
            }
            assert_eq!(Design::find(engine, policy), Ok(design), "{}", design.words());
        }
        assert_eq!(Design::find(None, None), Ok(Design::default()));
        assert_eq!(Design::LOG.words(), "--policy log");
        assert_eq!(Design::RAM.words(), "--engine ram");
    }

    #[test]
    fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
        let told = |engine, policy| Design::find(engine, policy).expect_err("none").to_string();
        assert!(told(Some("mirror"), None).ends_with("there are these: ffs, ram, shadow, lfs"));
        assert!(told(None, Some("luck")).ends_with("it has these: sync, log, softdep"));
        assert!(told(Some("ram"), Some("log")).contains("engine ram has no policies"));
    }

    #[test]
    fn what_is_explored_are_all_designs_that_a_volume_can_have_and_one_more() {
        for design in DESIGNS.all() {
            assert!(Design::all().any(|one| one == Design::of(design)), "{design:?}");
        }
        assert_eq!(Design::default(), Design::SYNC);
        assert_eq!(TRIED.all().len(), DESIGNS.all().len() + 1);
        assert!(!Design::RAM.has_disks() && DESIGNS.find(Some("ram"), None).is_err());
    }
}
