//! The scripts of the experiments. Details come from the paper where it has them; all others are
//! marked as *chosen*.

use std::time::Duration;

use super::files::Holds;
use super::program::{Call, Script};

/// A number coprime to that of the directories.
const STRIDE: usize = 337;

fn named(file: usize) -> String {
    format!("file-{file:05}")
}

/// A tree of directories with files.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// For each directory its parent, which is an earlier one or 0, and its number of files.
    directories: Vec<(usize, usize)>,
    /// Contents of each file.
    holds: Holds,
}

impl Shape {
    /// "A directory tree containing 28 directories holding 202 empty files", "at least 50 files or
    /// so at each level". *Chosen*: four levels with 51, 51, 51 and 49 files; each but the last
    /// also has eight empty directories. With names of ten letters these four take seven sectors
    /// more than they were made with, which are the 7 of 523.
    pub(super) fn of_tar() -> Self {
        let mut directories = Vec::new();
        let mut parent = 0;
        for files in [51, 51, 51, 49] {
            directories.push((parent, files));
            parent = directories.len();
            if files > 50 {
                directories.extend([(parent, 0); 8]);
            }
        }
        Self { directories, holds: Holds::Bytes(0) }
    }

    /// This many directories with this many files each, all in one parent.
    pub(super) fn flat(directories: usize, files: usize, bytes: u32) -> Self {
        let directories = (0..directories).map(|number| (number.min(1), files)).collect();
        Self { directories, holds: Holds::Bytes(bytes) }
    }

    fn files(&self) -> impl Iterator<Item = (usize, String)> {
        let numbered = self.directories.iter().enumerate();
        numbered
            .flat_map(|(number, &(_, files))| (0..files).map(move |file| (number + 1, named(file))))
    }

    fn names(&self) -> impl Iterator<Item = (usize, usize, String)> {
        let numbered = self.directories.iter().enumerate();
        numbered.map(|(number, &(parent, _))| (number + 1, parent, format!("tree-{number:05}")))
    }

    fn make_directories(&self) -> Vec<Call> {
        self.names().map(|(_, parent, name)| Call::MakeDirectory(parent, name)).collect()
    }

    fn make_files(&self) -> Vec<Call> {
        self.files().map(|(at, name)| Call::MakeFile(at, name, self.holds)).collect()
    }

    fn stat_files(&self) -> Vec<Call> {
        let lists = (1..=self.directories.len()).map(Call::List);
        lists.chain(self.files().map(|(at, name)| Call::Stat(at, name))).collect()
    }

    fn read_files(&self) -> Vec<Call> {
        self.files().map(|(at, name)| Call::Read(at, name)).collect()
    }

    /// Removes the tree, the deepest directories first.
    pub(super) fn remove(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        let mut names: Vec<_> = self.names().collect();
        names.reverse();
        for (number, parent, name) in names {
            calls.push(Call::List(number));
            let files = self.files().filter(|(at, _)| *at == number);
            calls.extend(files.map(|(at, name)| Call::Remove(at, name)));
            calls.push(Call::RemoveDirectory(parent, name));
        }
        calls
    }

    /// Makes the tree: directories with their files, as tar does.
    pub(super) fn make(&self) -> Vec<Call> {
        self.make_directories().into_iter().chain(self.make_files()).collect()
    }

    /// Lists all directories, and reads the attributes of each file.
    /// *Chosen*: the order of directories differs from that of their creation, as on a disk in use.
    pub(super) fn find(&self) -> Vec<Call> {
        let count = self.directories.len();
        let visits = (0..count).map(|turn| turn * STRIDE % count + 1);
        let visit = |at: usize| {
            let files =
                (0..self.directories[at - 1].1).map(move |file| Call::Stat(at, named(file)));
            std::iter::once(Call::List(at)).chain(files)
        };
        visits.flat_map(visit).collect()
    }

    /// Like [`Self::make`], but with each directory's files before the next directory.
    pub(super) fn make_in_turn(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for (number, parent, name) in self.names() {
            calls.push(Call::MakeDirectory(parent, name));
            let files = 0..self.directories[number - 1].1;
            calls.extend(files.map(|file| Call::MakeFile(number, named(file), self.holds)));
        }
        calls
    }
}

/// The work tree of the Andrew benchmark. *Chosen*, after descriptions elsewhere: some 70 files
/// with 200 KB; 40 directories.
pub(super) fn andrew_shape() -> Shape {
    Shape::flat(40, 0, 3000).with_files(2, 36)
}

/// *Chosen*: /etc, which the paper does not describe.
pub(super) fn etc_shape() -> Shape {
    Shape::flat(16, 0, 4000).with_files(1, 130)
}

/// *Chosen*: other contents of the disk, for `find`.
pub(super) fn standing_shape() -> Shape {
    Shape::flat(1200, 12, 0)
}

impl Shape {
    /// Adds `each` files to each of the next `turns` directories, from the first on.
    fn with_files(mut self, each: usize, turns: usize) -> Self {
        let count = self.directories.len();
        for turn in 0..turns {
            self.directories[turn % count].1 += each;
        }
        self
    }
}

/// *Chosen*: number of compiler runs in phase 5.
const COMPILATIONS: usize = 26;
/// *Chosen*: bytes of a compiler's temporary file for its next pass, of which there are two, and of
/// an object.
const PASS_BYTES: u32 = 20_000;
const OBJECT_BYTES: u32 = 6_000;

/// The script of the compilations, with objects and temporary files in the first directory.
fn compile() -> Vec<Call> {
    let mut calls = Vec::new();
    for number in 0..COMPILATIONS {
        for pass in 0..2 {
            let name = format!("pass-{pass}");
            calls.push(Call::MakeFile(1, name.clone(), Holds::Bytes(PASS_BYTES)));
            calls.push(Call::Read(1, name));
        }
        calls.push(Call::MakeFile(1, object(number), Holds::Bytes(OBJECT_BYTES)));
        calls.extend((0..2).map(|pass| Call::Remove(1, format!("pass-{pass}"))));
    }
    calls.extend((0..COMPILATIONS).map(|number| Call::Read(1, object(number))));
    calls.push(Call::MakeFile(1, "program".into(), Holds::Bytes(20 * OBJECT_BYTES)));
    calls
}

fn object(number: usize) -> String {
    format!("object-{number:03}")
}

/// *Inputs.* Shares of the five phases in the processor time: the paper's own seconds with soft
/// updates, in half seconds ("<1s" is one half).
const PHASES: [u64; 5] = [1, 8, 12, 18, 50];

/// The five phases of the Andrew benchmark, with this processor time.
pub(super) fn andrew(processor: Duration) -> [Script; 5] {
    let shape = andrew_shape();
    let calls = [
        shape.make_directories(),
        shape.make_files(),
        shape.stat_files(),
        shape.read_files(),
        compile(),
    ];
    let all: u64 = PHASES.iter().sum();
    let mut shares = PHASES.iter().map(|&share| processor * share as u32 / all as u32);
    calls.map(|calls| Script { calls, processor: shares.next().expect("there are five") })
}

/// Removes the files of a run of Andrew, before the next run or after the last.
pub(super) fn remove_andrew() -> Vec<Call> {
    let objects = (0..COMPILATIONS).map(object).chain(["program".to_owned()]);
    let mut calls: Vec<Call> = objects.map(|name| Call::Remove(1, name)).collect();
    calls.extend(andrew_shape().remove());
    calls
}

/// "A full MAKEDEV": 522 nodes in one directory, whose names have five letters ("522 522 3317").
pub(super) fn makedev() -> Vec<Call> {
    let node = |number| Call::MakeFile(0, format!("n{number:04}"), Holds::Device);
    (0..522).map(node).collect()
}

/// A thousand files, to measure the memory of changes.
pub(super) fn thousand() -> Vec<Call> {
    let file = |number| Call::MakeFile(0, format!("file-{number:05}"), Holds::Bytes(0));
    (0..1000).map(file).collect()
}
