//! Findings of a check in snapshots: each kind of damage is reported in the tree that has it, with
//! its path.

use std::collections::BTreeSet;
use std::rc::Rc;

use block::BlockDevice;
use cow::format::snapshot::{Died, Line, List};
use cow::{Kind, Run};
use directory::chunk;
use directory::entry::{CHUNK_SIZE, EntryHeader};
use enginekit::Volume;
use enginekit::snapshots::pin;
use shadow::{Findings, Law, Shadow, Wrong, check};
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, ObjectId, Stability};

use crate::bench::{Setting, findings, made, opened};
use crate::forge::{forge, versions};
use crate::scrub::{UNIT, unit_of};

/// Numbers of files, in the order of creation.
const D: u64 = 16;
const SUB: u64 = 17;
const A: u64 = 18;
const B: u64 = 19;
/// Byte at which the names of a directory begin in their block.
const NAMES: usize = 64;

pub(crate) fn found(image: &Image) -> Result<Findings, String> {
    let executor = Executor::new(1);
    let disk: Rc<dyn BlockDevice> = Disk::new(&executor, image.clone());
    let found = executor.block_on(check(disk, true, &mut |_, _| ()));
    found.map_err(|error| error.to_string())
}

async fn write(volume: &Volume<Shadow>, file: ObjectId, block: u64, byte: u8) {
    let data = vec![byte; UNIT as usize];
    volume.write(file, block * UNIT, data, Stability::FileSync).await.expect("there is room");
}

/// A stopped volume with `/d/sub`, `/d/a`, which is also `/d/also`, `/d/b` and `/top`: three trees,
/// those of snapshots `one` and `two` and the live one, that differ in the names in `/` and `/d`,
/// in `/d/a` and in all blocks of inodes; some dead lists are folded, and some dead blocks are not
/// on lists yet.
pub(crate) fn of_three_trees() -> Image {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 3 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        let d = volume.mkdir(root, "d").await.expect("there is room");
        let sub = volume.mkdir(d, "sub").await.expect("there is room");
        let a = volume.create(d, "a").await.expect("there is room");
        let b = volume.create(d, "b").await.expect("there is room");
        assert_eq!([d, sub, a, b].map(|id| id.ino.0), [D, SUB, A, B]);
        volume.link(a, d, "also").await.expect("there is room");
        volume.create(root, "top").await.expect("there is room");
        for block in 0..40 {
            write(&volume, a, block, 1).await;
        }
        write(&volume, b, 0, 2).await;
        pin(&volume, "one").await.expect("there is room");
        for block in 0..40 {
            write(&volume, a, block, 3).await;
        }
        volume.create(d, "c").await.expect("there is room");
        volume.create(root, "between").await.expect("there is room");
        volume.create(sub, "deep").await.expect("there is room");
        pin(&volume, "two").await.expect("there is room");
        for block in 0..3 {
            write(&volume, a, block * 9, 4).await;
        }
        volume.remove(d, "c").await.expect("it is there");
        volume.remove(root, "top").await.expect("it is there");
        volume.remove(root, "between").await.expect("it is there");
        volume.files.shutdown().await.expect("nothing fails");
    });
    disk.contents()
}

/// The units of a block in the trees: in `one`, in `two`, and in the live tree, without
/// repetitions.
pub(crate) fn units(image: &Image, kind: Kind, owner: u64, index: u64) -> Vec<u64> {
    versions(image, (kind, owner, 0, index), |unit| {
        let mut rotten = image.clone();
        rotten.write(unit * UNIT + 77, &[unit_of(image, unit)[77] ^ 4]);
        findings(&rotten).is_err()
    })
}

/// Changes the oldest version of a block, and returns the findings.
fn forged(
    image: &Image,
    (kind, owner, index): (Kind, u64, u64),
    change: impl FnOnce(&mut [u8]),
) -> (Image, Vec<Wrong>) {
    let unit = units(image, kind, owner, index)[0];
    let mut image = image.clone();
    forge(&mut image, unit, change);
    let found = found(&image).expect("it can be looked at");
    (image, found.wrong)
}

/// The violated laws, with the tree and the file of each.
fn told(wrong: &[Wrong]) -> BTreeSet<(Law, Option<&str>, Option<&str>)> {
    wrong.iter().map(|it| (it.law, it.snapshot.as_deref(), it.path.as_deref())).collect()
}

/// Byte of the entry with this name in a block of names.
fn entry_at(block: &[u8], name: &[u8]) -> usize {
    let chunk = &block[NAMES..NAMES + CHUNK_SIZE];
    let mut entries = chunk::entries(chunk).map(|entry| entry.expect("it is whole"));
    NAMES + entries.find(|it| it.is_live() && it.name == name).expect("it is there").offset
}

fn lead(block: &mut [u8], name: &[u8], ino: u32) {
    let at = entry_at(block, name);
    EntryHeader::at_mut(block, at).inode.set(ino);
}

/// Byte of the inode of a file in its block.
fn record(ino: u64) -> usize {
    64 + (ino % 16) as usize * 252
}

#[test]
fn names_and_links_are_looked_at_in_each_snapshot() {
    let image = of_three_trees();
    assert_eq!(findings(&image), Ok(()));
    let inodes = (Kind::INODES, 0, 1);
    let names = (Kind::NAMES, D, 0);
    let one = Some("one");
    let laws = |(_, wrong): (Image, Vec<Wrong>)| {
        told(&wrong)
            .into_iter()
            .map(|(law, tree, path)| {
                assert_eq!(tree, one, "{wrong:?}");
                (law, path.map(str::to_owned))
            })
            .collect::<Vec<_>>()
    };
    let right = |laws: &[(Law, Option<&str>)]| {
        laws.iter().map(|(law, path)| (*law, path.map(str::to_owned))).collect::<Vec<_>>()
    };
    let (a, b, d, sub) = (Some("/d/also"), Some("/d/b"), Some("/d"), Some("/d/sub"));
    let wrong = forged(&image, inodes, |block| block[record(A) + 8] += 1);
    assert_eq!(laws(wrong), right(&[(Law::Links, a)]));
    let wrong = forged(&image, names, |block| lead(block, b"b", 999));
    assert_eq!(laws(wrong), right(&[(Law::Links, None), (Law::Target, b)]));
    let wrong = forged(&image, names, |block| lead(block, b".", A as u32));
    assert_eq!(laws(wrong), right(&[(Law::Links, d), (Law::Links, a), (Law::Entry, d)]));
    let wrong = forged(&image, names, |block| lead(block, b"..", SUB as u32));
    let circle = [
        (Law::Links, Some("/")),
        (Law::Links, sub),
        (Law::Entry, d),
        (Law::Way, d),
        (Law::Way, sub),
    ];
    assert_eq!(laws(wrong), right(&circle));
    let wrong = forged(&image, names, |block| block[NAMES + 4] = 3); // an impossible length
    assert!(laws(wrong).contains(&(Law::Entry, d.map(str::to_owned))));
    let wrong = forged(&image, inodes, |block| block[record(B) + 1] |= 0xf0);
    assert_eq!(laws(wrong), right(&[(Law::Counts, None), (Law::Inode, b), (Law::Target, b)]));
    let wrong = forged(&image, inodes, |block| block[record(A) + 28 + 1] = 0x10);
    assert_eq!(laws(wrong), right(&[(Law::Size, a)]), "shorter than its blocks");
    let wrong = forged(&image, inodes, |block| block[record(B) + 36] += 1);
    assert_eq!(laws(wrong), right(&[(Law::Counts, None), (Law::Size, b)]), "units");
    let wrong = forged(&image, inodes, |block| block[record(D) + 29] += 2);
    assert_eq!(laws(wrong), right(&[(Law::Entry, d)]), "a chunk of names is missing");
}

#[test]
fn blocks_of_snapshots_are_looked_at_where_they_are_held_last() {
    let image = of_three_trees();
    // A rotten block of names of '/d/sub', whose last version two trees have.
    let all = units(&image, Kind::NAMES, SUB, 0);
    assert_eq!(all.len(), 2);
    for (unit, tree) in all.into_iter().zip([Some("one"), None]) {
        let mut rotten = image.clone();
        rotten.write(unit * UNIT + 99, &[1]);
        let wrong = found(&rotten).expect("it can be looked at").wrong;
        let of_block: Vec<&Wrong> = wrong.iter().filter(|it| it.law == Law::Block).collect();
        assert_eq!(of_block.len(), 1, "{wrong:?}");
        assert_eq!(
            told(&[of_block[0].clone()]),
            BTreeSet::from([(Law::Block, tree, Some("/d/sub"))])
        );
        // Its consequences are reported once for each tree that has it.
        assert!(wrong.iter().all(|it| it.snapshot.as_deref() == tree), "{wrong:?}");
    }
    // Data in each tree.
    let all = [(1, vec![Some("one")]), (3, vec![None, Some("two")]), (4, vec![None])];
    for (byte, trees) in all {
        let of_file = (32..image.size() / UNIT - 2)
            .filter(|&unit| unit_of(&image, unit).iter().all(|&other| other == byte));
        let mut seen = BTreeSet::new();
        for unit in of_file {
            let mut rotten = image.clone();
            rotten.write(unit * UNIT, &[7]);
            let wrong = found(&rotten).expect("it can be looked at").wrong;
            let is_it = matches!(&wrong[..], [one] if one.law == Law::Data);
            assert!(is_it && wrong[0].path.as_deref() == Some("/d/also"), "{byte}: {wrong:?}");
            seen.insert(wrong[0].snapshot.clone());
        }
        let seen: Vec<Option<&str>> = seen.iter().map(|tree| tree.as_deref()).collect();
        assert_eq!(seen, trees, "{byte}");
    }
    // A birth after that of its parent.
    let (_, wrong) = forged(&image, (Kind::NAMES, D, 0), |block| block[32 + 4] = 1);
    let of_birth: Vec<&Wrong> = wrong.iter().filter(|it| it.law == Law::Birth).collect();
    assert_eq!((of_birth.len(), of_birth[0].path.as_deref()), (1, Some("/d")), "{wrong:?}");
    // A birth so old that the tree before would have the block, but does not.
    let mut old = image.clone();
    forge(&mut old, units(&image, Kind::NAMES, D, 0)[2], |block| {
        block[32..40].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0])
    });
    let wrong = found(&old).expect("it can be looked at").wrong;
    assert!(told(&wrong).contains(&(Law::Birth, Some("two"), Some("/d"))), "{wrong:?}");
    // The root is not a directory.
    let (_, wrong) = forged(&image, (Kind::INODES, 0, 0), |block| block[record(2) + 1] = 0x80);
    assert!(told(&wrong).contains(&(Law::Root, Some("one"), None)), "{wrong:?}");
    // A file has the blocks of another.
    let (_, wrong) = forged(&image, (Kind::INODES, 0, 1), |block| {
        let (from, to) = (record(B) + 88, record(SUB) + 88);
        block.copy_within(from..from + 24, to);
    });
    assert!(told(&wrong).contains(&(Law::Once, Some("one"), Some("/d/sub"))), "{wrong:?}");
}

#[test]
fn lines_and_lists_are_compared_with_what_there_is() {
    let image = of_three_trees();
    let lines = (Kind::SNAPSHOTS, 4, 0);
    let laws = |wrong: &[Wrong]| wrong.iter().map(|it| it.law).collect::<BTreeSet<Law>>();
    let change = |slot: u64, change: fn(&mut cow::format::snapshot::Told)| {
        forged(&image, lines, |block| {
            let mut told = Line::read(block, slot).expect("it makes sense").expect("it is one");
            change(&mut told);
            Line::write(block, slot, Some(&told));
        })
    };
    let counts: [fn(&mut cow::format::snapshot::Told); 4] = [
        |told| told.files += 1,
        |told| told.directories -= 1,
        |told| told.units += 8,
        |told| told.nodes += 1,
    ];
    for wrong in counts.map(|count| change(1, count).1) {
        assert_eq!(told(&wrong), BTreeSet::from([(Law::Counts, Some("two"), None)]));
    }
    let (_, wrong) = change(1, |told| told.number = 9); // there is no such snapshot
    assert!(laws(&wrong).contains(&Law::Line), "{wrong:?}");
    let (_, wrong) = change(0, |told| told.update = u64::MAX);
    assert!(laws(&wrong).contains(&Law::Line), "{wrong:?}");
    let (_, wrong) = forged(&image, lines, |block| block[64 + 4] = 77);
    assert!(laws(&wrong).contains(&Law::Line), "{wrong:?}");
    let (_, wrong) = forged(&image, (Kind::LISTS, 5, 0), |block| {
        let list = List::read(block, 0).expect("it is one");
        List::write(block, 0, Some(&List { units: list.units + 1, ..list }));
    });
    assert_eq!(laws(&wrong), BTreeSet::from([Law::Counts]), "{wrong:?}");
    let block = units(&image, Kind::DIED, 6, 0)[0];
    let died = Died::read(&unit_of(&image, block)).expect("it is one");
    let without = |runs: &[Run]| {
        forged(&image, (Kind::DIED, 6, 0), |block| {
            Died::begin(block, died.previous);
            runs.iter().for_each(|&run| Died::add(block, run));
        })
    };
    for runs in [
        died.runs[1..].to_vec(),
        [&died.runs[..], &died.runs[..1]].concat(),
        [&died.runs[..], &[Run { start: u64::MAX - 3, length: 9 }]].concat(),
    ] {
        let (_, wrong) = without(&runs);
        assert!(laws(&wrong).contains(&Law::Listed), "{wrong:?}");
    }
    // On another list.
    let (_, wrong) = forged(&image, (Kind::LISTS, 5, 0), |block| {
        let list = List::read(block, 0).expect("it is one");
        let mut span = list.span;
        (span.first, span.end) = if span.end == 2 { (1, 3) } else { (1, 2) };
        List::write(block, 0, Some(&List { span, ..list }));
    });
    assert!(laws(&wrong).contains(&Law::Listed), "{wrong:?}");
}

/// Shared blocks of snapshots are read once: a hundred snapshots cost as little as one.
#[test]
fn what_snapshots_share_is_read_once() {
    let reads = |snapshots: u64| {
        let executor = Executor::new(5);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 8 << 20)));
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is new");
            let root = volume.files.root();
            for number in 0..600 {
                volume.create(root, &format!("f{number}")).await.expect("there is room");
            }
            for number in 0..snapshots {
                pin(&volume, &format!("s{number}")).await.expect("there is room");
                volume.create(root, &format!("g{number}")).await.expect("there is room");
            }
            volume.files.shutdown().await.expect("nothing fails");
        });
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, disk.contents());
        let before = disk.counters().reads;
        let found = executor.block_on(check(disk.clone(), false, &mut |_, _| ()));
        assert_eq!(found.expect("it can be looked at").wrong, []);
        disk.counters().reads - before
    };
    let (none, one, many) = (reads(0), reads(1), reads(101));
    assert!(one - none < 20 && many - one < 100 * 12, "{none}, {one}, {many}");
}
