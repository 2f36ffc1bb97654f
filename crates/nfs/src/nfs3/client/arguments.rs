//! Encoding of arguments.

use crate::nfs3::FileKind;
use crate::nfs3::arguments::{
    AccessArgs, Arguments, CommitArgs, CreateArgs, CreateHow, DirectoryName, FsinfoArgs,
    FsstatArgs, GetattrArgs, LinkArgs, LookupArgs, MkdirArgs, MknodArgs, MknodWhat, PathconfArgs,
    ReadArgs, ReaddirArgs, ReaddirplusArgs, ReadlinkArgs, RemoveArgs, RenameArgs, RmdirArgs,
    SetattrArgs, SymlinkArgs, WriteArgs,
};
use crate::xdr::{Encode, Encoder};

/// Types whose fields are written one after the other: each by a method of the encoder.
macro_rules! fields {
    ($($arguments:ty: $($method:ident $field:ident),+;)+) => {$(
        impl Encode for $arguments {
            fn encode(&self, to: &mut Encoder) {
                $(fields!(@$method self, to, $field);)+
            }
        }
    )+};
    (@opaque $of:ident, $to:ident, $field:ident) => { $to.opaque($of.$field) };
    (@number $of:ident, $to:ident, $field:ident) => { $to.u32($of.$field) };
    (@long $of:ident, $to:ident, $field:ident) => { $to.u64($of.$field) };
    (@value $of:ident, $to:ident, $field:ident) => { $to.value(&$of.$field) };
}

fields! {
    DirectoryName<'_>: opaque directory, opaque name;
    GetattrArgs<'_>: opaque object;
    SetattrArgs<'_>: opaque object, value attributes, value guard;
    LookupArgs<'_>: value what;
    AccessArgs<'_>: opaque object, number access;
    ReadlinkArgs<'_>: opaque symlink;
    ReadArgs<'_>: opaque file, long offset, number count;
    CommitArgs<'_>: opaque file, long offset, number count;
    CreateArgs<'_>: value location, value how;
    MkdirArgs<'_>: value location, value attributes;
    SymlinkArgs<'_>: value location, value attributes, opaque target;
    MknodArgs<'_>: value location, value what;
    RemoveArgs<'_>: value object;
    RmdirArgs<'_>: value object;
    RenameArgs<'_>: value from, value to;
    LinkArgs<'_>: opaque file, value link;
    ReaddirArgs<'_>: opaque directory, long cookie, value cookie_verifier, number count;
    ReaddirplusArgs<'_>:
        opaque directory, long cookie, value cookie_verifier, number dircount, number maxcount;
    FsstatArgs<'_>: opaque root;
    FsinfoArgs<'_>: opaque root;
    PathconfArgs<'_>: opaque object;
}

impl Encode for WriteArgs<'_> {
    fn encode(&self, to: &mut Encoder) {
        to.opaque(self.file);
        to.u64(self.offset);
        to.u32(self.count);
        to.value(&self.stable);
        to.payload(&self.data);
    }
}

impl Encode for CreateHow {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Unchecked(attributes) => {
                to.u32(0);
                to.value(attributes);
            }
            Self::Guarded(attributes) => {
                to.u32(1);
                to.value(attributes);
            }
            Self::Exclusive(verifier) => {
                to.u32(2);
                to.value(verifier);
            }
        }
    }
}

impl Encode for MknodWhat {
    fn encode(&self, to: &mut Encoder) {
        let device = |to: &mut Encoder, kind: FileKind, attributes, device| {
            to.u32(kind as u32);
            Encode::encode(attributes, to);
            Encode::encode(device, to);
        };
        match self {
            Self::CharacterDevice(attributes, number) => {
                device(to, FileKind::CharacterDevice, attributes, number);
            }
            Self::BlockDevice(attributes, number) => {
                device(to, FileKind::BlockDevice, attributes, number);
            }
            Self::Socket(attributes) => {
                to.u32(FileKind::Socket as u32);
                to.value(attributes);
            }
            Self::Fifo(attributes) => {
                to.u32(FileKind::Fifo as u32);
                to.value(attributes);
            }
            Self::Other(kind) => to.u32(*kind as u32),
        }
    }
}

impl Encode for Arguments<'_> {
    fn encode(&self, to: &mut Encoder) {
        match self {
            Self::Null => {}
            Self::Getattr(arguments) => to.value(arguments),
            Self::Setattr(arguments) => to.value(arguments),
            Self::Lookup(arguments) => to.value(arguments),
            Self::Access(arguments) => to.value(arguments),
            Self::Readlink(arguments) => to.value(arguments),
            Self::Read(arguments) => to.value(arguments),
            Self::Write(arguments) => to.value(arguments),
            Self::Create(arguments) => to.value(arguments),
            Self::Mkdir(arguments) => to.value(arguments),
            Self::Symlink(arguments) => to.value(arguments),
            Self::Mknod(arguments) => to.value(arguments),
            Self::Remove(arguments) => to.value(arguments),
            Self::Rmdir(arguments) => to.value(arguments),
            Self::Rename(arguments) => to.value(arguments),
            Self::Link(arguments) => to.value(arguments),
            Self::Readdir(arguments) => to.value(arguments),
            Self::Readdirplus(arguments) => to.value(arguments),
            Self::Fsstat(arguments) => to.value(arguments),
            Self::Fsinfo(arguments) => to.value(arguments),
            Self::Pathconf(arguments) => to.value(arguments),
            Self::Commit(arguments) => to.value(arguments),
        }
    }
}
