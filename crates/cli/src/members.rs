//! The members and the spares of a set of disks, and their paths.
//!
//! The settings hold the last known paths, and the label on each disk identifies it. A disk that
//! has moved is searched for in the folders of the other disks. A disk that is no member, or
//! belongs to another set, is skipped and reported.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use block::file::{Access, DiskFile, FileDevice};
use duramen_settings::RaidSettings;
use futures::FutureExt;
use raid::Read;
use raid::assembly::{Refused, Witness};
use raid::label::{Id, Label, Slot, Standing, have_in_sync};

use crate::failure::Failure;
use crate::folder::parent;
use crate::words;

/// Minimum size of a member, in bytes: a smaller file is none.
const LEAST_MEMBER: u64 = 2 << 20;
/// Maximum number of entries read in each folder when disks are missing.
const LOOKED_AT: usize = 4096;
/// Maximum number of disks that are read at once, each by a thread.
const ASKED_AT_ONCE: usize = 64;
/// Time after which a silent disk is reported. After the same time again it is left out.
const PATIENCE: Duration = Duration::from_secs(10);
/// Reason why a future is ready at once.
const AT_ONCE: &str = "a file is read at once";

/// A disk with a label of the set.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) path: PathBuf,
    pub(crate) label: Label,
    /// Whether the settings name its path.
    pub(crate) is_listed: bool,
    /// Whether other data was written over a part of its label, and perhaps over more.
    pub(crate) is_overwritten: bool,
}

impl Member {
    /// A value that increases with every write of the label.
    pub(crate) fn age(&self) -> (u64, u64) {
        (self.label.generation, self.label.number)
    }
}

/// The slots as the latest label describes them.
pub(crate) struct Story {
    generation: u64,
    slots: Vec<Slot>,
}

impl Story {
    /// Takes the slots from the latest label of the members found.
    pub(crate) fn of(found: &[Member]) -> Self {
        let latest = found.iter().max_by_key(|member| member.label.generation);
        let label = latest.map(|member| &member.label);
        Self {
            generation: label.map_or(0, |label| label.generation),
            slots: label.map(|label| label.slots.clone()).unwrap_or_default(),
        }
    }

    /// Whether a disk was found for each slot, and each in-sync slot has a disk with the latest
    /// label.
    fn is_whole(&self, found: &[Member]) -> bool {
        let is_its = |slot: &Slot, one: &Member| {
            let is_late = one.label.generation == self.generation;
            one.label.member() == slot.member && (is_late || slot.standing != Standing::InSync)
        };
        let mut slots = self.slots.iter().filter(|slot| slot.standing != Standing::Empty);
        !self.slots.is_empty() && slots.all(|slot| found.iter().any(|one| is_its(slot, one)))
    }

    /// Whether an in-sync member is missing.
    pub(crate) fn lacks_one(&self, found: &[Member]) -> bool {
        let is_in = |slot: &&Slot| slot.standing == Standing::InSync;
        let is_found = |slot: &Slot| found.iter().any(|one| one.label.member() == slot.member);
        !self.slots.iter().filter(is_in).all(is_found)
    }

    /// Whether a member is in sync.
    pub(crate) fn has_in(&self, member: &Id) -> bool {
        have_in_sync(&self.slots, member)
    }
}

/// Finds the disks of a set: at their last known paths, or else in the folders of the other disks.
/// Disks that are known to be silent are not read, and no disk is waited for indefinitely.
///
/// # Errors
/// [`Failure::Set`] if two disks are the same member, and neither is newer.
pub(crate) fn find_members(
    raid: &RaidSettings,
    witness: Option<&Witness>,
    silent: &BTreeSet<PathBuf>,
    tells: bool,
) -> Result<Vec<Member>, Failure> {
    let mut found: Vec<Member> = Vec::new();
    let mut seen: BTreeSet<_> = silent.iter().map(|path| disk_at(path)).collect();
    let listed = raid.members.iter().filter(|&path| !silent.contains(path));
    for (path, answer) in ask_each(listed, labels_at, PATIENCE) {
        let Some(labels) = answer else {
            seen.insert(disk_at(path)); // another path to this disk would not answer either
            continue;
        };
        match labels {
            Ok(Read { label, is_overwritten, .. })
                if label.set == raid.set && seen.insert(disk_at(path)) =>
            {
                let path = path.clone();
                found.push(Member { path, label, is_listed: true, is_overwritten });
            }
            Ok(read) if read.label.set == raid.set => {} // another path to the same disk
            Ok(_) if tells => {
                words::say(format_args!("{}: it is of another set of disks", path.display()));
            }
            Err(why) if tells => {
                words::say(format_args!("{}: it is no member of the set: {why}", path.display()));
            }
            _ => {}
        }
    }
    let story = Story::of(&found);
    if !story.is_whole(&found) {
        let beside = disks_beside(raid).filter(|path| seen.insert(disk_at(path)));
        let beside: Vec<PathBuf> = beside.collect();
        for (path, answer) in ask_each(beside.iter(), labels_at, PATIENCE) {
            if let Some(Ok(Read { label, is_overwritten, .. })) = answer
                && label.set == raid.set
            {
                let path = path.clone();
                found.push(Member { path, label, is_listed: false, is_overwritten });
            }
        }
    }
    let found = without_twins(found, witness)?;
    let is_moved = |one: &&Member| !one.is_listed && story.has_in(&one.label.member());
    for Member { path, .. } in found.iter().filter(|_| tells).filter(is_moved) {
        words::say(format_args!("a member of the set is now {}", path.display()));
    }
    Ok(found)
}

/// Asks each disk, in a thread of its own: a silent disk delays the result by no more than twice
/// `patience`. Returns the answers in the order of the paths, and `None` for silence.
fn ask_each<'p, T: Send + 'static>(
    paths: impl Iterator<Item = &'p PathBuf>,
    ask: impl Fn(&Path) -> T + Clone + Send + 'static,
    patience: Duration,
) -> Vec<(&'p PathBuf, Option<T>)> {
    let mut answers: Vec<(&PathBuf, Option<T>)> = paths.map(|path| (path, None)).collect();
    for some in answers.chunks_mut(ASKED_AT_ONCE) {
        ask_some(some, &ask, patience);
    }
    answers
}

/// Fills in the answers of some disks.
fn ask_some<T: Send + 'static>(
    answers: &mut [(&PathBuf, Option<T>)],
    ask: &(impl Fn(&Path) -> T + Clone + Send + 'static),
    patience: Duration,
) {
    let (answer, answered) = mpsc::channel();
    for (place, (path, _)) in answers.iter().enumerate() {
        let (path, ask, answer) = ((*path).clone(), ask.clone(), answer.clone());
        // The receiver may be gone when a late answer comes.
        thread::spawn(move || answer.send((place, ask(&path))));
    }
    let mut is_last = false;
    while answers.iter().any(|(_, answer)| answer.is_none()) {
        match answered.recv_timeout(patience) {
            Ok((place, answer)) => answers[place].1 = Some(answer),
            Err(_) => {
                let what = if is_last { "it is left out" } else { "it is waited for" };
                for (path, _) in answers.iter().filter(|(_, answer)| answer.is_none()) {
                    let seconds = patience.as_secs() * (1 + u64::from(is_last));
                    let path = path.display();
                    words::say(format_args!("{path} has not answered for {seconds} s; {what}"));
                }
                if is_last {
                    break;
                }
                is_last = true;
            }
        }
    }
}

/// Keeps the latest of several disks that are the same member; the others are copies. Two equally
/// recent disks are an error unless both are outdated.
fn without_twins(found: Vec<Member>, witness: Option<&Witness>) -> Result<Vec<Member>, Failure> {
    let story = Story::of(&found);
    let is_current = |label: &Label| {
        story.has_in(&label.member()) && !witness.is_some_and(|it| it.is_before(label))
    };
    let mut latest: Vec<Member> = Vec::new();
    for member in found {
        let id = member.label.member();
        match latest.iter_mut().find(|one| one.label.member() == id) {
            None => latest.push(member),
            Some(one) if one.age() == member.age() && is_current(&one.label) => {
                let disks = vec![one.path.clone(), member.path.clone()];
                let source = Refused::Contradiction(0, 1).into();
                return Err(Failure::Set { path: member.path, source, disks });
            }
            Some(one) if one.age() < member.age() => *one = member,
            Some(_) => {}
        }
    }
    Ok(latest)
}

/// Finds the spares of a set: at their last known paths, or else in the folders of the other disks.
/// A silent spare keeps its path. A cut may have left a disk on the list that has become a member:
/// it is no spare.
pub(crate) fn find_spares(
    raid: &RaidSettings,
    silent: &BTreeSet<PathBuf>,
    (members, slots): (&[Member], &[Slot]),
) -> Vec<PathBuf> {
    let mut spares = find_listed_spares(raid, silent);
    spares.retain(|path| !is_in(path, members, slots));
    spares
}

/// Whether the disk at this path is an in-sync member.
pub(crate) fn is_in(path: &Path, members: &[Member], slots: &[Slot]) -> bool {
    let is_its = |one: &Member| real(&one.path) == real(path);
    members.iter().any(|one| is_its(one) && have_in_sync(slots, &one.label.member()))
}

fn find_listed_spares(raid: &RaidSettings, silent: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut seen: BTreeSet<_> = silent.iter().map(|path| disk_at(path)).collect();
    let (mut spares, mut missing) = (raid.spares.clone(), Vec::new());
    let (listed, set) = (raid.spares.iter().filter(|&path| !silent.contains(path)), raid.set);
    for (path, answer) in ask_each(listed, move |path| is_spare(path, &set), PATIENCE) {
        let is_there = seen.insert(disk_at(path)) && answer != Some(false);
        if !is_there {
            missing.extend(spares.iter().position(|spare| spare == path));
        }
    }
    if !missing.is_empty() {
        let beside = disks_beside(raid).filter(|path| seen.insert(disk_at(path)));
        let beside: Vec<PathBuf> = beside.collect();
        let answers = ask_each(beside.iter(), move |path| is_spare(path, &set), PATIENCE);
        for (path, _) in answers.into_iter().filter(|(_, answer)| *answer == Some(true)) {
            if let Some(place) = missing.pop() {
                spares[place] = path.clone();
            }
        }
    }
    spares
}

/// Whether a disk's label says that it is a spare of this set.
pub(crate) fn is_spare(path: &Path, set: &Id) -> bool {
    let Ok(disk) = DiskFile::open(path, Access::Glance) else { return false };
    let found = raid::spare_of(&FileDevice::new(disk)).now_or_never();
    found.expect(AT_ONCE) == Ok(Some(*set))
}

/// Listed paths that hold no disk with a slot of the set, and none that is about to take one.
pub(crate) fn absent(listed: &[PathBuf], members: &[Member], label: &Label) -> Vec<PathBuf> {
    let has_place = |one: &&Member| label.has_place_for(&one.label.member());
    let used: Vec<PathBuf> = members.iter().filter(has_place).map(|one| real(&one.path)).collect();
    listed.iter().filter(|path| !used.contains(&real(path))).cloned().collect()
}

pub(crate) fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Identity of the disk that a path leads to: equal for all paths to one disk. `None` if the path
/// does not exist.
fn disk_at(path: &Path) -> Option<(u64, Option<u64>)> {
    let found = fs::metadata(path).ok()?;
    let is_device = found.file_type().is_block_device();
    Some(if is_device { (found.rdev(), None) } else { (found.dev(), Some(found.ino())) })
}

/// Files and devices that may be members, in all folders of listed disks.
fn disks_beside(raid: &RaidSettings) -> impl Iterator<Item = PathBuf> {
    let listed = raid.members.iter().chain(&raid.spares);
    let folders: BTreeSet<PathBuf> = listed.map(|path| parent(path).to_owned()).collect();
    folders.into_iter().flat_map(|folder| disks_in(&folder))
}

/// Files and devices that may be members, in one folder.
fn disks_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(LOOKED_AT);
    let may_be = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|it| {
            it.file_type().is_block_device() || it.is_file() && it.len() >= LEAST_MEMBER
        })
    };
    entries.map(|entry| entry.path()).filter(may_be).collect()
}

/// Reads the label at a path, and returns the disk if it is this member of the set.
pub(crate) fn find_member(path: &Path, set: &Id, member: &Id) -> Option<Member> {
    let Read { label, is_overwritten, .. } = labels_at(path).ok()?;
    let is_it = label.set == *set && label.member() == *member && !is_overwritten;
    is_it.then(|| Member { path: path.to_owned(), label, is_listed: true, is_overwritten })
}

/// Opens a member of a set for writing. `None` if the path does not lead to it.
pub(crate) fn open_member(path: &Path, set: &Id, member: &Id) -> Option<(Member, DiskFile)> {
    let found = find_member(path, set, member)?;
    Some((found, DiskFile::open(path, Access::ReadWrite).ok()?))
}

/// The label of a disk, of whatever set.
///
/// # Errors
/// The reason why there is none, as a sentence.
pub(crate) fn label_at(path: &Path) -> Result<Label, String> {
    labels_at(path).map(|read| read.label)
}

/// The label of a disk, and whether it was overwritten in part.
///
/// # Errors
/// As for [`label_at`].
pub(crate) fn labels_at(path: &Path) -> Result<Read, String> {
    let disk = DiskFile::open(path, Access::Glance).map_err(|error| error.to_string())?;
    let label = raid::labels_of(&FileDevice::new(disk)).now_or_never();
    label.expect(AT_ONCE).map_err(|error| match error {
        raid::OpenError::NoMember(_, bad) => bad.to_string(),
        raid::OpenError::Disk(_, error) => error.to_string(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_does_not_answer_is_left_out_and_the_others_are_heard() {
        let (held, door) = mpsc::channel::<()>();
        let door = std::sync::Arc::new(std::sync::Mutex::new(door));
        let ask = move |path: &Path| {
            if path.ends_with("silent") {
                let _ = door.lock().expect("nobody panics").recv();
            }
            path.to_owned()
        };
        let paths = ["a", "silent", "b"].map(PathBuf::from);
        let heard = ask_each(paths.iter(), ask, Duration::from_millis(50));
        let expected =
            paths.iter().map(|path| (path, (!path.ends_with("silent")).then(|| path.clone())));
        assert_eq!(heard, expected.collect::<Vec<_>>());
        drop(held);
    }
}
