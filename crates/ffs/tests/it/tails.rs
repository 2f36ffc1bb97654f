//! A file of more than 12 blocks is cut short within its last block and extended again. Its old
//! bytes there never come back: neither from the disk nor from the log.

use vfs::{FileSystem, ObjectId, Stability};

use crate::common::quiet::Quiet;
use crate::common::volume::Volume;

/// How the file is extended.
#[derive(Clone, Copy, Debug)]
enum Growth {
    Resized,
    Written,
    WrittenUnstable,
}

const GROWTHS: [Growth; 3] = [Growth::Resized, Growth::Written, Growth::WrittenUnstable];

/// Makes the file `size` bytes long; its last byte is 7 if it is written.
async fn grow(volume: &Volume, id: ObjectId, size: u64, growth: Growth) {
    match growth {
        Growth::Resized => volume.resize(id, size).await.expect("room"),
        Growth::Written => {
            volume.write(id, size - 1, vec![7], Stability::FileSync).await.expect("room");
        }
        Growth::WrittenUnstable => {
            volume.write(id, size - 1, vec![7], Stability::Unstable).await.expect("room");
            volume.commit(id).await.expect("it can be written");
        }
    }
}

/// A file of 14 blocks, the last of which was overwritten by a small write with its data in the
/// log, is cut to end `left` bytes within that block, and is extended to `longer` more, before a
/// power cut or after it.
fn comes_back(
    has_log: bool,
    (block, fragment): (u64, u64),
    (left, longer): (u64, u64),
    (growth, before): (Growth, bool),
) -> Result<(), String> {
    let label = format!("log {has_log}, {left} of {block}, {longer} more by {growth:?}");
    let quiet = Quiet::new(64 << 20, has_log.then_some(8 << 20));
    let short = 13 * block + left;
    let size = short + longer;
    quiet.executor.block_on(async {
        let volume = quiet.make((block, fragment)).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let all = vec![0x11; 14 * block as usize];
        volume.write(id, 0, all, Stability::FileSync).await.expect("room");
        volume.settle().await;
        let last = vec![0x22; block as usize];
        volume.write(id, 13 * block, last, Stability::FileSync).await.expect("room");
        volume.resize(id, short).await.expect("shorter");
        if before {
            grow(&volume, id, size, growth).await;
        }
    });
    let back = quiet.cut();
    back.executor.block_on(async {
        let volume = back.open().await;
        let id = volume.lookup(volume.files.root(), "file").await.expect("there");
        if !before {
            assert_eq!(volume.attributes(id).await.size, short, "{label}");
            grow(&volume, id, size, growth).await;
        }
        let data = volume.read(id).await.expect("read");
        assert_eq!(data.len() as u64, size, "{label}");
        let kept = &data[13 * block as usize..short as usize];
        assert!(kept.iter().all(|&byte| byte == 0x22), "{label}: what stays is lost");
        let old = data[short as usize..].iter().filter(|&&byte| byte == 0x11 || byte == 0x22);
        match old.count() {
            0 => Ok(()),
            count => Err(format!("{label}: {count} old bytes are back")),
        }
    })
}

/// Every combination, with blocks and fragments of these sizes.
fn in_every_way((block, fragment): (u64, u64)) -> Result<(), String> {
    for has_log in [false, true] {
        for left in [1, fragment, fragment + 188, block - fragment] {
            for longer in [fragment, block - left, 2 * block] {
                for growth in GROWTHS {
                    for before in [true, false] {
                        let how = (growth, before);
                        comes_back(has_log, (block, fragment), (left, longer), how)?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn what_was_cut_off_within_the_last_block_never_comes_back() {
    assert_eq!(in_every_way((4096, 512)), Ok(()));
    assert_eq!(in_every_way((32_768, 4096)), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_tail_of_which_only_the_last_fragment_is_written_anew_is_found() {
    use crate::common::quiet::finds;
    use ffs::planted::Bug;
    assert!(finds(Bug::FragmentTails, || in_every_way((4096, 512))));
    assert!(finds(Bug::RaggedTail, || in_every_way((4096, 512))));
}
