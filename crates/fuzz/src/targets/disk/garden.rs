//! The undamaged disk: small, clean, and with files of every kind.

use std::cell::OnceCell;
use std::rc::Rc;

use bytes::Bytes;
use ffs::{Disks, OpenOptions, PolicyKind};
use namespace::Namespace;
use sim::{Disk, Executor, Image};
use ufs2::layout::{Dinode, Geometry, INODE_SIZE, ROOT_INODE};
use vfs::{
    CreateHow, Device, FileKind, FileSystem, Name, ObjectId, Requester, SetAttributes, Stability,
};

use crate::targets::volume::{self, name};

/// The disk, and the locations of its structures.
pub(super) struct Garden {
    pub(super) image: Image,
    pub(super) geometry: Geometry,
    /// Inodes in use.
    pub(super) inodes: Vec<u64>,
    /// Byte addresses of directory blocks and of indirect blocks.
    pub(super) blocks: Vec<u64>,
}

/// Runs `look` on this thread's garden; a copy of its image shares its pages.
pub(super) fn with<T>(look: impl FnOnce(&Garden) -> T) -> T {
    thread_local! {
        static GARDEN: OnceCell<Garden> = const { OnceCell::new() };
    }
    GARDEN.with(|garden| look(garden.get_or_init(plant)))
}

fn plant() -> Garden {
    let executor = Executor::new(1);
    let disk = volume::small(&executor);
    executor.block_on(grow(&executor, disk.clone()));
    survey(disk.contents())
}

async fn grow(executor: &Executor, disk: Rc<Disk>) {
    let (disks, options) = (Disks::alone(disk), OpenOptions::default());
    let runtime = executor.runtime();
    let opened = ffs::open(PolicyKind::Sync, disks, runtime, &options, &mut |_| ()).await;
    let files = Namespace::new(opened.unwrap_or_else(|error| panic!("{error}")).files);
    let who = Requester::root();
    let root = files.root();
    let mode = || SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let mut directories = vec![root];
    for (index, text) in ["one", "two", "three"].into_iter().enumerate() {
        let parent = directories[index / 2];
        let made = files.mkdir(&who, parent, &name(text), mode()).await.open().await;
        directories.push(made.expect("running").into_inner().result.expect("room").id);
    }
    for (index, size) in [0, 100, 5000, 49_152, 60_000, 200_000].into_iter().enumerate() {
        let directory = directories[index % directories.len()];
        write(&files, directory, &name(&format!("file-{index}")), size).await;
    }
    // At a large offset: a hole, and a tree of two levels.
    let far = write(&files, root, &name("far"), 10).await;
    let data = vec![Bytes::from_static(b"the end")];
    let written = files.write(&who, far, 3 << 20, data, Stability::FileSync).await;
    written.open().await.expect("running").into_inner().result.expect("room");
    for (text, length) in [("short-link", 9), ("long-link", 400)] {
        let target = vec![b't'; length];
        let made = files.symlink(&who, root, &name(text), &target, mode()).await;
        made.open().await.expect("running").into_inner().result.expect("room");
    }
    let kind = FileKind::CharacterDevice;
    let made = files.mknod(&who, root, &name("device"), kind, Device::default(), mode()).await;
    made.open().await.expect("running").into_inner().result.expect("room");
    files.shutdown().await.expect("the disk works");
}

async fn write(files: &impl FileSystem, directory: ObjectId, name: &Name, size: usize) -> ObjectId {
    let who = Requester::root();
    let how = CreateHow::Guarded(SetAttributes::default());
    let made = files.create(&who, directory, name, how).await.open().await.expect("running");
    let id = made.into_inner().result.expect("room").id;
    let data = vec![Bytes::from(vec![b'd'; size])];
    let written = files.write(&who, id, 0, data, Stability::FileSync).await.open().await;
    written.expect("running").into_inner().result.expect("room");
    id
}

/// Locates all structures.
fn survey(image: Image) -> Garden {
    let geometry = volume::geometry_of(&image);
    let (mut inodes, mut blocks) = (Vec::new(), Vec::new());
    for ino in ROOT_INODE..geometry.inode_count() {
        let mut bytes = vec![0; INODE_SIZE as usize];
        image.read(inode_address(&geometry, ino), &mut bytes);
        let dinode = Dinode::at(&bytes, 0);
        let Some(kind) = dinode.kind() else { continue };
        inodes.push(ino);
        let direct = dinode.direct[0].get() as u64;
        let in_directory = (kind == FileKind::Directory).then_some(direct);
        if !matches!(kind, FileKind::Directory | FileKind::Regular) {
            continue;
        }
        let indirect = dinode.indirect.iter().map(|address| address.get() as u64);
        let found = in_directory.into_iter().chain(indirect).filter(|address| *address != 0);
        blocks.extend(found.map(|address| geometry.byte_address(address)));
    }
    assert!(inodes.len() >= 13 && blocks.len() >= 7, "{inodes:?} {blocks:?}");
    Garden { image, geometry, inodes, blocks }
}

/// The byte address of an inode.
pub(super) fn inode_address(geometry: &Geometry, ino: u64) -> u64 {
    let position = geometry.inode_position(ino);
    geometry.byte_address(position.fragment) + position.offset as u64
}
