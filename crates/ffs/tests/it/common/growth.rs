//! A file that grows inside its last fragment: nothing is allocated, so no map and no pointer
//! changes, and only the order of the file's new bytes and its new size matters.

use runtime::Timestamp;
use sim::{Choice, Disk, Executor, Image, Platter, Trace};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, Stability};

use super::Seeded;
use super::cutting::{after_cut, sizes};
use super::volume::try_open;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const FRAGMENT: usize = 512;
/// Content of the file at first, and in the end.
const OLD: [u8; FRAGMENT / 4] = [0xaa; FRAGMENT / 4];
const NEW: [u8; FRAGMENT / 2] = [0xbb; FRAGMENT / 2];

/// Cuts the power at every event of such a write, in every way that a cut may leave the disk.
/// Returns the cut that leaves neither the old file nor the new one.
pub(crate) fn inside_the_last_fragment() -> Result<(), String> {
    let trace = record();
    let mut both = [false; 2];
    for (position, platter) in trace.cuts() {
        for choice in Choice::subsets(&platter) {
            let is_new = left(&platter, &choice);
            let is_new = is_new.map_err(|wrong| format!("cut after {position} events: {wrong}"))?;
            both[usize::from(is_new)] = true;
        }
    }
    assert_eq!(both, [true; 2], "cuts before the write and behind it");
    Ok(())
}

/// The trace between the call and its answer.
fn record() -> Trace {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, Image::zeroed(8 << 20));
    executor.block_on(async {
        let options = sizes(8 * FRAGMENT as u64, FRAGMENT as u64);
        mkfs(&*disk, &options, &Seeded::new(7), NOW).await.expect("the disk holds it");
        let opened = try_open(executor.runtime(), disk.clone()).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        volume.write(id, 0, OLD.to_vec(), Stability::FileSync).await.expect("there is room");
        volume.settle().await;
        let free = volume.space().await.free_bytes;
        disk.start_trace();
        let at = OLD.len() as u64;
        volume.write(id, at, NEW.to_vec(), Stability::FileSync).await.expect("there is room");
        assert_eq!(volume.space().await.free_bytes, free, "it stays in its fragment");
        disk.trace()
    })
}

/// Whether the file is the new one; else it must be the old one.
fn left(platter: &Platter, choice: &Choice) -> Result<bool, String> {
    let (executor, disks) = after_cut(1, platter.image(choice));
    executor.block_on(async {
        let opened = try_open(executor.runtime(), disks.home.clone()).await;
        let volume = opened.map_err(|error| error.to_string())?.0;
        let id = volume.lookup(volume.files.root(), "file").await;
        let data = volume.read(id.map_err(|error| error.to_string())?).await;
        let data = data.map_err(|error| error.to_string())?;
        let is_new = data == [&OLD[..], &NEW[..]].concat();
        if !is_new && data != OLD {
            return Err(format!("{} bytes, which nobody wrote", data.len()));
        }
        Ok(is_new)
    })
}
