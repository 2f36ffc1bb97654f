//! The kit's tests on the smallest engine, and rot.

use std::rc::Rc;

use cow::UNIT;
use enginekit::{Bench, Volume, names, snapshots, told, tree};
use runtime::Runtime;
use sim::{Choice, Disk, Executor, Image, Mark, Platter, Prng, Trace};
use vfs::{FileSystem, FsError, Stability};

use crate::counter::{BLOCK, Smallest, mkfs, open};

/// Bytes of the disk: no place is used twice.
const DISK: u64 = 256 << 20;

pub(crate) struct Smallests;

pub(crate) struct Cut {
    position: usize,
    seed: u64,
    platter: Platter,
}

impl Bench for Smallests {
    type Engine = Smallest;
    type Disks = Rc<Disk>;
    type Recording = Trace;
    type Cut = Cut;

    fn block_size(&self) -> u64 {
        BLOCK
    }

    async fn make(&self, executor: &Executor) -> Rc<Disk> {
        let disk = Disk::new(executor, Image::zeroed(DISK));
        mkfs(disk.clone(), &executor.runtime()).await;
        disk
    }

    async fn open(&self, runtime: Runtime, disk: &Rc<Disk>) -> Result<Volume<Smallest>, String> {
        open(disk.clone(), runtime).await
    }

    fn record(&self, disk: &Rc<Disk>) {
        disk.start_trace();
    }

    fn acknowledge(&self, disk: &Rc<Disk>, actor: u64, step: usize) {
        disk.mark(Mark::Number(actor << 32 | step as u64));
    }

    fn recording(&self, disk: &Rc<Disk>) -> Trace {
        disk.trace()
    }

    fn cuts(&self, trace: &Trace, seed: u64, count: u64) -> Vec<Cut> {
        let mut prng = Prng::new(seed);
        let mut at: Vec<usize> = (0..count).map(|_| prng.index(trace.events().len() + 1)).collect();
        at.sort_unstable();
        let mut cut = |position| {
            let platter = trace.platter_at(position);
            let seed = prng.next_u64();
            Cut { position, seed, platter }
        };
        at.into_iter().map(&mut cut).collect()
    }

    fn label(&self, cut: &Cut) -> String {
        format!("cut after {} events with seed {}", cut.position, cut.seed)
    }

    fn acknowledged(&self, trace: &Trace, cut: &Cut, actor: u64) -> usize {
        let steps = trace.marks_before(cut.position).filter_map(|mark| match mark {
            Mark::Number(number) if number >> 32 == actor => Some((number & 0xffff_ffff) as usize),
            _ => None,
        });
        steps.max().unwrap_or(0)
    }

    fn left(&self, cut: &Cut) -> Result<(Executor, Rc<Disk>), String> {
        let image = cut.platter.image(&Choice::random(&cut.platter, &mut Prng::new(cut.seed)));
        let executor = Executor::new(cut.seed);
        let disk = Disk::new(&executor, image);
        Ok((executor, disk))
    }

    fn stopped(&self, disk: &Rc<Disk>) -> (Executor, Rc<Disk>) {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, disk.contents());
        (executor, disk)
    }

    fn judge(&self, _disk: &Rc<Disk>, _name: &str) -> Result<(), String> {
        Ok(()) // it has no space to be judged, and the kit reads all files
    }
}

#[test]
fn a_tree_survives() {
    for seed in 1..=3 {
        let run = tree::record(&Smallests, seed, 40);
        assert_eq!(run.first_wrong(seed, 40, true), None, "run {seed}");
    }
}

#[test]
fn what_a_listing_told_stays() {
    assert_eq!(told::told_names_stay(&Smallests, 1), Ok(()));
}

#[test]
fn names_lead_where_they_should() {
    assert_eq!(names::names_lead_to_their_files(&Smallests), Ok(()));
}

#[test]
fn snapshots_hold_what_was_there() {
    for seed in 1..=3 {
        assert_eq!(snapshots::snapshots_hold(&Smallests, seed), Ok(()), "run {seed}");
        let stay = snapshots::told_snapshots_stay(&Smallests, seed, 30);
        assert_eq!(stay, Ok(()), "run {seed}");
    }
}

#[test]
fn rot_costs_what_it_held() {
    let executor = Executor::new(1);
    let (disk, files) = executor.block_on(async {
        let disk = Smallests.make(&executor).await;
        let volume = open(disk.clone(), executor.runtime()).await.expect("it is new");
        let root = volume.files.root();
        for (name, byte) in [("one", 0x31), ("other", 0x32)] {
            let id = volume.create(root, name).await.expect("there is room");
            let data = vec![byte; 5 * BLOCK as usize];
            volume.write(id, 0, data, Stability::FileSync).await.expect("there is room");
        }
        volume.settle().await;
        (disk.clone(), volume.files.root())
    });
    let mut image = disk.contents();
    // Data of one of the files, and each first copy of a block that has two.
    let units = 16..2000;
    let unit = |image: &Image, at: u64| {
        let mut bytes = vec![0; UNIT];
        image.read(at * UNIT as u64, &mut bytes);
        bytes
    };
    let data = units.clone().find(|&at| unit(&image, at) == [0x31; UNIT]).expect("it is there");
    let mut last = None;
    for at in units {
        let bytes = unit(&image, at);
        if bytes.starts_with(b"DuSh") && bytes == unit(&image, at + 1) {
            last = Some(at); // the newest of them is the one in use
        }
    }
    for at in [data, last.expect("the top stands twice")] {
        image.write(at * UNIT as u64 + 100, &[0xa5; 7]);
    }
    let executor = Executor::new(2);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = open(disk.clone(), executor.runtime()).await.expect("the other copy is whole");
        let one = volume.lookup(files, "one").await.expect("it is named");
        assert!(matches!(volume.read(one).await, Err(FsError::Io | FsError::Corrupt)));
        let other = volume.lookup(files, "other").await.expect("it is named");
        assert_eq!(volume.read(other).await, Ok(vec![0x32; 5 * BLOCK as usize]));
        volume.remove(files, "one").await.expect("what is damaged can be removed");
        volume.settle().await;
        assert_eq!(volume.list(files).await.map(|all| all.len()), Ok(3));
    });
}
