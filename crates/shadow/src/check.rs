//! Checking all of a volume that is not open, for consistency.
//!
//! Every block that the superblock leads to is read, and compared with its checksum. The blocks
//! that trees hold are compared with the map, the records and the lists of blocks that snapshots
//! alone hold. In each tree, names are compared with link counts, and the path from the root with
//! the files that exist.
//!
//! The live tree comes first, and then the tree of each snapshot, from the newest on. A block of a
//! tree is read unless the tree before has it at the same place: so a block is read in the last
//! tree that holds it, and the facts about one tree become those of the next by their differences.
//! A finding is reported for the newest tree that has it. The blocks of a tree below an unreadable
//! block may also be in the next tree, and in those before: this does not make them held twice.
//!
//! Invariants:
//! 1. The facts about the current tree are those of its readable blocks.
//!
//! Not asserted: 1, which is tested on volumes whose snapshots record how many files they have.

mod facts;
mod paths;
mod snapshots;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use block::BlockDevice;
use block::scratch::ScratchDevice;
use cache::{Budget, DataPath};
use cow::format::is_number;
use cow::{NUMBERS, Pins, Run, Span, Stem, UNIT};
use vnode::chain::Chain;

pub(crate) use self::facts::Count;
use self::facts::Says;
use self::walk::Side;
use crate::anchors::find_anchor;
use crate::belief::{Chosen, believe, choose};
use crate::books::{read_answers, read_map, read_records};
use crate::error::OpenError;
use crate::format::anchor::{Anchor, Shape};
use crate::format::superblock::{MOST_RESERVE, Superblock};
use crate::planted::{Bug, is_planted};
use crate::runs::Unfolded;
use crate::space::Space;
use crate::units::{LOG, MAP, Nodes, Units};

/// Defines the laws: variant, short name, and the law as a sentence.
macro_rules! laws {
    ($($variant:ident, $name:literal, $sentence:literal;)+) => {
        /// A law that holds on a consistent volume.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Law {
            $(#[doc = $sentence] $variant,)+
        }

        impl Law {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

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
    Anchor, "volume.anchor", "An anchor says what the volume is, and where its superblocks stand.";
    Counts, "sb.counts", "What is counted is what there is.";
    Block, "tree.block", "A pointer leads to the block that it says, with its checksum.";
    Twice, "tree.twice", "What leads to the root directory stands twice, each copy whole.";
    Birth, "tree.birth", "A block is not younger than what leads to it.";
    Once, "space.once", "Every unit that is held is held once.";
    Listed, "space.listed", "What snapshots alone hold is listed once, for those that hold it.";
    Line, "snapshot.line", "What is told of a snapshot makes sense.";
    Map, "space.map", "What is in use is what is held.";
    Inode, "inode.whole", "What counts as an inode makes sense as one.";
    Size, "inode.size", "A file holds what its inode says, and nothing behind its end.";
    Links, "inode.links", "The link count of a file is the number of its names.";
    Entry, "dir.entry", "A directory is whole entries, and its dots lead where they should.";
    Target, "dir.target", "A name is that of a file.";
    Root, "tree.root", "Inode 2 is a directory.";
    Way, "tree.way", "From every directory the way up ends at the root.";
    Data, "data.sum", "The data of a file can be read, and fits its checksum.";
}

/// A violation of a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The law.
    pub law: Law,
    /// The name of the snapshot with the violation; none for the live tree, and for violations in
    /// no tree.
    pub snapshot: Option<String>,
    /// The file.
    pub ino: Option<u64>,
    /// A path to the file, if one is known.
    pub path: Option<String>,
    /// The block of the file, and its first unit.
    pub block: Option<(u64, u64)>,
    /// The finding.
    pub found: String,
    /// The expected state.
    pub expected: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, snapshot, ino, path, found, expected, .. } = self;
        write!(f, "{}:", law.name())?;
        snapshot.as_ref().map_or(Ok(()), |name| write!(f, " in snapshot {name}:"))?;
        ino.map_or(Ok(()), |ino| write!(f, " inode {ino}"))?;
        path.as_ref().map_or(Ok(()), |path| write!(f, " ({path})"))?;
        write!(f, " found {found}, expected {expected}")
    }
}

/// The finding for a file without a name.
pub const NAMELESS: &str = "no name";
/// Violations that are reported one by one; further ones are only counted.
const TOLD: usize = 100_000;
/// Rounds of a check, at most, to decide which of two holders a unit belongs to.
pub(crate) const ROUNDS: usize = 8;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
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
    /// Units in use.
    pub units: u64,
}

/// The tree that is being checked.
struct Tree {
    /// The number and name of its snapshot; none for the live tree.
    snapshot: Option<(u64, String)>,
    inodes: Stem,
    /// The last update that wrote a block of it.
    newest: u64,
}

/// Files of a tree that are being freed.
enum Goes {
    Nothing,
    These(BTreeSet<u64>),
    /// All that have no name.
    Nameless,
}

/// A check in progress.
pub(crate) struct Look<'a> {
    nodes: Rc<Nodes>,
    device: Rc<dyn BlockDevice>,
    reads_data: bool,
    progress: &'a mut dyn FnMut(u64, u64),
    /// Units that were checked, and units in use.
    done: (u64, u64),
    /// Units of a block of a file.
    block: u64,
    /// Units that trees hold.
    pub(crate) held: Space,
    pub(crate) findings: Findings,
    tree: Tree,
    /// The facts about that tree.
    pub(crate) says: Says,
    /// Blocks of it that could not be read, by owner, level and index, with the last tree before it
    /// whose block at that place is known.
    passed: BTreeMap<(u64, u8, u64), Option<Stem>>,
    /// Blocks of metadata written by this update or before count as pinned.
    pinned_until: u64,
    /// Snapshots that hold something, with the updates that made them.
    holders: Vec<(u64, u64)>,
    /// Runs that snapshots alone hold, with their spans, by the first unit.
    pub(crate) died: BTreeMap<u64, (Span, Run)>,
    /// Units of blocks of metadata that could not be read.
    unfound: BTreeSet<u64>,
    /// Units that no data of the live tree may hold, since something else is known to hold them,
    /// and units that this check found to be such.
    pub(crate) claimed: BTreeSet<u64>,
    pub(crate) claims: BTreeSet<u64>,
    /// Blocks of data of the live tree, by file and index, in units that something else holds, or
    /// that nothing may hold.
    pub(crate) strays: BTreeMap<(u64, u64), Run>,
    /// Counts of each snapshot.
    pub(crate) counts: BTreeMap<u64, Count>,
    /// Whether the disk failed to read something that may come back.
    pub(crate) has_unread: bool,
}

/// Checks all of a volume, and the data of files too if `reads_data`. Nothing is written, except
/// that a set of disks mends what one of them has wrong, as for any read. `progress` gets the
/// number of checked units, and of units in use.
///
/// # Errors
/// [`OpenError`] if there is no volume to check.
pub async fn check(
    device: Rc<dyn BlockDevice>,
    reads_data: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Findings, OpenError> {
    let anchor = find_anchor(&*device).await?;
    let Chosen { superblock, at, highest, mended } = choose(&*device, &anchor).await?;
    let device = if mended.is_empty() {
        device
    } else {
        // Mended blocks are checked as an opening would mend them.
        let scratch: Rc<dyn BlockDevice> = Rc::new(ScratchDevice::new(device));
        believe(&*scratch, (&superblock, at), &mended, &anchor.secret).await?;
        scratch
    };
    let shape = anchor.shape;
    let nodes = nodes_of(device, &anchor, &superblock);
    nodes.is_only_read.set(true);
    let total = shape.capacity().saturating_sub(anchor.free);
    let mut look = Look::new(nodes, shape, reads_data, progress);
    for _ in 0..ROUNDS {
        look.done.1 = total;
        let told = look.told(&superblock).await;
        let pins = look.trees(&superblock).await;
        look.findings.is_at_rest = highest == anchor.rest;
        if let Some((told, unfolded)) = told {
            look.lists(&pins, &unfolded).await;
            look.space(&told);
            look.free_counts(&anchor);
        }
        if !look.has_claims() {
            break;
        }
        look = look.again();
    }
    if anchor.is_rebuilt() {
        look.tree.snapshot = None;
        look.wrong(Law::Anchor, None, "none of a turn", "one of each that is whole");
    }
    (look.progress)(look.done.0, look.done.0);
    Ok(look.findings)
}

/// The blocks of metadata below a superblock.
pub(crate) fn nodes_of(
    device: Rc<dyn BlockDevice>,
    anchor: &Anchor,
    superblock: &Superblock,
) -> Rc<Nodes> {
    let block_size = anchor.shape.block * UNIT as u64;
    let budget = Budget::new(64 << 20, block_size, false);
    let path = Rc::new(DataPath::new(device, budget.clone(), (block_size, block_size)));
    Rc::new(Nodes::new(Units::of(&path), path, budget, superblock.trees(), anchor.secret))
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
            done: (0, 0),
            block: shape.block,
            held: Space::empty(shape),
            findings: Findings::default(),
            tree: Tree { snapshot: None, inodes: Stem::Inodes, newest: 0 },
            says: Says::default(),
            passed: BTreeMap::new(),
            pinned_until: 0,
            holders: Vec::new(),
            died: BTreeMap::new(),
            unfound: BTreeSet::new(),
            claimed: BTreeSet::new(),
            claims: BTreeSet::new(),
            strays: BTreeMap::new(),
            counts: BTreeMap::new(),
            has_unread: false,
        }
    }

    /// Whether blocks of metadata were found in units that were taken for data.
    pub(crate) fn has_claims(&self) -> bool {
        !self.claims.is_subset(&self.claimed)
    }

    /// A new check, in which no data holds units that something else was found to hold.
    pub(crate) fn again(mut self) -> Self {
        self.claimed.append(&mut self.claims);
        let Self { nodes, claimed, progress, reads_data, .. } = self;
        let shape = *self.held.shape();
        Self { claimed, ..Self::new(nodes, shape, reads_data, progress) }
    }

    /// The space in use according to records and map, and the records, which it takes as held; none
    /// if they make no sense.
    pub(crate) async fn told(&mut self, superblock: &Superblock) -> Option<(Space, Unfolded)> {
        self.tree.newest = superblock.number;
        let told = Space::empty(*self.held.shape());
        let secret = *self.nodes.secret();
        let unfolded = read_records(&*self.device, told.shape(), superblock, &secret).await;
        let read = match &unfolded {
            Ok(unfolded) => read_map(&self.nodes, &told, superblock, unfolded).await.map(drop),
            Err(_) => Ok(()),
        };
        for &unit in unfolded.iter().flat_map(|it| &it.units) {
            self.hold(Run::of(unit), None);
        }
        match unfolded.and_then(|unfolded| read.map(|()| unfolded)) {
            Ok(unfolded) => Some((told, unfolded)),
            Err(error) => {
                let expected = "records and a map that can be read";
                self.wrong(Law::Map, None, error.to_string(), expected);
                None
            }
        }
    }

    /// Checks all trees; returns the snapshots and lists.
    pub(crate) async fn trees(&mut self, superblock: &Superblock) -> Pins {
        for stem in [MAP, LOG, Stem::Snapshots, Stem::Lists, Stem::Died] {
            self.tree(&stem).await;
        }
        self.live(superblock).await;
        self.live_counts(superblock);
        let pins = self.pins(&superblock.snapshots).await;
        self.held(&pins).await;
        pins
    }

    /// The units that all trees and these records hold, and those that a deletion has still to
    /// free; none if a block of the trees of files, snapshots or lists cannot be read, so that the
    /// units below it, or on its list, are unknown.
    pub(crate) async fn held_by_all(
        mut self,
        superblock: &Superblock,
        unfolded: &Unfolded,
    ) -> Option<Space> {
        self.tree.newest = superblock.number;
        unfolded.units.iter().for_each(|&unit| _ = self.hold(Run::of(unit), None));
        for stem in [MAP, LOG, Stem::Answers] {
            self.tree(&stem).await;
        }
        let before = self.damage();
        for stem in [Stem::Snapshots, Stem::Lists, Stem::Died] {
            self.tree(&stem).await;
        }
        self.live_files(superblock).await;
        let pins = self.pins(&superblock.snapshots).await;
        self.held(&pins).await;
        if !is_planted(Bug::ForgottenLoose) {
            self.hold_loose(&pins, unfolded).await;
        }
        (self.damage() == before || is_planted(Bug::FreeBehindDamage)).then_some(self.held)
    }

    /// Number of violations behind which there may be further blocks.
    fn damage(&self) -> u64 {
        let of = |law: &Law| self.findings.counts.get(law).copied().unwrap_or(0);
        [Law::Block, Law::Birth, Law::Once, Law::Line, Law::Listed, Law::Inode].iter().map(of).sum()
    }

    /// Checks the replies, the inodes of the live tree, and all below these.
    pub(crate) async fn live(&mut self, superblock: &Superblock) {
        self.tree(&Stem::Answers).await;
        self.answers(superblock).await;
        self.live_files(superblock).await;
    }

    async fn live_files(&mut self, superblock: &Superblock) {
        self.pinned_until = superblock.snapshots.pinned_until;
        let of_files = |chain: &Chain| is_number(chain.ino);
        let orphans = superblock.chains.iter().filter(|chain| of_files(chain));
        let orphans = Goes::These(orphans.map(|chain| chain.ino).collect());
        let live = Tree { snapshot: None, inodes: Stem::Inodes, newest: superblock.number };
        self.look_at(live, None, orphans).await;
        let Count { files, directories, units, .. } = self.says.count;
        (self.findings.files, self.findings.directories) = (files, directories);
        self.findings.held_bytes = units.saturating_mul(UNIT as u64);
    }

    /// Checks the replies, if their blocks are the right ones.
    async fn answers(&mut self, superblock: &Superblock) {
        let shape = *self.held.shape();
        let unfolded = Unfolded::default();
        let read = read_answers(&self.nodes, &shape, superblock, &unfolded).await;
        if matches!(read, Err(OpenError::Damaged(_))) {
            self.wrong(Law::Block, None, "answers that make no sense", "those that were given");
        }
    }

    /// Checks the blocks that a tree has and the one before it has not.
    async fn look_at(&mut self, tree: Tree, before: Option<Stem>, goes: Goes) {
        let first = self.findings.wrong.len();
        let inodes = tree.inodes.clone();
        self.tree = tree;
        self.differ(before, Some(inodes)).await;
        let orphans = match goes {
            Goes::Nothing => BTreeSet::new(),
            Goes::These(orphans) => orphans,
            Goes::Nameless => self.says.nameless(),
        };
        self.judge(&orphans);
        self.paths(first).await;
    }

    /// Checks a tree that does not belong to files.
    pub(crate) async fn tree(&mut self, stem: &Stem) {
        self.differ(None, Some(stem.clone())).await;
    }

    async fn differ(&mut self, was: Option<Stem>, is: Option<Stem>) {
        let (was, is) = (Side::at_root(was), Side::at_root(is));
        self.differ_from(&was, &is).await;
    }

    fn wrong(
        &mut self,
        law: Law,
        ino: Option<u64>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        let snapshot = self.tree.snapshot.as_ref().map(|(_, name)| name.clone());
        let (found, expected) = (found.into(), expected.into());
        self.add(Wrong { law, snapshot, ino, path: None, block: None, found, expected });
    }

    fn add(&mut self, wrong: Wrong) {
        *self.findings.counts.entry(wrong.law).or_default() += 1;
        if self.findings.wrong.len() < TOLD {
            self.findings.wrong.push(wrong);
        }
    }

    /// Takes units that a record, a tree or a file holds.
    pub(crate) fn hold(&mut self, run: Run, ino: Option<u64>) -> bool {
        let is_new = self.held.take(run);
        self.done.0 += run.length;
        if !is_new {
            self.held_twice(run, ino);
        }
        is_new
    }

    /// Reports units that something else holds as well, or that nothing may hold.
    fn held_twice(&mut self, Run { start, length }: Run, ino: Option<u64>) {
        let found = format!("{length} units from {start} on held here");
        let expected = "units that nothing else holds, and that may be held";
        self.wrong(Law::Once, ino, found, expected);
    }

    /// Compares the units that trees hold with the map.
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

    /// Compares the superblock's counts of the live tree.
    fn live_counts(&mut self, superblock: &Superblock) {
        let Count { files, directories, units, nodes, pinned } = self.says.count;
        let said = &superblock.snapshots;
        if said.pinned < pinned {
            let found = format!("{} blocks of metadata that snapshots hold", said.pinned);
            self.wrong(Law::Counts, None, found, format!("{pinned} at least"));
        }
        let last = self.says.files.last_key_value().map_or(0, |(&last, _)| last);
        if last >= superblock.next_ino || superblock.next_ino > NUMBERS {
            let found = format!("that all inodes from {} on are free", superblock.next_ino);
            self.wrong(Law::Counts, None, found, format!("those behind {last}, at most"));
        }
        if superblock.reserve > MOST_RESERVE {
            let found = format!("a reserve of {} percent", superblock.reserve);
            self.wrong(Law::Counts, None, found, format!("{MOST_RESERVE} at most"));
        }
        let chains = self.chains(&superblock.chains);
        if chains != superblock.chains {
            let found = format!("{} files that are to become shorter", superblock.chains.len());
            let expected = format!("{}, each once, since there are no others", chains.len());
            self.wrong(Law::Counts, None, found, expected);
        }
        self.compare_counts([
            ("blocks of metadata of files", said.nodes, nodes),
            ("files", superblock.files, files),
            ("directories", superblock.directories, directories),
            ("units of files", superblock.units, units),
        ]);
    }

    /// Compares the anchor's counts.
    fn free_counts(&mut self, anchor: &Anchor) {
        let free = self.held.total() - self.findings.units;
        let told = if self.findings.is_at_rest { anchor.free } else { free };
        self.compare_counts([("free units", told, free)]);
    }

    fn compare_counts<const N: usize>(&mut self, counts: [(&str, u64, u64); N]) {
        for (what, told, there) in counts.into_iter().filter(|(_, told, there)| told != there) {
            self.wrong(Law::Counts, None, format!("{told} {what}"), there.to_string());
        }
    }
}
