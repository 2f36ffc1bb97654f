//! Files become shorter on a volume that is full to the last fragment, and end in a hole: a block
//! is always found for the new end. And UNSTABLE data is accepted only if there is also room for
//! the indirect blocks that lead to it.

use futures::future::join_all;
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::common::cutting::judge;
use crate::common::quiet::Quiet;
use crate::common::volume::Volume;

const BLOCK: u64 = 4096;
const FRAGMENT: u64 = 512;
/// Number of pointers in an indirect block.
const FAN: u64 = BLOCK / 8;

/// First blocks of the trees of one, two and three levels.
const TREES: [u64; 3] = [12, 12 + FAN, 12 + FAN + FAN * FAN];

async fn create(volume: &Volume, text: &str) -> ObjectId {
    volume.create(volume.files.root(), text).await.expect("an empty disk")
}

async fn write(volume: &Volume, id: ObjectId, lbn: u64, blocks: u64) -> Result<(), FsError> {
    let data = vec![5; (blocks * BLOCK) as usize];
    volume.write(id, lbn * BLOCK, data, Stability::FileSync).await
}

/// Takes all space that root can get, block by block and then fragment by fragment.
async fn fill(volume: &Volume, names: &[ObjectId]) {
    let mut refused = Ok(());
    for blocks in [64, 1] {
        let mut at = volume.attributes(names[0]).await.size.div_ceil(BLOCK);
        loop {
            refused = write(volume, names[0], at, blocks).await;
            if refused.is_err() {
                break;
            }
            at += blocks;
        }
    }
    assert_eq!(refused, Err(FsError::NoSpace));
    for &id in &names[1..] {
        let data = vec![5; FRAGMENT as usize];
        if volume.write(id, 0, data, Stability::FileSync).await.is_err() {
            return;
        }
    }
    panic!("the fragments are not out");
}

/// Small files that take the last fragments.
async fn fillers(volume: &Volume) -> Vec<ObjectId> {
    let mut names = Vec::new();
    for number in 0..60 {
        names.push(create(volume, &format!("filler-{number}")).await);
    }
    names
}

/// Takes all space that root can get, with files that leave one fragment of their last block, and
/// is never refused: a refusal would write UNSTABLE data back.
async fn fill_unrefused(volume: &Volume) {
    let loose = 16 * (BLOCK - FRAGMENT);
    for number in 0..260 {
        let left = volume.space().await.available_bytes;
        if left < BLOCK {
            return;
        }
        let take = match left {
            _ if left > 60 * BLOCK => 12 * BLOCK,
            _ if left >= loose + 2 * BLOCK => BLOCK,
            _ => BLOCK - FRAGMENT,
        };
        let id = create(volume, &format!("loose-{number}")).await;
        volume.write(id, 0, vec![3; take as usize], Stability::FileSync).await.expect("room");
    }
    panic!("there is room left");
}

/// UNSTABLE data lies over an old last block and before it, and the data before it is written
/// first: the reservation for the old last block stays, however full the volume is by then.
fn written_back_in_parts(has_log: bool) -> Result<(), String> {
    let quiet = Quiet::new(4 << 20, has_log.then_some(4 << 20));
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, FRAGMENT)).await;
        let mut files = Vec::new();
        for number in 0..16 {
            let id = create(&volume, &format!("ragged-{number}")).await;
            let data = vec![1; BLOCK as usize + 100];
            volume.write(id, 0, data, Stability::FileSync).await.expect("an empty disk");
            files.push(id);
        }
        for &id in &files {
            let data = vec![2; 2 * BLOCK as usize];
            volume.write(id, 0, data, Stability::Unstable).await.expect("there is room");
            let sealed = volume.files.commit(&volume.root, id, 0, BLOCK as u32).await;
            let first = sealed.open().await.expect("running").into_inner().result;
            first.expect("a block that is there");
        }
        fill_unrefused(&volume).await;
        for (number, &id) in files.iter().enumerate() {
            volume.commit(id).await.map_err(|error| format!("file {number}: {error}"))?;
            let data = volume.read(id).await.map_err(|error| error.to_string())?;
            if data != vec![2; 2 * BLOCK as usize] {
                return Err(format!("file {number} has {} bytes, or others", data.len()));
            }
        }
        Ok(())
    })
}

#[test]
fn what_is_set_aside_for_an_old_last_block_stays_until_that_has_grown() {
    for has_log in [false, true] {
        assert_eq!(written_back_in_parts(has_log), Ok(()), "with a log: {has_log}");
    }
}

/// Stretches of a file (first block, number of blocks), and the size in bytes to which it is cut.
type Cut<'a> = (&'a [(u64, u64)], u64);

/// Truncates files on a full volume, all at once.
fn cut_short(has_log: bool, cuts: &[Cut<'_>]) -> Result<(), String> {
    let quiet = Quiet::new(24 << 20, has_log.then_some(4 << 20));
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, FRAGMENT)).await;
        let fillers = fillers(&volume).await;
        let mut files = Vec::new();
        for (number, &(stretches, size)) in cuts.iter().enumerate() {
            let id = create(&volume, &format!("sparse-{number}")).await;
            for &(lbn, blocks) in stretches {
                write(&volume, id, lbn, blocks).await.expect("an empty disk");
            }
            files.push((id, size));
        }
        fill(&volume, &fillers).await;
        let free = volume.space().await;
        if free.available_bytes != 0 || free.free_bytes > 4 * BLOCK {
            return Err(format!("{free:?}: it is not full"));
        }
        let (volume, which) = (&volume, &files);
        let all = join_all(which.iter().map(|&(id, size)| volume.resize(id, size))).await;
        if let Some(wrong) = all.into_iter().position(|done| done != Ok(())) {
            return Err(format!("file {wrong} was refused to become shorter, log {has_log}"));
        }
        Ok(())
    })?;
    let back = quiet.cut();
    back.executor.block_on(async {
        let volume = back.open().await;
        for (number, &(stretches, size)) in cuts.iter().enumerate() {
            let name = format!("sparse-{number}");
            let id = volume.lookup(volume.files.root(), &name).await.expect("there");
            assert_eq!(volume.attributes(id).await.size, size, "{name}");
            let last = volume.files.read(&volume.root, id, size - 100, 100).await;
            let last = last.open().await.expect("running").into_inner().result.expect("readable");
            let inside = |&(lbn, blocks): &(u64, u64)| {
                (lbn * BLOCK..(lbn + blocks) * BLOCK).contains(&(size - 1))
            };
            let expected = if stretches.iter().any(inside) { 5 } else { 0 };
            assert!(last.data.concat().iter().all(|&byte| byte == expected), "{name}");
        }
        volume.files.shutdown().await.expect("a clean stop");
    });
    judge(&back.disks.home, "ends")
}

fn in_holes(has_log: bool) -> Result<(), String> {
    let [one, two, three] = TREES;
    let end = |lbn: u64| (lbn + 1) * BLOCK - 1000;
    let cuts: [Cut<'_>; 6] = [
        // The hole and the blocks behind it in one tree, or in several.
        (&[(0, 12), (one + 9, 1)], end(one + 3)),
        (&[(0, 1), (two + 3 * FAN + 1, 1)], end(one + 3)),
        (&[(0, 1), (two + 3 * FAN, 1)], end(two + 5)),
        (&[(0, 1), (three + 7, 1)], end(two + 5)),
        (&[(0, 1), (three + 5 * FAN * FAN, 1)], end(three + 2)),
        (&[(0, 1), (three + 7, 1), (three + 5 * FAN * FAN, 3)], end(three + 7)),
    ];
    for cut in &cuts {
        cut_short(has_log, std::slice::from_ref(cut))?;
    }
    cut_short(has_log, &cuts)
}

/// So much is freed that it takes several Updates, across blocks of pointers with holes.
fn in_steps(has_log: bool) -> Result<(), String> {
    let two = TREES[1];
    let mut stretches = vec![(0, 1)];
    // With the block that leads to them, 512: a step ends exactly there.
    stretches.extend((0..7).map(|tree| (two + (3 + 2 * tree) * FAN, FAN - 1)));
    cut_short(has_log, &[(&stretches, TREES[0] * BLOCK + 6 * BLOCK + 77)])
}

#[test]
fn a_file_may_always_end_in_a_hole() {
    for has_log in [false, true] {
        assert_eq!(in_holes(has_log), Ok(()));
    }
}

#[test]
fn a_long_file_may_always_end_in_a_hole() {
    for has_log in [false, true] {
        assert_eq!(in_steps(has_log), Ok(()));
    }
}

/// Files with a hole get a block there, UNSTABLE, and need an indirect block that leads to it;
/// there is room for 6 of 16. Accepted data is there after COMMIT, and the rest was refused at
/// once.
fn blocks_in_holes() -> Result<(), String> {
    let quiet = Quiet::new(8 << 20, None);
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, FRAGMENT)).await;
        let fillers = fillers(&volume).await;
        let mut files = Vec::new();
        for number in 0..16 {
            let id = create(&volume, &format!("file-{number}")).await;
            write(&volume, id, TREES[1], 1).await.expect("an empty disk");
            files.push(id);
        }
        let spare = create(&volume, "spare").await;
        write(&volume, spare, 0, 12).await.expect("an empty disk");
        fill(&volume, &fillers).await;
        volume.remove(volume.files.root(), "spare").await.expect("it is there");
        volume.settle().await;
        let mut taken = Vec::new();
        for &id in &files {
            let data = vec![6; BLOCK as usize];
            match volume.write(id, 12 * BLOCK, data, Stability::Unstable).await {
                Ok(()) => taken.push(id),
                Err(FsError::NoSpace) => {}
                Err(error) => return Err(format!("a write: {error}")),
            }
        }
        for &id in &taken {
            volume.commit(id).await.map_err(|error| format!("what was taken: {error}"))?;
            let data = volume.read(id).await.expect("readable");
            if data[12 * BLOCK as usize..][..BLOCK as usize].iter().any(|&byte| byte != 6) {
                return Err("what was committed is not there".to_owned());
            }
        }
        match taken.len() {
            6 => Ok(()),
            count => Err(format!("{count} files have two blocks more, of 12 that were free")),
        }
    })
}

#[test]
fn unstable_data_has_room_for_the_blocks_that_lead_to_it() {
    assert_eq!(blocks_in_holes(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn room_that_is_not_there_for_ends_and_ways_is_found() {
    use crate::common::quiet::finds;
    use ffs::planted::Bug;
    assert!(finds(Bug::UnkeptBlocks, || in_holes(false)));
    assert!(finds(Bug::UnkeptBlocks, || in_holes(true)));
    assert!(finds(Bug::UnpaidWays, blocks_in_holes));
    assert!(finds(vnode::planted::Bug::EarlyTails, || written_back_in_parts(false)));
    assert!(finds(vnode::planted::Bug::EarlyTails, || written_back_in_parts(true)));
}
