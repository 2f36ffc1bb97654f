//! Bugs that are planted in the server, so that a campaign can show that it finds them.
//!
//! Each is in the crate whose rule it breaks, behind the feature `planted-bugs`, and is planted in
//! one thread.

use std::fmt;
use std::str::FromStr;

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A bug of the engine for UFS2.
    Ffs(ffs::planted::Bug),
    /// A bug of the engine over memory.
    Ram(ram::planted::Bug),
    /// A bug of what engines that never overwrite have in common.
    Cow(cow::planted::Bug),
    /// A bug of the engine that never overwrites.
    Shadow(shadow::planted::Bug),
    /// A bug of the engine whose disk is a log.
    Lfs(lfs::planted::Bug),
    /// A bug of files in memory.
    Vnode(vnode::planted::Bug),
    /// A bug of the engines' memory.
    Cache(cache::planted::Bug),
    /// A bug of the checker.
    Fsck(fsck::planted::Bug),
    /// A bug of the namespace.
    Namespace(namespace::planted::Bug),
    /// A bug of the dispatcher.
    Dispatch(dispatch::planted::Bug),
    /// A bug of the door.
    Door(door::planted::Bug),
    /// A bug of sets of disks.
    Raid(raid::planted::Bug),
    /// A bug of an NVRAM.
    Nvram(nvram::planted::Bug),
    /// A bug of the log.
    Journal(journal::Bug),
}

/// All bugs except those of the devices below file systems (sets of disks, NVRAMs and the log),
/// those of engine `lfs`, which its own tests find, and those of the door, which is in front of
/// everything else.
pub fn all() -> Vec<Bug> {
    let ffs = ffs::planted::Bug::ALL.iter().copied().map(Bug::Ffs);
    let ram = ram::planted::Bug::ALL.iter().copied().map(Bug::Ram);
    let cow = cow::planted::Bug::ALL.iter().copied().map(Bug::Cow);
    let shadow = shadow::planted::Bug::ALL.iter().copied().map(Bug::Shadow);
    let vnode = vnode::planted::Bug::ALL.iter().copied().map(Bug::Vnode);
    let cache = cache::planted::Bug::ALL.iter().copied().map(Bug::Cache);
    let fsck = fsck::planted::Bug::ALL.iter().copied().map(Bug::Fsck);
    let namespace = namespace::planted::Bug::ALL.iter().copied().map(Bug::Namespace);
    let dispatch = dispatch::planted::Bug::ALL.iter().copied().map(Bug::Dispatch);
    let engines = ffs.chain(ram).chain(cow).chain(shadow);
    engines.chain(vnode).chain(cache).chain(fsck).chain(namespace).chain(dispatch).collect()
}

/// Bugs of sets of disks, of an NVRAM, of engine `lfs`, of the log, and of the door.
fn of_others() -> impl Iterator<Item = Bug> {
    let of_sets = raid::planted::Bug::ALL.iter().copied().map(Bug::Raid);
    let of_sets = of_sets.chain(nvram::planted::Bug::ALL.iter().copied().map(Bug::Nvram));
    let of_sets = of_sets.chain(lfs::planted::Bug::ALL.iter().copied().map(Bug::Lfs));
    let of_log = journal::Bug::ALL.iter().copied().map(Bug::Journal);
    of_sets.chain(of_log).chain(door::planted::Bug::ALL.iter().copied().map(Bug::Door))
}

/// Plants a bug in this thread, replacing any other.
pub fn plant(bug: Option<Bug>) {
    ffs::planted::plant(None);
    ram::planted::plant(None);
    cow::planted::plant(None);
    shadow::planted::plant(None);
    lfs::planted::plant(None);
    vnode::planted::plant(None);
    cache::planted::plant(None);
    fsck::planted::plant(None);
    namespace::planted::plant(None);
    dispatch::planted::plant(None);
    door::planted::plant(None);
    raid::planted::plant(None);
    nvram::planted::plant(None);
    journal::plant(None);
    match bug {
        None => {}
        Some(Bug::Ffs(bug)) => ffs::planted::plant(Some(bug)),
        Some(Bug::Ram(bug)) => ram::planted::plant(Some(bug)),
        Some(Bug::Cow(bug)) => cow::planted::plant(Some(bug)),
        Some(Bug::Shadow(bug)) => shadow::planted::plant(Some(bug)),
        Some(Bug::Lfs(bug)) => lfs::planted::plant(Some(bug)),
        Some(Bug::Vnode(bug)) => vnode::planted::plant(Some(bug)),
        Some(Bug::Cache(bug)) => cache::planted::plant(Some(bug)),
        Some(Bug::Fsck(bug)) => fsck::planted::plant(Some(bug)),
        Some(Bug::Namespace(bug)) => namespace::planted::plant(Some(bug)),
        Some(Bug::Dispatch(bug)) => dispatch::planted::plant(Some(bug)),
        Some(Bug::Door(bug)) => door::planted::plant(Some(bug)),
        Some(Bug::Raid(bug)) => raid::planted::plant(Some(bug)),
        Some(Bug::Nvram(bug)) => nvram::planted::plant(Some(bug)),
        Some(Bug::Journal(bug)) => journal::plant(Some(bug)),
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ffs(bug) => write!(f, "{bug:?}"),
            Self::Ram(bug) => write!(f, "{bug:?}"),
            Self::Cow(bug) => write!(f, "{bug:?}"),
            Self::Shadow(bug) => write!(f, "{bug:?}"),
            Self::Vnode(bug) => write!(f, "{bug:?}"),
            Self::Cache(bug) => write!(f, "{bug:?}"),
            Self::Fsck(bug) => write!(f, "{bug:?}"),
            Self::Namespace(bug) => write!(f, "{bug:?}"),
            Self::Dispatch(bug) => write!(f, "{bug:?}"),
            Self::Door(bug) => write!(f, "door/{bug:?}"),
            Self::Raid(bug) => write!(f, "raid/{bug:?}"),
            Self::Lfs(bug) => write!(f, "lfs/{bug:?}"),
            Self::Nvram(bug) => write!(f, "nvram/{bug:?}"),
            Self::Journal(bug) => write!(f, "journal/{bug:?}"),
        }
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = all().into_iter().chain(of_others()).find(|bug| bug.to_string() == name);
        found.ok_or_else(|| format!("'{name}' is no planted bug"))
    }
}
