//! The reserve for root: which writers stop where, which numbers are reported, and how it changes
//! at rest.

use std::rc::Rc;

use block::{BlockDevice, Verb};
use enginekit::Volume;
use shadow::format::anchor::Anchor;
use shadow::format::superblock::Superblock;
use shadow::{
    Law, MkfsError, MkfsOptions, OpenError, OpenOptions, Shadow, check, look, open, plan, repair,
    set_reserve,
};
use sim::{Choice, Disk, Effect, Executor, Fault, Image, Prng};
use vfs::{Credentials, FileSystem, FsError, ObjectId, Requester, Stability};

use crate::bench::{Setting, findings, made, opened};
use crate::scrub::{UNIT, unit_of};

const BYTES: u64 = 4 << 20;

/// A new volume with this percentage reserved for root.
fn new(reserve: u64) -> Image {
    let mut setting = Setting::of(4, 64, BYTES);
    setting.options.reserve = reserve;
    let executor = Executor::new(1);
    executor.block_on(made(&executor, &setting)).contents()
}

fn reserved(image: &Image) -> u64 {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(look(&*disk)).expect("it is a volume").reserved
}

fn user() -> Requester {
    Credentials { uid: 10, gid: 10, groups: Vec::new() }.into()
}

/// Writes one block after another to a file, and returns the number of blocks when there is no
/// room.
async fn filled(volume: &Volume<Shadow>, file: ObjectId, stability: Stability) -> u64 {
    let first = volume.attributes(file).await.size / 4096;
    for block in first.. {
        match volume.write(file, block * 4096, vec![7; 4096], stability).await {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, FsError::NoSpace);
                return block - first;
            }
        }
    }
    unreachable!("there is an end")
}

/// An ordinary user fills a volume, then root does, and then the user makes room.
async fn fill_by_turns(mut volume: Volume<Shadow>, stability: Stability) {
    let top = volume.files.root();
    let file = volume.create(top, "file").await.expect("there is room");
    let all = vfs::SetAttributes { mode: Some(0o777), ..vfs::SetAttributes::default() };
    for id in [top, file] {
        let opened = volume.files.setattr(&volume.root, id, all, None).await.open().await;
        opened.expect("running").into_inner().result.expect("root may");
    }
    let of_root = volume.space().await;
    assert_eq!(of_root.available_bytes, of_root.free_bytes, "root may fill all");
    volume.root = user();
    let empty = volume.space().await;
    let reserve = empty.free_bytes - empty.available_bytes;
    assert!(reserve.abs_diff(empty.total_bytes / 10) <= 4096, "{empty:?}");
    let of_user = filled(&volume, file, stability).await;
    assert!(of_user * 4096 + 16 * 4096 > empty.available_bytes, "{of_user} blocks of {empty:?}");
    volume.commit(file).await.expect("what was taken in has room");
    let full = volume.space().await;
    let is_left = |free: u64| free + 10 * 4096 >= reserve; // the rest is metadata
    assert!(is_left(full.free_bytes) && full.available_bytes < 16 * 4096, "{full:?}");
    // An empty file takes less than a block.
    let mut made = 0;
    while volume.create(top, &format!("small{made}")).await.is_ok() {
        made += 1;
    }
    assert!(made < 200, "{made} files were made");
    assert_eq!(volume.mkdir(top, "no").await, Err(FsError::NoSpace));
    let left = volume.space().await.free_bytes;
    assert!(is_left(left), "{left}, and {reserve} are root's");
    let over = volume.write(file, 0, vec![8; 8192], Stability::FileSync).await;
    over.expect("what grows by nothing has room");
    volume.root = Requester::root();
    volume.create(top, "yes").await.expect("root has room");
    let of_root = filled(&volume, file, stability).await;
    assert!(of_root * 4096 + 16 * 4096 > reserve, "{of_root} blocks of {left} bytes");
    volume.commit(file).await.expect("what was taken in has room");
    volume.root = user();
    assert_eq!(volume.space().await.available_bytes, 0);
    volume.resize(file, 100).await.expect("what makes room is done");
    volume.remove(top, "file").await.expect("what makes room is done");
    volume.settle().await;
    volume.create(top, "again").await.expect("there is room");
    volume.files.shutdown().await.expect("nothing fails");
}

#[test]
fn an_ordinary_caller_stops_at_the_reserve_and_root_goes_on() {
    for stability in [Stability::FileSync, Stability::Unstable] {
        let executor = Executor::new(5);
        let disk = Disk::new(&executor, new(10));
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is new");
            fill_by_turns(volume, stability).await;
        });
        assert_eq!(findings(&disk.contents()), Ok(()));
    }
}

#[test]
fn nothing_is_kept_for_root_unless_that_is_asked_for() {
    assert_eq!(MkfsOptions::default().reserve, 0);
    let executor = Executor::new(5);
    let disk = Disk::new(&executor, new(0));
    executor.block_on(async {
        let mut volume = opened(executor.runtime(), &disk).await.expect("it is new");
        volume.root = user();
        let space = volume.space().await;
        assert_eq!(space.available_bytes, space.free_bytes);
    });
}

/// The reported reserve of a volume after files were made, and it was cut off or stopped.
fn used(image: Image, stops: bool) -> Image {
    let executor = Executor::new(6);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        let text = format!("f{}", volume.list(volume.files.root()).await.expect("names").len());
        let file = volume.create(volume.files.root(), &text).await.expect("there is room");
        volume.write(file, 0, vec![1; 9000], Stability::FileSync).await.expect("there is room");
        if stops {
            volume.files.shutdown().await.expect("nothing fails");
        }
    });
    disk.contents()
}

#[test]
fn it_stays_over_openings_and_cuts() {
    let mut image = new(20);
    let at_first = reserved(&image);
    let executor = Executor::new(1);
    let all = executor.block_on(look(&*Disk::new(&executor, image.clone())));
    let all = all.expect("it is a volume").free;
    assert!(at_first.abs_diff(all / 5) < 2 * UNIT, "{at_first} of {all}");
    for stops in [true, false, false, true] {
        image = used(image, stops);
        assert_eq!(reserved(&image), at_first);
        assert_eq!(findings(&image), Ok(()));
    }
}

#[test]
fn it_is_changed_at_rest_and_a_cut_leaves_one_or_the_other() {
    let executor = Executor::new(7);
    let image = used(new(0), true);
    let disk = Disk::new(&executor, image);
    disk.start_trace();
    let device: Rc<dyn BlockDevice> = disk.clone();
    for percent in [5, 20, 0, 10] {
        let set = executor.block_on(set_reserve(&device, &executor.runtime(), percent));
        assert_eq!(set, Ok(()), "the device stays open");
        let seen = executor.block_on(look(&*device)).expect("it is a volume");
        assert!(seen.is_at_rest);
        assert_eq!(seen.reserved, reserved(&new(percent.into())));
    }
    let reserves: Vec<u64> = [0, 5, 20, 10].map(|percent| reserved(&new(percent))).to_vec();
    let trace = disk.trace();
    for position in 0..=trace.events().len() {
        let platter = trace.platter_at(position);
        let image = platter.image(&Choice::random(&platter, &mut Prng::new(position as u64)));
        assert!(reserves.contains(&reserved(&image)), "event {position}");
        assert_eq!(findings(&image), Ok(()), "event {position}");
    }
    let disk: Rc<dyn BlockDevice> = Disk::new(&executor, used(new(0), false));
    let refused = executor.block_on(set_reserve(&disk, &executor.runtime(), 5));
    assert_eq!(refused, Err(OpenError::NotAtRest));
}

/// From some write on, all writes find no room below.
#[test]
fn without_room_it_is_refused_and_nothing_waits() {
    let image = used(new(0), true);
    let reserves = [0, 5].map(|percent| reserved(&new(percent)));
    let (mut nth, mut refused) = (1, 0);
    loop {
        let executor = Executor::new(9);
        let disk = Disk::new(&executor, image.clone());
        disk.inject(Fault::on(Verb::Write, Effect::NoSpace).nth(nth).forever());
        let device: Rc<dyn BlockDevice> = disk.clone();
        let set = executor.block_on(set_reserve(&device, &executor.runtime(), 5));
        let image = disk.contents();
        assert!(reserves.contains(&reserved(&image)), "write {nth}");
        assert_eq!(findings(&image), Ok(()), "write {nth}");
        if set.is_ok() {
            break;
        }
        assert_eq!(set, Err(OpenError::Full), "write {nth}");
        (nth, refused) = (nth + 1, refused + 1);
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn more_than_a_fifth_is_refused() {
    let options = MkfsOptions { reserve: 21, ..MkfsOptions::default() };
    let refused = plan(BYTES, &options).expect_err("it is too much");
    assert!(matches!(refused, MkfsError::Reserve(21)), "{refused}");
    let options = MkfsOptions { reserve: 20, ..options };
    plan(BYTES, &options).expect("it is not too much");
}

#[test]
fn one_that_no_volume_has_is_found_and_repaired() {
    let mut image = used(new(20), true);
    let anchor = Anchor::read(&unit_of(&image, 0)).expect("it is at rest");
    for unit in 32..image.size() / UNIT - 2 {
        if let Some(read) = Superblock::read(&unit_of(&image, unit), unit, &anchor.secret) {
            let wrong = Superblock { reserve: 21, ..read };
            image.write(unit * UNIT, &*wrong.write(unit, &anchor.secret));
        }
    }
    assert_eq!(reserved(&image), 0, "none is told");
    let executor = Executor::new(8);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let opened = open(disk.clone(), executor.runtime(), &OpenOptions::default()).await;
        assert_eq!(opened.err(), Some(OpenError::Damaged("what it counts makes no sense")));
        let found = check(disk.clone(), true, &mut |_, _| ()).await.expect("there is a volume");
        assert_eq!(found.counts.keys().collect::<Vec<_>>(), [&Law::Counts]);
        let told = found.wrong.iter().any(|wrong| wrong.found == "a reserve of 21 percent");
        assert!(told, "{:?}", found.wrong);
        repair(disk.clone(), executor.runtime()).await.expect("there is room");
    });
    let image = used(disk.contents(), true);
    assert_eq!((reserved(&image), findings(&image)), (0, Ok(())));
}
