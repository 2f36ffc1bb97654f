//! What a cut left of soft updates is looked for while the volume is served: a stop in the middle
//! keeps the mark, a group that is rotten is left alone, a file that a caller writes though it has
//! lost its name is kept, and each law that is broken shows.

use std::rc::Rc;
use std::time::Duration;

use ffs::policy::softdep::SoftUpdatesOptions;
use ffs::{Disks, OpenOptions, Opened, PolicyKind, ReclaimState, open};
use futures::future::{join, join_all};
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Options};
use ufs2::derive::bits;
use ufs2::layout::Geometry;
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, FsError, Stability};

use crate::common::cutting::{Pair, after_cut, judge, sizes};
use crate::common::tree::{Setting, record};
use crate::common::volume::{Volume, under};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// A disk that takes its time, so that reclaim is met in its middle.
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

/// What a cut leaves in the middle of a life: files that were made, and more that were on their
/// way. `use` is done before the power goes.
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

/// Stops in the middle, and looks at what is left then.
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

/// Calls the data of a file free in the map of its group, whose hash does not fit then.
fn rot(image: &mut Image) -> (Geometry, u64) {
    let mut room = vec![0; ufs2::layout::SUPERBLOCK_ROOM as usize];
    image.read(ufs2::layout::SUPERBLOCK_ADDRESS, &mut room);
    let geometry = Geometry::parse(ufs2::layout::Superblock::of(&room)).expect("it is a volume");
    let address = geometry.byte_address(geometry.group_header_fragment(0));
    let mut block = vec![0; geometry.group_block_size as usize];
    image.read(address, &mut block);
    let map = geometry.maps.fragments.clone();
    let used =
        |bit: &u64| geometry.is_data_fragment(*bit) && !bits::is_set(&block[map.clone()], *bit);
    let count = geometry.group_size_fragments(0);
    // The last of them is of a file that was written.
    let held = (0..count).rev().find(used).expect("there are files");
    bits::set(&mut block[map], held);
    image.write(address, &block);
    (geometry, held)
}

/// Fills a volume of which a group is rotten, and looks whether the files of before stay.
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
            // A fragment: what fits into holes of blocks that are in use.
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
fn a_rotten_group_is_left_alone_and_told() {
    assert_eq!(use_a_rotten_group(), Ok(()));
}

/// Serves what a cut left, and asks for a file by the handle that it had before: at once, and when
/// a name has led to it.
fn ask_by_an_old_handle(meanwhile: impl AsyncFnOnce(&Volume)) -> [Result<(), FsError>; 2] {
    let mut known = None;
    let left = cut_off(async |volume| {
        make_files(volume).await;
        known = volume.lookup(volume.files.root(), "file-3").await.ok();
    });
    let known = known.expect("it was made");
    let (executor, disks) = after_cut(11, Pair { home: left, log: None });
    executor.block_on(async {
        let volume = Volume::new(reopen(&executor, &disks.home, 0.001).await.files);
        let (asked, ()) = join(volume.files.ensure_named(known), meanwhile(&volume)).await;
        let found = volume.lookup(volume.files.root(), "file-3").await;
        assert_eq!(found, Ok(known));
        [asked, volume.files.ensure_named(known).await]
    })
}

#[test]
fn who_is_told_that_a_file_stays_waits_until_it_has_a_name() {
    let nothing = async |_: &Volume| ();
    assert_eq!(ask_by_an_old_handle(nothing), [Ok(()); 2]);
}

#[test]
fn nobody_is_told_that_a_file_stays_if_its_name_is_not_looked_for() {
    let stop = async |volume: &Volume| volume.files.ask_to_end();
    assert_eq!(ask_by_an_old_handle(stop), [Err(FsError::Io), Ok(())]);
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

    /// Looks for a bug of the return in what cuts left of runs without one.
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
