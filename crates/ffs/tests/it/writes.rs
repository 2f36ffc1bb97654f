//! Writes that a caller waits for, among UNSTABLE ones: they land at once, in one step, together
//! with everything that they change.

use block::Verb;
use futures::future::join_all;
use sim::{Effect, Executor, Fault};
use vfs::{
    Answer, Credentials, FileSystem, FsError, ObjectId, Requester, Sequence, SetAttributes,
    Stability, Wcc, Written,
};

use crate::common::behind::{CALL, LIMIT, POLICIES, new_disks, new_volume};
use crate::common::cutting::sizes;
use crate::common::quiet::Quiet;
use crate::common::volume::{Volume, fresh, reopen};
use crate::common::{World, findings};

const BLOCK: u64 = 4096;

/// The answer to a write, once it is durable.
async fn written(
    volume: &Volume,
    who: &Requester,
    id: ObjectId,
    (offset, data): (u64, Vec<u8>),
    stability: Stability,
) -> Answer<Written, Wcc> {
    let sealed = volume.files.write(&who.who, id, offset, vec![data.into()], stability).await;
    sealed.open().await.expect("running").into_inner()
}

async fn newest(volume: &Volume, id: ObjectId) -> Sequence {
    volume.files.store().node(id).await.expect("it is there").depends().newest()
}

#[test]
fn what_pages_set_aside_beyond_their_need_serves_a_write_of_their_file() {
    let world = World::new(31);
    world.run(async {
        let (disk, volume) = fresh(&world, 6 << 20, &sizes(4096, 512)).await;
        let root = volume.files.root();
        let file = volume.create(root, "file").await.expect("room");
        let four = volume.create(root, "four").await.expect("room");
        volume
            .write(four, 0, vec![4; 4 * BLOCK as usize], Stability::FileSync)
            .await
            .expect("room");
        let filler = volume.create(root, "filler").await.expect("room");
        let mut end = 0;
        while volume.write(filler, end, vec![1; 512], Stability::FileSync).await.is_ok() {
            end += 512;
        }
        volume.remove(root, "four").await.expect("it was made");
        volume.settle().await;
        // Each might need an indirect block, and one serves all.
        let page = |lbn: u64| vec![lbn as u8; BLOCK as usize];
        for lbn in [12, 14] {
            let kept = volume.write(file, lbn * BLOCK, page(lbn), Stability::Unstable).await;
            kept.expect("room for both, and for what might lead to them");
        }
        let fourth = volume.write(file, 20 * BLOCK, page(20), Stability::FileSync).await;
        fourth.expect("one of the four is left");
        let fifth = volume.write(file, 22 * BLOCK, page(22), Stability::FileSync).await;
        assert_eq!(fifth, Err(FsError::NoSpace));
        let content = volume.read(file).await.expect("it can be read");
        assert_eq!(content.len() as u64, 21 * BLOCK);
        for (lbn, bytes) in (0..).zip(content.chunks(BLOCK as usize)) {
            let byte = if [12, 14, 20].contains(&lbn) { lbn } else { 0 };
            assert!(bytes.iter().all(|&found| found == byte), "block {lbn}");
        }
        volume.files.shutdown().await.expect("a clean stop");
        if let Some(findings) = findings(&disk, "set-aside") {
            assert_eq!(findings, "");
        }
    });
}

#[test]
fn a_write_that_waits_takes_the_pages_of_its_blocks_along_and_leaves_the_others() {
    let world = World::new(32);
    world.run(async {
        let (disk, volume) = fresh(&world, 6 << 20, &sizes(4096, 512)).await;
        let file = volume.create(volume.files.root(), "file").await.expect("room");
        // Bytes 100 to 300 of a new block, and blocks far behind it.
        volume.write(file, 100, vec![1; 200], Stability::Unstable).await.expect("room");
        volume.write(file, 40 * BLOCK, vec![2; 700], Stability::Unstable).await.expect("room");
        volume.write(file, 250, vec![3; 200], Stability::FileSync).await.expect("room");
        let attributes = volume.attributes(file).await;
        assert_eq!(attributes.size, 40 * BLOCK + 700, "what is not landed shows");
        let unlanded = volume.files.store().unstable_bytes();
        assert!((700..4096 + 700).contains(&unlanded), "{unlanded} bytes wait");
        let mut content = vec![0; 40 * BLOCK as usize];
        content[100..250].fill(1);
        content[250..450].fill(3);
        content.extend([2; 700]);
        assert!(volume.read(file).await.expect("it can be read") == content);
        // Uncommitted data may be lost, and awaited data stays.
        let volume = reopen(&world, &disk).await;
        let left = volume.read(file).await.expect("it can be read");
        assert_eq!(left[100..450], content[100..450]);
    });
}

#[test]
fn a_write_of_several_updates_tells_how_the_file_was_before_it_and_is_behind_it() {
    let world = World::new(33);
    world.run(async {
        let (_disk, volume) = fresh(&world, 24 << 20, &sizes(4096, 512)).await;
        let file = volume.create(volume.files.root(), "file").await.expect("room");
        volume.write(file, 0, vec![1; 5000], Stability::FileSync).await.expect("room");
        let before = newest(&volume, file).await;
        let data = vec![2; 600 * BLOCK as usize];
        let answer =
            written(&volume, &Requester::root(), file, (1, data), Stability::FileSync).await;
        assert_eq!(answer.result.expect("room").count as u64, 600 * BLOCK);
        assert!(newest(&volume, file).await.0 > before.0 + 1, "it took several Updates");
        let (before, after) = (answer.about.before, answer.about.after);
        assert_eq!(before.expect("it is told").size, 5000);
        assert_eq!(after, Some(volume.attributes(file).await));
        assert_eq!(after.expect("it is told").size, 600 * BLOCK + 1);
    });
}

#[test]
fn the_rights_that_a_write_takes_go_in_its_own_update() {
    let world = World::new(34);
    world.run(async {
        let (_disk, volume) = fresh(&world, 6 << 20, &sizes(4096, 512)).await;
        let file = volume.create(volume.files.root(), "file").await.expect("room");
        let stranger = Requester::from(Credentials { uid: 9, gid: 9, groups: Vec::new() });
        for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
            let mode = SetAttributes { mode: Some(0o6777), ..SetAttributes::default() };
            let sealed = volume.files.setattr(&volume.root, file, mode, None).await;
            sealed.open().await.expect("running").into_inner().result.expect("root may");
            let before = newest(&volume, file).await;
            let answer = written(&volume, &stranger, file, (0, vec![1; 900]), stability).await;
            assert_eq!(answer.about.after.expect("it is told").mode, 0o777);
            // Permissions are not changed in memory alone.
            assert_eq!(answer.result.expect("room").committed, Stability::FileSync);
            assert_eq!(newest(&volume, file).await, Sequence(before.0 + 1));
        }
    });
}

/// A file's data on the disk ends within a block, and pages wait behind that. A write into the
/// block lets the file grow to the end of the block.
fn write_before_the_old_end(with_log: bool, tail: u64, (offset, length): (u64, usize)) {
    let label = format!("log {with_log}, {tail} blocks and a part, {length} bytes at {offset}");
    let quiet = Quiet::new(16 << 20, with_log.then_some(4 << 20));
    let content = quiet.executor.block_on(async {
        let volume = quiet.make((8192, 1024)).await;
        let file = volume.create(volume.files.root(), "file").await.expect("room");
        let mut content: Vec<u8> = (0..tail * 8192 + 7500).map(|at| (at % 251) as u8 | 1).collect();
        volume.write(file, 0, content.clone(), Stability::FileSync).await.expect("room");
        let behind = (tail + 3) * 8192;
        volume.write(file, behind, vec![0xee; 100], Stability::Unstable).await.expect("room");
        let at = tail * 8192 + offset;
        volume.write(file, at, vec![0x44; length], Stability::FileSync).await.expect("room");
        let (at, end) = (at as usize, at as usize + length);
        content.resize(content.len().max(end), 0);
        content[at..end].fill(0x44);
        let stored = content.clone();
        content.resize(behind as usize, 0);
        content.extend([0xee; 100]);
        assert!(volume.read(file).await.expect("readable") == content, "{label}: before a COMMIT");
        stored
    });
    let back = quiet.cut();
    let found = back.executor.block_on(async {
        let volume = back.open().await;
        let file = volume.lookup(volume.files.root(), "file").await.expect("it is there");
        volume.read(file).await.expect("readable")
    });
    let wrong = found.iter().zip(&content).position(|(one, other)| one != other);
    assert_eq!(wrong, None, "{label}: after a cut");
    assert!(found[content.len()..].iter().all(|&byte| byte == 0), "{label}: behind the end");
}

#[test]
fn a_write_that_waits_before_the_old_end_keeps_what_is_between_them() {
    for with_log in [false, true] {
        for tail in [0, 3, 12, 14] {
            for place in [(0, 512), (0, 1024), (700, 100), (2048, 3000), (6000, 1000), (7400, 300)]
            {
                write_before_the_old_end(with_log, tail, place);
            }
        }
    }
}

#[test]
fn a_write_that_loses_its_own_pages_tells_how_the_file_is_without_them() {
    for has_log in POLICIES {
        let executor = Executor::new(4);
        let disks = new_disks(&executor, has_log);
        executor.block_on(async {
            let (volume, _) = new_volume(executor.runtime(), &disks).await;
            let root = volume.files.root();
            let mut files = Vec::new();
            for number in 0..4 * LIMIT / CALL as u64 {
                files.push(volume.create(root, &number.to_string()).await.expect("new"));
            }
            disks.home.inject(Fault::on(Verb::Write, Effect::Eio).forever());
            // More at once than fits into memory: some writers write back themselves, and fail.
            let who = Requester::root();
            let data = || (0, vec![1; CALL]);
            let writes = files.iter().map(async |&file| {
                let answer = written(&volume, &who, file, data(), Stability::Unstable).await;
                let told = answer.about.after.expect("it is told");
                answer.result.is_err().then_some((file, told))
            });
            let failed: Vec<_> = join_all(writes).await.into_iter().flatten().collect();
            assert!(!failed.is_empty(), "log {has_log}");
            for (file, told) in failed {
                assert_eq!(told, volume.attributes(file).await, "log {has_log}");
            }
        });
    }
}
