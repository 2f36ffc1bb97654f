//! The traces of an Update on the disk when it has happened.

use std::rc::Rc;

use directory::entry::{ENTRY_HEADER_SIZE, EntryHeader};
use ufs2::layout::Dinode;
use vfs::Timestamp;

use crate::buffer::Buffer;
use crate::item::Subject;

/// An entry of a directory that an Update changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEvidence {
    /// Inode of the directory.
    pub directory: u64,
    /// The name.
    pub name: Box<[u8]>,
    /// Inode that it named before; 0 for none.
    pub before: u64,
    /// Inode that it names afterwards; 0 for none.
    pub after: u64,
}

/// An inode as an Update leaves it, without its access time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeEvidence {
    /// Inode number.
    pub ino: u64,
    /// Generation of the file.
    pub generation: u32,
    /// Kind and permissions, in the format of the disk.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
}

/// The traces of an Update on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Entries, except '.' and '..'.
    pub names: Vec<NameEvidence>,
    /// If there are no names, the inode that it changes.
    pub inode: Option<InodeEvidence>,
    /// Inodes that it changes.
    pub touched: Vec<u64>,
    /// Directories that end with it.
    pub ended: Vec<u64>,
}

impl InodeEvidence {
    /// Evidence from `dinode`.
    pub(crate) fn of(ino: u64, dinode: &Dinode) -> Self {
        Self {
            ino,
            generation: dinode.generation.get(),
            mode: dinode.mode.get(),
            uid: dinode.uid.get(),
            gid: dinode.gid.get(),
            size: dinode.size.get(),
            mtime: dinode.modify_time(),
            ctime: dinode.change_time(),
        }
    }
}

impl Evidence {
    /// Adds a changed entry of a buffer: its offset, and the inode that it named before.
    pub(crate) fn see_entry(
        &mut self,
        subject: Subject,
        entry: Option<(usize, u64)>,
        buffer: &Rc<Buffer>,
    ) {
        let (Subject::Entry { directory, target }, Some((at, before))) = (subject, entry) else {
            return;
        };
        let name = buffer.read(|image| {
            let length = usize::from(EntryHeader::at(image, at).name_length);
            image.get(at + ENTRY_HEADER_SIZE..).and_then(|name| name.get(..length)).map(Box::from)
        });
        let name: Box<[u8]> = name.unwrap_or_default(); // names are checked before they are changed
        if *name != *b"." && *name != *b".." {
            let after = target.unwrap_or(0);
            self.names.push(NameEvidence { directory, name, before, after });
        }
    }

    /// Adds the inodes as the Update leaves them.
    pub(crate) fn see_inodes<'a>(&mut self, inodes: impl Iterator<Item = (u64, &'a Dinode)>) {
        for (ino, dinode) in inodes {
            self.touched.push(ino);
            if self.names.is_empty() && self.inode.is_none() {
                self.inode = Some(InodeEvidence::of(ino, dinode));
            }
        }
    }

    /// Adds the directories that end, of those that begin (1) or end (-1).
    pub(crate) fn see_ended(&mut self, directories: &[(u64, i64)]) {
        let ended = directories.iter().filter(|(_, change)| *change < 0);
        self.ended.extend(ended.map(|(ino, _)| ino));
    }
}
