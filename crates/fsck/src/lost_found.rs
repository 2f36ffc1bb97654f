//! Names for files that have lost theirs: `#INODE` in the directory `lost+found` of the root.
//!
//! The directory is made when it is needed and grows by whole blocks. New blocks are fragments that
//! no file ever claimed, and are written before anything points at them. Where there is no room for
//! the directory, the names go into the root; where there is none there either, the files stay as
//! they are, and are listed.

use std::collections::BTreeSet;

use directory::chunk::{first_chunk, place};
use directory::entry::{CHUNK_SIZE, EntryHeader};
use ufs2::layout::{DIRECT_POINTERS, Dinode, ROOT_INODE, SECTOR_SIZE, kind_bits, mode_of};
use ufs2::map::{block_count, pointer, run_length};
use vfs::FileKind;

use super::Severity::Loss;
use super::chunk;
use super::directories::printable;
use super::{CheckError, Checker, Invariant, Orphans, Place};

/// The name of the directory.
const NAME: &str = "lost+found";

/// A directory that is being filled.
struct Filling {
    ino: u64,
    /// Byte addresses of its chunks, and the index of the next one to try.
    chunks: Vec<u64>,
    next: usize,
    names: BTreeSet<Vec<u8>>,
}

impl Checker<'_> {
    /// Gives each file without a name one; returns whether any got one.
    ///
    /// # Errors
    /// [`CheckError::Device`].
    pub(super) async fn reconnect(&mut self, homeless: &[u64]) -> Result<bool, CheckError> {
        if homeless.is_empty() {
            return Ok(false);
        }
        let mut home = self.lost_and_found(homeless).await?;
        let mut any = false;
        for &ino in homeless {
            let slot = *self.table.get(ino).expect("it is allocated");
            let name = home.new_name(&format!("#{ino}"));
            let place = Place::inode(ino);
            let expected = "a name";
            if !self.insert(&mut home, &name, ino, slot.kind).await? {
                let found = "no name, and no room for one";
                self.log.leave(Invariant::Unreachable, Loss, place, found, expected);
                continue;
            }
            let place = place.named(printable(&name));
            let repair = if home.ino == ROOT_INODE {
                "given this name in the root directory"
            } else {
                "given this name in lost+found"
            };
            self.log.find(Invariant::Unreachable, Loss, place, "no name", expected, repair);
            if let Some(directory) = self.directories.get(&ino)
                && directory.dot_dot_byte != 0
            {
                let byte = directory.dot_dot_byte;
                self.disk.put(byte, &(home.ino as u32).to_le_bytes()).await?;
            }
            self.reconnected += 1;
            any = true;
        }
        debug_assert_eq!(self.orphans, Orphans::Reconnect);
        Ok(any)
    }

    /// The directory for files without names.
    async fn lost_and_found(&mut self, homeless: &[u64]) -> Result<Filling, CheckError> {
        let mut root = self.filling(ROOT_INODE).await?;
        let known = self.entry_of(&root, NAME.as_bytes()).await?;
        let usable = known.filter(|&ino| {
            self.table.kind(ino) == Some(FileKind::Directory) && !homeless.contains(&ino)
        });
        if let Some(ino) = usable {
            return self.filling(ino).await;
        }
        let name = root.new_name(NAME);
        match self.make_directory(&mut root, &name).await? {
            Some(ino) => self.filling(ino).await,
            None => Ok(root),
        }
    }

    async fn filling(&self, ino: u64) -> Result<Filling, CheckError> {
        let dinode = self.read_inode(ino).await?;
        let mut filling = Filling { ino, chunks: Vec::new(), next: 0, names: BTreeSet::new() };
        let size = dinode.size.get();
        for lbn in 0..block_count(&self.geometry, size) {
            let Some(address) = self.block_of(&dinode, lbn).await? else { break };
            let left = size - lbn * self.geometry.block_size;
            let held = run_length(&self.geometry, size, lbn) * self.geometry.fragment_size;
            let byte = self.geometry.byte_address(address);
            for offset in (0..held.min(left)).step_by(CHUNK_SIZE) {
                filling.chunks.push(byte + offset);
            }
        }
        for &byte in &filling.chunks {
            let bytes = self.read_chunk(byte).await?;
            filling.names.extend(chunk::entries(&bytes).into_iter().map(|entry| entry.name));
        }
        Ok(filling)
    }

    /// A chunk, from the fragment that contains it.
    async fn read_chunk(&self, byte: u64) -> Result<Vec<u8>, CheckError> {
        let unit = self.geometry.fragment_size;
        let start = byte - byte % unit;
        let fragment = self.disk.read(start, unit as usize).await?;
        let at = (byte - start) as usize;
        Ok(fragment[at..at + CHUNK_SIZE].to_vec())
    }

    async fn entry_of(&self, directory: &Filling, name: &[u8]) -> Result<Option<u64>, CheckError> {
        for &byte in &directory.chunks {
            let bytes = self.read_chunk(byte).await?;
            let found = chunk::entries(&bytes).into_iter().find(|entry| entry.name == name);
            if let Some(entry) = found {
                return Ok(Some(entry.ino));
            }
        }
        Ok(None)
    }

    /// The address of a block of a directory; in trees, only the first is known here.
    async fn block_of(&self, dinode: &Dinode, lbn: u64) -> Result<Option<u64>, CheckError> {
        let address = match lbn.checked_sub(DIRECT_POINTERS as u64) {
            None => dinode.direct[lbn as usize].get() as u64,
            Some(slot) if slot < self.geometry.pointers_per_indirect => {
                let root = dinode.indirect[0].get() as u64;
                if !self.geometry.is_data_fragment(root) {
                    return Ok(None);
                }
                let size = self.geometry.block_size as usize;
                let image = self.disk.read(self.geometry.byte_address(root), size).await?;
                pointer(&image, slot as usize)
            }
            Some(_) => return Ok(None),
        };
        Ok(self.geometry.is_data_fragment(address).then_some(address))
    }

    /// Adds a name to a directory; returns whether there was room.
    async fn insert(
        &mut self,
        into: &mut Filling,
        name: &[u8],
        ino: u64,
        kind: FileKind,
    ) -> Result<bool, CheckError> {
        loop {
            while let Some(&byte) = into.chunks.get(into.next) {
                let mut bytes = self.read_chunk(byte).await?;
                if let Ok(Ok(place)) = place(&bytes, name, |_| false) {
                    for (at, part) in &place.layout {
                        bytes[*at..at + part.len()].copy_from_slice(part);
                    }
                    let header = EntryHeader::at_mut(&mut bytes, place.offset);
                    header.inode.set(ino as u32);
                    header.kind = kind_bits(kind);
                    self.disk.put(byte, &bytes).await?;
                    into.names.insert(name.to_vec());
                    return Ok(true);
                }
                into.next += 1;
            }
            if !self.grow(into).await? {
                return Ok(false);
            }
        }
    }

    /// Makes a directory a block longer; returns whether there was room.
    async fn grow(&mut self, filling: &mut Filling) -> Result<bool, CheckError> {
        let geometry = self.geometry.clone();
        let mut dinode = self.read_inode(filling.ino).await?;
        let size = dinode.size.get();
        let lbn = size / geometry.block_size;
        let used = (size % geometry.block_size) as usize;
        let Some(fresh) = self.fresh(geometry.fragments_per_block) else { return Ok(false) };
        let mut content = chunk::empty_chunks(geometry.block_size as usize);
        let mut held = geometry.fragments_per_block;
        if used > 0 {
            // The last block is not full: its contents are copied.
            let run = run_length(&geometry, size, lbn);
            let Some(old) = self.block_of(&dinode, lbn).await? else { return Ok(false) };
            let bytes = (run * geometry.fragment_size) as usize;
            let read = self.disk.read(geometry.byte_address(old), bytes).await?;
            content[..used].copy_from_slice(&read[..used]);
            held -= run;
            filling.chunks.truncate(filling.chunks.len() - used / CHUNK_SIZE);
        }
        match lbn.checked_sub(DIRECT_POINTERS as u64) {
            None => dinode.direct[lbn as usize].set(fresh as i64),
            Some(slot) if slot < geometry.pointers_per_indirect => {
                if dinode.indirect[0].get() == 0 {
                    let Some(root) = self.fresh(geometry.fragments_per_block) else {
                        return Ok(false);
                    };
                    let zeros = vec![0; geometry.block_size as usize];
                    self.disk.put_fresh(geometry.byte_address(root), &zeros);
                    dinode.indirect[0].set(root as i64);
                    held += geometry.fragments_per_block;
                }
                let byte = geometry.byte_address(dinode.indirect[0].get() as u64) + slot * 8;
                self.disk.put(byte, &fresh.to_le_bytes()).await?;
            }
            Some(_) => return Ok(false),
        }
        let byte = geometry.byte_address(fresh);
        self.disk.put_fresh(byte, &content);
        dinode.size.set((lbn + 1) * geometry.block_size);
        let sectors = dinode.sectors.get() + held * geometry.fragment_size / SECTOR_SIZE;
        dinode.sectors.set(sectors);
        self.put_inode(filling.ino, &mut dinode).await?;
        filling.chunks.extend((byte..byte + geometry.block_size).step_by(CHUNK_SIZE));
        filling.next = filling.next.min(filling.chunks.len());
        if used > 0 {
            filling.next = (lbn * geometry.block_size) as usize / CHUNK_SIZE;
        }
        Ok(true)
    }

    /// Makes a directory in another; nothing when there is no room.
    async fn make_directory(
        &mut self,
        parent: &mut Filling,
        name: &[u8],
    ) -> Result<Option<u64>, CheckError> {
        let Some(ino) = self.free_inode() else { return Ok(None) };
        let Some(fresh) = self.fresh(self.geometry.fragments_per_block) else { return Ok(None) };
        if !self.insert(parent, name, ino, FileKind::Directory).await? {
            return Ok(None);
        }
        let mut content = chunk::empty_chunks(self.geometry.block_size as usize);
        let directory = kind_bits(FileKind::Directory);
        let first = first_chunk(ino as u32, parent.ino as u32, directory);
        content[..CHUNK_SIZE].copy_from_slice(&first);
        self.disk.put_fresh(self.geometry.byte_address(fresh), &content);
        let mut dinode = self.new_directory(ino, fresh).await?;
        self.put_inode(ino, &mut dinode).await?;
        self.table.insert(ino, FileKind::Directory, 2);
        Ok(Some(ino))
    }

    /// The inode of a directory of one whole block.
    pub(super) async fn new_directory(&self, ino: u64, block: u64) -> Result<Dinode, CheckError> {
        let old = self.read_inode(ino).await?;
        let mut dinode = Dinode::zeroed();
        dinode.generation.set(old.generation.get().wrapping_add(1).max(1));
        dinode.mode.set(mode_of(FileKind::Directory, 0o700));
        dinode.links.set(2);
        dinode.size.set(self.geometry.block_size);
        dinode.sectors.set(self.geometry.block_size / SECTOR_SIZE);
        dinode.direct[0].set(block as i64);
        dinode.set_access_time(self.now);
        dinode.set_modify_time(self.now);
        dinode.set_change_time(self.now);
        dinode.set_birth_time(self.now);
        Ok(dinode)
    }

    /// An inode number that no file has, in the initialised part of a group.
    fn free_inode(&self) -> Option<u64> {
        (0..self.geometry.group_count).find_map(|group| {
            let base = group * self.geometry.inodes_per_group;
            let mut numbers = base..base + self.initialised[group as usize];
            numbers.find(|&ino| ino > ROOT_INODE && self.table.get(ino).is_none())
        })
    }
}

impl Filling {
    /// A name that no file has here: this one, or the same with a number appended. Short, whatever
    /// names there are.
    fn new_name(&self, wanted: &str) -> Vec<u8> {
        let mut name = wanted.to_owned().into_bytes();
        let mut number = 1_u64;
        while self.names.contains(&name) {
            name = format!("{wanted}.{number}").into_bytes();
            number += 1;
        }
        name
    }
}
