//! The space that a batch takes of the circle, and entries kept by a log that has grown.

use journal::format::{AREA, LARGEST_BATCH, SEGMENT, SMALLEST};
use journal::{Draft, Journal, at_rest};
use sim::{Image, Prng};

use super::{EPOCH, VOLUME, World, batch_of, draft};

/// Batches of as many entries as fit, of any size: checks the length of each write.
pub(crate) fn long_batches() -> Result<(), String> {
    let world = World::of(Image::zeroed(AREA + 64 * SEGMENT));
    let journal = world.begin(EPOCH);
    let mut prng = Prng::new(5);
    let mut longest = 0;
    for largest in [1, 400, 3000, 20_000, 34_000, 60_000] {
        for _ in 0..6 {
            let lengths = (0..3000).map(|_| prng.index(largest));
            let mut drafts: Vec<Draft> = lengths.map(|length| draft(1, length)).collect();
            let batch = batch_of(&journal, &mut drafts);
            let before = journal.counters().bytes;
            world.run(journal.place(batch, None).1).map_err(|error| error.to_string())?;
            longest = longest.max(journal.counters().bytes - before);
        }
    }
    match longest {
        LARGEST_BATCH => Ok(()),
        longest => Err(format!("the longest batch had {longest} bytes, not {LARGEST_BATCH}")),
    }
}

/// A log is stopped with entries at rest, and grows; the next epoch takes them over, and power
/// fails before the volume bears it. The entries at rest are still there.
pub(crate) fn grown_log() -> Result<(), String> {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    world.place(&journal, vec![draft(1, 20_000); 3], Some(0));
    world.run(journal.close(0)).map_err(|error| error.to_string())?;
    for size in [SMALLEST + SEGMENT, SMALLEST + 7 * SEGMENT, 4 * SMALLEST] {
        let mut image = Image::zeroed(size);
        image.write(0, &world.disk.contents().bytes());
        let grown = World::of(image);
        let rest = async |world: &World| at_rest(&*world.disk, |_| ()).await.ok().flatten();
        let kept = grown.run(rest(&grown)).ok_or("nothing is at rest")?;
        let entries = grown.walk(&kept);
        let begun = grown.run(Journal::begin(grown.device(), EPOCH + 1, VOLUME, Some(&kept)));
        let journal = begun.map_err(|error| error.to_string())?;
        // The added space has room for rewritten entries that were at rest, and for two batches.
        let grows = size == 4 * SMALLEST;
        if journal.capacity() != if grows { size } else { SMALLEST } - AREA {
            return Err(format!("its circle has {} bytes of {size}", journal.capacity()));
        }
        grown.place(&journal, vec![draft(7, 30_000); 4], Some(journal.tail()));
        let cut = grown.again();
        let left = cut.run(rest(&cut)).ok_or("nothing is at rest after the cut")?;
        if cut.walk(&left) != entries {
            return Err(format!("what was at rest is gone, in {size} bytes"));
        }
        // Once the epoch is borne, the whole circle is available.
        journal.bear();
        for sequence in 0..100 {
            let placed = grown.place(&journal, vec![draft(sequence, 60_000)], None);
            let (live, found) = grown.again().entries(EPOCH + 1);
            if found != placed || live.tail != journal.tail() {
                return Err(format!("entry {sequence} in {size} bytes"));
            }
        }
    }
    Ok(())
}
