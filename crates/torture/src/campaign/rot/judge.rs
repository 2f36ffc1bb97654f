//! The loss that damage may cause.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cow::Kind;
use sim::SECTOR_SIZE;
use vfs::FsError;

use crate::explore::design::Design;
use crate::explore::device::Device;
use crate::explore::op::HELD;

/// Most files lost with one block: a block of inodes has 4096 bytes of 256 each.
const MOST_LOST: usize = 16;
/// Bytes of each sector of content that identify its file and offset.
pub(super) const PIECE: usize = 64;

/// The contents of a volume: the bytes of each path.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub files: BTreeMap<String, Rc<Vec<u8>>>,
    /// The contents of its snapshot, by the paths of that time.
    pub snapshot: BTreeMap<String, Rc<Vec<u8>>>,
}

impl Held {
    /// The current files and, as long as it exists, those of the snapshot.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, &Rc<Vec<u8>>)> {
        let now = self.files.iter().map(|(path, bytes)| (path.clone(), bytes));
        let then = self.snapshot.iter();
        now.chain(then.map(|(path, bytes)| (format!(".snapshot/{HELD}/{path}"), bytes)))
    }
}

/// The class of a page that is a metadata block of a shadow volume; 0 for all others.
pub(super) fn class_of(page: &[u8]) -> u8 {
    if page.starts_with(b"DuSh") { page[6] } else { 0 }
}

/// The contents of a block before its damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Data of files with these bytes.
    Contents(Vec<Rc<Vec<u8>>>),
    /// The lines of a shadow volume's snapshots. A start without them would lose snapshots.
    Snapshots,
    /// Metadata on the way to data, and its class: [`class_of`].
    Other(u8),
}

impl Block {
    /// Recognises a block as data if every sector has file contents: each piece belongs to one file
    /// alone.
    pub(super) fn of(page: &[u8], held: &Held) -> Self {
        if page.starts_with(b"DuSh") && page[6] == Kind::SNAPSHOTS.byte() {
            return Self::Snapshots;
        }
        let mut owners: Vec<Rc<Vec<u8>>> = Vec::new();
        let is_blank = |sector: &&[u8]| sector.iter().all(|&byte| byte == sector[0]);
        for sector in page.chunks(SECTOR_SIZE).filter(|sector| !is_blank(sector)) {
            let is_in = |bytes: &[u8]| {
                let starts = bytes.chunks(SECTOR_SIZE).map(|one| &one[..PIECE.min(one.len())]);
                starts.into_iter().any(|start| sector.starts_with(start))
            };
            let before = owners.len();
            owners.extend(held.all().filter(|(_, bytes)| is_in(bytes)).map(|(_, it)| it.clone()));
            if owners.len() == before {
                return Self::Other(class_of(page));
            }
        }
        Self::Contents(owners)
    }

    /// A block with no loss.
    pub(super) fn of_no_file() -> Self {
        Self::Contents(Vec::new())
    }

    /// Most files that may be lost with the block after a repair: names can be restored, and the
    /// engine's own records follow from the rest. For a format without classes the block may be
    /// any.
    fn most_lost(&self) -> usize {
        const POINTERS: u8 = Kind::POINTERS.byte();
        const INODES: u8 = Kind::INODES.byte();
        match *self {
            Self::Contents(ref owners) => owners.len(),
            Self::Other(0 | INODES) => MOST_LOST,
            Self::Other(POINTERS) => 1,
            Self::Snapshots | Self::Other(_) => 0,
        }
    }

    /// Whether damage to the block may cost the file of these bytes.
    fn may_cost(&self, bytes: &Rc<Vec<u8>>) -> bool {
        match self {
            Self::Contents(owners) => owners.contains(bytes),
            Self::Snapshots | Self::Other(_) => true,
        }
    }
}

/// The result of reading a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is readable and right.
    Right,
    /// It is readable and has other bytes.
    Wrong,
    /// An error.
    Failed(FsError),
}

/// The result of reading a volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The fate of every expected path.
    pub fates: BTreeMap<String, Fate>,
    /// Contents of files that may have lost their names.
    pub found: BTreeSet<Vec<u8>>,
}

impl Seen {
    fn is_right(&self, path: &str) -> bool {
        self.fates.get(path) == Some(&Fate::Right)
    }
}

/// Whether the format detects all damage.
pub(super) fn notices_all(design: Design) -> bool {
    design.is_summed()
}

/// Whether damage may have no visible effect at all.
fn costs_nothing(design: Design) -> bool {
    design.device() != Device::Plain
}

/// Checks a reading of a volume with this damaged block. `before` is the last reading. A name may
/// be missing only after a repair that gave it up.
///
/// # Errors
/// The first violation.
pub(super) fn judge(
    design: Design,
    (held, block): (&Held, &Block),
    (seen, before): (&Seen, Option<&Seen>),
    is_repaired: bool,
) -> Result<(), String> {
    for (path, bytes) in held.all() {
        let fate = seen.fates.get(&path).ok_or("a path was not looked at")?;
        match fate {
            Fate::Right => {}
            Fate::Failed(FsError::NoEntry) if notices_all(design) && !is_repaired => {
                return Err(format!("{path} is said not to be there"));
            }
            Fate::Wrong if notices_all(design) => return Err(format!("{path} has other bytes")),
            _ if costs_nothing(design) => {
                return Err(format!("{path} is {fate:?}, and the set has it twice"));
            }
            _ if !block.may_cost(bytes) => {
                return Err(format!("{path} is {fate:?}, and its blocks are not damaged"));
            }
            _ if before.is_some_and(|before| before.is_right(&path)) => {
                return Err(format!("{path} was right before, and is {fate:?}"));
            }
            Fate::Wrong | Fate::Failed(_) => {}
        }
    }
    Ok(())
}

/// Checks the losses after a repair.
///
/// # Errors
/// The loss of too many files.
pub(super) fn judge_repaired((held, block): (&Held, &Block), seen: &Seen) -> Result<(), String> {
    let is_lost = |(path, bytes): &(&String, &Rc<Vec<u8>>)| {
        !seen.is_right(path) && !seen.found.contains(&***bytes)
    };
    let lost: Vec<&String> = held.files.iter().filter(is_lost).map(|(path, _)| path).collect();
    if lost.len() > block.most_lost() {
        return Err(format!("one block took {} files: {lost:?}", lost.len()));
    }
    Ok(())
}

/// Whether a volume with this damaged block must be served as it is: a start gives up nothing that
/// was acknowledged.
pub(super) fn must_serve(design: Design, block: &Block) -> bool {
    notices_all(design) && *block != Block::Snapshots || costs_nothing(design)
}
