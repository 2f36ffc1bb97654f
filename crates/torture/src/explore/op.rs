//! The operations of explored workloads, and the list of them.
//!
//! The list follows ACE, the generator of CrashMonkey (OSDI 2018): a few files in two directories,
//! and every operation of the protocol on every name for which its effect differs. This one is for
//! NFS: three ways to create, four kinds of stability, no fsync but COMMIT. If a volume may have
//! snapshots, one is made and one deleted besides.

use std::fmt;
use std::str::FromStr;

use super::design::Design;

/// How a file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whether or not it exists.
    Unchecked,
    /// Only if it does not exist.
    Guarded,
    /// Only if it does not exist, or was made by this very call.
    Exclusive,
}

/// The range that a WRITE covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// From the end of the file.
    Append,
    /// Around the middle of the file, with ends inside sectors.
    Overlap,
    /// Behind the end of the file, with a hole between.
    Extend,
}

/// The moment by which a WRITE must be on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stable {
    /// Any time.
    Unstable,
    /// At the COMMIT that follows.
    Commit,
    /// The data, at once.
    DataSync,
    /// Everything, at once.
    FileSync,
}

/// One operation. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// CREATE.
    Create(&'static str, Mode),
    /// MKDIR.
    Mkdir(&'static str),
    /// RMDIR.
    Rmdir(&'static str),
    /// WRITE, and COMMIT.
    Write(&'static str, Part, Stable),
    /// SETATTR of a size.
    Resize(&'static str, u64),
    /// SETATTR of a mode.
    Chmod(&'static str, u16),
    /// LINK of a file to a name.
    Link(&'static str, &'static str),
    /// SYMLINK with a target of this many bytes.
    Symlink(&'static str, usize),
    /// RENAME.
    Rename(&'static str, &'static str),
    /// REMOVE.
    Remove(&'static str),
    /// A snapshot with this name is made.
    Pin(&'static str),
    /// A snapshot is deleted.
    Unpin(&'static str),
    /// The volume is rolled back to a snapshot.
    RollBack(&'static str),
}

impl Op {
    /// The last name of the first path.
    pub fn last_name(&self) -> &'static str {
        let path = match *self {
            Op::Create(path, _)
            | Op::Mkdir(path)
            | Op::Rmdir(path)
            | Op::Write(path, ..)
            | Op::Resize(path, _)
            | Op::Chmod(path, _)
            | Op::Link(path, _)
            | Op::Symlink(path, _)
            | Op::Rename(path, _)
            | Op::Remove(path)
            | Op::Pin(path)
            | Op::Unpin(path)
            | Op::RollBack(path) => path,
        };
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }

    /// Whether it concerns snapshots, and is no client's call.
    pub fn is_of_snapshots(&self) -> bool {
        matches!(self, Self::Pin(_) | Self::Unpin(_) | Self::RollBack(_))
    }
}

/// As [`Op::from_str`] reads it.
impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path, mode) => write!(f, "create {path} {}", word(mode)),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Write(path, part, stable) => {
                write!(f, "write {path} {} {}", word(part), word(stable))
            }
            Self::Resize(path, size) => write!(f, "resize {path} {size}"),
            Self::Chmod(path, mode) => write!(f, "chmod {path} {mode:o}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Symlink(path, length) => write!(f, "symlink {path} {length}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Remove(path) => write!(f, "remove {path}"),
            Self::Pin(name) => write!(f, "pin {name}"),
            Self::Unpin(name) => write!(f, "unpin {name}"),
            Self::RollBack(name) => write!(f, "roll-back {name}"),
        }
    }
}

/// The name of a variant, as a word.
fn word(variant: &impl fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

/// The value in a list with this name.
fn of_word<T: Copy + fmt::Debug>(list: &[T], text: &str) -> Option<T> {
    list.iter().copied().find(|one| word(one) == text)
}

/// All paths of workloads.
const PATHS: &[&str] =
    &["foo", "bar", "A", "B", "A/foo", "A/bar", "A/C", "B/foo", "B/bar", "A/C/foo", "B/C"];
/// All names of snapshots.
const SNAPSHOTS: &[&str] = &[HELD, NEW];
const MODES: &[Mode] = &[Mode::Unchecked, Mode::Guarded, Mode::Exclusive];
const PARTS: &[Part] = &[Part::Append, Part::Overlap, Part::Extend];
const STABLES: &[Stable] = &[Stable::Unstable, Stable::Commit, Stable::DataSync, Stable::FileSync];

impl FromStr for Op {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let path = |text: &str| PATHS.iter().copied().find(|path| *path == text);
        let snapshot = |text: &str| SNAPSHOTS.iter().copied().find(|name| *name == text);
        let op = || {
            Some(match *words {
                ["create", at, mode] => Self::Create(path(at)?, of_word(MODES, mode)?),
                ["mkdir", at] => Self::Mkdir(path(at)?),
                ["rmdir", at] => Self::Rmdir(path(at)?),
                ["write", at, part, stable] => {
                    Self::Write(path(at)?, of_word(PARTS, part)?, of_word(STABLES, stable)?)
                }
                ["resize", at, size] => Self::Resize(path(at)?, size.parse().ok()?),
                ["chmod", at, mode] => Self::Chmod(path(at)?, u16::from_str_radix(mode, 8).ok()?),
                ["link", from, to] => Self::Link(path(from)?, path(to)?),
                ["symlink", at, length] => Self::Symlink(path(at)?, length.parse().ok()?),
                ["rename", from, to] => Self::Rename(path(from)?, path(to)?),
                ["remove", at] => Self::Remove(path(at)?),
                ["pin", name] => Self::Pin(snapshot(name)?),
                ["unpin", name] => Self::Unpin(snapshot(name)?),
                ["roll-back", name] => Self::RollBack(snapshot(name)?),
                _ => return None,
            })
        };
        op().ok_or(())
    }
}

/// The files before every workload: directories end with a slash; of files, the size in bytes.
pub const BEFORE: &[(&str, usize)] = &[("A/", 0), ("B/", 0), ("foo", 6000), ("A/foo", 20_000)];

/// The snapshot of all these files, on a volume that may have snapshots,
pub const HELD: &str = "old";
/// and the snapshot that workloads make;
pub const NEW: &str = "new";
/// a file with other bytes in the first,
pub const REWRITTEN: &str = "foo";
/// and these bytes: no operation writes them, nor are they anywhere else.
pub fn held_bytes(size: usize) -> Vec<u8> {
    payload(14, size)
}

/// The operations of which workloads are made.
pub fn operations(design: Design) -> Vec<Op> {
    let mut list = of_clients();
    if design.has_snapshots() {
        list.extend([Op::Pin(NEW), Op::Unpin(HELD)]);
    }
    list
}

fn of_clients() -> Vec<Op> {
    let mut list = Vec::new();
    for path in ["bar", "A/bar"] {
        for &mode in MODES {
            list.push(Op::Create(path, mode));
        }
    }
    list.extend([Op::Mkdir("A/C"), Op::Rmdir("B")]);
    for path in ["foo", "A/foo"] {
        for &part in PARTS {
            for &stable in STABLES {
                list.push(Op::Write(path, part, stable));
            }
        }
    }
    list.extend([("foo", 0), ("foo", 3000), ("A/foo", 60_000), ("A/foo", 700)].map(resize));
    list.extend([Op::Chmod("foo", 0o600), Op::Chmod("A", 0o700)]);
    for (from, to) in [
        ("foo", "bar"),
        ("foo", "A/bar"),
        ("foo", "B/foo"),
        ("foo", "A/foo"),
        ("A/foo", "bar"),
        ("A/foo", "A/bar"),
    ] {
        list.push(Op::Link(from, to));
    }
    for path in ["bar", "A/bar", "B/bar"] {
        list.extend([Op::Symlink(path, 20), Op::Symlink(path, 200)]);
    }
    for (from, to) in [
        ("foo", "bar"),
        ("foo", "A/bar"),
        ("foo", "A/foo"),
        ("A/foo", "A/bar"),
        ("A/foo", "bar"),
        ("A/foo", "foo"),
        ("A", "B"),
    ] {
        list.push(Op::Rename(from, to));
    }
    list.extend(["foo", "A/foo", "bar", "A/bar"].map(Op::Remove));
    list
}

fn resize((path, size): (&'static str, u64)) -> Op {
    Op::Resize(path, size)
}

/// The bytes that operation `number` of a workload writes: no other operation writes such a byte,
/// and none is zero.
pub fn payload(number: usize, length: usize) -> Vec<u8> {
    let first = 1 + (number as u8 % 15) * 16;
    (0..length).map(|index| first + (index / 512 % 16) as u8).collect()
}

/// Offset and length of a write to a file of `size` bytes.
pub fn extent(part: Part, size: u64) -> (u64, usize) {
    match part {
        Part::Append => (size, 3000),
        Part::Overlap => ((size / 2).saturating_sub(700), 1400),
        Part::Extend => (size + 5000, 2000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_the_protocol_asks_for() {
        assert_eq!(operations(Design::SYNC).len(), 61);
        let list = operations(Design::RAM);
        assert_eq!(list.len(), 63);
        for (index, one) in list.iter().enumerate() {
            assert!(!list[..index].contains(one), "{one} stands there twice");
        }
    }

    #[test]
    fn no_two_operations_write_the_same_bytes() {
        let (one, two) = (payload(0, 9000), payload(1, 9000));
        assert!(one.iter().all(|byte| !two.contains(byte) && *byte != 0));
    }
}
