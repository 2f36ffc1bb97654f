//! Effects of a failing disk on a volume.
//!
//! A metadata write or a flush that fails stops the volume: everything staged by then may or may
//! not be on the platter, so nothing is answered any more until the volume is opened again, and
//! then everything that was acknowledged is there. A failed payload write affects its file alone.

use std::cell::Cell;
use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Io, IoError, Verb};
use bytes::Bytes;
use ffs::OpenOptions;
use namespace::Namespace;
use sim::Persistence;
use ufs2::mkfs::MkfsOptions;
use vfs::{
    Answer, CreateHow, FileSystem, FsError, Lost, ObjectId, Requester, Sealed, SetAttributes,
    Stability,
};

use crate::common::quiet::Quiet;
use crate::common::volume::{Volume, fresh, name, open_with_log};
use crate::common::{MemoryDisk, World, findings};

const SIZE: u64 = 16 << 20;

/// Writes that contain this text are payload, all others are metadata.
const PAYLOAD: &[u8] = b"payload of a file";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Metadata,
    Payload,
    Flush,
}

/// Fails once, after the given number of successful calls of one kind.
struct FailingDisk {
    inner: Rc<MemoryDisk>,
    plan: Cell<Option<(Kind, u64)>>,
    /// Reads that touch this byte fail.
    scratch: Cell<Option<u64>>,
    failures: Cell<u64>,
}

impl FailingDisk {
    fn check(&self, kind: Kind) -> Result<(), IoError> {
        let Some((planned, left)) = self.plan.get() else { return Ok(()) };
        if planned != kind {
            return Ok(());
        }
        if left > 0 {
            self.plan.set(Some((planned, left - 1)));
            return Ok(());
        }
        self.plan.set(None);
        self.failures.set(self.failures.get() + 1);
        let verb = if kind == Kind::Flush { Verb::Flush } else { Verb::Write };
        Err(IoError::new(verb, 0, 0, std::io::ErrorKind::Other))
    }
}

impl BlockDevice for FailingDisk {
    fn geometry(&self) -> block::Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        let end = offset + buffer.len() as u64;
        if self.scratch.get().is_some_and(|byte| (offset..end).contains(&byte)) {
            let error = IoError::new(Verb::Read, offset, 0, std::io::ErrorKind::Other);
            return Box::pin(async { Err(error) });
        }
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let payload = data.concat().windows(PAYLOAD.len()).any(|window| window == PAYLOAD);
        match self.check(if payload { Kind::Payload } else { Kind::Metadata }) {
            Ok(()) => self.inner.write(offset, data, durability),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn flush(&self) -> Io<()> {
        match self.check(Kind::Flush) {
            Ok(()) => self.inner.flush(),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.inner.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        self.inner.close()
    }
}

/// A volume with a file `old` and a directory `directory`, on a disk that fails on demand.
async fn failing(world: &World) -> (Rc<FailingDisk>, Volume) {
    let (disk, volume) = fresh(world, SIZE, &MkfsOptions::default()).await;
    let root = volume.files.root();
    let old = volume.create(root, "old").await.expect("there is room");
    volume.write(old, 0, b"old content".to_vec(), Stability::FileSync).await.expect("room");
    volume.mkdir(root, "directory").await.expect("there is room");
    volume.files.shutdown().await.expect("a clean stop");
    let disk = Rc::new(FailingDisk {
        inner: disk,
        plan: Cell::new(None),
        scratch: Cell::new(None),
        failures: Cell::new(0),
    });
    let device: Rc<dyn BlockDevice> = disk.clone();
    (disk, open_on(world, device).await)
}

async fn open_on(world: &World, device: Rc<dyn BlockDevice>) -> Volume {
    let opened =
        open_with_log(device, None, world.runtime(), &OpenOptions::default(), &mut |_| ()).await;
    let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
    Volume { files: Namespace::new(engine), root: Requester::root() }
}

async fn lookup(volume: &Volume, text: &str) -> Result<Result<ObjectId, FsError>, Lost> {
    let root = volume.files.root();
    let sealed = volume.files.lookup(&volume.root, root, &name(text)).await;
    Ok(sealed.open().await?.into_inner().result.map(|found| found.id))
}

async fn try_create(volume: &Volume, text: &str) -> Result<ObjectId, Lost> {
    let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
    let root = volume.files.root();
    let sealed = volume.files.create(&volume.root, root, &name(text), how).await;
    Ok(sealed.open().await?.into_inner().result.expect("there is room").id)
}

/// Opens an answer and checks that it is lost.
async fn assert_lost<T, W>(what: &str, sealed: Sealed<Answer<T, W>>) {
    assert!(sealed.open().await.is_err(), "{what} was answered");
}

/// Checks that a stopped volume answers nothing.
async fn assert_silent(volume: &Volume, file: ObjectId) {
    let (files, who, root) = (&volume.files, &volume.root, volume.files.root());
    let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let (old, new) = (name("old"), name("new"));
    for id in [file, root] {
        assert!(files.getattr(id).await.open().await.is_err(), "GETATTR was answered");
        assert_lost("SETATTR", files.setattr(who, id, set, None).await).await;
        assert_lost("ACCESS", files.access(who, id, vfs::Access(0x3f)).await).await;
        assert_lost("READ", files.read(who, id, 0, 100).await).await;
        assert_lost("COMMIT", files.commit(who, id, 0, 0).await).await;
        assert_lost("FSSTAT", files.fsstat(who, id).await).await;
        assert_lost("FSINFO", files.fsinfo(id).await).await;
        assert_lost("PATHCONF", files.pathconf(id).await).await;
        assert_lost("LINK", files.link(who, id, root, &new).await).await;
    }
    let data = vec![Bytes::from_static(b"more")];
    for how in [Stability::Unstable, Stability::FileSync] {
        assert_lost("WRITE", files.write(who, file, 0, data.clone(), how).await).await;
    }
    for text in [&old, &new] {
        assert_lost("LOOKUP", files.lookup(who, root, text).await).await;
        assert_lost("MKDIR", files.mkdir(who, root, text, set).await).await;
        assert_lost("REMOVE", files.remove(who, root, text).await).await;
        assert_lost("RMDIR", files.rmdir(who, root, text).await).await;
        assert_lost("RENAME", files.rename(who, root, text, root, &new).await).await;
    }
    let mut accept = |_: &vfs::DirectoryEntry| true;
    assert_lost("READDIR", files.readdir(who, root, 0, true, &mut accept).await).await;
}

/// Fails the `number`th submission of `kind` under a load; `false` if there were fewer.
fn stop_at(kind: Kind, number: u64) -> bool {
    let world = World::new(number);
    world.run(async {
        let (disk, volume) = failing(&world).await;
        let old = lookup(&volume, "old").await.expect("running").expect("it is there");
        disk.plan.set(Some((kind, number)));
        let mut acknowledged = Vec::new();
        for text in ["one", "two", "three"] {
            let Ok(file) = try_create(&volume, text).await else { break };
            acknowledged.push((text, file));
        }
        if disk.failures.get() == 0 {
            return false;
        }
        assert!(acknowledged.len() < 3, "a failure of {kind:?} {number} went unnoticed");
        assert_silent(&volume, old).await;
        for (_, file) in &acknowledged {
            assert!(volume.files.getattr(*file).await.open().await.is_err());
        }
        assert_eq!(volume.files.shutdown().await, Err(FsError::Io), "it is not left as clean");

        // The disk works again, but no retry hides the failure.
        assert_silent(&volume, old).await;
        let volume = open_on(&world, disk.inner.clone()).await;
        assert_eq!(volume.read(old).await, Ok(b"old content".to_vec()));
        for (text, file) in acknowledged {
            assert_eq!(lookup(&volume, text).await, Ok(Ok(file)), "{kind:?} {number}");
        }
        try_create(&volume, "new").await.expect("it goes on");
        volume.files.shutdown().await.expect("a clean stop");
        let judged = findings(&disk.inner, &format!("faults-{kind:?}-{number}"));
        assert_eq!(judged.unwrap_or_default(), "");
        true
    })
}

#[test]
fn a_flush_that_fails_stops_the_volume() {
    let stops = (0..).take_while(|&number| stop_at(Kind::Flush, number)).count();
    assert!((6..30).contains(&stops), "{stops} flushes make three files");
}

#[test]
fn a_metadata_write_that_fails_stops_the_volume() {
    let stops = (0..).take_while(|&number| stop_at(Kind::Metadata, number)).count();
    assert!((6..40).contains(&stops), "{stops} writes make three files");
}

/// A read-only reply waits for the changes that it shows: a name that never became durable is not
/// reported.
#[test]
fn nobody_sees_a_change_that_was_lost() {
    let world = World::new(1);
    world.run(async {
        let (disk, volume) = failing(&world).await;
        let (files, who, root) = (&volume.files, &volume.root, volume.files.root());
        let old = lookup(&volume, "old").await.expect("running").expect("it is there");
        let other = lookup(&volume, "directory").await.expect("running").expect("it is there");
        disk.plan.set(Some((Kind::Flush, 0)));
        let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let changed = files.setattr(who, old, set, None).await;
        let removed = files.rmdir(who, root, &name("directory")).await;
        // All of these read before anything failed.
        let attributes = files.getattr(old).await;
        let gone = files.lookup(who, root, &name("directory")).await;
        let stale = files.getattr(other).await;
        let mut accept = |_: &vfs::DirectoryEntry| true;
        let listed = files.readdir(who, root, 0, false, &mut accept).await;
        assert_lost("SETATTR", changed).await;
        assert_lost("RMDIR", removed).await;
        assert!(attributes.open().await.is_err(), "GETATTR told of a mode that never was");
        assert_lost("LOOKUP", gone).await;
        assert!(stale.open().await.is_err(), "GETATTR told of a removal that never was");
        assert_lost("READDIR", listed).await;
    });
}

async fn write_unstable(volume: &Volume, file: ObjectId, data: &[u8]) -> vfs::Verifier {
    let data = vec![Bytes::copy_from_slice(data)];
    let how = Stability::Unstable;
    let sealed = volume.files.write(&volume.root, file, 0, data, how).await;
    let written = sealed.open().await.expect("running").into_inner().result.expect("room");
    assert_eq!(written.committed, Stability::Unstable);
    written.verifier
}

async fn commit(volume: &Volume, file: ObjectId) -> Result<vfs::Verifier, FsError> {
    let sealed = volume.files.commit(&volume.root, file, 0, 0).await;
    sealed.open().await.expect("running").into_inner().result
}

#[test]
fn unstable_payload_that_fails_is_told_by_its_commit_and_by_the_verifier() {
    let world = World::new(2);
    world.run(async {
        let (disk, volume) = failing(&world).await;
        let lost = try_create(&volume, "lost").await.expect("running");
        let kept = try_create(&volume, "kept").await.expect("running");
        let verifier = write_unstable(&volume, lost, PAYLOAD).await;
        assert_eq!(write_unstable(&volume, kept, b"kept").await, verifier);
        disk.plan.set(Some((Kind::Payload, 0)));
        assert_eq!(commit(&volume, lost).await, Err(FsError::Io));
        let now = commit(&volume, kept).await.expect("another file goes on");
        assert_ne!(now, verifier);
        assert_eq!(volume.read(lost).await, Ok(vec![]));
        assert_eq!(write_unstable(&volume, lost, PAYLOAD).await, now);
        assert_eq!(commit(&volume, lost).await, Ok(now));
        assert_eq!(volume.read(lost).await, Ok(PAYLOAD.to_vec()));
        volume.files.shutdown().await.expect("a clean stop");
        let judged = findings(&disk.inner, "faults-unstable");
        assert_eq!(judged.unwrap_or_default(), "");
    });
}

/// It lands in several Updates, the first of which is lost: its space is freed.
#[test]
fn a_failure_in_the_midst_of_a_large_commit_loses_no_room() {
    let world = World::new(3);
    world.run(async {
        let (disk, volume) = failing(&world).await;
        let free = free_bytes(&volume).await;
        let file = try_create(&volume, "large").await.expect("running");
        let data: Vec<u8> = PAYLOAD.iter().copied().cycle().take(6 << 20).collect();
        write_unstable(&volume, file, &data).await;
        disk.plan.set(Some((Kind::Payload, 0)));
        assert_eq!(commit(&volume, file).await, Err(FsError::Io));
        commit(&volume, file).await.expect("what is left lands");
        volume.remove(volume.files.root(), "large").await.expect("running");
        volume.settle().await;
        assert_eq!(free_bytes(&volume).await, free);
        volume.files.shutdown().await.expect("a clean stop");
        let judged = findings(&disk.inner, "faults-large");
        assert_eq!(judged.unwrap_or_default(), "");
    });
}

async fn free_bytes(volume: &Volume) -> u64 {
    let root = volume.files.root();
    let sealed = volume.files.fsstat(&volume.root, root).await;
    sealed.open().await.expect("running").into_inner().result.expect("it is there").free_bytes
}

#[test]
fn synchronous_payload_that_fails_leaves_the_file_as_it_was() {
    let world = World::new(4);
    world.run(async {
        let (disk, volume) = failing(&world).await;
        let old = lookup(&volume, "old").await.expect("running").expect("it is there");
        for offset in [0, 11, 1 << 20] {
            disk.plan.set(Some((Kind::Payload, 0)));
            let written = volume.write(old, offset, PAYLOAD.to_vec(), Stability::FileSync).await;
            assert_eq!(written, Err(FsError::Io), "at {offset}");
            assert_eq!(volume.read(old).await, Ok(b"old content".to_vec()), "at {offset}");
        }
        let volume = open_on(&world, disk.inner.clone()).await;
        assert_eq!(volume.read(old).await, Ok(b"old content".to_vec()));
        volume.files.shutdown().await.expect("a clean stop");
        let judged = findings(&disk.inner, "faults-synchronous");
        assert_eq!(judged.unwrap_or_default(), "");
    });
}

#[test]
fn what_cannot_be_read_is_the_trouble_of_its_file() {
    let world = World::new(5);
    world.run(async {
        let (disk, volume) = failing(&world).await;
        let bad = try_create(&volume, "bad").await.expect("running");
        volume.write(bad, 0, PAYLOAD.to_vec(), Stability::FileSync).await.expect("room");
        let old = lookup(&volume, "old").await.expect("running").expect("it is there");
        let all = disk.inner.bytes(0, SIZE as usize);
        let place = all.windows(PAYLOAD.len()).position(|window| window == PAYLOAD);
        disk.scratch.set(place.map(|byte| byte as u64));
        assert_eq!(volume.read(bad).await, Err(FsError::Io));
        let within = volume.write(bad, 3, b"x".to_vec(), Stability::FileSync).await;
        assert_eq!(within, Err(FsError::Io));
        assert_eq!(volume.read(old).await, Ok(b"old content".to_vec()));
        volume.write(old, 0, b"new".to_vec(), Stability::FileSync).await.expect("it goes on");
        volume.remove(volume.files.root(), "bad").await.expect("nobody has to read it for that");
        volume.files.shutdown().await.expect("a clean stop");
    });
}

/// The block has many inodes, but the other blocks are served.
#[test]
fn metadata_that_cannot_be_read_is_an_error_of_what_needs_it() {
    let world = World::new(6);
    world.run(async {
        let (disk, volume) = failing(&world).await;
        let root = volume.files.root();
        let directory = lookup(&volume, "directory").await.expect("running").expect("there");
        let inner = volume.create(directory, "inner").await.expect("there is room");
        volume.files.shutdown().await.expect("a clean stop");
        let volume = open_on(&world, disk.clone()).await;
        let geometry = volume.files.store().engine().geometry();
        let place = geometry.byte_address(geometry.inode_position(inner.ino.0).fragment);
        assert_ne!(
            geometry.inode_position(inner.ino.0).fragment,
            geometry.inode_position(root.ino.0).fragment,
            "a directory is made in a group of its own"
        );
        disk.scratch.set(Some(place));
        let sealed = volume.files.getattr(inner).await;
        assert_eq!(sealed.open().await.expect("running").into_inner(), Err(FsError::Io));
        let old = lookup(&volume, "old").await.expect("running").expect("it is there");
        assert_eq!(volume.read(old).await, Ok(b"old content".to_vec()));
        try_create(&volume, "new").await.expect("it goes on");
        disk.scratch.set(None);
        let sealed = volume.files.getattr(inner).await;
        assert!(sealed.open().await.expect("running").into_inner().is_ok());
        volume.files.shutdown().await.expect("a clean stop");
    });
}

/// The first failed write of the log is final: nothing is answered from then on, and the next
/// opening has everything that was answered.
#[test]
fn a_log_that_fails_once_stops_its_volume_for_good() {
    for nth in 1..6 {
        let quiet = Quiet::new(16 << 20, Some(4 << 20));
        let made = quiet.executor.block_on(async {
            let volume = quiet.make((4096, 512)).await;
            let root = volume.files.root();
            let log = quiet.disks.log.as_ref().expect("it has one");
            log.fail(Verb::Write, nth, Persistence::Once);
            let mut made = 0;
            while volume.create(root, &format!("file-{made}")).await.is_ok() {
                made += 1;
                assert!(made < 20, "the log has failed");
            }
            for _ in 0..3 {
                let again = volume.create(root, "again").await;
                assert_eq!(again, Err(FsError::Io));
                assert_eq!(volume.lookup(root, "file-0").await, Err(FsError::Io));
            }
            made
        });
        let back = quiet.cut();
        back.executor.block_on(async {
            let volume = back.open().await;
            let names = volume.list(volume.files.root()).await.expect("it can be read");
            for number in 0..made {
                assert!(names.contains(&format!("file-{number}")), "{number} of {names:?}");
            }
            assert!(!names.contains(&"again".to_owned()), "nobody was told of it");
        });
    }
}
