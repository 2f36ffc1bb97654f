//! Files and directories that have lost their names: a repair gives each of them one, `#INODE` in
//! `/lost+found`.
//!
//! Names are lost with a block of a directory whose bytes do not match its pointer. The directory
//! continues with an empty block in its place, so that it can be read, and names can be made and
//! removed there. The files that had names in the lost block are whole, and are found by their
//! inodes.
//!
//! Invariants:
//! 1. A directory has no hole: behind a lost block it ends with the last block that is left.
//! 2. A new name does not exist in its directory yet.
//!
//! Not asserted: 1, which a check tests.

use std::collections::BTreeMap;
use std::rc::Rc;

use directory::chunk;
use directory::entry::{CHUNK_SIZE, EntryHeader, kind_bits};
use namespace::NewFile;
use runtime::Timestamp;
use vfs::{Device, FileKind, FsError};

use crate::apply::first_chunk;
use crate::dropped::drop_wrong;
use crate::format::head::Head;
use crate::format::inode::{Facts, Record};
use crate::format::pointer::WIDTH;
use crate::format::{CHUNKS, FIRST, INODES, ROOT};
use crate::layout::Disk;
use crate::node::{Node, Stem};
use crate::nodes::{Nodes, Which};

/// The directory for files without a name.
const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Blocks in a directory, at most, for lost ones to be replaced by empty ones: that is half a
/// million names. A directory that claims to be larger stays as it is.
const MOST_BLOCKS: u64 = 1 << 16;

/// A chunk of a directory.
type Chunk = [u8; CHUNK_SIZE];

/// A name to be given, with the file and its kind.
type Named = (Vec<u8>, u64, FileKind);

/// The files that a check has found.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// All files.
    pub kinds: BTreeMap<u64, FileKind>,
    /// The directories that have names of directories.
    pub holders: BTreeMap<u64, u64>,
    /// Files without a name that are not being freed.
    pub homeless: Vec<(u64, FileKind)>,
}

impl Census {
    /// The directories.
    fn directories(&self) -> impl Iterator<Item = u64> {
        let is_one = |it: &(&u64, &FileKind)| *it.1 == FileKind::Directory;
        self.kinds.iter().filter(is_one).map(|(&ino, _)| ino)
    }
}

/// A volume that is being repaired.
pub struct Homeless<'a, D: Disk> {
    /// Its blocks of metadata.
    pub nodes: &'a Rc<Nodes<D>>,
    /// The time of new directories.
    pub now: Timestamp,
}

impl<D: Disk> Homeless<'_, D> {
    /// Gives each file without a name that is not being freed a name in `/lost+found`.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn name_all(&self, census: &Census) -> Result<(), FsError> {
        if census.homeless.is_empty() {
            return Ok(());
        }
        let there = self.names_in(ROOT).await?.get(LOST_AND_FOUND).copied();
        let is_directory = |ino: &u64| census.kinds.get(ino) == Some(&FileKind::Directory);
        let lost = match there.filter(is_directory) {
            Some(ino) => ino,
            None => self.make_lost_and_found(census).await?,
        };
        let known = self.names_in(lost).await?;
        let homeless = census.homeless.iter();
        let named: Vec<Named> =
            homeless.map(|&(ino, kind)| (new_name(ino, &known), ino, kind)).collect();
        self.append(lost, &named).await?;
        for (_, ino, _) in named.iter().filter(|(_, _, kind)| *kind == FileKind::Directory) {
            self.set_above(*ino, lost).await;
        }
        Ok(())
    }

    async fn home(&self, ino: u64) -> Result<Rc<Node>, FsError> {
        self.nodes.get(&Stem::Inodes, 0, ino / INODES).await?.ok_or(FsError::Corrupt)
    }

    /// Replaces the lost blocks of names of directories by empty ones.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn empty_lost_blocks(&self, census: &Census) -> Result<(), FsError> {
        for ino in census.directories() {
            let home = self.home(ino).await?;
            let stem = Stem::File(ino, home, ino % INODES);
            let height = self.nodes.height(&stem);
            if drop_wrong(self.nodes, &stem, height, 0, WIDTH as u64).await? {
                let above = census.holders.get(&ino).copied().unwrap_or(ROOT);
                self.fill(&stem, ino, above).await?;
            }
        }
        Ok(())
    }

    /// Gives a directory empty blocks where blocks are missing (invariant 1).
    async fn fill(&self, stem: &Stem, ino: u64, above: u64) -> Result<(), FsError> {
        let last = self.nodes.leaf_from(stem, None, 0, Which::Last).await.unwrap_or(0);
        if last >= MOST_BLOCKS {
            return Ok(());
        }
        let (mut made, mut is_last_new) = (Vec::new(), false);
        for leaf in 0..=last {
            is_last_new = self.nodes.leaf(stem, leaf).await?.is_null();
            if !is_last_new {
                continue;
            }
            let node = self.nodes.make(stem, 0, leaf, &mut made).await?;
            let first = (leaf == 0).then(|| first_chunk(ino, above));
            node.change(|bytes| {
                let chunks = bytes[size_of::<Head>()..].chunks_exact_mut(CHUNK_SIZE);
                for (number, place) in chunks.take(CHUNKS as usize).enumerate() {
                    let first = first.filter(|_| number == 0);
                    place.copy_from_slice(&first.unwrap_or_else(chunk::empty_chunk));
                }
            });
            self.nodes.mark(&node);
        }
        let all = (last + 1) * CHUNKS * CHUNK_SIZE as u64;
        self.change_facts(ino, |facts| {
            facts.size = if is_last_new { all } else { facts.size.min(all) };
            facts.units = last + 1;
        })
        .await
    }

    async fn change_facts(&self, ino: u64, change: impl FnOnce(&mut Facts)) -> Result<(), FsError> {
        let home = self.home(ino).await?;
        let slot = ino % INODES;
        let mut facts = home.inode(slot, Record::facts).ok_or(FsError::Corrupt)?;
        change(&mut facts);
        home.change(|bytes| Record::of_mut(bytes, slot).set(&facts));
        self.nodes.mark(&home);
        Ok(())
    }

    /// The names in a directory.
    async fn names_in(&self, directory: u64) -> Result<BTreeMap<Vec<u8>, u64>, FsError> {
        let home = self.home(directory).await?;
        let stem = Stem::File(directory, home, directory % INODES);
        let (mut names, mut next) = (BTreeMap::new(), 0);
        while let Some(leaf) = self.nodes.leaf_from(&stem, None, next, Which::First).await {
            next = leaf + 1;
            let Some(node) = self.nodes.get(&stem, 0, leaf).await? else { continue };
            node.read(|bytes| {
                let body = &bytes[size_of::<Head>()..][..CHUNKS as usize * CHUNK_SIZE];
                let entries = body.chunks(CHUNK_SIZE).flat_map(chunk::entries);
                for entry in entries.filter_map(Result::ok).filter(chunk::Entry::is_live) {
                    names.insert(entry.name.to_vec(), u64::from(entry.ino));
                }
            });
        }
        Ok(names)
    }

    /// Makes the directory; returns its inode.
    async fn make_lost_and_found(&self, census: &Census) -> Result<u64, FsError> {
        let last = census.kinds.last_key_value().map_or(0, |(&last, _)| last);
        let (ino, mut made) = ((last + 1).max(FIRST), Vec::new());
        let home = self.nodes.make(&Stem::Inodes, 0, ino / INODES, &mut made).await?;
        let chunks = [first_chunk(ino, ROOT)];
        put_directory(self.nodes, &home, (ino, 0o700, 1), &chunks, self.now).await?;
        self.append(ROOT, &[(LOST_AND_FOUND.to_vec(), ino, FileKind::Directory)]).await?;
        Ok(ino)
    }

    /// Adds names to a directory, in new chunks behind the others.
    async fn append(&self, directory: u64, names: &[Named]) -> Result<(), FsError> {
        let mut chunks = vec![chunk::empty_chunk()];
        names.iter().for_each(|named| add_name(&mut chunks, named));
        let home = self.home(directory).await?;
        let facts = home.inode(directory % INODES, Record::facts).ok_or(FsError::Corrupt)?;
        let stem = Stem::File(directory, home, directory % INODES);
        let (first, mut made) = (facts.size / CHUNK_SIZE as u64, Vec::new());
        for (number, chunk) in (first..).zip(&chunks) {
            let node = self.nodes.make(&stem, 0, number / CHUNKS, &mut made).await?;
            let at = size_of::<Head>() + (number % CHUNKS) as usize * CHUNK_SIZE;
            node.change(|bytes| bytes[at..at + CHUNK_SIZE].copy_from_slice(chunk));
            self.nodes.mark(&node);
        }
        let count = first + chunks.len() as u64;
        self.change_facts(directory, |facts| {
            facts.size = count * CHUNK_SIZE as u64;
            facts.units = count.div_ceil(CHUNKS);
        })
        .await
    }

    /// Sets the target of `..` of a directory, if its first block can be read.
    pub async fn set_above(&self, ino: u64, above: u64) {
        let Ok(home) = self.home(ino).await else { return };
        let stem = Stem::File(ino, home, ino % INODES);
        let Ok(Some(node)) = self.nodes.get(&stem, 0, 0).await else { return };
        let at = size_of::<Head>() + chunk::DOT_DOT_OFFSET;
        let is_it = node.read(|bytes| chunk::name_at(bytes, at) == Some(b".."));
        if is_it {
            node.change(|bytes| EntryHeader::at_mut(bytes, at).inode.set(above as u32));
            self.nodes.mark(&node);
        }
    }
}

/// Turns an inode into a directory with these chunks.
///
/// # Errors
/// [`FsError`].
pub async fn put_directory<D: Disk>(
    nodes: &Nodes<D>,
    home: &Rc<Node>,
    (ino, mode, generation): (u64, u16, u32),
    chunks: &[Chunk],
    now: Timestamp,
) -> Result<(), FsError> {
    let (kind, device, verifier) = (FileKind::Directory, Device::default(), None);
    let new = NewFile { kind, mode, uid: 0, gid: 0, device, target: &[], verifier };
    let leaves = chunks.chunks(CHUNKS as usize);
    let mut facts = Facts::new(&new, generation, now);
    (facts.size, facts.units) = ((chunks.len() * CHUNK_SIZE) as u64, leaves.len() as u64);
    let slot = ino % INODES;
    home.change(|bytes| {
        let record = Record::of_mut(bytes, slot);
        record.clear();
        record.set(&facts);
    });
    nodes.mark(home);
    let (stem, mut made) = (Stem::File(ino, home.clone(), slot), Vec::new());
    for (leaf, chunks) in (0..).zip(leaves) {
        let node = nodes.make(&stem, 0, leaf, &mut made).await?;
        node.change(|bytes| {
            let body = &mut bytes[size_of::<Head>()..];
            body[..chunks.len() * CHUNK_SIZE].copy_from_slice(chunks.as_flattened());
        });
        nodes.mark(&node);
    }
    Ok(())
}

/// The new name of a file: its inode, with dots appended as long as the name is taken.
fn new_name(ino: u64, known: &BTreeMap<Vec<u8>, u64>) -> Vec<u8> {
    let mut name = format!("#{ino}").into_bytes();
    while known.contains_key(&name) {
        name.push(b'.');
    }
    name
}

/// Adds a name to chunks of a directory, behind the others.
fn add_name(chunks: &mut Vec<Chunk>, (name, ino, kind): &Named) {
    let last = chunks.last_mut().expect("there is one");
    let is_there = |it: chunk::Entry<'_>| it.is_live() && it.name == &name[..];
    let is_new = !chunk::entries(&*last).filter_map(Result::ok).any(is_there);
    assert!(is_new, "invariant 2: a name that is given is new");
    let place = match chunk::place(&*last, name, |_| false).expect("it was made here") {
        Ok(place) => place,
        Err(_) => {
            chunks.push(chunk::empty_chunk());
            return add_name(chunks, &(name.clone(), *ino, *kind));
        }
    };
    for (at, piece) in &place.layout {
        last[*at..at + piece.len()].copy_from_slice(piece);
    }
    let header = EntryHeader::at_mut(last, place.offset);
    header.inode.set(*ino as u32);
    header.kind = kind_bits(*kind);
}
