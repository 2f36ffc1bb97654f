//! The volumes and their damage.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use cow::Kind;
use designs::CheckOptions;
use sim::{Executor, Image, PAGE_SIZE, Prng};

use super::judge::{Held, PIECE, class_of};
use crate::explore::control;
use crate::explore::design::{Design, Shape};
use crate::explore::device::Device;
use crate::explore::disks::Images;
use crate::explore::driver::Driver;
use crate::explore::op::{HELD, Op};
use crate::explore::ram::Ram;

/// Number of different trees of files.
const TREES: u64 = 4;
/// Bytes of a volume, enough for the whole story.
pub(super) const VOLUME_BYTES: u64 = 4 << 20;
/// Bytes of memory, so few that much of a volume is read again.
const CACHE_BYTES: usize = 512 << 10;

/// The size of the volumes.
pub(super) fn shape() -> Shape {
    Shape { volume_bytes: VOLUME_BYTES, cache_bytes: CACHE_BYTES, ..Shape::default() }
}

/// A page of a disk.
pub(super) type Page = (usize, u64);

/// A stopped volume, and its contents.
pub(super) struct Made {
    pub images: Images,
    pub held: Held,
    /// Pages that a complete read of the volume touches, by their classes.
    pub live: BTreeMap<u8, Vec<Page>>,
    /// Pairs of these that are copies of one metadata block.
    pub twins: Vec<[Page; 2]>,
}

/// The bytes of a page.
pub(super) fn bytes_of(images: &Images, (disk, page): Page) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_SIZE];
    images.0[disk].read(page * PAGE_SIZE as u64, &mut bytes);
    bytes
}

/// Pages by their classes.
pub(super) fn by_class(images: &Images, pages: &[Page]) -> BTreeMap<u8, Vec<Page>> {
    let mut classes: BTreeMap<u8, Vec<Page>> = BTreeMap::new();
    for &page in pages {
        classes.entry(class_of(&bytes_of(images, page))).or_default().push(page);
    }
    classes
}

/// Pairs of pages of one class with the same bytes.
fn twins_among(images: &Images, live: &BTreeMap<u8, Vec<Page>>) -> Vec<[Page; 2]> {
    let (mut first, mut twins) = (BTreeMap::new(), Vec::new());
    for class in [Kind::INODES, Kind::POINTERS] {
        for &page in live.get(&(class.byte())).into_iter().flatten() {
            if let Some(other) = first.insert(bytes_of(images, page), page) {
                twins.push([other, page]);
            }
        }
    }
    twins
}

/// Prepared volumes, by the numbers of their trees.
#[derive(Default)]
pub(super) struct Volumes(BTreeMap<u64, Rc<Made>>);

impl Volumes {
    /// The volume of a seed.
    ///
    /// # Errors
    /// Why it cannot be prepared.
    pub(super) fn of(&mut self, design: Design, seed: u64) -> Result<Rc<Made>, String> {
        let tree = seed % TREES;
        if let Some(made) = self.0.get(&tree) {
            return Ok(made.clone());
        }
        let made = Rc::new(make(design, tree)?);
        self.0.insert(tree, made.clone());
        Ok(made)
    }
}

/// A file to make: its path, and its length in bytes; a directory ends with a slash.
type Line = (String, usize);

/// The files of a tree: small ones, some with a block of pointers, a directory of several blocks,
/// and directories in directories.
fn lines(tree: u64) -> Vec<Line> {
    let mut prng = Prng::new(tree ^ 0x0707);
    let mut lines = vec![("deep/".to_owned(), 0), ("deep/er/".to_owned(), 0)];
    lines.push(("many/".to_owned(), 0));
    for number in 0..prng.between(8, 24) {
        let above = ["", "deep/", "deep/er/"][number as usize % 3];
        let size = [1, 300, 4096, 9000, 40_000][prng.index(5)];
        lines.push((format!("{above}file {number}"), size + prng.index(200)));
    }
    lines.push(("large".to_owned(), 100_000 + prng.index(60_000)));
    for number in 0..prng.between(20, 70) {
        lines.push((format!("many/{number:0width$}", width = 20 + prng.index(60)), 9));
    }
    lines
}

/// The bytes of a file: each piece identifies its file and offset.
pub(super) fn content(path: &str, size: usize) -> Vec<u8> {
    let mark = path.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    let piece = |number: usize| {
        let mut bytes = [0; PIECE];
        Prng::new(mark ^ (number as u64) << 20).fill(&mut bytes);
        bytes
    };
    let mut bytes: Vec<u8> = (0..size.div_ceil(PIECE)).flat_map(piece).collect();
    bytes.truncate(size);
    bytes
}

fn make(design: Design, tree: u64) -> Result<Made, String> {
    let executor = Executor::new(tree + 1);
    let disks = design.format_as(&executor, &shape());
    let held = executor.block_on(async {
        let opened = design.open_as(disks.devices(), executor.runtime(), &shape()).await;
        let files = opened.map_err(|error| error.to_string())?.files;
        let driver = Driver::new(files.clone());
        let mut held = Held::default();
        let failed = |error: vfs::FsError| format!("a volume without damage: {error}");
        for (number, (path, size)) in lines(tree).into_iter().enumerate() {
            match path.strip_suffix('/') {
                Some(path) => driver.mkdir(path).await.map_err(failed)?,
                None => {
                    driver.fill(&path, content(&path, size)).await.map_err(failed)?;
                    held.files.insert(path.clone(), Rc::new(content(&path, size)));
                }
            }
            // Half of the files are in the snapshot too, and one was removed since.
            if number == 10 && design.has_snapshots() {
                driver.fill("gone", content("gone", 20_000)).await.map_err(failed)?;
                held.snapshot.clone_from(&held.files);
                held.snapshot.insert("gone".to_owned(), Rc::new(content("gone", 20_000)));
                let pinned = control::carry_out(&*files, &Op::Pin(HELD), || ()).await;
                pinned?.map_err(failed)?;
                driver.unlink("gone").await.map_err(failed)?;
            }
        }
        driver.symlink("link", &[b'x'; 300]).await.map_err(failed)?;
        driver.stop().await.map_err(failed)?;
        Ok::<_, String>(held)
    })?;
    let images = disks.contents();
    let looked = look_at_all(design, &executor, &images, &held)?;
    let live = by_class(&images, &looked);
    let twins = twins_among(&images, &live);
    Ok(Made { images, held, live, twins })
}

/// The pages touched by opening a volume, reading all of it, and checking it.
fn look_at_all(
    design: Design,
    executor: &Executor,
    images: &Images,
    held: &Held,
) -> Result<Vec<Page>, String> {
    let rams = Ram::all(images);
    let devices = rams.iter().map(|ram| ram.clone() as _).collect();
    executor.block_on(async {
        let opened = design.open_as(devices, executor.runtime(), &shape()).await;
        let driver = Driver::new(opened.map_err(|error| error.to_string())?.files.clone());
        for (path, _) in held.all() {
            let id = driver.find(&path).await.map_err(|error| error.to_string())?;
            driver.read(id).await.map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(())
    })?;
    let mut pages = rams[0].looked();
    if design.device() == Device::Plain {
        pages.extend(looked_by_a_check(design, executor, images)?);
    }
    let may_rot = |&page: &Page| may_be_hit(design, page) && is_used(images, page);
    let mut all: Vec<Page> = pages.into_iter().filter(may_rot).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The pages that a check of all data reads.
pub(super) fn looked_by_a_check(
    design: Design,
    executor: &Executor,
    images: &Images,
) -> Result<Vec<Page>, String> {
    let rams = Ram::all(images);
    let devices = rams.iter().map(|ram| ram.clone() as _).collect();
    executor.block_on(async {
        let runtime = executor.runtime();
        let disks = design.stack(devices, &runtime).await;
        let disks = disks.map_err(|error| error.to_string())?;
        let options = CheckOptions { full: true, ..CheckOptions::default() };
        let checked = design.check(&disks.volume, &runtime, &options).await;
        checked.map_err(|error| error.to_string())?;
        Ok(rams[0].looked())
    })
}

/// Whether damage to a page is tried. A log beside a set is a single disk, which the plain designs
/// cover: the set has no copy of it.
pub(super) fn may_be_hit(design: Design, (disk, _): Page) -> bool {
    design.device() == Device::Plain || disk < design.device().disks()
}

/// Whether a page was ever written.
fn is_used(images: &Images, page: Page) -> bool {
    let bytes = bytes_of(images, page);
    !bytes.iter().all(|&byte| byte == bytes[0])
}

/// A change of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// This bit is flipped.
    Bit(u64),
    /// All bytes are replaced, by a seed.
    Other(u64),
    /// All bytes are zeroed.
    Zeros,
}

/// Damage: disk, byte address, change and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub disk: usize,
    pub at: u64,
    kind: Change,
    /// The volume is open then, and everything has been read.
    pub is_served: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disk, at, kind, is_served } = self;
        let when = if *is_served { "under the server" } else { "at rest" };
        write!(f, "disk {disk}, byte {at}, {kind:?}, {when}")
    }
}

impl Damage {
    /// Draws damage: to a page of any class that a complete read touches, or to any used page of
    /// any disk.
    pub(super) fn draw(design: Design, seed: u64, made: &Made) -> Self {
        let mut prng = Prng::new(seed ^ 0x0dd5);
        let (disk, page) = if prng.chance(4, 5) {
            drawn(&mut prng, &made.live)
        } else {
            let disks = (0..made.images.0.len()).filter(|&disk| may_be_hit(design, (disk, 0)));
            let disk = prng.index(disks.count());
            let used: Vec<u64> = pages(&made.images.0[disk]).collect();
            (disk, used[prng.index(used.len())])
        };
        Self { is_served: prng.chance(1, 3), ..Self::of(&mut prng, (disk, page)) }
    }

    /// Draws damage to a page, at rest.
    pub(super) fn of(prng: &mut Prng, (disk, page): Page) -> Self {
        let at = page * PAGE_SIZE as u64;
        let kind = match prng.index(4) {
            0 => Change::Other(prng.next_u64()),
            1 => Change::Zeros,
            _ => Change::Bit(prng.below(8 * PAGE_SIZE as u64)),
        };
        Self { disk, at, kind, is_served: false }
    }

    /// The damaged block.
    pub(super) fn applied(&self, image: &Image) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_SIZE];
        image.read(self.at, &mut bytes);
        match self.kind {
            Change::Bit(bit) => bytes[bit as usize / 8] ^= 1 << (bit % 8),
            Change::Other(seed) => Prng::new(seed).fill(&mut bytes),
            Change::Zeros => bytes.fill(0),
        }
        bytes
    }
}

/// A page of any class.
pub(super) fn drawn(prng: &mut Prng, classes: &BTreeMap<u8, Vec<Page>>) -> Page {
    let class = classes.values().nth(prng.index(classes.len())).expect("something is read");
    class[prng.index(class.len())]
}

/// Pages that were written: the others are all zeros, or all of the byte that fills new disks.
fn pages(image: &Image) -> impl Iterator<Item = u64> {
    (0..image.size() / PAGE_SIZE as u64).filter(move |page| {
        let mut bytes = vec![0; PAGE_SIZE];
        image.read(page * PAGE_SIZE as u64, &mut bytes);
        !bytes.iter().all(|&byte| byte == bytes[0])
    })
}
