//! Blocks of a volume of engine `lfs` to which no pointer leads: the contents of a summary, and
//! summaries, regions and blocks of the table. The head and the checksum catch most damage; so the
//! bytes get matching ones, and the decoder must judge their contents.

use cow::edits::{Change, Edits};
use cow::format::head::{seal, seal_alone};
use cow::{HIGHEST, Head, Kind, Place, Run, UNIT};
use lfs::format::bits::Bits;
use lfs::format::head::VolumeHead;
use lfs::format::kind;
use lfs::format::region::{Counts, Region};
use lfs::format::summary::{Contents, LoggedRow, Summary};
use lfs::format::table;
use sim::Prng;
use vnode::chain::Chain;

use super::{Target, some_bytes};

pub(super) const CONTENTS: Target = Target {
    name: "lfs-contents",
    check: check_contents,
    generate: generate_contents,
    longest: 16 << 10,
    memory: 256 << 10,
};
pub(super) const BLOCK: Target = Target {
    name: "lfs-block",
    check: check_block,
    generate: generate_block,
    longest: UNIT,
    memory: 256 << 10,
};

const SECRET: [u8; 16] = [5; 16];
/// The place of a summary, and its epoch.
const AT: (u64, u64) = (77, 9);

fn check_contents(bytes: &[u8]) {
    let Some(contents) = Contents::read(bytes) else { return };
    let written = contents.write();
    assert_eq!(Contents::read(&written), Some(contents.clone()), "it is read as it was written");
    for edit in contents.edits.all() {
        if let Change::Bytes(at, range) = &edit.change {
            assert!((size_of::<Head>()..UNIT).contains(at) && at + range.len() <= UNIT);
        }
    }
}

fn generate_contents(prng: &mut Prng) -> Vec<u8> {
    let mut edits = Edits::default();
    for _ in 0..prng.below(4) {
        let name = (prng.below(1 << 32), prng.below(5) as u8, prng.below(1 << 29));
        let at = prng.between(size_of::<Head>() as u64, UNIT as u64 - 1) as usize;
        let bytes = some_bytes(prng, 40);
        edits.add_bytes(name, at, &bytes[..bytes.len().min(UNIT - at)]);
        edits.add_gone(name);
    }
    let mut present = Bits::default();
    (0..prng.below(5)).for_each(|_| present.set(prng.below(256)));
    let row = LoggedRow { row: prng.next_u64() as u32, place: prng.next_u64(), present };
    let chain = Chain { ino: prng.next_u64(), generation: 3, size: prng.chance(1, 2).then_some(7) };
    let contents = Contents {
        counts: Counts { next_ino: prng.next_u64(), files: 9, ..Counts::default() },
        chains: vec![chain; prng.index(3)],
        rows: vec![row; prng.index(3)],
        blocks: vec![(prng.next_u64(), prng.next_u64()); prng.index(5)],
        freed: vec![Run { start: prng.next_u64(), length: prng.below(1 << 32) }; prng.index(5)],
        answers: vec![some_bytes(prng, 60); prng.index(3)],
        edits,
    };
    contents.write()
}

/// Bytes of a line of the table, and the position of its owner there.
const LINE: usize = 96;
const OWNER: usize = 16;

/// A block with this body whose head and checksum fit.
fn sealed(kind: Kind, (owner, index): (u64, u64), body: &[u8]) -> Vec<u8> {
    let mut block = vec![0; UNIT];
    let length = body.len().min(UNIT - size_of::<Head>());
    block[size_of::<Head>()..][..length].copy_from_slice(&body[..length]);
    seal(&mut block, Place { kind, owner, level: 0, index }, 3, &SECRET);
    seal_alone(&mut block);
    block
}

fn check_block(bytes: &[u8]) {
    let (place, epoch) = AT;
    let block = sealed(kind::SUMMARY, (epoch, place), bytes);
    if let Some(summary) = Summary::read(&block, place, epoch, &SECRET) {
        let again = summary.write(place, epoch, &SECRET);
        assert_eq!(Summary::read(&again, place, epoch, &SECRET), Some(summary));
    }
    let block = sealed(kind::REGION, (0, 1), bytes);
    if let Some(region) = Region::read(&block, 1, &SECRET) {
        assert!(region.trees.iter().all(|tree| tree.height <= HIGHEST));
        assert_eq!(Region::read(&region.write(1, &SECRET), 1, &SECRET), Some(region));
    }
    let mut lines = bytes.to_vec();
    let (mut owners, mut are_known) = (0, true);
    for line in lines.chunks_exact_mut(LINE).take(table::ROWS) {
        let owner = u64::from(line[OWNER] % 8).saturating_sub(4); // most are known
        line[OWNER..OWNER + 8].copy_from_slice(&owner.to_le_bytes());
        (owners, are_known) = (owners + 1, are_known && owner < 3);
    }
    let read = table::read(&sealed(kind::TABLE, (0, 4), &lines), 4, &SECRET);
    assert!(read.is_some() == are_known || owners < table::ROWS, "lines with known owners");
    if let Some((number, lines)) = read {
        let again = table::write(4, &lines, number, &SECRET);
        assert_eq!(table::read(&again, 4, &SECRET), Some((3, lines)));
    }
    if let Some(head) = VolumeHead::read(&sealed(kind::HEAD, (0, 0), bytes)) {
        let _ = head.shape.is_legal(); // whatever the sizes are
    }
}

fn generate_block(prng: &mut Prng) -> Vec<u8> {
    some_bytes(prng, UNIT - size_of::<Head>())
}
