//! Looking at all of a volume that is not open: whether what it is made of fits together.
//!
//! Every block that the superblock leads to is read, with its checksum. What trees hold is compared
//! with the map and the records, names with links, and the way from the root with what there is.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use cache::{Budget, DataPath};
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::FileKind;

use crate::format::head::Head;
use crate::format::inode::{Facts, Record};
use crate::format::pointer::{Pointer, WIDTH, reach};
use crate::format::record::Run;
use crate::format::{CHUNKS, FAN, INODES, ROOT, UNIT, sum};
use crate::nodes::{Nodes, Parent, Stem};
use crate::open::{OpenError, choose, find_anchor, read_map, read_records};
use crate::space::Space;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong, a sentence each.
    pub wrong: Vec<String>,
    /// Files that there are.
    pub files: u64,
    /// Units in use.
    pub units: u64,
}

/// A look under way.
struct Look {
    nodes: Rc<Nodes>,
    device: Rc<dyn BlockDevice>,
    /// Units of a block of a file.
    block: u64,
    /// What trees hold.
    held: Space,
    findings: Findings,
    files: BTreeMap<u64, Facts>,
    /// How often a file is named, and where a directory is.
    names: BTreeMap<u64, u32>,
    parents: BTreeMap<u64, u64>,
}

/// Looks at all of a volume. Nothing is written.
///
/// # Errors
/// [`OpenError`] when there is nothing to be looked at.
pub async fn check(device: Rc<dyn BlockDevice>) -> Result<Findings, OpenError> {
    let anchor = find_anchor(&*device).await?;
    let (superblock, _, _) = choose(&*device, &anchor).await?;
    let shape = anchor.shape;
    let block_size = shape.block * UNIT as u64;
    let budget = Budget::new(64 << 20, block_size, false);
    let path = Rc::new(DataPath::new(device.clone(), budget.clone(), (block_size, block_size)));
    let trees = [superblock.inodes, superblock.map, superblock.answers];
    let nodes = Rc::new(Nodes::new(path, budget, trees, anchor.secret));
    let told = Space::empty(shape);
    let unfolded = read_records(&*device, &superblock, &anchor.secret).await?;
    read_map(&nodes, &told, &unfolded).await?;
    let mut look = Look {
        nodes,
        device,
        block: shape.block,
        held: Space::empty(shape),
        findings: Findings::default(),
        files: BTreeMap::new(),
        names: BTreeMap::new(),
        parents: BTreeMap::new(),
    };
    for &unit in &unfolded.units {
        look.hold(Run { start: unit, length: 1 }, || "a record".to_owned());
    }
    for stem in [Stem::Map, Stem::Answers, Stem::Inodes] {
        look.tree(&stem, false, &mut Vec::new()).await;
    }
    look.inodes(superblock.next_ino).await;
    look.all_names();
    for chain in superblock.chains.iter().filter(|chain| chain.size.is_none()) {
        look.names.entry(chain.ino).or_default();
    }
    let orphans: BTreeSet<u64> = superblock.chains.iter().map(|chain| chain.ino).collect();
    look.links(&orphans);
    look.space(&told);
    let units: u64 = look.files.values().map(|facts| facts.units).sum();
    if units != superblock.units {
        look.wrong(format!(
            "files have {units} units, and the superblock says {}",
            superblock.units
        ));
    }
    if look.findings.files != superblock.files {
        let (there, told) = (look.findings.files, superblock.files);
        look.wrong(format!("there are {there} files, and the superblock says {told}"));
    }
    Ok(look.findings)
}

impl Look {
    fn wrong(&mut self, wrong: String) {
        self.findings.wrong.push(wrong);
    }

    /// A tree holds these.
    fn hold(&mut self, run: Run, what: impl FnOnce() -> String) -> bool {
        let is_new = self.held.take(run);
        if !is_new {
            self.wrong(format!("{} has units {run:?}, which others have, or nobody may", what()));
        }
        is_new
    }

    /// Goes through a tree; gives its leaves: data if `has_data`, else blocks of metadata.
    fn tree<'a>(
        &'a mut self,
        stem: &'a Stem,
        has_data: bool,
        leaves: &'a mut Vec<u64>,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let height = self.nodes.height(stem);
            self.below(
                stem,
                (Parent::Stem(stem.clone()), height),
                0,
                WIDTH as u64,
                has_data,
                leaves,
            )
            .await;
        }
        .boxed_local()
    }

    fn below<'a>(
        &'a mut self,
        stem: &'a Stem,
        (parent, level): (Parent, u8),
        first: u64,
        count: u64,
        has_data: bool,
        leaves: &'a mut Vec<u64>,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            for index in first..first + count {
                let pointer = self.nodes.child_of(&parent, index);
                if pointer.is_null() {
                    continue;
                }
                let is_data = level == 0 && has_data;
                let length = if is_data { self.block } else { 1 };
                let what = || format!("block {index} of level {level}");
                if !self.hold(Run { start: pointer.address.get(), length }, what) {
                    continue;
                }
                if level == 0 {
                    leaves.push(index);
                }
                if is_data {
                    self.data(pointer).await;
                    continue;
                }
                match self.nodes.get(stem, level, index).await {
                    Ok(Some(node)) if level > 0 => {
                        let next = (Parent::Node(node), level - 1);
                        self.below(stem, next, index * FAN, FAN, has_data, leaves).await;
                    }
                    Ok(Some(_)) => {}
                    other => {
                        let error = other.err();
                        self.wrong(format!("{pointer:?} does not lead to what it says: {error:?}"));
                    }
                }
            }
        }
        .boxed_local()
    }

    async fn data(&mut self, pointer: Pointer) {
        let room = Buffer::unfilled(self.block as usize * UNIT);
        match self.device.read(pointer.address.get() * UNIT as u64, room).await {
            Ok(bytes) if sum(&bytes) == pointer.sum.get() => {}
            Ok(_) => self.wrong(format!("data does not fit its checksum: {pointer:?}")),
            Err(error) => self.wrong(error.to_string()),
        }
    }

    async fn inodes(&mut self, end: u64) {
        let capacity = WIDTH as u64 * reach(self.nodes.height(&Stem::Inodes));
        for block in 0..capacity.min(end.div_ceil(INODES)) {
            let Ok(Some(home)) = self.nodes.get(&Stem::Inodes, 0, block).await else { continue };
            for slot in 0..INODES {
                let ino = block * INODES + slot;
                if home.inode(slot, Record::is_free) {
                    continue;
                }
                let Some(facts) = home.inode(slot, Record::facts) else {
                    self.wrong(format!("inode {ino} makes no sense"));
                    continue;
                };
                self.findings.files += 1;
                self.file(Stem::File(ino, home.clone(), slot), ino, &facts).await;
                self.files.insert(ino, facts);
            }
        }
    }

    async fn file(&mut self, stem: Stem, ino: u64, facts: &Facts) {
        if facts.is_inline() {
            return;
        }
        let is_names = facts.kind == FileKind::Directory;
        let mut leaves = Vec::new();
        self.tree(&stem, !is_names, &mut leaves).await;
        let (leaf_bytes, units) = if is_names {
            (CHUNKS * CHUNK_SIZE as u64, 1)
        } else {
            (self.block * UNIT as u64, self.block)
        };
        if leaves.len() as u64 * units != facts.units {
            self.wrong(format!("file {ino} has {} leaves: {facts:?}", leaves.len()));
        }
        let end = facts.size.div_ceil(leaf_bytes);
        if leaves.iter().any(|&leaf| leaf >= end) {
            self.wrong(format!("file {ino} has leaves {leaves:?} behind its end: {facts:?}"));
        }
        if is_names {
            for start in (0..facts.size).step_by(CHUNK_SIZE) {
                self.chunk(&stem, ino, start).await;
            }
        } else if !facts.size.is_multiple_of(leaf_bytes) {
            self.tail(&stem, ino, facts.size / leaf_bytes, (facts.size % leaf_bytes) as usize)
                .await;
        }
    }

    /// The last block of a file is zero behind its end.
    async fn tail(&mut self, stem: &Stem, ino: u64, lbn: u64, there: usize) {
        let pointer = self.nodes.leaf(stem, lbn).await.unwrap_or_default();
        if pointer.is_null() {
            return;
        }
        let room = Buffer::unfilled(self.block as usize * UNIT);
        let read = self.device.read(pointer.address.get() * UNIT as u64, room).await;
        if read.is_ok_and(|bytes| bytes[there..].iter().any(|&byte| byte != 0)) {
            self.wrong(format!("file {ino} has something behind its end"));
        }
    }

    async fn chunk(&mut self, stem: &Stem, ino: u64, start: u64) {
        let index = start / CHUNK_SIZE as u64;
        let Ok(Some(node)) = self.nodes.get(stem, 0, index / CHUNKS).await else {
            self.wrong(format!("directory {ino} has no chunk at {start}"));
            return;
        };
        let at = size_of::<Head>() + (index % CHUNKS) as usize * CHUNK_SIZE;
        let bytes = node.read(|bytes| bytes[at..at + CHUNK_SIZE].to_vec());
        for entry in chunk::entries(&bytes) {
            let Ok(entry) = entry else {
                self.wrong(format!("directory {ino} has no entry where one is to be, at {start}"));
                return;
            };
            if !entry.is_live() {
                continue;
            }
            let target = u64::from(entry.ino);
            *self.names.entry(target).or_default() += 1;
            match entry.name {
                b"." if target != ino => self.wrong(format!("'.' of {ino} is {target}")),
                b".." => _ = self.parents.insert(ino, target),
                _ => {}
            }
        }
    }

    /// Names lead to files, and '..' to where the directory is.
    fn all_names(&mut self) {
        let strays: Vec<u64> =
            self.names.keys().copied().filter(|ino| !self.files.contains_key(ino)).collect();
        for ino in strays {
            self.wrong(format!("a name is for {ino}, and there is no such file"));
        }
        for (&ino, &parent) in &self.parents {
            let (mut at, mut steps) = (parent, 0);
            while at != ROOT && steps <= self.parents.len() {
                at = self.parents.get(&at).copied().unwrap_or(ROOT);
                steps += 1;
            }
            if steps > self.parents.len() {
                self.findings.wrong.push(format!("directory {ino} is in a circle"));
            }
        }
    }

    fn links(&mut self, orphans: &BTreeSet<u64>) {
        let mut wrong = Vec::new();
        for (ino, facts) in &self.files {
            let named = self.names.get(ino).copied().unwrap_or(0);
            // What is being freed has its own dots still.
            let is_orphan = facts.links == 0 && orphans.contains(ino);
            if named != facts.links && !is_orphan {
                wrong.push(format!("file {ino} has {named} names: {facts:?}"));
            }
            if facts.links == 0 && !is_orphan {
                wrong.push(format!("file {ino} has no name, and nothing frees it"));
            }
        }
        self.findings.wrong.extend(wrong);
    }

    /// What trees hold is what the map tells.
    fn space(&mut self, told: &Space) {
        self.findings.units = told.total() - told.free_units();
        let units = 0..told.shape().units;
        let differ = |unit: &u64| {
            let run = Run { start: *unit, length: 1 };
            told.has_all(run) != self.held.has_all(run)
        };
        let wrong: Vec<u64> = units.filter(differ).collect();
        if !wrong.is_empty() {
            let is_leaked = told.has_all(Run { start: wrong[0], length: 1 });
            let which = if is_leaked { "in use, and nothing has them" } else { "free, and not" };
            self.wrong(format!("{} units are {which}: {wrong:?}", wrong.len()));
        }
    }
}
