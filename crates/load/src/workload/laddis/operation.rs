//! One request of the mix: a random procedure on a random file.

use nfs::nfs3::arguments::{
    AccessArgs, CommitArgs, CreateArgs, CreateHow, FsinfoArgs, FsstatArgs, GetattrArgs, LookupArgs,
    ReadArgs, ReaddirArgs, ReaddirplusArgs, ReadlinkArgs, RemoveArgs, SetattrArgs, WriteArgs,
};
use nfs::nfs3::{Handle, Procedure, SetAttributes, Stability, Verifier};

use super::fileset::{File, FileSet};
use super::rules::{APPENDS_PER_CENT, BLOCK, KIB, READS, Rules, Transfer, WRITES};
use crate::run::Play;
use crate::worker::{Step, Worker};
use crate::workload::at;
use crate::workload::names::Name;

/// The requested size of a listing, in bytes.
const LISTING: u32 = 8 << 10;

/// All rights that ACCESS can ask about.
const RIGHTS: u32 = 0x3f;

/// The mix, over the part of the file set that a rate uses.
pub(super) struct Mix<'a> {
    rules: &'a Rules,
    files: &'a FileSet,
    /// One file in this many is used.
    stride: usize,
    popularity: Vec<f64>,
}

impl<'a> Mix<'a> {
    /// The mix of a rate: only a part of a larger file set than the rules ask for is used.
    pub(super) fn new(rules: &'a Rules, files: &'a FileSet, rate: f64) -> Self {
        let wanted = rate * rules.bytes_per_rate as f64 * rules.used_per_cent as f64 / 100.0;
        let used = wanted.min(files.bytes as f64 * rules.used_per_cent as f64 / 100.0);
        let stride = (files.bytes as f64 / used.max(1.0)).floor() as usize;
        let stride = stride.clamp(1, (files.data.len() / 10).max(1));
        Self { rules, files, stride, popularity: poisson(rules.groups) }
    }

    /// The number of used files.
    pub(super) fn used(&self) -> usize {
        self.files.data.len().div_ceil(self.stride)
    }

    /// A file of at least this size, if there is one; else the largest.
    fn file(&self, worker: &mut Worker, size: u64) -> &File {
        let large = self.files.data.partition_point(|file| file.size < size);
        let (first, used) = (large.div_ceil(self.stride), self.used());
        let first = first.min(used - 1);
        let group = worker.chance.weighted(self.popularity.iter().copied());
        // The group's files from the first on, one in every `groups`.
        let groups = self.popularity.len();
        let own = first + (group + groups - first % groups) % groups;
        let index = if own < used {
            own + worker.chance.below((used - own).div_ceil(groups) as u64) as usize * groups
        } else {
            first + worker.chance.below((used - first) as u64) as usize
        };
        &self.files.data[index * self.stride]
    }

    fn one<'b, T>(worker: &mut Worker, of: &'b [T]) -> &'b T {
        &of[worker.chance.below(of.len() as u64) as usize]
    }

    async fn plain(&self, worker: &mut Worker, procedure: Procedure) -> Step {
        let plain = Self::one(worker, &self.files.plain);
        let object = plain.as_bytes();
        match procedure {
            Procedure::Setattr => {
                let mode = Some(0o600 + worker.chance.below(0o100) as u32);
                let attributes = SetAttributes { mode, ..SetAttributes::default() };
                worker.call(&SetattrArgs { object, attributes, guard: None }).await.map(drop)
            }
            Procedure::Access => {
                worker.call(&AccessArgs { object, access: RIGHTS }).await.map(drop)
            }
            _ => {
                let object = self.file(worker, 0).handle;
                worker.call(&GetattrArgs { object: object.as_bytes() }).await.map(drop)
            }
        }
    }

    async fn list(&self, worker: &mut Worker, procedure: Procedure) -> Step {
        let directory = Self::one(worker, &self.files.directories).as_bytes();
        let (cookie, cookie_verifier) = (0, Verifier::default());
        if procedure == Procedure::Readdir {
            let count = LISTING;
            let arguments = ReaddirArgs { directory, cookie, cookie_verifier, count };
            return worker.call(&arguments).await.map(drop);
        }
        let (dircount, maxcount) = (LISTING, LISTING);
        let arguments = ReaddirplusArgs { directory, cookie, cookie_verifier, dircount, maxcount };
        worker.call(&arguments).await.map(drop)
    }

    async fn look_up(&self, worker: &mut Worker) -> Step {
        let file = self.file(worker, 0);
        let name = Name::new('f', file.number);
        let what = at(self.files.directory(file.number), name.as_bytes());
        let (found, wanted) = (worker.call(&LookupArgs { what }).await?.object, file.handle);
        if found == wanted {
            Ok(())
        } else {
            Err(worker.wrong(Procedure::Lookup, "a name leads to another file"))
        }
    }

    async fn create(&self, worker: &mut Worker) -> Step {
        let number = self.files.next_spare.replace(self.files.next_spare.get() + 1);
        let name = Name::new('t', number);
        let location = at(self.files.directory(number), name.as_bytes());
        let how = CreateHow::Unchecked(SetAttributes::default());
        worker.call(&CreateArgs { location, how }).await?;
        self.files.spare.borrow_mut().push_back(number);
        Ok(())
    }

    /// Removes a file that was made before; if there is none, makes one.
    async fn remove(&self, worker: &mut Worker) -> Step {
        let spare = self.files.spare.borrow_mut().pop_front();
        let Some(number) = spare else { return self.create(worker).await };
        let name = Name::new('t', number);
        let object = at(self.files.directory(number), name.as_bytes());
        worker.call(&RemoveArgs { object }).await.map(drop)
    }

    async fn read(&self, worker: &mut Worker) -> Step {
        let pieces = pieces(worker, &READS);
        let size = pieces.iter().sum();
        let file = self.file(worker, size);
        let first = place(worker, file.size.saturating_sub(size));
        self.transfer(
            first,
            &pieces,
            async |worker, offset, count| {
                let arguments = ReadArgs { file: file.handle.as_bytes(), offset, count };
                let read = worker.call(&arguments).await?;
                let length: usize = read.data.iter().map(bytes::Bytes::len).sum();
                worker.moved(length as u64);
                // Files never shrink (invariant 2 of the file set).
                let there = file.size.saturating_sub(offset).min(count.into());
                if length as u64 >= there {
                    Ok(())
                } else {
                    Err(worker.wrong(Procedure::Read, "it read less than there is"))
                }
            },
            worker,
        )
        .await
    }

    async fn write(&self, worker: &mut Worker) -> Step {
        let pieces = pieces(worker, &WRITES);
        let size: u64 = pieces.iter().sum();
        let file = self.file(worker, size);
        let may_grow = file.length.get() + size <= file.size + file.size / 2;
        let appends = may_grow && worker.chance.below(100) < APPENDS_PER_CENT;
        let first =
            if appends { file.grow(size) } else { place(worker, file.size.saturating_sub(size)) };
        let stable =
            if self.rules.writes_are_stable { Stability::FileSync } else { Stability::Unstable };
        self.transfer(
            first,
            &pieces,
            async |worker, offset, count| {
                let data = self.files.payload.slice(..count as usize);
                let arguments = WriteArgs {
                    file: file.handle.as_bytes(),
                    offset,
                    count,
                    stable,
                    data: vec![data],
                };
                let written = worker.call(&arguments).await?;
                worker.moved(written.count.into());
                if written.count == count && written.committed >= stable {
                    Ok(())
                } else {
                    Err(worker.wrong(Procedure::Write, "less, or less stable, than asked"))
                }
            },
            worker,
        )
        .await
    }

    /// One call for each piece, one behind the other.
    async fn transfer(
        &self,
        mut offset: u64,
        pieces: &[u64],
        call: impl AsyncFn(&mut Worker, u64, u32) -> Step,
        worker: &mut Worker,
    ) -> Step {
        for &count in pieces {
            call(worker, offset, count as u32).await?;
            offset += count;
        }
        Ok(())
    }

    async fn of_file(&self, worker: &mut Worker, procedure: Procedure) -> Step {
        let root: &Handle = &self.files.root;
        match procedure {
            Procedure::Readlink => {
                let symlink = Self::one(worker, &self.files.symlinks).as_bytes();
                worker.call(&ReadlinkArgs { symlink }).await.map(drop)
            }
            Procedure::Fsstat => worker.call(&FsstatArgs { root: root.as_bytes() }).await.map(drop),
            Procedure::Fsinfo => worker.call(&FsinfoArgs { root: root.as_bytes() }).await.map(drop),
            _ => {
                let file = self.file(worker, 0).handle;
                let arguments = CommitArgs { file: file.as_bytes(), offset: 0, count: 0 };
                worker.call(&arguments).await.map(drop)
            }
        }
    }
}

impl Play for Mix<'_> {
    async fn turn(&self, worker: &mut Worker, _turn: u64) -> Step {
        let weights = self.rules.requests().map(|(_, weight)| weight);
        let (procedure, _) = self.rules.mix[worker.chance.weighted(weights)];
        match procedure {
            Procedure::Lookup => self.look_up(worker).await,
            Procedure::Read => self.read(worker).await,
            Procedure::Write => self.write(worker).await,
            Procedure::Create => self.create(worker).await,
            Procedure::Remove => self.remove(worker).await,
            Procedure::Readdir | Procedure::Readdirplus => self.list(worker, procedure).await,
            Procedure::Getattr | Procedure::Setattr | Procedure::Access => {
                self.plain(worker, procedure).await
            }
            _ => self.of_file(worker, procedure).await,
        }
    }
}

/// The sizes in bytes of a request's calls.
fn pieces(worker: &mut Worker, transfers: &[Transfer]) -> Vec<u64> {
    let weights = transfers.iter().map(|transfer| transfer.per_cent as f64);
    let Transfer { blocks, has_fragment, .. } = transfers[worker.chance.weighted(weights)];
    let fragment = has_fragment.then(|| KIB * (1 + worker.chance.below(BLOCK / KIB - 1)));
    std::iter::repeat_n(BLOCK, blocks as usize).chain(fragment).collect()
}

/// The offset of a random block, such that the request ends before `room` and the bytes it needs.
fn place(worker: &mut Worker, room: u64) -> u64 {
    worker.chance.below(room / BLOCK + 1) * BLOCK
}

/// The popularity of each of this many groups: Poisson's law, around the middle one.
fn poisson(groups: u64) -> Vec<f64> {
    let mean = groups as f64 / 2.0;
    let mut weight = (-mean).exp();
    let mut weights = Vec::new();
    for group in 0..groups {
        weights.push(weight);
        weight *= mean / (group + 1) as f64;
    }
    weights
}
