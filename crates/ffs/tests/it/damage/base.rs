//! The disks to be damaged, and the known state of their files.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use ffs::OpenOptions;
use namespace::Namespace;
use ufs2::layout::Geometry;
use ufs2::mkfs::MkfsOptions;
use vfs::{
    Attributes, Device, FileKind, FileSystem, FsError, ObjectId, Requester, SetAttributes,
    Stability,
};

use super::map::{Map, Owner};
use crate::common::edit::geometry_of;
use crate::common::volume::{Volume, fresh, name, open_with_log};
use crate::common::{MemoryDisk, World, freebsd_disk};

/// Known state of one file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) attributes: Attributes,
    pub(crate) paths: Vec<String>,
    /// For a regular file: the content of its blocks.
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
    /// Target of a symbolic link.
    pub(crate) target: Option<Bytes>,
    /// For a directory: its names, without dots, and the inodes that they name.
    pub(crate) names: BTreeMap<String, u64>,
}

/// The files of a disk, by inode.
pub(crate) type Files = BTreeMap<u64, Known>;

/// An undamaged, cleanly stopped disk with known files.
pub(crate) struct Base {
    pub(crate) name: &'static str,
    pub(crate) disk: MemoryDisk,
    pub(crate) geometry: Geometry,
    pub(crate) map: Map,
    pub(crate) files: Files,
}

impl Base {
    /// Many small groups, and fragments of one sector.
    pub(crate) fn small_blocks() -> Self {
        let options = MkfsOptions {
            block_size: 4096,
            fragment_size: 512,
            max_group_blocks: Some(256),
            bytes_per_inode: Some(8192),
            ..MkfsOptions::default()
        };
        Self::made("4k", &options, 4 << 20, 520)
    }

    /// The default sizes.
    pub(crate) fn large_blocks() -> Self {
        let options = MkfsOptions {
            max_group_blocks: Some(64),
            bytes_per_inode: Some(16_384),
            volume_name: "large".into(),
            ..MkfsOptions::default()
        };
        Self::made("32k", &options, 6 << 20, 300)
    }

    /// A disk written by FreeBSD, if there is one.
    pub(crate) fn freebsd() -> Option<Self> {
        let image = freebsd_disk("little")?;
        let disk = MemoryDisk::new(image.len() as u64);
        for (index, page) in image.chunks(4096).enumerate() {
            if page.iter().any(|&byte| byte != 0) {
                disk.put(index as u64 * 4096, page);
            }
        }
        Some(Self::known("freebsd", disk))
    }

    /// The fragments of metadata, directories among them.
    pub(crate) fn metadata(&self) -> Vec<u64> {
        self.map.fragments(|owner| !matches!(owner, Owner::Nothing | Owner::Data(..)))
    }

    fn made(label: &'static str, options: &MkfsOptions, size: u64, names: u64) -> Self {
        let world = World::new(1);
        let disk = world.run(async {
            let (disk, volume) = fresh(&world, size, options).await;
            plant(&volume, options.block_size, names).await.expect("there is room");
            volume.files.shutdown().await.expect("it stops");
            disk.fork()
        });
        Self::known(label, disk)
    }

    fn known(name: &'static str, disk: MemoryDisk) -> Self {
        let geometry = geometry_of(&disk);
        let map = Map::of(&disk, &geometry);
        let files = files_of(&disk, &map).expect("a sound disk");
        Self { name, disk, geometry, map, files }
    }
}

/// Opens a disk for reading.
pub(crate) async fn open_to_read(world: &World, disk: &MemoryDisk) -> Result<Volume, String> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let opened =
        open_with_log(Rc::new(disk.fork()), None, world.runtime(), &options, &mut |_| ()).await;
    let opened = opened.map_err(|error| format!("it does not open: {error}"))?;
    Ok(Volume { files: Namespace::new(opened.files), root: Requester::root() })
}

/// Reads all files of a disk: regular files where they have blocks in `map`.
pub(crate) fn files_of(disk: &MemoryDisk, map: &Map) -> Result<Files, String> {
    let world = World::new(1);
    world.run(async {
        let volume = open_to_read(&world, disk).await?;
        walk(&volume, map).await.map_err(|(path, error)| format!("{path}: {error}"))
    })
}

type Failure = (String, FsError);

async fn walk(volume: &Volume, map: &Map) -> Result<Files, Failure> {
    let mut files = Files::new();
    let root = volume.files.root();
    let mut open = vec![(root, String::new())];
    let attributes = volume.files.getattr(root).await.open().await.expect("running").into_inner();
    let attributes = attributes.map_err(|error| ("/".to_owned(), error))?;
    files.insert(root.ino.0, known(attributes, String::new()));
    while let Some((directory, path)) = open.pop() {
        let listed = list(volume, directory).await.map_err(|error| (path.clone(), error))?;
        let mut names = BTreeMap::new();
        for (text, attributes) in listed {
            let (path, ino) = (format!("{path}/{text}"), attributes.ino.0);
            let first = names.insert(text, ino).is_none();
            assert!(first, "{path} stands twice");
            if let Some(file) = files.get_mut(&ino) {
                file.paths.push(path);
                continue;
            }
            let mut file = known(attributes, path.clone());
            let id = ObjectId::live(attributes.ino, attributes.generation);
            let read = read_file(volume, map, id, &mut file).await;
            read.map_err(|error| (path.clone(), error))?;
            files.insert(ino, file);
            if attributes.kind == FileKind::Directory {
                open.push((id, path));
            }
        }
        files.get_mut(&directory.ino.0).expect("it is open").names = names;
    }
    files.values_mut().for_each(|file| file.paths.sort());
    Ok(files)
}

fn known(attributes: Attributes, path: String) -> Known {
    let (pieces, target, names) = (Vec::new(), None, BTreeMap::new());
    Known { attributes, paths: vec![path], pieces, target, names }
}

async fn read_file(
    volume: &Volume,
    map: &Map,
    id: ObjectId,
    file: &mut Known,
) -> Result<(), FsError> {
    match file.attributes.kind {
        FileKind::Symlink => {
            let sealed = volume.files.readlink(&volume.root, id).await;
            file.target = Some(sealed.open().await.expect("running").into_inner().result?);
        }
        FileKind::Regular => {
            for &(offset, length) in map.extents(id.ino.0) {
                let sealed = volume.files.read(&volume.root, id, offset, length as u32).await;
                let read = sealed.open().await.expect("running").into_inner().result?;
                file.pieces.push((offset, read.data.concat()));
            }
        }
        _ => {}
    }
    Ok(())
}

/// The names of a directory without its dots, with attributes.
async fn list(volume: &Volume, directory: ObjectId) -> Result<Vec<(String, Attributes)>, FsError> {
    let mut accept = |_: &vfs::DirectoryEntry| true;
    let sealed = volume.files.readdir(&volume.root, directory, 0, true, &mut accept).await;
    let listed = sealed.open().await.expect("running").into_inner().result?;
    let mut names = Vec::new();
    for entry in listed.entries {
        let text: String = entry.name.escape_ascii().to_string();
        if text != "." && text != ".." {
            names.push((text, entry.attributes.ok_or(FsError::Stale)?));
        }
    }
    Ok(names)
}

/// Bytes that are different in every file, and never zero.
fn pattern(seed: u64, length: u64) -> Vec<u8> {
    (0..length).map(|at| (at ^ at >> 8 ^ seed.wrapping_mul(37)) as u8 | 1).collect()
}

/// A regular file: its name, the ranges that are written, and its final size.
type Shape<'a> = (&'a str, &'a [(u64, u64)], u64);

/// Makes a tree with a file of every kind and shape.
async fn plant(volume: &Volume, block: u64, names: u64) -> Result<(), FsError> {
    let root = volume.files.root();
    let single = 12 * block;
    let double = single + block / 8 * block;
    let shapes: [Shape<'_>; 9] = [
        ("empty", &[], 0),
        ("fragment", &[(0, 300)], 0),
        ("tail", &[(0, block + block / 2 + 100)], 0),
        ("twelve", &[(0, single)], 0),
        ("single", &[(0, block), (single, 2 * block)], 0),
        ("sparse", &[(0, 100), (5 * block, block + 1)], 0),
        ("double", &[(single, 10), (double + 3 * block, block / 2)], 0),
        ("holes", &[], 3 * block + 7),
        ("end-in-hole", &[(block, 50)], 9 * block),
    ];
    for (index, (text, pieces, size)) in shapes.into_iter().enumerate() {
        let id = volume.create(root, text).await?;
        for &(offset, length) in pieces {
            let data = pattern(index as u64 + offset, length);
            volume.write(id, offset, data, Stability::FileSync).await?;
        }
        if size > 0 {
            volume.resize(id, size).await?;
        }
    }
    volume.mkdir(root, "small").await?;
    let mut deep = root;
    for text in ["a", "b", "c", "d", "e"] {
        deep = volume.mkdir(deep, text).await?;
    }
    let leaf = volume.create(deep, "leaf").await?;
    volume.write(leaf, 0, pattern(99, 700), Stability::FileSync).await?;
    link(volume, leaf, root, "leaf-again").await?;
    link(volume, leaf, deep, "leaf-nearby").await?;
    special(volume, root, block).await?;
    many(volume, root, names).await?;
    removed(volume, root).await
}

async fn link(
    volume: &Volume,
    id: ObjectId,
    directory: ObjectId,
    text: &str,
) -> Result<(), FsError> {
    let sealed = volume.files.link(&volume.root, id, directory, &name(text)).await;
    sealed.open().await.expect("running").into_inner().result
}

async fn special(volume: &Volume, root: ObjectId, block: u64) -> Result<(), FsError> {
    let mode = SetAttributes { mode: Some(0o640), ..SetAttributes::default() };
    for (text, length) in [("short-link", 11), ("long-link", 300.min(block) as usize)] {
        let target = "target-".repeat(60)[..length].to_owned();
        let target = target.as_bytes();
        let sealed = volume.files.symlink(&volume.root, root, &name(text), target, mode).await;
        sealed.open().await.expect("running").into_inner().result?;
    }
    let device = Device { major: 0x123, minor: 0x4567 };
    let kinds = [
        ("fifo", FileKind::Fifo, Device::default()),
        ("socket", FileKind::Socket, Device::default()),
        ("disk", FileKind::BlockDevice, device),
        ("tty", FileKind::CharacterDevice, device),
    ];
    for (text, kind, device) in kinds {
        let sealed = volume.files.mknod(&volume.root, root, &name(text), kind, device, mode).await;
        sealed.open().await.expect("running").into_inner().result?;
    }
    Ok(())
}

/// A directory of many chunks: long and short names of two files.
async fn many(volume: &Volume, root: ObjectId, names: u64) -> Result<(), FsError> {
    let large = volume.mkdir(root, "large").await?;
    let files = [volume.create(large, "first").await?, volume.create(large, "second").await?];
    for index in 0..names {
        let length = if index % 5 == 0 { 3 } else { 110 };
        let text = format!("{index:x}-{}", "n".repeat(length));
        link(volume, files[(index % 2) as usize], large, &text).await?;
    }
    let below = volume.mkdir(large, "below").await?;
    volume.create(below, "inner").await?;
    Ok(())
}

/// Removed files leave free inodes, empty entries and holes between fragments.
async fn removed(volume: &Volume, root: ObjectId) -> Result<(), FsError> {
    for text in ["gone-1", "gone-2", "stays", "gone-3"] {
        let id = volume.create(root, text).await?;
        volume.write(id, 0, pattern(5, 900), Stability::FileSync).await?;
    }
    for text in ["gone-1", "gone-2", "gone-3"] {
        volume.remove(root, text).await?;
    }
    Ok(())
}
