//! Replaces the handles in arguments, to make the same call to another server.

use crate::nfs3::arguments::{Arguments, DirectoryName};

impl<'a> Arguments<'a> {
    /// Replaces every handle by another.
    pub fn replace_handles(&mut self, mut other: impl FnMut(&'a [u8]) -> &'a [u8]) {
        let mut one = |handle: &mut &'a [u8]| *handle = other(handle);
        let mut of_name = |name: &mut DirectoryName<'a>| one(&mut name.directory);
        match self {
            Self::Null => {}
            Self::Lookup(arguments) => of_name(&mut arguments.what),
            Self::Create(arguments) => of_name(&mut arguments.location),
            Self::Mkdir(arguments) => of_name(&mut arguments.location),
            Self::Symlink(arguments) => of_name(&mut arguments.location),
            Self::Mknod(arguments) => of_name(&mut arguments.location),
            Self::Remove(arguments) => of_name(&mut arguments.object),
            Self::Rmdir(arguments) => of_name(&mut arguments.object),
            Self::Rename(arguments) => {
                of_name(&mut arguments.from);
                of_name(&mut arguments.to);
            }
            Self::Link(arguments) => {
                of_name(&mut arguments.link);
                one(&mut arguments.file);
            }
            Self::Getattr(arguments) => one(&mut arguments.object),
            Self::Setattr(arguments) => one(&mut arguments.object),
            Self::Access(arguments) => one(&mut arguments.object),
            Self::Readlink(arguments) => one(&mut arguments.symlink),
            Self::Read(arguments) => one(&mut arguments.file),
            Self::Write(arguments) => one(&mut arguments.file),
            Self::Readdir(arguments) => one(&mut arguments.directory),
            Self::Readdirplus(arguments) => one(&mut arguments.directory),
            Self::Fsstat(arguments) => one(&mut arguments.root),
            Self::Fsinfo(arguments) => one(&mut arguments.root),
            Self::Pathconf(arguments) => one(&mut arguments.object),
            Self::Commit(arguments) => one(&mut arguments.file),
        }
    }
}
