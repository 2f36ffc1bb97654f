//! The volumes that are damaged, and the damage.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use sim::{Executor, Image, PAGE_SIZE, Prng};

use super::judge::{Held, PIECE};
use crate::explore::control;
use crate::explore::design::{Design, Shape};
use crate::explore::disks::Images;
use crate::explore::driver::Driver;
use crate::explore::op::{HELD, Op};

/// Trees of files that are drawn.
const TREES: u64 = 4;
/// Bytes of a volume: there is room for all that the story makes.
const VOLUME_BYTES: u64 = 4 << 20;
/// Bytes of memory: much of a volume is read again.
const CACHE_BYTES: usize = 512 << 10;

/// How large the volumes are.
pub(super) fn shape() -> Shape {
    Shape { volume_bytes: VOLUME_BYTES, cache_bytes: CACHE_BYTES, ..Shape::default() }
}

/// A stopped volume, and what it holds.
pub(super) struct Made {
    pub images: Images,
    pub held: Held,
}

/// Volumes that were made, by the numbers of their trees.
#[derive(Default)]
pub(super) struct Volumes(BTreeMap<u64, Rc<Made>>);

impl Volumes {
    /// The volume of a seed.
    ///
    /// # Errors
    /// Why it cannot be made.
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

/// A file that is made: its path, and how many bytes it has; a directory ends with a slash.
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

/// What a file holds: each piece says where it belongs.
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
    Ok(Made { images: disks.contents(), held })
}

/// What becomes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// This bit of it is another.
    Bit(u64),
    /// All of it is other bytes, which follow from a seed.
    Other(u64),
    /// All of it is zeros.
    Zeros,
}

/// Damage: of which disk, at which byte, what, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub disk: usize,
    pub at: u64,
    kind: Kind,
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
    /// That of a seed: a page in use of any disk.
    pub(super) fn draw(seed: u64, images: &Images) -> Self {
        let mut prng = Prng::new(seed ^ 0x0dd5);
        let disk = prng.index(images.0.len());
        let used: Vec<u64> = pages(&images.0[disk]).collect();
        let at = used[prng.index(used.len())] * PAGE_SIZE as u64;
        let kind = match prng.index(4) {
            0 => Kind::Other(prng.next_u64()),
            1 => Kind::Zeros,
            _ => Kind::Bit(prng.below(8 * PAGE_SIZE as u64)),
        };
        Self { disk, at, kind, is_served: prng.chance(1, 3) }
    }

    /// The block, after it was hit.
    pub(super) fn applied(&self, image: &Image) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_SIZE];
        image.read(self.at, &mut bytes);
        match self.kind {
            Kind::Bit(bit) => bytes[bit as usize / 8] ^= 1 << (bit % 8),
            Kind::Other(seed) => Prng::new(seed).fill(&mut bytes),
            Kind::Zeros => bytes.fill(0),
        }
        bytes
    }
}

/// Pages that somebody has written to: the others are all zeros, or all of the byte with which
/// disks are filled at first.
fn pages(image: &Image) -> impl Iterator<Item = u64> {
    (0..image.size() / PAGE_SIZE as u64).filter(move |page| {
        let mut bytes = vec![0; PAGE_SIZE];
        image.read(page * PAGE_SIZE as u64, &mut bytes);
        !bytes.iter().all(|&byte| byte == bytes[0])
    })
}
