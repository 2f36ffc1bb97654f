//! Verbs that know when they may be refused.
//!
//! A refusal must be *no space*, must be right, and must leave its objects unchanged. A successful
//! call must not touch the reserve.

use sim::{Disk, Prng};
use vfs::{Attributes, FsError, ObjectId, Stability};

use super::room::{Demand, Room};
use crate::common::volume::Volume;

/// Counters for the report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) operations: u64,
    pub(crate) refusals: u64,
    pub(crate) cuts: u64,
}

/// A regular file, and its expected content.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) parent: ObjectId,
    pub(crate) text: String,
    pub(crate) id: ObjectId,
    /// `None` for a file with holes, whose content would be too long.
    pub(crate) content: Option<Vec<u8>>,
    pub(crate) size: u64,
    pub(crate) has_holes: bool,
    /// Whether any of its data is not on stable storage.
    pub(crate) unstable: bool,
}

/// See the module's prose.
pub(crate) struct Filler<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) disk: &'a Disk,
    pub(crate) prng: &'a mut Prng,
    pub(crate) tally: &'a mut Tally,
    /// Fragments that must stay free.
    pub(crate) kept: u64,
    /// Directory of all files.
    pub(crate) home: ObjectId,
    /// A directory with room for a few more names, and its number of names.
    pub(crate) shelf: (ObjectId, u64),
    pub(crate) files: Vec<File>,
    /// Whether the last refusal was of a single fragment, so that no fragment is free.
    pub(crate) is_full: bool,
    count: usize,
}

/// The part of an object's attributes that must not change when a call about it is refused. Landing
/// UNSTABLE data may change the space that it uses.
fn shape(attributes: &Attributes) -> impl PartialEq + std::fmt::Debug + use<> {
    let Attributes { mode, nlink, size, mtime, ctime, .. } = *attributes;
    (mode, nlink, size, mtime, ctime)
}

impl<'a> Filler<'a> {
    pub(crate) fn new(
        volume: &'a Volume,
        disk: &'a Disk,
        prng: &'a mut Prng,
        tally: &'a mut Tally,
        home: ObjectId,
    ) -> Self {
        let geometry = volume.files.store().engine().geometry();
        let reserve = geometry.data_size * geometry.reserve_percent / 100;
        let kept = Room::kept(geometry);
        let kept = if volume.root.is_root() { kept } else { kept.max(reserve) };
        let files = Vec::new();
        let shelf = (home, 0);
        Self { volume, disk, prng, tally, kept, home, shelf, files, is_full: false, count: 0 }
    }

    pub(crate) fn room(&self) -> Room<'a> {
        Room::of(self.volume.files.store().engine().geometry(), self.disk.contents())
    }

    pub(crate) fn block(&self) -> u64 {
        self.volume.files.store().engine().geometry().block_size
    }

    pub(crate) fn fragment(&self) -> u64 {
        self.volume.files.store().engine().geometry().fragment_size
    }

    pub(crate) fn stability(&mut self) -> Stability {
        match self.prng.below(3) {
            0 => Stability::DataSync,
            1 => Stability::FileSync,
            _ => Stability::Unstable,
        }
    }

    /// A new name, of random length.
    pub(crate) fn new_name(&mut self, longest: u64) -> String {
        self.count += 1;
        let text = format!("{:04}", self.count);
        let padding = self.prng.below(longest.max(text.len() as u64 + 1) - text.len() as u64);
        text + &"n".repeat(padding as usize)
    }

    /// Judges the result of a call about these objects; returns whether it succeeded.
    async fn judge(
        &mut self,
        what: &str,
        outcome: Result<(), FsError>,
        before: &[(ObjectId, Attributes)],
        demand: impl FnOnce(&Room<'_>) -> Demand,
    ) -> bool {
        self.tally.operations += 1;
        match outcome {
            Ok(()) => {
                let free = self.volume.space().await.free_bytes / self.fragment();
                assert!(free >= self.kept, "{what}: {free} free, {} to be kept", self.kept);
                return true;
            }
            Err(error) => assert_eq!(error, FsError::NoSpace, "{what}"),
        }
        self.tally.refusals += 1;
        for (id, old) in before {
            let now = self.volume.attributes(*id).await;
            assert_eq!(
                shape(&now),
                shape(old),
                "{what} was refused and changed inode {}",
                id.ino.0
            );
        }
        self.volume.settle().await;
        let room = self.room();
        let demand = demand(&room);
        assert!(
            !room.surely_fits(&demand, self.kept),
            "{what} was refused: {demand:?} of {} free fragments, {} to be kept, {} free inodes",
            room.free_fragments(),
            self.kept,
            room.free_inodes(),
        );
        self.is_full = demand.is_one_fragment() && demand.finds_inodes(&room);
        false
    }

    async fn about(&self, ids: &[ObjectId]) -> Vec<(ObjectId, Attributes)> {
        let mut all = Vec::new();
        for &id in ids {
            all.push((id, self.volume.attributes(id).await));
        }
        all
    }

    /// Checks that a refused call has not made its name.
    async fn check_absent(&self, parent: ObjectId, text: &str) {
        let found = self.volume.lookup(parent, text).await;
        assert_eq!(found, Err(FsError::NoEntry), "half of a refused call");
    }

    /// Makes an empty file; returns its index among the files.
    pub(crate) async fn create(&mut self, parent: ObjectId, longest: u64) -> Option<usize> {
        let text = self.new_name(longest);
        let before = self.about(&[parent]).await;
        let made = self.volume.create(parent, &text).await;
        let length = text.len();
        let demand = |room: &Room<'_>| room.name(parent.ino.0, length).with_inode();
        if !self.judge("CREATE", made.map(|_| ()), &before, demand).await {
            self.check_absent(parent, &text).await;
            return None;
        }
        let id = made.expect("it went well");
        let content = Some(Vec::new());
        let (size, has_holes, unstable) = (0, false, false);
        self.files.push(File { parent, text, id, content, size, has_holes, unstable });
        Some(self.files.len() - 1)
    }

    pub(crate) async fn mkdir(&mut self, parent: ObjectId, longest: u64) -> Option<ObjectId> {
        let text = self.new_name(longest);
        let before = self.about(&[parent]).await;
        let made = self.volume.mkdir(parent, &text).await;
        let length = text.len();
        let demand = |room: &Room<'_>| room.name(parent.ino.0, length).with_inode().with_run(1);
        if !self.judge("MKDIR", made.map(|_| ()), &before, demand).await {
            self.check_absent(parent, &text).await;
        }
        made.ok()
    }

    pub(crate) async fn symlink(&mut self, parent: ObjectId, length: u64) -> bool {
        let text = self.new_name(20);
        let before = self.about(&[parent]).await;
        let made = self.volume.symlink(parent, &text, &vec![b't'; length as usize]).await;
        let (name, fragment) = (text.len(), self.fragment());
        let demand = |room: &Room<'_>| {
            let link = room.name(parent.ino.0, name).with_inode();
            if length < 120 { link } else { link.with_run(length.div_ceil(fragment)) }
        };
        let well = self.judge("SYMLINK", made.map(|_| ()), &before, demand).await;
        if !well {
            self.check_absent(parent, &text).await;
        }
        well
    }

    pub(crate) async fn link(&mut self, index: usize, parent: ObjectId, longest: u64) -> bool {
        let (text, id) = (self.new_name(longest), self.files[index].id);
        let before = self.about(&[id, parent]).await;
        let made = self.volume.link(id, parent, &text).await;
        let length = text.len();
        let well = self.judge("LINK", made, &before, |room| room.name(parent.ino.0, length)).await;
        if !well {
            self.check_absent(parent, &text).await;
        }
        well
    }

    /// Writes bytes that are never zero somewhere in a file.
    pub(crate) async fn write(
        &mut self,
        index: usize,
        (offset, length): (u64, u64),
        stability: Stability,
    ) -> bool {
        let id = self.files[index].id;
        let fill = self.prng.next_u64() as u8 | 1;
        let before = self.about(&[id]).await;
        let written = self.volume.write(id, offset, vec![fill; length as usize], stability).await;
        let what = format!("WRITE {stability:?} of {length} at {offset}");
        let demand = |room: &Room<'_>| room.write(id.ino.0, offset, length);
        let well = self.judge(&what, written, &before, demand).await;
        if well {
            let file = &mut self.files[index];
            file.unstable |= stability == Stability::Unstable;
            file.has_holes |= offset > file.size;
            file.size = file.size.max(offset + length);
            if let Some(content) = &mut file.content {
                content.resize(file.size as usize, 0);
                content[offset as usize..(offset + length) as usize].fill(fill);
            }
        }
        well
    }

    /// Makes a file longer or shorter; shortening is never refused.
    pub(crate) async fn resize(&mut self, index: usize, size: u64) -> bool {
        let File { id, size: old, .. } = self.files[index];
        let before = self.about(&[id]).await;
        let done = self.volume.resize(id, size).await;
        if size <= old {
            assert_eq!(done, Ok(()), "a truncation to {size} of {old} bytes");
        }
        let demand = |room: &Room<'_>| room.resize(id.ino.0, size);
        let well = self.judge(&format!("SETATTR of size {size}"), done, &before, demand).await;
        if well {
            let file = &mut self.files[index];
            file.has_holes |= size > old;
            (file.size, file.unstable) = (size, false);
            if let Some(content) = &mut file.content {
                content.resize(size as usize, 0);
            }
        }
        well
    }

    /// Makes a file's data durable, which is never refused.
    pub(crate) async fn commit(&mut self, index: usize) {
        self.tally.operations += 1;
        let committed = self.volume.commit(self.files[index].id).await;
        assert!(committed.is_ok(), "COMMIT: {committed:?}");
        self.files[index].unstable = false;
    }

    /// Removes a file, which is never refused.
    pub(crate) async fn remove(&mut self, index: usize) {
        self.tally.operations += 1;
        let file = self.files.swap_remove(index);
        let removed = self.volume.remove(file.parent, &file.text).await;
        assert_eq!(removed, Ok(()), "REMOVE of {}", file.text);
    }

    /// Renames a file over another, which needs no room.
    pub(crate) async fn replace(&mut self, index: usize, target: usize) {
        self.tally.operations += 1;
        let (from, to) = (self.files[index].clone(), self.files[target].clone());
        let names = ((from.parent, &*from.text), (to.parent, &*to.text));
        let renamed = self.volume.rename(names.0, names.1).await;
        assert_eq!(renamed, Ok(()), "RENAME of {} over {}", from.text, to.text);
        if index != target {
            (self.files[index].parent, self.files[index].text) = (to.parent, to.text);
            self.files.swap_remove(target);
        }
    }

    /// Checks that everything expected is there.
    pub(crate) async fn check(&self) {
        for file in &self.files {
            file.check(self.volume).await;
        }
    }

    /// Makes everything durable and reserves half of the files for [`Filler::be_busy`]; returns the
    /// others, which must survive the cut.
    pub(crate) async fn prepare_for_a_cut(&mut self) -> Vec<File> {
        self.commit_all().await;
        let half = self.files.len() / 2;
        self.files.split_off(half)
    }

    /// Changes files as long as there is time.
    pub(crate) async fn be_busy(&mut self) {
        loop {
            if self.files.is_empty() && self.create(self.home, 8).await.is_none() {
                std::future::pending().await
            }
            let index = self.prng.index(self.files.len());
            let (size, stability) = (self.files[index].size, self.stability());
            match self.prng.below(8) {
                0 => self.remove(index).await,
                1 => {
                    let size = self.prng.below(size + 1);
                    self.resize(index, size).await;
                }
                2 if self.files.len() > 1 => {
                    let target = self.prng.index(self.files.len());
                    self.replace(index, target).await;
                }
                3 => self.commit(index).await,
                4 => drop(self.create(self.home, 200).await),
                _ => {
                    let length = 1 + self.prng.below(3 * self.block());
                    self.write(index, (size, length), stability).await;
                }
            }
        }
    }
}

impl File {
    /// Checks that the file exists, with its expected content.
    pub(crate) async fn check(&self, volume: &Volume) {
        let found = volume.lookup(self.parent, &self.text).await;
        assert_eq!(found, Ok(self.id), "{}", self.text);
        let attributes = volume.attributes(self.id).await;
        assert_eq!(attributes.size, self.size, "the size of {}", self.text);
        if let Some(content) = &self.content {
            let read = volume.read(self.id).await.expect("it can be read");
            assert!(read == *content, "{}: other bytes", self.text);
        }
    }
}
