//! Every device has the same contents as an array after the same calls, whoever makes them.

use block::{Buffer, Durability};
use bytes::Bytes;
use futures::future::join_all;
use proptest::prelude::*;

use crate::common::{Driven, every_device};

const SECTORS: usize = 320;
const PAGE: usize = 4096;

/// A call of all devices, and of an array.
#[derive(Clone, Debug)]
enum Step {
    /// Writes from a sector on, in pieces of these lengths and one that fills the last sector.
    Write {
        sector: usize,
        pieces: Vec<usize>,
        value: u8,
        through: bool,
    },
    /// Writes whole sectors from one piece that is aligned in memory.
    Aligned {
        sector: usize,
        count: usize,
        value: u8,
        through: bool,
    },
    /// Writes many pages from as many aligned pieces: large transfers may take another path.
    Pages {
        page: usize,
        count: usize,
        value: u8,
        through: bool,
    },
    /// Writes single sectors, all at once.
    Scatter {
        sectors: Vec<usize>,
        value: u8,
    },
    Read {
        sector: usize,
        count: usize,
    },
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let pieces = prop::collection::vec(0..1500_usize, 1..6);
    prop_oneof![
        4 => (0..SECTORS, pieces, any::<u8>(), any::<bool>()).prop_map(
            |(sector, pieces, value, through)| Step::Write { sector, pieces, value, through }
        ),
        3 => (0..SECTORS, 1..SECTORS, any::<u8>(), any::<bool>()).prop_map(
            |(sector, count, value, through)| Step::Aligned { sector, count, value, through }
        ),
        2 => (0..SECTORS * 512 / PAGE, 14..20_usize, any::<u8>(), any::<bool>()).prop_map(
            |(page, count, value, through)| Step::Pages { page, count, value, through }
        ),
        1 => (prop::collection::btree_set(0..SECTORS, 1..10), any::<u8>()).prop_map(
            |(sectors, value)| Step::Scatter { sectors: sectors.into_iter().collect(), value }
        ),
        2 => (0..SECTORS, 0..SECTORS).prop_map(|(sector, count)| Step::Read { sector, count }),
        1 => Just(Step::Flush),
    ]
}

/// Pieces of the given lengths, as far as the disk has room, that fill whole sectors together.
fn pieces(sector: usize, lengths: &[usize], value: u8) -> Vec<Bytes> {
    let mut room = (SECTORS - sector) * 512;
    let mut data: Vec<Bytes> = Vec::new();
    for (index, &length) in lengths.iter().enumerate() {
        let length = length.min(room);
        room -= length;
        data.push(vec![value.wrapping_add(index as u8); length].into());
    }
    data.push(vec![value; room % 512].into());
    data
}

fn write(driven: &Driven, offset: usize, data: Vec<Bytes>, through: bool) {
    let durability = if through { Durability::Through } else { Durability::Plain };
    driven.run(driven.device.write(offset as u64, data, durability)).expect("a write");
}

fn perform(driven: &Driven, model: &mut [u8], step: &Step) {
    let device = &driven.device;
    match step {
        Step::Write { sector, pieces: lengths, value, through } => {
            let data = pieces(*sector, lengths, *value);
            let whole = data.concat();
            model[sector * 512..sector * 512 + whole.len()].copy_from_slice(&whole);
            write(driven, *sector * 512, data, *through);
        }
        Step::Aligned { sector, count, value, through } => {
            let length = (*count).min(SECTORS - sector) * 512;
            let target = &mut model[sector * 512..][..length];
            target.fill(*value);
            write(driven, *sector * 512, vec![Buffer::copied(target).freeze()], *through);
        }
        Step::Pages { page, count, value, through } => {
            let count = (*count).min(SECTORS * 512 / PAGE - page);
            let target = &mut model[page * PAGE..][..count * PAGE];
            let number = |index: usize| value.wrapping_add(index as u8);
            target.chunks_mut(PAGE).enumerate().for_each(|(index, page)| page.fill(number(index)));
            let data = target.chunks(PAGE).map(|page| Buffer::copied(page).freeze()).collect();
            write(driven, page * PAGE, data, *through);
        }
        Step::Scatter { sectors, value } => {
            let writes = sectors.iter().map(|sector| {
                model[sector * 512..][..512].fill(*value);
                let data = vec![vec![*value; 512].into()];
                device.write(*sector as u64 * 512, data, Durability::Plain)
            });
            let writes: Vec<_> = writes.collect();
            for result in driven.run(join_all(writes)) {
                result.expect("a write");
            }
        }
        Step::Read { sector, count } => {
            let length = (*count).min(SECTORS - sector) * 512;
            let read = device.read(*sector as u64 * 512, Buffer::zeroed(length));
            let bytes = driven.run(read).expect("a read");
            assert_eq!(bytes[..], model[sector * 512..][..length], "{}", driven.name);
        }
        Step::Flush => driven.run(device.flush()).expect("a flush"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_device_does_what_an_array_does(steps in prop::collection::vec(step(), 1..25)) {
        for (driven, scratch) in every_device("agree", SECTORS as u64 * 512) {
            let mut model = vec![0; SECTORS * 512];
            for step in &steps {
                perform(&driven, &mut model, step);
            }
            driven.run(driven.device.close()).expect("a close");
            let bytes = std::fs::read(scratch.path()).expect("the file");
            prop_assert_eq!(&bytes, &model, "{}", driven.name);
        }
    }
}
