//! What of an Update the disk shows when it has happened.

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
    /// Inode that it names from then on; 0 for none.
    pub after: u64,
}

/// An inode as an Update leaves it, but for its access time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeEvidence {
    /// Its number.
    pub ino: u64,
    /// Which file of that number.
    pub generation: u32,
    /// Kind and permissions, as the disk has them.
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

/// What the disk shows of an Update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Entries, but for '.' and '..'.
    pub names: Vec<NameEvidence>,
    /// Without any, the inode that it changes.
    pub inode: Option<InodeEvidence>,
    /// Inodes that it changes.
    pub touched: Vec<u64>,
    /// Directories that end with it.
    pub ended: Vec<u64>,
}

impl InodeEvidence {
    /// What `dinode` is.
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
    /// An entry of a buffer has changed: where it begins, and what it named before.
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

    /// These inodes are so from now on.
    pub(crate) fn see_inodes<'a>(&mut self, inodes: impl Iterator<Item = (u64, &'a Dinode)>) {
        for (ino, dinode) in inodes {
            self.touched.push(ino);
            if self.names.is_empty() && self.inode.is_none() {
                self.inode = Some(InodeEvidence::of(ino, dinode));
            }
        }
    }

    /// Directories begin (1) or end (-1).
    pub(crate) fn see_ended(&mut self, directories: &[(u64, i64)]) {
        let ended = directories.iter().filter(|(_, change)| *change < 0);
        self.ended.extend(ended.map(|(ino, _)| ino));
    }
}
