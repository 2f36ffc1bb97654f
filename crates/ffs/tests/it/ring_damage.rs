//! Damage to a ring of intents, and disks that fail while it is read or judged: only what the
//! damaged part held is forgotten, and nothing is forgotten that could be kept.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Verb};
use ffs::check_intents::check;
use ffs::{Disks, OpenOptions, PolicyKind, open};
use fsck::{CheckError, CheckOptions};
use journal::format::{AREA, SLOTS};
use sim::{Disk, Effect, Fault, Image};
use ufs2::layout::{SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};
use ufs2::mark::Mark;
use vfs::{CreateHow, FileSystem, SetAttributes};

use crate::common::cutting::{Pair, after_cut};
use crate::common::intents::{caller, fresh, try_open_with_ring};
use crate::common::volume::{Volume, WITHOUT_LOG, name};

/// Calls that make files.
const FILES: u64 = 12;
/// Bytes at the start of the circle that the calls use, and some more.
const USED: u64 = 128 << 10;

type Images = Pair<Image>;

/// Makes a file, gives it a second name in place of the first, and the first name again as a link;
/// then makes others. All calls are answered.
async fn make_calls(volume: &Volume) {
    let (files, root) = (&volume.files, volume.files.root());
    let set = CreateHow::Guarded(SetAttributes::default());
    let made = files.create(&caller(1), root, &name("a"), set).await;
    let id = made.open().await.expect("running").into_inner().result.expect("new").id;
    let moved = files.rename(&caller(2), root, &name("a"), root, &name("b")).await;
    moved.open().await.expect("running").into_inner().result.expect("it is there");
    let linked = files.link(&caller(3), id, root, &name("a")).await;
    linked.open().await.expect("running").into_inner().result.expect("it is there");
    for number in 0..FILES {
        let (who, one) = (caller(4 + number), name(&format!("f{number}")));
        let made = files.create(&who, root, &one, set).await;
        made.open().await.expect("running").into_inner().result.expect("new");
    }
}

/// A volume on which all these calls were answered, which is stopped then, or killed.
fn used(policy: PolicyKind, stops: bool) -> Images {
    let (executor, disks) = after_cut(1, fresh());
    executor.block_on(async {
        executor.runtime().clock.sleep(Duration::from_secs(5)).await;
        let opened =
            try_open_with_ring(policy, executor.runtime(), &disks).await.expect("it is new");
        let volume = Volume::new(opened.files);
        make_calls(&volume).await;
        if stops {
            volume.files.shutdown().await.expect("the disk is good");
        }
    });
    disks.map(|disk| disk.contents())
}

/// What a start finds.
#[derive(Debug)]
struct Found {
    remembered: usize,
    lost: Option<String>,
    has_all_names: bool,
}

fn start(policy: PolicyKind, images: &Images, break_it: impl Fn(&Pair<Rc<Disk>>)) -> Found {
    let (executor, disks) = after_cut(2, images.clone());
    break_it(&disks);
    executor.block_on(async {
        let opened = try_open_with_ring(policy, executor.runtime(), &disks).await;
        let opened = opened.unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        let (volume, lost) = (Volume::new(opened.files), opened.lost_intents);
        let kept = volume.files.take_remembered().open().await.expect("running");
        let remembered = kept.into_inner().len();
        let root = volume.files.root();
        let mut has_all_names = true;
        for one in ["a".to_owned(), "b".to_owned()]
            .into_iter()
            .chain((0..FILES).map(|number| format!("f{number}")))
        {
            has_all_names &= volume.lookup(root, &one).await.is_ok();
        }
        volume.files.shutdown().await.expect("the disk is good");
        Found { remembered, lost, has_all_names }
    })
}

/// The number of calls that made something.
const CALLS: usize = FILES as usize + 3;

/// Damages each sector of the ring that may be in use. The fewest calls that were remembered.
fn fewest(policy: PolicyKind, stops: bool, is_unreadable: bool) -> Result<usize, String> {
    let images = used(policy, stops);
    let slots = SLOTS.into_iter();
    let mut fewest = CALLS;
    for at in slots.chain((AREA..AREA + USED).step_by(512)) {
        let found = start(policy, &images, |disks| {
            let ring = disks.log.as_ref().expect("there is a ring");
            if is_unreadable {
                ring.inject(Fault::on(Verb::Read, Effect::Eio).within(at..at + 512).forever());
            } else {
                ring.rot(at + 40, 3);
            }
        });
        // After a kill, a damaged last batch looks like a torn one.
        let is_torn = !stops && !is_unreadable && found.remembered == CALLS - 1;
        let is_told = found.lost.is_some() || found.remembered == CALLS || is_torn;
        if !found.has_all_names || !is_told {
            return Err(format!("{policy:?}, {stops}, {is_unreadable}, {at}: {found:?}"));
        }
        if SLOTS.contains(&at) && found.remembered < CALLS {
            return Err(format!("{policy:?}, {stops}, {is_unreadable}, slot {at}: {found:?}"));
        }
        let is_end = stops && found.remembered == 0; // no record of the time
        fewest = fewest.min(if is_end { CALLS } else { found.remembered });
    }
    Ok(fewest)
}

#[test]
fn a_damaged_sector_of_the_ring_costs_the_calls_that_it_held() {
    for policy in WITHOUT_LOG {
        for stops in [false, true] {
            for is_unreadable in [false, true] {
                let fewest = fewest(policy, stops, is_unreadable);
                let fewest = fewest.unwrap_or_else(|wrong| panic!("{wrong}"));
                assert!((CALLS - 3..CALLS).contains(&fewest), "{policy:?}, {stops}: {fewest}");
            }
        }
    }
}

/// The number of calls that a start remembers whose mark is torn, as a start that was cut left it.
/// `is_another`: another system has had the disk before that start.
fn remembered_with_torn_mark(policy: PolicyKind, is_another: bool) -> usize {
    let mut images = used(policy, true);
    if is_another {
        let (executor, disks) = after_cut(3, images.clone());
        executor.block_on(async {
            executor.runtime().clock.sleep(Duration::from_secs(50)).await;
            let alone = Disks::alone(disks.home.clone());
            let options = OpenOptions::default();
            let opened = open(policy, alone, executor.runtime(), &options, &mut |_| ()).await;
            let volume = Volume::new(opened.expect("it is clean").files);
            volume.files.shutdown().await.expect("the disk is good");
        });
        images = disks.map(|disk| disk.contents());
    }
    let (executor, disks) = after_cut(4, images.clone());
    executor.block_on(async {
        executor.runtime().clock.sleep(Duration::from_secs(500)).await;
        drop(try_open_with_ring(policy, executor.runtime(), &disks).await.expect("it is clean"));
    });
    let mut torn = disks.map(|disk| disk.contents());
    let mut sector = vec![0; 512];
    images.home.read(SUPERBLOCK_ADDRESS, &mut sector);
    torn.home.write(SUPERBLOCK_ADDRESS, &sector);
    let mut superblock = vec![0; SUPERBLOCK_ROOM as usize];
    torn.home.read(SUPERBLOCK_ADDRESS, &mut superblock);
    assert_eq!(Mark::of(Superblock::of(&superblock)), Mark::Torn);
    start(policy, &torn, |_| ()).remembered
}

#[test]
fn a_torn_mark_keeps_the_answers_that_its_start_believed_and_no_others() {
    for policy in WITHOUT_LOG {
        assert_eq!(remembered_with_torn_mark(policy, false), CALLS, "{policy:?}");
        assert_eq!(remembered_with_torn_mark(policy, true), 0, "{policy:?}");
    }
}

/// Repairs a volume that was killed while a call of this kind fails once; after an error, again.
/// Whether all calls are remembered then.
fn repaired_with(fault: &Fault, is_of_ring: bool) -> bool {
    let (executor, disks) = after_cut(5, used(PolicyKind::Sync, false));
    let failing = if is_of_ring { disks.log.as_ref().expect("a ring") } else { &disks.home };
    let devices: (Rc<dyn BlockDevice>, Rc<dyn BlockDevice>) =
        (disks.home.clone(), disks.log.clone().expect("a ring"));
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let runtime = executor.runtime();
    let repair =
        || async { check(&devices.0, Some(&devices.1), &runtime, &options, &mut |_| ()).await };
    failing.inject(fault.clone());
    let first = executor.block_on(repair());
    failing.heal();
    match first {
        Ok(report) if report.lost_intents.is_some() => return false,
        Ok(_) => {}
        Err(CheckError::Device(_) | CheckError::Unjudged(_)) => {
            executor.block_on(repair()).expect("the disk is good");
        }
        Err(error) => panic!("{error}"),
    }
    let images = disks.map(|disk| disk.contents());
    start(PolicyKind::Sync, &images, |_| ()).remembered == CALLS
}

/// Whether a repair keeps all answers, whichever write of the superblock or of the ring, or read of
/// the ring fails.
fn repairs_keep_all() -> bool {
    let superblock = SUPERBLOCK_ADDRESS..SUPERBLOCK_ADDRESS + SUPERBLOCK_ROOM;
    (1..12).all(|nth| {
        let no_room = Fault::on(Verb::Write, Effect::NoSpace).nth(nth);
        let unread = Fault::on(Verb::Read, Effect::Eio).nth(nth);
        repaired_with(&no_room.clone().within(superblock.clone()), false)
            && repaired_with(&no_room, true)
            && repaired_with(&unread, true)
    })
}

#[test]
fn a_repair_keeps_the_answers_if_the_host_is_full_or_a_read_fails_once() {
    assert!(repairs_keep_all());
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use ffs::planted::{Bug, plant};

    use super::*;

    /// Whether a check fails, or panics, with this bug.
    fn is_found(bug: Bug, holds: impl Fn() -> bool) -> bool {
        plant(Some(bug));
        let held = catch_unwind(AssertUnwindSafe(holds));
        plant(None);
        !matches!(held, Ok(true))
    }

    #[test]
    fn gaps_that_are_trusted_are_found() {
        let holds = || fewest(PolicyKind::Sync, false, false).is_ok();
        assert!(is_found(Bug::TrustedGaps, holds));
    }

    #[test]
    fn sectors_that_refuse_a_start_are_found() {
        let holds = || fewest(PolicyKind::Sync, false, true).is_ok();
        assert!(is_found(Bug::UnforgivenSectors, holds));
    }

    #[test]
    fn torn_marks_without_a_time_are_found() {
        let holds = || remembered_with_torn_mark(PolicyKind::Sync, true) == 0;
        assert!(is_found(Bug::TimelessMarks, holds));
    }

    #[test]
    fn repairs_that_give_up_too_early_are_found() {
        assert!(is_found(Bug::GivenUpIntents, repairs_keep_all));
    }
}
