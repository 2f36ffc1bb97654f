//! Starts on logs with records that no set has written, or that contradict each other.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use futures::future::join_all;
use raid::label::{DATA_START, Label};
use raid::layout::Level;
use raid::record::{Change, Place, Slots, encode};
use sim::{Disk, Executor};

use crate::losses::{all_of, bytes, copies, latest_record, new_disks, new_set, opened};

const BLOCK: u64 = 4096;

/// Disks of a stopped set, its label, and its contents.
fn stopped(executor: &Executor, level: Level) -> (Vec<Rc<Disk>>, Label, Vec<u8>) {
    let disks = new_disks(executor, 3);
    let (label, bytes) = executor.block_on(async {
        let set = new_set(executor, &disks, level).await;
        let bytes = bytes(&set, 9);
        set.write(0, vec![bytes.clone().into()], Durability::Plain).await.expect("all are there");
        set.flush().await.expect("nothing fails");
        let label = set.label();
        set.close().await.expect("nothing fails");
        (label, bytes)
    });
    (copies(executor, &disks), label, bytes)
}

/// Writes a record into the ring of a disk.
async fn forge(disk: &Disk, at: u64, place: &Place, change: Change) {
    let (pieces, _) = encode(place, &[change]);
    disk.write(DATA_START + at, pieces, Durability::Through).await.expect("nothing fails");
}

#[test]
fn a_record_that_leads_out_of_the_set_is_passed_over() {
    for level in [Level::Mirrored, Level::Parity] {
        let executor = Executor::new(1);
        let (disks, label, written) = stopped(&executor, level);
        let unit = label.layout.unit;
        let end = label.layout.rows * unit;
        let behind = end + raid::label::map_size(label.layout.rows);
        executor.block_on(async {
            for change in [
                Change::zeros(Slots(0b1001), 0, BLOCK),
                Change::zeros(Slots(1 << 31), 0, BLOCK),
                Change::zeros(Slots(0b111), behind, BLOCK),
                Change::zeros(Slots(0b111), end - BLOCK, 2 * BLOCK),
                Change::zeros(Slots(0b111), u64::MAX - BLOCK + 1, BLOCK),
                Change::zeros(Slots(0b111), 512, BLOCK),
                Change::zeros(Slots(0b111), 0, 0),
                Change::vacated(end),
            ] {
                let disks = copies(&executor, &disks);
                let latest = join_all(disks.iter().map(|disk| latest_record(disk, &label))).await;
                let latest = latest.into_iter().flatten();
                let latest = latest.max_by_key(|(record, _)| record.place.sequence);
                let (latest, start) = latest.expect("there are records");
                let (sequence, previous) = (latest.place.sequence + 1, latest.checksum);
                let place = Place { sequence, tail: sequence, previous, ..latest.place };
                for disk in &disks {
                    forge(disk, start + BLOCK, &place, change.clone()).await;
                }
                let set = opened(&executor, &disks).await.expect("it is no record");
                assert!(all_of(&set).await == written, "{level}: {change:?}");
            }
        });
    }
}

/// One member of three has another record with the latest number. Returns the data that this record
/// would change.
fn changed_by_one(slot: usize) -> Vec<u8> {
    let executor = Executor::new(2);
    let (disks, label, written) = stopped(&executor, Level::Mirrored);
    executor.block_on(async {
        let (latest, start) = latest_record(&disks[slot], &label).await.expect("it has some");
        let data = vec![vec![7; BLOCK as usize].into()];
        let place = Place { tail: latest.place.sequence, ..latest.place };
        forge(&disks[slot], start, &place, Change::new(Slots(0b111), 0, data)).await;
        let set = opened(&executor, &disks).await.expect("all are there");
        let read = set.read(0, Buffer::zeroed(BLOCK as usize)).await.expect("all are there");
        assert!(read[..] == written[..BLOCK as usize] || read[..] == [7; BLOCK as usize]);
        all_of(&set).await.iter().zip(&written).map(|(now, before)| now ^ before).collect()
    })
}

#[test]
fn of_two_records_with_one_number_the_one_that_more_members_have_is_it() {
    let is_as_it_was = |slot| changed_by_one(slot).iter().all(|&byte| byte == 0);
    assert!([0, 1, 2].into_iter().all(is_as_it_was));
    #[cfg(feature = "planted-bugs")]
    assert!(!crate::with(raid::planted::Bug::FirstRecords, || is_as_it_was(0)));
}
