//! Possible leaks of a crash on a volume that is served: the facts that reclaim verifies.
//!
//! Soft updates leak only in one direction: bits in use that no file has, link counts that are too
//! high, files without a name. To find them, every inode and every name has to be seen once, while
//! files change. So each fact is kept as a sum that the changes of an Update leave invariant, such
//! as the links of an inode less the names that lead to it. A scan visits the inodes in the order
//! of their numbers. Scanned inodes count; a change of a scanned inode is followed when it is
//! applied ([`Leftovers::follow`]); a change of an unscanned one is found when the scan gets there.
//!
//! Invariants:
//! 1. A candidate is a bit that was in use when its group was first read, which is before anything
//!    of the group was allocated. The bits of a scanned file, and freed bits, leave the candidates
//!    when they are seen or the Update is applied, not when it is durable. No candidate is ever
//!    added.
//! 2. When the scan is through, a candidate belongs to no file, and `excess` is the number of links
//!    of an inode less the number of its names.
//! 3. Nothing is allocated from a torn group before the scan is through and has found the blocks of
//!    all its files in use.
//!
//! Not asserted: 2, which takes the whole disk: the checker does; 3, which the allocator keeps.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use cache::Meter;
use futures::future::select;
use runtime::Clock;
use runtime::sync::Signal;
use ufs2::derive::bits;
use ufs2::layout::{Dinode, Geometry, GroupHeader, ROOT_INODE, kind_bits};
use vfs::{FileKind, FsError};

use crate::buffer::Role;
use crate::edit::Edit;
use crate::item::{Intent, Item, Subject};
use crate::planted::{Bug, is_planted};

/// Maximum time that a caller waits for a result of the scan.
const PATIENCE: Duration = Duration::from_secs(1);

/// Facts about an inode that existed at the opening.
#[derive(Clone, Copy, Default)]
struct Fact {
    /// Links of the inode, once it was scanned, less the names seen.
    excess: i32,
    /// Names seen, each once.
    names: i32,
    /// A caller has changed it since the opening.
    is_touched: bool,
    /// A caller has removed a name of it since.
    is_dropped: bool,
    /// A caller has reached it by a name since.
    is_found: bool,
    /// The inode began since the opening: all its names are new.
    is_begun: bool,
}

/// Facts about a group.
struct OfGroup {
    /// A bit for each fragment that is not known to belong to a file.
    fragments: Vec<u8>,
    /// A bit for each inode that is not known to belong to a file.
    inodes: Vec<u8>,
    /// Inodes that existed at the opening.
    count: u64,
    /// Facts by the index of the inode, until reclaim fails.
    facts: Vec<Fact>,
    /// After that, a bit for each inode that a caller has reached by a name,
    found: Vec<u8>,
    /// and one for each that has begun since the opening.
    begun: Vec<u8>,
    /// Directories seen in it.
    directories: i32,
    is_torn: bool,
    /// The map has something as free that a file holds.
    is_rotten: bool,
}

impl OfGroup {
    /// Bytes of memory.
    fn bytes(&self) -> usize {
        let bits = self.found.len() + self.begun.len();
        let maps = self.fragments.len() + self.inodes.len() + bits;
        maps + size_of_val(&*self.facts)
    }

    /// Drops all that is known of the group but the files that have a name for certain.
    fn shrink(&mut self) {
        let [mut found, mut begun] = [0, 0].map(|_| vec![0; self.facts.len().div_ceil(8)]);
        for (index, fact) in self.facts.iter().enumerate() {
            set_bit(&mut found, index, fact.is_found);
            set_bit(&mut begun, index, fact.is_begun);
        }
        (self.found, self.begun, self.facts) = (found, begun, Vec::new());
        (self.fragments, self.inodes) = (Vec::new(), Vec::new());
    }

    /// The fact of an inode that existed at the opening.
    fn fact<T: Default>(&mut self, index: usize, look: impl FnOnce(&mut Fact) -> T) -> T {
        if index as u64 >= self.count {
            return T::default();
        }
        if let Some(fact) = self.facts.get_mut(index) {
            return look(fact);
        }
        let [is_found, is_begun] =
            [&self.found, &self.begun].map(|bits| bits::is_set(bits, index as u64));
        let mut fact = Fact { is_found, is_begun, ..Fact::default() };
        let seen = look(&mut fact);
        set_bit(&mut self.found, index, fact.is_found);
        set_bit(&mut self.begun, index, fact.is_begun);
        seen
    }
}

/// Progress and results of reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// State of reclaim.
    pub state: ReclaimState,
    /// Inodes scanned.
    pub scanned: u64,
    /// Inodes to scan, as known so far.
    pub total: u64,
    /// Leaked fragments that were freed.
    pub fragments: u64,
    /// Leaked inodes that were freed, and files without a name.
    pub inodes: u64,
    /// Excess links and names that were removed.
    pub links: u64,
}

/// State of reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReclaimState {
    /// Scanning the volume, or waiting for its turn.
    #[default]
    Running,
    /// All leaks of the crash are repaired: the volume can be stopped cleanly.
    Done,
    /// Stopped by damage that no crash causes, or an error of the disk. The volume needs a checker.
    Failed,
}

/// See the module's prose.
pub(crate) struct Leftovers {
    groups: RefCell<Vec<Option<OfGroup>>>,
    geometry: Rc<Geometry>,
    /// Counts the memory of all groups: 12 bytes for each inode, and a bit for each fragment.
    memory: Meter,
    /// Inodes below this one have been scanned.
    cursor: Cell<u64>,
    progress: Cell<Reclaimed>,
    /// Reclaim must end before it is through.
    ends: Cell<bool>,
    /// Files without a name have got one, or are gone, except these.
    are_named: RefCell<Option<BTreeSet<u64>>>,
    /// A caller waits for a result: the scan does not rest any more.
    is_urgent: Cell<bool>,
    /// The reclaim task has ended.
    has_ended: Cell<bool>,
    /// Notified when one of these changes.
    moved: Signal,
}

impl Leftovers {
    /// The state of a volume of which nothing is known yet. `memory` counts what becomes known.
    pub(crate) fn new(geometry: Rc<Geometry>, memory: Meter) -> Self {
        let groups = (0..geometry.group_count).map(|_| None).collect();
        Self {
            groups: RefCell::new(groups),
            geometry,
            memory,
            cursor: Cell::new(0),
            progress: Cell::default(),
            ends: Cell::new(false),
            are_named: RefCell::default(),
            is_urgent: Cell::new(false),
            has_ended: Cell::new(false),
            moved: Signal::new(),
        }
    }

    /// Progress of reclaim.
    pub(crate) fn progress(&self) -> Reclaimed {
        self.progress.get()
    }

    /// Notes progress.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Reclaimed)) {
        let mut progress = self.progress.get();
        change(&mut progress);
        self.progress.set(progress);
    }

    /// Whether leaks may still be found.
    pub(crate) fn is_open(&self) -> bool {
        self.progress.get().state != ReclaimState::Done
    }

    /// Ends reclaim: there are no more leaks.
    pub(crate) fn close(&self) {
        for group in self.groups.borrow_mut().iter_mut().filter_map(Option::take) {
            self.memory.subtract(group.bytes());
        }
        self.note(|progress| progress.state = ReclaimState::Done);
    }

    /// Ends reclaim: leaks stay. Only the files that callers reach still matter.
    pub(crate) fn fail(&self) {
        for group in self.groups.borrow_mut().iter_mut().flatten() {
            let before = group.bytes();
            group.shrink();
            self.memory.subtract(before - group.bytes());
        }
        self.note(|progress| progress.state = ReclaimState::Failed);
    }

    /// Asks reclaim to end before it is through.
    pub(crate) fn end(&self) {
        self.ends.set(true);
        self.moved.notify();
    }

    /// Completes when the scan must not rest any more: it has to end, or a caller waits for it.
    pub(crate) async fn no_rest(&self) {
        while !self.ends.get() && !self.is_urgent.get() {
            self.moved.wait().await;
        }
    }

    /// Whether the reclaim task is running and has not been asked to end.
    pub(crate) fn are_looked_for(&self) -> bool {
        !self.has_ended.get() && !self.ends.get()
    }

    /// The reclaim task has ended.
    pub(crate) fn has_ended(&self) {
        self.has_ended.set(true);
        self.moved.notify();
    }

    /// Completes when the reclaim task has ended.
    pub(crate) async fn wait_for_end(&self) {
        while !self.has_ended.get() {
            self.moved.wait().await;
        }
    }

    /// The scan is through.
    pub(crate) fn scan_is_through(&self) {
        self.pass_to(self.geometry.group_count);
        self.moved.notify();
    }

    /// Waits until the scan is through.
    ///
    /// # Errors
    /// As [`Leftovers::wait_until`].
    pub(crate) async fn wait_for_scan(&self, clock: &dyn Clock) -> Result<(), FsError> {
        let end = self.geometry.group_count * self.geometry.inodes_per_group;
        self.wait_until(clock, || self.cursor.get() >= end).await
    }

    /// Files without a name have been repaired, except these.
    pub(crate) fn all_are_named_but(&self, homeless: BTreeSet<u64>) {
        self.are_named.replace(Some(homeless));
        self.is_urgent.set(false); // waiting callers have their result now
        self.moved.notify();
    }

    /// Marks a file as needed by a caller, and waits until it has a name, or is gone.
    ///
    /// # Errors
    /// As [`Leftovers::wait_until`].
    pub(crate) async fn find(&self, clock: &dyn Clock, ino: u64) -> Result<(), FsError> {
        self.of_inode(ino, |fact| fact.is_touched = true);
        self.wait_until(clock, || self.is_found(ino)).await
    }

    /// Waits for a result of the scan, but not for long: a caller holds memory that others need,
    /// and is better off asking again.
    ///
    /// # Errors
    /// [`FsError::Jukebox`] if there is no result yet, or the volume is being stopped;
    /// [`FsError::Io`] if there will be none, since the scan has failed.
    async fn wait_until(&self, clock: &dyn Clock, is_so: impl Fn() -> bool) -> Result<(), FsError> {
        if !self.is_urgent.replace(true) {
            self.moved.notify();
        }
        let search = async {
            while !is_so() && self.are_looked_for() {
                self.moved.wait().await;
            }
        };
        select(pin!(search), pin!(clock.sleep(PATIENCE))).await;
        let has_failed = self.progress.get().state == ReclaimState::Failed;
        match is_so() {
            true => Ok(()),
            false if has_failed => Err(FsError::Io),
            false => Err(FsError::Jukebox),
        }
    }

    /// Whether a caller waits for a result.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent.get()
    }

    /// Whether a name is known to lead to a file.
    pub(crate) fn is_found(&self, ino: u64) -> bool {
        let is_known = || self.of_inode(ino, |fact| fact.is_found || fact.is_begun);
        let is_mended =
            || self.are_named.borrow().as_ref().is_some_and(|homeless| !homeless.contains(&ino));
        ino == ROOT_INODE || self.is_new(ino) || is_known() || is_mended()
    }

    /// A caller reached the file by a name.
    pub(crate) fn note_found(&self, ino: u64) {
        let was_found = self.of_inode(ino, |fact| std::mem::replace(&mut fact.is_found, true));
        if !was_found && self.is_urgent() {
            self.moved.notify();
        }
    }

    /// Whether reclaim was asked to end.
    pub(crate) fn is_to_end(&self) -> bool {
        self.ends.get()
    }

    /// A group is read for the first time: its bits in use become candidates (invariant 1).
    pub(crate) fn take_in_group(&self, group: u64, image: &[u8], is_torn: bool) {
        let geometry = &self.geometry;
        let free = geometry.maps.fragments_in(image);
        let count = geometry.group_size_fragments(group);
        let mut fragments = vec![0; free.len()];
        for (candidates, free) in fragments.iter_mut().zip(free) {
            *candidates = !free;
        }
        bits::clear_range(&mut fragments, count..free.len() as u64 * 8);
        for metadata in geometry.metadata_offsets(group) {
            bits::clear_range(&mut fragments, metadata.start..metadata.end.min(count));
        }
        let mut inodes = geometry.maps.inodes_in(image).to_vec();
        if group == 0 {
            bits::clear_range(&mut inodes, 0..ROOT_INODE);
        }
        let initialised = GroupHeader::of(image).initialized_inodes.get();
        let mut facts = vec![Fact::default(); initialised as usize];
        if let Some(root) = facts.get_mut(ROOT_INODE as usize).filter(|_| group == 0) {
            *root = Fact { excess: -2, names: 1, ..Fact::default() }; // its "." and ".."
        }
        self.note(|progress| progress.total += u64::from(initialised));
        let mut known = OfGroup {
            fragments,
            inodes,
            count: initialised.into(),
            facts,
            found: Vec::new(),
            begun: Vec::new(),
            directories: 0,
            is_torn,
            is_rotten: false,
        };
        if self.progress.get().state == ReclaimState::Failed {
            known.shrink();
        }
        self.memory.add(known.bytes());
        let before = self.groups.borrow_mut()[group as usize].replace(known);
        assert!(before.is_none(), "invariant 1: a group is first read once");
    }

    /// Number of inodes that a group had at the opening.
    pub(crate) fn inode_count(&self, group: u64) -> u64 {
        self.of_group(group, |known| known.count)
    }

    fn of_group<T: Default>(&self, group: u64, look: impl FnOnce(&mut OfGroup) -> T) -> T {
        self.groups.borrow_mut()[group as usize].as_mut().map(look).unwrap_or_default()
    }

    fn of_inode<T: Default>(&self, ino: u64, look: impl FnOnce(&mut Fact) -> T) -> T {
        let index = (ino % self.geometry.inodes_per_group) as usize;
        if ino >= self.geometry.inode_count() {
            return T::default();
        }
        let group = self.geometry.group_of_inode(ino);
        self.of_group(group, |known| known.fact(index, look))
    }

    /// Whether an inode has been scanned, or need not be, since it did not exist at the opening.
    pub(crate) fn has_scanned(&self, ino: u64) -> bool {
        ino < self.cursor.get() || self.is_new(ino) && !is_planted(Bug::UnfollowedNewcomers)
    }

    /// Whether the inode did not exist at the opening: no facts about it are known or needed.
    fn is_new(&self, ino: u64) -> bool {
        let index = ino % self.geometry.inodes_per_group;
        index >= self.inode_count(self.geometry.group_of_inode(ino))
    }

    /// The scan has passed an unused inode.
    pub(crate) fn pass(&self, ino: u64) {
        self.cursor.set(ino + 1);
        self.note(|progress| progress.scanned += 1);
    }

    /// Moves the scan on to a group.
    pub(crate) fn pass_to(&self, group: u64) {
        self.cursor.set(group * self.geometry.inodes_per_group);
    }

    /// The scan has seen the inode of a file, and for a directory its entries: the inode that each
    /// names, and whether that is a directory. The blocks of the file have left the candidates
    /// before.
    pub(crate) fn pass_file(&self, ino: u64, dinode: &Dinode, names: &[(u64, bool)]) {
        let index = ino % self.geometry.inodes_per_group;
        self.of_group(self.geometry.group_of_inode(ino), |known| {
            bits::clear(&mut known.inodes, index);
            known.directories += i32::from(is_directory(dinode));
        });
        self.of_inode(ino, |fact| fact.excess += links(dinode));
        for &(target, is_directory) in names {
            self.count_name(ino, (target, is_directory), 1);
        }
        self.pass(ino);
    }

    /// Takes the fragments of a file out of the candidates. Returns whether the map of their group,
    /// in `image`, has them in use; if not, the group is left alone.
    pub(crate) fn hold(&self, first: u64, count: u64, image: &[u8]) -> bool {
        let group = self.geometry.group_of_fragment(first);
        let first = first - self.geometry.group_base(group);
        let range = first..first + count;
        let is_used = bits::none_set(self.geometry.maps.fragments_in(image), range.clone());
        self.of_group(group, |known| {
            bits::clear_range(&mut known.fragments, range);
            known.is_rotten |= !is_used;
        });
        is_used
    }

    /// Counts one more or one less name in a directory that leads to a file.
    fn count_name(&self, directory: u64, (target, is_directory): (u64, bool), change: i32) {
        let links = if is_directory { 2 } else { 1 }; // with its "."
        self.of_inode(target, |fact| {
            fact.names += change;
            fact.excess -= links * change;
        });
        if is_directory {
            self.of_inode(directory, |fact| fact.excess -= change); // the ".." in there
        }
    }

    /// An item is about to be applied, of a caller's Update or of a repair.
    pub(crate) fn follow(&self, item: &Item, is_repair: bool) {
        let Some((buffer, edit)) = &item.change else { return };
        match (buffer.role(), edit, item.subject) {
            (Role::Group(group), Edit::Bits { map, first, count, value }, _) => {
                self.follow_bits(group, *map, *first as u64..(*first + *count) as u64, *value);
            }
            (Role::Inodes, Edit::Bytes { offset, new }, Subject::Inode { ino }) => {
                let old = buffer.read(|image| *Dinode::at(image, *offset));
                self.follow_inode(ino, &old, Dinode::at(new, 0));
            }
            (_, Edit::Entry { ino, kind, .. }, Subject::Entry { directory, .. })
                if item.intent != Intent::ParentRetargeted =>
            {
                let before = buffer.read(|image| edit.names_before(image));
                let (old, old_kind) = before.unwrap_or_default();
                self.of_inode(old.into(), |fact| {
                    fact.is_dropped |= !is_repair;
                    fact.is_found &= is_repair; // other names of it are not known
                });
                if self.has_scanned(directory) {
                    for ((target, kind), change) in [((old, old_kind), -1), ((*ino, *kind), 1)] {
                        let target = (u64::from(target), kind == kind_bits(FileKind::Directory));
                        if target.0 != 0 {
                            self.count_name(directory, target, change);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// An Update was applied that gave these files names: a name that one of them lost in the same
    /// Update was not the last one that a caller wanted it to have.
    pub(crate) fn follow_named(&self, named: &[u64]) {
        for &ino in named {
            self.of_inode(ino, |fact| (fact.is_dropped, fact.is_found) = (false, true));
        }
        if self.is_urgent() {
            self.moved.notify();
        }
    }

    /// Bits are taken or freed.
    fn follow_bits(&self, group: u64, map: usize, range: Range<u64>, value: bool) {
        let maps = &self.geometry.maps;
        self.of_group(group, |known| {
            let (candidates, given_back) = match map {
                map if map == maps.fragments.start => (&mut known.fragments, value),
                map if map == maps.inodes.start => (&mut known.inodes, !value),
                _ => return,
            };
            if candidates.is_empty() {
                return; // reclaim has failed
            }
            if !given_back {
                debug_assert!(
                    bits::none_set(candidates, range),
                    "invariant 1: no candidate is given out"
                );
            } else if !is_planted(Bug::KeptCandidates) {
                bits::clear_range(candidates, range);
            }
        });
    }

    fn follow_inode(&self, ino: u64, old: &Dinode, new: &Dinode) {
        let is_scanned = self.has_scanned(ino);
        self.of_inode(ino, |fact| {
            fact.is_touched |= old.change_time() != new.change_time() && !new.is_free();
            fact.is_begun = !new.is_free() && (old.is_free() || fact.is_begun);
            if is_scanned && !is_planted(Bug::UnfollowedLinks) {
                fact.excess += links(new) - links(old);
            }
        });
        let change = i32::from(is_directory(new)) - i32::from(is_directory(old));
        if is_scanned {
            let group = self.geometry.group_of_inode(ino);
            self.of_group(group, |known| known.directories += change);
        }
    }

    /// Inodes of a group with excess links or without a name, as seen so far.
    pub(crate) fn suspects(&self, group: u64) -> Vec<u64> {
        let first = group * self.geometry.inodes_per_group;
        self.of_group(group, |known| {
            let facts = known.facts.iter().enumerate();
            let wrong = facts.filter(|(_, fact)| fact.excess != 0);
            wrong.map(|(index, _)| first + index as u64).collect()
        })
    }

    /// Number of excess links of an inode; negative if it has too few.
    pub(crate) fn excess(&self, ino: u64) -> i32 {
        self.of_inode(ino, |fact| fact.excess)
    }

    /// Whether no name leads to the inode.
    pub(crate) fn is_nameless(&self, ino: u64) -> bool {
        self.of_inode(ino, |fact| fact.names <= 0)
    }

    /// Whether a caller has changed the inode since the opening, and has not removed its name.
    pub(crate) fn is_wanted(&self, ino: u64) -> bool {
        self.is_new(ino) || self.of_inode(ino, |fact| fact.is_touched && !fact.is_dropped)
    }

    /// The first run of candidates of a group from fragment `from` on, inside one block: its offset
    /// in the group, and its length.
    pub(crate) fn next_fragments(&self, group: u64, from: u64) -> Option<(u64, u64)> {
        let per_block = self.geometry.fragments_per_block;
        let count = self.geometry.group_size_fragments(group);
        self.of_group(group, |known| {
            let first = next_set(&known.fragments, from, count)?;
            let end = count.min(first - first % per_block + per_block);
            let run = (first..end).take_while(|&bit| bits::is_set(&known.fragments, bit)).count();
            Some((first, run as u64))
        })
    }

    /// The first candidate among the inodes of a group from index `from` on.
    pub(crate) fn next_inode(&self, group: u64, from: u64) -> Option<u64> {
        let count = self.geometry.inodes_per_group;
        self.of_group(group, |known| next_set(&known.inodes, from, count))
    }

    /// Number of directories in a group.
    pub(crate) fn directories(&self, group: u64) -> i32 {
        self.of_group(group, |known| known.directories)
    }

    /// Whether a torn group may be used again now that the scan is through.
    pub(crate) fn may_open(&self, group: u64) -> bool {
        self.of_group(group, |known| known.is_torn && !known.is_rotten)
    }

    /// Whether the map of a group has something as free that a file holds.
    pub(crate) fn is_rotten(&self, group: u64) -> bool {
        self.of_group(group, |known| known.is_rotten)
    }
}

fn set_bit(map: &mut [u8], index: usize, value: bool) {
    let mask = 1 << (index % 8);
    if value {
        map[index / 8] |= mask;
    } else {
        map[index / 8] &= !mask;
    }
}

fn links(dinode: &Dinode) -> i32 {
    if dinode.is_free() { 0 } else { dinode.links.get().into() }
}

fn is_directory(dinode: &Dinode) -> bool {
    dinode.kind() == Some(FileKind::Directory)
}

/// The first set bit from `from` on.
fn next_set(map: &[u8], from: u64, count: u64) -> Option<u64> {
    let mut bit = from;
    while bit < count {
        if bit.is_multiple_of(8) && map[bit as usize / 8] == 0 {
            bit += 8;
            continue;
        }
        if bits::is_set(map, bit) {
            return Some(bit);
        }
        bit += 1;
    }
    None
}
