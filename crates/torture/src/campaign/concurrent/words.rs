//! Calls and answers in few words: what the model understands, and hand-made histories are written
//! in. [`wire`](super::wire) translates what was on the wire.

use std::fmt;

use nfs3_types::nfs3::nfsstat3;

/// Data is written and read in pieces of one sector, each of one byte many times: so no cut tears
/// what the model holds for one.
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
    /// Whether or not it is there; one that is there is made empty if so asked.
    Unchecked {
        /// Whether it is.
        empty: bool,
    },
    /// Only if it is not there.
    Guarded,
    /// Only if it is not there, or has this verifier.
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
        /// To what.
        file: File,
        /// From where on.
        at: usize,
        /// How much.
        count: usize,
        /// What every byte is.
        value: u8,
        /// Whether it has to be on stable storage before the answer.
        stable: bool,
    },
    /// COMMIT of everything.
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
    /// Whether it is a write that has to be on stable storage.
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

    /// Whether it must not be executed twice, so that an answer may survive a cut: all that changes
    /// something but WRITE, which writes the same once more.
    pub fn is_remembered(&self) -> bool {
        self.changes() && !matches!(self, Op::Write { .. })
    }
}

/// What is told of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its inode.
    pub inode: u64,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Link count.
    pub links: u32,
    /// Bytes.
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

/// An answer. What a procedure does not tell is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its status.
    pub status: nfsstat3,
    /// The file that was found or made,
    pub object: Option<File>,
    /// and its attributes.
    pub attributes: Option<Attributes>,
    /// Attributes of the files of the arguments, in their order.
    pub about: [Option<Attributes>; 2],
    /// The size of the first of them before a change.
    pub size_before: Option<u64>,
    /// Data that was read.
    pub data: Option<Vec<u8>>,
    /// Names that were listed, with the inode and, where it is told, the file.
    pub names: Option<Vec<(String, u64, Option<File>)>>,
    /// Bytes that were written.
    pub written: Option<u64>,
    /// Whether they are on stable storage.
    pub is_stable: bool,
    /// The write verifier.
    pub verifier: Option<[u8; 8]>,
}

impl Told {
    /// A status and nothing else.
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
