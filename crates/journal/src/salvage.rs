//! Reading what is left of a damaged log.
//!
//! The chain of entries is broken, so each segment is read, and each entry of the epoch that is
//! intact counts. Nothing says what the missing ones held: the caller decides what the others mean
//! without them.

use std::collections::BTreeMap;

use block::BlockDevice;

use crate::error::JournalError;
use crate::format::{AREA, HEADER_SIZE, Header, SEGMENT, SEGMENT_UNITS, Slot, UNIT};
use crate::reader::{Entry, Live};
use crate::slots::{capacity_of, read};

/// The intact entries of a damaged log.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// The part of the log that they are in.
    pub live: Live,
    /// Entries in order, from the newest known head on.
    pub entries: Vec<Entry>,
    /// Recno of the entry behind the last gap, if there is a gap.
    pub behind_gap: Option<u64>,
}

/// The intact entries of the epoch of `slot`, whatever is damaged; `None` if there are none.
///
/// # Errors
/// [`JournalError`].
pub async fn salvage(
    device: &dyn BlockDevice,
    slot: Slot,
) -> Result<Option<Salvaged>, JournalError> {
    let capacity = slot.capacity.get().min(capacity_of(device.geometry().size)?);
    let mut found = BTreeMap::new();
    for segment in 0..capacity / SEGMENT {
        let bytes = read(device, AREA + segment * SEGMENT, SEGMENT).await?;
        let mut unit = 0;
        while unit < SEGMENT_UNITS {
            let bytes = bytes.slice((unit * UNIT) as usize..);
            let position = (segment * SEGMENT_UNITS + unit) * UNIT;
            let header = Header::read(&bytes).filter(|header| {
                header.epoch == slot.epoch
                    && header.recno >= slot.start
                    && header.recno.get() * UNIT % slot.capacity.get() == position
                    && header.fits(&bytes)
            });
            let Some(header) = header else {
                unit += 1;
                continue;
            };
            let body = bytes.slice(HEADER_SIZE..header.length.get() as usize);
            unit += u64::from(header.size.get()) / UNIT;
            found.insert(header.recno.get(), Entry { header, body });
        }
    }
    Ok(in_order(slot, found))
}

fn in_order(slot: Slot, mut found: BTreeMap<u64, Entry>) -> Option<Salvaged> {
    // A batch without its first entry may be torn: the head that it names was none yet.
    let is_begun = |entry: &Entry| found.contains_key(&entry.header.batch.get());
    let heads = found.values().filter(|entry| is_begun(entry));
    let head = heads.map(|entry| entry.header.curhead.get()).max().unwrap_or(0);
    let head = head.max(slot.curhead.get());
    found = found.split_off(&head);
    let (mut behind_gap, mut tail) = (None, head);
    for (&recno, entry) in &found {
        if recno != tail {
            behind_gap = Some(recno);
        }
        tail = recno + u64::from(entry.header.size.get()) / UNIT;
    }
    let live = Live { slot, head, tail, search_reads: 0 };
    let entries: Vec<Entry> = found.into_values().collect();
    (!entries.is_empty()).then_some(Salvaged { live, entries, behind_gap })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use sim::{Disk, Executor, Image};

    use super::*;
    use crate::format::SMALLEST;
    use crate::{Draft, Journal, peek};

    #[test]
    fn what_is_intact_is_found_on_both_sides_of_a_gap() {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, Image::zeroed(SMALLEST));
        executor.block_on(async {
            let device: Rc<dyn BlockDevice> = disk.clone();
            let journal = Journal::begin(device, 7, 8, None).await.expect("there is room");
            let mut recnos = Vec::new();
            for number in 0..300_u64 {
                let draft = Draft { body: number.to_le_bytes().to_vec(), ..Draft::default() };
                let head = recnos.len().checked_sub(100).map(|first| recnos[first]);
                let (placed, written) = journal.place(vec![draft], head);
                written.await.expect("the disk is good");
                recnos.extend(placed);
            }
            let slot = peek(&*disk).await.expect("readable").expect("it was written");
            let whole = salvage(&*disk, slot).await.expect("readable").expect("entries");
            assert_eq!((whole.entries.len(), whole.behind_gap), (101, None));
            let at = AREA + recnos[250] * UNIT % slot.capacity.get();
            disk.write(at, vec![vec![0; 512].into()], block::Durability::Plain)
                .await
                .expect("good");
            let left = salvage(&*disk, slot).await.expect("readable").expect("entries");
            assert_eq!((left.entries.len(), left.behind_gap), (100, Some(recnos[251])));
            assert_eq!((left.live.head, left.live.tail), (whole.live.head, whole.live.tail));
        });
    }
}
