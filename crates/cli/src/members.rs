//! The members of a set of disks: where they are.
//!
//! The settings say where they were last, and each label says what it is. A member that is not
//! where it was is looked for in the folders where the others were. What is no member, or of
//! another set, is passed over, and told of.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use block::file::{Access, DiskFile, FileDevice};
use duramen_settings::RaidSettings;
use raid::label::{Id, Label, Slot, Standing, have_in_sync};

use crate::folder::parent;
use crate::words;

/// The least that a member can have, in bytes: a smaller file is none.
const LEAST_MEMBER: u64 = 2 << 20;
/// So many entries of a folder are looked at when members are missing.
const LOOKED_AT: usize = 4096;

/// A disk with a label of the set.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) path: PathBuf,
    pub(crate) label: Label,
    /// Whether the settings name its path.
    pub(crate) is_listed: bool,
}

/// What the latest label says of each slot.
pub(crate) struct Story(Vec<Slot>);

impl Story {
    /// That of the members that were found.
    pub(crate) fn of(found: &[Member]) -> Self {
        let latest = found.iter().max_by_key(|member| member.label.generation);
        Self(latest.map(|member| member.label.slots.clone()).unwrap_or_default())
    }

    /// Those that are up to date.
    fn members(&self) -> impl Iterator<Item = Id> {
        let is_in = |slot: &&Slot| slot.standing == Standing::InSync;
        self.0.iter().filter(is_in).map(|slot| slot.member)
    }

    /// Whether this one is.
    pub(crate) fn has_in(&self, member: &Id) -> bool {
        have_in_sync(&self.0, member)
    }
}

/// The members of a set that there are: where they were last, or else beside the others.
pub(crate) async fn find_members(raid: &RaidSettings, tells: bool) -> Vec<Member> {
    let mut found: Vec<Member> = Vec::new();
    let mut seen = BTreeSet::new();
    for path in &raid.members {
        match label_at(path).await {
            Ok(label) if label.set == raid.set && seen.insert(real(path)) => {
                found.push(Member { path: path.clone(), label, is_listed: true });
            }
            Ok(label) if label.set == raid.set => {} // the same disk once more
            Ok(_) if tells => {
                words::say(format_args!("{}: it is of another set of disks", path.display()));
            }
            Err(why) if tells => {
                words::say(format_args!("{}: it is no member of the set: {why}", path.display()));
            }
            _ => {}
        }
    }
    let known =
        |found: &[Member]| found.iter().map(|it| it.label.member()).collect::<BTreeSet<Id>>();
    let story = Story::of(&found);
    if story.members().next().is_some() && story.members().all(|it| known(&found).contains(&it)) {
        return found;
    }
    let folders: BTreeSet<PathBuf> = raid.members.iter().map(|it| parent(it).to_owned()).collect();
    for path in folders.iter().flat_map(|folder| disks_in(folder)) {
        if !seen.insert(real(&path)) {
            continue;
        }
        if let Ok(label) = label_at(&path).await
            && label.set == raid.set
            && !known(&found).contains(&label.member())
        {
            if tells && story.has_in(&label.member()) {
                words::say(format_args!("a member of the set is now {}", path.display()));
            }
            found.push(Member { path, label, is_listed: false });
        }
    }
    found
}

pub(crate) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Files and devices of a folder that may be members.
fn disks_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(LOOKED_AT);
    let may_be = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|it| {
            it.file_type().is_block_device() || it.is_file() && it.len() >= LEAST_MEMBER
        })
    };
    entries.map(|entry| entry.path()).filter(may_be).collect()
}

/// The label that stands on a disk, whoever has it.
async fn label_at(path: &Path) -> Result<Label, String> {
    let disk = DiskFile::open(path, Access::Glance).map_err(|error| error.to_string())?;
    let label = raid::label_of(&FileDevice::new(disk)).await;
    label.map_err(|error| match error {
        raid::OpenError::NoMember(_, bad) => bad.to_string(),
        raid::OpenError::Disk(_, error) => error.to_string(),
        other => other.to_string(),
    })
}
