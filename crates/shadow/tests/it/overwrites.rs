//! Data that is overwritten again and again, even within one update: acknowledged data is there
//! after a cut.

use futures::future::{join, join_all};
use sim::{Choice, Disk, Executor, Mark, Prng, Trace};
use vfs::{FileSystem, Stability};

use crate::bench::{Setting, findings, made, opened};

/// Bytes of a write: of so many blocks that places are soon reused, or so few that they go with the
/// update.
const LENGTHS: [usize; 2] = [32 << 10, 12 << 10];
const ROUNDS: u8 = 16;
/// Writes at once. All but the first are in one update, and each frees the blocks of the one
/// before.
const AT_ONCE: u8 = 4;

fn record(length: usize) -> Trace {
    let executor = Executor::new(6);
    executor.block_on(async {
        let disk = made(&executor, &Setting::of(4, 64, 1 << 20)).await;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let file = volume.create(volume.files.root(), "one").await.expect("it is new");
        disk.start_trace();
        for round in 0..ROUNDS {
            let writes = (1..=AT_ONCE).map(|number| {
                let data = vec![round * AT_ONCE + number; length];
                volume.write(file, 0, data, Stability::FileSync)
            });
            for written in join_all(writes).await {
                written.expect("there is room");
            }
            disk.mark(Mark::Number(u64::from(round) + 1));
        }
        disk.trace()
    })
}

/// Contents of the file after a cut.
fn left(trace: &Trace, position: usize, seed: u64) -> Result<Vec<u8>, String> {
    let platter = trace.platter_at(position);
    let image = platter.image(&Choice::random(&platter, &mut Prng::new(seed)));
    findings(&image)?;
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let file = volume.lookup(volume.files.root(), "one").await;
        let read = volume.read(file.map_err(|error| error.to_string())?).await;
        read.map_err(|error| error.to_string())
    })
}

pub(crate) fn overwrites_stay() -> Result<(), String> {
    LENGTHS.into_iter().try_for_each(overwrites_of)
}

fn overwrites_of(length: usize) -> Result<(), String> {
    let trace = record(length);
    for position in 0..=trace.events().len() {
        let rounds = trace.marks_before(position).filter_map(|mark| match mark {
            Mark::Number(number) => Some(*number as u8),
            _ => None,
        });
        let answered = rounds.max().unwrap_or(0) * AT_ONCE;
        for seed in [1, 2].map(|turn| 2 * position as u64 + turn) {
            let wrong = |wrong: String| format!("{length}, event {position}, seed {seed}: {wrong}");
            let left = left(&trace, position, seed).map_err(wrong)?;
            let first = left.first().copied().unwrap_or(0);
            let is_one = left.iter().all(|&byte| byte == first);
            // Any of the last four writes at once may be the last.
            if !is_one || first + AT_ONCE <= answered || answered > 0 && left.len() != length {
                return Err(wrong(format!("{answered} were answered, and {first} is left")));
            }
        }
    }
    Ok(())
}

/// A read beside a write on its way returns the old or the new data, and no error.
pub(crate) fn what_is_on_its_way_is_read() -> Result<(), String> {
    let executor = Executor::new(8);
    executor.block_on(async {
        let disk = made(&executor, &Setting::of(4, 64, 1 << 20)).await;
        let volume = opened(executor.runtime(), &disk).await?;
        let file = volume.create(volume.files.root(), "one").await.expect("it is new");
        for round in 1..=ROUNDS {
            let write = volume.write(file, 0, vec![round; LENGTHS[1]], Stability::FileSync);
            let reads = join_all((0..AT_ONCE).map(|_| volume.read(file)));
            let (written, read) = join(write, reads).await;
            written.map_err(|error| format!("round {round}: {error}"))?;
            for read in read {
                let read = read.map_err(|error| format!("round {round}, a read: {error}"))?;
                if read.iter().any(|&byte| byte != round && byte != round - 1) {
                    return Err(format!("round {round}: other bytes were read"));
                }
            }
        }
        Ok(())
    })
}

#[test]
fn a_read_while_a_write_is_on_its_way_gets_one_or_the_other() {
    assert_eq!(what_is_on_its_way_is_read(), Ok(()));
}

#[test]
fn a_write_over_old_data_is_there_as_a_whole_or_not_at_all() {
    assert_eq!(overwrites_stay(), Ok(()));
}
