//! Kinds of content to fill a volume with, and operations that work once it is full.

use vfs::{FileSystem, ObjectId, Stability};

use super::filler::Filler;

/// Kind of content that fills a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Small files with tails of every length.
    Tails,
    /// One large file, every write durable.
    Stable,
    /// The same with UNSTABLE writes and COMMIT.
    Unstable,
    /// Names: directories, and directories that grow.
    Names,
    /// Symbolic links, in the inode and in fragments.
    Symlinks,
    /// Empty files until there is no free inode.
    Inodes,
    /// A mixture.
    Mixed,
}

pub(crate) const WAYS: [Way; 7] =
    [Way::Tails, Way::Stable, Way::Unstable, Way::Names, Way::Symlinks, Way::Inodes, Way::Mixed];

/// Number of names of four letters that fit into a directory chunk, less two.
const NAMES_ON_A_SHELF: u64 = 25;

/// Maximum bytes of one WRITE.
const LONGEST: u64 = 128 << 10;

impl Filler<'_> {
    /// Fills the volume to the last fragment that may be taken, or to the last inode; then makes
    /// everything durable and checks FSSTAT.
    pub(crate) async fn fill(&mut self, way: Way) {
        let shelf = self.mkdir(self.home, 8).await.expect("an empty volume");
        self.shelf = (shelf, 0);
        match way {
            Way::Tails => self.fill_with_tails().await,
            Way::Stable => self.fill_with_one_file(Stability::FileSync).await,
            Way::Unstable => self.fill_with_one_file(Stability::Unstable).await,
            Way::Names => self.fill_with_names().await,
            Way::Symlinks => self.fill_with_symlinks().await,
            Way::Inodes => while self.create(self.home, 12).await.is_some() {},
            Way::Mixed => self.fill_with_anything().await,
        }
        self.top_up().await;
        self.commit_all().await;
        self.check_full().await;
    }

    async fn fill_with_tails(&mut self) {
        let mut length = 1 + self.prng.below(self.fragment());
        // Every number of fragments in turn, some of them after whole blocks.
        while let Some(index) = self.create(self.home, 30).await {
            let stability = self.stability();
            if !self.write(index, (0, length), stability).await {
                break;
            }
            length = (length + self.fragment()) % (2 * self.block()) + self.prng.below(2);
            length = length.max(1);
        }
    }

    /// Appends to one file, in smaller and smaller pieces. A piece far behind begins the tree of
    /// two levels if the file alone would not reach it.
    async fn fill_with_one_file(&mut self, stability: Stability) {
        let Some(index) = self.create(self.home, 8).await else { return };
        let double = (12 + self.block() / 8) * self.block();
        let free = self.volume.space().await.free_bytes;
        if double > free && self.prng.chance(2, 3) {
            self.files[index].content = None;
            self.files[index].has_holes = true;
            let place = (double + self.prng.below(3 * self.block()), 3 * self.block());
            self.write(index, place, stability).await;
        }
        let (mut end, mut piece) = (0, LONGEST);
        let mut written = 0;
        while piece >= self.fragment() {
            let length = piece - self.prng.below(piece.min(3000));
            if self.write(index, (end, length), stability).await {
                end += length;
            } else {
                piece /= 2;
            }
            written += 1;
            if self.files[index].unstable && written % 7 == 0 {
                self.commit(index).await;
            }
        }
    }

    async fn fill_with_names(&mut self) {
        let Some(file) = self.create(self.home, 8).await else { return };
        let (mut directories, root) = (vec![self.home], self.volume.files.root());
        if self.volume.root.is_root() {
            directories.push(root);
        }
        let mut refused = 0;
        while refused < 4 {
            let parent = directories[self.prng.index(directories.len())];
            let well = match self.prng.below(8) {
                0 | 1 => match self.mkdir(parent, 255).await {
                    Some(made) => {
                        directories.push(made);
                        true
                    }
                    None => false,
                },
                _ if self.volume.attributes(self.files[file].id).await.nlink > 30_000 => false,
                _ => self.link(file, parent, 255).await,
            };
            refused += u64::from(!well);
        }
    }

    async fn fill_with_symlinks(&mut self) {
        let mut refused = 0;
        while refused < 4 {
            let length = match self.prng.below(4) {
                0 => 1 + self.prng.below(119),
                _ => 120 + self.prng.below(904),
            };
            refused += u64::from(!self.symlink(self.home, length).await);
        }
    }

    async fn fill_with_anything(&mut self) {
        let mut directories = vec![self.home];
        let mut refused = 0;
        while refused < 12 {
            let parent = directories[self.prng.index(directories.len())];
            let well = match self.prng.below(12) {
                0 => match self.mkdir(parent, 200).await {
                    Some(made) => {
                        directories.push(made);
                        true
                    }
                    None => false,
                },
                1 => {
                    let length = 1 + self.prng.below(1023);
                    self.symlink(parent, length).await
                }
                2 | 3 => self.create(parent, 200).await.is_some(),
                _ if self.files.is_empty() => self.create(parent, 20).await.is_some(),
                4 => self.link_some(parent).await,
                5 => self.resize_some().await,
                6 => self.remove_some().await,
                7 => self.commit_some().await,
                _ => self.write_some().await,
            };
            refused += u64::from(!well);
        }
    }

    fn some_file(&mut self) -> usize {
        self.prng.index(self.files.len())
    }

    async fn link_some(&mut self, parent: ObjectId) -> bool {
        let index = self.some_file();
        self.link(index, parent, 255).await
    }

    async fn resize_some(&mut self) -> bool {
        let index = self.some_file();
        let size = self.prng.below(30 * self.block());
        self.resize(index, size).await
    }

    async fn remove_some(&mut self) -> bool {
        if self.prng.chance(1, 3) {
            let index = self.some_file();
            self.remove(index).await;
        }
        true
    }

    async fn commit_some(&mut self) -> bool {
        let index = self.some_file();
        self.commit(index).await;
        true
    }

    async fn write_some(&mut self) -> bool {
        let index = self.some_file();
        let length = 1 + self.prng.below(LONGEST);
        let offset = match self.prng.below(3) {
            0 => self.prng.below(20 * self.block()),
            _ => self.files[index].size,
        };
        let stability = self.stability();
        self.write(index, (offset, length), stability).await
    }

    /// Gives empty files a fragment each until there is none, or neither an empty file nor a free
    /// inode for one.
    pub(crate) async fn top_up(&mut self) {
        self.is_full = false;
        // Blocks first, so that the fragments do not take for ever.
        if let Some(index) = self.empty_file().await {
            let (mut end, mut piece) = (0, LONGEST);
            while piece >= self.block() {
                let stability = self.stability();
                if self.write(index, (end, piece), stability).await {
                    end += piece
                } else {
                    piece /= 2
                }
            }
        }
        while let Some(index) = self.empty_file().await {
            let (length, stability) = (1 + self.prng.below(self.fragment()), self.stability());
            if !self.write(index, (0, length), stability).await {
                return;
            }
        }
    }

    async fn empty_file(&mut self) -> Option<usize> {
        match self.files.iter().position(|file| file.size == 0) {
            Some(index) => Some(index),
            None => self.create_on_shelf().await,
        }
    }

    /// Makes a file without needing more than one fragment for a directory: in a directory that has
    /// a fragment already, with room for the names of some files and of the next such directory.
    async fn create_on_shelf(&mut self) -> Option<usize> {
        if self.shelf.1 == NAMES_ON_A_SHELF {
            self.shelf = (self.mkdir(self.shelf.0, 0).await?, 0);
        }
        self.shelf.1 += 1;
        self.create(self.shelf.0, 0).await
    }

    pub(crate) async fn commit_all(&mut self) {
        for index in 0..self.files.len() {
            if self.files[index].unstable {
                self.commit(index).await;
            }
        }
    }

    /// Checks that FSSTAT agrees with the maps, and that a full volume has exactly the reserve
    /// left.
    pub(crate) async fn check_full(&self) {
        self.volume.settle().await;
        let (room, space) = (self.room(), self.volume.space().await);
        let free = room.free_fragments();
        assert_eq!(space.free_bytes, free * self.fragment());
        assert_eq!(space.free_files, room.free_inodes());
        assert_eq!(space.available_bytes, free.saturating_sub(self.kept) * self.fragment());
        assert_eq!(space.available_files, room.free_inodes());
        if self.is_full {
            assert_eq!(free, self.kept, "the reserve is left, to the fragment");
        } else {
            assert_eq!(room.free_inodes(), 0, "neither inodes nor fragments are out");
        }
    }

    /// Operations that need no room work on a full volume, and space that they free is usable at
    /// once.
    pub(crate) async fn work_when_full(&mut self) {
        for step in 0..12 {
            let Some(index) = self.file_with_data() else { return };
            let (size, is_whole) = (self.files[index].size, !self.files[index].has_holes);
            let stability = self.stability();
            match step % 4 {
                0 | 1 if is_whole => {
                    let offset = self.prng.below(size);
                    let length = 1 + self.prng.below((size - offset).min(LONGEST));
                    let well = self.write(index, (offset, length), stability).await;
                    assert!(well, "an overwrite in place is refused");
                }
                2 => {
                    let size = self.prng.below(size);
                    self.resize(index, size).await;
                }
                3 if self.files.len() > 1 => {
                    let target = self.some_file();
                    self.replace(index, target).await;
                }
                _ => self.remove(index).await,
            }
        }
        self.top_up().await;
        self.commit_all().await;
        self.check_full().await;
    }

    fn file_with_data(&mut self) -> Option<usize> {
        let start = self.prng.index(self.files.len().max(1));
        let order = (start..self.files.len()).chain(0..start);
        order.into_iter().find(|&index| self.files[index].size > 0)
    }
}
