//! Leaks of a crash under soft updates are looked for while the volume is served: a stop in the
//! middle keeps the mark, a damaged group is left alone, a file that lost its name but that a
//! caller writes is kept, and each broken rule is detected.

use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use ffs::policy::softdep::SoftUpdatesOptions;
use ffs::{Disks, OpenOptions, Opened, PolicyKind, ReclaimState, open};
use futures::future::{Either, join, join_all, select};
use runtime::Timestamp;
use sim::{Disk, Effect, Executor, Fault, Image, Latency, Options, Timing};
use ufs2::derive::bits;
use ufs2::layout::{Dinode, Geometry};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, FsError, ObjectId, Stability};
use vnode::Engine;

use crate::common::cutting::{Pair, after_cut, judge, sizes};
#[cfg(feature = "planted-bugs")]
use crate::common::quiet::finds;
use crate::common::tree::{Setting, record};
use crate::common::volume::{Volume, under};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// A slow disk, so that reclaim is interrupted in the middle.
fn slow() -> Options {
    Options::default()
}

async fn reopen(executor: &Executor, disk: &Rc<Disk>, share: f64) -> Opened {
    let softdep = SoftUpdatesOptions { reclaim_share: share, ..SoftUpdatesOptions::default() };
    let options = OpenOptions { softdep, ..OpenOptions::default() };
    let disks = Disks::alone(disk.clone());
    let policy = PolicyKind::SoftUpdates;
    let opened = open(policy, disks, executor.runtime(), &options, &mut |_| ()).await;
    opened.unwrap_or_else(|error| panic!("{error}"))
}

/// A disk after a cut at work: with files, and more that were being made. `in_use` is done before
/// the cut.
fn cut_off(in_use: impl AsyncFnOnce(&Volume)) -> Image {
    let executor = Executor::new(5);
    let disk = Disk::with_options(&executor, Image::zeroed(16 << 20), slow());
    executor.block_on(async {
        let random = executor.runtime().random;
        mkfs(&*disk, &sizes(4096, 512), &*random, NOW).await.expect("it fits");
        let volume = Volume::new(reopen(&executor, &disk, 1.0).await.files);
        in_use(&volume).await;
        let root = volume.files.root();
        let names: Vec<String> = (0..40).map(|index| format!("late-{index}")).collect();
        let creates = join_all(names.iter().map(|name| volume.create(root, name)));
        let clock = executor.runtime().clock;
        let some = Box::pin(clock.sleep(Duration::from_micros(900)));
        futures::future::select(Box::pin(creates), some).await;
        disk.contents()
    })
}

/// Some files, with data.
async fn make_files(volume: &Volume) {
    let root = volume.files.root();
    for index in 0..12 {
        let file = volume.create(root, &format!("file-{index}")).await.expect("there is room");
        let data = vec![index; 3000 + 700 * usize::from(index)];
        volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
    }
}

fn state(opened: &Opened) -> Option<ReclaimState> {
    opened.files.engine().reclaimed().map(|reclaimed| reclaimed.state)
}

/// Stops in the middle, and checks what is left then.
fn stop_in_the_middle() -> Result<(), String> {
    let left = cut_off(make_files);
    let (executor, disks) = after_cut(9, Pair { home: left, log: None });
    executor.block_on(async {
        let opened = reopen(&executor, &disks.home, 0.001).await;
        assert!(opened.reclaims && state(&opened) == Some(ReclaimState::Running));
        let volume = Volume::new(opened.files);
        volume.create(volume.files.root(), "new").await.map_err(|error| error.to_string())?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    let (executor, disks) = after_cut(10, Pair { home: disks.home.contents(), log: None });
    executor.block_on(async {
        let opened = reopen(&executor, &disks.home, 1.0).await;
        if !opened.reclaims {
            return Err("it was stopped in the middle, and says that it is clean".to_owned());
        }
        assert!(opened.files.engine().wait_for_reclaim().await, "it goes on");
        let reclaimed = opened.files.engine().reclaimed().expect("it was cut off");
        assert_eq!((reclaimed.state, reclaimed.scanned), (ReclaimState::Done, reclaimed.total));
        let volume = Volume::new(opened.files);
        volume.lookup(volume.files.root(), "new").await.map_err(|error| error.to_string())?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    judge(&disks.home, "reclaim-stopped")
}

#[test]
fn a_stop_in_the_middle_is_no_clean_one_and_the_next_start_goes_on() {
    assert_eq!(stop_in_the_middle(), Ok(()));
}

/// Reclaim finds the device below full: a stop ends with an error, and succeeds when there is room.
fn stop_without_room() -> Result<(), String> {
    let left = cut_off(make_files);
    let (executor, disks) = after_cut(9, Pair { home: left, log: None });
    executor.block_on(async {
        let opened = reopen(&executor, &disks.home, 1.0).await;
        let volume = Volume::new(opened.files.clone());
        disks.home.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
        let clock = executor.runtime().clock;
        clock.sleep(Duration::from_secs(20)).await;
        assert_eq!(state(&opened), Some(ReclaimState::Running), "it waits for room");
        let minutes = clock.sleep(Duration::from_secs(300));
        let stop = Box::pin(volume.files.shutdown());
        match select(stop, minutes).await {
            Either::Left((stopped, _)) => assert_eq!(stopped, Err(FsError::NoSpace)),
            Either::Right(_) => return Err("the stop hangs".to_owned()),
        }
        disks.home.heal();
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    judge(&disks.home, "reclaim-no-room")
}

#[test]
fn a_stop_does_not_wait_for_a_reclaim_that_finds_no_room() {
    assert_eq!(stop_without_room(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_stop_that_waits_for_reclaim_without_end_is_found() {
    assert!(finds(vnode::planted::Bug::EndlessBackground, stop_without_room));
}

fn geometry_of(image: &Image) -> Geometry {
    let mut room = vec![0; ufs2::layout::SUPERBLOCK_ROOM as usize];
    image.read(ufs2::layout::SUPERBLOCK_ADDRESS, &mut room);
    Geometry::parse(ufs2::layout::Superblock::of(&room)).expect("it is a volume")
}

/// Marks data of a file as free in the map of its group, whose hash is then wrong.
fn rot(image: &mut Image) -> (Geometry, u64) {
    let geometry = geometry_of(image);
    let address = geometry.byte_address(geometry.group_header_fragment(0));
    let mut block = vec![0; geometry.group_block_size as usize];
    image.read(address, &mut block);
    let map = geometry.maps.fragments.clone();
    let used =
        |bit: &u64| geometry.is_data_fragment(*bit) && !bits::is_set(&block[map.clone()], *bit);
    let count = geometry.group_size_fragments(0);
    // The last of them belongs to a written file.
    let held = (0..count).rev().find(used).expect("there are files");
    bits::set(&mut block[map], held);
    image.write(address, &block);
    (geometry, held)
}

/// Spoils the inode of a file.
fn rot_inode(image: &mut Image, ino: u64) {
    let geometry = geometry_of(image);
    let position = geometry.inode_position(ino);
    let address = geometry.byte_address(position.fragment) + position.offset as u64;
    let mut kind = [0; 2];
    image.read(address, &mut kind);
    image.write(address, &kind.map(|byte| !byte));
}

/// Turns the blocks of a file into its extended attributes, as FreeBSD stores them.
fn turn_into_attributes(image: &mut Image, ino: u64) {
    let geometry = geometry_of(image);
    let position = geometry.inode_position(ino);
    let address = geometry.byte_address(position.fragment) + position.offset as u64;
    let mut bytes = [0; size_of::<Dinode>()];
    image.read(address, &mut bytes);
    let dinode = Dinode::at_mut(&mut bytes, 0);
    dinode.attribute_size.set(dinode.size.get() as u32);
    for (attributes, data) in dinode.attribute_blocks.iter_mut().zip(&mut dinode.direct) {
        *attributes = std::mem::take(data);
    }
    dinode.size.set(0);
    geometry.seal_inode(dinode);
    image.write(address, &bytes);
}

#[test]
fn what_extended_attributes_hold_is_counted() {
    let (mut left, file) = left_with_a_handle();
    turn_into_attributes(&mut left, file.ino.0);
    let (executor, disks) = after_cut(11, Pair { home: left, log: None });
    let used = executor.block_on(async {
        let opened = reopen(&executor, &disks.home, 1.0).await;
        let engine = opened.files.engine().clone();
        let volume = Volume::new(opened.files);
        assert!(engine.wait_for_reclaim().await, "nothing is wrong");
        let used = volume.attributes(file).await.used;
        volume.files.shutdown().await.expect("nothing fails");
        used
    });
    assert_eq!(used, 10 * 512, "5100 bytes in ten fragments, as before");
}

/// Fills a volume that has a damaged group, and checks that the earlier files stay.
fn use_a_rotten_group() -> Result<(), String> {
    let mut left = cut_off(make_files);
    rot(&mut left);
    let (executor, disks) = after_cut(11, Pair { home: left, log: None });
    executor.block_on(async {
        let opened = reopen(&executor, &disks.home, 1.0).await;
        let engine = opened.files.engine().clone();
        let volume = Volume::new(opened.files);
        let root = volume.files.root();
        for index in 0..60 {
            let Ok(file) = volume.create(root, &format!("more-{index}")).await else { break };
            // A fragment: it fits into partly used blocks.
            let _ = volume.write(file, 0, vec![0xee; 500], Stability::FileSync).await;
        }
        if engine.wait_for_reclaim().await {
            return Err("the rot is not seen".to_owned());
        }
        for index in 0..12 {
            let file = volume.lookup(root, &format!("file-{index}")).await;
            let bytes = volume.read(file.map_err(|error| error.to_string())?).await;
            let bytes = bytes.map_err(|error| error.to_string())?;
            if bytes.iter().any(|&byte| byte != index) {
                return Err(format!("file-{index} has the bytes of another file"));
            }
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })
}

#[test]
fn rubbish_in_the_place_of_a_group_is_told_and_ends_nothing() {
    let mut left = cut_off(make_files);
    let geometry = geometry_of(&left);
    let address = geometry.byte_address(geometry.group_header_fragment(0));
    left.write(address, &vec![0xa5; geometry.group_block_size as usize]);
    let (executor, disks) = after_cut(11, Pair { home: left, log: None });
    executor.block_on(async {
        let opened = reopen(&executor, &disks.home, 1.0).await;
        let engine = opened.files.engine().clone();
        assert!(!engine.wait_for_reclaim().await, "the rubbish is not seen");
        let volume = Volume::new(opened.files);
        // The contents of that group are unknown; the server survives.
        let found = volume.lookup(volume.files.root(), "file-3").await;
        assert_eq!(found.map(|_| ()), Err(FsError::Corrupt));
    });
}

#[test]
fn what_reclaim_knows_of_each_inode_is_counted_and_goes_when_it_ends() {
    let good = cut_off(make_files);
    let mut rotten = good.clone();
    rot(&mut rotten);
    for (left, is_good) in [(good, true), (rotten, false)] {
        let (executor, disks) = after_cut(11, Pair { home: left, log: None });
        executor.block_on(async {
            let opened = reopen(&executor, &disks.home, 1.0).await;
            let engine = opened.files.engine().clone();
            let counted = || engine.budget().beside().bytes();
            let (before, clock) = (counted(), executor.runtime().clock);
            let mut most = 0;
            let mut ended = Box::pin(engine.wait_for_reclaim());
            let is_done = loop {
                match select(ended, clock.sleep(Duration::from_micros(20))).await {
                    Either::Left((is_done, _)) => break is_done,
                    Either::Right((_, waits)) => ended = waits,
                }
                most = most.max(counted());
            };
            assert_eq!(is_done, is_good);
            let inodes = engine.reclaimed().expect("it has run").total as usize;
            let facts = 12 * inodes;
            assert!(inodes > 0 && most >= before + facts, "{most}, {before} before: {inodes}");
            assert!(counted() + facts <= most, "{} of {most} left: {inodes}", counted());
            let volume = Volume::new(opened.files);
            let found = volume.lookup(volume.files.root(), "file-3").await.expect("it is there");
            assert_eq!(volume.read(found).await.expect("a name leads to it").len(), 5100);
            volume.files.shutdown().await.expect("nothing fails");
        });
    }
}

#[test]
fn a_rotten_group_is_left_alone_and_told() {
    assert_eq!(use_a_rotten_group(), Ok(()));
}

/// A volume after a cut, with a file whose handle a client has.
fn left_with_a_handle() -> (Image, ObjectId) {
    let mut known = None;
    let left = cut_off(async |volume| {
        make_files(volume).await;
        known = volume.lookup(volume.files.root(), "file-3").await.ok();
    });
    (left, known.expect("it was made"))
}

/// Serves a volume after a cut from a disk with slow reads, and asks until it is answered whether
/// the file of an old handle stays. Returns the answers, with the times that they took.
fn ask_by_an_old_handle(
    left: &(Image, ObjectId),
    read: Duration,
    meanwhile: impl AsyncFnOnce(&Volume),
) -> Vec<(Result<(), FsError>, Duration)> {
    let executor = Executor::new(11);
    let read = read.as_nanos() as u64;
    let timing = Timing::Random(Latency { read_ns: (read, read), ..Latency::default() });
    let options = Options { timing, ..Options::default() };
    let disk = Disk::with_options(&executor, left.0.clone(), options);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let volume = Volume::new(reopen(&executor, &disk, 0.001).await.files);
        let mut answers: Vec<(Result<(), FsError>, Duration)> = Vec::new();
        let ask = async {
            loop {
                let begun = clock.now();
                let answer = volume.files.ensure_named(left.1).await;
                answers.push((answer, clock.now().since(begun)));
                if answer != Err(FsError::Jukebox) || answers.len() == 100 {
                    break;
                }
            }
        };
        join(ask, meanwhile(&volume)).await;
        answers
    })
}

#[test]
fn who_is_told_that_a_file_stays_waits_until_it_has_a_name() {
    let left = left_with_a_handle();
    let answers = ask_by_an_old_handle(&left, Duration::from_micros(80), async |_| ());
    assert!(matches!(answers[..], [(Ok(()), _)]), "{answers:?}");
}

#[test]
fn who_has_waited_for_a_second_is_told_to_ask_again() {
    let left = left_with_a_handle();
    let answers = ask_by_an_old_handle(&left, Duration::from_millis(200), async |_| ());
    let (last, before) = answers.split_last().expect("there is one");
    assert_eq!(last.0, Ok(()), "the scan goes on");
    assert!(!before.is_empty() && before.len() < 100, "it takes a while: {answers:?}");
    for &(answer, took) in before {
        assert_eq!(answer, Err(FsError::Jukebox));
        assert!((1000..1500).contains(&took.as_millis()), "{took:?}");
    }
}

#[test]
fn a_name_that_leads_to_the_file_ends_the_wait() {
    let left = left_with_a_handle();
    let look = async |volume: &Volume| {
        let found = volume.lookup(volume.files.root(), "file-3").await;
        assert_eq!(found, Ok(left.1));
    };
    let answers = ask_by_an_old_handle(&left, Duration::from_millis(20), look);
    let longest = Duration::from_millis(200);
    assert!(matches!(answers[..], [(Ok(()), took)] if took < longest), "{answers:?}");
}

#[test]
fn nobody_is_told_that_a_file_stays_if_its_name_is_not_looked_for() {
    let (mut image, known) = left_with_a_handle();
    let stopped =
        ask_by_an_old_handle(&(image.clone(), known), Duration::from_millis(20), async |volume| {
            _ = volume.files.shutdown().await
        });
    let (answer, took) = stopped[0];
    assert_eq!(answer, Err(FsError::Jukebox), "the next start looks for it");
    assert!(took < Duration::from_millis(500), "a stop waits for no caller: {took:?}");
    rot_inode(&mut image, known.ino.0 + 1);
    let failed = ask_by_an_old_handle(&(image, known), Duration::from_micros(80), async |_| ());
    let (answer, took) = failed[0];
    assert_eq!(answer, Err(FsError::Io), "the search has failed");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

fn setting(size: u64) -> Setting {
    Setting {
        options: sizes(4096, 512),
        size: size << 20,
        steps: 40,
        honesty: sim::Honesty::Honest,
        log: 0,
    }
}

#[test]
fn what_is_served_at_once_has_something_to_reclaim_in_many_cases() {
    let found = under(PolicyKind::SoftUpdates, || {
        let setting = setting(16);
        let run = record(31, &setting);
        let cuts = enginekit::Bench::cuts(&setting, &run.recording, 31, 40);
        let mut some = 0;
        for cut in &cuts {
            let (executor, disks) = enginekit::Bench::left(&setting, cut).expect("it is cut");
            executor.block_on(async {
                let opened = reopen(&executor, &disks.home, 1.0).await;
                assert!(opened.files.engine().wait_for_reclaim().await, "nothing is damaged");
                let found = opened.files.engine().reclaimed();
                let nothing = |found: ffs::Reclaimed| {
                    (found.fragments, found.inodes, found.links) == (0, 0, 0)
                };
                some += usize::from(found.is_some_and(|found| !nothing(found)));
            });
        }
        (some, cuts.len())
    });
    assert!(found.0 * 2 >= found.1, "{found:?}: half of them at least");
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use ffs::planted::Bug;
    use vnode::planted::Bug as VnodeBug;

    use super::*;
    use crate::common::bugs::{Planted, plant, unplant};

    /// Looks for a bug of recovery on disks from runs without a bug.
    fn is_found(bug: impl Into<Planted>, first: u64) {
        let bug = bug.into();
        let found = under(PolicyKind::SoftUpdates, || {
            (first..first + 12).find_map(|seed| {
                let setting = setting(16);
                let run = record(seed, &setting);
                plant(bug);
                let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    run.first_wrong(seed, 60, true)
                }));
                unplant();
                wrong.unwrap_or_else(|_| Some("an assertion".to_owned()))
            })
        });
        println!("{bug:?}: {}", found.unwrap_or_else(|| panic!("{bug:?} is not found")));
    }

    fn is_seen(bug: impl Into<Planted>, scenario: fn() -> Result<(), String>) {
        plant(bug.into());
        let outcome = scenario();
        unplant();
        println!("{}", outcome.expect_err("it is seen"));
    }

    #[test]
    fn what_is_given_back_meanwhile_must_leave_the_candidates() {
        is_found(Bug::KeptCandidates, 51);
    }

    #[test]
    fn links_that_change_behind_the_scan_must_be_followed() {
        is_found(Bug::UnfollowedLinks, 51);
    }

    #[test]
    fn second_names_of_directories_must_not_be_told() {
        is_found(VnodeBug::SecondNames, 51);
    }

    #[test]
    fn what_stands_behind_the_end_of_a_file_must_go_before_it_grows() {
        is_found(Bug::UnsettledEnds, 51);
    }

    #[test]
    fn a_stop_in_the_middle_must_keep_the_mark() {
        is_seen(Bug::CleanReclaim, stop_in_the_middle);
    }

    #[test]
    fn a_group_that_was_torn_must_not_be_used_at_once() {
        is_seen(Bug::OpenTornGroups, use_a_rotten_group);
    }
}
