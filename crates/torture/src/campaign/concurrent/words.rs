//! Compact calls and answers: the terms of the model and of hand-made histories.
//! [`wire`](super::wire) translates from the wire.

use std::fmt;

use nfs3_types::nfs3::nfsstat3;

/// Data is written and read in pieces of one sector, each one byte repeated: so no cut tears a cell
/// of the model.
pub const CELL: u64 = 512;

/// A file as a handle names it: inode number and generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File(pub u64, pub u32);

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{:04x}", self.0, self.1 & 0xffff)
    }
}

/// A name in a directory.
pub type Place = (File, String);

/// How a file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// Whether or not it exists; an existing one is emptied if `empty` says so.
    Unchecked {
        /// Whether to empty an existing file.
        empty: bool,
    },
    /// Only if it does not exist.
    Guarded,
    /// Only if it does not exist, or has this verifier.
    Exclusive(u64),
}

/// A call. Sizes and offsets are in cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// GETATTR.
    Getattr(File),
    /// ACCESS.
    Access(File),
    /// LOOKUP.
    Lookup(Place),
    /// READ from the start, of more than any file holds.
    Read(File),
    /// READDIR or READDIRPLUS from the start.
    List(File),
    /// SETATTR of a size.
    Resize(File, usize),
    /// SETATTR of a mode.
    Chmod(File, u32),
    /// WRITE.
    Write {
        /// The file.
        file: File,
        /// The first cell.
        at: usize,
        /// The number of cells.
        count: usize,
        /// The value of every byte.
        value: u8,
        /// Whether the data must be on stable storage before the answer.
        stable: bool,
    },
    /// COMMIT of the whole file.
    Commit(File),
    /// CREATE.
    Create(Place, How, u32),
    /// MKDIR.
    Mkdir(Place, u32),
    /// SYMLINK.
    Symlink(Place),
    /// MKNOD of a pipe.
    Mkfifo(Place, u32),
    /// REMOVE.
    Remove(Place),
    /// RMDIR.
    Rmdir(Place),
    /// RENAME.
    Rename(Place, Place),
    /// LINK.
    Link(File, Place),
}

impl Op {
    /// Whether it is a WRITE that must be on stable storage.
    pub fn asks_stable(&self) -> bool {
        matches!(self, Op::Write { stable: true, .. })
    }

    /// Whether it may change what a later call sees.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Op::Getattr(_)
                | Op::Access(_)
                | Op::Lookup(_)
                | Op::Read(_)
                | Op::List(_)
                | Op::Commit(_)
        )
    }

    /// Whether it must not be executed twice, so that its answer may survive a cut: all changes but
    /// WRITE, which a repetition writes once more with the same result.
    pub fn is_remembered(&self) -> bool {
        self.changes() && !matches!(self, Op::Write { .. })
    }
}

/// Attributes in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode number.
    pub inode: u64,
    /// The kind of file.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Link count.
    pub links: u32,
    /// Size in bytes.
    pub size: u64,
}

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    Regular,
    /// A symbolic link.
    Symlink,
    /// A pipe.
    Fifo,
}

/// An answer. Fields that a procedure does not return are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The status.
    pub status: nfsstat3,
    /// The file that was found or made.
    pub object: Option<File>,
    /// The attributes of `object`.
    pub attributes: Option<Attributes>,
    /// Attributes of the files of the arguments, in their order.
    pub about: [Option<Attributes>; 2],
    /// The size of the first of them before a change.
    pub size_before: Option<u64>,
    /// Data that was read.
    pub data: Option<Vec<u8>>,
    /// Listed names, with the inode and, if the answer has it, the file.
    pub names: Option<Vec<(String, u64, Option<File>)>>,
    /// Bytes that were written.
    pub written: Option<u64>,
    /// Whether they are on stable storage.
    pub is_stable: bool,
    /// The write verifier.
    pub verifier: Option<[u8; 8]>,
}

impl Told {
    /// An answer with this status and nothing else.
    pub fn bare(status: nfsstat3) -> Self {
        Self {
            status,
            object: None,
            attributes: None,
            about: [None, None],
            size_before: None,
            data: None,
            names: None,
            written: None,
            is_stable: false,
            verifier: None,
        }
    }

    /// Success, and nothing else.
    pub fn ok() -> Self {
        Self::bare(nfsstat3::NFS3_OK)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(object) = self.object {
            write!(f, " {object:?}")?;
        }
        for one in self.attributes.iter().chain(self.about.iter().flatten()) {
            let Attributes { inode, kind, mode, links, size } = one;
            write!(f, " [#{inode} {kind:?} {mode:o} links {links} size {size}]")?;
        }
        if let Some(before) = self.size_before {
            write!(f, " before {before}")?;
        }
        if let Some(data) = &self.data {
            let cells: Vec<u8> = data.iter().copied().step_by(CELL as usize).collect();
            write!(f, " {} bytes {cells:?}", data.len())?;
        }
        if let Some(names) = &self.names {
            let names: Vec<&str> = names.iter().map(|(name, ..)| name.as_str()).collect();
            write!(f, " {names:?}")?;
        }
        match self.verifier {
            Some([a, b, ..]) if self.is_stable => write!(f, " stable, boot {a:02x}{b:02x}"),
            Some([a, b, ..]) => write!(f, " boot {a:02x}{b:02x}"),
            None => Ok(()),
        }
    }
}
