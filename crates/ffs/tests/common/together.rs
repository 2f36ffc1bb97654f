//! Large writes side by side under policy `log`: whatever a file is said to hold after a cut was on
//! the disk before the log told of it.

use std::rc::Rc;

use ffs::mkfs::mkfs;
use futures::future::join_all;
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, Stability};

use super::Seeded;
use super::cutting::{Pair, acknowledged, acknowledgement, after_cut, random_cuts, sizes};
use super::volume::try_open_pair;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const WRITERS: usize = 12;
const ROUNDS: usize = 6;
/// Larger than what rides in an entry.
const LARGE: usize = 24 << 10;

fn name(writer: usize, round: usize) -> String {
    format!("file-{writer}-{round}")
}

fn content(writer: usize, round: usize) -> Vec<u8> {
    vec![(writer * ROUNDS + round) as u8 | 0x80; LARGE]
}

/// Writers that each make one file after the other; says what a cut shows that may not be.
pub(crate) fn large_writes_side_by_side(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let traces = executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = Rc::new(opened.unwrap_or_else(|error| panic!("{error}")).0);
        disks.map(|disk| disk.start_trace());
        let writers = (0..WRITERS).map(|writer| {
            let (volume, home) = (volume.clone(), disks.home.clone());
            async move {
                for round in 0..ROUNDS {
                    let made = volume.create(volume.files.root(), &name(writer, round)).await;
                    let (id, data) = (made.expect("new"), content(writer, round));
                    volume.write(id, 0, data, Stability::FileSync).await.expect("room");
                    home.mark(acknowledgement(writer as u64, round + 1));
                }
            }
        });
        join_all(writers).await;
        disks.map(|disk| disk.trace())
    });
    for cut in random_cuts(&traces, seed, 150) {
        let (executor, disks) = after_cut(cut.seed, cut.image()?);
        executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.map_err(|error| error.to_string())?.0;
            for writer in 0..WRITERS {
                let done = acknowledged(&traces.home, cut.position, writer as u64);
                for round in 0..ROUNDS {
                    let found = volume.lookup(volume.files.root(), &name(writer, round)).await;
                    let data = match found {
                        Ok(id) => volume.read(id).await.map_err(|error| error.to_string())?,
                        Err(_) => Vec::new(),
                    };
                    let may_be_new = data.is_empty() && round >= done;
                    if !may_be_new && data != content(writer, round) {
                        let (label, name) = (cut.label(), name(writer, round));
                        return Err(format!("{label}: {name} holds something else"));
                    }
                }
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        })?;
    }
    Ok(())
}
