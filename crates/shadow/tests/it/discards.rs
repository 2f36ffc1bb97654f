//! Discards on a device that claims to be a set: of unused units, and of nothing else.

use std::rc::Rc;

use block::Stripe;
use enginekit::random::Seeded;
use shadow::mkfs;
use sim::{Choice, Disk, Executor, Image, Options, Prng, Trace};
use vfs::{FileSystem, Stability};

use crate::bench::{NOW, Setting, findings, opened};

/// Size of a file: several stripes.
const LENGTH: usize = 192 << 10;
const ROUNDS: u8 = 24;

/// A disk that claims to have stripes, with a new volume of zones of 16 stripes.
async fn made(executor: &Executor) -> Rc<Disk> {
    let setting = Setting::of(8, 512, 4 << 20);
    let stripe = Some(Stripe { unit: 16 << 10, width: 3 });
    let options = Options { stripe, ..Options::default() };
    let disk = Disk::with_options(executor, Image::zeroed(setting.bytes), options);
    mkfs(&*disk, &setting.options, &Seeded::new(7), NOW).await.expect("the disk holds it");
    disk
}

/// Overwrites, removes and makes files.
fn record() -> Result<(Trace, u64), String> {
    let executor = Executor::new(5);
    executor.block_on(async {
        let disk = made(&executor).await;
        let volume = opened(executor.runtime(), &disk).await?;
        let root = volume.files.root();
        for name in ["one", "other"] {
            let file = volume.create(root, name).await.expect("there is room");
            let written = volume.write(file, 0, vec![0; LENGTH], Stability::FileSync).await;
            written.expect("there is room");
        }
        disk.start_trace();
        for round in 1..=ROUNDS {
            let name = if round % 2 == 0 { "one" } else { "other" };
            let file = volume.lookup(root, name).await.expect("it is there");
            let data = vec![round; LENGTH];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
            let read = volume.read(file).await.map_err(|error| format!("{round}: {error}"))?;
            if read.iter().any(|&byte| byte != round) {
                return Err(format!("round {round}: other bytes were read"));
            }
        }
        Ok((disk.trace(), disk.counters().discards))
    })
}

/// Whether each file has the contents of one round, whatever a cut leaves.
pub(crate) fn cuts_leave_one_or_the_other() -> Result<(), String> {
    let (trace, discards) = record()?;
    if discards < 10 {
        return Err(format!("{discards} discards"));
    }
    for position in 0..=trace.events().len() {
        let wrong = |wrong: String| format!("event {position}: {wrong}");
        let platter = trace.platter_at(position);
        let mut prng = Prng::new(position as u64);
        let image = platter.image(&Choice::random(&platter, &mut prng));
        findings(&image).map_err(wrong)?;
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, image);
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.map_err(wrong)?;
            for name in ["one", "other"] {
                let file = volume.lookup(volume.files.root(), name).await;
                let file = file.map_err(|error| wrong(error.to_string()))?;
                let read = volume.read(file).await.map_err(|error| wrong(error.to_string()))?;
                if read.len() != LENGTH || read.iter().any(|&byte| byte != read[0]) {
                    return Err(wrong(format!("{name} is mixed")));
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn what_is_needed_is_not_discarded() {
    assert_eq!(cuts_leave_one_or_the_other(), Ok(()));
}
