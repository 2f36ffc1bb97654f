//! Every chunk of every directory: from the root down, each level in the order of the disk, and
//! then the directories that do not hang from the root.
//!
//! A directory whose first chunk does not begin with a "." that names it may be no directory: it is
//! checked last, when every entry is known, because an entry has the type of its file. If that is
//! another type, it becomes a file again and its bytes stay; else its chunks are repaired.
//!
//! The same goes for the other types: where an inode is damaged, the type in its name's entry
//! decides.

use std::collections::BTreeSet;

use directory::chunk::DOT_DOT_OFFSET;
use directory::entry::{CHUNK_SIZE, EntryHeader, WHITEOUT_INODE, WHITEOUT_TYPE};
use futures::stream::{self, StreamExt};
use ufs2::layout::{ROOT_INODE, kind_bits, kind_of_bits};
use ufs2::map::run_length;
use vfs::FileKind;

use super::Severity::{Loss, Repairable};
use super::blocks::READS_IN_FLIGHT;
use super::chunk::{self, Entry, Problem};
use super::{CheckError, Checker, Invariant, Orphans, Phase, Place, fields};
use crate::planted::{Bug, is_planted};

/// The offset of the type byte in an entry.
const KIND_OFFSET: u64 = EntryHeader::KIND_OFFSET as u64;

/// A name of a directory: the directory that holds it, and its byte on the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) parent: u64,
    pub(super) byte: u64,
}

/// A directory.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) size: u64,
    /// Its distance below the root, as it states; 0 when it states none.
    pub(super) depth: u32,
    /// The addresses of its blocks.
    pub(super) blocks: Box<[u64]>,
    /// The inode that its ".." names, and the byte of that entry on the disk; 0 when it has none.
    pub(super) dot_dot: u64,
    pub(super) dot_dot_byte: u64,
    pub(super) names: Vec<Name>,
    /// Number of entries, without its dots.
    pub(super) entries: u64,
}

impl Directory {
    pub(super) fn new(size: u64, depth: u32, blocks: Box<[u64]>) -> Self {
        Self { size, depth, blocks, dot_dot: 0, dot_dot_byte: 0, names: Vec::new(), entries: 0 }
    }
}

/// An entry whose type is not that of its inode.
pub(super) struct Mismatch {
    directory: u64,
    byte: u64,
    name: Vec<u8>,
    ino: u64,
    kind: u8,
}

/// A block of a directory.
#[derive(Clone, Copy)]
struct Part {
    ino: u64,
    lbn: u64,
    address: u64,
    bytes: usize,
}

/// The directory whose blocks are being read.
#[derive(Default)]
struct Reading {
    ino: u64,
    /// Its first block shows that it may be no directory.
    doubtful: bool,
    names: BTreeSet<Vec<u8>>,
}

impl Checker<'_> {
    /// Reads the directories: those that hang from the root, level by level, and then, unless a
    /// crash left them, all others. Returns whether an inode turned out to be of another type, so
    /// that the round has to begin again.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn read_directories(&mut self) -> Result<bool, CheckError> {
        let mut seen = BTreeSet::new();
        if self.read_below(BTreeSet::from([ROOT_INODE]), &mut seen).await? {
            return Ok(true);
        }
        let rest: BTreeSet<u64> =
            self.directories.keys().copied().filter(|ino| !seen.contains(ino)).collect();
        self.note_all_unreadable();
        self.decide_orphans();
        if self.orphans == Orphans::Free {
            return Ok(false);
        }
        self.read_below(rest, &mut seen).await
    }

    /// Reads directories and everything that hangs from them.
    async fn read_below(
        &mut self,
        mut level: BTreeSet<u64>,
        seen: &mut BTreeSet<u64>,
    ) -> Result<bool, CheckError> {
        while !level.is_empty() {
            let mut doubtful = BTreeSet::new();
            while !level.is_empty() {
                seen.extend(&level);
                let parts = self.directory_parts(&level);
                self.read_parts(&parts, Some(&mut doubtful)).await?;
                level = self.newly_named(seen);
            }
            let mismatches = std::mem::take(&mut self.mismatches);
            if self.settle_types(&mismatches, &doubtful).await? {
                return Ok(true);
            }
            let late = self.directory_parts(&doubtful);
            self.read_parts(&late, None).await?;
            level = self.newly_named(seen);
        }
        let mismatches = std::mem::take(&mut self.mismatches);
        self.settle_types(&mismatches, &BTreeSet::new()).await
    }

    /// The directories that were named since the last call, and have not been read.
    fn newly_named(&mut self, seen: &BTreeSet<u64>) -> BTreeSet<u64> {
        let named = std::mem::take(&mut self.named);
        named.into_iter().filter(|ino| !seen.contains(ino)).collect()
    }

    /// The blocks of some directories: each directory's together, the directories in disk order.
    fn directory_parts(&self, which: &BTreeSet<u64>) -> Vec<Part> {
        let mut order: Vec<(u64, u64)> = which
            .iter()
            .filter_map(|&ino| Some((*self.directories.get(&ino)?.blocks.first()?, ino)))
            .collect();
        order.sort_unstable();
        let mut parts = Vec::new();
        for (_, ino) in order {
            let directory = &self.directories[&ino];
            for (lbn, &address) in (0..).zip(&directory.blocks) {
                let start = lbn * self.geometry.block_size;
                let run = run_length(&self.geometry, directory.size, lbn);
                let held = run * self.geometry.fragment_size;
                let bytes = held.min(directory.size.saturating_sub(start)) as usize;
                parts.push(Part { ino, lbn, address, bytes });
            }
        }
        parts
    }

    /// Reads parts. Given a list for doubtful directories, it leaves those alone.
    async fn read_parts(
        &mut self,
        parts: &[Part],
        mut doubtful: Option<&mut BTreeSet<u64>>,
    ) -> Result<(), CheckError> {
        let total = self.directories.len() as u64;
        let mut reading = Reading::default();
        for few in parts.chunks(READS_IN_FLIGHT) {
            for (part, content) in self.read_few(few).await? {
                self.note_unreadable((part.address, content.len()), Loss, |_| {
                    Place::inode(part.ino).block(part.lbn).fragment(part.address)
                });
                if part.lbn == 0 {
                    let own = begins_with_dot(&content, part.ino);
                    let doubtful = match &mut doubtful {
                        Some(list) => !own && list.insert(part.ino),
                        None => false,
                    };
                    reading = Reading { ino: part.ino, doubtful, ..Reading::default() };
                    self.directories_read += u64::from(!doubtful);
                }
                if !reading.doubtful {
                    self.take_part(part, &content, &mut reading).await?;
                }
            }
            self.tell(Phase::Directories, self.directories_read, total);
        }
        Ok(())
    }

    async fn read_few(&self, parts: &[Part]) -> Result<Vec<(Part, block::Buffer)>, CheckError> {
        let reads = stream::iter(parts.to_vec()).map(|part| async move {
            let whole = part.bytes.next_multiple_of(self.geometry.fragment_size as usize);
            let byte = self.geometry.byte_address(part.address);
            let mut content = self.disk.read(byte, whole).await?;
            self.geometry.turn_directory(&mut content[..part.bytes]);
            Ok((part, content))
        });
        let read: Vec<Result<_, block::IoError>> = reads.buffered(READS_IN_FLIGHT).collect().await;
        Ok(read.into_iter().collect::<Result<_, _>>()?)
    }

    async fn take_part(
        &mut self,
        part: Part,
        content: &[u8],
        reading: &mut Reading,
    ) -> Result<(), CheckError> {
        for offset in (0..part.bytes).step_by(CHUNK_SIZE) {
            let byte = self.geometry.byte_address(part.address) + offset as u64;
            let start = part.lbn * self.geometry.block_size + offset as u64;
            let mut bytes: [u8; CHUNK_SIZE] =
                content[offset..offset + CHUNK_SIZE].try_into().expect("a chunk");
            if self.mend_chunk(part.ino, start, &mut bytes) {
                self.disk.put(byte, &bytes).await?;
            }
            if start == 0 && self.mend_dots(part.ino, &mut bytes) {
                self.disk.put(byte, &bytes).await?;
            }
            for entry in chunk::entries(&bytes) {
                self.take_entry(start, byte, entry, reading).await?;
            }
        }
        Ok(())
    }

    /// Repairs a chunk; returns whether it changed.
    fn mend_chunk(&mut self, ino: u64, start: u64, bytes: &mut [u8; CHUNK_SIZE]) -> bool {
        let table = &self.table;
        let fits = |ino: u64, kind: u8| table.kind(ino).map(kind_bits) == Some(kind);
        let mended = chunk::mend(bytes, &fits);
        let mut wanted = false;
        for problem in &mended.problems {
            let (invariant, at, found, repair) = match problem {
                Problem::Chain(at) => {
                    let repair = "the gap closed; names in it may be lost";
                    (Invariant::Chunk, at, "a length that leads nowhere", repair)
                }
                Problem::Name(at) => (
                    Invariant::EntryName,
                    at,
                    "a name with bytes that no name can have",
                    "given the nearest name that can be one",
                ),
            };
            let place = Place::inode(ino).offset(start + *at as u64);
            let severity = if matches!(problem, Problem::Chain(_)) { Loss } else { Repairable };
            let expected = "an entry";
            wanted |= self.log.find(invariant, severity, place, found, expected, repair);
        }
        if wanted {
            *bytes = mended.bytes;
        }
        wanted
    }

    /// Makes the first two entries "." and ".."; returns whether the chunk changed.
    fn mend_dots(&mut self, ino: u64, bytes: &mut [u8; CHUNK_SIZE]) -> bool {
        let directory = kind_bits(FileKind::Directory);
        let entries = chunk::entries(bytes);
        let is = |entry: Option<&Entry>, offset, name: &[u8]| {
            entry.is_some_and(|entry| {
                entry.offset == offset && entry.name == name && entry.kind == directory
            })
        };
        let dot = is(entries.first(), 0, b".") && entries[0].ino == ino;
        let dot_dot = is(entries.get(1), DOT_DOT_OFFSET, b"..");
        if dot && dot_dot {
            return false;
        }
        let known = |entry: &&Entry| {
            entry.name == b".." && self.table.kind(entry.ino) == Some(FileKind::Directory)
        };
        let parent = entries.iter().find(known).map_or(ROOT_INODE, |entry| entry.ino);
        let named = |entry: &Entry| entry.name != b"." && entry.name != b"..";
        let others: Vec<Entry> = entries.iter().filter(|entry| named(entry)).cloned().collect();
        let (made, placed) = chunk::with_dots(ino, parent, directory, &others);
        let severity = if placed < others.len() { Loss } else { Repairable };
        let found = format!("{} in front", if dot { "no '..'" } else { "no '.'" });
        let place = Place::inode(ino).offset(0);
        let repair = "put in front of as many names as fit";
        let wanted = self.log.find(Invariant::Dots, severity, place, found, "'.' and '..'", repair);
        if wanted {
            *bytes = made;
        }
        wanted
    }

    async fn take_entry(
        &mut self,
        start: u64,
        chunk_byte: u64,
        entry: Entry,
        reading: &mut Reading,
    ) -> Result<(), CheckError> {
        let ino = reading.ino;
        let byte = chunk_byte + entry.offset as u64;
        let at = start + entry.offset as u64;
        let place = || Place::inode(ino).offset(at).named(printable(&entry.name));
        if entry.name == b"." || entry.name == b".." {
            let is_in_front = start == 0 && entry.offset <= DOT_DOT_OFFSET;
            if is_in_front && entry.name == b".." {
                let directory = self.directories.get_mut(&ino).expect("it is being read");
                (directory.dot_dot, directory.dot_dot_byte) = (entry.ino, byte);
            } else if !is_in_front {
                let stray = (entry.offset == 0).then_some(chunk_byte);
                self.strays.extend(stray);
                return self.drop_dots(place(), byte).await;
            }
            return Ok(());
        }
        let whiteout = entry.ino == WHITEOUT_INODE && entry.kind == WHITEOUT_TYPE;
        // First entries that name no file: they must not cost a file the same name.
        if !whiteout && self.table.get(entry.ino).is_none() {
            let found = format!("inode {}, which is free", entry.ino);
            let repair = "the entry removed";
            let invariant = Invariant::EntryTarget;
            if self.log.find(invariant, Loss, place(), found, "a file", repair) {
                self.drop_entry(byte).await?;
            }
            return Ok(());
        }
        if !reading.names.insert(entry.name.clone()) {
            let repair = "the second one removed";
            let invariant = Invariant::DuplicateName;
            if self.log.find(invariant, Loss, place(), "the name again", "once", repair) {
                return self.drop_entry(byte).await;
            }
        }
        let Some(slot) = self.table.get_mut(entry.ino).filter(|_| !whiteout) else {
            return Ok(());
        };
        if kind_of_bits(entry.kind) == Some(slot.kind) {
            if self.doubted.contains(&entry.ino) {
                self.affirmed.insert(entry.ino);
            }
        } else {
            self.mismatches.push(Mismatch {
                directory: ino,
                byte,
                name: entry.name.clone(),
                ino: entry.ino,
                kind: entry.kind,
            });
        }
        slot.parent = ino as u32;
        self.directories.get_mut(&ino).expect("it is being read").entries += 1;
        if slot.kind == FileKind::Directory {
            let name = Name { parent: ino, byte };
            let directory = self.directories.get_mut(&entry.ino).expect("the table says so");
            directory.names.push(name);
            self.named.push(entry.ino);
        } else {
            slot.names += 1;
        }
        Ok(())
    }

    /// Drops a "." or ".." that is not in front.
    async fn drop_dots(&mut self, place: Place, byte: u64) -> Result<(), CheckError> {
        let (expected, repair) = ("only in front", "the entry removed");
        if self.log.find(Invariant::Dots, Repairable, place, "again", expected, repair) {
            self.drop_entry(byte).await?;
        }
        Ok(())
    }

    /// Removes an entry: its room stays its own.
    pub(super) async fn drop_entry(&mut self, byte: u64) -> Result<(), CheckError> {
        self.disk.put(byte, &0_u32.to_le_bytes()).await?;
        Ok(self.disk.put(byte + KIND_OFFSET, &[0]).await?)
    }

    /// Settles which is right where an entry and its inode differ in type: the inode, unless
    /// something is wrong with it, no name has its type, and its contents fit that of the entry.
    /// Returns whether an inode changed.
    async fn settle_types(
        &mut self,
        mismatches: &[Mismatch],
        doubtful: &BTreeSet<u64>,
    ) -> Result<bool, CheckError> {
        let mut retyped = BTreeSet::new();
        for mismatch in mismatches {
            let Some(actual) = self.table.kind(mismatch.ino) else { continue };
            if retyped.contains(&mismatch.ino) {
                continue; // the next round compares it with its other names
            }
            let stated = kind_of_bits(mismatch.kind);
            if let Some(stated) = stated
                && self.is_of_type(mismatch.ino, (actual, stated), doubtful).await?
                && self.retype(mismatch.ino, actual, stated).await?
            {
                retyped.insert(mismatch.ino);
                continue;
            }
            let name = printable(&mismatch.name);
            let place = Place::inode(mismatch.directory).named(name);
            let (found, expected) = (mismatch.kind, kind_bits(actual));
            let repair = "the entry given the type of its file";
            let invariant = Invariant::EntryType;
            // For a damaged inode it is not known which of the two is right.
            let is_known = stated.is_none() || !self.doubted.contains(&mismatch.ino);
            let severity = if is_known { Repairable } else { Loss };
            if self.log.find(invariant, severity, place, found, expected, repair) {
                self.disk.put(mismatch.byte + KIND_OFFSET, &[expected]).await?;
            }
        }
        Ok(!retyped.is_empty())
    }

    /// Whether an inode is of the type that a name states, and not of its own.
    async fn is_of_type(
        &self,
        ino: u64,
        (actual, stated): (FileKind, FileKind),
        doubtful: &BTreeSet<u64>,
    ) -> Result<bool, CheckError> {
        let is_damaged = self.doubted.contains(&ino)
            && !self.affirmed.contains(&ino)
            && !self.retyped.contains(&ino)
            && !is_planted(Bug::EntriesYield);
        Ok(match (actual, stated) {
            (_, FileKind::Directory) => self.is_directory_inside(ino).await?,
            (FileKind::Directory, _) if !doubtful.contains(&ino) => false,
            (FileKind::Directory, FileKind::Regular) => true,
            _ => is_damaged && fields::can_be(&self.geometry, &self.read_inode(ino).await?, stated),
        })
    }

    async fn retype(
        &mut self,
        ino: u64,
        actual: FileKind,
        wanted: FileKind,
    ) -> Result<bool, CheckError> {
        let (found, expected) = (format!("{actual:?}"), format!("{wanted:?}"));
        let repair = "given the type that its name and its content say";
        let place = Place::inode(ino);
        if !self.log.find(Invariant::InodeType, Repairable, place, found, expected, repair) {
            return Ok(false);
        }
        let mut dinode = self.read_inode(ino).await?;
        fields::set_kind(&mut dinode, wanted);
        // The size was changed to one that its type can have.
        if let Some(&size) = self.stated_sizes.get(&ino)
            && size <= fields::largest(&self.geometry, wanted)
        {
            dinode.size.set(size);
        }
        self.put_inode(ino, &mut dinode).await?;
        self.retyped.insert(ino);
        Ok(true)
    }

    /// Whether the first block of an inode begins with a "." that names it.
    pub(super) async fn is_directory_inside(&self, ino: u64) -> Result<bool, CheckError> {
        let dinode = self.read_inode(ino).await?;
        let address = dinode.direct[0].get() as u64;
        if !self.geometry.is_data_fragment(address) {
            return Ok(false);
        }
        let size = self.geometry.fragment_size as usize;
        // It may be data of a file.
        let mut content = self.disk.probe(self.geometry.byte_address(address), size).await?;
        self.geometry.turn_directory(&mut content);
        Ok(begins_with_dot(&content, ino))
    }
}

/// Whether a block begins with a "." that names this inode.
fn begins_with_dot(content: &[u8], ino: u64) -> bool {
    let first = chunk::entries(&content[..CHUNK_SIZE]);
    first.first().is_some_and(|dot| dot.offset == 0 && dot.name == b"." && dot.ino == ino)
}

/// A name in readable form: bytes that are no text, or that control a terminal, are escaped.
pub(super) fn printable(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}
