//! Blocks of a volume of engine `shadow`. The checksum and the head catch most damage; so the bytes
//! get matching ones, and the decoder must judge their contents.
//!
//! The current code writes the head, so that an input means the same in every version of the
//! format.

use std::ops::Range;
use std::rc::Rc;

use cow::chains::CHAINS;
use cow::format::head;
use cow::format::inode::{INLINE, Record};
use cow::format::snapshot::{
    Died, LINES, LISTS, Line, List, RUNS, Snapshots, State, Told, is_empty,
};
use cow::{HIGHEST, INODES, Kind, Place, Pointer, Root, Run, Secret, Span, Tree, UNIT, VERSION};
use runtime::Timestamp;
use shadow::format::anchor::{Anchor, LABEL, NoAnchor, Shape, ZONES, is_begun};
use shadow::format::kind;
use shadow::format::log::{self, Logged, lines_of};
use shadow::format::record::{self, Change};
use shadow::format::superblock::{LISTED, Listed, Superblock};
use sim::Prng;
use vfs::Name;
use vnode::chain::Chain;
use zerocopy::IntoBytes;

use crate::input::Input;
use crate::targets::Target;

pub(in crate::targets) const ANCHOR: Target = Target {
    name: "shadow-anchor",
    check: check_anchor,
    generate: generate_anchor,
    longest: 400,
    memory: 256 << 10,
};
pub(in crate::targets) const SUPERBLOCK: Target = Target {
    name: "shadow-superblock",
    check: check_superblock,
    generate: generate_superblock,
    longest: UNIT,
    memory: 256 << 10,
};
pub(in crate::targets) const BLOCK: Target = Target {
    name: "shadow-block",
    check: check_block,
    generate: generate_block,
    longest: UNIT,
    memory: 1 << 20,
};

/// Offsets of these numbers in a head.
const INDEX: Range<usize> = 24..32;
const BIRTH: Range<usize> = 32..40;
/// The length of a head.
const HEAD: usize = 64;
/// The shape of the volume.
const SHAPE: Shape = Shape { units: 256, zone: 16, block: 1 };

fn number(block: &[u8], at: Range<usize>) -> u64 {
    u64::from_le_bytes(block[at].try_into().expect("8 bytes"))
}

fn whole(bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes.to_vec();
    block.resize(UNIT, 0);
    block
}

/// The same bytes with a matching head and checksum.
fn sealed(block: &[u8], kind: Kind, index: u64) -> Vec<u8> {
    let mut block = block.to_vec();
    let (birth, secret) = (number(&block, BIRTH), head::secret(&block));
    let place = Place { kind, owner: 0, level: 0, index };
    head::seal(&mut block, place, birth, &secret);
    head::seal_alone(&mut block);
    assert!(head::is(&block, place, birth, &secret) && head::index(&block) == index);
    assert!(head::alone(&block, kind).is_some_and(|(by, _)| by == birth));
    block
}

fn check_anchor(bytes: &[u8]) {
    let _ = (Anchor::begins(bytes), is_begun(bytes));
    let block = whole(bytes);
    let as_it_is = Anchor::read(&block);
    let block = sealed(&block, kind::ANCHOR, number(&block, BIRTH) % 2);
    assert!(Anchor::begins(&block) && !is_begun(&block));
    let judged = Anchor::read(&block);
    assert!(as_it_is.is_err() || as_it_is == judged, "a checksum that fits changes nothing");
    assert!(!matches!(judged, Err(NoAnchor::Version(_))), "it is of this version");
    let Ok(anchor) = judged else { return };
    check_shape(&anchor.shape);
    assert!((1..=ZONES).contains(&anchor.zones.len()));
    for &zone in &anchor.zones {
        assert!(u64::from(zone) < anchor.shape.zones(), "zone {zone} is on the disk");
    }
    assert!(anchor.label.len() <= LABEL);
    let again = anchor.write();
    assert_eq!(Anchor::read(&*again), Ok(anchor), "what is written is read");
}

/// Every address of a legal shape is on the disk.
fn check_shape(shape: &Shape) {
    assert!(shape.is_legal());
    let last = shape.zones() - 1;
    for zone in [0, 1, last / 2, last].map(|zone| zone.min(last)) {
        let (all, usable) = (shape.zone(zone), shape.usable(zone));
        assert!(all.start <= usable.start && usable.start < usable.end && usable.end < all.end);
        assert!(all.end <= shape.units - 2, "the last anchors are behind zone {zone}");
        assert!([0, 1].iter().all(|&slot| usable.end <= shape.slot(zone, slot)));
        assert!([0, 1].iter().all(|&slot| shape.slot(zone, slot) < all.end));
        for unit in [all.start, usable.end - 1, all.end - 1] {
            assert_eq!(shape.zone_of(unit), zone);
        }
        assert!(shape.may_hold(&Run { start: usable.start, length: usable.end - usable.start }));
        assert!(!shape.may_hold(&Run { start: usable.start, length: all.end - all.start }));
    }
    for start in [0, 31, shape.units - 2, shape.units, u64::MAX] {
        assert!(!shape.may_hold(&Run { start, length: 2 }), "{start} is in no zone");
    }
    for number in [0, 1, u64::MAX] {
        assert!(shape.anchor(number).iter().all(|&unit| unit < shape.units));
    }
}

fn check_superblock(bytes: &[u8]) {
    let block = whole(bytes);
    let (at, secret) = (number(&block, INDEX), head::secret(&block));
    let as_it_is = Superblock::read(&block, at, &secret);
    let block = sealed(&block, kind::SUPERBLOCK, at);
    let judged = Superblock::read(&block, at, &secret);
    assert!(as_it_is.is_none() || as_it_is == judged, "a checksum that fits changes nothing");
    assert_eq!(Superblock::read(&block, at ^ 1, &secret), None, "it stands elsewhere");
    let Some(read) = judged else { return };
    assert!(read.chains.len() <= CHAINS && read.listed.len() <= LISTED);
    assert!(read.trees().iter().all(|tree| tree.height <= HIGHEST));
    assert!(read.listed.iter().all(|listed| listed.grain > 0), "there are parts");
    for units in [0, 256, 1 << 46, u64::MAX] {
        let _ = (read.snapshots.makes_sense(units), read.counts_make_sense(units));
    }
    let again = read.write(at, &secret);
    assert_eq!(Superblock::read(&*again, at, &secret), Some(read), "what is written is read");
}

/// Checks for the kinds of blocks that pointers lead to.
const KINDS: [fn(&[u8]); 6] =
    [check_record, check_log, check_lines, check_lists, check_died, check_inodes];

/// The first byte selects the kind; the rest follows a head.
fn check_block(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let check = input.pick(&KINDS);
    let mut block = vec![0; HEAD];
    block.extend(input.rest());
    block.resize(UNIT, 0);
    check(&block);
}

fn check_record(block: &[u8]) {
    let Some(read) = record::read(block) else { return };
    for &change in &read.changes {
        if SHAPE.may_hold(&change.run()) {
            let became = |line: Logged| matches!(line, Logged::Became(run, _) if run.length > 0);
            assert!(lines_of(change).all(became), "{change:?}");
        }
    }
    let answers: Vec<Rc<[u8]>> = read.answers.iter().map(|answer| answer[..].into()).collect();
    let mut blocks = record::write(&read.changes, &answers);
    assert!(blocks.len() <= record::blocks_for(read.changes.len(), &answers), "they have room");
    let mut again = record::Read::default();
    for block in &mut blocks {
        record::set_previous(&mut **block, read.previous);
        let read = record::read(&**block).expect("it was written");
        again.previous = read.previous;
        again.changes.extend(read.changes);
        again.answers.extend(read.answers);
    }
    // There are no units behind the last number.
    let of_units = |run: Run| Run { length: run.end() - run.start, ..run };
    let told = read.changes.iter().map(|change| match *change {
        Change::Taken(run) => Change::Taken(of_units(run)),
        Change::Freed(run) => Change::Freed(of_units(run)),
        Change::Died(run, span) => Change::Died(of_units(run), span),
    });
    let changes = told.filter(|change| change.run().length > 0).collect();
    assert_eq!(again, record::Read { changes, ..read }, "what is written is read");
}

fn check_log(block: &[u8]) {
    let Some(lines) = log::read(block) else { return };
    assert!(lines.len() <= log::LINES);
    for line in &lines {
        if let Logged::Became(run, _) = line {
            let last = run.start + (run.length - 1);
            assert_eq!(Logged::Folded(line.leaf()).leaf(), last / shadow::format::MAPPED);
        }
    }
    let mut again = vec![7; UNIT];
    log::write(&mut again, &lines);
    assert_eq!(log::read(&again), Some(lines), "what is written is read");
}

fn check_lines(block: &[u8]) {
    let mut again = vec![0; UNIT];
    for slot in 0..LINES {
        let Ok(told) = Line::read(block, slot) else { continue };
        Line::write(&mut again, slot, told.as_ref());
        assert_eq!(Line::read(&again, slot).as_ref(), Ok(&told), "what is written is read");
        assert_eq!(is_empty(&again), told.is_none(), "one line alone is there");
        let Some(told) = told else { continue };
        assert!(told.number > 0 && told.inodes.height <= HIGHEST);
        assert_eq!(told.snapshot().number.0, told.number);
        Line::write(&mut again, slot, None);
    }
}

fn check_lists(block: &[u8]) {
    let mut again = block.to_vec();
    for slot in 0..LISTS {
        let list = List::read(block, slot);
        List::write(&mut again, slot, list.as_ref());
        assert_eq!(List::read(&again, slot), list, "what is written is read");
    }
    assert_eq!(again, block, "nothing but lines stands there");
}

fn check_died(block: &[u8]) {
    let Some(read) = Died::read(block) else { return };
    assert!(read.runs.len() <= RUNS && Died::room(block) == RUNS - read.runs.len());
    let mut again = vec![7; UNIT];
    Died::begin(&mut again, read.previous);
    read.runs.iter().for_each(|&run| Died::add(&mut again, run));
    assert_eq!(Died::read(&again), Some(read), "what is written is read");
}

fn check_inodes(block: &[u8]) {
    let mut again = vec![0; UNIT];
    for slot in 0..INODES {
        let read = Record::of(block, slot);
        let Some(facts) = read.facts() else { continue };
        assert!(!read.is_free() && read.height <= HIGHEST && facts.mode <= 0o7777);
        let written = Record::of_mut(&mut again, slot);
        *written = *read;
        written.set(&facts);
        assert_eq!(written.facts().as_ref(), Some(&facts), "what is written is read");
        assert_eq!((written.height, written.root), (read.height, read.root), "its tree stays");
        if facts.is_inline() {
            let target = read.target(facts.size as usize);
            assert!(target.len() <= INLINE);
            written.clear();
            assert!(written.is_free() && written.as_bytes().iter().all(|&byte| byte == 0));
            written.set_target(target);
            assert_eq!(written.target(target.len()), target);
        }
    }
}

fn some_secret(prng: &mut Prng) -> Secret {
    let mut secret = Secret::default();
    prng.fill(&mut secret);
    secret
}

fn pointer(prng: &mut Prng) -> Pointer {
    if prng.chance(1, 3) {
        return Pointer::NULL;
    }
    Pointer::new(prng.between(32, 254), prng.between(1, 99), prng.next_u64())
}

fn tree(prng: &mut Prng) -> Tree {
    let pointers = [(); 6].map(|()| pointer(prng));
    let height = prng.below(u64::from(HIGHEST) + 1) as u8;
    Tree { height, root: Root { pointers }, twin: 0 }
}

fn run(prng: &mut Prng) -> Run {
    Run { start: prng.between(32, 250), length: prng.between(1, 16) }
}

/// The bytes without trailing zeros.
fn without_end(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
    bytes
}

fn generate_anchor(prng: &mut Prng) -> Vec<u8> {
    let block = 1 << prng.below(5);
    let shape = Shape { units: 34 + prng.between(64, 1 << 20), zone: 4 * block.max(4), block };
    let zones = shape.zones().min(ZONES as u64);
    let anchor = Anchor {
        number: prng.below(1000),
        shape,
        secret: some_secret(prng),
        label: "label".repeat(prng.index(12)),
        zones: (0..prng.between(1, zones) as u32).collect(),
        rest: prng.below(1000),
        free: prng.below(shape.units),
        version: VERSION,
    };
    without_end(anchor.write().to_vec())
}

fn generate_superblock(prng: &mut Prng) -> Vec<u8> {
    let number = prng.between(1, 1000);
    let snapshots = Snapshots {
        lines: tree(prng),
        lists: tree(prng),
        died: tree(prng),
        line_slots: prng.below(20),
        list_slots: prng.below(20),
        died_slots: prng.below(20),
        last: prng.below(20),
        changed: Timestamp { seconds: prng.below(1 << 31) as i64, nanoseconds: 5 },
        nodes: prng.below(100),
        pinned: prng.below(100),
        pinned_until: prng.below(1000),
    };
    let superblock = Superblock {
        number,
        durable: number - 1,
        durable_at: prng.between(32, 254),
        inodes: tree(prng),
        map: tree(prng),
        log: tree(prng),
        log_blocks: 1..prng.between(1, 9),
        answers: tree(prng),
        answers_begun: prng.below(9),
        snapshots,
        record: pointer(prng),
        records: prng.below(9) as u32,
        next_ino: prng.between(16, 99),
        files: prng.below(99),
        directories: 1,
        units: prng.below(200),
        seconds: prng.below(1 << 31) as i64,
        chains: (0..prng.below(4)).map(|n| chain(prng, 20 + n)).collect(),
        listed: (0..prng.below(9)).map(|_| listed(prng)).collect(),
        version: VERSION,
        ..Superblock::default()
    };
    without_end(superblock.write(prng.between(32, 254), &some_secret(prng)).to_vec())
}

fn chain(prng: &mut Prng, ino: u64) -> Chain {
    let size = prng.chance(1, 2).then(|| prng.below(1 << 20));
    Chain { ino, generation: prng.next_u64() as u32, size }
}

fn listed(prng: &mut Prng) -> Listed {
    Listed { run: run(prng), grain: prng.between(1, 16) as u16, sum: prng.next_u64() }
}

fn generate_block(prng: &mut Prng) -> Vec<u8> {
    let kind = prng.index(KINDS.len());
    let mut block = vec![0; UNIT];
    match kind {
        0 => block = record(prng),
        1 => log::write(&mut block, &some(prng, logged)),
        2 => (0..prng.below(4)).for_each(|slot| Line::write(&mut block, slot, Some(&told(prng)))),
        3 => (0..prng.below(9)).for_each(|slot| {
            let list = List { span: span(prng), last: prng.below(9), units: prng.below(99) };
            List::write(&mut block, slot, Some(&list));
        }),
        4 => {
            Died::begin(&mut block, prng.chance(1, 2).then(|| prng.below(9)));
            some(prng, run).into_iter().for_each(|run| Died::add(&mut block, run));
        }
        _ => prng.fill(&mut block[HEAD..][..252 * 3]),
    }
    let body = without_end(block.split_off(HEAD));
    std::iter::once(kind as u8).chain(body).collect()
}

fn some<T>(prng: &mut Prng, mut make: impl FnMut(&mut Prng) -> T) -> Vec<T> {
    (0..prng.below(12)).map(|_| make(prng)).collect()
}

fn span(prng: &mut Prng) -> Span {
    let first = prng.between(1, 9);
    Span { first, end: first + prng.between(1, 5) }
}

fn record(prng: &mut Prng) -> Vec<u8> {
    let changes = some(prng, |prng| match prng.below(3) {
        0 => Change::Taken(run(prng)),
        1 => Change::Freed(run(prng)),
        _ => Change::Died(run(prng), span(prng)),
    });
    let answers = some(prng, |prng| super::super::some_bytes(prng, 60).into());
    let mut block = record::write(&changes, &answers).swap_remove(0);
    record::set_previous(&mut *block, pointer(prng));
    block.to_vec()
}

fn logged(prng: &mut Prng) -> Logged {
    match prng.below(3) {
        0 => Logged::Folded(prng.below(3)),
        is_used => Logged::Became(run(prng), is_used == 1),
    }
}

fn told(prng: &mut Prng) -> Told {
    let text = "a-name".repeat(prng.between(1, 42) as usize);
    Told {
        number: prng.between(1, 20),
        name: Name::parse(text.as_bytes()).expect("a legal name"),
        created: Timestamp { seconds: prng.below(1 << 31) as i64, nanoseconds: 7 },
        state: [State::Ready, State::Deleting, State::Gone][prng.index(3)],
        update: prng.below(1000),
        inodes: tree(prng),
        files: prng.below(99),
        directories: prng.below(9),
        units: prng.below(200),
        nodes: prng.below(99),
        freed: prng.below(99),
        orphans_since: 0,
    }
}
