//! Findings of a check: the broken invariant, the place, the severity, and the repair.

use std::collections::BTreeMap;
use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Legal, or harmless: nothing is lost, and other systems accept it.
    Note,
    /// Wrong, and the right value follows from the rest of the disk.
    Repairable,
    /// Something is lost, or belongs to nothing that can be found: a repair discards it, and lists
    /// it.
    Loss,
}

impl Severity {
    /// A word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Repairable => "repairable",
            Self::Loss => "loss",
        }
    }
}

/// Defines the invariants: variant, short name, whether a power cut may leave it broken under
/// policy `sync`, and the rule.
macro_rules! invariants {
    ($($variant:ident, $name:literal, $cut:literal, $rule:literal;)+) => {
        /// Properties of a sound UFS2 disk. Each has a check of its own: without it, some damage
        /// would pass unseen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $(#[doc = $rule] $variant,)+
        }

        impl Invariant {
            /// All of them, in the order of the disk's structures.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// A short name for people and programs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The rule, as a sentence.
            pub fn rule(self) -> &'static str {
                match self { $(Self::$variant => $rule,)+ }
            }

            /// Whether a power cut may leave it broken on a disk of policy `sync`. All else is
            /// damage.
            pub fn may_be_cut(self) -> bool {
                match self { $(Self::$variant => $cut,)+ }
            }
        }
    };
}

invariants! {
    Readable, "disk.readable", false,
        "Every sector that holds what the file system says of itself can be read.";
    SuperblockFields, "sb.fields", false,
        "The superblock at byte 65536 describes a file system, the one that is on the disk.";
    SuperblockHash, "sb.hash", true,
        "The superblock fits its check hash.";
    SuperblockDerived, "sb.derived", false,
        "Fields of the superblock that follow from others, or are zero on a disk, are so.";
    SuperblockSpare, "sb.spare", false,
        "Bytes of the superblock that mean nothing are zero.";
    Flags, "sb.flags", false,
        "The superblock's flags are known, and do not contradict each other.";
    State, "sb.state", true,
        "The volume was stopped cleanly, and nothing waits to be freed.";
    LogHome, "sb.log", false,
        "What was acknowledged stands on the volume, and in no log that is not here.";
    Totals, "sb.totals", true,
        "The totals of the superblock are the sums over all groups.";
    Snapshots, "sb.snapshots", false,
        "The superblock lists the snapshot files, and no other file bears their flag.";
    Recovery, "sb.recovery", false,
        "The recovery record in front of the superblock, where there is one, describes it.";
    Backup, "sb.backup", false,
        "Every group has a copy of the superblock that could take its place.";
    GroupHeader, "cg.header", false,
        "The fixed fields of a group's header follow from the superblock.";
    GroupHints, "cg.hints", false,
        "A group's rotors point into the group.";
    GroupInitialized, "cg.initialized", false,
        "A group initialises whole blocks of inodes, and no file lies behind them.";
    GroupCounts, "cg.counts", true,
        "The counts of a group's header are those of its maps.";
    GroupRuns, "cg.runs", true,
        "A group's header counts the runs of free fragments of each length.";
    GroupUnreferenced, "cg.unreferenced", true,
        "No group counts inodes without a name once nobody has them open.";
    GroupHash, "cg.hash", true,
        "A group block fits its check hash.";
    InodeMap, "cg.inode-map", true,
        "A group's inode map has exactly the inodes used that are files.";
    FragmentMap, "cg.fragment-map", true,
        "A group's fragment map has exactly the fragments free that nobody holds.";
    ClusterMap, "cg.cluster-map", true,
        "A group's cluster map has exactly the blocks free whose fragments are.";
    ClusterSums, "cg.cluster-sums", true,
        "A group's cluster sums count the runs of free blocks of each length.";
    GroupTail, "cg.tail", false,
        "Between and behind the maps of a group lie zeros.";
    SummaryRow, "summary.row", true,
        "The summary area holds a copy of the counts of every group.";
    FreeInode, "inode.free", false,
        "A free inode has no size and no pointers; inodes 0 and 1 are free.";
    InodeHash, "inode.hash", false,
        "An inode fits its check hash.";
    InodeType, "inode.type", false,
        "An inode has a type that files can have.";
    InodeWhole, "inode.whole", false,
        "What counts as an inode makes sense as one.";
    InodeTimes, "inode.times", false,
        "The nanoseconds of a time are below one second.";
    InodeSpare, "inode.spare", false,
        "The spare bytes of an inode are zero.";
    InodeSize, "inode.size", false,
        "A file has a size that its type can have and its pointers can reach.";
    InodePointers, "inode.pointers", false,
        "A pointer of an inode names data fragments of this disk, inside one block.";
    IndirectPointers, "inode.indirect", false,
        "A pointer in an indirect block names a data block of this disk.";
    Duplicate, "inode.duplicate", false,
        "No fragment belongs to two files, or to a file twice.";
    PointersBehindEnd, "inode.behind-end", true,
        "Behind the end of a file there are no blocks.";
    LastBlock, "inode.last-block", false,
        "A file that reaches behind its direct blocks ends in a block, not in a hole.";
    SymlinkTarget, "inode.symlink", false,
        "A symbolic link has its whole target, without NUL bytes, and zeros behind it.";
    Device, "inode.device", false,
        "A special file holds no pointers, its size is zero, and a device has a number.";
    Attributes, "inode.attributes", false,
        "Extended attributes have their blocks, and are whole records in them, all that there are.";
    BlockCount, "inode.blocks", true,
        "An inode counts the sectors that its file holds.";
    LinkCount, "inode.links", true,
        "The link count of a file is the number of its names.";
    Root, "tree.root", false,
        "Inode 2 is a directory, and no name but its own dots points at it.";
    DirectoryHole, "dir.hole", false,
        "A directory has no holes.";
    Chunk, "dir.chunk", false,
        "The entries of a directory chunk fill it exactly, and none crosses its end.";
    EntryName, "dir.name", false,
        "A name has 1 to 255 bytes, no '/' and no NUL among them, and a NUL behind.";
    Dots, "dir.dots", false,
        "A directory starts with '.', which names itself, and '..', and has neither again.";
    DotDot, "dir.parent", true,
        "'..' names the directory that holds the directory's name.";
    DuplicateName, "dir.duplicate", false,
        "No name stands twice in a directory.";
    EntryTarget, "dir.target", false,
        "An entry names an inode that is a file.";
    EntryType, "dir.type", false,
        "An entry bears the type of the file that it names.";
    SecondName, "tree.second-name", true,
        "A directory has one name.";
    Cycle, "tree.cycle", false,
        "From every directory the way up ends at the root.";
    Unreachable, "tree.unreachable", true,
        "Every file has a name in a directory that hangs from the root.";
    Data, "data.readable", false,
        "Every block of a file can be read.";
    Depth, "tree.depth", true,
        "A directory that notes its depth notes the right one.";
}

/// The place of a finding. Parts that are unknown, or make no sense, are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The group.
    pub group: Option<u64>,
    /// The inode.
    pub ino: Option<u64>,
    /// The block of the file.
    pub block: Option<u64>,
    /// The fragment of the disk.
    pub fragment: Option<u64>,
    /// The byte within the structure: a directory, an inode or a superblock; the byte of the disk,
    /// where that cannot be read.
    pub offset: Option<u64>,
    /// The field, by FreeBSD's name, or the name of an entry.
    pub name: Option<String>,
}

impl Place {
    /// In the superblock.
    pub(super) fn field(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::default() }
    }

    /// In a group.
    pub(super) fn group(group: u64) -> Self {
        Self { group: Some(group), ..Self::default() }
    }

    /// At an inode.
    pub(super) fn inode(ino: u64) -> Self {
        Self { ino: Some(ino), ..Self::default() }
    }

    pub(super) fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    pub(super) fn block(self, lbn: u64) -> Self {
        Self { block: Some(lbn), ..self }
    }

    pub(super) fn fragment(self, fragment: u64) -> Self {
        Self { fragment: Some(fragment), ..self }
    }

    pub(super) fn offset(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            ("group", self.group),
            ("inode", self.ino),
            ("block", self.block),
            ("fragment", self.fragment),
            ("byte", self.offset),
        ];
        let mut space = "";
        for (what, number) in numbers {
            if let Some(number) = number {
                write!(f, "{space}{what} {number}")?;
                space = " ";
            }
        }
        match &self.name {
            Some(name) => write!(f, "{space}{name}"),
            None => Ok(()),
        }
    }
}

/// One violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The broken invariant.
    pub invariant: Invariant,
    /// Its severity.
    pub severity: Severity,
    /// Its place.
    pub place: Place,
    /// A path to the file at the end of the check, after repairs, where one is known.
    pub path: Option<String>,
    /// The value that was found.
    pub found: String,
    /// The value that should be there.
    pub expected: String,
    /// The repair; none when nothing can be done.
    pub repair: Option<&'static str>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity.name(), self.invariant.name(), self.place)?;
        if let Some(path) = &self.path {
            write!(f, " ({path})")?;
        }
        write!(f, ": found {}, expected {}", self.found, self.expected)
    }
}

/// Findings that are kept one by one, besides all losses; the others are only counted.
pub const FINDINGS_KEPT: usize = 100_000;

/// All findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first [`FINDINGS_KEPT`] and every loss, in the order in which they were found.
    pub list: Vec<Finding>,
    /// Number of findings of each invariant.
    pub counts: BTreeMap<Invariant, u64>,
    /// The worst severity.
    pub worst: Option<Severity>,
    /// A finding has no repair.
    pub unrepairable: bool,
    /// A finding is one that no power cut leaves.
    pub damaged: bool,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding) {
        *self.counts.entry(finding.invariant).or_default() += 1;
        self.worst = self.worst.max(Some(finding.severity));
        self.unrepairable |= finding.repair.is_none() && finding.severity > Severity::Note;
        self.damaged |= !finding.invariant.may_be_cut() && finding.severity > Severity::Note;
        if self.list.len() < FINDINGS_KEPT || finding.severity == Severity::Loss {
            self.list.push(finding);
        }
    }

    /// Number of findings of an invariant.
    pub fn count(&self, invariant: Invariant) -> u64 {
        self.counts.get(&invariant).copied().unwrap_or(0)
    }

    /// Number of all findings, including those that are not kept.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_invariant_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Invariant::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), Invariant::ALL.len());
        assert!(Invariant::ALL.iter().all(|one| one.rule().ends_with('.')));
    }

    #[test]
    fn a_finding_reads_as_a_sentence() {
        let finding = Finding {
            invariant: Invariant::LinkCount,
            severity: Severity::Repairable,
            place: Place::inode(7),
            path: Some("/a".into()),
            found: "3".into(),
            expected: "1".into(),
            repair: Some("set"),
        };
        let text = finding.to_string();
        assert_eq!(text, "repairable: inode.links: inode 7 (/a): found 3, expected 1");
    }
}
