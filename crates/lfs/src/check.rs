//! Checking all of a volume that is not open, for consistency.
//!
//! Every block of metadata that the root leads to is read, with the changes of the log applied in
//! memory, and on request every block of files. The blocks that trees hold are compared with the
//! table, names with link counts, and counts with what is there. Blocks of
//! a snapshot are looked at if neither the live tree nor an earlier snapshot has them: each of them
//! is on one dead list. Nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use block::BlockDevice;
use block::scratch::ScratchDevice;
use cow::format::inode::Record;
use cow::format::snapshot::Died;
use cow::seen::Seen;
use cow::{CHUNKS, Head, INODES, Node, Pointer, ROOT, Run, Stem, UNIT};
use directory::chunk;
use directory::entry::CHUNK_SIZE;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::Runtime;
use vfs::{FileKind, FsError};
use vnode::chain::Chain;

use crate::error::OpenError;
use crate::log::Log;
use crate::open::{Purpose, recovered};

/// Defines the laws: variant, short name, and the law as a sentence.
macro_rules! laws {
    ($($variant:ident, $name:literal, $sentence:literal;)+) => {
        /// A law that holds on a consistent volume.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Law {
            $(#[doc = $sentence] $variant,)+
        }

        impl Law {
            /// Short name of the law, for people and programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The law as a sentence.
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)+ }
            }
        }
    };
}

laws! {
    Rest, "volume.rest", "The volume was stopped cleanly.";
    Counts, "region.counts", "The counts of the root are those of the files.";
    Block, "tree.block", "A pointer leads to the block that it names, with its checksum.";
    Twice, "tree.twice", "The blocks that lead to the root directory have two whole copies.";
    Once, "space.once", "Each unit belongs to one block.";
    Table, "space.table", "The units in use are those of blocks.";
    Inode, "inode.whole", "An inode makes sense.";
    Size, "inode.size", "A file has as many units as its inode says, and none behind its end.";
    Links, "inode.links", "The link count of a file is the number of its names.";
    Entry, "dir.entry", "A directory is whole entries, and its dots lead where they should.";
    Target, "dir.target", "A name leads to a file.";
    Data, "data.sum", "The data of a file can be read, and fits its checksum.";
    Log, "log.whole", "The log since the last checkpoint can be read to its end.";
    Lines, "snapshots.lines", "The lines of snapshots can be read.";
    Lists, "snapshots.lists", "Dead lists can be read to their ends.";
    Dead, "snapshots.dead", "A block that only snapshots hold is on one dead list.";
}

/// A violation of a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The law.
    pub law: Law,
    /// The file.
    pub ino: Option<u64>,
    /// A path to the file, if one is known.
    pub path: Option<String>,
    /// The snapshot whose tree it is in.
    pub snapshot: Option<String>,
    /// The block of the file, and its address.
    pub block: Option<(u64, u64)>,
    /// The finding.
    pub found: String,
    /// The expected state.
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

/// Violations that are reported one by one; further ones are only counted.
const TOLD: usize = 100_000;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Violations.
    pub wrong: Vec<Wrong>,
    /// Number of violations of each law.
    pub counts: BTreeMap<Law, u64>,
    /// Whether the volume was stopped, and has not been opened since.
    pub is_at_rest: bool,
    /// Number of files.
    pub files: u64,
    /// Number of directories among them.
    pub directories: u64,
    /// Bytes that files hold.
    pub held_bytes: u64,
}

/// A file that was found.
pub(crate) struct Known {
    pub(crate) kind: FileKind,
    pub(crate) links: u32,
    /// Names that lead to it, with the dots of directories.
    pub(crate) names: u32,
    /// One of its names, and the directory that has it.
    pub(crate) name: Option<(u64, String)>,
    /// Units as its inode has them, and those that were found.
    pub(crate) units: u64,
    pub(crate) found: u64,
    /// The directory to which '..' of it leads, if it is a directory.
    pub(crate) above: Option<u64>,
}

/// A look at all blocks, and the findings.
pub(crate) struct Look<'a> {
    log: &'a Log,
    /// Whether data is read.
    is_full: bool,
    pub(crate) seen: Seen,
    /// Number of those that are in use.
    seen_used: u64,
    /// Blocks of the live tree that memory has otherwise than the disk.
    changed: BTreeSet<u64>,
    /// Blocks of snapshots.
    held: Seen,
    /// Units on dead lists; none if a list cannot be read.
    dead: Option<Seen>,
    /// Blocks that snapshots alone hold, each with its birth and the first snapshot without it.
    pub(crate) died: Vec<(Run, u64, u64)>,
    /// Blocks of metadata of the live tree, and those of them that snapshots hold.
    pub(crate) nodes: (u64, u64),
    /// A block could not be read, and may come back.
    pub(crate) has_unread: bool,
    /// The snapshot that is looked at, and the number of the one after it.
    snapshot: Option<(String, u64)>,
    pub(crate) files: BTreeMap<u64, Known>,
    /// Names: the directory, the name, and the file.
    names: Vec<(u64, String, u64)>,
    /// Files that have names and no inode.
    pub(crate) missing: BTreeSet<u64>,
    checked: Checked,
    tell: &'a mut dyn FnMut(u64, u64),
}

/// Checks a whole volume; with `is_full` its data as well. `tell` hears of progress: files looked
/// at, and files in all.
///
/// # Errors
/// [`OpenError`] if there is no volume, or its root cannot be read.
pub async fn check(
    device: Rc<dyn BlockDevice>,
    runtime: &Runtime,
    is_full: bool,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Checked, OpenError> {
    let device: Rc<dyn BlockDevice> = Rc::new(ScratchDevice::new(device));
    let found = recovered(device, runtime, (32 << 20, false), Purpose::Checking).await?;
    let mut look = Look::new(&found.log, is_full, tell);
    look.checked.is_at_rest = found.is_at_rest;
    if let Some((summary, files)) = found.given_up {
        let found = format!("summary {summary} damaged, and later ones behind it");
        look.wrong(Law::Log, None, found, "whole ones");
        for ino in files {
            look.wrong(Law::Log, Some(ino), "a change behind the damage".into(), "it applied");
        }
    }
    if found.has_lost_table {
        look.wrong(Law::Table, None, "a part of the table lost".into(), "a whole one");
    }
    for block in &found.lost.snapshots {
        look.wrong(
            Law::Lines,
            None,
            format!("block {block}, which is damaged"),
            "a block of lines",
        );
    }
    look.all(&found.chains).await;
    look.name_paths();
    Ok(look.checked)
}

impl<'a> Look<'a> {
    pub(crate) fn new(log: &'a Log, is_full: bool, tell: &'a mut dyn FnMut(u64, u64)) -> Self {
        Self {
            log,
            is_full,
            seen: Seen::default(),
            seen_used: 0,
            changed: BTreeSet::new(),
            held: Seen::default(),
            dead: Some(Seen::default()),
            died: Vec::new(),
            nodes: (0, 0),
            has_unread: false,
            snapshot: None,
            files: BTreeMap::new(),
            names: Vec::new(),
            missing: BTreeSet::new(),
            checked: Checked::default(),
            tell,
        }
    }

    /// Looks at everything.
    pub(crate) async fn all(&mut self, chains: &[Chain]) {
        for stem in [Stem::Answers, Stem::Snapshots, Stem::Lists, Stem::Died, Stem::Inodes] {
            self.tree(&stem, None, 0, &mut 0).await;
        }
        self.lists().await;
        self.snapshots().await;
        self.judge_names(chains);
        self.judge_space();
        self.judge_counts();
    }
}

impl Look<'_> {
    fn wrong(&mut self, law: Law, ino: Option<u64>, found: String, expected: &str) {
        self.wrong_at(law, (ino, None), found, expected);
    }

    fn wrong_at(
        &mut self,
        law: Law,
        (ino, block): (Option<u64>, Option<(u64, u64)>),
        found: String,
        expected: &str,
    ) {
        *self.checked.counts.entry(law).or_default() += 1;
        if self.checked.wrong.len() < TOLD {
            let expected = expected.to_owned();
            let (path, snapshot) = (None, self.snapshot.as_ref().map(|it| it.0.clone()));
            self.checked.wrong.push(Wrong { law, ino, path, snapshot, block, found, expected });
        }
    }

    /// Notes that a block has this address; returns whether no other one has.
    fn see(&mut self, address: u64) -> bool {
        let is_first = self.seen.insert(address);
        self.seen_used += u64::from(is_first && self.log.rows.is_used(address));
        is_first
    }

    /// Notes that a block has these addresses.
    fn hold(&mut self, (ino, lbn): (Option<u64>, u64), pointer: Pointer, units: u64) {
        let first = pointer.address.get();
        for address in first..first + units {
            let is_used = self.log.rows.is_used(address);
            let is_first = self.see(address);
            let place = (ino, Some((lbn, address)));
            if !is_used {
                let found = format!("block {address} without a unit in use");
                self.wrong_at(Law::Table, place, found, "a unit in use");
                return;
            }
            if !is_first {
                let found = format!("two blocks with the address {address}");
                self.wrong_at(Law::Once, place, found, "one");
                return;
            }
        }
    }

    /// Looks at the blocks of a tree below a block, or below its root. Adds the units of leaves.
    fn tree<'s>(
        &'s mut self,
        stem: &'s Stem,
        above: Option<Rc<Node>>,
        end: u64,
        units: &'s mut u64,
    ) -> LocalBoxFuture<'s, ()> {
        async move {
            let nodes = self.log.nodes.clone();
            let (parent, level, places) = nodes.below(stem, above.as_ref());
            let ino = match stem {
                Stem::File(ino, ..) => Some(*ino),
                _ => None,
            };
            for index in places {
                let pointer = nodes.child_of(&parent, index);
                let is_data = level == 0 && stem.holds_data();
                let is_held = stem.is_held();
                let in_memory =
                    if is_data || is_held { None } else { nodes.find(stem, level, index) };
                if pointer.is_null() && in_memory.is_none() {
                    continue;
                }
                let count = if is_data { self.log.shape.block } else { 1 };
                if is_held && !self.is_new((ino, index), pointer, count) {
                    continue;
                } else if !pointer.is_null() && !is_held {
                    self.hold((ino, index), pointer, count);
                }
                let is_pinned = self.log.pins.holds(pointer.birth.get()) && !pointer.is_null();
                if !is_data && !is_held && matches!(stem, Stem::Inodes | Stem::File(..)) {
                    self.nodes = (self.nodes.0 + 1, self.nodes.1 + u64::from(is_pinned));
                }
                if in_memory.as_ref().is_some_and(|node| node.is_dirty()) {
                    self.changed.insert(pointer.address.get());
                }
                let twin = nodes.twin_of(&parent, index);
                if twin > 0 {
                    let is_changed = in_memory.is_some_and(|node| node.is_dirty());
                    self.twin((ino, index), pointer.at(twin), (is_held, is_changed)).await;
                }
                if level == 0 && ino.is_some() {
                    *units += count;
                    if is_data && index >= end && !is_held {
                        let found = format!("block {index} behind the end");
                        self.wrong(Law::Size, ino, found, "none");
                    }
                }
                if is_data {
                    self.data(ino, index, pointer).await;
                    continue;
                }
                match nodes.get(stem, level, index).await {
                    Ok(Some(node)) if level > 0 => {
                        self.tree(stem, Some(node), end, units).await;
                    }
                    Ok(Some(node)) => self.leaf(stem, node).await,
                    Ok(None) => {}
                    Err(error) => {
                        self.has_unread |= error == FsError::Io;
                        let found = format!("block {index} of level {level}: {error}");
                        self.wrong_at(Law::Block, (ino, None), found, "a whole block");
                    }
                }
                nodes.relieve();
            }
        }
        .boxed_local()
    }

    /// Looks at the second copy of a block.
    async fn twin(
        &mut self,
        place: (Option<u64>, u64),
        copy: Pointer,
        (is_held, is_changed): (bool, bool),
    ) {
        if is_held {
            self.is_new(place, copy, 1);
            return;
        }
        self.hold(place, copy, 1);
        if !is_changed && !self.log.nodes.has_copy(copy).await {
            self.wrong(Law::Twice, None, "a damaged copy".into(), "two whole ones");
        }
    }

    async fn data(&mut self, ino: Option<u64>, lbn: u64, pointer: Pointer) {
        if !self.is_full || self.log.nodes.locate(pointer).is_none() {
            return;
        }
        let (at, length) = (pointer.offset(), self.log.shape.block * UNIT as u64);
        let read = self.log.path.read(at..at + length, &[pointer.sum.get()]).await;
        if let Err(error) = read {
            let place = (ino, Some((lbn, pointer.address.get())));
            self.wrong_at(Law::Data, place, error.to_string(), "the bytes that were written");
        }
    }

    async fn leaf(&mut self, stem: &Stem, node: Rc<Node>) {
        match stem {
            Stem::Inodes => self.inodes(&node).await,
            Stem::Pinned(_) => self.held_inodes(&node).await,
            Stem::File(ino, ..) if !stem.is_held() => self.directory(*ino, &node),
            _ => {}
        }
    }

    async fn inodes(&mut self, home: &Rc<Node>) {
        for slot in 0..INODES {
            let ino = home.place.index * INODES + slot;
            if home.inode(slot, Record::is_free) {
                continue;
            }
            let Some(facts) = home.inode(slot, Record::facts) else {
                self.wrong(Law::Inode, Some(ino), "an impossible inode".into(), "an inode");
                continue;
            };
            let links = facts.links;
            let (names, name, found, above) = (0, None, 0, None);
            let known =
                Known { kind: facts.kind, links, names, name, units: facts.units, found, above };
            self.files.insert(ino, known);
            let total = self.log.live.files.get();
            (self.tell)(self.files.len() as u64, total);
            let mut units = 0;
            if !facts.is_inline() {
                let stem = Stem::File(ino, home.clone(), slot);
                let end = facts.size.div_ceil(self.log.shape.block * UNIT as u64);
                self.tree(&stem, None, end, &mut units).await;
            }
            self.checked.held_bytes += units * UNIT as u64;
            self.files.entry(ino).and_modify(|known| known.found = units);
            if units != facts.units {
                self.wrong(
                    Law::Size,
                    Some(ino),
                    format!("{units} units"),
                    &format!("{}", facts.units),
                );
            }
        }
    }

    /// Looks at the files of a snapshot whose inodes are in a block.
    async fn held_inodes(&mut self, home: &Rc<Node>) {
        for slot in 0..INODES {
            let ino = home.place.index * INODES + slot;
            if home.inode(slot, Record::is_free) {
                continue;
            }
            match home.inode(slot, Record::facts) {
                None => self.wrong(Law::Inode, Some(ino), "an impossible inode".into(), "an inode"),
                Some(facts) if facts.is_inline() => {}
                Some(_) => {
                    self.tree(&Stem::File(ino, home.clone(), slot), None, 0, &mut 0).await;
                }
            }
        }
    }

    /// Notes a block of a snapshot. Returns whether it is looked at: it is neither in the live tree
    /// nor in an earlier snapshot, or its present version is another one.
    fn is_new(&mut self, (ino, lbn): (Option<u64>, u64), pointer: Pointer, units: u64) -> bool {
        let first = pointer.address.get();
        if pointer.is_null() || !self.held.insert(first) {
            return false;
        }
        if self.seen.has(first) {
            return self.changed.contains(&first);
        }
        let dead = self.dead.take();
        let place = (ino, Some((lbn, first)));
        if dead.as_ref().is_some_and(|dead| !(first..first + units).all(|at| dead.has(at))) {
            self.wrong_at(Law::Dead, place, format!("block {first} on none"), "it on one");
        }
        self.dead = dead;
        self.hold((ino, lbn), pointer, units);
        let next = self.snapshot.as_ref().map_or(0, |&(_, next)| next);
        self.died.push((Run { start: first, length: units }, pointer.birth.get(), next));
        true
    }

    /// Reads the dead lists.
    async fn lists(&mut self) {
        let mut runs: Vec<(Run, bool)> = Vec::new();
        runs.extend(self.log.deaths.all().into_iter().map(|run| (run, false)));
        for listing in self.log.pins.listings() {
            let is_loose = !self.log.pins.has_holder(listing.list.span);
            let (mut next, mut places) = (Some(listing.list.last), BTreeSet::new());
            while let Some(place) = next {
                let block = self.log.nodes.get(&Stem::Died, 0, place).await;
                let died = block.ok().flatten().and_then(|block| block.read(Died::read));
                let Some(died) = died.filter(|_| places.insert(place)) else {
                    let found = format!("block {place}, which is damaged");
                    self.wrong(Law::Lists, None, found, "a block of a list");
                    self.dead = None;
                    return;
                };
                next = died.previous;
                runs.extend(died.runs.into_iter().map(|run| (run, is_loose)));
            }
        }
        for (run, is_loose) in runs {
            let most = self.log.shape.units;
            for unit in run.units().take(most as usize) {
                let mut is_first = self.dead.as_mut().is_some_and(|dead| dead.insert(unit.start));
                // A deletion is about to free it.
                is_first &= !is_loose || self.see(unit.start);
                if !is_first {
                    let found = format!("block {} on two", unit.start);
                    self.wrong(Law::Dead, None, found, "it on one");
                }
            }
        }
    }

    /// Looks at the trees of snapshots, the newest first: so a block is met in the last one that
    /// holds it.
    async fn snapshots(&mut self) {
        let mut next = self.log.pins.next_number();
        for told in self.log.pins.holding().into_iter().rev() {
            let name = String::from_utf8_lossy(told.name.as_bytes()).into_owned();
            self.snapshot = Some((name, next));
            next = told.number;
            let stem = Stem::Pinned(Rc::new(told.inodes));
            self.tree(&stem, None, 0, &mut 0).await;
        }
        self.snapshot = None;
    }

    fn directory(&mut self, ino: u64, node: &Rc<Node>) {
        let is_first = node.place.index == 0;
        let chunks: Vec<u8> = node.read(|bytes| bytes[size_of::<Head>()..].to_vec());
        for (number, chunk) in chunks.chunks_exact(CHUNK_SIZE).take(CHUNKS as usize).enumerate() {
            if chunk.iter().all(|&byte| byte == 0) {
                continue; // behind the end
            }
            for entry in chunk::entries(chunk) {
                let Ok(entry) = entry else {
                    self.wrong(
                        Law::Entry,
                        Some(ino),
                        format!("chunk {number} is broken"),
                        "entries",
                    );
                    break;
                };
                let (target, name) = (u64::from(entry.ino), entry.name);
                match name {
                    _ if !entry.is_live() => {}
                    b"." if is_first && number == 0 && target == ino => {}
                    b".." if is_first && number == 0 => {
                        let known = self.files.get_mut(&ino);
                        known.into_iter().for_each(|known| known.above = Some(target));
                    }
                    b"." | b".." => {
                        self.wrong(
                            Law::Entry,
                            Some(ino),
                            "a misplaced dot".into(),
                            "one at the start",
                        );
                    }
                    name => {
                        let name = name.escape_ascii().to_string();
                        self.names.push((ino, name, target));
                    }
                }
            }
        }
    }

    /// Compares names with files.
    fn judge_names(&mut self, chains: &[Chain]) {
        for (directory, name, target) in std::mem::take(&mut self.names) {
            let Some(known) = self.files.get_mut(&target) else {
                let found = format!("'{name}', which leads to inode {target}");
                self.missing.insert(target);
                self.wrong(Law::Target, Some(directory), found, "a name of a file");
                continue;
            };
            known.names += 1;
            let (is_directory, above) = (known.kind == FileKind::Directory, known.above);
            known.name.get_or_insert((directory, name));
            if is_directory {
                if above != Some(directory) {
                    self.wrong(Law::Entry, Some(target), "'..' elsewhere".into(), "its directory");
                }
                // '.' of it, and '..' to the directory that has it.
                self.add_name(target);
                self.add_name(directory);
            }
        }
        if self.files.contains_key(&ROOT) {
            (0..2).for_each(|_| self.add_name(ROOT));
        }
        let orphans: BTreeSet<u64> = chains.iter().map(|chain| chain.ino).collect();
        let wrong: Vec<(u64, u32, u32)> = self
            .files
            .iter()
            .filter(|(ino, known)| known.names != known.links && !orphans.contains(ino))
            .map(|(&ino, known)| (ino, known.names, known.links))
            .collect();
        for (ino, names, links) in wrong {
            self.wrong(Law::Links, Some(ino), format!("{names} names"), &format!("{links}"));
        }
    }

    fn add_name(&mut self, ino: u64) {
        self.files.entry(ino).and_modify(|known| known.names += 1);
    }

    /// Compares the blocks that were seen with the table.
    fn judge_space(&mut self) {
        let used = self.log.rows.used();
        let seen = self.seen_used;
        if used != seen {
            let found = format!("{used} units in use");
            self.wrong(Law::Table, None, found, &format!("{seen}, which blocks have"));
        }
    }

    fn judge_counts(&mut self) {
        let is_directory = |known: &&Known| known.kind == FileKind::Directory;
        let (files, directories) =
            (self.files.len() as u64, self.files.values().filter(is_directory).count() as u64);
        let units: u64 = self.files.values().map(|known| known.units).sum();
        (self.checked.files, self.checked.directories) = (files, directories);
        let live = &self.log.live;
        let said = [live.files.get(), live.directories.get(), live.units.get()];
        let found = [files, directories, units];
        if said != found {
            self.wrong(Law::Counts, None, format!("{said:?}"), &format!("{found:?}"));
        }
    }

    /// Finds paths for violations.
    fn name_paths(&mut self) {
        let path = |mut ino: u64| {
            let mut path = String::new();
            for _ in 0..=self.files.len() {
                if ino == ROOT {
                    return Some(if path.is_empty() { "/".to_owned() } else { path });
                }
                let (directory, name) = self.files.get(&ino)?.name.as_ref()?;
                path = format!("/{name}{path}");
                ino = *directory;
            }
            None
        };
        // A file of a snapshot may have had another name.
        let live = |wrong: &Wrong| wrong.ino.filter(|_| wrong.snapshot.is_none());
        let paths: Vec<_> =
            self.checked.wrong.iter().map(|wrong| live(wrong).and_then(path)).collect();
        for (wrong, path) in self.checked.wrong.iter_mut().zip(paths) {
            wrong.path = path;
        }
    }
}
