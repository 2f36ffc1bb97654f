//! Files flagged by a FreeBSD kernel: their flags protect them, from the superuser too.

use vfs::{Access, CreateHow, FileSystem, FsError, ObjectId, Requester, SetAttributes, Stability};

use crate::common::World;
use crate::common::cutting::sizes;
use crate::common::edit::{change_inode, geometry_of};
use crate::common::volume::{Volume, fresh, name, reopen};

const IMMUTABLE: [u32; 2] = [0x0002_0000, 0x0000_0002];
const APPEND_ONLY: [u32; 2] = [0x0004_0000, 0x0000_0004];
const NO_UNLINK: [u32; 2] = [0x0010_0000, 0x0000_0010];

/// A volume with the file `file`, of 3,000 bytes, an unflagged one, `other`, and the directory
/// `directory` with a file `inside`, all in the root; `flagged` has `flags`.
fn with_flags(flags: u32, flagged: &str, test: impl AsyncFnOnce(Volume, [ObjectId; 4])) {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = fresh(&world, 8 << 20, &sizes(4096, 512)).await;
        let root = volume.files.root();
        let file = volume.create(root, "file").await.expect("new");
        volume.write(file, 0, vec![7; 3000], Stability::FileSync).await.expect("room");
        volume.create(root, "other").await.expect("new");
        let directory = volume.mkdir(root, "directory").await.expect("new");
        let inside = volume.create(directory, "inside").await.expect("new");
        volume.files.shutdown().await.expect("it stops");
        let id = if flagged == "file" { file } else { directory };
        let geometry = geometry_of(&disk);
        change_inode(&disk, &geometry, id.ino.0, |dinode| dinode.flags.set(flags));
        let volume = reopen(&world, &disk).await;
        test(volume, [root, file, directory, inside]).await;
    });
}

async fn set(volume: &Volume, id: ObjectId, changes: SetAttributes) -> Result<(), FsError> {
    let sealed = volume.files.setattr(&volume.root, id, changes, None).await;
    sealed.open().await.expect("running").into_inner().result
}

async fn chmod(volume: &Volume, id: ObjectId) -> Result<(), FsError> {
    set(volume, id, SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).await
}

async fn create_over(volume: &Volume, directory: ObjectId, text: &str) -> Result<(), FsError> {
    let shorter = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let how = CreateHow::Unchecked(shorter);
    let sealed = volume.files.create(&volume.root, directory, &name(text), how).await;
    sealed.open().await.expect("running").into_inner().result.map(|_| ())
}

async fn may_change(volume: &Volume, id: ObjectId) -> bool {
    let asked = Access(Access::MODIFY | Access::EXTEND | Access::DELETE);
    let sealed = volume.files.access(&Requester::root().who, id, asked).await;
    let granted = sealed.open().await.expect("running").into_inner().result.expect("it is there");
    granted.0 & Access::MODIFY != 0
}

const REFUSED: Result<(), FsError> = Err(FsError::NotOwner);

/// Every operation that would take the name `file` away from the file.
async fn keeps_its_name(volume: &Volume, root: ObjectId, directory: ObjectId) {
    assert_eq!(volume.remove(root, "file").await, REFUSED);
    assert_eq!(volume.rename((root, "file"), (directory, "moved")).await, REFUSED);
    assert_eq!(volume.rename((root, "other"), (root, "file")).await, REFUSED);
}

#[test]
fn an_immutable_file_keeps_content_attributes_and_names() {
    for flags in IMMUTABLE {
        with_flags(flags, "file", async |volume, [root, file, directory, _]| {
            for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
                for offset in [0, 3000] {
                    let written = volume.write(file, offset, vec![8; 10], stability).await;
                    assert_eq!(written, REFUSED, "{offset} {stability:?}");
                }
            }
            for size in [10, 3000, 5000] {
                assert_eq!(volume.resize(file, size).await, REFUSED, "{size}");
            }
            assert_eq!(chmod(&volume, file).await, REFUSED);
            assert_eq!(create_over(&volume, root, "file").await, REFUSED);
            assert_eq!(volume.link(file, root, "link").await, REFUSED);
            keeps_its_name(&volume, root, directory).await;
            assert!(!may_change(&volume, file).await);
            assert_eq!(volume.read(file).await, Ok(vec![7; 3000]));
            volume.commit(file).await.expect("it changes nothing");
        });
    }
}

#[test]
fn an_append_only_file_takes_what_begins_at_its_end() {
    for flags in APPEND_ONLY {
        with_flags(flags, "file", async |volume, [root, file, directory, _]| {
            let mut end = 3000;
            for stability in [Stability::Unstable, Stability::FileSync, Stability::Unstable] {
                for wrong in [0, end - 1, end + 1] {
                    let written = volume.write(file, wrong, vec![8; 10], stability).await;
                    assert_eq!(written, REFUSED, "{wrong} of {end}");
                }
                assert_eq!(volume.write(file, end, vec![8; 10], stability).await, Ok(()));
                end += 10;
            }
            assert_eq!(volume.resize(file, 10).await, REFUSED);
            assert_eq!(chmod(&volume, file).await, REFUSED);
            assert_eq!(create_over(&volume, root, "file").await, REFUSED);
            assert_eq!(volume.link(file, root, "link").await, REFUSED);
            keeps_its_name(&volume, root, directory).await;
            assert!(may_change(&volume, file).await);
            volume.commit(file).await.expect("what was accepted lands");
            volume.settle().await;
            assert_eq!(volume.read(file).await.map(|data| data.len()), Ok(3030));
        });
    }
}

#[test]
fn a_file_that_is_not_to_be_unlinked_keeps_its_names_alone() {
    for flags in NO_UNLINK {
        with_flags(flags, "file", async |volume, [root, file, directory, _]| {
            keeps_its_name(&volume, root, directory).await;
            assert_eq!(chmod(&volume, file).await, Ok(()));
            assert_eq!(volume.resize(file, 10).await, Ok(()));
            assert_eq!(volume.link(file, root, "link").await, Ok(()));
            assert_eq!(volume.remove(root, "link").await, REFUSED);
        });
    }
}

#[test]
fn an_immutable_directory_keeps_its_entries() {
    for flags in IMMUTABLE {
        with_flags(flags, "directory", async |volume, [root, file, directory, inside]| {
            assert_eq!(volume.create(directory, "new").await.err(), Some(FsError::NotOwner));
            assert_eq!(volume.mkdir(directory, "new").await.err(), Some(FsError::NotOwner));
            let link = volume.symlink(directory, "new", b"target").await;
            assert_eq!(link.err(), Some(FsError::NotOwner));
            assert_eq!(volume.link(file, directory, "new").await, REFUSED);
            assert_eq!(volume.rename((root, "file"), (directory, "new")).await, REFUSED);
            assert_eq!(volume.rename((root, "file"), (directory, "inside")).await, REFUSED);
            assert_eq!(volume.rename((directory, "inside"), (root, "new")).await, REFUSED);
            assert_eq!(volume.remove(directory, "inside").await, REFUSED);
            assert_eq!(volume.rename((root, "directory"), (root, "new")).await, REFUSED);
            assert_eq!(volume.rmdir(root, "directory").await, REFUSED);
            assert!(!may_change(&volume, directory).await);
            assert_eq!(volume.resize(inside, 10).await, Ok(()), "the files in it are not meant");
        });
    }
}

#[test]
fn in_an_append_only_directory_names_appear_and_never_go() {
    for flags in APPEND_ONLY {
        with_flags(flags, "directory", async |volume, [root, file, directory, _]| {
            volume.create(directory, "new").await.expect("it appears");
            assert_eq!(volume.link(file, directory, "link").await, Ok(()));
            assert_eq!(volume.remove(directory, "new").await, REFUSED);
            assert_eq!(volume.rename((directory, "new"), (root, "new")).await, REFUSED);
            assert_eq!(volume.rename((root, "other"), (directory, "new")).await, REFUSED);
            assert_eq!(volume.rename((root, "other"), (directory, "other")).await, Ok(()));
            assert_eq!(volume.rmdir(root, "directory").await, REFUSED);
        });
    }
}
