//! `duramen ls` and `duramen cat`: read a volume without serving it.
//!
//! The volume is opened read-only and nothing on it changes, not even access times. Names are
//! looked up as the superuser. Symbolic links are followed inside the volume: an absolute target
//! starts at its root.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use block::BlockDevice;
use block::file::{Access, FileDevice};
use clap::Args;
use runtime::Runtime;
use vfs::{
    Answer, Attributes, Credentials, DirectoryEntry, FileKind, FileSystem, FsError, Name, ObjectId,
    PostOp, Sealed,
};

use crate::calendar::show_time;
use crate::engine::open_volume;
use crate::failure::Failure;
use crate::shown::show_name;
use crate::volume::Volume;

/// The arguments of `duramen ls`.
#[derive(Args, Debug)]
pub(crate) struct LsArguments {
    /// Volume: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// File or directory to list
    #[arg(default_value = "/")]
    pub(crate) path: String,
    /// Show type, permissions, links, owner, group, size, modification time (UTC) and link target
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Include '.' and '..'
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// The arguments of `duramen cat`.
#[derive(Args, Debug)]
pub(crate) struct CatArguments {
    /// Volume: see 'duramen --help'
    pub(crate) volume: PathBuf,
    /// File to print
    pub(crate) path: String,
}

/// Maximum number of symbolic links on a path.
const MAX_SYMLINKS: u32 = 40;
/// Size of one read, in bytes.
const READ_SIZE: u32 = 1 << 20;
/// Size of the cache, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// Lists a directory or one file.
///
/// # Errors
/// [`Failure`] if the volume or the path cannot be read.
pub(crate) async fn list(
    arguments: &LsArguments,
    output: &mut dyn Write,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let browser = Browser::open(&arguments.volume, runtime).await?;
    let failed = |source| in_volume(&arguments.path, source);
    let id = browser.find(&arguments.path).await.map_err(failed)?;
    let attributes = browser.attributes(id).await.map_err(failed)?;
    let mut lines = if attributes.kind == FileKind::Directory {
        browser.entries(id, arguments.long).await.map_err(failed)?
    } else {
        let name = arguments.path.clone().into_bytes();
        vec![Line { name, id, attributes: Some(attributes) }]
    };
    lines.retain(|line| arguments.all || !matches!(&line.name[..], b"." | b".."));
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    for line in lines {
        let shown = if arguments.long {
            browser.show(&line).await.map_err(failed)?
        } else {
            show_name(&line.name)
        };
        writeln!(output, "{shown}")?;
    }
    Ok(())
}

/// Writes a file to standard output.
///
/// # Errors
/// [`Failure`] if the volume or the file cannot be read.
pub(crate) async fn concatenate(
    arguments: &CatArguments,
    output: &mut dyn Write,
    runtime: &Runtime,
) -> Result<(), Failure> {
    let browser = Browser::open(&arguments.volume, runtime).await?;
    let failed = |source| in_volume(&arguments.path, source);
    let id = browser.find(&arguments.path).await.map_err(failed)?;
    match browser.attributes(id).await.map_err(failed)?.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(failed(FsError::IsDirectory)),
        _ => return Err(failed(FsError::BadType)),
    }
    let mut offset = 0;
    loop {
        let read = browser.file_system.read(&browser.who, id, offset, READ_SIZE).await;
        let read = open(read).await.map_err(failed)?;
        for piece in &read.data {
            output.write_all(piece)?;
            offset += piece.len() as u64;
        }
        if read.eof {
            return Ok(());
        }
    }
}

fn in_volume(path: &str, source: FsError) -> Failure {
    Failure::InVolume { path: path.to_owned(), source }
}

/// Opens a sealed answer: what it depends on is on stable storage, or the volume has failed.
async fn open<T, W>(sealed: Sealed<Answer<T, W>>) -> Result<T, FsError> {
    sealed.open().await?.into_inner().result
}

/// A file system opened for browsing.
struct Browser {
    file_system: Rc<dyn FileSystem>,
    who: Credentials,
}

impl Browser {
    async fn open(volume: &Path, runtime: &Runtime) -> Result<Self, Failure> {
        let volume = Volume::find(volume)?;
        let device = |disk| -> Rc<dyn BlockDevice> { Rc::new(FileDevice::new(disk)) };
        let opened = open_volume(&volume, Access::ReadOnly, device, CACHE_BYTES, runtime).await?;
        Ok(Self { file_system: opened.file_system, who: Credentials::root() })
    }

    async fn attributes(&self, id: ObjectId) -> Result<Attributes, FsError> {
        self.file_system.getattr(id).await.open().await?.into_inner()
    }

    async fn target(&self, id: ObjectId) -> Result<Vec<u8>, FsError> {
        Ok(open(self.file_system.readlink(&self.who, id).await).await?.to_vec())
    }

    /// Finds the file at a path.
    async fn find(&self, path: &str) -> Result<ObjectId, FsError> {
        // Names yet to be looked up, the next one last.
        let mut names: Vec<Vec<u8>> = components(path.as_bytes());
        let mut links = 0;
        let mut at = self.file_system.root();
        while let Some(name) = names.pop() {
            let parsed = Name::parse(&name)?;
            let found = open(self.file_system.lookup(&self.who, at, &parsed).await).await?;
            if found.attributes.kind != FileKind::Symlink {
                at = found.id;
                continue;
            }
            links += 1;
            if links > MAX_SYMLINKS {
                return Err(FsError::TooManyLinks);
            }
            let target = self.target(found.id).await?;
            if target.starts_with(b"/") {
                at = self.file_system.root();
            }
            names.extend(components(&target));
        }
        Ok(at)
    }

    /// Reads the entries of a directory, with attributes on request.
    async fn entries(&self, id: ObjectId, attributes: bool) -> Result<Vec<Line>, FsError> {
        let mut accept_all = |_: &DirectoryEntry| true;
        let (mut lines, mut cookie) = (Vec::new(), 0);
        loop {
            let sealed =
                self.file_system.readdir(&self.who, id, cookie, attributes, &mut accept_all).await;
            let part = open(sealed).await?;
            let done = part.eof || part.entries.is_empty();
            for DirectoryEntry { id, name, cookie: after, attributes } in part.entries {
                lines.push(Line { name: name.to_vec(), id, attributes });
                cookie = after;
            }
            if done {
                return Ok(lines);
            }
        }
    }

    /// Formats a line of `ls -l`.
    async fn show(&self, line: &Line) -> Result<String, FsError> {
        let name = show_name(&line.name);
        // An unreadable file does not hide the others.
        let Some(attributes) = line.attributes else { return Ok(format!("?????????? {name}")) };
        let Attributes { nlink, uid, gid, .. } = attributes;
        let size = match attributes.kind {
            FileKind::BlockDevice | FileKind::CharacterDevice => {
                format!("{}, {}", attributes.device.major, attributes.device.minor)
            }
            _ => attributes.size.to_string(),
        };
        let arrow = match attributes.kind {
            FileKind::Symlink => format!(" -> {}", show_name(&self.target(line.id).await?)),
            _ => String::new(),
        };
        let mode = show_mode(attributes.kind, attributes.mode);
        let time = show_time(attributes.mtime.seconds);
        Ok(format!("{mode} {nlink:>3} {uid:>5} {gid:>5} {size:>11} {time} {name}{arrow}"))
    }
}

/// One listed file. Without attributes its generation number is unknown.
struct Line {
    name: Vec<u8>,
    id: ObjectId,
    attributes: PostOp,
}

/// The components of a path, the first one last.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    names.rev().map(<[u8]>::to_vec).collect()
}

/// Kind and permissions as `ls -l` shows them.
fn show_mode(kind: FileKind, mode: u16) -> String {
    let mut shown = String::new();
    shown.push(match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::BlockDevice => 'b',
        FileKind::CharacterDevice => 'c',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    });
    for (shift, special, letters) in [(6, 0o4000, "sS"), (3, 0o2000, "sS"), (0, 0o1000, "tT")] {
        let bits = mode >> shift;
        shown.push(if bits & 4 != 0 { 'r' } else { '-' });
        shown.push(if bits & 2 != 0 { 'w' } else { '-' });
        let (both, alone) = letters.split_at(1);
        shown.push_str(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => both,
            (true, false) => alone,
            (false, true) => "x",
            (false, false) => "-",
        });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_ls_shows_them() {
        for (kind, mode, shown) in [
            (FileKind::Regular, 0o644, "-rw-r--r--"),
            (FileKind::Directory, 0o1777, "drwxrwxrwt"),
            (FileKind::Regular, 0o4755, "-rwsr-xr-x"),
            (FileKind::Regular, 0o6640, "-rwSr-S---"),
            (FileKind::Socket, 0o1000, "s--------T"),
        ] {
            assert_eq!(show_mode(kind, mode), shown);
        }
    }

    #[test]
    fn paths_fall_into_names() {
        assert_eq!(components(b"//a/b//"), [b"b".to_vec(), b"a".to_vec()]);
        assert!(components(b"/").is_empty());
    }
}
