//! The files of the mix.
//!
//! Invariants:
//! 1. `data` is ordered by size, so that the files that are large enough for a request are at its
//!    end.
//! 2. A file is never smaller than at its creation: writes at its end make it grow, and one that
//!    has grown by half is written elsewhere from then on.
//!
//! Not asserted: 1, since `data` is sorted where it is made, and does not change.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use bytes::Bytes;
use nfs::nfs3::arguments::{CommitArgs, CreateArgs, CreateHow, LookupArgs, SymlinkArgs, WriteArgs};
use nfs::nfs3::{Handle, SetAttributes, Stability};

use super::rules::{FILES_PER_DIRECTORY, KIB, PLAIN_FILES, Rules, SYMLINKS};
use crate::chance::Chance;
use crate::names::open_to_owner;
use crate::run::{Play, prepare};
use crate::stage::{Stage, Trouble};
use crate::worker::{Step, Worker};
use crate::workload::names::Name;
use crate::workload::{at, directories, in_turn};

/// Largest WRITE when files are made.
const PIECE: u64 = 64 << 10;

/// A file for READ and WRITE.
#[derive(Clone)]
pub(super) struct File {
    pub(super) handle: Handle,
    /// The number in the file's name, which also selects its directory.
    pub(super) number: u64,
    /// The initial size.
    pub(super) size: u64,
    /// The current size.
    pub(super) length: Cell<u64>,
}

impl File {
    /// Grows the file by this many bytes; returns the old end.
    pub(super) fn grow(&self, bytes: u64) -> u64 {
        let end = self.length.replace(self.length.get() + bytes);
        let is_grown = self.size <= end && self.length.get() <= self.size + self.size / 2;
        assert!(is_grown, "invariant 2: a file grows from its size to half as much again");
        end
    }
}

/// All files. Their names do not change when a server restarts, so that copies of a set serve
/// copies of a server.
#[derive(Clone)]
pub struct FileSet {
    pub(super) directories: Vec<Handle>,
    pub(super) data: Vec<File>,
    pub(super) plain: Vec<Handle>,
    pub(super) symlinks: Vec<Handle>,
    /// Names that CREATE has made and that REMOVE may remove.
    pub(super) spare: RefCell<VecDeque<u64>>,
    pub(super) next_spare: Cell<u64>,
    pub(super) root: Handle,
    pub(super) payload: Bytes,
    pub(super) bytes: u64,
}

/// Play that makes the files, one a turn: those with data, then plain ones, then symbolic links.
struct Making<'a> {
    sizes: Vec<u64>,
    directories: &'a [Handle],
    payload: Bytes,
    piece: u64,
    data: RefCell<Vec<File>>,
    plain: RefCell<Vec<Handle>>,
    symlinks: RefCell<Vec<Handle>>,
}

impl FileSet {
    /// Makes files of about this many bytes in all.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn make(stage: &Stage, rules: &Rules, bytes: u64) -> Result<Self, Trouble> {
        let count = (bytes / rules.average_file()).max(20);
        let mut chance = Chance::new(stage.plan.seed, u64::MAX);
        let directories = directories(stage, "files", count.div_ceil(FILES_PER_DIRECTORY)).await?;
        let sizes = sizes(rules, count, &mut chance);
        let payload: Bytes = (0..PIECE / 8).flat_map(|_| chance.next_u64().to_le_bytes()).collect();
        let making = Making {
            sizes,
            directories: &directories,
            payload: payload.clone(),
            piece: PIECE.min(stage.limits.write_max.into()),
            data: RefCell::default(),
            plain: RefCell::default(),
            symlinks: RefCell::default(),
        };
        let turns = count + PLAIN_FILES + SYMLINKS;
        prepare(stage, "making the file set", turns, &making).await?;
        let mut data = making.data.into_inner();
        data.sort_by_key(|file| (file.size, file.number)); // invariant 1
        let bytes = data.iter().map(|file| file.size).sum();
        Ok(Self {
            data,
            plain: making.plain.into_inner(),
            symlinks: making.symlinks.into_inner(),
            spare: RefCell::default(),
            next_spare: Cell::new(0),
            root: stage.home,
            payload,
            bytes,
            directories,
        })
    }

    /// The directory of a file.
    pub(super) fn directory(&self, number: u64) -> &Handle {
        in_turn(&self.directories, number)
    }
}

/// Sizes in exactly the shares of the rules, in random order.
fn sizes(rules: &Rules, count: u64, chance: &mut Chance) -> Vec<u64> {
    let mut shares = Vec::new();
    for &(kib, per_cent) in rules.file_sizes_kib {
        shares.extend(std::iter::repeat_n(kib * KIB, per_cent as usize));
    }
    // A step without a common divisor with 100 takes from all sizes, however few the files.
    let mut sizes: Vec<u64> = (0..count).map(|index| shares[(index * 37 % 100) as usize]).collect();
    for last in (1..sizes.len()).rev() {
        sizes.swap(last, chance.below(last as u64 + 1) as usize);
    }
    sizes
}

impl Play for Making<'_> {
    async fn turn(&self, worker: &mut Worker, turn: u64) -> Step {
        let count = self.sizes.len() as u64;
        if turn >= count + PLAIN_FILES {
            return self.symlink(worker, turn).await;
        }
        let is_plain = turn >= count;
        let name = Name::new(if is_plain { 'p' } else { 'f' }, turn);
        let directory = in_turn(self.directories, turn);
        let location = at(directory, name.as_bytes());
        let how = CreateHow::Unchecked(SetAttributes::default());
        let handle = match worker.call(&CreateArgs { location, how }).await?.object {
            Some(handle) => handle,
            None => worker.call(&LookupArgs { what: location }).await?.object,
        };
        if is_plain {
            self.plain.borrow_mut().push(handle);
            return Ok(());
        }
        let size = self.sizes[turn as usize];
        self.fill(worker, &handle, size).await?;
        let file = File { handle, number: turn, size, length: Cell::new(size) };
        self.data.borrow_mut().push(file);
        Ok(())
    }
}

impl Making<'_> {
    async fn fill(&self, worker: &mut Worker, handle: &Handle, size: u64) -> Step {
        let (file, mut offset) = (handle.as_bytes(), 0);
        while offset < size {
            let count = self.piece.min(size - offset);
            let data = self.payload.slice(..count as usize);
            let (stable, count) = (Stability::Unstable, count as u32);
            let write = WriteArgs { file, offset, count, stable, data: vec![data] };
            offset += u64::from(worker.call(&write).await?.count).max(1);
        }
        worker.call(&CommitArgs { file, offset: 0, count: 0 }).await.map(drop)
    }

    async fn symlink(&self, worker: &mut Worker, turn: u64) -> Step {
        let name = Name::new('s', turn);
        let location = at(&self.directories[0], name.as_bytes());
        let arguments =
            SymlinkArgs { location, attributes: open_to_owner(), target: b"where/it/points" };
        let handle = match worker.call(&arguments).await?.object {
            Some(handle) => handle,
            None => worker.call(&LookupArgs { what: location }).await?.object,
        };
        self.symlinks.borrow_mut().push(handle);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::laddis::rules::SFS2;

    #[test]
    fn a_hundred_files_have_exactly_the_shares_of_the_table() {
        let sizes = sizes(&SFS2, 200, &mut Chance::new(1, 0));
        for &(kib, per_cent) in SFS2.file_sizes_kib {
            let have = sizes.iter().filter(|&&size| size == kib * KIB).count() as u64;
            assert_eq!(have, 2 * per_cent, "{kib} KiB");
        }
    }
}
