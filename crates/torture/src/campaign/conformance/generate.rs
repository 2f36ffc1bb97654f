//! Random steps, weighted so that every procedure meets all its cases: names present and absent,
//! files of the wrong kind and deleted, users with and without permission, sizes around every
//! limit.

use nfs3_types::nfs3::{ftype3, stable_how};
use sim::Prng;

use super::reference::Reference;
use super::step::{Act, Changes, From, Guard, How, Object, Step, Text, When};
use super::tree::{Body, Node};

/// About the largest number of files.
const FILES: usize = 140;
/// About the largest number of bytes in all files.
const BYTES: u64 = 8 << 20;
/// Steps between two restarts, about.
const RESTARTS: u64 = 500;

const MODES: [u32; 14] = [
    0o644, 0o755, 0o777, 0o666, 0o600, 0o700, 0o000, 0o400, 0o200, 0o111, 0o4755, 0o2775, 0o1777,
    0o6777,
];

/// The kind of file that suits a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Any,
    Regular,
    Directory,
    Symlink,
}

/// Draws steps.
pub(crate) struct Generator<'a> {
    pub prng: &'a mut Prng,
    pub reference: &'a Reference,
}

impl Generator<'_> {
    /// The next step of a run.
    pub(crate) fn step(&mut self, number: usize) -> Step {
        let user = self.prng.index(self.reference.users.len());
        Step { number, user, act: self.act() }
    }

    fn act(&mut self) -> Act {
        if self.prng.chance(1, RESTARTS) {
            return Act::Restart;
        }
        let full = self.reference.tree.live().count() > FILES;
        match self.prng.below(100) {
            0..4 => Act::Getattr(self.object(Wish::Any)),
            4..13 => self.setattr(),
            13..20 => {
                let directory = self.object(Wish::Directory);
                Act::Lookup(directory, self.name(directory, 60))
            }
            20..24 => Act::Access(self.object(Wish::Any), self.prng.below(128) as u32),
            24..26 => Act::Readlink(self.object(Wish::Symlink)),
            26..36 => Act::Read(self.object(Wish::Regular), self.size(), self.length()),
            36..49 => self.write(),
            49..53 => Act::Commit(self.object(Wish::Regular), self.size(), self.length()),
            53..72 if full => self.take_away(),
            53..58 => self.create(),
            58..62 => self.mkdir(),
            62..65 => self.symlink(),
            65..67 => self.mknod(),
            67..74 => self.take_away(),
            74..80 => self.rename(),
            80..84 => self.link(),
            84..95 => self.list(),
            95 => Act::Null,
            96 => Act::Fsinfo(self.object(Wish::Any)),
            97 => Act::Pathconf(self.object(Wish::Any)),
            _ => Act::Fsstat(self.object(Wish::Any)),
        }
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.prng.index(list.len())]
    }

    /// A file, mostly of the kind that makes sense.
    fn object(&mut self, wish: Wish) -> Object {
        let nodes = &self.reference.tree.nodes;
        let fits = |node: &&Node| match wish {
            Wish::Any => true,
            Wish::Regular => matches!(node.body, Body::Regular(_)),
            Wish::Directory => matches!(node.body, Body::Directory(_)),
            Wish::Symlink => matches!(node.body, Body::Symlink(_)),
        };
        let choice = self.prng.below(1000);
        let slots: Vec<usize> = match choice {
            0..3 => return Object::Nonsense,
            3..6 => return Object::Elsewhere,
            6..40 => nodes.iter().filter(|node| node.links == 0).map(|node| node.slot).collect(),
            40..90 => self.reference.tree.live().map(|(_, node)| node.slot).collect(),
            _ => nodes
                .iter()
                .filter(|node| node.links > 0)
                .filter(fits)
                .map(|node| node.slot)
                .collect(),
        };
        let with_root = wish == Wish::Directory && self.prng.chance(1, 4);
        if slots.is_empty() || with_root && choice >= 90 {
            return Object::Of(0);
        }
        Object::Of(slots[self.prng.index(slots.len())])
    }

    /// A name, which exists with a chance of `there` percent.
    fn name(&mut self, directory: Object, there: u64) -> Text {
        let node = self.reference.find(directory).ok();
        let entries = node.and_then(|node| self.reference.at(node).entries());
        if let Some(entries) = entries.filter(|entries| !entries.is_empty())
            && self.prng.chance(there, 100)
        {
            let index = self.prng.index(entries.len());
            return Text(entries.keys().nth(index).expect("an index of it").clone());
        }
        Text(match self.prng.below(60) {
            0 => b"".to_vec(),
            1 => b".".to_vec(),
            2 => b"..".to_vec(),
            3 => b"a/b".to_vec(),
            4 => b"a\0b".to_vec(),
            5 => vec![b'l'; 256],
            6 => vec![b'l'; 255],
            7..12 => vec![b'a' + self.prng.below(4) as u8; self.prng.between(100, 254) as usize],
            12 => vec![0xff, 0xc0, b' ', b'\n'],
            _ => format!("n{}", self.prng.below(40)).into_bytes(),
        })
    }

    /// A size or an offset, around all limits.
    fn size(&mut self) -> u64 {
        let max = self.reference.tree.max_file_size;
        match self.prng.below(100) {
            0..30 => self.prng.below(3000),
            30..60 => {
                let edge = self.pick(&[0, 512, 1024, 7168, 8192, 16_384, 12 * 8192, 13 * 8192]);
                (edge + self.prng.below(3)).saturating_sub(1)
            }
            60..90 => self.prng.below(200_000),
            90..95 => self.pick(&[1 << 31, (1 << 32) + 5, 1 << 40, (12 + 1024) * 8192]),
            95 => max,
            96 => max - self.prng.below(9000),
            97 => max + 1,
            98 => self.pick(&[1 << 63, u64::MAX, u64::MAX - 4000]),
            _ => 0,
        }
    }

    fn length(&mut self) -> u32 {
        match self.prng.below(20) {
            0 => 0,
            1 => self.prng.below(200_000) as u32,
            2..8 => self.pick(&[1, 512, 1024, 8192, 8193, 16_384]),
            _ => self.prng.below(10_000) as u32,
        }
    }

    fn when(&mut self, often: u64) -> When {
        match self.prng.below(often) {
            0 => When::Now,
            1 => When::At((self.prng.next_u64() as u32, self.prng.below(1_000_000_000) as u32)),
            _ => When::Leave,
        }
    }

    /// Attributes to set, each with a chance of one in `often`.
    fn changes(&mut self, often: u64) -> Changes {
        let mut maybe = |value| self.prng.chance(1, often).then_some(value);
        let wishes = [maybe(0), maybe(1), maybe(2), maybe(3)];
        Changes {
            mode: wishes[0].map(|_: i32| self.pick(&MODES)),
            uid: wishes[1].map(|_| self.pick(&[0, 1000, 1001, 1002])),
            gid: wishes[2].map(|_| self.pick(&[0, 100, 200, 300, 400])),
            size: wishes[3].map(|_| self.size()),
            atime: self.when(2 * often),
            mtime: self.when(2 * often),
        }
    }

    fn setattr(&mut self) -> Act {
        let wish = if self.prng.chance(1, 3) { Wish::Any } else { Wish::Regular };
        let object = self.object(wish);
        let mut changes = self.changes(4);
        if self.reference.find(object).is_ok() && self.prng.chance(1, 100) {
            changes.mtime = When::At((5, 1_000_000_000));
        }
        let guard = self.pick(&[Guard::None, Guard::None, Guard::Right, Guard::Wrong]);
        Act::Setattr(object, changes, guard)
    }

    fn write(&mut self) -> Act {
        let file = self.object(Wish::Regular);
        let held: u64 = self.reference.tree.live().map(|(_, node)| weight(node)).sum();
        if held > BYTES {
            return Act::Setattr(
                file,
                Changes { size: Some(0), ..Changes::default() },
                Guard::None,
            );
        }
        let offset = match self.reference.find(file).ok().map(|node| self.reference.at(node)) {
            Some(Node { body: Body::Regular(content), .. }) if self.prng.chance(1, 3) => {
                content.size() // append
            }
            _ => self.size(),
        };
        let more = if self.prng.chance(1, 100) { 7 } else { 0 };
        let stable =
            self.pick(&[stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC]);
        Act::Write(file, offset, self.length(), more, stable)
    }

    /// Attributes of something new: mostly a mode.
    fn birth(&mut self) -> Changes {
        let mode = Some(self.pick(&MODES));
        if self.prng.chance(1, 4) {
            self.changes(4)
        } else {
            Changes { mode, ..Default::default() }
        }
    }

    fn create(&mut self) -> Act {
        let directory = self.object(Wish::Directory);
        let how = match self.prng.below(4) {
            0 => How::Guarded(self.birth()),
            1 => How::Exclusive([self.prng.below(3) as u8 + 1; 8]),
            _ => How::Unchecked(self.birth()),
        };
        Act::Create(directory, self.name(directory, 20), how)
    }

    fn mkdir(&mut self) -> Act {
        let directory = self.object(Wish::Directory);
        Act::Mkdir(directory, self.name(directory, 10), self.birth())
    }

    fn symlink(&mut self) -> Act {
        let directory = self.object(Wish::Directory);
        let length = self.pick(&[1, 10, 119, 120, 121, 500, 1023, 1024, 4095, 4096, 0]);
        let mut target = vec![b't'; length];
        if length > 0 && self.prng.chance(1, 30) {
            target[length - 1] = 0;
        }
        Act::Symlink(directory, self.name(directory, 10), Text(target), self.birth())
    }

    fn mknod(&mut self) -> Act {
        use ftype3::{NF3BLK, NF3CHR, NF3DIR, NF3FIFO, NF3LNK, NF3REG, NF3SOCK};
        let directory = self.object(Wish::Directory);
        let kind = self.pick(&[NF3FIFO, NF3SOCK, NF3CHR, NF3BLK, NF3FIFO, NF3REG, NF3DIR, NF3LNK]);
        let device = (self.prng.below(256) as u32, self.prng.below(256) as u32);
        Act::Mknod(directory, self.name(directory, 10), kind, device, self.birth())
    }

    fn take_away(&mut self) -> Act {
        let directory = self.object(Wish::Directory);
        let name = self.name(directory, 90);
        if self.prng.chance(2, 5) {
            Act::Rmdir(directory, name)
        } else {
            Act::Remove(directory, name)
        }
    }

    fn rename(&mut self) -> Act {
        let from = self.object(Wish::Directory);
        let to = if self.prng.chance(1, 3) { from } else { self.object(Wish::Directory) };
        Act::Rename(from, self.name(from, 90), to, self.name(to, 30))
    }

    fn link(&mut self) -> Act {
        let wish = if self.prng.chance(1, 6) { Wish::Any } else { Wish::Regular };
        let (file, directory) = (self.object(wish), self.object(Wish::Directory));
        Act::Link(file, directory, self.name(directory, 15))
    }

    fn list(&mut self) -> Act {
        let directory = self.object(Wish::Directory);
        let from = match self.prng.below(40) {
            0 => From::Anywhere(self.prng.next_u64() >> self.prng.below(64)),
            1 => From::OtherVerifier,
            2..10 => From::Start,
            _ => From::Last,
        };
        let scan = &self.reference.scans[usize::from(self.prng.chance(1, 2))];
        let same = scan.as_ref().map(|scan| Object::Of(self.reference.at(scan.directory).slot));
        let directory = same.filter(|_| from == From::Last).unwrap_or(directory);
        let count = self.pick(&[0, 50, 103, 104, 150, 300, 512, 700, 1024, 8192, 1 << 20]);
        if self.prng.chance(1, 2) {
            Act::Readdir(directory, from, count)
        } else {
            let names = self.pick(&[0, 100, 512, 8192, 1 << 20]);
            Act::Readdirplus(directory, from, names, count)
        }
    }
}

fn weight(node: &Node) -> u64 {
    node.content().map_or(0, |content| content.weight())
}
