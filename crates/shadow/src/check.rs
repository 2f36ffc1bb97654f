//! Looking at all of a volume that is not open: whether what it is made of fits together.
//!
//! Every block that the superblock leads to is read, with its checksum. What trees hold is compared
//! with the map and the records, names with links, and the way from the root with what there is. Of
//! snapshots, the blocks are looked at, and the lists of what they alone hold.

mod snapshots;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use cache::{Budget, DataPath};
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use directory::entry::kind_bits;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::FileKind;

use crate::format::anchor::{Anchor, Shape};
use crate::format::head::Head;
use crate::format::inode::{Facts, Record};
use crate::format::pointer::{Pointer, WIDTH, reach};
use crate::format::record::Run;
use crate::format::superblock::Superblock;
use crate::format::{CHUNKS, FAN, INODES, ROOT, UNIT, sum};
use crate::mend::mend;
use crate::nodes::{Nodes, Parent, Stem};
use crate::open::{OpenError, choose, find_anchor, read_map, read_pins, read_records};
use crate::runs::Unfolded;
use crate::space::Space;

/// Defines the laws: variant, short name, and the law as a sentence.
macro_rules! laws {
    ($($variant:ident, $name:literal, $sentence:literal;)+) => {
        /// What holds on a volume that is well.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Law {
            $(#[doc = $sentence] $variant,)+
        }

        impl Law {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// A short name for people and programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The law, as a sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)+ }
            }
        }
    };
}

laws! {
    Rest, "volume.rest", "The volume was stopped cleanly.";
    Counts, "sb.counts", "What is counted is what there is.";
    Block, "tree.block", "A pointer leads to the block that it says, with its checksum.";
    Birth, "tree.birth", "A block is not younger than what leads to it.";
    Once, "space.once", "Every unit that is held is held once.";
    Listed, "space.listed", "What snapshots alone hold is listed once, for those that hold it.";
    Map, "space.map", "What is in use is what is held.";
    Inode, "inode.whole", "What counts as an inode makes sense as one.";
    Size, "inode.size", "A file holds what its inode says, and nothing behind its end.";
    Links, "inode.links", "The link count of a file is the number of its names.";
    Entry, "dir.entry", "A directory is whole entries, and its dots lead where they should.";
    Target, "dir.target", "A name is that of a file.";
    Way, "tree.way", "From every directory the way up ends at the root.";
    Data, "data.sum", "The data of a file can be read, and fits its checksum.";
}

/// Something that is not as a law has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which.
    pub law: Law,
    /// The file.
    pub ino: Option<u64>,
    /// A path to it, where one is known.
    pub path: Option<String>,
    /// The block of the file, and the unit at which it begins.
    pub block: Option<(u64, u64)>,
    /// What was found.
    pub found: String,
    /// What should be there.
    pub expected: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, ino, path, found, expected, .. } = self;
        write!(f, "{}:", law.name())?;
        ino.map_or(Ok(()), |ino| write!(f, " inode {ino}"))?;
        path.as_ref().map_or(Ok(()), |path| write!(f, " ({path})"))?;
        write!(f, " found {found}, expected {expected}")
    }
}

/// What is told of a file without a name.
pub const NAMELESS: &str = "no name";
/// So many of what is wrong are told one by one; the others are counted.
const TOLD: usize = 100_000;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is wrong.
    pub wrong: Vec<Wrong>,
    /// How often each law does not hold.
    pub counts: BTreeMap<Law, u64>,
    /// Whether the volume was stopped, and nobody has opened it since.
    pub is_at_rest: bool,
    /// Files that there are.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Bytes that files hold.
    pub held_bytes: u64,
    /// Units in use.
    pub units: u64,
}

/// Files of which a name is looked for, and the directory in which they have one.
type Named = BTreeMap<u64, Option<(u64, String)>>;

/// A look under way.
pub(crate) struct Look<'a> {
    nodes: Rc<Nodes>,
    device: Rc<dyn BlockDevice>,
    reads_data: bool,
    progress: &'a mut dyn FnMut(u64, u64),
    /// Units of a block of a file.
    block: u64,
    /// What trees hold.
    pub(crate) held: Space,
    pub(crate) findings: Findings,
    pub(crate) files: BTreeMap<u64, Facts>,
    /// How often a file is named.
    pub(crate) names: BTreeMap<u64, u32>,
    /// What '..' of a directory says, and where its name is.
    parents: BTreeMap<u64, u64>,
    holders: BTreeMap<u64, u64>,
    /// The last update.
    newest: u64,
    /// Blocks of metadata of the live tree, and those of them that this update wrote, or one
    /// before it: snapshots may hold these.
    pub(crate) nodes_held: (u64, u64),
    pinned_until: u64,
}

/// Looks at all of a volume; at the data of files too, if `reads_data`. Nothing is written but what
/// a set of disks mends of what one of them has, as it does by any read.
/// `progress` is told of how many inodes so many were looked at.
///
/// # Errors
/// [`OpenError`] when there is nothing to be looked at.
pub async fn check(
    device: Rc<dyn BlockDevice>,
    reads_data: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Findings, OpenError> {
    let anchor = find_anchor(&*device).await?;
    let (superblock, _, highest) = choose(&*device, &anchor).await?;
    let shape = anchor.shape;
    let nodes = nodes_of(device, &anchor, &superblock);
    let mut look = Look::new(nodes, shape, reads_data, progress);
    look.findings.is_at_rest = highest == anchor.rest;
    let told = look.told(&superblock).await?;
    for stem in [Stem::Map, Stem::Log, Stem::Snapshots, Stem::Lists, Stem::Died] {
        look.tree(&stem, false, &mut Vec::new()).await;
    }
    look.files(&superblock).await;
    if let Some((told, unfolded)) = told {
        match read_pins(&look.nodes, &superblock.snapshots, shape.units).await {
            Ok(pins) => look.snapshots(&pins, &unfolded).await,
            Err(OpenError::Io(error)) => return Err(OpenError::Io(error)),
            Err(error) => look.wrong(Law::Listed, None, error.to_string(), "snapshots and lists"),
        }
        look.space(&told);
        look.counts(&superblock, &anchor);
    }
    look.paths().await;
    Ok(look.findings)
}

/// The blocks of metadata to which a superblock leads.
pub(crate) fn nodes_of(
    device: Rc<dyn BlockDevice>,
    anchor: &Anchor,
    superblock: &Superblock,
) -> Rc<Nodes> {
    let block_size = anchor.shape.block * UNIT as u64;
    let budget = Budget::new(64 << 20, block_size, false);
    let path = Rc::new(DataPath::new(device, budget.clone(), (block_size, block_size)));
    Rc::new(Nodes::new(path, budget, superblock.trees(), anchor.secret))
}

impl<'a> Look<'a> {
    pub(crate) fn new(
        nodes: Rc<Nodes>,
        shape: Shape,
        reads_data: bool,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Self {
        Self {
            device: nodes.path.device().clone(),
            nodes,
            reads_data,
            progress,
            block: shape.block,
            held: Space::empty(shape),
            findings: Findings::default(),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            parents: BTreeMap::new(),
            holders: BTreeMap::new(),
            newest: 0,
            pinned_until: 0,
            nodes_held: (0, 0),
        }
    }

    /// What records and map tell is in use, and holds the records; nothing if they tell nothing.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) async fn told(
        &mut self,
        superblock: &Superblock,
    ) -> Result<Option<(Space, Unfolded)>, OpenError> {
        self.newest = superblock.number;
        let told = Space::empty(*self.held.shape());
        let secret = *self.nodes.secret();
        let unfolded = read_records(&*self.device, superblock, &secret).await;
        let read = match &unfolded {
            Ok(unfolded) => read_map(&self.nodes, &told, superblock, unfolded).await.map(drop),
            Err(_) => Ok(()),
        };
        for &unit in unfolded.iter().flat_map(|it| &it.units) {
            self.hold(Run::of(unit), None);
        }
        match unfolded.and_then(|unfolded| read.map(|()| unfolded)) {
            Ok(unfolded) => Ok(Some((told, unfolded))),
            Err(OpenError::Io(error)) => Err(OpenError::Io(error)),
            Err(error) => {
                let expected = "records and a map that can be read";
                self.wrong(Law::Map, None, error.to_string(), expected);
                Ok(None)
            }
        }
    }

    /// Goes through answers, inodes, and what hangs from these.
    pub(crate) async fn files(&mut self, superblock: &Superblock) {
        self.newest = superblock.number;
        self.pinned_until = superblock.snapshots.pinned_until;
        self.tree(&Stem::Answers, false, &mut Vec::new()).await;
        self.nodes_held = (0, 0);
        self.tree(&Stem::Inodes, false, &mut Vec::new()).await;
        self.inodes(superblock.next_ino).await;
        self.all_names();
        for chain in superblock.chains.iter().filter(|chain| chain.size.is_none()) {
            self.names.entry(chain.ino).or_default();
        }
        let orphans: BTreeSet<u64> = superblock.chains.iter().map(|chain| chain.ino).collect();
        self.links(&orphans);
    }

    fn wrong(
        &mut self,
        law: Law,
        ino: Option<u64>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        let (found, expected) = (found.into(), expected.into());
        self.add(Wrong { law, ino, path: None, block: None, found, expected });
    }

    fn add(&mut self, wrong: Wrong) {
        *self.findings.counts.entry(wrong.law).or_default() += 1;
        if self.findings.wrong.len() < TOLD {
            self.findings.wrong.push(wrong);
        }
    }

    /// A record, a tree or a file holds these.
    pub(crate) fn hold(&mut self, run: Run, ino: Option<u64>) -> bool {
        let is_new = self.held.take(run);
        if !is_new {
            let Run { start, length } = run;
            let found = format!("{length} units from {start} on held here");
            self.wrong(
                Law::Once,
                ino,
                found,
                "units that nothing else holds, and that may be held",
            );
        }
        is_new
    }

    /// Goes through a tree; gives its leaves: data if `has_data`, else blocks of metadata.
    pub(crate) fn tree<'s>(
        &'s mut self,
        stem: &'s Stem,
        has_data: bool,
        leaves: &'s mut Vec<u64>,
    ) -> LocalBoxFuture<'s, ()> {
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

    fn below<'s>(
        &'s mut self,
        stem: &'s Stem,
        (parent, level): (Parent, u8),
        first: u64,
        count: u64,
        has_data: bool,
        leaves: &'s mut Vec<u64>,
    ) -> LocalBoxFuture<'s, ()> {
        async move {
            for index in first..first + count {
                let pointer = self.nodes.child_of(&parent, index);
                if pointer.is_null() {
                    continue;
                }
                let newest = birth_above(&parent).unwrap_or(self.newest);
                self.born(file_of(stem), pointer, newest);
                let is_data = level == 0 && has_data;
                if !is_data {
                    let is_pinned = pointer.birth.get() <= self.pinned_until;
                    self.nodes_held.0 += 1;
                    self.nodes_held.1 += u64::from(is_pinned);
                }
                let length = if is_data { self.block } else { 1 };
                if !self.hold(Run { start: pointer.address.get(), length }, file_of(stem)) {
                    continue;
                }
                if level == 0 {
                    leaves.push(index);
                }
                if is_data {
                    self.data(stem, index, pointer).await;
                    continue;
                }
                match self.nodes.get(stem, level, index).await {
                    Ok(Some(node)) if level > 0 => {
                        let next = (Parent::Node(node), level - 1);
                        self.below(stem, next, index * FAN, FAN, has_data, leaves).await;
                    }
                    Ok(Some(_)) => {}
                    other => {
                        let why =
                            other.err().map_or_else(String::new, |error| format!(": {error}"));
                        let found = format!("another block in unit {}{why}", pointer.address);
                        let expected = format!("block {index} of level {level}");
                        self.wrong(Law::Block, file_of(stem), found, expected);
                    }
                }
            }
        }
        .boxed_local()
    }

    async fn data(&mut self, stem: &Stem, lbn: u64, pointer: Pointer) {
        if !self.reads_data {
            return;
        }
        let (unit, room) = (pointer.address.get(), Buffer::unfilled(self.block as usize * UNIT));
        let found = match self.device.read(unit * UNIT as u64, room).await {
            Ok(bytes) if sum(&bytes) == pointer.sum.get() => return,
            _ if mend(&*self.device, pointer, self.block).await.is_some() => return,
            Ok(_) => "other data".to_owned(),
            Err(error) => error.to_string(),
        };
        let expected = "the data that was written".to_owned();
        let (ino, block) = (file_of(stem), Some((lbn, unit)));
        self.add(Wrong { law: Law::Data, ino, path: None, block, found, expected });
    }

    async fn inodes(&mut self, end: u64) {
        let capacity = WIDTH as u64 * reach(self.nodes.height(&Stem::Inodes));
        let blocks = capacity.min(end.div_ceil(INODES));
        for block in 0..blocks {
            (self.progress)(block * INODES, blocks * INODES);
            let Ok(Some(home)) = self.nodes.get(&Stem::Inodes, 0, block).await else { continue };
            for slot in 0..INODES {
                let ino = block * INODES + slot;
                if home.inode(slot, Record::is_free) {
                    continue;
                }
                let Some(facts) = home.inode(slot, Record::facts) else {
                    self.wrong(Law::Inode, Some(ino), "what makes no sense", "an inode");
                    continue;
                };
                self.findings.files += 1;
                self.findings.directories += u64::from(facts.kind == FileKind::Directory);
                self.findings.held_bytes += facts.units * UNIT as u64;
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
            let found = format!("{} blocks", leaves.len());
            self.wrong(Law::Size, Some(ino), found, format!("{}", facts.units / units));
        }
        let end = facts.size.div_ceil(leaf_bytes);
        if leaves.iter().any(|&leaf| leaf >= end) {
            let found = format!("block {}", leaves.last().unwrap_or(&0));
            self.wrong(Law::Size, Some(ino), found, format!("none from block {end} on"));
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
        if pointer.is_null() || !self.reads_data {
            return;
        }
        let room = Buffer::unfilled(self.block as usize * UNIT);
        let read = self.device.read(pointer.address.get() * UNIT as u64, room).await;
        if read.is_ok_and(|bytes| bytes[there..].iter().any(|&byte| byte != 0)) {
            let expected = "zeros up to the end of its last block";
            self.wrong(Law::Size, Some(ino), "something behind its end", expected);
        }
    }

    async fn chunk(&mut self, stem: &Stem, ino: u64, start: u64) {
        let Some(bytes) = self.chunk_at(stem, start).await else {
            self.wrong(Law::Entry, Some(ino), "no names", format!("names at byte {start}"));
            return;
        };
        for entry in chunk::entries(&bytes) {
            let Ok(entry) = entry else {
                let found = format!("none at byte {start}, or behind it");
                self.wrong(Law::Entry, Some(ino), found, "an entry");
                return;
            };
            if !entry.is_live() {
                continue;
            }
            let target = u64::from(entry.ino);
            *self.names.entry(target).or_default() += 1;
            match entry.name {
                b"." if target != ino => {
                    let found = format!("a '.' that leads to inode {target}");
                    self.wrong(Law::Entry, Some(ino), found, "one that leads to itself");
                }
                b"." => {}
                b".." => _ = self.parents.insert(ino, target),
                _ if entry.kind == kind_bits(FileKind::Directory) => {
                    self.holders.insert(target, ino);
                }
                _ => {}
            }
        }
    }

    /// Names lead to files, and '..' to where the directory is.
    fn all_names(&mut self) {
        let is_file = |ino: &u64| self.files.contains_key(ino);
        let strays: Vec<u64> = self.names.keys().copied().filter(|ino| !is_file(ino)).collect();
        for ino in strays {
            self.wrong(Law::Target, Some(ino), "a name", "none, since there is no such file");
        }
        let mut wrong = Vec::new();
        for (&ino, &parent) in &self.parents {
            let (mut at, mut steps) = (parent, 0);
            while at != ROOT && steps <= self.parents.len() {
                at = self.parents.get(&at).copied().unwrap_or(ROOT);
                steps += 1;
            }
            if steps > self.parents.len() {
                wrong.push((Law::Way, ino, "a circle".to_owned(), "a way to the root".to_owned()));
            }
            let holder = if ino == ROOT { Some(ROOT) } else { self.holders.get(&ino).copied() };
            if holder.is_some_and(|holder| holder != parent) {
                let found = format!("a '..' that leads to inode {parent}");
                let holder = holder.unwrap_or(ROOT);
                wrong.push((Law::Entry, ino, found, format!("one that leads to inode {holder}")));
            }
        }
        for (law, ino, found, expected) in wrong {
            self.wrong(law, Some(ino), found, expected);
        }
    }

    fn links(&mut self, orphans: &BTreeSet<u64>) {
        let mut wrong = Vec::new();
        for (&ino, facts) in &self.files {
            let named = self.names.get(&ino).copied().unwrap_or(0);
            // What is being freed has its own dots still.
            let is_orphan = facts.links == 0 && orphans.contains(&ino);
            if named != facts.links && !is_orphan {
                wrong.push((ino, facts.links.to_string(), named.to_string()));
            }
            if facts.links == 0 && !is_orphan {
                wrong.push((ino, NAMELESS.to_owned(), "one, or that it is being freed".to_owned()));
            }
        }
        for (ino, found, expected) in wrong {
            self.wrong(Law::Links, Some(ino), found, expected);
        }
    }

    /// What trees hold is what the map tells.
    fn space(&mut self, told: &Space) {
        self.findings.units = told.total() - told.free_units();
        let shape = told.shape();
        let (mut leaked, mut free) = ((0, 0), (0, 0));
        for start in 0..shape.units {
            let run = Run::of(start);
            let (is_told, is_held) = (told.has_all(run), self.held.has_all(run));
            for (wrong, is_wrong) in
                [(&mut leaked, is_told && !is_held), (&mut free, is_held && !is_told)]
            {
                if is_wrong {
                    *wrong = (wrong.0 + 1, if wrong.0 == 0 { start } else { wrong.1 });
                }
            }
        }
        let told =
            |(count, first): (u64, u64)| format!("{count} units, the first of them {first},");
        if leaked.0 > 0 {
            let found = told(leaked) + " in use that nothing holds";
            self.wrong(Law::Map, None, found, "them to be free");
        }
        if free.0 > 0 {
            let found = told(free) + " free that something holds";
            self.wrong(Law::Map, None, found, "them to be in use");
        }
    }

    /// What superblock and anchor count.
    fn counts(&mut self, superblock: &Superblock, anchor: &Anchor) {
        let units: u64 = self.files.values().map(|facts| facts.units).sum();
        let Findings { files, directories, is_at_rest, .. } = self.findings;
        let free = self.held.total() - self.findings.units;
        let (nodes, pinned) = self.nodes_held;
        let said = &superblock.snapshots;
        if said.pinned < pinned {
            let found = format!("{} blocks of metadata that snapshots hold", said.pinned);
            self.wrong(Law::Counts, None, found, format!("{pinned} at least"));
        }
        let counts = [
            ("blocks of metadata of files", said.nodes, nodes),
            ("files", superblock.files, files),
            ("directories", superblock.directories, directories),
            ("units of files", superblock.units, units),
            ("free units", if is_at_rest { anchor.free } else { free }, free),
        ];
        for (what, told, there) in counts {
            if told != there {
                self.wrong(Law::Counts, None, format!("{told} {what}"), there.to_string());
            }
        }
    }

    /// Finds paths to the files of which something is wrong.
    async fn paths(&mut self) {
        let named = self.findings.wrong.iter().filter_map(|wrong| wrong.ino);
        let mut named: Named = named.map(|ino| (ino, None)).collect();
        while !named.is_empty() {
            self.find_names(&mut named).await;
            let holders: Vec<u64> = named.values().flatten().map(|(holder, _)| *holder).collect();
            let known = named.len();
            for mut ino in holders {
                while ino != ROOT && !named.contains_key(&ino) {
                    named.insert(ino, None);
                    ino = self.holders.get(&ino).copied().unwrap_or(ROOT);
                }
            }
            if named.len() == known {
                break;
            }
        }
        for wrong in &mut self.findings.wrong {
            wrong.path = wrong.ino.and_then(|ino| path_of(ino, &named));
        }
    }

    /// Notes where these files have names.
    async fn find_names(&self, named: &mut Named) {
        let directories = self.files.iter().filter(|(_, facts)| facts.kind == FileKind::Directory);
        for (&ino, facts) in directories {
            let (block, slot) = (ino / INODES, ino % INODES);
            let Ok(Some(home)) = self.nodes.get(&Stem::Inodes, 0, block).await else { continue };
            let stem = Stem::File(ino, home, slot);
            for start in (0..facts.size).step_by(CHUNK_SIZE) {
                let Some(bytes) = self.chunk_at(&stem, start).await else { continue };
                for entry in chunk::entries(&bytes).filter_map(Result::ok) {
                    if !matches!(entry.name, b"." | b"..")
                        && let Some(name) = named.get_mut(&u64::from(entry.ino))
                    {
                        *name = Some((ino, entry.name.escape_ascii().to_string()));
                    }
                }
            }
        }
    }

    /// A chunk of a directory.
    async fn chunk_at(&self, stem: &Stem, start: u64) -> Option<Vec<u8>> {
        let index = start / CHUNK_SIZE as u64;
        let node = self.nodes.get(stem, 0, index / CHUNKS).await.ok()??;
        let at = size_of::<Head>() + (index % CHUNKS) as usize * CHUNK_SIZE;
        Some(node.read(|bytes| bytes[at..at + CHUNK_SIZE].to_vec()))
    }
}

/// The path to a file, of which all names are known up to the root.
fn path_of(mut ino: u64, named: &Named) -> Option<String> {
    let mut path = String::new();
    for _ in 0..=named.len() {
        if ino == ROOT {
            return Some(if path.is_empty() { "/".to_owned() } else { path });
        }
        let (holder, name) = named.get(&ino)?.as_ref()?;
        path = format!("/{name}{path}");
        ino = *holder;
    }
    None // a circle
}

/// The update that wrote the block that has a pointer, if it is one.
fn birth_above(parent: &Parent) -> Option<u64> {
    match parent {
        Parent::Node(node) | Parent::Stem(Stem::File(_, node, _)) => {
            Some(node.pointer().birth.get())
        }
        Parent::Stem(_) => None,
    }
}

/// The file of which a tree is, if it is that of one.
fn file_of(stem: &Stem) -> Option<u64> {
    match stem {
        Stem::File(ino, ..) => Some(*ino),
        _ => None,
    }
}
