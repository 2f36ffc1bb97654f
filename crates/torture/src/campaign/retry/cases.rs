//! The repeated calls: every procedure that must not be executed twice, with arguments for each of
//! its effects, and the allowed answers to a repetition.

use bytes::Bytes;
use nfs3_types::nfs3::{
    CREATE3args, Nfs3Option, SETATTR3args, createhow3, nfs_fh3, nfsstat3, nfstime3, sattr3,
    stable_how,
};

use crate::calls;
use crate::protocol::{Procedure, Target, packed};

/// The directories and files before every call. A path that ends with a slash is a directory; the
/// number is the length of a file.
pub const BEFORE: &[(&str, usize)] =
    &[("file", 3_000), ("other", 700), ("from/", 0), ("from/file", 900), ("to/", 0), ("to/e/", 0)];

/// A second name of an existing file.
pub const SECOND: (&str, &str) = ("other", "second");

/// Handles of the files before every call.
pub struct Handles {
    /// The root.
    pub root: nfs_fh3,
    /// The file `file`,
    pub file: nfs_fh3,
    /// The change time of `file`.
    pub file_ctime: nfstime3,
    /// The directory `from`.
    pub from: nfs_fh3,
    /// The directory `to`.
    pub to: nfs_fh3,
}

/// A call, and the answer to its repetition by a server that has forgotten it.
pub struct Case {
    /// A name for the report.
    pub name: &'static str,
    /// Program, version and procedure.
    pub target: Target,
    /// Its arguments.
    pub arguments: Bytes,
    /// The answer to the first call.
    pub first: nfsstat3,
    /// The answer to a repetition after the call was carried out: `docs/durability.md`, "A retry
    /// across a crash".
    pub again: nfsstat3,
    /// Partial effects that a cut may leave.
    pub parts: Parts,
    /// The file that it makes and returns the handle of.
    pub makes: Option<&'static str>,
    /// Another client's call in between that gives the repetition something to do.
    pub undo: Undo,
}

/// Partial effects of a call that a cut may leave, besides none and all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Nothing.
    None,
    /// The file has its old name beside the new one.
    BothNames(&'static str, &'static str),
    /// The directory has not moved, and the empty one at its new name is gone.
    WithoutTarget(&'static str),
    /// Each sector has old or new bytes.
    Sectors(&'static str),
}

/// A call of another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// No call of interest.
    Nothing,
    /// Removes this name.
    Remove(&'static str),
    /// Removes this directory.
    Rmdir(&'static str),
    /// Makes this file again.
    Create(&'static str),
    /// Makes this directory again.
    Mkdir(&'static str),
    /// Sets `file` to this length.
    Resize(u64),
}

fn case<P: Procedure>(name: &'static str, arguments: &P, again: nfsstat3) -> Case {
    Case {
        name,
        target: P::TARGET,
        arguments: packed(arguments),
        first: nfsstat3::NFS3_OK,
        again,
        parts: Parts::None,
        makes: None,
        undo: Undo::Nothing,
    }
}

impl Case {
    fn parts(self, parts: Parts) -> Self {
        Self { parts, ..self }
    }

    fn makes(self, path: &'static str) -> Self {
        Self { makes: Some(path), ..self }
    }

    fn undo(self, undo: Undo) -> Self {
        Self { undo, ..self }
    }

    /// A case that fails the first time as well.
    fn fails(self) -> Self {
        Self { first: self.again, ..self }
    }
}

fn mode(mode: u32) -> sattr3 {
    sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() }
}

/// All of them.
pub fn cases(at: &Handles) -> Vec<Case> {
    let mut cases = setattrs(at);
    cases.extend(makers(at));
    cases.extend(takers(at));
    cases.extend(renames(at));
    cases
}

/// SETATTR and WRITE: they set a state, and set it again.
fn setattrs(at: &Handles) -> Vec<Case> {
    let (ok, file) = (nfsstat3::NFS3_OK, &at.file);
    let guard = Nfs3Option::Some(at.file_ctime);
    let guarded = SETATTR3args { guard, ..calls::setattr(file, mode(0o600)) };
    let longer = calls::setattr(file, calls::size(9_000));
    let write = calls::write(file, 600, vec![9; 1_500], stable_how::FILE_SYNC);
    let append = calls::write(file, 3_000, vec![9; 6_000], stable_how::DATA_SYNC);
    vec![
        case("SETATTR of a mode", &calls::setattr(file, mode(0o640)), ok).undo(Undo::Resize(1)),
        case("SETATTR of a shorter size", &calls::setattr(file, calls::size(600)), ok)
            .undo(Undo::Resize(2_000)),
        case("SETATTR of a longer size", &longer, ok).undo(Undo::Resize(10)),
        case("SETATTR with a guard", &guarded, nfsstat3::NFS3ERR_NOT_SYNC).undo(Undo::Resize(10)),
        case("WRITE over old data", &write, ok).parts(Parts::Sectors("file")).undo(Undo::Resize(0)),
        case("WRITE at the end", &append, ok).parts(Parts::Sectors("file")).undo(Undo::Resize(0)),
    ]
}

/// Calls that make a name.
fn makers(at: &Handles) -> Vec<Case> {
    let (ok, exists) = (nfsstat3::NFS3_OK, nfsstat3::NFS3ERR_EXIST);
    let (root, to) = (&at.root, &at.to);
    let unchecked = |name, size| {
        let how = createhow3::UNCHECKED(sattr3 { size, ..mode(0o644) });
        CREATE3args { where_: calls::place(root, name), how }
    };
    let empty = Nfs3Option::Some(0);
    vec![
        case("CREATE UNCHECKED", &unchecked("new", Nfs3Option::None), ok)
            .makes("new")
            .undo(Undo::Remove("new")),
        case("CREATE UNCHECKED of what is there", &unchecked("file", empty), ok)
            .undo(Undo::Resize(2_000)),
        case("CREATE GUARDED", &calls::create(root, "new"), exists)
            .makes("new")
            .undo(Undo::Remove("new")),
        case("CREATE GUARDED of what is there", &calls::create(root, "file"), exists)
            .fails()
            .undo(Undo::Remove("file")),
        case("CREATE EXCLUSIVE", &calls::create_exclusive(to, "new", *b"verifier"), ok)
            .makes("to/new")
            .undo(Undo::Remove("to/new")),
        case("MKDIR", &calls::mkdir(root, "new"), exists).makes("new").undo(Undo::Rmdir("new")),
        case("MKDIR below", &calls::mkdir(to, "new"), exists)
            .makes("to/new")
            .undo(Undo::Rmdir("to/new")),
        case("SYMLINK", &calls::symlink(root, "new", "target"), exists)
            .makes("new")
            .undo(Undo::Remove("new")),
        case("SYMLINK of a long target", &calls::symlink(to, "new", &"t".repeat(300)), exists)
            .makes("to/new")
            .undo(Undo::Remove("to/new")),
        case("MKNOD", &calls::mkfifo(root, "new"), exists).makes("new").undo(Undo::Remove("new")),
        case("LINK", &calls::link(&at.file, root, "new"), exists).undo(Undo::Remove("new")),
        case("LINK in another directory", &calls::link(&at.file, to, "new"), exists)
            .undo(Undo::Remove("to/new")),
    ]
}

/// Calls that remove a name.
fn takers(at: &Handles) -> Vec<Case> {
    let none = nfsstat3::NFS3ERR_NOENT;
    let root = &at.root;
    vec![
        case("REMOVE", &calls::remove(root, "file"), none).undo(Undo::Create("file")),
        case("REMOVE of one of two names", &calls::remove(root, "second"), none)
            .undo(Undo::Create("second")),
        case("REMOVE of what is not there", &calls::remove(root, "new"), none)
            .fails()
            .undo(Undo::Create("new")),
        case("RMDIR", &calls::rmdir(&at.to, "e"), none).undo(Undo::Mkdir("to/e")),
        case("RMDIR of what is full", &calls::rmdir(root, "to"), nfsstat3::NFS3ERR_NOTEMPTY)
            .fails()
            .undo(Undo::Rmdir("to/e")),
    ]
}

fn renames(at: &Handles) -> Vec<Case> {
    let none = nfsstat3::NFS3ERR_NOENT;
    let (root, from, to) = (&at.root, &at.from, &at.to);
    vec![
        case("RENAME", &calls::rename((root, "file"), (root, "new")), none)
            .parts(Parts::BothNames("file", "new"))
            .undo(Undo::Create("file")),
        case("RENAME over a file", &calls::rename((root, "file"), (root, "other")), none)
            .parts(Parts::BothNames("file", "other"))
            .undo(Undo::Create("file")),
        case("RENAME to another directory", &calls::rename((from, "file"), (to, "new")), none)
            .parts(Parts::BothNames("from/file", "to/new"))
            .undo(Undo::Create("from/file")),
        case("RENAME over one there", &calls::rename((from, "file"), (root, "file")), none)
            .parts(Parts::BothNames("from/file", "file"))
            .undo(Undo::Create("from/file")),
        case("RENAME of a directory", &calls::rename((root, "to"), (root, "new")), none)
            .undo(Undo::Mkdir("to")),
        case("RENAME of a directory to another", &calls::rename((root, "to"), (from, "to")), none)
            .undo(Undo::Mkdir("to")),
        case("RENAME over a directory", &calls::rename((root, "from"), (to, "e")), none)
            .parts(Parts::WithoutTarget("to/e"))
            .undo(Undo::Mkdir("from")),
        case(
            "RENAME between two names of one file",
            &calls::rename((root, "other"), (root, "second")),
            nfsstat3::NFS3_OK,
        )
        .undo(Undo::Remove("second")),
    ]
}
